// Compression of whole blobs, alone or against a dictionary (dcz, RFC 9842), and of many parts into
// one frame. blob_cache.c calls on the background thread, delta_make.c on that of the deltas: never
// a worker, since a large blob takes seconds; device_call.c unpacks, which is quick. What saves
// less than a tenth is refused: it would be kept for nothing. No state between calls, but for a
// packer, which belongs to its caller.
#include "svc/content/blob_zstd.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define LEVEL 6 // once per blob and process, sent many times

// Small inputs get the strongest search; large ones a fast one, where long matches (another version
// of the same model) are found by the long-distance matcher.
#define DCZ_LEVEL           19
#define DCZ_LEVEL_LARGE     7
#define DCZ_LARGE_BYTES     (4u * 1024 * 1024)
#define WINDOW_LOG_MIN      10
#define WINDOW_BYTES_ALWAYS (8ull * 1024 * 1024)
#define WINDOW_BYTES_MAX    (128ull * 1024 * 1024)

#define PACKER_LEVEL  6
#define PACKER_WINDOW 19
#define TRY_LEVEL     1
#define TRY_BYTES_MAX (64u * 1024)

void gw_zstd_fit(uint8_t *bytes, size_t size, uint8_t **out_bytes, size_t *out_size)
{
    uint8_t *fitted = realloc(bytes, size > 0 ? size : 1);
    *out_bytes = fitted != NULL ? fitted : bytes;
    *out_size = size;
}

enum base_status gw_zstd_compress(const uint8_t *bytes, size_t size, uint8_t **out_bytes,
                                  size_t *out_size)
{
    size_t worth = size - size / 10;
    uint8_t *out = malloc(worth > 0 ? worth : 1);
    if (out == NULL) {
        return BASE_ERR_NOMEM;
    }
    // Too small a buffer is how "does not save a tenth" shows.
    size_t wrote = ZSTD_compress(out, worth, bytes, size, LEVEL);
    if (ZSTD_isError(wrote)) {
        free(out);
        return BASE_ERR_UNSUPPORTED;
    }
    gw_zstd_fit(out, wrote, out_bytes, out_size);
    return BASE_OK;
}

enum base_status gw_zstd_unpack(const uint8_t *bytes, size_t size, uint8_t *out, size_t capacity,
                                size_t *out_size)
{
    size_t wrote = ZSTD_decompress(out, capacity, bytes, size);
    if (ZSTD_isError(wrote)) {
        return BASE_ERR_INVALID;
    }
    *out_size = wrote;
    return BASE_OK;
}

// The dictionary is within reach as long as the window holds everything made so far: as large as
// the content, if the RFC lets it be. A frame of one segment, which zstd makes then, says the
// content's size as its window's: what must be a power of two is the setting alone.
static int window_log(size_t size, size_t dictionary_size)
{
    uint64_t most = dictionary_size + dictionary_size / 4;
    most = most > WINDOW_BYTES_ALWAYS ? most : WINDOW_BYTES_ALWAYS;
    most = most < WINDOW_BYTES_MAX ? most : WINDOW_BYTES_MAX;
    int log = WINDOW_LOG_MIN;
    while ((1ull << log) < size && (size <= most || (2ull << log) <= most)) {
        log++;
    }
    return log;
}

static bool set_up(ZSTD_CCtx *context, const struct gw_dictionary *dictionary, size_t size)
{
    bool large = size > DCZ_LARGE_BYTES;
    int log = window_log(size, dictionary->size);
    const struct {
        ZSTD_cParameter parameter;
        int value;
    } settings[] = {
        {ZSTD_c_compressionLevel, large ? DCZ_LEVEL_LARGE : DCZ_LEVEL},
        {ZSTD_c_windowLog, log},
        {ZSTD_c_enableLongDistanceMatching, large ? 1 : 0},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (ZSTD_isError(
                ZSTD_CCtx_setParameter(context, settings[i].parameter, settings[i].value))) {
            return false;
        }
    }
    return !ZSTD_isError(ZSTD_CCtx_refPrefix(context, dictionary->bytes, dictionary->size));
}

enum base_status gw_dcz_compress(const struct gw_dictionary *dictionary, const uint8_t *bytes,
                                 size_t size, uint8_t **out_bytes, size_t *out_size)
{
    size_t worth = size - size / 10;
    if (worth <= GW_DCZ_HEAD_BYTES || dictionary->size == 0) {
        return BASE_ERR_UNSUPPORTED;
    }
    ZSTD_CCtx *context = ZSTD_createCCtx();
    uint8_t *out = malloc(worth);
    if (context == NULL || out == NULL) {
        free(out);
        ZSTD_freeCCtx(context);
        return BASE_ERR_NOMEM;
    }
    memcpy(out, GW_DCZ_MAGIC, 8);
    memcpy(out + 8, dictionary->digest.bytes, WIRE_SHA256_BYTES);
    size_t wrote = 0;
    bool made = set_up(context, dictionary, size);
    if (made) {
        wrote = ZSTD_compress2(context, out + GW_DCZ_HEAD_BYTES, worth - GW_DCZ_HEAD_BYTES, bytes,
                               size);
        made = !ZSTD_isError(wrote);
    }
    ZSTD_freeCCtx(context);
    if (!made) {
        free(out);
        return BASE_ERR_UNSUPPORTED;
    }
    gw_zstd_fit(out, GW_DCZ_HEAD_BYTES + wrote, out_bytes, out_size);
    return BASE_OK;
}

// ---- Many parts

struct gw_zstd_packer {
    ZSTD_CCtx *context;
    ZSTD_CCtx *trial;
    ZSTD_outBuffer out;
    uint8_t scratch[ZSTD_COMPRESSBOUND(TRY_BYTES_MAX)];
};

enum base_status gw_zstd_packer_new(uint8_t *out, size_t capacity,
                                    struct gw_zstd_packer **out_packer)
{
    struct gw_zstd_packer *packer = calloc(1, sizeof(*packer));
    if (packer == NULL) {
        return BASE_ERR_NOMEM;
    }
    packer->context = ZSTD_createCCtx();
    packer->trial = ZSTD_createCCtx();
    packer->out = (ZSTD_outBuffer){out, capacity, 0};
    if (packer->context == NULL || packer->trial == NULL ||
        ZSTD_isError(
            ZSTD_CCtx_setParameter(packer->context, ZSTD_c_compressionLevel, PACKER_LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(packer->context, ZSTD_c_windowLog, PACKER_WINDOW))) {
        gw_zstd_packer_free(packer);
        return BASE_ERR_NOMEM;
    }
    *out_packer = packer;
    return BASE_OK;
}

void gw_zstd_packer_free(struct gw_zstd_packer *packer)
{
    if (packer != NULL) {
        ZSTD_freeCCtx(packer->context);
        ZSTD_freeCCtx(packer->trial);
        free(packer);
    }
}

static enum base_status packer_run(struct gw_zstd_packer *packer, const uint8_t *bytes, size_t size,
                                   ZSTD_EndDirective directive)
{
    ZSTD_inBuffer in = {bytes, size, 0};
    size_t left;
    do {
        left = ZSTD_compressStream2(packer->context, &packer->out, &in, directive);
        if (ZSTD_isError(left)) {
            return BASE_ERR_NOMEM;
        }
        if (packer->out.pos == packer->out.size) {
            return BASE_ERR_UNSUPPORTED;
        }
    } while (in.pos < in.size || (directive != ZSTD_e_continue && left > 0));
    return BASE_OK;
}

enum base_status gw_zstd_packer_add(struct gw_zstd_packer *packer, const uint8_t *bytes,
                                    size_t size, bool ends)
{
    return packer_run(packer, bytes, size, ends ? ZSTD_e_flush : ZSTD_e_continue);
}

enum base_status gw_zstd_packer_end(struct gw_zstd_packer *packer, size_t *out_size)
{
    BASE_TRY(packer_run(packer, NULL, 0, ZSTD_e_end));
    *out_size = packer->out.pos;
    return BASE_OK;
}

size_t gw_zstd_packer_try(struct gw_zstd_packer *packer, const uint8_t *bytes, size_t size)
{
    size_t made = size;
    if (size <= TRY_BYTES_MAX) {
        made = ZSTD_compressCCtx(packer->trial, packer->scratch, sizeof(packer->scratch), bytes,
                                 size, TRY_LEVEL);
    }
    return ZSTD_isError(made) ? size : made;
}

// Compression of whole blobs, alone or against a dictionary. Background thread.
#include "svc/blob_zstd.h"

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
#define WINDOW_LOG_MAX      27
#define WINDOW_BYTES_ALWAYS (8ull * 1024 * 1024)

static void fit(uint8_t *bytes, size_t size, uint8_t **out_bytes, size_t *out_size)
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
    fit(out, wrote, out_bytes, out_size);
    return BASE_OK;
}

// The dictionary is within reach as long as the window holds everything made so far: as large as
// the content, if the RFC lets it be.
static int window_log(size_t size, size_t dictionary_size)
{
    uint64_t most = dictionary_size + dictionary_size / 4;
    most = most > WINDOW_BYTES_ALWAYS ? most : WINDOW_BYTES_ALWAYS;
    int log = WINDOW_LOG_MIN;
    while (log < WINDOW_LOG_MAX && (1ull << log) < size && (2ull << log) <= most) {
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
    fit(out, GW_DCZ_HEAD_BYTES + wrote, out_bytes, out_size);
    return BASE_OK;
}

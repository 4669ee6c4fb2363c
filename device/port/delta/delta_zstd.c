// The delta port on zstd: dcz streams (RFC 9842, section 6). Stateless but for its decoders; a
// decoder belongs to one thread.
#include "device/port.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define DCZ_MAGIC           "\x5e\x2a\x4d\x18\x20\x00\x00\x00"
#define DCZ_MAGIC_BYTES     8
#define DCZ_HEAD_BYTES      (DCZ_MAGIC_BYTES + WIRE_SHA256_BYTES)
#define OUT_BYTES           (256u * 1024)
#define WINDOW_BYTES_ALWAYS (8ull * 1024 * 1024)
#define WINDOW_LOG_MIN      23 // 8 MiB
#define WINDOW_LOG_MAX      27

struct decoder {
    ZSTD_DCtx *context;
    ZSTD_inBuffer in;
    bool ended; // the frame
    uint8_t out[OUT_BYTES];
};

// The largest window the RFC lets a sender use: it bounds our memory.
static int window_log_max(size_t dictionary_size)
{
    uint64_t most = dictionary_size + dictionary_size / 4;
    int log = WINDOW_LOG_MIN;
    while (log < WINDOW_LOG_MAX && (2ull << log) <= most) {
        log++;
    }
    return log;
}

static void delta_end(void *decoder)
{
    struct decoder *self = decoder;
    ZSTD_freeDCtx(self->context);
    free(self);
}

static enum base_status delta_begin(void *ctx, const struct dev_delta_input *input,
                                    void **out_decoder)
{
    (void)ctx;
    if (input->size <= DCZ_HEAD_BYTES || memcmp(input->bytes, DCZ_MAGIC, DCZ_MAGIC_BYTES) != 0) {
        return BASE_ERR_INVALID;
    }
    if (memcmp(input->bytes + DCZ_MAGIC_BYTES, input->dictionary.bytes, WIRE_SHA256_BYTES) != 0) {
        return BASE_ERR_HASH;
    }
    struct decoder *self = malloc(sizeof(*self));
    if (self == NULL) {
        return BASE_ERR_NOMEM;
    }
    self->context = ZSTD_createDCtx();
    self->ended = false;
    self->in = (ZSTD_inBuffer){input->bytes + DCZ_HEAD_BYTES, input->size - DCZ_HEAD_BYTES, 0};
    if (self->context == NULL ||
        ZSTD_isError(ZSTD_DCtx_setParameter(self->context, ZSTD_d_windowLogMax,
                                            window_log_max(input->old_size))) ||
        ZSTD_isError(ZSTD_DCtx_refPrefix(self->context, input->old_bytes, input->old_size))) {
        delta_end(self);
        return BASE_ERR_NOMEM;
    }
    *out_decoder = self;
    return BASE_OK;
}

static enum base_status delta_next(void *decoder, const uint8_t **out_bytes, size_t *out_size)
{
    struct decoder *self = decoder;
    ZSTD_outBuffer out = {self->out, OUT_BYTES, 0};
    // One frame, nothing behind it; and a call that neither reads nor writes means a cut-off one.
    while (!self->ended && out.pos == 0) {
        size_t before = self->in.pos;
        size_t left = ZSTD_decompressStream(self->context, &out, &self->in);
        if (ZSTD_isError(left) || (left != 0 && out.pos == 0 && self->in.pos == before)) {
            return BASE_ERR_CORRUPT;
        }
        self->ended = left == 0;
    }
    if (out.pos == 0 && self->in.pos != self->in.size) {
        return BASE_ERR_CORRUPT;
    }
    *out_bytes = self->out;
    *out_size = out.pos;
    return BASE_OK;
}

struct dev_delta_port dev_delta_zstd(void)
{
    return (struct dev_delta_port){
        .begin = delta_begin,
        .next = delta_next,
        .end = delta_end,
    };
}

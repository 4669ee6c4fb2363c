// Decodes dcz streams (RFC 9842, section 6): zstd with the old content as its dictionary, which is
// read where it is mapped. What it holds is the frame's window: the new content, where all of the
// old one is to be in reach.
#include "delta_decoder.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define DCZ_MAGIC           "\x5e\x2a\x4d\x18\x20\x00\x00\x00"
#define DCZ_MAGIC_BYTES     8
#define DCZ_HEAD_BYTES      (DCZ_MAGIC_BYTES + WIRE_SHA256_BYTES)
#define OUT_BYTES           (256u * 1024)
#define WINDOW_BYTES_ALWAYS (8ull * 1024 * 1024)
#define WINDOW_BYTES_MAX    (128ull * 1024 * 1024)
#define WINDOW_LOG_MIN      10

struct decoder {
    struct delta_decoder calls;
    ZSTD_DCtx *context;
    ZSTD_inBuffer in;
    bool ended; // the frame
    uint8_t out[OUT_BYTES];
};

uint64_t delta_dcz_window_max(uint64_t old_bytes)
{
    uint64_t most = old_bytes + old_bytes / 4;
    most = most > WINDOW_BYTES_ALWAYS ? most : WINDOW_BYTES_ALWAYS;
    return most < WINDOW_BYTES_MAX ? most : WINDOW_BYTES_MAX;
}

// A frame that says its content's size needs no more window than that.
uint64_t delta_dcz_memory(uint64_t old_bytes, uint64_t new_bytes)
{
    uint64_t window = delta_dcz_window_max(old_bytes);
    return (new_bytes < window ? new_bytes : window) + DELTA_FRAME_BYTES + OUT_BYTES;
}

static void dcz_end(struct delta_decoder *decoder)
{
    struct decoder *self = (struct decoder *)decoder;
    ZSTD_freeDCtx(self->context);
    free(self);
}

static enum base_status dcz_next(struct delta_decoder *decoder, const uint8_t **out_bytes,
                                 size_t *out_size)
{
    struct decoder *self = (struct decoder *)decoder;
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

// zstd's limit is a power of two; ours is not, and a window as large as the content need not be
// one.
static int window_log(uint64_t window)
{
    int log = WINDOW_LOG_MIN;
    while ((1ull << log) < window) {
        log++;
    }
    return log;
}

// Of the frame, by its content's size, which our gateways always say; one that does not is held to
// the power of two below the limit.
static enum base_status window_ok(const struct dev_delta_input *input, int *out_log)
{
    uint64_t most = delta_dcz_window_max(input->old_size);
    unsigned long long content =
        ZSTD_getFrameContentSize(input->bytes + DCZ_HEAD_BYTES, input->size - DCZ_HEAD_BYTES);
    if (content == ZSTD_CONTENTSIZE_ERROR ||
        (content != ZSTD_CONTENTSIZE_UNKNOWN && content != input->expected)) {
        return BASE_ERR_CORRUPT;
    }
    bool whole = content != ZSTD_CONTENTSIZE_UNKNOWN && content <= most;
    uint64_t needs = delta_dcz_memory(input->old_size,
                                      content != ZSTD_CONTENTSIZE_UNKNOWN ? content : UINT64_MAX);
    int log = window_log(whole ? content : most);
    *out_log = whole || (1ull << log) <= most ? log : log - 1;
    return needs <= input->memory_max ? BASE_OK : BASE_ERR_LIMIT;
}

enum base_status delta_dcz_begin(const struct dev_delta_input *input, struct delta_decoder **out)
{
    int log = 0;
    if (input->size <= DCZ_HEAD_BYTES || memcmp(input->bytes, DCZ_MAGIC, DCZ_MAGIC_BYTES) != 0) {
        return BASE_ERR_INVALID;
    }
    if (memcmp(input->bytes + DCZ_MAGIC_BYTES, input->dictionary.bytes, WIRE_SHA256_BYTES) != 0) {
        return BASE_ERR_HASH;
    }
    BASE_TRY(window_ok(input, &log));
    struct decoder *self = malloc(sizeof(*self));
    if (self == NULL) {
        return BASE_ERR_NOMEM;
    }
    self->calls = (struct delta_decoder){.next = dcz_next, .end = dcz_end};
    self->context = ZSTD_createDCtx();
    self->ended = false;
    self->in = (ZSTD_inBuffer){input->bytes + DCZ_HEAD_BYTES, input->size - DCZ_HEAD_BYTES, 0};
    if (self->context == NULL ||
        ZSTD_isError(ZSTD_DCtx_setParameter(self->context, ZSTD_d_windowLogMax, log)) ||
        ZSTD_isError(ZSTD_DCtx_refPrefix(self->context, input->old_bytes, input->old_size))) {
        dcz_end(&self->calls);
        return BASE_ERR_NOMEM;
    }
    *out = &self->calls;
    return BASE_OK;
}

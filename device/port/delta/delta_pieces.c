// Decodes wdelta streams (wire/delta_piece.h). However large the content, it holds one piece, what
// comes out of it, and zstd's window; the old content is read where it is mapped. Made by
// delta_zstd.c for streams with wdelta's magic, and stepped through its two calls by the runtime's
// pull (core/pull/device_delta.c), on the runtime's thread. The stream comes from outside: every
// head is checked against the old content's size before a byte of it is read, and whatever does not
// fit is CORRUPT.
#include "delta_decoder.h"

#include "wire/delta_piece.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define IN_BYTES  (WIRE_DELTA_PIECE_HEAD_MAX + WIRE_DELTA_PIECE_BYTES_MAX)
#define OUT_BYTES WIRE_DELTA_PIECE_BYTES_MAX

struct decoder {
    struct delta_decoder calls;
    ZSTD_DCtx *context;
    ZSTD_inBuffer packed;
    bool ended; // the frame
    const uint8_t *old_bytes;
    uint64_t old_size;
    uint64_t cursor;               // in the old content
    struct wire_delta_piece piece; // read, and not made yet; bytes 0: none
    size_t in_from;                // unpacked bytes not used yet
    size_t in_to;
    uint8_t in[IN_BYTES];
    uint8_t out[OUT_BYTES];
};

uint64_t delta_pieces_memory(void)
{
    return sizeof(struct decoder) + (1u << WIRE_DELTA_WINDOW_LOG_MAX) + DELTA_FRAME_BYTES;
}

static void pieces_end(struct delta_decoder *decoder)
{
    struct decoder *self = (struct decoder *)decoder;
    ZSTD_freeDCtx(self->context);
    free(self);
}

// Unpacks until `size` bytes are there. CORRUPT: there are no more, or the frame is damaged.
static enum base_status need(struct decoder *self, size_t size)
{
    if (self->in_to - self->in_from >= size) {
        return BASE_OK;
    }
    memmove(self->in, self->in + self->in_from, self->in_to - self->in_from);
    self->in_to -= self->in_from;
    self->in_from = 0;
    ZSTD_outBuffer out = {self->in, IN_BYTES, self->in_to};
    while (!self->ended && out.pos < out.size) {
        size_t in_before = self->packed.pos;
        size_t out_before = out.pos;
        size_t left = ZSTD_decompressStream(self->context, &out, &self->packed);
        if (ZSTD_isError(left) ||
            (left != 0 && out.pos == out_before && self->packed.pos == in_before)) {
            return BASE_ERR_CORRUPT;
        }
        self->ended = left == 0;
    }
    self->in_to = out.pos;
    return self->in_to >= size ? BASE_OK : BASE_ERR_CORRUPT;
}

// The next head. NOT_FOUND: the stream ended where it may.
static enum base_status head(struct decoder *self)
{
    struct base_reader reader;
    enum base_status filled = need(self, WIRE_DELTA_PIECE_HEAD_MAX);
    if (filled != BASE_OK && !self->ended) {
        return filled;
    }
    if (self->in_from == self->in_to) {
        return self->packed.pos == self->packed.size ? BASE_ERR_NOT_FOUND : BASE_ERR_CORRUPT;
    }
    base_reader_init(&reader, self->in + self->in_from, self->in_to - self->in_from);
    if (wire_delta_piece_read(&reader, self->old_size, &self->cursor, &self->piece) != BASE_OK) {
        return BASE_ERR_CORRUPT;
    }
    self->in_from += base_reader_offset(&reader);
    return BASE_OK;
}

static enum base_status pieces_next(struct delta_decoder *decoder, const uint8_t **out_bytes,
                                    size_t *out_size)
{
    struct decoder *self = (struct decoder *)decoder;
    size_t made = 0;
    for (;;) {
        enum base_status status = self->piece.bytes == 0 ? head(self) : BASE_OK;
        if (status == BASE_ERR_NOT_FOUND ||
            (status == BASE_OK && self->piece.bytes > OUT_BYTES - made)) {
            *out_bytes = self->out;
            *out_size = made;
            return BASE_OK;
        }
        BASE_TRY(status);
        size_t payload = wire_delta_payload_bytes(&self->piece);
        BASE_TRY(need(self, payload));
        BASE_TRY(wire_delta_join(&self->piece, self->old_bytes + self->piece.from,
                                 self->in + self->in_from, self->out + made));
        made += self->piece.bytes;
        self->in_from += payload;
        self->piece.bytes = 0;
    }
}

enum base_status delta_pieces_begin(const struct dev_delta_input *input, struct delta_decoder **out)
{
    if (input->size <= WIRE_DELTA_HEAD_BYTES ||
        memcmp(input->bytes, WIRE_DELTA_MAGIC, WIRE_DELTA_MAGIC_BYTES) != 0) {
        return BASE_ERR_INVALID;
    }
    if (memcmp(input->bytes + WIRE_DELTA_MAGIC_BYTES, input->dictionary.bytes, WIRE_SHA256_BYTES) !=
        0) {
        return BASE_ERR_HASH;
    }
    if (delta_pieces_memory() > input->memory_max) {
        return BASE_ERR_LIMIT;
    }
    struct decoder *self = malloc(sizeof(*self));
    if (self == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(self, 0, offsetof(struct decoder, in));
    self->calls = (struct delta_decoder){.next = pieces_next, .end = pieces_end};
    self->context = ZSTD_createDCtx();
    self->packed = (ZSTD_inBuffer){input->bytes + WIRE_DELTA_HEAD_BYTES,
                                   input->size - WIRE_DELTA_HEAD_BYTES, 0};
    self->old_bytes = input->old_bytes;
    self->old_size = input->old_size;
    if (self->context == NULL ||
        ZSTD_isError(ZSTD_DCtx_setParameter(self->context, ZSTD_d_windowLogMax,
                                            (int)WIRE_DELTA_WINDOW_LOG_MAX))) {
        pieces_end(&self->calls);
        return BASE_ERR_NOMEM;
    }
    *out = &self->calls;
    return BASE_OK;
}

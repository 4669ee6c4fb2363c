// Deltas that know numbers: the coding "wdelta", beside RFC 9842's dcz.
//
// Where every weight of a model moved a little no two bytes in a row are as they were, and a coding
// that looks for equal bytes finds nothing. This one goes through the new content in pieces; each
// names a range of the old content of the same size and tells what is different, number by number.
//
//   wdelta  := 5d 2a 4d 18 20 00 00 00, sha256[32] (of the old content), one zstd frame of `pieces`
//   pieces  := piece until the frame's end
//   piece   := u8 form, varint bytes, [zigzag from], [varint changed, varint gaps_bytes],
//              gaps[gaps_bytes], payload
//   form    := bits 0-1 kind (0 bytes, 1 float16, 2 bfloat16, 3 float32), bit 2 WHOLE, bit 3
//   SPARSE, or 10 hex: COPY
//
// `bytes` come out of a piece, at most WIRE_DELTA_PIECE_BYTES_MAX and a multiple of the kind's
// width. `from` is there unless WHOLE comes without SPARSE: where the old range begins, counted
// from the end of the last piece's old range (from 0 at first).
//
// The payload holds one number for each element (SPARSE: for each changed element; the others are
// as in the old range; COPY: none): the difference of new and old, as little-endian unsigned
// integers of the kind's width, in zigzag form; WHOLE: the new element itself. It comes in planes:
// the most significant bytes of all numbers, then the next. Differences are sorted by the exponent
// of the old element, ascending and otherwise in order: numbers of one size stand together. SPARSE:
// a gap is the number of unchanged elements before a changed one; each FF byte in front of the last
// one adds 255.
//
// Both sides share this file; neither allocates.
#ifndef WIRE_DELTA_PIECE_H
#define WIRE_DELTA_PIECE_H

#include "base/cursor.h"
#include "wire/digest.h"

#include <stdbool.h>

#define WIRE_DELTA_MAGIC       "\x5d\x2a\x4d\x18\x20\x00\x00\x00"
#define WIRE_DELTA_MAGIC_BYTES 8u
#define WIRE_DELTA_HEAD_BYTES  (WIRE_DELTA_MAGIC_BYTES + WIRE_SHA256_BYTES)
#define WIRE_DELTA_PIECE_BYTES_MAX                                                                 \
    (512u * 1024)                     // that come out of a piece; of its gaps and payload
#define WIRE_DELTA_WINDOW_LOG_MAX 19u // of the zstd frame: 512 KiB
#define WIRE_DELTA_PIECE_HEAD_MAX (1u + 3u + 10u + 3u + 3u) // bytes

enum wire_delta_kind {
    WIRE_DELTA_BYTES,
    WIRE_DELTA_F16,
    WIRE_DELTA_BF16,
    WIRE_DELTA_F32,
    WIRE_DELTA_KIND_COUNT
};

#define WIRE_DELTA_KIND_MASK 0x03u
#define WIRE_DELTA_WHOLE     0x04u
#define WIRE_DELTA_SPARSE    0x08u
#define WIRE_DELTA_COPY      0x10u // alone

struct wire_delta_piece {
    uint8_t form;
    uint32_t bytes;
    uint64_t from;       // of the old content; 0 without
    uint32_t changed;    // SPARSE
    uint32_t gaps_bytes; // SPARSE
};

uint32_t wire_delta_width(uint8_t form); // bytes of an element
bool wire_delta_uses_old(uint8_t form);  // has a `from`
// Bytes behind the head: gaps and payload.
uint32_t wire_delta_payload_bytes(const struct wire_delta_piece *piece);

// `cursor` is where the last piece's old range ended; moved on.
void wire_delta_piece_write(struct base_writer *writer, const struct wire_delta_piece *piece,
                            uint64_t *cursor);
// TRUNCATED: more bytes are needed, nothing was moved. CORRUPT: no head, or a range outside the old
// content.
BASE_NODISCARD enum base_status wire_delta_piece_read(struct base_reader *reader, uint64_t old_size,
                                                      uint64_t *cursor,
                                                      struct wire_delta_piece *out);

// The sender: gaps and payload of `piece->bytes` bytes of `fresh`, against as many of `old` (not
// read when the form does not use it). Sets `changed` and `gaps_bytes`; TOO_LARGE when they do not
// fit into WIRE_DELTA_PIECE_BYTES_MAX, which is `out`'s room.
BASE_NODISCARD enum base_status wire_delta_split(struct wire_delta_piece *piece, const uint8_t *old,
                                                 const uint8_t *fresh, uint8_t *out);
#define WIRE_DELTA_CLASSES 256u // of exponents
// The sender: where in each plane of a piece that was split the numbers of each exponent end.
void wire_delta_class_ends(const struct wire_delta_piece *piece, const uint8_t *old,
                           const uint8_t *gaps, uint32_t out_ends[WIRE_DELTA_CLASSES]);
// The receiver: makes `piece->bytes` bytes at `out` from as many at `old` and what stands behind
// the head. CORRUPT: the gaps lead outside the piece or are not of `changed` elements.
BASE_NODISCARD enum base_status wire_delta_join(const struct wire_delta_piece *piece,
                                                const uint8_t *old, const uint8_t *payload,
                                                uint8_t *out);

#endif

// Writes protobuf messages into an arena, with room in front for the five bytes that gRPC puts
// before a message, and for the head of a field that the whole of it may become. A value that is
// the field's default is left out, as proto3 has it. When memory runs out the rest is dropped, and
// gw_pb_out_frame says so. One thread.
#ifndef GW_PB_OUT_H
#define GW_PB_OUT_H

#include "base/arena.h"
#include "base/str.h"

#define GW_PB_FRAME_BYTES 5u // compressed flag, size (gRPC over HTTP/2, "Length-Prefixed-Message")

struct gw_pb_out {
    struct base_arena *arena;
    uint8_t *start; // of the room in front
    uint8_t *at;
    uint8_t *end;
    bool failed;
};

// `expected`: bytes of the message, if known; it grows.
void gw_pb_out_init(struct gw_pb_out *out, struct base_arena *arena, size_t expected);
void gw_pb_varint(struct gw_pb_out *out, uint32_t number, uint64_t value);
void gw_pb_text(struct gw_pb_out *out, uint32_t number, struct base_str text);
// The field's head; returns where its `size` bytes go, NULL: there is no memory. Never left out.
uint8_t *gw_pb_bytes(struct gw_pb_out *out, uint32_t number, size_t size);
// A message within: what is written between the two belongs to it.
size_t gw_pb_begin(struct gw_pb_out *out, uint32_t number);
void gw_pb_end(struct gw_pb_out *out, size_t mark);
// A list of integers, packed: head, then numbers.
void gw_pb_packed(struct gw_pb_out *out, uint32_t number, const int64_t *values, size_t count);
// The message behind its gRPC prefix, in the arena. NOMEM; TOO_LARGE: over 4 GiB.
BASE_NODISCARD enum base_status gw_pb_out_frame(struct gw_pb_out *out, struct base_str *out_frame);
// The same of a message with one field, `number` below 16, that is the message written.
BASE_NODISCARD enum base_status gw_pb_out_frame_of(struct gw_pb_out *out, uint32_t number,
                                                   struct base_str *out_frame);

#endif

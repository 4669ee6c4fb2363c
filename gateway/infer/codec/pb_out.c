// The protobuf writer behind answers over gRPC, on a worker's thread. Messages within are written
// in place and moved by the size of their length when that is known: they are small. What is large,
// raw tensors, is written by the caller straight into the room it asked for.
#include "infer/codec/pb_out.h"

#include "base/check.h"
#include "base/ckd.h"

#define VARINT_MAX  10u
#define LEAST_BYTES 128u
#define FIELD_BYTES 6u // of a field's head: number, and a size below 4 GiB
#define FRONT_BYTES (GW_PB_FRAME_BYTES + FIELD_BYTES)

enum wire { WIRE_VARINT = 0, WIRE_BYTES = 2 };

void gw_pb_out_init(struct gw_pb_out *out, struct base_arena *arena, size_t expected)
{
    size_t size = expected + FRONT_BYTES + LEAST_BYTES;
    uint8_t *start = base_arena_alloc(arena, size);
    *out = (struct gw_pb_out){arena, start, start, start, start == NULL};
    if (start != NULL) {
        out->at = start + FRONT_BYTES;
        out->end = start + size;
    }
}

// Room for `size` more bytes; false: there is no memory.
static bool reserve(struct gw_pb_out *out, size_t size)
{
    if (out->failed || size <= (size_t)(out->end - out->at)) {
        return !out->failed;
    }
    size_t used = (size_t)(out->at - out->start);
    size_t wanted = 0;
    uint8_t *larger = NULL;
    if (base_ckd_add(2 * used, size, &wanted)) {
        larger = base_arena_alloc(out->arena, wanted);
    }
    if (larger == NULL) {
        out->failed = true;
        return false;
    }
    memcpy(larger, out->start, used);
    out->start = larger;
    out->at = larger + used;
    out->end = larger + wanted;
    return true;
}

static void put_varint(struct gw_pb_out *out, uint64_t value)
{
    if (!reserve(out, VARINT_MAX)) {
        return;
    }
    for (; value >= 0x80; value >>= 7) {
        *out->at++ = (uint8_t)(value | 0x80);
    }
    *out->at++ = (uint8_t)value;
}

static void put_head(struct gw_pb_out *out, uint32_t number, enum wire wire)
{
    base_assert(number > 0);
    put_varint(out, (uint64_t)number << 3 | wire);
}

void gw_pb_varint(struct gw_pb_out *out, uint32_t number, uint64_t value)
{
    if (value != 0) {
        put_head(out, number, WIRE_VARINT);
        put_varint(out, value);
    }
}

uint8_t *gw_pb_bytes(struct gw_pb_out *out, uint32_t number, size_t size)
{
    put_head(out, number, WIRE_BYTES);
    put_varint(out, size);
    if (!reserve(out, size)) {
        return NULL;
    }
    uint8_t *room = out->at;
    out->at += size;
    return room;
}

void gw_pb_text(struct gw_pb_out *out, uint32_t number, struct base_str text)
{
    uint8_t *room = text.size > 0 ? gw_pb_bytes(out, number, text.size) : NULL;
    if (room != NULL) {
        memcpy(room, text.data, text.size);
    }
}

size_t gw_pb_begin(struct gw_pb_out *out, uint32_t number)
{
    put_head(out, number, WIRE_BYTES);
    return (size_t)(out->at - out->start);
}

void gw_pb_end(struct gw_pb_out *out, size_t mark)
{
    if (!reserve(out, VARINT_MAX)) {
        return;
    }
    uint8_t *from = out->start + mark;
    size_t size = (size_t)(out->at - from);
    size_t shift = 1;
    for (size_t left = size; left >= 0x80; left >>= 7) {
        shift++;
    }
    memmove(from + shift, from, size);
    out->at = from;
    put_varint(out, size);
    base_assert(out->at == from + shift);
    out->at += size;
}

void gw_pb_packed(struct gw_pb_out *out, uint32_t number, const int64_t *values, size_t count)
{
    if (count == 0) {
        return;
    }
    size_t mark = gw_pb_begin(out, number);
    for (size_t i = 0; i < count; i++) {
        put_varint(out, (uint64_t)values[i]);
    }
    gw_pb_end(out, mark);
}

// `begin`: where the message begins, with room for its prefix in front.
static enum base_status frame(const struct gw_pb_out *out, uint8_t *begin,
                              struct base_str *out_frame)
{
    size_t size = (size_t)(out->at - begin);
    if (size > UINT32_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    uint8_t *prefix = begin - GW_PB_FRAME_BYTES;
    prefix[0] = 0; // not compressed
    for (unsigned i = 0; i < 4; i++) {
        prefix[1 + i] = (uint8_t)(size >> (24 - 8 * i));
    }
    *out_frame = (struct base_str){(char *)prefix, size + GW_PB_FRAME_BYTES};
    return BASE_OK;
}

enum base_status gw_pb_out_frame(struct gw_pb_out *out, struct base_str *out_frame)
{
    return out->failed ? BASE_ERR_NOMEM : frame(out, out->start + FRONT_BYTES, out_frame);
}

enum base_status gw_pb_out_frame_of(struct gw_pb_out *out, uint32_t number,
                                    struct base_str *out_frame)
{
    uint8_t head[FIELD_BYTES];
    size_t bytes = 1;
    base_check(number > 0 && number < 16);
    if (out->failed) {
        return BASE_ERR_NOMEM;
    }
    uint8_t *message = out->start + FRONT_BYTES;
    size_t size = (size_t)(out->at - message);
    if (size > UINT32_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    head[0] = (uint8_t)(number << 3 | WIRE_BYTES);
    for (; size >= 0x80; size >>= 7) {
        head[bytes++] = (uint8_t)(size | 0x80);
    }
    head[bytes++] = (uint8_t)size;
    memcpy(message - bytes, head, bytes);
    return frame(out, message - bytes, out_frame);
}

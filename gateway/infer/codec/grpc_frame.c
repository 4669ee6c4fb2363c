// gRPC's framing and texts, behind infer_grpc.c, on a worker's thread. Compression is refused: a
// client that compresses is told UNIMPLEMENTED, and by grpc-accept-encoding what is taken, as the
// protocol wants it (grpc_reply.c).
#include "infer/codec/grpc_frame.h"

#include "infer/codec/pb_out.h"

#include <string.h>

enum gw_grpc_status gw_grpc_status_of(enum base_status status)
{
    switch (status) {
    case BASE_OK:
        return GW_GRPC_OK;
    case BASE_ERR_NOT_FOUND:
        return GW_GRPC_NOT_FOUND;
    case BASE_ERR_DENIED:
        return GW_GRPC_PERMISSION_DENIED;
    case BASE_ERR_LIMIT:
        return GW_GRPC_RESOURCE_EXHAUSTED;
    case BASE_ERR_TIMEOUT:
        return GW_GRPC_DEADLINE_EXCEEDED;
    case BASE_ERR_CONFLICT: // not loaded
    case BASE_ERR_BUSY:
    case BASE_ERR_NOMEM:
        return GW_GRPC_UNAVAILABLE;
    case BASE_ERR_CLOSED:
        return GW_GRPC_CANCELLED;
    default:
        return base_status_is_input(status) ? GW_GRPC_INVALID_ARGUMENT : GW_GRPC_INTERNAL;
    }
}

bool gw_grpc_is(struct base_str content_type)
{
    struct base_str plain = BASE_STR("application/grpc");
    struct base_str rest = content_type;
    if (!base_str_starts(content_type, plain)) {
        return false;
    }
    rest.data += plain.size;
    rest.size -= plain.size;
    if (base_str_starts(rest, BASE_STR("+proto"))) {
        rest.data += sizeof("+proto") - 1;
        rest.size -= sizeof("+proto") - 1;
    }
    return rest.size == 0 || rest.data[0] == ';';
}

enum base_status gw_grpc_message(struct base_str body, struct base_str *out,
                                 struct base_error *error)
{
    const uint8_t *prefix = (const uint8_t *)body.data;
    if (body.size < GW_PB_FRAME_BYTES) {
        return base_error_set(error, BASE_ERR_TRUNCATED, "gRPC: no message of five bytes or more");
    }
    size_t size =
        (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
    if (prefix[0] != 0) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED,
                              "gRPC: compressed messages are not taken");
    }
    if (size != body.size - GW_PB_FRAME_BYTES) {
        return base_error_set(
            error, size > body.size - GW_PB_FRAME_BYTES ? BASE_ERR_TRUNCATED : BASE_ERR_INVALID,
            "gRPC: a message of %zu bytes in %zu, where one is wanted", size,
            body.size - GW_PB_FRAME_BYTES);
    }
    *out = (struct base_str){body.data + GW_PB_FRAME_BYTES, size};
    return BASE_OK;
}

// Nanoseconds of a unit; 0: it is none.
static uint64_t unit_ns(char unit)
{
    switch (unit) {
    case 'H':
        return 3600ull * 1000000000;
    case 'M':
        return 60ull * 1000000000;
    case 'S':
        return 1000000000;
    case 'm':
        return 1000000;
    case 'u':
        return 1000;
    case 'n':
        return 1;
    default:
        return 0;
    }
}

enum base_status gw_grpc_timeout(struct base_str text, uint64_t *out_us)
{
    uint64_t count = 0;
    if (text.size < 2 || text.size > GW_GRPC_TIMEOUT_DIGITS_MAX + 1) {
        return BASE_ERR_INVALID;
    }
    uint64_t ns = unit_ns(text.data[text.size - 1]);
    if (ns == 0 || base_str_u64((struct base_str){text.data, text.size - 1}, &count) != BASE_OK) {
        return BASE_ERR_INVALID;
    }
    // At most 10^8 hours: less than 2^64 microseconds, though not nanoseconds.
    *out_us = ns >= 1000 ? count * (ns / 1000) : (count + 999) / 1000;
    return BASE_OK;
}

struct base_str gw_grpc_escape(struct base_arena *arena, struct base_str text)
{
    static const char digits[] = "0123456789ABCDEF";
    char *out = base_arena_alloc(arena, 3 * text.size);
    size_t size = 0;
    for (size_t i = 0; out != NULL && i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte >= 0x20 && byte <= 0x7e && byte != '%') {
            out[size++] = (char)byte;
        } else {
            out[size++] = '%';
            out[size++] = digits[byte >> 4];
            out[size++] = digits[byte & 15];
        }
    }
    return (struct base_str){out != NULL ? out : "", size};
}

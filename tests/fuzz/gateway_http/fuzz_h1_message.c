// Fuzz target of the HTTP/1.1 parser, of responses and requests: any bytes, in pieces whose size
// the first byte chooses, never take it out of its bounds, and pieces make no difference.
#include "http/parse/h1_message.h"

#include "base/alloc.h"
#include "base/check.h"
#include "fuzz_target.h"

#include <string.h>

struct outcome {
    enum gw_h1_event last;
    int status;
    uint32_t field_count;
    size_t body_bytes;
};

enum side { RESPONSE, RESPONSE_TO_HEAD, REQUEST };

static struct outcome run(const uint8_t *data, size_t size, size_t step, enum side side)
{
    struct base_arena arena;
    struct gw_h1_message message;
    struct outcome outcome = {0};
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    enum base_status status = side == REQUEST
                                  ? gw_h1_request_init(&message, &arena)
                                  : gw_h1_message_init(&message, &arena, side == RESPONSE_TO_HEAD);
    base_check(status == BASE_OK);
    size_t at = 0;
    do {
        size_t piece = size - at < step ? size - at : step;
        size_t used = 0;
        struct base_str body = {0};
        outcome.last = gw_h1_message_feed(&message, data + at, piece, &used, &body);
        base_check(used <= piece);
        base_check(body.size == 0 || ((const uint8_t *)body.data >= data + at &&
                                      (const uint8_t *)body.data + body.size <= data + at + used));
        outcome.body_bytes += body.size;
        if (outcome.last == GW_H1_HEAD) {
            base_check(message.field_count <= GW_H1_FIELDS_MAX);
            base_check(side != REQUEST || (message.method.size > 0 && message.target.size > 0));
            base_check(side != REQUEST || !(message.chunked && message.has_length));
            outcome.status = message.status;
            outcome.field_count = message.field_count;
        }
        base_check(outcome.last != GW_H1_MORE || used == piece);
        at += used;
    } while (at < size && outcome.last != GW_H1_END && outcome.last != GW_H1_BAD);
    base_arena_done(&arena);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    enum side side = (data[0] & 0x80) != 0 ? REQUEST
                     : (data[0] & 1) != 0  ? RESPONSE_TO_HEAD
                                           : RESPONSE;
    struct outcome whole = run(data + 1, size - 1, size, side);
    struct outcome pieces = run(data + 1, size - 1, (size_t)(data[0] >> 1 & 0x3f) + 1, side);
    base_check(whole.status == pieces.status && whole.field_count == pieces.field_count);
    base_check((whole.last == GW_H1_BAD) == (pieces.last == GW_H1_BAD));
    base_check(whole.last == GW_H1_BAD || whole.body_bytes == pieces.body_bytes);
    return 0;
}

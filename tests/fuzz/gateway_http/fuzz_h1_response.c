// Fuzz target of the proxy's HTTP/1.1 response parser: any bytes, in pieces whose size the first
// byte chooses, never take it out of its bounds, and pieces make no difference.
#include "http/h1_response.h"

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

static struct outcome run(const uint8_t *data, size_t size, size_t step, bool to_head)
{
    struct base_arena arena;
    struct gw_h1_response response;
    struct outcome outcome = {0};
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    base_check(gw_h1_response_init(&response, &arena, to_head) == BASE_OK);
    size_t at = 0;
    do {
        size_t piece = size - at < step ? size - at : step;
        size_t used = 0;
        struct base_str body = {0};
        outcome.last = gw_h1_response_feed(&response, data + at, piece, &used, &body);
        base_check(used <= piece);
        base_check(body.size == 0 || ((const uint8_t *)body.data >= data + at &&
                                      (const uint8_t *)body.data + body.size <= data + at + used));
        outcome.body_bytes += body.size;
        if (outcome.last == GW_H1_HEAD) {
            base_check(response.field_count <= GW_H1_FIELDS_MAX);
            outcome.status = response.status;
            outcome.field_count = response.field_count;
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
    bool to_head = (data[0] & 1) != 0;
    struct outcome whole = run(data + 1, size - 1, size, to_head);
    struct outcome pieces = run(data + 1, size - 1, (size_t)(data[0] >> 1) + 1, to_head);
    base_check(whole.status == pieces.status && whole.field_count == pieces.field_count);
    base_check((whole.last == GW_H1_BAD) == (pieces.last == GW_H1_BAD));
    base_check(whole.last == GW_H1_BAD || whole.body_bytes == pieces.body_bytes);
    return 0;
}

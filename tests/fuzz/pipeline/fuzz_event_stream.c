// u16 size of a declaration, the declaration, then one byte that says what the rest is: 0: a stored
// state (its hash is put right, so that what lies behind the hash is reached), 1: events, six bytes
// each: two of time, key, number, kind, what to do. A declaration that parses is encoded again to
// the same bytes; a state that parses is encoded to one that parses; streams stay valid throughout.
#include "fuzz_target.h"

#include "base/check.h"
#include "base/hash.h"
#include "pipeline/event_stream.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_MAX (512 * 1024)
#define STATE_MAX (256 * 1024)
#define HASH_SEED UINT64_C(0x57a11e5727ea3501) // as stream_state.c

static uint64_t answers;

static void take(void *ctx, const struct dev_stream_result *result)
{
    (void)ctx;
    base_check(result->events > 0);
    for (uint32_t i = 0; i < dev_stream_aggregate_count(result->stream); i++) {
        answers += (uint64_t)dev_stream_answer(result, i).type;
    }
}

static void events_feed(struct dev_stream *stream, const uint8_t *data, size_t size)
{
    uint64_t now = UINT64_C(1700000000000);
    for (size_t at = 0; at + 6 <= size; at += 6) {
        const uint8_t *byte = data + at;
        const struct dev_event_attr attrs[] = {
            {.name = BASE_STR("k"), .type = DEV_ATTR_INTEGER, .integer = byte[2]},
            {.name = BASE_STR("n"), .type = DEV_ATTR_REAL, .real = byte[3] / 8.0 - 10},
        };
        uint8_t bytes[64];
        size_t attr_bytes = 0;
        base_check(dev_event_attrs_encode(attrs, 2, bytes, sizeof(bytes), &attr_bytes) == BASE_OK);
        now += (uint64_t)(byte[0] << 4) - byte[1];
        struct dev_event event = {.seq = at / 6 + 1,
                                  .wall_ms = byte[5] == 255 ? now << (byte[0] & 31) : now,
                                  .kind = (enum dev_event_kind)(1 + byte[4] % 5),
                                  .visit = byte[4] >> 4,
                                  .page = BASE_STR("home"),
                                  .attrs = bytes,
                                  .attrs_bytes = (uint32_t)attr_bytes,
                                  .attr_count = 2};
        dev_stream_on_event(stream, &event);
        if (byte[5] % 16 == 1) {
            (void)dev_stream_on_time(stream, now + (uint64_t)byte[5] * 100);
        } else if (byte[5] % 16 == 2) {
            dev_stream_on_visit_end(stream, byte[4] >> 4);
        }
        base_check(dev_stream_validate(stream));
    }
}

static void state_parse(struct dev_stream *stream, const uint8_t *data, size_t size)
{
    static uint8_t bytes[STATE_MAX];
    if (size < 16 || size > STATE_MAX) {
        return;
    }
    // The fingerprint of this very declaration, then the given body, then the right hash.
    size_t own = 0;
    base_check(dev_stream_state_encode(stream, bytes, sizeof(bytes), &own) == BASE_OK);
    memcpy(bytes + 9, data, size - 8);
    size_t body = 9 + size - 8;
    uint64_t hash = base_hash64_seed(bytes, body, HASH_SEED);
    for (unsigned i = 0; i < 8 && body + i < sizeof(bytes); i++) {
        bytes[body + i] = (uint8_t)(hash >> (8 * i));
    }
    if (body + 8 > sizeof(bytes) || dev_stream_state_parse(stream, bytes, body + 8) != BASE_OK) {
        base_check(dev_stream_validate(stream));
        return;
    }
    base_check(dev_stream_validate(stream));
    static uint8_t again[STATE_MAX];
    size_t again_size = 0;
    if (dev_stream_state_encode(stream, again, sizeof(again), &again_size) == BASE_OK) {
        base_check(dev_stream_state_parse(stream, again, again_size) == BASE_OK);
    }
    dev_stream_flush(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t block[BLOCK_MAX / 8];
    struct dev_stream_spec spec;
    struct dev_aggregate_spec aggregates[DEV_STREAM_AGGREGATES_MAX];
    if (size < 3) {
        return 0;
    }
    size_t spec_size = (size_t)(data[0] | data[1] << 8);
    if (spec_size > size - 3 ||
        dev_stream_spec_parse(data + 2, spec_size, &spec, aggregates) != BASE_OK) {
        return 0;
    }
    static uint8_t again[DEV_STREAM_SPEC_BYTES_MAX];
    size_t again_size = 0;
    base_check(dev_stream_spec_encode(&spec, again, sizeof(again), &again_size) == BASE_OK);
    base_check(again_size == spec_size);
    base_check(memcmp(again, data + 2, spec_size) == 0);
    struct base_error error = {.status = BASE_OK};
    size_t bytes = 0;
    if (dev_stream_bytes(&spec, &bytes, &error) != BASE_OK) {
        base_check(error.text[0] != '\0');
        return 0;
    }
    struct dev_stream *stream = NULL;
    if (bytes > sizeof(block)) {
        return 0;
    }
    base_check(dev_stream_init(block, bytes, &spec, take, NULL, &stream, &error) == BASE_OK);
    const uint8_t *rest = data + 2 + spec_size;
    size_t rest_size = size - 2 - spec_size;
    if (rest[0] == 0) {
        state_parse(stream, rest + 1, rest_size - 1);
    } else {
        events_feed(stream, rest + 1, rest_size - 1);
        size_t state_size = 0;
        static uint8_t state[STATE_MAX];
        if (dev_stream_state_encode(stream, state, sizeof(state), &state_size) == BASE_OK) {
            base_check(dev_stream_state_parse(stream, state, state_size) == BASE_OK);
            base_check(dev_stream_validate(stream));
        }
        dev_stream_flush(stream);
    }
    return 0;
}

// The numbers of a declaration (HEAD_BYTES, see spec_take), then events, six bytes each: two of
// time, key, number, kind, what to do. What is refused says why; streams stay valid throughout.
#include "fuzz_target.h"

#include "base/check.h"
#include "base/cursor.h"
#include "pipeline/stream/event_stream.h"

#define BLOCK_MAX  (512 * 1024)
#define HEAD_BYTES 22

static const struct dev_aggregate_spec AGGREGATES[] = {
    {.name = BASE_STR("a"), .kind = DEV_AGGREGATE_COUNT},
    {.name = BASE_STR("b"), .kind = DEV_AGGREGATE_SUM, .value = BASE_STR("n")},
    {.name = BASE_STR("c"), .kind = DEV_AGGREGATE_MIN, .value = BASE_STR("n")},
    {.name = BASE_STR("d"), .kind = DEV_AGGREGATE_MAX, .value = BASE_STR("n")},
    {.name = BASE_STR("e"), .kind = DEV_AGGREGATE_MEAN, .value = BASE_STR("n")},
    {.name = BASE_STR("f"), .kind = DEV_AGGREGATE_DISTINCT, .value = BASE_STR("n"), .size = 5},
    {.name = BASE_STR("g"), .kind = DEV_AGGREGATE_LAST, .value = BASE_STR("n"), .size = 3},
    {.name = BASE_STR("h"),
     .kind = DEV_AGGREGATE_HISTOGRAM,
     .value = BASE_STR("n"),
     .size = 4,
     .low = -5,
     .high = 20},
    {.name = BASE_STR("i"), .kind = DEV_AGGREGATE_QUANTILES, .value = BASE_STR("n"), .size = 16},
};
#define AGGREGATE_COUNT (sizeof(AGGREGATES) / sizeof(AGGREGATES[0]))

static uint64_t answers;
static uint32_t aggregate_count;

static void take(void *ctx, const struct dev_stream_result *result)
{
    (void)ctx;
    base_check(result->events > 0);
    for (uint32_t i = 0; i < aggregate_count; i++) {
        answers += (uint64_t)dev_stream_answer(result, i).type;
    }
}

// u8 kind of the window, u8 flags (1: key, 2: join, 4: where), u8 by how much times are shifted,
// u16 size_ms, hop_ms, gap_ms, lateness_ms, allowed_ms, within_ms, u8 count, hop_count, keys_max,
// nodes_max, KiB of the join's buffer, u16 which aggregates, a bit each. Little-endian.
static void spec_take(const uint8_t *data, struct dev_stream_spec *spec,
                      struct dev_aggregate_spec *aggregates)
{
    struct base_reader reader;
    base_reader_init(&reader, data, HEAD_BYTES);
    unsigned kind = base_reader_u8(&reader);
    unsigned flags = base_reader_u8(&reader);
    unsigned shift = base_reader_u8(&reader) % 32;
    struct dev_window_spec *window = &spec->window;
    struct dev_join_spec *join = &spec->join;
    window->kind = (enum dev_window_kind)(kind % (DEV_WINDOW_KIND_COUNT + 1));
    window->size_ms = (uint64_t)base_reader_u16(&reader) << shift;
    window->hop_ms = (uint64_t)base_reader_u16(&reader) << shift;
    window->gap_ms = (uint64_t)base_reader_u16(&reader) << shift;
    window->lateness_ms = (uint64_t)base_reader_u16(&reader) << shift;
    window->allowed_ms = (uint64_t)base_reader_u16(&reader) << shift;
    join->within_ms = (uint64_t)base_reader_u16(&reader) << shift;
    window->count = base_reader_u8(&reader);
    window->hop_count = base_reader_u8(&reader);
    spec->keys_max = base_reader_u8(&reader);
    spec->nodes_max = base_reader_u8(&reader);
    join->buffer_bytes = base_reader_u8(&reader) * 1024u;
    unsigned which = base_reader_u16(&reader);
    base_check(reader.status == BASE_OK);
    spec->name = BASE_STR("s");
    spec->key = (flags & 1) != 0 ? BASE_STR("k % 4") : BASE_STR("");
    join->on = (flags & 2) != 0;
    join->key = spec->key;
    join->where = (flags & 4) != 0 ? BASE_STR("n >= other.n") : BASE_STR("");
    aggregate_count = 0;
    for (uint32_t i = 0; i < AGGREGATE_COUNT; i++) {
        if ((which >> i & 1) != 0) {
            aggregates[aggregate_count++] = AGGREGATES[i];
        }
    }
    spec->aggregates = aggregates;
    spec->aggregate_count = aggregate_count;
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
        struct dev_event event = {.seq = at / 6 + 1 - (byte[5] % 16 == 1), // 1: was there already
                                  .wall_ms = byte[5] == 255 ? now << (byte[0] & 31) : now,
                                  .kind = (enum dev_event_kind)(1 + byte[4] % 5),
                                  .visit = byte[4] >> 4,
                                  .page = BASE_STR("home"),
                                  .attrs = bytes,
                                  .attrs_bytes = (uint32_t)attr_bytes,
                                  .attr_count = 2};
        uint32_t sides = (byte[2] < 200 ? DEV_STREAM_OWN : 0) |
                         (event.kind == DEV_EVENT_EXIT ? DEV_STREAM_OTHER : 0);
        dev_stream_feed(stream, &event, sides);
        if (byte[5] % 16 == 2) {
            dev_stream_on_visit_end(stream, byte[4] >> 4);
        }
        base_check(dev_stream_validate(stream));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t block[BLOCK_MAX / 8];
    struct dev_stream_spec spec = {.keys_max = 0};
    struct dev_aggregate_spec aggregates[AGGREGATE_COUNT];
    if (size < HEAD_BYTES) {
        return 0;
    }
    spec_take(data, &spec, aggregates);
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
    base_check(dev_stream_init((struct dev_stream_block){block, bytes}, &spec,
                               (struct dev_stream_sink){.emit = take}, &stream, &error) == BASE_OK);
    events_feed(stream, data + HEAD_BYTES, size - HEAD_BYTES);
    dev_stream_flush(stream);
    return 0;
}

// Streams beside their windows: joins against brute force, eviction, and what is refused.
#include "event_maker.h"

#include "base/prng.h"
#include "pipeline/stream/event_stream.h"

#include <stdio.h>
#include <stdlib.h>

#define START    UINT64_C(1700000000000)
#define ROWS_MAX 20000

struct row {
    int64_t key;
    uint64_t start;
    uint64_t end;
    uint64_t revision;
    uint64_t events;
    bool complete;
    int64_t sum;
};
static struct row rows[ROWS_MAX];
static uint32_t row_count;

static void row_take(void *ctx, const struct dev_stream_result *result)
{
    (void)ctx;
    assert_true(row_count < ROWS_MAX);
    struct dev_value sum = dev_stream_answer(result, 0);
    rows[row_count++] = (struct row){
        .key = result->key.type == DEV_VALUE_INTEGER ? result->key.integer : -1,
        .start = result->start,
        .end = result->end,
        .revision = result->revision,
        .events = result->events,
        .complete = result->complete,
        .sum = sum.type == DEV_VALUE_INTEGER ? sum.integer : 0,
    };
}

static const struct dev_aggregate_spec sum_of_n[] = {
    {.name = {"total", 5}, .kind = DEV_AGGREGATE_SUM, .value = {"n", 1}}};

static struct dev_stream *stream_new(const struct dev_stream_spec *spec, void **out_memory)
{
    struct base_error error = {.status = BASE_OK};
    struct dev_stream *stream = NULL;
    size_t bytes = 0;
    if (dev_stream_bytes(spec, &bytes, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    *out_memory = malloc(bytes);
    assert_non_null(*out_memory);
    const struct dev_stream_sink sink = {.emit = row_take};
    const struct dev_stream_block small = {*out_memory, bytes - 1};
    const struct dev_stream_block block = {*out_memory, bytes};
    assert_int_equal(dev_stream_init(small, spec, sink, &stream, &error), BASE_ERR_TOO_LARGE);
    assert_int_equal(dev_stream_init(block, spec, sink, &stream, &error), BASE_OK);
    return stream;
}

// Clicks are the stream's own, exposures of the other, scrolls on both sides.
static uint32_t sides_of(enum dev_event_kind kind)
{
    bool both = kind == DEV_EVENT_SCROLL;
    return (kind == DEV_EVENT_CLICK || both ? DEV_STREAM_OWN : 0) |
           (kind == DEV_EVENT_EXPOSURE || both ? DEV_STREAM_OTHER : 0);
}

static void feed(struct dev_stream *stream, uint64_t seq, uint64_t time, int64_t key, int64_t n,
                 enum dev_event_kind kind)
{
    struct made_event made;
    const struct dev_event_attr attrs[] = {attr_integer("key", key), attr_integer("n", n)};
    event_make(&made, seq, time, kind, "home", "", attrs, 2);
    dev_stream_feed(stream, &made.event, sides_of(kind));
    assert_true(dev_stream_validate(stream));
}

// --- join

struct side_event {
    uint64_t time;
    int64_t key;
    int64_t n;
    bool left;
    bool right;
};

static struct dev_stream_spec join_spec(void)
{
    static const struct dev_aggregate_spec aggregates[] = {
        {.name = {"total", 5}, .kind = DEV_AGGREGATE_SUM, .value = {"n * 1000 + other.n", 18}}};
    return (struct dev_stream_spec){
        .name = BASE_STR("joined"),
        .key = BASE_STR(".key"),
        .join = {.on = true,
                 .key = BASE_STR(".key"),
                 .where = BASE_STR("n != other.n"),
                 .within_ms = 3000,
                 .buffer_bytes = 65536},
        .window = {.kind = DEV_WINDOW_EACH},
        .aggregates = aggregates,
        .aggregate_count = 1,
    };
}

static void test_join_against_brute_force(void **state)
{
    (void)state;
    const struct dev_stream_spec spec = join_spec();
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct side_event list[300];
        struct base_prng prng;
        void *memory;
        struct dev_stream *stream = stream_new(&spec, &memory);
        base_prng_seed(&prng, seed);
        uint64_t now = START;
        row_count = 0;
        uint32_t want_at = 0;
        uint32_t oldest = 0;
        uint64_t latest = 0;
        uint32_t pairs = 0;
        for (uint32_t i = 0; i < 300; i++) {
            static const enum dev_event_kind kinds[] = {DEV_EVENT_CLICK, DEV_EVENT_EXPOSURE,
                                                        DEV_EVENT_SCROLL, DEV_EVENT_ENTER};
            now += base_prng_below(&prng, 700);
            enum dev_event_kind kind = kinds[base_prng_below(&prng, 4)];
            list[i] = (struct side_event){
                .time = now - (base_prng_below(&prng, 10) == 0 ? base_prng_below(&prng, 5000) : 0),
                .key = (int64_t)base_prng_below(&prng, 4),
                .n = (int64_t)base_prng_below(&prng, 50),
                .left = (sides_of(kind) & DEV_STREAM_OWN) != 0,
                .right = (sides_of(kind) & DEV_STREAM_OTHER) != 0,
            };
            feed(stream, i + 1, list[i].time, list[i].key, list[i].n, kind);
            latest = list[i].time > latest ? list[i].time : latest;
            while (oldest < i && (list[oldest].time + 3000 < latest ||
                                  (!list[oldest].left && !list[oldest].right))) {
                oldest++;
            }
            int64_t sum = 0;
            uint32_t own = 0;
            for (uint32_t k = oldest; k < i; k++) {
                uint64_t a = list[k].time;
                uint64_t b = list[i].time;
                if (list[k].key != list[i].key || (a > b ? a - b : b - a) > 3000 ||
                    list[k].n == list[i].n) {
                    continue;
                }
                if (list[i].left && list[k].right) {
                    sum += list[i].n * 1000 + list[k].n;
                    own++;
                }
                if (list[i].right && list[k].left) {
                    sum += list[k].n * 1000 + list[i].n;
                    own++;
                }
            }
            for (; own > 0; own--, want_at++, pairs++) {
                assert_true(want_at < row_count);
                assert_int_equal(rows[want_at].revision, i + 1);
                sum -= rows[want_at].sum;
            }
            assert_int_equal(want_at, row_count);
            assert_int_equal(sum, 0);
        }
        assert_true(pairs > 100);
        free(memory);
    }
}

static void test_join_without_room(void **state)
{
    (void)state;
    const struct dev_stream_spec spec = {
        .name = BASE_STR("small"),
        .key = BASE_STR(".key"),
        .join = {.on = true, .key = BASE_STR(".key"), .within_ms = 1000000, .buffer_bytes = 4096},
        .window = {.kind = DEV_WINDOW_EACH},
        .aggregates = sum_of_n,
        .aggregate_count = 1,
    };
    void *memory;
    struct dev_stream *stream = stream_new(&spec, &memory);
    struct dev_stream_stats stats;
    row_count = 0;
    for (uint32_t i = 0; i < 100; i++) {
        feed(stream, i + 1, START + i, 1, 1, DEV_EVENT_EXPOSURE);
    }
    dev_stream_stats(stream, &stats);
    assert_true(stats.join_dropped > 50);
    feed(stream, 101, START + 100, 1, 1, DEV_EVENT_CLICK);
    assert_int_equal(row_count, 100 - stats.join_dropped);
    free(memory);
}

static struct dev_stream_stats stats_of(const struct dev_stream *stream)
{
    struct dev_stream_stats stats;
    dev_stream_stats(stream, &stats);
    return stats;
}

// Late is who comes when a partner may have left already: partners wait 3 s here.
static void test_join_counts_who_is_late(void **state)
{
    (void)state;
    const struct dev_stream_spec spec = join_spec();
    void *memory;
    struct dev_stream *stream = stream_new(&spec, &memory);
    feed(stream, 1, START + 2000, 1, 1, DEV_EVENT_EXPOSURE);
    feed(stream, 2, START, 1, 1, DEV_EVENT_EXPOSURE);
    feed(stream, 3, START + 5000, 1, 2, DEV_EVENT_EXPOSURE); // nobody left: the first waits still
    assert_int_equal(stats_of(stream).join_late, 0);
    feed(stream, 4, START + 5001, 1, 2, DEV_EVENT_EXPOSURE); // both leave
    assert_int_equal(stats_of(stream).join_late, 0);
    // One at START + 2000 is near enough to the first of these, to the second it is not.
    feed(stream, 5, START + 5000, 1, 2, DEV_EVENT_CLICK);
    assert_int_equal(stats_of(stream).join_late, 1);
    feed(stream, 6, START + 5001, 1, 2, DEV_EVENT_CLICK);
    assert_int_equal(stats_of(stream).join_late, 1);
    free(memory);
}

// By the clock that was set back nobody left yet, and who waits by the old one is dropped.
static void test_join_when_the_clock_is_set_back(void **state)
{
    (void)state;
    const struct dev_stream_spec spec = join_spec();
    const uint64_t back = START - 2 * DEV_STREAM_STEP_MS;
    void *memory;
    struct dev_stream *stream = stream_new(&spec, &memory);
    row_count = 0;
    feed(stream, 1, START, 1, 1, DEV_EVENT_EXPOSURE);
    feed(stream, 2, START + 5000, 1, 1, DEV_EVENT_EXPOSURE); // the first leaves
    feed(stream, 3, START + 5001, 1, 2, DEV_EVENT_EXPOSURE);
    feed(stream, 4, back, 1, 3, DEV_EVENT_CLICK);
    assert_int_equal(stats_of(stream).clock_steps, 1);
    assert_int_equal(stats_of(stream).join_dropped, 2);
    assert_int_equal(stats_of(stream).join_late, 1); // by the old clock it is
    feed(stream, 5, back + 1, 1, 4, DEV_EVENT_EXPOSURE);
    assert_int_equal(stats_of(stream).join_late, 1);
    assert_int_equal(stats_of(stream).join_dropped, 2);
    assert_int_equal(row_count, 1); // of the two since
    assert_int_equal(rows[0].sum, 3004);
    free(memory);
}

// --- eviction

static struct dev_stream_spec keyed_spec(uint32_t keys)
{
    return (struct dev_stream_spec){
        .name = BASE_STR("keyed"),
        .key = BASE_STR(".key"),
        .window = {.kind = DEV_WINDOW_TUMBLING, .size_ms = 10000},
        .aggregates = sum_of_n,
        .aggregate_count = 1,
        .keys_max = keys,
    };
}

static void test_least_recently_used_key_goes(void **state)
{
    (void)state;
    const struct dev_stream_spec spec = keyed_spec(3);
    void *memory;
    struct dev_stream *stream = stream_new(&spec, &memory);
    row_count = 0;
    for (int64_t key = 1; key <= 3; key++) {
        feed(stream, (uint64_t)key, START, key, key, DEV_EVENT_CLICK);
    }
    feed(stream, 4, START, 1, 10, DEV_EVENT_CLICK); // 2 is the oldest now
    feed(stream, 5, START, 4, 1, DEV_EVENT_CLICK);
    assert_int_equal(row_count, 1);
    assert_int_equal(rows[0].key, 2);
    assert_int_equal(rows[0].sum, 2);
    assert_false(rows[0].complete);
    feed(stream, 6, START, 2, 7, DEV_EVENT_CLICK); // 3 goes; 2 begins anew
    assert_int_equal(row_count, 2);
    assert_int_equal(rows[1].key, 3);
    feed(stream, 7, START + 10000, 9, 0, DEV_EVENT_CLICK);
    assert_int_equal(row_count, 5);
    struct dev_stream_stats stats;
    dev_stream_stats(stream, &stats);
    assert_int_equal(stats.evicted_keys, 2);
    assert_int_equal(stats.early, 2);
    free(memory);
}

// Whatever goes early, every element is in exactly one answer.
static void test_nothing_is_lost_by_eviction(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 11);
    for (uint32_t keys = 1; keys <= 9; keys += 2) {
        struct dev_stream_spec spec = keyed_spec(keys);
        spec.nodes_max = 4;
        spec.window.lateness_ms = 8000;
        void *memory;
        struct dev_stream *stream = stream_new(&spec, &memory);
        int64_t fed = 0;
        row_count = 0;
        for (uint64_t i = 1; i <= 3000; i++) {
            int64_t n = (int64_t)base_prng_below(&prng, 100);
            uint64_t time = START + i * 200 - base_prng_below(&prng, 7000);
            fed += n;
            feed(stream, i, time, (int64_t)base_prng_below(&prng, 12), n, DEV_EVENT_CLICK);
        }
        dev_stream_flush(stream);
        struct dev_stream_stats stats;
        dev_stream_stats(stream, &stats);
        int64_t answered = 0;
        for (uint32_t i = 0; i < row_count; i++) {
            answered += rows[i].sum;
        }
        assert_int_equal(stats.late, 0);
        assert_true(stats.evicted_keys > 100);
        assert_int_equal(answered, fed);
        free(memory);
    }
}

static void test_keys_that_cannot_be_kept(void **state)
{
    (void)state;
    struct dev_stream_spec spec = keyed_spec(3);
    spec.key = BASE_STR("text");
    void *memory;
    struct dev_stream *stream = stream_new(&spec, &memory);
    char text[80];
    memset(text, 'x', sizeof(text));
    text[DEV_VALUE_TEXT_MAX + 1] = '\0';
    struct made_event made;
    const struct dev_event_attr attrs[] = {attr_text("text", text)};
    event_make(&made, 1, START, DEV_EVENT_CLICK, "home", "", attrs, 1);
    dev_stream_feed(stream, &made.event, DEV_STREAM_OWN);
    feed(stream, 2, START, 1, 1, DEV_EVENT_CLICK); // has no text
    struct dev_stream_stats stats;
    dev_stream_stats(stream, &stats);
    assert_int_equal(stats.keyless, 2);
    assert_int_equal(stats.elements, 0);
    free(memory);
}

// --- seqs

static void test_seqs_that_wrap(void **state)
{
    (void)state;
    struct dev_stream_spec spec = keyed_spec(4);
    spec.window = (struct dev_window_spec){.kind = DEV_WINDOW_EACH};
    void *memory;
    struct dev_stream *stream = stream_new(&spec, &memory);
    row_count = 0;
    for (uint64_t seq = UINT64_MAX - 3; seq != 4; seq++) {
        feed(stream, seq, START, 1, 1, DEV_EVENT_CLICK);
        feed(stream, seq, START, 1, 1, DEV_EVENT_CLICK);
    }
    assert_int_equal(row_count, 8);
    free(memory);
}

// --- declarations

static void refused(const struct dev_stream_spec *spec, enum base_status want, const char *text)
{
    struct base_error error = {.status = BASE_OK};
    size_t bytes = 0;
    enum base_status status = dev_stream_bytes(spec, &bytes, &error);
    if (status != want || strcmp(error.text, text) != 0) {
        fail_msg("%d %s, not %d %s", status, error.text, want, text);
    }
}

static void test_declarations_refused(void **state)
{
    (void)state;
    struct dev_stream_spec spec = keyed_spec(4);
    spec.name = BASE_STR("Bad");
    refused(&spec, BASE_ERR_INVALID, "a stream's name is not [a-z][a-z0-9_-]* of at most 32 bytes");
    spec = keyed_spec(5000);
    refused(&spec, BASE_ERR_TOO_LARGE, "stream keyed: more than 4096 keys or 16384 nodes");
    spec = keyed_spec(4);
    spec.window.size_ms = 0;
    refused(&spec, BASE_ERR_INVALID, "stream keyed: the window needs size_ms");
    spec = keyed_spec(4);
    spec.window.gap_ms = 5;
    refused(&spec, BASE_ERR_INVALID, "stream keyed: this window has no gap_ms");
    spec = keyed_spec(4);
    spec.window.kind = DEV_WINDOW_HOPPING;
    spec.window.hop_ms = 3000;
    refused(&spec, BASE_ERR_INVALID, "stream keyed: hop_ms does not divide size_ms");
    spec.window.hop_ms = 1;
    refused(&spec, BASE_ERR_TOO_LARGE, "stream keyed: one key would need more than 1024 panes");
    spec = keyed_spec(4);
    spec.join.on = true;
    refused(&spec, BASE_ERR_INVALID, "stream keyed: a join needs a key on both sides");
    spec = keyed_spec(4);
    spec.key = BASE_STR("1 + ");
    refused(&spec, BASE_ERR_INVALID, "stream keyed: key: expected a value");
    spec = keyed_spec(4);
    spec.aggregate_count = 0;
    refused(&spec, BASE_ERR_INVALID, "stream keyed: not 1 to 16 aggregates");
    const struct dev_aggregate_spec twice[] = {sum_of_n[0], sum_of_n[0]};
    spec.aggregates = twice;
    spec.aggregate_count = 2;
    refused(&spec, BASE_ERR_INVALID, "stream keyed: two aggregates have one name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join_against_brute_force),
        cmocka_unit_test(test_join_without_room),
        cmocka_unit_test(test_join_counts_who_is_late),
        cmocka_unit_test(test_join_when_the_clock_is_set_back),
        cmocka_unit_test(test_least_recently_used_key_goes),
        cmocka_unit_test(test_nothing_is_lost_by_eviction),
        cmocka_unit_test(test_keys_that_cannot_be_kept),
        cmocka_unit_test(test_seqs_that_wrap),
        cmocka_unit_test(test_declarations_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Every kind of window and aggregate against the oracle, over random events with late, equal and
// backward times; the same when events are fed again.
#include "stream_oracle.h"

#define EVENTS 400
#define START  UINT64_C(1700000000000)

static struct answers ours;
static struct answers theirs;
static struct oracle oracle;

struct run_event {
    uint64_t time;
    int64_t key;
    uint32_t visit;
    bool selected;
    bool priced;
    bool exits;
    int64_t price;
    double rate;
};
static struct run_event run[EVENTS];

// Times go on in small steps, stand still, come late within and beyond what is allowed, and now and
// then jump far ahead or back.
static void run_make(struct base_prng *prng)
{
    uint64_t now = START + base_prng_below(prng, 10000);
    uint32_t visit = 1;
    for (uint32_t i = 0; i < EVENTS; i++) {
        uint64_t pick = base_prng_below(prng, 100);
        now += pick < 20 ? 0 : pick < 96 ? base_prng_below(prng, 900) : 0;
        if (pick == 98) {
            now += base_prng_below(prng, 20000);
        } else if (pick == 99 && base_prng_below(prng, 4) == 0) {
            now -= 8000000 + base_prng_below(prng, 10000);
        }
        uint64_t late = pick >= 90 && pick < 96 ? base_prng_below(prng, 6000) : 0;
        visit += base_prng_below(prng, 12) == 0;
        run[i] = (struct run_event){
            .time = now - late,
            .key = (int64_t)base_prng_below(prng, ORACLE_KEYS),
            .visit = base_prng_below(prng, 8) == 0 ? 0 : visit - (uint32_t)base_prng_below(prng, 2),
            .selected = base_prng_below(prng, 5) != 0,
            .priced = base_prng_below(prng, 10) != 0,
            .exits = base_prng_below(prng, 15) == 0,
            .price = (int64_t)base_prng_below(prng, 60) - 10,
            .rate = base_prng_unit(prng),
        };
    }
}

static void event_of(uint32_t i, struct made_event *made)
{
    struct dev_event_attr attrs[3];
    uint32_t count = 0;
    attrs[count++] = attr_integer("key", run[i].key);
    attrs[count++] = attr_real("rate", run[i].rate);
    if (run[i].priced) {
        attrs[count++] = attr_integer("price", run[i].price);
    }
    event_make(made, i + 1, run[i].time, run[i].exits ? DEV_EVENT_EXIT : DEV_EVENT_CLICK, "home",
               "", attrs, count);
    made->event.visit = run[i].visit;
}

static void oracle_run(const struct dev_window_spec *window)
{
    memset(&oracle, 0, sizeof(oracle));
    theirs.count = 0;
    oracle.window = *window;
    oracle.answers = &theirs;
    for (uint32_t i = 0; i < EVENTS; i++) {
        theirs.at = i;
        struct oracle_element element = {.time = run[i].time,
                                         .seq = i + 1,
                                         .visit = run[i].visit,
                                         .key = run[i].key,
                                         .priced = run[i].priced,
                                         .price = run[i].price,
                                         .rate = run[i].rate};
        oracle_event(&oracle, element, run[i].selected, run[i].exits && run[i].visit != 0);
    }
}

static struct dev_stream_spec spec_of(const struct dev_window_spec *window)
{
    return (struct dev_stream_spec){
        .name = BASE_STR("test"),
        .key = BASE_STR(".key"),
        .window = *window,
        .aggregates = oracle_aggregates,
        .aggregate_count = ORACLE_AGGREGATES,
        .keys_max = 8,
        .nodes_max = 8 * 64 * 4,
    };
}

static struct dev_stream *stream_new(const struct dev_stream_spec *spec, void **out_memory,
                                     struct answers *answers)
{
    struct base_error error = {.status = BASE_OK};
    struct dev_stream *stream = NULL;
    size_t bytes = 0;
    if (dev_stream_bytes(spec, &bytes, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    *out_memory = malloc(bytes);
    assert_non_null(*out_memory);
    memset(*out_memory, 0xA5, bytes);
    assert_int_equal(dev_stream_init((struct dev_stream_block){*out_memory, bytes}, spec,
                                     (struct dev_stream_sink){answers_take, answers}, &stream,
                                     &error),
                     BASE_OK);
    return stream;
}

static struct dev_stream_stats totals;

static void totals_add(const struct dev_stream *stream)
{
    struct dev_stream_stats stats;
    dev_stream_stats(stream, &stats);
    totals.late += stats.late;
    totals.clock_steps += stats.clock_steps;
    totals.early += stats.early;
    totals.outside += stats.outside;
}

// Feeds all events; with `again`, before each one the three before it once more.
static void ours_run(const struct dev_stream_spec *spec, bool again)
{
    void *memory;
    struct dev_stream *stream = stream_new(spec, &memory, &ours);
    ours.count = 0;
    for (uint32_t i = 0; i < EVENTS; i++) {
        for (uint32_t back = again && i >= 3 ? i - 3 : i; back <= i; back++) {
            struct made_event made;
            event_of(back, &made);
            ours.at = back;
            dev_stream_feed(stream, &made.event, run[back].selected ? DEV_STREAM_OWN : 0);
        }
        assert_true(dev_stream_validate(stream));
    }
    totals_add(stream);
    free(memory);
}

static const struct dev_window_spec windows[] = {
    {.kind = DEV_WINDOW_EACH},
    {.kind = DEV_WINDOW_TUMBLING, .size_ms = 5000},
    {.kind = DEV_WINDOW_TUMBLING, .size_ms = 5000, .lateness_ms = 2000},
    {.kind = DEV_WINDOW_TUMBLING, .size_ms = 3000, .lateness_ms = 1000, .allowed_ms = 4000},
    {.kind = DEV_WINDOW_HOPPING, .size_ms = 6000, .hop_ms = 2000},
    {.kind = DEV_WINDOW_HOPPING, .size_ms = 9000, .hop_ms = 1000, .lateness_ms = 1500},
    {.kind = DEV_WINDOW_HOPPING,
     .size_ms = 8000,
     .hop_ms = 2000,
     .lateness_ms = 700,
     .allowed_ms = 3000},
    {.kind = DEV_WINDOW_SLIDING, .size_ms = 7000, .count = 64},
    {.kind = DEV_WINDOW_SLIDING, .size_ms = 7000, .count = 64, .lateness_ms = 3000},
    {.kind = DEV_WINDOW_SESSION, .gap_ms = 1500},
    {.kind = DEV_WINDOW_SESSION, .gap_ms = 1500, .lateness_ms = 4000},
    {.kind = DEV_WINDOW_COUNT, .count = 7},
    {.kind = DEV_WINDOW_COUNT, .count = 7, .hop_count = 3},
    {.kind = DEV_WINDOW_COUNT, .count = 2, .hop_count = 5},
    {.kind = DEV_WINDOW_PAGE},
};
#define WINDOWS (sizeof(windows) / sizeof(windows[0]))

static void test_windows_against_the_oracle(void **state)
{
    (void)state;
    uint64_t answers = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct base_prng prng;
        base_prng_seed(&prng, seed);
        run_make(&prng);
        for (size_t i = 0; i < WINDOWS; i++) {
            print_message("seed %llu window %zu\n", (unsigned long long)seed, i);
            struct dev_stream_spec spec = spec_of(&windows[i]);
            oracle_run(&windows[i]);
            ours_run(&spec, false);
            answers += ours.count;
            assert_true(ours.count > 0);
            answers_compare(&ours, &theirs, true);
        }
    }
    print_message("%llu answers, %llu late, %llu clock steps, %llu early\n",
                  (unsigned long long)answers, (unsigned long long)totals.late,
                  (unsigned long long)totals.clock_steps, (unsigned long long)totals.early);
    assert_true(totals.late > 500 && totals.clock_steps > 50 && totals.early > 50 &&
                totals.outside > 50);
}

static void test_events_fed_again(void **state)
{
    (void)state;
    static struct answers before;
    struct base_prng prng;
    base_prng_seed(&prng, 77);
    run_make(&prng);
    for (size_t i = 0; i < WINDOWS; i++) {
        struct dev_stream_spec spec = spec_of(&windows[i]);
        ours_run(&spec, false);
        memcpy(&before, &ours, sizeof(before));
        ours_run(&spec, true);
        answers_compare(&ours, &before, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_against_the_oracle),
        cmocka_unit_test(test_events_fed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Twelve cases that break other engines, each small enough to be checked by the oracle of
// trigger_rig.h or by counting.
#include "test_kit.h"

#include "trigger_rig.h"

static char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *text_of(const char *format, ...)
{
    char *text = malloc(RIG_TEXT_MAX);
    assert_non_null(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text, RIG_TEXT_MAX, format, args);
    va_end(args);
    return text;
}

static void free_all(char **texts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(texts[i]);
    }
    free(texts);
}

// An event of custom:n on a page; the clock runs 1 ms an event.
static struct rig_event event_at(uint64_t seq, uint8_t page)
{
    return (struct rig_event){
        .seq = seq, .mono_us = seq * 1000, .kind = DEV_EVENT_CUSTOM, .page = page, .visit = 1};
}

static uint32_t give(struct trig_rig *rig, const struct rig_event *event)
{
    struct rig_event_memory memory;
    struct dev_event view = rig_event_view(event, &memory);
    uint32_t count;
    (void)dev_trigger_on_event(rig->engine, &view, &count);
    return count;
}

static struct dev_trigger_stats stats_of(const struct trig_rig *rig)
{
    struct dev_trigger_stats stats;
    dev_trigger_stats(rig->engine, &stats);
    assert_true(dev_trigger_validate(rig->engine));
    return stats;
}

static void init_one(struct trig_rig *rig, const char *pattern)
{
    trig_rig_init(rig, &pattern, 1);
}

// 1. `a ?^k b`: a deterministic automaton has 2^k states, this one k nodes.
static void case_01_a_any_k_b_stays_linear(void **state)
{
    (void)state;
    char text[RIG_TEXT_MAX] = "custom(a)";
    enum { K = 28, EVENTS = 20000 };
    for (uint32_t i = 0; i < K; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), " ?");
    }
    snprintf(text + strlen(text), sizeof text - strlen(text), " custom(b)");
    struct trig_rig rig;
    init_one(&rig, text);
    assert_true(rig.certificate.nodes <= K + 4);
    assert_true(rig.certificate.work < 200);
    struct base_prng prng;
    test_seed(&prng);
    static bool was_a[EVENTS + 1];
    for (uint32_t n = 1; n <= EVENTS; n++) {
        was_a[n] = base_prng_below(&prng, 2) == 0;
        struct rig_event event = event_at(n, was_a[n] ? 1 : 2);
        bool expected = !was_a[n] && n > K + 1 && was_a[n - K - 1];
        assert_int_equal(give(&rig, &event), expected);
    }
    assert_true(stats_of(&rig).work_seen_max <= rig.certificate.work);
    trig_rig_done(&rig);
}

// Literal or `?`, 2^depth patterns over one symbol, each with another end.
static char **lattice(uint32_t depth)
{
    char **texts = calloc((size_t)1 << depth, sizeof *texts);
    assert_non_null(texts);
    for (uint32_t i = 0; i < 1u << depth; i++) {
        texts[i] = text_of("custom(a)");
        for (uint32_t d = 0; d < depth; d++) {
            size_t used = strlen(texts[i]);
            snprintf(texts[i] + used, RIG_TEXT_MAX - used, (i >> d & 1) != 0 ? " custom(a)" : " ?");
        }
    }
    return texts;
}

static enum base_status certify(char **texts, uint32_t count, uint32_t work_max,
                                struct dev_trigger_certificate *out,
                                struct dev_trigger_fault *fault)
{
    struct dev_trigger_source *sources = calloc(count, sizeof *sources);
    assert_non_null(sources);
    for (uint32_t i = 0; i < count; i++) {
        sources[i] = (struct dev_trigger_source){i + 1, base_str_of(texts[i])};
    }
    const struct dev_trigger_options options = {.secret = RIG_SECRET, .work_max = work_max};
    struct trig_rig rig;
    enum base_status status = trig_rig_try(&rig, sources, count, &options, fault);
    *out = rig.certificate;
    trig_rig_done(&rig);
    free(sources);
    return status;
}

// 2. The lattice has 2^depth live states after depth events of one symbol: the certificate says so
// exactly and refuses it, naming the pattern with which it became too much.
static void case_02_lattice_is_refused(void **state)
{
    (void)state;
    enum { DEPTH = 12 };
    char **texts = lattice(DEPTH);
    struct dev_trigger_certificate certificate;
    struct dev_trigger_fault fault = {0};
    assert_int_equal(certify(texts, 1u << DEPTH, 0, &certificate, &fault), BASE_ERR_LIMIT);
    assert_true(fault.source > 100);
    assert_true(fault.source < 1u << DEPTH);
    assert_int_equal(fault.error.status, BASE_ERR_LIMIT);
    struct dev_trigger_fault again;
    assert_int_equal(certify(texts, fault.source, 0, &certificate, &again), BASE_OK);
    assert_int_equal(certify(texts, fault.source + 1, 0, &certificate, &again), BASE_ERR_LIMIT);
    assert_int_equal(again.source, fault.source);

    struct trig_rig rig;
    trig_rig_init(&rig, (const char *const *)texts, 1u << DEPTH); // nothing stops the test
    for (uint32_t n = 1; n <= 3 * DEPTH; n++) {
        struct rig_event event = event_at(n, 1);
        assert_int_equal(give(&rig, &event), n > DEPTH ? 1u << DEPTH : 0);
    }
    struct dev_trigger_stats stats = stats_of(&rig);
    assert_int_equal(stats.live_transient, (1u << DEPTH) - 1);
    assert_int_equal(stats.live_transient, rig.certificate.live_max);
    assert_true(stats.work_seen_max > DEV_TRIGGER_WORK_MAX);
    assert_true(stats.work_seen_max <= rig.certificate.work);
    trig_rig_done(&rig);
    free_all(texts, 1u << DEPTH);
}

// 3. 100,000 patterns of nothing but gaps, all remembered: an event does not look at all of them.
static void case_03_sticky_set_is_not_scanned(void **state)
{
    (void)state;
    enum { COUNT = 100000, GROUP = 100 };
    char **texts = calloc(COUNT, sizeof *texts);
    assert_non_null(texts);
    for (uint32_t i = 0; i < COUNT; i++) {
        texts[i] = text_of("custom(a, price >= %u) * exit(p%u) * click(q%u)", i % 7, i / GROUP, i);
    }
    struct trig_rig rig;
    trig_rig_init(&rig, (const char *const *)texts, COUNT);
    struct rig_event first = event_at(1, 1);
    first.price = 200;
    assert_int_equal(give(&rig, &first), 0);
    struct dev_event event = {.kind = DEV_EVENT_EXIT, .seq = 1, .mono_us = 1000};
    uint32_t count;
    for (uint32_t i = 0; i < COUNT / GROUP; i++) {
        char page[16];
        event.seq++;
        event.page = (struct base_str){page, (size_t)snprintf(page, sizeof page, "p%u", i)};
        event.page_hash = dev_event_hash(RIG_SECRET, event.page);
        (void)dev_trigger_on_event(rig.engine, &event, &count);
        assert_int_equal(count, 0);
    }
    struct dev_trigger_stats stats = stats_of(&rig);
    assert_true(stats.live_sticky > COUNT / GROUP * 7);
    assert_true(stats.work_seen_max < 500);
    event.kind = DEV_EVENT_CLICK;
    event.seq++;
    event.page = BASE_STR("q4711");
    event.page_hash = dev_event_hash(RIG_SECRET, event.page);
    (void)dev_trigger_on_event(rig.engine, &event, &count);
    assert_int_equal(count, 1);
    assert_true(stats_of(&rig).work_seen_max < 500);
    trig_rig_done(&rig);
    free_all(texts, COUNT);
}

// 4. A million starts within six hours and no end: one state, and the latest start decides.
static void case_04_starts_without_end_are_one_state(void **state)
{
    (void)state;
    struct trig_rig rig;
    init_one(&rig, "custom(a) * custom(b) within 6h");
    struct rig_event event = event_at(1, 1);
    for (uint32_t n = 1; n <= 1000000; n++) {
        event.seq = n;
        event.mono_us += 1000;
        assert_int_equal(give(&rig, &event), 0);
    }
    struct dev_trigger_stats stats = stats_of(&rig);
    assert_int_equal(stats.live_sticky, 1);
    assert_true(stats.work_seen_max < 20);
    event.page = 2;
    event.seq++;
    event.mono_us += 6ull * 3600 * 1000000;
    assert_int_equal(give(&rig, &event), 1); // six hours after the last start
    event.seq++;
    event.mono_us += 1000;
    assert_int_equal(give(&rig, &event), 0);
    trig_rig_done(&rig);
}

static void refused(const char *text, enum base_status status, uint32_t column)
{
    struct dev_pattern pattern;
    struct base_error error = {0};
    enum base_status got = dev_pattern_parse(base_str_of(text), &pattern, &error);
    if (got != status || error.column != column) {
        print_error("%s: %d at %u, expected %d at %u: %s\n", text, got, error.column, status,
                    column, error.text);
    }
    assert_int_equal(got, status);
    assert_int_equal(error.column, column);
}

// 5. Degenerate patterns, duplicates, prefixes, and 100,000 tasks on one node.
static void case_05_degenerate_patterns(void **state)
{
    (void)state;
    refused("", BASE_ERR_INVALID, 1);
    refused("* * *", BASE_ERR_INVALID, 1);
    refused("?", BASE_ERR_INVALID, 1);
    refused("? * ?", BASE_ERR_INVALID, 1);
    char text[RIG_TEXT_MAX] = "";
    for (uint32_t i = 0; i < DEV_PATTERN_STEPS_MAX; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "click ");
    }
    struct dev_pattern pattern;
    assert_int_equal(dev_pattern_parse(base_str_of(text), &pattern, NULL), BASE_OK);
    snprintf(text + strlen(text), sizeof text - strlen(text), "click ");
    refused(text, BASE_ERR_TOO_LARGE, DEV_PATTERN_STEPS_MAX * 6 + 1);

    static const char *const few[] = {"custom(a) * custom(b)", "custom(a)", "custom(a) custom(b)",
                                      "custom(a) * custom(b)", "? every-event"};
    struct trig_rig rig;
    trig_rig_init(&rig, few, TEST_COUNT(few));
    struct rig_event event = event_at(1, 1);
    assert_int_equal(give(&rig, &event), 2);
    event = event_at(2, 2);
    assert_int_equal(give(&rig, &event), 4);
    trig_rig_done(&rig);

    enum { TASKS = 100000 };
    char **texts = calloc(TASKS, sizeof *texts);
    assert_non_null(texts);
    for (uint32_t i = 0; i < TASKS; i++) {
        texts[i] = text_of("custom(a) custom(b)");
    }
    trig_rig_init(&rig, (const char *const *)texts, TASKS);
    assert_int_equal(rig.certificate.nodes, 4);
    event = event_at(1, 1);
    assert_int_equal(give(&rig, &event), 0);
    event = event_at(2, 2);
    assert_int_equal(give(&rig, &event), TASKS);
    trig_rig_done(&rig);
    struct dev_trigger_certificate certificate;
    struct dev_trigger_fault fault;
    assert_int_equal(certify(texts, TASKS, 0, &certificate, &fault), BASE_ERR_LIMIT);
    free_all(texts, TASKS);
}

// 6. Scrolling at 120 Hz against cooldown and cap, for a day and a bit.
static void case_06_trigger_storm(void **state)
{
    (void)state;
    static const char *const texts[] = {"scroll", "scroll cooldown 1s",
                                        "scroll cooldown 1s max 5/day"};
    struct trig_rig rig;
    trig_rig_init(&rig, texts, TEST_COUNT(texts));
    struct rig_event event = {.kind = DEV_EVENT_SCROLL, .page = 1};
    uint32_t fired = 0;
    enum { HZ = 120, SECONDS = 10 };
    for (uint32_t n = 0; n < HZ * SECONDS; n++) {
        event.seq++;
        fired += give(&rig, &event);
        event.mono_us += 1000000 / HZ;
    }
    assert_int_equal(fired, HZ * SECONDS + SECONDS + 5);
    struct dev_trigger_stats stats = stats_of(&rig);
    assert_int_equal(stats.matches, 3 * HZ * SECONDS);
    assert_int_equal(stats.fired + stats.suppressed_cooldown + stats.suppressed_cap, stats.matches);
    assert_true(stats.suppressed_cap > (SECONDS - 5) * HZ - HZ / 10); // all but the cooldown's
    event.seq++;
    event.mono_us = 24ull * 3600 * 1000000 - 1000;
    assert_int_equal(give(&rig, &event), 2); // the cap's day is not over
    event.seq++;
    event.mono_us += 1000000;
    assert_int_equal(give(&rig, &event), 3);
    trig_rig_done(&rig);
}

static size_t store(const struct trig_rig *rig, uint8_t *out, size_t capacity)
{
    size_t size;
    assert_true(dev_trigger_encoded_max(rig->engine) <= capacity);
    assert_int_equal(dev_trigger_encode(rig->engine, out, capacity, &size), BASE_OK);
    return size;
}

// 7. Killed between the match and what it starts: the event is given again, the token is the same,
// so that a list of started tokens starts it once.
static void case_07_kill_between_match_and_start(void **state)
{
    (void)state;
    static const char *const texts[] = {"custom(a) * custom(b)", "custom(a) ? custom(b)",
                                        "any(b) cooldown 1h"};
    struct trig_rig rig;
    trig_rig_init(&rig, texts, TEST_COUNT(texts));
    struct rig_event events[] = {event_at(7, 1), event_at(8, 3), event_at(9, 2)};
    assert_int_equal(give(&rig, &events[0]), 0);
    assert_int_equal(give(&rig, &events[1]), 0);
    uint8_t bytes[512];
    size_t size = store(&rig, bytes, sizeof bytes);
    assert_true(size < 100);
    struct rig_event_memory memory;
    struct dev_event view = rig_event_view(&events[2], &memory);
    uint64_t tokens[3];
    uint32_t count;
    const struct dev_trigger_fired *fired = dev_trigger_on_event(rig.engine, &view, &count);
    assert_int_equal(count, 3);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = fired[i].token;
    }
    for (uint32_t kill = 0; kill < 3; kill++) {
        trig_rig_fresh(&rig);
        assert_int_equal(dev_trigger_decode(rig.engine, bytes, size), BASE_OK);
        assert_int_equal(give(&rig, &events[1]), 0); // known already
        fired = dev_trigger_on_event(rig.engine, &view, &count);
        assert_int_equal(count, 3);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(fired[i].token == tokens[i]);
            assert_true(i == 0 || tokens[i] != tokens[i - 1]);
        }
        assert_int_equal(give(&rig, &events[2]), 0); // never twice
    }
    size = store(&rig, bytes, sizeof bytes);
    trig_rig_fresh(&rig);
    assert_int_equal(dev_trigger_decode(rig.engine, bytes, size), BASE_OK);
    assert_int_equal(give(&rig, &events[2]), 0);
    struct rig_event next = event_at(10, 2);
    assert_int_equal(give(&rig, &next), 1); // the cooldown survived, too
    trig_rig_done(&rig);
}

static void carry_to(struct trig_rig *rig, const char *const *texts, uint32_t count)
{
    struct trig_rig old = *rig;
    trig_rig_init(rig, texts, count);
    dev_trigger_carry(old.engine, rig->engine);
    trig_rig_done(&old);
    assert_true(dev_trigger_validate(rig->engine));
}

// 8. Updates in mid-match, of the very pattern that is about to match, and over and over.
static void case_08_updates_in_mid_match(void **state)
{
    (void)state;
    static const char *const before[] = {"custom(a) custom(b) * custom(c)", "exit * click"};
    static const char *const after[] = {"scroll", "custom(a) custom(b) * custom(c) cooldown 1m",
                                        "custom(a) custom(b) * custom(b)"};
    static const char *const without[] = {"exit * click"};
    struct trig_rig rig;
    trig_rig_init(&rig, before, 2);
    struct rig_event event = event_at(1, 1);
    assert_int_equal(give(&rig, &event), 0);
    carry_to(&rig, after, 3); // between two adjacent steps
    event = event_at(2, 2);
    assert_int_equal(give(&rig, &event), 0);
    for (uint32_t i = 0; i < 1000; i++) {
        carry_to(&rig, i % 2 == 0 ? before : after, i % 2 == 0 ? 2 : 3);
    }
    event = event_at(3, 3);
    assert_int_equal(give(&rig, &event), 1);
    carry_to(&rig, without, 1);
    event = event_at(4, 3);
    assert_int_equal(give(&rig, &event), 0);
    assert_true(stats_of(&rig).lost_partials > 0);
    carry_to(&rig, before, 2); // what was dropped does not come back
    event = event_at(5, 3);
    assert_int_equal(give(&rig, &event), 0);
    trig_rig_done(&rig);
}

// 9. Page visits: nested, exit without enter, two tabs of one page, killed without exit.
static void case_09_page_visits(void **state)
{
    (void)state;
    struct trig_rig rig;
    init_one(&rig, "enter(a) * click(a) page");
    struct rig_event event = {.kind = DEV_EVENT_EXIT, .page = 1, .visit = 0, .seq = 1};
    assert_int_equal(give(&rig, &event), 0); // exit without enter
    static const struct {
        uint8_t kind;
        uint8_t page;
        uint32_t visit;
        uint32_t fires;
    } steps[] = {
        {DEV_EVENT_ENTER, 1, 1, 0}, {DEV_EVENT_ENTER, 2, 2, 0}, // a dialogue above it
        {DEV_EVENT_CLICK, 2, 2, 0}, {DEV_EVENT_CLICK, 1, 1, 1}, {DEV_EVENT_EXIT, 2, 2, 0},
        {DEV_EVENT_ENTER, 1, 3, 0}, // a second tab
        {DEV_EVENT_CLICK, 1, 1, 1}, {DEV_EVENT_CLICK, 1, 3, 1}, {DEV_EVENT_EXIT, 1, 1, 0},
        {DEV_EVENT_CLICK, 1, 3, 1}, {DEV_EVENT_CLICK, 1, 0, 0}, // in no visit
        {DEV_EVENT_CLICK, 1, 4, 0},                             // a visit whose enter nobody saw
    };
    for (size_t i = 0; i < TEST_COUNT(steps); i++) {
        event.seq++;
        event.kind = steps[i].kind;
        event.page = steps[i].page;
        event.visit = steps[i].visit;
        assert_int_equal(give(&rig, &event), steps[i].fires);
    }
    assert_int_equal(stats_of(&rig).live_keys, 1);      // visit 3; visit 1 left with its exit
    for (uint32_t visit = 10; visit < 10000; visit++) { // killed each time, no exit
        event.seq++;
        event.kind = DEV_EVENT_ENTER;
        event.visit = visit;
        assert_int_equal(give(&rig, &event), 0);
    }
    struct dev_trigger_stats stats = stats_of(&rig);
    assert_int_equal(stats.live_keys, DEV_TRIGGER_KEYS_DEFAULT);
    assert_int_equal(stats.evicted_keys, 9990 + 1 - DEV_TRIGGER_KEYS_DEFAULT);
    event.seq++;
    event.kind = DEV_EVENT_CLICK;
    assert_int_equal(give(&rig, &event), 1);
    trig_rig_done(&rig);
}

// 10. A million items, collisions of places, a test on an attribute of another type.
static void case_10_same_item(void **state)
{
    (void)state;
    struct trig_rig rig;
    init_one(&rig, "exposure same(item) * click(price > 2.5) same(item)");
    struct dev_event event = {.kind = DEV_EVENT_EXPOSURE};
    uint32_t count;
    enum { ITEMS = 1000000 };
    for (uint32_t i = 1; i <= ITEMS; i++) {
        event.seq = i;
        event.item_hash = i; // neighbours: their places collide
        (void)dev_trigger_on_event(rig.engine, &event, &count);
        assert_int_equal(count, 0);
    }
    struct dev_trigger_stats stats = stats_of(&rig);
    assert_int_equal(stats.live_keys, DEV_TRIGGER_KEYS_DEFAULT);
    assert_int_equal(stats.evicted_keys, ITEMS - DEV_TRIGGER_KEYS_DEFAULT);
    assert_true(stats.work_seen_max < 20);

    uint8_t attrs[64];
    static const struct {
        struct dev_event_attr attr;
        uint32_t fires;
    } cases[] = {
        {{.name = BASE_STR("price"), .type = DEV_ATTR_INTEGER, .integer = 3}, 1},
        {{.name = BASE_STR("price"), .type = DEV_ATTR_REAL, .real = 2.51}, 1},
        {{.name = BASE_STR("price"), .type = DEV_ATTR_REAL, .real = 2.5}, 0},
        {{.name = BASE_STR("price"), .type = DEV_ATTR_STRING, .text = BASE_STR("9")}, 0},
        {{.name = BASE_STR("price"), .type = DEV_ATTR_BOOLEAN, .integer = 1}, 0},
        {{.name = BASE_STR("cost"), .type = DEV_ATTR_INTEGER, .integer = 9}, 0},
    };
    event.kind = DEV_EVENT_CLICK;
    event.attrs = attrs;
    event.attr_count = 1;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        size_t size;
        assert_int_equal(dev_event_attrs_encode(&cases[i].attr, 1, attrs, sizeof attrs, &size),
                         BASE_OK);
        event.attrs_bytes = (uint32_t)size;
        event.seq++;
        event.item_hash = ITEMS - 5;
        const struct dev_trigger_fired *fired = dev_trigger_on_event(rig.engine, &event, &count);
        assert_int_equal(count, cases[i].fires);
        assert_true(count == 0 || fired->item_hash == event.item_hash);
        event.seq++;
        event.item_hash = 5; // evicted long ago
        (void)dev_trigger_on_event(rig.engine, &event, &count);
        assert_int_equal(count, 0);
    }
    trig_rig_done(&rig);
}

// 11. Clocks that jump, seqs that wrap, an old backup.
static void case_11_clocks_and_wraps(void **state)
{
    (void)state;
    struct trig_rig rig;
    init_one(&rig, "custom(a) * custom(b) within 30s");
    static const uint64_t hour = 3600 * 1000;
    static const struct {
        int64_t wall_step_ms;
        bool new_boot;
        uint32_t fires;
    } cases[] = {
        {0, false, 1},
        {-(int64_t)3600 * 1000, false, 1}, // in one boot only the monotonic clock counts
        {24 * 3600 * 1000, false, 1},
        {20 * 1000, true, 1},
        {31 * 1000, true, 0},
        {-(int64_t)3600 * 1000, true, 0}, // unknown: expired
        {24 * 3600 * 1000, true, 0},
    };
    struct rig_event event = event_at(UINT64_MAX - 4, 1);
    event.mono_us = 0;
    event.wall_ms = 1000 * hour;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        event.seq++; // wraps on the way
        event.page = 1;
        event.mono_us += 1000000;
        assert_int_equal(give(&rig, &event), 0);
        event.seq++;
        event.page = 2;
        event.wall_ms = (uint64_t)((int64_t)event.wall_ms + cases[i].wall_step_ms);
        event.boot += cases[i].new_boot;
        event.mono_us = cases[i].new_boot ? 5 : event.mono_us + 1000;
        assert_int_equal(give(&rig, &event), cases[i].fires);
    }
    event.seq++;
    event.boot++;
    event.page = 1;
    event.wall_ms = 0; // 1970
    assert_int_equal(give(&rig, &event), 0);
    event.seq++;
    event.page = 2;
    assert_int_equal(give(&rig, &event), 1);
    assert_int_equal(give(&rig, &event), 0); // a duplicate
    struct rig_event old = event;
    old.seq -= 3; // from before a restore from backup
    assert_int_equal(give(&rig, &old), 0);
    struct dev_trigger_stats stats = stats_of(&rig);
    assert_int_equal(stats.duplicates, 2);
    assert_int_equal(stats.clock_backwards, 2);

    // Months between two events, with the milliseconds' 32 bits all but wrapped.
    event.seq++;
    event.page = 1;
    assert_int_equal(give(&rig, &event), 0);
    event.seq++;
    event.page = 2;
    event.mono_us += ((1ull << 32) + 10) * 1000;
    assert_int_equal(give(&rig, &event), 0);
    trig_rig_done(&rig);
}

// 12. Page ids chosen to collide under one secret do not under another.
static void case_12_hash_flooding(void **state)
{
    (void)state;
    enum { PAGES = 2000, SECRETS = 8 };
    char **texts = calloc(PAGES, sizeof *texts);
    assert_non_null(texts);
    for (uint32_t i = 0; i < PAGES; i++) {
        texts[i] = text_of("enter(\"page %u\")", i);
    }
    struct dev_trigger_source sources[PAGES];
    for (uint32_t i = 0; i < PAGES; i++) {
        sources[i] = (struct dev_trigger_source){i + 1, base_str_of(texts[i])};
    }
    for (uint64_t secret = 1; secret <= SECRETS; secret++) {
        const struct dev_trigger_options options = {.secret = secret};
        struct trig_rig rig;
        assert_int_equal(trig_rig_try(&rig, sources, PAGES, &options, NULL), BASE_OK);
        for (uint32_t i = 0; i < PAGES; i++) {
            char page[32];
            struct dev_event event = {.kind = DEV_EVENT_ENTER, .seq = i + 1};
            event.page = (struct base_str){page, (size_t)snprintf(page, sizeof page, "page %u", i)};
            event.page_hash = dev_event_hash(secret, event.page);
            uint32_t count;
            const struct dev_trigger_fired *fired =
                dev_trigger_on_event(rig.engine, &event, &count);
            assert_int_equal(count, 1);
            assert_int_equal(fired->source, i);
            event.seq++;
            event.page_hash = dev_event_hash(secret + 1, event.page); // a guess without the secret
            (void)dev_trigger_on_event(rig.engine, &event, &count);
            assert_int_equal(count, 0);
            trig_rig_fresh(&rig);
        }
        trig_rig_done(&rig);
    }
    free_all(texts, PAGES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_01_a_any_k_b_stays_linear),
        cmocka_unit_test(case_02_lattice_is_refused),
        cmocka_unit_test(case_03_sticky_set_is_not_scanned),
        cmocka_unit_test(case_04_starts_without_end_are_one_state),
        cmocka_unit_test(case_05_degenerate_patterns),
        cmocka_unit_test(case_06_trigger_storm),
        cmocka_unit_test(case_07_kill_between_match_and_start),
        cmocka_unit_test(case_08_updates_in_mid_match),
        cmocka_unit_test(case_09_page_visits),
        cmocka_unit_test(case_10_same_item),
        cmocka_unit_test(case_11_clocks_and_wraps),
        cmocka_unit_test(case_12_hash_flooding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

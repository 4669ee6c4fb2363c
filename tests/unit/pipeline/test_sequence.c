// Sequences: time level and page level against a plain list, blocks, eviction, and kills at every
// commit: what is stored is always a prefix of what was recorded, what was durable is there, and
// every seq that is missing was declared.
#include "test_kit.h"

#include "mem/mem_kv.h"
#include "pipeline/storage/feature_store.h"
#include "pipeline/record/sequence.h"

#define MS 1000u
#define S  (1000u * MS)

struct seen {
    uint64_t seq;
    uint32_t visit;
    enum dev_event_kind kind;
    int64_t number; // attribute "n": its place in the list of all recordings
};

#define SEEN_MAX 60000

struct rig {
    struct mem_kv kv;
    struct dev_kv_port port;
    struct dev_collect *collect;
    struct dev_recorder *recorder;
    struct dev_sequence *sequence;
    void *memory[3];
    struct dev_sequence_options options;
    struct seen *seen; // what the sink got, of all lives that count
    uint32_t count;
    struct dev_gap gaps[256];
    uint32_t gap_count;
    uint64_t now;
};

static void on_event(void *ctx, const struct dev_event *event)
{
    struct rig *rig = ctx;
    struct dev_event_attr attr;
    assert_int_equal(dev_event_attr(event, BASE_STR("n"), &attr), BASE_OK);
    assert_true(rig->count < SEEN_MAX);
    rig->seen[rig->count++] = (struct seen){event->seq, event->visit, event->kind, attr.integer};
    dev_sequence_on_event(rig->sequence, rig->now, event);
}

static void on_gap(void *ctx, const struct dev_gap *gap)
{
    struct rig *rig = ctx;
    assert_true(rig->gap_count < TEST_COUNT(rig->gaps));
    rig->gaps[rig->gap_count++] = *gap;
    dev_sequence_on_gap(rig->sequence, gap);
}

static void on_visit_end(void *ctx, const struct dev_visit *visit, enum dev_visit_end why)
{
    struct rig *rig = ctx;
    (void)visit;
    (void)why;
    dev_sequence_on_visit_end(rig->sequence);
}

static struct dev_recorder_sink sink_of(struct rig *rig)
{
    return (struct dev_recorder_sink){
        .ctx = rig, .on_event = on_event, .on_gap = on_gap, .on_visit_end = on_visit_end};
}

static void rig_boot(struct rig *rig)
{
    struct dev_recorder_options recorder = {.entropy = 7, .boot_id = 3};
    for (unsigned i = 0; i < 3; i++) {
        free(rig->memory[i]);
    }
    rig->memory[0] = malloc(dev_collect_bytes());
    assert_int_equal(
        dev_collect_init(rig->memory[0], dev_collect_bytes(), &rig->port, &rig->collect), BASE_OK);
    recorder.collect = rig->collect;
    size_t bytes = dev_recorder_bytes(&recorder);
    rig->memory[1] = malloc(bytes);
    assert_int_equal(dev_recorder_init(rig->memory[1], bytes, &recorder, &rig->recorder), BASE_OK);
    rig->options.collect = rig->collect;
    rig->options.recorder = rig->recorder;
    bytes = dev_sequence_bytes(&rig->options);
    rig->memory[2] = malloc(bytes);
    assert_int_equal(dev_sequence_init(rig->memory[2], bytes, &rig->options, &rig->sequence),
                     BASE_OK);
    const struct dev_recorder_sink sink = sink_of(rig);
    assert_int_equal(dev_collect_boot(rig->collect, rig->now), BASE_OK);
    assert_int_equal(dev_sequence_boot(rig->sequence, rig->now), BASE_OK);
    assert_int_equal(dev_recorder_boot(rig->recorder, rig->now, rig->now, &sink), BASE_OK);
    (void)dev_collect_step(rig->collect, rig->now);
}

static void rig_init(struct rig *rig)
{
    *rig = (struct rig){.now = S};
    mem_kv_init(&rig->kv);
    rig->port = mem_kv_port(&rig->kv);
    rig->seen = calloc(SEEN_MAX, sizeof(*rig->seen));
}

static void rig_done(struct rig *rig)
{
    assert_true(dev_sequence_validate(rig->sequence));
    for (unsigned i = 0; i < 3; i++) {
        free(rig->memory[i]);
    }
    free(rig->seen);
    mem_kv_done(&rig->kv);
}

static const char *const pages[] = {"home", "list", "item", "cart", "pay", "me"};

static void record(struct rig *rig, enum dev_event_kind kind, const char *page, size_t weight,
                   int64_t number)
{
    static char text[DEV_EVENT_ATTRS_BYTES];
    memset(text, 'w', sizeof(text));
    const struct dev_event_attr attrs[] = {
        {.name = BASE_STR("n"), .type = DEV_ATTR_INTEGER, .integer = number},
        {.name = BASE_STR("w"), .type = DEV_ATTR_STRING, .text = {text, weight}}};
    const struct dev_recording recording = {
        .kind = kind,
        .page = base_str_of(page),
        .name = kind == DEV_EVENT_CUSTOM ? BASE_STR("c") : BASE_STR(""),
        .wall_ms = rig->now / MS,
        .mono_us = rig->now,
        .attrs = attrs,
        .attr_count = 2,
    };
    assert_int_equal(dev_record(rig->recorder, &recording), BASE_OK);
    const struct dev_recorder_sink sink = sink_of(rig);
    (void)dev_recorder_drain(rig->recorder, rig->now, 0, &sink);
}

static void record_random(struct rig *rig, struct base_prng *prng, size_t weight, int64_t number)
{
    enum dev_event_kind kind = (enum dev_event_kind)(1 + base_prng_below(prng, 6));
    record(rig, kind, pages[base_prng_below(prng, TEST_COUNT(pages))],
           (size_t)base_prng_below(prng, weight + 1), number);
}

static uint64_t step(struct rig *rig)
{
    uint64_t next = dev_sequence_step(rig->sequence, rig->now);
    uint64_t other = dev_collect_step(rig->collect, rig->now);
    return next < other ? next : other;
}

// ---- Reading

struct walk {
    const struct rig *rig;
    uint32_t at; // in rig->seen
    uint32_t visit;
    uint64_t to_seq;
    uint32_t count;
};

static uint32_t next_wanted(const struct walk *walk)
{
    uint32_t at = walk->at;
    while (at < walk->rig->count && walk->visit != 0 && walk->rig->seen[at].visit != walk->visit) {
        at++;
    }
    return at;
}

static bool check_event(void *ctx, const struct dev_event *event)
{
    struct walk *walk = ctx;
    struct dev_event_attr attr;
    walk->at = next_wanted(walk);
    assert_true(walk->at < walk->rig->count);
    const struct seen *seen = &walk->rig->seen[walk->at++];
    assert_true(event->seq == seen->seq);
    assert_int_equal(event->visit, seen->visit);
    assert_int_equal(event->kind, seen->kind);
    assert_int_equal(dev_event_attr(event, BASE_STR("n"), &attr), BASE_OK);
    assert_true(attr.integer == seen->number);
    assert_true(event->page_hash == dev_event_hash(7, event->page));
    walk->count++;
    return true;
}

static uint32_t index_of(const struct rig *rig, uint64_t seq)
{
    uint32_t at = 0;
    while (at < rig->count && rig->seen[at].seq < seq) {
        at++;
    }
    return at;
}

static const struct dev_sequence_part whole = {.to_seq = UINT64_MAX};

static void memory_and_store_give_every_sequence(void **state)
{
    (void)state;
    struct base_prng prng;
    struct rig rig;
    test_seed(&prng);
    rig_init(&rig);
    rig.options.ring_bytes = DEV_SEQUENCE_RING_BYTES_MIN;
    rig_boot(&rig);
    for (unsigned i = 0; i < 4000; i++) {
        record_random(&rig, &prng, i % 100 == 0 ? 3000 : 100, i);
        rig.now += base_prng_below(&prng, 100) * MS;
        (void)step(&rig);
        if (i % 64 != 63) {
            continue;
        }
        assert_true(dev_sequence_validate(rig.sequence));
        struct dev_event event;
        struct dev_sequence_cursor cursor;
        uint64_t from = base_prng_below(&prng, rig.count + 2);
        uint64_t to =
            base_prng_below(&prng, 3) == 0 ? UINT64_MAX : from + base_prng_below(&prng, 500);
        uint32_t visit =
            base_prng_below(&prng, 2) == 0 ? 0 : rig.seen[base_prng_below(&prng, rig.count)].visit;
        // Everything there is.
        struct walk walk = {.rig = &rig, .at = index_of(&rig, from), .visit = visit};
        const struct dev_sequence_part part = {from, to, visit};
        assert_int_equal(dev_sequence_each(rig.sequence, rig.now, &part, check_event, &walk),
                         BASE_OK);
        walk.at = next_wanted(&walk);
        assert_true(walk.at == rig.count || rig.seen[walk.at].seq > to);
        // The range in memory, forwards and backwards, begins where memory begins.
        dev_sequence_range(rig.sequence, 0, UINT64_MAX, &cursor);
        assert_true(dev_sequence_next(&cursor, &event));
        uint64_t oldest = event.seq;
        uint64_t start = oldest > from ? oldest : from;
        walk = (struct walk){.rig = &rig, .at = index_of(&rig, start)};
        dev_sequence_range(rig.sequence, from, to, &cursor);
        while (dev_sequence_next(&cursor, &event)) {
            assert_true(check_event(&walk, &event));
        }
        assert_true(walk.at == rig.count || rig.seen[walk.at].seq > to);
        dev_sequence_latest(rig.sequence, to, &cursor);
        uint32_t at = to == UINT64_MAX ? rig.count : index_of(&rig, to + 1);
        while (dev_sequence_before(&cursor, &event)) {
            assert_true(event.seq == rig.seen[--at].seq);
        }
        assert_true(at == 0 || at == index_of(&rig, oldest) || to < oldest);
        // A visit in memory.
        if (visit != 0) {
            walk = (struct walk){.rig = &rig, .at = index_of(&rig, oldest), .visit = visit};
            dev_sequence_visit(rig.sequence, visit, &cursor);
            while (dev_sequence_next(&cursor, &event)) {
                assert_true(check_event(&walk, &event));
            }
            assert_int_equal(next_wanted(&walk), rig.count);
        }
    }
    struct dev_sequence_stats stats;
    dev_sequence_stats(rig.sequence, &stats);
    assert_int_equal(stats.events, 4000);
    assert_int_equal(stats.stored + stats.waiting, 4000);
    assert_true(stats.in_memory < 1000);
    assert_int_equal(stats.damaged_blocks, 0);
    printf("%llu blocks of %llu bytes\n", (unsigned long long)stats.blocks,
           (unsigned long long)stats.block_bytes);
    rig_done(&rig);
}

static void a_block_is_stored_when_it_is_due(void **state)
{
    (void)state;
    struct rig rig;
    struct dev_sequence_stats stats;
    rig_init(&rig);
    rig_boot(&rig);
    assert_true(dev_sequence_step(rig.sequence, rig.now) == UINT64_MAX);
    for (unsigned i = 0; i < DEV_SEQUENCE_BLOCK_EVENTS; i++) { // by count
        (void)step(&rig);
        assert_int_equal(rig.kv.spaces[DEV_SPACE_EVENTS].count, 0);
        record(&rig, DEV_EVENT_SCROLL, "p", 0, i);
    }
    (void)step(&rig);
    assert_int_equal(rig.kv.spaces[DEV_SPACE_EVENTS].count, 1);
    for (unsigned i = 0; i < 4; i++) { // by bytes
        record(&rig, DEV_EVENT_SCROLL, "p", 3500, i);
    }
    (void)step(&rig);
    assert_int_equal(rig.kv.spaces[DEV_SPACE_EVENTS].count, 2);
    record(&rig, DEV_EVENT_SCROLL, "p", 0, 0); // by age of the oldest
    assert_true(step(&rig) == rig.now + 2 * S);
    rig.now += 2 * S - 1;
    record(&rig, DEV_EVENT_SCROLL, "p", 0, 1);
    assert_true(step(&rig) == rig.now + 1);
    rig.now++;
    (void)step(&rig);
    assert_int_equal(rig.kv.spaces[DEV_SPACE_EVENTS].count, 3);
    record(&rig, DEV_EVENT_ENTER, "p", 0, 0); // by the end of a visit
    (void)step(&rig);
    assert_int_equal(rig.kv.spaces[DEV_SPACE_EVENTS].count, 3);
    record(&rig, DEV_EVENT_EXIT, "p", 0, 0);
    uint64_t commits = rig.kv.commits;
    (void)step(&rig);
    assert_int_equal(rig.kv.spaces[DEV_SPACE_EVENTS].count, 4);
    assert_int_equal(rig.kv.commits, commits + 1); // block and numbers in one
    record(&rig, DEV_EVENT_SCROLL, "p", 0, 0);     // in the background
    assert_int_equal(dev_sequence_flush(rig.sequence, rig.now), BASE_OK);
    assert_int_equal(dev_collect_flush(rig.collect, rig.now), BASE_OK);
    assert_int_equal(rig.kv.spaces[DEV_SPACE_EVENTS].count, 5);
    dev_sequence_stats(rig.sequence, &stats);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.blocks, 5);
    rig_done(&rig);
}

// More events between two steps than memory holds: none is lost.
static void a_burst_is_stored_as_it_comes(void **state)
{
    (void)state;
    struct base_prng prng;
    struct rig rig;
    test_seed(&prng);
    rig_init(&rig);
    rig.options.ring_bytes = DEV_SEQUENCE_RING_BYTES_MIN;
    rig_boot(&rig);
    for (unsigned i = 0; i < 5000; i++) {
        record_random(&rig, &prng, 300, i);
    }
    struct dev_sequence_stats stats;
    dev_sequence_stats(rig.sequence, &stats);
    assert_true(stats.stored + stats.waiting == 5000);
    assert_int_equal(stats.lost[DEV_GAP_STORE], 0);
    struct walk walk = {.rig = &rig};
    assert_int_equal(dev_sequence_each(rig.sequence, rig.now, &whole, check_event, &walk), BASE_OK);
    assert_int_equal(walk.at, 5000);
    rig_done(&rig);
}

static void the_store_is_bounded(void **state)
{
    (void)state;
    struct base_prng prng;
    struct rig rig;
    test_seed(&prng);
    rig_init(&rig);
    rig.options.store_bytes = 50000;
    rig.options.ring_bytes = DEV_SEQUENCE_RING_BYTES_MIN;
    rig_boot(&rig);
    for (unsigned i = 0; i < 6000; i++) {
        record_random(&rig, &prng, 100, i);
        (void)step(&rig);
        assert_true(dev_collect_usage(rig.collect, DEV_SPACE_EVENTS) <= 50000);
    }
    struct dev_sequence_stats stats;
    dev_sequence_stats(rig.sequence, &stats);
    assert_true(stats.evicted_blocks > 5);
    assert_true(dev_collect_usage(rig.collect, DEV_SPACE_EVENTS) > 35000);
    struct walk walk = {.rig = &rig, .at = (uint32_t)stats.evicted_events};
    assert_int_equal(dev_sequence_each(rig.sequence, rig.now, &whole, check_event, &walk), BASE_OK);
    assert_int_equal(walk.at, 6000); // the youngest, all of them
    // By age: everything but the last moment.
    uint64_t wall = rig.now / MS;
    assert_int_equal(dev_sequence_evict(rig.sequence, rig.now, wall + 5000, 4000), BASE_OK);
    assert_int_equal(dev_collect_flush(rig.collect, rig.now), BASE_OK);
    assert_int_equal(rig.kv.spaces[DEV_SPACE_EVENTS].count, 0);
    rig_done(&rig);
}

// A store that takes nothing for long: the ring goes on, what falls out of it is a gap.
static void what_cannot_be_stored_in_time_is_a_gap(void **state)
{
    (void)state;
    struct base_prng prng;
    struct rig rig;
    struct dev_gap gaps[DEV_SEQUENCE_GAPS];
    test_seed(&prng);
    rig_init(&rig);
    rig.options.ring_bytes = DEV_SEQUENCE_RING_BYTES_MIN;
    rig_boot(&rig);
    rig.kv.fail_from = rig.kv.commits + 1;
    for (unsigned i = 0; i < 3000; i++) {
        record_random(&rig, &prng, 100, i);
        rig.now += 20 * MS;
        (void)step(&rig);
        assert_true(dev_sequence_validate(rig.sequence));
    }
    rig.kv.fail_from = 0;
    rig.now += 60 * (uint64_t)S;
    (void)step(&rig);
    (void)step(&rig);
    struct dev_sequence_stats stats;
    dev_sequence_stats(rig.sequence, &stats);
    assert_true(stats.lost[DEV_GAP_STORE] > 100);
    assert_true(stats.stored + stats.lost[DEV_GAP_STORE] == 3000);
    assert_true(stats.refused > 0);
    assert_int_equal(dev_sequence_gaps(rig.sequence, gaps), 1);
    assert_true(gaps[0].count == stats.lost[DEV_GAP_STORE] && gaps[0].why == DEV_GAP_STORE);
    uint64_t lost = stats.lost[DEV_GAP_STORE];
    assert_int_equal(dev_collect_flush(rig.collect, rig.now), BASE_OK);
    rig_boot(&rig); // the account is kept
    dev_sequence_stats(rig.sequence, &stats);
    assert_true(stats.lost[DEV_GAP_STORE] == lost);
    assert_int_equal(dev_sequence_gaps(rig.sequence, gaps), 2); // and what was reserved
    assert_true(gaps[0].why == DEV_GAP_STORE && gaps[1].why == DEV_GAP_KILL);
    rig_done(&rig);
}

// ---- Kills

static bool count_stored(void *ctx, const struct dev_event *event)
{
    struct walk *walk = ctx;
    const struct rig *rig = walk->rig;
    while (walk->at < rig->count && rig->seen[walk->at].seq < event->seq) {
        const struct seen *missing = &rig->seen[walk->at++];
        bool declared = false;
        for (uint32_t i = 0; i < rig->gap_count; i++) {
            declared = declared || (missing->seq >= rig->gaps[i].first &&
                                    missing->seq - rig->gaps[i].first < rig->gaps[i].count);
        }
        assert_true(declared);
    }
    return check_event(walk, event);
}

static void kills_lose_a_declared_tail_and_nothing_durable(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    uint64_t lost_events = 0;
    for (unsigned round = 0; round < 40; round++) {
        struct rig rig;
        rig_init(&rig);
        int64_t number = 0;
        rig_boot(&rig);
        for (unsigned life = 0; life < 5; life++) {
            uint32_t durable = rig.count; // of the list, said to be stored
            uint64_t putted = 0;          // changes when the newest block was put
            uint32_t putted_count = rig.count;
            rig.kv.kill_at = rig.kv.commits + 1 + base_prng_below(&prng, 12);
            rig.kv.kill_applied = base_prng_below(&prng, 2) == 0;
            while (!rig.kv.killed) {
                record_random(&rig, &prng, 200, number++);
                rig.now += base_prng_below(&prng, 60) * MS;
                (void)dev_sequence_step(rig.sequence, rig.now);
                struct dev_sequence_stats stats;
                dev_sequence_stats(rig.sequence, &stats);
                if (stats.waiting == 0) {
                    putted = dev_collect_changes(rig.collect);
                    putted_count = rig.count;
                }
                (void)dev_collect_step(rig.collect, rig.now);
                if (dev_collect_durable(rig.collect) >= putted && putted > 0) {
                    durable = putted_count;
                }
            }
            mem_kv_revive(&rig.kv);
            rig_boot(&rig); // declares the gap, into rig.gaps
            struct walk walk = {.rig = &rig};
            assert_int_equal(dev_sequence_each(rig.sequence, rig.now, &whole, count_stored, &walk),
                             BASE_OK);
            assert_true(walk.at >= durable);
            assert_true(rig.count - walk.at <= 2 * DEV_SEQUENCE_BLOCK_EVENTS);
            lost_events += rig.count - walk.at;
            for (uint32_t i = walk.at; i < rig.count; i++) { // the tail is declared
                const struct dev_gap *gap = &rig.gaps[rig.gap_count - 1];
                assert_true(gap->why == DEV_GAP_KILL);
                assert_true(rig.seen[i].seq >= gap->first &&
                            rig.seen[i].seq - gap->first < gap->count);
            }
            if (walk.at > 0) { // and what is stored is not
                const struct dev_gap *gap = &rig.gaps[rig.gap_count - 1];
                assert_true(rig.seen[walk.at - 1].seq < gap->first);
            }
            rig.count = walk.at; // the tail never happened
        }
        rig_done(&rig);
    }
    printf("%llu events lost in 200 kills\n", (unsigned long long)lost_events);
    assert_true(lost_events > 0);
}

static void damaged_blocks_are_stepped_over(void **state)
{
    (void)state;
    struct base_prng prng;
    struct rig rig;
    test_seed(&prng);
    rig_init(&rig);
    rig.options.ring_bytes = DEV_SEQUENCE_RING_BYTES_MIN;
    rig_boot(&rig);
    for (unsigned i = 0; i < 2000; i++) {
        record_random(&rig, &prng, 50, i);
        (void)step(&rig);
    }
    const struct mem_kv_row *row = &rig.kv.spaces[DEV_SPACE_EVENTS].rows[0];
    assert_int_equal(mem_kv_damage(&rig.kv, DEV_SPACE_EVENTS, row->bytes, row->key_size, 0),
                     BASE_OK);
    struct walk walk = {.rig = &rig};
    uint64_t last = 0;
    for (size_t i = 8; i < 16; i++) {
        last = last << 8 | row->bytes[i];
    }
    walk.at = index_of(&rig, last + 1);
    assert_int_equal(dev_sequence_each(rig.sequence, rig.now, &whole, check_event, &walk), BASE_OK);
    assert_int_equal(walk.at, rig.count);
    struct dev_sequence_stats stats;
    dev_sequence_stats(rig.sequence, &stats);
    assert_int_equal(stats.damaged_blocks, 1);
    rig_done(&rig);
}

// All of the runtime's memory for events but triggers and streams: 256 KB are to hold everything.
static void memory_is_bounded(void **state)
{
    (void)state;
    const struct dev_recorder_options recorder = {0};
    const struct dev_sequence_options sequence = {0};
    size_t parts[] = {dev_collect_bytes(), dev_recorder_bytes(&recorder),
                      dev_sequence_bytes(&sequence), dev_feature_store_bytes()};
    printf("collect %zu, recorder %zu, sequences %zu, features %zu bytes\n", parts[0], parts[1],
           parts[2], parts[3]);
    assert_true(parts[0] + parts[1] + parts[2] + parts[3] <= 208 * 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_and_store_give_every_sequence),
        cmocka_unit_test(a_block_is_stored_when_it_is_due),
        cmocka_unit_test(a_burst_is_stored_as_it_comes),
        cmocka_unit_test(the_store_is_bounded),
        cmocka_unit_test(what_cannot_be_stored_in_time_is_a_gap),
        cmocka_unit_test(kills_lose_a_declared_tail_and_nothing_durable),
        cmocka_unit_test(damaged_blocks_are_stepped_over),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The recorder: order, numbers without gaps, refusals, overflow, capture against a plain list of
// needs, waking, and four threads that record while one drains.
#include "test_kit.h"

#include "mem/mem_kv.h"
#include "pipeline/record/recorder.h"
#include "wire/event_attrs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

struct taken {
    struct dev_event event;
    char page[DEV_EVENT_PAGE_MAX + 1];
    char name[DEV_EVENT_NAME_MAX + 1];
    uint8_t attrs[DEV_EVENT_ATTRS_BYTES];
};

#define TAKEN_MAX 3000

static const struct dev_kv_key last_key = {DEV_SPACE_FEATURES, "last", 4};

static struct base_span bytes_of(const void *data, size_t size)
{
    return (struct base_span){data, size};
}

struct rig {
    struct mem_kv kv;
    struct dev_kv_port port;
    struct dev_collect *collect;
    struct dev_recorder *recorder;
    void *collect_memory;
    void *recorder_memory;
    struct dev_recorder_options options;
    struct dev_recorder_sink sink;
    struct taken *taken;
    uint32_t taken_count;
    uint64_t next; // seq the sink expects at least
    uint64_t lost;
    uint64_t unseen;
    uint64_t killed;
    uint32_t ends[DEV_VISIT_END_COUNT];
    _Atomic uint32_t woken;
};

static void on_event(void *ctx, const struct dev_event *event)
{
    struct rig *rig = ctx;
    assert_true(event->seq >= rig->next);
    rig->unseen += event->seq - rig->next;
    rig->next = event->seq + 1;
    assert_int_equal(wire_event_attrs_check(event->attrs, event->attrs_bytes, event->attr_count),
                     BASE_OK);
    if (rig->taken_count < TAKEN_MAX) {
        struct taken *taken = &rig->taken[rig->taken_count];
        taken->event = *event;
        memcpy(taken->page, event->page.data, event->page.size);
        taken->page[event->page.size] = '\0';
        if (event->name.size > 0) {
            memcpy(taken->name, event->name.data, event->name.size);
        }
        taken->name[event->name.size] = '\0';
        memcpy(taken->attrs, event->attrs, event->attrs_bytes);
        taken->event.attrs = taken->attrs;
    }
    rig->taken_count++;
}

static void on_gap(void *ctx, const struct dev_gap *gap)
{
    struct rig *rig = ctx;
    assert_true(gap->count > 0);
    assert_true(gap->first >= rig->next);
    rig->unseen += gap->first - rig->next;
    rig->next = gap->first + gap->count;
    rig->lost += gap->why == DEV_GAP_OVERFLOW ? gap->count : 0;
    rig->killed += gap->why == DEV_GAP_KILL ? gap->count : 0;
}

static void on_visit_end(void *ctx, const struct dev_visit *visit, enum dev_visit_end why)
{
    struct rig *rig = ctx;
    assert_true(visit->number != 0);
    rig->ends[why]++;
}

static void wake(void *ctx)
{
    struct rig *rig = ctx;
    atomic_fetch_add(&rig->woken, 1);
}

static void rig_start(struct rig *rig)
{
    size_t bytes = dev_recorder_bytes(&rig->options);
    free(rig->collect_memory);
    free(rig->recorder_memory);
    rig->collect_memory = malloc(dev_collect_bytes());
    rig->recorder_memory = malloc(bytes);
    memset(rig->recorder_memory, 0xa5, bytes);
    assert_int_equal(
        dev_collect_init(rig->collect_memory, dev_collect_bytes(), &rig->port, &rig->collect),
        BASE_OK);
    assert_int_equal(dev_collect_boot(rig->collect, 0), BASE_OK);
    rig->options.collect = rig->collect;
    assert_int_equal(dev_recorder_init(rig->recorder_memory, bytes, &rig->options, &rig->recorder),
                     BASE_OK);
}

static void rig_boot(struct rig *rig, uint64_t mono_us)
{
    rig_start(rig);
    assert_int_equal(dev_recorder_boot(rig->recorder, 0, mono_us, &rig->sink), BASE_OK);
}

static void rig_init(struct rig *rig)
{
    *rig = (struct rig){.next = 1};
    mem_kv_init(&rig->kv);
    rig->port = mem_kv_port(&rig->kv);
    rig->taken = calloc(TAKEN_MAX, sizeof(*rig->taken));
    rig->options =
        (struct dev_recorder_options){.entropy = 99, .boot_id = 5, .wake = wake, .wake_ctx = rig};
    rig->sink = (struct dev_recorder_sink){
        .ctx = rig, .on_event = on_event, .on_gap = on_gap, .on_visit_end = on_visit_end};
}

static void rig_done(struct rig *rig)
{
    free(rig->collect_memory);
    free(rig->recorder_memory);
    free(rig->taken);
    mem_kv_done(&rig->kv);
}

static enum base_status record(struct rig *rig, enum dev_event_kind kind, const char *page)
{
    const struct dev_recording recording = {.kind = kind, .page = base_str_of(page), .mono_us = 7};
    return dev_record(rig->recorder, &recording);
}

static void events_come_out_in_order_with_visits(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig_boot(&rig, 100);
    assert_int_equal(record(&rig, DEV_EVENT_ENTER, "home"), BASE_OK);
    assert_int_equal(record(&rig, DEV_EVENT_SCROLL, "home"), BASE_OK);
    assert_int_equal(record(&rig, DEV_EVENT_EXIT, "home"), BASE_OK);
    const struct dev_event_attr attrs[] = {
        {.name = BASE_STR("price"), .type = DEV_ATTR_REAL, .real = 2.5},
        {.name = BASE_STR("note"), .type = DEV_ATTR_STRING, .text = BASE_STR("x")}};
    const struct dev_recording custom = {
        .kind = DEV_EVENT_CUSTOM,
        .instance = 4,
        .name = BASE_STR("share"),
        .page = BASE_STR("item"),
        .item = BASE_STR("42"),
        .wall_ms = 1000,
        .mono_us = 2000,
        .attrs = attrs,
        .attr_count = 2,
    };
    assert_int_equal(dev_record(rig.recorder, &custom), BASE_OK);
    assert_int_equal(dev_recorder_drain(rig.recorder, 0, 3, &rig.sink), 3);
    assert_int_equal(dev_recorder_drain(rig.recorder, 0, 0, &rig.sink), 1);
    assert_int_equal(rig.taken_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(rig.taken[i].event.seq == i + 1);
        assert_int_equal(rig.taken[i].event.visit, i < 3 ? 1 : 0);
        assert_int_equal(rig.taken[i].event.boot, 1);
    }
    assert_int_equal(rig.ends[DEV_VISIT_EXIT], 1);
    const struct dev_event *event = &rig.taken[3].event;
    uint64_t secret = dev_recorder_secret(rig.recorder);
    assert_true(secret == 99);
    assert_true(event->page_hash == dev_event_hash(secret, BASE_STR("item")));
    assert_true(event->item_hash == dev_event_hash(secret, BASE_STR("42")));
    assert_true(event->name_hash == dev_event_hash(secret, BASE_STR("share")));
    assert_int_equal(event->instance, 4);
    assert_true(event->wall_ms == 1000 && event->mono_us == 2000);
    struct dev_event_attr attr;
    assert_int_equal(event->attr_count, 2);
    assert_int_equal(dev_event_attr(event, BASE_STR("price"), &attr), BASE_OK);
    assert_true(attr.real == 2.5);
    rig_done(&rig);
}

static void bad_recordings_are_refused(void **state)
{
    (void)state;
    static char text[DEV_EVENT_ATTRS_BYTES];
    memset(text, 'x', sizeof(text));
    const struct dev_event_attr twice[2] = {{.name = BASE_STR("a"), .type = DEV_ATTR_BOOLEAN},
                                            {.name = BASE_STR("a"), .type = DEV_ATTR_BOOLEAN}};
    const struct dev_event_attr large = {
        .name = BASE_STR("a"), .type = DEV_ATTR_STRING, .text = {text, sizeof(text)}};
    const struct dev_recording good = {.kind = DEV_EVENT_CLICK, .page = BASE_STR("p")};
    struct dev_recording bad[9];
    for (unsigned i = 0; i < TEST_COUNT(bad); i++) {
        bad[i] = good;
    }
    bad[0].kind = (enum dev_event_kind)0;
    bad[1].kind = DEV_EVENT_KIND_END;
    bad[2].page = BASE_STR("");
    bad[3].page = BASE_STR("a\tb");
    bad[4].item = BASE_STR("\xc3");
    bad[5].name = BASE_STR("named");
    bad[6].kind = DEV_EVENT_CUSTOM;
    bad[7].attrs = twice;
    bad[7].attr_count = 2;
    bad[8].attrs = twice;
    bad[8].attr_count = 1;
    bad[8].page = (struct base_str){text, DEV_EVENT_PAGE_MAX + 1};
    struct rig rig;
    rig_init(&rig);
    rig_boot(&rig, 0);
    for (unsigned i = 0; i < TEST_COUNT(bad); i++) {
        enum base_status wanted = i < 8 ? BASE_ERR_INVALID : BASE_ERR_TOO_LARGE;
        enum base_status got = dev_record(rig.recorder, &bad[i]);
        if (got != wanted) {
            fail_msg("recording %u: %s", i, base_status_name(got));
        }
    }
    struct dev_recording heavy = good;
    heavy.attrs = &large;
    heavy.attr_count = 1;
    assert_int_equal(dev_record(rig.recorder, &heavy), BASE_ERR_TOO_LARGE);
    assert_int_equal(dev_record(rig.recorder, &good), BASE_OK);
    assert_int_equal(dev_recorder_drain(rig.recorder, 0, 0, &rig.sink), 1);
    assert_true(rig.taken[0].event.seq == 1); // what is refused has no seq
    struct dev_recorder_stats stats;
    dev_recorder_stats(rig.recorder, &stats);
    assert_int_equal(stats.invalid, TEST_COUNT(bad) + 1);
    struct dev_recorder *out;
    rig.options.ring_bytes = 20000;
    assert_int_equal(dev_recorder_init(rig.recorder_memory, SIZE_MAX, &rig.options, &out),
                     BASE_ERR_INVALID);
    rig_done(&rig);
}

// Events of every size for many laps of the ring, with overflows in between: each has its seq, what
// is missing is declared.
static void laps_and_overflows_are_accounted_for(void **state)
{
    (void)state;
    static char text[DEV_EVENT_ATTRS_BYTES];
    memset(text, 'x', sizeof(text));
    struct base_prng prng;
    struct rig rig;
    test_seed(&prng);
    rig_init(&rig);
    rig.options.ring_bytes = DEV_RECORDER_RING_BYTES_MIN;
    rig_boot(&rig, 0);
    uint64_t accepted = 0;
    uint64_t lost = 0;
    for (unsigned round = 0; round < 20000; round++) {
        const struct dev_event_attr attr = {
            .name = BASE_STR("a"),
            .type = DEV_ATTR_STRING,
            .text = {text, (size_t)base_prng_below(&prng, base_prng_below(&prng, 8) == 0
                                                              ? DEV_EVENT_ATTRS_BYTES - 4
                                                              : 100)}};
        const struct dev_recording recording = {
            .kind = DEV_EVENT_CLICK,
            .page = {"abcdefgh", 1 + (size_t)base_prng_below(&prng, 8)},
            .attrs = &attr,
            .attr_count = 1,
        };
        enum base_status status = dev_record(rig.recorder, &recording);
        assert_true(status == BASE_OK || status == BASE_ERR_LIMIT);
        accepted += status == BASE_OK ? 1 : 0;
        lost += status == BASE_OK ? 0 : 1;
        if (base_prng_below(&prng, 30) == 0) {
            (void)dev_recorder_drain(rig.recorder, 0, (uint32_t)base_prng_below(&prng, 40),
                                     &rig.sink);
        }
    }
    (void)dev_recorder_drain(rig.recorder, 0, 0, &rig.sink);
    assert_int_equal(rig.taken_count, accepted);
    assert_true(rig.lost == lost);
    assert_true(lost > 100);
    assert_int_equal(rig.unseen, 0);
    assert_true(rig.next == 20001);
    rig_done(&rig);
}

static void waking_happens_once_for_each_sleep(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig_boot(&rig, 0);
    assert_int_equal(record(&rig, DEV_EVENT_CLICK, "p"), BASE_OK);
    assert_int_equal(rig.woken, 0); // nobody slept yet
    for (uint32_t i = 1; i < 5; i++) {
        (void)dev_recorder_drain(rig.recorder, 0, 0, &rig.sink);
        assert_int_equal(record(&rig, DEV_EVENT_CLICK, "p"), BASE_OK);
        assert_int_equal(record(&rig, DEV_EVENT_CLICK, "p"), BASE_OK);
        assert_int_equal(rig.woken, i);
    }
    assert_int_equal(dev_recorder_drain(rig.recorder, 0, 1, &rig.sink), 1);
    assert_int_equal(record(&rig, DEV_EVENT_CLICK, "p"), BASE_OK);
    assert_int_equal(rig.woken, 4); // it did not come to the end: it is still awake
    rig_done(&rig);
}

// ---- Numbers across processes

static void numbers_go_on_after_a_kill(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig_boot(&rig, 100);
    assert_int_equal(record(&rig, DEV_EVENT_ENTER, "p"), BASE_OK);
    assert_int_equal(record(&rig, DEV_EVENT_ENTER, "q"), BASE_OK);
    (void)dev_recorder_drain(rig.recorder, 0, 0, &rig.sink);
    assert_int_equal(dev_recorder_checkpoint(rig.recorder, 0, UINT64_MAX), BASE_OK);
    assert_int_equal(dev_collect_flush(rig.collect, 0), BASE_OK);
    assert_int_equal(record(&rig, DEV_EVENT_ENTER, "r"), BASE_OK); // goes with the process
    (void)dev_recorder_drain(rig.recorder, 0, 0, &rig.sink);
    uint64_t seen = rig.next;
    uint32_t last_visit = rig.taken[2].event.visit;
    rig.next = 3; // 1 and 2 were stored
    rig_boot(&rig, 200);
    assert_int_equal(rig.ends[DEV_VISIT_KILLED], 2);
    assert_true(rig.killed > 0 && rig.next >= seen);
    assert_int_equal(record(&rig, DEV_EVENT_ENTER, "p"), BASE_OK);
    (void)dev_recorder_drain(rig.recorder, 0, 0, &rig.sink);
    assert_int_equal(rig.unseen, 0);
    assert_true(rig.taken[3].event.seq >= seen);
    assert_true(rig.taken[3].event.visit > last_visit);
    assert_int_equal(rig.taken[3].event.boot, 1); // the device did not boot anew

    // Another boot: its number is another.
    assert_int_equal(dev_recorder_checkpoint(rig.recorder, 0, UINT64_MAX), BASE_OK);
    assert_int_equal(dev_collect_flush(rig.collect, 0), BASE_OK);
    rig.options.boot_id = 6;
    rig.options.entropy = 1; // the secret stays
    rig_boot(&rig, 10);
    assert_true(dev_recorder_secret(rig.recorder) == 99);
    assert_int_equal(record(&rig, DEV_EVENT_CLICK, "p"), BASE_OK);
    (void)dev_recorder_drain(rig.recorder, 0, 0, &rig.sink);
    assert_int_equal(rig.unseen, 0);
    assert_int_equal(rig.taken[4].event.boot, 2);
    assert_int_equal(dev_recorder_checkpoint(rig.recorder, 0, UINT64_MAX), BASE_OK);
    assert_int_equal(dev_collect_flush(rig.collect, 0), BASE_OK);
    rig_boot(&rig, 5); // the same boot id, but the clock went back
    struct dev_recorder_stats stats;
    dev_recorder_stats(rig.recorder, &stats);
    assert_int_equal(stats.boot, 3);
    rig_done(&rig);
}

// Many more numbers than the reserve has are used up between two steps of the storage: what is
// written down must keep up, or the next process would give them again.
static void numbers_keep_up_with_what_is_lost(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig_boot(&rig, 100);
    for (uint32_t i = 0; i < 3 * DEV_RECORDER_RESERVE_SEQS; i++) {
        enum base_status status = record(&rig, DEV_EVENT_CLICK, "p");
        assert_true(status == BASE_OK || status == BASE_ERR_LIMIT);
    }
    (void)dev_recorder_drain(rig.recorder, 0, 0, &rig.sink);
    assert_true(rig.lost > DEV_RECORDER_RESERVE_SEQS);
    uint64_t used = rig.next;
    rig.next = 1; // nothing was stored
    rig_boot(&rig, 200);
    assert_true(rig.killed >= used - 1);
    assert_true(rig.next >= used);
    rig_done(&rig);
}

static void damaged_numbers_are_made_anew_above_the_stored(void **state)
{
    (void)state;
    for (size_t at = 0; at < 60; at++) {
        struct rig rig;
        rig_init(&rig);
        rig_boot(&rig, 0);
        assert_int_equal(record(&rig, DEV_EVENT_ENTER, "p"), BASE_OK);
        (void)dev_recorder_drain(rig.recorder, 0, 0, &rig.sink);
        static const uint8_t key[16] = {0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 1, 0, 0};
        struct dev_kv_key row = {DEV_SPACE_EVENTS, key, 16};
        assert_int_equal(dev_collect_put(rig.collect, 0, row, bytes_of("block", 5), false),
                         BASE_OK);
        assert_int_equal(dev_collect_flush(rig.collect, 0), BASE_OK);
        assert_int_equal(mem_kv_damage(&rig.kv, DEV_SPACE_STATE, "recorder", 8, at), BASE_OK);
        rig_boot(&rig, 0);
        struct dev_recorder_stats stats;
        dev_recorder_stats(rig.recorder, &stats);
        assert_int_equal(stats.damaged, 1);
        assert_true(stats.next_seq > 65536);
        assert_int_equal(stats.visits.count, 0);
        assert_true(stats.visits.next > 65536);
        rig_done(&rig);
    }
}

// The store takes nothing: no number is given that is not reserved, nothing is lost unaccounted.
static void a_full_store_holds_events_back(void **state)
{
    (void)state;
    struct rig rig;
    char key[16];
    rig_init(&rig);
    rig_boot(&rig, 0);
    rig.kv.fail_from = 1;
    enum base_status status = BASE_OK;
    for (unsigned i = 0; status == BASE_OK; i++) { // fills the buffer of collect
        (void)snprintf(key, sizeof(key), "%u", i);
        struct dev_kv_key row = {DEV_SPACE_STATE, key, strlen(key)};
        status = dev_collect_put(rig.collect, 0, row, bytes_of(key, 16), false);
    }
    assert_int_equal(status, BASE_ERR_BUSY);
    uint64_t drained = 0;
    for (unsigned i = 0; i < DEV_RECORDER_RESERVE_SEQS + 10; i++) {
        assert_int_equal(record(&rig, DEV_EVENT_CLICK, "p"), BASE_OK);
        drained += dev_recorder_drain(rig.recorder, 0, 0, &rig.sink);
    }
    assert_true(drained == DEV_RECORDER_RESERVE_SEQS + 1); // all that was reserved, none beyond
    rig.kv.fail_from = 0;
    assert_int_equal(dev_collect_flush(rig.collect, 0), BASE_OK);
    assert_int_equal(dev_recorder_drain(rig.recorder, 0, 0, &rig.sink), 9);
    assert_true(rig.next == DEV_RECORDER_RESERVE_SEQS + 11);
    assert_int_equal(rig.unseen + rig.lost, 0);
    rig_done(&rig);
}

// Whatever is stored after a kill at any commit, the next process gives greater numbers.
static void no_number_is_given_twice(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 60; round++) {
        struct rig rig;
        rig_init(&rig);
        uint64_t stored_seq = 0; // greatest that a stored row carries
        uint32_t stored_visit = 0;
        for (unsigned life = 0; life < 6; life++) {
            mem_kv_revive(&rig.kv);
            rig.next = 0; // without a checkpoint the gap begins before what is stored
            rig.taken_count = 0;
            rig_boot(&rig, life);
            rig.kv.kill_at = rig.kv.commits + 1 + base_prng_below(&prng, 6);
            rig.kv.kill_applied = base_prng_below(&prng, 2) == 0;
            for (unsigned step = 0; step < 400 && !rig.kv.killed; step++) {
                (void)record(&rig, (enum dev_event_kind)(1 + base_prng_below(&prng, 5)),
                             base_prng_below(&prng, 2) == 0 ? "p" : "q");
                (void)dev_recorder_drain(rig.recorder, 0, 0, &rig.sink);
                const struct dev_event *event = &rig.taken[rig.taken_count - 1].event;
                assert_true(event->seq > stored_seq);
                assert_true(event->kind != DEV_EVENT_ENTER || event->visit > stored_visit);
                uint64_t row[2] = {event->seq, event->visit};
                enum base_status put =
                    dev_collect_put(rig.collect, 0, last_key, bytes_of(row, sizeof(row)), false);
                assert_true(put == BASE_OK || rig.kv.killed);
                if (base_prng_below(&prng, 10) == 0) {
                    enum base_status flushed = dev_collect_flush(rig.collect, 0);
                    assert_true(flushed == BASE_OK || rig.kv.killed);
                }
            }
            mem_kv_revive(&rig.kv);
            uint64_t row[2] = {0, 0};
            size_t size = 0;
            enum base_status status = rig.port.get(rig.port.ctx, last_key, row, sizeof(row), &size);
            assert_true(status == BASE_OK || status == BASE_ERR_NOT_FOUND);
            stored_seq = row[0];
            stored_visit = row[1] > stored_visit ? (uint32_t)row[1] : stored_visit;
        }
        rig_done(&rig);
    }
}

// ---- Capture

#define NEEDS 12

struct need {
    uint32_t kinds;
    const char *page;
    const char *name;
    const char *attrs[2];
    uint32_t attr_count;
    bool every_attr;
};

static bool need_matches(const struct need *need, const struct taken *event)
{
    return (need->kinds >> event->event.kind & 1) != 0 &&
           (need->page[0] == '\0' || strcmp(need->page, event->page) == 0) &&
           (need->name[0] == '\0' || strcmp(need->name, event->name) == 0);
}

static const char *const pages[] = {"home", "item", "cart", "pay"};
static const char *const names[] = {"share", "like"};
static const char *const attr_names[] = {"a", "b", "c", "d"};

static struct need random_need(struct base_prng *prng)
{
    struct need need = {
        .kinds = (uint32_t)(2 + 2 * base_prng_below(prng, 63)),
        .page = base_prng_below(prng, 4) == 0 ? "" : pages[base_prng_below(prng, 4)],
        .name = "",
        .attr_count = (uint32_t)base_prng_below(prng, 3),
        .every_attr = base_prng_below(prng, 8) == 0,
    };
    if (base_prng_below(prng, 3) == 0) {
        need.kinds = 1u << DEV_EVENT_CUSTOM;
        need.name = names[base_prng_below(prng, 2)];
    }
    for (uint32_t i = 0; i < need.attr_count; i++) {
        need.attrs[i] = attr_names[base_prng_below(prng, 4)];
    }
    return need;
}

// Checks one event that came out and says whether it should have.
static bool wanted_with(const struct need *needs, uint32_t count, const struct taken *event,
                        bool *attrs)
{
    bool wanted = event->event.kind == DEV_EVENT_ENTER || event->event.kind == DEV_EVENT_EXIT;
    for (uint32_t i = 0; i < count; i++) {
        if (!need_matches(&needs[i], event)) {
            continue;
        }
        wanted = true;
        for (unsigned a = 0; a < TEST_COUNT(attr_names); a++) {
            attrs[a] = attrs[a] || needs[i].every_attr;
            for (uint32_t n = 0; n < needs[i].attr_count; n++) {
                attrs[a] = attrs[a] || strcmp(needs[i].attrs[n], attr_names[a]) == 0;
            }
        }
    }
    return wanted;
}

static uint32_t capture_random(struct rig *rig, struct base_prng *prng, struct need needs[NEEDS])
{
    static struct dev_capture capture;
    uint32_t count = (uint32_t)base_prng_below(prng, 5);
    dev_capture_begin(&capture, dev_recorder_secret(rig->recorder));
    for (uint32_t i = 0; i < count; i++) {
        needs[i] = random_need(prng);
        struct base_str wanted[2] = {base_str_of(needs[i].attrs[0]),
                                     base_str_of(needs[i].attrs[1])};
        const struct dev_capture_need need = {
            .kinds = needs[i].kinds,
            .page = base_str_of(needs[i].page),
            .name = base_str_of(needs[i].name),
            .attrs = wanted,
            .attr_count = needs[i].attr_count,
            .every_attr = needs[i].every_attr,
        };
        assert_int_equal(dev_capture_add(&capture, &need), BASE_OK);
    }
    dev_recorder_capture(rig->recorder, &capture);
    return count;
}

static void capture_keeps_what_is_needed_and_nothing_else(void **state)
{
    (void)state;
    struct base_prng prng;
    struct rig rig;
    test_seed(&prng);
    rig_init(&rig);
    rig_boot(&rig, 0);
    struct dev_event_attr attrs[TEST_COUNT(attr_names)];
    for (unsigned a = 0; a < TEST_COUNT(attr_names); a++) {
        attrs[a] = (struct dev_event_attr){
            .name = base_str_of(attr_names[a]), .type = DEV_ATTR_INTEGER, .integer = a};
    }
    uint64_t seq = 1;
    for (unsigned round = 0; round < 300; round++) {
        struct need needs[NEEDS];
        uint32_t count = capture_random(&rig, &prng, needs);
        for (unsigned i = 0; i < 40; i++, seq++) {
            enum dev_event_kind kind = (enum dev_event_kind)(1 + base_prng_below(&prng, 6));
            struct taken given = {.event = {.kind = kind}};
            (void)snprintf(given.page, sizeof(given.page), "%s", pages[base_prng_below(&prng, 4)]);
            if (kind == DEV_EVENT_CUSTOM) {
                (void)snprintf(given.name, sizeof(given.name), "%s",
                               names[base_prng_below(&prng, 2)]);
            }
            const struct dev_recording recording = {
                .kind = kind,
                .name = base_str_of(given.name),
                .page = base_str_of(given.page),
                .attrs = attrs,
                .attr_count = TEST_COUNT(attrs),
            };
            rig.taken_count = 0;
            assert_int_equal(dev_record(rig.recorder, &recording), BASE_OK);
            (void)dev_recorder_drain(rig.recorder, 0, 0, &rig.sink);
            bool wanted_attrs[TEST_COUNT(attr_names)] = {false};
            bool wanted = wanted_with(needs, count, &given, wanted_attrs);
            assert_int_equal(rig.taken_count, wanted ? 1 : 0);
            if (!wanted) {
                continue;
            }
            assert_true(rig.taken[0].event.seq == seq);
            for (unsigned a = 0; a < TEST_COUNT(attr_names); a++) {
                struct dev_event_attr attr;
                bool there = dev_event_attr(&rig.taken[0].event, base_str_of(attr_names[a]),
                                            &attr) == BASE_OK;
                assert_int_equal(there, wanted_attrs[a]);
            }
        }
    }
    struct dev_recorder_stats stats;
    dev_recorder_stats(rig.recorder, &stats);
    assert_true(stats.unneeded > 0 && stats.unneeded + stats.kept == stats.recorded);
    assert_true(stats.recorded == seq - 1);
    rig_done(&rig);
}

static void a_full_capture_takes_more_rather_than_less(void **state)
{
    (void)state;
    static struct dev_capture capture;
    struct dev_capture_set set;
    char page[16];
    dev_capture_begin(&capture, 3);
    for (unsigned i = 0; i < DEV_CAPTURE_NEEDS_MAX + 50; i++) {
        int size = snprintf(page, sizeof(page), "page%u", i);
        int attr_size = snprintf(page + 8, 8, "a%u", i);
        const struct base_str attr = {page + 8, (size_t)attr_size};
        const struct dev_capture_need need = {.kinds = 1u << DEV_EVENT_CLICK,
                                              .page = {page, (size_t)(size < 8 ? size : 7)},
                                              .attrs = &attr,
                                              .attr_count = 1};
        assert_int_equal(dev_capture_add(&capture, &need), BASE_OK);
        dev_capture_find(&capture, DEV_EVENT_CLICK, dev_event_hash(3, need.page), 0, &set);
        assert_true(set.wanted);
        assert_true(dev_capture_wants_attr(&capture, &set, attr));
    }
    assert_true(capture.widened > 0);
    const struct dev_capture_need bad[] = {
        {.kinds = 0},
        {.kinds = 1},
        {.kinds = 1u << DEV_EVENT_KIND_END},
        {.kinds = 1u << DEV_EVENT_CLICK, .name = BASE_STR("named")},
        {.kinds = 1u << DEV_EVENT_CUSTOM, .name = BASE_STR("Named")},
    };
    for (unsigned i = 0; i < TEST_COUNT(bad); i++) {
        assert_int_equal(dev_capture_add(&capture, &bad[i]), BASE_ERR_INVALID);
    }
}

// ---- Threads

#define THREADS 4

struct shouter {
    struct rig *rig;
    uint32_t number;
    uint32_t count;
    _Atomic uint64_t *accepted;
    _Atomic uint64_t *lost;
};

static void *shout(void *ctx)
{
    struct shouter *shouter = ctx;
    struct base_prng prng;
    base_prng_seed(&prng, shouter->number);
    for (uint32_t i = 0; i < shouter->count; i++) {
        const struct dev_event_attr attr = {
            .name = BASE_STR("i"), .type = DEV_ATTR_INTEGER, .integer = i};
        bool unneeded = base_prng_below(&prng, 3) == 0;
        const struct dev_recording recording = {
            .kind = unneeded ? DEV_EVENT_SCROLL : DEV_EVENT_CLICK,
            .instance = shouter->number,
            .page = unneeded ? BASE_STR("other") : BASE_STR("page"),
            .attrs = &attr,
            .attr_count = 1,
        };
        enum base_status status = dev_record(shouter->rig->recorder, &recording);
        assert_true(status == BASE_OK || status == BASE_ERR_LIMIT);
        atomic_fetch_add(status == BASE_OK ? shouter->accepted : shouter->lost, 1);
        if (i % 512 == 511) {
            (void)usleep(100); // let the other side run on a machine with few cores
        }
    }
    return NULL;
}

struct hearer {
    struct rig rig;
    int64_t last[THREADS]; // of each thread, what it counted to
    uint64_t heard;
    uint64_t next;
    uint64_t unseen;
    uint64_t lost;
};

static void hear(void *ctx, const struct dev_event *event)
{
    struct hearer *hearer = ctx;
    struct dev_event_attr attr;
    assert_int_equal(dev_event_attr(event, BASE_STR("i"), &attr), BASE_OK);
    assert_true(attr.integer > hearer->last[event->instance]); // program order of each thread
    hearer->last[event->instance] = attr.integer;
    hearer->heard++;
    assert_true(event->seq >= hearer->next);
    hearer->unseen += event->seq - hearer->next;
    hearer->next = event->seq + 1;
}

static void hear_gap(void *ctx, const struct dev_gap *gap)
{
    struct hearer *hearer = ctx;
    assert_true(gap->first >= hearer->next);
    hearer->unseen += gap->first - hearer->next;
    hearer->next = gap->first + gap->count;
    hearer->lost += gap->count;
}

static void threads_record_while_one_drains(void **state)
{
    (void)state;
    static struct dev_capture capture;
    for (unsigned few = 0; few < 2; few++) {
        struct hearer hearer = {.next = 1, .last = {-1, -1, -1, -1}};
        struct rig *rig = &hearer.rig;
        struct shouter shouters[THREADS];
        pthread_t threads[THREADS];
        _Atomic uint64_t accepted = 0;
        _Atomic uint64_t lost = 0;
        uint32_t count = 20000;
        rig_init(rig);
        rig->options.ring_bytes = few == 0 ? DEV_RECORDER_RING_BYTES_MIN : 256 * 1024;
        rig_boot(rig, 0);
        dev_capture_begin(&capture, dev_recorder_secret(rig->recorder));
        const struct base_str name = BASE_STR("i");
        const struct dev_capture_need need = {.kinds = 1u << DEV_EVENT_CLICK,
                                              .page = BASE_STR("page"),
                                              .attrs = &name,
                                              .attr_count = 1};
        assert_int_equal(dev_capture_add(&capture, &need), BASE_OK);
        dev_recorder_capture(rig->recorder, &capture);
        const struct dev_recorder_sink sink = {
            .ctx = &hearer, .on_event = hear, .on_gap = hear_gap};
        for (uint32_t i = 0; i < THREADS; i++) {
            shouters[i] = (struct shouter){rig, i, count, &accepted, &lost};
            assert_int_equal(pthread_create(&threads[i], NULL, shout, &shouters[i]), 0);
        }
        while (atomic_load(&accepted) + atomic_load(&lost) < (uint64_t)THREADS * count) {
            (void)dev_recorder_drain(rig->recorder, 0, 100, &sink);
            if (few == 0) {
                (void)usleep(200); // a slow drain: the ring fills
            }
        }
        for (uint32_t i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        while (dev_recorder_drain(rig->recorder, 0, 0, &sink) > 0) {
        }
        struct dev_recorder_stats stats;
        dev_recorder_stats(rig->recorder, &stats);
        printf("%llu recorded, %llu kept, %llu unneeded, %llu lost\n",
               (unsigned long long)stats.recorded, (unsigned long long)stats.kept,
               (unsigned long long)stats.unneeded, (unsigned long long)stats.lost);
        assert_true(stats.recorded == (uint64_t)THREADS * count);
        assert_true(stats.kept == hearer.heard && stats.lost == lost && stats.lost == hearer.lost);
        assert_true(stats.kept + stats.unneeded + stats.lost == stats.recorded);
        assert_true(stats.next_seq == stats.recorded + 1);
        assert_true(hearer.unseen <= stats.unneeded);
        rig_done(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_out_in_order_with_visits),
        cmocka_unit_test(bad_recordings_are_refused),
        cmocka_unit_test(laps_and_overflows_are_accounted_for),
        cmocka_unit_test(waking_happens_once_for_each_sleep),
        cmocka_unit_test(numbers_go_on_after_a_kill),
        cmocka_unit_test(numbers_keep_up_with_what_is_lost),
        cmocka_unit_test(damaged_numbers_are_made_anew_above_the_stored),
        cmocka_unit_test(a_full_store_holds_events_back),
        cmocka_unit_test(no_number_is_given_twice),
        cmocka_unit_test(capture_keeps_what_is_needed_and_nothing_else),
        cmocka_unit_test(a_full_capture_takes_more_rather_than_less),
        cmocka_unit_test(threads_record_while_one_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

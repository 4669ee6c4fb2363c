// The table of devices and the tally: memory per device, dirty lists, marks, transitions.
#include "base/alloc.h"
#include "svc/device/device_table.h"
#include "svc/plan/attr_pool.h"
#include "svc/tally/tally.h"
#include "wire/profile.h"

#include "base/prng.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY 1000000u

static const struct base_hash_key key = {1, 2};

static bool offered(struct gw_device_table *table, uint64_t device_id, uint32_t rollout,
                    uint8_t stage, uint32_t now_s)
{
    const struct gw_device_mark offer = {.rollout = rollout,
                                         .offered_s = now_s,
                                         .bits = GW_OUTCOME_OFFERED,
                                         .stage = stage & 15u,
                                         .dirty = 1};
    return gw_device_table_offered(table, device_id, &offer);
}

static bool all_open(void *ctx, uint32_t rollout)
{
    const uint32_t *closed_below = ctx;
    return rollout >= *closed_below;
}

static void test_a_million_devices(void **state)
{
    (void)state;
    struct gw_device_table *table = NULL;
    uint32_t none = 0;
    assert_int_equal(gw_device_table_new(all_open, &none, &key, &table), BASE_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        struct gw_device_touch touch = {base_mix64(i), 1 + i % 1000, 1000, false, 0};
        gw_device_table_touch(table, &touch, 1);
    }
    assert_int_equal(gw_device_table_count(table), MANY);
    assert_int_equal(gw_device_table_dirty(table), MANY);
    uint64_t bytes = gw_device_table_bytes(table);
    print_message("%.1f bytes a device\n", (double)bytes / MANY);
    assert_true(bytes / MANY <= 63);
    assert_true(gw_device_table_validate(table));
    struct gw_device_snapshot *taken = calloc(4096, sizeof(*taken));
    assert_non_null(taken);
    uint64_t total = 0;
    uint32_t count;
    while ((count = gw_device_table_take_dirty(table, taken, 4096)) > 0) {
        total += count;
    }
    assert_int_equal(total, MANY);
    assert_int_equal(gw_device_table_dirty(table), 0);
    // Seen again soon: nothing to save; much later: last_seen is.
    struct gw_device_touch touch = {base_mix64(5), 1 + 5, 1001, false, 0};
    gw_device_table_touch(table, &touch, 1);
    assert_int_equal(gw_device_table_dirty(table), 0);
    touch.now_s = 1001 + GW_LAST_SEEN_SAVE_S;
    gw_device_table_touch(table, &touch, 1);
    assert_int_equal(gw_device_table_dirty(table), 1);
    free(taken);
    gw_device_table_free(table);
}

// Devices that are seen together leave the table as if each had come alone: the last of a device
// counts, and what is new is given in the order of each shard.
static void test_seen_together(void **state)
{
    (void)state;
    enum { TOUCHES = 3000, DEVICES = 700 };
    static struct gw_device_touch touches[TOUCHES];
    struct gw_device_table *tables[2];
    uint32_t none = 0;
    struct base_prng prng;
    base_prng_seed(&prng, 11);
    for (uint32_t i = 0; i < TOUCHES; i++) {
        uint64_t device = base_mix64(base_prng_below(&prng, DEVICES));
        touches[i] = (struct gw_device_touch){device, 1 + i, 1000 + i, device % 3 == 0, i % 5};
    }
    for (uint32_t t = 0; t < 2; t++) {
        assert_int_equal(gw_device_table_new(all_open, &none, &key, &tables[t]), BASE_OK);
    }
    for (uint32_t i = 0; i < TOUCHES; i += GW_TOUCHES_MAX) {
        uint32_t left = TOUCHES - i;
        gw_device_table_touch(tables[0], &touches[i],
                              left < GW_TOUCHES_MAX ? left : GW_TOUCHES_MAX);
    }
    for (uint32_t i = 0; i < TOUCHES; i++) {
        gw_device_table_touch(tables[1], &touches[i], 1);
    }
    static struct gw_device_snapshot taken[2][DEVICES];
    uint32_t counts[2];
    for (uint32_t t = 0; t < 2; t++) {
        assert_true(gw_device_table_validate(tables[t]));
        counts[t] = gw_device_table_take_dirty(tables[t], taken[t], DEVICES);
        assert_int_equal(gw_device_table_dirty(tables[t]), 0);
        gw_device_table_free(tables[t]);
    }
    assert_int_equal(counts[0], counts[1]);
    for (uint32_t i = 0; i < counts[0]; i++) {
        assert_int_equal(taken[0][i].device_id, taken[1][i].device_id);
        assert_int_equal(taken[0][i].attrs_id, taken[1][i].attrs_id);
        assert_int_equal(taken[0][i].first_seen_s, taken[1][i].first_seen_s);
        assert_int_equal(taken[0][i].last_seen_s, taken[1][i].last_seen_s);
        assert_int_equal(taken[0][i].interval_s, taken[1][i].interval_s);
        assert_int_equal(taken[0][i].proven, taken[1][i].proven);
    }
}

// The table says for sure of a number that it has; of higher ones than it keeps the record tells.
static void test_numbers_of_any_size(void **state)
{
    (void)state;
    struct gw_device_table *table = NULL;
    const struct gw_device_touch touch = {7, GW_ATTR_POOL_MAX, 10, true, 0};
    struct gw_device_snapshot got;
    assert_int_equal(gw_device_table_new(NULL, NULL, &key, &table), BASE_OK);
    gw_device_table_touch(table, &touch, 1);
    assert_true(gw_device_table_get(table, 7, &got));
    assert_int_equal(got.attrs_id, GW_ATTR_POOL_MAX);
    for (uint32_t i = 0; i < 2; i++) { // reported, and from a record
        gw_device_table_reported(table, &touch, 5, UINT64_MAX - 1);
        assert_true(gw_device_table_has_report(table, 7, 5, 3, true));
        assert_true(gw_device_table_has_report(table, 7, 5, UINT32_MAX, true));
        assert_false(gw_device_table_has_report(table, 7, 5, UINT64_C(1) << 32, true));
        assert_false(gw_device_table_has_report(table, 7, 6, 3, true));
        got.report_seq = UINT64_MAX;
        got.has_epoch = true;
        got.epoch = 5;
        assert_int_equal(gw_device_table_load(table, &got), BASE_OK);
    }
    gw_device_table_free(table);
}

// However often others have news meanwhile, each is taken in its turn.
static void test_all_are_taken_in_turn(void **state)
{
    (void)state;
    enum { DEVICES = 5000 };
    static uint8_t seen[DEVICES];
    static struct gw_device_snapshot taken[128];
    struct gw_device_table *table = NULL;
    uint32_t now_s = 10;
    uint32_t most = 0;
    assert_int_equal(gw_device_table_new(NULL, NULL, &key, &table), BASE_OK);
    for (uint32_t turn = 0; turn < 3 * DEVICES / 128; turn++) {
        now_s += GW_LAST_SEEN_SAVE_S;
        for (uint32_t i = 0; i < DEVICES; i++) {
            struct gw_device_touch touch = {i, 1, now_s, true, 0};
            gw_device_table_touch(table, &touch, 1);
        }
        assert_int_equal(gw_device_table_take_dirty(table, taken, 128), 128);
        for (uint32_t i = 0; i < 128; i++) {
            seen[taken[i].device_id]++;
        }
        assert_true(gw_device_table_validate(table));
    }
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_in_range(seen[i], 1, 6);
        most = seen[i] > most ? seen[i] : most;
    }
    print_message("taken %u times at most\n", most);
    gw_device_table_free(table);
}

// What a profile may say is kept as it was said.
static void test_room_is_kept_whole(void **state)
{
    (void)state;
    struct gw_device_table *table = NULL;
    struct gw_device_touch touch = {7, 1, 10, true, 0};
    struct gw_device_snapshot got;
    assert_int_equal(gw_device_table_new(NULL, NULL, &key, &table), BASE_OK);
    gw_device_table_touch(table, &touch, 1);
    for (uint32_t i = 0; i < 3; i++) {
        gw_device_table_room(table, 7, WIRE_PROFILE_TASKS_MAX - i, WIRE_PROFILE_TASKS_MAX - 2 * i);
        assert_true(gw_device_table_get(table, 7, &got));
        assert_int_equal(got.tasks_max, WIRE_PROFILE_TASKS_MAX - i);
        assert_int_equal(got.room, WIRE_PROFILE_TASKS_MAX - 2 * i);
        assert_true(got.proven && got.attrs_id == 1);
    }
    gw_device_table_free(table);
}

static void test_marks(void **state)
{
    (void)state;
    struct gw_device_table *table = NULL;
    uint32_t closed_below = 0;
    struct gw_device_touch touch = {7, 1, 10, false, 0};
    struct gw_device_snapshot got;
    assert_int_equal(gw_device_table_new(all_open, &closed_below, &key, &table), BASE_OK);
    assert_false(offered(table, 7, 0, 0, 10)); // not seen yet
    gw_device_table_touch(table, &touch, 1);
    assert_true(offered(table, 7, 0, 2, 11));
    assert_false(offered(table, 7, 0, 3, 12)); // no news
    for (uint32_t i = 1; i < GW_DEVICE_MARKS_MAX; i++) {
        assert_true(offered(table, 7, i, 0, 20));
    }
    assert_false(offered(table, 7, 99, 0, 20)); // full of open rollouts
    assert_true(gw_device_table_get(table, 7, &got));
    assert_int_equal(got.mark_count, GW_DEVICE_MARKS_MAX);
    assert_int_equal(got.marks[0].stage, 2);
    assert_int_equal(got.marks[0].offered_s, 11);
    // Stored, and ten of them closed: there is room again.
    assert_int_equal(gw_device_table_take_dirty(table, &got, 1), 1);
    closed_below = 10;
    assert_true(offered(table, 7, 99, 1, 30));
    assert_true(gw_device_table_get(table, 7, &got));
    assert_int_equal(got.mark_count, GW_DEVICE_MARKS_MAX - 10 + 1);
    // What could not be stored comes back.
    assert_int_equal(gw_device_table_take_dirty(table, &got, 1), 1);
    assert_int_equal(gw_device_table_dirty(table), 0);
    gw_device_table_put_back(table, &got, 1);
    assert_int_equal(gw_device_table_dirty(table), 1);
    struct gw_device_snapshot again;
    assert_int_equal(gw_device_table_take_dirty(table, &again, 1), 1);
    assert_int_equal(again.mark_count, got.mark_count);
    assert_int_equal(again.marks[again.mark_count - 1].dirty, 1);
    assert_true(gw_device_table_validate(table));
    gw_device_table_free(table);
}

// Of rollouts with numbers of any size, activated at any time.
static struct gw_device_mark any_mark(struct base_prng *prng)
{
    const uint32_t offered_s = 1 + (uint32_t)base_prng_below(prng, 2000000000);
    const uint32_t after_s = (uint32_t)base_prng_below(prng, 1u << base_prng_below(prng, 24));
    return (struct gw_device_mark){
        .rollout = (uint32_t)base_prng_below(prng, 1u << (8 + base_prng_below(prng, 20))),
        .offered_s = offered_s,
        .activated_s = base_prng_below(prng, 2) != 0 ? offered_s + after_s : 0,
        .bits = (uint16_t)base_prng_below(prng, 1u << 16),
        .stage = base_prng_below(prng, 16) & 15u,
        .tries = base_prng_below(prng, 16) & 15u,
        .dirty = base_prng_below(prng, 2) != 0,
    };
}

static void assert_mark(struct gw_device_table *table, uint64_t device_id,
                        const struct gw_device_mark *wanted)
{
    struct gw_device_mark got;
    assert_true(gw_device_table_mark(table, device_id, wanted->rollout, &got));
    assert_int_equal(got.offered_s, wanted->offered_s);
    assert_int_equal(got.activated_s, wanted->activated_s);
    assert_int_equal(got.bits, wanted->bits);
    assert_int_equal(got.stage, wanted->stage);
    assert_int_equal(got.tries, wanted->tries);
    assert_int_equal(got.dirty, wanted->dirty);
}

// A mark is the same alone, and when others come beside it.
static void test_marks_are_kept_whole(void **state)
{
    (void)state;
    struct gw_device_table *table = NULL;
    uint32_t none = 0;
    struct base_prng prng;
    base_prng_seed(&prng, 9);
    assert_int_equal(gw_device_table_new(all_open, &none, &key, &table), BASE_OK);
    for (uint64_t id = 1; id <= 5000; id++) {
        const struct gw_device_touch touch = {id, 1, 10, false, 0};
        struct gw_device_mark marks[5];
        gw_device_table_touch(table, &touch, 1);
        for (uint32_t i = 0; i < 5; i++) {
            marks[i] = any_mark(&prng);
            marks[i].rollout = marks[i].rollout / 5 * 5 + i; // each another
            gw_device_table_follow(table, id, &marks[i]);
            for (uint32_t k = 0; k <= i; k++) {
                assert_mark(table, id, &marks[k]);
            }
        }
    }
    // What does not fit is at the nearest time that does.
    const struct gw_device_touch touch = {9999, 1, 10, false, 0};
    struct gw_device_mark mark = {.rollout = 1, .offered_s = 100};
    static const uint32_t too_late[] = {UINT32_MAX, 100 + (1u << 24) + 5, 100 + (1u << 24)};
    gw_device_table_touch(table, &touch, 1);
    for (size_t i = 0; i < sizeof(too_late) / sizeof(too_late[0]); i++) {
        mark.activated_s = too_late[i];
        gw_device_table_follow(table, 9999, &mark);
        assert_true(gw_device_table_mark(table, 9999, 1, &mark));
        assert_int_equal(mark.activated_s, 100 + (1u << 24) - 2);
    }
    mark.activated_s = 50; // the clock was set back between
    gw_device_table_follow(table, 9999, &mark);
    assert_true(gw_device_table_mark(table, 9999, 1, &mark));
    assert_int_equal(mark.activated_s, 100);
    assert_true(gw_device_table_validate(table));
    gw_device_table_free(table);
}

// When last_seen is saved, as two times say it.
static void test_when_it_is_saved(void **state)
{
    (void)state;
    struct gw_device_table *table = NULL;
    struct gw_device_snapshot taken;
    uint32_t none = 0;
    uint32_t seen_s = 1;
    uint32_t saved_s = 1;
    uint32_t saved_count = 0;
    struct base_prng prng;
    base_prng_seed(&prng, 3);
    assert_int_equal(gw_device_table_new(all_open, &none, &key, &table), BASE_OK);
    gw_device_table_touch(table, &(struct gw_device_touch){7, 1, seen_s, false, 0}, 1);
    assert_int_equal(gw_device_table_take_dirty(table, &taken, 1), 1);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t step_s = (uint32_t)base_prng_below(&prng, 1u << base_prng_below(&prng, 14));
        if (base_prng_below(&prng, 20) == 0) {
            seen_s -= step_s < seen_s ? step_s : seen_s;
            saved_s = saved_s < seen_s ? saved_s : seen_s;
            gw_device_table_time_moved(table, seen_s);
        } else {
            const struct gw_device_touch touch = {7, 1, seen_s + step_s, false, 0};
            seen_s += step_s;
            gw_device_table_touch(table, &touch, 1);
        }
        const bool due = seen_s - saved_s >= GW_LAST_SEEN_SAVE_S;
        assert_int_equal(gw_device_table_take_dirty(table, &taken, 1), due);
        if (due) {
            assert_int_equal(taken.last_seen_s, seen_s);
            saved_s = seen_s;
            saved_count++;
        }
    }
    assert_true(saved_count > 100);
    gw_device_table_free(table);
}

static void test_settled(void **state)
{
    (void)state;
    struct gw_device_table *table = NULL;
    uint32_t none = 0;
    struct gw_device_touch touch = {7, 1, 10, false, 0};
    assert_int_equal(gw_device_table_new(all_open, &none, &key, &table), BASE_OK);
    gw_device_table_touch(table, &touch, 1);
    assert_false(gw_device_table_settled(table, 7, 0, 0));
    gw_device_table_settle(table, 7, 55, 3, false);
    assert_true(gw_device_table_settled(table, 7, 55, 3));
    assert_false(gw_device_table_settled(table, 7, 55, 4));
    assert_false(gw_device_table_settled(table, 7, 56, 3));
    assert_false(gw_device_table_settled(table, 8, 55, 3));
    gw_device_table_free(table);
}

// Who knows a proven device's id and shows nothing changes nothing of it: not when it was seen, not
// its attributes, not the numbers of its reports.
static void test_strangers_with_a_proven_id(void **state)
{
    (void)state;
    struct gw_device_table *table = NULL;
    uint32_t none = 0;
    struct gw_device_snapshot before;
    struct gw_device_snapshot after;
    const struct gw_device_touch unproven = {7, 1, 5, false, 0};
    const struct gw_device_touch own = {7, 2, 10, true, 0};
    const struct gw_device_touch other = {7, 3, 11 + GW_LAST_SEEN_SAVE_S, false, 0};
    assert_int_equal(gw_device_table_new(all_open, &none, &key, &table), BASE_OK);
    gw_device_table_touch(table, &unproven, 1);
    gw_device_table_reported(table, &unproven, 1, 9); // not its own
    assert_int_equal(gw_device_table_unproven(table), 1);
    gw_device_table_touch(table, &own, 1);
    assert_int_equal(gw_device_table_unproven(table), 0);
    assert_false(gw_device_table_has_report(table, 7, 1, 9, true));
    gw_device_table_reported(table, &own, 1, 4);
    gw_device_table_settle(table, 7, 55, 3, false);
    assert_int_equal(gw_device_table_take_dirty(table, &before, 1), 1);

    gw_device_table_touch(table, &other, 1);
    assert_true(gw_device_table_touch_settled(table, &other, 55, 3));
    gw_device_table_reported(table, &other, 1, 8);
    assert_int_equal(gw_device_table_dirty(table), 0);
    assert_true(gw_device_table_get(table, 7, &after));
    assert_int_equal(after.last_seen_s, 10);
    assert_int_equal(after.attrs_id, 2);
    assert_int_equal(after.report_seq, 4);
    assert_true(after.proven);
    assert_true(gw_device_table_has_report(table, 7, 1, 4, true));
    assert_false(gw_device_table_has_report(table, 7, 1, 4, false));

    const struct gw_device_touch again = {7, 3, 12, true, 0}; // itself may
    gw_device_table_touch(table, &again, 1);
    assert_true(gw_device_table_get(table, 7, &after));
    assert_int_equal(after.last_seen_s, 12);
    assert_int_equal(after.attrs_id, 3);
    assert_int_equal(gw_device_table_dirty(table), 1);
    gw_device_table_free(table);
}

// ---- Threads

struct runner {
    struct gw_device_table *table;
    uint64_t seed;
    uint64_t offered;
};

static void *run_table(void *arg)
{
    struct runner *runner = arg;
    struct base_prng prng;
    base_prng_seed(&prng, runner->seed);
    for (uint32_t i = 0; i < 20000; i++) {
        struct gw_device_touch touch = {1 + base_prng_below(&prng, 500), 1, 100 + i, false, 0};
        gw_device_table_touch(runner->table, &touch, 1);
        runner->offered +=
            offered(runner->table, touch.device_id, (uint32_t)base_prng_below(&prng, 4), 0, 100);
        gw_device_table_reported(runner->table, &touch, 1, i);
        if (i % 64 == 0) {
            struct gw_device_snapshot taken[32];
            uint32_t count = gw_device_table_take_dirty(runner->table, taken, 32);
            if (i % 128 == 0) {
                gw_device_table_put_back(runner->table, taken, count);
            }
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct gw_device_table *table = NULL;
    uint32_t none = 0;
    pthread_t threads[3];
    struct runner runners[3];
    assert_int_equal(gw_device_table_new(all_open, &none, &key, &table), BASE_OK);
    for (uint64_t i = 0; i < 3; i++) {
        runners[i] = (struct runner){table, i + 1, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, run_table, &runners[i]), 0);
    }
    uint64_t offered = 0;
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        offered += runners[i].offered;
    }
    assert_int_equal(gw_device_table_count(table), 500);
    assert_int_equal(offered, 500 * 4); // each once, whoever was first
    assert_true(gw_device_table_validate(table));
    gw_device_table_free(table);
}

// ---- The tally

static void expect(struct gw_tally *tally, uint32_t now_s, uint64_t offered, uint64_t succeeded,
                   uint64_t failed, uint64_t timed_out, uint64_t on_version)
{
    struct gw_rollout_counts counts;
    assert_true(gw_tally_counts(tally, 1, 0, now_s, &counts));
    assert_int_equal(counts.offered, offered);
    assert_int_equal(counts.succeeded, succeeded);
    assert_int_equal(counts.failed, failed);
    assert_int_equal(counts.timed_out, timed_out);
    assert_int_equal(counts.on_version, on_version);
}

// A release of one stage, good for a tally and nothing else; the tally keeps it.
static void add_release(struct gw_tally *tally)
{
    struct gw_release *release = gw_release_blank();
    assert_non_null(release);
    release->id = 1;
    release->stage_count = 1;
    release->trust_unproven = true;
    release->stages[0].execution_timeout_s = 600;
    assert_int_equal(gw_tally_add(tally, release), BASE_OK);
    gw_release_unref(release);
}

static void change(struct gw_tally *tally, uint16_t from, uint16_t to, uint32_t offered_s)
{
    struct gw_tally_change one = {
        .rollout_id = 1, .old_bits = from, .new_bits = to, .offered_s = offered_s};
    gw_tally_apply(tally, &one, 1);
}

static void test_tally_transitions(void **state)
{
    (void)state;
    struct gw_tally *tally = NULL;
    const uint16_t offered = GW_OUTCOME_OFFERED;
    const uint16_t active = offered | GW_OUTCOME_DOWNLOADED | GW_OUTCOME_ACTIVATED;
    const uint16_t ran = active | GW_OUTCOME_RAN;
    assert_int_equal(gw_tally_new(&key, &tally), BASE_OK);
    add_release(tally);
    change(tally, 0, offered, 1000);
    expect(tally, 1000, 1, 0, 0, 0, 0);
    change(tally, offered, offered, 1000); // no change
    expect(tally, 1000, 1, 0, 0, 0, 0);
    change(tally, offered, active, 1000);
    expect(tally, 1500, 1, 0, 0, 0, 1);
    expect(tally, 1000 + 600 + 600 / 32 + 2, 1, 0, 0, 1, 1); // silent for too long
    change(tally, active, ran, 1000);
    expect(tally, 5000, 1, 1, 0, 0, 1); // came after all
    change(tally, ran, (uint16_t)(ran | GW_OUTCOME_FAILED), 1000);
    expect(tally, 5000, 1, 0, 1, 0, 0);
    change(tally, 0, (uint16_t)(offered | GW_OUTCOME_NOT_APPLICABLE), 1000);
    expect(tally, 5000, 2, 0, 1, 0, 0);
    change(tally, 0, (uint16_t)(ran | GW_OUTCOME_ROLLED_BACK), 1000);
    expect(tally, 5000, 3, 1, 1, 0, 0);
    gw_tally_free(tally);
}

// In bits the same as in sums, for whatever a device may have gone through.
static void test_under_way_in_bits(void **state)
{
    (void)state;
    uint32_t under_way = 0;
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        struct gw_rollout_counts one;
        gw_tally_contribution((uint16_t)bits, &one);
        const bool summed = one.offered != 0 && one.succeeded == 0 && one.failed == 0 &&
                            one.not_applicable == 0 && one.rolled_back == 0;
        if (gw_outcome_is_under_way(bits) != summed) {
            fail_msg("bits %04x: %d in bits, %d in sums", (unsigned)bits, !summed, summed);
        }
        under_way += summed;
    }
    assert_int_equal(under_way, 1023); // any of ten other bits, and one at least
}

static void test_tally_timeouts_match_a_list(void **state)
{
    (void)state;
    struct gw_tally *tally = NULL;
    struct base_prng prng;
    uint32_t offered_at[300];
    bool done[300] = {false};
    base_prng_seed(&prng, 3);
    assert_int_equal(gw_tally_new(&key, &tally), BASE_OK);
    add_release(tally);
    uint32_t now_s = 100000;
    for (uint32_t i = 0; i < 300; i++) {
        now_s += (uint32_t)base_prng_below(&prng, 30);
        offered_at[i] = now_s;
        change(tally, 0, GW_OUTCOME_OFFERED, now_s);
        uint32_t other = (uint32_t)base_prng_below(&prng, i + 1);
        if (!done[other]) {
            done[other] = true;
            change(tally, GW_OUTCOME_OFFERED, GW_OUTCOME_OFFERED | GW_OUTCOME_RAN,
                   offered_at[other]);
        }
        uint64_t least = 0; // silent for the timeout and the ring's coarseness
        uint64_t most = 0;  // silent for the timeout
        for (uint32_t k = 0; k <= i; k++) {
            least += !done[k] && offered_at[k] + 600 + 600 / 32 + 1 < now_s;
            most += !done[k] && offered_at[k] + 600 <= now_s;
        }
        struct gw_rollout_counts counts;
        assert_true(gw_tally_counts(tally, 1, 0, now_s, &counts));
        assert_in_range(counts.timed_out, least, most);
    }
    gw_tally_free(tally);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_million_devices),
        cmocka_unit_test(test_seen_together),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_marks_are_kept_whole),
        cmocka_unit_test(test_when_it_is_saved),
        cmocka_unit_test(test_settled),
        cmocka_unit_test(test_strangers_with_a_proven_id),
        cmocka_unit_test(test_numbers_of_any_size),
        cmocka_unit_test(test_all_are_taken_in_turn),
        cmocka_unit_test(test_room_is_kept_whole),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_tally_transitions),
        cmocka_unit_test(test_under_way_in_bits),
        cmocka_unit_test(test_tally_timeouts_match_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

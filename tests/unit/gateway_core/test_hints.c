// Hints: who is told of a plan, when and how often: those with news, once every worker has the
// plan, at a pace, and again when what was paused goes on.
#include "core_rig.h"

#include "svc/device/checkin.h"
#include "svc/core_worker.h"

#include "policy/bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const os_names[] = {"android", "ios", "linux"};
static const char *const regions[] = {"eu", "us", "cn", "br"};

static void make_device(struct rig_device *device, uint32_t i)
{
    rig_device_init(device, base_mix64(1000 + i));
    rig_device_attr(device, "os", os_names[i % 3]);
    rig_device_attr(device, "region", regions[(i / 3) % 4]);
    rig_device_attr(device, "channel", i % 10 == 0 ? "beta" : "stable");
}

static const struct rig_stage mixed[] = {
    {"beta", POL_STAGE_BETA, 10000, "channel", "beta", 1, 1000000, 0},
    {"gray-1", POL_STAGE_GRAY, 100, NULL, NULL, 1, 1000000, 0},
    {"gray-30", POL_STAGE_GRAY, 3000, NULL, NULL, 1, 1000000, 0},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0},
};

struct hint_log {
    uint32_t hints;
    bool full;
};

static bool write_hint(void *ctx, struct gw_hint *hint, struct base_str text)
{
    struct hint_log *log = ctx;
    (void)hint;
    if (log->full) {
        return false;
    }
    assert_true(base_str_equal(text, BASE_STR("event: hint\ndata: {\"spread_ms\":250}\n\n")));
    log->hints++;
    return true;
}

#define STREAMS 5000

static void test_hints_reach_those_with_news(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct base_error error = {0};
    struct hint_log log = {0};
    static struct gw_hint hints[STREAMS];
    rig_init(&rig);
    rig.hint_spread_ms = 250;
    rig_start(&rig);
    gw_worker_on_hint(rig.worker.worker, write_hint, NULL, &log);
    uint32_t expected = 0;
    rig_version(&rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(&rig, 9, "t", &v1, "os", "ios", mixed + 2, 2, &view, &error),
                     BASE_OK);
    for (uint32_t i = 0; i < STREAMS; i++) {
        struct rig_device device;
        make_device(&device, i);
        rig_subscribe(&rig, &device, &hints[i]);
        expected += i % 3 == 1 && pol_bucket(device.id, view.salt) < 3000;
    }
    assert_int_equal(log.hints, 0);
    assert_int_equal(gw_worker_hint_count(rig.worker.worker), STREAMS);
    // Some leave while the walk is under way, which goes in slices.
    rig_command(&rig, 9, POL_COMMAND_START, NULL);
    rig_settle(&rig);
    assert_int_equal(log.hints, expected);
    rig_settle(&rig);
    assert_int_equal(log.hints, expected); // once
    // Full buffers are told later.
    log.full = true;
    rig_command(&rig, 9, POL_COMMAND_PROMOTE, NULL);
    rig_settle(&rig);
    assert_int_equal(log.hints, expected);
    log.full = false;
    for (int i = 0; i < 5; i++) {
        rig_settle(&rig);
    }
    assert_int_equal(log.hints, STREAMS / 3 + (STREAMS % 3 > 1 ? 1 : 0));
    // A device that comes with an old profile is told at once.
    struct rig_device late;
    static struct gw_hint late_hint;
    uint32_t before = log.hints;
    make_device(&late, 1);
    late.id = 5;
    rig_subscribe(&rig, &late, &late_hint);
    assert_int_equal(log.hints, before + 1);
    gw_worker_unsubscribe(rig.worker.worker, &late_hint);
    gw_worker_unsubscribe(rig.worker.worker, &late_hint); // again: nothing
    rig_command(&rig, 9, POL_COMMAND_ABORT, NULL);
    gw_worker_unsubscribe(rig.worker.worker, &hints[STREAMS - 1]); // the head of the list
    for (uint32_t i = 0; i < STREAMS; i++) {
        if (i % 2 == 0 || i == STREAMS / 2) {
            gw_worker_unsubscribe(rig.worker.worker, &hints[i]);
        }
        if (i % 500 == 0) {
            (void)rig_pump(&rig);
        }
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        gw_worker_unsubscribe(rig.worker.worker, &hints[i]);
    }
    assert_int_equal(gw_worker_hint_count(rig.worker.worker), 0);
    rig_done(&rig);
}

// Two workers. The check-in that a hint brings may reach the other one, so nobody is told before
// both have the plan: neither those who are there, nor who comes meanwhile.
static void test_a_hint_waits_for_every_worker(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_worker other;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct base_error error = {0};
    struct hint_log log = {0};
    struct rig_device device;
    struct gw_hint hints[2];
    rig_init(&rig);
    rig.hint_spread_ms = 250;
    rig_start(&rig);
    rig_worker_start(&other, rig.core);
    gw_worker_on_hint(rig.worker.worker, write_hint, NULL, &log);
    rig_version(&rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(&rig, 9, "t", &v1, "os", "ios", mixed + 2, 2, &view, &error),
                     BASE_OK);
    make_device(&device, 1);
    rig_subscribe(&rig, &device, &hints[0]);
    (void)rig_worker_pump(&other);
    rig_command(&rig, 9, POL_COMMAND_START, NULL);
    rig_command(&rig, 9, POL_COMMAND_PROMOTE, NULL);
    rig_settle(&rig);
    rig_subscribe(&rig, &device, &hints[1]);
    rig_settle(&rig);
    assert_int_equal(log.hints, 0);
    assert_true(rig_worker_pump(&other)); // takes the plan, and wakes the first
    assert_true(rig_pump(&rig));
    assert_int_equal(log.hints, 1);
    rig_settle(&rig);
    assert_int_equal(log.hints, 2);
    gw_worker_unsubscribe(rig.worker.worker, &hints[0]);
    gw_worker_unsubscribe(rig.worker.worker, &hints[1]);
    rig_worker_stop(&other);
    rig_done(&rig);
}

static void pump_out(struct rig_worker *worker)
{
    while (rig_worker_pump(worker)) {
    }
}

// Who asks for what it was told of while that is paused is given nothing, and is told again when it
// goes on: also by a worker that never saw the pause. Who got it is not.
static void hint_after_a_pause(bool seen)
{
    struct rig rig;
    struct rig_worker other; // has the stream; check-ins reach the first
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct base_error error = {0};
    struct hint_log log = {0};
    struct rig_device devices[2];
    struct gw_hint hints[2];
    struct rig_exchange exchange;
    struct wire_offers offers;
    rig_init(&rig);
    rig.hint_spread_ms = 250;
    rig_start(&rig);
    rig_worker_start(&other, rig.core);
    gw_worker_on_hint(other.worker, write_hint, NULL, &log);
    rig_version(&rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(&rig, 9, "t", &v1, "os", "ios", mixed + 2, 2, &view, &error),
                     BASE_OK);
    for (uint32_t i = 0; i < 2; i++) {
        make_device(&devices[i], 1 + 3 * i);
        rig_subscribe_at(&rig, other.worker, &devices[i], &hints[i]);
    }
    rig_command(&rig, 9, POL_COMMAND_START, NULL);
    rig_command(&rig, 9, POL_COMMAND_PROMOTE, NULL);
    rig_settle(&rig);
    pump_out(&other);
    assert_int_equal(log.hints, 2);
    assert_int_equal(rig_checkin(&rig, &devices[0], true, &exchange, &offers), 200);
    assert_int_equal(rig_device_take(&devices[0], &offers), 1);
    rig_exchange_done(&exchange);
    (void)rig_report(&rig, &devices[0], &view,
                     (const enum wire_outcome_kind[]){WIRE_OUTCOME_ACTIVATED}, 1);
    rig_command(&rig, 9, POL_COMMAND_PAUSE, NULL);
    rig_settle(&rig);
    if (seen) {
        pump_out(&other);
    }
    assert_int_equal(rig_checkin(&rig, &devices[1], true, &exchange, &offers), 204);
    rig_exchange_done(&exchange);
    rig_command(&rig, 9, POL_COMMAND_RESUME, NULL);
    rig_settle(&rig);
    pump_out(&other);
    assert_int_equal(log.hints, 3);
    pump_out(&other);
    assert_int_equal(log.hints, 3);
    // Once: what changes for others is none of its affair.
    assert_int_equal(rig_rollout(&rig, 10, "t", &v1, "os", "android", mixed + 2, 2, &view, &error),
                     BASE_OK);
    rig_command(&rig, 10, POL_COMMAND_START, NULL);
    rig_settle(&rig);
    pump_out(&other);
    assert_int_equal(log.hints, 3);
    assert_int_equal(rig_checkin(&rig, &devices[1], true, &exchange, &offers), 200);
    rig_exchange_done(&exchange);
    for (uint32_t i = 0; i < 2; i++) {
        gw_worker_unsubscribe(other.worker, &hints[i]);
    }
    rig_worker_stop(&other);
    rig_done(&rig);
}

static void test_a_hint_after_a_pause(void **state)
{
    (void)state;
    hint_after_a_pause(true);
    hint_after_a_pause(false);
}

// Who is on its way to what is paused now is told, so that it asks and learns that the offer is
// gone; who has it is not.
static void test_a_pause_is_told_to_who_is_under_way(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct base_error error = {0};
    struct hint_log log = {0};
    struct rig_device devices[2];
    struct gw_hint hints[2];
    struct rig_exchange exchange;
    struct wire_offers offers;
    rig_init(&rig);
    rig.hint_spread_ms = 250;
    rig_start(&rig);
    gw_worker_on_hint(rig.worker.worker, write_hint, NULL, &log);
    rig_version(&rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(&rig, 9, "t", &v1, "os", "ios", mixed + 2, 2, &view, &error),
                     BASE_OK);
    for (uint32_t i = 0; i < 2; i++) {
        make_device(&devices[i], 1 + 3 * i);
        rig_subscribe(&rig, &devices[i], &hints[i]);
    }
    rig_command(&rig, 9, POL_COMMAND_START, NULL);
    rig_command(&rig, 9, POL_COMMAND_PROMOTE, NULL);
    rig_settle(&rig);
    assert_int_equal(log.hints, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(rig_checkin(&rig, &devices[i], true, &exchange, &offers), 200);
        assert_int_equal(rig_device_take(&devices[i], &offers), 1);
        rig_exchange_done(&exchange);
    }
    (void)rig_report(&rig, &devices[0], &view,
                     (const enum wire_outcome_kind[]){WIRE_OUTCOME_ACTIVATED}, 1);
    rig_settle(&rig);
    rig_command(&rig, 9, POL_COMMAND_PAUSE, NULL);
    rig_settle(&rig);
    assert_int_equal(log.hints, 3);
    for (uint32_t i = 0; i < 2; i++) {
        gw_worker_unsubscribe(rig.worker.worker, &hints[i]);
    }
    rig_done(&rig);
}

struct pace_log {
    uint32_t hints;
    uint32_t after_ms; // of the last
};

// The rate is 100 a second: each comes 10 ms after the one before.
static bool write_paced(void *ctx, struct gw_hint *hint, struct base_str text)
{
    struct pace_log *log = ctx;
    char want[96];
    (void)hint;
    if (log->after_ms == 0) {
        (void)snprintf(want, sizeof(want), "event: hint\ndata: {\"spread_ms\":0}\n\n");
    } else {
        (void)snprintf(want, sizeof(want),
                       "event: hint\ndata: {\"after_ms\":%u,\"spread_ms\":0}\n\n",
                       (unsigned)log->after_ms);
    }
    if (!base_str_equal(text, base_str_of(want))) {
        fail_msg("hint %u: '%.*s', not '%s'", log->hints, (int)text.size, text.data, want);
    }
    log->hints++;
    log->after_ms += 10;
    return true;
}

#define PACED 300

static void test_hints_are_paced(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct base_error error = {0};
    struct pace_log log = {0};
    static struct gw_hint hints[PACED + 1];
    static const struct rig_stage all[] = {
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0},
    };
    rig_init(&rig);
    rig.hint_rate_per_s = 100;
    rig_start(&rig);
    gw_worker_on_hint(rig.worker.worker, write_paced, NULL, &log);
    rig_version(&rig, "t", "1.0.0", &v1);
    assert_int_equal(rig_rollout(&rig, 9, "t", &v1, NULL, NULL, all, 1, &view, &error), BASE_OK);
    struct rig_device device;
    for (uint32_t i = 0; i < PACED; i++) {
        make_device(&device, i);
        rig_subscribe(&rig, &device, &hints[i]);
    }
    rig_command(&rig, 9, POL_COMMAND_START, NULL);
    rig_settle(&rig);
    // Nobody is told more than a second before its place.
    assert_int_equal(log.hints, 101);
    for (uint32_t told = 201; told < PACED + 100; told += 100) {
        log.after_ms = 10;
        rig_advance_s(&rig, 1);
        rig_settle(&rig);
        assert_int_equal(log.hints, told < PACED ? told : PACED);
    }
    // One that comes now stands behind them; one that comes when they are through need not wait.
    make_device(&device, PACED);
    rig_subscribe(&rig, &device, &hints[PACED]);
    assert_int_equal(log.hints, PACED + 1);
    gw_worker_unsubscribe(rig.worker.worker, &hints[PACED]);
    rig_advance_s(&rig, PACED / 100 + 1);
    log = (struct pace_log){0};
    rig_subscribe(&rig, &device, &hints[PACED]);
    assert_int_equal(log.hints, 1);
    for (uint32_t i = 0; i <= PACED; i++) {
        gw_worker_unsubscribe(rig.worker.worker, &hints[i]);
    }
    rig_done(&rig);
}

// Which streams were told, by their places among `hints`.
struct told_log {
    const struct gw_hint *hints;
    uint32_t times[PACED];
    uint32_t all;
};

static bool write_told(void *ctx, struct gw_hint *hint, struct base_str text)
{
    struct told_log *log = ctx;
    (void)text;
    log->times[hint - log->hints]++;
    log->all++;
    return true;
}

// A plan with news for all while the last are not yet told of the one before: they come first.
static void test_a_plan_in_the_middle_of_a_walk(void **state)
{
    (void)state;
    struct rig rig;
    struct wire_sha256 v1;
    struct gw_rollout_view view;
    struct base_error error = {0};
    static struct gw_hint hints[PACED];
    struct told_log log = {.hints = hints};
    static const struct rig_stage all[] = {
        {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 1000000, 0},
    };
    rig_init(&rig);
    rig.hint_rate_per_s = 100;
    rig_start(&rig);
    gw_worker_on_hint(rig.worker.worker, write_told, NULL, &log);
    struct rig_device device;
    for (uint32_t i = 0; i < PACED; i++) {
        make_device(&device, i);
        rig_subscribe(&rig, &device, &hints[i]);
    }
    static const char *const tasks[] = {"t", "u", "v"};
    for (uint32_t round = 0; round < sizeof(tasks) / sizeof(tasks[0]); round++) {
        rig_version(&rig, tasks[round], "1.0.0", &v1);
        assert_int_equal(
            rig_rollout(&rig, 9 + round, tasks[round], &v1, NULL, NULL, all, 1, &view, &error),
            BASE_OK);
        rig_command(&rig, 9 + round, POL_COMMAND_START, NULL);
        rig_settle(&rig);
        rig_advance_s(&rig, 1);
        rig_settle(&rig);
    }
    assert_in_range(log.all, PACED, PACED + 101);
    for (uint32_t i = 0; i < PACED; i++) {
        assert_in_range(log.times[i], 1, 2);
    }
    // One that was to be the end of the walk goes, and all others are told once more.
    gw_worker_unsubscribe(rig.worker.worker, rig.worker.worker->walk_stop);
    for (uint32_t s = 0; s < 2 * PACED / 100 + 2; s++) {
        rig_advance_s(&rig, 1);
        rig_settle(&rig);
    }
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < PACED; i++) {
        bool gone = hints[i].prev == NULL;
        least = !gone && log.times[i] < least ? log.times[i] : least;
        gw_worker_unsubscribe(rig.worker.worker, &hints[i]);
    }
    assert_in_range(least, 2, 3);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hints_reach_those_with_news),
        cmocka_unit_test(test_a_hint_waits_for_every_worker),
        cmocka_unit_test(test_a_hint_after_a_pause),
        cmocka_unit_test(test_a_pause_is_told_to_who_is_under_way),
        cmocka_unit_test(test_hints_are_paced),
        cmocka_unit_test(test_a_plan_in_the_middle_of_a_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Trials on the gateway as it ships, through an acceptance of another time: what entered by the
// clock that was wrong, and what comes by the right one, is judged as if the clock had been right.
#include "placebo_kit.h"

#include "svc/control.h"
#include "svc/tally/tally.h"

#define DAY_S     INT64_C(86400)
#define SILENCE_S 600u

static void accept_jump(struct rig *rig, int64_t by_s)
{
    struct base_error error = {0};
    struct gw_clock_accepted accepted = {0};
    if (by_s == 0) {
        return;
    }
    rig->wall_us += (uint64_t)(by_s * (int64_t)SECOND_US);
    rig_settle(rig);
    assert_int_equal(
        gw_clock_accept(rig->core, BASE_STR("ana"), BASE_STR("it is right"), &accepted, &error),
        BASE_OK);
    assert_int_equal(accepted.paused, 1);
    rig_command(rig, ID, POL_COMMAND_RESUME, NULL);
    rig_settle(rig);
}

static void come_from(struct rig *rig, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        (void)come(rig, &devices[i]);
    }
    rig_settle(rig);
}

// Every fourth of the updated fails, all others are well.
static void tell_from(struct rig *rig, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        if (place_of(&devices[i]) != NOTHING) {
            bool fails = place_of(&devices[i]) == UPDATED && i % 4 == 1;
            tell(rig, &devices[i], fails ? WIRE_OUTCOME_FAIL_EXCEPTION : WIRE_OUTCOME_RAN);
        }
    }
    rig_settle(rig);
}

// Some have answered when the clock jumps, some answer then, some come then.
static void play(int64_t by_s, bool restarted, struct pol_trial out[3])
{
    struct rig rig;
    struct gw_rollout_view view;
    open_trial(&rig);
    come_from(&rig, 0, 100);
    rig_advance_s(&rig, 20);
    tell_from(&rig, 0, 30);
    rig_advance_s(&rig, 20);
    accept_jump(&rig, by_s);
    if (restarted) {
        rig_stop(&rig);
        rig_start(&rig);
        rig_settle(&rig);
    }
    tell_from(&rig, 30, 70);
    come_from(&rig, 100, 200);
    rig_advance_s(&rig, 20);
    trial_now(&rig, &out[0]);
    tell_from(&rig, 100, 180);
    rig_advance_s(&rig, BLOCK_S + WINDOW_S - 40);
    trial_now(&rig, &out[1]);
    rig_advance_s(&rig, 2 * WINDOW_S);
    trial_now(&rig, &out[2]);
    expect_replay(&rig);
    rig_view(&rig, ID, &view);
    assert_true(view.counts.under_way > 0);
    rig_advance_s(&rig, 2 * view.execution_timeout_s);
    rig_settle(&rig);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.counts.under_way, 0); // for people, too, it has its time and no more
    rig_done(&rig);
}

static void a_trial_is_the_same_through_an_acceptance(void **state)
{
    (void)state;
    static const int64_t jumps[] = {3 * DAY_S, 1000, -1000, -3 * DAY_S};
    struct pol_trial right[3];
    play(0, false, right);
    assert_true(right[0].all[POL_COHORT_UPDATED].failed > 0);
    assert_true(right[0].over[POL_COHORT_UPDATED].offered == 0);
    assert_true(right[1].over[POL_COHORT_UPDATED].offered > 0);
    assert_true(right[2].over[POL_COHORT_UPDATED].offered >
                right[1].over[POL_COHORT_UPDATED].offered);
    for (uint32_t i = 0; i < 2 * sizeof(jumps) / sizeof(jumps[0]); i++) {
        struct pol_trial seen[3];
        print_message("by %lld s%s\n", (long long)jumps[i / 2], i % 2 != 0 ? ", restarted" : "");
        play(jumps[i / 2], i % 2 != 0, seen);
        for (uint32_t k = 0; k < 3; k++) {
            expect_same(&seen[k], &right[k]);
        }
    }
}

static void watched(struct pol_stage *stage, uint32_t index)
{
    conduct(stage, index);
    stage->silence_s = SILENCE_S;
    stage->guard_s = 24 * 3600;
    stage->gate.max_silence_percent = 100;
}

static const struct rig_stage guarded_full[] = {
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 400000, 0},
};

// Who was heard of before the time moved is not silent for that; for whom a guard waits has the
// rest of its window.
static void nobody_is_late_by_an_acceptance(int64_t by_s)
{
    struct rig rig;
    struct gw_rollout_view view;
    rig_init(&rig);
    rig_start(&rig);
    make_devices();
    begin_conducted(&rig, guarded_full, 1, watched);
    for (uint32_t i = 0; i < 40; i++) {
        (void)come(&rig, &devices[i]);
        tell_of(&rig, &devices[i], false, WIRE_OUTCOME_RAN);
    }
    rig_advance_s(&rig, WINDOW_S - 10);
    assert_int_equal(come(&rig, &devices[40]), UPDATED);
    rig_advance_s(&rig, BLOCK_S + 15);
    rig_settle(&rig);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.state, POL_ROLLOUT_GUARDING);
    accept_jump(&rig, by_s);
    rig_settle(&rig);
    rig_settle(&rig);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.state, POL_ROLLOUT_GUARDING);
    assert_int_equal(view.outstanding, 1);
    assert_int_equal(view.counts.silent, 0);
    rig_advance_s(&rig, WINDOW_S);
    rig_settle(&rig);
    rig_settle(&rig);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
    assert_int_equal(view.counts.silent, 0);
    rig_done(&rig);
}

static void a_guard_waits_through_an_acceptance(void **state)
{
    (void)state;
    nobody_is_late_by_an_acceptance(1000);
    nobody_is_late_by_an_acceptance(-1000);
    nobody_is_late_by_an_acceptance(3 * DAY_S);
    nobody_is_late_by_an_acceptance(-3 * DAY_S);
}

static const struct rig_stage wide_full[] = {
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1000, 400000, 0},
};

// Who falls silent after the time went back is found as soon as without: that it was seen at a
// later time says nothing, in memory or on disk.
static uint32_t silent_after(int64_t by_s, bool restarted)
{
    struct rig rig;
    struct gw_rollout_view view;
    rig_init(&rig);
    rig_start(&rig);
    make_devices();
    begin_conducted(&rig, wide_full, 1, watched);
    for (uint32_t i = 0; i < 40; i++) {
        (void)come(&rig, &devices[i]);
        tell_of(&rig, &devices[i], false, WIRE_OUTCOME_RAN);
    }
    rig_settle(&rig);
    accept_jump(&rig, by_s);
    for (uint32_t i = 0; i < 10; i++) {
        (void)come(&rig, &devices[i]); // the last that is heard of them
    }
    if (restarted) {
        rig_stop(&rig);
        rig_start(&rig);
    }
    rig_advance_s(&rig, SILENCE_S + 60);
    rig_settle(&rig);
    rig_settle(&rig);
    rig_view(&rig, ID, &view);
    uint32_t silent = (uint32_t)view.counts.silent;
    rig_done(&rig);
    return silent;
}

static void silence_is_found_after_a_jump_back(void **state)
{
    (void)state;
    assert_int_equal(silent_after(0, false), 40);
    assert_int_equal(silent_after(-3 * DAY_S, false), 40);
    assert_int_equal(silent_after(-1000, false), 40);
    assert_int_equal(silent_after(-3 * DAY_S, true), 40);
}

static void only_watched(struct pol_stage *stage, uint32_t index)
{
    conduct(stage, index);
    stage->silence_s = SILENCE_S;
    stage->execution_timeout_s = 6 * SILENCE_S;
    stage->gate.max_silence_percent = 100;
}

static struct rig_device *updated_device(uint32_t nth)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (place_of(&devices[i]) == UPDATED && nth-- == 0) {
            return &devices[i];
        }
    }
    return NULL;
}

// Devices that were offered it by the time before have been in the trial no longer by that: one
// falls silent in time, and another is watched for as long as it was.
static void ages_are_the_same_through_an_acceptance(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_counts seen;
    struct pol_counts counts;
    open_fleet(&rig);
    begin_conducted(&rig, gray_full, 2, only_watched);
    struct rig_device *silent = updated_device(0);
    struct rig_device *comes = updated_device(1);
    assert_int_equal(come(&rig, silent), UPDATED);
    tell(&rig, silent, WIRE_OUTCOME_DOWNLOADED);
    assert_int_equal(come(&rig, comes), UPDATED);
    tell(&rig, comes, WIRE_OUTCOME_DOWNLOADED);
    rig_settle(&rig);
    accept_jump(&rig, 3 * DAY_S);
    for (uint32_t waited_s = 0; waited_s <= SILENCE_S + 2 * BLOCK_S; waited_s += BLOCK_S) {
        rig_advance_s(&rig, BLOCK_S);
        (void)come(&rig, comes);
        rig_settle(&rig);
        rig_settle(&rig); // by the walk of the tick before
    }
    gw_rollout_seen(rig.core, gw_catalog_find_rollout(rig.core, ID), &seen, &counts);
    assert_int_equal(seen.silent, 1);
    assert_int_equal(counts.hazard.silent, 1);
    assert_in_range(counts.hazard.device_seconds, 1, 4 * SILENCE_S);
    rig_done(&rig);
}

static int64_t tally_moved_s(struct rig *rig)
{
    struct gw_tally_rollout known;
    assert_true(gw_tally_find(rig->core->tally, ID, &known));
    return known.moved_s;
}

// A trial's time never goes back by what is less than a second, and who counts by it knows at once.
static void parts_of_a_second_are_rounded_down(void **state)
{
    (void)state;
    static const struct {
        int64_t by_us, moved_s;
    } steps[] = {{-1500000, -2}, {1500000, -1}, {1999999, 0}, {-1, -1},    {1000000, 0},
                 {-1000000, -1}, {1000000, 0},  {999999, 0},  {2000000, 2}};
    struct rig rig;
    open_trial(&rig);
    struct gw_rollout *rollout = gw_catalog_find_rollout(rig.core, ID);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        gw_rollout_time_moved(rig.core, rollout, steps[i].by_us);
        assert_int_equal(rollout->moved_s, steps[i].moved_s);
        assert_int_equal(tally_moved_s(&rig), steps[i].moved_s);
    }
    rig_done(&rig);
}

// A rollout that goes back waits for its devices as long as it would have, whichever way the time
// moved, and however often the gateway is started.
static void a_way_back_waits_through_an_acceptance(void **state)
{
    (void)state;
    static const int64_t jumps[] = {0, 3 * DAY_S, -3 * DAY_S};
    for (size_t i = 0; i < 2 * sizeof(jumps) / sizeof(jumps[0]); i++) {
        struct rig rig;
        struct gw_rollout_view view;
        struct base_error error = {0};
        struct gw_clock_accepted accepted = {0};
        open_trial(&rig);
        struct rig_device *device = updated_device(0);
        assert_int_equal(come(&rig, device), UPDATED);
        tell(&rig, device, WIRE_OUTCOME_RAN);
        rig_settle(&rig);
        rig_command(&rig, ID, POL_COMMAND_ABORT, NULL);
        rig_settle(&rig);
        rig.wall_us += (uint64_t)(jumps[i / 2] * (int64_t)SECOND_US);
        rig_settle(&rig);
        assert_int_equal(
            gw_clock_accept(rig.core, BASE_STR("ana"), BASE_STR("it is right"), &accepted, &error),
            BASE_OK);
        assert_int_equal(accepted.moved_us / (int64_t)SECOND_US, jumps[i / 2]);
        if (i % 2 != 0) {
            rig_stop(&rig);
            rig_start(&rig);
        }
        rig_settle(&rig);
        rig_view(&rig, ID, &view);
        assert_int_equal(view.state, POL_ROLLOUT_ROLLING_BACK);
        rig_advance_s(&rig, view.execution_timeout_s - 60);
        (void)come(&rig, device); // it is heard of, and does not go back
        rig_settle(&rig);
        rig_view(&rig, ID, &view);
        assert_int_equal(view.state, POL_ROLLOUT_ROLLING_BACK);
        rig_advance_s(&rig, 120);
        rig_settle(&rig);
        rig_settle(&rig);
        rig_view(&rig, ID, &view);
        assert_int_equal(view.state, POL_ROLLOUT_ROLLED_BACK);
        rig_done(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trial_is_the_same_through_an_acceptance),
        cmocka_unit_test(a_guard_waits_through_an_acceptance),
        cmocka_unit_test(silence_is_found_after_a_jump_back),
        cmocka_unit_test(ages_are_the_same_through_an_acceptance),
        cmocka_unit_test(parts_of_a_second_are_rounded_down),
        cmocka_unit_test(a_way_back_waits_through_an_acceptance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

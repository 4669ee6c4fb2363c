// Trials on the gateway as it ships, as devices are watched: who falls silent in which cohort, and
// for whom a guard waits.
#include "placebo_kit.h"
#include "svc/tally/trial_blocks.h"

#define SILENCE_S 600u

static void watched(struct pol_stage *stage, uint32_t index)
{
    conduct(stage, index);
    stage->silence_s = SILENCE_S;
    stage->gate.max_silence_percent = 100;
}

// Everybody answers well at once; then the updated are heard of no more, and control with them or
// not.
static void fall_silent(struct rig *rig, bool both)
{
    open_fleet(rig);
    begin_conducted(rig, gray_full, 2, watched);
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (come(rig, &devices[i]) != NOTHING) {
            tell(rig, &devices[i], WIRE_OUTCOME_RAN);
        }
    }
    for (uint32_t waited_s = 0; waited_s <= SILENCE_S + BLOCK_S; waited_s += 100) {
        rig_advance_s(rig, 100);
        for (uint32_t i = 0; i < DEVICES && !both; i++) {
            if (place_of(&devices[i]) == CONTROL) {
                (void)come(rig, &devices[i]);
            }
        }
        rig_settle(rig);
        rig_settle(rig); // by the walk of the tick before
    }
}

// The share that falls silent is compared with control's, in a stage of the gateway as it ships.
static void silence_is_compared_with_a_placebo(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct gw_rollout_counts seen;
    struct pol_counts counts;
    fall_silent(&rig, true);
    gw_rollout_seen(rig.core, gw_catalog_find_rollout(rig.core, ID), &seen, &counts);
    assert_int_equal(counts.hazard.silent, count_of(UPDATED));
    assert_int_equal(counts.control_hazard.silent, count_of(CONTROL));
    rig_view(&rig, ID, &view);
    assert_int_equal(view.state, POL_ROLLOUT_RUNNING);
    assert_int_not_equal(view.verdict, POL_VERDICT_FAIL);
    assert_true(view.has_power && view.power.base_measured);
    assert_int_equal(view.power.completed, count_of(UPDATED));
    expect_replay(&rig);
    rig_done(&rig);

    fall_silent(&rig, false);
    assert_int_equal(reason_back(&rig), POL_REASON_SILENT_OVER_CONTROL);
    expect_replay(&rig);
    rig_done(&rig);
}

static const struct rig_stage gray_then_all[] = {
    {"gray", POL_STAGE_GRAY, SHARE, NULL, NULL, 20, 400000, 3 * SILENCE_S *SECOND_US},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 400000, 3 * SILENCE_S *SECOND_US},
};

static uint32_t stage_of(struct rig *rig)
{
    struct gw_rollout_view view;
    rig_view(rig, ID, &view);
    return view.stage_index;
}

// Everybody comes, who got something is well; for so long.
static void all_live(struct rig *rig, uint32_t for_s)
{
    for (uint32_t lived_s = 0; lived_s < for_s; lived_s += 100) {
        for (uint32_t i = 0; i < DEVICES; i++) {
            enum drawn drawn = come(rig, &devices[i]);
            if (drawn != NOTHING) {
                tell_of(rig, &devices[i], drawn == CONTROL, WIRE_OUTCOME_RAN);
            }
        }
        rig_advance_s(rig, 100);
        rig_settle(rig);
        rig_settle(rig);
    }
}

static void in_the_last_stage(struct rig *rig, uint32_t live_s)
{
    open_fleet(rig);
    begin_conducted(rig, gray_then_all, 2, watched);
    all_live(rig, 3 * SILENCE_S);
    for (uint32_t i = 0; i < 10 && stage_of(rig) == 0; i++) {
        all_live(rig, 100);
    }
    assert_int_equal(stage_of(rig), 1);
    all_live(rig, live_s);
}

static void nobody_comes(struct rig *rig)
{
    for (uint32_t waited_s = 0; waited_s <= SILENCE_S + BLOCK_S; waited_s += 100) {
        rig_advance_s(rig, 100);
        rig_settle(rig);
        rig_settle(rig);
    }
}

// A stage of everybody has no control: silence is compared with what control of the stages before
// has taught, also after a restart.
static void silence_of_everybody_is_compared_with_earlier_control(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_counts seen;
    struct pol_counts counts;
    for (int restarted = 0; restarted < 2; restarted++) {
        in_the_last_stage(&rig, 100);
        gw_rollout_seen(rig.core, gw_catalog_find_rollout(rig.core, ID), &seen, &counts);
        assert_int_equal(counts.control_hazard.silent, 0);
        assert_true(counts.control_hazard.device_seconds > 0);
        if (restarted) {
            rig_stop(&rig);
            rig_start(&rig);
        }
        nobody_comes(&rig);
        assert_int_equal(reason_back(&rig), POL_REASON_SILENT_OVER_CONTROL);
        expect_replay(&rig);
        rig_done(&rig);
    }

    in_the_last_stage(&rig, 4 * SILENCE_S);
    struct gw_rollout_view view;
    rig_view(&rig, ID, &view);
    assert_int_equal(view.state, POL_ROLLOUT_COMPLETED);
    expect_replay(&rig);
    rig_done(&rig);
}

static const struct rig_stage all_at_once[] = {
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 400000, 3 * SILENCE_S *SECOND_US},
};

// Where there never was control nobody knows what silence is usual.
static void silence_without_control_is_not_asked(void **state)
{
    (void)state;
    struct rig rig;
    open_fleet(&rig);
    begin_conducted(&rig, all_at_once, 1, watched);
    all_live(&rig, 100);
    nobody_comes(&rig);
    assert_int_equal(reason_back(&rig), POL_REASON_NONE);
    rig_done(&rig);
}

static uint32_t guard_window_s;

static void guarded(struct pol_stage *stage, uint32_t index)
{
    conduct(stage, index);
    stage->guard_s = 24 * 3600;
    stage->window_s = guard_window_s;
}

static const struct rig_stage guarded_full[] = {
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 20, 400000, 0},
};

static void expect_state(struct rig *rig, enum pol_rollout_state state, enum pol_reason reason)
{
    struct gw_rollout_view view;
    rig_settle(rig);
    rig_settle(rig); // by the walk of the tick before
    rig_view(rig, ID, &view);
    assert_int_equal(view.state, state);
    assert_int_equal(view.reason, reason);
}

// A device comes shortly before the stage passes, and says nothing. It is outstanding as long as
// what it says would count: for its window, whatever an execution may take.
static void guard_for(uint32_t window_s, uint32_t waits_s)
{
    struct rig rig;
    guard_window_s = window_s;
    rig_init(&rig);
    rig_start(&rig);
    make_devices();
    begin_conducted(&rig, guarded_full, 1, guarded);
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(come(&rig, &devices[i]), UPDATED);
        tell_of(&rig, &devices[i], false, WIRE_OUTCOME_RAN);
    }
    rig_advance_s(&rig, window_s - 10);
    assert_int_equal(come(&rig, &devices[30]), UPDATED);
    rig_advance_s(&rig, BLOCK_S + 15);
    expect_state(&rig, POL_ROLLOUT_GUARDING, POL_REASON_GUARDING);
    rig_advance_s(&rig, waits_s);
    expect_state(&rig, POL_ROLLOUT_GUARDING, POL_REASON_GUARDING);
    rig_advance_s(&rig, window_s - waits_s + BLOCK_S);
    expect_state(&rig, POL_ROLLOUT_COMPLETED, POL_REASON_NOBODY_OUTSTANDING);
    expect_replay(&rig);
    rig_done(&rig);
}

// To its last second: what is said in it still counts.
static void a_window_ends_with_its_last_second(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    guard_window_s = WINDOW_S;
    rig_init(&rig);
    rig_start(&rig);
    make_devices();
    begin_conducted(&rig, guarded_full, 1, guarded);
    for (uint32_t i = 0; i < 30; i++) {
        (void)come(&rig, &devices[i]);
        tell_of(&rig, &devices[i], false, WIRE_OUTCOME_RAN);
    }
    rig_advance_s(&rig, WINDOW_S - 10);
    uint32_t offered_s = gw_core_now_s(rig.core);
    assert_int_equal(come(&rig, &devices[30]), UPDATED);
    rig_advance_s(&rig, BLOCK_S + 15);
    expect_state(&rig, POL_ROLLOUT_GUARDING, POL_REASON_GUARDING);
    const struct gw_release *release = gw_catalog_find_rollout(rig.core, ID)->release;
    uint64_t end_s = gw_trial_window_end_s(release, 0, offered_s);
    rig_advance_s(&rig, end_s - gw_core_now_s(rig.core));
    expect_state(&rig, POL_ROLLOUT_GUARDING, POL_REASON_GUARDING);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.outstanding, 1);
    rig_advance_s(&rig, 1);
    expect_state(&rig, POL_ROLLOUT_COMPLETED, POL_REASON_NOBODY_OUTSTANDING);
    rig_done(&rig);
}

static void counted(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->guard_s = 24 * 3600;
}

// With the other rules it is the execution timeout, to its last second.
static void a_timeout_ends_with_its_last_second(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    rig_init(&rig);
    rig_start(&rig);
    make_devices();
    begin_conducted(&rig, guarded_full, 1, counted);
    assert_int_equal(come(&rig, &devices[30]), UPDATED);
    uint64_t end_s = gw_core_now_s(rig.core);
    for (uint32_t i = 0; i < 30; i++) {
        (void)come(&rig, &devices[i]);
        tell_of(&rig, &devices[i], false, WIRE_OUTCOME_RAN);
    }
    rig_view(&rig, ID, &view);
    end_s += view.execution_timeout_s;
    rig_advance_s(&rig, 5);
    expect_state(&rig, POL_ROLLOUT_GUARDING, POL_REASON_GUARDING);
    rig_advance_s(&rig, end_s - gw_core_now_s(rig.core));
    expect_state(&rig, POL_ROLLOUT_GUARDING, POL_REASON_GUARDING);
    rig_view(&rig, ID, &view);
    assert_int_equal(view.outstanding, 1);
    rig_advance_s(&rig, 1);
    expect_state(&rig, POL_ROLLOUT_COMPLETED, POL_REASON_NOBODY_OUTSTANDING);
    rig_done(&rig);
}

static void a_guard_waits_for_windows(void **state)
{
    (void)state;
    guard_for(WINDOW_S, WINDOW_S / 4);
    guard_for(4 * GW_EXECUTION_TIMEOUT_S, GW_EXECUTION_TIMEOUT_S + 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_compared_with_a_placebo),
        cmocka_unit_test(silence_of_everybody_is_compared_with_earlier_control),
        cmocka_unit_test(silence_without_control_is_not_asked),
        cmocka_unit_test(a_guard_waits_for_windows),
        cmocka_unit_test(a_window_ends_with_its_last_second),
        cmocka_unit_test(a_timeout_ends_with_its_last_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

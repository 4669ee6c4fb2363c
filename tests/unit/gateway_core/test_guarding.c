// A rollout's life behind its last stage, and what verdicts do: devices that answer late are
// judged, who is under way is no failure, and a person is waited for where the stage says so.
#include "conduct_kit.h"
#include "svc/access/credentials.h"

#define GUARD_S   3600u
#define FEW       8u
#define SILENCE_S 120u

static const struct rig_stage full_only[] = {
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 200000, 0},
};
static const enum wire_outcome_kind begun[] = {WIRE_OUTCOME_DOWNLOADED};

static void guarded(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->guard_s = stage->kind == POL_STAGE_FULL ? GUARD_S : 0;
}

static void held(struct pol_stage *stage, uint32_t index)
{
    guarded(stage, index);
    stage->on_fail = POL_ON_FAIL_HOLD;
}

static void asked(struct pol_stage *stage, uint32_t index)
{
    guarded(stage, index);
    stage->on_pass = POL_ON_PASS_PAUSE;
}

// Devices that show who they are: they are known from their first check-in on.
static void open_known(struct rig *rig, void (*conduct)(struct pol_stage *stage, uint32_t index))
{
    open_rig(rig, conduct);
    rig->certified = true;
}

static uint64_t pages(const struct rig *rig)
{
    return atomic_load(&rig->core->ends.pages);
}

static enum pol_rollout_state state_of(struct rig *rig, uint64_t id)
{
    struct gw_rollout_view view;
    rig_settle(rig);
    rig_view(rig, id, &view);
    return view.state;
}

static uint64_t runs(uint32_t device)
{
    return rig_device_task(&devices[device], "shop/score")->version_id;
}

// Devices 0..count-1 are known, and the rollout is started.
static void start_known(struct rig *rig, uint64_t id, uint32_t count)
{
    begin(rig, id, full_only, 1);
    for (uint32_t i = 0; i < count; i++) {
        (void)come(rig, &devices[i], id, NULL, 0, NULL);
    }
    rig_command(rig, id, POL_COMMAND_START, NULL);
}

// One of eight answers well, so that the last stage passes; then the others fail.
static void who_fails_late_takes_the_rollout_back(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_known(&rig, guarded);
    start_known(&rig, 0x11, FEW);
    (void)come(&rig, &devices[0], 0x11, good, 3, NULL);
    assert_int_equal(state_of(&rig, 0x11), POL_ROLLOUT_GUARDING);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.reason, POL_REASON_GUARDING);
    assert_int_equal(view.outstanding, FEW - 1);
    assert_int_equal(view.guard_left_s, GUARD_S);
    rig_stop(&rig); // it is guarded still when the gateway comes again
    rig_start(&rig);
    rig_advance_s(&rig, 60);
    for (uint32_t i = 1; i < FEW; i++) {
        (void)come(&rig, &devices[i], 0x11, bad, 4, NULL);
        rig_settle(&rig);
    }
    rig_view(&rig, 0x11, &view);
    assert_true(view.state == POL_ROLLOUT_ROLLING_BACK || view.state == POL_ROLLOUT_ROLLED_BACK);
    assert_true(view.stage_failed && view.paged && !view.guarding);
    assert_int_equal(pages(&rig), 1);
    (void)come(&rig, &devices[0], 0x11, good, 3, NULL);
    assert_int_equal(state_of(&rig, 0x11), POL_ROLLOUT_ROLLED_BACK);
    assert_true(runs(0) == 0);
    expect_replay(&rig, 0x11);
    rig_done(&rig);
}

static void silent(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->guard_s = 0;
    stage->silence_s = SILENCE_S;
}

static void unasked(struct pol_stage *stage, uint32_t index)
{
    silent(stage, index);
    stage->silence_s = 0;
}

// Two have the version when it is taken back, and `lost` of them never come again.
static void go_back(struct rig *rig, uint64_t id, uint32_t lost)
{
    begin(rig, id, full_only, 1);
    rig_command(rig, id, POL_COMMAND_START, NULL);
    (void)come(rig, &devices[0], id, good, 2, NULL);
    (void)come(rig, &devices[1], id, good, 2, NULL);
    rig_command(rig, id, POL_COMMAND_ABORT, NULL);
    for (uint32_t i = lost; i < 2; i++) {
        (void)come(rig, &devices[i], id, good, 2, NULL);
    }
    assert_int_equal(state_of(rig, id), POL_ROLLOUT_ROLLING_BACK);
}

// The way back is over when who is silent is all that is left, or revoked.
static void who_is_lost_does_not_keep_it_going_back(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_credential revoked;
    open_known(&rig, silent);
    go_back(&rig, 0x71, 1);
    rig_advance_s(&rig, SILENCE_S - 1);
    assert_int_equal(state_of(&rig, 0x71), POL_ROLLOUT_ROLLING_BACK);
    rig_advance_s(&rig, 1);
    assert_int_equal(state_of(&rig, 0x71), POL_ROLLOUT_ROLLED_BACK);
    expect_replay(&rig, 0x71);
    rig_done(&rig);
    // Who comes is waited for, and who cannot come any more is not.
    open_known(&rig, silent);
    go_back(&rig, 0x72, 2);
    rig_advance_s(&rig, SILENCE_S - 1);
    (void)come(&rig, &devices[0], 0x72, NULL, 0, NULL);
    rig_advance_s(&rig, SILENCE_S - 1);
    assert_int_equal(state_of(&rig, 0x72), POL_ROLLOUT_ROLLING_BACK);
    assert_int_equal(gw_device_revoke(rig.core, devices[0].id, &revoked), BASE_OK);
    assert_int_equal(state_of(&rig, 0x72), POL_ROLLOUT_ROLLED_BACK);
    rig_done(&rig);
    // Who is back already is missed by nobody.
    open_known(&rig, silent);
    go_back(&rig, 0x74, 1);
    for (int i = 0; i < 4; i++) {
        rig_advance_s(&rig, SILENCE_S - 10);
        (void)come(&rig, &devices[0], 0x74, NULL, 0, NULL);
        assert_int_equal(state_of(&rig, 0x74), POL_ROLLOUT_ROLLING_BACK);
    }
    rig_done(&rig);
    // Where nobody is asked about silence, as many intervals as by default.
    open_known(&rig, unasked);
    atomic_store(&rig.core->set.checkin_interval_s, SILENCE_S / GW_STAGE_SILENCE_TIMES);
    go_back(&rig, 0x73, 1);
    rig_advance_s(&rig, SILENCE_S - 1);
    assert_int_equal(state_of(&rig, 0x73), POL_ROLLOUT_ROLLING_BACK);
    rig_advance_s(&rig, 1);
    assert_int_equal(state_of(&rig, 0x73), POL_ROLLOUT_ROLLED_BACK);
    rig_done(&rig);
}

static void everybody_answered_or_the_guard_is_over(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_known(&rig, guarded);
    start_known(&rig, 0x21, FEW);
    for (uint32_t i = 0; i < FEW; i++) {
        assert_int_equal(state_of(&rig, 0x21), i == 0 ? POL_ROLLOUT_RUNNING : POL_ROLLOUT_GUARDING);
        (void)come(&rig, &devices[i], 0x21, good, 3, NULL);
    }
    assert_int_equal(state_of(&rig, 0x21), POL_ROLLOUT_COMPLETED);
    rig_view(&rig, 0x21, &view);
    assert_int_equal(view.reason, POL_REASON_NOBODY_OUTSTANDING);
    assert_int_equal(view.verdict, POL_VERDICT_PASS);
    assert_int_equal(atomic_load(&rig.core->ends.guards_over), 0);
    expect_replay(&rig, 0x21);
    // Of the next one somebody never comes.
    begin(&rig, 0x22, full_only, 1);
    rig_command(&rig, 0x22, POL_COMMAND_START, NULL);
    (void)come(&rig, &devices[0], 0x22, good, 3, NULL);
    assert_int_equal(state_of(&rig, 0x22), POL_ROLLOUT_GUARDING);
    rig_advance_s(&rig, GUARD_S - 1);
    assert_int_equal(state_of(&rig, 0x22), POL_ROLLOUT_GUARDING);
    rig_advance_s(&rig, 1);
    assert_int_equal(state_of(&rig, 0x22), POL_ROLLOUT_COMPLETED);
    rig_view(&rig, 0x22, &view);
    assert_int_equal(view.reason, POL_REASON_GUARD_OVER);
    assert_int_equal(atomic_load(&rig.core->ends.guards_over), 1);
    assert_int_equal(atomic_load(&rig.core->ends.completed), 2);
    expect_replay(&rig, 0x22);
    rig_done(&rig);
}

// A person ends it sooner.
static void a_guard_is_promoted(void **state)
{
    (void)state;
    struct rig rig;
    open_known(&rig, guarded);
    start_known(&rig, 0x31, FEW);
    rig_command(&rig, 0x31, POL_COMMAND_PROMOTE, NULL);
    assert_int_equal(state_of(&rig, 0x31), POL_ROLLOUT_GUARDING);
    rig_command(&rig, 0x31, POL_COMMAND_PROMOTE, NULL);
    assert_int_equal(state_of(&rig, 0x31), POL_ROLLOUT_COMPLETED);
    expect_replay(&rig, 0x31);
    rig_done(&rig);
}

// Who was offered it a moment ago is under way, not silent, also when nobody judges it any more.
static void under_way_is_no_failure(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_known(&rig, NULL);
    begin(&rig, 0x41, full_only, 1);
    rig_command(&rig, 0x41, POL_COMMAND_START, NULL);
    for (uint32_t i = 0; i < FEW; i++) {
        (void)come(&rig, &devices[i], 0x41, begun, 1, NULL);
    }
    rig_settle(&rig);
    rig_command(&rig, 0x41, POL_COMMAND_PROMOTE, NULL);
    for (int restarted = 0; restarted < 2; restarted++) {
        assert_int_equal(state_of(&rig, 0x41), POL_ROLLOUT_COMPLETED);
        rig_view(&rig, 0x41, &view);
        assert_int_equal(view.counts.offered, FEW);
        assert_int_equal(view.counts.timed_out, 0);
        assert_int_equal(view.counts.under_way, FEW);
        rig_stop(&rig);
        rig_start(&rig);
    }
    (void)come(&rig, &devices[FEW], 0x41, begun, 1,
               NULL); // the baseline's offers are like that, too
    rig_settle(&rig);
    rig_view(&rig, 0x41, &view);
    assert_int_equal(view.counts.timed_out, 0);
    assert_int_equal(view.counts.under_way, FEW + 1);
    rig_advance_s(&rig, GW_EXECUTION_TIMEOUT_S + 60);
    rig_settle(&rig);
    rig_view(&rig, 0x41, &view);
    assert_int_equal(view.counts.timed_out, FEW + 1);
    assert_int_equal(view.counts.under_way, 0);
    rig_done(&rig);
}

static void answering(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->gate.min_sample = 5;
    stage->gate.max_failure_ppm = 1000000; // whatever happens, it does not fail
    stage->gate.min_answered_ppm = 900000;
}

static void a_pass_needs_answers(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_known(&rig, answering);
    for (uint64_t id = 0x51; id <= 0x52; id++) {
        begin(&rig, id, full_only, 1);
        rig_command(&rig, id, POL_COMMAND_START, NULL);
        for (uint32_t i = 20; i > 0; i--) {
            (void)come(&rig, &devices[i - 1], id, i <= 5 ? good : begun, i <= 5 ? 3 : 1, NULL);
        }
        assert_int_equal(state_of(&rig, id), POL_ROLLOUT_RUNNING);
        rig_view(&rig, id, &view);
        assert_int_equal(view.verdict, POL_VERDICT_INCONCLUSIVE);
        assert_int_equal(view.reason, POL_REASON_UNDER_WAY);
        if (id == 0x51) {
            for (uint32_t i = 5; i < 18; i++) { // nine in ten, now
                assert_int_equal(rig_report(&rig, &devices[i], &view, good, 3), 204);
            }
            assert_int_equal(state_of(&rig, id), POL_ROLLOUT_COMPLETED);
        } else {
            rig_advance_s(&rig, GW_EXECUTION_TIMEOUT_S + 60);
            assert_int_equal(state_of(&rig, id), POL_ROLLOUT_RUNNING);
            rig_view(&rig, id, &view);
            assert_int_equal(view.reason, POL_REASON_TOO_FEW_ANSWERED);
        }
        expect_replay(&rig, id);
    }
    rig_done(&rig);
}

static void dwelling(struct pol_stage *stage, uint32_t index)
{
    stage->gate.min_dwell_us = index == 0 ? 1000000 : 0;
}

// What a stage is said to have is its own: it has not passed because the one before did.
static void a_stage_begins_without_a_verdict(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_known(&rig, dwelling);
    begin(&rig, 0x59, gray_full, 2);
    rig_command(&rig, 0x59, POL_COMMAND_START, NULL);
    (void)all_come(&rig, 0x59, good, 3);
    rig_view(&rig, 0x59, &view);
    assert_int_equal(view.reason, POL_REASON_DWELL_NOT_REACHED);
    rig_advance_s(&rig, 2);
    assert_true(gw_core_tick(rig.core));
    rig_view(&rig, 0x59, &view);
    assert_int_equal(view.stage_index, 1);
    assert_int_equal(view.verdict, POL_VERDICT_NO_DATA);
    assert_int_equal(view.reason, POL_REASON_NO_COMPLETIONS);
    expect_replay(&rig, 0x59);
    rig_done(&rig);
}

// on_fail hold: nobody goes back, nobody else comes, and somebody is told; a person takes it back.
static void a_failed_stage_is_held(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_known(&rig, held);
    start_known(&rig, 0x61, DEVICES);
    (void)come(&rig, &devices[0], 0x61, good, 3, NULL);
    assert_int_equal(state_of(&rig, 0x61), POL_ROLLOUT_GUARDING);
    for (uint32_t i = 1; i < FEW; i++) {
        (void)come(&rig, &devices[i], 0x61, bad, 4, NULL);
        rig_settle(&rig);
    }
    rig_view(&rig, 0x61, &view);
    assert_int_equal(view.state, POL_ROLLOUT_PAUSED);
    assert_true(view.stage_failed && view.paged && view.guarding);
    assert_int_equal(view.verdict, POL_VERDICT_FAIL);
    assert_int_equal(pages(&rig), 1);
    assert_int_equal(atomic_load(&rig.core->ends.held), 1);
    for (int restarted = 0; restarted < 2; restarted++) {
        assert_int_equal(come(&rig, &devices[0], 0x61, good, 3, NULL), 0); // keeps it
        assert_true(runs(0) == view.version_id);
        assert_int_equal(come(&rig, &devices[FEW + 1], 0x61, good, 3, NULL), 0); // gets nothing
        rig_stop(&rig);
        rig_start(&rig);
    }
    assert_int_equal(ask(&rig, 0x61, POL_COMMAND_RESUME, "ana", 0), BASE_ERR_CONFLICT);
    assert_int_equal(ask(&rig, 0x61, POL_COMMAND_ABORT, "ana", 0), BASE_OK);
    (void)come(&rig, &devices[0], 0x61, good, 3, NULL);
    assert_int_equal(state_of(&rig, 0x61), POL_ROLLOUT_ROLLED_BACK);
    assert_true(runs(0) == 0);
    expect_replay(&rig, 0x61);
    rig_done(&rig);
}

// on_pass pause: the next stage opens when a person says so.
static void a_passed_stage_waits_for_promote(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_known(&rig, asked);
    begin(&rig, 0x71, gray_full, 2);
    rig_command(&rig, 0x71, POL_COMMAND_START, NULL);
    (void)all_come(&rig, 0x71, good, 3);
    rig_view(&rig, 0x71, &view);
    assert_int_equal(view.state, POL_ROLLOUT_PAUSED);
    assert_int_equal(view.reason, POL_REASON_STAGE_PASSED);
    assert_true(view.passed && !view.stage_failed);
    rig_stop(&rig);
    rig_start(&rig);
    assert_int_equal(all_come(&rig, 0x71, good, 3), 0);
    assert_int_equal(ask(&rig, 0x71, POL_COMMAND_RESUME, "ana", 0), BASE_ERR_CONFLICT);
    assert_int_equal(ask(&rig, 0x71, POL_COMMAND_PROMOTE, "ana", 0), BASE_OK);
    assert_in_range(all_come(&rig, 0x71, good, 3), 20, DEVICES - 1);
    assert_int_equal(state_of(&rig, 0x71), POL_ROLLOUT_PAUSED);
    assert_int_equal(ask(&rig, 0x71, POL_COMMAND_PROMOTE, "ana", 0), BASE_OK);
    assert_int_equal(state_of(&rig, 0x71), POL_ROLLOUT_GUARDING);
    (void)all_come(&rig, 0x71, good, 3);
    assert_int_equal(state_of(&rig, 0x71), POL_ROLLOUT_COMPLETED); // everybody has answered
    expect_replay(&rig, 0x71);
    rig_done(&rig);
}

// It is the baseline meanwhile: another rollout is followed before it, and when that is everybody's
// there is nothing left to guard.
static void a_later_rollout_goes_before_a_guarded_one(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct gw_task_view task;
    open_known(&rig, guarded);
    start_known(&rig, 0x81, DEVICES);
    (void)come(&rig, &devices[0], 0x81, good, 3, NULL);
    assert_int_equal(state_of(&rig, 0x81), POL_ROLLOUT_GUARDING);
    assert_int_equal(gw_catalog_task_get(rig.core, BASE_STR("shop/score"), &task), BASE_OK);
    assert_int_equal(task.baseline_rollout, 0x81);
    assert_int_equal(task.open_count, 0);
    begin(&rig, 0x82, gray_full, 2);
    rig_command(&rig, 0x82, POL_COMMAND_START, &view);
    uint32_t later = 0;
    (void)all_come(&rig, 0x82, begun, 1);
    for (uint32_t i = 0; i < DEVICES; i++) {
        later += runs(i) == view.version_id;
    }
    assert_in_range(later, 10, DEVICES / 2); // its share; the others have the baseline
    assert_int_equal(state_of(&rig, 0x81), POL_ROLLOUT_GUARDING);
    rig_command(&rig, 0x82, POL_COMMAND_PROMOTE, NULL);
    rig_command(&rig, 0x82, POL_COMMAND_PROMOTE, NULL);
    assert_int_equal(state_of(&rig, 0x81), POL_ROLLOUT_COMPLETED);
    assert_int_equal(state_of(&rig, 0x82), POL_ROLLOUT_GUARDING);
    rig_view(&rig, 0x81, &view);
    assert_int_equal(view.reason, POL_REASON_NOBODY_OUTSTANDING);
    expect_replay(&rig, 0x81);
    rig_done(&rig);
}

// Paused while it is guarded: a baseline for those that have it.
static void a_guard_is_paused_and_resumed(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view first;
    struct gw_rollout_view second;
    open_known(&rig, NULL);
    begin(&rig, 0x91, full_only, 1);
    rig_command(&rig, 0x91, POL_COMMAND_START, &first);
    (void)all_come(&rig, 0x91, good, 3);
    assert_int_equal(state_of(&rig, 0x91), POL_ROLLOUT_COMPLETED);
    rig.conduct = guarded;
    begin(&rig, 0x92, full_only, 1);
    rig_command(&rig, 0x92, POL_COMMAND_START, &second);
    (void)come(&rig, &devices[0], 0x92, good, 3, NULL);
    assert_int_equal(state_of(&rig, 0x92), POL_ROLLOUT_GUARDING);
    rig_command(&rig, 0x92, POL_COMMAND_PAUSE, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(come(&rig, &devices[i], 0x92, good, 3, NULL), 0);
    }
    struct rig_device fresh; // it gets the one before
    rig_device_init(&fresh, 0x1234567);
    struct rig_exchange exchange;
    struct wire_offers offers;
    assert_int_equal(rig_checkin(&rig, &fresh, true, &exchange, &offers), 200);
    (void)rig_device_take(&fresh, &offers);
    assert_true(rig_device_task(&fresh, "shop/score")->version_id == first.version_id);
    rig_exchange_done(&exchange);
    rig_command(&rig, 0x92, POL_COMMAND_RESUME, NULL);
    assert_int_equal(state_of(&rig, 0x92), POL_ROLLOUT_GUARDING);
    (void)come(&rig, &devices[1], 0x92, good, 3, NULL);
    assert_true(runs(1) == second.version_id);
    expect_replay(&rig, 0x92);
    rig_done(&rig);
}

static void narrow(struct pol_stage *stage, uint32_t index)
{
    guarded(stage, index);
    stage->pace.in_flight_max = 2;
}

// Offers keep to the last stage's pace while it is guarded.
static void a_guard_keeps_the_pace(void **state)
{
    (void)state;
    struct rig rig;
    open_known(&rig, narrow);
    start_known(&rig, 0xa1, DEVICES);
    rig_settle(&rig);
    (void)come(&rig, &devices[0], 0xa1, good, 3, NULL);
    assert_int_equal(state_of(&rig, 0xa1), POL_ROLLOUT_GUARDING);
    uint32_t took = 0;
    for (uint32_t i = 1; i < DEVICES; i++) {
        took += come(&rig, &devices[i], 0xa1, begun, 1, NULL);
    }
    assert_int_equal(took, 2);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_fails_late_takes_the_rollout_back),
        cmocka_unit_test(who_is_lost_does_not_keep_it_going_back),
        cmocka_unit_test(everybody_answered_or_the_guard_is_over),
        cmocka_unit_test(a_guard_is_promoted),
        cmocka_unit_test(under_way_is_no_failure),
        cmocka_unit_test(a_pass_needs_answers),
        cmocka_unit_test(a_stage_begins_without_a_verdict),
        cmocka_unit_test(a_failed_stage_is_held),
        cmocka_unit_test(a_passed_stage_waits_for_promote),
        cmocka_unit_test(a_later_rollout_goes_before_a_guarded_one),
        cmocka_unit_test(a_guard_is_paused_and_resumed),
        cmocka_unit_test(a_guard_keeps_the_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

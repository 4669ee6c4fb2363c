// A rollout that goes back waits for those alone whom its end takes the version from: not for who
// keeps it by another rollout of the version, and not for who went on to another version.
#include "conduct_kit.h"

#include "svc/trust/director.h"
#include "svc/rollout/way_back.h"
#include "svc/rollout/kill_commands.h"

#define FEW  8u
#define TASK "shop/score"

static const struct rig_stage full_only[] = {
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 200000, 0},
};
static const struct rig_stage half[] = {
    {"half", POL_STAGE_GRAY, 5000, NULL, NULL, 1, 200000, 0},
};

static void unguarded(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->guard_s = 0;
    stage->gate.min_sample = 1000; // whoever answers, a person leads it on
}

static void open_known(struct rig *rig)
{
    open_rig(rig, unguarded);
    rig->certified = true;
}

// Made and started, of the version `number`.
static void release(struct rig *rig, uint64_t id, uint32_t number, const struct rig_stage *stages)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    char version[16];
    snprintf(version, sizeof(version), "2.0.%u", (unsigned)number);
    rig_version(rig, TASK, version, &manifest);
    if (rig_rollout(rig, id, TASK, &manifest, NULL, NULL, stages, 1, &view, &error) != BASE_OK) {
        fail_msg("rollout: %s", error.text);
    }
    rig_command(rig, id, POL_COMMAND_START, NULL);
}

// The first FEW check in, and report what the rollout brings them; how many it brought something.
static uint32_t few_come(struct rig *rig, uint64_t id)
{
    uint32_t took = 0;
    for (uint32_t i = 0; i < FEW; i++) {
        took += come(rig, &devices[i], id, good, 3, NULL);
    }
    return took;
}

// Two looks: a pass over the devices begins when nobody came back between them.
static enum pol_rollout_state state_of(struct rig *rig, uint64_t id)
{
    struct gw_rollout_view view;
    rig_settle(rig);
    rig_settle(rig);
    rig_view(rig, id, &view);
    return view.state;
}

static uint64_t runs(uint32_t device)
{
    return rig_device_task(&devices[device], TASK)->version_id;
}

static bool in_half(uint32_t device, const struct gw_rollout_view *view)
{
    return pol_bucket(devices[device].id, view->salt) < half[0].max_bucket;
}

// Another rollout of the version, that was open or completed, keeps it on all of them.
static void who_keeps_the_version_is_not_waited_for(void **state)
{
    (void)state;
    for (int completed = 0; completed < 2; completed++) {
        struct rig rig;
        open_known(&rig);
        release(&rig, 0x11, 1, full_only);
        assert_int_equal(few_come(&rig, 0x11), FEW);
        release(&rig, 0x12, 1, full_only);
        assert_int_equal(few_come(&rig, 0x12), 0); // they have it
        if (completed != 0) {
            rig_command(&rig, 0x12, POL_COMMAND_PROMOTE, NULL);
        }
        uint64_t version = runs(0);
        rig_command(&rig, 0x11, POL_COMMAND_ABORT, NULL);
        assert_int_equal(state_of(&rig, 0x11), POL_ROLLOUT_ROLLED_BACK);
        assert_int_equal(few_come(&rig, 0x12), 0);
        assert_true(version != 0 && runs(0) == version);
        expect_replay(&rig, 0x11);
        rig_done(&rig);
    }
}

// ... on those that its share has: the others go back, and are waited for.
static void who_is_outside_the_other_share_is_waited_for(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    uint32_t outside = 0;
    open_known(&rig);
    release(&rig, 0x21, 1, full_only);
    (void)few_come(&rig, 0x21);
    release(&rig, 0x22, 1, half);
    rig_view(&rig, 0x22, &view);
    rig_command(&rig, 0x21, POL_COMMAND_ABORT, NULL);
    for (uint32_t i = 0; i < FEW; i++) {
        if (!in_half(i, &view)) {
            assert_int_equal(state_of(&rig, 0x21), POL_ROLLOUT_ROLLING_BACK);
            assert_int_equal(come(&rig, &devices[i], 0x21, good, 3, NULL), 1);
            assert_int_equal(runs(i), 0);
            outside++;
        }
    }
    assert_in_range(outside, 1, FEW - 1);
    assert_int_equal(state_of(&rig, 0x21), POL_ROLLOUT_ROLLED_BACK);
    expect_replay(&rig, 0x21);
    rig_done(&rig);
}

// When that one goes back, too, before the first is back, nobody is left out any more.
static void who_kept_it_is_waited_for_when_that_ends(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    uint64_t kept = 0;
    open_known(&rig);
    release(&rig, 0x31, 1, full_only);
    (void)few_come(&rig, 0x31);
    release(&rig, 0x32, 1, half);
    rig_view(&rig, 0x32, &view);
    for (uint32_t i = 0; i < FEW; i++) {
        kept += in_half(i, &view);
    }
    rig_command(&rig, 0x31, POL_COMMAND_ABORT, NULL);
    assert_int_equal(state_of(&rig, 0x31), POL_ROLLOUT_ROLLING_BACK);
    const struct gw_rollout *first = gw_catalog_find_rollout(rig.core, 0x31);
    assert_int_equal(gw_way_back_spared(rig.core, first, FEW), kept);
    assert_true(kept > 0);
    rig_command(&rig, 0x32, POL_COMMAND_ABORT, NULL);
    assert_int_equal(gw_way_back_spared(rig.core, first, FEW), 0);   // what was found is of before
    assert_int_equal(state_of(&rig, 0x32), POL_ROLLOUT_ROLLED_BACK); // it brought nobody there
    for (uint32_t i = 0; i < FEW; i++) {
        assert_int_equal(state_of(&rig, 0x31), POL_ROLLOUT_ROLLING_BACK);
        assert_int_equal(come(&rig, &devices[i], 0x31, good, 3, NULL), 1);
    }
    assert_int_equal(state_of(&rig, 0x31), POL_ROLLOUT_ROLLED_BACK);
    expect_replay(&rig, 0x31);
    rig_done(&rig);
}

// Of a rollout that was complete when it was taken back nobody has marks any more after a restart.
static void a_baseline_is_undone_under_another_rollout_of_it(void **state)
{
    (void)state;
    struct rig rig;
    open_known(&rig);
    release(&rig, 0x41, 1, full_only);
    (void)few_come(&rig, 0x41);
    rig_command(&rig, 0x41, POL_COMMAND_PROMOTE, NULL);
    rig_settle(&rig);
    rig_stop(&rig);
    rig_start(&rig);
    (void)few_come(&rig, 0x41);
    release(&rig, 0x42, 1, half);
    release(&rig, 0x43, 1, full_only);
    rig_command(&rig, 0x42, POL_COMMAND_ABORT, NULL);
    rig_command(&rig, 0x41, POL_COMMAND_UNDO, NULL);
    assert_int_equal(state_of(&rig, 0x41), POL_ROLLOUT_ROLLED_BACK);
    assert_int_equal(state_of(&rig, 0x42), POL_ROLLOUT_ROLLED_BACK);
    assert_int_equal(few_come(&rig, 0x43), 0);
    expect_replay(&rig, 0x41);
    rig_done(&rig);
}

// Who went on to a version of higher priority has nothing to come back from; who fell back to this
// one has.
static void who_went_on_is_not_waited_for(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        struct rig rig;
        open_known(&rig);
        release(&rig, 0x51, 1, full_only);
        (void)few_come(&rig, 0x51);
        uint64_t first = runs(0);
        rig.priority = 10;
        release(&rig, 0x52, 2, full_only);
        rig_advance_s(&rig, 1);
        assert_int_equal(few_come(&rig, 0x52), FEW);
        assert_true(runs(0) != first);
        if (fails != 0) {
            struct gw_rollout_view view;
            rig_view(&rig, 0x52, &view);
            rig_advance_s(&rig, 1);
            assert_int_equal(rig_report(&rig, &devices[0], &view, &bad[2], 2), 204);
            rig_device_task(&devices[0], TASK)->version_id = first;
            rig_device_task(&devices[0], TASK)->blocked_version_id = view.version_id;
        }
        rig_command(&rig, 0x51, POL_COMMAND_ABORT, NULL);
        if (fails != 0) {
            assert_int_equal(state_of(&rig, 0x51), POL_ROLLOUT_ROLLING_BACK);
            assert_int_equal(come(&rig, &devices[0], 0x51, good, 3, NULL), 1);
        }
        assert_int_equal(state_of(&rig, 0x51), POL_ROLLOUT_ROLLED_BACK);
        expect_replay(&rig, 0x51);
        rig_done(&rig);
    }
}

// Killed by mistake, let go and released again before they came: they have what they should.
static void a_kill_that_was_lifted_is_not_waited_for(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct base_error error = {0};
    open_known(&rig);
    release(&rig, 0x61, 1, full_only);
    (void)few_come(&rig, 0x61);
    rig_command(&rig, 0x61, POL_COMMAND_KILL, &view);
    assert_int_equal(state_of(&rig, 0x61), POL_ROLLOUT_ROLLING_BACK);
    assert_int_equal(gw_trust_unkill(rig.core,
                                     &(struct gw_kill_order){&view.manifest, BASE_STR("ana"),
                                                             BASE_STR("the wrong one")},
                                     &error),
                     BASE_OK);
    assert_int_equal(state_of(&rig, 0x61), POL_ROLLOUT_ROLLING_BACK);
    release(&rig, 0x62, 1, full_only);
    assert_int_equal(state_of(&rig, 0x61), POL_ROLLOUT_ROLLED_BACK);
    assert_int_equal(few_come(&rig, 0x62), 0);
    rig_done(&rig);
}

// Of eight seven are silent, and not waited for. That they come back after all brings it no nearer
// to its end: the one that is there still has to go.
static void who_comes_back_after_all_is_nobody_else(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    open_known(&rig);
    release(&rig, 0x71, 1, full_only);
    (void)few_come(&rig, 0x71);
    for (int i = 0; i < 60; i++) {
        rig_advance_s(&rig, 900);
        (void)come(&rig, &devices[1], 0x71, good, 3, NULL);
        rig_settle(&rig);
    }
    rig_command(&rig, 0x71, POL_COMMAND_ABORT, NULL);
    assert_int_equal(state_of(&rig, 0x71), POL_ROLLOUT_ROLLING_BACK);
    for (uint32_t i = 0; i < FEW; i++) {
        if (i != 1) {
            assert_int_equal(come(&rig, &devices[i], 0x71, good, 3, NULL), 1);
            rig_settle(&rig);
            rig_view(&rig, 0x71, &view);
            assert_int_equal(view.state, POL_ROLLOUT_ROLLING_BACK);
        }
    }
    assert_int_equal(state_of(&rig, 0x71), POL_ROLLOUT_ROLLING_BACK);
    assert_int_equal(come(&rig, &devices[1], 0x71, good, 3, NULL), 1);
    assert_int_equal(state_of(&rig, 0x71), POL_ROLLOUT_ROLLED_BACK);
    expect_replay(&rig, 0x71);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_keeps_the_version_is_not_waited_for),
        cmocka_unit_test(who_is_outside_the_other_share_is_waited_for),
        cmocka_unit_test(who_kept_it_is_waited_for_when_that_ends),
        cmocka_unit_test(a_baseline_is_undone_under_another_rollout_of_it),
        cmocka_unit_test(who_went_on_is_not_waited_for),
        cmocka_unit_test(a_kill_that_was_lifted_is_not_waited_for),
        cmocka_unit_test(who_comes_back_after_all_is_nobody_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

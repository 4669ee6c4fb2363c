// What is told of a rollout behind its end: failures that come late, and why it went back or was
// paused, whatever is found afterwards.
#include "core_rig.h"

#include "svc/rollout/late_failures.h"
#include "svc/rollout/rollout_state.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TASK   "shop/score"
#define LOOK_S (GW_LATE_LOOK_US / 1000000u + 1)

static const enum wire_outcome_kind ran[] = {WIRE_OUTCOME_ACTIVATED, WIRE_OUTCOME_RAN};
static const enum wire_outcome_kind fails[] = {WIRE_OUTCOME_ACTIVATED, WIRE_OUTCOME_FAIL_CRASH};

static void says(struct rig *rig, uint64_t rollout, uint64_t id,
                 const enum wire_outcome_kind *kinds)
{
    struct gw_rollout_view view;
    struct rig_device device;
    rig_view(rig, rollout, &view);
    rig_device_init(&device, id);
    assert_int_equal(rig_report(rig, &device, &view, kinds, 2), 204);
    rig_settle(rig);
}

static void start(struct rig *rig, uint64_t id, uint32_t min_sample)
{
    const struct rig_stage full = {"full", POL_STAGE_FULL, 10000,  NULL,
                                   NULL,   min_sample,     500000, 0};
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_version(rig, TASK, id == 0x11 ? "1.0.0" : "2.0.0", &manifest);
    assert_int_equal(rig_rollout(rig, id, TASK, &manifest, NULL, NULL, &full, 1, &view, &error),
                     BASE_OK);
    rig_command(rig, id, POL_COMMAND_START, NULL);
}

static void look(struct rig *rig)
{
    rig_advance_s(rig, LOOK_S);
    rig_settle(rig);
}

static void expect_late(struct rig *rig, bool wanted)
{
    uint64_t failed = 0;
    uint64_t completed = 0;
    const struct gw_rollout *rollout = gw_catalog_find_rollout(rig->core, 0x11);
    assert_int_equal(gw_late_failures(rig->core, rollout, &failed, &completed), wanted);
    assert_int_equal(atomic_load(&rig->core->rollouts_late), wanted);
    assert_int_equal(rollout->late_said, wanted);
}

// More than the share that the last gate allows, of what is completed, for as long as it is that:
// it is a figure at every look, and said once.
static void test_more_than_its_gate_allows(void **state)
{
    (void)state;
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    start(&rig, 0x11, 1000000);
    rig_command(&rig, 0x11, POL_COMMAND_PROMOTE, NULL);
    says(&rig, 0x11, 1, ran);
    says(&rig, 0x11, 2, fails);
    look(&rig);
    expect_late(&rig, false); // as many as it allows
    says(&rig, 0x11, 3, fails);
    assert_int_equal(atomic_load(&rig.core->rollouts_late), 0); // not looked at with every report
    for (int i = 0; i < 2; i++) {
        look(&rig);
        expect_late(&rig, true);
    }
    rig_command(&rig, 0x11, POL_COMMAND_UNDO, NULL);
    look(&rig);
    expect_late(&rig, false);
    rig_done(&rig);
}

static void expect_cause(struct rig *rig, uint64_t id, enum pol_rollout_state state,
                         enum pol_reason cause)
{
    struct gw_rollout_view view;
    rig_view(rig, id, &view);
    assert_int_equal(view.state, state);
    assert_int_equal(view.cause, cause);
}

// Who goes on has no cause any more; the way back keeps its own to its end.
static void test_the_cause_is_kept(void **state)
{
    (void)state;
    struct rig rig;
    struct rig_device device;
    struct gw_rollout_view view;
    rig_init(&rig);
    rig_start(&rig);
    start(&rig, 0x11, 2);
    rig_command(&rig, 0x11, POL_COMMAND_PAUSE, &view);
    assert_int_not_equal(view.cause, POL_REASON_NONE);
    assert_int_equal(view.cause, view.reason);
    rig_command(&rig, 0x11, POL_COMMAND_RESUME, NULL);
    expect_cause(&rig, 0x11, POL_ROLLOUT_RUNNING, POL_REASON_NONE);
    says(&rig, 0x11, 1, fails);
    says(&rig, 0x11, 2, fails);
    rig_view(&rig, 0x11, &view);
    enum pol_reason failed = view.cause;
    assert_int_not_equal(failed, POL_REASON_NONE);
    rig_advance_s(&rig, view.execution_timeout_s + 1);
    rig_settle(&rig);
    expect_cause(&rig, 0x11, POL_ROLLOUT_ROLLED_BACK, failed);

    start(&rig, 0x22, 2); // found while a person had paused it: that is why it is now
    says(&rig, 0x22, 3, fails);
    rig_view(&rig, 0x22, &view);
    rig_device_init(&device, 4);
    assert_int_equal(rig_report(&rig, &device, &view, fails, 1), 204); // activated
    rig_command(&rig, 0x22, POL_COMMAND_PAUSE, NULL);
    assert_int_equal(rig_report(&rig, &device, &view, fails, 2), 204);
    rig_settle(&rig);
    expect_cause(&rig, 0x22, POL_ROLLOUT_PAUSED, failed);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_than_its_gate_allows),
        cmocka_unit_test(test_the_cause_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

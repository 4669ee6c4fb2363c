// Statements that can never be followed are refused where somebody can still sign anew: when a
// rollout is made, when it starts, and when a stage is approved.
#include "core_rig.h"

#include "svc/rollout/statement_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define TASK   "shop/score"
#define HOUR_S 3600u

static const struct rig_stage stages[] = {
    {"gray", POL_STAGE_GRAY, 1000, NULL, NULL, 1, 500000, HOUR_S *UINT64_C(1000000)},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 1, 500000, 2 * HOUR_S *UINT64_C(1000000)},
};

static struct rig rig;

static int setup(void **state)
{
    (void)state;
    rig_init(&rig);
    rig_start(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_done(&rig);
    return 0;
}

static enum base_status make(uint64_t id, struct base_error *error)
{
    struct gw_rollout_view view;
    struct wire_sha256 manifest;
    *error = (struct base_error){0};
    rig_version(&rig, TASK, "1.0.0", &manifest);
    return rig_rollout(&rig, id, TASK, &manifest, NULL, NULL, stages, 2, &view, error);
}

static void expect_refused(enum base_status status, enum base_status wanted,
                           const struct base_error *error, const char *text)
{
    assert_int_equal(status, wanted);
    if (strstr(error->text, text) == NULL) {
        fail_msg("'%s' does not say '%s'", error->text, text);
    }
}

static enum base_status command(uint64_t id, enum pol_command command, struct base_error *error)
{
    const struct gw_rollout_who who = {.by = BASE_STR("bo"), .accept_empty = true};
    *error = (struct base_error){0};
    return gw_rollout_command(rig.core, id, command, &who, error);
}

static void test_what_ran_out_is_not_made(void **state)
{
    (void)state;
    struct base_error error;
    uint64_t now_s = gw_core_now_s(rig.core);
    rig.expires_s = now_s - 5;
    expect_refused(make(1, &error), BASE_ERR_INVALID, &error,
                   "stage gray: statement: it ran out 5 s ago");
    rig.expires_s = now_s + HOUR_S - 1;
    expect_refused(make(1, &error), BASE_ERR_INVALID, &error,
                   "stage gray: statement: runs out in 3599 s, before the stage that opens can end "
                   "(min_dwell_s 3600)");
    rig.expires_s = now_s + HOUR_S;
    assert_int_equal(make(1, &error), BASE_OK);
}

static void test_what_ran_out_is_not_started(void **state)
{
    (void)state;
    struct base_error error;
    struct gw_rollout_view view;
    rig.expires_s = gw_core_now_s(rig.core) + 2 * HOUR_S;
    assert_int_equal(make(1, &error), BASE_OK);
    rig_advance_s(&rig, HOUR_S + 60);
    expect_refused(command(1, POL_COMMAND_START, &error), BASE_ERR_INVALID, &error,
                   "stage gray: statement: runs out in 3540 s");
    rig_advance_s(&rig, HOUR_S);
    expect_refused(command(1, POL_COMMAND_START, &error), BASE_ERR_INVALID, &error,
                   "stage gray: statement: it ran out");
    rig_view(&rig, 1, &view);
    assert_int_equal(view.state, POL_ROLLOUT_DRAFT);
    assert_int_equal(command(1, POL_COMMAND_ABORT, &error),
                     BASE_OK); // what leads back waits for none
}

static void both_are_approved(struct pol_stage *stage, uint32_t index)
{
    (void)index;
    stage->approval = true;
}

static void test_what_ran_out_is_not_approved(void **state)
{
    (void)state;
    struct base_error error;
    rig.conduct = both_are_approved;
    rig.expires_s = gw_core_now_s(rig.core) + 2 * HOUR_S;
    assert_int_equal(make(1, &error), BASE_OK);
    assert_int_equal(command(1, POL_COMMAND_START, &error), BASE_OK);
    assert_int_equal(command(1, POL_COMMAND_APPROVE, &error), BASE_OK);
    assert_int_equal(command(1, POL_COMMAND_PROMOTE, &error), BASE_OK); // waits for approval again
    rig_advance_s(&rig, 60);
    expect_refused(command(1, POL_COMMAND_APPROVE, &error), BASE_ERR_INVALID, &error,
                   "stage full: statement: runs out in 7140 s");
}

static void test_a_wrong_length_is_not_made(void **state)
{
    (void)state;
    struct base_error error;
    rig.more_bytes = 1;
    expect_refused(make(1, &error), BASE_ERR_INVALID, &error,
                   "stage gray: statement: manifest_bytes ");
    rig.more_bytes = 0;
    assert_int_equal(make(1, &error), BASE_OK);
}

static void test_a_counter_leaves_a_next_one(void **state)
{
    (void)state;
    struct base_error error;
    rig.counter = GW_RELEASE_COUNTER_MAX + 1;
    expect_refused(make(1, &error), BASE_ERR_INVALID, &error, "leaves no next one");
    rig.counter = GW_RELEASE_STEP_MAX + 1;
    expect_refused(make(1, &error), BASE_ERR_INVALID, &error, "is too far above the task's 0");
    rig.counter = GW_RELEASE_STEP_MAX;
    assert_int_equal(make(1, &error), BASE_OK);
    expect_refused(make(2, &error), BASE_ERR_CONFLICT, &error, "is not above the task's");
    rig.counter = 0;
    assert_int_equal(make(2, &error), BASE_OK);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_what_ran_out_is_not_made),     CASE(test_what_ran_out_is_not_started),
        CASE(test_what_ran_out_is_not_approved), CASE(test_a_wrong_length_is_not_made),
        CASE(test_a_counter_leaves_a_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

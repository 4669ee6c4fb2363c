// What a verdict does to a rollout, and what people do about it: a guard behind the last stage, a
// failed stage that is held, a passed one that waits.
#include "test_kit.h"

#include "policy/replay.h"

#define SECOND 1000000u

#define GATE                                                                                       \
    {                                                                                              \
        .min_sample = 10, .max_failure_ppm = 100000, .min_dwell_us = SECOND                        \
    }

static const struct pol_stage stages[4] = {
    {.kind = POL_STAGE_SIMULATE, .max_bucket = 10000, .gate = GATE},
    {.kind = POL_STAGE_BETA, .max_bucket = 10000, .gate = GATE},
    {.kind = POL_STAGE_GRAY, .max_bucket = 500, .gate = GATE},
    {.kind = POL_STAGE_FULL, .max_bucket = 10000, .gate = GATE},
};

static const struct pol_counts passing = {.succeeded = 10};
static const struct pol_counts failing = {.succeeded = 5, .failed = 5, .to_roll_back = 5};
static const struct pol_counts late = {.succeeded = 10, .outstanding = 3};
static const struct pol_counts late_bad = {.succeeded = 5, .failed = 5, .outstanding = 3};

#define GUARD_S 60u

struct verdict_row {
    const char *what;
    struct pol_rollout before; // its stage, or its guard, began at 100
    enum pol_on_fail on_fail;
    enum pol_on_pass on_pass;
    const struct pol_counts *counts;
    uint64_t now_us;
    enum pol_action action;
    enum pol_reason reason;
    bool page;
    struct pol_rollout after; // of its time alone what is not 100
};

#define AT(name, ...)                                                                              \
    {                                                                                              \
        .state = POL_ROLLOUT_##name, .stage_index = 3, .stage_since_us = 100, __VA_ARGS__          \
    }
#define SINCE(us, name, ...)                                                                       \
    {                                                                                              \
        .state = POL_ROLLOUT_##name, .stage_index = 3, .stage_since_us = (us), __VA_ARGS__         \
    }
#define BACK POL_ON_FAIL_ROLL_BACK
#define HOLD POL_ON_FAIL_HOLD
#define ON   POL_ON_PASS_ADVANCE
#define WAIT POL_ON_PASS_PAUSE

static const struct verdict_row verdicts[] = {
    {"passed: guarded from then on", AT(RUNNING), BACK, ON, &late, 5 * SECOND, POL_ACTION_GUARD,
     POL_REASON_LAST_STAGE_PASSED, false, SINCE(5 * SECOND, GUARDING, .guarding = true)},
    {"guarded", AT(GUARDING, .guarding = true), BACK, ON, &late, 9, POL_ACTION_HOLD,
     POL_REASON_GUARDING, false, AT(GUARDING, .guarding = true)},
    {"nobody is left", AT(GUARDING, .guarding = true), BACK, ON, &passing, 9, POL_ACTION_COMPLETE,
     POL_REASON_NOBODY_OUTSTANDING, false, AT(COMPLETED)},
    {"one moment before its end", AT(GUARDING, .guarding = true), BACK, ON, &late,
     GUARD_S *SECOND + 99, POL_ACTION_HOLD, POL_REASON_GUARDING, false,
     AT(GUARDING, .guarding = true)},
    {"its end", AT(GUARDING, .guarding = true), BACK, ON, &late, GUARD_S *SECOND + 100,
     POL_ACTION_COMPLETE, POL_REASON_GUARD_OVER, false, AT(COMPLETED)},
    {"failed late", AT(GUARDING, .guarding = true), BACK, ON, &late_bad, 9, POL_ACTION_ROLL_BACK,
     POL_REASON_FAILURES_OVER_LIMIT, true, AT(ROLLING_BACK, .stage_failed = true, .paged = true)},
    {"failed with the last answer", AT(GUARDING, .guarding = true), BACK, ON, &failing, 9,
     POL_ACTION_ROLL_BACK, POL_REASON_FAILURES_OVER_LIMIT, true,
     AT(ROLLING_BACK, .stage_failed = true, .paged = true)},
    {"failed late, held", AT(GUARDING, .guarding = true), HOLD, ON, &late_bad, 9, POL_ACTION_PAUSE,
     POL_REASON_FAILURES_OVER_LIMIT, true,
     AT(PAUSED, .guarding = true, .stage_failed = true, .paged = true)},
    {"held", AT(PAUSED, .guarding = true, .stage_failed = true, .paged = true), HOLD, ON, &late_bad,
     9, POL_ACTION_HOLD, POL_REASON_ROLLOUT_PAUSED, false,
     AT(PAUSED, .guarding = true, .stage_failed = true, .paged = true)},
    {"paused by a person: nobody but remembers", AT(PAUSED, .guarding = true), BACK, ON, &late_bad,
     9, POL_ACTION_PAUSE, POL_REASON_FAILURES_OVER_LIMIT, false,
     AT(PAUSED, .guarding = true, .stage_failed = true)},
    {"failed, held", AT(RUNNING), HOLD, ON, &failing, 9, POL_ACTION_PAUSE,
     POL_REASON_FAILURES_OVER_LIMIT, true, AT(PAUSED, .stage_failed = true, .paged = true)},
    {"failed while the next waits, held", AT(WAITING), HOLD, ON, &failing, 9, POL_ACTION_PAUSE,
     POL_REASON_FAILURES_OVER_LIMIT, true, AT(PAUSED, .stage_failed = true, .paged = true)},
    {"passed, pauses", AT(RUNNING), BACK, WAIT, &passing, 5 * SECOND, POL_ACTION_PAUSE,
     POL_REASON_STAGE_PASSED, false, AT(PAUSED, .passed = true)},
    {"waits for a person", AT(PAUSED, .passed = true), BACK, WAIT, &passing, 5 * SECOND,
     POL_ACTION_HOLD, POL_REASON_STAGE_PASSED, false, AT(PAUSED, .passed = true)},
    {"fails meanwhile", AT(PAUSED, .passed = true), BACK, WAIT, &failing, 9, POL_ACTION_ROLL_BACK,
     POL_REASON_FAILURES_OVER_LIMIT, true, AT(ROLLING_BACK, .stage_failed = true, .paged = true)},
    {"fails meanwhile, held", AT(PAUSED, .passed = true), HOLD, WAIT, &failing, 9, POL_ACTION_PAUSE,
     POL_REASON_FAILURES_OVER_LIMIT, true, AT(PAUSED, .stage_failed = true, .paged = true)},
};

static void what_verdicts_do(void **state)
{
    (void)state;
    struct pol_stage own[4];
    for (size_t i = 0; i < TEST_COUNT(verdicts); i++) {
        const struct verdict_row *row = &verdicts[i];
        memcpy(own, stages, sizeof(own));
        own[3].guard_s = GUARD_S;
        own[3].on_fail = row->on_fail;
        own[3].on_pass = row->on_pass;
        assert_int_equal(pol_stages_check(own, 4), POL_REASON_MATCHED);
        struct pol_decision decision =
            pol_rollout_tick(&row->before, own, 4, row->counts, row->now_us);
        if (row->before.state == POL_ROLLOUT_GUARDING && !row->page) { // it passed, and stays so
            assert_int_equal(decision.verdict, POL_VERDICT_PASS);
        }
        if (decision.action != row->action || decision.reason != row->reason ||
            decision.page != row->page || !pol_rollout_equal(&decision.next, &row->after)) {
            fail_msg("%s: %s, %s, page %d, %s (failed %d, guarding %d, passed %d, paged %d)",
                     row->what, pol_action_name(decision.action), pol_reason_name(decision.reason),
                     decision.page, pol_rollout_state_name(decision.next.state),
                     decision.next.stage_failed, decision.next.guarding, decision.next.passed,
                     decision.next.paged);
        }
    }
}

// What people do about it.
static void commands_of_guards_and_pauses(void **state)
{
    (void)state;
    static const struct {
        struct pol_rollout before;
        enum pol_command command;
        enum pol_action action;
        enum pol_reason reason;
        struct pol_rollout after;
    } rows[] = {
        {AT(RUNNING), POL_COMMAND_PROMOTE, POL_ACTION_GUARD, POL_REASON_PROMOTED,
         SINCE(777, GUARDING, .guarding = true)},
        {AT(GUARDING, .guarding = true), POL_COMMAND_PROMOTE, POL_ACTION_COMPLETE,
         POL_REASON_PROMOTED, AT(COMPLETED)},
        {AT(GUARDING, .guarding = true), POL_COMMAND_PAUSE, POL_ACTION_PAUSE, POL_REASON_PAUSED,
         AT(PAUSED, .guarding = true)},
        {AT(PAUSED, .guarding = true), POL_COMMAND_RESUME, POL_ACTION_RESUME, POL_REASON_RESUMED,
         AT(GUARDING, .guarding = true)},
        {AT(PAUSED, .guarding = true), POL_COMMAND_PROMOTE, POL_ACTION_REFUSE,
         POL_REASON_WRONG_STATE, AT(PAUSED, .guarding = true)},
        {AT(PAUSED, .guarding = true, .stage_failed = true, .paged = true),
         POL_COMMAND_RESUME_ACCEPT_RISK, POL_ACTION_COMPLETE, POL_REASON_RISK_ACCEPTED,
         AT(COMPLETED, .paged = true)},
        {AT(PAUSED, .stage_failed = true), POL_COMMAND_RESUME_ACCEPT_RISK, POL_ACTION_COMPLETE,
         POL_REASON_RISK_ACCEPTED, AT(COMPLETED)},
        {AT(PAUSED, .guarding = true, .stage_failed = true), POL_COMMAND_RESUME, POL_ACTION_REFUSE,
         POL_REASON_STAGE_FAILED, AT(PAUSED, .guarding = true, .stage_failed = true)},
        {AT(PAUSED, .guarding = true), POL_COMMAND_ABORT, POL_ACTION_ROLL_BACK, POL_REASON_ABORTED,
         AT(ROLLING_BACK)},
        {AT(GUARDING, .guarding = true), POL_COMMAND_UNDO, POL_ACTION_ROLL_BACK, POL_REASON_UNDONE,
         AT(ROLLING_BACK)},
        {AT(GUARDING, .guarding = true), POL_COMMAND_KILL, POL_ACTION_ROLL_BACK, POL_REASON_KILLED,
         AT(ROLLING_BACK, .killed = true)},
        {AT(PAUSED, .passed = true), POL_COMMAND_PROMOTE, POL_ACTION_GUARD, POL_REASON_PROMOTED,
         SINCE(777, GUARDING, .guarding = true)},
        {AT(PAUSED, .passed = true), POL_COMMAND_RESUME, POL_ACTION_REFUSE, POL_REASON_STAGE_PASSED,
         AT(PAUSED, .passed = true)},
        {AT(PAUSED, .passed = true), POL_COMMAND_RESUME_ACCEPT_RISK, POL_ACTION_REFUSE,
         POL_REASON_STAGE_PASSED, AT(PAUSED, .passed = true)},
        {AT(PAUSED, .passed = true), POL_COMMAND_ABORT, POL_ACTION_ROLL_BACK, POL_REASON_ABORTED,
         AT(ROLLING_BACK)},
    };
    struct pol_stage own[4];
    memcpy(own, stages, sizeof(own));
    own[3].guard_s = GUARD_S;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct pol_decision decision =
            pol_rollout_command(&rows[i].before, own, 4, rows[i].command, 777);
        if (decision.action != rows[i].action || decision.reason != rows[i].reason ||
            !pol_rollout_equal(&decision.next, &rows[i].after)) {
            fail_msg("row %zu: %s, %s, %s", i, pol_action_name(decision.action),
                     pol_reason_name(decision.reason), pol_rollout_state_name(decision.next.state));
        }
    }
    struct pol_rollout passed = AT(PAUSED, .passed = true); // of an earlier stage: the next opens
    passed.stage_index = 1;
    struct pol_decision decision = pol_rollout_command(&passed, own, 4, POL_COMMAND_PROMOTE, 777);
    assert_int_equal(decision.action, POL_ACTION_ADVANCE);
    assert_true(decision.next.stage_index == 2 && !decision.next.passed);
}

static void stages_say_what_can_be(void **state)
{
    (void)state;
    struct pol_stage own[4];
    memcpy(own, stages, sizeof(own));
    own[3].guard_s = POL_STAGE_GUARD_S_MAX;
    own[2].window_s = POL_STAGE_WINDOW_S_MAX;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_MATCHED);
    own[3].guard_s++;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_STAGES_INVALID);
    own[3].guard_s = 0;
    own[2].guard_s = 1; // another stage opens behind it
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_STAGES_INVALID);
    own[2].guard_s = 0;
    own[2].window_s++;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_STAGES_INVALID);
    own[2].window_s = 0;
    own[1].on_fail = POL_ON_FAIL_COUNT;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_STAGES_INVALID);
    own[1].on_fail = POL_ON_FAIL_HOLD;
    own[1].on_pass = POL_ON_PASS_COUNT;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_STAGES_INVALID);
    own[1].on_pass = POL_ON_PASS_PAUSE;
    own[1].gate.min_answered_ppm = 1000001;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_STAGES_INVALID);
    own[1].gate.min_answered_ppm = 1000000;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_MATCHED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_verdicts_do),
        cmocka_unit_test(commands_of_guards_and_pauses),
        cmocka_unit_test(stages_say_what_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

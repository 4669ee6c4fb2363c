// The rollout machine: every command in every state, every tick, admission, and whole lives.
#include "test_kit.h"

#include "policy/replay.h"

#define SECOND 1000000u

static struct pol_candidate targeted(uint32_t audience_mask, uint16_t bucket)
{
    return (struct pol_candidate){
        .targeted = true, .audience_mask = audience_mask, .bucket = bucket};
}

static const struct pol_gate gate = {
    .min_sample = 10, .max_failure_ppm = 100000, .min_dwell_us = SECOND};

static struct pol_stage stages[4];

static int make_stages(void **state)
{
    (void)state;
    stages[0] = (struct pol_stage){.kind = POL_STAGE_SIMULATE, .max_bucket = 10000, .gate = gate};
    stages[1] = (struct pol_stage){.kind = POL_STAGE_BETA, .max_bucket = 10000, .gate = gate};
    stages[2] = (struct pol_stage){.kind = POL_STAGE_GRAY, .max_bucket = 500, .gate = gate};
    stages[3] = (struct pol_stage){.kind = POL_STAGE_FULL, .max_bucket = 10000, .gate = gate};
    return 0;
}

// One line for each state (with and without a failed stage) and command: the action, and for what
// is refused the reason.
struct command_row {
    enum pol_rollout_state state;
    bool failed;
    enum pol_command command;
    enum pol_action action;
    enum pol_reason reason;
    enum pol_rollout_state next;
};

#define S(state, failed, command, action, reason, next)                                            \
    {                                                                                              \
        POL_ROLLOUT_##state, failed, POL_COMMAND_##command, POL_ACTION_##action,                   \
            POL_REASON_##reason, POL_ROLLOUT_##next                                                \
    }

static const struct command_row commands[] = {
    S(DRAFT, false, START, ADVANCE, STARTED, RUNNING),
    S(DRAFT, false, PAUSE, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, false, RESUME, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, false, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, false, PROMOTE, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, false, ABORT, ROLL_BACK, ABORTED, ROLLING_BACK),
    S(DRAFT, false, APPROVE, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, false, UNDO, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, false, KILL, ROLL_BACK, KILLED, ROLLING_BACK),
    S(DRAFT, true, START, ADVANCE, STARTED, RUNNING),
    S(DRAFT, true, PAUSE, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, true, RESUME, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, true, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, true, PROMOTE, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, true, ABORT, ROLL_BACK, ABORTED, ROLLING_BACK),
    S(DRAFT, true, APPROVE, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, true, UNDO, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, true, KILL, ROLL_BACK, KILLED, ROLLING_BACK),

    S(RUNNING, false, START, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, false, PAUSE, PAUSE, PAUSED, PAUSED),
    S(RUNNING, false, RESUME, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, false, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, false, PROMOTE, ADVANCE, PROMOTED, RUNNING),
    S(RUNNING, false, ABORT, ROLL_BACK, ABORTED, ROLLING_BACK),
    S(RUNNING, false, APPROVE, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, false, UNDO, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, false, KILL, ROLL_BACK, KILLED, ROLLING_BACK),
    S(RUNNING, true, START, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, true, PAUSE, PAUSE, PAUSED, PAUSED),
    S(RUNNING, true, RESUME, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, true, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, true, PROMOTE, REFUSE, STAGE_FAILED, RUNNING),
    S(RUNNING, true, ABORT, ROLL_BACK, ABORTED, ROLLING_BACK),
    S(RUNNING, true, APPROVE, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, true, UNDO, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, true, KILL, ROLL_BACK, KILLED, ROLLING_BACK),

    S(WAITING, false, START, REFUSE, WRONG_STATE, WAITING),
    S(WAITING, false, PAUSE, PAUSE, PAUSED, PAUSED),
    S(WAITING, false, RESUME, REFUSE, WRONG_STATE, WAITING),
    S(WAITING, false, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, WAITING),
    S(WAITING, false, PROMOTE, REFUSE, WRONG_STATE, WAITING),
    S(WAITING, false, ABORT, ROLL_BACK, ABORTED, ROLLING_BACK),
    S(WAITING, false, APPROVE, ADVANCE, APPROVED, RUNNING),
    S(WAITING, false, UNDO, REFUSE, WRONG_STATE, WAITING),
    S(WAITING, false, KILL, ROLL_BACK, KILLED, ROLLING_BACK),
    S(WAITING, true, START, REFUSE, WRONG_STATE, WAITING),
    S(WAITING, true, PAUSE, PAUSE, PAUSED, PAUSED),
    S(WAITING, true, RESUME, REFUSE, WRONG_STATE, WAITING),
    S(WAITING, true, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, WAITING),
    S(WAITING, true, PROMOTE, REFUSE, WRONG_STATE, WAITING),
    S(WAITING, true, ABORT, ROLL_BACK, ABORTED, ROLLING_BACK),
    S(WAITING, true, APPROVE, ADVANCE, APPROVED, RUNNING),
    S(WAITING, true, UNDO, REFUSE, WRONG_STATE, WAITING),
    S(WAITING, true, KILL, ROLL_BACK, KILLED, ROLLING_BACK),

    S(PAUSED, false, START, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, false, PAUSE, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, false, RESUME, RESUME, RESUMED, RUNNING),
    S(PAUSED, false, RESUME_ACCEPT_RISK, RESUME, RESUMED, RUNNING),
    S(PAUSED, false, PROMOTE, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, false, ABORT, ROLL_BACK, ABORTED, ROLLING_BACK),
    S(PAUSED, false, APPROVE, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, false, UNDO, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, false, KILL, ROLL_BACK, KILLED, ROLLING_BACK),
    S(PAUSED, true, START, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, true, PAUSE, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, true, RESUME, REFUSE, STAGE_FAILED, PAUSED),
    S(PAUSED, true, RESUME_ACCEPT_RISK, ADVANCE, RISK_ACCEPTED, RUNNING),
    S(PAUSED, true, PROMOTE, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, true, ABORT, ROLL_BACK, ABORTED, ROLLING_BACK),
    S(PAUSED, true, APPROVE, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, true, UNDO, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, true, KILL, ROLL_BACK, KILLED, ROLLING_BACK),

    S(ROLLING_BACK, false, START, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, PAUSE, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, RESUME, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, PROMOTE, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, ABORT, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, APPROVE, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, UNDO, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, KILL, KILL, KILLED, ROLLING_BACK),
    S(ROLLING_BACK, true, START, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, PAUSE, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, RESUME, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, PROMOTE, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, ABORT, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, APPROVE, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, UNDO, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, KILL, KILL, KILLED, ROLLING_BACK),

    S(ROLLED_BACK, false, START, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, PAUSE, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, RESUME, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, PROMOTE, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, ABORT, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, APPROVE, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, UNDO, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, KILL, KILL, KILLED, ROLLED_BACK),
    S(ROLLED_BACK, true, START, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, PAUSE, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, RESUME, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, PROMOTE, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, ABORT, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, APPROVE, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, UNDO, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, KILL, KILL, KILLED, ROLLED_BACK),

    S(COMPLETED, false, START, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, false, PAUSE, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, false, RESUME, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, false, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, false, PROMOTE, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, false, ABORT, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, false, APPROVE, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, false, UNDO, ROLL_BACK, UNDONE, ROLLING_BACK),
    S(COMPLETED, false, KILL, ROLL_BACK, KILLED, ROLLING_BACK),
    S(COMPLETED, true, START, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, true, PAUSE, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, true, RESUME, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, true, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, true, PROMOTE, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, true, ABORT, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, true, APPROVE, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, true, UNDO, ROLL_BACK, UNDONE, ROLLING_BACK),
    S(COMPLETED, true, KILL, ROLL_BACK, KILLED, ROLLING_BACK),

    S(GUARDING, false, START, REFUSE, WRONG_STATE, GUARDING),
    S(GUARDING, false, PAUSE, PAUSE, PAUSED, PAUSED),
    S(GUARDING, false, RESUME, REFUSE, WRONG_STATE, GUARDING),
    S(GUARDING, false, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, GUARDING),
    S(GUARDING, false, PROMOTE, COMPLETE, PROMOTED, COMPLETED),
    S(GUARDING, false, ABORT, ROLL_BACK, ABORTED, ROLLING_BACK),
    S(GUARDING, false, APPROVE, REFUSE, WRONG_STATE, GUARDING),
    S(GUARDING, false, UNDO, ROLL_BACK, UNDONE, ROLLING_BACK),
    S(GUARDING, false, KILL, ROLL_BACK, KILLED, ROLLING_BACK),
    S(GUARDING, true, START, REFUSE, WRONG_STATE, GUARDING),
    S(GUARDING, true, PAUSE, PAUSE, PAUSED, PAUSED),
    S(GUARDING, true, RESUME, REFUSE, WRONG_STATE, GUARDING),
    S(GUARDING, true, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, GUARDING),
    S(GUARDING, true, PROMOTE, REFUSE, STAGE_FAILED, GUARDING),
    S(GUARDING, true, ABORT, ROLL_BACK, ABORTED, ROLLING_BACK),
    S(GUARDING, true, APPROVE, REFUSE, WRONG_STATE, GUARDING),
    S(GUARDING, true, UNDO, ROLL_BACK, UNDONE, ROLLING_BACK),
    S(GUARDING, true, KILL, ROLL_BACK, KILLED, ROLLING_BACK),
};

static void every_command_in_every_state(void **state)
{
    (void)state;
    // Nothing is missing from the table.
    assert_int_equal(TEST_COUNT(commands), POL_ROLLOUT_STATE_COUNT * 2 * POL_COMMAND_COUNT);
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        const struct command_row *row = &commands[i];
        struct pol_rollout before = {.state = row->state,
                                     .stage_index = 1,
                                     .stage_failed = row->failed,
                                     .guarding = row->state == POL_ROLLOUT_GUARDING,
                                     .stage_since_us = 5};
        struct pol_decision decision = pol_rollout_command(&before, stages, 4, row->command, 77);
        if (decision.action != row->action || decision.reason != row->reason ||
            decision.next.state != row->next) {
            fail_msg("%s in %s (failed %d): %s, %s, %s", pol_command_name(row->command),
                     pol_rollout_state_name(row->state), row->failed,
                     pol_action_name(decision.action), pol_reason_name(decision.reason),
                     pol_rollout_state_name(decision.next.state));
        }
        if (row->action == POL_ACTION_REFUSE) {
            assert_true(pol_rollout_equal(&decision.next, &before));
        }
        bool opened = row->action == POL_ACTION_ADVANCE;
        assert_true(decision.next.stage_since_us == (opened ? 77u : 5u));
        if (opened) {
            assert_false(decision.next.stage_failed);
            assert_int_equal(decision.next.stage_index, row->command == POL_COMMAND_START ? 0 : 2);
        } else {
            assert_int_equal(decision.next.stage_index, 1);
        }
    }
}

static void the_last_stage_has_nothing_behind_it(void **state)
{
    (void)state;
    struct pol_rollout last = {.state = POL_ROLLOUT_RUNNING, .stage_index = 3};
    struct pol_decision decision = pol_rollout_command(&last, stages, 4, POL_COMMAND_PROMOTE, 9);
    assert_int_equal(decision.action, POL_ACTION_COMPLETE);
    assert_int_equal(decision.reason, POL_REASON_PROMOTED);
    assert_int_equal(decision.next.state, POL_ROLLOUT_COMPLETED);
    assert_int_equal(decision.next.stage_index, 3);
    last.state = POL_ROLLOUT_PAUSED;
    last.stage_failed = true;
    decision = pol_rollout_command(&last, stages, 4, POL_COMMAND_RESUME_ACCEPT_RISK, 9);
    assert_int_equal(decision.action, POL_ACTION_COMPLETE);
    assert_false(decision.next.stage_failed);
    // Stages that cannot be: refused, whatever the command.
    for (unsigned c = 0; c <= POL_COMMAND_COUNT; c++) {
        decision = pol_rollout_command(&last, stages, 3, (enum pol_command)c, 9);
        assert_int_equal(decision.reason, POL_REASON_STAGES_INVALID);
        assert_int_equal(decision.action, POL_ACTION_REFUSE);
        decision = pol_rollout_command(&last, stages, 0, (enum pol_command)c, 9);
        assert_int_equal(decision.action, POL_ACTION_REFUSE);
    }
    decision = pol_rollout_command(&last, stages, 4, POL_COMMAND_COUNT, 9);
    assert_int_equal(decision.action, POL_ACTION_REFUSE);
}

static const struct pol_counts passing = {.succeeded = 10};
static const struct pol_counts failing = {.succeeded = 5, .failed = 5, .to_roll_back = 5};
static const struct pol_counts unsure = {.succeeded = 9};
static const struct pol_counts empty = {.offered = 50, .not_applicable = 50};

struct tick_row {
    enum pol_rollout_state state;
    bool failed;
    uint16_t index;
    const struct pol_counts *counts;
    uint64_t now_us; // the stage opened at 100
    enum pol_verdict verdict;
    enum pol_action action;
    enum pol_reason reason;
    enum pol_rollout_state next;
};

#define T(state, failed, index, counts, now, verdict, action, reason, next)                        \
    {                                                                                              \
        POL_ROLLOUT_##state, failed, index, &(counts), now, POL_VERDICT_##verdict,                 \
            POL_ACTION_##action, POL_REASON_##reason, POL_ROLLOUT_##next                           \
    }

static const struct tick_row ticks[] = {
    T(DRAFT, false, 0, failing, 5 * SECOND, NO_DATA, HOLD, ROLLOUT_NOT_STARTED, DRAFT),
    T(RUNNING, false, 0, empty, 5 * SECOND, NO_DATA, HOLD, SIMULATION_PENDING, RUNNING),
    T(RUNNING, false, 0, unsure, 5 * SECOND, INCONCLUSIVE, HOLD, SAMPLE_TOO_SMALL, RUNNING),
    T(RUNNING, false, 0, passing, 5 * SECOND, PASS, ADVANCE, FAILURES_WITHIN_LIMIT, RUNNING),
    T(RUNNING, false, 0, failing, 5 * SECOND, FAIL, ROLL_BACK, FAILURES_OVER_LIMIT, ROLLING_BACK),
    T(RUNNING, false, 1, empty, 5 * SECOND, NO_DATA, HOLD, NO_COMPLETIONS, RUNNING),
    T(RUNNING, false, 2, passing, SECOND + 99, INCONCLUSIVE, HOLD, DWELL_NOT_REACHED, RUNNING),
    T(RUNNING, false, 2, passing, SECOND + 100, PASS, ADVANCE, FAILURES_WITHIN_LIMIT, RUNNING),
    T(RUNNING, false, 2, passing, 50, INCONCLUSIVE, HOLD, DWELL_NOT_REACHED, RUNNING), // clock back
    T(RUNNING, false, 2, failing, 50, FAIL, ROLL_BACK, FAILURES_OVER_LIMIT, ROLLING_BACK),
    T(RUNNING, false, 3, passing, 5 * SECOND, PASS, COMPLETE, LAST_STAGE_PASSED, COMPLETED),
    T(RUNNING, false, 3, failing, 5 * SECOND, FAIL, ROLL_BACK, FAILURES_OVER_LIMIT, ROLLING_BACK),
    T(PAUSED, false, 1, passing, 5 * SECOND, PASS, HOLD, ROLLOUT_PAUSED, PAUSED),
    T(PAUSED, false, 0, empty, 5 * SECOND, NO_DATA, HOLD, ROLLOUT_PAUSED, PAUSED),
    T(PAUSED, false, 1, failing, 5 * SECOND, FAIL, PAUSE, FAILURES_OVER_LIMIT, PAUSED),
    T(PAUSED, true, 1, failing, 5 * SECOND, FAIL, HOLD, ROLLOUT_PAUSED, PAUSED),
    T(ROLLING_BACK, true, 1, failing, 9, FAIL, HOLD, ROLLBACK_RUNNING, ROLLING_BACK),
    T(ROLLING_BACK, true, 1, unsure, 9, INCONCLUSIVE, FINISH_ROLL_BACK, ROLLBACK_COMPLETE,
      ROLLED_BACK),
    T(ROLLING_BACK, false, 0, empty, 9, NO_DATA, FINISH_ROLL_BACK, ROLLBACK_COMPLETE, ROLLED_BACK),
    T(ROLLED_BACK, true, 1, failing, 9, FAIL, HOLD, ROLLOUT_ROLLED_BACK, ROLLED_BACK),
    T(COMPLETED, false, 3, failing, 9, FAIL, HOLD, LAST_STAGE_PASSED, COMPLETED),
    T(WAITING, false, 1, passing, 5 * SECOND, PASS, HOLD, APPROVAL_PENDING, WAITING),
    T(WAITING, false, 1, empty, 5 * SECOND, NO_DATA, HOLD, APPROVAL_PENDING, WAITING),
    T(WAITING, false, 1, failing, 5 * SECOND, FAIL, ROLL_BACK, FAILURES_OVER_LIMIT, ROLLING_BACK),
    T(RUNNING, false, 4, passing, 9, NO_DATA, HOLD, STAGES_INVALID, RUNNING),
};

static void every_kind_of_tick(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(ticks); i++) {
        const struct tick_row *row = &ticks[i];
        struct pol_rollout before = {.state = row->state,
                                     .stage_index = row->index,
                                     .stage_failed = row->failed,
                                     .stage_since_us = 100};
        struct pol_decision decision =
            pol_rollout_tick(&before, stages, 4, row->counts, row->now_us);
        if (decision.verdict != row->verdict || decision.action != row->action ||
            decision.reason != row->reason || decision.next.state != row->next) {
            fail_msg("tick %zu: %s, %s, %s, %s", i, pol_verdict_name(decision.verdict),
                     pol_action_name(decision.action), pol_reason_name(decision.reason),
                     pol_rollout_state_name(decision.next.state));
        }
        bool marks = row->verdict == POL_VERDICT_FAIL && row->action != POL_ACTION_HOLD;
        assert_int_equal(decision.next.stage_failed, row->failed || marks);
        bool opened = row->action == POL_ACTION_ADVANCE;
        assert_int_equal(decision.next.stage_index, row->index + opened);
        assert_true(decision.next.stage_since_us == (opened ? row->now_us : 100));
        if (row->action == POL_ACTION_HOLD) {
            assert_true(pol_rollout_equal(&decision.next, &before));
        }
    }
}

static void admission(void **state)
{
    (void)state;
    // Audience bits: 2 is the beta stage, 4 gray, 8 full.
    static const struct {
        enum pol_rollout_state state;
        uint16_t index;
        bool targeted;
        uint32_t mask;
        uint16_t bucket;
        enum pol_reason reason;
        uint32_t stage;
    } rows[] = {
        {POL_ROLLOUT_DRAFT, 0, true, 15, 0, POL_REASON_ROLLOUT_NOT_STARTED, 0},
        {POL_ROLLOUT_RUNNING, 0, true, 15, 0, POL_REASON_OUTSIDE_AUDIENCE, 0}, // simulating
        {POL_ROLLOUT_RUNNING, 1, true, 15, 9999, POL_REASON_IN_STAGE, 1},
        {POL_ROLLOUT_RUNNING, 1, false, 15, 0, POL_REASON_NOT_TARGETED, 0},
        {POL_ROLLOUT_RUNNING, 1, true, 12, 0, POL_REASON_OUTSIDE_AUDIENCE, 0},
        {POL_ROLLOUT_RUNNING, 2, true, 12, 499, POL_REASON_IN_STAGE, 2},
        {POL_ROLLOUT_RUNNING, 2, true, 12, 500, POL_REASON_OUTSIDE_BUCKET, 0},
        {POL_ROLLOUT_RUNNING, 2, true, 14, 500, POL_REASON_IN_STAGE, 1},
        {POL_ROLLOUT_RUNNING, 2, true, 8, 0, POL_REASON_OUTSIDE_AUDIENCE, 0},
        {POL_ROLLOUT_RUNNING, 3, true, 12, 500, POL_REASON_IN_STAGE, 3},
        {POL_ROLLOUT_RUNNING, 3, true, 0, 0, POL_REASON_OUTSIDE_AUDIENCE, 0},
        {POL_ROLLOUT_PAUSED, 3, true, 15, 0, POL_REASON_ROLLOUT_PAUSED, 0},
        {POL_ROLLOUT_WAITING, 2, true, 12, 499, POL_REASON_IN_STAGE, 2},
        {POL_ROLLOUT_WAITING, 2, true, 12, 500, POL_REASON_OUTSIDE_BUCKET, 0},
        {POL_ROLLOUT_ROLLING_BACK, 3, true, 15, 0, POL_REASON_ROLLOUT_ROLLED_BACK, 0},
        {POL_ROLLOUT_ROLLED_BACK, 3, true, 15, 0, POL_REASON_ROLLOUT_ROLLED_BACK, 0},
        {POL_ROLLOUT_COMPLETED, 3, true, 12, 9999, POL_REASON_IN_STAGE, 3},
        {POL_ROLLOUT_COMPLETED, 3, false, 15, 0, POL_REASON_NOT_TARGETED, 0},
        {POL_ROLLOUT_GUARDING, 3, true, 12, 9999, POL_REASON_IN_STAGE, 3},
        {POL_ROLLOUT_RUNNING, 4, true, 15, 0, POL_REASON_STAGES_INVALID, 0},
        {POL_ROLLOUT_STATE_COUNT, 0, true, 15, 0, POL_REASON_STAGES_INVALID, 0},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct pol_rollout rollout = {.state = rows[i].state, .stage_index = rows[i].index};
        struct pol_match match =
            pol_rollout_admits(&rollout, stages, 4,
                               (struct pol_candidate){.targeted = rows[i].targeted,
                                                      .audience_mask = rows[i].mask,
                                                      .bucket = rows[i].bucket});
        if (match.reason != rows[i].reason || match.cond_index != rows[i].stage) {
            fail_msg("row %zu: %s at %u", i, pol_reason_name(match.reason), match.cond_index);
        }
        assert_int_equal(match.matched, match.reason == POL_REASON_IN_STAGE);
    }
}

// What stages 1, a shadow, and 2, none, may say of how results are compared.
static void shadow_settings(struct pol_stage *own)
{
    own[1].shadow_slow_percent = 99;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_STAGES_INVALID);
    own[1].shadow_slow_percent = 0;
    own[2].shadow_memory_percent = 200; // of a stage that has no shadow
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_STAGES_INVALID);
    own[2].shadow_memory_percent = 0;
    own[2].tolerance_count = 1; // nor results to compare
    own[2].tolerances[0].relative = 0.5;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_STAGES_INVALID);
    own[2].tolerance_count = 0;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_MATCHED);
    own[1].tolerance_count = 1;
    own[1].tolerances[0].relative = 1;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_MATCHED);
    own[1].tolerances[0].relative = 1.001;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_STAGES_INVALID);
    own[1].tolerances[0].relative = 0;
    own[1].tolerances[0].absolute = -1;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_STAGES_INVALID);
    own[1].tolerances[0].absolute = 0;
    own[1].tolerance_count = POL_TOLERANCES_MAX + 1;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_STAGES_INVALID);
    own[1].tolerance_count = 0;
}

// A shadow stage lets nobody in for good, and only the newest open stage lets shadows in.
static void shadow_stages(void **state)
{
    (void)state;
    struct pol_stage own[4] = {stages[2], stages[2], stages[2], stages[3]};
    own[1].kind = POL_STAGE_SHADOW;
    own[1].max_bucket = 200; // no wider than the gray stage before it needs to be
    own[1].shadow_slow_percent = 150;
    assert_int_equal(pol_stages_check(own, 4), POL_REASON_MATCHED);
    static const struct {
        enum pol_rollout_state state;
        uint16_t index;
        uint16_t bucket;
        enum pol_reason shadow;
        enum pol_reason real;
    } rows[] = {
        {POL_ROLLOUT_RUNNING, 0, 100, POL_REASON_OUTSIDE_AUDIENCE, POL_REASON_IN_STAGE},
        {POL_ROLLOUT_RUNNING, 1, 100, POL_REASON_IN_STAGE, POL_REASON_IN_STAGE},
        {POL_ROLLOUT_RUNNING, 1, 300, POL_REASON_OUTSIDE_BUCKET, POL_REASON_IN_STAGE},
        {POL_ROLLOUT_WAITING, 1, 100, POL_REASON_IN_STAGE, POL_REASON_IN_STAGE},
        {POL_ROLLOUT_PAUSED, 1, 100, POL_REASON_ROLLOUT_PAUSED, POL_REASON_ROLLOUT_PAUSED},
        {POL_ROLLOUT_RUNNING, 2, 100, POL_REASON_OUTSIDE_AUDIENCE, POL_REASON_IN_STAGE},
        {POL_ROLLOUT_ROLLED_BACK, 1, 100, POL_REASON_ROLLOUT_ROLLED_BACK,
         POL_REASON_ROLLOUT_ROLLED_BACK},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct pol_rollout rollout = {.state = rows[i].state, .stage_index = rows[i].index};
        struct pol_match shadow =
            pol_rollout_shadows(&rollout, own, 4, targeted(15, rows[i].bucket));
        struct pol_match real = pol_rollout_admits(&rollout, own, 4, targeted(15, rows[i].bucket));
        if (shadow.reason != rows[i].shadow || real.reason != rows[i].real) {
            fail_msg("row %zu: %s, %s", i, pol_reason_name(shadow.reason),
                     pol_reason_name(real.reason));
        }
        assert_false(real.matched && own[real.cond_index].kind == POL_STAGE_SHADOW);
        assert_false(shadow.matched && shadow.cond_index != 1);
    }
    struct pol_rollout first = {.state = POL_ROLLOUT_RUNNING};
    own[0].kind = POL_STAGE_SHADOW;
    assert_false(pol_rollout_admits(&first, own, 4, targeted(15, 0)).matched);
    assert_true(pol_rollout_shadows(&first, own, 4, targeted(15, 0)).matched);
    assert_false(pol_rollout_shadows(
                     &first, own, 4,
                     (struct pol_candidate){.targeted = false, .audience_mask = 15, .bucket = 0})
                     .matched);
    assert_int_equal(pol_stages_check(own, 2), POL_REASON_STAGES_INVALID); // a shadow stage last
    shadow_settings(own);
    uint16_t from;
    uint16_t to;
    own[1].control_buckets = 100;
    pol_stage_control_band(&own[1], &from, &to);
    assert_int_equal(to, from); // it is its own control
}

// Raising the stage never sends anybody away.
static void admission_only_grows(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t mask = (uint32_t)base_prng_below(&prng, 16);
        uint16_t bucket = (uint16_t)base_prng_below(&prng, 10000);
        bool before = false;
        uint32_t stage = 0;
        for (uint16_t index = 0; index < 4; index++) {
            struct pol_rollout rollout = {.state = POL_ROLLOUT_RUNNING, .stage_index = index};
            struct pol_match match =
                pol_rollout_admits(&rollout, stages, 4, targeted(mask, bucket));
            assert_true(match.matched || !before);
            assert_true(!before || match.cond_index == stage); // it stays counted where it entered
            before = match.matched;
            stage = match.cond_index;
        }
    }
}

static void a_life_to_the_end(void **state)
{
    (void)state;
    struct pol_rollout rollout = {.state = POL_ROLLOUT_DRAFT};
    rollout = pol_rollout_command(&rollout, stages, 4, POL_COMMAND_START, 0).next;
    uint64_t now = 0;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(rollout.stage_index, i);
        assert_int_equal(pol_rollout_tick(&rollout, stages, 4, &passing, now).action,
                         POL_ACTION_HOLD); // the dwell starts anew in each stage
        now += SECOND;
        rollout = pol_rollout_tick(&rollout, stages, 4, &passing, now).next;
    }
    assert_int_equal(rollout.state, POL_ROLLOUT_COMPLETED);
}

static void a_life_cut_short(void **state)
{
    (void)state;
    struct pol_rollout rollout = {.state = POL_ROLLOUT_RUNNING, .stage_index = 2};
    rollout = pol_rollout_tick(&rollout, stages, 4, &failing, 5).next;
    assert_int_equal(rollout.state, POL_ROLLOUT_ROLLING_BACK);
    assert_true(rollout.stage_failed);
    assert_int_equal(pol_rollout_command(&rollout, stages, 4, POL_COMMAND_RESUME, 6).reason,
                     POL_REASON_WRONG_STATE);
    struct pol_counts counts = failing;
    while (counts.to_roll_back > 0) {
        assert_int_equal(pol_rollout_tick(&rollout, stages, 4, &counts, 7).action, POL_ACTION_HOLD);
        counts.to_roll_back--;
    }
    rollout = pol_rollout_tick(&rollout, stages, 4, &counts, 8).next;
    assert_int_equal(rollout.state, POL_ROLLOUT_ROLLED_BACK);
    assert_int_equal(pol_rollout_tick(&rollout, stages, 4, &passing, 9).action, POL_ACTION_HOLD);
}

static void a_stage_that_fails_while_paused(void **state)
{
    (void)state;
    struct pol_rollout rollout = {.state = POL_ROLLOUT_RUNNING, .stage_index = 1};
    rollout = pol_rollout_command(&rollout, stages, 4, POL_COMMAND_PAUSE, 5).next;
    rollout = pol_rollout_tick(&rollout, stages, 4, &failing, 6).next;
    assert_int_equal(pol_rollout_command(&rollout, stages, 4, POL_COMMAND_RESUME, 7).action,
                     POL_ACTION_REFUSE);
    rollout = pol_rollout_command(&rollout, stages, 4, POL_COMMAND_RESUME_ACCEPT_RISK, 8).next;
    assert_int_equal(rollout.state, POL_ROLLOUT_RUNNING);
    assert_int_equal(rollout.stage_index, 2);
    assert_false(rollout.stage_failed);
}

// A first and a later stage that open by approval only; everything on the way.
static void stages_that_wait_for_another_person(void **state)
{
    (void)state;
    struct pol_stage guarded[3] = {stages[1], stages[2], stages[3]};
    guarded[0].approval = true;
    guarded[2].approval = true;
    struct pol_rollout rollout = {.state = POL_ROLLOUT_DRAFT};
    struct pol_decision decision = pol_rollout_command(&rollout, guarded, 3, POL_COMMAND_START, 5);
    assert_int_equal(decision.action, POL_ACTION_WAIT);
    rollout = decision.next;
    assert_true(rollout.before_first);
    // Nothing is open: nobody is let in, nothing is judged, nothing can be paused or promoted.
    assert_int_equal(pol_rollout_admits(&rollout, guarded, 3, targeted(7, 0)).reason,
                     POL_REASON_ROLLOUT_NOT_STARTED);
    decision = pol_rollout_tick(&rollout, guarded, 3, &failing, 6);
    assert_int_equal(decision.action, POL_ACTION_HOLD);
    assert_int_equal(decision.reason, POL_REASON_APPROVAL_PENDING);
    assert_int_equal(pol_rollout_command(&rollout, guarded, 3, POL_COMMAND_PAUSE, 6).action,
                     POL_ACTION_REFUSE);
    assert_int_equal(pol_rollout_command(&rollout, guarded, 3, POL_COMMAND_PROMOTE, 6).action,
                     POL_ACTION_REFUSE);
    rollout = pol_rollout_command(&rollout, guarded, 3, POL_COMMAND_APPROVE, 7).next;
    assert_int_equal(rollout.state, POL_ROLLOUT_RUNNING);
    assert_int_equal(rollout.stage_index, 0);
    assert_false(rollout.before_first);
    assert_true(rollout.stage_since_us == 7);
    rollout = pol_rollout_tick(&rollout, guarded, 3, &passing, 7 + SECOND).next;
    assert_int_equal(rollout.stage_index, 1);
    // The verdict alone does not open the last stage, and neither does an impatient operator.
    decision = pol_rollout_tick(&rollout, guarded, 3, &passing, 7 + 2 * SECOND);
    assert_int_equal(decision.action, POL_ACTION_WAIT);
    assert_int_equal(decision.next.stage_index, 1);
    assert_int_equal(pol_rollout_command(&rollout, guarded, 3, POL_COMMAND_PROMOTE, 9).action,
                     POL_ACTION_WAIT);
    rollout = decision.next;
    // The open stages go on meanwhile: bucket 499 is in, and a failure takes everything back.
    assert_true(pol_rollout_admits(&rollout, guarded, 3, targeted(2, 499)).matched);
    assert_int_equal(pol_rollout_tick(&rollout, guarded, 3, &failing, 3 * SECOND).action,
                     POL_ACTION_ROLL_BACK);
    struct pol_rollout paused =
        pol_rollout_command(&rollout, guarded, 3, POL_COMMAND_PAUSE, 3 * SECOND).next;
    paused = pol_rollout_command(&paused, guarded, 3, POL_COMMAND_RESUME, 3 * SECOND).next;
    assert_int_equal(pol_rollout_tick(&paused, guarded, 3, &passing, 4 * SECOND).action,
                     POL_ACTION_WAIT);
    rollout = pol_rollout_command(&rollout, guarded, 3, POL_COMMAND_APPROVE, 4 * SECOND).next;
    assert_int_equal(rollout.stage_index, 2);
    assert_int_equal(pol_rollout_tick(&rollout, guarded, 3, &passing, 6 * SECOND).action,
                     POL_ACTION_COMPLETE);
}

// Nobody completes: the stage holds for ever, and says so once.
static void silence_pages_and_never_passes(void **state)
{
    (void)state;
    struct pol_stage stage = stages[2];
    stage.gate.no_data_us = 10 * SECOND;
    struct pol_rollout rollout = {.state = POL_ROLLOUT_RUNNING, .stage_since_us = 1};
    unsigned pages = 0;
    for (uint64_t now = 1; now < 1000 * SECOND; now += SECOND) {
        struct pol_decision decision = pol_rollout_tick(&rollout, &stage, 1, &empty, now);
        assert_int_equal(decision.verdict, POL_VERDICT_NO_DATA);
        assert_int_equal(decision.next.state, POL_ROLLOUT_RUNNING);
        assert_int_equal(decision.reason, now <= 10 * SECOND ? POL_REASON_NO_COMPLETIONS
                                                             : POL_REASON_NO_DATA_TOO_LONG);
        pages += decision.action == POL_ACTION_PAGE;
        rollout = decision.next;
    }
    assert_int_equal(pages, 1);
    assert_int_equal(pol_rollout_tick(&rollout, &stage, 1, &passing, 2000 * SECOND).action,
                     POL_ACTION_COMPLETE);
}

static void undo_and_kill(void **state)
{
    (void)state;
    struct pol_rollout rollout = {.state = POL_ROLLOUT_COMPLETED, .stage_index = 3};
    struct pol_rollout undone = pol_rollout_command(&rollout, stages, 4, POL_COMMAND_UNDO, 5).next;
    assert_int_equal(undone.state, POL_ROLLOUT_ROLLING_BACK);
    assert_false(undone.killed);
    struct pol_counts left = {.succeeded = 10, .to_roll_back = 3};
    assert_int_equal(pol_rollout_tick(&undone, stages, 4, &left, 6).action, POL_ACTION_HOLD);
    left.to_roll_back = 0;
    undone = pol_rollout_tick(&undone, stages, 4, &left, 7).next;
    assert_int_equal(undone.state, POL_ROLLOUT_ROLLED_BACK);
    undone = pol_rollout_command(&undone, stages, 4, POL_COMMAND_KILL, 8).next;
    assert_true(undone.killed);
    assert_int_equal(undone.state, POL_ROLLOUT_ROLLED_BACK);
    assert_int_equal(pol_rollout_command(&undone, stages, 4, POL_COMMAND_KILL, 9).action,
                     POL_ACTION_REFUSE);
}

static void control_bands(void **state)
{
    (void)state;
    static const struct {
        enum pol_stage_kind kind;
        uint16_t max_bucket;
        uint16_t control;
        uint16_t from;
        uint16_t to;
    } rows[] = {
        {POL_STAGE_GRAY, 100, 100, 100, 200},     {POL_STAGE_GRAY, 6000, 6000, 6000, 10000},
        {POL_STAGE_GRAY, 9999, 500, 9999, 10000}, {POL_STAGE_GRAY, 10000, 500, 0, 0},
        {POL_STAGE_GRAY, 100, 0, 100, 100},       {POL_STAGE_BETA, 10000, 1000, 0, 1000},
        {POL_STAGE_BETA, 500, 1000, 500, 1500},   {POL_STAGE_FULL, 10000, 1000, 0, 0},
        {POL_STAGE_SIMULATE, 10000, 100, 0, 0},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct pol_stage stage = {.kind = rows[i].kind,
                                  .max_bucket = rows[i].max_bucket,
                                  .control_buckets = rows[i].control};
        uint16_t from = 1;
        uint16_t to = 2;
        pol_stage_control_band(&stage, &from, &to);
        if (from != rows[i].from || to != rows[i].to) {
            fail_msg("row %zu: %u..%u", i, from, to);
        }
    }
}

// What a person asked for has its name; logs from before it had one replay equal.
static void commands_have_reasons_of_their_own(void **state)
{
    (void)state;
    static const struct {
        enum pol_rollout_state before;
        enum pol_command command;
        enum pol_reason reason;
    } rows[] = {
        {POL_ROLLOUT_DRAFT, POL_COMMAND_START, POL_REASON_STARTED},
        {POL_ROLLOUT_RUNNING, POL_COMMAND_PAUSE, POL_REASON_PAUSED},
        {POL_ROLLOUT_PAUSED, POL_COMMAND_RESUME, POL_REASON_RESUMED},
        {POL_ROLLOUT_RUNNING, POL_COMMAND_PROMOTE, POL_REASON_PROMOTED},
        {POL_ROLLOUT_RUNNING, POL_COMMAND_ABORT, POL_REASON_ABORTED},
        {POL_ROLLOUT_WAITING, POL_COMMAND_APPROVE, POL_REASON_APPROVED},
        {POL_ROLLOUT_COMPLETED, POL_COMMAND_UNDO, POL_REASON_UNDONE},
        {POL_ROLLOUT_COMPLETED, POL_COMMAND_KILL, POL_REASON_KILLED},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const struct pol_rollout before = {.state = rows[i].before};
        struct pol_decision decision = pol_rollout_command(&before, stages, 4, rows[i].command, 9);
        assert_string_equal(pol_reason_name(decision.reason), pol_reason_name(rows[i].reason));
        const struct pol_record old = {.kind = POL_RECORD_COMMAND,
                                       .command = rows[i].command,
                                       .now_us = 9,
                                       .action = decision.action,
                                       .verdict = decision.verdict,
                                       .reason = POL_REASON_OPERATOR,
                                       .after = decision.next};
        struct pol_replay replay;
        bool differs = true;
        pol_replay_init(&replay, 0);
        replay.rollout = before;
        (void)pol_replay_step(&replay, stages, 4, &old, &differs);
        assert_false(differs);
    }
}

// Random lives, recorded: the replay agrees with every record, and disagrees with a forged one.
static void recorded_lives_replay_equal(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    unsigned forged = 0;
    for (unsigned life = 0; life < 2000; life++) {
        struct pol_stage own[4] = {stages[0], stages[1], stages[2], stages[3]};
        for (unsigned k = 0; k < 4; k++) {
            own[k].approval = base_prng_below(&prng, 4) == 0;
            own[k].gate.no_data_us = base_prng_below(&prng, 3) * SECOND;
        }
        struct pol_rollout rollout = {.state = POL_ROLLOUT_DRAFT};
        struct pol_record records[64];
        uint64_t now = 1;
        for (unsigned i = 0; i < 64; i++) {
            struct pol_record *record = &records[i];
            *record = (struct pol_record){.now_us = now += base_prng_below(&prng, SECOND)};
            struct pol_decision decision;
            if (base_prng_below(&prng, 3) == 0) {
                record->kind = POL_RECORD_COMMAND;
                record->command = (enum pol_command)base_prng_below(&prng, POL_COMMAND_COUNT);
                decision = pol_rollout_command(&rollout, own, 4, record->command, now);
            } else {
                record->kind = POL_RECORD_TICK;
                record->counts.succeeded = base_prng_below(&prng, 30);
                record->counts.failed = base_prng_below(&prng, 3);
                record->counts.to_roll_back = base_prng_below(&prng, 2);
                decision = pol_rollout_tick(&rollout, own, 4, &record->counts, now);
            }
            record->action = decision.action;
            record->verdict = decision.verdict;
            record->reason = decision.reason;
            record->after = rollout = decision.next;
        }
        struct pol_replay replay;
        pol_replay_init(&replay, 0);
        for (unsigned i = 0; i < 64; i++) {
            bool differs;
            (void)pol_replay_step(&replay, own, 4, &records[i], &differs);
            assert_false(differs);
        }
        assert_true(pol_rollout_equal(&replay.rollout, &rollout));
        // One count more somewhere: if it mattered then, the replay finds it.
        unsigned at = (unsigned)base_prng_below(&prng, 64);
        records[at].counts.failed += 30;
        pol_replay_init(&replay, 0);
        for (unsigned i = 0; i < 64; i++) {
            bool differs;
            (void)pol_replay_step(&replay, own, 4, &records[i], &differs);
        }
        forged += replay.differences > 0;
    }
    assert_true(forged > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_in_every_state),
        cmocka_unit_test(the_last_stage_has_nothing_behind_it),
        cmocka_unit_test(every_kind_of_tick),
        cmocka_unit_test(admission),
        cmocka_unit_test(shadow_stages),
        cmocka_unit_test(admission_only_grows),
        cmocka_unit_test(a_life_to_the_end),
        cmocka_unit_test(a_life_cut_short),
        cmocka_unit_test(a_stage_that_fails_while_paused),
        cmocka_unit_test(stages_that_wait_for_another_person),
        cmocka_unit_test(silence_pages_and_never_passes),
        cmocka_unit_test(undo_and_kill),
        cmocka_unit_test(control_bands),
        cmocka_unit_test(commands_have_reasons_of_their_own),
        cmocka_unit_test(recorded_lives_replay_equal),
    };
    return cmocka_run_group_tests(tests, make_stages, NULL);
}

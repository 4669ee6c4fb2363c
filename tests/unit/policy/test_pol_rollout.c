// The rollout machine: every command in every state, every tick, admission, and whole lives.
#include "test_kit.h"

#include "policy/rollout.h"

#define SECOND 1000000u

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
    S(DRAFT, false, START, ADVANCE, OPERATOR, RUNNING),
    S(DRAFT, false, PAUSE, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, false, RESUME, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, false, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, false, PROMOTE, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, false, ABORT, ROLL_BACK, OPERATOR, ROLLING_BACK),
    S(DRAFT, true, START, ADVANCE, OPERATOR, RUNNING),
    S(DRAFT, true, PAUSE, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, true, RESUME, REFUSE, STAGE_FAILED, DRAFT),
    S(DRAFT, true, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, true, PROMOTE, REFUSE, WRONG_STATE, DRAFT),
    S(DRAFT, true, ABORT, ROLL_BACK, OPERATOR, ROLLING_BACK),

    S(RUNNING, false, START, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, false, PAUSE, PAUSE, OPERATOR, PAUSED),
    S(RUNNING, false, RESUME, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, false, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, false, PROMOTE, ADVANCE, OPERATOR, RUNNING),
    S(RUNNING, false, ABORT, ROLL_BACK, OPERATOR, ROLLING_BACK),
    S(RUNNING, true, START, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, true, PAUSE, PAUSE, OPERATOR, PAUSED),
    S(RUNNING, true, RESUME, REFUSE, STAGE_FAILED, RUNNING),
    S(RUNNING, true, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, RUNNING),
    S(RUNNING, true, PROMOTE, REFUSE, STAGE_FAILED, RUNNING),
    S(RUNNING, true, ABORT, ROLL_BACK, OPERATOR, ROLLING_BACK),

    S(PAUSED, false, START, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, false, PAUSE, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, false, RESUME, RESUME, OPERATOR, RUNNING),
    S(PAUSED, false, RESUME_ACCEPT_RISK, RESUME, OPERATOR, RUNNING),
    S(PAUSED, false, PROMOTE, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, false, ABORT, ROLL_BACK, OPERATOR, ROLLING_BACK),
    S(PAUSED, true, START, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, true, PAUSE, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, true, RESUME, REFUSE, STAGE_FAILED, PAUSED),
    S(PAUSED, true, RESUME_ACCEPT_RISK, ADVANCE, OPERATOR, RUNNING),
    S(PAUSED, true, PROMOTE, REFUSE, WRONG_STATE, PAUSED),
    S(PAUSED, true, ABORT, ROLL_BACK, OPERATOR, ROLLING_BACK),

    S(ROLLING_BACK, false, START, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, PAUSE, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, RESUME, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, PROMOTE, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, false, ABORT, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, START, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, PAUSE, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, RESUME, REFUSE, STAGE_FAILED, ROLLING_BACK),
    S(ROLLING_BACK, true, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, PROMOTE, REFUSE, WRONG_STATE, ROLLING_BACK),
    S(ROLLING_BACK, true, ABORT, REFUSE, WRONG_STATE, ROLLING_BACK),

    S(ROLLED_BACK, false, START, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, PAUSE, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, RESUME, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, PROMOTE, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, false, ABORT, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, START, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, PAUSE, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, RESUME, REFUSE, STAGE_FAILED, ROLLED_BACK),
    S(ROLLED_BACK, true, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, PROMOTE, REFUSE, WRONG_STATE, ROLLED_BACK),
    S(ROLLED_BACK, true, ABORT, REFUSE, WRONG_STATE, ROLLED_BACK),

    S(COMPLETED, false, START, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, false, PAUSE, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, false, RESUME, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, false, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, false, PROMOTE, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, false, ABORT, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, true, START, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, true, PAUSE, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, true, RESUME, REFUSE, STAGE_FAILED, COMPLETED),
    S(COMPLETED, true, RESUME_ACCEPT_RISK, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, true, PROMOTE, REFUSE, WRONG_STATE, COMPLETED),
    S(COMPLETED, true, ABORT, REFUSE, WRONG_STATE, COMPLETED),
};

static bool same(const struct pol_rollout *a, const struct pol_rollout *b)
{
    return a->state == b->state && a->stage_index == b->stage_index &&
           a->stage_failed == b->stage_failed && a->stage_since_us == b->stage_since_us;
}

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
                                     .stage_since_us = 5};
        struct pol_decision decision = pol_rollout_command(&before, 4, row->command, 77);
        if (decision.action != row->action || decision.reason != row->reason ||
            decision.next.state != row->next) {
            fail_msg("%s in %s (failed %d): %s, %s, %s", pol_command_name(row->command),
                     pol_rollout_state_name(row->state), row->failed,
                     pol_action_name(decision.action), pol_reason_name(decision.reason),
                     pol_rollout_state_name(decision.next.state));
        }
        if (row->action == POL_ACTION_REFUSE) {
            assert_true(same(&decision.next, &before));
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
    struct pol_decision decision = pol_rollout_command(&last, 4, POL_COMMAND_PROMOTE, 9);
    assert_int_equal(decision.action, POL_ACTION_COMPLETE);
    assert_int_equal(decision.reason, POL_REASON_OPERATOR);
    assert_int_equal(decision.next.state, POL_ROLLOUT_COMPLETED);
    assert_int_equal(decision.next.stage_index, 3);
    last.state = POL_ROLLOUT_PAUSED;
    last.stage_failed = true;
    decision = pol_rollout_command(&last, 4, POL_COMMAND_RESUME_ACCEPT_RISK, 9);
    assert_int_equal(decision.action, POL_ACTION_COMPLETE);
    assert_false(decision.next.stage_failed);
    // Stages that cannot be: refused, whatever the command.
    for (unsigned c = 0; c <= POL_COMMAND_COUNT; c++) {
        decision = pol_rollout_command(&last, 3, (enum pol_command)c, 9);
        assert_int_equal(decision.reason, POL_REASON_STAGES_INVALID);
        assert_int_equal(decision.action, POL_ACTION_REFUSE);
        decision = pol_rollout_command(&last, 0, (enum pol_command)c, 9);
        assert_int_equal(decision.action, POL_ACTION_REFUSE);
    }
    decision = pol_rollout_command(&last, 4, POL_COMMAND_COUNT, 9);
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
            assert_true(same(&decision.next, &before));
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
        {POL_ROLLOUT_ROLLING_BACK, 3, true, 15, 0, POL_REASON_ROLLOUT_ROLLED_BACK, 0},
        {POL_ROLLOUT_ROLLED_BACK, 3, true, 15, 0, POL_REASON_ROLLOUT_ROLLED_BACK, 0},
        {POL_ROLLOUT_COMPLETED, 3, true, 12, 9999, POL_REASON_IN_STAGE, 3},
        {POL_ROLLOUT_COMPLETED, 3, false, 15, 0, POL_REASON_NOT_TARGETED, 0},
        {POL_ROLLOUT_RUNNING, 4, true, 15, 0, POL_REASON_STAGES_INVALID, 0},
        {POL_ROLLOUT_STATE_COUNT, 0, true, 15, 0, POL_REASON_STAGES_INVALID, 0},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct pol_rollout rollout = {.state = rows[i].state, .stage_index = rows[i].index};
        struct pol_match match =
            pol_rollout_admits(&rollout, stages, 4, rows[i].targeted, rows[i].mask, rows[i].bucket);
        if (match.reason != rows[i].reason || match.cond_index != rows[i].stage) {
            fail_msg("row %zu: %s at %u", i, pol_reason_name(match.reason), match.cond_index);
        }
        assert_int_equal(match.matched, match.reason == POL_REASON_IN_STAGE);
    }
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
            struct pol_match match = pol_rollout_admits(&rollout, stages, 4, true, mask, bucket);
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
    rollout = pol_rollout_command(&rollout, 4, POL_COMMAND_START, 0).next;
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
    assert_int_equal(pol_rollout_command(&rollout, 4, POL_COMMAND_RESUME, 6).reason,
                     POL_REASON_STAGE_FAILED);
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
    rollout = pol_rollout_command(&rollout, 4, POL_COMMAND_PAUSE, 5).next;
    rollout = pol_rollout_tick(&rollout, stages, 4, &failing, 6).next;
    assert_int_equal(pol_rollout_command(&rollout, 4, POL_COMMAND_RESUME, 7).action,
                     POL_ACTION_REFUSE);
    rollout = pol_rollout_command(&rollout, 4, POL_COMMAND_RESUME_ACCEPT_RISK, 8).next;
    assert_int_equal(rollout.state, POL_ROLLOUT_RUNNING);
    assert_int_equal(rollout.stage_index, 2);
    assert_false(rollout.stage_failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_in_every_state),
        cmocka_unit_test(the_last_stage_has_nothing_behind_it),
        cmocka_unit_test(every_kind_of_tick),
        cmocka_unit_test(admission),
        cmocka_unit_test(admission_only_grows),
        cmocka_unit_test(a_life_to_the_end),
        cmocka_unit_test(a_life_cut_short),
        cmocka_unit_test(a_stage_that_fails_while_paused),
    };
    return cmocka_run_group_tests(tests, make_stages, NULL);
}

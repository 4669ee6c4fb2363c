// The health gate, and which lists of stages are accepted.
#include "test_kit.h"

#include "policy/rollout.h"

struct row {
    uint64_t succeeded;
    uint64_t failed;
    uint64_t timed_out;
    uint64_t in_stage_us;
    enum pol_verdict verdict;
    enum pol_reason reason;
    uint32_t ppm;
};

#define NO_DATA      POL_VERDICT_NO_DATA
#define INCONCLUSIVE POL_VERDICT_INCONCLUSIVE
#define PASS         POL_VERDICT_PASS
#define FAIL         POL_VERDICT_FAIL
#define NONE         POL_REASON_NO_COMPLETIONS
#define SMALL        POL_REASON_SAMPLE_TOO_SMALL
#define DWELL        POL_REASON_DWELL_NOT_REACHED
#define WITHIN       POL_REASON_FAILURES_WITHIN_LIMIT
#define OVER         POL_REASON_FAILURES_OVER_LIMIT

// Sample 100, at most 5 %, dwell 1 s.
static const struct row rows[] = {
    {0, 0, 0, 0, NO_DATA, NONE, 0},
    {0, 0, 0, UINT64_MAX, NO_DATA, NONE, 0}, // time alone never passes
    {1, 0, 0, 5000000, INCONCLUSIVE, SMALL, 0},
    {99, 0, 0, 5000000, INCONCLUSIVE, SMALL, 0},
    {100, 0, 0, 999999, INCONCLUSIVE, DWELL, 0},
    {100, 0, 0, 1000000, PASS, WITHIN, 0},
    {95, 5, 0, 1000000, PASS, WITHIN, 50000}, // exactly at the limit
    {94, 6, 0, 1000000, FAIL, OVER, 60000},
    {94, 5, 1, 1000000, FAIL, OVER, 60000}, // silence counts as failure
    {94, 0, 6, 0, FAIL, OVER, 60000},       // failure is checked before dwell
    {0, 1, 0, 0, INCONCLUSIVE, SMALL, 1000000},
    {0, 5, 0, 0, INCONCLUSIVE, SMALL, 1000000}, // 95 successes could still save the sample
    {0, 6, 0, 0, FAIL, OVER, 1000000},          // nothing can
    {10, 3, 3, 0, FAIL, OVER, 375000},
    {94, 5, 0, 5000000, INCONCLUSIVE, SMALL, 50505},
    {949999, 50000, 0, 1000000, FAIL, OVER, 50000}, // over by less than one in a million
    {950000, 50000, 0, 1000000, PASS, WITHIN, 50000},
    {UINT64_MAX, 0, 0, 1000000, PASS, WITHIN, 0},
    {UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, FAIL, OVER, 1000000},
    {0, UINT64_MAX, 0, 0, FAIL, OVER, 1000000},
};

static enum pol_verdict verdict_of(const struct pol_gate *gate, const struct pol_counts *counts,
                                   uint64_t in_stage_us, enum pol_reason *reason, uint32_t *ppm)
{
    struct pol_judgement judgement;
    pol_gate_judge(gate, counts, in_stage_us, &judgement);
    *reason = judgement.reason;
    *ppm = judgement.failure_ppm;
    return judgement.verdict;
}

static void verdicts(void **state)
{
    (void)state;
    struct pol_gate gate = {.min_sample = 100, .max_failure_ppm = 50000, .min_dwell_us = 1000000};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        // What is no completion must not matter.
        struct pol_counts counts = {.offered = 7 * i,
                                    .downloaded = 5 * i,
                                    .activated = UINT64_MAX - i,
                                    .succeeded = row->succeeded,
                                    .failed = row->failed,
                                    .timed_out = row->timed_out,
                                    .not_applicable = 1000000 * i,
                                    .to_roll_back = i};
        enum pol_reason reason = POL_REASON_NONE;
        uint32_t ppm = 4711;
        enum pol_verdict verdict = verdict_of(&gate, &counts, row->in_stage_us, &reason, &ppm);
        if (verdict != row->verdict || reason != row->reason || ppm != row->ppm) {
            fail_msg("row %zu: %s, %s, %u", i, pol_verdict_name(verdict), pol_reason_name(reason),
                     ppm);
        }
    }
}

// Failures are heard of before successes: who is under way may yet succeed. {succeeded, failed,
// timed out, under way}
static void who_is_under_way_may_succeed(void **state)
{
    (void)state;
    static const struct {
        uint64_t succeeded, failed, timed_out, under_way;
        enum pol_verdict verdict, before; // ... counting who completed alone
        enum pol_reason reason;
    } cases[] = {
        {0, 3, 0, 73, INCONCLUSIVE, FAIL, SMALL},  // "100 % of 3 failed", 76 offered
        {0, 6, 0, 114, INCONCLUSIVE, FAIL, SMALL}, // exactly at the limit
        {0, 6, 0, 113, FAIL, FAIL, OVER},          // nobody can bring it back
        {50, 3, 1, 30, INCONCLUSIVE, FAIL, POL_REASON_UNDER_WAY},
        {50, 3, 1, 26, INCONCLUSIVE, FAIL, POL_REASON_UNDER_WAY},
        {50, 3, 1, 25, FAIL, FAIL, OVER},
        {76, 4, 0, 0, PASS, PASS, WITHIN},
        {75, 4, 0, 0, FAIL, FAIL, OVER},
        {0, 1, 0, UINT64_MAX, INCONCLUSIVE, INCONCLUSIVE, SMALL},
    };
    struct pol_gate gate = {.min_sample = 20, .max_failure_ppm = 50000};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct pol_counts counts = {.succeeded = cases[i].succeeded,
                                    .failed = cases[i].failed,
                                    .timed_out = cases[i].timed_out,
                                    .under_way = cases[i].under_way};
        enum pol_reason reason;
        uint32_t ppm;
        gate.of_offered = false;
        assert_int_equal(verdict_of(&gate, &counts, 0, &reason, &ppm), cases[i].before);
        gate.of_offered = true;
        enum pol_verdict verdict = verdict_of(&gate, &counts, 0, &reason, &ppm);
        if (verdict != cases[i].verdict || reason != cases[i].reason) {
            fail_msg("case %zu: %s, %s", i, pol_verdict_name(verdict), pol_reason_name(reason));
        }
    }
}

static void gates_at_their_ends(void **state)
{
    (void)state;
    enum pol_reason reason;
    uint32_t ppm;
    struct pol_counts one_failed = {.failed = 1};
    struct pol_counts one_passed = {.succeeded = 1};
    struct pol_gate open = {.min_sample = 0, .max_failure_ppm = 1000000, .min_dwell_us = 0};
    assert_int_equal(verdict_of(&open, &one_failed, 0, &reason, &ppm), PASS);
    struct pol_gate strict = {.min_sample = 0, .max_failure_ppm = 0, .min_dwell_us = 0};
    assert_int_equal(verdict_of(&strict, &one_passed, 0, &reason, &ppm), PASS);
    assert_int_equal(verdict_of(&strict, &one_failed, 0, &reason, &ppm), FAIL);
    strict.min_sample = UINT32_MAX; // a single failure can no longer be made good
    assert_int_equal(verdict_of(&strict, &one_failed, 0, &reason, &ppm), FAIL);
    assert_int_equal(verdict_of(&strict, &one_passed, 0, &reason, &ppm), INCONCLUSIVE);
    struct pol_counts nothing = {.not_applicable = 50, .offered = 50};
    assert_int_equal(verdict_of(&open, &nothing, UINT64_MAX, &reason, &ppm), NO_DATA);
}

struct stages_row {
    const char *kinds; // s b g f, anything else is out of range
    uint16_t buckets[4];
    bool ok;
};

static const struct stages_row lists[] = {
    {"", {0}, false},
    {"f", {10000}, true},
    {"f", {9999}, false}, // everybody is everybody
    {"g", {0}, false},
    {"g", {1}, true},
    {"g", {10000}, true},
    {"g", {10001}, false},
    {"gg", {100, 100}, true},
    {"gg", {100, 99}, false},
    {"gbg", {100, 50, 99}, false}, // also across another stage
    {"gbg", {100, 50, 101}, true},
    {"sbgf", {1, 10000, 100, 10000}, true},
    {"s", {0}, false},
    {"x", {100}, false},
};

static enum pol_stage_kind kind_of(char letter)
{
    switch (letter) {
    case 's':
        return POL_STAGE_SIMULATE;
    case 'b':
        return POL_STAGE_BETA;
    case 'g':
        return POL_STAGE_GRAY;
    case 'f':
        return POL_STAGE_FULL;
    default:
        return POL_STAGE_KIND_COUNT;
    }
}

static void stage_lists(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(lists); i++) {
        struct pol_stage stages[4];
        memset(stages, 0, sizeof stages);
        uint32_t count = (uint32_t)strlen(lists[i].kinds);
        for (uint32_t k = 0; k < count; k++) {
            stages[k].kind = kind_of(lists[i].kinds[k]);
            stages[k].max_bucket = lists[i].buckets[k];
        }
        enum pol_reason reason = pol_stages_check(stages, count);
        enum pol_reason wanted = lists[i].ok ? POL_REASON_MATCHED : POL_REASON_STAGES_INVALID;
        if (reason != wanted) {
            fail_msg("list %zu: %s", i, pol_reason_name(reason));
        }
    }
    struct pol_stage many[POL_STAGES_MAX + 1];
    memset(many, 0, sizeof many);
    for (uint32_t k = 0; k <= POL_STAGES_MAX; k++) {
        many[k] = (struct pol_stage){.kind = POL_STAGE_GRAY, .max_bucket = (uint16_t)(k + 1)};
    }
    assert_int_equal(pol_stages_check(many, POL_STAGES_MAX), POL_REASON_MATCHED);
    assert_int_equal(pol_stages_check(many, POL_STAGES_MAX + 1), POL_REASON_STAGES_INVALID);
    struct pol_cond bad = {.attr = {"os", 2}, .op = POL_OP_EQ};
    many[3].audience = (struct pol_target){.conds = &bad, .cond_count = 1};
    assert_int_equal(pol_stages_check(many, 5), POL_REASON_STAGES_INVALID);
    assert_int_equal(pol_stages_check(many, 3), POL_REASON_MATCHED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts),
        cmocka_unit_test(who_is_under_way_may_succeed),
        cmocka_unit_test(gates_at_their_ends),
        cmocka_unit_test(stage_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

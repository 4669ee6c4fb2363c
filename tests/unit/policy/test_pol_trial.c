// The judgement of a trial: verdicts by rows, what reports that come late may not change, under way
// and unanswered, slices with their own control, and rollouts that replay.
#include "block_play.h"
#include "test_kit.h"

#include "policy/stat/evidence.h"
#include "policy/replay.h"
#include "policy/slices.h"

#include <math.h>

#define SEED 20261124u

static const struct pol_gate standard = {.rule = POL_GATE_LOGRANK,
                                         .min_sample = 100,
                                         .max_failure_ppm = 50000,
                                         .max_rise_ppm = 20000,
                                         .alpha_ppm = 50000,
                                         .beta_ppm = 100000,
                                         .min_answered_ppm = POL_GATE_MIN_ANSWERED_PPM,
                                         .no_data_us = 5000000};

// A block of a row: offered, failed and succeeded, updated first, then control.
struct row_block {
    uint32_t updated[3];
    uint32_t control[3];
    bool over;
};

// Updated devices fail first where `updated_first`, else after control's.
static void add_block(struct pol_trial *trial, const struct pol_gate *gate,
                      const struct row_block *row, bool updated_first)
{
    struct pol_block block = {.offered = {row->control[0], row->updated[0]}};
    pol_block_close(&block, gate->tolerated_rise_ppm, &trial->rise);
    for (int turn = 0; turn < 2; turn++) {
        bool updated = (turn == 0) == updated_first;
        enum pol_cohort cohort = updated ? POL_COHORT_UPDATED : POL_COHORT_CONTROL;
        const uint32_t *counts = updated ? row->updated : row->control;
        for (uint32_t i = 0; i < counts[1]; i++) {
            assert_true(
                pol_block_fail(&block, cohort, false, gate->tolerated_rise_ppm, &trial->rise));
        }
        for (uint32_t i = 0; i < counts[2]; i++) {
            assert_true(block_succeed(&block, cohort));
        }
    }
    pol_trial_add(trial, &block, row->over, gate->max_failure_ppm);
}

struct row {
    const char *what;
    struct row_block blocks[3];
    uint64_t in_stage_us;
    enum pol_verdict verdict;
    enum pol_reason reason;
    uint64_t under_way;
    uint32_t answered_ppm;
    uint32_t failure_ppm;
};

#define NO_DATA      POL_VERDICT_NO_DATA
#define INCONCLUSIVE POL_VERDICT_INCONCLUSIVE
#define PASS         POL_VERDICT_PASS
#define FAIL         POL_VERDICT_FAIL

// Sample 100, at most 5 %, a rise of at most 2 points, alpha 5 %, nine tenths answered.
static const struct row rows[] = {
    {"nobody", {{{0}, {0}, false}}, 0, NO_DATA, POL_REASON_NO_COMPLETIONS, 0, 1000000, 0},
    {"nobody for long",
     {{{0}, {0}, false}},
     5000000,
     NO_DATA,
     POL_REASON_NO_DATA_TOO_LONG,
     0,
     1000000,
     0},
    {"all under way",
     {{{500}, {500}, false}},
     0,
     NO_DATA,
     POL_REASON_NO_COMPLETIONS,
     500,
     1000000,
     0},
    {"none answered in time",
     {{{500}, {500, 1, 0}, true}},
     0,
     NO_DATA,
     POL_REASON_NO_COMPLETIONS,
     0,
     0,
     0},
    {"three failed of three that answered, of 76 offered",
     {{{76, 3, 0}, {80, 1, 0}, false}},
     0,
     INCONCLUSIVE,
     POL_REASON_UNDER_WAY,
     73,
     1000000,
     39473},
    {"successes do not pass before the window is over",
     {{{3000, 0, 3000}, {9000, 0, 9000}, false}},
     0,
     INCONCLUSIVE,
     POL_REASON_UNDER_WAY,
     0,
     1000000,
     0},
    {"few, and no more to come",
     {{{90, 0, 90}, {900, 0, 900}, true}},
     0,
     INCONCLUSIVE,
     POL_REASON_SAMPLE_TOO_SMALL,
     0,
     1000000,
     0},
    {"good",
     {{{3000, 6, 2994}, {9000, 18, 8982}, true}},
     1,
     PASS,
     POL_REASON_EVIDENCE_GOOD,
     0,
     1000000,
     2000},
    {"good, others under way",
     {{{3000, 6, 2994}, {9000, 18, 8982}, true}, {{900, 0, 10}, {900}, false}},
     0,
     PASS,
     POL_REASON_EVIDENCE_GOOD,
     890,
     1000000,
     1538},
    {"a good beginning is not undone by who is under way",
     {{{3000, 6, 2994}, {9000, 18, 8982}, true}, {{900, 5, 10}, {900, 5}, false}},
     0,
     PASS,
     POL_REASON_EVIDENCE_GOOD,
     885,
     1000000,
     2820},
    {"a tenth unanswered in both cohorts: may all be failures",
     {{{3000, 6, 2694}, {9000, 18, 8082}, true}},
     0,
     INCONCLUSIVE,
     POL_REASON_EVIDENCE_OPEN,
     0,
     900000,
     2000},
    {"more than a tenth",
     {{{3000, 6, 2693}, {9000, 18, 8982}, true}},
     0,
     INCONCLUSIVE,
     POL_REASON_TOO_FEW_ANSWERED,
     0,
     899666,
     2000},
    {"more than a tenth of control",
     {{{3000, 6, 2994}, {9000, 18, 8000}, true}},
     0,
     INCONCLUSIVE,
     POL_REASON_TOO_FEW_ANSWERED,
     0,
     1000000,
     2000},
    {"as bad as control, and over the limit",
     {{{3000, 300, 2700}, {9000, 900, 8100}, true}},
     0,
     FAIL,
     POL_REASON_FAILURES_OVER_LIMIT,
     0,
     1000000,
     100000},
    {"over the limit before anybody's window is over",
     {{{3000, 300, 0}, {9000, 900, 0}, false}},
     0,
     FAIL,
     POL_REASON_FAILURES_OVER_LIMIT,
     2700,
     1000000,
     100000},
    {"over the limit in the first blocks, however many follow",
     {{{300, 60, 0}, {300, 60, 0}, false}, {{30000, 30, 0}, {30000, 30, 0}, false}},
     0,
     FAIL,
     POL_REASON_FAILURES_OVER_LIMIT,
     30210,
     1000000,
     2970},
    {"worse than control, within the limit",
     {{{3000, 60, 0}, {9000, 18, 0}, false}},
     0,
     FAIL,
     POL_REASON_RISE_OVER_CONTROL,
     2940,
     1000000,
     20000},
    {"better than control",
     {{{3000, 3, 2997}, {9000, 180, 8820}, true}},
     0,
     PASS,
     POL_REASON_EVIDENCE_GOOD,
     0,
     1000000,
     1000},
    {"no control: no rise can be shown, and a rate below it is none",
     {{{3000, 6, 2994}, {0}, true}},
     0,
     PASS,
     POL_REASON_EVIDENCE_GOOD,
     0,
     1000000,
     2000},
    {"no control, and a rate that may be a rise",
     {{{3000, 54, 2946}, {0}, true}},
     0,
     INCONCLUSIVE,
     POL_REASON_EVIDENCE_OPEN,
     0,
     1000000,
     18000},
};

static void verdicts(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        struct pol_counts counts = {.succeeded = 17 * i, .failed = 5 * i}; // for people alone
        struct pol_judgement judged;
        for (size_t k = 0; k < TEST_COUNT(row->blocks); k++) {
            add_block(&counts.trial, &standard, &row->blocks[k], true);
        }
        assert_true(pol_trial_valid(&counts.trial));
        pol_gate_judge(&standard, &counts, row->in_stage_us, &judged);
        uint64_t under_way = trial_under_way(&counts.trial);
        uint32_t answered_ppm = pol_trial_answered_ppm(&counts.trial, POL_COHORT_UPDATED);
        if (judged.verdict != row->verdict || judged.reason != row->reason ||
            judged.failure_ppm != row->failure_ppm || under_way != row->under_way ||
            answered_ppm != row->answered_ppm) {
            fail_msg("%s: %s, %s, %u ppm failed, %llu under way, %u ppm answered", row->what,
                     pol_verdict_name(judged.verdict), pol_reason_name(judged.reason),
                     judged.failure_ppm, (unsigned long long)under_way, answered_ppm);
        }
        bool worse = judged.shown.evidence * pol_gate_part(50000, POL_GATE_TEST_PERCENT) >= 1e6;
        assert_true(worse == (judged.verdict == FAIL));
    }
}

// The two questions written again, from the page: each over its own part of alpha where both are
// asked, and over all of it alone.
static double bar_of(double alpha)
{
    return -log(alpha);
}

static void each_question_has_its_part_of_alpha(void **state)
{
    (void)state;
    static const uint32_t limits[] = {50000, POL_TEST_NOT_ASKED};
    const double alpha = 0.05 * POL_GATE_TEST_PERCENT / 100;
    const double part = (100 - POL_GATE_RISE_PERCENT) / 100.0;
    uint32_t between = 0; // enough for all of alpha, and not for the part
    for (uint32_t failed = 0; failed <= 60; failed++) {
        for (size_t asked = 0; asked < TEST_COUNT(limits); asked++) {
            struct pol_gate gate = standard;
            struct pol_counts counts = {0};
            struct pol_judgement judged;
            struct row_block block = {{400, failed, 0}, {400, failed, 0}, false};
            bool both = asked == 0;
            gate.max_rise_ppm = both ? standard.max_rise_ppm : POL_TEST_NOT_ASKED;
            add_block(&counts.trial, &gate, &block, false); // control failed first: no rise
            pol_gate_judge(&gate, &counts, 0, &judged);
            struct pol_arm arm = {failed, 400};
            double evidence = failed > 0 ? pol_evidence_over(arm, 0.05) : 0;
            bool worse = evidence >= bar_of(both ? alpha * part : alpha);
            if (worse != (judged.verdict == FAIL)) {
                fail_msg("%u failed of 400, %s: %s", failed, both ? "both asked" : "one asked",
                         pol_verdict_name(judged.verdict));
            }
            between += both && evidence >= bar_of(alpha) && !worse;
        }
    }
    assert_true(between > 0);
}

// What passes, written again: not good are all that did not succeed, and of a rise only the part
// that may not hide among those who did not answer is allowed.
static void what_passes_by_the_page(void **state)
{
    (void)state;
    uint32_t passed = 0;
    uint32_t kept[4] = {0}; // that would pass if one thing were otherwise
    for (uint32_t n = 400; n <= 4000; n += 200) {
        for (uint32_t lost_percent = 0; lost_percent <= 9; lost_percent += 3) {
            for (uint32_t failed = 0; failed <= 24; failed += 4) {
                struct pol_gate gate = standard;
                struct pol_counts counts = {0};
                struct pol_judgement judged;
                uint32_t lost = n * lost_percent / 100 / 10;
                struct row_block block = {
                    {n, failed, n - failed - lost}, {2 * n, failed, 2 * (n - lost) - failed}, true};
                add_block(&counts.trial, &gate, &block, false);
                pol_gate_judge(&gate, &counts, 0, &judged);
                struct pol_arm updated = {failed + lost, n};
                struct pol_arm control = {failed + 2 * lost, 2 * n};
                struct pol_arm answered = {failed, n};
                double limit = pol_evidence_under(updated, 0.05);
                double rise = pol_evidence_below(updated, control, 0.02 * 0.9, 1);
                double bar = bar_of(0.1);
                bool good = limit >= bar && rise >= bar;
                if (judged.verdict != FAIL && good != (judged.verdict == PASS)) {
                    fail_msg("%u of %u failed, %u lost: %s, by the page %s", failed, n, lost,
                             pol_verdict_name(judged.verdict), good ? "good" : "open");
                }
                passed += good;
                kept[0] +=
                    !good && limit >= bar && pol_evidence_below(updated, control, 0.02, 1) >= bar;
                kept[1] += !good && rise >= bar && pol_evidence_under(answered, 0.05) >= bar;
                kept[2] += !good && (limit >= bar || rise >= bar);
                kept[3] += !good && limit >= bar_of(0.2) && rise >= bar_of(0.2);
            }
        }
    }
    print_message("%u pass; %u, %u, %u, %u would\n", passed, kept[0], kept[1], kept[2], kept[3]);
    assert_true(passed > 0 && kept[0] > 0 && kept[2] > 0 && kept[3] > 0);
}

static void gates_at_their_ends(void **state)
{
    (void)state;
    struct pol_counts counts = {.unproven = 3};
    struct pol_judgement judged;
    struct pol_gate gate = standard;
    pol_gate_judge(&gate, &counts, 0, &judged);
    assert_int_equal(judged.reason, POL_REASON_NO_PROVEN);
    struct row_block good = {{5000, 10, 4990}, {5000, 10, 4990}, true};
    add_block(&counts.trial, &gate, &good, false);
    gate.min_dwell_us = 10;
    pol_gate_judge(&gate, &counts, 9, &judged);
    assert_int_equal(judged.reason, POL_REASON_DWELL_NOT_REACHED);
    pol_gate_judge(&gate, &counts, 10, &judged);
    assert_int_equal(judged.verdict, PASS);
    gate.max_failure_ppm = 0; // cannot be shown
    pol_gate_judge(&gate, &counts, 10, &judged);
    assert_int_not_equal(judged.verdict, PASS);
    gate = standard;
    gate.max_failure_ppm = gate.max_rise_ppm = POL_TEST_NOT_ASKED; // nothing asked, nothing decided
    pol_gate_judge(&gate, &counts, 10, &judged);
    assert_int_equal(judged.reason, POL_REASON_EVIDENCE_OPEN);
    counts.trial.over[POL_COHORT_UPDATED].offered++; // more than there are
    assert_false(pol_trial_valid(&counts.trial));
    pol_gate_judge(&standard, &counts, 10, &judged);
    assert_int_equal(judged.verdict, NO_DATA);

    assert_true(pol_gate_check(&standard));
    gate = standard;
    gate.min_answered_ppm = 1000001;
    assert_false(pol_gate_check(&gate));
    gate = standard;
    gate.alpha_ppm = 0;
    assert_false(pol_gate_check(&gate));
    struct pol_stage stage = {.kind = POL_STAGE_FULL, .max_bucket = 10000, .gate = standard};
    assert_int_equal(pol_stages_check(&stage, 1), POL_REASON_MATCHED);
    stage.retries[POL_FAILURE_CRASH] = 1; // a first failure is the outcome
    assert_int_equal(pol_stages_check(&stage, 1), POL_REASON_STAGES_INVALID);
    stage.gate.rule = POL_GATE_SEQUENTIAL;
    assert_int_equal(pol_stages_check(&stage, 1), POL_REASON_MATCHED);
}

static void exactly_the_minimum_is_enough(void **state)
{
    (void)state;
    const struct row_block row = {{3000, 0, 3000}, {3000, 0, 3000}, true};
    for (uint32_t missing = 0; missing < 2; missing++) {
        struct pol_gate gate = standard;
        struct pol_counts counts = {.offered = 0};
        struct pol_judgement found;
        gate.min_sample = 3000 + missing;
        add_block(&counts.trial, &gate, &row, true);
        pol_gate_judge(&gate, &counts, 0, &found);
        assert_int_equal(found.verdict, missing ? INCONCLUSIVE : PASS);
        assert_int_equal(found.reason,
                         missing ? POL_REASON_SAMPLE_TOO_SMALL : POL_REASON_EVIDENCE_GOOD);
    }
}

static void add_alone(struct pol_trial *trial, uint32_t count, uint32_t failed)
{
    struct pol_block block = {.offered = {0, count}, .alone = true};
    pol_block_close(&block, 0, &trial->rise);
    for (uint32_t i = 0; i < failed; i++) {
        assert_true(pol_block_fail(&block, POL_COHORT_UPDATED, false, 0, &trial->rise));
    }
    block.succeeded[POL_COHORT_UPDATED] = count - failed;
    pol_trial_add(trial, &block, true, standard.max_failure_ppm);
}

// Devices that have nothing to be offered again: asked about max_failure, compared with nobody.
static void who_is_alone_is_not_compared(void **state)
{
    (void)state;
    struct pol_counts counts = {0};
    struct pol_judgement judged;
    add_alone(&counts.trial, 3000, 6); // a first release: nobody to compare with
    assert_false(pol_trial_compares(&counts.trial));
    pol_gate_judge(&standard, &counts, 0, &judged);
    assert_int_equal(judged.verdict, PASS);
    // Some that can be compared: they have to be shown good beside their control, however many of
    // the others there are.
    struct row_block few = {{20, 0, 20}, {20, 0, 20}, true};
    add_block(&counts.trial, &standard, &few, false);
    assert_true(pol_trial_compares(&counts.trial));
    assert_int_equal(counts.trial.beside.offered, 20);
    pol_gate_judge(&standard, &counts, 0, &judged);
    assert_int_equal(judged.verdict, INCONCLUSIVE);
    assert_int_equal(judged.reason, POL_REASON_EVIDENCE_OPEN);
    // And what is alone can fail, by the limit.
    add_alone(&counts.trial, 1000, 900);
    assert_true(pol_trial_valid(&counts.trial));
    pol_gate_judge(&standard, &counts, 0, &judged);
    assert_int_equal(judged.verdict, FAIL);
    assert_int_equal(judged.reason, POL_REASON_FAILURES_OVER_LIMIT);
    for (uint32_t i = 0; i < POL_LOGRANK_RATIOS; i++) {
        assert_int_equal(counts.trial.rise.wealth[i], 0);
    }
    counts.trial.beside.offered = counts.trial.compared + 1;
    assert_false(pol_trial_valid(&counts.trial));
}

// Devices that the version is not meant for are in no share; they stay among those who may fail.
static void refusals_are_no_trials(void **state)
{
    (void)state;
    struct pol_counts counts = {0};
    struct pol_judgement judged;
    struct pol_block block = {.offered = {3000, 4000}};
    pol_block_close(&block, 0, &counts.trial.rise);
    for (uint32_t i = 0; i < 3000; i++) {
        assert_true(block_succeed(&block, POL_COHORT_CONTROL));
        assert_true(block_succeed(&block, POL_COHORT_UPDATED));
        assert_true(i >= 1000 || block_refuse(&block, POL_COHORT_UPDATED));
    }
    pol_trial_add(&counts.trial, &block, true, standard.max_failure_ppm);
    assert_int_equal(counts.trial.all[POL_COHORT_UPDATED].offered, 3000);
    assert_int_equal(pol_trial_answered_ppm(&counts.trial, POL_COHORT_UPDATED), 1000000);
    pol_gate_judge(&standard, &counts, 0, &judged);
    assert_int_equal(judged.verdict, PASS);
}

static void silence_is_asked_too(void **state)
{
    (void)state;
    struct pol_gate gate = standard;
    gate.max_silence_percent = 200;
    struct pol_counts counts = {.hazard = {100000, 60}, .control_hazard = {400000, 20}};
    struct pol_judgement judged;
    struct row_block good = {{5000, 10, 4990}, {20000, 40, 19960}, true};
    add_block(&counts.trial, &gate, &good, true);
    pol_gate_judge(&gate, &counts, 0, &judged);
    assert_int_equal(judged.verdict, FAIL);
    assert_int_equal(judged.reason, POL_REASON_SILENT_OVER_CONTROL);
    counts.hazard.silent = 6;
    pol_gate_judge(&gate, &counts, 0, &judged);
    assert_int_equal(judged.verdict, PASS);
}

// When successes are heard of changes nothing about FAIL; the order of failures next to nothing.
static void what_comes_when_does_not_matter(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED);
    double furthest = 0;
    for (uint32_t run = 0; run < 500; run++) {
        struct pol_counts early = {0};
        struct pol_counts late = {0};
        struct pol_counts turned = {0};
        for (uint32_t i = 0; i < 5; i++) {
            struct row_block block = {.over = false};
            block.updated[0] = 200 + (uint32_t)base_prng_below(&prng, 300);
            block.control[0] = 200 + (uint32_t)base_prng_below(&prng, 900);
            block.updated[1] = (uint32_t)base_prng_below(&prng, 12);
            block.control[1] = (uint32_t)base_prng_below(&prng, 12);
            add_block(&late.trial, &standard, &block, true);
            add_block(&turned.trial, &standard, &block, false);
            block.updated[2] = block.updated[0] - block.updated[1];
            block.control[2] = (uint32_t)base_prng_below(&prng, 100);
            add_block(&early.trial, &standard, &block, true);
        }
        struct pol_judgement first;
        struct pol_judgement second;
        struct pol_judgement third;
        pol_gate_judge(&standard, &early, 0, &first);
        pol_gate_judge(&standard, &late, 0, &second);
        pol_gate_judge(&standard, &turned, 0, &third);
        assert_true(first.shown.evidence == second.shown.evidence);
        assert_true(first.verdict == second.verdict && first.reason == second.reason);
        double ratio = log(third.shown.evidence / first.shown.evidence);
        furthest = fabs(ratio) > furthest ? fabs(ratio) : furthest;
    }
    print_message("order of failures: evidence differs by a factor of %.2f at most\n",
                  exp(furthest));
    assert_true(furthest < log(4));
}

// The first blocks that speak most, by looking at every beginning.
static void the_lead_is_the_strongest_beginning(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED + 1);
    for (uint32_t run = 0; run < 300; run++) {
        struct pol_trial trial = {0};
        double strongest = 0; // of nobody
        struct pol_arm sum = {0, 0};
        for (uint32_t i = 0; i < 30; i++) {
            struct row_block block = {.over = i < 10};
            block.updated[0] = (uint32_t)base_prng_below(&prng, 50);
            block.updated[1] = (uint32_t)base_prng_below(&prng, 1 + block.updated[0] / 3);
            add_block(&trial, &standard, &block, true);
            sum.exposure += block.updated[0];
            sum.events += block.updated[1];
            double evidence = pol_evidence_over(sum, 0.05);
            strongest = evidence > strongest ? evidence : strongest;
        }
        struct pol_arm lead = {(double)trial.lead.failures, (double)trial.lead.trials};
        assert_true(pol_evidence_over(lead, 0.05) == strongest);
    }
}

static void more_failures_never_look_better(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED + 2);
    for (uint32_t run = 0; run < 1000; run++) {
        struct row_block block = {.over = true};
        block.updated[0] = 100 + (uint32_t)base_prng_below(&prng, 5000);
        block.control[0] = 100 + (uint32_t)base_prng_below(&prng, 5000);
        block.updated[1] = (uint32_t)base_prng_below(&prng, 60);
        block.control[1] = (uint32_t)base_prng_below(&prng, 60);
        block.updated[2] = block.updated[0] - block.updated[1] - (uint32_t)(run % 2);
        block.control[2] = block.control[0] - block.control[1];
        struct row_block worse = block;
        worse.updated[1]++;
        worse.updated[2] -= worse.updated[1] + worse.updated[2] > worse.updated[0];
        struct pol_counts here = {0};
        struct pol_counts more = {0};
        struct pol_judgement first;
        struct pol_judgement second;
        add_block(&here.trial, &standard, &block, false);
        add_block(&more.trial, &standard, &worse, false);
        pol_gate_judge(&standard, &here, 0, &first);
        pol_gate_judge(&standard, &more, 0, &second);
        assert_true(second.shown.evidence >= first.shown.evidence);
        assert_true(second.shown.good_evidence <= first.shown.good_evidence * 1.0001);
    }
}

// ---- Slices ----

// Offers of `blocks` blocks to a slice with `updated` and `control` devices in each; fails as said.
static struct pol_slice slice_of(uint64_t name, uint32_t blocks, const struct row_block *row)
{
    struct pol_trial trial = {0};
    for (uint32_t i = 0; i < blocks; i++) {
        add_block(&trial, &standard, row, i % 2 == 0);
    }
    const struct pol_outcomes *updated = &trial.all[POL_COHORT_UPDATED];
    return (struct pol_slice){.name = name,
                              .seen = {updated->offered, updated->failed},
                              .rise = pol_logrank_evidence(&trial.rise)};
}

// A slice that always failed more than the others is let be; one that does since the update is
// held, and so is one over the limit.
static void a_slice_has_its_own_control(void **state)
{
    (void)state;
    static const struct row_block usual = {{100, 3, 97}, {400, 12, 388}, true};
    static const struct row_block risen = {{100, 3, 97}, {400, 2, 398}, true};
    static const struct row_block over = {{100, 30, 70}, {400, 120, 280}, true};
    struct pol_slices slices = {.count = 25, .failing_count = 1, .completed = 100000};
    struct pol_sample control = {400000, 2000}; // of the whole stage: 0.5 %
    struct pol_held held;
    slices.failing[0] = slice_of(7, 20, &usual);
    pol_slices_judge(&standard, &slices, &control, &held);
    assert_int_equal(held.count, 0);
    struct pol_gate compared = standard; // with the whole of control it would be held
    compared.rule = POL_GATE_SEQUENTIAL;
    pol_slices_judge(&compared, &slices, &control, &held);
    assert_int_equal(held.count, 1);
    slices.failing_count = 3;
    slices.failing[1] = slice_of(8, 20, &risen);
    slices.failing[2] = slice_of(9, 20, &over);
    pol_slices_judge(&standard, &slices, &control, &held);
    assert_int_equal(held.count, 2);
    assert_true(held.names[0] == 8 && held.names[1] == 9);
    compared = standard;
    compared.max_rise_ppm = POL_TEST_NOT_ASKED;
    pol_slices_judge(&compared, &slices, &control, &held);
    assert_true(held.count == 1 && held.names[0] == 9);
    compared = standard;
    compared.max_failure_ppm = POL_TEST_NOT_ASKED;
    pol_slices_judge(&compared, &slices, &control, &held);
    assert_true(held.count == 1 && held.names[0] == 8);
}

// ---- Rollouts ----

// The machine judges the trial as it judges counts, and a replay finds the same.
static void rollouts_move_by_it_and_replay(void **state)
{
    (void)state;
    struct pol_stage stages[2] = {{.kind = POL_STAGE_GRAY, .max_bucket = 1000, .gate = standard},
                                  {.kind = POL_STAGE_FULL, .max_bucket = 10000, .gate = standard}};
    static const struct row_block good = {{3000, 6, 2994}, {9000, 18, 8982}, true};
    static const struct row_block bad = {{3000, 60, 0}, {9000, 18, 0}, false};
    struct pol_record records[3] = {{.kind = POL_RECORD_COMMAND, .command = POL_COMMAND_START},
                                    {.kind = POL_RECORD_TICK, .now_us = 1000},
                                    {.kind = POL_RECORD_TICK, .now_us = 2000}};
    add_block(&records[1].counts.trial, &standard, &good, true);
    add_block(&records[2].counts.trial, &standard, &bad, true);
    static const enum pol_action actions[] = {POL_ACTION_ADVANCE, POL_ACTION_ADVANCE,
                                              POL_ACTION_ROLL_BACK};
    struct pol_replay replay;
    pol_replay_init(&replay, 0);
    for (size_t i = 0; i < TEST_COUNT(records); i++) {
        struct pol_decision decision =
            i == 0 ? pol_rollout_command(&replay.rollout, stages, 2, records[i].command, 0)
                   : pol_rollout_tick(&replay.rollout, stages, 2, &records[i].counts,
                                      records[i].now_us);
        assert_int_equal(decision.action, actions[i]);
        records[i].action = decision.action;
        records[i].verdict = decision.verdict;
        records[i].reason = decision.reason;
        records[i].after = decision.next;
        bool differs = true;
        (void)pol_replay_step(&replay, stages, 2, &records[i], &differs);
        assert_false(differs);
    }
    assert_int_equal(records[2].reason, POL_REASON_RISE_OVER_CONTROL);
    stages[1].gate.max_rise_ppm = POL_TEST_NOT_ASKED; // what if: it would have gone on
    pol_replay_init(&replay, 0);
    bool differs = false;
    for (size_t i = 0; i < TEST_COUNT(records); i++) {
        (void)pol_replay_step(&replay, stages, 2, &records[i], &differs);
    }
    assert_true(differs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts),
        cmocka_unit_test(each_question_has_its_part_of_alpha),
        cmocka_unit_test(what_passes_by_the_page),
        cmocka_unit_test(gates_at_their_ends),
        cmocka_unit_test(exactly_the_minimum_is_enough),
        cmocka_unit_test(refusals_are_no_trials),
        cmocka_unit_test(who_is_alone_is_not_compared),
        cmocka_unit_test(silence_is_asked_too),
        cmocka_unit_test(what_comes_when_does_not_matter),
        cmocka_unit_test(the_lead_is_the_strongest_beginning),
        cmocka_unit_test(more_failures_never_look_better),
        cmocka_unit_test(a_slice_has_its_own_control),
        cmocka_unit_test(rollouts_move_by_it_and_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

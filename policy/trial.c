// The judgement of a stage whose cohorts were offered together. Blocks are added by the gateway's
// control thread (svc/tally/trial_blocks.c); judged by gate.c for every tick of a rollout with that
// rule, hence also in replays and in the bench; pure. Why each answer may be given at any time is
// in trial.h, question by question, and the functions below keep its order. What is kept is a sum
// over closed blocks and the beginning that speaks most, so a look costs the open blocks alone.
#include "policy/trial.h"

#include "policy/gate.h"
#include "policy/stat/assert.h"
#include "policy/stat/evidence.h"

#include <math.h>

#define MILLION 1000000u

// ---- What is kept ----

static void add_up(struct pol_outcomes *sum, const struct pol_block *block, enum pol_cohort cohort)
{
    pol_assert(block->refused[cohort] <= block->offered[cohort]);
    sum->offered += block->offered[cohort] - block->refused[cohort];
    sum->failed += block->failed[cohort];
    sum->succeeded += block->succeeded[cohort];
}

static void add_cohorts(struct pol_outcomes sums[POL_COHORT_COUNT], const struct pol_block *block)
{
    add_up(&sums[POL_COHORT_CONTROL], block, POL_COHORT_CONTROL);
    add_up(&sums[POL_COHORT_UPDATED], block, POL_COHORT_UPDATED);
}

static double over_limit(const struct pol_sample *sample, uint32_t limit_ppm)
{
    uint32_t limit = limit_ppm > 0 ? limit_ppm : 1;
    struct pol_arm arm = {(double)sample->failures, (double)sample->trials};
    return limit < MILLION ? pol_evidence_over(arm, (double)limit / MILLION) : 0;
}

void pol_trial_add(struct pol_trial *trial, const struct pol_block *block, bool over,
                   uint32_t max_failure_ppm)
{
    add_cohorts(trial->all, block);
    if (over) {
        add_cohorts(trial->over, block);
    }
    if (!block->alone) {
        trial->compared += block->offered[POL_COHORT_UPDATED] - block->refused[POL_COHORT_UPDATED];
    }
    if (!block->alone && over) {
        add_up(&trial->beside, block, POL_COHORT_UPDATED);
    }
    if (block->failed[POL_COHORT_UPDATED] == 0) {
        return; // without failures a longer beginning speaks less
    }
    const struct pol_outcomes *updated = &trial->all[POL_COHORT_UPDATED];
    struct pol_sample here = {.trials = updated->offered, .failures = updated->failed};
    if (over_limit(&here, max_failure_ppm) > over_limit(&trial->lead, max_failure_ppm)) {
        trial->lead = here;
    }
}

static uint64_t answered(const struct pol_outcomes *outcomes)
{
    return outcomes->failed + outcomes->succeeded;
}

uint32_t pol_trial_answered_ppm(const struct pol_trial *trial, enum pol_cohort cohort)
{
    const struct pol_outcomes *over = &trial->over[cohort];
    return over->offered > 0 ? pol_gate_ratio_ppm(answered(over), over->offered) : MILLION;
}

static bool fits(const struct pol_outcomes *outcomes)
{
    return outcomes->failed <= outcomes->offered &&
           outcomes->succeeded <= outcomes->offered - outcomes->failed;
}

bool pol_trial_compares(const struct pol_trial *trial)
{
    return trial->compared > 0 || trial->all[POL_COHORT_CONTROL].offered > 0;
}

// Whether `part` is of `whole`.
static bool is_part(const struct pol_outcomes *part, const struct pol_outcomes *whole)
{
    return fits(part) && part->failed <= whole->failed && part->succeeded <= whole->succeeded &&
           part->offered <= whole->offered &&
           part->offered - answered(part) <= whole->offered - answered(whole);
}

bool pol_trial_valid(const struct pol_trial *trial)
{
    for (int i = 0; i < POL_COHORT_COUNT; i++) {
        if (!fits(&trial->all[i]) || !is_part(&trial->over[i], &trial->all[i])) {
            return false;
        }
    }
    if (!is_part(&trial->beside, &trial->over[POL_COHORT_UPDATED]) ||
        trial->compared > trial->all[POL_COHORT_UPDATED].offered ||
        trial->beside.offered > trial->compared) {
        return false;
    }
    const struct pol_sample *lead = &trial->lead;
    return lead->failures <= lead->trials && lead->trials <= trial->all[POL_COHORT_UPDATED].offered;
}

// ---- The questions ----

struct asked {
    bool absolute;
    bool relative;
    uint32_t alpha_ppm; // of the two together
    uint32_t absolute_alpha_ppm;
    uint32_t relative_alpha_ppm;
};

static struct asked questions(const struct pol_gate *gate)
{
    struct asked asked = {.absolute = gate->max_failure_ppm < POL_TEST_NOT_ASKED,
                          .relative = gate->max_rise_ppm < POL_TEST_NOT_ASKED,
                          .alpha_ppm = pol_gate_part(gate->alpha_ppm, POL_GATE_TEST_PERCENT)};
    asked.relative_alpha_ppm = asked.absolute_alpha_ppm = asked.alpha_ppm;
    if (asked.absolute && asked.relative) {
        asked.relative_alpha_ppm = pol_gate_part(asked.alpha_ppm, POL_GATE_RISE_PERCENT);
        asked.absolute_alpha_ppm = pol_gate_part(asked.alpha_ppm, 100 - POL_GATE_RISE_PERCENT);
    }
    return asked;
}

// Not good: failed, or not heard of when the window was over.
static struct pol_arm not_good(const struct pol_outcomes *over)
{
    pol_assert(over->succeeded <= over->offered); // pol_trial_valid saw it
    return (struct pol_arm){(double)(over->offered - over->succeeded), (double)over->offered};
}

// Log evidence that a limit is exceeded, of the weaker question.
static double within(const struct pol_gate *gate, const struct asked *asked,
                     const struct pol_trial *trial)
{
    struct pol_arm updated = not_good(&trial->over[POL_COHORT_UPDATED]);
    struct pol_arm beside = not_good(&trial->beside);
    struct pol_arm control = not_good(&trial->over[POL_COHORT_CONTROL]);
    bool compares = asked->relative && pol_trial_compares(trial);
    double least = asked->absolute || compares ? HUGE_VAL : 0;
    if (asked->absolute) {
        uint32_t limit = gate->max_failure_ppm > 0 ? gate->max_failure_ppm : 1;
        least = pol_evidence_under(updated, (double)limit / MILLION);
    }
    if (compares) {
        double rise = (double)(gate->max_rise_ppm > 0 ? gate->max_rise_ppm : 1) / MILLION;
        double seen = gate->min_answered_ppm > 0 ? (double)gate->min_answered_ppm / MILLION : 1;
        double relative = pol_evidence_below(beside, control, rise * seen, 1);
        least = relative < least ? relative : least;
    }
    return least;
}

static uint32_t failed_ppm(const struct pol_outcomes *all)
{
    return all->offered > 0 ? pol_gate_ratio_ppm(all->failed, all->offered) : 0;
}

// Evidence for people is on one scale: WORSE is 1/alpha of the two questions together.
static struct pol_test_report ask(const struct pol_gate *gate, const struct pol_trial *trial)
{
    pol_assert(trial->lead.failures <= trial->lead.trials); // likewise
    struct asked asked = questions(gate);
    struct pol_test_report report = {.result = POL_TEST_UNDECIDED,
                                     .updated_ppm = failed_ppm(&trial->all[POL_COHORT_UPDATED]),
                                     .control_ppm = failed_ppm(&trial->all[POL_COHORT_CONTROL]),
                                     .high_ppm = MILLION,
                                     .rise_low_ppm = -(int32_t)MILLION,
                                     .rise_high_ppm = (int32_t)MILLION};
    double absolute = asked.absolute ? over_limit(&trial->lead, gate->max_failure_ppm) : 0;
    double relative = asked.relative ? pol_logrank_evidence(&trial->rise) : 0;
    double over_bar = absolute - pol_evidence_bar(asked.absolute_alpha_ppm);
    double rise_bar = relative - pol_evidence_bar(asked.relative_alpha_ppm);
    report.by_control = asked.relative && (!asked.absolute || rise_bar > over_bar);
    double margin = report.by_control ? rise_bar : over_bar;
    double good = within(gate, &asked, trial);
    report.evidence = exp(margin + pol_evidence_bar(asked.alpha_ppm));
    report.good_evidence = exp(good);
    if (margin >= 0) {
        report.result = POL_TEST_WORSE;
    } else if (good >= pol_evidence_bar(gate->beta_ppm)) {
        report.result = POL_TEST_GOOD;
    }
    return report;
}

static void decide(struct pol_judgement *out, enum pol_verdict verdict, enum pol_reason reason)
{
    out->verdict = verdict;
    out->reason = reason;
}

// Control matters where it is compared with.
static bool enough_answered(const struct pol_gate *gate, const struct pol_trial *trial)
{
    bool compared = gate->max_rise_ppm < POL_TEST_NOT_ASKED && pol_trial_compares(trial);
    return pol_trial_answered_ppm(trial, POL_COHORT_UPDATED) >= gate->min_answered_ppm &&
           (!compared ||
            pol_trial_answered_ppm(trial, POL_COHORT_CONTROL) >= gate->min_answered_ppm);
}

// Nothing has failed the stage. May it pass?
static void judge_good(const struct pol_gate *gate, const struct pol_trial *trial,
                       uint64_t in_stage_us, struct pol_judgement *out)
{
    const struct pol_outcomes *over = &trial->over[POL_COHORT_UPDATED];
    enum pol_reason open = POL_REASON_NONE;
    if (over->offered < gate->min_sample || over->offered == 0) {
        bool more = trial->all[POL_COHORT_UPDATED].offered > over->offered;
        open = more ? POL_REASON_UNDER_WAY : POL_REASON_SAMPLE_TOO_SMALL;
    } else if (!enough_answered(gate, trial)) {
        open = POL_REASON_TOO_FEW_ANSWERED;
    } else if (in_stage_us < gate->min_dwell_us) {
        open = POL_REASON_DWELL_NOT_REACHED;
    } else if (out->shown.result != POL_TEST_GOOD) {
        open = POL_REASON_EVIDENCE_OPEN;
    }
    if (open == POL_REASON_NONE) {
        decide(out, POL_VERDICT_PASS, POL_REASON_EVIDENCE_GOOD);
    } else {
        decide(out, POL_VERDICT_INCONCLUSIVE, open);
    }
}

void pol_trial_judge(const struct pol_gate *gate, const struct pol_counts *counts,
                     uint64_t in_stage_us, struct pol_judgement *out)
{
    pol_assert(gate->rule == POL_GATE_LOGRANK);
    const struct pol_trial *trial = &counts->trial;
    *out =
        (struct pol_judgement){.verdict = POL_VERDICT_NO_DATA, .reason = POL_REASON_NO_COMPLETIONS};
    if (!pol_trial_valid(trial) || answered(&trial->all[POL_COHORT_UPDATED]) == 0) {
        if (gate->no_data_us > 0 && in_stage_us >= gate->no_data_us) {
            out->reason = POL_REASON_NO_DATA_TOO_LONG;
        } else if (counts->unproven > 0) {
            out->reason = POL_REASON_NO_PROVEN;
        }
        return;
    }
    out->failure_ppm = failed_ppm(&trial->all[POL_COHORT_UPDATED]);
    out->shown = ask(gate, trial);
    if (out->shown.result == POL_TEST_WORSE) {
        decide(out, POL_VERDICT_FAIL,
               out->shown.by_control ? POL_REASON_RISE_OVER_CONTROL
                                     : POL_REASON_FAILURES_OVER_LIMIT);
    } else if (pol_gate_silence_worse(gate, counts)) {
        decide(out, POL_VERDICT_FAIL, POL_REASON_SILENT_OVER_CONTROL);
    } else {
        judge_good(gate, trial, in_stage_us, out);
    }
}

// The gate's judgement. Called by the rollout machine (rollout.c) at every tick, and so by replays,
// the simulator and the bench that measures error rates; the API, walle and stage_power.c check and
// size gates with it. Nothing is kept between calls; which rule judges is the rollout's, and
// LOGRANK's is in trial.c. In all rules failure is looked at before success, and sample and dwell
// before a pass.
#include "policy/gate.h"

#include "policy/stat/assert.h"

#define MILLION 1000000u
// Of the level of the two questions, where they have to be asked apart: the relative one's part.
#define RELATIVE_PERCENT 75u

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint32_t pol_gate_ratio_ppm(uint64_t failures, uint64_t total)
{
    pol_assert(total > 0);
    pol_assert(failures <= total);
    while (failures > UINT64_MAX / MILLION) {
        failures >>= 1;
        total >>= 1;
    }
    return (uint32_t)(failures * MILLION / total);
}

// failures / total > limit, exact.
static bool over_limit(uint64_t failures, uint64_t total, uint32_t limit_ppm)
{
    return (unsigned __int128)failures * MILLION > (unsigned __int128)total * limit_ppm;
}

bool pol_gate_check(const struct pol_gate *gate)
{
    if ((unsigned)gate->rule >= POL_GATE_RULE_COUNT || gate->max_failure_ppm > POL_TEST_NOT_ASKED ||
        gate->min_answered_ppm > MILLION) {
        return false;
    }
    if (gate->rule == POL_GATE_THRESHOLD) {
        return true;
    }
    return gate->max_rise_ppm <= POL_TEST_NOT_ASKED && gate->alpha_ppm > 0 &&
           gate->alpha_ppm < MILLION / 2 && gate->beta_ppm > 0 && gate->beta_ppm < MILLION / 2;
}

// Silent devices beyond what control's hazard predicts for the same time under observation.
static uint64_t excess_silent(const struct pol_counts *counts)
{
    const struct pol_hazard *control = &counts->control_hazard;
    if (control->device_seconds == 0 || counts->silent == 0) {
        return counts->silent;
    }
    // Halving both keeps the ratio and the product within 64 bits.
    uint64_t seconds = counts->hazard.device_seconds;
    uint64_t base = control->device_seconds;
    while (seconds > UINT32_MAX || base > UINT32_MAX) {
        seconds >>= 1;
        base >>= 1;
    }
    uint64_t events = control->silent < UINT32_MAX ? control->silent : UINT32_MAX;
    uint64_t expected = base > 0 ? events * seconds / base : 0;
    return counts->silent > expected ? counts->silent - expected : 0;
}

struct tallied {
    uint64_t completed; // everybody who is done, one way or another
    uint64_t failures;  // against the absolute limit: with the silent beyond what control predicts
    struct pol_sample heard; // who is not silent, to compare with control
};

static struct tallied add_up(const struct pol_counts *counts)
{
    struct tallied sums;
    sums.heard.failures = add_saturated(counts->failed, counts->timed_out);
    sums.heard.trials = add_saturated(counts->succeeded, sums.heard.failures);
    sums.failures = add_saturated(sums.heard.failures, excess_silent(counts));
    sums.completed = add_saturated(sums.heard.trials, counts->silent);
    pol_assert(sums.heard.failures <= sums.heard.trials);
    pol_assert(sums.failures <= sums.completed);
    return sums;
}

static void decide(struct pol_judgement *out, enum pol_verdict verdict, enum pol_reason reason)
{
    out->verdict = verdict;
    out->reason = reason;
}

// Sample and dwell, which every rule has. True when the judgement ends here.
static bool too_early(const struct pol_gate *gate, uint64_t completed, uint64_t in_stage_us,
                      struct pol_judgement *out)
{
    if (completed < gate->min_sample) {
        decide(out, POL_VERDICT_INCONCLUSIVE, POL_REASON_SAMPLE_TOO_SMALL);
        return true;
    }
    if (in_stage_us < gate->min_dwell_us) {
        decide(out, POL_VERDICT_INCONCLUSIVE, POL_REASON_DWELL_NOT_REACHED);
        return true;
    }
    return false;
}

// part / whole >= share, exact.
static bool reaches(uint64_t part, uint64_t whole, uint32_t share_ppm)
{
    return (unsigned __int128)part * MILLION >= (unsigned __int128)whole * share_ppm;
}

// A stage that would pass: did enough answer? Who is under way may answer otherwise than who did.
static void pass(const struct pol_gate *gate, const struct pol_counts *counts,
                 const struct tallied *sums, enum pol_reason good, struct pol_judgement *out)
{
    pol_assert(counts->timed_out <= sums->completed);
    uint64_t answered = sums->completed - counts->timed_out;
    uint64_t offered = add_saturated(sums->completed, counts->under_way);
    if (!reaches(answered, sums->completed, gate->min_answered_ppm)) {
        decide(out, POL_VERDICT_INCONCLUSIVE, POL_REASON_TOO_FEW_ANSWERED);
    } else if (!reaches(answered, offered, gate->min_answered_ppm)) {
        decide(out, POL_VERDICT_INCONCLUSIVE, POL_REASON_UNDER_WAY);
    } else {
        decide(out, POL_VERDICT_PASS, good);
    }
}

static void judge_threshold(const struct pol_gate *gate, const struct pol_counts *counts,
                            const struct tallied *sums, uint64_t in_stage_us,
                            struct pol_judgement *out)
{
    // Failures count as if who is under way, and below the minimum sample the rest of it, were to
    // succeed: what fails even so need not wait, and a stage too small to fill its sample can still
    // fail.
    uint64_t offered = add_saturated(sums->completed, gate->of_offered ? counts->under_way : 0);
    uint64_t sample = offered > gate->min_sample ? offered : gate->min_sample;
    if (over_limit(sums->failures, sample, gate->max_failure_ppm)) {
        decide(out, POL_VERDICT_FAIL, POL_REASON_FAILURES_OVER_LIMIT);
    } else if (too_early(gate, sums->completed, in_stage_us, out)) {
        return;
    } else if (over_limit(sums->failures, sums->completed, gate->max_failure_ppm)) {
        decide(out, POL_VERDICT_INCONCLUSIVE, POL_REASON_UNDER_WAY);
    } else {
        pass(gate, counts, sums, POL_REASON_FAILURES_WITHIN_LIMIT, out);
    }
}

uint32_t pol_gate_part(uint32_t alpha_ppm, uint32_t percent)
{
    pol_assert(percent <= 100);
    uint32_t part = (uint32_t)((uint64_t)alpha_ppm * percent / 100);
    return part > 0 ? part : 1;
}

static struct pol_test_report ask_both(const struct pol_test *asked, const struct tallied *sums,
                                       const struct pol_sample *control)
{
    pol_assert(asked->max_rise_ppm < POL_TEST_NOT_ASKED);
    pol_assert(control->trials > 0);
    static const struct pol_sample nobody = {0, 0};
    struct pol_test test = *asked;
    test.max_failure_ppm = POL_TEST_NOT_ASKED;
    test.alpha_ppm = pol_gate_part(asked->alpha_ppm, RELATIVE_PERCENT);
    struct pol_test_report relative = pol_test_judge(&test, &sums->heard, control);
    if (relative.result == POL_TEST_WORSE || asked->max_failure_ppm >= POL_TEST_NOT_ASKED) {
        return relative;
    }
    test = *asked;
    test.max_rise_ppm = POL_TEST_NOT_ASKED;
    test.alpha_ppm = pol_gate_part(asked->alpha_ppm, 100 - RELATIVE_PERCENT);
    struct pol_sample updated = {sums->completed, sums->failures};
    struct pol_test_report absolute = pol_test_judge(&test, &updated, &nobody);
    if (absolute.result == POL_TEST_GOOD && relative.result != POL_TEST_GOOD) {
        return relative;
    }
    absolute.control_ppm = relative.control_ppm;
    absolute.rise_low_ppm = relative.rise_low_ppm;
    absolute.rise_high_ppm = relative.rise_high_ppm;
    return absolute;
}

struct pol_sample pol_gate_sample(const struct pol_counts *counts)
{
    struct tallied sums = add_up(counts);
    return (struct pol_sample){.trials = sums.completed, .failures = sums.failures};
}

struct pol_test pol_gate_test(const struct pol_gate *gate)
{
    return (struct pol_test){.max_failure_ppm = gate->max_failure_ppm,
                             .max_rise_ppm = gate->max_rise_ppm,
                             .alpha_ppm = pol_gate_part(gate->alpha_ppm, POL_GATE_TEST_PERCENT),
                             .beta_ppm = gate->beta_ppm,
                             .tolerated_rise_ppm = gate->tolerated_rise_ppm};
}

// The absolute and the relative question count the same devices, unless some fell silent: then each
// is asked with its own, at its part of alpha.
static struct pol_test_report ask(const struct pol_gate *gate, const struct pol_counts *counts,
                                  const struct tallied *sums)
{
    struct pol_test test = pol_gate_test(gate);
    bool compares = counts->control.trials > 0 && gate->max_rise_ppm < POL_TEST_NOT_ASKED;
    if (compares && counts->silent > 0) {
        return ask_both(&test, sums, &counts->control);
    }
    struct pol_sample updated = {sums->completed, sums->failures};
    return pol_test_judge(&test, &updated, &counts->control);
}

bool pol_gate_silence_worse(const struct pol_gate *gate, const struct pol_counts *counts)
{
    if (gate->max_silence_percent == 0 || counts->control_hazard.device_seconds == 0) {
        return false;
    }
    return pol_hazard_test(&counts->hazard, &counts->control_hazard, gate->max_silence_percent,
                           pol_gate_part(gate->alpha_ppm, POL_GATE_HAZARD_PERCENT))
               .result == POL_TEST_WORSE;
}

static void judge_sequential(const struct pol_gate *gate, const struct pol_counts *counts,
                             const struct tallied *sums, uint64_t in_stage_us,
                             struct pol_judgement *out)
{
    pol_assert(sums->completed > 0);
    out->shown = ask(gate, counts, sums);
    enum pol_test_result result = out->shown.result;
    if (result == POL_TEST_WORSE) {
        decide(out, POL_VERDICT_FAIL,
               out->shown.by_control ? POL_REASON_RISE_OVER_CONTROL
                                     : POL_REASON_FAILURES_OVER_LIMIT);
        return;
    }
    if (pol_gate_silence_worse(gate, counts)) {
        decide(out, POL_VERDICT_FAIL, POL_REASON_SILENT_OVER_CONTROL);
        return;
    }
    if (too_early(gate, sums->completed, in_stage_us, out)) {
        return;
    }
    if (result == POL_TEST_GOOD) {
        pass(gate, counts, sums, POL_REASON_EVIDENCE_GOOD, out);
    } else {
        decide(out, POL_VERDICT_INCONCLUSIVE, POL_REASON_EVIDENCE_OPEN);
    }
}

void pol_gate_judge(const struct pol_gate *gate, const struct pol_counts *counts,
                    uint64_t in_stage_us, struct pol_judgement *out)
{
    if (gate->rule == POL_GATE_LOGRANK) {
        pol_trial_judge(gate, counts, in_stage_us, out);
        return;
    }
    pol_assert(gate->rule < POL_GATE_RULE_COUNT);
    struct tallied sums = add_up(counts);
    *out =
        (struct pol_judgement){.verdict = POL_VERDICT_NO_DATA, .reason = POL_REASON_NO_COMPLETIONS};
    if (sums.completed == 0) {
        if (gate->no_data_us > 0 && in_stage_us >= gate->no_data_us) {
            out->reason = POL_REASON_NO_DATA_TOO_LONG;
        } else if (counts->unproven > 0) {
            out->reason = POL_REASON_NO_PROVEN;
        }
        return;
    }
    out->failure_ppm = pol_gate_ratio_ppm(sums.failures, sums.completed);
    if (gate->rule == POL_GATE_SEQUENTIAL) {
        judge_sequential(gate, counts, &sums, in_stage_us, out);
    } else {
        judge_threshold(gate, counts, &sums, in_stage_us, out);
    }
}

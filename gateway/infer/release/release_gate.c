// See release_gate.h. Called by release_book.c at every tick. The machine and the statistics are
// policy's: a question is a gate and counts, and the machine is ticked with each; the worst answer
// is the one that moves it.
#include "infer/release/release_gate.h"

#include "base/check.h"

#include <string.h>

#define MILLION 1000000

static uint32_t ppm(double share)
{
    return (uint32_t)(share * MILLION + 0.5);
}

// ---- Counts

static void count_errors(const struct gw_infer_trial *trial, struct gw_release_answer *out)
{
    out->calls = trial->candidate.calls;
    out->bad = trial->candidate.failed;
    out->base_calls = trial->serving.calls;
    out->base_bad = trial->serving.failed;
    out->most = trial->candidate.most;
    out->base_most = trial->serving.most;
}

// Of the good calls of one caller any may have been slow, and any not.
static struct gw_infer_most slow_most(const struct gw_infer_most *most, uint64_t calls,
                                      uint64_t bad)
{
    uint64_t good = calls - bad;
    return (struct gw_infer_most){.good = most->good < good ? most->good : (uint32_t)good,
                                  .bad = most->good < bad ? most->good : (uint32_t)bad,
                                  .callers = most->callers};
}

static void count_slow(const struct gw_infer_trial *trial, double max_slow,
                       struct gw_release_answer *out)
{
    const struct base_hist *serving = &trial->serving.us;
    uint64_t most = trial->serving.most.good;
    if (serving->count < GW_INFER_P99_CALLS_LEAST ||
        serving->count < most * GW_RELEASE_SLOW_CALLS_EACH) {
        return;
    }
    // As if the slowest were all of that one caller.
    double others = (double)(serving->count - most) / (double)serving->count;
    double limit = (double)base_hist_quantile(serving, 0.99 * others) * max_slow;
    out->limit_us = limit < 1e15 ? (uint64_t)limit + 1 : (uint64_t)1e15;
    out->calls = trial->candidate.us.count;
    out->bad = gw_infer_seen_over(&trial->candidate, out->limit_us);
    out->base_calls = serving->count;
    out->base_bad = gw_infer_seen_over(&trial->serving, out->limit_us);
    out->most = slow_most(&trial->candidate.most, out->calls, out->bad);
    out->base_most = slow_most(&trial->serving.most, out->base_calls, out->base_bad);
}

static void count_differ(const struct gw_infer_trial *trial, struct gw_release_answer *out)
{
    out->bad = trial->differed + trial->shadows_failed;
    out->calls = trial->agreed + out->bad;
    out->most = trial->shadows_most;
}

static void count(const struct gw_release_stage *stage, const struct gw_infer_trial *trial,
                  struct gw_release_answer answers[GW_RELEASE_QUESTION_COUNT])
{
    bool shares = stage->share > 0;
    memset(answers, 0, GW_RELEASE_QUESTION_COUNT * sizeof(*answers));
    answers[GW_RELEASE_ERRORS].asked = shares;
    answers[GW_RELEASE_SLOW].asked = shares && stage->max_slow > 0;
    answers[GW_RELEASE_DIFFER].asked = stage->shadow > 0;
    count_errors(trial, &answers[GW_RELEASE_ERRORS]);
    count_slow(trial, stage->max_slow, &answers[GW_RELEASE_SLOW]);
    count_differ(trial, &answers[GW_RELEASE_DIFFER]);
}

// ---- Gates

static struct pol_gate gate_of(const struct gw_release_stage *stage,
                               enum gw_release_question question, uint32_t asked)
{
    base_assert(asked > 0);
    struct pol_gate gate = {.rule = POL_GATE_SEQUENTIAL,
                            .min_sample = stage->min_calls,
                            .min_dwell_us = (uint64_t)stage->min_s * MILLION,
                            .alpha_ppm = GW_RELEASE_ALPHA_PPM / asked,
                            .beta_ppm = GW_RELEASE_BETA_PPM,
                            .max_failure_ppm = POL_TEST_NOT_ASKED,
                            .max_rise_ppm = POL_TEST_NOT_ASKED};
    switch (question) {
    case GW_RELEASE_ERRORS:
        gate.max_rise_ppm = ppm(stage->max_rise);
        break;
    case GW_RELEASE_SLOW:
        gate.max_rise_ppm = GW_RELEASE_SLOW_PPM;
        gate.tolerated_rise_ppm = GW_RELEASE_SLOW_PPM / 2;
        break;
    default:
        gate.max_failure_ppm = ppm(stage->max_differ);
        break;
    }
    return gate;
}

// For a bad answer, without the bad calls of one caller; for a good one, without the good calls of
// one, and without the bad ones of one in the serving version.
static struct pol_counts counts_of(const struct gw_release_answer *answer, bool for_bad)
{
    base_assert(answer->bad <= answer->calls);
    uint64_t bad = answer->bad - (for_bad ? answer->most.bad : 0);
    uint64_t good = answer->calls - answer->bad - (for_bad ? 0 : answer->most.good);
    uint64_t base_one = for_bad ? 0 : answer->base_most.bad;
    return (struct pol_counts){
        .offered = good + bad,
        .succeeded = good,
        .failed = bad,
        .control = {answer->base_calls - base_one, answer->base_bad - base_one}};
}

static struct pol_decision decide(const struct gw_release_course *course,
                                  const struct gw_release_answer *answer, uint64_t now_us)
{
    const struct pol_counts bad = counts_of(answer, true);
    const struct pol_counts good = counts_of(answer, false);
    struct pol_decision decision =
        pol_rollout_tick(course->rollout, course->stages, course->plan->count, &bad, now_us);
    if (decision.verdict == POL_VERDICT_FAIL) {
        return decision;
    }
    struct pol_decision other =
        pol_rollout_tick(course->rollout, course->stages, course->plan->count, &good, now_us);
    if (other.verdict != POL_VERDICT_FAIL) {
        return other;
    }
    if (decision.verdict == POL_VERDICT_PASS) { // one caller makes the difference
        decision.action = POL_ACTION_HOLD;
        decision.verdict = POL_VERDICT_INCONCLUSIVE;
        decision.reason = POL_REASON_SAMPLE_TOO_SMALL;
        decision.next = *course->rollout;
    }
    return decision;
}

// The order in which answers move the machine.
static int weight(enum pol_verdict verdict)
{
    return verdict == POL_VERDICT_FAIL      ? 3
           : verdict == POL_VERDICT_PASS    ? 0
           : verdict == POL_VERDICT_NO_DATA ? 2
                                            : 1;
}

void gw_release_judge(const struct gw_release_course *course, const struct gw_infer_trial *trial,
                      uint64_t now_us, struct gw_release_look *out)
{
    uint32_t open = course->rollout->stage_index;
    base_assert(open < course->plan->count);
    const struct gw_release_stage *stage = &course->plan->stages[open];
    uint32_t asked = 0;
    bool first = true;
    count(stage, trial, out->answers);
    for (uint32_t i = 0; i < GW_RELEASE_QUESTION_COUNT; i++) {
        asked += out->answers[i].asked;
    }
    for (uint32_t i = 0; i < GW_RELEASE_QUESTION_COUNT; i++) {
        struct gw_release_answer *answer = &out->answers[i];
        if (!answer->asked) {
            continue;
        }
        course->stages[open].gate = gate_of(stage, (enum gw_release_question)i, asked);
        struct pol_decision decision = decide(course, answer, now_us);
        answer->verdict = decision.verdict;
        answer->reason = decision.reason;
        if (first || weight(decision.verdict) > weight(out->decision.verdict)) {
            out->decision = decision;
            out->decided = (enum gw_release_question)i;
        }
        first = false;
    }
}

const char *gw_release_question_name(enum gw_release_question question)
{
    static const char *const names[] = {"errors", "slow", "differ"};
    return (unsigned)question < GW_RELEASE_QUESTION_COUNT ? names[question] : "unknown";
}

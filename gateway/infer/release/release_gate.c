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
}

static void count_slow(const struct gw_infer_trial *trial, double max_slow,
                       struct gw_release_answer *out)
{
    const struct base_hist *serving = &trial->serving.us;
    if (serving->count < GW_RELEASE_SLOW_CALLS_LEAST) {
        return;
    }
    double limit = (double)base_hist_quantile(serving, 0.99) * max_slow;
    out->limit_us = limit < 1e15 ? (uint64_t)limit + 1 : (uint64_t)1e15;
    out->calls = trial->candidate.us.count;
    out->bad = gw_infer_seen_over(&trial->candidate, out->limit_us);
    out->base_calls = serving->count;
    out->base_bad = gw_infer_seen_over(&trial->serving, out->limit_us);
}

static void count_differ(const struct gw_infer_trial *trial, struct gw_release_answer *out)
{
    out->bad = trial->differed + trial->shadows_failed;
    out->calls = trial->agreed + out->bad;
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

static struct pol_counts counts_of(const struct gw_release_answer *answer)
{
    base_assert(answer->bad <= answer->calls);
    return (struct pol_counts){.offered = answer->calls,
                               .succeeded = answer->calls - answer->bad,
                               .failed = answer->bad,
                               .control = {answer->base_calls, answer->base_bad}};
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
        const struct pol_counts counts = counts_of(answer);
        course->stages[open].gate = gate_of(stage, (enum gw_release_question)i, asked);
        struct pol_decision decision =
            pol_rollout_tick(course->rollout, course->stages, course->plan->count, &counts, now_us);
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

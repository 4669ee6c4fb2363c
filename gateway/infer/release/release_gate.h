// Is the open stage of a model's release good enough to go on, bad enough to go back, or is it not
// known yet? Three questions, each one of policy's sequential tests, so that a stage may be looked
// at after every call:
//
// - ERRORS: do more of the candidate's calls fail than of the serving version's, in the same time?
// - SLOW: do more of their runs take longer than the serving version's p99 times `max_slow`? Asked
//   as a rise of 1 point in the share of calls beyond that time, so that it is the candidate's p99
//   that is compared; a rise of half a point is tolerated.
// - DIFFER: do more of the shadows differ from what the caller got, or fail, than `max_differ`?
//
// A stage with a share asks the first two, one with shadows the last. It goes on when all that it
// asks are answered well, and back when one is answered badly. The chance that a good stage is
// stopped is divided among its questions. Pure.
//
// No caller decides alone. An answer is bad if it is bad without the bad calls of the one caller
// that had the most, and good if it is good without the good calls of the one that had the most (of
// the serving version the other way). In between, more callers have to be heard.
#ifndef GW_RELEASE_GATE_H
#define GW_RELEASE_GATE_H

#include "infer/release/release_plan.h"
#include "infer/split/infer_split.h"

#define GW_RELEASE_ALPHA_PPM 50000u  // a good stage is stopped with at most that chance
#define GW_RELEASE_BETA_PPM  100000u // a bad one passes with at most that
#define GW_RELEASE_SLOW_PPM  10000u  // what is beyond a p99
// Of the serving version, for each call that one caller may count: so that none makes its p99.
#define GW_RELEASE_SLOW_CALLS_EACH 20u

enum gw_release_question {
    GW_RELEASE_ERRORS,
    GW_RELEASE_SLOW,
    GW_RELEASE_DIFFER,
    GW_RELEASE_QUESTION_COUNT
};

struct gw_release_answer {
    bool asked;
    enum pol_verdict verdict;
    enum pol_reason reason;
    uint64_t calls;      // of the candidate, or shadows
    uint64_t bad;        // of these
    uint64_t base_calls; // of the serving version; DIFFER: 0
    uint64_t base_bad;
    struct gw_infer_most most; // of these of one caller, and of the serving version's
    struct gw_infer_most base_most;
    uint64_t limit_us; // SLOW: what is too slow; 0: not known yet
};

struct gw_release_look {
    struct gw_release_answer answers[GW_RELEASE_QUESTION_COUNT];
    enum gw_release_question decided; // which of them the decision is by
    struct pol_decision decision;
};

// Where a release is.
struct gw_release_course {
    const struct gw_release_plan *plan;
    struct pol_stage *stages; // the plan's (gw_release_plan_stages); the open one's gate is written
    const struct pol_rollout *rollout;
};
void gw_release_judge(const struct gw_release_course *course, const struct gw_infer_trial *trial,
                      uint64_t now_us, struct gw_release_look *out);
// "errors", "slow", "differ".
const char *gw_release_question_name(enum gw_release_question question);

#endif

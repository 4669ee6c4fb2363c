// The health gate of a stage: is the updated cohort good enough to go on, bad enough to go back, or
// is it not known yet? Pure: counts in, a judgement out, with its reason and what was shown.
//
// Three rules. THRESHOLD compares the observed failure ratio with the limit once the sample is
// there; it fails a stage only when those that are under way could not bring it back, so that it
// does not matter whether failures are heard of sooner than successes. SEQUENTIAL asks
// anytime-valid tests (policy/stat/sequential.h), so it may be asked after every report: the
// failure rate against the limit, the rise over the concurrent control cohort, and the hazard of
// falling silent. LOGRANK asks the same questions of a stage whose control cohort was offered
// together with it (policy/trial.h). In all of them failure is looked at before success, and only
// PASS advances. A rollout keeps the rule it was started with, so that its log replays.
//
// Conditions. SEQUENTIAL counts who completed, so that its level holds only where completing takes
// as long with a failure as with a success; where failures are heard of sooner, what has completed
// is worse than the fleet, and a good version is stopped. LOGRANK holds whatever delays are. It
// asks of its caller (each with its reason in logrank.h and trial.h):
// - cohorts divided by chance within blocks of offers, in a fixed ratio, control a placebo;
// - blocks closed without looking at cohorts or outcomes; one window for every device;
// - every device counted once, failures in the order in which they were heard of;
// - blocks added in the order in which they were begun, with the gate's own limits.
//
// Silence. A device that activated and then stopped checking in has failed in a way it cannot
// report. Devices also stop for reasons of their own, and the longer they are watched the more do,
// so silence is compared with control as a hazard, per device-second. The comparison of failures is
// between devices that are heard of, in both cohorts. In the question about the absolute limit
// those count that are silent beyond what control's hazard predicts (without control there is no
// prediction, and every silent device counts).
//
// Alpha is the gate's: its parts go to failures, to silence and to slices of the fleet, so that all
// three together stop a good stage with at most that chance. A rollout whose stages together must
// keep to alpha gives each its part.
#ifndef POL_GATE_H
#define POL_GATE_H

#include "policy/reason.h"
#include "policy/stat/sequential.h"
#include "policy/trial.h"

#define POL_GATE_ALPHA_PPM       50000u
#define POL_GATE_BETA_PPM        100000u
#define POL_GATE_SILENCE_PERCENT 200u

// Parts of alpha.
#define POL_GATE_TEST_PERCENT   80u
#define POL_GATE_HAZARD_PERCENT 10u
#define POL_GATE_SLICES_PERCENT 10u // for pol_slices_reject, which the caller asks
// Of a part with both questions about failures, with LOGRANK: that of the rise over control.
#define POL_GATE_RISE_PERCENT 75u

// To pass. With LOGRANK: of the devices whose window is over, in both cohorts. With the other
// rules: of those that had their time, and of these with those that are under way.
#define POL_GATE_MIN_ANSWERED_PPM 900000u

enum pol_gate_rule {
    POL_GATE_THRESHOLD,
    POL_GATE_SEQUENTIAL,
    POL_GATE_LOGRANK,
    POL_GATE_RULE_COUNT
};

struct pol_gate {
    // Completed devices needed to pass (LOGRANK: devices whose window is over). With THRESHOLD,
    // FAIL does not wait for them once the failures would be over the limit even if the rest of the
    // sample succeeded.
    uint32_t min_sample;
    uint32_t max_failure_ppm; // a share of failed above this fails (parts per million)
    uint64_t min_dwell_us;    // time in the stage before it may pass
    enum pol_gate_rule rule;
    uint32_t max_rise_ppm;        // over control; POL_TEST_NOT_ASKED: not asked (SEQUENTIAL)
    uint32_t tolerated_rise_ppm;  // a rise up to this is not stopped; at most max_rise_ppm
    uint32_t alpha_ppm;           // chance to stop a good stage, over all looks
    uint32_t beta_ppm;            // chance to pass a bad one
    uint32_t max_silence_percent; // hazard of silence in percent of control's; 0: not asked
    uint32_t min_answered_ppm;    // share of devices that must have answered to pass; 0: not asked
    uint64_t no_data_us;          // nobody completed for this long: somebody is paged; 0: never
    // THRESHOLD: FAIL is of all that were offered it, who is under way as not failed. False: of who
    // completed, as in rollouts of before.
    bool of_offered;
};

// Devices of the current stage (those that entered in it), each counted once, and its control.
struct pol_counts {
    uint64_t offered;
    uint64_t downloaded;
    uint64_t activated;
    uint64_t succeeded;      // ran at least once without failure, and are heard of
    uint64_t failed;         // failed in any class, at any step
    uint64_t timed_out;      // offered, then silent beyond the execution timeout: counts as failure
    uint64_t silent;         // activated, did not fail, and fell silent since
    uint64_t not_applicable; // refused as not meant for them: out of the denominator
    uint64_t to_roll_back;   // devices still on the version (only read while rolling back)
    uint64_t unproven;       // entered without showing who they are: in none of the others
    uint64_t under_way;      // offered, not answered yet, and within their time: no failure
    uint64_t outstanding;    // targeted: under way, or not offered yet (only read while guarding)
    struct pol_sample control;        // completed, and failed among them; without the silent
    struct pol_hazard hazard;         // of the updated devices
    struct pol_hazard control_hazard; // of control
    // What LOGRANK judges, with the hazards and `unproven`; the rest is for people then.
    struct pol_trial trial;
};

enum pol_verdict {
    POL_VERDICT_NO_DATA,
    POL_VERDICT_INCONCLUSIVE,
    POL_VERDICT_PASS,
    POL_VERDICT_FAIL,
    POL_VERDICT_COUNT
};

struct pol_judgement {
    enum pol_verdict verdict;
    enum pol_reason reason;
    uint32_t failure_ppm;         // failures / completed, 0 without completions
    struct pol_test_report shown; // zero with THRESHOLD
};

// Rates within 0..1,000,000, alpha and beta above 0 and below one half, a known rule.
bool pol_gate_check(const struct pol_gate *gate);

void pol_gate_judge(const struct pol_gate *gate, const struct pol_counts *counts,
                    uint64_t in_stage_us, struct pol_judgement *out);

// The devices a sequential gate counts as done, and the failures among them.
struct pol_sample pol_gate_sample(const struct pol_counts *counts);
// Its two questions about failures, at their part of alpha.
struct pol_test pol_gate_test(const struct pol_gate *gate);

// Whether silence is shown to be worse than control's, at its part of alpha.
bool pol_gate_silence_worse(const struct pol_gate *gate, const struct pol_counts *counts);
// What a part of alpha leaves, never 0.
uint32_t pol_gate_part(uint32_t alpha_ppm, uint32_t percent);
// failures / total in parts per million, rounded down; failures <= total, total > 0.
uint32_t pol_gate_ratio_ppm(uint64_t failures, uint64_t total);

const char *pol_verdict_name(enum pol_verdict verdict);
const char *pol_gate_rule_name(enum pol_gate_rule rule);

#endif

// Verdicts of the sequential tests: levels, limits and the two questions put together.
//
// Called by the rollout machine on every tick, by replay and by the simulator; pure. The evidence
// itself is in evidence.c.
#include "policy/stat/sequential.h"

#include "policy/stat/assert.h"
#include "policy/stat/evidence.h"

#include <math.h>

#define MILLION      1000000u
#define HOUR_SECONDS 3600u

// Levels above one half would decide on nothing.
#define LEVEL_MAX_PPM 500000u
// Weight of the relative question in the mean evidence: it is the one that finds small rises.
#define RELATIVE_WEIGHT 0.75

static struct pol_arm arm_of(const struct pol_sample *sample)
{
    uint64_t failures = sample->failures < sample->trials ? sample->failures : sample->trials;
    return (struct pol_arm){.events = (double)failures, .exposure = (double)sample->trials};
}

static uint32_t rate_ppm(struct pol_arm arm)
{
    return arm.exposure > 0 ? (uint32_t)(arm.events / arm.exposure * MILLION + 0.5) : 0;
}

double pol_evidence_bar(uint32_t level_ppm)
{
    if (level_ppm == 0) {
        return HUGE_VAL;
    }
    uint32_t level = level_ppm < LEVEL_MAX_PPM ? level_ppm : LEVEL_MAX_PPM;
    return log((double)MILLION / level);
}

static double fraction(int64_t ppm)
{
    return (double)ppm / MILLION;
}

// ---- The two questions ----

struct asked {
    bool absolute;
    bool relative;
    double limit;
    double tolerated;
    double rise;
};

static struct asked questions(const struct pol_test *test)
{
    uint32_t limit = test->max_failure_ppm > 0 ? test->max_failure_ppm : 1;
    uint32_t rise = test->max_rise_ppm > 0 ? test->max_rise_ppm : 1;
    uint32_t tolerated = test->tolerated_rise_ppm < test->max_rise_ppm ? test->tolerated_rise_ppm
                                                                       : test->max_rise_ppm;
    return (struct asked){.absolute = test->max_failure_ppm < POL_TEST_NOT_ASKED,
                          .relative = test->max_rise_ppm < POL_TEST_NOT_ASKED,
                          .limit = fraction(limit),
                          .tolerated = fraction(tolerated),
                          .rise = fraction(rise)};
}

// Log evidence against "within the limits".
static double against_good(const struct asked *asked, struct pol_arm updated,
                           struct pol_arm control, bool *out_by_control)
{
    double absolute = asked->absolute ? pol_evidence_over(updated, asked->limit) : 0;
    double relative =
        asked->relative ? pol_evidence_above(updated, control, asked->tolerated, 1) : 0;
    *out_by_control = asked->relative && (!asked->absolute || relative > absolute);
    if (asked->absolute && asked->relative) {
        return pol_evidence_mean(relative, absolute, RELATIVE_WEIGHT);
    }
    return asked->absolute ? absolute : relative;
}

// Log evidence against "beyond a limit": of the weaker question, since both have to be answered.
static double against_worse(const struct asked *asked, struct pol_arm updated,
                            struct pol_arm control)
{
    double absolute = asked->absolute ? pol_evidence_under(updated, asked->limit) : HUGE_VAL;
    double relative =
        asked->relative ? pol_evidence_below(updated, control, asked->rise, 1) : HUGE_VAL;
    double weaker = absolute < relative ? absolute : relative;
    return weaker < HUGE_VAL ? weaker : 0;
}

bool pol_evidence_shown(const struct pol_test *test, struct pol_arm updated, struct pol_arm control)
{
    struct asked asked = questions(test);
    bool by_control;
    return against_good(&asked, updated, control, &by_control) >= pol_evidence_bar(test->alpha_ppm);
}

struct pol_test_report pol_test_judge(const struct pol_test *test, const struct pol_sample *updated,
                                      const struct pol_sample *control)
{
    struct pol_arm upper = arm_of(updated);
    struct pol_arm lower = arm_of(control);
    struct pol_test_report report = {.result = POL_TEST_NO_DATA,
                                     .updated_ppm = rate_ppm(upper),
                                     .control_ppm = rate_ppm(lower),
                                     .high_ppm = MILLION,
                                     .rise_low_ppm = -(int32_t)MILLION,
                                     .rise_high_ppm = (int32_t)MILLION,
                                     .evidence = 1,
                                     .good_evidence = 1};
    if (updated->trials == 0) {
        return report;
    }
    struct asked asked = questions(test);
    double worse = against_good(&asked, upper, lower, &report.by_control);
    double good = against_worse(&asked, upper, lower);
    pol_assert(worse <= POL_EVIDENCE_MAX); // so that exp() is finite
    pol_assert(report.updated_ppm <= MILLION);
    report.evidence = exp(worse);
    report.good_evidence = exp(good);
    report.result = worse >= pol_evidence_bar(test->alpha_ppm) ? POL_TEST_WORSE
                    : good >= pol_evidence_bar(test->beta_ppm) ? POL_TEST_GOOD
                                                               : POL_TEST_UNDECIDED;
    return report;
}

// ---- Bounds ----

// The last rate below the observed one that is excluded at `level`, and the first above it.
static void rate_bounds(struct pol_arm arm, double low_bar, double high_bar,
                        struct pol_test_report *report)
{
    uint32_t middle = report->updated_ppm;
    uint32_t in = middle;
    uint32_t out = 0;
    while (in - out > 1) {
        uint32_t rate = out + (in - out) / 2;
        *(pol_evidence_differs(arm, fraction(rate)) >= low_bar ? &out : &in) = rate;
    }
    report->low_ppm = out;
    in = middle;
    out = MILLION;
    while (out > in + 1) {
        uint32_t rate = in + (out - in) / 2;
        *(pol_evidence_differs(arm, fraction(rate)) >= high_bar ? &out : &in) = rate;
    }
    report->high_ppm = out;
}

// Evidence falls as the rise asked about grows (above), and grows with it (below).
static void rise_bounds(struct pol_arm updated, struct pol_arm control, double low_bar,
                        double high_bar, struct pol_test_report *report)
{
    int32_t excluded = -(int32_t)MILLION;
    int32_t open = (int32_t)MILLION;
    while (open - excluded > 1) {
        int32_t rise = excluded + (open - excluded) / 2;
        bool shown = pol_evidence_above(updated, control, fraction(rise), 1) >= low_bar;
        *(shown ? &excluded : &open) = rise;
    }
    report->rise_low_ppm = excluded;
    excluded = (int32_t)MILLION;
    open = -(int32_t)MILLION;
    while (excluded - open > 1) {
        int32_t rise = open + (excluded - open) / 2;
        bool shown = pol_evidence_below(updated, control, fraction(rise), 1) >= high_bar;
        *(shown ? &excluded : &open) = rise;
    }
    report->rise_high_ppm = excluded;
}

struct pol_test_report pol_test_run(const struct pol_test *test, const struct pol_sample *updated,
                                    const struct pol_sample *control)
{
    struct pol_test_report report = pol_test_judge(test, updated, control);
    if (report.result == POL_TEST_NO_DATA) {
        return report;
    }
    double low_bar = pol_evidence_bar(test->alpha_ppm);
    double high_bar = pol_evidence_bar(test->beta_ppm);
    rate_bounds(arm_of(updated), low_bar, high_bar, &report);
    if (control->trials > 0) {
        rise_bounds(arm_of(updated), arm_of(control), low_bar, high_bar, &report);
    }
    return report;
}

const char *pol_test_result_name(enum pol_test_result result)
{
    static const char *const names[] = {"undecided", "worse", "good", "no_data"};
    return (unsigned)result < POL_TEST_RESULT_COUNT ? names[result] : "unknown";
}

// ---- Silence ----

static uint32_t hazard_ppm(struct pol_arm arm)
{
    double rate = arm.exposure > 0 ? arm.events / arm.exposure * HOUR_SECONDS * MILLION : 0;
    return rate < (double)UINT32_MAX ? (uint32_t)(rate + 0.5) : UINT32_MAX;
}

struct pol_test_report pol_hazard_test(const struct pol_hazard *updated,
                                       const struct pol_hazard *control, uint32_t max_ratio_percent,
                                       uint32_t alpha_ppm)
{
    struct pol_arm upper = {(double)updated->silent, (double)updated->device_seconds};
    struct pol_arm lower = {(double)control->silent, (double)control->device_seconds};
    struct pol_test_report report = {.result = POL_TEST_NO_DATA,
                                     .by_control = true,
                                     .updated_ppm = hazard_ppm(upper),
                                     .control_ppm = hazard_ppm(lower),
                                     .high_ppm = MILLION,
                                     .rise_low_ppm = -(int32_t)MILLION,
                                     .rise_high_ppm = (int32_t)MILLION,
                                     .evidence = 1,
                                     .good_evidence = 1};
    if (updated->device_seconds == 0) {
        return report;
    }
    // A hazard of at most `ratio` times control's is one of at most control's over exposure
    // divided by `ratio`.
    double ratio = max_ratio_percent > 0 ? max_ratio_percent / 100.0 : 0.01;
    lower.exposure /= ratio;
    double worse = pol_evidence_above(upper, lower, 0, 1);
    pol_assert(worse <= POL_EVIDENCE_MAX); // so that exp() is finite
    report.evidence = exp(worse);
    report.result = worse >= pol_evidence_bar(alpha_ppm) ? POL_TEST_WORSE : POL_TEST_UNDECIDED;
    return report;
}

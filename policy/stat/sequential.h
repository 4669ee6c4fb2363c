// Sequential tests: is the updated cohort worse than the control cohort, decided at any time.
//
// A test is a pure function of counts. It may be asked after every report, as often as one likes,
// and its error rates still hold (anytime-valid: e-processes, confidence sequences; Ville's
// inequality; Howard, Ramdas et al. 2021; Turner, Ly, Gruenwald 2024). All arithmetic is in doubles
// with fixed operations; of libm it uses log and exp alone, and logarithms of evidence are rounded
// to 2^-16 before they are compared, so that equal counts give equal verdicts.
//
// What the counts must be: each device once, both arms drawn from the same devices at the same
// time, and who is counted not dependent on the outcome. Counts of who has completed are such only
// where a failure is heard of as late as a success (else: policy/trial.h). A failure rate that
// drifts in both arms alike does no harm while both complete in step. The control arm costs nothing
// (nobody is updated), so make it several times as large as the stage where the fleet allows: with
// four times as many, a rise of 5 points on 0.5 % is found after about half the updated devices.
//
// Errors are per test: a rollout that must be stopped wrongly with at most alpha in all its stages
// together gives each stage its part of alpha.
#ifndef POL_SEQUENTIAL_H
#define POL_SEQUENTIAL_H

#include <stdbool.h>
#include <stdint.h>

// Devices that completed, and those of them that failed (silence after activation is a failure).
struct pol_sample {
    uint64_t trials;
    uint64_t failures; // <= trials; more is taken as trials
};

#define POL_TEST_NOT_ASKED 1000000u

// Two questions are asked at once. Absolute: the updated cohort's failure rate against
// `max_failure_ppm`. Relative: its rise over control's. WORSE when the mean of the evidence that a
// limit is exceeded reaches 1/alpha; GOOD when both are shown not to be, each at level beta.
//
// The relative question has two limits. A rise of at most `tolerated_rise_ppm` is stopped with
// probability at most alpha; one of at least `max_rise_ppm` passes with probability at most beta;
// between them either may happen. Tolerate 0 (any rise at all is WORSE once shown) and the test is
// quick; tolerate `max_rise_ppm` itself and only what shows beyond it is stopped, which needs about
// four times the devices.
//
// A rate of 0 cannot be shown: limits below 1 ppm are taken as 1 ppm in the question of GOOD.
struct pol_test {
    uint32_t max_failure_ppm; // POL_TEST_NOT_ASKED: no absolute question
    uint32_t max_rise_ppm;    // over control; POL_TEST_NOT_ASKED: no relative question
    // Chance that a stage within its limits is ever stopped; 50,000. 0: it never is.
    uint32_t alpha_ppm;
    // Chance that one that exceeds a limit is ever passed; 100,000. 0: it never is.
    uint32_t beta_ppm;
    uint32_t tolerated_rise_ppm; // <= max_rise_ppm; more is taken as max_rise_ppm
};

enum pol_test_result {
    POL_TEST_UNDECIDED, // more devices are needed
    POL_TEST_WORSE,     // shown to exceed a limit
    POL_TEST_GOOD,      // shown to be within both
    POL_TEST_NO_DATA,   // nobody completed
    POL_TEST_RESULT_COUNT
};

// What was shown, for people: bounds at the levels above, in parts per million.
struct pol_test_report {
    enum pol_test_result result;
    bool by_control;      // the relative question decided (or is nearer to deciding)
    uint32_t updated_ppm; // observed
    uint32_t control_ppm;
    uint32_t low_ppm; // confidence sequence of the updated rate: below `low` with at most alpha
    uint32_t high_ppm;
    int32_t rise_low_ppm; // of updated minus control; -1,000,000..1,000,000 without control
    int32_t rise_high_ppm;
    double evidence;      // e-value against "within the limits": WORSE at 1/alpha
    double good_evidence; // e-value against "beyond a limit": GOOD at 1/beta
};

// The verdict with its evidence; the four bounds stay at their widest. About 10 us: what a tick of
// a rollout asks.
//
// While control is empty no rise can be shown: WORSE comes from the absolute question alone, and
// GOOD only where the updated rate itself is shown below max_rise_ppm. A stage that has no control
// (a full stage without holdout) may say so with max_rise_ppm = POL_TEST_NOT_ASKED. With neither
// question asked nothing is decided.
struct pol_test_report pol_test_judge(const struct pol_test *test, const struct pol_sample *updated,
                                      const struct pol_sample *control);
// The same verdict with bounds, for people. About 120 us.
struct pol_test_report pol_test_run(const struct pol_test *test, const struct pol_sample *updated,
                                    const struct pol_sample *control);

// Static lower-case names ("undecided", "worse", "good", "no_data"), never NULL.
const char *pol_test_result_name(enum pol_test_result result);

// ---- Silence: the hazard of not checking in again

// Device-seconds under observation after activation (for control: after it was drawn), and devices
// that fell silent (no check-in for `silence_s`, told by the caller; their seconds end there).
// WORSE when the hazard of the updated is shown above `max_ratio_percent` of control's (100: any
// rise); never GOOD. Exact for events in any proportion of exposure. updated_ppm, control_ppm are
// devices fallen silent in a million device-hours.
struct pol_hazard {
    uint64_t device_seconds;
    uint64_t silent;
};
struct pol_test_report pol_hazard_test(const struct pol_hazard *updated,
                                       const struct pol_hazard *control, uint32_t max_ratio_percent,
                                       uint32_t alpha_ppm);

// ---- Slices: one verdict per segment under multiple-testing control

#define POL_SLICES_MAX 256u

// e-BH (Wang and Ramdas 2022): with e-values of all slices, marks those whose rejection keeps the
// false discovery rate at alpha, whatever depends on what. Returns how many; a count over
// POL_SLICES_MAX marks nothing. `marked` has count entries. The evidence of a slice is
// pol_test_judge's on its own counts.
uint32_t pol_slices_reject(const double *evidence, uint32_t count, uint32_t alpha_ppm,
                           bool *marked);

// ---- Power: what a stage can see, before it starts (and while it runs: policy/stage_power.h)

// Sizes considered; of a rise that needs more it is said that it needs as many.
#define POL_POWER_DEVICES_MAX (UINT64_C(1) << 40)

struct pol_power_plan {
    uint64_t devices;           // updated devices needed to find the rise with probability 1 - beta
    uint64_t control;           // control devices counted on
    bool can_detect;            // devices <= the stage's
    uint32_t smallest_rise_ppm; // the stage can find with all its devices
    uint64_t seconds;           // until `devices` have completed at the given rate; 0: unknown
};

// Of whom, and what is to be found.
struct pol_power_ask {
    uint64_t stage_devices, control_devices;
    uint32_t base_ppm;             // how often it fails without the change
    uint32_t rise_ppm;             // what is to be found
    uint64_t completions_per_hour; // 0: not known
};
// A stage of `stage_devices` updated and `control_devices` control devices, where
// `completions_per_hour` devices complete; control fails at `base_ppm`.
struct pol_power_plan pol_power(const struct pol_test *test, struct pol_power_ask ask);

#endif

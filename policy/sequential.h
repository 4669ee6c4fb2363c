// Sequential tests: is the updated cohort worse than the control cohort, decided at any time.
//
// A test is a pure function of counts. It may be asked after every report, as often as one likes,
// and its error rates still hold (anytime-valid: e-processes, confidence sequences; Ville's
// inequality; Howard, Ramdas et al. 2021; Turner, Ly, Gruenwald 2024). Order of reports does not
// matter. All arithmetic is in doubles with fixed operations, so equal counts give equal bits on
// every machine that follows IEEE 754; nothing here calls libm beyond log, exp, sqrt and lgamma,
// whose results are rounded to a grid before they are compared.
#ifndef POL_SEQUENTIAL_H
#define POL_SEQUENTIAL_H

#include <stdbool.h>
#include <stdint.h>

// Devices that completed, and those of them that failed (silence after activation is a failure).
struct pol_sample {
    uint64_t trials;
    uint64_t failures;
};

// Two questions are asked at once. Absolute: is the updated cohort's failure rate above
// `max_failure_ppm`? Relative: is it above control's by more than `max_rise_ppm`? FAIL when either
// is shown at level alpha (split between them); PASS when both are shown not to be at level beta.
struct pol_test {
    uint32_t max_failure_ppm; // 1,000,000: not asked
    uint32_t max_rise_ppm;    // over control; 1,000,000: not asked
    uint32_t alpha_ppm;       // chance that a stage that meets both limits is ever stopped; 50,000
    uint32_t beta_ppm;        // chance that one that exceeds a limit is ever passed; 100,000
};

enum pol_test_result {
    POL_TEST_UNDECIDED, // more devices are needed
    POL_TEST_WORSE,     // shown to exceed a limit
    POL_TEST_GOOD,      // shown to be within both
    POL_TEST_NO_DATA,   // nobody completed
};

// What was shown, for people: bounds at the levels above, in parts per million.
struct pol_test_report {
    enum pol_test_result result;
    bool by_control;      // the relative question decided
    uint32_t updated_ppm; // observed
    uint32_t control_ppm;
    uint32_t low_ppm; // confidence sequence of the updated rate
    uint32_t high_ppm;
    int32_t rise_low_ppm; // of updated minus control
    int32_t rise_high_ppm;
    double evidence; // e-value against "not worse": WORSE at 1/alpha
};

// Control may be empty: then only the absolute question is asked.
struct pol_test_report pol_test_run(const struct pol_test *test, const struct pol_sample *updated,
                                    const struct pol_sample *control);

// ---- Silence: the hazard of not checking in again

// Device-seconds under observation after activation (for control: after it was drawn), and devices
// that fell silent (no check-in for `silence_s`, told by the caller). WORSE when the hazard of the
// updated is shown above `max_ratio_percent` of control's; conditional on the total, the split of
// events is binomial, which makes the same e-process exact.
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
// false discovery rate at alpha, whatever depends on what. Returns how many. `marked` has count
// entries.
uint32_t pol_slices_reject(const double *evidence, uint32_t count, uint32_t alpha_ppm,
                           bool *marked);

// ---- Power: what a stage can see, before it starts

struct pol_power_plan {
    uint64_t devices;           // updated devices needed to find the rise with probability 1 - beta
    uint64_t control;           // control devices counted on
    bool can_detect;            // devices <= the stage's
    uint32_t smallest_rise_ppm; // the stage can find with all its devices
    uint64_t seconds;           // until `devices` have completed at the given rate; 0: unknown
};

// A stage of `stage_devices` updated and `control_devices` control devices, where
// `completions_per_hour` devices complete; control fails at `base_ppm`.
struct pol_power_plan pol_power(const struct pol_test *test, uint64_t stage_devices,
                                uint64_t control_devices, uint32_t base_ppm, uint32_t rise_ppm,
                                uint64_t completions_per_hour);

#endif

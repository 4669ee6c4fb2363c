// Slices: which segments of the fleet are worse, with the false discovery rate under control.
//
// Called by the rollout machine and the simulator for the slices of an open stage; pure.
#include "policy/sequential.h"

// Whether slice counts as rejected when `wanted` are: its e-value reaches count / (wanted * alpha).
static bool reaches(double evidence, uint32_t count, uint32_t wanted, uint32_t alpha_ppm)
{
    return evidence * alpha_ppm * wanted >= 1e6 * count;
}

uint32_t pol_slices_reject(const double *evidence, uint32_t count, uint32_t alpha_ppm, bool *marked)
{
    uint32_t rejected = 0;
    for (uint32_t wanted = count <= POL_SLICES_MAX ? count : 0; wanted > 0 && rejected == 0;
         wanted--) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < count; i++) {
            found += reaches(evidence[i], count, wanted, alpha_ppm);
        }
        rejected = found >= wanted ? wanted : 0;
    }
    uint32_t marks = 0;
    for (uint32_t i = 0; i < count; i++) {
        marked[i] = rejected > 0 && reaches(evidence[i], count, rejected, alpha_ppm);
        marks += marked[i];
    }
    return marks;
}

static struct pol_sample total(const struct pol_sample *samples, uint32_t count)
{
    struct pol_sample sum = {0, 0};
    for (uint32_t i = 0; i < count; i++) {
        sum.trials += samples[i].trials;
        sum.failures += samples[i].failures;
    }
    return sum;
}

static struct pol_sample without(struct pol_sample sum, const struct pol_sample *slice)
{
    return (struct pol_sample){.trials = sum.trials - slice->trials,
                               .failures = sum.failures - slice->failures};
}

uint32_t pol_slices_blame(const struct pol_test *test, const struct pol_sample *updated,
                          const struct pol_sample *control, uint32_t count, uint32_t alpha_ppm)
{
    struct pol_test alone = {.max_failure_ppm = POL_TEST_NOT_ASKED,
                             .max_rise_ppm = test->max_rise_ppm,
                             .alpha_ppm = alpha_ppm,
                             .tolerated_rise_ppm = test->tolerated_rise_ppm};
    uint32_t blamed = POL_SLICES_MAX;
    double strongest = 0;
    for (uint32_t i = 0; i < count && count <= POL_SLICES_MAX; i++) {
        if (updated[i].failures == 0) {
            continue;
        }
        struct pol_test_report slice = pol_test_judge(&alone, &updated[i], &control[i]);
        if (slice.result == POL_TEST_WORSE && slice.evidence > strongest) {
            strongest = slice.evidence;
            blamed = i;
        }
    }
    if (blamed == POL_SLICES_MAX) {
        return POL_SLICES_MAX;
    }
    struct pol_sample rest = without(total(updated, count), &updated[blamed]);
    struct pol_sample rest_control = without(total(control, count), &control[blamed]);
    bool still = pol_test_judge(test, &rest, &rest_control).result == POL_TEST_WORSE;
    return still ? POL_SLICES_MAX : blamed;
}

// Slices: which segments of the fleet are worse, with the false discovery rate under control.
//
// Called by the gateway's controller, replays and the simulator for the slices of an open stage;
// pure.
#include "policy/slices.h"

#include "policy/stat/assert.h"

#include <math.h>

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
    pol_assert(rejected <= count);
    uint32_t marks = 0;
    for (uint32_t i = 0; i < count; i++) {
        marked[i] = rejected > 0 && reaches(evidence[i], count, rejected, alpha_ppm);
        marks += marked[i];
    }
    return marks;
}

// ---- What is held

bool pol_held_has(const struct pol_held *held, uint64_t name)
{
    for (uint32_t i = 0; i < held->count && i < POL_HELD_MAX; i++) {
        if (held->names[i] == name) {
            return true;
        }
    }
    return false;
}

void pol_held_add(struct pol_held *held, const struct pol_held *more)
{
    for (uint32_t i = 0; i < more->count && held->count < POL_HELD_MAX; i++) {
        if (!pol_held_has(held, more->names[i])) {
            held->names[held->count++] = more->names[i];
        }
    }
}

// False: it is not in it. The others keep their order.
static bool take(struct pol_held *held, uint64_t name)
{
    uint32_t kept = 0;
    uint32_t count = held->count < POL_HELD_MAX ? held->count : POL_HELD_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (held->names[i] != name) {
            held->names[kept++] = held->names[i];
        }
    }
    held->count = kept;
    return kept < count;
}

bool pol_held_lift(struct pol_held *held, struct pol_held *lifted, uint64_t name)
{
    if (!take(held, name)) {
        return false;
    }
    if (lifted->count >= POL_HELD_MAX) {
        (void)take(lifted, lifted->names[0]);
    }
    pol_held_add(lifted, &(struct pol_held){1, {name}});
    return true;
}

bool pol_held_equal(const struct pol_held *a, const struct pol_held *b)
{
    bool equal = a->count == b->count;
    for (uint32_t i = 0; i < a->count && i < POL_HELD_MAX && equal; i++) {
        equal = a->names[i] == b->names[i];
    }
    return equal;
}

// ---- A look

static struct pol_test test_of(const struct pol_gate *gate, const struct pol_sample *control)
{
    bool valid = gate->rule != POL_GATE_THRESHOLD;
    bool compares = gate->rule == POL_GATE_LOGRANK ||
                    (gate->rule == POL_GATE_SEQUENTIAL && control->trials > 0);
    return (struct pol_test){
        .max_failure_ppm = gate->max_failure_ppm,
        .max_rise_ppm = compares ? gate->max_rise_ppm : POL_TEST_NOT_ASKED,
        .alpha_ppm =
            valid ? pol_gate_part(gate->alpha_ppm, POL_GATE_SLICES_PERCENT) : POL_GATE_ALPHA_PPM,
        .beta_ppm = valid ? gate->beta_ppm : POL_GATE_BETA_PPM,
        .tolerated_rise_ppm = gate->tolerated_rise_ppm,
    };
}

// Each slice compared with the whole of control.
static void mark_shared(const struct pol_test *test, const struct pol_slices *slices,
                        const struct pol_sample *control, bool marked[POL_SLICES_MAX])
{
    double evidence[POL_SLICES_MAX] = {0}; // of those that are not listed: none
    for (uint32_t i = 0; i < slices->failing_count; i++) {
        evidence[i] = pol_test_judge(test, &slices->failing[i].seen, control).evidence;
    }
    (void)pol_slices_reject(evidence, slices->count, test->alpha_ppm, marked);
}

// Each slice by itself: against the limit, and against its own control.
static void mark_own(const struct pol_test *asked, const struct pol_slices *slices,
                     bool marked[POL_SLICES_MAX])
{
    pol_assert(slices->failing_count <= slices->count);
    pol_assert(slices->count <= POL_SLICES_MAX);
    static const struct pol_sample nobody = {0, 0};
    double over[POL_SLICES_MAX] = {0};
    double risen[POL_SLICES_MAX] = {0};
    bool also[POL_SLICES_MAX];
    struct pol_test test = *asked;
    bool relative = asked->max_rise_ppm < POL_TEST_NOT_ASKED;
    uint32_t rise_percent = !relative                                     ? 0
                            : asked->max_failure_ppm < POL_TEST_NOT_ASKED ? POL_GATE_RISE_PERCENT
                                                                          : 100;
    test.max_rise_ppm = POL_TEST_NOT_ASKED;
    for (uint32_t i = 0; i < slices->failing_count; i++) {
        over[i] = pol_test_judge(&test, &slices->failing[i].seen, &nobody).evidence;
        risen[i] = relative ? exp(slices->failing[i].rise) : 0;
    }
    (void)pol_slices_reject(over, slices->count,
                            pol_gate_part(asked->alpha_ppm, 100 - rise_percent), marked);
    (void)pol_slices_reject(risen, slices->count, pol_gate_part(asked->alpha_ppm, rise_percent),
                            also);
    for (uint32_t i = 0; i < slices->count; i++) {
        marked[i] = marked[i] || also[i];
    }
}

void pol_slices_judge(const struct pol_gate *gate, const struct pol_slices *slices,
                      const struct pol_sample *control, struct pol_held *out_found)
{
    struct pol_test test = test_of(gate, control);
    bool marked[POL_SLICES_MAX];
    uint32_t found = 0;
    uint64_t bad = 0;
    *out_found = (struct pol_held){.count = 0};
    if (slices->count < 2 || slices->count > POL_SLICES_MAX ||
        slices->failing_count > slices->count) {
        return;
    }
    if (gate->rule == POL_GATE_LOGRANK) {
        mark_own(&test, slices, marked);
    } else {
        mark_shared(&test, slices, control, marked);
    }
    for (uint32_t i = 0; i < slices->failing_count; i++) {
        found += marked[i];
        bad += marked[i] ? slices->failing[i].seen.trials : 0;
    }
    pol_assert(found <= slices->failing_count);
    if (found == 0 || slices->held_count > POL_HELD_MAX ||
        found > POL_HELD_MAX - slices->held_count || bad > slices->completed ||
        bad >= slices->completed - bad) {
        return;
    }
    pol_assert(found <= POL_HELD_MAX); // out_found has room for them
    for (uint32_t i = 0; i < slices->failing_count; i++) {
        if (marked[i]) {
            out_found->names[out_found->count++] = slices->failing[i].name;
        }
    }
}

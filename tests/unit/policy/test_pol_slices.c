// Looks at slices against a naive reading of the rule, and the names that are held.
#include "test_kit.h"

#include "policy/replay.h"

#include "base/prng.h"

#include <stdlib.h>

#define ROUNDS 400u

static int falling(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x > y ? -1 : x < y;
}

// e-BH as its paper has it: with e-values in falling order, the largest k with k e(k) >= m / alpha;
// the slices with the k largest are held.
static void naive(const struct pol_gate *gate, const struct pol_slices *slices,
                  const struct pol_sample *control, struct pol_held *out)
{
    bool sequential = gate->rule == POL_GATE_SEQUENTIAL;
    double alpha = sequential ? gate->alpha_ppm / 1e7 : 0.05;
    struct pol_test test = {.max_failure_ppm = gate->max_failure_ppm,
                            .max_rise_ppm = sequential && control->trials > 0 ? gate->max_rise_ppm
                                                                              : POL_TEST_NOT_ASKED,
                            .alpha_ppm = 1,
                            .tolerated_rise_ppm = gate->tolerated_rise_ppm};
    double evidence[POL_SLICES_MAX];
    double sorted[POL_SLICES_MAX];
    uint32_t k = slices->failing_count;
    uint64_t bad = 0;
    uint32_t found = 0;
    out->count = 0;
    for (uint32_t i = 0; i < k; i++) {
        evidence[i] = pol_test_judge(&test, &slices->failing[i].seen, control).evidence;
        sorted[i] = evidence[i];
    }
    qsort(sorted, k, sizeof(sorted[0]), falling);
    while (k > 0 && sorted[k - 1] * k < slices->count / alpha * (1 - 1e-12)) {
        k--;
    }
    for (uint32_t i = 0; i < slices->failing_count && k > 0; i++) {
        if (evidence[i] >= sorted[k - 1]) {
            found++;
            bad += slices->failing[i].seen.trials;
            if (out->count < POL_HELD_MAX) {
                out->names[out->count++] = slices->failing[i].name;
            }
        }
    }
    if (2 * bad >= slices->completed || slices->held_count + found > POL_HELD_MAX) {
        out->count = 0;
    }
}

static void draw(struct base_prng *prng, struct pol_gate *gate, struct pol_slices *slices,
                 struct pol_sample *control)
{
    *gate = (struct pol_gate){.rule = base_prng_below(prng, 2) == 0 ? POL_GATE_THRESHOLD
                                                                    : POL_GATE_SEQUENTIAL,
                              .max_failure_ppm = 1 + (uint32_t)base_prng_below(prng, 200000),
                              .max_rise_ppm = (uint32_t)base_prng_below(prng, 100000),
                              .alpha_ppm = 10 + 10 * (uint32_t)base_prng_below(prng, 20000),
                              .beta_ppm = 100000};
    *control = (struct pol_sample){base_prng_below(prng, 3) * 500, base_prng_below(prng, 12)};
    control->failures = control->trials > 0 ? control->failures : 0;
    *slices = (struct pol_slices){.held_count = (uint32_t)base_prng_below(prng, 4) * 5,
                                  .count = 2 + (uint32_t)base_prng_below(prng, 40)};
    slices->failing_count = (uint32_t)base_prng_below(prng, slices->count + 1);
    slices->completed = base_prng_below(prng, 2000);
    for (uint32_t i = 0; i < slices->failing_count; i++) {
        struct pol_sample *seen = &slices->failing[i].seen;
        bool bad = base_prng_below(prng, 5) == 0;
        slices->failing[i].name = 1000 + i;
        seen->trials = 1 + base_prng_below(prng, 60);
        seen->failures = 1 + base_prng_below(prng, bad ? seen->trials : 1 + seen->trials / 20);
        slices->completed += seen->trials;
    }
}

static void looks_hold_what_the_rule_says(void **state)
{
    (void)state;
    struct base_prng prng;
    uint32_t held = 0;
    uint32_t none = 0;
    uint64_t seed = 77;
    printf("seed %llu\n", (unsigned long long)seed);
    base_prng_seed(&prng, seed);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct pol_gate gate;
        struct pol_slices slices;
        struct pol_sample control;
        struct pol_held found;
        struct pol_held expected;
        draw(&prng, &gate, &slices, &control);
        pol_slices_judge(&gate, &slices, &control, &found);
        naive(&gate, &slices, &control, &expected);
        if (!pol_held_equal(&found, &expected)) {
            fail_msg("round %u: %u held, not %u", round, found.count, expected.count);
        }
        held += found.count;
        none += found.count == 0;
    }
    printf("%u looks, %u slices held, %u held none\n", ROUNDS, held, none);
    assert_true(held > 50 && none > 50);
}

static void what_does_not_hang_together_holds_nothing(void **state)
{
    (void)state;
    static const struct pol_gate gate = {.max_failure_ppm = 10000};
    struct pol_sample control = {0, 0};
    struct pol_slices slices = {.count = 10, .failing_count = 1, .completed = 1000};
    struct pol_held found;
    slices.failing[0] = (struct pol_slice){.name = 7, .seen = {20, 20}};
    pol_slices_judge(&gate, &slices, &control, &found);
    assert_int_equal(found.count, 1);
    assert_true(found.names[0] == 7);
    slices.count = 1; // one slice is the whole fleet
    pol_slices_judge(&gate, &slices, &control, &found);
    assert_int_equal(found.count, 0);
    slices.count = POL_SLICES_MAX + 1;
    pol_slices_judge(&gate, &slices, &control, &found);
    assert_int_equal(found.count, 0);
    slices.count = 10;
    slices.failing_count = 11;
    pol_slices_judge(&gate, &slices, &control, &found);
    assert_int_equal(found.count, 0);
    slices.failing_count = 1;
    slices.held_count = POL_HELD_MAX;
    pol_slices_judge(&gate, &slices, &control, &found);
    assert_int_equal(found.count, 0);
    slices.held_count = UINT32_MAX;
    pol_slices_judge(&gate, &slices, &control, &found);
    assert_int_equal(found.count, 0);
    slices.held_count = 0;
    slices.completed = 19; // less than the slice itself
    pol_slices_judge(&gate, &slices, &control, &found);
    assert_int_equal(found.count, 0);
}

static void names_are_held_once_and_lifted(void **state)
{
    (void)state;
    struct pol_held held = {0};
    struct pol_held more = {3, {1, 2, 2}};
    pol_held_add(&held, &more);
    assert_int_equal(held.count, 2);
    assert_true(pol_held_has(&held, 2) && !pol_held_has(&held, 3));
    struct pol_held lifted = {0};
    assert_false(pol_held_lift(&held, &lifted, 3));
    assert_int_equal(lifted.count, 0);
    assert_true(pol_held_lift(&held, &lifted, 1));
    assert_int_equal(held.count, 1);
    assert_true(lifted.count == 1 && lifted.names[0] == 1);
    for (uint64_t name = 100; name < 100 + POL_HELD_MAX; name++) { // the first is forgotten
        held = (struct pol_held){1, {name}};
        assert_true(pol_held_lift(&held, &lifted, name));
    }
    assert_int_equal(lifted.count, POL_HELD_MAX);
    assert_true(!pol_held_has(&lifted, 1) && pol_held_has(&lifted, 100));
    held = (struct pol_held){1, {2}};
    for (uint64_t name = 10; name < 40; name++) {
        struct pol_held one = {1, {name}};
        pol_held_add(&held, &one);
    }
    assert_int_equal(held.count, POL_HELD_MAX);
    more = held;
    assert_true(pol_held_equal(&held, &more));
    more.names[POL_HELD_MAX - 1]++;
    assert_false(pol_held_equal(&held, &more));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_hold_what_the_rule_says),
        cmocka_unit_test(what_does_not_hang_together_holds_nothing),
        cmocka_unit_test(names_are_held_once_and_lifted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

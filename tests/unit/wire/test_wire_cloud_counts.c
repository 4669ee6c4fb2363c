// Counts of decisions between device and cloud: steps of time, sums that are halved, and figures
// that come back or are refused.
#include "test_kit.h"

#include "wire/cloud/cloud_counts.h"

static void test_steps(void **state)
{
    (void)state;
    assert_int_equal(wire_cloud_step(0), 0);
    assert_int_equal(wire_cloud_step(25000), 0);
    assert_int_equal(wire_cloud_step(25001), 1);
    assert_int_equal(wire_cloud_step(1600000), 6);
    assert_int_equal(wire_cloud_step(1600001), 7);
    assert_int_equal(wire_cloud_step(UINT64_MAX), 7);
    const struct wire_cloud_counts counts = {36, 36, 36, 0, {1, 2, 3, 4, 5, 6, 7, 8}};
    assert_int_equal(wire_cloud_later(&counts, 25), 35);
    assert_int_equal(wire_cloud_later(&counts, 26), 33); // as 50
    assert_int_equal(wire_cloud_later(&counts, 1600), 8);
    assert_int_equal(wire_cloud_later(&counts, 1601), 0);
}

// Random decisions, one by one: the counts fit together at each, and shares last over halving.
static void test_sums(void **state)
{
    (void)state;
    struct wire_cloud_counts counts = {.asked = 0};
    struct base_prng prng;
    uint32_t halved = 0;
    base_prng_seed(&prng, 18);
    for (uint32_t i = 0; i < 200000; i++) {
        struct wire_cloud_counts one = {.asked = 1};
        if (base_prng_below(&prng, 4) == 0) {
            one.sent = one.answered = 1;
            one.times[base_prng_below(&prng, WIRE_CLOUD_TIMES)] = 1;
        }
        halved += wire_cloud_add(&counts, &one) ? 1 : 0;
        if (one.answered > 0 && base_prng_below(&prng, 2) == 0) {
            (void)wire_cloud_add(&counts, &(struct wire_cloud_counts){.differed = 1});
        }
        assert_true(wire_cloud_counts_ok(&counts));
    }
    assert_int_equal(halved, 5);
    assert_in_range(counts.sent * 100u / counts.asked, 23, 27);
    assert_in_range(counts.differed * 100u / counts.answered, 47, 53);
    assert_in_range(wire_cloud_later(&counts, 200) * 100u / counts.answered, 46, 54);
    // An answer that was halved away before it was compared.
    counts = (struct wire_cloud_counts){.asked = 65535, .sent = 3, .answered = 3, .differed = 2};
    assert_true(wire_cloud_add(&counts, &(struct wire_cloud_counts){.asked = 1}));
    (void)wire_cloud_add(&counts, &(struct wire_cloud_counts){.differed = 1});
    assert_true(wire_cloud_counts_ok(&counts));
    assert_int_equal(counts.differed, 1);
}

static void test_figures(void **state)
{
    (void)state;
    struct wire_figures figures = {.heap_peak_bytes = 9};
    struct wire_cloud_counts counts = {200, 90, 60, 7, {0, 10, 20, 0, 0, 0, 29, 1}};
    struct wire_cloud_counts back;
    wire_cloud_figures_set(&figures, &counts);
    assert_int_equal(figures.heap_peak_bytes, 9);
    assert_true(figures.cloud_counts ==
                (UINT64_C(200) | 90u << 16 | UINT64_C(60) << 32 | UINT64_C(7) << 48));
    assert_true(wire_cloud_figures_get(&figures, &back));
    assert_memory_equal(&back, &counts, sizeof(counts));
    figures.cloud_counts = 0;
    assert_false(wire_cloud_figures_get(&figures, &back)); // there are none
    for (unsigned i = 0; i < 3; i++) { // none of them is more than the one before it
        figures.cloud_counts = UINT64_C(5) << 16 * i | UINT64_C(6) << 16 * (i + 1);
        assert_false(wire_cloud_figures_get(&figures, &back));
    }
    struct base_prng prng;
    base_prng_seed(&prng, 19);
    for (uint32_t i = 0; i < 100000; i++) { // whatever a device says
        figures.cloud_counts = base_prng_next(&prng) >> base_prng_below(&prng, 64);
        figures.cloud_times = base_prng_next(&prng);
        if (wire_cloud_figures_get(&figures, &back)) {
            assert_true(wire_cloud_counts_ok(&back));
            wire_cloud_figures_set(&figures, &back);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

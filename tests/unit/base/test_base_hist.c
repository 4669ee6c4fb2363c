// Histogram against exact sorted quantiles, merging, saturation.
#include "test_kit.h"

#include "base/hist.h"

#define SAMPLES 20000

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

// Draws from several shapes: uniform, log-uniform, a spike with a long tail.
static uint64_t draw(struct base_prng *prng, unsigned shape)
{
    switch (shape) {
    case 0:
        return base_prng_below(prng, 1000000);
    case 1:
        return base_prng_next(prng) >> (25 + base_prng_below(prng, 39));
    default:
        return base_prng_below(prng, 100) < 95 ? 250 : base_prng_below(prng, 1000000000);
    }
}

static void quantiles_are_within_a_bucket(void **state)
{
    (void)state;
    static const double quantiles[] = {0.0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0};
    static uint64_t values[SAMPLES];
    static struct base_hist hist;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned shape = 0; shape < 3; shape++) {
        base_hist_init(&hist);
        uint64_t sum = 0;
        for (size_t i = 0; i < SAMPLES; i++) {
            values[i] = draw(&prng, shape);
            sum += values[i];
            base_hist_add(&hist, values[i]);
        }
        qsort(values, SAMPLES, sizeof values[0], by_value);
        assert_true(hist.count == SAMPLES && hist.sum == sum);
        assert_true(hist.min == values[0] && hist.max == values[SAMPLES - 1]);
        assert_true(base_hist_mean(&hist) == (double)sum / SAMPLES);
        for (size_t i = 0; i < TEST_COUNT(quantiles); i++) {
            double exact_rank = quantiles[i] * SAMPLES;
            size_t rank = (size_t)exact_rank;
            rank += (double)rank < exact_rank;
            uint64_t exact = values[rank == 0 ? 0 : rank - 1];
            uint64_t told = base_hist_quantile(&hist, quantiles[i]);
            if (told < exact || told > exact + exact / 31) {
                fail_msg("shape %u quantile %f: told %llu, exact %llu", shape, quantiles[i],
                         (unsigned long long)told, (unsigned long long)exact);
            }
        }
    }
}

static void small_values_are_exact(void **state)
{
    (void)state;
    static struct base_hist hist;
    base_hist_init(&hist);
    for (uint64_t i = 0; i < 64; i++) {
        base_hist_add(&hist, i);
    }
    for (uint64_t i = 0; i < 64; i++) {
        assert_true(base_hist_quantile(&hist, (double)(i + 1) / 64.0) == i);
    }
}

static void buckets_cover_without_gaps(void **state)
{
    (void)state;
    static struct base_hist hist;
    // A value and its successor are in the same bucket or in neighbours: never out of order.
    uint64_t value = 0;
    uint64_t before = 0;
    while (value < (uint64_t)1 << 41) {
        base_hist_init(&hist);
        base_hist_add(&hist, value);
        base_hist_add(&hist, UINT64_MAX); // lifts max, so that the bucket's own edge shows
        uint64_t edge = base_hist_quantile(&hist, 0.5);
        assert_true(edge >= value && edge >= before);
        before = edge;
        value += 1 + value / 100;
    }
}

static void empty_and_saturated(void **state)
{
    (void)state;
    static struct base_hist hist;
    base_hist_init(&hist);
    assert_true(base_hist_quantile(&hist, 0.5) == 0);
    assert_true(base_hist_mean(&hist) == 0.0);
    base_hist_add(&hist, UINT64_MAX);
    base_hist_add(&hist, UINT64_MAX);
    assert_true(hist.sum == UINT64_MAX);
    assert_true(base_hist_quantile(&hist, 0.5) == UINT64_MAX);
    assert_true(base_hist_quantile(&hist, -3.0) == UINT64_MAX);
    assert_true(base_hist_quantile(&hist, 7.0) == UINT64_MAX);
    hist.buckets[5] = UINT32_MAX;
    base_hist_add(&hist, 5);
    assert_true(hist.buckets[5] == UINT32_MAX);
}

static void merging_is_adding(void **state)
{
    (void)state;
    static struct base_hist parts[4];
    static struct base_hist whole;
    static struct base_hist merged;
    struct base_prng prng;
    test_seed(&prng);
    base_hist_init(&whole);
    base_hist_init(&merged);
    for (unsigned i = 0; i < 4; i++) {
        base_hist_init(&parts[i]);
        for (unsigned j = 0; j < 1000 * i; j++) { // the first part stays empty
            uint64_t value = draw(&prng, 1);
            base_hist_add(&parts[i], value);
            base_hist_add(&whole, value);
        }
    }
    for (unsigned i = 0; i < 4; i++) {
        base_hist_merge(&merged, &parts[i]);
    }
    assert_memory_equal(&merged, &whole, sizeof whole);
}

// What was used is read and written, and nothing is left of it: of none, one, the ends, and many.
static void cleared_is_as_new(void **state)
{
    (void)state;
    static const uint64_t ends[] = {0, UINT64_MAX, 31, 32, (uint64_t)1 << 40};
    static struct base_hist empty;
    static struct base_hist hist;
    static struct base_hist merged;
    struct base_prng prng;
    test_seed(&prng);
    base_hist_init(&empty);
    base_hist_init(&hist);
    base_hist_init(&merged);
    for (unsigned count = 0; count < 200; count++) {
        for (unsigned i = 0; i < count; i++) {
            base_hist_add(&hist, i < TEST_COUNT(ends) ? ends[i] : draw(&prng, i % 3));
        }
        base_hist_merge(&merged, &hist);
        assert_memory_equal(&merged, &hist, sizeof hist);
        base_hist_clear(&hist);
        base_hist_clear(&merged);
        assert_memory_equal(&hist, &empty, sizeof empty);
        assert_memory_equal(&merged, &empty, sizeof empty);
    }
    base_hist_merge(&merged, &empty);
    assert_memory_equal(&merged, &empty, sizeof empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_within_a_bucket),
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(buckets_cover_without_gaps),
        cmocka_unit_test(empty_and_saturated),
        cmocka_unit_test(merging_is_adding),
        cmocka_unit_test(cleared_is_as_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Aggregates by themselves: exact sums at the ends of their range, sketches against exact answers
// with their stated errors, and that merging parts gives what adding all gives.
#include "event_maker.h"

#include "base/prng.h"
#include "pipeline/stream/aggregate.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static _Alignas(8) uint8_t state_a[16384];
static _Alignas(8) uint8_t state_b[16384];

static struct dev_aggregate_spec spec_of(enum dev_aggregate_kind kind, uint32_t size)
{
    struct dev_aggregate_spec spec = {
        .name = BASE_STR("x"), .kind = kind, .value = BASE_STR("v"), .size = size};
    assert_int_equal(dev_aggregate_check(&spec, NULL), BASE_OK);
    assert_true(dev_aggregate_bytes(&spec) <= sizeof(state_a));
    return spec;
}

static void test_sums_at_their_ends(void **state)
{
    (void)state;
    struct dev_aggregate_spec spec = spec_of(DEV_AGGREGATE_SUM, 0);
    dev_aggregate_init(&spec, state_a);
    for (unsigned i = 0; i < 5; i++) {
        dev_aggregate_add(&spec, state_a, dev_value_integer(INT64_MAX), i);
    }
    assert_int_equal(dev_aggregate_value(&spec, state_a).type, DEV_VALUE_REAL);
    for (unsigned i = 0; i < 5; i++) {
        dev_aggregate_add(&spec, state_a, dev_value_integer(-INT64_MAX), i);
        dev_aggregate_add(&spec, state_a, dev_value_integer(-1), i);
    }
    assert_int_equal(dev_aggregate_value(&spec, state_a).integer, -5);
    dev_aggregate_init(&spec, state_a);
    const double reals[] = {1e16, 1, -1e16, 1e100, 1, -1e100};
    for (unsigned i = 0; i < 6; i++) {
        dev_aggregate_add(&spec, state_a, dev_value_real(reals[i]), i);
    }
    assert_true(dev_aggregate_value(&spec, state_a).real == 2);
    for (unsigned i = 0; i < 3; i++) {
        dev_aggregate_add(&spec, state_a, dev_value_real(DBL_MAX), i);
    }
    assert_int_equal(dev_aggregate_value(&spec, state_a).type, DEV_VALUE_NONE); // beyond all reals
    for (unsigned i = 0; i < 3; i++) {
        dev_aggregate_add(&spec, state_a, dev_value_real(-DBL_MAX), i);
    }
    assert_true(dev_aggregate_value(&spec, state_a).real == 2);
    dev_aggregate_add(&spec, state_a, dev_value_text(BASE_STR("text")), 9); // left out
    assert_true(dev_aggregate_value(&spec, state_a).real == 2);
    spec = spec_of(DEV_AGGREGATE_MEAN, 0);
    dev_aggregate_init(&spec, state_a);
    for (unsigned i = 0; i < 3; i++) {
        dev_aggregate_add(&spec, state_a, dev_value_real(DBL_MAX), i);
    }
    assert_true(dev_aggregate_value(&spec, state_a).real >= DBL_MAX * (1 - 4 * DBL_EPSILON));
}

static void reals_add(const struct dev_aggregate_spec *spec, void *to, const double *reals,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        dev_aggregate_add(spec, to, dev_value_real(reals[i]), i);
    }
}

// Of a part everything goes on: what its roundings lost, what those lost, and what is beyond all
// reals.
static void test_parts_lose_nothing(void **state)
{
    (void)state;
    static const struct {
        double part[3];
        double whole[3];
        double sum;
    } cases[] = {
        {{0x1p60, 1, 0x1p-60}, {-0x1p60, -1, 0}, 0x1p-60}, // the rest of what was lost
        {{0x1p60, 1, 0x1p-60}, {-0x1p60, -0x1p-60, 0}, 1}, // what was lost
        {{DBL_MAX, DBL_MAX, DBL_MAX}, {-DBL_MAX, -DBL_MAX, 0}, DBL_MAX}, // units
        {{-DBL_MAX, -DBL_MAX, -DBL_MAX}, {DBL_MAX, DBL_MAX, 0}, -DBL_MAX},
    };
    for (unsigned mean = 0; mean < 2; mean++) {
        struct dev_aggregate_spec spec = spec_of(mean ? DEV_AGGREGATE_MEAN : DEV_AGGREGATE_SUM, 0);
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            dev_aggregate_init(&spec, state_a);
            dev_aggregate_init(&spec, state_b);
            reals_add(&spec, state_a, cases[i].whole, 3);
            reals_add(&spec, state_b, cases[i].part, 3);
            dev_aggregate_merge(&spec, state_a, state_b);
            double want = mean ? cases[i].sum / 6 : cases[i].sum;
            double got = dev_aggregate_value(&spec, state_a).real;
            if (got != want) {
                fail_msg("case %u, mean %u: %a, not %a", i, mean, got, want);
            }
        }
    }
}

// Standard error of a HyperLogLog.
static double stated_error(uint32_t bits)
{
    return 1.04 / sqrt((double)dev_distinct_bytes(bits));
}

static void test_distinct_error(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 10, 100, 1000, 10000, 100000};
    for (uint32_t bits = DEV_DISTINCT_BITS_MIN; bits <= DEV_DISTINCT_BITS_MAX; bits += 2) {
        struct dev_aggregate_spec spec = spec_of(DEV_AGGREGATE_DISTINCT, bits);
        double squares = 0;
        unsigned trials = 0;
        for (unsigned c = 0; c < 6; c++) {
            for (int64_t trial = 0; trial < 10; trial++, trials++) {
                dev_aggregate_init(&spec, state_a);
                for (int64_t i = 0; i < (int64_t)counts[c]; i++) {
                    dev_aggregate_add(&spec, state_a, dev_value_integer(trial << 40 | i), 0);
                }
                double got = (double)dev_aggregate_value(&spec, state_a).integer;
                double error = (got - counts[c]) / counts[c];
                squares += error * error;
                assert_true(fabs(error) < 5 * stated_error(bits));
            }
        }
        double measured = sqrt(squares / trials);
        print_message("bits %u: %.2f %% measured, %.2f %% stated\n", bits, 100 * measured,
                      100 * stated_error(bits));
        assert_true(measured < 1.2 * stated_error(bits));
    }
    struct dev_aggregate_spec spec = spec_of(DEV_AGGREGATE_DISTINCT, 0);
    dev_aggregate_init(&spec, state_a);
    dev_aggregate_add(&spec, state_a, dev_value_integer(1), 0);
    dev_aggregate_add(&spec, state_a, dev_value_real(1.0), 0); // the same value
    assert_int_equal(dev_aggregate_value(&spec, state_a).integer, 1);
    dev_aggregate_add(&spec, state_a, dev_value_boolean(true), 0);
    dev_aggregate_add(&spec, state_a, dev_value_text(BASE_STR("1")), 0);
    assert_int_equal(dev_aggregate_value(&spec, state_a).integer, 3);
}

static int by_real(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double number_of(struct base_prng *prng, unsigned shape)
{
    double unit = base_prng_unit(prng);
    switch (shape) {
    case 0:
        return 100 * unit;
    case 1:
        return exp(40 * unit - 20);
    case 2:
        return (unit - 0.5) * 1000;
    case 3:
        return base_prng_below(prng, 3) == 0 ? 0 : 1 + (double)base_prng_below(prng, 5);
    case 4:
        return (unit < 0.5 ? -1 : 1) * exp(1400 * base_prng_unit(prng) - 700);
    default:
        return -3;
    }
}

static void test_quantile_bound(void **state)
{
    (void)state;
    static double values[5000];
    for (unsigned shape = 0; shape < 6; shape++) {
        for (uint32_t buckets = 16; buckets <= 256; buckets *= 4) {
            struct base_prng prng;
            base_prng_seed(&prng, shape);
            struct dev_aggregate_spec spec = spec_of(DEV_AGGREGATE_QUANTILES, buckets);
            dev_aggregate_init(&spec, state_a);
            dev_aggregate_init(&spec, state_b);
            for (unsigned i = 0; i < 5000; i++) {
                values[i] = number_of(&prng, shape);
                dev_aggregate_add(&spec, i % 3 == 0 ? state_a : state_b, dev_value_real(values[i]),
                                  i);
            }
            dev_aggregate_merge(&spec, state_a, state_b);
            qsort(values, 5000, sizeof(values[0]), by_real);
            double bound = dev_aggregate_quantile_error(state_a);
            double worst = 0;
            for (unsigned k = 0; k <= 1000; k++) {
                double q = k / 1000.0;
                double exact = values[(unsigned)(q * 4999)];
                double got = dev_aggregate_quantile(state_a, q).real;
                double error = exact == 0 ? fabs(got) : fabs(got - exact) / fabs(exact);
                worst = error > worst ? error : worst;
                if (error > bound * (1 + 1e-9)) {
                    fail_msg("shape %u buckets %u q %g: %g, not %g within %g", shape, buckets, q,
                             got, exact, bound);
                }
            }
            print_message("shape %u buckets %u: bound %.4f, worst %.4f\n", shape, buckets, bound,
                          worst);
            if (shape == 0 && buckets == 256) {
                assert_true(bound < 0.04);
            }
        }
    }
}

// No answer is beyond what was added, at whichever end of its bucket that lies.
static void test_quantiles_lie_among_the_values(void **state)
{
    (void)state;
    static const double values[] = {1, 1.9999999, 100.3, -1, -1.9999999, DBL_MIN / 2, -DBL_MIN / 2};
    struct dev_aggregate_spec spec = spec_of(DEV_AGGREGATE_QUANTILES, 0);
    for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        dev_aggregate_init(&spec, state_a);
        dev_aggregate_init(&spec, state_b);
        for (unsigned k = 0; k < 3; k++) {
            dev_aggregate_add(&spec, state_b, dev_value_real(values[i]), k);
        }
        for (unsigned merged = 0; merged < 2; merged++) {
            const void *of = merged ? state_a : state_b;
            for (double q = 0; q <= 1; q += 0.5) {
                double got = dev_aggregate_quantile(of, q).real;
                if (got != values[i]) {
                    fail_msg("value %u, merged %u: %a, not %a", i, merged, got, values[i]);
                }
            }
            dev_aggregate_merge(&spec, state_a, state_b);
        }
    }
}

// Everything that is read of the two is equal.
static void answers_equal(const struct dev_aggregate_spec *spec, const void *a, const void *b)
{
    assert_true(dev_value_equal(dev_aggregate_value(spec, a), dev_aggregate_value(spec, b)));
    if (spec->kind == DEV_AGGREGATE_LAST) {
        assert_int_equal(dev_aggregate_last_count(a), spec->size);
        assert_int_equal(dev_aggregate_last_count(b), spec->size);
        for (uint32_t i = 0; i < spec->size; i++) {
            assert_true(dev_value_equal(dev_aggregate_last(a, i), dev_aggregate_last(b, i)));
        }
    } else if (spec->kind == DEV_AGGREGATE_HISTOGRAM) {
        for (uint32_t i = 0; i < spec->size + 2; i++) {
            assert_int_equal(dev_aggregate_bin(a, i), dev_aggregate_bin(b, i));
        }
    } else if (spec->kind == DEV_AGGREGATE_QUANTILES) {
        assert_true(dev_aggregate_quantile_error(a) == dev_aggregate_quantile_error(b));
        for (unsigned k = 0; k <= 1000; k++) {
            assert_true(dev_value_equal(dev_aggregate_quantile(a, k / 1000.0),
                                        dev_aggregate_quantile(b, k / 1000.0)));
        }
    } else {
        assert_memory_equal(a, b, dev_aggregate_bytes(spec));
    }
}

static void test_merged_parts_are_the_whole(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 3);
    for (unsigned kind = 0; kind < DEV_AGGREGATE_KIND_COUNT; kind++) {
        struct dev_aggregate_spec spec = {
            .name = BASE_STR("x"), .kind = (enum dev_aggregate_kind)kind, .value = BASE_STR("v")};
        spec.size = kind == DEV_AGGREGATE_LAST || kind == DEV_AGGREGATE_HISTOGRAM ? 7 : 0;
        spec.high = 50;
        assert_int_equal(dev_aggregate_check(&spec, NULL), BASE_OK);
        static _Alignas(8) uint8_t whole[16384];
        dev_aggregate_init(&spec, state_a);
        dev_aggregate_init(&spec, state_b);
        dev_aggregate_init(&spec, whole);
        for (uint64_t i = 0; i < 1000; i++) {
            struct dev_value value = dev_value_integer((int64_t)base_prng_below(&prng, 100));
            dev_aggregate_add(&spec, base_prng_below(&prng, 2) == 0 ? state_a : state_b, value, i);
            dev_aggregate_add(&spec, whole, value, i);
        }
        dev_aggregate_merge(&spec, state_a, state_b);
        answers_equal(&spec, state_a, whole);
    }
}

static void test_exact_comparison(void **state)
{
    (void)state;
    struct dev_value big = dev_value_integer(INT64_MAX);
    assert_int_equal(dev_value_compare(big, dev_value_real(9223372036854775808.0)), -1);
    assert_int_equal(dev_value_compare(big, dev_value_real(9223372036854774784.0)), 1);
    assert_int_equal(dev_value_compare(dev_value_integer(-3), dev_value_real(-3.5)), 1);
    assert_int_equal(dev_value_compare(dev_value_real(2.5), dev_value_integer(2)), 1);
    assert_int_equal(
        dev_value_compare(dev_value_integer(INT64_MIN), dev_value_real(-9223372036854775808.0)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_at_their_ends),
        cmocka_unit_test(test_parts_lose_nothing),
        cmocka_unit_test(test_distinct_error),
        cmocka_unit_test(test_quantile_bound),
        cmocka_unit_test(test_quantiles_lie_among_the_values),
        cmocka_unit_test(test_merged_parts_are_the_whole),
        cmocka_unit_test(test_exact_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

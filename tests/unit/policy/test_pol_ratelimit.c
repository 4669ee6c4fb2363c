// Token bucket: rate, burst, exactness under any calling pattern, skewed and saturating time.
#include "test_kit.h"

#include "policy/ratelimit.h"

static void burst_then_rate(void **state)
{
    (void)state;
    struct pol_ratelimit_config config = {.burst = 10, .refill = 5, .interval_us = 1000000};
    struct pol_ratelimit limit;
    pol_ratelimit_init(&limit, &config, 1000);
    for (unsigned i = 0; i < 10; i++) {
        assert_true(pol_ratelimit_take(&limit, &config, 1, 1000));
    }
    assert_false(pol_ratelimit_take(&limit, &config, 1, 1000));
    assert_false(pol_ratelimit_take(&limit, &config, 1, 1000 + 199999));
    assert_true(pol_ratelimit_take(&limit, &config, 1, 1000 + 200000));
    assert_false(pol_ratelimit_take(&limit, &config, 1, 1000 + 399999));
    assert_true(pol_ratelimit_take(&limit, &config, 5, 1000 + 1200000));
    assert_true(pol_ratelimit_take(&limit, &config, 0, 0)); // nothing is always there
    assert_true(pol_ratelimit_take(&limit, &config, 10, 100000000));
    assert_false(pol_ratelimit_take(&limit, &config, 11, UINT64_MAX)); // over the burst: never
    assert_true(pol_ratelimit_take(&limit, &config, 10, UINT64_MAX));
}

static void time_going_back_adds_nothing(void **state)
{
    (void)state;
    struct pol_ratelimit_config config = {.burst = 4, .refill = 1, .interval_us = 10};
    struct pol_ratelimit limit;
    pol_ratelimit_init(&limit, &config, 1000);
    assert_true(pol_ratelimit_take(&limit, &config, 4, 1000));
    for (uint64_t now = 1000; now > 0; now -= 100) {
        assert_false(pol_ratelimit_take(&limit, &config, 1, now));
    }
    // Nor does coming back to where it was.
    assert_false(pol_ratelimit_take(&limit, &config, 1, 1000));
    assert_true(pol_ratelimit_take(&limit, &config, 1, 1010));
}

static void no_refill_without_interval(void **state)
{
    (void)state;
    struct pol_ratelimit_config config = {.burst = 2, .refill = 5, .interval_us = 0};
    struct pol_ratelimit limit;
    pol_ratelimit_init(&limit, &config, 0);
    assert_true(pol_ratelimit_take(&limit, &config, 2, 5));
    assert_false(pol_ratelimit_take(&limit, &config, 1, UINT64_MAX));
}

static void a_full_bucket_does_not_save_up(void **state)
{
    (void)state;
    struct pol_ratelimit_config config = {.burst = 1, .refill = 1, .interval_us = 10};
    struct pol_ratelimit limit;
    pol_ratelimit_init(&limit, &config, 0);
    assert_true(pol_ratelimit_take(&limit, &config, 1, 0));
    assert_true(pol_ratelimit_take(&limit, &config, 0, 19)); // just full: the fraction is dropped
    assert_true(pol_ratelimit_take(&limit, &config, 1, 19));
    assert_false(pol_ratelimit_take(&limit, &config, 1, 28));
    assert_true(pol_ratelimit_take(&limit, &config, 1, 29));
}

static void configurations_may_change(void **state)
{
    (void)state;
    struct pol_ratelimit_config wide = {.burst = 100, .refill = 7, .interval_us = 1000};
    struct pol_ratelimit_config narrow = {.burst = 3, .refill = 1, .interval_us = 2};
    struct pol_ratelimit limit;
    pol_ratelimit_init(&limit, &wide, 0);
    assert_true(pol_ratelimit_take(&limit, &wide, 100, 0));
    assert_false(pol_ratelimit_take(&limit, &wide, 1, 142)); // carries a fraction of 994
    assert_false(pol_ratelimit_take(&limit, &narrow, 1, 143));
    assert_true(pol_ratelimit_take(&limit, &narrow, 1, 145));
    assert_false(pol_ratelimit_take(&limit, &narrow, 4, 1000));
    assert_true(pol_ratelimit_take(&limit, &narrow, 3, 1000));
}

// Exact arithmetic in 128 bits: tokens granted so far plus tokens there now equals what flowed in,
// as long as the bucket never fills and the products of the configuration fit into 64 bits.
static void nothing_is_lost_by_calling_often(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 1500; round++) {
        unsigned bits = (unsigned)base_prng_below(&prng, 64); // of interval_us; refill has the rest
        struct pol_ratelimit_config config = {
            .burst = UINT64_MAX,
            .refill = base_prng_next(&prng) >> 1 >> bits,
            .interval_us = 1 + (base_prng_next(&prng) >> 1 >> (63 - bits)),
        };
        if (round % 3 == 0) { // round numbers, so that remainders meet the divisor exactly
            config.refill = (uint64_t)1 << base_prng_below(&prng, 64 - bits);
            config.interval_us = (uint64_t)1 << base_prng_below(&prng, bits + 1);
        }
        struct pol_ratelimit limit;
        pol_ratelimit_init(&limit, &config, 0);
        limit.tokens = 0;
        uint64_t now = 0;
        uint64_t span = base_prng_next(&prng) >> (20 + base_prng_below(&prng, 40));
        for (unsigned call = 0; call < 50; call++) {
            uint64_t step = base_prng_below(&prng, span / 50 + 1);
            now += round % 3 == 0 ? step & ~(step - 1) : step; // its lowest bit
            (void)pol_ratelimit_take(&limit, &config, 0, now);
        }
        unsigned __int128 flow = (unsigned __int128)now * config.refill;
        unsigned __int128 tokens = flow / config.interval_us;
        if (tokens >= UINT64_MAX) {
            assert_true(limit.tokens == UINT64_MAX);
            continue;
        }
        assert_true(limit.tokens == (uint64_t)tokens);
        assert_true(limit.remainder == (uint64_t)(flow % config.interval_us));
    }
}

// Whatever the configuration: less at most, never more than what flowed in.
static void saturated_products_grant_no_more(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    unsigned less = 0;
    for (unsigned round = 0; round < 1500; round++) {
        struct pol_ratelimit_config config = {
            .burst = UINT64_MAX,
            .refill = base_prng_next(&prng) >> base_prng_below(&prng, 64),
            .interval_us = 1 + (base_prng_next(&prng) >> base_prng_below(&prng, 64)) / 2,
        };
        struct pol_ratelimit limit;
        pol_ratelimit_init(&limit, &config, 0);
        limit.tokens = 0;
        uint64_t now = 0;
        for (unsigned call = 0; call < 50; call++) {
            now += base_prng_next(&prng) >> (6 + base_prng_below(&prng, 58));
            (void)pol_ratelimit_take(&limit, &config, 0, now);
        }
        unsigned __int128 tokens = (unsigned __int128)now * config.refill / config.interval_us;
        assert_true(limit.tokens <= tokens);
        less += limit.tokens < tokens && limit.tokens < UINT64_MAX;
    }
    assert_true(less > 0);
}

static void sums_saturate(void **state)
{
    (void)state;
    struct pol_ratelimit_config config = {
        .burst = UINT64_MAX, .refill = UINT64_MAX, .interval_us = 1};
    struct pol_ratelimit limit;
    pol_ratelimit_init(&limit, &config, 0);
    assert_true(pol_ratelimit_take(&limit, &config, UINT64_MAX, 0));
    assert_true(pol_ratelimit_take(&limit, &config, UINT64_MAX, 1));
    assert_true(pol_ratelimit_take(&limit, &config, UINT64_MAX, UINT64_MAX));
    assert_false(pol_ratelimit_take(&limit, &config, 1, UINT64_MAX));
    config.interval_us = UINT64_MAX;
    pol_ratelimit_init(&limit, &config, 0);
    assert_true(pol_ratelimit_take(&limit, &config, UINT64_MAX, 0));
    assert_true(pol_ratelimit_take(&limit, &config, 1, UINT64_MAX - 1)); // of the greatest product
    assert_false(pol_ratelimit_take(&limit, &config, 1, UINT64_MAX - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(burst_then_rate),
        cmocka_unit_test(time_going_back_adds_nothing),
        cmocka_unit_test(no_refill_without_interval),
        cmocka_unit_test(a_full_bucket_does_not_save_up),
        cmocka_unit_test(configurations_may_change),
        cmocka_unit_test(nothing_is_lost_by_calling_often),
        cmocka_unit_test(saturated_products_grant_no_more),
        cmocka_unit_test(sums_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

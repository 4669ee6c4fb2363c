// Buckets: pinned values, uniformity, stickiness, independence of rollouts.
#include "test_kit.h"

#include "policy/bucket.h"
#include "policy/rollout.h"

#define DEVICES 1000000u

// Computed from the definition by another program: bucket = mix(id ^ mix(salt)) * 10000 >> 64, with
//   mix(x): x += 0x9e3779b97f4a7c15; x = (x ^ x>>30) * 0xbf58476d1ce4e5b9;
//           x = (x ^ x>>27) * 0x94d049bb133111eb; x ^ x>>31
static void values_are_pinned(void **state)
{
    (void)state;
    static const struct {
        uint64_t device_id;
        uint64_t salt;
        uint16_t bucket;
    } rows[] = {
        {0, 0, 6524},
        {1, 0, 340},
        {0, 1, 3681},
        {1, 1, 9140},
        {0x0123456789abcdefu, 0xfedcba9876543210u, 6931},
        {UINT64_MAX, UINT64_MAX, 3868},
        {42, 0xdeadbeef, 7227},
        {1000000, 7, 510},
        {0xffffffff, (uint64_t)1 << 63, 9273},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        assert_int_equal(pol_bucket(rows[i].device_id, rows[i].salt), rows[i].bucket);
    }
}

// The three ways in which ids are given out: by counting, by chance, with low bits constant.
static uint64_t device(unsigned how, uint64_t number)
{
    switch (how) {
    case 0:
        return number;
    case 1:
        return base_mix64(number + 77);
    default:
        return number << 40;
    }
}

static void buckets_are_uniform(void **state)
{
    (void)state;
    static unsigned counts[POL_BUCKET_COUNT];
    static const uint64_t salts[] = {0, 1, 0x8000000000000000u, 0x123456789abcdef0u};
    for (unsigned how = 0; how < 3; how++) {
        for (size_t s = 0; s < TEST_COUNT(salts); s++) {
            memset(counts, 0, sizeof counts);
            uint64_t devices = how == 2 ? 1u << 20 : DEVICES;
            for (uint64_t i = 0; i < devices; i++) {
                counts[pol_bucket(device(how, i), salts[s])]++;
            }
            double expected = (double)devices / POL_BUCKET_COUNT;
            double chi_square = 0;
            for (unsigned b = 0; b < POL_BUCKET_COUNT; b++) {
                double off = (double)counts[b] - expected;
                chi_square += off * off / expected;
            }
            // 9,999 degrees of freedom: mean 9,999, deviation 141.4; five of them either way.
            printf("ids %u salt %zu chi-square %.0f\n", how, s, chi_square);
            assert_true(chi_square > 9292 && chi_square < 10706);
        }
    }
}

// Devices admitted at a share stay admitted at every larger one: trivially so when the bucket does
// not depend on the share, so what is checked is that shares are what they claim.
static void shares_are_what_they_claim(void **state)
{
    (void)state;
    static const uint16_t shares[] = {1, 10, 100, 500, 1000, 5000, 9999, 10000};
    unsigned inside[TEST_COUNT(shares)] = {0};
    for (uint64_t i = 0; i < DEVICES; i++) {
        uint16_t bucket = pol_bucket(i, 99);
        assert_true(bucket < POL_BUCKET_COUNT);
        assert_int_equal(bucket, pol_bucket(i, 99));
        for (size_t s = 0; s < TEST_COUNT(shares); s++) {
            inside[s] += bucket < shares[s];
        }
    }
    for (size_t s = 0; s < TEST_COUNT(shares); s++) {
        double share = shares[s] / 10000.0;
        double wanted = DEVICES * share;
        double off = (double)inside[s] - wanted;
        double variance = DEVICES * share * (1 - share);
        assert_true(off * off <= 25 * variance);
    }
    assert_int_equal(inside[TEST_COUNT(shares) - 1], DEVICES);
}

// Two rollouts of 10 % share 10 % of their devices (1 % of all), whichever salts they drew: also
// when these are neighbours or differ in a single bit.
static void rollouts_pick_different_devices(void **state)
{
    (void)state;
    static const struct {
        uint64_t a;
        uint64_t b;
    } rows[] = {{0, 1}, {1, 2}, {0, (uint64_t)1 << 63}, {7, 7000}, {UINT64_MAX, 0}};
    for (size_t r = 0; r < TEST_COUNT(rows); r++) {
        for (unsigned how = 0; how < 2; how++) {
            unsigned both = 0;
            for (uint64_t i = 0; i < DEVICES; i++) {
                uint64_t id = device(how, i);
                both += pol_bucket(id, rows[r].a) < 1000 && pol_bucket(id, rows[r].b) < 1000;
            }
            // 10,000 expected, deviation 99.5: five of them.
            printf("salts %zu ids %u overlap %u\n", r, how, both);
            assert_in_range(both, 9502, 10498);
        }
    }
}

// Flipping any one bit of id or salt moves the bucket by a random amount: the mean distance of two
// independent uniform buckets is a third of the range.
static void every_bit_matters(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 128; bit++) {
        uint64_t distance = 0;
        for (uint64_t i = 0; i < 2000; i++) {
            uint64_t id = base_mix64(i);
            uint64_t salt = base_mix64(i + 5000);
            int a = pol_bucket(id, salt);
            uint64_t flip = (uint64_t)1 << bit % 64;
            int b = bit < 64 ? pol_bucket(id ^ flip, salt) : pol_bucket(id, salt ^ flip);
            distance += (uint64_t)(a > b ? a - b : b - a);
        }
        assert_in_range(distance / 2000, 3000, 3670);
    }
}

// The properties that are promised of cohorts, on a million ids: uniform at the 1 % level, nobody
// evicted while the share grows, and two cohorts of 10 % share 10 % (+- 0.2) of their devices. The
// cohort is what the rollout machine admits, not the bucket alone.
static bool admitted(uint64_t device_id, uint64_t salt, uint16_t share)
{
    struct pol_stage stage = {.kind = POL_STAGE_GRAY, .max_bucket = share};
    struct pol_rollout rollout = {.state = POL_ROLLOUT_RUNNING};
    return pol_rollout_admits(&rollout, &stage, 1,
                              (struct pol_candidate){.targeted = true,
                                                     .audience_mask = 1,
                                                     .bucket = pol_bucket(device_id, salt)})
        .matched;
}

static double chi_square_of(uint64_t salt)
{
    static unsigned counts[POL_BUCKET_COUNT];
    double expected = DEVICES / (double)POL_BUCKET_COUNT;
    double chi_square = 0;
    memset(counts, 0, sizeof(counts));
    for (uint64_t i = 0; i < DEVICES; i++) {
        counts[pol_bucket(device(1, i), salt)]++;
    }
    for (unsigned b = 0; b < POL_BUCKET_COUNT; b++) {
        double off = (double)counts[b] - expected;
        chi_square += off * off / expected;
    }
    return chi_square;
}

static void cohorts_of_a_million_are_uniform(void **state)
{
    (void)state;
    const unsigned rollouts = 32;
    double sum = 0;
    unsigned unlikely = 0;
    for (uint64_t r = 0; r < rollouts; r++) {
        double chi_square = chi_square_of(base_mix64(r));
        sum += chi_square;
        // 9,999 degrees of freedom: p = 0.01 is at 10,331.
        unlikely += chi_square > 10331;
    }
    printf("%u rollouts: chi-square %.0f on average, %u of them beyond p = 0.01\n", rollouts,
           sum / rollouts, unlikely);
    // 319,968 degrees of freedom together: p = 0.01 is at 321,833. One rollout in a hundred may be
    // beyond its own; of 32 more than three with p = 0.0001.
    assert_true(sum < 321833);
    assert_true(unlikely <= 3);
}

static void cohorts_of_a_million_stick_and_differ(void **state)
{
    (void)state;
    static const uint16_t shares[] = {1, 10, 100, 500, 1000, 2500, 5000, 10000};
    const uint64_t salt_a = 0x5a17000000000001u;
    const uint64_t salt_b = 0x5a17000000000002u;
    unsigned evicted = 0;
    unsigned in_a = 0;
    unsigned in_b = 0;
    unsigned in_both = 0;
    for (uint64_t i = 0; i < DEVICES; i++) {
        uint64_t id = device(1, i);
        bool before = false;
        for (size_t s = 0; s < TEST_COUNT(shares); s++) {
            bool now = admitted(id, salt_a, shares[s]);
            evicted += before && !now;
            before = now;
        }
        assert_true(before);
        bool a = admitted(id, salt_a, 1000);
        bool b = admitted(id, salt_b, 1000);
        in_a += a;
        in_b += b;
        in_both += a && b;
    }
    double overlap = 100.0 * in_both / in_a;
    printf("evicted %u, cohorts of %u and %u, overlap %.3f %%\n", evicted, in_a, in_b, overlap);
    assert_int_equal(evicted, 0);
    assert_true(overlap > 9.8 && overlap < 10.2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_pinned),
        cmocka_unit_test(buckets_are_uniform),
        cmocka_unit_test(shares_are_what_they_claim),
        cmocka_unit_test(rollouts_pick_different_devices),
        cmocka_unit_test(every_bit_matters),
        cmocka_unit_test(cohorts_of_a_million_are_uniform),
        cmocka_unit_test(cohorts_of_a_million_stick_and_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The split of callers between two versions and what is counted of them: shares within bounds for
// random callers, one caller on one version, and shares that only grow; the bound of who was slow.
#include "test_kit.h"

#include "infer/split/infer_split.h"
#include "policy/bucket.h"

#include <math.h>

// Of `count` callers a share of `buckets` takes as many as chance would, within six deviations; and
// whoever is in a share is in every larger one of the same salt.
static void test_shares(void **state)
{
    static const uint16_t shares[] = {1, 10, 100, 500, 1000, 5000, 9000};
    enum { COUNT = 200000 };
    struct base_prng prng;
    (void)state;
    test_seed(&prng);
    for (uint32_t turn = 0; turn < 5; turn++) {
        uint64_t salt = base_prng_next(&prng);
        uint64_t first = base_prng_next(&prng);
        uint32_t taken[TEST_COUNT(shares)] = {0};
        for (uint64_t i = 0; i < COUNT; i++) {
            // Numbers in a row as well as drawn ones: a hash may not care.
            uint64_t caller = turn % 2 == 0 ? first + i : base_prng_next(&prng);
            bool before = false;
            for (size_t k = 0; k < TEST_COUNT(shares); k++) {
                const struct gw_infer_split split = {.salt = salt, .share = shares[k]};
                bool has = gw_infer_split_has(&split, caller);
                assert_true(has || !before);
                assert_int_equal(gw_infer_split_has(&split, caller), has);
                taken[k] += has;
                before = has;
            }
        }
        for (size_t k = 0; k < TEST_COUNT(shares); k++) {
            double share = (double)shares[k] / POL_BUCKET_COUNT;
            double deviation = sqrt(COUNT * share * (1 - share));
            if (fabs(taken[k] - COUNT * share) > 6 * deviation) {
                fail_msg("a share of %u took %u of %d", shares[k], taken[k], COUNT);
            }
        }
    }
}

// Another release takes other callers; shadows have nothing to do with who is in the share.
static void test_salts(void **state)
{
    enum { COUNT = 100000 };
    const struct gw_infer_split one = {.salt = 1, .share = 5000, .shadow = 5000};
    const struct gw_infer_split other = {.salt = 2, .share = 5000, .shadow = 5000};
    uint32_t same = 0;
    uint32_t both = 0;
    (void)state;
    for (uint64_t i = 0; i < COUNT; i++) {
        same += gw_infer_split_has(&one, i) == gw_infer_split_has(&other, i);
        both += gw_infer_split_has(&one, i) == gw_infer_split_shadows(&one, i);
    }
    assert_in_range(same, COUNT * 49 / 100, COUNT * 51 / 100);
    assert_in_range(both, COUNT * 49 / 100, COUNT * 51 / 100);
}

static void test_ends(void **state)
{
    const struct gw_infer_split none = {.salt = 7};
    const struct gw_infer_split all = {.salt = 7, .shadow = POL_BUCKET_COUNT};
    (void)state;
    for (uint64_t i = 0; i < 10000; i++) {
        assert_false(gw_infer_split_has(&none, i));
        assert_false(gw_infer_split_shadows(&none, i));
        assert_true(gw_infer_split_shadows(&all, i));
    }
}

// Never more than there are beyond the limit, and of values well beyond it each.
static void test_over(void **state)
{
    struct gw_infer_trial trial;
    struct base_prng prng;
    uint64_t values[2000];
    (void)state;
    test_seed(&prng);
    gw_infer_trial_init(&trial);
    for (size_t i = 0; i < TEST_COUNT(values); i++) {
        values[i] = base_prng_below(&prng, UINT64_C(1) << (1 + i % 30));
        base_hist_add(&trial.candidate.us, values[i]);
    }
    for (size_t turn = 0; turn < 500; turn++) {
        uint64_t limit = base_prng_below(&prng, UINT64_C(1) << (1 + turn % 30));
        uint64_t over = 0;
        uint64_t well_over = 0;
        for (size_t i = 0; i < TEST_COUNT(values); i++) {
            over += values[i] > limit;
            well_over += values[i] > limit + limit / 16 + 1;
        }
        assert_in_range(gw_infer_seen_over(&trial.candidate, limit), well_over, over);
    }
    assert_int_equal(gw_infer_seen_over(&trial.serving, 0), 0);
}

// Each caller counts so often, of each kind; what is kept of the one that counted most is right.
static void test_callers_count_so_often(void **state)
{
    const struct base_hash_key key = {3, 4};
    struct gw_infer_callers *callers = calloc(1, sizeof(*callers));
    (void)state;
    assert_non_null(callers);
    for (uint32_t per_caller = 0; per_caller <= 7; per_caller += 7) {
        struct gw_infer_most most = {0};
        struct gw_infer_most other = {0};
        uint32_t counted = 0;
        gw_infer_callers_init(callers, &key, per_caller);
        for (uint32_t i = 0; i < 100; i++) { // one that is bad every third time
            bool full = gw_infer_callers_full(callers, GW_INFER_COUNTED_SERVING, 1);
            bool taken =
                gw_infer_callers_count(callers, GW_INFER_COUNTED_SERVING, 1, i % 3 > 0, &most);
            assert_int_equal(taken, !full);
            counted += taken;
        }
        assert_int_equal(counted, per_caller > 0 ? per_caller : 100);
        assert_int_equal(most.good, per_caller > 0 ? 4 : 0);
        assert_int_equal(most.bad, per_caller > 0 ? 3 : 0);
        assert_int_equal(most.callers, per_caller > 0 ? 1 : 0);
        assert_true(gw_infer_callers_count(callers, GW_INFER_COUNTED_SHADOW, 1, true, &other));
        counted = 0;
        for (uint64_t who = 2; who < 1002; who++) { // most of them in slots of their own
            counted += gw_infer_callers_count(callers, GW_INFER_COUNTED_SERVING, who, true, &most);
        }
        assert_in_range(counted, 990, 1000);
        assert_in_range(most.callers, per_caller > 0 ? 900 : 0, per_caller > 0 ? 1001 : 0);
    }
    // More callers than slots: as often as all slots may, and no more.
    gw_infer_callers_init(callers, &key, 2);
    struct gw_infer_most most = {0};
    uint32_t counted = 0;
    for (uint64_t who = 0; who < 20 * GW_INFER_CALLER_SLOTS; who++) {
        counted += gw_infer_callers_count(callers, GW_INFER_COUNTED_CANDIDATE, who, true, &most);
    }
    assert_int_equal(counted, 2 * GW_INFER_CALLER_SLOTS);
    free(callers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_salts),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_over),
        cmocka_unit_test(test_callers_count_so_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

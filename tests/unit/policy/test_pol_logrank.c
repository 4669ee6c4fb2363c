// The log-rank test: bets that are fair over every way to divide a block, beside a slow reading of
// the definition, in any order of blocks, and blocks at their ends.
#include "block_play.h"
#include "test_kit.h"

#include "policy/stat/evidence.h"
#include "policy/stat/logrank.h"

#include <math.h>

#define SEED 20261123u

// ---- The definition, device by device ----

static const double hazards[POL_LOGRANK_RATIOS] = {1.25, 1.625, 2.5, 5, 12, 50};
static const double weights[POL_LOGRANK_RATIOS] = {0.5, 0.7, 1, 1, 1, 1};

static double wealth(const struct pol_logrank *logrank, uint32_t ratio)
{
    return exp2((double)logrank->wealth[ratio] / 4294967296.0);
}

struct device {
    bool updated;
    bool failed;
};

// The mean hazard of those who have not failed, when an updated device has `ratio` times control's.
static double mean_hazard(const struct device *devices, uint32_t count, double ratio, bool all)
{
    double sum = 0;
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (all || !devices[i].failed) {
            sum += devices[i].updated ? ratio : 1;
            left++;
        }
    }
    return sum / left;
}

static double share_updated(const struct device *devices, uint32_t count)
{
    uint32_t updated = 0;
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        updated += !devices[i].failed && devices[i].updated;
        left += !devices[i].failed;
    }
    return (double)updated / left;
}

// What the failure of devices[which] multiplies the wealth by.
static double slow_gain(const struct device *devices, uint32_t count, uint32_t which, double ratio)
{
    double share = share_updated(devices, count);
    double most = ratio / mean_hazard(devices, count, ratio, true);
    double gain = ratio / mean_hazard(devices, count, ratio, false);
    gain = gain < most ? gain : most;
    if (share <= 0 || share >= 1) {
        return 1;
    }
    return devices[which].updated ? gain : (1 - share * gain) / (1 - share);
}

static uint32_t draw_devices(struct base_prng *prng, struct device *devices, uint32_t max)
{
    uint32_t count = 1 + (uint32_t)base_prng_below(prng, max);
    double share = base_prng_unit(prng);
    for (uint32_t i = 0; i < count; i++) {
        devices[i] = (struct device){.updated = base_prng_unit(prng) < share};
    }
    return count;
}

static enum pol_cohort cohort_of(const struct device *device)
{
    return device->updated ? POL_COHORT_UPDATED : POL_COHORT_CONTROL;
}

#define DEVICES_MAX 120u

// Plays a block beside the definition; logs[] are natural logarithms of the wealth.
static void play_block(struct base_prng *prng, uint32_t tolerated_ppm, struct pol_logrank *logrank,
                       double logs[POL_LOGRANK_RATIOS])
{
    struct device devices[DEVICES_MAX];
    struct pol_block block = {.closed = false};
    uint32_t count = draw_devices(prng, devices, DEVICES_MAX);
    uint32_t failures = (uint32_t)base_prng_below(prng, count + 1);
    uint32_t closed_after = (uint32_t)base_prng_below(prng, POL_BLOCK_WAITING_MAX + 10);
    double r = tolerated_ppm / 1e6;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(block_offer(&block, cohort_of(&devices[i])));
        for (uint32_t k = 0; k < POL_LOGRANK_RATIOS && devices[i].updated; k++) {
            double most = hazards[k] / mean_hazard(devices, count, hazards[k], true);
            logs[k] -= log1p(r * (most - 1));
        }
    }
    for (uint32_t i = 0; i < failures; i++) {
        uint32_t which = (uint32_t)base_prng_below(prng, count);
        while (devices[which].failed) {
            which = (which + 1) % count;
        }
        if (i == closed_after) {
            pol_block_close(&block, tolerated_ppm, logrank);
        }
        bool before = base_prng_below(prng, 2) == 0;
        assert_true(!before || block_succeed(&block, cohort_of(&devices[which])));
        assert_true(
            pol_block_fail(&block, cohort_of(&devices[which]), before, tolerated_ppm, logrank));
        assert_true(pol_block_valid(&block));
        for (uint32_t k = 0; k < POL_LOGRANK_RATIOS; k++) {
            logs[k] += log(slow_gain(devices, count, which, hazards[k]));
        }
        devices[which].failed = true;
    }
    pol_block_close(&block, tolerated_ppm, logrank);
}

static void the_definition_is_met(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED);
    print_message("seed %u\n", SEED);
    double furthest = 0;
    for (uint32_t run = 0; run < 200; run++) {
        uint32_t tolerated_ppm = run % 3 == 0 ? 0 : (uint32_t)base_prng_below(&prng, 200000);
        struct pol_logrank logrank = {{0}};
        double logs[POL_LOGRANK_RATIOS] = {0};
        uint32_t blocks = 1 + (uint32_t)base_prng_below(&prng, 8);
        for (uint32_t i = 0; i < blocks; i++) {
            play_block(&prng, tolerated_ppm, &logrank, logs);
        }
        double sum = 0;
        double weight = 0;
        for (uint32_t k = 0; k < POL_LOGRANK_RATIOS; k++) {
            double mine = log(2) * (double)logrank.wealth[k] / 4294967296.0;
            double above = mine - logs[k];
            if (above > 1e-9 || above < -1e-5) {
                fail_msg("run %u, ratio %u: %.12g, not %.12g", run, k, mine, logs[k]);
            }
            furthest = above < furthest ? above : furthest;
            sum += weights[k] * exp(logs[k]);
            weight += weights[k];
        }
        double evidence = pol_logrank_evidence(&logrank);
        double expected = log(sum / weight);
        if (expected < POL_EVIDENCE_MAX && fabs(evidence - expected) > 3e-5) {
            fail_msg("run %u: evidence %.9g, not %.9g", run, evidence, expected);
        }
    }
    print_message("rounded down by %.3g at most\n", -furthest);
}

// ---- Fair over every division of a block ----

struct sum {
    double mean[POL_LOGRANK_RATIOS];
};

// Adds up wealth times probability after `failures` more failures, over all orders of cohorts: any
// device left is the next to fail, whatever its cohort.
static void over_all(const struct pol_block *block, const struct pol_logrank *logrank,
                     uint32_t failures, double chance, struct sum *sum)
{
    uint32_t left[POL_COHORT_COUNT];
    uint32_t all = 0;
    for (int i = 0; i < POL_COHORT_COUNT; i++) {
        left[i] = block->offered[i] - block->failed[i];
        all += left[i];
    }
    if (failures == 0 || all == 0) {
        struct pol_block closed = *block;
        struct pol_logrank last = *logrank;
        pol_block_close(&closed, 0, &last);
        for (uint32_t k = 0; k < POL_LOGRANK_RATIOS; k++) {
            sum->mean[k] += chance * wealth(&last, k);
        }
        return;
    }
    for (int i = 0; i < POL_COHORT_COUNT; i++) {
        struct pol_block next = *block;
        struct pol_logrank after = *logrank;
        if (left[i] > 0) {
            assert_true(pol_block_fail(&next, (enum pol_cohort)i, false, 0, &after));
            over_all(&next, &after, failures - 1, chance * left[i] / all, sum);
        }
    }
}

static struct pol_block block_of(uint32_t updated, uint32_t control)
{
    struct pol_block block = {.closed = false};
    for (uint32_t i = 0; i < updated; i++) {
        assert_true(block_offer(&block, POL_COHORT_UPDATED));
    }
    for (uint32_t i = 0; i < control; i++) {
        assert_true(block_offer(&block, POL_COHORT_CONTROL));
    }
    return block;
}

static void check_means(const struct sum *sum, const char *what, uint32_t updated, uint32_t control,
                        uint32_t failures)
{
    for (uint32_t k = 0; k < POL_LOGRANK_RATIOS; k++) {
        if (sum->mean[k] > 1 + 1e-12 || sum->mean[k] < 1 - 1e-6) {
            fail_msg("%s, %u updated, %u control, %u failures, ratio %u: mean %.15g", what, updated,
                     control, failures, k, sum->mean[k]);
        }
    }
}

static void bets_are_fair(void **state)
{
    (void)state;
    for (uint32_t updated = 0; updated <= 6; updated++) {
        for (uint32_t control = 0; control <= 6; control++) {
            for (uint32_t failures = 0; failures <= updated + control; failures++) {
                struct sum early = {{0}};
                struct sum late = {{0}};
                struct pol_logrank logrank = {{0}};
                struct pol_block block = block_of(updated, control);
                over_all(&block, &logrank, failures, 1, &early);
                check_means(&early, "open", updated, control, failures);
                pol_block_close(&block, 0, &logrank);
                over_all(&block, &logrank, failures, 1, &late);
                check_means(&late, "closed", updated, control, failures);
            }
        }
    }
}

// With a tolerated rise: every updated device fails besides with that chance, at the beginning or
// at the end, and the mean is still at most 1.
static double binomial(uint32_t n, uint32_t k, double p)
{
    double chance = 1;
    for (uint32_t i = 0; i < k; i++) {
        chance *= p * (n - i) / (i + 1);
    }
    return chance * pow(1 - p, n - k);
}

static void strike(struct pol_block *block, uint32_t count, struct pol_logrank *logrank)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_true(pol_block_fail(block, POL_COHORT_UPDATED, false, 0, logrank));
    }
}

static void a_tolerated_rise_wins_nothing(void **state)
{
    (void)state;
    static const uint32_t rises_ppm[] = {1000, 50000, 300000, 1000000};
    double highest = 0;
    for (size_t r = 0; r < TEST_COUNT(rises_ppm); r++) {
        for (uint32_t size = 0; size < 36; size++) {
            uint32_t updated = 1 + size % 6;
            uint32_t control = 1 + size / 6;
            for (uint32_t failures = 0; failures <= control; failures++) {
                struct sum sum = {{0}};
                for (uint32_t struck = 0; struck <= updated; struck++) {
                    struct pol_block block = block_of(updated, control);
                    struct pol_logrank logrank = {{0}};
                    pol_block_close(&block, rises_ppm[r], &logrank);
                    strike(&block, struck, &logrank);
                    over_all(&block, &logrank, failures,
                             binomial(updated, struck, rises_ppm[r] / 1e6), &sum);
                }
                for (uint32_t k = 0; k < POL_LOGRANK_RATIOS; k++) {
                    highest = sum.mean[k] > highest ? sum.mean[k] : highest;
                    assert_true(sum.mean[k] <= 1 + 1e-9);
                }
            }
        }
    }
    print_message("mean at most %.9f\n", highest);
    assert_true(highest > 0.99); // and the price is no higher than it must be
}

// ---- Order ----

// Equal reports of each block give equal wealth, however blocks are mixed.
static void blocks_may_be_played_one_by_one(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, SEED + 1);
    enum { BLOCKS = 7, FAILURES = 40 };
    struct pol_block mixed[BLOCKS];
    struct pol_block single[BLOCKS];
    uint8_t cohorts[BLOCKS][FAILURES];
    uint32_t done[BLOCKS] = {0};
    struct pol_logrank first = {{0}};
    struct pol_logrank second = {{0}};
    for (uint32_t i = 0; i < BLOCKS; i++) {
        mixed[i] = single[i] = block_of(FAILURES, FAILURES + 3 * i);
        for (uint32_t k = 0; k < FAILURES; k++) {
            cohorts[i][k] = (uint8_t)base_prng_below(&prng, POL_COHORT_COUNT);
        }
    }
    for (uint32_t i = 0; i < BLOCKS * FAILURES; i++) {
        uint32_t at = (uint32_t)base_prng_below(&prng, BLOCKS);
        while (done[at] == FAILURES) {
            at = (at + 1) % BLOCKS;
        }
        enum pol_cohort cohort = (enum pol_cohort)cohorts[at][done[at]++];
        assert_true(pol_block_fail(&mixed[at], cohort, false, 3000, &first));
        if (base_prng_below(&prng, 30) == 0) {
            pol_block_close(&mixed[at], 3000, &first);
        }
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        pol_block_close(&mixed[i], 3000, &first);
        pol_block_close(&single[i], 3000, &second);
        for (uint32_t k = 0; k < FAILURES; k++) {
            assert_true(
                pol_block_fail(&single[i], (enum pol_cohort)cohorts[i][k], false, 3000, &second));
        }
        assert_memory_equal(&mixed[i], &single[i], sizeof(mixed[i]));
    }
    assert_memory_equal(&first, &second, sizeof(first));
}

static void failures_speak_for_their_cohort(void **state)
{
    (void)state;
    struct pol_block block = block_of(1000, 4000);
    struct pol_logrank logrank = {{0}};
    pol_block_close(&block, 0, &logrank);
    assert_true(pol_logrank_evidence(&logrank) == 0);
    double before = 0;
    for (uint32_t i = 0; i < 20; i++) {
        assert_true(pol_block_fail(&block, POL_COHORT_UPDATED, false, 0, &logrank));
        assert_true(pol_logrank_evidence(&logrank) > before);
        before = pol_logrank_evidence(&logrank);
    }
    assert_true(before > log(1000));
    for (uint32_t i = 0; i < 200; i++) {
        assert_true(pol_block_fail(&block, POL_COHORT_CONTROL, false, 0, &logrank));
        assert_true(pol_logrank_evidence(&logrank) < before);
        before = pol_logrank_evidence(&logrank);
    }
    // Four times as many devices, ten times as many failures.
    assert_true(before < 0);
}

static void without_a_choice_nothing_is_bet(void **state)
{
    (void)state;
    struct pol_logrank logrank = {{0}};
    struct pol_block block = block_of(50, 0);
    for (uint32_t i = 0; i < 50; i++) {
        assert_true(pol_block_fail(&block, POL_COHORT_UPDATED, false, 0, &logrank));
    }
    pol_block_close(&block, 0, &logrank);
    block = block_of(0, 50);
    for (uint32_t i = 0; i < 50; i++) {
        assert_true(pol_block_fail(&block, POL_COHORT_CONTROL, false, 900000, &logrank));
    }
    pol_block_close(&block, 900000, &logrank);
    for (uint32_t k = 0; k < POL_LOGRANK_RATIOS; k++) {
        assert_true(logrank.wealth[k] == 0);
    }
}

// ---- Ends ----

static void blocks_at_their_ends(void **state)
{
    (void)state;
    struct pol_logrank logrank = {{0}};
    struct pol_block block = {.offered = {POL_BLOCK_DEVICES_MAX - 1, 0}};
    assert_true(block_offer(&block, POL_COHORT_UPDATED));
    assert_false(block_offer(&block, POL_COHORT_UPDATED));
    assert_true(pol_block_valid(&block));
    pol_block_close(&block, 1000000, &logrank);
    assert_true(pol_block_fail(&block, POL_COHORT_UPDATED, false, 0, &logrank));
    assert_false(pol_block_fail(&block, POL_COHORT_UPDATED, false, 0, &logrank)); // it had one
    assert_false(block_succeed(&block, POL_COHORT_UPDATED));
    assert_true(block_succeed(&block, POL_COHORT_CONTROL));
    assert_false(pol_block_fail(&block, POL_COHORT_UPDATED, true, 0, &logrank));
    assert_true(pol_block_fail(&block, POL_COHORT_CONTROL, true, 0, &logrank));
    assert_int_equal(block.succeeded[POL_COHORT_CONTROL], 0);

    block = block_of(2, 1); // who refused is not awaited, and fails nobody's bet
    assert_true(block_refuse(&block, POL_COHORT_UPDATED));
    assert_true(block_succeed(&block, POL_COHORT_UPDATED));
    assert_false(block_refuse(&block, POL_COHORT_UPDATED));
    assert_false(pol_block_fail(&block, POL_COHORT_UPDATED, false, 0, &logrank));
    assert_true(pol_block_valid(&block));

    block = block_of(100, 100);
    for (uint32_t i = 0; i < POL_BLOCK_WAITING_MAX; i++) {
        assert_true(pol_block_fail(&block, (enum pol_cohort)(i % 2), false, 0, &logrank));
        assert_false(block.closed);
    }
    assert_true(pol_block_valid(&block));
    assert_true(pol_block_fail(&block, POL_COHORT_CONTROL, false, 0, &logrank));
    assert_true(block.closed && block.waiting == 0 && pol_block_valid(&block));
    assert_int_equal(block.failed[POL_COHORT_CONTROL], POL_BLOCK_WAITING_MAX / 2 + 1);
    assert_false(block_offer(&block, POL_COHORT_CONTROL));
}

static void damaged_blocks_are_seen(void **state)
{
    (void)state;
    static const struct pol_block damaged[] = {
        {.offered = {5, 5}, .failed = {6, 0}, .closed = true},
        {.offered = {5, 5}, .failed = {3, 0}, .succeeded = {3, 0}, .closed = true},
        {.offered = {5, 5}, .succeeded = {0, UINT32_MAX}, .closed = true},
        {.offered = {5, 5}, .succeeded = {3, 0}, .refused = {3, 0}, .closed = true},
        {.offered = {5, 5}, .failed = {UINT32_MAX, 1}, .succeeded = {6, 0}, .closed = true},
        {.offered = {POL_BLOCK_DEVICES_MAX, 1}},
        {.offered = {UINT32_MAX, UINT32_MAX}},
        {.offered = {5, 5}, .waiting = 1, .closed = true},
        {.offered = {500, 500}, .failed = {40, 25}, .waiting = 65},
        {.offered = {5, 5}, .failed = {1, 0}},
        {.offered = {5, 5}, .failed = {1, 0}, .waiting = 1, .waiting_updated = 1},
        {.offered = {5, 5}, .failed = {0, 1}, .waiting = 1, .waiting_updated = 2},
    };
    for (size_t i = 0; i < TEST_COUNT(damaged); i++) {
        if (pol_block_valid(&damaged[i])) {
            fail_msg("block %zu is taken for whole", i);
        }
    }
}

static void wealth_has_ends(void **state)
{
    (void)state;
    struct pol_logrank logrank = {
        .wealth = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}};
    struct pol_block block = block_of(10, 10);
    pol_block_close(&block, 0, &logrank);
    assert_true(pol_block_fail(&block, POL_COHORT_UPDATED, false, 0, &logrank));
    assert_true(logrank.wealth[0] == INT64_MAX);
    assert_true(pol_logrank_evidence(&logrank) == POL_EVIDENCE_MAX);
    for (uint32_t k = 0; k < POL_LOGRANK_RATIOS; k++) {
        logrank.wealth[k] = INT64_MIN;
    }
    assert_true(pol_block_fail(&block, POL_COHORT_CONTROL, false, 0, &logrank));
    assert_true(logrank.wealth[0] == INT64_MIN);
    assert_true(pol_logrank_evidence(&logrank) == -POL_EVIDENCE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_definition_is_met),
        cmocka_unit_test(bets_are_fair),
        cmocka_unit_test(a_tolerated_rise_wins_nothing),
        cmocka_unit_test(blocks_may_be_played_one_by_one),
        cmocka_unit_test(failures_speak_for_their_cohort),
        cmocka_unit_test(without_a_choice_nothing_is_bet),
        cmocka_unit_test(blocks_at_their_ends),
        cmocka_unit_test(damaged_blocks_are_seen),
        cmocka_unit_test(wealth_has_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

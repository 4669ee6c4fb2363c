// Blocks of a trial and the bets on their failures, in whole numbers.
//
// Called by the gateway for every offer and report of a stage that has the rule, and by
// simulations; pure. See logrank.h for what is bet and why that is fair.
#include "policy/stat/logrank.h"

#include "policy/stat/evidence.h"

#define MILLION   UINT64_C(1000000)
#define UNIT      16u // ratios are in sixteenths
#define LOG_TWO   0.69314718055994530942
#define BITS_HIGH 63u

// Ratios of the hazards that the test looks for, and what it puts on each. Neighbours overlap:
// between 1.1 and several hundred every ratio is near enough to one.
static const uint32_t ratios[POL_LOGRANK_RATIOS] = {20, 26, 40, 80, 192, 800};
static const double weights[POL_LOGRANK_RATIOS] = {0.5, 0.7, 1, 1, 1, 1};

// ---- Logarithms in whole numbers ----

// log2(x) in 2^-POL_LOGRANK_BITS, not above the true one and less than two units below it; x > 0.
static int64_t log_low(uint64_t x)
{
    unsigned whole = BITS_HIGH - (unsigned)__builtin_clzll(x);
    uint64_t mantissa = x << (BITS_HIGH - whole); // 1..2, its point behind the first bit
    int64_t log = whole;
    for (int i = 0; i < POL_LOGRANK_BITS; i++) {
        unsigned __int128 square = (unsigned __int128)mantissa * mantissa;
        bool twice = (uint64_t)(square >> 127) != 0;
        mantissa = (uint64_t)(square >> (twice ? 64 : 63));
        log = log * 2 + twice;
    }
    return log;
}

// Not below the true one.
static int64_t log_high(uint64_t x)
{
    bool exact = (x & (x - 1)) == 0;
    return log_low(x) + (exact ? 0 : 2);
}

static void add(int64_t *wealth, int64_t gain)
{
    int64_t sum;
    if (__builtin_add_overflow(*wealth, gain, &sum)) {
        sum = gain > 0 ? INT64_MAX : INT64_MIN;
    }
    *wealth = sum;
}

// ---- Bets ----

// Of a block that is closed: who was offered, and who has not failed.
struct odds {
    uint64_t updated;
    uint64_t all;
    uint64_t updated_left;
    uint64_t all_left;
};

static struct odds odds_of(const struct pol_block *block)
{
    uint64_t control = block->offered[POL_COHORT_CONTROL];
    uint64_t updated = block->offered[POL_COHORT_UPDATED];
    uint64_t updated_left = updated - block->failed[POL_COHORT_UPDATED];
    return (struct odds){.updated = updated,
                         .all = control + updated,
                         .updated_left = updated_left,
                         .all_left = updated_left + control - block->failed[POL_COHORT_CONTROL]};
}

// What a device costs that is drawn among `updated` of `all` at a ratio of hazards, in sixteenths.
static uint64_t mean_hazard(uint64_t updated, uint64_t all, uint32_t ratio)
{
    return (all - updated) * UNIT + updated * ratio;
}

// The gain of a bet at one ratio: for an updated device the hazard over the mean one of those left,
// but no more than it was at the beginning (the price of a tolerated rise is by that); for control
// what makes the two fair. Both sides of the fraction are below 2^53.
static int64_t gain(const struct odds *odds, enum pol_cohort cohort, uint32_t ratio)
{
    uint64_t first = mean_hazard(odds->updated, odds->all, ratio);
    uint64_t now = mean_hazard(odds->updated_left, odds->all_left, ratio);
    bool capped = odds->updated_left * odds->all < odds->updated * odds->all_left;
    if (cohort == POL_COHORT_UPDATED) {
        return capped ? log_low(ratio * odds->all) - log_high(first)
                      : log_low(ratio * odds->all_left) - log_high(now);
    }
    if (!capped) {
        return log_low(UNIT * odds->all_left) - log_high(now);
    }
    uint64_t rest = odds->all_left * first - odds->updated_left * ratio * odds->all;
    return log_low(rest) - log_high((odds->all_left - odds->updated_left) * first);
}

static void bet(const struct pol_block *block, enum pol_cohort cohort, struct pol_logrank *logrank)
{
    struct odds odds = odds_of(block);
    if (odds.updated_left == 0 || odds.updated_left == odds.all_left) {
        return; // nothing is left to chance
    }
    for (uint32_t i = 0; i < POL_LOGRANK_RATIOS; i++) {
        add(&logrank->wealth[i], gain(&odds, cohort, ratios[i]));
    }
}

// Each updated device may fail besides with a chance of at most `tolerated_ppm`, which multiplies
// the wealth by at most the first bet's gain u: on average by 1 + tolerated (u - 1).
static void pay(const struct pol_block *block, uint32_t tolerated_ppm, struct pol_logrank *logrank)
{
    struct odds odds = odds_of(block);
    uint64_t tolerated = tolerated_ppm < MILLION ? tolerated_ppm : MILLION;
    if (tolerated == 0 || odds.updated == 0) {
        return;
    }
    for (uint32_t i = 0; i < POL_LOGRANK_RATIOS; i++) {
        uint64_t first = mean_hazard(odds.updated, odds.all, ratios[i]);
        uint64_t surplus = (odds.all - odds.updated) * (ratios[i] - UNIT);
        int64_t price = log_high(MILLION * first + tolerated * surplus) - log_low(MILLION * first);
        add(&logrank->wealth[i], -price * (int64_t)odds.updated);
    }
}

// ---- Blocks ----

static uint64_t devices(const struct pol_block *block)
{
    return (uint64_t)block->offered[POL_COHORT_CONTROL] + block->offered[POL_COHORT_UPDATED];
}

// Whether a device of the cohort is left without an answer.
static bool awaited(const struct pol_block *block, enum pol_cohort cohort)
{
    return block->failed[cohort] + block->succeeded[cohort] + block->refused[cohort] <
           block->offered[cohort];
}

bool pol_block_valid(const struct pol_block *block)
{
    uint32_t failed = 0;
    for (int i = 0; i < POL_COHORT_COUNT; i++) {
        uint64_t answered = (uint64_t)block->failed[i] + block->succeeded[i] + block->refused[i];
        if (answered > block->offered[i]) {
            return false;
        }
        failed += block->failed[i];
    }
    if (devices(block) > POL_BLOCK_DEVICES_MAX || block->waiting > POL_BLOCK_WAITING_MAX) {
        return false;
    }
    bool all = block->waiting == POL_BLOCK_WAITING_MAX;
    uint64_t updated = all ? block->waiting_updated
                           : block->waiting_updated & ((UINT64_C(1) << block->waiting) - 1);
    return updated == block->waiting_updated &&
           (block->closed ? block->waiting == 0
                          : block->waiting == failed && (uint32_t)__builtin_popcountll(updated) ==
                                                            block->failed[POL_COHORT_UPDATED]);
}

void pol_block_close(struct pol_block *block, uint32_t tolerated_ppm, struct pol_logrank *logrank)
{
    if (block->closed) {
        return;
    }
    block->closed = true;
    for (int i = 0; i < POL_COHORT_COUNT; i++) {
        block->failed[i] = 0;
    }
    pay(block, tolerated_ppm, logrank);
    for (unsigned i = 0; i < block->waiting; i++) {
        bool updated = (block->waiting_updated >> i & 1) != 0;
        enum pol_cohort cohort = updated ? POL_COHORT_UPDATED : POL_COHORT_CONTROL;
        bet(block, cohort, logrank);
        block->failed[cohort]++;
    }
    block->waiting = 0;
    block->waiting_updated = 0;
}

bool pol_block_fail(struct pol_block *block, enum pol_cohort cohort, bool succeeded_before,
                    uint32_t tolerated_ppm, struct pol_logrank *logrank)
{
    if (succeeded_before ? block->succeeded[cohort] == 0 : !awaited(block, cohort)) {
        return false;
    }
    if (!block->closed && block->waiting == POL_BLOCK_WAITING_MAX) {
        pol_block_close(block, tolerated_ppm, logrank);
    }
    if (block->closed) {
        bet(block, cohort, logrank);
    } else {
        block->waiting_updated |= (uint64_t)(cohort == POL_COHORT_UPDATED) << block->waiting;
        block->waiting++;
    }
    block->failed[cohort]++;
    block->succeeded[cohort] -= succeeded_before;
    return true;
}

void pol_logrank_add(struct pol_logrank *to, const struct pol_logrank *won)
{
    for (uint32_t i = 0; i < POL_LOGRANK_RATIOS; i++) {
        add(&to->wealth[i], won->wealth[i]);
    }
}

double pol_logrank_evidence(const struct pol_logrank *logrank)
{
    double logs[POL_LOGRANK_RATIOS];
    for (uint32_t i = 0; i < POL_LOGRANK_RATIOS; i++) {
        logs[i] = (double)logrank->wealth[i] / (double)(UINT64_C(1) << POL_LOGRANK_BITS) * LOG_TWO;
    }
    return pol_evidence_mix(logs, weights, POL_LOGRANK_RATIOS);
}

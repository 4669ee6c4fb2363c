// Search for the slice that explains the failures. Fed and asked by the report writer after the
// run, on the coordinator's thread.
//
// Rows are grouped by their trait values first, so the search is over thousands of distinct rows
// and not over a million devices. Past the table's limit further new combinations only count in the
// cohorts.
#include "report/slice_mining.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GROUPS_MAX (1u << 17)
#define CONDS_MAX  250  // they are numbered by a byte; more are not looked at
#define SCORE_MIN  0.2  // below this no slice is named
#define GAIN_MIN   0.02 // what another condition must add to the score

struct group {
    uint64_t key; // trait values packed, + 1; 0: free
    uint32_t devices;
    uint32_t failed;
};

struct sim_mining {
    const struct base_alloc_port *alloc;
    const struct sim_people *people; // whose values these are
    struct group *groups;
    uint32_t group_count;
    uint64_t devices;
    uint64_t failed;
    struct sim_cohort cohorts[SIM_TRAIT_COUNT][SIM_TRAIT_VALUES_MAX];
    struct sim_slice_cond conds[CONDS_MAX];
    uint32_t cond_count;
    uint32_t pair_devices[CONDS_MAX][CONDS_MAX];
    uint32_t pair_failed[CONDS_MAX][CONDS_MAX];
};

static void add_cond(struct sim_mining *mining, enum sim_trait trait, enum sim_slice_op op,
                     uint32_t value)
{
    if (mining->cond_count < CONDS_MAX) {
        mining->conds[mining->cond_count++] = (struct sim_slice_cond){trait, op, (uint8_t)value};
    }
}

static bool is_lowest(const struct sim_people *people, enum sim_trait trait, uint32_t value)
{
    for (uint32_t i = 0; i < sim_trait_value_count(people, trait); i++) {
        if (sim_trait_compare(people, trait, i, value) < 0) {
            return false;
        }
    }
    return true;
}

enum base_status sim_mining_new(const struct base_alloc_port *alloc,
                                const struct sim_people *people, struct sim_mining **out_mining)
{
    struct sim_mining *mining = alloc->alloc(alloc->ctx, sizeof(*mining));
    if (mining == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(mining, 0, sizeof(*mining));
    mining->alloc = alloc;
    mining->people = people;
    mining->groups = alloc->alloc(alloc->ctx, sizeof(struct group) * GROUPS_MAX);
    if (mining->groups == NULL) {
        alloc->release(alloc->ctx, mining);
        return BASE_ERR_NOMEM;
    }
    memset(mining->groups, 0, sizeof(struct group) * GROUPS_MAX);
    for (uint32_t t = 0; t < SIM_TRAIT_COUNT; t++) {
        enum sim_trait trait = (enum sim_trait)t;
        for (uint32_t v = 0; v < sim_trait_value_count(people, trait); v++) {
            add_cond(mining, trait, SIM_SLICE_EQ, v);
            if (sim_trait_ordered(trait) && !is_lowest(people, trait, v)) {
                add_cond(mining, trait, SIM_SLICE_LT, v);
                add_cond(mining, trait, SIM_SLICE_GE, v);
            }
        }
    }
    *out_mining = mining;
    return BASE_OK;
}

void sim_mining_free(struct sim_mining *mining)
{
    if (mining != NULL) {
        mining->alloc->release(mining->alloc->ctx, mining->groups);
        mining->alloc->release(mining->alloc->ctx, mining);
    }
}

static uint64_t pack(const struct sim_traits *traits)
{
    uint64_t key = 0;
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        key = key << 5 | traits->value[i];
    }
    return key + 1;
}

static struct sim_traits unpack(const struct sim_people *people, uint64_t key)
{
    struct sim_traits traits = {.people = people};
    key--;
    for (uint32_t i = SIM_TRAIT_COUNT; i-- > 0; key >>= 5) {
        traits.value[i] = key & 31;
    }
    return traits;
}

void sim_mining_add(struct sim_mining *mining, const struct sim_traits *traits, bool failed)
{
    mining->devices++;
    mining->failed += failed;
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        struct sim_cohort *cohort = &mining->cohorts[i][traits->value[i]];
        cohort->devices++;
        cohort->failed += failed;
    }
    uint64_t key = pack(traits);
    uint64_t hash = key * 0x9e3779b97f4a7c15u;
    uint32_t slot = (uint32_t)(hash >> 40) & (GROUPS_MAX - 1);
    while (mining->groups[slot].key != 0 && mining->groups[slot].key != key) {
        slot = (slot + 1) & (GROUPS_MAX - 1);
    }
    if (mining->groups[slot].key == 0) {
        if (mining->group_count >= GROUPS_MAX / 4 * 3) {
            return;
        }
        mining->groups[slot].key = key;
        mining->group_count++;
    }
    mining->groups[slot].devices++;
    mining->groups[slot].failed += failed;
}

static bool cond_holds(const struct sim_slice_cond *cond, const struct sim_traits *traits)
{
    uint32_t value = traits->value[cond->trait];
    if (value == SIM_TRAIT_ABSENT) {
        return false;
    }
    switch (cond->op) {
    case SIM_SLICE_EQ:
        return value == cond->value;
    case SIM_SLICE_LT:
        return sim_trait_compare(traits->people, cond->trait, value, cond->value) < 0;
    default:
        return sim_trait_compare(traits->people, cond->trait, value, cond->value) >= 0;
    }
}

bool sim_slice_match(const struct sim_slice *slice, const struct sim_traits *traits)
{
    for (uint32_t i = 0; i < slice->cond_count; i++) {
        if (!cond_holds(&slice->conds[i], traits)) {
            return false;
        }
    }
    return slice->cond_count > 0;
}

double sim_slice_precision(const struct sim_slice *slice)
{
    return slice->devices > 0 ? (double)slice->failed / (double)slice->devices : 0;
}

double sim_slice_support(const struct sim_slice *slice)
{
    return slice->failed_total > 0 ? (double)slice->failed / (double)slice->failed_total : 0;
}

static double score_of(uint64_t devices, uint64_t failed, uint64_t failed_total)
{
    // 2PS / (P + S) with P = failed / devices and S = failed / failed_total.
    return devices + failed_total > 0 ? 2.0 * (double)failed / (double)(devices + failed_total) : 0;
}

// Counts for every pair of conditions; the diagonal is the single conditions.
static void count_pairs(struct sim_mining *mining)
{
    memset(mining->pair_devices, 0, sizeof(mining->pair_devices));
    memset(mining->pair_failed, 0, sizeof(mining->pair_failed));
    for (uint32_t g = 0; g < GROUPS_MAX; g++) {
        const struct group *group = &mining->groups[g];
        if (group->key == 0) {
            continue;
        }
        struct sim_traits traits = unpack(mining->people, group->key);
        uint8_t held[CONDS_MAX];
        uint32_t held_count = 0;
        for (uint32_t i = 0; i < mining->cond_count; i++) {
            if (cond_holds(&mining->conds[i], &traits)) {
                held[held_count++] = (uint8_t)i;
            }
        }
        for (uint32_t a = 0; a < held_count; a++) {
            for (uint32_t b = a; b < held_count; b++) {
                mining->pair_devices[held[a]][held[b]] += group->devices;
                mining->pair_failed[held[a]][held[b]] += group->failed;
            }
        }
    }
}

static void choose(const struct sim_mining *mining, uint32_t a, uint32_t b, double *best,
                   struct sim_slice *out)
{
    double score = score_of(mining->pair_devices[a][b], mining->pair_failed[a][b], mining->failed);
    if (score <= *best || mining->pair_failed[a][b] < SIM_SLICE_FAILED_MIN) {
        return;
    }
    *best = score;
    out->cond_count = a == b ? 1 : 2;
    out->conds[0] = mining->conds[a];
    out->conds[1] = mining->conds[b];
    out->devices = mining->pair_devices[a][b];
    out->failed = mining->pair_failed[a][b];
}

// The best single condition, unless a pair is clearly better.
static void best_pair(const struct sim_mining *mining, struct sim_slice *out)
{
    double all = score_of(mining->devices, mining->failed, mining->failed) + GAIN_MIN;
    double best = all > SCORE_MIN ? all : SCORE_MIN;
    for (uint32_t a = 0; a < mining->cond_count; a++) {
        choose(mining, a, a, &best, out);
    }
    best += GAIN_MIN;
    for (uint32_t a = 0; a < mining->cond_count; a++) {
        for (uint32_t b = a + 1; b < mining->cond_count; b++) {
            choose(mining, a, b, &best, out);
        }
    }
}

// Adds the condition that raises the score most, if it does so clearly.
static void refine(const struct sim_mining *mining, struct sim_slice *slice)
{
    uint64_t devices[CONDS_MAX] = {0};
    uint64_t failed[CONDS_MAX] = {0};
    for (uint32_t g = 0; g < GROUPS_MAX; g++) {
        const struct group *group = &mining->groups[g];
        if (group->key == 0) {
            continue;
        }
        struct sim_traits traits = unpack(mining->people, group->key);
        if (!sim_slice_match(slice, &traits)) {
            continue;
        }
        for (uint32_t i = 0; i < mining->cond_count; i++) {
            if (cond_holds(&mining->conds[i], &traits)) {
                devices[i] += group->devices;
                failed[i] += group->failed;
            }
        }
    }
    double best = score_of(slice->devices, slice->failed, mining->failed) + GAIN_MIN;
    uint32_t chosen = CONDS_MAX;
    for (uint32_t i = 0; i < mining->cond_count; i++) {
        double score = score_of(devices[i], failed[i], mining->failed);
        if (score > best) {
            best = score;
            chosen = i;
        }
    }
    if (chosen < CONDS_MAX) {
        slice->conds[slice->cond_count++] = mining->conds[chosen];
        slice->devices = devices[chosen];
        slice->failed = failed[chosen];
    }
}

void sim_mining_best(struct sim_mining *mining, struct sim_slice *out)
{
    memset(out, 0, sizeof(*out));
    out->people = mining->people;
    out->failed_total = mining->failed;
    out->devices_total = mining->devices;
    if (mining->failed < SIM_SLICE_FAILED_MIN) {
        return;
    }
    count_pairs(mining);
    best_pair(mining, out);
    if (out->cond_count == 2) {
        refine(mining, out);
    }
}

const struct sim_cohort *sim_mining_cohort(const struct sim_mining *mining, enum sim_trait trait,
                                           uint32_t value)
{
    return &mining->cohorts[trait][value];
}

const char *sim_slice_none(const struct sim_slice *slice)
{
    if (slice->cond_count > 0 || slice->failed_total == 0) {
        return NULL;
    }
    return slice->failed_total < SIM_SLICE_FAILED_MIN
               ? "too few failures to name a slice"
               : "no slice of the population explains the failures";
}

void sim_slice_text(const struct sim_slice *slice, char out[SIM_SLICE_TEXT_MAX])
{
    static const char *const ops[] = {"==", "<", ">="};
    size_t at = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < slice->cond_count; i++) {
        const struct sim_slice_cond *cond = &slice->conds[i];
        int size = snprintf(out + at, SIM_SLICE_TEXT_MAX - at, "%s%s %s %s", i > 0 ? " && " : "",
                            sim_trait_name(cond->trait), ops[cond->op],
                            sim_trait_text(slice->people, cond->trait, cond->value));
        if (size < 0 || at + (size_t)size >= SIM_SLICE_TEXT_MAX) {
            return;
        }
        at += (size_t)size;
    }
}

void sim_wilson(uint64_t failed, uint64_t total, double *out_low, double *out_high)
{
    if (total == 0) {
        *out_low = 0;
        *out_high = 1;
        return;
    }
    const double z = 1.959964;
    double n = (double)total;
    double p = (double)failed / n;
    double denominator = 1 + z * z / n;
    double centre = (p + z * z / (2 * n)) / denominator;
    double half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / denominator;
    *out_low = centre - half > 0 ? centre - half : 0;
    *out_high = centre + half < 1 ? centre + half : 1;
}

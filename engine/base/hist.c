// Log-linear histogram: the position of a value's highest bit picks a group, the five bits behind
// it the bucket in the group.
//
// A histogram is a value of its owner; the fleet simulator and the gateway keep one per thread and
// merge them for a report. Counters saturate rather than wrap.
#include "base/hist.h"

#include "base/check.h"
#include "base/ckd.h"

#include <string.h>

#define SUB_COUNT (1u << BASE_HIST_SUB_BITS)

void base_hist_init(struct base_hist *hist)
{
    memset(hist, 0, sizeof *hist);
    hist->min = UINT64_MAX;
}

static uint32_t bucket_of(uint64_t value)
{
    if (value < SUB_COUNT) {
        return (uint32_t)value;
    }
    uint32_t high_bit = 63u - (uint32_t)__builtin_clzll(value);
    uint32_t shift = high_bit - BASE_HIST_SUB_BITS;
    uint32_t group = shift + 1;
    if (group >= BASE_HIST_GROUPS) {
        return BASE_HIST_BUCKETS - 1;
    }
    uint32_t sub = (uint32_t)(value >> shift) - SUB_COUNT;
    return group << BASE_HIST_SUB_BITS | sub;
}

// The last bucket has no end.
uint64_t base_hist_edge(uint32_t bucket)
{
    base_assert(bucket < BASE_HIST_BUCKETS);
    if (bucket == BASE_HIST_BUCKETS - 1) {
        return UINT64_MAX;
    }
    uint32_t group = bucket >> BASE_HIST_SUB_BITS;
    uint64_t sub = bucket & (SUB_COUNT - 1);
    if (group == 0) {
        return sub;
    }
    uint32_t shift = group - 1;
    return ((sub + SUB_COUNT + 1) << shift) - 1;
}

static void bucket_add(uint32_t *bucket, uint32_t count)
{
    if (__builtin_add_overflow(*bucket, count, bucket)) {
        *bucket = UINT32_MAX;
    }
}

// Buckets that may hold something: from that of the smallest value to that of the largest.
struct used {
    uint32_t first;
    uint32_t end;
};

static struct used used_of(const struct base_hist *hist)
{
    if (hist->count == 0) {
        return (struct used){0, 0};
    }
    base_assert(hist->min <= hist->max);
    return (struct used){bucket_of(hist->min), bucket_of(hist->max) + 1};
}

void base_hist_add(struct base_hist *hist, uint64_t value)
{
    hist->count++;
    hist->sum = base_sat_add_u64(hist->sum, value);
    hist->min = value < hist->min ? value : hist->min;
    hist->max = value > hist->max ? value : hist->max;
    bucket_add(&hist->buckets[bucket_of(value)], 1);
}

void base_hist_merge(struct base_hist *into, const struct base_hist *from)
{
    into->count = base_sat_add_u64(into->count, from->count);
    into->sum = base_sat_add_u64(into->sum, from->sum);
    into->min = from->min < into->min ? from->min : into->min;
    into->max = from->max > into->max ? from->max : into->max;
    const struct used used = used_of(from);
    for (uint32_t i = used.first; i < used.end; i++) {
        bucket_add(&into->buckets[i], from->buckets[i]);
    }
}

void base_hist_clear(struct base_hist *hist)
{
    const struct used used = used_of(hist);
    if (used.first < used.end) {
        memset(&hist->buckets[used.first], 0, (used.end - used.first) * sizeof(hist->buckets[0]));
    }
    hist->count = 0;
    hist->sum = 0;
    hist->min = UINT64_MAX;
    hist->max = 0;
}

// Number of the value sought, 1..count: the smallest with at least `quantile` of all at or below
// it.
static uint64_t rank_of(uint64_t count, double quantile)
{
    base_assert(count > 0);
    if (!(quantile > 0)) {
        return 1;
    }
    if (quantile >= 1) {
        return count;
    }
    double exact = quantile * (double)count;
    uint64_t rank = (uint64_t)exact;
    if ((double)rank < exact) {
        rank++;
    }
    if (rank < 1) {
        return 1;
    }
    return rank > count ? count : rank;
}

uint64_t base_hist_quantile(const struct base_hist *hist, double quantile)
{
    if (hist->count == 0) {
        return 0;
    }
    uint64_t rank = rank_of(hist->count, quantile);
    uint64_t seen = 0;
    for (uint32_t i = 0; i < BASE_HIST_BUCKETS; i++) {
        seen += hist->buckets[i];
        if (seen >= rank) {
            uint64_t end = base_hist_edge(i);
            return end < hist->max ? end : hist->max;
        }
    }
    return hist->max;
}

double base_hist_mean(const struct base_hist *hist)
{
    return hist->count == 0 ? 0.0 : (double)hist->sum / (double)hist->count;
}

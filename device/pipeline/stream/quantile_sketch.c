// The quantile sketch: buckets by leading bits, uniform collapse (DDSketch and UDDSketch, see the
// header). Called by aggregate.c (the kind QUANTILES) on the stream's thread; pure. Buckets lie
// sorted, so adding one searches and moves those behind it. Collapsing joins each two neighbours
// and doubles the error, which the level says; of two sketches that are merged, the finer one's
// buckets are taken at the level of the coarser one.
#include "pipeline/stream/quantile_sketch.h"

#include "base/check.h"

#include <float.h>
#include <string.h>

#define MANTISSA_BITS 52

size_t dev_quantile_bytes(uint32_t buckets)
{
    return sizeof(struct dev_quantile_sketch) + buckets * sizeof(struct dev_quantile_bucket);
}

void dev_quantile_init(struct dev_quantile_sketch *sketch, uint32_t buckets)
{
    base_assert(buckets >= DEV_QUANTILE_BUCKETS_MIN && buckets <= DEV_QUANTILE_BUCKETS_MAX);
    memset(sketch, 0, dev_quantile_bytes(buckets));
    sketch->capacity = buckets;
}

// Exponent and leading mantissa bits as one number, from 1 on, with the sign of the value.
static int32_t index_of(double value, uint32_t level)
{
    double magnitude = value < 0 ? -value : value;
    uint64_t bits;
    memcpy(&bits, &magnitude, sizeof(bits));
    int32_t place = (int32_t)(bits >> (MANTISSA_BITS - DEV_QUANTILE_BITS + level)) + 1;
    return value < 0 ? -place : place;
}

static int32_t halved(int32_t index)
{
    return index < 0 ? -((-index - 1) / 2 + 1) : (index - 1) / 2 + 1;
}

static uint32_t sum_of(uint32_t a, uint32_t b)
{
    uint32_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT32_MAX : sum;
}

static void collapse(struct dev_quantile_sketch *sketch)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < sketch->used; i++) {
        struct dev_quantile_bucket bucket = sketch->buckets[i];
        bucket.index = halved(bucket.index);
        if (used > 0 && sketch->buckets[used - 1].index == bucket.index) {
            sketch->buckets[used - 1].count = sum_of(sketch->buckets[used - 1].count, bucket.count);
        } else {
            sketch->buckets[used++] = bucket;
        }
    }
    sketch->used = used;
    sketch->level++;
    base_check(sketch->level <= DEV_QUANTILE_LEVEL_MAX);
}

// The first bucket that is not below `index`.
static uint32_t lower_bound(const struct dev_quantile_sketch *sketch, int32_t index)
{
    uint32_t low = 0;
    uint32_t high = sketch->used;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sketch->buckets[middle].index < index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// `index` is of level `level`, which is not above the sketch's.
static void bucket_add(struct dev_quantile_sketch *sketch, int32_t index, uint32_t level,
                       uint32_t count)
{
    base_assert(level <= sketch->level && index != 0);
    for (;;) {
        for (; level < sketch->level; level++) {
            index = halved(index);
        }
        uint32_t at = lower_bound(sketch, index);
        struct dev_quantile_bucket *bucket = &sketch->buckets[at];
        if (at < sketch->used && bucket->index == index) {
            bucket->count = sum_of(bucket->count, count);
            return;
        }
        if (sketch->used < sketch->capacity) {
            memmove(bucket + 1, bucket, (sketch->used - at) * sizeof(*bucket));
            *bucket = (struct dev_quantile_bucket){index, count};
            sketch->used++;
            return;
        }
        collapse(sketch);
    }
}

static void bounds_add(struct dev_quantile_sketch *sketch, double min, double max)
{
    sketch->min = sketch->count == 0 || min < sketch->min ? min : sketch->min;
    sketch->max = sketch->count == 0 || max > sketch->max ? max : sketch->max;
}

void dev_quantile_add(struct dev_quantile_sketch *sketch, double value)
{
    base_assert(value - value == 0);
    bounds_add(sketch, value, value);
    sketch->count++;
    if (value < DBL_MIN && value > -DBL_MIN) {
        sketch->zeros++;
        return;
    }
    bucket_add(sketch, index_of(value, sketch->level), sketch->level, 1);
}

void dev_quantile_merge(struct dev_quantile_sketch *sketch, const struct dev_quantile_sketch *from)
{
    base_assert(sketch->capacity == from->capacity);
    if (from->count == 0) {
        return;
    }
    while (sketch->level < from->level) {
        collapse(sketch);
    }
    for (uint32_t i = 0; i < from->used; i++) {
        bucket_add(sketch, from->buckets[i].index, from->level, from->buckets[i].count);
    }
    bounds_add(sketch, from->min, from->max);
    sketch->count += from->count;
    sketch->zeros += from->zeros;
}

// The lower end of the bucket at `place` (0-based), as a number.
static double bucket_end(uint64_t place, uint32_t level)
{
    uint64_t bits = place << (MANTISSA_BITS - DEV_QUANTILE_BITS + level);
    if (bits >= UINT64_C(2047) << MANTISSA_BITS) {
        return DBL_MAX;
    }
    double end;
    memcpy(&end, &bits, sizeof(end));
    return end < DBL_MIN ? DBL_MIN : end;
}

// The number from which both ends of the bucket are equally far, relatively.
static double bucket_value(int32_t index, uint32_t level)
{
    base_assert(index != 0 && level <= DEV_QUANTILE_LEVEL_MAX);
    uint64_t place = (uint64_t)(index < 0 ? -index : index) - 1;
    double low = bucket_end(place, level);
    double high = bucket_end(place + 1, level);
    double value = 2 * (low / (1 + low / high));
    return index < 0 ? -value : value;
}

static double clamped(const struct dev_quantile_sketch *sketch, double value)
{
    if (value < sketch->min) {
        return sketch->min;
    }
    return value > sketch->max ? sketch->max : value;
}

double dev_quantile_value(const struct dev_quantile_sketch *sketch, double q)
{
    if (sketch->count == 0) {
        return 0;
    }
    base_assert(sketch->used <= sketch->capacity && sketch->zeros <= sketch->count);
    double last = (double)(sketch->count - 1);
    uint64_t rank = q > 0 ? (uint64_t)(q < 1 ? q * last : last) : 0;
    rank = rank >= sketch->count ? sketch->count - 1 : rank;
    uint64_t before = 0;
    uint32_t at = 0;
    for (; at < sketch->used && sketch->buckets[at].index < 0; at++) {
        before += sketch->buckets[at].count;
        if (rank < before) {
            return clamped(sketch, bucket_value(sketch->buckets[at].index, sketch->level));
        }
    }
    before += sketch->zeros;
    if (rank < before) {
        return clamped(sketch, 0);
    }
    for (; at < sketch->used; at++) {
        before += sketch->buckets[at].count;
        if (rank < before) {
            return clamped(sketch, bucket_value(sketch->buckets[at].index, sketch->level));
        }
    }
    return sketch->max; // a saturated bucket
}

double dev_quantile_error(const struct dev_quantile_sketch *sketch)
{
    double ratio = 1; // of the ends of a bucket, less one
    for (uint32_t i = sketch->level; i < DEV_QUANTILE_BITS; i++) {
        ratio /= 2;
    }
    ratio += 1;
    for (uint32_t i = DEV_QUANTILE_BITS; i < sketch->level && ratio < 1e9; i++) {
        ratio *= ratio;
    }
    return (ratio - 1) / (ratio + 1);
}

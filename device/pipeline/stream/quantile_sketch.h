// Quantiles of a stream of numbers in bounded memory, with a bound on the relative error.
//
// The sketch counts numbers in buckets whose ends have a fixed ratio (DDSketch: Masson, Rim and
// Lee, VLDB 2019). When the buckets run out, all neighbours are joined pairwise and the error bound
// doubles (uniform collapse, UDDSketch: Epicoco, Melle, Cafaro, Pulimeno and Morleo, IEEE Access
// 2020), so the bound holds for every quantile and is always known. A bucket is the exponent and
// the leading bits of the mantissa of a number: finding it takes a shift, no logarithm.
//
// _quantile(q) differs from the exact element of rank floor(q * (n - 1)) by at most _error times
// its magnitude, whatever its sign; numbers nearer to zero than the smallest normal double count as
// zero. Positive and negative numbers share the buckets. Starts at 0.4 %; with 128 buckets that
// holds while the numbers of one sign span a factor of 1.9, or of both signs 1.3 each; 3 % while
// they span 240, or 15 each; 20 % while they span 10^19, or 10^9 each.
//
// No pointers inside: a sketch may be copied.
#ifndef DEV_QUANTILE_SKETCH_H
#define DEV_QUANTILE_SKETCH_H

#include "pipeline/stream/value.h"

#define DEV_QUANTILE_BUCKETS_MIN     16
#define DEV_QUANTILE_BUCKETS_DEFAULT 128
#define DEV_QUANTILE_BUCKETS_MAX     1024
#define DEV_QUANTILE_BITS            7  // leading bits of the mantissa before the first collapse
#define DEV_QUANTILE_LEVEL_MAX       18 // collapses until each sign is one bucket

struct dev_quantile_bucket {
    int32_t index; // sign and place, never 0
    uint32_t count;
};

struct dev_quantile_sketch {
    uint64_t count;
    uint64_t zeros;
    double min;
    double max;
    uint32_t level; // collapses so far
    uint32_t capacity;
    uint32_t used;
    uint32_t reserved;
    struct dev_quantile_bucket buckets[]; // by index, ascending
};

size_t dev_quantile_bytes(uint32_t buckets);
void dev_quantile_init(struct dev_quantile_sketch *sketch, uint32_t buckets);
void dev_quantile_add(struct dev_quantile_sketch *sketch, double value);
// Both of one capacity.
void dev_quantile_merge(struct dev_quantile_sketch *sketch, const struct dev_quantile_sketch *from);
// 0 <= q <= 1, others count as the nearer end, NaN as 0; 0 when there is no number.
double dev_quantile_value(const struct dev_quantile_sketch *sketch, double q);
double dev_quantile_error(const struct dev_quantile_sketch *sketch);

#endif

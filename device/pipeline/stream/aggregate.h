// Incremental aggregates: each event is added once, partial aggregates of one declaration can be
// merged, and a state is plain bytes without pointers in the caller's memory.
//
// Numbers are added whether integer or real; true and false count as 1 and 0; other values, and
// events without the value, are left out. Sums of integers are exact however large (128 bits
// inside; the answer is an integer when it fits 64 bits, else a real); sums of reals are
// compensated twice (Klein), together with the integers: the answer is the exact sum rounded once,
// in whatever order they come, unless what is added spans more than some 150 bits. A sum that ends
// beyond all reals has no value; on the way there it may go as far as it likes. So may that of a
// mean.
#ifndef DEV_AGGREGATE_H
#define DEV_AGGREGATE_H

#include "base/error.h"
#include "pipeline/stream/distinct_sketch.h"
#include "pipeline/stream/quantile_sketch.h"
#include "pipeline/stream/value.h"

#define DEV_AGGREGATE_NAME_MAX 32 // [a-z][a-z0-9_]*
#define DEV_AGGREGATE_LAST_MAX 64 // values of a LAST
#define DEV_AGGREGATE_BINS_MAX 64 // of a HISTOGRAM

enum dev_aggregate_kind {
    DEV_AGGREGATE_COUNT,     // events that have the value; without a value: all
    DEV_AGGREGATE_SUM,       // no numbers: 0
    DEV_AGGREGATE_MIN,       // no numbers: no value
    DEV_AGGREGATE_MAX,       // "
    DEV_AGGREGATE_MEAN,      // "
    DEV_AGGREGATE_DISTINCT,  // different values of any type, estimated (distinct_sketch.h)
    DEV_AGGREGATE_LAST,      // the last `size` values by seq, of any type
    DEV_AGGREGATE_HISTOGRAM, // `size` equal bins over [low, high), and what lies below and above
    DEV_AGGREGATE_QUANTILES, // a sketch (quantile_sketch.h)
    DEV_AGGREGATE_KIND_COUNT
};

struct dev_aggregate_spec {
    struct base_str name;
    enum dev_aggregate_kind kind;
    struct base_str value; // an expression; may be empty for COUNT only
    uint32_t size;         // LAST: values, at least 1; HISTOGRAM: bins, at least 1; DISTINCT: bits,
                           // 0: default; QUANTILES: buckets, 0: default; else 0
    double low;            // HISTOGRAM
    double high;
};

// Puts defaults in place of zeros. INVALID, TOO_LARGE: `error` (may be NULL) says why. Expressions
// are not looked at.
BASE_NODISCARD enum base_status dev_aggregate_check(struct dev_aggregate_spec *spec,
                                                    struct base_error *error);

// Of a checked declaration; a multiple of 8.
size_t dev_aggregate_bytes(const struct dev_aggregate_spec *spec);
void dev_aggregate_init(const struct dev_aggregate_spec *spec, void *state);
void dev_aggregate_add(const struct dev_aggregate_spec *spec, void *state, struct dev_value value,
                       uint64_t seq);
void dev_aggregate_merge(const struct dev_aggregate_spec *spec, void *state, const void *from);

// The answer as one value: of DISTINCT the estimate, rounded; of LAST the newest; of HISTOGRAM how
// many numbers; of QUANTILES the median. Borrowed from the state.
struct dev_value dev_aggregate_value(const struct dev_aggregate_spec *spec, const void *state);
// LAST: how many, and the one at `index`, oldest first.
uint32_t dev_aggregate_last_count(const void *state);
struct dev_value dev_aggregate_last(const void *state, uint32_t index);
// HISTOGRAM: `bin` below size; size: what lies below, size + 1: above.
uint64_t dev_aggregate_bin(const void *state, uint32_t bin);
// QUANTILES, 0 <= q <= 1; no value when there is no number. And the bound of the relative error.
struct dev_value dev_aggregate_quantile(const void *state, double q);
double dev_aggregate_quantile_error(const void *state);

// A value as it is kept by windows that hold single events: 16 bytes, LAST 72.
size_t dev_aggregate_item_bytes(const struct dev_aggregate_spec *spec);
void dev_aggregate_item_set(const struct dev_aggregate_spec *spec, void *item,
                            struct dev_value value);
// Adds what _item_set kept.
void dev_aggregate_item_add(const struct dev_aggregate_spec *spec, void *state, const void *item,
                            uint64_t seq);

#endif

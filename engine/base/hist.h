// Mergeable latency histogram, log-linear (after HdrHistogram): 32 linear buckets per power of two,
// so any value is known within 3.2 %. Fixed size, no allocation, no clock. Values above the last
// bucket saturate.
#ifndef BASE_HIST_H
#define BASE_HIST_H

#include <stddef.h>
#include <stdint.h>

#define BASE_HIST_SUB_BITS 5
#define BASE_HIST_GROUPS   36 // values up to 2^40 (12 days in microseconds)
#define BASE_HIST_BUCKETS  (BASE_HIST_GROUPS << BASE_HIST_SUB_BITS)

struct base_hist {
    uint64_t count;
    uint64_t sum;
    uint64_t min; // UINT64_MAX while empty
    uint64_t max;
    uint32_t buckets[BASE_HIST_BUCKETS];
};

void base_hist_init(struct base_hist *hist);
// As base_hist_init, for one that was initialised before: no more is written than was used.
void base_hist_clear(struct base_hist *hist);
void base_hist_add(struct base_hist *hist, uint64_t value);
// Reads no more of `from` than was used.
void base_hist_merge(struct base_hist *into, const struct base_hist *from);
// Value at quantile 0..1 (the upper edge of its bucket, never above max); 0 while empty.
uint64_t base_hist_quantile(const struct base_hist *hist, double quantile);
// The largest value of a bucket, for who writes them all; UINT64_MAX of the last one.
uint64_t base_hist_edge(uint32_t bucket);
double base_hist_mean(const struct base_hist *hist);

#endif

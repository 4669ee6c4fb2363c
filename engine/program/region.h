// Regions as values: bounds, canonical form, application to memory. Pure functions; the structure
// itself is in program.h.
//
// A wide region is a region before its dims were fused: it may have more dims than a command's
// region can carry, strides of any sign and dims of size 1.
#ifndef ENG_PROGRAM_REGION_H
#define ENG_PROGRAM_REGION_H

#include "program/program.h"

#define ENG_WIDE_RANK_MAX 24u
// Most regions that unrolling one wide region may give.
#define ENG_UNROLL_MAX 4096

struct eng_wide_dim {
    int64_t size, src, dst;
};
struct eng_wide {
    uint32_t source;
    uint32_t rank;
    bool accumulate;
    int64_t src_offset, dst_offset;
    struct eng_wide_dim dims[ENG_WIDE_RANK_MAX];
};

void eng_wide_of(const struct eng_region *region, struct eng_wide *out);
// Drops dims of size 1, makes destination strides positive and descending, fuses what both sides
// step through evenly. False: the region is empty.
bool eng_wide_canonical(struct eng_wide *wide);
// Number of elements moved; sizes must have been checked.
int64_t eng_wide_volume(const struct eng_wide *wide);
// How many regions a canonical wide region takes: 1 up to ENG_REGION_RANK_MAX dims, else its
// smallest dims are unrolled. INT64_MAX: over ENG_UNROLL_MAX.
int64_t eng_wide_region_count(const struct eng_wide *wide);
// Writes that many regions.
void eng_wide_regions(const struct eng_wide *wide, struct eng_region *out);

// Smallest and largest element touched on either side. False: an overflow, or a size below 1.
struct eng_region_span {
    int64_t src_min, src_max, dst_min, dst_max;
};
bool eng_wide_span(const struct eng_wide *wide, struct eng_region_span *out);
// Whether the region stays within `src_count` source and `dst_count` destination elements.
bool eng_region_fits(const struct eng_region *region, int64_t src_count, int64_t dst_count);

// Whether the region copies source element i to destination element i for all i below `count`.
bool eng_region_is_identity(const struct eng_region *region, int64_t count);

// Copies elements of `bytes` bytes each. Not for accumulate regions.
void eng_region_move(const struct eng_region *region, size_t bytes, const void *source,
                     void *destination);

#endif

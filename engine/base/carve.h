// One block of memory that holds several arrays: how large it is, and where each of them begins.
//
// The same calls, in the same order, first count (without a block) and then hand out. Storage is
// the caller's; no allocation, any thread.
#ifndef BASE_CARVE_H
#define BASE_CARVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct base_carver {
    void *block;      // NULL: it only counts. Aligned for what lies in it.
    size_t capacity;  // of the block; of what may be counted
    size_t alignment; // of sizes: a power of two
    size_t used;      // 0 at first
    bool full;        // something did not fit; `used` does not say how much would have
};

// `size`, which is at most SIZE_MAX - alignment, up to a multiple of `alignment`, a power of two.
static inline size_t base_aligned(size_t size, size_t alignment)
{
    return (size + alignment - 1) & ~(alignment - 1);
}

// The next array, of `count` elements of `size` bytes. NULL: it only counts, or is full.
void *base_carve(struct base_carver *carver, size_t count, size_t size);

#endif

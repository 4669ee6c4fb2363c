// Checked arithmetic for sizes that come from outside. Each returns true when the result fits and
// was written.
#ifndef BASE_CKD_H
#define BASE_CKD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool base_ckd_add(size_t left, size_t right, size_t *out)
{
    return !__builtin_add_overflow(left, right, out);
}

static inline bool base_ckd_mul(size_t left, size_t right, size_t *out)
{
    return !__builtin_mul_overflow(left, right, out);
}

static inline bool base_ckd_add_u64(uint64_t left, uint64_t right, uint64_t *out)
{
    return !__builtin_add_overflow(left, right, out);
}

// a + b, or UINT64_MAX: for deadlines.
static inline uint64_t base_sat_add_u64(uint64_t left, uint64_t right)
{
    uint64_t sum;
    return __builtin_add_overflow(left, right, &sum) ? UINT64_MAX : sum;
}

#endif

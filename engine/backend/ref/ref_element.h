// Elements of the reference backend: conversions that no value makes undefined, typed loads and
// stores. Floats go through double (F16 and BF16 round through float), integers through 64 bits.
#ifndef ENG_REF_ELEMENT_H
#define ENG_REF_ELEMENT_H

#include "model/graph.h"

#include <math.h>
#include <stdint.h>

// Saturating conversion; NaN gives 0.
static inline int64_t eng_ref_to_i64(double value)
{
    if (value >= 9223372036854775808.0) {
        return INT64_MAX;
    }
    if (value < -9223372036854775808.0) {
        return INT64_MIN;
    }
    return isnan(value) ? 0 : (int64_t)value;
}
static inline uint64_t eng_ref_to_u64(double value)
{
    if (value >= 18446744073709551616.0) {
        return UINT64_MAX;
    }
    return value > 0 ? (uint64_t)value : 0;
}
static inline int64_t eng_ref_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}
// Narrowing that gives an infinity past the range instead of undefined behaviour.
static inline float eng_ref_to_f32(double value)
{
    if (value > 3.4028235677973366e38 || value < -3.4028235677973366e38) {
        return value > 0 ? INFINITY : -INFINITY;
    }
    return (float)value;
}

// Integer element as 64 bits; U64 keeps its bit pattern.
int64_t eng_ref_load_int(enum eng_dtype dtype, const void *data, int64_t index);
// Keeps the low bits (BOOL: whether it is not 0).
void eng_ref_store_int(enum eng_dtype dtype, void *data, int64_t index, int64_t value);
double eng_ref_load_slow(enum eng_dtype dtype, const void *data, int64_t index);
void eng_ref_store_slow(enum eng_dtype dtype, void *data, int64_t index, double value);

// Any number as a double, and back (integers saturate, toward zero).
static inline double eng_ref_load(enum eng_dtype dtype, const void *data, int64_t index)
{
    return dtype == ENG_F32 ? (double)((const float *)data)[index]
                            : eng_ref_load_slow(dtype, data, index);
}
static inline void eng_ref_store(enum eng_dtype dtype, void *data, int64_t index, double value)
{
    if (dtype == ENG_F32) {
        ((float *)data)[index] = eng_ref_to_f32(value);
    } else {
        eng_ref_store_slow(dtype, data, index, value);
    }
}

#endif

// The vector layer in plain C over the compiler's vector types: 4 floats. Every instruction set has
// a header with the same names, and the kernels (vec_template.h) are written once over them.
//
// vf: floats; vi: 32-bit integers, with the C operators; casts between them keep the bits.
// vm: masks, made by comparisons, consumed by vf_pick(mask, yes, no).
// vf_max(a, b) and vf_min return b when either is NaN: put the value that must survive second.
// vf_load_n and vf_store_n touch the first n of VW elements only; the others load as zero.
// vf_scale2(x, n) = x * 2^n for whole n of -300..300, with subnormal results.
#ifndef ENG_CPU_VEC_SIMD_GENERIC_H
#define ENG_CPU_VEC_SIMD_GENERIC_H

#include "backend/cpu/kernel/vec_unroll.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define VW               4
#define VEC_ISA_TEXT     "generic"
#define VEC_ISA_NAME     generic
#define VEC_TILE_ROWS    4
#define VEC_TILE_VECTORS 2

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef vi vm;

static inline vf vf_set(float value)
{
    return (vf){value, value, value, value};
}
static inline vi vi_set(int32_t value)
{
    return (vi){value, value, value, value};
}
static inline vf vf_load(const float *from)
{
    vf x;
    memcpy(&x, from, sizeof x);
    return x;
}
static inline void vf_store(float *to, vf value)
{
    memcpy(to, &value, sizeof value);
}
static inline vf vf_load_n(const float *from, int64_t count)
{
    vf x = {0, 0, 0, 0};
    for (int64_t i = 0; i < count; i++) {
        x[i] = from[i];
    }
    return x;
}
static inline void vf_store_n(float *to, vf value, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        to[i] = value[i];
    }
}
static inline vf vf_fma(vf left, vf right, vf addend)
{
    return left * right + addend;
}
static inline vf vf_fnma(vf left, vf right, vf addend)
{
    return addend - left * right;
}
static inline vf vf_pick(vm mask, vf left, vf right)
{
    return (vf)((mask & (vi)left) | (~mask & (vi)right));
}
static inline vm vf_lt(vf left, vf right)
{
    return left < right;
}
static inline vm vf_le(vf left, vf right)
{
    return left <= right;
}
static inline vm vf_eq(vf left, vf right)
{
    return left == right;
}
static inline vm vf_unordered(vf left, vf right)
{
    return (left != left) | (right != right);
}
static inline vm vm_or(vm left, vm right)
{
    return left | right;
}
static inline vf vf_max(vf left, vf right)
{
    return vf_pick(left > right, left, right);
}
static inline vf vf_min(vf left, vf right)
{
    return vf_pick(left < right, left, right);
}
static inline vf vf_abs(vf value)
{
    return (vf)((vi)value & 0x7fffffff);
}
static inline vf vf_sqrt(vf value)
{
    return (vf){sqrtf(value[0]), sqrtf(value[1]), sqrtf(value[2]), sqrtf(value[3])};
}
static inline vf vf_floor(vf value)
{
    return (vf){floorf(value[0]), floorf(value[1]), floorf(value[2]), floorf(value[3])};
}
static inline vf vf_ceil(vf value)
{
    return (vf){ceilf(value[0]), ceilf(value[1]), ceilf(value[2]), ceilf(value[3])};
}
// Nearest, ties to even: above 2^23 there is no room for a fraction. NaN and larger ones stay.
static inline vf vf_round(vf value)
{
    const vf magic = vf_set(8388608.0f);
    vi sign = (vi)value & INT32_MIN;
    vf rounded = (vf)((vi)((vf_abs(value) + magic) - magic) | sign);
    return vf_pick(vf_abs(value) < magic, rounded, value);
}
static inline vi vf_to_vi(vf value)
{
    vf rounded = vf_round(value);
    return __builtin_convertvector(rounded, vi);
}
static inline vf vi_to_vf(vi value)
{
    return __builtin_convertvector(value, vf);
}
static inline vf vf_scale2(vf value, vf power)
{
    vi whole = __builtin_convertvector(power, vi);
    vi half = whole >> 1;
    vi rest = whole - half;
    return value * (vf)((half + 127) << 23) * (vf)((rest + 127) << 23);
}
static inline float vf_sum(vf value)
{
    return (value[0] + value[2]) + (value[1] + value[3]);
}
static inline float vf_hmax(vf value)
{
    float x = value[0] > value[2] ? value[0] : value[2];
    float y = value[1] > value[3] ? value[1] : value[3];
    return x > y ? x : y;
}
static inline float vf_hmin(vf value)
{
    float x = value[0] < value[2] ? value[0] : value[2];
    float y = value[1] < value[3] ? value[1] : value[3];
    return x < y ? x : y;
}
// VW bytes 0 or not to a mask, and back as 0 and 1.
static inline vm vm_load(const uint8_t *from)
{
    vi x = {from[0], from[1], from[2], from[3]};
    return x != 0;
}
static inline void vm_store(uint8_t *to, vm mask)
{
    for (int i = 0; i < VW; i++) {
        to[i] = (uint8_t)(mask[i] & 1);
    }
}
// dst[c * dst_stride + r] = src[r * src_stride + c] over a tile of VW x VW.
static inline void vec_transpose_tile(const float *src, int64_t src_stride, float *dst,
                                      int64_t dst_stride)
{
    VEC_UNROLL
    for (int r = 0; r < VW; r++) {
        VEC_UNROLL
        for (int c = 0; c < VW; c++) {
            dst[c * dst_stride + r] = src[r * src_stride + c];
        }
    }
}
// dst = low[0] high[0] low[1] high[1] ...; vec_unzip2 is the way back.
static inline void vec_zip2(vf low, vf high, float *dst)
{
    for (int i = 0; i < VW; i++) {
        dst[2 * i] = low[i];
        dst[2 * i + 1] = high[i];
    }
}
static inline void vec_unzip2(const float *src, vf *even, vf *odd)
{
    for (int i = 0; i < VW; i++) {
        (*even)[i] = src[2 * i];
        (*odd)[i] = src[2 * i + 1];
    }
}
#endif

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

static inline vf vf_set(float x)
{
    return (vf){x, x, x, x};
}
static inline vi vi_set(int32_t x)
{
    return (vi){x, x, x, x};
}
static inline vf vf_load(const float *p)
{
    vf x;
    memcpy(&x, p, sizeof x);
    return x;
}
static inline void vf_store(float *p, vf x)
{
    memcpy(p, &x, sizeof x);
}
static inline vf vf_load_n(const float *p, int64_t n)
{
    vf x = {0, 0, 0, 0};
    for (int64_t i = 0; i < n; i++) {
        x[i] = p[i];
    }
    return x;
}
static inline void vf_store_n(float *p, vf x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        p[i] = x[i];
    }
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return a * b + c;
}
static inline vf vf_fnma(vf a, vf b, vf c)
{
    return c - a * b;
}
static inline vf vf_pick(vm m, vf a, vf b)
{
    return (vf)((m & (vi)a) | (~m & (vi)b));
}
static inline vm vf_lt(vf a, vf b)
{
    return a < b;
}
static inline vm vf_le(vf a, vf b)
{
    return a <= b;
}
static inline vm vf_eq(vf a, vf b)
{
    return a == b;
}
static inline vm vf_unordered(vf a, vf b)
{
    return (a != a) | (b != b);
}
static inline vm vm_or(vm a, vm b)
{
    return a | b;
}
static inline vf vf_max(vf a, vf b)
{
    return vf_pick(a > b, a, b);
}
static inline vf vf_min(vf a, vf b)
{
    return vf_pick(a < b, a, b);
}
static inline vf vf_abs(vf a)
{
    return (vf)((vi)a & 0x7fffffff);
}
static inline vf vf_sqrt(vf a)
{
    return (vf){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])};
}
static inline vf vf_floor(vf a)
{
    return (vf){floorf(a[0]), floorf(a[1]), floorf(a[2]), floorf(a[3])};
}
static inline vf vf_ceil(vf a)
{
    return (vf){ceilf(a[0]), ceilf(a[1]), ceilf(a[2]), ceilf(a[3])};
}
// Nearest, ties to even: above 2^23 there is no room for a fraction. NaN and larger ones stay.
static inline vf vf_round(vf a)
{
    const vf magic = vf_set(8388608.0f);
    vi sign = (vi)a & INT32_MIN;
    vf rounded = (vf)((vi)((vf_abs(a) + magic) - magic) | sign);
    return vf_pick(vf_abs(a) < magic, rounded, a);
}
static inline vi vf_to_vi(vf a)
{
    vf rounded = vf_round(a);
    return __builtin_convertvector(rounded, vi);
}
static inline vf vi_to_vf(vi a)
{
    return __builtin_convertvector(a, vf);
}
static inline vf vf_scale2(vf x, vf n)
{
    vi whole = __builtin_convertvector(n, vi);
    vi half = whole >> 1;
    vi rest = whole - half;
    return x * (vf)((half + 127) << 23) * (vf)((rest + 127) << 23);
}
static inline float vf_sum(vf a)
{
    return (a[0] + a[2]) + (a[1] + a[3]);
}
static inline float vf_hmax(vf a)
{
    float x = a[0] > a[2] ? a[0] : a[2];
    float y = a[1] > a[3] ? a[1] : a[3];
    return x > y ? x : y;
}
static inline float vf_hmin(vf a)
{
    float x = a[0] < a[2] ? a[0] : a[2];
    float y = a[1] < a[3] ? a[1] : a[3];
    return x < y ? x : y;
}
// VW bytes 0 or not to a mask, and back as 0 and 1.
static inline vm vm_load(const uint8_t *p)
{
    vi x = {p[0], p[1], p[2], p[3]};
    return x != 0;
}
static inline void vm_store(uint8_t *p, vm m)
{
    for (int i = 0; i < VW; i++) {
        p[i] = (uint8_t)(m[i] & 1);
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

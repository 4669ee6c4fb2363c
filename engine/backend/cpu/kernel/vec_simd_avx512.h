// The vector layer over AVX-512: 16 floats, masks in mask registers. See vec_simd_generic.h for
// what each name means.
#ifndef ENG_CPU_VEC_SIMD_AVX512_H
#define ENG_CPU_VEC_SIMD_AVX512_H

#include "backend/cpu/kernel/vec_unroll.h"

#include <immintrin.h>
#include <stdint.h>

#define VW           16
#define VEC_ISA_TEXT "avx512"
#define VEC_ISA_NAME avx512
// Attention's product tile: rows by vectors, with the accumulators in registers.
#define VEC_TILE_ROWS    6
#define VEC_TILE_VECTORS 4

typedef __m512 vf;
typedef int32_t vi __attribute__((vector_size(64)));
typedef __mmask16 vm;

static inline vf vf_set(float value)
{
    return _mm512_set1_ps(value);
}
static inline vi vi_set(int32_t value)
{
    return (vi)_mm512_set1_epi32(value);
}
static inline vf vf_load(const float *from)
{
    return _mm512_loadu_ps(from);
}
static inline void vf_store(float *to, vf value)
{
    _mm512_storeu_ps(to, value);
}
static inline __mmask16 vec_first(int64_t count)
{
    return (__mmask16)((1u << count) - 1u);
}
static inline vf vf_load_n(const float *from, int64_t count)
{
    return _mm512_maskz_loadu_ps(vec_first(count), from);
}
static inline void vf_store_n(float *to, vf value, int64_t count)
{
    _mm512_mask_storeu_ps(to, vec_first(count), value);
}
static inline vf vf_fma(vf left, vf right, vf addend)
{
    return _mm512_fmadd_ps(left, right, addend);
}
static inline vf vf_fnma(vf left, vf right, vf addend)
{
    return _mm512_fnmadd_ps(left, right, addend);
}
static inline vf vf_max(vf left, vf right)
{
    return _mm512_max_ps(left, right);
}
static inline vf vf_min(vf left, vf right)
{
    return _mm512_min_ps(left, right);
}
static inline vf vf_sqrt(vf value)
{
    return _mm512_sqrt_ps(value);
}
static inline vf vf_floor(vf value)
{
    return _mm512_roundscale_ps(value, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
static inline vf vf_ceil(vf value)
{
    return _mm512_roundscale_ps(value, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
static inline vf vf_round(vf value)
{
    return _mm512_roundscale_ps(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf vf_abs(vf value)
{
    return _mm512_abs_ps(value);
}
static inline vm vf_lt(vf left, vf right)
{
    return _mm512_cmp_ps_mask(left, right, _CMP_LT_OQ);
}
static inline vm vf_le(vf left, vf right)
{
    return _mm512_cmp_ps_mask(left, right, _CMP_LE_OQ);
}
static inline vm vf_eq(vf left, vf right)
{
    return _mm512_cmp_ps_mask(left, right, _CMP_EQ_OQ);
}
static inline vm vf_unordered(vf left, vf right)
{
    return _mm512_cmp_ps_mask(left, right, _CMP_UNORD_Q);
}
static inline vm vm_or(vm left, vm right)
{
    return (vm)(left | right);
}
static inline vf vf_pick(vm mask, vf left, vf right)
{
    return _mm512_mask_blend_ps(mask, right, left);
}
static inline vi vf_to_vi(vf value)
{
    return (vi)_mm512_cvtps_epi32(value);
}
static inline vf vi_to_vf(vi value)
{
    return _mm512_cvtepi32_ps((__m512i)value);
}
static inline vf vf_scale2(vf value, vf power)
{
    return _mm512_scalef_ps(value, power);
}
static inline float vf_sum(vf value)
{
    return _mm512_reduce_add_ps(value);
}
static inline float vf_hmax(vf value)
{
    return _mm512_reduce_max_ps(value);
}
static inline float vf_hmin(vf value)
{
    return _mm512_reduce_min_ps(value);
}
// Masks from and to bytes 0 and 1.
static inline vm vm_load(const uint8_t *from)
{
    return _mm512_test_epi32_mask(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from)),
                                  _mm512_set1_epi32(-1));
}
static inline void vm_store(uint8_t *to, vm mask)
{
    _mm_storeu_si128((__m128i *)to, _mm_maskz_set1_epi8(mask, 1));
}

// dst[c * dst_stride + r] = src[r * src_stride + c] over a tile of VW x VW.
static inline void vec_transpose_tile(const float *src, int64_t src_stride, float *dst,
                                      int64_t dst_stride)
{
    __m512 a[16];
    __m512 b[16];
    VEC_UNROLL
    for (int i = 0; i < 16; i++) {
        a[i] = _mm512_loadu_ps(src + i * src_stride);
    }
    VEC_UNROLL
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    VEC_UNROLL
    for (int i = 0; i < 16; i += 4) {
        a[i] = (__m512)_mm512_unpacklo_pd((__m512d)b[i], (__m512d)b[i + 2]);
        a[i + 1] = (__m512)_mm512_unpackhi_pd((__m512d)b[i], (__m512d)b[i + 2]);
        a[i + 2] = (__m512)_mm512_unpacklo_pd((__m512d)b[i + 1], (__m512d)b[i + 3]);
        a[i + 3] = (__m512)_mm512_unpackhi_pd((__m512d)b[i + 1], (__m512d)b[i + 3]);
    }
    VEC_UNROLL
    for (int i = 0; i < 4; i++) {
        b[i] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88);
        b[i + 4] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
        b[i + 8] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
        b[i + 12] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
    }
    VEC_UNROLL
    for (int i = 0; i < 8; i++) {
        _mm512_storeu_ps(dst + i * dst_stride, _mm512_shuffle_f32x4(b[i], b[i + 8], 0x88));
        _mm512_storeu_ps(dst + (i + 8) * dst_stride, _mm512_shuffle_f32x4(b[i], b[i + 8], 0xdd));
    }
}

// Alternates: low[0] high[0] low[1] high[1] ...
static inline void vec_zip2(vf low, vf high, float *dst)
{
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    _mm512_storeu_ps(dst, _mm512_permutex2var_ps(low, first, high));
    _mm512_storeu_ps(dst + 16, _mm512_permutex2var_ps(low, second, high));
}
#define VEC_HAS_ZIP3 1
static inline void vec_zip3(vf left, vf right, vf addend, float *dst)
{
    const __m512i ab[3] = {
        _mm512_setr_epi32(0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5),
        _mm512_setr_epi32(21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26),
        _mm512_setr_epi32(0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0)};
    const __m512i with_c[3] = {
        _mm512_setr_epi32(0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15),
        _mm512_setr_epi32(0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15),
        _mm512_setr_epi32(26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31)};
    for (int i = 0; i < 3; i++) {
        __m512 two = _mm512_permutex2var_ps(left, ab[i], right);
        _mm512_storeu_ps(dst + 16 * i, _mm512_permutex2var_ps(two, with_c[i], addend));
    }
}
// The other way: even and odd elements of 2 * VW floats.
static inline void vec_unzip2(const float *src, vf *even, vf *odd)
{
    const __m512i evens =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odds =
        _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    __m512 low = _mm512_loadu_ps(src);
    __m512 high = _mm512_loadu_ps(src + 16);
    *even = _mm512_permutex2var_ps(low, evens, high);
    *odd = _mm512_permutex2var_ps(low, odds, high);
}

#define VEC_HAS_WEAVE 1
// Lanes whose index is not negative take that element of x, the others keep acc's.
struct vec_pick {
    __m512i lanes;
    __mmask16 taken;
};
static inline struct vec_pick vec_pick_load(const int32_t *index)
{
    __m512i lanes = _mm512_loadu_si512(index);
    return (struct vec_pick){lanes, (__mmask16)~_mm512_movepi32_mask(lanes)};
}
static inline vf vec_weave(vf acc, struct vec_pick pick, vf value)
{
    return _mm512_mask_permutexvar_ps(acc, pick.taken, pick.lanes, value);
}

#define VEC_HAS_F16 1
static inline vf vec_f16_load(const uint16_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}
static inline void vec_f16_store(uint16_t *to, vf value)
{
    _mm256_storeu_si256((__m256i *)to,
                        _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#endif

// The vector layer over AVX2, FMA and F16C: 8 floats, masks as vectors of 0 and -1. See
// vec_simd_generic.h for what each name means.
#ifndef ENG_CPU_VEC_SIMD_AVX2_H
#define ENG_CPU_VEC_SIMD_AVX2_H

#include "backend/cpu/kernel/vec_unroll.h"

#include <immintrin.h>
#include <stdint.h>

#define VW               8
#define VEC_ISA_TEXT     "avx2"
#define VEC_ISA_NAME     avx2
#define VEC_TILE_ROWS    6
#define VEC_TILE_VECTORS 2

typedef __m256 vf;
typedef int32_t vi __attribute__((vector_size(32)));
typedef __m256 vm;

static inline vf vf_set(float value)
{
    return _mm256_set1_ps(value);
}
static inline vi vi_set(int32_t value)
{
    return (vi)_mm256_set1_epi32(value);
}
static inline vf vf_load(const float *from)
{
    return _mm256_loadu_ps(from);
}
static inline void vf_store(float *to, vf value)
{
    _mm256_storeu_ps(to, value);
}
static inline __m256i vec_first(int64_t count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf vf_load_n(const float *from, int64_t count)
{
    return _mm256_maskload_ps(from, vec_first(count));
}
static inline void vf_store_n(float *to, vf value, int64_t count)
{
    _mm256_maskstore_ps(to, vec_first(count), value);
}
static inline vf vf_fma(vf left, vf right, vf addend)
{
    return _mm256_fmadd_ps(left, right, addend);
}
static inline vf vf_fnma(vf left, vf right, vf addend)
{
    return _mm256_fnmadd_ps(left, right, addend);
}
static inline vf vf_max(vf left, vf right)
{
    return _mm256_max_ps(left, right);
}
static inline vf vf_min(vf left, vf right)
{
    return _mm256_min_ps(left, right);
}
static inline vf vf_sqrt(vf value)
{
    return _mm256_sqrt_ps(value);
}
static inline vf vf_floor(vf value)
{
    return _mm256_floor_ps(value);
}
static inline vf vf_ceil(vf value)
{
    return _mm256_ceil_ps(value);
}
static inline vf vf_round(vf value)
{
    return _mm256_round_ps(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf vf_abs(vf value)
{
    return _mm256_and_ps(value, (__m256)_mm256_set1_epi32(0x7fffffff));
}
static inline vm vf_lt(vf left, vf right)
{
    return _mm256_cmp_ps(left, right, _CMP_LT_OQ);
}
static inline vm vf_le(vf left, vf right)
{
    return _mm256_cmp_ps(left, right, _CMP_LE_OQ);
}
static inline vm vf_eq(vf left, vf right)
{
    return _mm256_cmp_ps(left, right, _CMP_EQ_OQ);
}
static inline vm vf_unordered(vf left, vf right)
{
    return _mm256_cmp_ps(left, right, _CMP_UNORD_Q);
}
static inline vm vm_or(vm left, vm right)
{
    return _mm256_or_ps(left, right);
}
static inline vf vf_pick(vm mask, vf left, vf right)
{
    return _mm256_blendv_ps(right, left, mask);
}
static inline vi vf_to_vi(vf value)
{
    return (vi)_mm256_cvtps_epi32(value);
}
static inline vf vi_to_vf(vi value)
{
    return _mm256_cvtepi32_ps((__m256i)value);
}
// In two halves, so that results below the smallest normal number come out right.
static inline vf vf_scale2(vf value, vf power)
{
    vi whole = vf_to_vi(power);
    vi half = whole >> 1;
    vi rest = whole - half;
    return value * (vf)((half + 127) << 23) * (vf)((rest + 127) << 23);
}
static inline float vf_sum(vf value)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}
static inline float vf_hmax(vf value)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}
static inline float vf_hmin(vf value)
{
    __m128 s = _mm_min_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
    s = _mm_min_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_min_ss(s, _mm_shuffle_ps(s, s, 1)));
}
static inline vm vm_load(const uint8_t *from)
{
    __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
    return (__m256)_mm256_cmpgt_epi32(x, _mm256_setzero_si256());
}
static inline void vm_store(uint8_t *to, vm mask)
{
    unsigned bits = (unsigned)_mm256_movemask_ps(mask);
    for (int i = 0; i < 8; i++) {
        to[i] = (uint8_t)(bits >> i & 1);
    }
}

static inline void vec_transpose_tile(const float *src, int64_t src_stride, float *dst,
                                      int64_t dst_stride)
{
    __m256 a[8];
    __m256 b[8];
    VEC_UNROLL
    for (int i = 0; i < 8; i++) {
        a[i] = _mm256_loadu_ps(src + i * src_stride);
    }
    VEC_UNROLL
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    VEC_UNROLL
    for (int i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    VEC_UNROLL
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(dst + i * dst_stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(dst + (i + 4) * dst_stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}
static inline void vec_zip2(vf low, vf high, float *dst)
{
    __m256 a = _mm256_unpacklo_ps(low, high);
    __m256 b = _mm256_unpackhi_ps(low, high);
    _mm256_storeu_ps(dst, _mm256_permute2f128_ps(a, b, 0x20));
    _mm256_storeu_ps(dst + 8, _mm256_permute2f128_ps(a, b, 0x31));
}
static inline void vec_unzip2(const float *src, vf *even, vf *odd)
{
    __m256 a = _mm256_loadu_ps(src);
    __m256 b = _mm256_loadu_ps(src + 8);
    __m256 low = _mm256_permute2f128_ps(a, b, 0x20);
    __m256 high = _mm256_permute2f128_ps(a, b, 0x31);
    *even = _mm256_shuffle_ps(low, high, 0x88);
    *odd = _mm256_shuffle_ps(low, high, 0xdd);
}

#define VEC_HAS_WEAVE 1
// Lanes whose index is not negative take that element of x, the others keep acc's.
struct vec_pick {
    __m256i lanes;
};
static inline struct vec_pick vec_pick_load(const int32_t *index)
{
    return (struct vec_pick){_mm256_loadu_si256((const __m256i *)(const void *)index)};
}
static inline vf vec_weave(vf acc, struct vec_pick pick, vf value)
{
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(value, pick.lanes), acc, (__m256)pick.lanes);
}

#define VEC_HAS_F16 1
static inline vf vec_f16_load(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}
static inline void vec_f16_store(uint16_t *to, vf value)
{
    _mm_storeu_si128((__m128i *)to,
                     _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#endif

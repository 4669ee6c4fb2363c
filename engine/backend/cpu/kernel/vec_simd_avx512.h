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

static inline vf vf_set(float x)
{
    return _mm512_set1_ps(x);
}
static inline vi vi_set(int32_t x)
{
    return (vi)_mm512_set1_epi32(x);
}
static inline vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}
static inline __mmask16 vec_first(int64_t n)
{
    return (__mmask16)((1u << n) - 1u);
}
static inline vf vf_load_n(const float *p, int64_t n)
{
    return _mm512_maskz_loadu_ps(vec_first(n), p);
}
static inline void vf_store_n(float *p, vf x, int64_t n)
{
    _mm512_mask_storeu_ps(p, vec_first(n), x);
}
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline vf vf_fnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}
static inline vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}
static inline vf vf_sqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}
static inline vf vf_floor(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
static inline vf vf_ceil(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
static inline vf vf_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf vf_abs(vf a)
{
    return _mm512_abs_ps(a);
}
static inline vm vf_lt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
static inline vm vf_le(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}
static inline vm vf_eq(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
static inline vm vf_unordered(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
}
static inline vm vm_or(vm a, vm b)
{
    return (vm)(a | b);
}
static inline vf vf_pick(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}
static inline vi vf_to_vi(vf a)
{
    return (vi)_mm512_cvtps_epi32(a);
}
static inline vf vi_to_vf(vi a)
{
    return _mm512_cvtepi32_ps((__m512i)a);
}
static inline vf vf_scale2(vf x, vf n)
{
    return _mm512_scalef_ps(x, n);
}
static inline float vf_sum(vf a)
{
    return _mm512_reduce_add_ps(a);
}
static inline float vf_hmax(vf a)
{
    return _mm512_reduce_max_ps(a);
}
static inline float vf_hmin(vf a)
{
    return _mm512_reduce_min_ps(a);
}
// Masks from and to bytes 0 and 1.
static inline vm vm_load(const uint8_t *p)
{
    return _mm512_test_epi32_mask(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)),
                                  _mm512_set1_epi32(-1));
}
static inline void vm_store(uint8_t *p, vm m)
{
    _mm_storeu_si128((__m128i *)p, _mm_maskz_set1_epi8(m, 1));
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
static inline void vec_zip3(vf a, vf b, vf c, float *dst)
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
        __m512 two = _mm512_permutex2var_ps(a, ab[i], b);
        _mm512_storeu_ps(dst + 16 * i, _mm512_permutex2var_ps(two, with_c[i], c));
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
static inline vf vec_weave(vf acc, struct vec_pick pick, vf x)
{
    return _mm512_mask_permutexvar_ps(acc, pick.taken, pick.lanes, x);
}

#define VEC_HAS_F16 1
static inline vf vec_f16_load(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline void vec_f16_store(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)p,
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#endif

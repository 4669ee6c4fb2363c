// Loops over rows of elements: reals and back, thresholds, weights, bits, tables of levels, masks.
// Simple enough that the compiler makes them wide; where it does badly, with AVX2 by hand and the
// same loop behind for the rest of a row. Called by cv_image.c, cv_arith.c and cv_levels.c, on the
// VM's thread.
#include "vm/cv/rows/cv_level_rows.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#ifdef NP_WIDE
#include <immintrin.h>
#endif

// A real that is added and taken away again leaves whole numbers, rounded to even, of what is
// smaller than 2 to the 51.
#define ROUNDING 6755399441055744.0

#define LOAD(name, T)                                                                              \
    static void name(double *restrict to, const T *restrict from, size_t count)                    \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            to[i] = (double)from[i];                                                               \
        }                                                                                          \
    }
LOAD(load_u8, uint8_t)
LOAD(load_i32, int32_t)
LOAD(load_f32, float)

static inline uint8_t held_u8(double value)
{
    double held = value > 0 ? value : 0; // NaN: 0
    held = held < 255 ? held : 255;
    return (uint8_t)(int32_t)((held + ROUNDING) - ROUNDING);
}

#ifdef NP_WIDE
#define STRIDE 16  // uint8 at a time
#define BLOCK  128 // of them that are made wider at a time

// Four reals as whole numbers; NaN is 0.
static inline __m128i four_of(__m256d value)
{
    value = _mm256_min_pd(_mm256_max_pd(value, _mm256_setzero_pd()), _mm256_set1_pd(255));
    return _mm256_cvtpd_epi32(value);
}

static inline __m128i sixteen_of(const __m128i four[4])
{
    return _mm_packus_epi16(_mm_packs_epi32(four[0], four[1]), _mm_packs_epi32(four[2], four[3]));
}

static inline __m256d reals_at(const int32_t *from)
{
    return _mm256_cvtepi32_pd(_mm_loadu_si128((const __m128i_u *)(const void *)from));
}
#endif

static void store_u8(uint8_t *restrict to, const double *restrict from, size_t count)
{
    size_t i = 0;
#ifdef NP_WIDE
    for (; i + STRIDE <= count; i += STRIDE) {
        __m128i four[4];
        for (size_t j = 0; j < 4; j++) {
            four[j] = four_of(_mm256_loadu_pd(from + i + 4 * j));
        }
        _mm_storeu_si128((__m128i_u *)(void *)(to + i), sixteen_of(four));
    }
#endif
    for (; i < count; i++) {
        to[i] = held_u8(from[i]);
    }
}

static void store_i32(int32_t *restrict to, const double *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double held = from[i] > INT32_MIN ? from[i] : INT32_MIN;
        held = held < INT32_MAX ? held : INT32_MAX;
        to[i] = (int32_t)((held + ROUNDING) - ROUNDING);
    }
}

static void store_f32(float *restrict to, const double *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = (float)from[i];
    }
}

// --- thresholds

static void cut_u8(uint8_t *restrict to, const uint8_t *restrict from, size_t count,
                   const struct cv_cut *cut)
{
    const struct cv_cut by = *cut;
    for (size_t i = 0; i < count; i++) {
        uint8_t below = (uint8_t)((from[i] & by.keep[0]) | by.set[0]);
        uint8_t above = (uint8_t)((from[i] & by.keep[1]) | by.set[1]);
        to[i] = from[i] >= by.low ? above : below;
    }
}

// --- weights and tables of levels

#ifdef NP_WIDE
// As many as there are vectors of. Where the sums fit into int32, packing holds them by itself.
static inline size_t weigh_vectors(uint8_t *restrict to, const uint8_t *const both[2], size_t count,
                                   const struct cv_weights *weights, const bool fits)
{
    const __m256d alpha = _mm256_set1_pd(weights->alpha);
    const __m256d beta = _mm256_set1_pd(weights->beta);
    const __m256d gamma = _mm256_set1_pd(weights->gamma);
    int32_t one[BLOCK];
    int32_t other[BLOCK];
    size_t done = 0;
    while (count - done >= STRIDE) {
        size_t part = count - done < BLOCK ? (count - done) / STRIDE * STRIDE : BLOCK;
        for (size_t i = 0; i < part; i++) {
            one[i] = both[0][done + i];
            other[i] = both[1][done + i];
        }
        for (size_t i = 0; i < part; i += STRIDE) {
            __m128i four[4];
            for (size_t j = 0; j < 4; j++) {
                __m256d left = _mm256_mul_pd(reals_at(one + i + 4 * j), alpha);
                __m256d right = _mm256_mul_pd(reals_at(other + i + 4 * j), beta);
                __m256d sum = _mm256_add_pd(_mm256_add_pd(left, right), gamma);
                four[j] = fits ? _mm256_cvtpd_epi32(sum) : four_of(sum);
            }
            _mm_storeu_si128((__m128i_u *)(void *)(to + done + i), sixteen_of(four));
        }
        done += part;
    }
    return done;
}
#endif

static void weigh_u8(uint8_t *restrict to, const uint8_t *const both[2], size_t count,
                     const struct cv_weights *weights)
{
    const struct cv_weights by = *weights;
    const uint8_t *one = both[0];
    const uint8_t *other = both[1];
    size_t i = 0;
#ifdef NP_WIDE
    const double most = (fabs(by.alpha) + fabs(by.beta)) * UINT8_MAX + fabs(by.gamma);
    i = most < INT32_MAX / 2 ? weigh_vectors(to, both, count, weights, true)
                             : weigh_vectors(to, both, count, weights, false);
#endif
    for (; i < count; i++) {
        to[i] = held_u8(one[i] * by.alpha + other[i] * by.beta + by.gamma);
    }
}

static void weigh_f32(float *restrict to, const float *const both[2], size_t count,
                      const struct cv_weights *weights)
{
    const struct cv_weights by = *weights;
    const float *one = both[0];
    const float *other = both[1];
    for (size_t i = 0; i < count; i++) {
        to[i] = (float)((double)one[i] * by.alpha + (double)other[i] * by.beta + by.gamma);
    }
}

// One by one: the compiler would put bytes together into vectors, which takes longer.
static inline uint8_t level_of(const uint8_t levels[CV_LEVELS], uint8_t value)
{
    uint32_t level = levels[value];
    __asm__("" : "+r"(level));
    return (uint8_t)level;
}

static void mapped(uint8_t *restrict to, const uint8_t *restrict from, size_t count,
                   const uint8_t levels[CV_LEVELS])
{
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        to[i] = level_of(levels, from[i]);
        to[i + 1] = level_of(levels, from[i + 1]);
        to[i + 2] = level_of(levels, from[i + 2]);
        to[i + 3] = level_of(levels, from[i + 3]);
    }
    for (; i < count; i++) {
        to[i] = level_of(levels, from[i]);
    }
}

#ifdef NP_WIDE
// As many as there are vectors of; where the results fit into int32, as above.
static size_t scale_vectors(uint8_t *restrict to, const uint8_t *restrict from, size_t count,
                            const struct cv_weights *weights)
{
    const __m256d alpha = _mm256_set1_pd(weights->alpha);
    const __m256d gamma = _mm256_set1_pd(weights->gamma);
    int32_t one[BLOCK];
    size_t done = 0;
    while (count - done >= STRIDE) {
        size_t part = count - done < BLOCK ? (count - done) / STRIDE * STRIDE : BLOCK;
        for (size_t i = 0; i < part; i++) {
            one[i] = from[done + i];
        }
        for (size_t i = 0; i < part; i += STRIDE) {
            __m128i four[4];
            for (size_t j = 0; j < 4; j++) {
                __m256d scaled = _mm256_mul_pd(reals_at(one + i + 4 * j), alpha);
                four[j] = _mm256_cvtpd_epi32(_mm256_add_pd(scaled, gamma));
            }
            _mm_storeu_si128((__m128i_u *)(void *)(to + done + i), sixteen_of(four));
        }
        done += part;
    }
    return done;
}
#endif

static void scale_u8(uint8_t *restrict to, const uint8_t *restrict from, size_t count,
                     const struct cv_weights *weights, const uint8_t levels[CV_LEVELS])
{
    size_t done = 0;
#ifdef NP_WIDE
    if (fabs(weights->alpha) * UINT8_MAX + fabs(weights->gamma) < INT32_MAX / 2) {
        done = scale_vectors(to, from, count, weights);
    }
#else
    (void)weights;
#endif
    mapped(to + done, from + done, count - done, levels);
}

static void scale_f32(float *restrict to, const float *restrict from, size_t count,
                      const struct cv_weights *weights)
{
    const struct cv_weights by = *weights;
    for (size_t i = 0; i < count; i++) {
        to[i] = (float)((double)from[i] * by.alpha + by.gamma);
    }
}

// --- masks

// Pixels of a size that is known where it is compiled.
static inline void chosen_of(uint8_t *restrict to, const uint8_t *restrict from,
                             const uint8_t *restrict mask, size_t count, const size_t pixel)
{
    for (size_t i = 0; i < count; i++) {
        if (mask[i] != 0) {
            memcpy(to + i * pixel, from + i * pixel, pixel);
        }
    }
}

static void chosen(uint8_t *restrict to, const uint8_t *restrict from, const uint8_t *restrict mask,
                   size_t count, size_t pixel)
{
    switch (pixel) {
    case 1:
        for (size_t i = 0; i < count; i++) {
            to[i] = mask[i] != 0 ? from[i] : to[i];
        }
        break;
    case 3:
        chosen_of(to, from, mask, count, 3);
        break;
    case 4:
        chosen_of(to, from, mask, count, 4);
        break;
    case 12:
        chosen_of(to, from, mask, count, 12);
        break;
    default:
        chosen_of(to, from, mask, count, pixel);
        break;
    }
}

// --- one loop for each of a kind

#define CUT(name, above, below)                                                                    \
    static void name(float *restrict to, const float *restrict from, size_t count,                 \
                     const float ends[2])                                                          \
    {                                                                                              \
        const float level = ends[0];                                                               \
        const float most = ends[1];                                                                \
        for (size_t i = 0; i < count; i++) {                                                       \
            const float value = from[i];                                                           \
            to[i] = value > level ? (above) : (below);                                             \
        }                                                                                          \
        (void)most;                                                                                \
    }
CUT(binary, most, 0)
CUT(binary_inv, 0, most)
CUT(trunc_at, level, value)
CUT(to_zero, value, 0)
CUT(to_zero_inv, 0, value)

#define BITS(name, made)                                                                           \
    static void name(uint8_t *restrict to, const uint8_t *const both[2], size_t bytes)             \
    {                                                                                              \
        const uint8_t *one = both[0];                                                              \
        const uint8_t *other = both[1];                                                            \
        for (size_t i = 0; i < bytes; i++) {                                                       \
            to[i] = (uint8_t)(made);                                                               \
        }                                                                                          \
        (void)other;                                                                               \
    }
BITS(bits_and, one[i] & other[i])
BITS(bits_or, one[i] | other[i])
BITS(bits_xor, one[i] ^ other[i])
BITS(bits_not, ~one[i])

const struct cv_level_rows NP_COMPILED(dev_cv_level_rows) = {
    .load_u8 = load_u8,
    .load_i32 = load_i32,
    .load_f32 = load_f32,
    .store_u8 = store_u8,
    .store_i32 = store_i32,
    .store_f32 = store_f32,
    .cut_u8 = cut_u8,
    .cut_f32 = {binary, binary_inv, trunc_at, to_zero, to_zero_inv},
    .weigh_u8 = weigh_u8,
    .weigh_f32 = weigh_f32,
    .scale_u8 = scale_u8,
    .scale_f32 = scale_f32,
    .bits = {bits_and, bits_or, bits_xor, bits_not},
    .mapped = mapped,
    .chosen = chosen,
};

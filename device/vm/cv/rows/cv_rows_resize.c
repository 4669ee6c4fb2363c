// Rows that are resized: across, each pixel of some next to one another, and down, rows added up.
// uint8 by INTER_LINEAR is computed in whole numbers of 11 bits, as OpenCV does, all else in
// floats. Called by cv_resize.c, which pads rows so that no place is outside of them.
#include "vm/cv/rows/cv_place_rows.h"

#include "vm/cv/rows/cv_four.h"

#include <string.h>

#define ROUND 0x1.8p23f // a float plus this, less it, is a whole number, rounded to even

// --- whole numbers

ALWAYS void fixed_of(int16_t *restrict to, const uint8_t *restrict from, const struct cv_taps *taps,
                     size_t begin, size_t channels)
{
    const int16_t *restrict weights = taps->weights;
    for (size_t i = begin; i < taps->count; i++) {
        const uint8_t *pixel = from + taps->at[i];
        for (size_t c = 0; c < channels; c++) {
            int sum = pixel[c] * weights[2 * i] + pixel[channels + c] * weights[2 * i + 1];
            to[i * channels + c] = (int16_t)(sum >> 4);
        }
    }
}

#if defined(NP_WIDE)
// Eight pixels of one channel at a time; how many it did.
static size_t fixed_one(int16_t *restrict to, const uint8_t *restrict from,
                        const struct cv_taps *taps)
{
    const int16_t *weights = taps->weights;
    const __m256i wide_order = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);
    size_t i = 0;
    for (; i + 8 <= taps->count; i += 8) {
        uint16_t pairs[8];
        for (size_t k = 0; k < 8; k++) {
            memcpy(&pairs[k], from + taps->at[i + k], 2);
        }
        __m128i bytes =
            _mm_setr_epi16((short)pairs[0], (short)pairs[1], (short)pairs[2], (short)pairs[3],
                           (short)pairs[4], (short)pairs[5], (short)pairs[6], (short)pairs[7]);
        __m256i by = _mm256_loadu_si256((const void *)(weights + 2 * i));
        __m256i sums = _mm256_srai_epi32(_mm256_madd_epi16(_mm256_cvtepu8_epi16(bytes), by), 4);
        __m256i packed = _mm256_permutevar8x32_epi32(_mm256_packs_epi32(sums, sums), wide_order);
        _mm_storeu_si128((void *)(to + 8 * (i / 8)), _mm256_castsi256_si128(packed));
    }
    return i;
}

// Two pixels of three or four channels at a time: channels of a pixel and the next, side by side.
static size_t fixed_more(int16_t *restrict to, const uint8_t *restrict from,
                         const struct cv_taps *taps)
{
    const int16_t *weights = taps->weights;
    const size_t channels = taps->channels;
    const __m128i three = _mm_setr_epi8(0, 3, 1, 4, 2, 5, -1, -1, 8, 11, 9, 12, 10, 13, -1, -1);
    const __m128i four = _mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    const __m128i order = channels == 3 ? three : four;
    const __m256i spread = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    size_t i = 0;
    for (; i + 2 <= taps->count; i += 2) {
        __m128i bytes = _mm_unpacklo_epi64(_mm_loadl_epi64((const void *)(from + taps->at[i])),
                                           _mm_loadl_epi64((const void *)(from + taps->at[i + 1])));
        __m256i pairs = _mm256_cvtepu8_epi16(_mm_shuffle_epi8(bytes, order));
        __m128i both = _mm_loadl_epi64((const void *)(weights + 2 * i));
        __m256i by = _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(both), spread);
        __m256i sums = _mm256_srai_epi32(_mm256_madd_epi16(pairs, by), 4);
        __m128i packed =
            _mm_packs_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        _mm_storel_epi64((void *)(to + i * channels), packed);
        _mm_storel_epi64((void *)(to + (i + 1) * channels), _mm_unpackhi_epi64(packed, packed));
    }
    return i;
}
#endif

static void across_fixed(void *to, const void *from, const struct cv_taps *taps)
{
    size_t done = 0;
#if defined(NP_WIDE)
    if (taps->channels == 1) {
        done = fixed_one(to, from, taps);
    } else if (taps->channels == 3 || taps->channels == 4) {
        done = fixed_more(to, from, taps);
    }
#endif
    switch (taps->channels) {
    case 1:
        fixed_of(to, from, taps, done, 1);
        break;
    case 3:
        fixed_of(to, from, taps, done, 3);
        break;
    case 4:
        fixed_of(to, from, taps, done, 4);
        break;
    default:
        fixed_of(to, from, taps, done, taps->channels);
        break;
    }
}

static void down_fixed(uint8_t *restrict to, const int16_t *const rows[2], const int16_t weights[2],
                       size_t count)
{
    const int16_t *restrict one = rows[0];
    const int16_t *restrict other = rows[1];
    const int first = weights[0];
    const int second = weights[1];
    size_t i = 0;
#if defined(NP_WIDE)
    const __m256i by[] = {_mm256_set1_epi16(weights[0]), _mm256_set1_epi16(weights[1])};
    for (; i + 32 <= count; i += 32) {
        __m256i half[2];
        for (size_t k = 0; k < 2; k++) {
            __m256i above = _mm256_loadu_si256((const void *)(one + i + 16 * k));
            __m256i below = _mm256_loadu_si256((const void *)(other + i + 16 * k));
            __m256i sum = _mm256_add_epi16(_mm256_mulhi_epi16(above, by[0]),
                                           _mm256_mulhi_epi16(below, by[1]));
            half[k] = _mm256_srai_epi16(_mm256_add_epi16(sum, _mm256_set1_epi16(2)), 2);
        }
        __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(half[0], half[1]), 0xd8);
        _mm256_storeu_si256((void *)(to + i), bytes);
    }
#endif
    for (; i < count; i++) {
        to[i] = (uint8_t)((((first * one[i]) >> 16) + ((second * other[i]) >> 16) + 2) >> 2);
    }
}

// --- floats

// Pixels of three and of four channels are one vector each; one of three leaves a fourth number,
// which the next one overwrites.
#define ACROSS_FOUR(name, type)                                                                    \
    ALWAYS void across_four_##name(float *restrict to, const type *restrict from,                  \
                                   const struct cv_taps *taps, size_t channels, size_t count)      \
    {                                                                                              \
        const float *restrict weights = taps->weights;                                             \
        for (size_t i = 0; i < taps->count; i++, weights += count) {                               \
            const type *pixel = from + taps->at[i];                                                \
            cv_four sum = weights[0] * four_##name(pixel);                                         \
            for (size_t k = 1; k < count; k++) {                                                   \
                sum += weights[k] * four_##name(pixel + k * channels);                             \
            }                                                                                      \
            memcpy(to + i * channels, &sum, sizeof(sum));                                          \
        }                                                                                          \
    }
ACROSS_FOUR(u8, uint8_t)
ACROSS_FOUR(f32, float)

// Pixels of one channel with four taps: a vector each, too.
#define ACROSS_CUBIC(name, type)                                                                   \
    static void across_cubic_##name(float *restrict to, const type *restrict from,                 \
                                    const struct cv_taps *taps)                                    \
    {                                                                                              \
        const float *restrict weights = taps->weights;                                             \
        for (size_t i = 0; i < taps->count; i++) {                                                 \
            cv_four parts = four_f32(weights + 4 * i) * four_##name(from + taps->at[i]);           \
            to[i] = (parts[0] + parts[1]) + (parts[2] + parts[3]);                                 \
        }                                                                                          \
    }
ACROSS_CUBIC(u8, uint8_t)
ACROSS_CUBIC(f32, float)

#define ACROSS_ANY(name, type, real)                                                               \
    ALWAYS void across_any_##name(real *restrict to, const type *restrict from,                    \
                                  const struct cv_taps *taps, size_t channels, size_t count)       \
    {                                                                                              \
        const real *restrict weights = taps->weights;                                              \
        for (size_t i = 0; i < taps->count; i++, weights += count) {                               \
            const type *pixel = from + taps->at[i];                                                \
            for (size_t c = 0; c < channels; c++) {                                                \
                real sum = weights[0] * (real)pixel[c];                                            \
                for (size_t k = 1; k < count; k++) {                                               \
                    sum += weights[k] * (real)pixel[k * channels + c];                             \
                }                                                                                  \
                to[i * channels + c] = sum;                                                        \
            }                                                                                      \
        }                                                                                          \
    }
ACROSS_ANY(u8, uint8_t, float)
ACROSS_ANY(f32, float, float)
ACROSS_ANY(f64, double, double)

#define ACROSS(name)                                                                               \
    static void across_##name(void *to, const void *from, const struct cv_taps *taps)              \
    {                                                                                              \
        switch (taps->channels * 8 + (taps->taps < 5 ? taps->taps : 0)) {                          \
        case 8 + 4:                                                                                \
            across_cubic_##name(to, from, taps);                                                   \
            break;                                                                                 \
        case 8 + 2:                                                                                \
            across_any_##name(to, from, taps, 1, 2);                                               \
            break;                                                                                 \
        case 24 + 2:                                                                               \
            across_four_##name(to, from, taps, 3, 2);                                              \
            break;                                                                                 \
        case 24 + 4:                                                                               \
            across_four_##name(to, from, taps, 3, 4);                                              \
            break;                                                                                 \
        case 24 + 3:                                                                               \
        case 24:                                                                                   \
            across_four_##name(to, from, taps, 3, taps->taps);                                     \
            break;                                                                                 \
        case 32 + 2:                                                                               \
        case 32 + 3:                                                                               \
        case 32 + 4:                                                                               \
        case 32:                                                                                   \
            across_four_##name(to, from, taps, 4, taps->taps);                                     \
            break;                                                                                 \
        default:                                                                                   \
            across_any_##name(to, from, taps, taps->channels, taps->taps);                         \
            break;                                                                                 \
        }                                                                                          \
    }
ACROSS(u8)
ACROSS(f32)

static void across_f64(void *to, const void *from, const struct cv_taps *taps)
{
    across_any_f64(to, from, taps, taps->channels, taps->taps);
}

#define DOWN(name, real)                                                                           \
    static void two_##name(real *restrict to, const real *restrict a, const real *restrict b,      \
                           const real *weights, size_t count)                                      \
    {                                                                                              \
        const real first = weights[0];                                                             \
        const real second = weights[1];                                                            \
        for (size_t i = 0; i < count; i++) {                                                       \
            to[i] = first * a[i] + second * b[i];                                                  \
        }                                                                                          \
    }                                                                                              \
    static void add_##name(real *restrict to, const real *restrict a, const real *restrict b,      \
                           const real *weights, size_t count)                                      \
    {                                                                                              \
        const real first = weights[0];                                                             \
        const real second = weights[1];                                                            \
        for (size_t i = 0; i < count; i++) {                                                       \
            to[i] += first * a[i] + second * b[i];                                                 \
        }                                                                                          \
    }                                                                                              \
    static void down_##name(void *to, const void *const *rows, const void *weights, size_t taps,   \
                            size_t count)                                                          \
    {                                                                                              \
        const real *by = weights;                                                                  \
        const real alone[] = {by[taps - 1] / 2, by[taps - 1] / 2}; /* of one row twice */          \
        if (taps == 1) {                                                                           \
            two_##name(to, rows[0], rows[0], alone, count);                                        \
            return;                                                                                \
        }                                                                                          \
        two_##name(to, rows[0], rows[1], by, count);                                               \
        size_t k = 2;                                                                              \
        for (; k + 2 <= taps; k += 2) {                                                            \
            add_##name(to, rows[k], rows[k + 1], by + k, count);                                   \
        }                                                                                          \
        if (k < taps) {                                                                            \
            add_##name(to, rows[k], rows[k], alone, count);                                        \
        }                                                                                          \
    }
DOWN(f32, float)
DOWN(f64, double)

static void store_u8(uint8_t *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float held = from[i] > 0 ? from[i] : 0;
        held = held < 255 ? held : 255;
        to[i] = (uint8_t)(int)(held + ROUND - ROUND);
    }
}

ALWAYS void level_of(float *restrict to, const float *restrict from, size_t count, size_t channels,
                     const float mean_scale[2])
{
    const float mean = mean_scale[0];
    const float scale = mean_scale[1];
    for (size_t i = 0; i < count; i++) {
        to[i] = (from[i * channels] - mean) * scale;
    }
}

static void level(float *to, const float *from, size_t count, size_t channels,
                  const float mean_scale[2])
{
    if (channels == 1) {
        level_of(to, from, count, 1, mean_scale);
    } else if (channels == 3) {
        level_of(to, from, count, 3, mean_scale);
    } else {
        level_of(to, from, count, channels, mean_scale);
    }
}

// --- cells of whole pixels

static void halve(uint8_t *restrict to, const uint8_t *const rows[2], const struct cv_cells *cells)
{
    const size_t channels = cells->channels;
    const uint8_t *restrict a = rows[0];
    const uint8_t *restrict b = rows[1];
    size_t i = 0;
#if defined(NP_WIDE)
    static const int8_t orders[4][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                         {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15},
                                         {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11, -1, -1, -1, -1},
                                         {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}};
    const size_t each = channels == 3 ? 2 : channels <= 4 ? 8 / channels : cells->count + 1;
    const __m128i order = _mm_loadu_si128((const void *)orders[channels <= 4 ? channels - 1 : 0]);
    const __m128i ones = _mm_set1_epi8(1);
    for (; i + each + 2 <= cells->count; i += each) {
        __m128i above = _mm_loadu_si128((const void *)(a + 2 * i * channels));
        __m128i below = _mm_loadu_si128((const void *)(b + 2 * i * channels));
        __m128i sum = _mm_add_epi16(_mm_maddubs_epi16(_mm_shuffle_epi8(above, order), ones),
                                    _mm_maddubs_epi16(_mm_shuffle_epi8(below, order), ones));
        sum = _mm_srli_epi16(_mm_add_epi16(sum, _mm_set1_epi16(2)), 2);
        _mm_storel_epi64((void *)(to + i * channels), _mm_packus_epi16(sum, sum));
    }
#endif
    for (; i < cells->count; i++) {
        const size_t at = 2 * i * channels;
        for (size_t c = at; c < at + channels; c++) {
            to[c - at + i * channels] =
                (uint8_t)((a[c] + a[c + channels] + b[c] + b[c + channels] + 2) >> 2);
        }
    }
}

static void sum(uint32_t *restrict sums, const uint8_t *restrict row, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sums[i] += row[i];
    }
}

ALWAYS void shrink_of(uint8_t *restrict to, const uint32_t *restrict sums,
                      const struct cv_cells *cells, size_t channels)
{
    const float part = 1.0f / (float)(cells->across * cells->down);
    for (size_t i = 0; i < cells->count; i++, sums += cells->across * channels) {
        for (size_t c = 0; c < channels; c++) {
            uint32_t all = 0;
            for (size_t k = 0; k < cells->across; k++) {
                all += sums[k * channels + c];
            }
            to[i * channels + c] = (uint8_t)(int)((float)all * part + ROUND - ROUND);
        }
    }
}

static void shrink(uint8_t *to, const uint32_t *sums, const struct cv_cells *cells)
{
    if (cells->channels == 1) {
        shrink_of(to, sums, cells, 1);
    } else if (cells->channels == 3) {
        shrink_of(to, sums, cells, 3);
    } else {
        shrink_of(to, sums, cells, cells->channels);
    }
}

const struct cv_resize_rows NP_COMPILED(dev_cv_resize_rows) = {
    .across_fixed = across_fixed,
    .across_u8 = across_u8,
    .across_f32 = across_f32,
    .across_f64 = across_f64,
    .down_fixed = down_fixed,
    .down_f32 = down_f32,
    .down_f64 = down_f64,
    .store_u8 = store_u8,
    .level = level,
    .halve = halve,
    .sum = sum,
    .shrink = shrink,
};

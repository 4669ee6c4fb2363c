// Pixels of rows, of a few bytes each, as walle.cv's pyramids take every other of them and lay two
// rows side by side; and means of what is around a place, weighted by how far off it is in colour.
// Sums are in the order of the places, so that they come out the same for every processor. Called
// by cv_pyramid.c and cv_within.c, on the VM's thread.
#include "vm/cv/rows/cv_filter_rows.h"

#include "vm/cv/rows/cv_vector.h"
#include "vm/np/np_wide.h"

#include <stdlib.h>

#define PIXELS(bytes)                                                                              \
    static void every_other_##bytes(uint8_t *restrict to, const uint8_t *restrict from,            \
                                    size_t pixels)                                                 \
    {                                                                                              \
        for (size_t i = 0; i < pixels; i++) {                                                      \
            memcpy(to + i * (bytes), from + 2 * i * (bytes), bytes);                               \
        }                                                                                          \
    }                                                                                              \
    static void in_turn_##bytes(uint8_t *restrict to, const uint8_t *restrict even,                \
                                const uint8_t *restrict odd, size_t pixels)                        \
    {                                                                                              \
        for (size_t i = 0; i < pixels; i++) {                                                      \
            memcpy(to + 2 * i * (bytes), even + i * (bytes), bytes);                               \
            memcpy(to + (2 * i + 1) * (bytes), odd + i * (bytes), bytes);                          \
        }                                                                                          \
    }

PIXELS(1)
PIXELS(3)
PIXELS(4)
PIXELS(12)
#undef PIXELS

static void every_other(uint8_t *to, const uint8_t *from, size_t pixels, size_t bytes)
{
    switch (bytes) {
    case 1:
        every_other_1(to, from, pixels);
        break;
    case 3:
        every_other_3(to, from, pixels);
        break;
    case 4:
        every_other_4(to, from, pixels);
        break;
    case 12:
        every_other_12(to, from, pixels);
        break;
    default:
        for (size_t i = 0; i < pixels; i++) {
            memcpy(to + i * bytes, from + 2 * i * bytes, bytes);
        }
        break;
    }
}

static void in_turn(uint8_t *to, const uint8_t *even, const uint8_t *odd, size_t pixels,
                    size_t bytes)
{
    switch (bytes) {
    case 1:
        in_turn_1(to, even, odd, pixels);
        break;
    case 3:
        in_turn_3(to, even, odd, pixels);
        break;
    case 4:
        in_turn_4(to, even, odd, pixels);
        break;
    case 12:
        in_turn_12(to, even, odd, pixels);
        break;
    default:
        for (size_t i = 0; i < pixels; i++) {
            memcpy(to + 2 * i * bytes, even + i * bytes, bytes);
            memcpy(to + (2 * i + 1) * bytes, odd + i * bytes, bytes);
        }
        break;
    }
}

static const uint8_t *plane_of(const struct cv_within *within, size_t tap, size_t channel, size_t i)
{
    return within->rows[tap] + channel * within->plane + i;
}

// One pixel.
static void within_pixel(uint8_t *to, const struct cv_within *within, size_t i)
{
    float sums[CV_WITHIN_CHANNELS] = {0};
    float weights = 0;
    for (size_t k = 0; k < within->taps; k++) {
        int apart = 0;
        for (size_t c = 0; c < within->channels; c++) {
            apart += abs(*plane_of(within, k, c, i) - within->center[c * within->plane + i]);
        }
        float weight = within->of_color[apart] * within->of_space[k];
        weights += weight;
        for (size_t c = 0; c < within->channels; c++) {
            sums[c] += weight * (float)*plane_of(within, k, c, i);
        }
    }
    for (size_t c = 0; c < within->channels; c++) {
        float mean = sums[c] / weights;
        to[i * within->channels + c] = (uint8_t)((mean + 0x1.8p23F) - 0x1.8p23F);
    }
}

#if defined(NP_WIDE)
enum { LANES = 8 };

CV_INLINE __m256i longs_at(const uint8_t *from)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}

// LANES pixels of `channels` channels.
CV_INLINE void within_pixels(uint8_t *to, const struct cv_within *within, size_t i,
                             const size_t channels)
{
    __m256 sums[CV_WITHIN_CHANNELS];
    __m256i centers[CV_WITHIN_CHANNELS];
    __m256 weights = _mm256_setzero_ps();
    for (size_t c = 0; c < channels; c++) {
        sums[c] = _mm256_setzero_ps();
        centers[c] = longs_at(within->center + c * within->plane + i);
    }
    for (size_t k = 0; k < within->taps; k++) {
        __m256i read[CV_WITHIN_CHANNELS];
        __m256i apart = _mm256_setzero_si256();
        for (size_t c = 0; c < channels; c++) {
            read[c] = longs_at(plane_of(within, k, c, i));
            __m256i off = _mm256_abs_epi32(_mm256_sub_epi32(read[c], centers[c]));
            apart = _mm256_add_epi32(apart, off);
        }
        __m256 weight = _mm256_mul_ps(_mm256_i32gather_ps(within->of_color, apart, sizeof(float)),
                                      _mm256_set1_ps(within->of_space[k]));
        weights = _mm256_add_ps(weights, weight);
        for (size_t c = 0; c < channels; c++) {
            __m256 part = _mm256_mul_ps(weight, _mm256_cvtepi32_ps(read[c]));
            sums[c] = _mm256_add_ps(sums[c], part);
        }
    }
    for (size_t c = 0; c < channels; c++) {
        int32_t means[LANES];
        __m256i mean = _mm256_cvtps_epi32(_mm256_div_ps(sums[c], weights)); // a half to even
        _mm256_storeu_si256((__m256i *)(void *)means, mean);
        for (size_t j = 0; j < LANES; j++) {
            to[(i + j) * channels + c] = (uint8_t)means[j];
        }
    }
}
#endif

static void within_bytes(uint8_t *to, const struct cv_within *within, size_t pixels)
{
    size_t i = 0;
#if defined(NP_WIDE)
    for (; i + LANES <= pixels; i += LANES) {
        if (within->channels == 1) {
            within_pixels(to, within, i, 1);
        } else {
            within_pixels(to, within, i, CV_WITHIN_CHANNELS);
        }
    }
#endif
    for (; i < pixels; i++) {
        within_pixel(to, within, i);
    }
}

const struct cv_pixel_rows NP_COMPILED(dev_cv_pixel_rows) = {
    .every_other = every_other, .in_turn = in_turn, .within = within_bytes};

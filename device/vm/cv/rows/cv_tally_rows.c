// Loops over rows of elements that sum, count or compare them. Of uint8 in whole numbers, which
// come out the same in any order, so that as many are added at a time as a vector holds. Called by
// cv_arith.c and cv_levels.c, on the VM's thread.
#include "vm/cv/rows/cv_tally_rows.h"

#include <string.h>

#ifdef NP_WIDE
#include <immintrin.h>
#endif

#define ROUNDING 6755399441055744.0 // as in cv_level_rows.c
#define PERIOD   96                 // elements: as many vectors for one channel as for two to four
#define PERIODS  256                // of uint8 that a sum of 16 bits holds
#define LANES    16
#define BLOCK    256 // pixels of a row at a time

static void counted(uint32_t counts[CV_COUNTERS][CV_LEVELS], const uint8_t *from, size_t count,
                    size_t step)
{
    size_t i = 0;
    if (step == 1) {
        for (; i + 8 <= count; i += 8) {
            uint64_t eight;
            memcpy(&eight, from + i, sizeof(eight));
            for (uint32_t j = 0; j < 8; j++) {
                counts[j % CV_COUNTERS][eight >> (8 * j) & 0xff]++;
            }
        }
    }
    for (; i < count; i++) {
        counts[i % CV_COUNTERS][from[i * step]]++;
    }
}

// Of a number of channels that is known where it is compiled; a period has whole pixels.
static inline void summed_of(uint64_t sums[4], const uint8_t *from, size_t count,
                             const uint32_t channels)
{
    size_t at = 0;
    while (count - at >= PERIOD) {
        size_t periods = (count - at) / PERIOD;
        periods = periods < PERIODS ? periods : PERIODS;
        uint16_t parts[PERIOD] = {0};
        for (size_t i = 0; i < periods; i++, at += PERIOD) {
            for (size_t j = 0; j < PERIOD; j++) {
                parts[j] = (uint16_t)(parts[j] + from[at + j]);
            }
        }
        uint32_t each[4] = {0};
        for (size_t j = 0; j < PERIOD; j++) {
            each[j % channels] += parts[j];
        }
        for (uint32_t c = 0; c < channels; c++) {
            sums[c] += each[c];
        }
    }
    for (; at < count; at++) {
        sums[at % channels] += from[at];
    }
}

static void summed(uint64_t sums[4], const uint8_t *from, size_t pixels, uint32_t channels)
{
    switch (channels) {
    case 1:
        summed_of(sums, from, pixels, 1);
        break;
    case 2:
        summed_of(sums, from, pixels * 2, 2);
        break;
    case 3:
        summed_of(sums, from, pixels * 3, 3);
        break;
    default:
        summed_of(sums, from, pixels * 4, 4);
        break;
    }
}

static void extent_u8(uint8_t ends[2], const uint8_t *from, size_t count)
{
    uint8_t least = ends[0];
    uint8_t largest = ends[1];
    for (size_t i = 0; i < count; i++) {
        least = from[i] < least ? from[i] : least;
        largest = from[i] > largest ? from[i] : largest;
    }
    ends[0] = least;
    ends[1] = largest;
}

static void extent_f32(float ends[2], const float *from, size_t count)
{
    float least[LANES];
    float largest[LANES];
    for (size_t j = 0; j < LANES; j++) {
        least[j] = ends[0];
        largest[j] = ends[1];
    }
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            least[j] = from[i + j] < least[j] ? from[i + j] : least[j];
            largest[j] = from[i + j] > largest[j] ? from[i + j] : largest[j];
        }
    }
    for (size_t j = 0; i < count; i++, j++) {
        least[j] = from[i] < least[j] ? from[i] : least[j];
        largest[j] = from[i] > largest[j] ? from[i] : largest[j];
    }
    for (size_t j = 0; j < LANES; j++) {
        ends[0] = least[j] < ends[0] ? least[j] : ends[0];
        ends[1] = largest[j] > ends[1] ? largest[j] : ends[1];
    }
}

// --- sums of all above and to the left

static void integral_one(int32_t *restrict to, const int32_t *restrict above,
                         const uint8_t *restrict from, size_t count)
{
    int32_t before = 0;
    size_t i = 0;
#ifdef NP_WIDE
    const __m256i last = _mm256_set1_epi32(7);
    __m256i all = _mm256_setzero_si256();
    for (; i + 8 <= count; i += 8) {
        __m128i eight = _mm_cvtepu8_epi16(_mm_loadl_epi64((const void *)(from + i)));
        eight = _mm_add_epi16(eight, _mm_slli_si128(eight, 2));
        eight = _mm_add_epi16(eight, _mm_slli_si128(eight, 4));
        eight = _mm_add_epi16(eight, _mm_slli_si128(eight, 8));
        const __m256i sums = _mm256_cvtepu16_epi32(eight);
        const __m256i over = _mm256_loadu_si256((const __m256i_u *)(const void *)(above + i));
        _mm256_storeu_si256((__m256i_u *)(void *)(to + i),
                            _mm256_add_epi32(_mm256_add_epi32(sums, all), over));
        all = _mm256_add_epi32(all, _mm256_permutevar8x32_epi32(sums, last));
    }
    before = _mm_cvtsi128_si32(_mm256_castsi256_si128(all));
#endif
    for (; i < count; i++) {
        before += from[i];
        to[i] = above[i] + before;
    }
}

static void integral(int32_t *restrict to, const int32_t *restrict above,
                     const uint8_t *restrict from, size_t count, uint32_t channels)
{
    if (channels == 1) {
        integral_one(to, above, from, count);
        return;
    }
    for (uint32_t c = 0; c < channels; c++) {
        int32_t before = 0;
        for (size_t i = c; i < count; i += channels) {
            before += from[i];
            to[i] = above[i] + before;
        }
    }
}

// --- means of windows

static void moved(uint32_t *restrict columns, const uint8_t *const rows[2], size_t count)
{
    const uint8_t *in = rows[0];
    const uint8_t *out = rows[1];
    for (size_t i = 0; i < count; i++) {
        columns[i] += (uint32_t)in[i] - out[i];
    }
}

static void added_up(uint32_t *restrict to, const uint32_t *restrict from, size_t count)
{
    uint32_t before = 0;
    size_t i = 0;
#ifdef NP_WIDE
    const __m256i last = _mm256_set1_epi32(7);
    __m256i all = _mm256_setzero_si256();
    for (; i + 8 <= count; i += 8) {
        __m256i sums = _mm256_loadu_si256((const __m256i_u *)(const void *)(from + i));
        sums = _mm256_add_epi32(sums, _mm256_slli_si256(sums, 4));
        sums = _mm256_add_epi32(sums, _mm256_slli_si256(sums, 8));
        // The sum of the first half comes to each of the second.
        const __m256i first = _mm256_permute2x128_si256(sums, sums, 8);
        sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(first, 255));
        _mm256_storeu_si256((__m256i_u *)(void *)(to + i), _mm256_add_epi32(sums, all));
        all = _mm256_add_epi32(all, _mm256_permutevar8x32_epi32(sums, last));
    }
    before = (uint32_t)_mm_cvtsi128_si32(_mm256_castsi256_si128(all));
#endif
    for (; i < count; i++) {
        before += from[i];
        to[i] = before;
    }
}

static void near(uint8_t *restrict to, size_t count, const struct cv_near *window)
{
    const uint32_t *restrict begin = window->sums;
    const uint32_t *restrict end = window->sums + window->size;
    const uint8_t *restrict from = window->from;
    const double scale = window->scale;
    const int32_t bound = window->bound;
    const uint8_t below = window->set[0];
    const uint8_t above = window->set[1];
    for (size_t at = 0; at < count; at += BLOCK) {
        int32_t over[BLOCK];
        size_t part = count - at < BLOCK ? count - at : BLOCK;
        for (size_t i = 0; i < part; i++) {
            int32_t sum = (int32_t)(end[at + i] - begin[at + i]);
            over[i] = (int32_t)(((double)sum * scale + ROUNDING) - ROUNDING) + bound;
        }
        for (size_t i = 0; i < part; i++) {
            to[at + i] = from[at + i] > over[i] ? above : below;
        }
    }
}

const struct cv_tally_rows NP_COMPILED(dev_cv_tally_rows) = {
    .counted = counted,
    .summed = summed,
    .extent_u8 = extent_u8,
    .extent_f32 = extent_f32,
    .integral = integral,
    .moved = moved,
    .added_up = added_up,
    .near = near,
};

// Places that a warp finds, a row at a time, and what an image has there: the nearest pixel, or
// those around it, weighted. uint8 by INTER_LINEAR is computed in whole numbers, exactly; all else
// in floats. Called by cv_warp.c, which sees to what lies outside of the image.
#include "vm/cv/rows/cv_warp_rows.h"

#include "vm/cv/rows/cv_four.h"

#include <string.h>

#define MASK  (CV_STEPS - 1)
#define HALF  (CV_STEPS * CV_STEPS / 2)
#define BITS  (2 * CV_STEP_BITS)
#define ROUND 0x1.8p52 // a double plus this, less it, is a whole number, rounded to even

// --- places

static void affine(int32_t *restrict to, const int32_t *restrict along, int32_t base, int shift,
                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = (base + along[i]) >> shift;
    }
}

// Rounded to even, and held within 32 bits.
ALWAYS int32_t whole(double value)
{
    double held = value > INT32_MIN ? value : INT32_MIN; // NaN: the least
    held = held < INT32_MAX ? held : INT32_MAX;
    return (int32_t)(held + ROUND - ROUND);
}

static void perspective(int32_t *restrict x, int32_t *restrict y, const struct cv_tilt *tilt,
                        size_t count)
{
    const double *m = tilt->matrix;
    const double scale = tilt->scale;
    const double across[] = {m[0], m[3], m[6]};
    for (size_t first = 0; first < count; first += (size_t)tilt->block) {
        const double base = (double)first;
        double from[3];
        for (size_t k = 0; k < 3; k++) {
            from[k] = m[3 * k] * base + m[3 * k + 1] * tilt->row + m[3 * k + 2];
        }
        const size_t left = count - first;
        const int32_t size = (int32_t)(left < (size_t)tilt->block ? left : (size_t)tilt->block);
        for (int32_t i = 0; i < size; i++) {
            double deep = from[2] + across[2] * i;
            double by = scale / (deep != 0 ? deep : 1);
            by = deep != 0 ? by : 0;
            x[first + (size_t)i] = whole((from[0] + across[0] * i) * by);
            y[first + (size_t)i] = whole((from[1] + across[1] * i) * by);
        }
    }
}

static void map(int32_t *restrict to, const float *restrict map, size_t apart, double scale,
                size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = whole((double)map[i * apart] * scale);
    }
}

// --- the nearest

ALWAYS void nearest_of(uint8_t *restrict to, const struct cv_source *from,
                       const int32_t *restrict x, const int32_t *restrict y, size_t count)
{
    const uint8_t *restrict data = from->data;
    const int64_t step = from->step;
    const size_t pixel = from->pixel;
    for (size_t i = 0; i < count; i++) {
        memcpy(to + i * pixel, data + y[i] * step + x[i] * (int64_t)pixel, pixel);
    }
}

// With a size that is a constant a pixel is a move or two.
static void nearest(void *to, const struct cv_source *from, const int32_t *x, const int32_t *y,
                    size_t count)
{
    struct cv_source same = *from;
    switch (from->pixel) {
    case 1:
        same.pixel = 1;
        nearest_of(to, &same, x, y, count);
        break;
    case 3:
        same.pixel = 3;
        nearest_of(to, &same, x, y, count);
        break;
    case 4:
        same.pixel = 4;
        nearest_of(to, &same, x, y, count);
        break;
    case 12:
        same.pixel = 12;
        nearest_of(to, &same, x, y, count);
        break;
    default:
        nearest_of(to, from, x, y, count);
        break;
    }
}

// --- two by two of uint8, in whole numbers

ALWAYS void linear_whole(uint8_t *restrict to, const struct cv_source *from,
                         const int32_t *restrict x, const int32_t *restrict y, size_t count)
{
    const int64_t step = from->step;
    const size_t channels = from->channels;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *above =
            from->data + (y[i] >> CV_STEP_BITS) * step + (x[i] >> CV_STEP_BITS) * (int64_t)channels;
        const uint8_t *below = above + step;
        const int right = x[i] & MASK;
        const int down = y[i] & MASK;
        for (size_t c = 0; c < channels; c++) {
            int high = above[c] * (CV_STEPS - right) + above[c + channels] * right;
            int low = below[c] * (CV_STEPS - right) + below[c + channels] * right;
            to[i * channels + c] =
                (uint8_t)((high * (CV_STEPS - down) + low * down + HALF) >> BITS);
        }
    }
}

#if defined(NP_WIDE)
#define EACH 8

// Of eight places: where their pixels are, and weights of the four around each, a byte and then
// two bytes each.
struct places_wide {
    int64_t at[EACH];
    _Alignas(32) uint32_t across[EACH];
    _Alignas(32) uint32_t down[EACH];
};

ALWAYS void places_of(struct places_wide *places, const struct cv_source *from, const int32_t *x,
                      const int32_t *y)
{
    const __m256i part = _mm256_set1_epi32(MASK);
    const __m256i one = _mm256_set1_epi32(CV_STEPS);
    __m256i xs = _mm256_loadu_si256((const void *)x);
    __m256i ys = _mm256_loadu_si256((const void *)y);
    __m256i right = _mm256_and_si256(xs, part);
    __m256i down = _mm256_and_si256(ys, part);
    // 32 - part in the lower half, the part in the upper one
    __m256i two = _mm256_or_si256(_mm256_sub_epi32(one, right), _mm256_slli_epi32(right, 8));
    two = _mm256_or_si256(two, _mm256_slli_epi32(two, 16));
    _mm256_store_si256((void *)places->across, two);
    two = _mm256_or_si256(_mm256_sub_epi32(one, down), _mm256_slli_epi32(down, 16));
    _mm256_store_si256((void *)places->down, two);
    for (size_t k = 0; k < EACH; k++) {
        places->at[k] =
            (y[k] >> CV_STEP_BITS) * from->step + (x[k] >> CV_STEP_BITS) * (int64_t)from->channels;
    }
}

static size_t linear_one(uint8_t *restrict to, const struct cv_source *from, const int32_t *x,
                         const int32_t *y, size_t count)
{
    size_t i = 0;
    for (; i + EACH <= count; i += EACH) {
        struct places_wide places;
        places_of(&places, from, x + i, y + i);
        _Alignas(32) uint16_t pixels[2 * EACH];
        for (size_t k = 0; k < EACH; k++) {
            memcpy(pixels + 2 * k, from->data + places.at[k], 2);
            memcpy(pixels + 2 * k + 1, from->data + places.at[k] + from->step, 2);
        }
        __m256i sums = _mm256_maddubs_epi16(_mm256_load_si256((const void *)pixels),
                                            _mm256_load_si256((const void *)places.across));
        sums = _mm256_madd_epi16(sums, _mm256_load_si256((const void *)places.down));
        sums = _mm256_srli_epi32(_mm256_add_epi32(sums, _mm256_set1_epi32(HALF)), BITS);
        __m128i words =
            _mm_packus_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        _mm_storel_epi64((void *)(to + i), _mm_packus_epi16(words, words));
    }
    return i;
}

// Pixels of three and four channels: the four around a place, channel by channel. One of three
// leaves a fourth byte, which the next one overwrites: the last is not made here.
static size_t linear_more(uint8_t *restrict to, const struct cv_source *from, const int32_t *x,
                          const int32_t *y, size_t count)
{
    const size_t channels = from->channels;
    const __m128i three = _mm_setr_epi8(0, 3, 8, 11, 1, 4, 9, 12, 2, 5, 10, 13, -1, -1, -1, -1);
    const __m128i four = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i order = channels == 3 ? three : four;
    const __m128i bytes =
        _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m128i half = _mm_set1_epi32(HALF);
    size_t i = 0;
    for (; i + EACH < count; i += EACH) {
        struct places_wide places;
        places_of(&places, from, x + i, y + i);
        for (size_t k = 0; k < EACH; k++) {
            const uint8_t *above = from->data + places.at[k];
            __m128i pixels =
                _mm_unpacklo_epi64(_mm_loadl_epi64((const void *)above),
                                   _mm_loadl_epi64((const void *)(above + from->step)));
            __m128i sums = _mm_maddubs_epi16(_mm_shuffle_epi8(pixels, order),
                                             _mm_set1_epi32((int)places.across[k]));
            sums = _mm_madd_epi16(sums, _mm_set1_epi32((int)places.down[k]));
            sums = _mm_srli_epi32(_mm_add_epi32(sums, half), BITS);
            int pixel = _mm_cvtsi128_si32(_mm_shuffle_epi8(sums, bytes));
            memcpy(to + (i + k) * channels, &pixel, sizeof(pixel));
        }
    }
    return i;
}
#endif

static void linear_u8(void *to, const struct cv_source *from, const int32_t *x, const int32_t *y,
                      size_t count)
{
    uint8_t *out = to;
    size_t done = 0;
#if defined(NP_WIDE)
    if (from->channels == 1) {
        done = linear_one(out, from, x, y, count);
    } else if (from->channels == 3 || from->channels == 4) {
        done = linear_more(out, from, x, y, count);
    }
#endif
    out += done * from->channels;
    x += done;
    y += done;
    count -= done;
    struct cv_source same = *from;
    if (from->channels == 1) {
        same.channels = 1;
        linear_whole(out, &same, x, y, count);
    } else if (from->channels == 3) {
        same.channels = 3;
        linear_whole(out, &same, x, y, count);
    } else {
        linear_whole(out, from, x, y, count);
    }
}

// --- floats: pixels of three and four channels are one vector each

ALWAYS uint8_t held_u8(float value)
{
    float held = value > 0 ? value : 0;
    held = held < 255 ? held : 255;
    return (uint8_t)(int)(held + 0.5f);
}

ALWAYS float held_f32(float value)
{
    return value;
}

// Of weights along a side: of two taps they are the part and what is left of it.
ALWAYS const float *weights_of(const struct cv_source *from, int32_t at, size_t taps,
                               float two[CV_TAPS_MAX])
{
    if (taps == CV_TAPS_MAX) {
        return from->weights[at & MASK];
    }
    two[1] = (float)(at & MASK) / CV_STEPS;
    two[0] = 1 - two[1];
    return two;
}

#define SAMPLE_FOUR(name, type)                                                                    \
    ALWAYS void four_of_##name(type *restrict to, const struct cv_source *from,                    \
                               const int32_t *restrict x, const int32_t *restrict y, size_t count, \
                               size_t taps)                                                        \
    {                                                                                              \
        const size_t channels = from->channels;                                                    \
        for (size_t i = 0; i < count; i++) {                                                       \
            float two[2][CV_TAPS_MAX];                                                             \
            const float *across = weights_of(from, x[i], taps, two[0]);                            \
            const float *down = weights_of(from, y[i], taps, two[1]);                              \
            const int64_t before = (int64_t)taps / 2 - 1;                                          \
            const uint8_t *row = from->data + ((y[i] >> CV_STEP_BITS) - before) * from->step +     \
                                 ((x[i] >> CV_STEP_BITS) - before) * (int64_t)from->pixel;         \
            cv_four sum = {0};                                                                     \
            for (size_t j = 0; j < taps; j++, row += from->step) {                                 \
                const type *pixel = (const void *)row;                                             \
                cv_four part = across[0] * four_##name(pixel);                                     \
                for (size_t k = 1; k < taps; k++) {                                                \
                    part += across[k] * four_##name(pixel + k * channels);                         \
                }                                                                                  \
                sum += down[j] * part;                                                             \
            }                                                                                      \
            for (size_t c = 0; c < channels; c++) {                                                \
                to[i * channels + c] = held_##name(sum[c]);                                        \
            }                                                                                      \
        }                                                                                          \
    }
SAMPLE_FOUR(u8, uint8_t)
SAMPLE_FOUR(f32, float)

// Four taps of one channel are a vector, too.
#define SAMPLE_CUBIC(name, type)                                                                   \
    static void one_of_##name(type *restrict to, const struct cv_source *from,                     \
                              const int32_t *restrict x, const int32_t *restrict y, size_t count)  \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            const float *down = from->weights[y[i] & MASK];                                        \
            const uint8_t *row = from->data + ((y[i] >> CV_STEP_BITS) - 1) * from->step +          \
                                 ((x[i] >> CV_STEP_BITS) - 1) * (int64_t)from->pixel;              \
            cv_four sum = {0};                                                                     \
            for (size_t j = 0; j < CV_TAPS_MAX; j++, row += from->step) {                          \
                sum += down[j] * four_##name((const void *)row);                                   \
            }                                                                                      \
            sum *= four_f32(from->weights[x[i] & MASK]);                                           \
            to[i] = held_##name((sum[0] + sum[1]) + (sum[2] + sum[3]));                            \
        }                                                                                          \
    }
SAMPLE_CUBIC(u8, uint8_t)
SAMPLE_CUBIC(f32, float)

#define held_f64(value) (value)
#define SAMPLE_ANY(name, type, real, table)                                                        \
    ALWAYS void any_of_##name(type *restrict to, const struct cv_source *from,                     \
                              const int32_t *restrict x, const int32_t *restrict y, size_t count,  \
                              size_t taps)                                                         \
    {                                                                                              \
        const size_t channels = from->channels;                                                    \
        for (size_t i = 0; i < count; i++) {                                                       \
            const real *across = from->table[x[i] & MASK];                                         \
            const real *down = from->table[y[i] & MASK];                                           \
            const int64_t before = (int64_t)taps / 2 - 1;                                          \
            const uint8_t *first = from->data + ((y[i] >> CV_STEP_BITS) - before) * from->step +   \
                                   ((x[i] >> CV_STEP_BITS) - before) * (int64_t)from->pixel;       \
            for (size_t c = 0; c < channels; c++) {                                                \
                real sum = 0;                                                                      \
                for (size_t j = 0; j < taps; j++) {                                                \
                    const type *pixel = (const void *)(first + (int64_t)j * from->step);           \
                    for (size_t k = 0; k < taps; k++) {                                            \
                        sum += across[k] * down[j] * (real)pixel[k * channels + c];                \
                    }                                                                              \
                }                                                                                  \
                to[i * channels + c] = held_##name(sum);                                           \
            }                                                                                      \
        }                                                                                          \
    }
SAMPLE_ANY(u8, uint8_t, float, weights)
SAMPLE_ANY(f32, float, float, weights)
SAMPLE_ANY(f64, double, double, weights_long)

#define SAMPLE(name)                                                                               \
    static void cubic_##name(void *to, const struct cv_source *from, const int32_t *x,             \
                             const int32_t *y, size_t count)                                       \
    {                                                                                              \
        if (from->channels == 1) {                                                                 \
            one_of_##name(to, from, x, y, count);                                                  \
        } else if (from->channels == 3 || from->channels == 4) {                                   \
            four_of_##name(to, from, x, y, count, 4);                                              \
        } else {                                                                                   \
            any_of_##name(to, from, x, y, count, 4);                                               \
        }                                                                                          \
    }
SAMPLE(u8)
SAMPLE(f32)

static void linear_f32(void *to, const struct cv_source *from, const int32_t *x, const int32_t *y,
                       size_t count)
{
    if (from->channels == 3 || from->channels == 4) {
        four_of_f32(to, from, x, y, count, 2);
    } else {
        any_of_f32(to, from, x, y, count, 2);
    }
}

static void linear_f64(void *to, const struct cv_source *from, const int32_t *x, const int32_t *y,
                       size_t count)
{
    any_of_f64(to, from, x, y, count, 2);
}

static void cubic_f64(void *to, const struct cv_source *from, const int32_t *x, const int32_t *y,
                      size_t count)
{
    any_of_f64(to, from, x, y, count, 4);
}

const struct cv_warp_rows NP_COMPILED(dev_cv_warp_rows) = {
    .affine = affine,
    .perspective = perspective,
    .map = map,
    .nearest = nearest,
    .linear_u8 = linear_u8,
    .linear_f32 = linear_f32,
    .linear_f64 = linear_f64,
    .cubic_u8 = cubic_u8,
    .cubic_f32 = cubic_f32,
    .cubic_f64 = cubic_f64,
};

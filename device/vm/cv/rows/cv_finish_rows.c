// What walle.cv's filters do to a row beside summing it: to the image's type and back, by a scale,
// held within the type, and the sums of boxes that slide. Each loop is simple enough for the
// compiler to make it wide. Called by cv_typed.c and cv_morph.c, on the VM's thread.
#include "vm/cv/rows/cv_filter_rows.h"

#include "vm/cv/rows/cv_vector.h"
#include "vm/np/np_wide.h"

#define ROUNDER      0x1.8p23F // added to a number below 2^22, its low bits are that number rounded
#define ROUNDER_LONG 0x1.8p52

// `made` from an element `a` of type T.
#define FINISH(name, T, R, made)                                                                   \
    static void name(void *to, const void *from, size_t count, const struct cv_finish *how)        \
    {                                                                                              \
        R *restrict out = to;                                                                      \
        const T *restrict in = from;                                                               \
        const float scale = how->scale;                                                            \
        const float delta = how->delta;                                                            \
        (void)scale;                                                                               \
        (void)delta;                                                                               \
        for (size_t i = 0; i < count; i++) {                                                       \
            const T a = in[i];                                                                     \
            out[i] = (R)(made);                                                                    \
        }                                                                                          \
    }

static inline float held(float value, float least, float most)
{
    float low = value > least ? value : least; // NaN: the least
    float both = low < most ? low : most;
    return (both + ROUNDER) - ROUNDER;
}

static inline double held_long(double value, double most)
{
    double both = value < most ? value : most;
    return (both + ROUNDER_LONG) - ROUNDER_LONG;
}

static void i16_u8(void *to, const void *from, size_t count, const struct cv_finish *how)
{
    uint8_t *out = to;
    const uint16_t *in = from; // signed
    size_t i = 0;
    (void)how;
    for (; i + 2 * CV_WORDS <= count; i += 2 * CV_WORDS) {
        cv_bytes_put(out + i, cv_words_at(in + i), cv_words_at(in + i + CV_WORDS));
    }
    for (; i < count; i++) {
        int16_t sum = (int16_t)in[i];
        out[i] = (uint8_t)(sum < 0 ? 0 : sum > UINT8_MAX ? UINT8_MAX : sum);
    }
}

static void mean_u8(void *to, const void *from, size_t count, const struct cv_finish *how)
{
    uint8_t *out = to;
    const uint16_t *in = from;
    const uint16_t half = how->half;
    const uint16_t times = how->times;
    const uint16_t shift = how->shift;
    size_t i = 0;
    for (; i + 2 * CV_WORDS <= count; i += 2 * CV_WORDS) {
        cv_words low = cv_words_high(cv_words_at(in + i) + half, times) >> shift;
        cv_words high = cv_words_high(cv_words_at(in + i + CV_WORDS) + half, times) >> shift;
        cv_bytes_put(out + i, low, high);
    }
    for (; i < count; i++) {
        uint32_t sum = (uint16_t)(in[i] + half);
        out[i] = (uint8_t)((sum * times >> 16) >> shift);
    }
}

static void mean_i32(void *to, const void *from, size_t count, const struct cv_finish *how)
{
    uint8_t *restrict out = to;
    const int32_t *restrict in = from;
    const double exact = how->exact;
    for (size_t i = 0; i < count; i++) {
        out[i] = (uint8_t)(int32_t)held_long((double)in[i] * exact, 255);
    }
}

static void less_u8(uint8_t *to, const uint8_t *one, const uint8_t *other, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = (uint8_t)(one[i] > other[i] ? one[i] - other[i] : 0);
    }
}

#define SLIDE(kind, T)                                                                             \
    static void add_##kind(T *restrict to, const T *one, const T *other, size_t count)             \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            to[i] = (T)(one[i] + other[i]);                                                        \
        }                                                                                          \
    }                                                                                              \
    static void more_##kind(T *restrict to, const T *restrict one, size_t count)                   \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            to[i] = (T)(to[i] + one[i]);                                                           \
        }                                                                                          \
    }                                                                                              \
    static void slide_##kind(T *restrict sum, T *restrict kept, const T *restrict fresh,           \
                             size_t count)                                                         \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            sum[i] = (T)(sum[i] + fresh[i] - kept[i]);                                             \
            kept[i] = fresh[i];                                                                    \
        }                                                                                          \
    }

FINISH(i16_i32, int16_t, int32_t, a)
FINISH(i16_f32, int16_t, float, (float)a *scale + delta)
FINISH(u16_f32, uint16_t, float, (float)(int32_t)a *scale + delta)
FINISH(i32_f32, int32_t, float, (float)a *scale + delta)
FINISH(f32_f32, float, float, a *scale + delta)
FINISH(f32_u8, float, uint8_t, (int32_t)held(a *scale + delta, 0, 255))
FINISH(f32_i16, float, int32_t, held(a *scale + delta, INT16_MIN, INT16_MAX))
FINISH(u8_f32, uint8_t, float, a)
FINISH(u8_u16, uint8_t, uint16_t, a)
FINISH(u8_i32, uint8_t, int32_t, a)
#undef FINISH

SLIDE(u16, uint16_t)
SLIDE(i32, int32_t)
#undef SLIDE

const struct cv_finish_rows NP_COMPILED(dev_cv_finish_rows) = {.mean_u8 = mean_u8,
                                                               .mean_i32 = mean_i32,
                                                               .i16_u8 = i16_u8,
                                                               .i16_i32 = i16_i32,
                                                               .i16_f32 = i16_f32,
                                                               .u16_f32 = u16_f32,
                                                               .i32_f32 = i32_f32,
                                                               .f32_f32 = f32_f32,
                                                               .f32_u8 = f32_u8,
                                                               .f32_i16 = f32_i16,
                                                               .u8_f32 = u8_f32,
                                                               .u8_u16 = u8_u16,
                                                               .u8_i32 = u8_i32,
                                                               .add_u16 = add_u16,
                                                               .add_i32 = add_i32,
                                                               .more_u16 = more_u16,
                                                               .more_i32 = more_i32,
                                                               .slide_u16 = slide_u16,
                                                               .slide_i32 = slide_i32,
                                                               .less_u8 = less_u8};

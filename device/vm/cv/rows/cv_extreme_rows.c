// The least and the largest of rows of walle.cv's dilate and erode. Three rows at first, then two
// more at a time: loops simple enough for the compiler to make them of the processor's own least
// and largest. Rows of reals have no NaN here, so that the order does not matter. Called by
// cv_typed.c, on the VM's thread.
#include "vm/cv/rows/cv_filter_rows.h"

#include "vm/np/np_wide.h"

#include <string.h>

#define LESS(a, b) ((b) < (a) ? (b) : (a))
#define MORE(a, b) ((b) > (a) ? (b) : (a))

#define EXTREME(name, T, of)                                                                       \
    static void name##_of_two(T *restrict to, const T *one, const T *other, size_t count)          \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            to[i] = of(one[i], other[i]);                                                          \
        }                                                                                          \
    }                                                                                              \
    static void name##_of_three(T *restrict to, const T *const *rows, size_t count)                \
    {                                                                                              \
        const T *one = rows[0];                                                                    \
        const T *other = rows[1];                                                                  \
        const T *third = rows[2];                                                                  \
        for (size_t i = 0; i < count; i++) {                                                       \
            T both = of(one[i], other[i]);                                                         \
            to[i] = of(both, third[i]);                                                            \
        }                                                                                          \
    }                                                                                              \
    static void name##_more(T *restrict to, const T *one, const T *other, size_t count)            \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            T both = of(one[i], other[i]);                                                         \
            to[i] = of(to[i], both);                                                               \
        }                                                                                          \
    }                                                                                              \
    static void name(void *to, const uint8_t *const *rows, const void *by, size_t taps,            \
                     size_t count)                                                                 \
    {                                                                                              \
        const T *first[3] = {NULL};                                                                \
        size_t k = taps < 3 ? taps : 3;                                                            \
        (void)by;                                                                                  \
        for (size_t i = 0; i < k; i++) {                                                           \
            first[i] = (const T *)(const void *)rows[i];                                           \
        }                                                                                          \
        if (taps == 1) {                                                                           \
            memcpy(to, first[0], count * sizeof(T));                                               \
        } else if (taps == 2) {                                                                    \
            name##_of_two(to, first[0], first[1], count);                                          \
        } else {                                                                                   \
            name##_of_three(to, first, count);                                                     \
        }                                                                                          \
        for (; k < taps; k += 2) {                                                                 \
            const uint8_t *second = rows[k + 1 < taps ? k + 1 : k];                                \
            name##_more(to, (const T *)(const void *)rows[k], (const T *)(const void *)second,     \
                        count);                                                                    \
        }                                                                                          \
    }

static void numbers(float *row, size_t count, float otherwise)
{
    for (size_t i = 0; i < count; i++) {
        row[i] = row[i] == row[i] ? row[i] : otherwise;
    }
}

EXTREME(least_u8, uint8_t, LESS)
EXTREME(largest_u8, uint8_t, MORE)
EXTREME(least_f32, float, LESS)
EXTREME(largest_f32, float, MORE)
#undef EXTREME

const struct cv_extreme_rows NP_COMPILED(dev_cv_extreme_rows) = {.least_u8 = least_u8,
                                                                 .largest_u8 = largest_u8,
                                                                 .least_f32 = least_f32,
                                                                 .largest_f32 = largest_f32,
                                                                 .numbers = numbers};

// Sums of rows of walle.cv's filters, each row times a number: several vectors of the result are
// held in registers while the rows go by, so that each is read once and the result written once.
// Products and sums are in the order of the rows, so that they come out the same at every place.
// Called by cv_typed.c, on the VM's thread.
#include "vm/cv/rows/cv_filter_rows.h"

#include "vm/cv/rows/cv_vector.h"
#include "vm/np/np_wide.h"

// Rows of T, made with numbers of R; a vector V is read by `at`. W is wide enough for a product.
#define SUM(name, T, R, V, W, at)                                                                  \
    static void name(void *to, const uint8_t *const *rows, const void *by, size_t taps,            \
                     size_t count)                                                                 \
    {                                                                                              \
        enum { LANES = CV_VECTOR / sizeof(R) };                                                    \
        R *made = to;                                                                              \
        const R *numbers = by;                                                                     \
        size_t i = 0;                                                                              \
        for (; i + 4 * LANES <= count; i += 4 * LANES) {                                           \
            V sum = {0};                                                                           \
            V second = {0};                                                                        \
            V third = {0};                                                                         \
            V last = {0};                                                                          \
            for (size_t k = 0; k < taps; k++) {                                                    \
                const T *from = (const T *)(const void *)rows[k] + i;                              \
                sum += at(from) * numbers[k];                                                      \
                second += at(from + LANES) * numbers[k];                                           \
                third += at(from + 2 * LANES) * numbers[k];                                        \
                last += at(from + 3 * LANES) * numbers[k];                                         \
            }                                                                                      \
            memcpy(made + i, &sum, sizeof(sum));                                                   \
            memcpy(made + i + LANES, &second, sizeof(sum));                                        \
            memcpy(made + i + 2 * LANES, &third, sizeof(sum));                                     \
            memcpy(made + i + 3 * LANES, &last, sizeof(sum));                                      \
        }                                                                                          \
        for (; i + LANES <= count; i += LANES) {                                                   \
            V sum = {0};                                                                           \
            for (size_t k = 0; k < taps; k++) {                                                    \
                sum += at((const T *)(const void *)rows[k] + i) * numbers[k];                      \
            }                                                                                      \
            memcpy(made + i, &sum, sizeof(sum));                                                   \
        }                                                                                          \
        for (; i < count; i++) {                                                                   \
            W sum = 0;                                                                             \
            for (size_t k = 0; k < taps; k++) {                                                    \
                sum += (W)((const T *)(const void *)rows[k])[i] * (W)numbers[k];                   \
            }                                                                                      \
            made[i] = (R)sum;                                                                      \
        }                                                                                          \
    }

// CV_LONGS elements from `i` on.
CV_INLINE cv_longs fixed_at(const uint8_t *const *rows, const uint16_t *numbers, size_t taps,
                            size_t i)
{
    cv_longs sum = {0};
    for (size_t k = 0; k < taps / 2; k++) {
        cv_longs both = cv_longs_of_words((const uint16_t *)(const void *)rows[k] + i) +
                        cv_longs_of_words((const uint16_t *)(const void *)rows[taps - 1 - k] + i);
        sum += both * (uint32_t)numbers[k];
    }
    if (taps % 2 == 1) {
        sum += cv_longs_of_words((const uint16_t *)(const void *)rows[taps / 2] + i) *
               (uint32_t)numbers[taps / 2];
    }
    return (sum + 0x8000) >> 16;
}

static void sum_fixed(void *to, const uint8_t *const *rows, const void *by, size_t taps,
                      size_t count)
{
    uint8_t *made = to;
    const uint16_t *numbers = by;
    size_t i = 0;
    for (; i + 2 * CV_WORDS <= count; i += 2 * CV_WORDS) {
        cv_words low = cv_words_of_longs(fixed_at(rows, numbers, taps, i),
                                         fixed_at(rows, numbers, taps, i + CV_LONGS));
        cv_words high = cv_words_of_longs(fixed_at(rows, numbers, taps, i + 2 * CV_LONGS),
                                          fixed_at(rows, numbers, taps, i + 3 * CV_LONGS));
        cv_bytes_put(made + i, low, high);
    }
    for (; i < count; i++) {
        uint32_t sum = 0x8000;
        for (size_t k = 0; k < taps; k++) {
            sum += (uint32_t)((const uint16_t *)(const void *)rows[k])[i] * numbers[k];
        }
        made[i] = (uint8_t)(sum >> 16);
    }
}

SUM(sum_bytes, uint8_t, uint16_t, cv_words, uint32_t, cv_words_of_bytes)
SUM(sum_words, uint16_t, uint16_t, cv_words, uint32_t, cv_words_at)
SUM(sum_reals, float, float, cv_reals, float, cv_reals_at)
#undef SUM

const struct cv_sum_rows NP_COMPILED(dev_cv_sum_rows) = {
    .bytes = sum_bytes, .words = sum_words, .fixed = sum_fixed, .reals = sum_reals};

// The loops behind walle.cv's filters, compiled for every processor and for those with AVX2, on the
// same random rows: the same results bit for bit, at every length around a vector's. Beside that
// each comes to what it says, by sums that are written out. Skipped where the processor has no
// AVX2.
#include "vm/cv/rows/cv_filter_rows.h"
#include "vm/np/np_wide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#define LENGTH  200 // elements: several vectors of the smallest type and a rest
#define TAPS    9
#define BYTES   ((LENGTH + TAPS) * sizeof(double))
#define NUMBERS 16

#if defined(__x86_64__)

static const size_t lengths[] = {1, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 131, LENGTH};

static uint64_t next_of(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 24;
}

enum kind { BYTE, WORD, LONG, REAL };

static void fill(enum kind kind, void *at, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t drawn = next_of(&seed);
        switch (kind) {
        case BYTE:
            ((uint8_t *)at)[i] = (uint8_t)drawn;
            break;
        case WORD:
            ((uint16_t *)at)[i] = (uint16_t)drawn;
            break;
        case LONG:
            ((int32_t *)at)[i] = (int32_t)(drawn % 300000);
            break;
        default:
            ((float *)at)[i] = (float)((double)(drawn % 40001) / 7 - 2000);
            break;
        }
    }
}

static void same(const char *name, size_t count, const uint8_t *plain, const uint8_t *wide)
{
    if (memcmp(plain, wide, BYTES) != 0) {
        fail_msg("%s of %zu: what is wide is not as what is plain", name, count);
    }
}

struct taps_case {
    const char *name;
    cv_taps_row *plain;
    cv_taps_row *wide;
    enum kind from;
    bool is_fixed; // numbers are symmetrical parts of 65536
};

#define SUM_CASE(member, from, fixed)                                                              \
    {                                                                                              \
#member, dev_cv_sum_rows_plain.member, dev_cv_sum_rows_wide.member, from, fixed            \
    }
#define EXTREME_CASE(member, from)                                                                 \
    {                                                                                              \
#member, dev_cv_extreme_rows_plain.member, dev_cv_extreme_rows_wide.member, from, false    \
    }

static void taps_once(const struct taps_case *of, size_t taps, size_t count)
{
    static _Alignas(64) uint8_t rows[TAPS][BYTES];
    static _Alignas(64) uint8_t made[2][BYTES];
    const uint8_t *at[TAPS];
    uint16_t words[TAPS];
    float reals[TAPS];
    memset(made, 0x5a, sizeof(made)); // nothing behind the row is written
    for (size_t k = 0; k < taps; k++) {
        size_t other = k < taps - 1 - k ? k : taps - 1 - k;
        fill(of->from, rows[k], LENGTH, k * 77 + count);
        words[k] = (uint16_t)(of->is_fixed ? 20 + other * 3 : k * 40503 + 9);
        reals[k] = (float)k / 3 - 1;
        at[k] = rows[k];
    }
    const void *by = of->from == REAL ? (const void *)reals : words;
    of->plain(made[0], at, by, taps, count);
    of->wide(made[1], at, by, taps, count);
    same(of->name, count, made[0], made[1]);
}

static void sums_and_extremes_agree(void **state)
{
    (void)state;
    const struct taps_case cases[] = {
        SUM_CASE(bytes, BYTE, false),  SUM_CASE(words, WORD, false),
        SUM_CASE(fixed, WORD, true),   SUM_CASE(reals, REAL, false),
        EXTREME_CASE(least_u8, BYTE),  EXTREME_CASE(largest_u8, BYTE),
        EXTREME_CASE(least_f32, REAL), EXTREME_CASE(largest_f32, REAL),
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
            for (size_t taps = 1; taps <= TAPS; taps++) {
                taps_once(&cases[c], taps, lengths[l]);
            }
        }
    }
}

struct finish_case {
    const char *name;
    cv_finish_row *plain;
    cv_finish_row *wide;
    enum kind from;
};

#define FINISH_CASE(member, from)                                                                  \
    {                                                                                              \
#member, dev_cv_finish_rows_plain.member, dev_cv_finish_rows_wide.member, from             \
    }

static void types_agree(void **state)
{
    static _Alignas(64) uint8_t row[BYTES];
    static _Alignas(64) uint8_t made[2][BYTES];
    (void)state;
    const struct finish_case cases[] = {
        FINISH_CASE(mean_u8, WORD), FINISH_CASE(mean_i32, LONG), FINISH_CASE(i16_u8, WORD),
        FINISH_CASE(i16_i32, WORD), FINISH_CASE(i16_f32, WORD),  FINISH_CASE(u16_f32, WORD),
        FINISH_CASE(i32_f32, LONG), FINISH_CASE(f32_f32, REAL),  FINISH_CASE(f32_u8, REAL),
        FINISH_CASE(f32_i16, REAL), FINISH_CASE(u8_f32, BYTE),   FINISH_CASE(u8_u16, BYTE),
        FINISH_CASE(u8_i32, BYTE),
    };
    const struct cv_finish how = {.scale = 0.1F,
                                  .delta = 3,
                                  .exact = 1.0 / 1200,
                                  .half = 12,
                                  .times = 0x10000 / 25 + 1,
                                  .shift = 4};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
            memset(made, 0x5a, sizeof(made));
            fill(cases[c].from, row, LENGTH, l);
            cases[c].plain(made[0], row, lengths[l], &how);
            cases[c].wide(made[1], row, lengths[l], &how);
            same(cases[c].name, lengths[l], made[0], made[1]);
        }
    }
}

// One row and another, both ways in turn: `pairs` adds, adds more, slides and takes away.
static void pairs_of(const struct cv_finish_rows *loops, size_t count, uint8_t *out_made)
{
    static uint16_t words[4][LENGTH];
    static int32_t longs[4][LENGTH];
    static uint8_t bytes[3][LENGTH];
    for (uint64_t k = 0; k < 4; k++) {
        fill(WORD, words[k], LENGTH, k);
        fill(LONG, longs[k], LENGTH, k);
        fill(BYTE, bytes[k % 3], LENGTH, k);
    }
    loops->add_u16(words[0], words[1], words[2], count);
    loops->more_u16(words[0], words[3], count);
    loops->slide_u16(words[1], words[2], words[3], count);
    loops->add_i32(longs[0], longs[1], longs[2], count);
    loops->more_i32(longs[0], longs[3], count);
    loops->slide_i32(longs[1], longs[2], longs[3], count);
    loops->less_u8(bytes[0], bytes[1], bytes[2], count);
    memcpy(out_made, words, sizeof(words));
    memcpy(out_made + sizeof(words), longs, sizeof(longs));
    memcpy(out_made + sizeof(words) + sizeof(longs), bytes, sizeof(bytes));
}

static void pairs_of_rows_agree(void **state)
{
    static uint8_t made[2][LENGTH * 32];
    (void)state;
    for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
        pairs_of(&dev_cv_finish_rows_plain, lengths[l], made[0]);
        pairs_of(&dev_cv_finish_rows_wide, lengths[l], made[1]);
        if (memcmp(made[0], made[1], sizeof(made[0])) != 0) {
            fail_msg("pairs of %zu: what is wide is not as what is plain", lengths[l]);
        }
    }
}

static void pixels_agree(void **state)
{
    static uint8_t row[2][LENGTH * NUMBERS * 2];
    static uint8_t made[2][LENGTH * NUMBERS * 2];
    (void)state;
    fill(BYTE, row[0], sizeof(row[0]), 1);
    fill(BYTE, row[1], sizeof(row[1]), 2);
    for (size_t bytes = 1; bytes <= NUMBERS; bytes++) {
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
            memset(made, 0x5a, sizeof(made));
            dev_cv_pixel_rows_plain.every_other(made[0], row[0], lengths[l], bytes);
            dev_cv_pixel_rows_wide.every_other(made[1], row[0], lengths[l], bytes);
            assert_memory_equal(made[0], made[1], sizeof(made[0]));
            assert_memory_equal(made[0], row[0], bytes);
            dev_cv_pixel_rows_plain.in_turn(made[0], row[0], row[1], lengths[l], bytes);
            dev_cv_pixel_rows_wide.in_turn(made[1], row[0], row[1], lengths[l], bytes);
            assert_memory_equal(made[0], made[1], sizeof(made[0]));
            assert_memory_equal(made[0] + bytes, row[1], bytes);
        }
    }
}

static void means_within_edges_agree(void **state)
{
    static uint8_t planes[CV_WITHIN_CHANNELS * (LENGTH + TAPS)];
    static uint8_t made[2][LENGTH * CV_WITHIN_CHANNELS];
    float of_color[UINT8_MAX * CV_WITHIN_CHANNELS + 1];
    float of_space[TAPS];
    const uint8_t *rows[TAPS];
    (void)state;
    fill(BYTE, planes, sizeof(planes), 5);
    for (size_t i = 0; i < sizeof(of_color) / sizeof(of_color[0]); i++) {
        of_color[i] = 1 / (1 + (float)i / 40);
    }
    for (size_t k = 0; k < TAPS; k++) {
        rows[k] = planes + k;
        of_space[k] = 1 / (1 + (float)k / 3);
    }
    for (size_t channels = 1; channels <= CV_WITHIN_CHANNELS; channels += 2) {
        const struct cv_within within = {.rows = rows,
                                         .center = planes + TAPS / 2,
                                         .plane = LENGTH + TAPS,
                                         .channels = channels,
                                         .taps = TAPS,
                                         .of_space = of_space,
                                         .of_color = of_color};
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
            memset(made, 0x5a, sizeof(made));
            dev_cv_pixel_rows_plain.within(made[0], &within, lengths[l]);
            dev_cv_pixel_rows_wide.within(made[1], &within, lengths[l]);
            assert_memory_equal(made[0], made[1], sizeof(made[0]));
        }
    }
}

static void sums_are_what_they_say(void **state)
{
    static uint8_t rows[3][LENGTH];
    static uint16_t made[LENGTH];
    const uint8_t *at[] = {rows[0], rows[1], rows[2]};
    const uint16_t by[] = {3, (uint16_t)-7, 5};
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        fill(BYTE, rows[k], LENGTH, k + 40);
    }
    dev_cv_sum_rows_wide.bytes(made, at, by, 3, LENGTH);
    for (size_t i = 0; i < LENGTH; i++) {
        assert_int_equal((int16_t)made[i], 3 * rows[0][i] - 7 * rows[1][i] + 5 * rows[2][i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_extremes_agree),  cmocka_unit_test(types_agree),
        cmocka_unit_test(pairs_of_rows_agree),      cmocka_unit_test(pixels_agree),
        cmocka_unit_test(means_within_edges_agree), cmocka_unit_test(sums_are_what_they_say),
    };
    if (!dev_np_is_wide()) {
        printf("no AVX2 here: skipped\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    printf("one kind of loops here: skipped\n");
    return 0;
}

#endif

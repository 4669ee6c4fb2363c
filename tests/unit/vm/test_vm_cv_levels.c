// walle.cv's loops over rows, compiled for every processor and for those with AVX2, on the same
// numbers: the same results bit for bit, at every length around a vector's, and nothing beside
// them; hues beside reals of twice the size. What is of AVX2 is skipped where there is none.
#include "vm/cv/rows/cv_color_rows.h"
#include "vm/cv/rows/cv_tally_rows.h"
#include "vm/np/np_wide.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#if defined(__x86_64__)

#define LENGTH 301 // elements: several vectors and blocks of the smallest type, and a rest
#define SPARE  ((LENGTH + 16) * 8 * 4)
#define KINDS  2

static uint64_t next_of(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 24;
}

static size_t length_after(size_t count)
{
    return count + (count < 40 ? 1 : 87);
}

// What both compilations work on, and what each of them leaves.
struct operands {
    uint8_t bytes[2][SPARE];
    int32_t whole[SPARE / 8];
    float floats[2][SPARE / 8];
    double reals[SPARE / 8];
    _Alignas(32) uint8_t to[KINDS][SPARE];
};

static const double odd[] = {0.5,  1.5,        2.5,  254.5,     255.5, -0.5,     -1,     1e30,
                             -1e9, 2147483647, -0.0, 3000000.5, NAN,   INFINITY, -1e300, 100};

static void fill(struct operands *operands, uint64_t seed)
{
    memset(operands, 0, sizeof(*operands));
    for (size_t i = 0; i < SPARE; i++) {
        operands->bytes[0][i] = (uint8_t)next_of(&seed);
        operands->bytes[1][i] = (uint8_t)(next_of(&seed) % 3 == 0 ? 0 : next_of(&seed));
    }
    for (size_t i = 0; i < SPARE / 8; i++) {
        uint64_t drawn = next_of(&seed);
        operands->whole[i] = (int32_t)drawn;
        operands->reals[i] = drawn % 5 == 0 ? odd[drawn / 5 % 16] : (double)(drawn % 65536) / 256;
        operands->floats[0][i] = (float)operands->reals[i];
        operands->floats[1][i] = (float)(int64_t)(drawn % 512) - 200;
    }
}

static void begin(struct operands *operands)
{
    memset(operands->to, 0x5a, sizeof(operands->to));
}

static void same(const struct operands *operands, const char *what, size_t count)
{
    for (size_t i = 0; i < SPARE; i++) {
        if (operands->to[0][i] != operands->to[1][i]) {
            fail_msg("%s of %zu: byte %zu is %d, not %d", what, count, i, operands->to[1][i],
                     operands->to[0][i]);
        }
    }
}

static const struct cv_level_rows *const levels[] = {&dev_cv_level_rows_plain,
                                                     &dev_cv_level_rows_wide};
static const struct cv_tally_rows *const tallies[] = {&dev_cv_tally_rows_plain,
                                                      &dev_cv_tally_rows_wide};
static const struct cv_color_rows *const colors[] = {&dev_cv_color_rows_plain,
                                                     &dev_cv_color_rows_wide};

// Calls both and compares all that they wrote.
#define BOTH(what, count, ...)                                                                     \
    do {                                                                                           \
        begin(&in);                                                                                \
        for (int k = 0; k < KINDS; k++) {                                                          \
            void *to = in.to[k];                                                                   \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
        same(&in, what, count);                                                                    \
    } while (0)

static struct operands in;

static int setup(void **state)
{
    (void)state;
    fill(&in, 7);
    return 0;
}

static void test_reals(void **state)
{
    (void)state;
    if (!dev_np_is_wide()) {
        skip();
    }
    for (size_t n = 0; n <= LENGTH; n = length_after(n)) {
        BOTH("load_u8", n, levels[k]->load_u8(to, in.bytes[0] + 1, n));
        BOTH("load_i32", n, levels[k]->load_i32(to, in.whole + 1, n));
        BOTH("load_f32", n, levels[k]->load_f32(to, in.floats[1] + 1, n));
        BOTH("store_u8", n, levels[k]->store_u8(to, in.reals + 1, n));
        BOTH("store_i32", n, levels[k]->store_i32(to, in.reals + 1, n));
        BOTH("store_f32", n, levels[k]->store_f32(to, in.reals + 13, n));
    }
}

// Rounded to even and held, as the C library rounds.
static void test_rounding(void **state)
{
    (void)state;
    for (int k = 0; k < (dev_np_is_wide() ? KINDS : 1); k++) {
        uint8_t bytes[LENGTH];
        int32_t whole[LENGTH];
        levels[k]->store_u8(bytes, in.reals, LENGTH);
        levels[k]->store_i32(whole, in.reals, LENGTH);
        for (size_t i = 0; i < LENGTH; i++) {
            double real = in.reals[i];
            assert_int_equal(bytes[i], (int)rint(real > 0 ? fmin(real, 255) : 0));
            double held = real > INT32_MIN ? fmin(real, INT32_MAX) : INT32_MIN;
            assert_int_equal(whole[i], (int32_t)rint(held));
        }
    }
}

static void test_thresholds(void **state)
{
    (void)state;
    if (!dev_np_is_wide()) {
        skip();
    }
    const float ends[] = {100.5F, 7};
    for (size_t n = 0; n <= LENGTH; n = length_after(n)) {
        for (int kind = 0; kind < CV_CUT_KINDS; kind++) {
            BOTH("cut_f32", n, levels[k]->cut_f32[kind](to, in.floats[0] + 1, n, ends));
        }
        for (uint8_t low = 0; low < 250; low = (uint8_t)(low + 83)) {
            const struct cv_cut cut = {low, {255, (uint8_t)(low & 1 ? 0 : 255)}, {0, low}};
            BOTH("cut_u8", n, levels[k]->cut_u8(to, in.bytes[0] + 1, n, &cut));
        }
    }
}

static void test_weights(void **state)
{
    (void)state;
    if (!dev_np_is_wide()) {
        skip();
    }
    const struct cv_weights weights[] = {{0.3, 0.7, 4},  {0.5, 0.5, 0}, {-2, 1.5, 100},
                                         {1e8, -1e7, 0}, {NAN, 1, 0},   {0, 0, 1e300}};
    const uint8_t *const bytes[] = {in.bytes[0] + 1, in.bytes[1] + 2};
    const float *const floats[] = {in.floats[1] + 1, in.floats[1] + 2};
    for (size_t n = 0; n <= LENGTH; n = length_after(n)) {
        for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++) {
            BOTH("weigh_u8", n, levels[k]->weigh_u8(to, bytes, n, &weights[i]));
            double reals[CV_LEVELS];
            uint8_t table[CV_LEVELS];
            for (int j = 0; j < CV_LEVELS; j++) {
                reals[j] = j * weights[i].alpha + weights[i].gamma;
            }
            levels[0]->store_u8(table, reals, CV_LEVELS);
            BOTH("scale_u8", n, levels[k]->scale_u8(to, bytes[0], n, &weights[i], table));
            if (isnan(weights[i].alpha)) {
                continue; // which NaN it is is the compiler's
            }
            BOTH("weigh_f32", n, levels[k]->weigh_f32(to, floats, n, &weights[i]));
            BOTH("scale_f32", n, levels[k]->scale_f32(to, floats[0], n, &weights[i]));
        }
        for (int how = 0; how < CV_BITS_KINDS; how++) {
            BOTH("bits", n, levels[k]->bits[how](to, bytes, n));
        }
        BOTH("mapped", n, levels[k]->mapped(to, bytes[0], n, in.bytes[1]));
        for (size_t pixel = 1; pixel < 9; pixel++) {
            BOTH("chosen", n, levels[k]->chosen(to, bytes[0], bytes[1], n, pixel));
        }
    }
}

static void test_tallies(void **state)
{
    (void)state;
    if (!dev_np_is_wide()) {
        skip();
    }
    const uint8_t *const bytes[] = {in.bytes[0] + 1, in.bytes[1] + 2};
    static int32_t above[SPARE / 8]; // to which a row of uint8 is added
    for (size_t i = 0; i < SPARE / 8; i++) {
        above[i] = in.whole[i] / 2;
    }
    for (size_t n = 0; n <= LENGTH; n = length_after(n)) {
        for (uint32_t channels = 1; channels <= 4; channels++) {
            BOTH("summed", n, memset(to, 0, 32); tallies[k]->summed(to, bytes[0], n, channels));
            BOTH("counted", n, memset(to, 0, sizeof(uint32_t) * CV_COUNTERS * CV_LEVELS);
                 tallies[k]->counted(to, bytes[0], n, channels));
            BOTH("integral", n,
                 tallies[k]->integral(to, above, bytes[0], n * channels / 2, channels));
        }
        BOTH("extent_u8", n, memcpy(to, "\xff", 2); tallies[k]->extent_u8(to, bytes[0], n));
        const float ends[] = {INFINITY, -INFINITY};
        BOTH("extent_f32", n, memcpy(to, ends, sizeof(ends));
             tallies[k]->extent_f32(to, in.floats[1], n));
        BOTH("moved", n, tallies[k]->moved(to, bytes, n));
        BOTH("added_up", n, tallies[k]->added_up(to, (const uint32_t *)in.whole, n));
    }
}

// The mean of a window beside one that is made pixel by pixel; and sums that fill 16 bits.
static void test_windows(void **state)
{
    (void)state;
    enum { SIZE = 11 };
    static uint32_t sums[LENGTH + SIZE];
    static uint8_t all[4 * 96 * 300];
    memset(all, 255, sizeof(all));
    for (size_t i = 0; i + 1 < LENGTH + SIZE; i++) {
        sums[i + 1] = sums[i] + in.bytes[0][i];
    }
    const struct cv_near near = {.from = in.bytes[1],
                                 .sums = sums,
                                 .size = SIZE,
                                 .scale = 1.0 / SIZE,
                                 .bound = -3,
                                 .set = {9, 200}};
    for (int k = 0; k < (dev_np_is_wide() ? KINDS : 1); k++) {
        uint8_t to[LENGTH];
        tallies[k]->near(to, LENGTH, &near);
        for (size_t i = 0; i < LENGTH; i++) {
            double mean = rint((sums[i + SIZE] - sums[i]) * (1.0 / SIZE));
            assert_int_equal(to[i], in.bytes[1][i] - mean > -3 ? 200 : 9);
        }
        for (uint32_t channels = 1; channels <= 4; channels++) {
            uint64_t found[4] = {1};
            tallies[k]->summed(found, all, sizeof(all) / channels, channels);
            assert_int_equal(found[0], 1 + sizeof(all) / channels * 255);
            assert_int_equal(found[channels - 1], (channels == 1) + sizeof(all) / channels * 255);
        }
    }
}

static void test_colors(void **state)
{
    (void)state;
    static const struct {
        enum cv_color_way way;
        uint32_t from;
        uint32_t to;
        double hues;
    } cases[] = {{CV_WAY_REORDER, 3, 4, 0}, {CV_WAY_REORDER, 4, 3, 0}, {CV_WAY_REORDER, 3, 3, 0},
                 {CV_WAY_REORDER, 4, 4, 0}, {CV_WAY_GRAY, 3, 1, 0},    {CV_WAY_GRAY, 4, 1, 0},
                 {CV_WAY_UNGRAY, 1, 3, 0},  {CV_WAY_UNGRAY, 1, 4, 0},  {CV_WAY_YCRCB, 3, 3, 0},
                 {CV_WAY_UNYCRCB, 3, 3, 0}, {CV_WAY_YUV, 4, 3, 0},     {CV_WAY_UNYUV, 3, 3, 0},
                 {CV_WAY_HSV, 3, 3, 180},   {CV_WAY_HSV, 3, 3, 256},   {CV_WAY_UNHSV, 3, 3, 180},
                 {CV_WAY_HLS, 3, 3, 180},   {CV_WAY_UNHLS, 3, 3, 180}, {CV_WAY_YUV, 3, 3, 0}};
    if (!dev_np_is_wide()) {
        skip();
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t n = 0; n <= LENGTH; n = length_after(n)) {
            struct cv_color color = {cases[i].from, cases[i].to, n % 2 == 0 ? 0 : 2, cases[i].hues,
                                     n};
            enum cv_color_way way = cases[i].way;
            BOTH("a colour of uint8", n, colors[k]->whole[way](&color, in.bytes[0] + 1, to));
            color.count = n / 2;
            BOTH("a colour of float32", n, colors[k]->real[way](&color, in.floats[1], to));
        }
    }
}

// Of every largest colour and every spread: what reals of twice the size come to.
static void test_hues(void **state)
{
    (void)state;
    for (int k = 0; k < (dev_np_is_wide() ? KINDS : 1); k++) {
        for (int largest = 0; largest < 256; largest++) {
            static uint8_t given[256][3];
            static uint8_t made[256][3];
            int hues = largest % 2 == 0 ? 180 : 256;
            for (int spread = 0; spread <= largest; spread++) {
                given[spread][0] = (uint8_t)(largest - spread / 3);
                given[spread][1] = (uint8_t)(largest - spread);
                given[spread][2] = (uint8_t)largest;
            }
            const struct cv_color color = {3, 3, 0, hues, (size_t)largest + 1};
            colors[k]->whole[CV_WAY_HSV](&color, given, made);
            for (int spread = 0; spread <= largest; spread++) {
                double by = spread == 0 ? 0 : rint(hues / 6.0 * 4096 / spread);
                double part = (given[spread][1] - given[spread][0]) * by + 2048;
                int hue = (int)floor(part / 4096);
                double deep = largest == 0 ? 0 : spread * rint(255 * 4096.0 / largest) + 2048;
                hue += hue < 0 ? hues : 0;
                assert_int_equal(made[spread][0], hue > 255 ? 255 : hue);
                assert_int_equal(made[spread][1], (int)floor(deep / 4096));
                assert_int_equal(made[spread][2], largest);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reals),      cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_thresholds), cmocka_unit_test(test_weights),
        cmocka_unit_test(test_tallies),    cmocka_unit_test(test_windows),
        cmocka_unit_test(test_colors),     cmocka_unit_test(test_hues)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
#else
int main(void)
{
    return 0; // there are no loops of another kind here
}
#endif

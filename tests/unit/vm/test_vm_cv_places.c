// walle.cv's loops that take pixels from other places, compiled for every processor and for those
// with AVX2, on the same random rows: the same results bit for bit, at lengths around those of
// vectors and for every number of channels. Skipped where the processor has no AVX2.
#include "vm/cv/rows/cv_place_rows.h"
#include "vm/cv/rows/cv_warp_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ROOM  8192 // bytes of a result
#define WIDTH 150  // pixels of an image
#define ROWS  9

#if defined(__x86_64__)

static const size_t counts[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 131};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))
#define MOST   131

// Both results, and what both are made of.
struct rows {
    _Alignas(64) uint8_t plain[ROOM];
    _Alignas(64) uint8_t wide[ROOM];
    _Alignas(64) uint8_t image[ROWS * WIDTH * 32 + CV_ROW_SPARE];
    int32_t at[MOST];
    int32_t down[MOST];
    int16_t fixed[2 * MOST];
    float reals[8 * MOST];
};
static struct rows rows;

static uint64_t next_of(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

// Places below `columns` and weights; the image is of bytes, or of floats.
static void fill(uint64_t seed, size_t columns, bool is_float)
{
    for (size_t i = 0; i < sizeof(rows.image); i++) {
        rows.image[i] = (uint8_t)next_of(&seed);
    }
    float *floats = (float *)(void *)rows.image;
    for (size_t i = 0; is_float && i < sizeof(rows.image) / sizeof(float); i++) {
        floats[i] = (float)next_of(&seed) / 1e8f - 9;
    }
    for (size_t i = 0; i < MOST; i++) {
        rows.at[i] = (int32_t)(next_of(&seed) % columns);
        rows.down[i] = (int32_t)(next_of(&seed) % (ROWS - 3));
        rows.fixed[2 * i] = (int16_t)(next_of(&seed) % 2049);
        rows.fixed[2 * i + 1] = (int16_t)(2048 - rows.fixed[2 * i]);
    }
    for (size_t i = 0; i < 8 * (size_t)MOST; i++) {
        rows.reals[i] = (float)next_of(&seed) / 4e9f - 0.1f;
    }
}

// What is written behind a result is seen in both.
static void begin(void)
{
    memset(rows.plain, 0x55, sizeof(rows.plain));
    memset(rows.wide, 0x55, sizeof(rows.wide));
}

static void same(const char *what, size_t bytes, size_t count, size_t channels)
{
    assert_true(bytes <= ROOM);
    if (memcmp(rows.plain, rows.wide, bytes) != 0) {
        size_t at = 0;
        while (rows.plain[at] == rows.wide[at]) {
            at++;
        }
        fail_msg("%s of %zu pixels of %zu: byte %zu of %zu is not the same", what, count, channels,
                 at, bytes);
    }
    begin();
}

static void moves(size_t count, size_t pixel)
{
    const struct cv_move_rows *plain = &dev_cv_move_rows_plain;
    const struct cv_move_rows *wide = &dev_cv_move_rows_wide;
    fill(count * pixel, WIDTH, false);
    plain->reverse(rows.plain, rows.image, count, pixel);
    wide->reverse(rows.wide, rows.image, count, pixel);
    assert_memory_equal(rows.wide, rows.image + (count - 1) * pixel, pixel);
    same("reverse", count * pixel + 16, count, pixel); // nothing is written behind, either
    plain->pick(rows.plain, rows.image, rows.at, count, pixel);
    wide->pick(rows.wide, rows.image, rows.at, count, pixel);
    same("pick", count * pixel + 16, count, pixel);
    plain->repeat(rows.plain, rows.image, count, pixel);
    wide->repeat(rows.wide, rows.image, count, pixel);
    same("repeat", count * pixel + 16, count, pixel);
    struct cv_turning turning = {.to = rows.plain,
                                 .to_step = (int64_t)(ROWS * pixel),
                                 .from = rows.image,
                                 .from_step = (int64_t)(WIDTH * pixel),
                                 .rows = ROWS,
                                 .pixel = pixel};
    size_t turned = ROOM / (ROWS * pixel) < count ? ROOM / (ROWS * pixel) : count;
    plain->turn(&turning, 0, turned);
    turning.to = rows.wide;
    wide->turn(&turning, 0, turned);
    same("turn", ROOM, turned, pixel);
}

static void channels_move(size_t count, size_t channels)
{
    const struct cv_move_rows *both[] = {&dev_cv_move_rows_plain, &dev_cv_move_rows_wide};
    uint8_t *const to[] = {rows.plain, rows.wide};
    const uint8_t *from[4];
    for (int k = 0; k < 2; k++) {
        uint8_t *out[4];
        for (size_t c = 0; c < channels; c++) {
            from[c] = rows.image + 7 + c * WIDTH;
            out[c] = to[k] + 1024 + c * WIDTH;
        }
        both[k]->merge(to[k], from, channels, count);
        both[k]->split(out, to[k], channels, count);
        const size_t steps[] = {4, 4 * channels};
        both[k]->channel(to[k] + 2048, rows.image, steps, count, 4);
        assert_memory_equal(out[channels - 1], from[channels - 1], count);
    }
    same("channels", ROOM, count, channels);
}

static void test_moves(void **state)
{
    (void)state;
    if (!dev_np_is_wide()) {
        skip();
    }
    static const size_t pixels[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    begin();
    fill(1, WIDTH, false);
    for (size_t p = 0; p < sizeof(pixels) / sizeof(pixels[0]); p++) {
        for (size_t i = 0; i < COUNTS; i++) {
            moves(counts[i], pixels[p]);
            channels_move(counts[i], 2 + p % 3);
        }
    }
}

static void across(const char *what, cv_across_fn *const both[2], struct cv_taps *taps, size_t item)
{
    both[0](rows.plain, rows.image, taps);
    both[1](rows.wide, rows.image, taps);
    same(what, taps->count * taps->channels * item, taps->count, taps->channels);
}

static void resizes(size_t count, size_t channels)
{
    const struct cv_resize_rows *plain = &dev_cv_resize_rows_plain;
    const struct cv_resize_rows *wide = &dev_cv_resize_rows_wide;
    struct cv_taps taps = {.at = rows.at, .count = count, .channels = channels};
    for (taps.taps = 1; taps.taps <= 5; taps.taps++) {
        cv_across_fn *const bytes[] = {plain->across_u8, wide->across_u8};
        cv_across_fn *const floats[] = {plain->across_f32, wide->across_f32};
        taps.weights = rows.reals;
        fill(count + channels, WIDTH * channels, false);
        across("across_u8", bytes, &taps, sizeof(float));
        fill(count + channels, WIDTH * channels, true);
        across("across_f32", floats, &taps, sizeof(float));
    }
    cv_across_fn *const fixed[] = {plain->across_fixed, wide->across_fixed};
    taps.taps = 2;
    taps.weights = rows.fixed;
    fill(count + channels, WIDTH * channels, false);
    across("across_fixed", fixed, &taps, sizeof(int16_t));
    const uint8_t *lines[] = {rows.image, rows.image + 2 * count * channels};
    for (size_t times = 1; times <= 3; times++) {
        struct cv_cells cells = {count, channels, times, 1};
        plain->halve(rows.plain, lines, &cells);
        wide->halve(rows.wide, lines, &cells);
        same("halve", count * channels + 16, count, channels);
        static uint32_t sums[2][3 * 4 * MOST];
        memset(sums, 0, sizeof(sums));
        plain->sum(sums[0], rows.image, count * channels * times);
        wide->sum(sums[1], rows.image, count * channels * times);
        plain->shrink(rows.plain, sums[0], &cells);
        wide->shrink(rows.wide, sums[1], &cells);
        same("shrink", count * channels, count, channels);
    }
}

static void downs(size_t count)
{
    const struct cv_resize_rows *plain = &dev_cv_resize_rows_plain;
    const struct cv_resize_rows *wide = &dev_cv_resize_rows_wide;
    static int16_t lines[2][MOST];
    uint64_t seed = count;
    fill(count, WIDTH, true);
    for (size_t i = 0; i < MOST; i++) {
        lines[0][i] = (int16_t)(next_of(&seed) % 32641);
        lines[1][i] = (int16_t)(next_of(&seed) % 32641);
    }
    const int16_t *const two[] = {lines[0], lines[1]};
    plain->down_fixed(rows.plain, two, rows.fixed, count);
    wide->down_fixed(rows.wide, two, rows.fixed, count);
    same("down_fixed", count + 16, count, 1);
    for (size_t taps = 1; taps <= 6; taps++) {
        const void *floats[6];
        for (size_t k = 0; k < taps; k++) {
            floats[k] = rows.image + k * count * sizeof(float);
        }
        plain->down_f32(rows.plain, floats, rows.reals, taps, count);
        wide->down_f32(rows.wide, floats, rows.reals, taps, count);
        same("down_f32", count * sizeof(float), count, taps);
    }
    plain->store_u8(rows.plain, (const float *)(const void *)rows.image, count);
    wide->store_u8(rows.wide, (const float *)(const void *)rows.image, count);
    same("store_u8", count, count, 1);
    const float mean_scale[] = {3.25f, 0.3f};
    for (size_t channels = 1; channels <= 4; channels++) {
        plain->level((void *)rows.plain, (const void *)rows.image, count, channels, mean_scale);
        wide->level((void *)rows.wide, (const void *)rows.image, count, channels, mean_scale);
        same("level", count * sizeof(float), count, channels);
    }
}

static void test_resizes(void **state)
{
    (void)state;
    if (!dev_np_is_wide()) {
        skip();
    }
    begin();
    for (size_t i = 0; i < COUNTS; i++) {
        for (size_t channels = 1; channels <= 4; channels++) {
            resizes(counts[i], channels);
        }
        downs(counts[i]);
    }
}

// Places in the image, for which all taps are in it.
static void samples(size_t count, size_t channels)
{
    const struct cv_warp_rows *plain = &dev_cv_warp_rows_plain;
    const struct cv_warp_rows *wide = &dev_cv_warp_rows_wide;
    static float weights[CV_STEPS][CV_TAPS_MAX];
    static double weights_long[CV_STEPS][CV_TAPS_MAX];
    cv_sample_fn *const loops[][2] = {
        {plain->linear_u8, wide->linear_u8}, {plain->cubic_u8, wide->cubic_u8},
        {plain->nearest, wide->nearest},     {plain->linear_f32, wide->linear_f32},
        {plain->cubic_f32, wide->cubic_f32}, {plain->linear_f64, wide->linear_f64},
        {plain->cubic_f64, wide->cubic_f64},
    };
    static const size_t items[] = {1, 1, 1, 4, 4, 8, 8};
    for (size_t k = 0; k < sizeof(loops) / sizeof(loops[0]); k++) {
        fill(count * 5 + channels, WIDTH / 2 - 4, items[k] > 1);
        const int unit = loops[k][0] == plain->nearest ? 1 : CV_STEPS;
        for (size_t i = 0; i < count; i++) {
            rows.at[i] = (rows.at[i] + 1) * unit + (unit > 1 ? (int)(i * 7 % CV_STEPS) : 0);
            rows.down[i] = (rows.down[i] + 1) * unit + (unit > 1 ? (int)(i * 5 % CV_STEPS) : 0);
        }
        for (size_t i = 0; i < (size_t)CV_STEPS * CV_TAPS_MAX; i++) {
            weights[i / CV_TAPS_MAX][i % CV_TAPS_MAX] = rows.reals[i];
            weights_long[i / CV_TAPS_MAX][i % CV_TAPS_MAX] = (double)rows.reals[i];
        }
        struct cv_source source = {.data = rows.image,
                                   .step = (int64_t)(WIDTH / 2 * channels * items[k]),
                                   .channels = channels,
                                   .pixel = channels * items[k],
                                   .weights = (const void *)weights,
                                   .weights_long = (const void *)weights_long};
        loops[k][0](rows.plain, &source, rows.at, rows.down, count);
        loops[k][1](rows.wide, &source, rows.at, rows.down, count);
        same("sample", count * channels * items[k] + 16, count, channels);
    }
}

static void places(size_t count)
{
    const struct cv_warp_rows *both[] = {&dev_cv_warp_rows_plain, &dev_cv_warp_rows_wide};
    uint8_t *const to[] = {rows.plain, rows.wide};
    fill(count, 1000000, true);
    const double matrix[] = {0.9, 0.1, 3, -0.2, 1.1, 5, 0.01, -0.02, 1};
    const struct cv_tilt tilt = {.matrix = matrix, .row = 50, .block = 32, .scale = CV_STEPS};
    for (int k = 0; k < 2; k++) {
        int32_t *x = (int32_t *)(void *)to[k];
        both[k]->affine(x, rows.at, -77777, 5, count);
        both[k]->map(x + count, (const float *)(const void *)rows.image, 2, CV_STEPS, count);
        both[k]->perspective(x + 2 * count, x + 3 * count, &tilt, count);
    }
    same("places", 4 * count * sizeof(int32_t), count, 1);
}

static void test_warps(void **state)
{
    (void)state;
    if (!dev_np_is_wide()) {
        skip();
    }
    begin();
    for (size_t i = 0; i < COUNTS; i++) {
        for (size_t channels = 1; channels <= 5; channels++) {
            samples(counts[i], channels);
        }
        places(counts[i]);
    }
}

#else

static void test_nothing(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_resizes),
        cmocka_unit_test(test_warps),
#else
        cmocka_unit_test(test_nothing),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Corners of operators that random models beside other engines brought up: NaN where the formula
// has an "otherwise", slices that begin before the beginning, axes without elements, sums that have
// to come out whole.
#include "op_rig.h"

static const char *const backends[] = {"ref", "generic", NULL};

static void begin(struct op_rig *rig, const char *op, int64_t opset, size_t backend)
{
    op_begin(rig, op, opset);
    rig->options.isa = backends[backend];
    rig->options.no_search = true;
}

// y is 0 for whatever is neither above nor below, and a NaN is neither.
static void nothing_above_or_below(void **state)
{
    (void)state;
    static const char *const ops[2] = {"Shrink", "ThresholdedRelu"};
    const float x[5] = {NAN, 2, -2, 0.25F, NAN};
    const float wanted[2][5] = {{0, 2, -2, 0, 0}, {0, 2, 0, 0, 0}};
    const struct eng_desc desc = {.dtype = ENG_F32, .rank = 1, .dims = {5}};
    for (size_t i = 0; i < 2 * TEST_COUNT(backends); i++) {
        struct op_rig rig;
        begin(&rig, ops[i % 2], 10, i / 2);
        op_input(&rig, &desc, x, false);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &desc, wanted[i % 2]);
        op_done(&rig);
    }
}

// The largest number without a sign stays what it is; beyond it is nothing.
static void shrunk_without_sign(void **state)
{
    (void)state;
    const uint64_t x[3] = {UINT64_C(1) << 63, 3, 0};
    const struct eng_desc desc = {.dtype = ENG_U64, .rank = 1, .dims = {3}};
    const int64_t wanted[3] = {INT64_MIN, 3, 0}; // the same bits
    struct op_rig rig;
    op_begin(&rig, "Shrink", 9);
    op_input(&rig, &desc, x, false);
    op_run_ok(&rig, 1);
    op_expect_ints(&rig, 0, &desc, wanted);
    op_done(&rig);
}

// A NaN is the extreme, wherever it lies, on every backend: the first of them, or the last.
static void extremes_are_not_numbers(void **state)
{
    (void)state;
    const float x[12] = {1, NAN, -3, 2, NAN, 5, 4, 9, 9, 8, 7, 7};
    const int64_t wanted[2][2][3] = {{{1, 0, 2}, {1, 0, 3}}, {{1, 0, 0}, {1, 0, 0}}};
    for (size_t i = 0; i < 8 * TEST_COUNT(backends); i++) {
        const bool is_max = i % 2 == 1, last = i / 2 % 2 == 1, columns = i / 4 % 2 == 1;
        const struct eng_desc in = {.dtype = ENG_F32, .rank = 2, .dims = {3, 4}};
        const struct eng_desc turned = {.dtype = ENG_F32, .rank = 2, .dims = {4, 3}};
        const struct eng_desc out = {.dtype = ENG_I64, .rank = 1, .dims = {3}};
        float y[12];
        for (int k = 0; k < 12; k++) {
            y[k] = columns ? x[k % 3 * 4 + k / 3] : x[k];
        }
        struct op_rig rig;
        begin(&rig, is_max ? "ArgMax" : "ArgMin", 12, i / 8);
        op_attr_int(&rig, "axis", columns ? 0 : 1);
        op_attr_int(&rig, "keepdims", 0);
        op_attr_int(&rig, "select_last_index", last);
        op_input(&rig, columns ? &turned : &in, y, false);
        op_run_ok(&rig, 1);
        op_expect_ints(&rig, 0, &out, wanted[is_max][last]);
        op_done(&rig);
    }
}

// "start is clamped to [0, dims - 1] for negative stepping": a start before the first element is
// the first element.
static void backwards_from_before_the_beginning(void **state)
{
    (void)state;
    const float data[3] = {1, 2, 3};
    const struct eng_desc in = {.dtype = ENG_F32, .rank = 1, .dims = {3}};
    const struct {
        int64_t start, end, step, count;
    } cases[] = {{-4, -4, -1, 1}, {-9, INT64_MIN, -2, 1}, {-4, 0, -1, 0}, {INT64_MIN, -5, -1, 1}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct eng_desc desc = {.dtype = ENG_F32, .rank = 1, .dims = {cases[i].count}};
        struct op_rig rig;
        op_begin(&rig, "Slice", 13);
        op_input(&rig, &in, data, false);
        op_ints(&rig, &cases[i].start, 1, true);
        op_ints(&rig, &cases[i].end, 1, true);
        op_absent(&rig);
        op_ints(&rig, &cases[i].step, 1, true);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &desc, data);
        op_done(&rig);
    }
}

static void largest_of_nothing(void **state)
{
    (void)state;
    const struct eng_desc desc = {.dtype = ENG_F32, .rank = 3, .dims = {2, 3, 0}};
    for (int64_t opset = 11; opset <= 13; opset += 2) {
        struct op_rig rig;
        op_begin(&rig, "Hardmax", opset);
        op_attr_int(&rig, "axis", 2);
        op_input(&rig, &desc, "", false);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &desc, NULL);
        op_done(&rig);
    }
}

// Means and deviations are float32 (stash_type), not halves made wider.
static void statistics_of_halves(void **state)
{
    (void)state;
    const float values[2] = {100.25F, 2.9765625F};
    const float scale[2] = {1, 1}, mean[1] = {51.61328125F};
    const struct eng_desc in = {.dtype = ENG_F16, .rank = 2, .dims = {1, 2}};
    const struct eng_desc row = {.dtype = ENG_F16, .rank = 1, .dims = {2}};
    const struct eng_desc out = {.dtype = ENG_F32, .rank = 2, .dims = {1, 1}};
    uint16_t x[2], s[2];
    for (int i = 0; i < 2; i++) {
        x[i] = eng_f16_from_f32(values[i]);
        s[i] = eng_f16_from_f32(scale[i]);
    }
    struct op_rig rig;
    op_begin(&rig, "LayerNormalization", 17);
    op_input(&rig, &in, x, false);
    op_input(&rig, &row, s, true);
    op_run_ok(&rig, 2);
    op_expect_floats(&rig, 1, &out, mean);
    const struct eng_array y = op_output(&rig, 0);
    op_expect_shape(&rig, &y.desc, &in);
    op_done(&rig);
}

// Halves all alike have no variance, and the epsilon of 1e-9 is no half; squares of 300 are none.
static void halves_out_of_range(void **state)
{
    (void)state;
    static const char *const ops[2] = {"MeanVarianceNormalization", "LRN"};
    const struct eng_desc desc = {.dtype = ENG_F16, .rank = 4, .dims = {1, 1, 1, 2}};
    const uint16_t x[2] = {eng_f16_from_f32(300), eng_f16_from_f32(300)};
    for (int i = 0; i < 2; i++) {
        struct op_rig rig;
        op_begin(&rig, ops[i], 13);
        if (i == 1) {
            op_attr_int(&rig, "size", 1);
        }
        op_input(&rig, &desc, x, false);
        op_run_ok(&rig, 1);
        const struct eng_array y = op_output(&rig, 0);
        const float got = eng_f16_to_f32(((const uint16_t *)y.data)[1]);
        const float want = i == 0 ? 0 : 300.0F * powf(1 + 1e-4F * 90000, -0.75F);
        assert_true(fabsf(got - want) < 0.1F);
        op_done(&rig);
    }
}

// (x + 0.5) / scale, as the text has it, for the other modes too.
static void half_pixels_without_shift(void **state)
{
    (void)state;
    const float x[2] = {0, 6}, scales[1] = {3};
    const float linear[6] = {1, 3, 5, 6, 6, 6};
    const float up[6] = {6, 6, 6, 6, 6, 6}, nearest[6] = {0, 0, 0, 6, 6, 6};
    const struct eng_desc in = {.dtype = ENG_F32, .rank = 1, .dims = {2}};
    const struct eng_desc out = {.dtype = ENG_F32, .rank = 1, .dims = {6}};
    const struct eng_desc none = {.dtype = ENG_F32, .rank = 1, .dims = {0}};
    const struct eng_desc one = {.dtype = ENG_F32, .rank = 1, .dims = {1}};
    const struct {
        const char *mode, *round;
        const float *wanted;
    } cases[] = {
        {"linear", "floor", linear}, {"nearest", "ceil", up}, {"nearest", "floor", nearest}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct op_rig rig;
        op_begin(&rig, "Resize", 11);
        op_attr_text(&rig, "mode", cases[i].mode);
        op_attr_text(&rig, "nearest_mode", cases[i].round);
        op_attr_text(&rig, "coordinate_transformation_mode", "tf_half_pixel_for_nn");
        op_input(&rig, &in, x, false);
        op_input(&rig, &none, "", true);
        op_input(&rig, &one, scales, true);
        op_run_ok(&rig, 1);
        op_expect_floats(&rig, 0, &out, cases[i].wanted);
        op_done(&rig);
    }
}

// pytorch_half_pixel looks at the length there is (1), not at what the scale makes of it (1.8).
static void one_pixel_left(void **state)
{
    (void)state;
    const float x[3] = {4, 8, 16}, scales[1] = {0.6F};
    const struct eng_desc in = {.dtype = ENG_F32, .rank = 1, .dims = {3}};
    const struct eng_desc one = {.dtype = ENG_F32, .rank = 1, .dims = {1}};
    const struct eng_desc none = {.dtype = ENG_F32, .rank = 1, .dims = {0}};
    struct op_rig rig;
    op_begin(&rig, "Resize", 11);
    op_attr_text(&rig, "mode", "linear");
    op_attr_text(&rig, "coordinate_transformation_mode", "pytorch_half_pixel");
    op_input(&rig, &in, x, false);
    op_input(&rig, &none, "", true);
    op_input(&rig, &one, scales, true);
    op_run_ok(&rig, 1);
    op_expect_floats(&rig, 0, &one, x);
    op_done(&rig);
}

enum { CHANNELS = 16, FILTERS = 16, SIDE = 12 };

static int32_t window_sum(const uint8_t *x, const uint8_t *w, int m, int row, int column)
{
    int32_t sum = 0;
    for (int c = 0; c < CHANNELS; c++) {
        for (int k = 0; k < 9; k++) {
            int at_row = row + k / 3 - 1, at = column + k % 3 - 1;
            if (at_row >= 0 && at_row < SIDE && at >= 0 && at < SIDE) {
                sum += x[(c * SIDE + at_row) * SIDE + at] * w[(m * CHANNELS + c) * 9 + k];
            }
        }
    }
    return sum;
}

// Sums of whole numbers come out whole whatever the kernel: no transform may round them.
static void sums_are_whole(void **state)
{
    (void)state;
    static uint8_t x[CHANNELS * SIDE * SIDE], w[FILTERS * CHANNELS * 9];
    const int64_t pads[4] = {1, 1, 1, 1};
    const struct eng_desc x_desc = {.dtype = ENG_U8, .rank = 4, .dims = {1, CHANNELS, SIDE, SIDE}};
    const struct eng_desc w_desc = {.dtype = ENG_U8, .rank = 4, .dims = {FILTERS, CHANNELS, 3, 3}};
    struct base_prng prng;
    base_prng_seed(&prng, 71);
    print_message("seed 71\n");
    for (size_t i = 0; i < sizeof x; i++) {
        x[i] = (uint8_t)base_prng_below(&prng, 256);
    }
    for (size_t i = 0; i < sizeof w; i++) {
        w[i] = (uint8_t)base_prng_below(&prng, 256);
    }
    for (size_t backend = 0; backend < TEST_COUNT(backends); backend++) {
        struct op_rig rig;
        begin(&rig, "ConvInteger", 10, backend);
        op_attr_ints(&rig, "pads", pads, 4);
        op_input(&rig, &x_desc, x, false);
        op_input(&rig, &w_desc, w, true);
        op_run_ok(&rig, 1);
        const struct eng_array y = op_output(&rig, 0);
        for (int i = 0; i < FILTERS * SIDE * SIDE; i++) {
            assert_int_equal(((const int32_t *)y.data)[i],
                             window_sum(x, w, i / (SIDE * SIDE), i / SIDE % SIDE, i % SIDE));
        }
        op_done(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_above_or_below),
        cmocka_unit_test(shrunk_without_sign),
        cmocka_unit_test(extremes_are_not_numbers),
        cmocka_unit_test(backwards_from_before_the_beginning),
        cmocka_unit_test(largest_of_nothing),
        cmocka_unit_test(statistics_of_halves),
        cmocka_unit_test(halves_out_of_range),
        cmocka_unit_test(half_pixels_without_shift),
        cmocka_unit_test(one_pixel_left),
        cmocka_unit_test(sums_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

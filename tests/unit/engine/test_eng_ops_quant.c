// Quantised operators against integer loops, with zero points and scales per tensor and per
// channel; expected bytes follow from round-half-even and saturation.
#include "op_rig.h"

static int quantised(double value, int zero, int low, int high)
{
    double y = nearbyint(value) + zero;
    return y < low ? low : y > high ? high : (int)y;
}

static void to_bytes_and_back(void **state)
{
    (void)state;
    static const float x[6] = {-200, -0.75f, 0.25f, 0.75f, 2.6f, 300};
    static const float scales[3] = {0.5f, 0.1f, 2};
    static const int8_t zeros[3] = {3, -5, 0};
    for (int form = 0; form < 4; form++) {
        bool per_axis = form & 1;
        bool constant = form & 2;
        int8_t want[6];
        double back[6];
        for (int i = 0; i < 6; i++) {
            int c = per_axis ? i / 2 : 0; // along axis 0 of [3, 2]
            want[i] = (int8_t)quantised((double)(x[i] / scales[c]), zeros[c], -128, 127);
            back[i] = (double)(want[i] - zeros[c]) * (double)scales[c];
        }
        struct eng_array arrays[3] = {op_floats(x, 3, 2), op_floats(scales, 3),
                                      op_of(ENG_I8, zeros, 3)};
        if (!per_axis) {
            arrays[1] = op_scalar_of(ENG_F32, scales);
            arrays[2] = op_scalar_of(ENG_I8, zeros);
        }
        for (int direction = 0; direction < 2; direction++) {
            struct op_rig *rig =
                op_named(direction == 0 ? "QuantizeLinear" : "DequantizeLinear", "x s z", "y");
            op_attr_int(rig, "axis", -2);
            if (direction == 1) {
                arrays[0] = op_of(ENG_I8, want, 3, 2);
            }
            op_feed(rig, "x", &arrays[0]);
            (constant ? op_constant : op_feed)(rig, "s", &arrays[1]);
            (constant ? op_constant : op_feed)(rig, "z", &arrays[2]);
            op_run_at(rig, 13);
            struct eng_array y = op_output(rig, 0);
            if (direction == 0) {
                op_same_shape(&y, ENG_I8, OP_DIMS(3, 2));
                assert_memory_equal(y.data, want, sizeof want);
            } else {
                op_near(&y, back, 6, 1e-6);
            }
            op_done(rig);
        }
    }
}

static void range_found_at_run_time(void **state)
{
    (void)state;
    static const struct {
        float x[4];
        float scale;
        uint8_t zero;
        uint8_t y[4];
    } cases[] = {
        {{0, 2, -3, -2.5f}, 5.0f / 255, 153, {153, 255, 0, 25}}, // 255 * 3 / 5 = 153; -2.5 is 25.5
        {{1, 2, 3, 4}, 4.0f / 255, 0, {64, 128, 191, 255}},      // 127.5 goes to the even one
        {{0, 0, 0, 0}, 1, 0, {0, 0, 0, 0}},
    };
    for (size_t c = 0; c < TEST_COUNT(cases); c++) {
        struct op_rig *rig = op_named("DynamicQuantizeLinear", "x", "y s z");
        struct eng_array array = op_floats(cases[c].x, 4);
        op_feed(rig, "x", &array);
        op_run_at(rig, 11);
        struct eng_array y = op_output(rig, 0);
        struct eng_array scale = op_output(rig, 1);
        struct eng_array zero = op_output(rig, 2);
        double want = (double)cases[c].scale;
        op_near(&scale, &want, 1, 1e-7);
        assert_int_equal(*(const uint8_t *)zero.data, cases[c].zero);
        for (int i = 0; i < 4; i++) {
            int off = ((const uint8_t *)y.data)[i] - cases[c].y[i];
            assert_true(off >= -1 && off <= 1); // halves depend on the quotient's last bit
        }
        op_done(rig);
    }
}

static void bytes(struct base_prng *prng, uint8_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (uint8_t)base_prng_next(prng);
    }
}

// a [4, 5] with a zero point per row, b [5, 3] with one per column.
static void integer_products(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 71);
    print_message("seed 71\n");
    uint8_t a[20];
    uint8_t b[15];
    uint8_t a_zero[4];
    uint8_t b_zero[3];
    bytes(&prng, a, 20);
    bytes(&prng, b, 15);
    bytes(&prng, a_zero, 4);
    bytes(&prng, b_zero, 3);
    for (int form = 0; form < 8; form++) {
        bool rows = form & 1;
        bool cols = form & 2;
        bool constant = form & 4;
        int32_t want[12];
        for (int i = 0; i < 12; i++) {
            want[i] = 0;
            for (int k = 0; k < 5; k++) {
                want[i] += (a[i / 3 * 5 + k] - a_zero[rows ? i / 3 : 0]) *
                           ((int8_t)b[k * 3 + i % 3] - (int8_t)b_zero[cols ? i % 3 : 0]);
            }
        }
        struct op_rig *rig = op_named("MatMulInteger", "a b az bz", "y");
        struct eng_array arrays[4] = {
            op_of(ENG_U8, a, 4, 5), op_of(ENG_I8, b, 5, 3),
            rows ? op_of(ENG_U8, a_zero, 4) : op_scalar_of(ENG_U8, a_zero),
            cols ? op_of(ENG_I8, b_zero, 3) : op_scalar_of(ENG_I8, b_zero)};
        op_feed(rig, "a", &arrays[0]);
        (constant ? op_constant : op_feed)(rig, "b", &arrays[1]);
        (constant ? op_constant : op_feed)(rig, "az", &arrays[2]);
        (constant ? op_constant : op_feed)(rig, "bz", &arrays[3]);
        op_run_at(rig, 10);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_I32, OP_DIMS(4, 3));
        assert_memory_equal(y.data, want, sizeof want);
        op_done(rig);
    }
}

enum { CHANNELS = 40, OUTPUTS = 4, SIDE = 4 };

// Many channels, so that the sums pass what float32 holds exactly: 3x3 windows, padded by the zero
// point.
static void integer_windows(const uint8_t *x, const uint8_t *w, int x_zero, const int *w_zero,
                            int32_t *out)
{
    for (int i = 0; i < OUTPUTS * SIDE * SIDE; i++) {
        int m = i / (SIDE * SIDE);
        out[i] = 0;
        for (int k = 0; k < CHANNELS * 9; k++) {
            int row = i / SIDE % SIDE + k / 3 % 3 - 1;
            int col = i % SIDE + k % 3 - 1;
            if (row >= 0 && row < SIDE && col >= 0 && col < SIDE) {
                out[i] += (x[(k / 9 * SIDE + row) * SIDE + col] - x_zero) *
                          (w[m * CHANNELS * 9 + k] - w_zero[m]);
            }
        }
    }
}

static void convolutions(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 72);
    print_message("seed 72\n");
    static uint8_t x[CHANNELS * SIDE * SIDE];
    static uint8_t w[OUTPUTS * CHANNELS * 9];
    static const uint8_t x_zero = 9;
    static const uint8_t w_zero[OUTPUTS] = {0, 255, 128, 7};
    static const int w_zeros[OUTPUTS] = {0, 255, 128, 7};
    static const float x_scale = 0.02f;
    static const float w_scale[OUTPUTS] = {0.003f, 0.002f, 0.01f, 0.004f};
    static const float y_scale = 0.05f;
    static const uint8_t y_zero = 100;
    static const int32_t bias[OUTPUTS] = {1000, -5000000, 7, 0};
    const int64_t pads[4] = {1, 1, 1, 1};
    bytes(&prng, x, sizeof x);
    bytes(&prng, w, sizeof w);
    memset(x, 255, 64); // some sums are large
    int32_t sums[OUTPUTS * SIDE * SIDE];
    integer_windows(x, w, x_zero, w_zeros, sums);
    struct eng_array arrays[9] = {op_of(ENG_U8, x, 1, CHANNELS, SIDE, SIDE),
                                  op_scalar_of(ENG_F32, &x_scale),
                                  op_scalar_of(ENG_U8, &x_zero),
                                  op_of(ENG_U8, w, OUTPUTS, CHANNELS, 3, 3),
                                  op_floats(w_scale, OUTPUTS),
                                  op_of(ENG_U8, w_zero, OUTPUTS),
                                  op_scalar_of(ENG_F32, &y_scale),
                                  op_scalar_of(ENG_U8, &y_zero),
                                  op_of(ENG_I32, bias, OUTPUTS)};
    struct op_rig *rig = op_named("ConvInteger", "x w xz wz", "y");
    op_attr_ints(rig, "pads", pads, 4);
    op_feed(rig, "x", &arrays[0]);
    op_constant(rig, "w", &arrays[3]);
    op_constant(rig, "xz", &arrays[2]);
    op_constant(rig, "wz", &arrays[5]);
    op_run_at(rig, 10);
    struct eng_array y = op_output(rig, 0);
    op_same_shape(&y, ENG_I32, OP_DIMS(1, OUTPUTS, SIDE, SIDE));
    assert_memory_equal(y.data, sums, sizeof sums);
    op_done(rig);
    static const char *const names[9] = {"x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"};
    rig = op_named("QLinearConv", "x xs xz w ws wz ys yz b", "y");
    op_attr_ints(rig, "pads", pads, 4);
    for (int i = 0; i < 9; i++) {
        (i == 0 ? op_feed : op_constant)(rig, names[i], &arrays[i]);
    }
    op_run_at(rig, 10);
    y = op_output(rig, 0);
    op_same_shape(&y, ENG_U8, OP_DIMS(1, OUTPUTS, SIDE, SIDE));
    int clipped = 0;
    for (int i = 0; i < OUTPUTS * SIDE * SIDE; i++) {
        int m = i / (SIDE * SIDE);
        double scale = (double)(x_scale * w_scale[m] / y_scale);
        int want = quantised(scale * (sums[i] + bias[m]), y_zero, 0, 255);
        int got = ((const uint8_t *)y.data)[i];
        clipped += want == 0 || want == 255;
        assert_true(got - want >= -1 && got - want <= 1);
    }
    assert_true(clipped > 0 && clipped < OUTPUTS * SIDE * SIDE);
    op_done(rig);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const float x[6];
    static const float scales[2] = {1, 2};
    struct eng_array arrays[2] = {op_floats(x, 2, 3), op_floats(scales, 2)};
    struct op_rig *rig = op_named("QuantizeLinear", "x s", "y");
    op_feed(rig, "x", &arrays[0]);
    op_feed(rig, "s", &arrays[1]);
    op_refused(rig, 13, BASE_ERR_INVALID, "2 values for 3 along axis 1");
    rig = op_named("DequantizeLinear", "x s", "y");
    op_feed(rig, "x", &arrays[0]);
    op_feed(rig, "s", &arrays[1]);
    op_refused(rig, 13, BASE_ERR_INVALID, "input 0 has type float");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(to_bytes_and_back),  cmocka_unit_test(range_found_at_run_time),
        cmocka_unit_test(integer_products),   cmocka_unit_test(convolutions),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

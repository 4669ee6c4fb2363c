// Normalisations and dropout against loops: inference and training, with constant and computed
// parameters, over the opsets that changed them.
#include "op_rig.h"

#define N 2
#define C 3
#define S 10 // spatial elements, as 2 x 5

struct bn_data {
    float x[N * C * S], scale[C], bias[C], mean[C], var[C];
};

static void fill(struct base_prng *prng, float *out, size_t count, double low, double high)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (float)(low + (high - low) * base_prng_unit(prng));
    }
}

static struct bn_data bn_data(uint64_t seed)
{
    struct base_prng prng;
    struct bn_data d;
    base_prng_seed(&prng, seed);
    print_message("seed %d\n", (int)seed);
    fill(&prng, d.x, N * C * S, -2, 3);
    fill(&prng, d.scale, C, 0.5, 2);
    fill(&prng, d.bias, C, -1, 1);
    fill(&prng, d.mean, C, -1, 1);
    fill(&prng, d.var, C, 0.2, 2);
    return d;
}

static struct op_rig *bn_rig(const char *outputs)
{
    struct op_rig *rig = op_named("BatchNormalization", "x s b m v", outputs);
    op_attr_float(rig, "epsilon", 1e-3f);
    op_attr_float(rig, "momentum", 0.7f);
    return rig;
}

static void bn_inputs(struct op_rig *rig, const struct bn_data *d, bool constant)
{
    struct eng_array x = op_floats(d->x, N, C, 2, 5);
    const float *params[4] = {d->scale, d->bias, d->mean, d->var};
    static const char *const names[4] = {"s", "b", "m", "v"};
    op_feed(rig, "x", &x);
    for (int i = 0; i < 4; i++) {
        struct eng_array p = op_floats(params[i], C);
        (constant ? op_constant : op_feed)(rig, names[i], &p);
    }
}

static void bn_want(const struct bn_data *d, const double *mean, const double *var, double *y)
{
    for (int i = 0; i < N * C * S; i++) {
        int c = i / S % C;
        y[i] = ((double)d->x[i] - mean[c]) / sqrt(var[c] + 1e-3) * (double)d->scale[c] +
               (double)d->bias[c];
    }
}

static void batch_norm_of_inference(void **state)
{
    (void)state;
    struct bn_data d = bn_data(51);
    double mean[C];
    double var[C];
    double want[N * C * S];
    for (int c = 0; c < C; c++) {
        mean[c] = (double)d.mean[c];
        var[c] = (double)d.var[c];
    }
    bn_want(&d, mean, var, want);
    static const int64_t opsets[] = {7, 9, 14, 15};
    for (size_t i = 0; i < 2 * TEST_COUNT(opsets); i++) {
        struct op_rig *rig = bn_rig("y");
        bn_inputs(rig, &d, i % 2 == 0);
        op_run_at(rig, opsets[i / 2]);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_F32, OP_DIMS(N, C, 2, 5));
        op_near(&y, want, N * C * S, 1e-5);
        op_done(rig);
    }
}

static void batch_norm_of_training(void **state)
{
    (void)state;
    struct bn_data d = bn_data(52);
    double mean[C];
    double var[C];
    double running_mean[C];
    double running_var[C];
    double want[N * C * S];
    for (int c = 0; c < C; c++) {
        double sum = 0;
        double squares = 0;
        for (int i = 0; i < N * S; i++) {
            sum += (double)d.x[(i / S * C + c) * S + i % S];
        }
        mean[c] = sum / (N * S);
        for (int i = 0; i < N * S; i++) {
            double off = (double)d.x[(i / S * C + c) * S + i % S] - mean[c];
            squares += off * off;
        }
        var[c] = squares / (N * S);
        running_mean[c] = 0.7 * (double)d.mean[c] + 0.3 * mean[c];
        running_var[c] = 0.7 * (double)d.var[c] + 0.3 * var[c];
    }
    bn_want(&d, mean, var, want);
    for (int modern = 0; modern < 2; modern++) {
        struct op_rig *rig = bn_rig(modern ? "y rm rv" : "y rm rv sm sv");
        if (modern) {
            op_attr_int(rig, "training_mode", 1);
        }
        bn_inputs(rig, &d, false);
        op_run_at(rig, modern ? 15 : 9);
        const double *wants[5] = {want, running_mean, running_var, mean, var};
        for (size_t i = 0; i < (modern ? 3u : 5u); i++) {
            struct eng_array got = op_output(rig, i);
            op_near(&got, wants[i], i == 0 ? N * C * S : C, 1e-5);
        }
        op_done(rig);
    }
}

// Opset 7 could normalise every position on its own.
static void batch_norm_of_each_position(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 53);
    print_message("seed 53\n");
    float data[5][N * C * S];
    double want[N * C * S];
    for (int i = 0; i < 5; i++) {
        fill(&prng, data[i], N * C * S, 0.5, 2);
    }
    for (int i = 0; i < N * C * S; i++) {
        int k = i % (C * S);
        want[i] = ((double)data[0][i] - (double)data[3][k]) / sqrt((double)data[4][k] + 1e-3) *
                      (double)data[1][k] +
                  (double)data[2][k];
    }
    struct op_rig *rig = op_named("BatchNormalization", "x s b m v", "y");
    op_attr_float(rig, "epsilon", 1e-3f);
    op_attr_int(rig, "spatial", 0);
    struct eng_array x = op_floats(data[0], N, C, 2, 5);
    static const char *const names[4] = {"s", "b", "m", "v"};
    op_feed(rig, "x", &x);
    for (int i = 0; i < 4; i++) {
        struct eng_array p = op_floats(data[i + 1], C, 2, 5);
        op_feed(rig, names[i], &p);
    }
    op_run_at(rig, 7);
    struct eng_array y = op_output(rig, 0);
    op_near(&y, want, N * C * S, 1e-5);
    op_done(rig);
}

// (x - mean) / sqrt(var + epsilon) of `count` numbers.
static void normalise(const float *x, int count, double epsilon, double *y, double *mean,
                      double *inverse)
{
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < count; i++) {
        sum += (double)x[i];
    }
    *mean = sum / count;
    for (int i = 0; i < count; i++) {
        squares += ((double)x[i] - *mean) * ((double)x[i] - *mean);
    }
    *inverse = 1 / sqrt(squares / count + epsilon);
    for (int i = 0; i < count; i++) {
        y[i] = ((double)x[i] - *mean) * *inverse;
    }
}

static void instance_norm(void **state)
{
    (void)state;
    struct bn_data d = bn_data(54);
    double want[N * C * S];
    for (int i = 0; i < N * C; i++) {
        double mean;
        double inverse;
        normalise(d.x + i * S, S, 1e-3, want + i * S, &mean, &inverse);
        for (int k = 0; k < S; k++) {
            want[i * S + k] = want[i * S + k] * (double)d.scale[i % C] + (double)d.bias[i % C];
        }
    }
    struct op_rig *rig = op_named("InstanceNormalization", "x s b", "y");
    op_attr_float(rig, "epsilon", 1e-3f);
    struct eng_array arrays[3] = {op_floats(d.x, N, C, 2, 5), op_floats(d.scale, C),
                                  op_floats(d.bias, C)};
    op_feed(rig, "x", &arrays[0]);
    op_feed(rig, "s", &arrays[1]);
    op_constant(rig, "b", &arrays[2]);
    op_run_at(rig, 9);
    struct eng_array y = op_output(rig, 0);
    op_near(&y, want, N * C * S, 1e-5);
    op_done(rig);
}

// Over [3, 2, 5] from each axis, with and without bias and statistics; scale may broadcast.
static void layer_norm(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 55);
    print_message("seed 55\n");
    float x[30];
    float scale[30];
    float bias[30];
    fill(&prng, x, 30, -2, 2);
    fill(&prng, scale, 30, -2, 2);
    fill(&prng, bias, 30, -2, 2);
    static const int64_t dims[3] = {3, 2, 5};
    for (int64_t form = 0; form < 12; form++) {
        int64_t axis = form % 3;
        bool has_bias = form / 3 % 2 == 1;
        bool broadcast = form >= 6; // the scale has the last dim alone
        int n = axis == 0 ? 30 : axis == 1 ? 10 : 5;
        double want[30];
        double mean[6];
        double inverse[6];
        for (int g = 0; g < 30 / n; g++) {
            normalise(x + g * n, n, 1e-5, want + g * n, &mean[g], &inverse[g]);
        }
        for (int i = 0; i < 30; i++) {
            want[i] *= (double)scale[broadcast ? i % 5 : i % n];
            want[i] += has_bias ? (double)bias[i % n] : 0;
        }
        struct op_rig *rig =
            op_named("LayerNormalization", has_bias ? "x s b" : "x s", "y mean inv");
        op_attr_int(rig, "axis", axis - (form % 2 == 0 ? 3 : 0));
        struct eng_array arrays[3] = {op_floats(x, 3, 2, 5),
                                      op_array(ENG_F32, scale, dims + axis, 3 - (size_t)axis),
                                      op_array(ENG_F32, bias, dims + axis, 3 - (size_t)axis)};
        if (broadcast) {
            arrays[1] = op_floats(scale, 5);
        }
        op_feed(rig, "x", &arrays[0]);
        op_constant(rig, "s", &arrays[1]);
        if (has_bias) {
            op_constant(rig, "b", &arrays[2]);
        }
        op_run_at(rig, 17);
        struct eng_array y = op_output(rig, 0);
        struct eng_array got_mean = op_output(rig, 1);
        struct eng_array got_inverse = op_output(rig, 2);
        op_near(&y, want, 30, 1e-5);
        op_same_shape(&got_mean, ENG_F32, OP_DIMS(axis > 0 ? 3 : 1, axis > 1 ? 2 : 1, 1));
        op_near(&got_mean, mean, 30 / n, 1e-5);
        op_near(&got_inverse, inverse, 30 / n, 1e-5);
        op_done(rig);
    }
}

static void lp_norm(void **state)
{
    (void)state;
    static const float x[6] = {3, -4, 0, 1, 2, -2};
    for (int64_t p = 1; p < 3; p++) {
        double want[6];
        for (int i = 0; i < 6; i++) {
            // Along axis 0 of [3, 2].
            double norm = 0;
            for (int k = i % 2; k < 6; k += 2) {
                norm += pow(fabs((double)x[k]), (double)p);
            }
            want[i] = (double)x[i] / pow(norm, 1.0 / (double)p);
        }
        struct op_rig *rig = op_named("LpNormalization", "x", "y");
        op_attr_int(rig, "axis", 0);
        op_attr_int(rig, "p", p);
        struct eng_array array = op_floats(x, 3, 2);
        op_feed(rig, "x", &array);
        op_run_at(rig, 9);
        struct eng_array y = op_output(rig, 0);
        op_near(&y, want, 6, 1e-6);
        op_done(rig);
    }
}

static void local_response(void **state)
{
    (void)state;
    struct base_prng prng;
    base_prng_seed(&prng, 56);
    print_message("seed 56\n");
    float x[2 * 6 * 4];
    fill(&prng, x, TEST_COUNT(x), -2, 2);
    for (int64_t size = 1; size < 6; size++) {
        double want[48];
        for (int i = 0; i < 48; i++) {
            int64_t c = i / 4 % 6;
            double sum = 0;
            for (int64_t k = c - (size - 1) / 2; k <= c + size / 2; k++) {
                if (k >= 0 && k < 6) {
                    double value = (double)x[i + (k - c) * 4];
                    sum += value * value;
                }
            }
            want[i] = (double)x[i] / pow(1.5 + 0.3 / (double)size * sum, 0.6);
        }
        struct op_rig *rig = op_named("LRN", "x", "y");
        op_attr_int(rig, "size", size);
        op_attr_float(rig, "alpha", 0.3f);
        op_attr_float(rig, "beta", 0.6f);
        op_attr_float(rig, "bias", 1.5f);
        struct eng_array array = op_floats(x, 2, 6, 2, 2);
        op_feed(rig, "x", &array);
        op_run_at(rig, 13);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_F32, OP_DIMS(2, 6, 2, 2));
        op_near(&y, want, 48, 1e-5);
        op_done(rig);
    }
}

static void mean_variance(void **state)
{
    (void)state;
    struct bn_data d = bn_data(57);
    const int64_t axes[2] = {-1, 2};
    double want[N * C * S];
    double mean;
    double inverse;
    for (int i = 0; i < N * C; i++) {
        normalise(d.x + i * S, S, 0, want + i * S, &mean, &inverse);
    }
    struct op_rig *rig = op_named("MeanVarianceNormalization", "x", "y");
    op_attr_ints(rig, "axes", axes, 2);
    struct eng_array array = op_floats(d.x, N, C, 2, 5);
    op_feed(rig, "x", &array);
    op_run_at(rig, 13);
    struct eng_array y = op_output(rig, 0);
    op_near(&y, want, N * C * S, 1e-5);
    op_done(rig);
}

// At inference nothing happens, and the mask, if asked for, is full: of x's type before opset 10,
// bool since.
static void dropout_of_inference(void **state)
{
    (void)state;
    static const float x[4] = {1, -2, 3, 4};
    static const int64_t opsets[] = {7, 10, 12, 13};
    for (size_t i = 0; i < TEST_COUNT(opsets); i++) {
        struct op_rig *rig = op_named("Dropout", "x", "y mask");
        struct eng_array array = op_floats(x, 2, 2);
        op_feed(rig, "x", &array);
        op_run_at(rig, opsets[i]);
        struct eng_array y = op_output(rig, 0);
        struct eng_array mask = op_output(rig, 1);
        assert_memory_equal(y.data, x, sizeof x);
        op_same_shape(&mask, opsets[i] < 10 ? ENG_F32 : ENG_BOOL, OP_DIMS(2, 2));
        for (int k = 0; k < 4; k++) {
            if (opsets[i] < 10) {
                assert_true(((const float *)mask.data)[k] == 1.0f);
            } else {
                assert_int_equal(((const uint8_t *)mask.data)[k], 1);
            }
        }
        op_done(rig);
    }
}

// In training each element is either dropped or scaled up, as the mask says, at about the rate.
static void dropout_of_training(void **state)
{
    (void)state;
    static float x[10000];
    const float ratio = 0.25f;
    const bool training = true;
    for (size_t i = 0; i < TEST_COUNT(x); i++) {
        x[i] = (float)i + 1;
    }
    struct op_rig *rig = op_named("Dropout", "x r t", "y mask");
    op_attr_int(rig, "seed", 7);
    struct eng_array arrays[3] = {op_floats(x, 10000), op_scalar_of(ENG_F32, &ratio),
                                  op_scalar_of(ENG_BOOL, &training)};
    op_feed(rig, "x", &arrays[0]);
    op_constant(rig, "r", &arrays[1]);
    op_constant(rig, "t", &arrays[2]);
    op_run_at(rig, 13);
    struct eng_array y = op_output(rig, 0);
    struct eng_array mask = op_output(rig, 1);
    int kept = 0;
    for (int i = 0; i < 10000; i++) {
        bool keep = ((const uint8_t *)mask.data)[i] == 1;
        double want = keep ? (double)x[i] / 0.75 : 0;
        assert_true(fabs((double)((const float *)y.data)[i] - want) <= 1e-6 * want);
        kept += keep;
    }
    assert_in_range((unsigned)kept, 7300, 7700);
    op_done(rig);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const float data[12];
    struct eng_array x = op_floats(data, 1, 3, 4);
    struct eng_array four = op_floats(data, 4);
    struct op_rig *rig = op_named("InstanceNormalization", "x s b", "y");
    op_feed(rig, "x", &x);
    op_feed(rig, "s", &four);
    op_feed(rig, "b", &four);
    op_refused(rig, 9, BASE_ERR_INVALID, "float[4] for 3 channels");
    rig = op_named("BatchNormalization", "x s b m v", "y");
    op_feed(rig, "x", &x);
    op_feed(rig, "s", &four);
    op_feed(rig, "b", &four);
    op_feed(rig, "m", &four);
    op_feed(rig, "v", &four);
    op_refused(rig, 9, BASE_ERR_INVALID, "float[4] for 3 channels");
    rig = op_named("LpNormalization", "x", "y");
    op_attr_int(rig, "p", 3);
    op_feed(rig, "x", &x);
    op_refused(rig, 9, BASE_ERR_INVALID, "expected 1 or 2");
    rig = op_named("LayerNormalization", "x s", "y");
    op_feed(rig, "x", &x);
    struct eng_array three = op_floats(data, 3);
    op_feed(rig, "s", &three);
    op_refused(rig, 17, BASE_ERR_INVALID, "normalised dimensions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norm_of_inference),
        cmocka_unit_test(batch_norm_of_training),
        cmocka_unit_test(batch_norm_of_each_position),
        cmocka_unit_test(instance_norm),
        cmocka_unit_test(layer_norm),
        cmocka_unit_test(lp_norm),
        cmocka_unit_test(local_response),
        cmocka_unit_test(mean_variance),
        cmocka_unit_test(dropout_of_inference),
        cmocka_unit_test(dropout_of_training),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The optimisers of ONNX's training preview against their formulas, at the first step and later
// ones, with one and two parameters.
#include "op_rig.h"

#define TRAINING "ai.onnx.preview.training"

enum { SIZE_A = 3, SIZE_B = 4 };

struct sample {
    float x[7], g[7], v[7], h[7]; // of two parameters, one behind the other
};

static struct sample sample(uint64_t seed)
{
    struct base_prng prng;
    struct sample s;
    base_prng_seed(&prng, seed);
    print_message("seed %d\n", (int)seed);
    for (int i = 0; i < 7; i++) {
        s.x[i] = (float)(base_prng_unit(&prng) * 4 - 2);
        s.g[i] = (float)(base_prng_unit(&prng) * 4 - 2);
        s.v[i] = (float)(base_prng_unit(&prng) * 4 - 2);
        s.h[i] = (float)(base_prng_unit(&prng) + 0.1);
    }
    return s;
}

// Inputs R, T, then group by group both parameters' tensors.
static void feed(struct op_rig *rig, const float *rate, const int64_t *step,
                 const float *const *groups, size_t count)
{
    static const char *const names[8] = {"x0", "x1", "g0", "g1", "v0", "v1", "h0", "h1"};
    struct eng_array r = op_scalar_of(ENG_F32, rate);
    struct eng_array t = op_scalar_of(ENG_I64, step);
    op_feed(rig, "r", &r);
    op_feed(rig, "t", &t);
    for (size_t i = 0; i < count; i++) {
        struct eng_array first = op_floats(groups[i], SIZE_A);
        struct eng_array second = op_floats(groups[i] + SIZE_A, SIZE_B);
        op_feed(rig, names[2 * i], &first);
        op_feed(rig, names[2 * i + 1], &second);
    }
}

static void check(struct op_rig *rig, const double *const *wants, size_t count)
{
    op_run_at(rig, 13);
    for (size_t i = 0; i < count; i++) {
        struct eng_array first = op_output(rig, 2 * i);
        struct eng_array second = op_output(rig, 2 * i + 1);
        op_near(&first, wants[i], SIZE_A, 2e-6);
        op_near(&second, wants[i] + SIZE_A, SIZE_B, 2e-6);
    }
    op_done(rig);
}

static void adam(void **state)
{
    (void)state;
    struct sample s = sample(81);
    const float rate = 0.1f;
    for (int64_t t = 0; t < 4; t++) {
        double x[7];
        double v[7];
        double h[7];
        double adjusted = 0.1;
        if (t > 0) {
            adjusted *= sqrt(1 - pow(0.95, (double)t)) / (1 - pow(0.8, (double)t));
        }
        for (int i = 0; i < 7; i++) {
            double g = (double)s.g[i] + 0.01 * (double)s.x[i];
            v[i] = 0.8 * (double)s.v[i] + 0.2 * g;
            h[i] = 0.95 * (double)s.h[i] + 0.05 * g * g;
            x[i] = 0.98 * ((double)s.x[i] - adjusted * v[i] / (sqrt(h[i]) + 0.001));
        }
        struct op_rig *rig = op_named("Adam", "r t x0 x1 g0 g1 v0 v1 h0 h1", "a b c d e f");
        op_domain(rig, TRAINING);
        op_attr_float(rig, "alpha", 0.8f);
        op_attr_float(rig, "beta", 0.95f);
        op_attr_float(rig, "epsilon", 0.001f);
        op_attr_float(rig, "norm_coefficient", 0.01f);
        op_attr_float(rig, "norm_coefficient_post", 0.02f);
        const float *const groups[4] = {s.x, s.g, s.v, s.h};
        const double *const wants[3] = {x, v, h};
        feed(rig, &rate, &t, groups, 4);
        check(rig, wants, 3);
    }
}

static void adagrad(void **state)
{
    (void)state;
    struct sample s = sample(82);
    const float rate = 0.1f;
    for (int64_t t = 0; t < 3; t++) {
        double x[7];
        double h[7];
        for (int i = 0; i < 7; i++) {
            double g = (double)s.g[i] + 0.01 * (double)s.x[i];
            h[i] = (double)s.h[i] + g * g;
            x[i] = (double)s.x[i] - 0.1 / (1 + 0.5 * (double)t) * g / (sqrt(h[i]) + 0.001);
        }
        struct op_rig *rig = op_named("Adagrad", "r t x0 x1 g0 g1 h0 h1", "a b c d");
        op_domain(rig, TRAINING);
        op_attr_float(rig, "decay_factor", 0.5f);
        op_attr_float(rig, "epsilon", 0.001f);
        op_attr_float(rig, "norm_coefficient", 0.01f);
        struct eng_array r = op_scalar_of(ENG_F32, &rate);
        struct eng_array step = op_scalar_of(ENG_I64, &t);
        op_feed(rig, "r", &r);
        op_feed(rig, "t", &step);
        static const char *const names[6] = {"x0", "x1", "g0", "g1", "h0", "h1"};
        const float *const groups[3] = {s.x, s.g, s.h};
        for (int i = 0; i < 6; i++) {
            struct eng_array array =
                op_floats(groups[i / 2] + i % 2 * SIZE_A, i % 2 == 0 ? SIZE_A : SIZE_B);
            op_feed(rig, names[i], &array);
        }
        const double *const wants[2] = {x, h};
        check(rig, wants, 2);
    }
}

static void momentum(void **state)
{
    (void)state;
    struct sample s = sample(83);
    const float rate = 0.1f;
    for (int form = 0; form < 4; form++) {
        int64_t t = form % 2;
        bool nesterov = form >= 2;
        double x[7];
        double v[7];
        for (int i = 0; i < 7; i++) {
            double g = (double)s.g[i] + 0.01 * (double)s.x[i];
            v[i] = 0.8 * (double)s.v[i] + (t > 0 ? 0.3 : 1) * g;
            x[i] = (double)s.x[i] - 0.1 * (nesterov ? g + 0.8 * v[i] : v[i]);
        }
        struct op_rig *rig = op_named("Momentum", "r t x0 x1 g0 g1 v0 v1", "a b c d");
        op_domain(rig, TRAINING);
        op_attr_float(rig, "alpha", 0.8f);
        op_attr_float(rig, "beta", 0.3f);
        op_attr_float(rig, "norm_coefficient", 0.01f);
        op_attr_text(rig, "mode", nesterov ? "nesterov" : "standard");
        const float *const groups[3] = {s.x, s.g, s.v};
        const double *const wants[2] = {x, v};
        feed(rig, &rate, &t, groups, 3);
        check(rig, wants, 2);
    }
}

static void mistakes_are_named(void **state)
{
    (void)state;
    const float rate = 0.1f;
    const int64_t step = 0;
    struct sample s = sample(84);
    struct op_rig *rig = op_named("Momentum", "r t x0 x1 g0 g1 v0", "a b");
    op_domain(rig, TRAINING);
    const float *const groups[4] = {s.x, s.g, s.v, s.h};
    feed(rig, &rate, &step, groups, 4);
    op_refused(rig, 13, BASE_ERR_INVALID, "7 inputs");
    rig = op_named("Momentum", "r t x0 g1 v0", "a b");
    op_domain(rig, TRAINING);
    feed(rig, &rate, &step, groups, 4);
    op_refused(rig, 13, BASE_ERR_INVALID, "differ in shape");
    rig = op_named("Gradient", "x0", "a");
    op_domain(rig, TRAINING);
    struct eng_array array = op_floats(s.x, SIZE_A);
    op_feed(rig, "x0", &array);
    op_refused(rig, 13, BASE_ERR_UNSUPPORTED, "Gradient");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam),
        cmocka_unit_test(adagrad),
        cmocka_unit_test(momentum),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Unary functions of every vector table against the C library in double precision: dense sweeps,
// all lengths of tails, edges (zeros, infinities, NaN, subnormal numbers).
#include "vec_rig.h"

#include "backend/cpu/kernel/vec_kernels.h"

#define SWEEP 20000

struct row {
    enum eng_unary_fn fn;
    float low, high; // of the sweep
    float alpha, beta;
    float relative, absolute; // |error| <= relative * |expected| + absolute
};

static const struct row rows[] = {
    {ENG_ABS, -5, 5, 0, 0, 0, 0},
    {ENG_NEG, -5, 5, 0, 0, 0, 0},
    {ENG_SIGN, -5, 5, 0, 0, 0, 0},
    {ENG_CEIL, -50, 50, 0, 0, 0, 0},
    {ENG_FLOOR, -50, 50, 0, 0, 0, 0},
    {ENG_ROUND, -50, 50, 0, 0, 0, 0},
    {ENG_ROUND, 4e6f, 2e7f, 0, 0, 0, 0},
    {ENG_SQRT, 0, 100, 0, 0, 1.2e-7f, 0},
    {ENG_RSQRT, 1e-3f, 100, 0, 0, 2.4e-7f, 0},
    {ENG_RECIPROCAL, -9, 9.1f, 0, 0, 1.2e-7f, 0},
    {ENG_SQUARE, -9, 9, 0, 0, 1.2e-7f, 0},
    {ENG_EXP, -87, 88.5f, 0, 0, 2.5e-7f, 0},
    {ENG_EXP, -1, 1, 0, 0, 2e-7f, 0},
    {ENG_EXP, -103.5f, -87, 0, 0, 2e-7f, 1.5e-45f},
    {ENG_LOG, 1e-6f, 4, 0, 0, 2.5e-7f, 3e-8f},
    {ENG_LOG, 1, 3e38f, 0, 0, 2e-7f, 0},
    {ENG_LOG, 1e-44f, 1e-37f, 0, 0, 2e-7f, 0},
    {ENG_TANH, -12, 12, 0, 0, 4e-7f, 0},
    {ENG_TANH, -0.01f, 0.01f, 0, 0, 4e-7f, 0},
    {ENG_ERF, -5, 5, 0, 0, 3.5e-7f, 0},
    {ENG_ERF, -0.01f, 0.01f, 0, 0, 3e-7f, 0},
    {ENG_SIGMOID, -80, 30, 0, 0, 5e-7f, 0},
    {ENG_RELU, -5, 5, 0, 0, 0, 0},
    {ENG_LEAKY_RELU, -5, 5, 0.1f, 0, 1.2e-7f, 0},
    {ENG_ELU, -20, 5, 1.5f, 0, 4e-7f, 0},
    {ENG_ELU, -0.01f, 0.01f, 1, 0, 3e-7f, 0},
    {ENG_SELU, -20, 5, 1.67326f, 1.0507f, 5e-7f, 0},
    {ENG_CELU, -20, 5, 0.7f, 0, 5e-7f, 0},
    {ENG_SOFTPLUS, -50, 50, 0, 0, 6e-7f, 0},
    {ENG_SOFTSIGN, -50, 50, 0, 0, 2.4e-7f, 0},
    {ENG_HARD_SIGMOID, -5, 5, 0.2f, 0.5f, 0, 1.2e-7f},
    {ENG_HARD_SWISH, -5, 5, 0, 0, 3e-7f, 2e-7f},
    {ENG_CLIP, -5, 5, -1.5f, 2.5f, 0, 0},
    {ENG_THRESHOLDED_RELU, -5, 5, 1, 0, 0, 0},
    {ENG_GELU, -3, 8, 0, 0, 1.2e-6f, 1e-9f},
    {ENG_GELU, -12, -3, 0, 0, 4e-5f, 1e-12f},
    {ENG_GELU_TANH, -3, 8, 0, 0, 3e-6f, 1e-8f},
    {ENG_GELU_TANH, -12, -3, 0, 0, 3e-5f, 1e-9f},
    {ENG_SHRINK, -5, 5, 1, 0.5f, 1.2e-7f, 0},
    {ENG_SIN, -9, 9, 0, 0, 1.2e-7f, 1e-9f},
    {ENG_ATANH, -0.99f, 0.99f, 0, 0, 3e-7f, 0},
};

static double expected(const struct row *row, double x)
{
    double a = (double)row->alpha;
    double b = (double)row->beta;
    switch (row->fn) {
    case ENG_ABS:
        return fabs(x);
    case ENG_NEG:
        return -x;
    case ENG_SIGN:
        return isnan(x) ? x : (double)(x > 0) - (double)(x < 0);
    case ENG_CEIL:
        return ceil(x);
    case ENG_FLOOR:
        return floor(x);
    case ENG_ROUND:
        return nearbyint(x);
    case ENG_SQRT:
        return sqrt(x);
    case ENG_RSQRT:
        return 1 / sqrt(x);
    case ENG_RECIPROCAL:
        return 1 / x;
    case ENG_SQUARE:
        return x * x;
    case ENG_EXP:
        return exp(x);
    case ENG_LOG:
        return log(x);
    case ENG_TANH:
        return tanh(x);
    case ENG_ERF:
        return erf(x);
    case ENG_SIGMOID:
        return 1 / (1 + exp(-x));
    case ENG_RELU:
        return x < 0 ? 0 : x;
    case ENG_LEAKY_RELU:
        return x < 0 ? a * x : x;
    case ENG_ELU:
        return x < 0 ? a * expm1(x) : x;
    case ENG_SELU:
        return b * (x < 0 ? a * expm1(x) : x);
    case ENG_CELU:
        return x < 0 ? a * expm1(x / a) : x;
    case ENG_SOFTPLUS:
        return fmax(x, 0) + log1p(exp(-fabs(x)));
    case ENG_SOFTSIGN:
        return x / (1 + fabs(x));
    case ENG_HARD_SIGMOID:
        return fmin(1, fmax(0, a * x + b));
    case ENG_HARD_SWISH:
        return x * fmin(1, fmax(0, x / 6 + 0.5));
    case ENG_CLIP:
        return fmin(b, fmax(a, x));
    case ENG_THRESHOLDED_RELU:
        return x > a ? x : 0;
    case ENG_GELU:
        return x * 0.5 * erfc(-x / sqrt(2));
    case ENG_GELU_TANH:
        return x / (1 + exp(-2 * sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case ENG_SHRINK:
        return x < -a ? x + b : x > a ? x - b : 0;
    case ENG_SIN:
        return sin(x);
    case ENG_ATANH:
        return atanh(x);
    default:
        return (double)NAN;
    }
}

static eng_vec_unary_fn function_of(const struct eng_vec_kernels *kernels, enum eng_unary_fn fn)
{
    return kernels->unary[fn] != NULL ? kernels->unary[fn] : eng_vec_libm_unary[fn];
}

static void sweep(const struct eng_kernels *table, const struct row *row)
{
    static float x[SWEEP];
    static float y[SWEEP];
    double worst = 0;
    for (int i = 0; i < SWEEP; i++) {
        x[i] = row->low + (row->high - row->low) * (float)i / (float)(SWEEP - 1);
    }
    function_of(table->vec, row->fn)(x, y, SWEEP, row->alpha, row->beta);
    for (int i = 0; i < SWEEP; i++) {
        double e = expected(row, (double)x[i]);
        double error = fabs((double)y[i] - e);
        worst = e != 0 && fabs(e) > 1e-30 ? fmax(worst, error / fabs(e)) : worst;
        if (!(error <= (double)row->relative * fabs(e) + (double)row->absolute) &&
            (double)y[i] != (double)(float)e) {
            fail_msg("%s %s(%.9g): found %.9g, expected %.9g (relative %.3g)", table->name,
                     eng_unary_text(row->fn), (double)x[i], (double)y[i], e, error / fabs(e));
        }
    }
    print_message("%-8s %-16s [%g, %g]: worst relative error %.2e\n", table->name,
                  eng_unary_text(row->fn), (double)row->low, (double)row->high, worst);
}

static void sweeps(void **state)
{
    (void)state;
    for (int isa = 0; isa < ENG_ISA_COUNT; isa++) {
        const struct eng_kernels *table = eng_kernels_find(eng_isa_name((enum eng_isa)isa));
        for (size_t i = 0; table != NULL && i < TEST_COUNT(rows); i++) {
            sweep(table, &rows[i]);
        }
    }
}

static void edges(void **state)
{
    (void)state;
    static const struct {
        enum eng_unary_fn fn;
        float x, y;
    } cases[] = {
        {ENG_EXP, -INFINITY, 0},
        {ENG_EXP, INFINITY, INFINITY},
        {ENG_EXP, 88.8f, INFINITY},
        {ENG_EXP, -105, 0},
        {ENG_EXP, 0, 1},
        {ENG_EXP, -0.0f, 1},
        {ENG_LOG, 0, -INFINITY},
        {ENG_LOG, -0.0f, -INFINITY},
        {ENG_LOG, -1, NAN},
        {ENG_LOG, -INFINITY, NAN},
        {ENG_LOG, INFINITY, INFINITY},
        {ENG_LOG, 1, 0},
        {ENG_TANH, INFINITY, 1},
        {ENG_TANH, -INFINITY, -1},
        {ENG_TANH, 0, 0},
        {ENG_ERF, INFINITY, 1},
        {ENG_ERF, -INFINITY, -1},
        {ENG_SIGMOID, INFINITY, 1},
        {ENG_SIGMOID, -INFINITY, 0},
        {ENG_SQRT, -1, NAN},
        {ENG_RECIPROCAL, 0, INFINITY},
        {ENG_ELU, -INFINITY, -1},
        {ENG_SOFTPLUS, -INFINITY, 0},
        {ENG_GELU, INFINITY, INFINITY},
        {ENG_ROUND, 0.5f, 0},
        {ENG_ROUND, 1.5f, 2},
        {ENG_ROUND, -2.5f, -2},
        {ENG_ROUND, INFINITY, INFINITY},
        {ENG_SOFTPLUS, INFINITY, INFINITY},
        {ENG_EXP, NAN, NAN},
        {ENG_LOG, NAN, NAN},
        {ENG_TANH, NAN, NAN},
        {ENG_ERF, NAN, NAN},
        {ENG_SIGMOID, NAN, NAN},
        {ENG_RELU, NAN, NAN},
        {ENG_GELU, NAN, NAN},
        {ENG_GELU_TANH, NAN, NAN},
        {ENG_CLIP, NAN, NAN},
        {ENG_ROUND, NAN, NAN},
        {ENG_SOFTPLUS, NAN, NAN},
        {ENG_SIGN, NAN, NAN},
        {ENG_ELU, NAN, NAN},
        {ENG_HARD_SWISH, NAN, NAN},
        {ENG_SQUARE, NAN, NAN},
    };
    for (int isa = 0; isa < ENG_ISA_COUNT; isa++) {
        const struct eng_kernels *table = eng_kernels_find(eng_isa_name((enum eng_isa)isa));
        for (size_t i = 0; table != NULL && i < TEST_COUNT(cases); i++) {
            float x[20];
            float y[20];
            for (int j = 0; j < 20; j++) { // whole vectors and a tail
                x[j] = cases[i].x;
            }
            function_of(table->vec, cases[i].fn)(x, y, 19, 1.0f, 2.0f);
            for (int j = 0; j < 19; j++) {
                if (y[j] != cases[i].y && !(isnan(y[j]) && isnan(cases[i].y))) {
                    fail_msg("%s %s(%g) = %.9g, expected %g", table->name,
                             eng_unary_text(cases[i].fn), (double)x[j], (double)y[j],
                             (double)cases[i].y);
                }
            }
        }
    }
}

// Every length up to five vectors, in place as well; nothing beyond the end is touched.
static void tails(void **state)
{
    (void)state;
    for (int isa = 0; isa < ENG_ISA_COUNT; isa++) {
        const struct eng_kernels *table = eng_kernels_find(eng_isa_name((enum eng_isa)isa));
        for (int64_t n = 1; table != NULL && n <= 80; n++) {
            float *x = malloc((size_t)n * sizeof(float));
            float *y = malloc((size_t)n * sizeof(float));
            assert_non_null(x);
            assert_non_null(y);
            for (int64_t i = 0; i < n; i++) {
                x[i] = (float)i * 0.1f - 3.0f;
            }
            table->vec->unary[ENG_SIGMOID](x, y, n, 0, 0);
            table->vec->unary[ENG_SIGMOID](x, x, n, 0, 0);
            for (int64_t i = 0; i < n; i++) {
                double e = 1 / (1 + exp(-((double)i * 0.1 - 3.0)));
                assert_true(fabs((double)y[i] - e) < 1e-6);
                assert_true(x[i] == y[i]);
            }
            free(x);
            free(y);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sweeps),
        cmocka_unit_test(edges),
        cmocka_unit_test(tails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

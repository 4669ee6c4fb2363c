// Elementwise operators: what changed between opsets, types they take and refuse, broadcasting,
// casts with strings, powers of mixed types; numbers come from libm or are written out.
#include "comma_locale.h"
#include "op_rig.h"

static struct eng_array one(struct op_rig *rig, int64_t opset, const struct eng_array *x)
{
    op_feed(rig, "x", x);
    op_run_at(rig, opset);
    return op_output(rig, 0);
}

static double relu(double x)
{
    return x > 0 ? x : 0;
}
static double leaky(double x)
{
    return x < 0 ? 0.3 * x : x;
}
static double elu(double x)
{
    return x < 0 ? 0.3 * (exp(x) - 1) : x;
}
static double celu(double x)
{
    return relu(x) + (x < 0 ? 0.3 * (exp(x / 0.3) - 1) : 0);
}
static double selu(double x)
{
    return 2 * (x > 0 ? x : 0.3 * exp(x) - 0.3);
}
static double hard_sigmoid(double x)
{
    double y = 0.3 * x + 2;
    return y < 0 ? 0 : y > 1 ? 1 : y;
}
static double hard_swish(double x)
{
    double y = x / 6 + 0.5;
    return x * (y < 0 ? 0 : y > 1 ? 1 : y);
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double softplus(double x)
{
    return log1p(exp(-fabs(x))) + relu(x);
}
static double softsign(double x)
{
    return x / (1 + fabs(x));
}
static double thresholded(double x)
{
    return x > 0.3 ? x : 0;
}
static double shrink(double x)
{
    return x < -0.3 ? x + 2 : x > 0.3 ? x - 2 : 0;
}
static double reciprocal(double x)
{
    return 1 / x;
}
static double negative(double x)
{
    return -x;
}
static double sign(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

static const struct {
    const char *op;
    int64_t opset;
    double (*fn)(double);
    const char *first, *second; // attributes, set to 0.3 and 2
    double low, high;           // of the inputs
} unary_cases[] = {
    {"Abs", 7, fabs, NULL, NULL, -5, 5},
    {"Acos", 7, acos, NULL, NULL, -1, 1},
    {"Acosh", 9, acosh, NULL, NULL, 1, 9},
    {"Asin", 7, asin, NULL, NULL, -1, 1},
    {"Asinh", 9, asinh, NULL, NULL, -9, 9},
    {"Atan", 7, atan, NULL, NULL, -9, 9},
    {"Atanh", 9, atanh, NULL, NULL, -0.99, 0.99},
    {"Ceil", 7, ceil, NULL, NULL, -5, 5},
    {"Celu", 12, celu, "alpha", NULL, -3, 3},
    {"Cos", 7, cos, NULL, NULL, -9, 9},
    {"Cosh", 9, cosh, NULL, NULL, -4, 4},
    {"Elu", 7, elu, "alpha", NULL, -3, 3},
    {"Erf", 9, erf, NULL, NULL, -4, 4},
    {"Exp", 7, exp, NULL, NULL, -8, 4},
    {"Floor", 7, floor, NULL, NULL, -5, 5},
    {"HardSigmoid", 7, hard_sigmoid, "alpha", "beta", -20, 20},
    {"HardSwish", 14, hard_swish, NULL, NULL, -5, 5},
    {"LeakyRelu", 7, leaky, "alpha", NULL, -3, 3},
    {"Log", 7, log, NULL, NULL, 0.01, 9},
    {"Neg", 7, negative, NULL, NULL, -5, 5},
    {"Reciprocal", 7, reciprocal, NULL, NULL, 0.5, 3},
    {"Relu", 7, relu, NULL, NULL, -5, 5},
    {"Round", 11, rint, NULL, NULL, -5, 5},
    {"Selu", 7, selu, "alpha", "gamma", -3, 3},
    {"Shrink", 9, shrink, "lambd", "bias", -3, 3},
    {"Sigmoid", 7, sigmoid, NULL, NULL, -9, 9},
    {"Sign", 9, sign, NULL, NULL, -2, 2},
    {"Sin", 7, sin, NULL, NULL, -9, 9},
    {"Sinh", 9, sinh, NULL, NULL, -4, 4},
    {"Softplus", 7, softplus, NULL, NULL, -20, 20},
    {"Softsign", 7, softsign, NULL, NULL, -9, 9},
    {"Sqrt", 7, sqrt, NULL, NULL, 0, 9},
    {"Tan", 7, tan, NULL, NULL, -1.4, 1.4},
    {"Tanh", 7, tanh, NULL, NULL, -9, 9},
    {"ThresholdedRelu", 10, thresholded, "alpha", NULL, -3, 3},
};

static void functions_of_one_number(void **state)
{
    (void)state;
    enum { COUNT = 97 }; // no step on a threshold
    for (size_t c = 0; c < TEST_COUNT(unary_cases); c++) {
        float x[COUNT];
        double want[COUNT];
        for (int i = 0; i < COUNT; i++) {
            x[i] = (float)(unary_cases[c].low +
                           (unary_cases[c].high - unary_cases[c].low) * i / (COUNT - 1));
            want[i] = unary_cases[c].fn((double)x[i]);
        }
        print_message("%s\n", unary_cases[c].op);
        struct op_rig *rig = op_named(unary_cases[c].op, "x", "y");
        if (unary_cases[c].first != NULL) {
            op_attr_float(rig, unary_cases[c].first, 0.3f);
        }
        if (unary_cases[c].second != NULL) {
            op_attr_float(rig, unary_cases[c].second, 2.0f);
        }
        struct eng_array array = op_floats(x, COUNT);
        struct eng_array y = one(rig, unary_cases[c].opset, &array);
        op_near(&y, want, COUNT, 3e-6);
        op_done(rig);
    }
}

// Bounds are attributes before opset 11 and inputs since, each of them optional.
static void clip_in_every_form(void **state)
{
    (void)state;
    static const float x[5] = {-3, -1, 0, 1, 3};
    const float low = -1.5f;
    const float high = 2;
    struct eng_array array = op_floats(x, 5);
    struct eng_array bounds[2] = {op_scalar_of(ENG_F32, &low), op_scalar_of(ENG_F32, &high)};
    for (int form = 0; form < 20; form++) {
        bool has_low = form & 1;
        bool has_high = form & 2;
        bool constant = form & 4;
        bool attributes = form >= 16;
        double want[5];
        for (int i = 0; i < 5; i++) {
            want[i] = (double)x[i];
            want[i] = has_low && want[i] < -1.5 ? -1.5 : want[i];
            want[i] = has_high && want[i] > 2 ? 2 : want[i];
        }
        const char *names = attributes            ? "x"
                            : has_low && has_high ? "x l h"
                            : has_high            ? "x - h"
                            : has_low             ? "x l"
                                                  : "x";
        struct op_rig *rig = op_named("Clip", names, "y");
        if (attributes && has_low) {
            op_attr_float(rig, "min", low);
        }
        if (attributes && has_high) {
            op_attr_float(rig, "max", high);
        }
        for (int b = 0; b < 2 && !attributes; b++) {
            if (b == 0 ? has_low : has_high) {
                (constant ? op_constant : op_feed)(rig, b == 0 ? "l" : "h", &bounds[b]);
            }
        }
        struct eng_array y = one(rig, attributes ? 10 : form & 8 ? 11 : 13, &array);
        op_near(&y, want, 5, 0);
        op_done(rig);
    }
    // Integers beyond what a float holds keep all their digits.
    static const int64_t big[3] = {INT64_MIN, 9007199254740993, 5};
    static const int64_t top = 9007199254740995;
    struct op_rig *rig = op_named("Clip", "x l h", "y");
    struct eng_array integers = op_of(ENG_I64, big, 3);
    struct eng_array limits[2] = {op_scalar_of(ENG_I64, &big[2]), op_scalar_of(ENG_I64, &top)};
    op_constant(rig, "l", &limits[0]);
    op_constant(rig, "h", &limits[1]);
    struct eng_array y = one(rig, 12, &integers);
    static const int64_t want[3] = {5, 9007199254740993, 5};
    assert_memory_equal(y.data, want, sizeof want);
    op_done(rig);
}

static void two(struct op_rig *rig, const struct eng_array *a, const struct eng_array *b,
                bool constant)
{
    op_feed(rig, "a", a);
    (constant ? op_constant : op_feed)(rig, "b", b);
}

static void broadcasting(void **state)
{
    (void)state;
    static const float a[6] = {1, 2, 3, 4, 5, 6};
    static const float b[4] = {10, 20, 30, 40};
    // a [3, 1, 2], b [4, 1]: the result is [3, 4, 2].
    static const char *const ops[] = {"Add", "Sub", "Mul", "Div"};
    for (size_t o = 0; o < TEST_COUNT(ops); o++) {
        double want[24];
        for (int i = 0; i < 24; i++) {
            double x = (double)a[i / 8 * 2 + i % 2];
            double y = (double)b[i / 2 % 4];
            want[i] = o == 0 ? x + y : o == 1 ? x - y : o == 2 ? x * y : x / y;
        }
        struct op_rig *rig = op_named(ops[o], "a b", "y");
        struct eng_array arrays[2] = {op_floats(a, 3, 1, 2), op_floats(b, 4, 1)};
        two(rig, &arrays[0], &arrays[1], o % 2 == 0);
        op_run_at(rig, 7);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_F32, OP_DIMS(3, 4, 2));
        op_near(&y, want, 24, 1e-7);
        op_done(rig);
    }
}

static void any_number_of_inputs(void **state)
{
    (void)state;
    static const float a[2] = {1, 8};
    static const float b[1] = {4};
    static const float c[4] = {0, 3, 9, 12};
    static const char *const ops[] = {"Sum", "Mean", "Max", "Min"};
    static const double want[4][4] = {
        {5, 15, 14, 24}, {5.0 / 3, 5, 14.0 / 3, 8}, {4, 8, 9, 12}, {0, 3, 1, 4}};
    for (size_t o = 0; o < TEST_COUNT(ops); o++) {
        struct op_rig *rig = op_named(ops[o], "a b c", "y");
        struct eng_array arrays[3] = {op_floats(a, 2), op_floats(b, 1), op_floats(c, 2, 2)};
        two(rig, &arrays[0], &arrays[1], false);
        op_feed(rig, "c", &arrays[2]);
        op_run_at(rig, 8);
        struct eng_array y = op_output(rig, 0);
        op_same_shape(&y, ENG_F32, OP_DIMS(2, 2));
        op_near(&y, want[o], 4, 1e-6);
        op_done(rig);
    }
}

static void powers(void **state)
{
    (void)state;
    static const float x[4] = {0.5f, 1, 2, 3};
    static const float exponents[] = {1, 2, 3, 0.5f, -1, 1.7f, 0};
    for (size_t e = 0; e < 2 * TEST_COUNT(exponents); e++) {
        double want[4];
        for (int i = 0; i < 4; i++) {
            want[i] = pow((double)x[i], (double)exponents[e / 2]);
        }
        struct op_rig *rig = op_named("Pow", "a b", "y");
        struct eng_array arrays[2] = {op_floats(x, 4), op_scalar_of(ENG_F32, &exponents[e / 2])};
        two(rig, &arrays[0], &arrays[1], e % 2 == 0);
        op_run_at(rig, 7);
        struct eng_array y = op_output(rig, 0);
        op_near(&y, want, 4, 1e-6);
        op_done(rig);
    }
    // The base's type is the result's.
    static const int32_t base[3] = {2, 3, 10};
    static const float half[3] = {0.5f, 2.5f, 3};
    static const int32_t want[3] = {1, 15, 1000};
    struct op_rig *rig = op_named("Pow", "a b", "y");
    struct eng_array arrays[2] = {op_of(ENG_I32, base, 3), op_floats(half, 3)};
    two(rig, &arrays[0], &arrays[1], false);
    op_run_at(rig, 12);
    struct eng_array y = op_output(rig, 0);
    op_same_shape(&y, ENG_I32, OP_DIMS(3));
    assert_memory_equal(y.data, want, sizeof want);
    op_done(rig);
    rig = op_named("Pow", "a b", "y");
    two(rig, &arrays[0], &arrays[1], false);
    op_refused(rig, 7, BASE_ERR_INVALID, "float, expected int32");
}

static void remainders_and_shifts(void **state)
{
    (void)state;
    static const int32_t a[4] = {7, -7, 7, -7};
    static const int32_t b[4] = {3, 3, -3, -3};
    static const int32_t mod[4] = {1, 2, -2, -1};
    static const int32_t fmods[4] = {1, -1, 1, -1};
    struct eng_array arrays[2] = {op_of(ENG_I32, a, 4), op_of(ENG_I32, b, 4)};
    for (int64_t f = 0; f < 2; f++) {
        struct op_rig *rig = op_named("Mod", "a b", "y");
        op_attr_int(rig, "fmod", f);
        two(rig, &arrays[0], &arrays[1], false);
        op_run_at(rig, 10);
        struct eng_array y = op_output(rig, 0);
        assert_memory_equal(y.data, f ? fmods : mod, sizeof mod);
        op_done(rig);
    }
    static const float real[4] = {1, 2, 3, 4};
    struct eng_array floats = op_floats(real, 4);
    struct op_rig *rig = op_named("Mod", "a b", "y");
    two(rig, &floats, &floats, false);
    op_refused(rig, 10, BASE_ERR_INVALID, "fmod = 1");
    static const uint8_t bits[3] = {1, 129, 255};
    static const uint8_t by[3] = {1, 1, 4};
    static const uint8_t left[3] = {2, 2, 240};
    struct eng_array bytes[2] = {op_of(ENG_U8, bits, 3), op_of(ENG_U8, by, 3)};
    rig = op_named("BitShift", "a b", "y");
    op_attr_text(rig, "direction", "LEFT");
    two(rig, &bytes[0], &bytes[1], false);
    op_run_at(rig, 11);
    struct eng_array y = op_output(rig, 0);
    assert_memory_equal(y.data, left, 3);
    op_done(rig);
    rig = op_named("BitShift", "a b", "y");
    two(rig, &bytes[0], &bytes[1], false);
    op_refused(rig, 11, BASE_ERR_INVALID, "LEFT or RIGHT");
}

static void choices_and_slopes(void **state)
{
    (void)state;
    static const uint8_t condition[2] = {1, 0};
    static const int64_t a[4] = {1, 2, 3, 4};
    static const int64_t b = -1;
    static const int64_t want[4] = {1, -1, 3, -1};
    struct op_rig *rig = op_named("Where", "c a b", "y");
    struct eng_array arrays[3] = {op_of(ENG_BOOL, condition, 2), op_of(ENG_I64, a, 2, 2),
                                  op_scalar_of(ENG_I64, &b)};
    op_feed(rig, "c", &arrays[0]);
    two(rig, &arrays[1], &arrays[2], true);
    op_run_at(rig, 9);
    struct eng_array y = op_output(rig, 0);
    assert_memory_equal(y.data, want, sizeof want);
    op_done(rig);
    static const float x[4] = {-1, 2, -3, 4};
    static const float slope[2] = {0.5f, 10};
    static const double sloped[4] = {-0.5, 2, -30, 4};
    rig = op_named("PRelu", "a b", "y");
    struct eng_array floats[2] = {op_floats(x, 2, 2), op_floats(slope, 2, 1)};
    two(rig, &floats[0], &floats[1], true);
    op_run_at(rig, 9);
    y = op_output(rig, 0);
    op_near(&y, sloped, 4, 0);
    op_done(rig);
    rig = op_named("PRelu", "a b", "y");
    struct eng_array larger = op_floats(x, 4, 1);
    two(rig, &floats[0], &larger, true);
    op_refused(rig, 9, BASE_ERR_INVALID, "does not broadcast");
}

static void running_sums(void **state)
{
    (void)state;
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    static const double want[4][6] = {
        {1, 3, 6, 4, 9, 15}, {0, 1, 3, 0, 4, 9}, {6, 5, 3, 15, 11, 6}, {5, 3, 0, 11, 6, 0}};
    const int32_t axis = -1;
    for (int64_t form = 0; form < 4; form++) {
        struct op_rig *rig = op_named("CumSum", "a b", "y");
        op_attr_int(rig, "exclusive", form % 2);
        op_attr_int(rig, "reverse", form / 2);
        struct eng_array arrays[2] = {op_floats(x, 2, 3), op_scalar_of(ENG_I32, &axis)};
        two(rig, &arrays[0], &arrays[1], form % 2 == 0);
        op_run_at(rig, 11);
        struct eng_array y = op_output(rig, 0);
        op_near(&y, want[form], 6, 0);
        op_done(rig);
    }
}

static void casts_with_strings(void **state)
{
    (void)state;
    static const float x[6] = {1.5f, -0.1f, 1e20f, 3, NAN, -INFINITY};
    static const char *const texts[6] = {"1.5", "-0.1", "1e+20", "3", "NaN", "-INF"};
    struct op_rig *rig = op_named("Cast", "x", "y");
    op_attr_int(rig, "to", ENG_STRING);
    struct eng_array array = op_floats(x, 6);
    struct eng_array y = one(rig, 9, &array);
    op_same_shape(&y, ENG_STRING, OP_DIMS(6));
    struct eng_string strings[7];
    char copies[6][32];
    for (int i = 0; i < 6; i++) {
        struct eng_string s = ((const struct eng_string *)y.data)[i];
        assert_int_equal(s.size, strlen(texts[i]));
        assert_memory_equal(s.at, texts[i], s.size);
        memcpy(copies[i], s.at, s.size);
        strings[i] = (struct eng_string){.at = copies[i], .size = s.size};
    }
    op_done(rig);
    rig = op_named("Cast", "x", "y");
    op_attr_int(rig, "to", ENG_F32);
    array = op_of(ENG_STRING, strings, 6);
    y = one(rig, 9, &array);
    for (int i = 0; i < 6; i++) {
        float got = ((const float *)y.data)[i];
        assert_true(got == x[i] || (isnan(got) && isnan(x[i])));
    }
    op_done(rig);
    static const int64_t integers[3] = {9007199254740993, -42, 2};
    strings[0] = (struct eng_string){.at = "9007199254740993", .size = 16};
    strings[1] = (struct eng_string){.at = "-42", .size = 3};
    strings[2] = (struct eng_string){.at = "2.9", .size = 3};
    rig = op_named("Cast", "x", "y");
    op_attr_int(rig, "to", ENG_I64);
    array = op_of(ENG_STRING, strings, 3);
    y = one(rig, 9, &array);
    assert_memory_equal(y.data, integers, sizeof integers);
    op_done(rig);
    strings[1] = (struct eng_string){.at = "4x", .size = 2};
    rig = op_named("Cast", "x", "y");
    op_attr_int(rig, "to", ENG_I32);
    op_feed(rig, "x", &array);
    op_refused(rig, 9, BASE_ERR_INVALID, "'4x' is not a number");
}

static void casts_in_an_app_with_a_comma(void **state)
{
    test_locale_with_a_comma();
    casts_with_strings(state);
    assert_non_null(setlocale(LC_NUMERIC, "C"));
}

static void types_are_checked(void **state)
{
    (void)state;
    static const uint8_t bytes[4] = {1, 0, 1, 1};
    static const float floats[4] = {1, 2, 3, 4};
    struct eng_array array = op_of(ENG_BOOL, bytes, 4);
    struct op_rig *rig = op_named("Sqrt", "x", "y");
    op_feed(rig, "x", &array);
    op_refused(rig, 13, BASE_ERR_INVALID, "type bool, expected a floating-point type");
    rig = op_named("Add", "a b", "y");
    struct eng_array other = op_floats(floats, 4);
    struct eng_array whole = op_of(ENG_U8, bytes, 4);
    two(rig, &other, &whole, false);
    op_refused(rig, 13, BASE_ERR_INVALID, "input 1 has type uint8, expected float");
    rig = op_named("And", "a b", "y");
    two(rig, &array, &other, false);
    op_refused(rig, 13, BASE_ERR_INVALID, "expected bool");
    rig = op_named("Cast", "x", "y");
    op_attr_int(rig, "to", ENG_C64);
    op_feed(rig, "x", &other);
    op_refused(rig, 13, BASE_ERR_UNSUPPORTED, "cast to type 14");
    rig = op_named("Add", "a b", "y");
    struct eng_array three = op_floats(floats, 3);
    two(rig, &other, &three, false);
    op_refused(rig, 13, BASE_ERR_INVALID, "float[3]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one_number),
        cmocka_unit_test(clip_in_every_form),
        cmocka_unit_test(broadcasting),
        cmocka_unit_test(any_number_of_inputs),
        cmocka_unit_test(powers),
        cmocka_unit_test(remainders_and_shifts),
        cmocka_unit_test(choices_and_slopes),
        cmocka_unit_test(running_sums),
        cmocka_unit_test(casts_with_strings),
        cmocka_unit_test(casts_in_an_app_with_a_comma),
        cmocka_unit_test(types_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

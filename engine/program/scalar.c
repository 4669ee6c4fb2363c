// What the functions of commands mean, of one number each: what the reference kernels compute at
// run time, on the session's thread, and what program/fuse_unary.c evaluates expressions with on
// the planning thread, to see what they are. The fast kernels approximate it. No number is
// undefined.
#include "program/scalar.h"

#include "base/check.h"

#include <math.h>

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static double clip(double x, double low, double high)
{
    double at_least = x < low ? low : x;
    return at_least > high ? high : at_least;
}

static double shrink(double x, double lambd, double bias)
{
    if (x < -lambd) {
        return x + bias;
    }
    return x > lambd ? x - bias : 0;
}

static double (*const library[ENG_UNARY_COUNT])(double) = {
    [ENG_ABS] = fabs,        [ENG_CEIL] = ceil,   [ENG_FLOOR] = floor,
    [ENG_ROUND] = nearbyint, [ENG_SQRT] = sqrt,   [ENG_EXP] = exp,
    [ENG_LOG] = log,         [ENG_SIN] = sin,     [ENG_COS] = cos,
    [ENG_TAN] = tan,         [ENG_ASIN] = asin,   [ENG_ACOS] = acos,
    [ENG_ATAN] = atan,       [ENG_SINH] = sinh,   [ENG_COSH] = cosh,
    [ENG_TANH] = tanh,       [ENG_ASINH] = asinh, [ENG_ACOSH] = acosh,
    [ENG_ATANH] = atanh,     [ENG_ERF] = erf,     [ENG_GELU_TANH] = gelu_tanh,
};

// What is neither in the library nor has parameters.
static double plain_unary(enum eng_unary_fn fn, double x)
{
    switch (fn) {
    case ENG_NEG:
        return -x;
    case ENG_SIGN:
        return isnan(x) ? x : (double)((x > 0) - (x < 0));
    case ENG_RSQRT:
        return 1 / sqrt(x);
    case ENG_RECIPROCAL:
        return 1 / x;
    case ENG_SQUARE:
        return x * x;
    case ENG_SIGMOID:
        return 1 / (1 + exp(-x));
    case ENG_RELU:
        return x < 0 ? 0 : x;
    case ENG_SOFTPLUS:
        return log1p(exp(-fabs(x))) + (x > 0 ? x : 0);
    case ENG_SOFTSIGN:
        return x / (1 + fabs(x));
    case ENG_HARD_SWISH:
        return x * clip(x / 6 + 0.5, 0, 1);
    case ENG_GELU:
        return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case ENG_NOT:
        return x == 0;
    case ENG_IS_NAN:
        return isnan(x) ? 1 : 0;
    default:
        return x;
    }
}

double eng_scalar_unary(enum eng_unary_fn fn, double x, double alpha, double beta)
{
    base_assert((unsigned)fn < ENG_UNARY_COUNT);
    if (library[fn] != NULL) {
        return library[fn](x);
    }
    switch (fn) {
    case ENG_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    case ENG_ELU:
        return x < 0 ? alpha * expm1(x) : x;
    case ENG_SELU:
        return beta * (x > 0 ? x : alpha * expm1(x));
    case ENG_CELU:
        return x < 0 ? alpha * expm1(x / alpha) : x;
    case ENG_HARD_SIGMOID:
        return clip(alpha * x + beta, 0, 1);
    case ENG_CLIP:
        return clip(x, alpha, beta);
    case ENG_THRESHOLDED_RELU:
        return x > alpha ? x : 0;
    case ENG_SHRINK:
        return shrink(x, alpha, beta);
    case ENG_IS_INF:
        return isinf(x) && (x < 0 ? alpha != 0 : beta != 0);
    default:
        return plain_unary(fn, x);
    }
}

// The divisor's sign; fmod has the dividend's.
static double modulo(double a, double b)
{
    double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// How far a shift goes: beyond SHIFT_MAX nothing of a double is left.
static int binary_places(double by)
{
    enum { SHIFT_MAX = 2000 };
    if (isnan(by)) {
        return 0;
    }
    return (int)clip(by, -SHIFT_MAX, SHIFT_MAX);
}

double eng_scalar_binary(enum eng_binary_fn fn, double a, double b)
{
    base_assert((unsigned)fn < ENG_BINARY_COUNT);
    switch (fn) {
    case ENG_ADD:
        return a + b;
    case ENG_SUB:
        return a - b;
    case ENG_MUL:
        return a * b;
    case ENG_DIV:
        return a / b;
    case ENG_POW:
        return pow(a, b);
    case ENG_MOD:
        return modulo(a, b);
    case ENG_FMOD:
        return fmod(a, b);
    case ENG_MIN: // a NaN wins, on either side
        return isnan(a) || a < b ? a : b;
    case ENG_MAX:
        return isnan(a) || a > b ? a : b;
    case ENG_EQUAL:
        return a == b;
    case ENG_LESS:
        return a < b;
    case ENG_LESS_EQUAL:
        return a <= b;
    case ENG_GREATER:
        return a > b;
    case ENG_GREATER_EQUAL:
        return a >= b;
    case ENG_AND:
        return a != 0 && b != 0;
    case ENG_OR:
        return a != 0 || b != 0;
    case ENG_XOR:
        return (a != 0) != (b != 0);
    case ENG_SHIFT_LEFT:
        return ldexp(a, binary_places(b));
    case ENG_SHIFT_RIGHT:
        return ldexp(a, -binary_places(b));
    case ENG_PRELU:
        return a < 0 ? a * b : a;
    case ENG_SQUARED_DIFF:
        return (a - b) * (a - b);
    default:
        return a;
    }
}

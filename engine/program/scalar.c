// What the functions of commands mean, of one number each: what the reference kernels compute at
// run time, on the session's thread, and what program/fuse_unary.c evaluates expressions with on
// the planning thread, to see what they are. The fast kernels approximate it. No number is
// undefined.
#include "program/scalar.h"

#include "base/check.h"

#include <math.h>

static double gelu_tanh(double value)
{
    return 0.5 * value *
           (1 + tanh(0.79788456080286535588 * (value + 0.044715 * value * value * value)));
}

static double clip(double value, double low, double high)
{
    double at_least = value < low ? low : value;
    return at_least > high ? high : at_least;
}

static double shrink(double value, double lambd, double bias)
{
    if (value < -lambd) {
        return value + bias;
    }
    return value > lambd ? value - bias : 0;
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
static double plain_unary(enum eng_unary_fn fn, double value)
{
    base_assert((unsigned)fn < ENG_UNARY_COUNT && library[fn] == NULL);
    switch (fn) {
    case ENG_NEG:
        return -value;
    case ENG_SIGN:
        return isnan(value) ? value : (double)((value > 0) - (value < 0));
    case ENG_RSQRT:
        return 1 / sqrt(value);
    case ENG_RECIPROCAL:
        return 1 / value;
    case ENG_SQUARE:
        return value * value;
    case ENG_SIGMOID:
        return 1 / (1 + exp(-value));
    case ENG_RELU:
        return value < 0 ? 0 : value;
    case ENG_SOFTPLUS:
        return log1p(exp(-fabs(value))) + (value > 0 ? value : 0);
    case ENG_SOFTSIGN:
        return value / (1 + fabs(value));
    case ENG_HARD_SWISH:
        return value * clip(value / 6 + 0.5, 0, 1);
    case ENG_GELU:
        return 0.5 * value * (1 + erf(value * 0.70710678118654752440));
    case ENG_NOT:
        return value == 0;
    case ENG_IS_NAN:
        return isnan(value) ? 1 : 0;
    default:
        return value;
    }
}

double eng_scalar_unary(enum eng_unary_fn fn, double value, double alpha, double beta)
{
    base_assert((unsigned)fn < ENG_UNARY_COUNT);
    if (library[fn] != NULL) {
        return library[fn](value);
    }
    switch (fn) {
    case ENG_LEAKY_RELU:
        return value < 0 ? alpha * value : value;
    case ENG_ELU:
        return value < 0 ? alpha * expm1(value) : value;
    case ENG_SELU:
        return beta * (value > 0 ? value : alpha * expm1(value));
    case ENG_CELU:
        return value < 0 ? alpha * expm1(value / alpha) : value;
    case ENG_HARD_SIGMOID:
        return clip(alpha * value + beta, 0, 1);
    case ENG_CLIP:
        return clip(value, alpha, beta);
    case ENG_THRESHOLDED_RELU:
        return value > alpha ? value : 0;
    case ENG_SHRINK:
        return shrink(value, alpha, beta);
    case ENG_IS_INF:
        return isinf(value) && (value < 0 ? alpha != 0 : beta != 0);
    default:
        return plain_unary(fn, value);
    }
}

// The divisor's sign; fmod has the dividend's.
static double modulo(double left, double right)
{
    double rest = fmod(left, right);
    return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
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

double eng_scalar_binary(enum eng_binary_fn fn, double left, double right)
{
    base_assert((unsigned)fn < ENG_BINARY_COUNT);
    switch (fn) {
    case ENG_ADD:
        return left + right;
    case ENG_SUB:
        return left - right;
    case ENG_MUL:
        return left * right;
    case ENG_DIV:
        return left / right;
    case ENG_POW:
        return pow(left, right);
    case ENG_MOD:
        return modulo(left, right);
    case ENG_FMOD:
        return fmod(left, right);
    case ENG_MIN: // a NaN wins, on either side
        return isnan(left) || left < right ? left : right;
    case ENG_MAX:
        return isnan(left) || left > right ? left : right;
    case ENG_EQUAL:
        return left == right;
    case ENG_LESS:
        return left < right;
    case ENG_LESS_EQUAL:
        return left <= right;
    case ENG_GREATER:
        return left > right;
    case ENG_GREATER_EQUAL:
        return left >= right;
    case ENG_AND:
        return left != 0 && right != 0;
    case ENG_OR:
        return left != 0 || right != 0;
    case ENG_XOR:
        return (left != 0) != (right != 0);
    case ENG_SHIFT_LEFT:
        return ldexp(left, binary_places(right));
    case ENG_SHIFT_RIGHT:
        return ldexp(left, -binary_places(right));
    case ENG_PRELU:
        return left < 0 ? left * right : left;
    case ENG_SQUARED_DIFF:
        return (left - right) * (left - right);
    default:
        return left;
    }
}

// The functions of UNARY and BINARY commands in float32, and elements of other types.
//
// What they mean is in program/scalar.c; casts saturate as the reference backend's.
#ifndef ENG_CUDA_SCALAR_CUH
#define ENG_CUDA_SCALAR_CUH

#include "backend/cuda/kernels/cuda_kernels.cuh"

#include <math.h>
#include <string.h>

ENG_CUDA_INLINE float eng_cuda_clip(float x, float low, float high)
{
    const float at_least = x < low ? low : x;
    return at_least > high ? high : at_least;
}

ENG_CUDA_INLINE float eng_cuda_gelu_tanh(float x)
{
    return 0.5F * x * (1 + tanhf(0.79788456080286536F * (x + 0.044715F * x * x * x)));
}

ENG_CUDA_INLINE float eng_cuda_library(int fn, float x)
{
    switch (fn) {
    case ENG_SIN:
        return sinf(x);
    case ENG_COS:
        return cosf(x);
    case ENG_TAN:
        return tanf(x);
    case ENG_ASIN:
        return asinf(x);
    case ENG_ACOS:
        return acosf(x);
    case ENG_ATAN:
        return atanf(x);
    case ENG_SINH:
        return sinhf(x);
    case ENG_COSH:
        return coshf(x);
    case ENG_ASINH:
        return asinhf(x);
    case ENG_ACOSH:
        return acoshf(x);
    case ENG_ATANH:
        return atanhf(x);
    case ENG_NOT:
        return x == 0 ? 1.0F : 0.0F;
    case ENG_IS_NAN:
        return x != x ? 1.0F : 0.0F;
    default:
        return x;
    }
}

ENG_CUDA_INLINE float eng_cuda_plain(int fn, float x)
{
    switch (fn) {
    case ENG_ABS:
        return fabsf(x);
    case ENG_NEG:
        return -x;
    case ENG_SIGN:
        return x != x ? x : (float)((x > 0) - (x < 0));
    case ENG_CEIL:
        return ceilf(x);
    case ENG_FLOOR:
        return floorf(x);
    case ENG_ROUND:
        return rintf(x);
    case ENG_SQRT:
        return sqrtf(x);
    case ENG_RSQRT:
        return 1 / sqrtf(x);
    case ENG_RECIPROCAL:
        return 1 / x;
    case ENG_SQUARE:
        return x * x;
    case ENG_EXP:
        return expf(x);
    case ENG_LOG:
        return logf(x);
    case ENG_ERF:
        return erff(x);
    case ENG_SOFTPLUS:
        return log1pf(expf(-fabsf(x))) + (x > 0 ? x : 0);
    case ENG_SOFTSIGN:
        return x / (1 + fabsf(x));
    default:
        return eng_cuda_library(fn, x);
    }
}

ENG_CUDA_INLINE float eng_cuda_apply(const eng_unary &unary, float x)
{
    const float alpha = unary.alpha, beta = unary.beta;
    switch (unary.fn) {
    case ENG_TANH:
        return tanhf(x);
    case ENG_SIGMOID:
        return 1 / (1 + expf(-x));
    case ENG_RELU:
        return x < 0 ? 0 : x;
    case ENG_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    case ENG_ELU:
        return x < 0 ? alpha * expm1f(x) : x;
    case ENG_SELU:
        return beta * (x > 0 ? x : alpha * expm1f(x));
    case ENG_CELU:
        return x < 0 ? alpha * expm1f(x / alpha) : x;
    case ENG_HARD_SIGMOID:
        return eng_cuda_clip(alpha * x + beta, 0, 1);
    case ENG_HARD_SWISH:
        return x * eng_cuda_clip(x / 6 + 0.5F, 0, 1);
    case ENG_CLIP:
        return eng_cuda_clip(x, alpha, beta);
    case ENG_THRESHOLDED_RELU:
        return x > alpha ? x : 0;
    case ENG_GELU:
        return 0.5F * x * (1 + erff(x * 0.70710678118654752F));
    case ENG_GELU_TANH:
        return eng_cuda_gelu_tanh(x);
    case ENG_SHRINK:
        return x < -alpha ? x + beta : x > alpha ? x - beta : 0;
    case ENG_IS_INF:
        return x - x != 0 && x == x && (x < 0 ? alpha != 0 : beta != 0) ? 1.0F : 0.0F;
    default:
        return eng_cuda_plain(unary.fn, x);
    }
}

// The divisor's sign; fmod has the dividend's.
ENG_CUDA_INLINE float eng_cuda_modulo(float left, float right)
{
    const float rest = fmodf(left, right);
    return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

template <class T> ENG_CUDA_INLINE bool eng_cuda_compare(int fn, T left, T right)
{
    switch (fn) {
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
    default:
        return (left != 0) != (right != 0);
    }
}

ENG_CUDA_INLINE float eng_cuda_combine(int fn, float left, float right)
{
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
        return powf(left, right);
    case ENG_MOD:
        return eng_cuda_modulo(left, right);
    case ENG_FMOD:
        return fmodf(left, right);
    case ENG_MIN: // a NaN wins, on either side
        return left != left || left < right ? left : right;
    case ENG_MAX:
        return left != left || left > right ? left : right;
    case ENG_PRELU:
        return left < 0 ? left * right : left;
    case ENG_SQUARED_DIFF:
        return (left - right) * (left - right);
    default:
        return eng_cuda_compare(fn, left, right) ? 1.0F : 0.0F;
    }
}

// To the nearest bfloat16, ties to even; NaN stays one.
ENG_CUDA_INLINE uint16_t eng_cuda_narrow(float x)
{
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? 0x7fc0u : (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// --- elements of any type ------------------------------------------------------------------------

// An integer or BOOL of at most 64 bits; U64 keeps its bits.
ENG_CUDA_INLINE int64_t eng_cuda_load_int(int dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case ENG_BOOL:
    case ENG_U8:
        return ((const uint8_t *)data)[i];
    case ENG_I8:
        return ((const int8_t *)data)[i];
    case ENG_U16:
        return ((const uint16_t *)data)[i];
    case ENG_I16:
        return ((const int16_t *)data)[i];
    case ENG_U32:
        return ((const uint32_t *)data)[i];
    case ENG_I32:
        return ((const int32_t *)data)[i];
    default:
        return ((const int64_t *)data)[i];
    }
}

ENG_CUDA_INLINE void eng_cuda_store_int(int dtype, void *data, int64_t i, int64_t value)
{
    switch (dtype) {
    case ENG_BOOL:
        ((uint8_t *)data)[i] = value != 0;
        break;
    case ENG_U8:
    case ENG_I8:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    case ENG_U16:
    case ENG_I16:
        ((uint16_t *)data)[i] = (uint16_t)value;
        break;
    case ENG_U32:
    case ENG_I32:
        ((uint32_t *)data)[i] = (uint32_t)value;
        break;
    default:
        ((int64_t *)data)[i] = value;
        break;
    }
}

ENG_CUDA_INLINE int64_t eng_cuda_bounded(double x, double low, double high)
{
    return x != x ? 0 : (int64_t)(x < low ? low : x > high ? high : x);
}

// Toward zero; saturates, and NaN gives 0.
ENG_CUDA_INLINE int64_t eng_cuda_whole(int dtype, double x)
{
    switch (dtype) {
    case ENG_U8:
        return eng_cuda_bounded(x, 0, 255);
    case ENG_I8:
        return eng_cuda_bounded(x, -128, 127);
    case ENG_U16:
        return eng_cuda_bounded(x, 0, 65535);
    case ENG_I16:
        return eng_cuda_bounded(x, -32768, 32767);
    case ENG_U32:
        return eng_cuda_bounded(x, 0, 4294967295.0);
    case ENG_I32:
        return eng_cuda_bounded(x, -2147483648.0, 2147483647.0);
    case ENG_BOOL:
        return x != 0;
    default:
        return x >= 9223372036854775808.0   ? INT64_MAX
               : x < -9223372036854775808.0 ? INT64_MIN
                                            : eng_cuda_bounded(x, -9.3e18, 9.3e18);
    }
}

#endif

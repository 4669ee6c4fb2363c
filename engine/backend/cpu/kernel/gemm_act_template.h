// The activations that take an exponential, over a tile just stored. Included by gemm_<isa>.c after
// gemm_template.h; needs besides its macros:
//   V_ROUND(x)      nearest integer as a float
//   V_EXP2I(x)      2 to the power of such a float, -126 <= x <= 127
//   V_ABS(x), V_SIGN_OF(x, y)   |x|; |x| with the sign of y
//   V_SELECT_LESS(a, b, x, y)   a < b ? x : y
//
// exp: x = n ln 2 + r with |r| <= ln 2 / 2, e^r by a polynomial (Cephes' coefficients, relative
// error 1e-7).
#ifndef ENG_CPU_GEMM_ACT_TEMPLATE_H
#define ENG_CPU_GEMM_ACT_TEMPLATE_H

INLINE V act_exp(V value)
{
    value = V_MIN(V_SET1(88.0f), V_MAX(V_SET1(-87.3f), value));
    const V n = V_ROUND(V_MUL(value, V_SET1(1.44269504f)));
    V r = V_FMA(n, V_SET1(-0.693359375f), value);
    r = V_FMA(n, V_SET1(2.12194440e-4f), r);
    V p = V_SET1(1.9875691500e-4f);
    p = V_FMA(p, r, V_SET1(1.3981999507e-3f));
    p = V_FMA(p, r, V_SET1(8.3334519073e-3f));
    p = V_FMA(p, r, V_SET1(4.1665795894e-2f));
    p = V_FMA(p, r, V_SET1(1.6666665459e-1f));
    p = V_FMA(p, r, V_SET1(5.0000001201e-1f));
    p = V_FMA(p, V_MUL(r, r), V_ADD(r, V_SET1(1.0f)));
    return V_MUL(p, V_EXP2I(n));
}

INLINE V act_sigmoid(V value)
{
    const V one = V_SET1(1.0f);
    return V_DIV(one, V_ADD(one, act_exp(V_SUB(V_ZERO(), value))));
}

// Below 1/16 the odd series: 1 - 2 / (e^2x + 1) would lose the small digits there.
INLINE V act_tanh(V value)
{
    const V one = V_SET1(1.0f), square = V_MUL(value, value);
    const V big = V_SUB(one, V_DIV(V_SET1(2.0f), V_ADD(one, act_exp(V_ADD(value, value)))));
    V series = V_FMA(square, V_SET1(2.0f / 15.0f), V_SET1(-1.0f / 3.0f));
    series = V_FMA(V_MUL(series, square), value, value);
    return V_SELECT_LESS(V_ABS(value), V_SET1(0.0625f), series, big);
}

// x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3), x the value: the tanh form without tanh.
INLINE V act_gelu_tanh(V value)
{
    const V cubic =
        V_FMA(V_MUL(value, value), V_SET1(0.044715f * 1.5957691216f), V_SET1(1.5957691216f));
    return V_MUL(value, act_sigmoid(V_MUL(value, cubic)));
}

// erf by Abramowitz and Stegun 7.1.26: absolute error 1.5e-7.
INLINE V act_gelu(V value)
{
    const V one = V_SET1(1.0f), half = V_MUL(V_SET1(0.5f), value);
    const V z = V_MUL(V_ABS(value), V_SET1(0.70710678f));
    const V t = V_DIV(one, V_FMA(z, V_SET1(0.3275911f), one));
    V p = V_FMA(t, V_SET1(1.061405429f), V_SET1(-1.453152027f));
    p = V_FMA(p, t, V_SET1(1.421413741f));
    p = V_FMA(p, t, V_SET1(-0.284496736f));
    p = V_FMA(p, t, V_SET1(0.254829592f));
    const V tail = V_MUL(V_MUL(p, t), act_exp(V_MUL(V_SUB(V_ZERO(), z), z)));
    return V_FMA(half, V_SIGN_OF(V_SUB(one, tail), value), half);
}

#define ACT_ROWS(fn)                                                                               \
    for (size_t r = 0; r < rows; r++, out += ldc) {                                                \
        size_t i = 0;                                                                              \
        for (; i + V_LANES <= count; i += V_LANES) {                                               \
            V_STORE(out + i, fn(V_LOAD(out + i)));                                                 \
        }                                                                                          \
        if (i < count) {                                                                           \
            const M tail = M_TAIL((uint32_t)(count - i));                                          \
            V_STORE_M(out + i, tail, fn(V_LOAD_M(out + i, tail)));                                 \
        }                                                                                          \
    }

static void act_rows(float *out, size_t rows, size_t ldc, size_t count, enum eng_gemm_act act)
{
    switch (act) {
    case ENG_GEMM_ACT_SIGMOID:
        ACT_ROWS(act_sigmoid)
        break;
    case ENG_GEMM_ACT_TANH:
        ACT_ROWS(act_tanh)
        break;
    case ENG_GEMM_ACT_GELU:
        ACT_ROWS(act_gelu)
        break;
    case ENG_GEMM_ACT_GELU_TANH:
        ACT_ROWS(act_gelu_tanh)
        break;
    default:
        break;
    }
}

#endif

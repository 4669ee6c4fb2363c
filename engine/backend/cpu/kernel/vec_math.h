// Transcendental functions over the vector layer, written once for every instruction set. Included
// by vec_template.h after one of the vec_simd_*.h.
//
// Polynomials are minimax fits of our own (weighted for relative error); the largest error of each
// fit stands beside it. Results are within a few units in the last place of the true value.
#ifndef ENG_CPU_VEC_MATH_H
#define ENG_CPU_VEC_MATH_H

#include <math.h>
#include <stdint.h>

#define VM_LOG2E    1.44269504f
#define VM_LN2_HIGH 0.693359375f    // few enough bits that n * LN2_HIGH is exact
#define VM_LN2_LOW  -2.12194440e-4f // ln 2 - LN2_HIGH
#define VM_EXP_LOW  -104.0f         // below: 0
#define VM_EXP_HIGH 89.0f           // above: infinity
#define VM_SQRT1_2  0.707106781f

// value = power ln 2 + r with |r| <= ln 2 / 2; returns r.
static inline vf vm_reduce(vf value, vf *power)
{
    *power = vf_round(value * vf_set(VM_LOG2E));
    vf r = vf_fnma(*power, vf_set(VM_LN2_HIGH), value);
    return vf_fnma(*power, vf_set(VM_LN2_LOW), r);
}

// e^r - 1 for |r| <= ln 2 / 2: r + r^2 Q(r), 1.3e-8.
static inline vf vm_expm1_poly(vf remainder)
{
    vf q = vf_set(0.00139464485f);
    q = vf_fma(q, remainder, vf_set(0.00836658385f));
    q = vf_fma(q, remainder, vf_set(0.0416662805f));
    q = vf_fma(q, remainder, vf_set(0.166665435f));
    q = vf_fma(q, remainder, vf_set(0.5f));
    return vf_fma(remainder * remainder, q, remainder);
}

static inline vf vm_exp(vf value)
{
    vf n;
    value = vf_min(vf_set(VM_EXP_HIGH), vf_max(vf_set(VM_EXP_LOW), value));
    vf r = vm_reduce(value, &n);
    return vf_scale2(vm_expm1_poly(r) + vf_set(1.0f), n);
}

// 2^n (p + 1 - 2^-n): for n = 0 that is p itself, so small arguments keep their precision.
static inline vf vm_expm1(vf value)
{
    vf n;
    value = vf_min(vf_set(VM_EXP_HIGH), vf_max(vf_set(-17.5f), value)); // below: -1
    vf p = vm_expm1_poly(vm_reduce(value, &n));
    vf one = vf_set(1.0f);
    return vf_scale2(p + (one - vf_scale2(one, -n)), n);
}

// log m for m in [sqrt 1/2, sqrt 2): f - f^2/2 + f^3 P(f) with f = m - 1, 7.3e-10.
static inline vf vm_log_poly(vf fraction)
{
    vf p = vf_set(0.0691516548f);
    p = vf_fma(p, fraction, vf_set(-0.117897049f));
    p = vf_fma(p, fraction, vf_set(0.118730128f));
    p = vf_fma(p, fraction, vf_set(-0.123843685f));
    p = vf_fma(p, fraction, vf_set(0.142186552f));
    p = vf_fma(p, fraction, vf_set(-0.166692495f));
    p = vf_fma(p, fraction, vf_set(0.200022265f));
    p = vf_fma(p, fraction, vf_set(-0.249999866f));
    return vf_fma(p, fraction, vf_set(0.333333105f));
}

static inline vf vm_log(vf value)
{
    vf a = vf_abs(value);
    vm tiny = vf_lt(a, vf_set(1.17549435e-38f));
    vi bits = (vi)vf_pick(tiny, a * vf_set(8388608.0f), a);
    vi e = (bits - 0x3f3504f3) >> 23; // 0x3f3504f3: sqrt 1/2
    vf m = (vf)(bits - (e << 23));
    vf exponent = vi_to_vf(e) - vf_pick(tiny, vf_set(23.0f), vf_set(0.0f));
    vf f = m - vf_set(1.0f);
    vf low = vf_fma(f * f, vf_fma(f, vm_log_poly(f), vf_set(-0.5f)), exponent * vf_set(VM_LN2_LOW));
    vf y = vf_fma(exponent, vf_set(VM_LN2_HIGH), f + low);
    y = vf_pick(vf_lt(a, vf_set(INFINITY)), y, value);
    y = vf_pick(vf_eq(a, vf_set(0.0f)), vf_set(-INFINITY), y);
    return vf_pick(vf_lt(value, vf_set(0.0f)), vf_set(NAN), y);
}

static inline vf vm_copysign(vf magnitude, vf sign)
{
    return (vf)((vi)magnitude | ((vi)sign & vi_set(INT32_MIN)));
}

static inline vf vm_tanh(vf value)
{
    vf a = vf_min(vf_set(10.0f), vf_abs(value));
    vf e = vm_expm1(a + a);
    return vm_copysign(e / (e + vf_set(2.0f)), value);
}

static inline vf vm_sigmoid(vf value)
{
    return vf_set(1.0f) / (vf_set(1.0f) + vm_exp(-value));
}

// erfc z for z >= 0: e^(-z^2) R(t) with t = 1 / (1 + 0.4 z), 3.3e-8 up to z = 10.3, where it
// underflows. The rounding error of z^2 is put back.
static inline vf vm_erfc(vf value)
{
    value = vf_min(vf_set(10.25f), value);
    vf t = vf_set(1.0f) / vf_fma(vf_set(0.4f), value, vf_set(1.0f));
    vf r = vf_set(0.0296615027f);
    r = vf_fma(r, t, vf_set(-0.079888463f));
    r = vf_fma(r, t, vf_set(-0.0518635474f));
    r = vf_fma(r, t, vf_set(0.260391057f));
    r = vf_fma(r, t, vf_set(-0.0560828708f));
    r = vf_fma(r, t, vf_set(0.262116402f));
    r = vf_fma(r, t, vf_set(0.179606795f));
    r = vf_fma(r, t, vf_set(0.230899677f));
    r = vf_fma(r, t, vf_set(0.225135714f));
    r = vf_fma(r, t, vf_set(2.37567947e-05f));
    vf square = value * value;
    vf rest = vf_fma(value, value, -square);
    return vm_exp(-square) * vf_fnma(rest, r, r);
}

static inline vf vm_erf(vf value)
{
    vf a = vf_abs(value);
    vf s = value * value; // |value| < 1: x P(value^2), 1.2e-9
    vf p = vf_set(7.85385782e-05f);
    p = vf_fma(p, s, vf_set(-0.000801019254f));
    p = vf_fma(p, s, vf_set(0.00518832775f));
    p = vf_fma(p, s, vf_set(-0.026853811f));
    p = vf_fma(p, s, vf_set(0.112835854f));
    p = vf_fma(p, s, vf_set(-0.37612626f));
    p = vf_fma(p, s, vf_set(1.12837911f));
    vf large = vm_copysign(vf_set(1.0f) - vm_erfc(a), value);
    return vf_pick(vf_lt(a, vf_set(1.0f)), value * p, large);
}

// x Phi(x), x the value, with Phi from erfc so that the left tail keeps its relative precision.
static inline vf vm_gelu(vf value)
{
    vf tail = vf_set(0.5f) * vm_erfc(vf_abs(value) * vf_set(VM_SQRT1_2));
    return value * vf_pick(vf_lt(value, vf_set(0.0f)), tail, vf_set(1.0f) - tail);
}

// x (1 + tanh u) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
static inline vf vm_gelu_tanh(vf value)
{
    vf u = value * vf_fma(value * value, vf_set(2.0f * 0.0356774081f), vf_set(2.0f * 0.797884561f));
    return value * vm_sigmoid(u);
}

// max(value, 0) + log(1 + e^-|value|), the logarithm corrected for what 1 + e rounds away.
static inline vf vm_softplus(vf value)
{
    vf one = vf_set(1.0f);
    vf e = vm_exp(-vf_abs(value));
    vf u = one + e;
    vf l = vm_log(u) * e / (u - one);
    return vf_max(vf_set(0.0f), value) + vf_pick(vf_eq(u, one), e, l);
}

static inline vf vm_sign(vf value)
{
    vf zero = vf_set(0.0f);
    vf negative = vf_pick(vf_lt(value, zero), vf_set(-1.0f), value);
    return vf_pick(vf_lt(zero, value), vf_set(1.0f), negative);
}

static inline vf vm_shrink(vf value, vf lambda, vf bias)
{
    vf y = vf_pick(vf_lt(lambda, value), value - bias, vf_set(0.0f));
    return vf_pick(vf_lt(value, -lambda), value + bias, y);
}

// NaN in either operand is NaN.
static inline vf vm_maximum(vf left, vf right)
{
    return vf_pick(vf_unordered(left, right), left + right, vf_max(left, right));
}
static inline vf vm_minimum(vf left, vf right)
{
    return vf_pick(vf_unordered(left, right), left + right, vf_min(left, right));
}

#endif

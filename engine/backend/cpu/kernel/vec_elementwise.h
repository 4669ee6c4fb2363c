// Elementwise kernels, written once over the vector layer. Part of vec_template.h.
#ifndef ENG_CPU_VEC_ELEMENTWISE_H
#define ENG_CPU_VEC_ELEMENTWISE_H

#include "backend/cpu/kernel/vec_kernels.h"
#include "backend/cpu/kernel/vec_math.h"

#include <string.h>

// In `expression`, x is the vector; alpha and beta are vectors of the parameters.
#define VEC_UNARY(name, expression)                                                                \
    static void unary_##name(const float *px, float *py, int64_t n, float pa, float pb)            \
    {                                                                                              \
        const vf alpha = vf_set(pa);                                                               \
        const vf beta = vf_set(pb);                                                                \
        (void)alpha;                                                                               \
        (void)beta;                                                                                \
        int64_t i = 0;                                                                             \
        for (; i + VW <= n; i += VW) {                                                             \
            vf x = vf_load(px + i);                                                                \
            vf_store(py + i, expression);                                                          \
        }                                                                                          \
        if (i < n) {                                                                               \
            vf x = vf_load_n(px + i, n - i);                                                       \
            vf_store_n(py + i, expression, n - i);                                                 \
        }                                                                                          \
    }

#define VEC_ZERO vf_set(0.0f)
#define VEC_ONE  vf_set(1.0f)

VEC_UNARY(abs, vf_abs(x))
VEC_UNARY(neg, -x)
VEC_UNARY(sign, vm_sign(x))
VEC_UNARY(ceil, vf_ceil(x))
VEC_UNARY(floor, vf_floor(x))
VEC_UNARY(round, vf_round(x))
VEC_UNARY(sqrt, vf_sqrt(x))
VEC_UNARY(rsqrt, VEC_ONE / vf_sqrt(x))
VEC_UNARY(reciprocal, VEC_ONE / x)
VEC_UNARY(square, x *x)
VEC_UNARY(exp, vm_exp(x))
VEC_UNARY(log, vm_log(x))
VEC_UNARY(tanh, vm_tanh(x))
VEC_UNARY(erf, vm_erf(x))
VEC_UNARY(sigmoid, vm_sigmoid(x))
VEC_UNARY(relu, vf_max(VEC_ZERO, x))
VEC_UNARY(leaky_relu, vf_pick(vf_lt(x, VEC_ZERO), alpha *x, x))
VEC_UNARY(elu, vf_pick(vf_lt(x, VEC_ZERO), alpha *vm_expm1(x), x))
VEC_UNARY(selu, beta *vf_pick(vf_lt(x, VEC_ZERO), alpha *vm_expm1(x), x))
VEC_UNARY(celu, vf_pick(vf_lt(x, VEC_ZERO), alpha *vm_expm1(x / alpha), x))
VEC_UNARY(softplus, vm_softplus(x))
VEC_UNARY(softsign, x / (VEC_ONE + vf_abs(x)))
VEC_UNARY(hard_sigmoid, vf_min(VEC_ONE, vf_max(VEC_ZERO, vf_fma(alpha, x, beta))))
VEC_UNARY(hard_swish,
          x *vf_min(VEC_ONE, vf_max(VEC_ZERO, vf_fma(x, vf_set(1.0f / 6.0f), vf_set(0.5f)))))
VEC_UNARY(clip, vf_min(beta, vf_max(alpha, x)))
VEC_UNARY(thresholded_relu, vf_pick(vf_lt(alpha, x), x, VEC_ZERO))
VEC_UNARY(gelu, vm_gelu(x))
VEC_UNARY(gelu_tanh, vm_gelu_tanh(x))
VEC_UNARY(shrink, vm_shrink(x, alpha, beta))

// In `expression`, a and b are the vectors.
#define VEC_BINARY_FORM(name, load_a, load_a_n, load_b, load_b_n, expression)                      \
    static void name(const float *pa, const float *pb, float *py, int64_t n)                       \
    {                                                                                              \
        const vf one_a = vf_set(pa[0]);                                                            \
        const vf one_b = vf_set(pb[0]);                                                            \
        (void)one_a;                                                                               \
        (void)one_b;                                                                               \
        int64_t i = 0;                                                                             \
        for (; i + VW <= n; i += VW) {                                                             \
            vf a = load_a;                                                                         \
            vf b = load_b;                                                                         \
            vf_store(py + i, expression);                                                          \
        }                                                                                          \
        if (i < n) {                                                                               \
            vf a = load_a_n;                                                                       \
            vf b = load_b_n;                                                                       \
            vf_store_n(py + i, expression, n - i);                                                 \
        }                                                                                          \
    }
#define VEC_BINARY(name, expression)                                                               \
    VEC_BINARY_FORM(binary_##name##_both, vf_load(pa + i), vf_load_n(pa + i, n - i),               \
                    vf_load(pb + i), vf_load_n(pb + i, n - i), expression)                         \
    VEC_BINARY_FORM(binary_##name##_b_one, vf_load(pa + i), vf_load_n(pa + i, n - i), one_b,       \
                    one_b, expression)                                                             \
    VEC_BINARY_FORM(binary_##name##_a_one, one_a, one_a, vf_load(pb + i),                          \
                    vf_load_n(pb + i, n - i), expression)
#define VEC_BINARY_ROW(name)                                                                       \
    {                                                                                              \
        binary_##name##_both, binary_##name##_b_one, binary_##name##_a_one                         \
    }

VEC_BINARY(add, a + b)
VEC_BINARY(sub, a - b)
VEC_BINARY(mul, a *b)
VEC_BINARY(div, a / b)
VEC_BINARY(min, vm_minimum(a, b))
VEC_BINARY(max, vm_maximum(a, b))
VEC_BINARY(prelu, vf_pick(vf_lt(a, VEC_ZERO), a *b, a))
VEC_BINARY(squared_diff, (a - b) * (a - b))

#define VEC_COMPARE_FORM(name, load_a, load_a_n, load_b, load_b_n, expression)                     \
    static void name(const float *pa, const float *pb, uint8_t *py, int64_t n)                     \
    {                                                                                              \
        const vf one_a = vf_set(pa[0]);                                                            \
        const vf one_b = vf_set(pb[0]);                                                            \
        (void)one_a;                                                                               \
        (void)one_b;                                                                               \
        int64_t i = 0;                                                                             \
        for (; i + VW <= n; i += VW) {                                                             \
            vf a = load_a;                                                                         \
            vf b = load_b;                                                                         \
            vm_store(py + i, expression);                                                          \
        }                                                                                          \
        if (i < n) {                                                                               \
            vf a = load_a_n;                                                                       \
            vf b = load_b_n;                                                                       \
            uint8_t rest[VW];                                                                      \
            vm_store(rest, expression);                                                            \
            memcpy(py + i, rest, (size_t)(n - i));                                                 \
        }                                                                                          \
    }
#define VEC_COMPARE(name, expression)                                                              \
    VEC_COMPARE_FORM(compare_##name##_both, vf_load(pa + i), vf_load_n(pa + i, n - i),             \
                     vf_load(pb + i), vf_load_n(pb + i, n - i), expression)                        \
    VEC_COMPARE_FORM(compare_##name##_b_one, vf_load(pa + i), vf_load_n(pa + i, n - i), one_b,     \
                     one_b, expression)                                                            \
    VEC_COMPARE_FORM(compare_##name##_a_one, one_a, one_a, vf_load(pb + i),                        \
                     vf_load_n(pb + i, n - i), expression)
#define VEC_COMPARE_ROW(name)                                                                      \
    {                                                                                              \
        compare_##name##_both, compare_##name##_b_one, compare_##name##_a_one                      \
    }

VEC_COMPARE(equal, vf_eq(a, b))
VEC_COMPARE(less, vf_lt(a, b))
VEC_COMPARE(less_equal, vf_le(a, b))
VEC_COMPARE(greater, vf_lt(b, a))
VEC_COMPARE(greater_equal, vf_le(b, a))

static void select_n(const uint8_t *cond, const float *pa, const float *pb, float *py,
                     int64_t count, int64_t a_step, int64_t b_step)
{
    int64_t i = 0;
    for (; i + VW <= count; i += VW) {
        vf a = a_step != 0 ? vf_load(pa + i) : vf_set(pa[0]);
        vf b = b_step != 0 ? vf_load(pb + i) : vf_set(pb[0]);
        vf_store(py + i, vf_pick(vm_load(cond + i), a, b));
    }
    for (; i < count; i++) {
        py[i] = cond[i] != 0 ? pa[i * a_step] : pb[i * b_step];
    }
}

static void fill_n(float *output, float value, int64_t count)
{
    vf v = vf_set(value);
    int64_t i = 0;
    for (; i + VW <= count; i += VW) {
        vf_store(output + i, v);
    }
    if (i < count) {
        vf_store_n(output + i, v, count - i);
    }
}

static void cast_f16_to_f32(const void *input, void *output, int64_t count)
{
    const uint16_t *from = input;
    float *to = output;
    int64_t i = 0;
#ifdef VEC_HAS_F16
    for (; i + VW <= count; i += VW) {
        vf_store(to + i, vec_f16_load(from + i));
    }
#endif
    for (; i < count; i++) {
        to[i] = eng_f16_to_f32(from[i]);
    }
}

static void cast_f32_to_f16(const void *input, void *output, int64_t count)
{
    const float *from = input;
    uint16_t *to = output;
    int64_t i = 0;
#ifdef VEC_HAS_F16
    for (; i + VW <= count; i += VW) {
        vec_f16_store(to + i, vf_load(from + i));
    }
#endif
    for (; i < count; i++) {
        to[i] = eng_f16_from_f32(from[i]);
    }
}

static void cast_bf16_to_f32(const void *input, void *output, int64_t count)
{
    const uint16_t *from = input;
    float *to = output;
    int64_t i = 0;
    for (; i + VW <= count; i += VW) {
        uint32_t bits[VW];
        for (int j = 0; j < VW; j++) {
            bits[j] = (uint32_t)from[i + j] << 16;
        }
        memcpy(to + i, bits, sizeof bits);
    }
    for (; i < count; i++) {
        to[i] = eng_bf16_to_f32(from[i]);
    }
}

static void cast_f32_to_bf16(const void *input, void *output, int64_t count)
{
    const float *from = input;
    uint16_t *to = output;
    for (int64_t i = 0; i < count; i++) {
        to[i] = eng_bf16_from_f32(from[i]);
    }
}

#endif

// Which table of vector kernels an instruction set uses, and the elementwise functions that are
// loops over the C library. Called once per process by isa.c for the tables; vec_unary.c and
// vec_expr.c look into the library's lists while they prepare steps, where a table has no vector
// version of a function. All is constant, any thread. ENG_ISA_AMX has AVX-512's table, as tiles do
// products alone.
#include "backend/cpu/kernel/vec_kernels.h"

#include "backend/cpu/kernel/isa.h"

#include <math.h>

const struct eng_vec_kernels *eng_vec_kernels_of(enum eng_isa isa)
{
    switch (isa) {
    case ENG_ISA_GENERIC:
        return &eng_vec_generic;
#if defined(__x86_64__)
    case ENG_ISA_AVX2:
        return &eng_vec_avx2;
    case ENG_ISA_AVX512:
    case ENG_ISA_AMX:
        return &eng_vec_avx512;
#else
    case ENG_ISA_AVX2:
    case ENG_ISA_AVX512:
    case ENG_ISA_AMX:
#endif
    case ENG_ISA_COUNT:
        break;
    }
    return NULL;
}

#define LIBM_UNARY(name)                                                                           \
    static void libm_##name(const float *x, float *y, int64_t n, float alpha, float beta)          \
    {                                                                                              \
        (void)alpha;                                                                               \
        (void)beta;                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            y[i] = name(x[i]);                                                                     \
        }                                                                                          \
    }
LIBM_UNARY(sinf)
LIBM_UNARY(cosf)
LIBM_UNARY(tanf)
LIBM_UNARY(asinf)
LIBM_UNARY(acosf)
LIBM_UNARY(atanf)
LIBM_UNARY(sinhf)
LIBM_UNARY(coshf)
LIBM_UNARY(asinhf)
LIBM_UNARY(acoshf)
LIBM_UNARY(atanhf)

const eng_vec_unary_fn eng_vec_libm_unary[ENG_UNARY_COUNT] = {
    [ENG_SIN] = libm_sinf,     [ENG_COS] = libm_cosf,     [ENG_TAN] = libm_tanf,
    [ENG_ASIN] = libm_asinf,   [ENG_ACOS] = libm_acosf,   [ENG_ATAN] = libm_atanf,
    [ENG_SINH] = libm_sinhf,   [ENG_COSH] = libm_coshf,   [ENG_ASINH] = libm_asinhf,
    [ENG_ACOSH] = libm_acoshf, [ENG_ATANH] = libm_atanhf,
};

static void pow_both(const float *left, const float *right, float *output, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        output[i] = powf(left[i], right[i]);
    }
}

static void pow_a_one(const float *left, const float *right, float *output, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        output[i] = powf(left[0], right[i]);
    }
}

// The exponents models use are products.
static void pow_b_one(const float *left, const float *right, float *output, int64_t count)
{
    float exponent = right[0];
    if (exponent == 2.0f) {
        for (int64_t i = 0; i < count; i++) {
            output[i] = left[i] * left[i];
        }
    } else if (exponent == 3.0f) {
        for (int64_t i = 0; i < count; i++) {
            output[i] = left[i] * left[i] * left[i];
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            output[i] = powf(left[i], exponent);
        }
    }
}

const eng_vec_binary_fn eng_vec_libm_binary[ENG_BINARY_COUNT][ENG_VEC_FORM_COUNT] = {
    [ENG_POW] = {pow_both, pow_b_one, pow_a_one},
};

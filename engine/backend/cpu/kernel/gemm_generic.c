// Products and convolutions in plain C on vectors of four floats, which every compiler we use maps
// to whatever the processor has. Called through the table eng_gemm_generic, which gemm_prepare.c
// hands out, from any thread; no state. It is the twin that is always there, for processors without
// AVX2 and for builds of other architectures. Minimum, maximum and rounding are spelled so that NaN
// goes the way it goes in the vector instructions.
#include "backend/cpu/kernel/gemm_kernels.h"

#include <string.h>

typedef float v4 __attribute__((vector_size(16)));
typedef int v4i __attribute__((vector_size(16)));
typedef float v4u __attribute__((vector_size(16), aligned(4), may_alias));

static inline v4 v4_load(const float *from)
{
    return *(const v4u *)(const void *)from;
}

static inline void v4_store(float *to, v4 value)
{
    *(v4u *)(void *)to = value;
}

static inline v4 v4_load_some(const float *from, uint32_t count)
{
    v4 x = {0};
    memcpy(&x, from, count * sizeof(float));
    return x;
}

static inline void v4_store_some(float *to, uint32_t count, v4 value)
{
    memcpy(to, &value, count * sizeof(float));
}

// As the vector instructions have it: the second operand when either is no number.
static inline v4 v4_choose(v4i mask, v4 left, v4 right)
{
    return (v4)((mask & (v4i)left) | (~mask & (v4i)right));
}

// Adding and subtracting 1.5 * 2^23 rounds to an integer; NaN stays.
static inline v4 v4_round(v4 value)
{
    const v4 big = {12582912.0f, 12582912.0f, 12582912.0f, 12582912.0f};
    return (value + big) - big;
}

static inline v4 v4_exp2i(v4 value)
{
    const v4 bounded = v4_choose(value == value, value, (v4){0});
    return (v4)((__builtin_convertvector(bounded, v4i) + 127) << 23);
}

#define V                         v4
#define V_LANES                   4u
#define V_ZERO()                  ((v4){0})
#define V_SET1(x)                 ((v4){x, x, x, x})
#define V_LOAD(p)                 v4_load(p)
#define V_STORE(p, x)             v4_store(p, x)
#define V_FMA(a, b, c)            ((a) * (b) + (c))
#define V_ADD(a, b)               ((a) + (b))
#define V_SUB(a, b)               ((a) - (b))
#define V_MUL(a, b)               ((a) * (b))
#define V_DIV(a, b)               ((a) / (b))
#define V_MIN(a, b)               v4_choose((a) < (b), a, b)
#define V_MAX(a, b)               v4_choose((a) > (b), a, b)
#define V_ROUND(x)                v4_round(x)
#define V_EXP2I(x)                v4_exp2i(x)
#define V_ABS(x)                  ((v4)((v4i)(x)&INT32_MAX))
#define V_SIGN_OF(x, y)           ((v4)(((v4i)(x)&INT32_MAX) | ((v4i)(y)&INT32_MIN)))
#define V_SELECT_LESS(a, b, x, y) v4_choose((a) < (b), x, y)
#define M                         uint32_t
#define M_TAIL(n)                 (n)
#define V_LOAD_M(p, m)            v4_load_some(p, m)
#define V_STORE_M(p, m, x)        v4_store_some(p, m, x)

#include "backend/cpu/kernel/gemm_template.h"
#include "backend/cpu/kernel/gemm_turned_template.h"

#include "backend/cpu/kernel/gemm_act_template.h"

#include "backend/cpu/kernel/conv_dw_template.h"
#include "backend/cpu/kernel/wino_template.h"
#include "backend/cpu/kernel/wino_grad_template.h"

GEMM_UPTO_4(GEMM_TILE_FN, 1)
GEMM_UPTO_4(GEMM_TILE_FN, 2)
GEMM_UPTO_4(GEMM_TURNED_FN, 1)
GEMM_UPTO_4(GEMM_TURNED_FN, 2)

static const eng_gemm_tile_fn tiles1[] = {GEMM_UPTO_4(GEMM_TILE_NAME, 1)};
static const eng_gemm_tile_fn tiles2[] = {GEMM_UPTO_4(GEMM_TILE_NAME, 2)};
static const eng_gemm_turned_fn turned1[] = {GEMM_UPTO_4(GEMM_TURNED_NAME, 1)};
static const eng_gemm_turned_fn turned2[] = {GEMM_UPTO_4(GEMM_TURNED_NAME, 2)};

const struct eng_gemm_kernels eng_gemm_generic = {
    .name = "generic",
    .vl = V_LANES,
    .nr = 2 * V_LANES,
    .mr_max = {0, 4, 4, 0, 0},
    .tile = {NULL, tiles1, tiles2},
    .turned = {NULL, turned1, turned2},
    .act_rows = act_rows,
    .dw_block = dw_blocks,
    .wino_in = {[2] = wino_in2, [4] = wino_in4},
    .wino_out = {[2] = wino_out2, [4] = wino_out4},
    .wino_kernels = wino_kernels4,
    .wino_kernels_back = wino_kernels_back4,
    .wino_spread = wino_spread4,
};

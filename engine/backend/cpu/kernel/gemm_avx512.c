// Products and convolutions on AVX-512: 14 x 32 tiles (28 of the 32 registers hold sums) and 4 x 64
// for few rows. Called through the table eng_gemm_avx512, which gemm_prepare.c hands out, from any
// thread; no state. The table of bfloat16 (gemm_bf16.c) has its activations from it.
//
// Here are the vectors and the tile's product, all else is the shared templates, compiled with this
// instruction set's flags (engine/CMakeLists.txt, by the file's name).
#include "backend/cpu/kernel/gemm_kernels.h"

#include <immintrin.h>

// A product written out, because the compiler otherwise moves sums from register to register, and
// with 28 of 32 in use some of them through memory.
static inline __attribute__((always_inline)) __m512 add_product(__m512 left, __m512 right,
                                                                __m512 sum)
{
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right));
    return sum;
}

#define V                         __m512
#define V_LANES                   16u
#define V_ZERO()                  _mm512_setzero_ps()
#define V_SET1(x)                 _mm512_set1_ps(x)
#define V_LOAD(p)                 _mm512_loadu_ps(p)
#define V_STORE(p, x)             _mm512_storeu_ps(p, x)
#define V_FMA(a, b, c)            _mm512_fmadd_ps(a, b, c)
#define V_DOT(a, b, c)            add_product(a, b, c)
#define V_ADD(a, b)               _mm512_add_ps(a, b)
#define V_SUB(a, b)               _mm512_sub_ps(a, b)
#define V_MUL(a, b)               _mm512_mul_ps(a, b)
#define V_DIV(a, b)               _mm512_div_ps(a, b)
#define V_MIN(a, b)               _mm512_min_ps(a, b)
#define V_MAX(a, b)               _mm512_max_ps(a, b)
#define V_ROUND(x)                _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define V_EXP2I(x)                _mm512_scalef_ps(_mm512_set1_ps(1.0f), x)
#define V_ABS(x)                  _mm512_abs_ps(x)
#define V_SIGN_OF(x, y)           _mm512_or_ps(_mm512_abs_ps(x), _mm512_and_ps(y, _mm512_set1_ps(-0.0f)))
#define V_SELECT_LESS(a, b, x, y) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x)
#define M                         __mmask16
#define M_TAIL(n)                 ((__mmask16)(0xffffu >> (16u - (n))))
#define V_LOAD_M(p, m)            _mm512_maskz_loadu_ps(m, p)
#define V_STORE_M(p, m, x)        _mm512_mask_storeu_ps(p, m, x)

#include "backend/cpu/kernel/gemm_template.h"
#include "backend/cpu/kernel/gemm_turned_template.h"

#include "backend/cpu/kernel/gemm_act_template.h"

#define DW_STRIPS // 32 registers hold the sums of three rows
#include "backend/cpu/kernel/conv_dw_template.h"
#include "backend/cpu/kernel/wino_template.h"
#include "backend/cpu/kernel/wino_grad_template.h"

GEMM_UPTO_14(GEMM_TILE_FN, 1)
GEMM_UPTO_14(GEMM_TILE_FN, 2)
GEMM_UPTO_4(GEMM_TILE_FN, 4)
GEMM_UPTO_14(GEMM_TURNED_FN, 1)
GEMM_UPTO_14(GEMM_TURNED_FN, 2)

static const eng_gemm_tile_fn tiles1[] = {GEMM_UPTO_14(GEMM_TILE_NAME, 1)};
static const eng_gemm_tile_fn tiles2[] = {GEMM_UPTO_14(GEMM_TILE_NAME, 2)};
static const eng_gemm_tile_fn tiles4[] = {GEMM_UPTO_4(GEMM_TILE_NAME, 4)};
static const eng_gemm_turned_fn turned1[] = {GEMM_UPTO_14(GEMM_TURNED_NAME, 1)};
static const eng_gemm_turned_fn turned2[] = {GEMM_UPTO_14(GEMM_TURNED_NAME, 2)};

const struct eng_gemm_kernels eng_gemm_avx512 = {
    .name = "avx512",
    .vl = V_LANES,
    .nr = 2 * V_LANES,
    .mr_max = {0, 14, 14, 0, 4},
    .tile = {NULL, tiles1, tiles2, NULL, tiles4},
    .turned = {NULL, turned1, turned2},
    .act_rows = act_rows,
    .dw_block = dw_blocks,
    .dw_strip = dw_strips,
    .wino_in = {[2] = wino_in2, [4] = wino_in4},
    .wino_out = {[2] = wino_out2, [4] = wino_out4},
    .wino_kernels = wino_kernels4,
    .wino_kernels_back = wino_kernels_back4,
    .wino_spread = wino_spread4,
};

// Products and convolutions on AVX2 with FMA: 6 x 16 tiles (12 of the 16 registers hold sums).
// Called through the table eng_gemm_avx2, which gemm_prepare.c hands out, from any thread; no
// state.
//
// Here are the vectors and the tile's product, all else is the shared templates, compiled with this
// instruction set's flags (engine/CMakeLists.txt, by the file's name). So no function of this file
// may be called where isa.c has not found AVX2.
#include "backend/cpu/kernel/gemm_kernels.h"

#include <immintrin.h>

// Lane i of a mask taken at offset 8 - n is set for i < n.
static const int32_t mask_bits[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

static inline __m256i mask_of(uint32_t count)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(mask_bits + 8 - count));
}

static inline __m256 exp2i(__m256 value)
{
    const __m256i bits = _mm256_add_epi32(_mm256_cvtps_epi32(value), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
}

// A product written out, because the compiler otherwise moves sums from register to register, and
// with 12 of 16 in use some of them through memory.
static inline __attribute__((always_inline)) __m256 add_product(__m256 left, __m256 right,
                                                                __m256 sum)
{
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(left), "x"(right));
    return sum;
}

#define V                         __m256
#define V_LANES                   8u
#define V_ZERO()                  _mm256_setzero_ps()
#define V_SET1(x)                 _mm256_set1_ps(x)
#define V_LOAD(p)                 _mm256_loadu_ps(p)
#define V_STORE(p, x)             _mm256_storeu_ps(p, x)
#define V_FMA(a, b, c)            _mm256_fmadd_ps(a, b, c)
#define V_DOT(a, b, c)            add_product(a, b, c)
#define V_ADD(a, b)               _mm256_add_ps(a, b)
#define V_SUB(a, b)               _mm256_sub_ps(a, b)
#define V_MUL(a, b)               _mm256_mul_ps(a, b)
#define V_DIV(a, b)               _mm256_div_ps(a, b)
#define V_MIN(a, b)               _mm256_min_ps(a, b)
#define V_MAX(a, b)               _mm256_max_ps(a, b)
#define V_ROUND(x)                _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define V_EXP2I(x)                exp2i(x)
#define V_ABS(x)                  _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x)
#define V_SIGN_OF(x, y)           _mm256_or_ps(V_ABS(x), _mm256_and_ps(y, _mm256_set1_ps(-0.0f)))
#define V_SELECT_LESS(a, b, x, y) _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ))
#define M                         __m256i
#define M_TAIL(n)                 mask_of(n)
#define V_LOAD_M(p, m)            _mm256_maskload_ps(p, m)
#define V_STORE_M(p, m, x)        _mm256_maskstore_ps(p, m, x)

#include "backend/cpu/kernel/gemm_template.h"
#include "backend/cpu/kernel/gemm_turned_template.h"

#include "backend/cpu/kernel/gemm_act_template.h"

#include "backend/cpu/kernel/conv_dw_template.h"
#include "backend/cpu/kernel/wino_template.h"
#include "backend/cpu/kernel/wino_grad_template.h"

GEMM_UPTO_12(GEMM_TILE_FN, 1)
GEMM_UPTO_6(GEMM_TILE_FN, 2)
GEMM_UPTO_3(GEMM_TILE_FN, 4)
GEMM_UPTO_6(GEMM_TURNED_FN, 1)
GEMM_UPTO_6(GEMM_TURNED_FN, 2)

static const eng_gemm_tile_fn tiles1[] = {GEMM_UPTO_12(GEMM_TILE_NAME, 1)};
static const eng_gemm_tile_fn tiles2[] = {GEMM_UPTO_6(GEMM_TILE_NAME, 2)};
static const eng_gemm_tile_fn tiles4[] = {GEMM_UPTO_3(GEMM_TILE_NAME, 4)};
static const eng_gemm_turned_fn turned1[] = {GEMM_UPTO_6(GEMM_TURNED_NAME, 1)};
static const eng_gemm_turned_fn turned2[] = {GEMM_UPTO_6(GEMM_TURNED_NAME, 2)};

const struct eng_gemm_kernels eng_gemm_avx2 = {
    .name = "avx2",
    .vl = V_LANES,
    .nr = 2 * V_LANES,
    .mr_max = {0, 12, 6, 0, 3},
    .tile = {NULL, tiles1, tiles2, NULL, tiles4},
    .turned = {NULL, turned1, turned2},
    .act_rows = act_rows,
    .dw_block = dw_blocks,
    .wino_in = {[2] = wino_in2, [4] = wino_in4},
    .wino_out = {[2] = wino_out2, [4] = wino_out4},
    .wino_kernels = wino_kernels4,
    .wino_kernels_back = wino_kernels_back4,
    .wino_spread = wino_spread4,
};

// Tiles of products whose first operand lies with its rows side by side: sums over pixels, which
// the gradients of weights are. Both operands are read where they lie. Included by gemm_<isa>.c
// after gemm_template.h, whose macros it uses; what is said there about sums in variables holds
// here too.
#ifndef ENG_CPU_GEMM_TURNED_TEMPLATE_H
#define ENG_CPU_GEMM_TURNED_TEMPLATE_H

#include "backend/cpu/kernel/gemm_template.h"

#define TURNED_FMA(i)                                                                              \
    if (mr > (i)) {                                                                                \
        const V x = V_SET1(a[i]);                                                                  \
        c##i##_0 = V_DOT(x, b0, c##i##_0);                                                         \
        if (nv > 1) {                                                                              \
            c##i##_1 = V_DOT(x, b1, c##i##_1);                                                     \
        }                                                                                          \
    }
#define TURNED_STEP(load)                                                                          \
    do {                                                                                           \
        const V b0 = nv > 1 ? V_LOAD(b) : load(b, 0);                                              \
        const V b1 = nv > 1 ? load(b, 1) : b0;                                                     \
        (void)b1;                                                                                  \
        GEMM_ROWS(TURNED_FMA)                                                                      \
        a += a_step;                                                                               \
        b += b_step;                                                                               \
    } while (0)
#define TURNED_WHOLE(p, v) V_LOAD((p) + (v)*V_LANES)

INLINE void turned_tile(const struct eng_gemm_turned *gemm_turned, const int mr, const int nv)
{
    const size_t a_step = gemm_turned->a_step, b_step = gemm_turned->b_step, ldc = gemm_turned->ldc;
    const M tail = M_TAIL(gemm_turned->n - (uint32_t)(nv - 1) * V_LANES);
    const bool whole = gemm_turned->n == (uint32_t)nv * V_LANES;
    const float *b = gemm_turned->b;
    GEMM_ROWS(GEMM_DECLARE)
    (void)c0_2, (void)c0_3;
    if (gemm_turned->accumulate) {
        const float *at = gemm_turned->c;
        GEMM_ROWS(GEMM_READ)
    }
    for (uint32_t segment = 0; segment < gemm_turned->segment_count; segment++) {
        const float *a = gemm_turned->a + gemm_turned->segments[segment];
        if (whole) {
            for (uint32_t k = gemm_turned->k; k > 0; k--) {
                TURNED_STEP(TURNED_WHOLE);
            }
        } else {
            for (uint32_t k = gemm_turned->k; k > 0; k--) {
                TURNED_STEP(GEMM_LOAD_AT);
            }
        }
    }
    float *at = gemm_turned->c;
    GEMM_ROWS(GEMM_WRITE)
}

#define GEMM_TURNED_FN(mr, nv)                                                                     \
    static void turned_##nv##_##mr(const struct eng_gemm_turned *tile)                             \
    {                                                                                              \
        turned_tile(tile, mr, nv);                                                                 \
    }
#define GEMM_TURNED_NAME(mr, nv) turned_##nv##_##mr,

#endif

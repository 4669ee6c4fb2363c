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

INLINE void turned_tile(const struct eng_gemm_turned *t, const int mr, const int nv)
{
    const size_t a_step = t->a_step, b_step = t->b_step, ldc = t->ldc;
    const M tail = M_TAIL(t->n - (uint32_t)(nv - 1) * V_LANES);
    const bool whole = t->n == (uint32_t)nv * V_LANES;
    const float *b = t->b;
    GEMM_ROWS(GEMM_DECLARE)
    (void)c0_2, (void)c0_3;
    if (t->accumulate) {
        const float *at = t->c;
        GEMM_ROWS(GEMM_READ)
    }
    for (uint32_t segment = 0; segment < t->segment_count; segment++) {
        const float *a = t->a + t->segments[segment];
        if (whole) {
            for (uint32_t k = t->k; k > 0; k--) {
                TURNED_STEP(TURNED_WHOLE);
            }
        } else {
            for (uint32_t k = t->k; k > 0; k--) {
                TURNED_STEP(GEMM_LOAD_AT);
            }
        }
    }
    float *at = t->c;
    GEMM_ROWS(GEMM_WRITE)
}

#define GEMM_TURNED_FN(mr, nv)                                                                     \
    static void turned_##nv##_##mr(const struct eng_gemm_turned *tile)                             \
    {                                                                                              \
        turned_tile(tile, mr, nv);                                                                 \
    }
#define GEMM_TURNED_NAME(mr, nv) turned_##nv##_##mr,

#endif

// The tile kernels' source, once for all instruction sets. Included by gemm_<isa>.c after it has
// defined:
//   V, V_LANES                 vector of floats and its length
//   V_ZERO() V_SET1(x) V_LOAD(p) V_STORE(p, x) V_FMA(a, b, c) V_ADD V_MUL V_MIN V_MAX
//   M, M_TAIL(n)               mask of the first n lanes, 1 <= n <= V_LANES
//   V_LOAD_M(p, m) V_STORE_M(p, m, x)
//   GEMM_MR1, GEMM_MR2, GEMM_MR4   most rows of a tile 1, 2 and 4 vectors wide
//
// Sums are named variables c<row>_<vector>, not an array, so that they stay in registers whatever
// the compiler makes of loops; `mr` and `nv` are constants after inlining and unused ones vanish.
// Row addresses are five pointers plus 0, 1 or 2 times lda: what the processor adds by itself.
#ifndef ENG_CPU_GEMM_TEMPLATE_H
#define ENG_CPU_GEMM_TEMPLATE_H

#include "backend/cpu/kernel/gemm_kernels.h"

#ifndef V_DOT // the product of a step; bfloat16 pairs have their own
#define V_DOT(a, b, c) V_FMA(a, b, c)
#endif
#define INLINE       static inline __attribute__((always_inline))
#define GEMM_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)

// Address of row i from the pointers p0 (rows 0-2), p1 (3-5) ... p4 (12-13).
#define GEMM_AT(i)                                                                                 \
    ((i) < 3    ? p0 + (i)*lda                                                                     \
     : (i) < 6  ? p1 + ((i)-3) * lda                                                               \
     : (i) < 9  ? p2 + ((i)-6) * lda                                                               \
     : (i) < 12 ? p3 + ((i)-9) * lda                                                               \
                : p4 + ((i)-12) * lda)

#define GEMM_DECLARE(i)                                                                            \
    V c##i##_0 = V_ZERO(), c##i##_1 = c##i##_0, c##i##_2 = c##i##_0, c##i##_3 = c##i##_0;
#define GEMM_EACH(i, expression)                                                                   \
    if (mr > (i)) {                                                                                \
        expression(i, 0);                                                                          \
        if (nv > 1) {                                                                              \
            expression(i, 1);                                                                      \
        }                                                                                          \
        if (nv > 2) {                                                                              \
            expression(i, 2);                                                                      \
            expression(i, 3);                                                                      \
        }                                                                                          \
    }
// Vector v of a row is the last one, and partial unless `whole`, when v is nv - 1.
#define GEMM_LOAD_AT(p, v)                                                                         \
    ((v) == nv - 1 ? V_LOAD_M((p) + (v)*V_LANES, tail) : V_LOAD((p) + (v)*V_LANES))
#define GEMM_STORE_AT(p, v, x)                                                                     \
    do {                                                                                           \
        if ((v) == nv - 1 && !whole) {                                                             \
            V_STORE_M((p) + (v)*V_LANES, tail, x);                                                 \
        } else {                                                                                   \
            V_STORE((p) + (v)*V_LANES, x);                                                         \
        }                                                                                          \
    } while (0)
// Rows of C are walked, and the compiler is kept from computing all their addresses ahead, which
// are more than it has registers for.
#define GEMM_NEXT(i, p, ld)                                                                        \
    if (mr > (i) + 1) {                                                                            \
        (p) += (ld);                                                                               \
        __asm__("" : "+r"(p));                                                                     \
    }

#define GEMM_READ1(i, v)     c##i##_##v = GEMM_LOAD_AT(at, v)
#define GEMM_WRITE1(i, v)    GEMM_STORE_AT(at, v, c##i##_##v)
#define GEMM_BIAS1(i, v)     c##i##_##v = bias##v
#define GEMM_RESIDUAL1(i, v) c##i##_##v = V_ADD(c##i##_##v, GEMM_LOAD_AT(r, v))
// The order of operands keeps NaN: max and min return the second when either is one.
#define GEMM_CLIP1(i, v)  c##i##_##v = V_MIN(high, V_MAX(low, c##i##_##v))
#define GEMM_LEAKY1(i, v) c##i##_##v = V_FMA(low, V_MIN(zero, c##i##_##v), V_MAX(zero, c##i##_##v))
#define GEMM_SWISH1(i, v)                                                                          \
    c##i##_##v = V_MUL(c##i##_##v, V_MIN(one, V_MAX(zero, V_FMA(low, c##i##_##v, high))))
#define GEMM_READ(i)     GEMM_EACH(i, GEMM_READ1) GEMM_NEXT(i, at, ldc)
#define GEMM_WRITE(i)    GEMM_EACH(i, GEMM_WRITE1) GEMM_NEXT(i, at, ldc)
#define GEMM_BIAS(i)     GEMM_EACH(i, GEMM_BIAS1)
#define GEMM_RESIDUAL(i) GEMM_EACH(i, GEMM_RESIDUAL1) GEMM_NEXT(i, r, ldr)
#define GEMM_CLIP(i)     GEMM_EACH(i, GEMM_CLIP1)
#define GEMM_LEAKY(i)    GEMM_EACH(i, GEMM_LEAKY1)
#define GEMM_SWISH(i)    GEMM_EACH(i, GEMM_SWISH1)

#define GEMM_FMA(i)                                                                                \
    if (mr > (i)) {                                                                                \
        const V x = V_SET1(GEMM_AT(i)[step]);                                                      \
        c##i##_0 = V_DOT(x, b0, c##i##_0);                                                         \
        if (nv > 1) {                                                                              \
            c##i##_1 = V_DOT(x, b1, c##i##_1);                                                     \
        }                                                                                          \
        if (nv > 2) {                                                                              \
            c##i##_2 = V_DOT(x, b2, c##i##_2);                                                     \
            c##i##_3 = V_DOT(x, b3, c##i##_3);                                                     \
        }                                                                                          \
    }
// Weights come from memory at twice the speed when they are asked for this early; what the
// processor fetches ahead by itself stops at each page.
#define GEMM_AHEAD_BYTES 16384
#define GEMM_AHEAD(p, two_lines)                                                                   \
    do {                                                                                           \
        __builtin_prefetch((const char *)(p) + GEMM_AHEAD_BYTES);                                  \
        if (two_lines) {                                                                           \
            __builtin_prefetch((const char *)(p) + GEMM_AHEAD_BYTES + 64);                         \
        }                                                                                          \
    } while (0)
// Rows of C and of the residual lie a line or two each, which the processor does not foresee: they
// are asked for while the sums are made.
#define GEMM_SOON(i, p, ld, writes)                                                                \
    if (mr > (i)) {                                                                                \
        __builtin_prefetch(p, writes);                                                             \
        if (nv > 1 && V_LANES == 16) {                                                             \
            __builtin_prefetch((p) + V_LANES, writes);                                             \
        }                                                                                          \
    }                                                                                              \
    GEMM_NEXT(i, p, ld)
#define GEMM_SOON_C(i)        GEMM_SOON(i, at, ldc, 1)
#define GEMM_SOON_RESIDUAL(i) GEMM_SOON(i, r, ldr, 0)
// Sums start at the bias.
#define GEMM_START(p)                                                                              \
    do {                                                                                           \
        const V bias0 = GEMM_LOAD_AT(p, 0);                                                        \
        const V bias1 = nv > 1 ? GEMM_LOAD_AT(p, 1) : bias0;                                       \
        const V bias2 = nv > 2 ? GEMM_LOAD_AT(p, 2) : bias0;                                       \
        const V bias3 = nv > 2 ? GEMM_LOAD_AT(p, 3) : bias0;                                       \
        (void)bias1, (void)bias2, (void)bias3;                                                     \
        GEMM_ROWS(GEMM_BIAS)                                                                       \
    } while (0)
// One step along K: `s` is a constant offset from the pointers.
#define GEMM_STEP(s)                                                                               \
    do {                                                                                           \
        const size_t step = (s);                                                                   \
        const V b0 = V_LOAD(b + step * width);                                                     \
        const V b1 = nv > 1 ? V_LOAD(b + step * width + V_LANES) : b0;                             \
        const V b2 = nv > 2 ? V_LOAD(next + step * width) : b0;                                    \
        const V b3 = nv > 2 ? V_LOAD(next + step * width + V_LANES) : b0;                          \
        GEMM_AHEAD(b + step * width, nv > 1 && V_LANES == 16);                                     \
        if (nv > 2) {                                                                              \
            GEMM_AHEAD(next + step * width, V_LANES == 16);                                        \
        }                                                                                          \
        (void)b1, (void)b2, (void)b3;                                                              \
        GEMM_ROWS(GEMM_FMA)                                                                        \
    } while (0)
// Keeps the compiler from replacing five pointers by fourteen.
#define GEMM_PIN()                                                                                 \
    __asm__("" : "+r"(p0), "+r"(p1), "+r"(p2), "+r"(p3), "+r"(p4), "+r"(b), "+r"(next))

INLINE void gemm_tile(const struct eng_gemm_tile *gemm_tile, const int mr, const int nv)
{
    const size_t width = (size_t)(nv > 2 ? 2 : nv) * V_LANES;
    const size_t lda = gemm_tile->lda, ldc = gemm_tile->ldc;
    const float *b = gemm_tile->b, *next = nv > 2 ? b + gemm_tile->b_next : b;
    float *c = gemm_tile->c;
    const M tail = M_TAIL(gemm_tile->n - (uint32_t)(nv - 1) * V_LANES);
    GEMM_ROWS(GEMM_DECLARE)
    if (gemm_tile->residual != NULL && gemm_tile->finish) {
        const float *r = gemm_tile->residual;
        const size_t ldr = gemm_tile->ldr;
        GEMM_ROWS(GEMM_SOON_RESIDUAL)
    }
    if (gemm_tile->far) {
        const float *at = c;
        GEMM_ROWS(GEMM_SOON_C)
    }
    if (gemm_tile->accumulate) {
        const float *at = c;
        GEMM_ROWS(GEMM_READ)
    } else if (gemm_tile->bias != NULL) {
        GEMM_START(gemm_tile->bias);
    }
    for (uint32_t segment = 0; segment < gemm_tile->segment_count; segment++) {
        const float *p0 = gemm_tile->a + gemm_tile->segments[segment];
        const float *p1 = mr > 3 ? p0 + 3 * lda : p0;
        const float *p2 = mr > 6 ? p0 + 6 * lda : p0;
        const float *p3 = mr > 9 ? p0 + 9 * lda : p0;
        const float *p4 = mr > 12 ? p0 + 12 * lda : p0;
        uint32_t k = gemm_tile->k;
        for (; k >= 4; k -= 4) {
            GEMM_PIN();
            GEMM_STEP(0);
            GEMM_STEP(1);
            GEMM_STEP(2);
            GEMM_STEP(3);
            p0 += 4, p1 += 4, p2 += 4, p3 += 4, p4 += 4;
            b += 4 * width, next += 4 * width;
        }
        for (; k > 0; k--) {
            GEMM_PIN();
            GEMM_STEP(0);
            p0++, p1++, p2++, p3++, p4++;
            b += width, next += width;
        }
    }
    if (gemm_tile->finish) {
        if (gemm_tile->residual != NULL) {
            const float *r = gemm_tile->residual;
            const size_t ldr = gemm_tile->ldr;
            GEMM_ROWS(GEMM_RESIDUAL)
        }
        const V low = V_SET1(gemm_tile->alpha), high = V_SET1(gemm_tile->beta), zero = V_ZERO(),
                one = V_SET1(1.0f);
        if (gemm_tile->act == ENG_GEMM_ACT_CLIP) {
            GEMM_ROWS(GEMM_CLIP)
        } else if (gemm_tile->act == ENG_GEMM_ACT_LEAKY) {
            GEMM_ROWS(GEMM_LEAKY)
        } else if (gemm_tile->act == ENG_GEMM_ACT_HARD_SWISH) {
            GEMM_ROWS(GEMM_SWISH)
        }
    }
    float *at = c;
    if (gemm_tile->n == (uint32_t)nv * V_LANES) {
        const bool whole = true;
        GEMM_ROWS(GEMM_WRITE)
    } else {
        const bool whole = false;
        GEMM_ROWS(GEMM_WRITE)
    }
}

// One function a (rows, vectors) pair, and lists of them by rows for the tables.
#define GEMM_TILE_FN(mr, nv)                                                                       \
    static void tile_##nv##_##mr(const struct eng_gemm_tile *tile)                                 \
    {                                                                                              \
        gemm_tile(tile, mr, nv);                                                                   \
    }
#define GEMM_TILE_NAME(mr, nv) tile_##nv##_##mr,
#define GEMM_UPTO_2(X, nv)     X(1, nv) X(2, nv)
#define GEMM_UPTO_3(X, nv)     GEMM_UPTO_2(X, nv) X(3, nv)
#define GEMM_UPTO_4(X, nv)     GEMM_UPTO_3(X, nv) X(4, nv)
#define GEMM_UPTO_6(X, nv)     GEMM_UPTO_4(X, nv) X(5, nv) X(6, nv)
#define GEMM_UPTO_7(X, nv)     GEMM_UPTO_6(X, nv) X(7, nv)
#define GEMM_UPTO_12(X, nv)    GEMM_UPTO_7(X, nv) X(8, nv) X(9, nv) X(10, nv) X(11, nv) X(12, nv)
#define GEMM_UPTO_14(X, nv)    GEMM_UPTO_12(X, nv) X(13, nv) X(14, nv)

#endif

// The depthwise kernel's source, once for all instruction sets. Included by gemm_<isa>.c after
// gemm_template.h, whose macros it uses.
//
// One vector of channels at a time, up to eight output pixels at once: each tap costs one load of
// weights and, for each pixel, one product straight from memory, which is what the processor does
// in step with its products. Taps outside the image are skipped; which ones are is the same for all
// channels, so that these branches are foreseen. Three neighbouring taps of a row are done at once
// where pixels are neighbours too: each input then is loaded once instead of three times.
#ifndef ENG_CPU_CONV_DW_TEMPLATE_H
#define ENG_CPU_CONV_DW_TEMPLATE_H

#include "backend/cpu/gemm_kernels.h"

#define DW_PIXELS(X)  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define DW_AT(i)      ((i) < 3 ? p0 + (i)*step : (i) < 6 ? p1 + ((i)-3) * step : p2 + ((i)-6) * step)
#define DW_DECLARE(i) V s##i = bias;
#define DW_PRODUCT(i) s##i = V_FMA(full ? V_LOAD(DW_AT(i)) : V_LOAD_M(DW_AT(i), mask), w, s##i)
#define DW_FMA(i)                                                                                  \
    if (pixels > (i)) {                                                                            \
        DW_PRODUCT(i);                                                                             \
    }
#define DW_FMA_INSIDE(i)                                                                           \
    if (pixels > (i) && (inside >> (i)&1u) != 0) {                                                 \
        DW_PRODUCT(i);                                                                             \
    }
// Input j of a chain of three taps: the third one of pixel j - 2, the second of j - 1, the first of
// j.
#define DW_IN(j, products)                                                                         \
    if (pixels + 1 > (j) || (pixels + 1 == (j) && !right)) {                                       \
        const V x = full ? V_LOAD(DW_AT(j)) : V_LOAD_M(DW_AT(j), mask);                            \
        products                                                                                   \
    }
#define DW_TAP(i, w)                                                                               \
    if (pixels > (i)) {                                                                            \
        s##i = V_FMA(x, w, s##i);                                                                  \
    }
#define DW_CHAIN()                                                                                 \
    do {                                                                                           \
        if (!left) {                                                                               \
            DW_IN(0, DW_TAP(0, w0))                                                                \
        }                                                                                          \
        DW_IN(1, DW_TAP(1, w0) DW_TAP(0, w1))                                                      \
        DW_IN(2, DW_TAP(2, w0) DW_TAP(1, w1) DW_TAP(0, w2))                                        \
        DW_IN(3, DW_TAP(3, w0) DW_TAP(2, w1) DW_TAP(1, w2))                                        \
        DW_IN(4, DW_TAP(4, w0) DW_TAP(3, w1) DW_TAP(2, w2))                                        \
        DW_IN(5, DW_TAP(5, w0) DW_TAP(4, w1) DW_TAP(3, w2))                                        \
        DW_IN(6, DW_TAP(6, w0) DW_TAP(5, w1) DW_TAP(4, w2))                                        \
        DW_IN(7, DW_TAP(7, w0) DW_TAP(6, w1) DW_TAP(5, w2))                                        \
        DW_IN(8, DW_TAP(7, w1) DW_TAP(6, w2))                                                      \
        DW_IN(9, DW_TAP(7, w2))                                                                    \
    } while (0)
#define DW_RESIDUAL(i)                                                                             \
    if (pixels > (i)) {                                                                            \
        s##i = V_ADD(s##i, V_LOAD_M(b->residual + c + (i)*b->out_step, mask));                     \
    }
#define DW_CLIP(i)  s##i = V_MIN(high, V_MAX(low, s##i));
#define DW_LEAKY(i) s##i = V_FMA(low, V_MIN(zero, s##i), V_MAX(zero, s##i));
#define DW_SWISH(i) s##i = V_MUL(s##i, V_MIN(one, V_MAX(zero, V_FMA(low, s##i, high))));
#define DW_STORE(i)                                                                                \
    if (pixels > (i)) {                                                                            \
        if (full) {                                                                                \
            V_STORE(b->out + c + (i)*b->out_step, s##i);                                           \
        } else {                                                                                   \
            V_STORE_M(b->out + c + (i)*b->out_step, mask, s##i);                                   \
        }                                                                                          \
    }

// The vector of channels at c.
INLINE void dw_vector(const struct eng_dw_block *b, size_t c, M mask, const int pixels,
                      const bool full)
{
    const size_t step = b->step;
    V bias = V_ZERO();
    if (b->bias != NULL) {
        bias = full ? V_LOAD(b->bias + c) : V_LOAD_M(b->bias + c, mask);
    }
    DW_PIXELS(DW_DECLARE)
    for (uint32_t t = 0; b->chained && t < b->tap_count; t += 3) {
        const float *p0 = b->in[t] + c, *p1 = p0 + 3 * step, *p2 = p0 + 6 * step;
        const V w0 = full ? V_LOAD(b->weights[t] + c) : V_LOAD_M(b->weights[t] + c, mask);
        const V w1 = full ? V_LOAD(b->weights[t + 1] + c) : V_LOAD_M(b->weights[t + 1] + c, mask);
        const V w2 = full ? V_LOAD(b->weights[t + 2] + c) : V_LOAD_M(b->weights[t + 2] + c, mask);
        const bool left = b->inside[t] != b->all, right = b->inside[t + 2] != b->all;
        DW_CHAIN();
    }
    for (uint32_t t = b->chained ? b->tap_count : 0; t < b->tap_count; t++) {
        const float *p0 = b->in[t] + c, *p1 = p0 + 3 * step, *p2 = p0 + 6 * step;
        const V w = full ? V_LOAD(b->weights[t] + c) : V_LOAD_M(b->weights[t] + c, mask);
        const uint32_t inside = b->inside[t];
        if (inside == b->all) {
            DW_PIXELS(DW_FMA)
        } else {
            DW_PIXELS(DW_FMA_INSIDE)
        }
    }
    if (b->residual != NULL) {
        DW_PIXELS(DW_RESIDUAL)
    }
    const V low = V_SET1(b->alpha), high = V_SET1(b->beta), zero = V_ZERO(), one = V_SET1(1.0f);
    if (b->act == ENG_GEMM_ACT_CLIP) {
        DW_PIXELS(DW_CLIP)
    } else if (b->act == ENG_GEMM_ACT_LEAKY) {
        DW_PIXELS(DW_LEAKY)
    } else if (b->act == ENG_GEMM_ACT_HARD_SWISH) {
        DW_PIXELS(DW_SWISH)
    }
    DW_PIXELS(DW_STORE)
}

#define DW_FN(pixels, unused)                                                                      \
    static void dw_block_##pixels(const struct eng_dw_block *b)                                    \
    {                                                                                              \
        size_t c = 0;                                                                              \
        for (; c + V_LANES <= b->channels; c += V_LANES) {                                         \
            dw_vector(b, c, M_TAIL(V_LANES), pixels, true);                                        \
        }                                                                                          \
        if (c < b->channels) {                                                                     \
            dw_vector(b, c, M_TAIL((uint32_t)(b->channels - c)), pixels, false);                   \
        }                                                                                          \
    }
#define DW_NAME(pixels, unused) dw_block_##pixels,
GEMM_UPTO_7(DW_FN, 0)
DW_FN(8, 0)
static const eng_dw_block_fn dw_blocks[] = {GEMM_UPTO_7(DW_NAME, 0) DW_NAME(8, 0)};

#endif

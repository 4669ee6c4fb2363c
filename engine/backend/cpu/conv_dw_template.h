// The depthwise kernel's source, once for all instruction sets. Included by gemm_<isa>.c after
// gemm_template.h, whose macros it uses.
//
// One vector of channels at a time, eight output pixels at once: each tap costs one load of weights
// and, for each pixel, one product straight from memory, which is what the processor does in step
// with its products.
#ifndef ENG_CPU_CONV_DW_TEMPLATE_H
#define ENG_CPU_CONV_DW_TEMPLATE_H

#include "backend/cpu/gemm_kernels.h"

#define DW_PIXELS(X)  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define DW_AT(i)      ((i) < 3 ? p0 + (i)*step : (i) < 6 ? p1 + ((i)-3) * step : p2 + ((i)-6) * step)
#define DW_DECLARE(i) V s##i = bias;
#define DW_FMA(i)                                                                                  \
    if (pixels > (i)) {                                                                            \
        s##i = V_FMA(full ? V_LOAD(DW_AT(i)) : V_LOAD_M(DW_AT(i), mask), w, s##i);                 \
    }
#define DW_RESIDUAL(i)                                                                             \
    if (pixels > (i)) {                                                                            \
        const float *from = run->residual + at + (i)*run->channels;                                \
        s##i = V_ADD(s##i, full ? V_LOAD(from) : V_LOAD_M(from, mask));                            \
    }
#define DW_CLIP(i)  s##i = V_MIN(high, V_MAX(low, s##i));
#define DW_LEAKY(i) s##i = V_FMA(low, V_MIN(zero, s##i), V_MAX(zero, s##i));
#define DW_SWISH(i) s##i = V_MUL(s##i, V_MIN(one, V_MAX(zero, V_FMA(low, s##i, high))));
#define DW_STORE(i)                                                                                \
    if (pixels > (i)) {                                                                            \
        float *to = run->out + at + (i)*run->channels;                                             \
        if (full) {                                                                                \
            V_STORE(to, s##i);                                                                     \
        } else {                                                                                   \
            V_STORE_M(to, mask, s##i);                                                             \
        }                                                                                          \
    }

// Pixels [x, x + pixels) of the vector of channels at c.
INLINE void dw_block(const struct eng_dw_run *run, size_t x, size_t c, const int pixels,
                     const bool full, M mask)
{
    const size_t step = run->step, at = x * run->channels + c;
    V bias = V_ZERO();
    if (run->bias != NULL) {
        bias = full ? V_LOAD(run->bias + c) : V_LOAD_M(run->bias + c, mask);
    }
    DW_PIXELS(DW_DECLARE)
    for (uint32_t y = 0; y < run->kh; y++) {
        const float *p0 = run->in[y] + x * step + c;
        const float *p1 = p0 + 3 * step, *p2 = p0 + 6 * step;
        const float *weights = run->weights[y] + c;
        for (uint32_t t = 0; t < run->kw; t++) {
            const V w = full ? V_LOAD(weights) : V_LOAD_M(weights, mask);
            DW_PIXELS(DW_FMA)
            p0 += run->tap, p1 += run->tap, p2 += run->tap;
            weights += run->channels;
        }
    }
    if (run->residual != NULL) {
        DW_PIXELS(DW_RESIDUAL)
    }
    const V low = V_SET1(run->alpha), high = V_SET1(run->beta), zero = V_ZERO(), one = V_SET1(1.0f);
    if (run->act == ENG_GEMM_ACT_CLIP) {
        DW_PIXELS(DW_CLIP)
    } else if (run->act == ENG_GEMM_ACT_LEAKY) {
        DW_PIXELS(DW_LEAKY)
    } else if (run->act == ENG_GEMM_ACT_HARD_SWISH) {
        DW_PIXELS(DW_SWISH)
    }
    DW_PIXELS(DW_STORE)
}

INLINE void dw_channels(const struct eng_dw_run *run, size_t c, const bool full, M mask)
{
    size_t x = 0;
    for (; x + 8 <= run->count; x += 8) {
        dw_block(run, x, c, 8, full, mask);
    }
    if (x + 4 <= run->count) {
        dw_block(run, x, c, 4, full, mask);
        x += 4;
    }
    for (; x < run->count; x++) {
        dw_block(run, x, c, 1, full, mask);
    }
}

static void dw_run(const struct eng_dw_run *run)
{
    size_t c = 0;
    for (; c + V_LANES <= run->channels; c += V_LANES) {
        dw_channels(run, c, true, M_TAIL(V_LANES));
    }
    if (c < run->channels) {
        dw_channels(run, c, false, M_TAIL((uint32_t)(run->channels - c)));
    }
}

#endif

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

#include "backend/cpu/kernel/gemm_kernels.h"

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
// j. Sums are those of `set`: s, or t and u of the two rows below it.
#define DW_IN(j, products)                                                                         \
    if (pixels + 1 > (j) || (pixels + 1 == (j) && !right)) {                                       \
        const V x = full ? V_LOAD(DW_AT(j)) : V_LOAD_M(DW_AT(j), mask);                            \
        products                                                                                   \
    }
#define DW_TAP(set, i, w)                                                                          \
    if (pixels > (i)) {                                                                            \
        set##i = V_FMA(x, w, set##i);                                                              \
    }
#define DW_THREE(set, j, k, l) DW_TAP(set, j, w0) DW_TAP(set, k, w1) DW_TAP(set, l, w2)
#define DW_CHAIN(set)                                                                              \
    do {                                                                                           \
        if (!left) {                                                                               \
            DW_IN(0, DW_TAP(set, 0, w0))                                                           \
        }                                                                                          \
        DW_IN(1, DW_TAP(set, 1, w0) DW_TAP(set, 0, w1))                                            \
        DW_IN(2, DW_THREE(set, 2, 1, 0))                                                           \
        DW_IN(3, DW_THREE(set, 3, 2, 1))                                                           \
        DW_IN(4, DW_THREE(set, 4, 3, 2))                                                           \
        DW_IN(5, DW_THREE(set, 5, 4, 3))                                                           \
        DW_IN(6, DW_THREE(set, 6, 5, 4))                                                           \
        DW_IN(7, DW_THREE(set, 7, 6, 5))                                                           \
        DW_IN(8, DW_TAP(set, 7, w1) DW_TAP(set, 6, w2))                                            \
        DW_IN(9, DW_TAP(set, 7, w2))                                                               \
    } while (0)
#define DW_RESIDUAL(i)                                                                             \
    if (pixels > (i)) {                                                                            \
        s##i = V_ADD(s##i, V_LOAD_M(residual + (i)*out_step, mask));                               \
    }
#define DW_CLIP(i)  s##i = V_MIN(high, V_MAX(low, s##i));
#define DW_LEAKY(i) s##i = V_FMA(low, V_MIN(zero, s##i), V_MAX(zero, s##i));
#define DW_SWISH(i) s##i = V_MUL(s##i, V_MIN(one, V_MAX(zero, V_FMA(low, s##i, high))));
#define DW_STORE(i)                                                                                \
    if (pixels > (i)) {                                                                            \
        if (full) {                                                                                \
            V_STORE(out + (i)*out_step, s##i);                                                     \
        } else {                                                                                   \
            V_STORE_M(out + (i)*out_step, mask, s##i);                                             \
        }                                                                                          \
    }
// Residual, activation and store of the sums s.
#define DW_FINISH(act, alpha, beta)                                                                \
    do {                                                                                           \
        if (residual != NULL) {                                                                    \
            DW_PIXELS(DW_RESIDUAL)                                                                 \
        }                                                                                          \
        const V low = V_SET1(alpha), high = V_SET1(beta), zero = V_ZERO(), one = V_SET1(1.0f);     \
        if ((act) == ENG_GEMM_ACT_CLIP) {                                                          \
            DW_PIXELS(DW_CLIP)                                                                     \
        } else if ((act) == ENG_GEMM_ACT_LEAKY) {                                                  \
            DW_PIXELS(DW_LEAKY)                                                                    \
        } else if ((act) == ENG_GEMM_ACT_HARD_SWISH) {                                             \
            DW_PIXELS(DW_SWISH)                                                                    \
        }                                                                                          \
        DW_PIXELS(DW_STORE)                                                                        \
    } while (0)

// The vector of channels at c.
INLINE void dw_vector(const struct eng_dw_block *block, size_t channel, M mask, const int pixels,
                      const bool full)
{
    const size_t step = block->step;
    V bias = V_ZERO();
    if (block->bias != NULL) {
        bias = full ? V_LOAD(block->bias + channel) : V_LOAD_M(block->bias + channel, mask);
    }
    DW_PIXELS(DW_DECLARE)
    for (uint32_t t = 0; block->chained && t < block->tap_count; t += 3) {
        const float *p0 = block->in[t] + channel, *p1 = p0 + 3 * step, *p2 = p0 + 6 * step;
        const V w0 = full ? V_LOAD(block->weights[t] + channel)
                          : V_LOAD_M(block->weights[t] + channel, mask);
        const V w1 = full ? V_LOAD(block->weights[t + 1] + channel)
                          : V_LOAD_M(block->weights[t + 1] + channel, mask);
        const V w2 = full ? V_LOAD(block->weights[t + 2] + channel)
                          : V_LOAD_M(block->weights[t + 2] + channel, mask);
        const bool left = block->inside[t] != block->all,
                   right = block->inside[t + 2] != block->all;
        DW_CHAIN(s);
    }
    for (uint32_t t = block->chained ? block->tap_count : 0; t < block->tap_count; t++) {
        const float *p0 = block->in[t] + channel, *p1 = p0 + 3 * step, *p2 = p0 + 6 * step;
        const V w = full ? V_LOAD(block->weights[t] + channel)
                         : V_LOAD_M(block->weights[t] + channel, mask);
        const uint32_t inside = block->inside[t];
        if (inside == block->all) {
            DW_PIXELS(DW_FMA)
        } else {
            DW_PIXELS(DW_FMA_INSIDE)
        }
    }
    const float *residual = block->residual != NULL ? block->residual + channel : NULL;
    const size_t out_step = block->out_step;
    float *out = block->out + channel;
    DW_FINISH(block->act, block->alpha, block->beta);
}

#ifdef DW_STRIPS
#define DW_BELOW(i)  V t##i = bias, u##i = bias;
#define DW_ROTATE(i) s##i = t##i, t##i = u##i, u##i = bias;
#define DW_WEIGHTS(row)                                                                            \
    const float *w = strip->weights + (size_t)(row)*3 * strip->channels + channel;                 \
    const V w0 = full ? V_LOAD(w) : V_LOAD_M(w, mask);                                             \
    w += strip->channels;                                                                          \
    const V w1 = full ? V_LOAD(w) : V_LOAD_M(w, mask);                                             \
    w += strip->channels;                                                                          \
    const V w2 = full ? V_LOAD(w) : V_LOAD_M(w, mask);

// The vector of channels at c, down the rows: each input row is read once, for the three rows of
// output it is part of. When row i comes, s holds the sums of output row i - 2, t and u those of
// the next.
INLINE void dw_strip_vector(const struct eng_dw_strip *strip, size_t channel, M mask,
                            const int pixels, const bool full)
{
    const size_t step = strip->step, out_step = strip->out_step;
    const bool left = strip->left, right = strip->right;
    V bias = V_ZERO();
    if (strip->bias != NULL) {
        bias = full ? V_LOAD(strip->bias + channel) : V_LOAD_M(strip->bias + channel, mask);
    }
    DW_PIXELS(DW_DECLARE)
    DW_PIXELS(DW_BELOW)
    for (uint32_t i = 0; i < strip->rows + 2; i++) {
        if (strip->in[i] != NULL) {
            const float *p0 = strip->in[i] + channel, *p1 = p0 + 3 * step, *p2 = p0 + 6 * step;
            if (i >= 2) {
                DW_WEIGHTS(2)
                DW_CHAIN(s);
            }
            if (i >= 1 && i <= strip->rows) {
                DW_WEIGHTS(1)
                DW_CHAIN(t);
            }
            if (i < strip->rows) {
                DW_WEIGHTS(0)
                DW_CHAIN(u);
            }
        }
        if (i >= 2) {
            const size_t at = (i - 2) * strip->out_row + channel;
            const float *residual = strip->residual != NULL ? strip->residual + at : NULL;
            float *out = strip->out + at;
            DW_FINISH(strip->act, strip->alpha, strip->beta);
        }
        DW_PIXELS(DW_ROTATE)
    }
}

#endif

#define DW_EACH_VECTOR(fn, pixels)                                                                 \
    size_t c = 0;                                                                                  \
    for (; c + V_LANES <= b->channels; c += V_LANES) {                                             \
        fn(b, c, M_TAIL(V_LANES), pixels, true);                                                   \
    }                                                                                              \
    if (c < b->channels) {                                                                         \
        fn(b, c, M_TAIL((uint32_t)(b->channels - c)), pixels, false);                              \
    }
#define DW_BLOCK(pixels, unused)                                                                   \
    static void dw_block_##pixels(const struct eng_dw_block *b)                                    \
    {                                                                                              \
        DW_EACH_VECTOR(dw_vector, pixels)                                                          \
    }
#define DW_STRIP(pixels, unused)                                                                   \
    static void dw_strip_##pixels(const struct eng_dw_strip *b)                                    \
    {                                                                                              \
        DW_EACH_VECTOR(dw_strip_vector, pixels)                                                    \
    }
#define DW_BLOCK_NAME(pixels, unused) dw_block_##pixels,
#define DW_STRIP_NAME(pixels, unused) dw_strip_##pixels,
GEMM_UPTO_7(DW_BLOCK, 0)
DW_BLOCK(8, 0)
static const eng_dw_block_fn dw_blocks[] = {GEMM_UPTO_7(DW_BLOCK_NAME, 0) DW_BLOCK_NAME(8, 0)};
#ifdef DW_STRIPS
GEMM_UPTO_7(DW_STRIP, 0)
DW_STRIP(8, 0)
static const eng_dw_strip_fn dw_strips[] = {GEMM_UPTO_7(DW_STRIP_NAME, 0) DW_STRIP_NAME(8, 0)};
#endif

#endif

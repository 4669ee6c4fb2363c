// What training needs of Winograd's F(4 x 4) beyond wino_template.h: kernels that change from run
// to run are transformed a vector at a time, and the gradient of the kernels goes the same way
// back: with y = A'[(G g G') * (B' x B)]A, dg = G'[(A dy A') * (B' x B)]G. Included by gemm_<isa>.c
// after wino_template.h.
#ifndef ENG_CPU_WINO_GRAD_TEMPLATE_H
#define ENG_CPU_WINO_GRAD_TEMPLATE_H

#include "backend/cpu/kernel/wino_template.h"

// G times three taps.
INLINE void wino_kernel_line(const V kernel[3], V *to, size_t step)
{
    const V third = V_SET1(1.0f / 3), two_thirds = V_SET1(-2.0f / 3), sixth = V_SET1(1.0f / 6);
    const V even_a = V_SUB(V_MUL(two_thirds, kernel[0]), V_MUL(third, kernel[2]));
    const V odd_a = V_MUL(V_SET1(WINO_SQRT_HALF * 2 / 3), kernel[1]);
    const V even_b = V_FMA(third, kernel[2], V_MUL(sixth, kernel[0]));
    const V odd_b = V_MUL(V_SET1(WINO_SQRT_2 / 6), kernel[1]);
    to[0] = kernel[0];
    to[step] = V_SUB(even_a, odd_a);
    to[2 * step] = V_ADD(even_a, odd_a);
    to[3 * step] = V_ADD(even_b, odd_b);
    to[4 * step] = V_SUB(even_b, odd_b);
    to[5 * step] = kernel[2];
}

// G' times six sums.
INLINE void wino_kernel_back(const V kernels[6], V *to, size_t step)
{
    const V third = V_SET1(1.0f / 3), two_thirds = V_SET1(2.0f / 3), sixth = V_SET1(1.0f / 6);
    const V sum_a = V_ADD(kernels[1], kernels[2]), sum_b = V_ADD(kernels[3], kernels[4]);
    const V odd_a = V_SUB(kernels[2], kernels[1]), odd_b = V_SUB(kernels[3], kernels[4]);
    to[0] = V_ADD(kernels[0], V_SUB(V_MUL(sixth, sum_b), V_MUL(two_thirds, sum_a)));
    to[step] = V_FMA(V_SET1(WINO_SQRT_HALF * 2 / 3), odd_a, V_MUL(V_SET1(WINO_SQRT_2 / 6), odd_b));
    to[2 * step] = V_FMA(third, V_SUB(sum_b, sum_a), kernels[5]);
}

// A times four pixels.
INLINE void wino_spread_line(const V tile[4], V *to, size_t step)
{
    const V a = V_SET1(WINO_SQRT_HALF), b = V_SET1(WINO_SQRT_2);
    const V half = V_SET1(0.5f), two = V_SET1(2.0f);
    const V even_a = V_FMA(half, tile[2], tile[0]), odd_a = V_MUL(a, V_FMA(half, tile[3], tile[1]));
    const V even_b = V_FMA(two, tile[2], tile[0]), odd_b = V_MUL(b, V_FMA(two, tile[3], tile[1]));
    to[0] = tile[0];
    to[step] = V_ADD(even_a, odd_a);
    to[2 * step] = V_SUB(even_a, odd_a);
    to[3 * step] = V_ADD(even_b, odd_b);
    to[4 * step] = V_SUB(even_b, odd_b);
    to[5 * step] = tile[3];
}

// A vector of kernels, taps [9][V_LANES], to 36 elements `plane` floats apart.
static void wino_kernels4(const float *taps, float *out, size_t plane)
{
    V half[18], line[6];
#pragma GCC unroll 3
    for (size_t x = 0; x < 3; x++) {
        const V g[3] = {V_LOAD(taps + x * V_LANES), V_LOAD(taps + (3 + x) * V_LANES),
                        V_LOAD(taps + (6 + x) * V_LANES)};
        wino_kernel_line(g, half + x, 3);
    }
#pragma GCC unroll 6
    for (size_t y = 0; y < 6; y++) {
        wino_kernel_line(half + y * 3, line, 1);
#pragma GCC unroll 6
        for (size_t x = 0; x < 6; x++) {
            V_STORE(out + (y * 6 + x) * plane, line[x]);
        }
    }
}

static void wino_kernels_back4(const float *in, size_t plane, float *taps)
{
    V half[18], line[6];
#pragma GCC unroll 6
    for (size_t x = 0; x < 6; x++) {
#pragma GCC unroll 6
        for (size_t y = 0; y < 6; y++) {
            line[y] = V_LOAD(in + (y * 6 + x) * plane);
        }
        wino_kernel_back(line, half + x, 6);
    }
#pragma GCC unroll 3
    for (size_t y = 0; y < 3; y++) {
        wino_kernel_back(half + y * 6, line, 1);
#pragma GCC unroll 3
        for (size_t x = 0; x < 3; x++) {
            V_STORE(taps + (y * 3 + x) * V_LANES, line[x]);
        }
    }
}

INLINE void wino_spread_vector(const struct eng_wino_spread *wino_spread, size_t channel,
                               bool whole)
{
    const size_t left = wino_spread->channels - channel;
    const M mask = M_TAIL((uint32_t)(left < V_LANES ? left : V_LANES));
    V half[24], line[6];
#pragma GCC unroll 4
    for (size_t x = 0; x < 4; x++) {
        V column[4];
#pragma GCC unroll 4
        for (size_t y = 0; y < 4; y++) {
            const bool inside = whole || (y < wino_spread->rows && x < wino_spread->cols);
            column[y] = inside ? V_LOAD_M(wino_spread->in + y * wino_spread->row +
                                              x * wino_spread->pixel + channel,
                                          mask)
                               : V_ZERO();
        }
        wino_spread_line(column, half + x, 4);
    }
#pragma GCC unroll 6
    for (size_t y = 0; y < 6; y++) {
        wino_spread_line(half + y * 4, line, 1);
#pragma GCC unroll 6
        for (size_t x = 0; x < 6; x++) {
            V_STORE(wino_spread->out + (y * 6 + x) * wino_spread->plane + channel, line[x]);
        }
    }
}

static void wino_spread4(const struct eng_wino_spread *wino_spread)
{
    for (size_t c = 0; c < wino_spread->channels; c += V_LANES) {
        if (wino_spread->rows == 4 && wino_spread->cols == 4) {
            wino_spread_vector(wino_spread, c, true);
        } else {
            wino_spread_vector(wino_spread, c, false);
        }
    }
}

#endif

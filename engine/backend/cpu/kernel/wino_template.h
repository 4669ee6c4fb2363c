// Winograd's transforms for 3 x 3 kernels, once for all instruction sets: F(2 x 2) with the points
// 0, 1, -1 and F(4 x 4) with 0, +-sqrt(1/2), +-sqrt(2), both with infinity. With these points the
// squares are 1/2 and 2, and errors are a quarter of those of the usual 0, +-1, +-2. Included by
// gemm_<isa>.c after gemm_template.h, whose macros it uses.
//
// With WINO_IN_ONLY it is the input transforms alone, which store through WINO_PUT.
//
// One vector of channels at a time: rows of a tile are transformed into a small square on the
// stack, then its columns.
#ifndef ENG_CPU_WINO_TEMPLATE_H
#define ENG_CPU_WINO_TEMPLATE_H

#include "backend/cpu/kernel/gemm_kernels.h"

#ifndef WINO_PUT // channel c of the line of an element; bfloat16 has its own
#define WINO_PUT(line, c, x) V_STORE((line) + (c), x)
#endif

#define WINO_SQRT_HALF 0.70710678118654752f
#define WINO_SQRT_2    1.41421356237309505f

// Input transforms: element i of the line of `step` vectors at `to`.
INLINE void wino_in_line4(const V d[6], V *to, size_t step)
{
    const V half = V_SET1(0.5f), two = V_SET1(2.0f), five = V_SET1(2.5f);
    const V a = V_SET1(WINO_SQRT_HALF), b = V_SET1(WINO_SQRT_2);
    const V even_a = V_SUB(d[4], V_MUL(two, d[2])), odd_a = V_SUB(d[3], V_MUL(two, d[1]));
    const V even_b = V_SUB(d[4], V_MUL(half, d[2])), odd_b = V_SUB(d[3], V_MUL(half, d[1]));
    const V minus_a = V_MUL(a, odd_a), minus_b = V_MUL(b, odd_b);
    to[0] = V_SUB(V_ADD(d[0], d[4]), V_MUL(five, d[2]));
    to[step] = V_ADD(even_a, minus_a);
    to[2 * step] = V_SUB(even_a, minus_a);
    to[3 * step] = V_ADD(even_b, minus_b);
    to[4 * step] = V_SUB(even_b, minus_b);
    to[5 * step] = V_SUB(V_ADD(d[1], d[5]), V_MUL(five, d[3]));
}

INLINE void wino_in_line2(const V d[4], V *to, size_t step)
{
    to[0] = V_SUB(d[2], d[0]);
    to[step] = V_ADD(d[2], d[1]);
    to[2 * step] = V_SUB(d[2], d[1]);
    to[3 * step] = V_SUB(d[3], d[1]);
}

INLINE void wino_in(const struct eng_wino_tile *tile, const size_t t)
{
    V square[36], line[6];
    for (size_t c = 0; c < tile->channels; c += V_LANES) {
        const size_t left = tile->channels - c;
        const M mask = M_TAIL((uint32_t)(left < V_LANES ? left : V_LANES));
#pragma GCC unroll 6
        for (size_t y = 0; y < t; y++) {
            const float *from = tile->in + y * tile->row + c;
#pragma GCC unroll 6
            for (size_t x = 0; x < t; x++) {
                line[x] = V_LOAD_M(from + x * tile->pixel, mask);
            }
            if (t == 6) {
                wino_in_line4(line, square + y * t, 1);
            } else {
                wino_in_line2(line, square + y * t, 1);
            }
        }
#pragma GCC unroll 6
        for (size_t x = 0; x < t; x++) {
            V column[6];
#pragma GCC unroll 6
            for (size_t y = 0; y < t; y++) {
                column[y] = square[y * t + x];
            }
            if (t == 6) {
                wino_in_line4(column, line, 1);
            } else {
                wino_in_line2(column, line, 1);
            }
#pragma GCC unroll 6
            for (size_t y = 0; y < t; y++) {
                WINO_PUT(tile->out + (y * t + x) * tile->plane, c, line[y]);
            }
        }
    }
}

static void wino_in2(const struct eng_wino_tile *tile)
{
    wino_in(tile, 4);
}

static void wino_in4(const struct eng_wino_tile *tile)
{
    wino_in(tile, 6);
}

#ifndef WINO_IN_ONLY
// Output transforms: t products to t - 2 values.
INLINE void wino_out_line4(const V m[6], V *to, size_t step)
{
    const V a = V_SET1(WINO_SQRT_HALF), b = V_SET1(WINO_SQRT_2);
    const V half = V_SET1(0.5f), two = V_SET1(2.0f);
    const V sum_a = V_ADD(m[1], m[2]), sum_b = V_ADD(m[3], m[4]);
    const V odd_a = V_MUL(a, V_SUB(m[1], m[2])), odd_b = V_MUL(b, V_SUB(m[3], m[4]));
    to[0] = V_ADD(m[0], V_ADD(sum_a, sum_b));
    to[step] = V_ADD(odd_a, odd_b);
    to[2 * step] = V_FMA(half, sum_a, V_MUL(two, sum_b));
    to[3 * step] = V_ADD(V_FMA(half, odd_a, V_MUL(two, odd_b)), m[5]);
}

INLINE void wino_out_line2(const V m[4], V *to, size_t step)
{
    to[0] = V_ADD(m[0], V_ADD(m[1], m[2]));
    to[step] = V_ADD(V_SUB(m[1], m[2]), m[3]);
}

INLINE V wino_finish(const struct eng_wino_store *tile, V x, V bias, const float *residual, M mask)
{
    const V low = V_SET1(tile->alpha), high = V_SET1(tile->beta), zero = V_ZERO();
    x = V_ADD(x, bias);
    if (residual != NULL) {
        x = V_ADD(x, V_LOAD_M(residual, mask));
    }
    if (tile->act == ENG_GEMM_ACT_CLIP) {
        x = V_MIN(high, V_MAX(low, x));
    } else if (tile->act == ENG_GEMM_ACT_LEAKY) {
        x = V_FMA(low, V_MIN(zero, x), V_MAX(zero, x));
    } else if (tile->act == ENG_GEMM_ACT_HARD_SWISH) {
        x = V_MUL(x, V_MIN(V_SET1(1.0f), V_MAX(zero, V_FMA(low, x, high))));
    }
    return x;
}

INLINE void wino_out(const struct eng_wino_store *tile, const size_t t)
{
    const size_t u = t - 2;
    V square[24], line[6];
    for (size_t c = 0; c < tile->channels; c += V_LANES) {
        const size_t left = tile->channels - c;
        const M mask = M_TAIL((uint32_t)(left < V_LANES ? left : V_LANES));
        const V bias = tile->bias != NULL ? V_LOAD_M(tile->bias + c, mask) : V_ZERO();
#pragma GCC unroll 6
        for (size_t x = 0; x < t; x++) {
#pragma GCC unroll 6
            for (size_t y = 0; y < t; y++) {
                line[y] = V_LOAD(tile->in + (y * t + x) * tile->plane + c);
            }
            if (t == 6) {
                wino_out_line4(line, square + x, 6);
            } else {
                wino_out_line2(line, square + x, 4);
            }
        }
        for (size_t y = 0; y < tile->rows; y++) {
            V values[4];
            if (t == 6) {
                wino_out_line4(square + y * 6, values, 1);
            } else {
                wino_out_line2(square + y * 4, values, 1);
            }
            const size_t at = y * tile->row + c;
#pragma GCC unroll 4
            for (size_t x = 0; x < u; x++) {
                if (x < tile->cols) {
                    const float *residual =
                        tile->residual != NULL ? tile->residual + at + x * tile->pixel : NULL;
                    V_STORE_M(tile->out + at + x * tile->pixel, mask,
                              wino_finish(tile, values[x], bias, residual, mask));
                }
            }
        }
    }
}

static void wino_out2(const struct eng_wino_store *tile)
{
    wino_out(tile, 4);
}

static void wino_out4(const struct eng_wino_store *tile)
{
    wino_out(tile, 6);
}
#endif

#endif

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
INLINE void wino_in_line4(const V tile[6], V *to, size_t step)
{
    const V half = V_SET1(0.5f), two = V_SET1(2.0f), five = V_SET1(2.5f);
    const V a = V_SET1(WINO_SQRT_HALF), b = V_SET1(WINO_SQRT_2);
    const V even_a = V_SUB(tile[4], V_MUL(two, tile[2])),
            odd_a = V_SUB(tile[3], V_MUL(two, tile[1]));
    const V even_b = V_SUB(tile[4], V_MUL(half, tile[2])),
            odd_b = V_SUB(tile[3], V_MUL(half, tile[1]));
    const V minus_a = V_MUL(a, odd_a), minus_b = V_MUL(b, odd_b);
    to[0] = V_SUB(V_ADD(tile[0], tile[4]), V_MUL(five, tile[2]));
    to[step] = V_ADD(even_a, minus_a);
    to[2 * step] = V_SUB(even_a, minus_a);
    to[3 * step] = V_ADD(even_b, minus_b);
    to[4 * step] = V_SUB(even_b, minus_b);
    to[5 * step] = V_SUB(V_ADD(tile[1], tile[5]), V_MUL(five, tile[3]));
}

INLINE void wino_in_line2(const V tile[4], V *to, size_t step)
{
    to[0] = V_SUB(tile[2], tile[0]);
    to[step] = V_ADD(tile[2], tile[1]);
    to[2 * step] = V_SUB(tile[2], tile[1]);
    to[3 * step] = V_SUB(tile[3], tile[1]);
}

INLINE void wino_in(const struct eng_wino_tile *tile, const size_t step)
{
    V square[36], line[6];
    for (size_t c = 0; c < tile->channels; c += V_LANES) {
        const size_t left = tile->channels - c;
        const M mask = M_TAIL((uint32_t)(left < V_LANES ? left : V_LANES));
#pragma GCC unroll 6
        for (size_t y = 0; y < step; y++) {
            const float *from = tile->in + y * tile->row + c;
#pragma GCC unroll 6
            for (size_t x = 0; x < step; x++) {
                line[x] = V_LOAD_M(from + x * tile->pixel, mask);
            }
            if (step == 6) {
                wino_in_line4(line, square + y * step, 1);
            } else {
                wino_in_line2(line, square + y * step, 1);
            }
        }
#pragma GCC unroll 6
        for (size_t x = 0; x < step; x++) {
            V column[6];
#pragma GCC unroll 6
            for (size_t y = 0; y < step; y++) {
                column[y] = square[y * step + x];
            }
            if (step == 6) {
                wino_in_line4(column, line, 1);
            } else {
                wino_in_line2(column, line, 1);
            }
#pragma GCC unroll 6
            for (size_t y = 0; y < step; y++) {
                WINO_PUT(tile->out + (y * step + x) * tile->plane, c, line[y]);
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
INLINE void wino_out_line4(const V products[6], V *to, size_t step)
{
    const V a = V_SET1(WINO_SQRT_HALF), b = V_SET1(WINO_SQRT_2);
    const V half = V_SET1(0.5f), two = V_SET1(2.0f);
    const V sum_a = V_ADD(products[1], products[2]), sum_b = V_ADD(products[3], products[4]);
    const V odd_a = V_MUL(a, V_SUB(products[1], products[2])),
            odd_b = V_MUL(b, V_SUB(products[3], products[4]));
    to[0] = V_ADD(products[0], V_ADD(sum_a, sum_b));
    to[step] = V_ADD(odd_a, odd_b);
    to[2 * step] = V_FMA(half, sum_a, V_MUL(two, sum_b));
    to[3 * step] = V_ADD(V_FMA(half, odd_a, V_MUL(two, odd_b)), products[5]);
}

INLINE void wino_out_line2(const V products[4], V *to, size_t step)
{
    to[0] = V_ADD(products[0], V_ADD(products[1], products[2]));
    to[step] = V_ADD(V_SUB(products[1], products[2]), products[3]);
}

INLINE V wino_finish(const struct eng_wino_store *tile, V value, V bias, const float *residual,
                     M mask)
{
    const V low = V_SET1(tile->alpha), high = V_SET1(tile->beta), zero = V_ZERO();
    value = V_ADD(value, bias);
    if (residual != NULL) {
        value = V_ADD(value, V_LOAD_M(residual, mask));
    }
    if (tile->act == ENG_GEMM_ACT_CLIP) {
        value = V_MIN(high, V_MAX(low, value));
    } else if (tile->act == ENG_GEMM_ACT_LEAKY) {
        value = V_FMA(low, V_MIN(zero, value), V_MAX(zero, value));
    } else if (tile->act == ENG_GEMM_ACT_HARD_SWISH) {
        value = V_MUL(value, V_MIN(V_SET1(1.0f), V_MAX(zero, V_FMA(low, value, high))));
    }
    return value;
}

INLINE void wino_out(const struct eng_wino_store *tile, const size_t step)
{
    const size_t u = step - 2;
    V square[24], line[6];
    for (size_t c = 0; c < tile->channels; c += V_LANES) {
        const size_t left = tile->channels - c;
        const M mask = M_TAIL((uint32_t)(left < V_LANES ? left : V_LANES));
        const V bias = tile->bias != NULL ? V_LOAD_M(tile->bias + c, mask) : V_ZERO();
#pragma GCC unroll 6
        for (size_t x = 0; x < step; x++) {
#pragma GCC unroll 6
            for (size_t y = 0; y < step; y++) {
                line[y] = V_LOAD(tile->in + (y * step + x) * tile->plane + c);
            }
            if (step == 6) {
                wino_out_line4(line, square + x, 6);
            } else {
                wino_out_line2(line, square + x, 4);
            }
        }
        for (size_t y = 0; y < tile->rows; y++) {
            V values[4];
            if (step == 6) {
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

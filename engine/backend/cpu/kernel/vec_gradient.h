// Gradients: what one window of a pool passes back to its input, and the sums of products a tap of
// a depthwise convolution takes. Included by vec_template.h, once for each instruction set.
#ifndef ENG_CPU_VEC_GRADIENT_H
#define ENG_CPU_VEC_GRADIENT_H

#include "backend/cpu/kernel/vec_kernels.h"

static inline vf pool_grad_load(const float *from, int64_t count)
{
    return count == VW ? vf_load(from) : vf_load_n(from, count);
}

static inline void pool_grad_add(float *to, vf value, int64_t count)
{
    if (count == VW) {
        vf_store(to, vf_load(to) + value);
    } else {
        vf_store_n(to, vf_load_n(to, count) + value, count);
    }
}

// Which position holds the maximum, as whole numbers from 0: the first of equals, the last NaN.
static inline vf pool_grad_find(const struct eng_vec_window *vec_window, int64_t channel,
                                int64_t count)
{
    vf most = pool_grad_load(vec_window->x + channel, count), place = vf_set(0.0f);
    float number = 0.0f;
    for (int64_t d = 0; d < vec_window->planes; d++) {
        for (int64_t r = 0; r < vec_window->rows; r++) {
            const float *x =
                vec_window->x + d * vec_window->plane_stride + r * vec_window->row_stride + channel;
            for (int64_t k = 0; k < vec_window->columns;
                 k++, x += vec_window->column_stride, number += 1.0f) {
                const vf value = pool_grad_load(x, count);
                const vm more = vm_or(vf_lt(most, value), vf_unordered(value, value));
                most = vf_pick(more, value, most);
                place = vf_pick(more, vf_set(number), place);
            }
        }
    }
    return place;
}

static void pool_max_grad(const struct eng_vec_window *vec_window, const float *dy, float *dx,
                          int64_t channels)
{
    if (vec_window->planes * vec_window->rows * vec_window->columns == 0) {
        return;
    }
    for (int64_t c = 0; c < channels; c += VW) {
        const int64_t count = channels - c < VW ? channels - c : VW;
        const vf place = pool_grad_find(vec_window, c, count),
                 value = pool_grad_load(dy + c, count);
        float number = 0.0f;
        for (int64_t d = 0; d < vec_window->planes; d++) {
            for (int64_t r = 0; r < vec_window->rows; r++) {
                float *to = dx + d * vec_window->plane_stride + r * vec_window->row_stride + c;
                for (int64_t k = 0; k < vec_window->columns;
                     k++, to += vec_window->column_stride, number += 1.0f) {
                    const vm mine = vf_eq(place, vf_set(number));
                    pool_grad_add(to, vf_pick(mine, value, vf_set(0.0f)), count);
                }
            }
        }
    }
}

static void pool_average_grad(const struct eng_vec_window *vec_window, const float *dy, float *dx,
                              int64_t channels)
{
    for (int64_t c = 0; c < channels; c += VW) {
        const int64_t count = channels - c < VW ? channels - c : VW;
        const vf value = pool_grad_load(dy + c, count) * vf_set(vec_window->factor);
        for (int64_t d = 0; d < vec_window->planes; d++) {
            for (int64_t r = 0; r < vec_window->rows; r++) {
                float *to = dx + d * vec_window->plane_stride + r * vec_window->row_stride + c;
                for (int64_t k = 0; k < vec_window->columns; k++, to += vec_window->column_stride) {
                    pool_grad_add(to, value, count);
                }
            }
        }
    }
}

// Sums of `vectors` vectors of channels side by side, so that several are under way.
static inline __attribute__((always_inline)) void dot_vectors(const float *left, int64_t a_step,
                                                              const float *right, int64_t b_step,
                                                              int64_t count, float *sums,
                                                              const int vectors)
{
    vf sum[4];
    VEC_UNROLL
    for (int v = 0; v < vectors; v++) {
        sum[v] = vf_load(sums + v * VW);
    }
    for (int64_t i = 0; i < count; i++, left += a_step, right += b_step) {
        VEC_UNROLL
        for (int v = 0; v < vectors; v++) {
            sum[v] = vf_fma(vf_load(left + v * VW), vf_load(right + v * VW), sum[v]);
        }
    }
    VEC_UNROLL
    for (int v = 0; v < vectors; v++) {
        vf_store(sums + v * VW, sum[v]);
    }
}

static void dot_columns(const float *one, int64_t a_step, const float *right, int64_t b_step,
                        int64_t count, float *sums, int64_t columns)
{
    int64_t c = 0;
    for (; c + 4 * VW <= columns; c += 4 * VW) {
        dot_vectors(one + c, a_step, right + c, b_step, count, sums + c, 4);
    }
    for (; c + VW <= columns; c += VW) {
        dot_vectors(one + c, a_step, right + c, b_step, count, sums + c, 1);
    }
    if (c < columns) {
        const int64_t left = columns - c;
        vf sum = vf_load_n(sums + c, left);
        for (int64_t i = 0; i < count; i++) {
            sum = vf_fma(vf_load_n(one + i * a_step + c, left),
                         vf_load_n(right + i * b_step + c, left), sum);
        }
        vf_store_n(sums + c, sum, left);
    }
}

#endif

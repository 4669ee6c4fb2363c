// Gradients of pools: what one window passes back to its input. Included by vec_template.h, once
// for each instruction set.
#ifndef ENG_CPU_VEC_UNPOOL_H
#define ENG_CPU_VEC_UNPOOL_H

#include "backend/cpu/vec_kernels.h"

static inline vf pool_grad_load(const float *p, int64_t count)
{
    return count == VW ? vf_load(p) : vf_load_n(p, count);
}

static inline void pool_grad_add(float *p, vf x, int64_t count)
{
    if (count == VW) {
        vf_store(p, vf_load(p) + x);
    } else {
        vf_store_n(p, vf_load_n(p, count) + x, count);
    }
}

// Which position holds the maximum, as whole numbers from 0: the first of equals, the last NaN.
static inline vf pool_grad_find(const struct eng_vec_window *w, int64_t c, int64_t count)
{
    vf most = pool_grad_load(w->x + c, count), place = vf_set(0.0f);
    float number = 0.0f;
    for (int64_t d = 0; d < w->planes; d++) {
        for (int64_t r = 0; r < w->rows; r++) {
            const float *x = w->x + d * w->plane_stride + r * w->row_stride + c;
            for (int64_t k = 0; k < w->columns; k++, x += w->column_stride, number += 1.0f) {
                const vf value = pool_grad_load(x, count);
                const vm more = vm_or(vf_lt(most, value), vf_unordered(value, value));
                most = vf_pick(more, value, most);
                place = vf_pick(more, vf_set(number), place);
            }
        }
    }
    return place;
}

static void pool_max_grad(const struct eng_vec_window *w, const float *dy, float *dx,
                          int64_t channels)
{
    if (w->planes * w->rows * w->columns == 0) {
        return;
    }
    for (int64_t c = 0; c < channels; c += VW) {
        const int64_t count = channels - c < VW ? channels - c : VW;
        const vf place = pool_grad_find(w, c, count), value = pool_grad_load(dy + c, count);
        float number = 0.0f;
        for (int64_t d = 0; d < w->planes; d++) {
            for (int64_t r = 0; r < w->rows; r++) {
                float *to = dx + d * w->plane_stride + r * w->row_stride + c;
                for (int64_t k = 0; k < w->columns; k++, to += w->column_stride, number += 1.0f) {
                    const vm mine = vf_eq(place, vf_set(number));
                    pool_grad_add(to, vf_pick(mine, value, vf_set(0.0f)), count);
                }
            }
        }
    }
}

static void pool_average_grad(const struct eng_vec_window *w, const float *dy, float *dx,
                              int64_t channels)
{
    for (int64_t c = 0; c < channels; c += VW) {
        const int64_t count = channels - c < VW ? channels - c : VW;
        const vf value = pool_grad_load(dy + c, count) * vf_set(w->factor);
        for (int64_t d = 0; d < w->planes; d++) {
            for (int64_t r = 0; r < w->rows; r++) {
                float *to = dx + d * w->plane_stride + r * w->row_stride + c;
                for (int64_t k = 0; k < w->columns; k++, to += w->column_stride) {
                    pool_grad_add(to, value, count);
                }
            }
        }
    }
}

#endif

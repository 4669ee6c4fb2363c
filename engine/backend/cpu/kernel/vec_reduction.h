// Reductions, softmax, norms and pools, written once over the vector layer. Part of vec_template.h.
#ifndef ENG_CPU_VEC_REDUCTION_H
#define ENG_CPU_VEC_REDUCTION_H

#include "backend/cpu/kernel/vec_kernels.h"
#include "backend/cpu/kernel/vec_math.h"
#include "backend/cpu/kernel/vec_unroll.h"

// Long sums are cut, so that their rounding error grows with the number of parts only.
#define VEC_PART_ROWS 256

// A row into one value. Four accumulators hide the latency of the step; the last elements go one by
// one. `step` adds the vector x to the accumulator s; `scalar` the element e to the value total.
#define VEC_REDUCE_ROW(name, start, step, fold, scalar)                                            \
    static float reduce_row_##name(const float *px, int64_t n)                                     \
    {                                                                                              \
        float total = start;                                                                       \
        int64_t i = 0;                                                                             \
        if (n >= VW) {                                                                             \
            vf acc[4] = {vf_set(start), vf_set(start), vf_set(start), vf_set(start)};              \
            for (; i + 4 * VW <= n; i += 4 * VW) {                                                 \
                VEC_UNROLL                                                                         \
                for (int j = 0; j < 4; j++) {                                                      \
                    vf x = vf_load(px + i + j * VW);                                               \
                    vf s = acc[j];                                                                 \
                    acc[j] = step;                                                                 \
                }                                                                                  \
            }                                                                                      \
            for (; i + VW <= n; i += VW) {                                                         \
                vf x = vf_load(px + i);                                                            \
                vf s = acc[0];                                                                     \
                acc[0] = step;                                                                     \
            }                                                                                      \
            total = fold;                                                                          \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            float e = px[i];                                                                       \
            total = scalar;                                                                        \
        }                                                                                          \
        return total;                                                                              \
    }

static inline float vec_product(vf value)
{
    float lanes[VW];
    float product = 1.0f;
    vf_store(lanes, value);
    for (int i = 0; i < VW; i++) {
        product *= lanes[i];
    }
    return product;
}

#define VEC_FOLD_SUM vf_sum((acc[0] + acc[1]) + (acc[2] + acc[3]))
VEC_REDUCE_ROW(sum, 0.0f, s + x, VEC_FOLD_SUM, total + e)
VEC_REDUCE_ROW(sum_square, 0.0f, vf_fma(x, x, s), VEC_FOLD_SUM, total + e * e)
VEC_REDUCE_ROW(l1, 0.0f, s + vf_abs(x), VEC_FOLD_SUM, total + fabsf(e))
VEC_REDUCE_ROW(prod, 1.0f, s *x, vec_product((acc[0] * acc[1]) * (acc[2] * acc[3])), total *e)
// Largest and smallest without regard to NaN, and how many NaN there are.
VEC_REDUCE_ROW(max_number, -INFINITY, vf_max(x, s),
               vf_hmax(vf_max(vf_max(acc[0], acc[1]), vf_max(acc[2], acc[3]))),
               (e > total ? e : total))
VEC_REDUCE_ROW(min_number, INFINITY, vf_min(x, s),
               vf_hmin(vf_min(vf_min(acc[0], acc[1]), vf_min(acc[2], acc[3]))),
               (e < total ? e : total))
VEC_REDUCE_ROW(nan_count, 0.0f, s + vf_pick(vf_unordered(x, x), vf_set(1.0f), vf_set(0.0f)),
               VEC_FOLD_SUM, total + (e != e ? 1.0f : 0.0f))

static float reduce_row_max(const float *input, int64_t count)
{
    return reduce_row_nan_count(input, count) > 0.0f ? NAN : reduce_row_max_number(input, count);
}

static float reduce_row_min(const float *input, int64_t count)
{
    return reduce_row_nan_count(input, count) > 0.0f ? NAN : reduce_row_min_number(input, count);
}

// output = e^(input - shift); returns the sum.
static float exp_row(const float *input, float *output, int64_t count, float shift)
{
    vf m = vf_set(shift);
    vf sum0 = vf_set(0.0f);
    vf sum1 = vf_set(0.0f);
    int64_t i = 0;
    for (; i + 2 * VW <= count; i += 2 * VW) {
        vf a = vm_exp(vf_load(input + i) - m);
        vf b = vm_exp(vf_load(input + i + VW) - m);
        sum0 = sum0 + a;
        sum1 = sum1 + b;
        vf_store(output + i, a);
        vf_store(output + i + VW, b);
    }
    for (; i < count; i += VW) {
        int64_t left = count - i < VW ? count - i : VW;
        float lanes[VW];
        vf_store(lanes, vf_set(-INFINITY));
        vf_store_n(lanes, vf_load_n(input + i, left) - m, left);
        vf a = vm_exp(vf_load(lanes)); // 0 beyond the row
        sum0 = sum0 + a;
        vf_store_n(output + i, a, left);
    }
    return vf_sum(sum0 + sum1);
}

// The same without storing.
static float exp_sum_row(const float *input, int64_t count, float shift)
{
    vf m = vf_set(shift);
    vf sum = vf_set(0.0f);
    float total = 0.0f;
    int64_t i = 0;
    for (; i + VW <= count; i += VW) {
        sum = sum + vm_exp(vf_load(input + i) - m);
    }
    for (; i < count; i++) {
        total += expf(input[i] - shift);
    }
    return total + vf_sum(sum);
}

static float reduce_row_log_sum_exp(const float *input, int64_t count)
{
    float m = reduce_row_max(input, count);
    if (isinf(m)) {
        return m;
    }
    return m + logf(exp_sum_row(input, count, m));
}

// Columns of a strided matrix, four vectors of columns at a time. `part` reduces VEC_PART_ROWS
// rows.
#define VEC_REDUCE_COLUMNS(name, start, step, join)                                                \
    static inline void columns_##name(const float *px, int64_t n, int64_t stride, int vectors,     \
                                      vf *totals)                                                  \
    {                                                                                              \
        VEC_UNROLL                                                                                 \
        for (int j = 0; j < vectors; j++) {                                                        \
            totals[j] = vf_set(start);                                                             \
        }                                                                                          \
        for (int64_t r = 0; r < n; r += VEC_PART_ROWS) {                                           \
            int64_t end = r + VEC_PART_ROWS < n ? r + VEC_PART_ROWS : n;                           \
            vf acc[4] = {vf_set(start), vf_set(start), vf_set(start), vf_set(start)};              \
            for (int64_t k = r; k < end; k++) {                                                    \
                VEC_UNROLL                                                                         \
                for (int j = 0; j < vectors; j++) {                                                \
                    vf x = vf_load(px + k * stride + j * VW);                                      \
                    vf s = acc[j];                                                                 \
                    acc[j] = step;                                                                 \
                }                                                                                  \
            }                                                                                      \
            VEC_UNROLL                                                                             \
            for (int j = 0; j < vectors; j++) {                                                    \
                vf a = totals[j];                                                                  \
                vf b = acc[j];                                                                     \
                totals[j] = join;                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void reduce_columns_##name(const float *px, int64_t n, int64_t stride, float *y,        \
                                      int64_t columns)                                             \
    {                                                                                              \
        vf totals[4];                                                                              \
        int64_t c = 0;                                                                             \
        for (; c + 4 * VW <= columns; c += 4 * VW) {                                               \
            columns_##name(px + c, n, stride, 4, totals);                                          \
            VEC_UNROLL                                                                             \
            for (int j = 0; j < 4; j++) {                                                          \
                vf_store(y + c + j * VW, totals[j]);                                               \
            }                                                                                      \
        }                                                                                          \
        for (; c + VW <= columns; c += VW) {                                                       \
            columns_##name(px + c, n, stride, 1, totals);                                          \
            vf_store(y + c, totals[0]);                                                            \
        }                                                                                          \
        if (c < columns) {                                                                         \
            vf a = vf_set(start);                                                                  \
            for (int64_t r = 0; r < n; r += VEC_PART_ROWS) {                                       \
                int64_t end = r + VEC_PART_ROWS < n ? r + VEC_PART_ROWS : n;                       \
                vf s = vf_set(start);                                                              \
                for (int64_t k = r; k < end; k++) {                                                \
                    vf x = vf_load_n(px + k * stride + c, columns - c);                            \
                    s = step;                                                                      \
                }                                                                                  \
                vf b = s;                                                                          \
                a = join;                                                                          \
            }                                                                                      \
            vf_store_n(y + c, a, columns - c);                                                     \
        }                                                                                          \
    }

VEC_REDUCE_COLUMNS(sum, 0.0f, s + x, a + b)
VEC_REDUCE_COLUMNS(sum_square, 0.0f, vf_fma(x, x, s), a + b)
VEC_REDUCE_COLUMNS(l1, 0.0f, s + vf_abs(x), a + b)
VEC_REDUCE_COLUMNS(prod, 1.0f, s *x, a *b)
VEC_REDUCE_COLUMNS(max, -INFINITY, vm_maximum(x, s), vm_maximum(a, b))
VEC_REDUCE_COLUMNS(min, INFINITY, vm_minimum(x, s), vm_minimum(a, b))

static int64_t find_row(const float *input, int64_t count, float wanted, bool last)
{
    bool nan = wanted != wanted;
    if (last) {
        for (int64_t i = count - 1; i > 0; i--) {
            if (input[i] == wanted || (nan && input[i] != input[i])) {
                return i;
            }
        }
        return 0;
    }
    int64_t i = 0;
    vf w = vf_set(wanted);
    for (; !nan && i + VW <= count; i += VW) {
        vf found = vf_pick(vf_eq(vf_load(input + i), w), vf_set(1.0f), vf_set(0.0f));
        if (vf_sum(found) > 0.0f) {
            break;
        }
    }
    for (; i < count - 1; i++) {
        if (input[i] == wanted || (nan && input[i] != input[i])) {
            break;
        }
    }
    return i;
}

static int64_t arg_row(const float *input, int64_t count, bool is_max, bool last)
{
    return find_row(input, count,
                    is_max ? reduce_row_max(input, count) : reduce_row_min(input, count), last);
}

static void scale_row(const float *input, float *output, int64_t count, float factor)
{
    vf f = vf_set(factor);
    int64_t i = 0;
    for (; i + VW <= count; i += VW) {
        vf_store(output + i, vf_load(input + i) * f);
    }
    if (i < count) {
        vf_store_n(output + i, vf_load_n(input + i, count - i) * f, count - i);
    }
}

static void softmax_row(const float *input, float *output, int64_t count, bool log)
{
    float m = reduce_row_max_number(input, count);
    if (!log) {
        float sum = exp_row(input, output, count, m);
        scale_row(output, output, count, 1.0f / sum);
        return;
    }
    vf high = vf_set(m);
    vf low = vf_set(logf(exp_sum_row(input, count, m)));
    int64_t i = 0;
    for (; i + VW <= count; i += VW) {
        vf_store(output + i, (vf_load(input + i) - high) - low);
    }
    if (i < count) {
        vf_store_n(output + i, (vf_load_n(input + i, count - i) - high) - low, count - i);
    }
}

// VW columns or fewer.
static void softmax_some(const float *input, float *output, int64_t total, int64_t stride,
                         int64_t count, bool log)
{
    vf m = vf_set(-INFINITY);
    vf sum = vf_set(0.0f);
    for (int64_t r = 0; r < total; r++) {
        m = vf_max(vf_load_n(input + r * stride, count), m);
    }
    for (int64_t r = 0; r < total; r++) {
        vf e = vf_load_n(input + r * stride, count) - m;
        vf p = vm_exp(e);
        sum = sum + p;
        if (log) {
            p = e;
        }
        vf_store_n(output + r * stride, p, count);
    }
    vf shift = vf_set(0.0f);
    vf factor = vf_set(1.0f);
    if (log) {
        shift = vm_log(sum);
    } else {
        factor = factor / sum;
    }
    for (int64_t r = 0; r < total; r++) {
        vf_store_n(output + r * stride, (vf_load_n(output + r * stride, count) - shift) * factor,
                   count);
    }
}

static void softmax_columns(const float *input, float *output, int64_t count, int64_t stride,
                            int64_t columns, bool log)
{
    for (int64_t c = 0; c < columns; c += VW) {
        softmax_some(input + c, output + c, count, stride, columns - c < VW ? columns - c : VW,
                     log);
    }
}

// The mean first, then the squares of what is left of it: no cancellation.
static void norm_stats(const float *input, int64_t count, bool rms, float epsilon, float *mean,
                       float *inverse)
{
    float m = rms ? 0.0f : reduce_row_sum(input, count) / (float)count;
    vf center = vf_set(m);
    vf sum[4] = {vf_set(0.0f), vf_set(0.0f), vf_set(0.0f), vf_set(0.0f)};
    int64_t i = 0;
    for (; i + 4 * VW <= count; i += 4 * VW) {
        VEC_UNROLL
        for (int j = 0; j < 4; j++) {
            vf d = vf_load(input + i + j * VW) - center;
            sum[j] = vf_fma(d, d, sum[j]);
        }
    }
    for (; i + VW <= count; i += VW) {
        vf d = vf_load(input + i) - center;
        sum[0] = vf_fma(d, d, sum[0]);
    }
    float squares = vf_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; i < count; i++) {
        squares += (input[i] - m) * (input[i] - m);
    }
    *mean = m;
    *inverse = 1.0f / sqrtf(squares / (float)count + epsilon);
}

static void norm_apply(const float *input, float *output, int64_t count, float mean, float inverse,
                       const float *scale, const float *bias, int64_t step)
{
    vf m = vf_set(mean);
    vf f = vf_set(inverse);
    vf s = vf_set(scale[0]);
    vf b = vf_set(bias[0]);
    int64_t i = 0;
    for (; i + VW <= count; i += VW) {
        if (step != 0) {
            s = vf_load(scale + i);
            b = vf_load(bias + i);
        }
        vf_store(output + i, vf_fma((vf_load(input + i) - m) * f, s, b));
    }
    if (i < count) {
        if (step != 0) {
            s = vf_load_n(scale + i, count - i);
            b = vf_load_n(bias + i, count - i);
        }
        vf_store_n(output + i, vf_fma((vf_load_n(input + i, count - i) - m) * f, s, b), count - i);
    }
}

// One window, up to four vectors of channels at a time. The last vector overlaps the one before it;
// fewer channels than a vector go masked.
#define VEC_POOL(name, start, step, finish)                                                        \
    static inline __attribute__((always_inline)) void window_##name(                               \
        const struct eng_vec_window *w, int64_t c, int vectors, int64_t last, int64_t columns,     \
        float *y)                                                                                  \
    {                                                                                              \
        const vf factor = vf_set(w->factor);                                                       \
        vf acc[4] = {vf_set(start), vf_set(start), vf_set(start), vf_set(start)};                  \
        (void)factor;                                                                              \
        for (int64_t d = 0; d < w->planes; d++) {                                                  \
            for (int64_t r = 0; r < w->rows; r++) {                                                \
                const float *px = w->x + d * w->plane_stride + r * w->row_stride;                  \
                VEC_UNROLL for (int64_t k = 0; k < columns; k++, px += w->column_stride)           \
                {                                                                                  \
                    VEC_UNROLL                                                                     \
                    for (int j = 0; j < vectors; j++) {                                            \
                        vf x = vf_load(px + (j + 1 < vectors ? c + j * VW : last));                \
                        vf s = acc[j];                                                             \
                        acc[j] = step;                                                             \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        VEC_UNROLL                                                                                 \
        for (int j = 0; j < vectors; j++) {                                                        \
            vf s = acc[j];                                                                         \
            vf_store(y + (j + 1 < vectors ? c + j * VW : last), finish);                           \
        }                                                                                          \
    }                                                                                              \
    static void window_some_##name(const struct eng_vec_window *w, int64_t count, float *y)        \
    {                                                                                              \
        const vf factor = vf_set(w->factor);                                                       \
        vf s = vf_set(start);                                                                      \
        (void)factor;                                                                              \
        for (int64_t d = 0; d < w->planes; d++) {                                                  \
            for (int64_t r = 0; r < w->rows; r++) {                                                \
                const float *px = w->x + d * w->plane_stride + r * w->row_stride;                  \
                for (int64_t k = 0; k < w->columns; k++, px += w->column_stride) {                 \
                    vf x = vf_load_n(px, count);                                                   \
                    s = step;                                                                      \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        vf_store_n(y, finish, count);                                                              \
    }                                                                                              \
    static inline __attribute__((always_inline)) void channels_##name(                             \
        const struct eng_vec_window *w, float *y, int64_t channels, int64_t columns)               \
    {                                                                                              \
        int64_t last = channels - VW;                                                              \
        for (int64_t c = 0; c < channels; c += 4 * VW) {                                           \
            int64_t end = c + 3 * VW < last ? c + 3 * VW : last;                                   \
            if (c + 2 * VW < last) {                                                               \
                window_##name(w, c, 4, end, columns, y);                                           \
            } else if (c + VW < last) {                                                            \
                window_##name(w, c, 3, last, columns, y);                                          \
            } else if (c < last) {                                                                 \
                window_##name(w, c, 2, last, columns, y);                                          \
            } else {                                                                               \
                window_##name(w, c, 1, last, columns, y);                                          \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void pool_##name(const struct eng_vec_window *w, float *y, int64_t channels)            \
    {                                                                                              \
        if (channels < VW) {                                                                       \
            window_some_##name(w, channels, y);                                                    \
        } else if (w->columns == 3) {                                                              \
            channels_##name(w, y, channels, 3);                                                    \
        } else {                                                                                   \
            channels_##name(w, y, channels, w->columns);                                           \
        }                                                                                          \
    }

VEC_POOL(max, -INFINITY, vm_maximum(x, s), s)
VEC_POOL(average, 0.0f, s + x, s *factor)

#endif

// The kernels one instruction set offers for everything that is not a product: functions on plain
// pointers, without decisions per element. Prepared steps (vec_*.c) call them on ranges.
//
// Sources and destinations may be the same memory where the comment says so; otherwise they do not
// overlap. No alignment is required.
#ifndef ENG_CPU_VEC_KERNELS_H
#define ENG_CPU_VEC_KERNELS_H

#include "program/program.h"

#include <stdbool.h>
#include <stdint.h>

// output[i] = f(input[i]). May work in place.
typedef void (*eng_vec_unary_fn)(const float *input, float *output, int64_t count, float alpha,
                                 float beta);
// output[i] = f(left[i], right[i]); the forms with one value in place of an operand read element 0
// of it. May work in place on either operand.
typedef void (*eng_vec_binary_fn)(const float *left, const float *right, float *output,
                                  int64_t count);
// The same with bytes 0 or 1 as the result.
typedef void (*eng_vec_compare_fn)(const float *left, const float *right, uint8_t *output,
                                   int64_t count);
enum eng_vec_form { ENG_VEC_BOTH, ENG_VEC_B_ONE, ENG_VEC_A_ONE, ENG_VEC_FORM_COUNT };

// Converts count elements.
typedef void (*eng_vec_cast_fn)(const void *input, void *output, int64_t count);

typedef float (*eng_vec_reduce_row_fn)(const float *input, int64_t count);
// output[c] = reduction of input[r * stride + c] over r in 0..count-1.
typedef void (*eng_vec_reduce_columns_fn)(const float *input, int64_t count, int64_t stride,
                                          float *output, int64_t columns);

// One window of a pool: `planes` x `rows` x `columns` positions, each a run of channels.
struct eng_vec_window {
    const float *x;
    int64_t planes, rows, columns;
    int64_t plane_stride, row_stride, column_stride;
    float factor; // average: 1 / divisor
};
typedef void (*eng_vec_pool_fn)(const struct eng_vec_window *window, float *output,
                                int64_t channels);
// Adds dy, the gradient of the window's result, to dx, which lies as the window's x does.
typedef void (*eng_vec_pool_grad_fn)(const struct eng_vec_window *window, const float *dy,
                                     float *dx, int64_t channels);

#define ENG_VEC_ATTENTION_ROWS_MAX 96 // of one block

// Rows of attention: everything about one (batch, head).
struct eng_vec_attention {
    const float *q, *mask; // first row of the block; mask NULL: none
    float *out;
    const float *k_panels, *v_panels; // packed by attention_pack
    float *scores;                    // rows x score_stride
    int64_t rows, t, d, e;
    int64_t q_stride, out_stride; // of rows; elements are contiguous
    int64_t mask_row_stride, mask_stride;
    int64_t score_stride; // t rounded up to a panel
    float scale;
};

// Rows put together from pieces of several source rows, element by element: what channel shuffles
// of concatenated branches come down to. Each vector of an output row is made by a few operations,
// each of which takes `count` elements side by side and puts element index[lane] into each lane
// whose index is not negative.
#define ENG_VEC_LANES_MAX         16
#define ENG_VEC_WEAVE_SOURCES_MAX 16
struct eng_vec_weave_op {
    int32_t index[ENG_VEC_LANES_MAX];
    int32_t source; // which of the sources
    int32_t offset; // of the first element within its row
    int32_t count;
};
struct eng_vec_weave {
    const struct eng_vec_weave_op *ops;
    const uint32_t *first; // operation of each vector of a row, and one past the last
    int64_t columns;       // of an output row
    int64_t strides[ENG_VEC_WEAVE_SOURCES_MAX]; // of the sources' rows
    int64_t out_stride;
};

struct eng_vec_kernels {
    const char *const *names;                // by eng_atomic: "softmax.avx512"
    eng_vec_unary_fn unary[ENG_UNARY_COUNT]; // NULL: not of this backend
    eng_vec_binary_fn binary[ENG_BINARY_COUNT][ENG_VEC_FORM_COUNT]; // NULL: likewise
    eng_vec_compare_fn compare[ENG_BINARY_COUNT][ENG_VEC_FORM_COUNT];
    // y = cond ? a : b; a_step, b_step 0: one value. In place on a or b.
    void (*select)(const uint8_t *cond, const float *left, const float *right, float *output,
                   int64_t count, int64_t a_step, int64_t b_step);
    void (*fill)(float *output, float value, int64_t count);
    eng_vec_cast_fn f16_to_f32, f32_to_f16, bf16_to_f32, f32_to_bf16;

    eng_vec_reduce_row_fn reduce_row[ENG_REDUCE_COUNT]; // sums and products unscaled
    eng_vec_reduce_columns_fn reduce_columns[ENG_REDUCE_COUNT];
    // First (or last) position of the largest (or smallest) element.
    int64_t (*arg_row)(const float *input, int64_t count, bool is_max, bool last);
    void (*softmax_row)(const float *input, float *output, int64_t count,
                        bool log); // in place allowed
    void (*softmax_columns)(const float *input, float *output, int64_t count, int64_t stride,
                            int64_t columns, bool log);
    // Mean and 1 / sqrt(variance + epsilon) of a row; rms: mean 0.
    void (*norm_stats)(const float *input, int64_t count, bool rms, float epsilon, float *mean,
                       float *inverse);
    // y = (x - mean) * inverse * scale[i] + bias[i]; steps 0: one value for the row. In place.
    void (*norm_apply)(const float *input, float *output, int64_t count, float mean, float inverse,
                       const float *scale, const float *bias, int64_t step);
    eng_vec_pool_fn pool_max, pool_average;
    eng_vec_pool_grad_fn pool_max_grad, pool_average_grad;
    // sums[c] += a[i * a_step + c] * b[i * b_step + c], over i of 0..n-1.
    void (*dot_columns)(const float *left, int64_t a_step, const float *right, int64_t b_step,
                        int64_t count, float *sums, int64_t columns);

    int64_t panel; // columns of a packed panel of attention_pack
    // Packs a [rows, columns] matrix into panels of `panel` columns, zero-filled; each panel holds
    // its rows one after the other. transposed: the source is read as [columns, rows].
    void (*attention_pack)(const float *input, int64_t stride, int64_t rows, int64_t columns,
                           bool transposed, float *out);
    void (*attention_rows)(const struct eng_vec_attention *attention);
    // exp(s * scale + mask - the largest of them) in place; returns 1 / their sum.
    float (*attention_softmax)(float *scores, int64_t count, float scale, const float *mask,
                               int64_t mask_stride);

    // dst[c * dst_stride + r] = src[r * src_stride + c], 4-byte elements.
    void (*transpose)(const float *src, int64_t src_stride, float *dst, int64_t dst_stride,
                      int64_t rows, int64_t columns);
    int64_t lanes; // of a vector
    // NULL: not worth it here.
    void (*weave)(const struct eng_vec_weave *plan, const float *const *sources, float *output,
                  int64_t rows);
    void (*zip2)(const float *left, const float *right, float *dst, int64_t count);
    void (*zip3)(const float *left, const float *right, const float *addend, float *dst,
                 int64_t count);
    void (*unzip2)(const float *src, float *even, int64_t count); // even elements of 2n
};

extern const struct eng_vec_kernels eng_vec_generic;
#if defined(__x86_64__)
extern const struct eng_vec_kernels eng_vec_avx2, eng_vec_avx512;
#endif

// Elementwise functions that are not worth vectors: loops over the C library.
extern const eng_vec_unary_fn eng_vec_libm_unary[ENG_UNARY_COUNT];
extern const eng_vec_binary_fn eng_vec_libm_binary[ENG_BINARY_COUNT][ENG_VEC_FORM_COUNT];

#endif

// Attention over a block of rows, and blocked moves, written once over the vector layer. Part of
// vec_template.h.
#ifndef ENG_CPU_VEC_BLOCKS_H
#define ENG_CPU_VEC_BLOCKS_H

#include "backend/cpu/kernel/vec_kernels.h"
#include "backend/cpu/kernel/vec_reduction.h"
#include "backend/cpu/kernel/vec_unroll.h"

#define VEC_WEAVE_ROWS 16 // of a block that stays in the first cache
#define VEC_WEAVE_OPS  6  // of one vector that are kept in registers
#define VEC_PANEL      (VEC_TILE_VECTORS * VW)

// acc = A B for `rows` rows of A (a constant where this is inlined) and one panel of B.
static inline __attribute__((always_inline)) void
tile_product(int rows, const float *left, int64_t a_stride, const float *right, int64_t depth,
             vf acc[VEC_TILE_ROWS][VEC_TILE_VECTORS])
{
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        VEC_UNROLL
        for (int j = 0; j < VEC_TILE_VECTORS; j++) {
            acc[r][j] = vf_set(0.0f);
        }
    }
    for (int64_t i = 0; i < depth; i++) {
        vf column[VEC_TILE_VECTORS];
        VEC_UNROLL
        for (int j = 0; j < VEC_TILE_VECTORS; j++) {
            column[j] = vf_load(right + i * VEC_PANEL + j * VW);
        }
        VEC_UNROLL
        for (int r = 0; r < rows; r++) {
            vf x = vf_set(left[r * a_stride + i]);
            VEC_UNROLL
            for (int j = 0; j < VEC_TILE_VECTORS; j++) {
                acc[r][j] = vf_fma(x, column[j], acc[r][j]);
            }
        }
    }
}

static inline __attribute__((always_inline)) void
tile_store(int rows, const float *one, int64_t a_stride, const float *right, int64_t depth,
           float *out, int64_t c_stride, int64_t columns, const float *factors)
{
    vf acc[VEC_TILE_ROWS][VEC_TILE_VECTORS];
    tile_product(rows, one, a_stride, right, depth, acc);
    VEC_UNROLL
    for (int r = 0; r < rows; r++) {
        vf f = vf_set(factors == NULL ? 1.0f : factors[r]);
        VEC_UNROLL
        for (int j = 0; j < VEC_TILE_VECTORS; j++) {
            int64_t left = columns - j * VW;
            if (left >= VW) {
                vf_store(out + r * c_stride + j * VW, acc[r][j] * f);
            } else if (left > 0) {
                vf_store_n(out + r * c_stride + j * VW, acc[r][j] * f, left);
            }
        }
    }
}

// C = A B for one panel of B, rows scaled by `factors` when given.
static void panel_product(int64_t rows, const float *left, int64_t a_stride, const float *right,
                          int64_t depth, float *out, int64_t c_stride, int64_t columns,
                          const float *factors)
{
    while (rows >= VEC_TILE_ROWS) {
        tile_store(VEC_TILE_ROWS, left, a_stride, right, depth, out, c_stride, columns, factors);
        rows -= VEC_TILE_ROWS;
        left += VEC_TILE_ROWS * a_stride;
        out += VEC_TILE_ROWS * c_stride;
        factors = factors == NULL ? NULL : factors + VEC_TILE_ROWS;
    }
    if (rows >= 2) {
        tile_store(2, left, a_stride, right, depth, out, c_stride, columns, factors);
        if (rows >= 4) {
            tile_store(2, left + 2 * a_stride, a_stride, right, depth, out + 2 * c_stride, c_stride,
                       columns, factors == NULL ? NULL : factors + 2);
        }
    }
    if (rows % 2 != 0) {
        tile_store(1, left + (rows - 1) * a_stride, a_stride, right, depth,
                   out + (rows - 1) * c_stride, c_stride, columns,
                   factors == NULL ? NULL : factors + rows - 1);
    }
}

// s = s * scale + mask; returns the largest.
static float mask_row(float *scores, int64_t count, float scale, const float *mask,
                      int64_t mask_stride)
{
    vf f = vf_set(scale);
    vf m = vf_set(-INFINITY);
    vf add = vf_set(mask != NULL && mask_stride == 0 ? mask[0] : 0.0f);
    float largest = -INFINITY;
    int64_t i = 0;
    for (; i + VW <= count; i += VW) {
        if (mask_stride == 1) {
            add = vf_load(mask + i);
        } else if (mask_stride != 0) {
            float lanes[VW];
            for (int j = 0; j < VW; j++) {
                lanes[j] = mask[(i + j) * mask_stride];
            }
            add = vf_load(lanes);
        }
        vf x = vf_fma(vf_load(scores + i), f, add);
        vf_store(scores + i, x);
        m = vf_max(x, m);
    }
    for (; i < count; i++) {
        scores[i] = scores[i] * scale + (mask != NULL ? mask[i * mask_stride] : 0.0f);
        largest = scores[i] > largest ? scores[i] : largest;
    }
    float vectors = vf_hmax(m);
    return vectors > largest ? vectors : largest;
}

// Scores of one row become the exponentials of a softmax; returns what normalises them.
static float attention_softmax(float *scores, int64_t count, float scale, const float *mask,
                               int64_t mask_stride)
{
    const float most = mask_row(scores, count, scale, mask, mask_stride);
    return 1.0f / exp_row(scores, scores, count, most);
}

// Scores of a block of rows against all keys, their softmax (kept unnormalised), and the sum of the
// values they weigh.
static void attention_rows(const struct eng_vec_attention *vec_attention)
{
    float factors[ENG_VEC_ATTENTION_ROWS_MAX];
    for (int64_t c = 0; c < vec_attention->t; c += VEC_PANEL) {
        panel_product(vec_attention->rows, vec_attention->q, vec_attention->q_stride,
                      vec_attention->k_panels + c * vec_attention->d, vec_attention->d,
                      vec_attention->scores + c, vec_attention->score_stride, VEC_PANEL, NULL);
    }
    for (int64_t r = 0; r < vec_attention->rows; r++) {
        float *s = vec_attention->scores + r * vec_attention->score_stride;
        const float *mask = vec_attention->mask == NULL
                                ? NULL
                                : vec_attention->mask + r * vec_attention->mask_row_stride;
        factors[r] =
            attention_softmax(s, vec_attention->t, vec_attention->scale, mask,
                              vec_attention->mask == NULL ? 0 : vec_attention->mask_stride);
    }
    for (int64_t c = 0; c < vec_attention->e; c += VEC_PANEL) {
        int64_t columns = vec_attention->e - c < VEC_PANEL ? vec_attention->e - c : VEC_PANEL;
        panel_product(vec_attention->rows, vec_attention->scores, vec_attention->score_stride,
                      vec_attention->v_panels + c * vec_attention->t, vec_attention->t,
                      vec_attention->out + c, vec_attention->out_stride, columns, factors);
    }
}

// dst[c * dst_stride + r] = src[r * src_stride + c]. The last tiles overlap the ones before them.
// Four bytes that may be part of smaller elements: at any address, unlike a float.
static inline void move_word(float *to, const float *from)
{
    memcpy(to, from, sizeof(*to));
}

static void transpose(const float *src, int64_t src_stride, float *dst, int64_t dst_stride,
                      int64_t rows, int64_t columns)
{
    if (rows < VW || columns < VW) {
        for (int64_t c = 0; c < columns; c++) {
            for (int64_t r = 0; r < rows; r++) {
                move_word(dst + c * dst_stride + r, src + r * src_stride + c);
            }
        }
        return;
    }
    for (int64_t c = 0; c < columns; c += VW) {
        c = c + VW <= columns ? c : columns - VW;
        for (int64_t r = 0; r < rows; r += VW) {
            r = r + VW <= rows ? r : rows - VW;
            vec_transpose_tile(src + r * src_stride + c, src_stride, dst + c * dst_stride + r,
                               dst_stride);
        }
    }
}

static void attention_pack(const float *input, int64_t stride, int64_t rows, int64_t columns,
                           bool transposed, float *out)
{
    for (int64_t c = 0; c < columns; c += VEC_PANEL, out += rows * VEC_PANEL) {
        int64_t count = columns - c < VEC_PANEL ? columns - c : VEC_PANEL;
        if (count < VEC_PANEL) {
            memset(out, 0, (size_t)(rows * VEC_PANEL) * sizeof(float));
        }
        if (transposed) {
            transpose(input + c * stride, stride, out, VEC_PANEL, count, rows);
            continue;
        }
        for (int64_t r = 0; r < rows; r++) {
            memcpy(out + r * VEC_PANEL, input + r * stride + c, (size_t)count * sizeof(float));
        }
    }
}

#ifdef VEC_HAS_WEAVE
// One vector of columns over some rows. `count` is a constant where this is inlined, so that the
// picks stay in registers. Whole vectors are loaded: the rows after these allow it.
static inline __attribute__((always_inline)) void
weave_column(const struct eng_vec_weave *weave, const float *const *sources, int64_t column,
             uint32_t count, float *output, int64_t begin, int64_t end)
{
    const struct eng_vec_weave_op *op = &weave->ops[weave->first[column]];
    struct vec_pick picks[VEC_WEAVE_OPS];
    const float *from[VEC_WEAVE_OPS];
    int64_t strides[VEC_WEAVE_OPS];
    int64_t columns = weave->columns - column * VW;
    VEC_UNROLL
    for (uint32_t i = 0; i < count; i++) {
        strides[i] = weave->strides[op[i].source];
        from[i] = sources[op[i].source] + begin * strides[i] + op[i].offset;
        picks[i] = vec_pick_load(op[i].index);
    }
    float *out = output + begin * weave->out_stride + column * VW;
    for (int64_t r = begin; r < end; r++) {
        vf acc = vf_set(0.0f);
        VEC_UNROLL
        for (uint32_t i = 0; i < count; i++) {
            acc = vec_weave(acc, picks[i], vf_load(from[i]));
            from[i] += strides[i];
        }
        if (columns >= VW) {
            vf_store(out, acc);
        } else {
            vf_store_n(out, acc, columns);
        }
        out += weave->out_stride;
    }
}

// The same with any number of operations, reading no more than they take.
static void weave_column_exact(const struct eng_vec_weave *weave, const float *const *sources,
                               int64_t column, float *output, int64_t begin, int64_t end)
{
    int64_t columns = weave->columns - column * VW < VW ? weave->columns - column * VW : VW;
    for (int64_t r = begin; r < end; r++) {
        vf acc = vf_set(0.0f);
        for (uint32_t i = weave->first[column]; i < weave->first[column + 1]; i++) {
            const struct eng_vec_weave_op *op = &weave->ops[i];
            const float *from = sources[op->source] + r * weave->strides[op->source] + op->offset;
            acc = vec_weave(acc, vec_pick_load(op->index), vf_load_n(from, op->count));
        }
        vf_store_n(output + r * weave->out_stride + column * VW, acc, columns);
    }
}

static void weave_block(const struct eng_vec_weave *vec_weave, const float *const *sources,
                        float *output, int64_t begin, int64_t end, bool whole)
{
    for (int64_t j = 0; j * VW < vec_weave->columns; j++) {
        switch (whole ? vec_weave->first[j + 1] - vec_weave->first[j] : 0) {
        case 2:
            weave_column(vec_weave, sources, j, 2, output, begin, end);
            break;
        case 3:
            weave_column(vec_weave, sources, j, 3, output, begin, end);
            break;
        case 4:
            weave_column(vec_weave, sources, j, 4, output, begin, end);
            break;
        case 5:
            weave_column(vec_weave, sources, j, 5, output, begin, end);
            break;
        case 6:
            weave_column(vec_weave, sources, j, 6, output, begin, end);
            break;
        default:
            weave_column_exact(vec_weave, sources, j, output, begin, end);
            break;
        }
    }
}

static void weave_rows(const struct eng_vec_weave *vec_weave, const float *const *sources,
                       float *output, int64_t rows)
{
    // Rows whose whole vectors end before the last element this call may read.
    int64_t whole = rows;
    for (int64_t j = 0; j * VW < vec_weave->columns; j++) {
        for (uint32_t i = vec_weave->first[j]; i < vec_weave->first[j + 1]; i++) {
            int64_t stride = vec_weave->strides[vec_weave->ops[i].source];
            int64_t beyond = VW - vec_weave->ops[i].count;
            int64_t left = stride > 0 ? rows - (beyond + stride - 1) / stride : 0;
            whole = beyond > 0 && left < whole ? left : whole;
        }
    }
    whole = whole < 0 ? 0 : whole;
    for (int64_t r = 0; r < whole; r += VEC_WEAVE_ROWS) {
        weave_block(vec_weave, sources, output, r,
                    r + VEC_WEAVE_ROWS < whole ? r + VEC_WEAVE_ROWS : whole, true);
    }
    weave_block(vec_weave, sources, output, whole, rows, false);
}
#endif

static void zip2_n(const float *left, const float *right, float *dst, int64_t count)
{
    int64_t i = 0;
    for (; i + VW <= count; i += VW) {
        vec_zip2(vf_load(left + i), vf_load(right + i), dst + 2 * i);
    }
    for (; i < count; i++) {
        move_word(dst + 2 * i, left + i);
        move_word(dst + 2 * i + 1, right + i);
    }
}

static void zip3_n(const float *left, const float *right, const float *addend, float *dst,
                   int64_t count)
{
    int64_t i = 0;
#ifdef VEC_HAS_ZIP3
    for (; i + VW <= count; i += VW) {
        vec_zip3(vf_load(left + i), vf_load(right + i), vf_load(addend + i), dst + 3 * i);
    }
#endif
    for (; i < count; i++) {
        move_word(dst + 3 * i, left + i);
        move_word(dst + 3 * i + 1, right + i);
        move_word(dst + 3 * i + 2, addend + i);
    }
}

static void unzip2_n(const float *src, float *even, int64_t count)
{
    int64_t i = 0;
    for (; i + VW < count; i += VW) { // one element less: the last odd one may not exist
        vf low;
        vf high;
        vec_unzip2(src + 2 * i, &low, &high);
        vf_store(even + i, low);
    }
    for (; i < count; i++) {
        move_word(even + i, src + 2 * i);
    }
}

#endif

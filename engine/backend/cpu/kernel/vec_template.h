// The table of vector kernels of one instruction set. Included once by each vec_ISA.c, after its
// vec_simd_ISA.h.
#ifndef ENG_CPU_VEC_TEMPLATE_H
#define ENG_CPU_VEC_TEMPLATE_H

#include "backend/cpu/kernel/vec_kernels.h"
#include "backend/cpu/kernel/vec_elementwise.h"
#include "backend/cpu/kernel/vec_reduction.h"
#include "backend/cpu/kernel/vec_blocks.h"
#include "backend/cpu/kernel/vec_gradient.h"

#define VEC_TABLE_PASTE(a, b) a##b
#define VEC_TABLE_NAME(isa)   VEC_TABLE_PASTE(eng_vec_, isa)

static const char *const vec_names[ENG_OP_COUNT] = {
#define VEC_NAME_ROW(NAME, name, checked, shown) #name "." VEC_ISA_TEXT,
    ENG_ATOMIC_MAP(VEC_NAME_ROW)
#undef VEC_NAME_ROW
};

const struct eng_vec_kernels VEC_TABLE_NAME(VEC_ISA_NAME) = {
    .names = vec_names,
    .unary = {[ENG_ABS] = unary_abs,
              [ENG_NEG] = unary_neg,
              [ENG_SIGN] = unary_sign,
              [ENG_CEIL] = unary_ceil,
              [ENG_FLOOR] = unary_floor,
              [ENG_ROUND] = unary_round,
              [ENG_SQRT] = unary_sqrt,
              [ENG_RSQRT] = unary_rsqrt,
              [ENG_RECIPROCAL] = unary_reciprocal,
              [ENG_SQUARE] = unary_square,
              [ENG_EXP] = unary_exp,
              [ENG_LOG] = unary_log,
              [ENG_TANH] = unary_tanh,
              [ENG_ERF] = unary_erf,
              [ENG_SIGMOID] = unary_sigmoid,
              [ENG_RELU] = unary_relu,
              [ENG_LEAKY_RELU] = unary_leaky_relu,
              [ENG_ELU] = unary_elu,
              [ENG_SELU] = unary_selu,
              [ENG_CELU] = unary_celu,
              [ENG_SOFTPLUS] = unary_softplus,
              [ENG_SOFTSIGN] = unary_softsign,
              [ENG_HARD_SIGMOID] = unary_hard_sigmoid,
              [ENG_HARD_SWISH] = unary_hard_swish,
              [ENG_CLIP] = unary_clip,
              [ENG_THRESHOLDED_RELU] = unary_thresholded_relu,
              [ENG_GELU] = unary_gelu,
              [ENG_GELU_TANH] = unary_gelu_tanh,
              [ENG_SHRINK] = unary_shrink},
    .binary = {[ENG_ADD] = VEC_BINARY_ROW(add),
               [ENG_SUB] = VEC_BINARY_ROW(sub),
               [ENG_MUL] = VEC_BINARY_ROW(mul),
               [ENG_DIV] = VEC_BINARY_ROW(div),
               [ENG_MIN] = VEC_BINARY_ROW(min),
               [ENG_MAX] = VEC_BINARY_ROW(max),
               [ENG_PRELU] = VEC_BINARY_ROW(prelu),
               [ENG_SQUARED_DIFF] = VEC_BINARY_ROW(squared_diff)},
    .compare = {[ENG_EQUAL] = VEC_COMPARE_ROW(equal),
                [ENG_LESS] = VEC_COMPARE_ROW(less),
                [ENG_LESS_EQUAL] = VEC_COMPARE_ROW(less_equal),
                [ENG_GREATER] = VEC_COMPARE_ROW(greater),
                [ENG_GREATER_EQUAL] = VEC_COMPARE_ROW(greater_equal)},
    .select = select_n,
    .fill = fill_n,
    .f16_to_f32 = cast_f16_to_f32,
    .f32_to_f16 = cast_f32_to_f16,
    .bf16_to_f32 = cast_bf16_to_f32,
    .f32_to_bf16 = cast_f32_to_bf16,
    .reduce_row = {[ENG_REDUCE_SUM] = reduce_row_sum,
                   [ENG_REDUCE_MEAN] = reduce_row_sum,
                   [ENG_REDUCE_MAX] = reduce_row_max,
                   [ENG_REDUCE_MIN] = reduce_row_min,
                   [ENG_REDUCE_PROD] = reduce_row_prod,
                   [ENG_REDUCE_SUM_SQUARE] = reduce_row_sum_square,
                   [ENG_REDUCE_L1] = reduce_row_l1,
                   [ENG_REDUCE_L2] = reduce_row_sum_square,
                   [ENG_REDUCE_LOG_SUM] = reduce_row_sum,
                   [ENG_REDUCE_LOG_SUM_EXP] = reduce_row_log_sum_exp},
    .reduce_columns = {[ENG_REDUCE_SUM] = reduce_columns_sum,
                       [ENG_REDUCE_MEAN] = reduce_columns_sum,
                       [ENG_REDUCE_MAX] = reduce_columns_max,
                       [ENG_REDUCE_MIN] = reduce_columns_min,
                       [ENG_REDUCE_PROD] = reduce_columns_prod,
                       [ENG_REDUCE_SUM_SQUARE] = reduce_columns_sum_square,
                       [ENG_REDUCE_L1] = reduce_columns_l1,
                       [ENG_REDUCE_L2] = reduce_columns_sum_square,
                       [ENG_REDUCE_LOG_SUM] = reduce_columns_sum},
    .arg_row = arg_row,
    .softmax_row = softmax_row,
    .softmax_columns = softmax_columns,
    .norm_stats = norm_stats,
    .norm_apply = norm_apply,
    .pool_max = pool_max,
    .pool_average = pool_average,
    .pool_max_grad = pool_max_grad,
    .pool_average_grad = pool_average_grad,
    .dot_columns = dot_columns,
    .panel = VEC_PANEL,
    .attention_pack = attention_pack,
    .attention_rows = attention_rows,
    .attention_softmax = attention_softmax,
    .transpose = transpose,
    .lanes = VW,
#ifdef VEC_HAS_WEAVE
    .weave = weave_rows,
#endif
    .zip2 = zip2_n,
    .zip3 = zip3_n,
    .unzip2 = unzip2_n,
};

#endif

// Every family of operators brings one table of rows; op_registry.c joins them. A new family is a
// declaration here and a line there.
#ifndef ENG_LOWER_OP_TABLES_H
#define ENG_LOWER_OP_TABLES_H

#include "lower/lower.h"

extern const struct eng_op_table eng_ops_math;
extern const struct eng_op_table eng_ops_cast;
extern const struct eng_op_table eng_ops_dropout;
extern const struct eng_op_table eng_ops_reduce;
extern const struct eng_op_table eng_ops_conv;
extern const struct eng_op_table eng_ops_pool;
extern const struct eng_op_table eng_ops_norm;
extern const struct eng_op_table eng_ops_matmul;
extern const struct eng_op_table eng_ops_einsum;
extern const struct eng_op_table eng_ops_rnn;
extern const struct eng_op_table eng_ops_loss;
extern const struct eng_op_table eng_ops_quant;
extern const struct eng_op_table eng_ops_optimizer;
extern const struct eng_op_table eng_ops_shape;
extern const struct eng_op_table eng_ops_move;
extern const struct eng_op_table eng_ops_pad;
extern const struct eng_op_table eng_ops_gather;
extern const struct eng_op_table eng_ops_scatter;
extern const struct eng_op_table eng_ops_content;
extern const struct eng_op_table eng_ops_sequence;
extern const struct eng_op_table eng_ops_control;
extern const struct eng_op_table eng_ops_random;
extern const struct eng_op_table eng_ops_signal;
extern const struct eng_op_table eng_ops_vision;
extern const struct eng_op_table eng_ops_image;
extern const struct eng_op_table eng_ops_text;
extern const struct eng_op_table eng_ops_strings;

#endif

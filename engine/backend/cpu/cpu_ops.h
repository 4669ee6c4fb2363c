// The prepare functions of the fast paths, one per kind of command, and what they share. Each fills
// the step it is given; UNSUPPORTED: no kernel for these types, layouts or parameters.
#ifndef ENG_CPU_CPU_OPS_H
#define ENG_CPU_CPU_OPS_H

#include "backend/backend.h"
#include "backend/cpu/kernel/isa.h"
#include "model/graph.h" // ENG_NONE

// X(NAME, name): the commands that have a fast path, and in which file its prepare function,
// eng_cpu_prepare_NAME, is. A row is all that makes one known.
#define ENG_CPU_MAP(X)                                                                             \
    X(MATMUL, matmul)                     /* gemm_choose.c */                                      \
    X(CONV, conv)                         /* conv_prepare.c */                                     \
    X(CONV_CHAIN, conv_chain)             /* conv_chain.c */                                       \
    X(CONV_GRAD_INPUT, conv_grad_input)   /* conv_grad_input.c: one or two dimensions */           \
    X(CONV_GRAD_WEIGHT, conv_grad_weight) /* conv_grad.c: of one group */                          \
    X(UNARY, unary)                       /* vec_unary.c */                                        \
    X(CAST, cast)                         /* vec_unary.c */                                        \
    X(BINARY, binary)                     /* vec_expr.c */                                         \
    X(SELECT, select)                     /* vec_expr.c */                                         \
    X(EXPR, expr)                         /* vec_expr.c */                                         \
    X(REDUCE, reduce)                     /* vec_reduce.c */                                       \
    X(ARG_REDUCE, arg_reduce)             /* vec_reduce.c */                                       \
    X(SOFTMAX, softmax)                   /* vec_rows.c */                                         \
    X(NORM, norm)                         /* vec_rows.c */                                         \
    X(CUMSUM, cumsum)                     /* vec_rows.c */                                         \
    X(POOL, pool)                         /* vec_pool.c */                                         \
    X(POOL_GRAD, pool_grad)               /* vec_pool_grad.c */                                    \
    X(ATTENTION, attention)               /* vec_attention.c */                                    \
    X(RASTER, raster)                     /* move_raster.c */                                      \
    X(GATHER, gather)                     /* move_index.c */                                       \
    X(SCATTER, scatter)                   /* move_index.c */                                       \
    X(ONE_HOT, one_hot)                   /* move_index.c */
#define ENG_CPU_DECLARE(NAME, name)                                                                \
    BASE_NODISCARD enum base_status eng_cpu_prepare_##name(                                        \
        const struct eng_prepare *ctx, const struct eng_program *program,                          \
        const struct eng_command *command, struct eng_step *out_step);
ENG_CPU_MAP(ENG_CPU_DECLARE)
#undef ENG_CPU_DECLARE

// Least work worth a thread of its own, in elements of the simplest kernel.
#define ENG_CPU_GRAIN 32768
// What one element of a function costs in that measure.
int64_t eng_cpu_unary_cost(enum eng_unary_fn fn);

#endif

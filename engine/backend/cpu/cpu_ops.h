// The prepare functions of the fast paths, one per kind of command, and what they share. Each fills
// the step it is given; UNSUPPORTED: no kernel for these types, layouts or parameters.
#ifndef ENG_CPU_CPU_OPS_H
#define ENG_CPU_CPU_OPS_H

#include "backend/backend.h"
#include "backend/cpu/kernel/isa.h"
#include "model/graph.h" // ENG_NONE

// gemm_choose.c, conv_prepare.c
BASE_NODISCARD enum base_status eng_cpu_prepare_matmul(const struct eng_prepare *ctx,
                                                       const struct eng_program *program,
                                                       const struct eng_command *command,
                                                       struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_cpu_prepare_conv(const struct eng_prepare *ctx,
                                                     const struct eng_program *program,
                                                     const struct eng_command *command,
                                                     struct eng_step *out_step);
// conv_chain.c
BASE_NODISCARD enum base_status eng_cpu_prepare_conv_chain(const struct eng_prepare *ctx,
                                                           const struct eng_program *program,
                                                           const struct eng_command *command,
                                                           struct eng_step *out_step);
// conv_grad_input.c, conv_grad.c: one or two dimensions; weights' gradients of one group.
BASE_NODISCARD enum base_status eng_cpu_prepare_conv_grad_input(const struct eng_prepare *ctx,
                                                                const struct eng_program *program,
                                                                const struct eng_command *command,
                                                                struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_cpu_prepare_conv_grad_weight(const struct eng_prepare *ctx,
                                                                 const struct eng_program *program,
                                                                 const struct eng_command *command,
                                                                 struct eng_step *out_step);

// vec_unary.c
BASE_NODISCARD enum base_status eng_cpu_prepare_unary(const struct eng_prepare *ctx,
                                                      const struct eng_program *program,
                                                      const struct eng_command *command,
                                                      struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_cpu_prepare_cast(const struct eng_prepare *ctx,
                                                     const struct eng_program *program,
                                                     const struct eng_command *command,
                                                     struct eng_step *out_step);

// vec_expr.c
BASE_NODISCARD enum base_status eng_cpu_prepare_binary(const struct eng_prepare *ctx,
                                                       const struct eng_program *program,
                                                       const struct eng_command *command,
                                                       struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_cpu_prepare_select(const struct eng_prepare *ctx,
                                                       const struct eng_program *program,
                                                       const struct eng_command *command,
                                                       struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_cpu_prepare_expr(const struct eng_prepare *ctx,
                                                     const struct eng_program *program,
                                                     const struct eng_command *command,
                                                     struct eng_step *out_step);

// vec_reduce.c
BASE_NODISCARD enum base_status eng_cpu_prepare_reduce(const struct eng_prepare *ctx,
                                                       const struct eng_program *program,
                                                       const struct eng_command *command,
                                                       struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_cpu_prepare_arg_reduce(const struct eng_prepare *ctx,
                                                           const struct eng_program *program,
                                                           const struct eng_command *command,
                                                           struct eng_step *out_step);

// vec_rows.c
BASE_NODISCARD enum base_status eng_cpu_prepare_softmax(const struct eng_prepare *ctx,
                                                        const struct eng_program *program,
                                                        const struct eng_command *command,
                                                        struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_cpu_prepare_norm(const struct eng_prepare *ctx,
                                                     const struct eng_program *program,
                                                     const struct eng_command *command,
                                                     struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_cpu_prepare_cumsum(const struct eng_prepare *ctx,
                                                       const struct eng_program *program,
                                                       const struct eng_command *command,
                                                       struct eng_step *out_step);

// vec_pool.c
BASE_NODISCARD enum base_status eng_cpu_prepare_pool(const struct eng_prepare *ctx,
                                                     const struct eng_program *program,
                                                     const struct eng_command *command,
                                                     struct eng_step *out_step);

// vec_pool_grad.c
BASE_NODISCARD enum base_status eng_cpu_prepare_pool_grad(const struct eng_prepare *ctx,
                                                          const struct eng_program *program,
                                                          const struct eng_command *command,
                                                          struct eng_step *out_step);

// vec_attention.c
BASE_NODISCARD enum base_status eng_cpu_prepare_attention(const struct eng_prepare *ctx,
                                                          const struct eng_program *program,
                                                          const struct eng_command *command,
                                                          struct eng_step *out_step);

// move_raster.c
BASE_NODISCARD enum base_status eng_cpu_prepare_raster(const struct eng_prepare *ctx,
                                                       const struct eng_program *program,
                                                       const struct eng_command *command,
                                                       struct eng_step *out_step);

// move_index.c
BASE_NODISCARD enum base_status eng_cpu_prepare_gather(const struct eng_prepare *ctx,
                                                       const struct eng_program *program,
                                                       const struct eng_command *command,
                                                       struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_cpu_prepare_scatter(const struct eng_prepare *ctx,
                                                        const struct eng_program *program,
                                                        const struct eng_command *command,
                                                        struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_cpu_prepare_one_hot(const struct eng_prepare *ctx,
                                                        const struct eng_program *program,
                                                        const struct eng_command *command,
                                                        struct eng_step *out_step);

// Least work worth a thread of its own, in elements of the simplest kernel.
#define ENG_CPU_GRAIN 32768
// What one element of a function costs in that measure.
int64_t eng_cpu_unary_cost(enum eng_unary_fn fn);

#endif

// The prepare functions of the fast paths, one per kind of command, and what they share. Each fills
// the step it is given; UNSUPPORTED: no kernel for these types, layouts or parameters.
#ifndef ENG_CPU_CPU_OPS_H
#define ENG_CPU_CPU_OPS_H

#include "backend/backend.h"
#include "backend/cpu/isa.h"

// gemm_prepare.c, conv_prepare.c
BASE_NODISCARD enum base_status eng_cpu_prepare_matmul(const struct eng_prepare *ctx,
                                                       const struct eng_program *program,
                                                       const struct eng_command *command,
                                                       struct eng_step *out_step);
BASE_NODISCARD enum base_status eng_cpu_prepare_conv(const struct eng_prepare *ctx,
                                                     const struct eng_program *program,
                                                     const struct eng_command *command,
                                                     struct eng_step *out_step);

#endif

// Products on the fast paths. Called by cpu_prepare.c on the planning thread.
#include "backend/cpu/cpu_ops.h"

const struct eng_gemm_kernels *eng_gemm_kernels_of(enum eng_isa isa)
{
    (void)isa;
    return NULL;
}

enum base_status eng_cpu_prepare_matmul(const struct eng_prepare *ctx,
                                        const struct eng_program *program,
                                        const struct eng_command *command,
                                        struct eng_step *out_step)
{
    (void)ctx;
    (void)program;
    (void)command;
    (void)out_step;
    return BASE_ERR_UNSUPPORTED;
}

// Index-driven movement: GATHER, SCATTER, ONE_HOT. (No fast path yet.)
#include "backend/cpu/cpu_ops.h"
enum base_status eng_cpu_prepare_gather(const struct eng_prepare *ctx,
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
enum base_status eng_cpu_prepare_scatter(const struct eng_prepare *ctx,
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
enum base_status eng_cpu_prepare_one_hot(const struct eng_prepare *ctx,
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

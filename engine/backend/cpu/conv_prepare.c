// Convolutions on the fast paths. Called by cpu_prepare.c on the planning thread.
#include "backend/cpu/cpu_ops.h"

enum base_status eng_cpu_prepare_conv(const struct eng_prepare *ctx,
                                      const struct eng_program *program,
                                      const struct eng_command *command, struct eng_step *out_step)
{
    (void)ctx;
    (void)program;
    (void)command;
    (void)out_step;
    return BASE_ERR_UNSUPPORTED;
}

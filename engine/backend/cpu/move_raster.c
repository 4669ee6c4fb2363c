// Data movement on the fast paths: RASTER. (No fast path yet: the reference backend moves.)
#include "backend/cpu/cpu_ops.h"

enum base_status eng_cpu_prepare_raster(const struct eng_prepare *ctx,
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

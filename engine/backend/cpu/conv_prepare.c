// Convolutions on the fast paths: picks the algorithm. Called by cpu_prepare.c on the planning
// thread.
#include "backend/cpu/conv_ops.h"

enum base_status eng_cpu_prepare_conv(const struct eng_prepare *ctx,
                                      const struct eng_program *program,
                                      const struct eng_command *command, struct eng_step *out_step)
{
    struct eng_conv_job job = {.ctx = ctx, .program = program, .command = command};
    BASE_TRY(eng_conv_shape_of(program, command, &job.shape));
    if (eng_conv_is_depthwise(&job.shape)) {
        return eng_conv_prepare_depthwise(&job, out_step);
    }
    return eng_conv_prepare_direct(&job, out_step);
}

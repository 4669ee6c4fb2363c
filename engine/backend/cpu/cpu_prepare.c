// The fast backend's door: which family prepares which command. Called by sessions on the planning
// thread. What no family takes is left to the reference backend.
#include "backend/cpu/cpu_ops.h"

static const eng_prepare_fn families[ENG_OP_COUNT] = {
    [ENG_OP_MATMUL] = eng_cpu_prepare_matmul,
    [ENG_OP_CONV] = eng_cpu_prepare_conv,
};

enum base_status eng_cpu_prepare(const struct eng_prepare *ctx, const struct eng_program *program,
                                 const struct eng_command *command, struct eng_step *out_step)
{
    if (ctx->kernels == NULL || (unsigned)command->op >= ENG_OP_COUNT ||
        families[command->op] == NULL) {
        return BASE_ERR_UNSUPPORTED;
    }
    *out_step = (struct eng_step){.program = program, .command = command};
    return families[command->op](ctx, program, command, out_step);
}

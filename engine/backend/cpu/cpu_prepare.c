// The fast backend's door: which family prepares which command. Called by the executor
// (session/exec.c) on the planning thread, with the session's table of kernels; what no family
// takes, and what a family refuses as UNSUPPORTED, is left to the reference backend. The
// list of cpu_ops.h is all that makes a family known: the search's costs and `walle-engine info`
// ask eng_cpu_takes.
#include "backend/cpu/cpu_ops.h"

#include "base/check.h"

static const eng_prepare_fn families[ENG_OP_COUNT] = {
#define FAMILY_ROW(NAME, name) [ENG_OP_##NAME] = eng_cpu_prepare_##name,
    ENG_CPU_MAP(FAMILY_ROW)
#undef FAMILY_ROW
};

bool eng_cpu_takes(enum eng_atomic op)
{
    return (unsigned)op < ENG_OP_COUNT && families[op] != NULL;
}

enum base_status eng_cpu_prepare(const struct eng_prepare *ctx, const struct eng_program *program,
                                 const struct eng_command *command, struct eng_step *out_step)
{
    if (ctx->kernels == NULL || (unsigned)command->op >= ENG_OP_COUNT ||
        families[command->op] == NULL) {
        return BASE_ERR_UNSUPPORTED;
    }
    base_assert(ctx->kernels->gemm != NULL && ctx->kernels->vec != NULL);
    *out_step = (struct eng_step){.program = program, .command = command};
    return families[command->op](ctx, program, command, out_step);
}

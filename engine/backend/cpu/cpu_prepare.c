// The fast backend's door: which family prepares which command. Called by the executor
// (session/exec.c) on the planning thread, with the session's table of kernels; what no family
// takes, and what a family refuses as UNSUPPORTED, is left to the reference backend. A row in this
// table is all that makes a family known: the search's costs and `walle-engine info` ask
// eng_cpu_takes.
#include "backend/cpu/cpu_ops.h"

static const eng_prepare_fn families[ENG_OP_COUNT] = {
    [ENG_OP_MATMUL] = eng_cpu_prepare_matmul,
    [ENG_OP_CONV] = eng_cpu_prepare_conv,
    [ENG_OP_CONV_CHAIN] = eng_cpu_prepare_conv_chain,
    [ENG_OP_CONV_GRAD_INPUT] = eng_cpu_prepare_conv_grad_input,
    [ENG_OP_CONV_GRAD_WEIGHT] = eng_cpu_prepare_conv_grad_weight,
    [ENG_OP_UNARY] = eng_cpu_prepare_unary,
    [ENG_OP_CAST] = eng_cpu_prepare_cast,
    [ENG_OP_BINARY] = eng_cpu_prepare_binary,
    [ENG_OP_SELECT] = eng_cpu_prepare_select,
    [ENG_OP_EXPR] = eng_cpu_prepare_expr,
    [ENG_OP_REDUCE] = eng_cpu_prepare_reduce,
    [ENG_OP_ARG_REDUCE] = eng_cpu_prepare_arg_reduce,
    [ENG_OP_SOFTMAX] = eng_cpu_prepare_softmax,
    [ENG_OP_NORM] = eng_cpu_prepare_norm,
    [ENG_OP_CUMSUM] = eng_cpu_prepare_cumsum,
    [ENG_OP_POOL] = eng_cpu_prepare_pool,
    [ENG_OP_POOL_GRAD] = eng_cpu_prepare_pool_grad,
    [ENG_OP_ATTENTION] = eng_cpu_prepare_attention,
    [ENG_OP_RASTER] = eng_cpu_prepare_raster,
    [ENG_OP_GATHER] = eng_cpu_prepare_gather,
    [ENG_OP_SCATTER] = eng_cpu_prepare_scatter,
    [ENG_OP_ONE_HOT] = eng_cpu_prepare_one_hot,
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
    *out_step = (struct eng_step){.program = program, .command = command};
    return families[command->op](ctx, program, command, out_step);
}

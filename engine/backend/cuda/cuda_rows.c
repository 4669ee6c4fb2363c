// Commands along an axis for the CUDA kernels: reductions, softmax, norms, attention, running sums,
// order. Float32; an attention with more keys than shared memory holds is left to the host. Called
// by cuda_prepare.c on the planning thread.
#include "backend/cuda/cuda_describe.h"

#include "base/check.h"

static bool describe_attention(const struct eng_command *command, struct eng_cuda_wish *wish)
{
    if (command->box.rank != 6 || command->box.size[3] > (int64_t)ENG_CUDA_KEYS_MAX) {
        return false;
    }
    wish->kernel = ENG_CUDA_ATTENTION;
    wish->params.attention = (struct eng_cuda_attention){.box = command->box,
                                                         .out_view = command->u.attention.out_view,
                                                         .scale = command->u.attention.scale};
    for (uint32_t v = 0; v < 4; v++) {
        wish->params.attention.views[v] = command->views[v];
    }
    return true;
}

static bool describe_norm(const struct eng_command *command, struct eng_cuda_wish *wish)
{
    const struct eng_norm *norm = &command->u.norm;
    const bool has_scale = (command->input_count > 1 && command->inputs[1] != ENG_NONE) ||
                           (command->input_count > 2 && command->inputs[2] != ENG_NONE);
    if (has_scale && (norm->scale_count < 1 || (!norm->scale_per_group && norm->scale_inner < 1))) {
        return false;
    }
    wish->kernel = ENG_CUDA_NORM;
    wish->params.norm.norm = *norm;
    if (norm->scale_inner < 1) {
        wish->params.norm.norm.scale_inner = 1; // nobody looks, and it divides
    }
    return true;
}

// Indices are written as I64, of float32.
static bool describe_order(const struct eng_program *program, const struct eng_command *command,
                           struct eng_cuda_wish *wish)
{
    if (eng_cuda_type(program, command->inputs[0]) != ENG_F32) {
        return false;
    }
    if (command->op == ENG_OP_TOPK) {
        wish->kernel = ENG_CUDA_TOPK;
        wish->params.topk.topk = command->u.topk;
        return command->u.topk.k >= 0 && command->u.topk.k <= command->u.topk.n;
    }
    wish->kernel = ENG_CUDA_ARG_REDUCE;
    wish->params.arg_reduce.arg = command->u.arg_reduce;
    return true;
}

bool eng_cuda_describe_rows(const struct eng_program *program, const struct eng_command *command,
                            struct eng_cuda_wish *wish)
{
    if (command->op == ENG_OP_TOPK || command->op == ENG_OP_ARG_REDUCE) {
        return describe_order(program, command, wish);
    }
    if (!eng_cuda_is_f32(program, command)) {
        return false;
    }
    switch (command->op) {
    case ENG_OP_REDUCE:
        wish->kernel = ENG_CUDA_REDUCE;
        wish->params.reduce.reduce = command->u.reduce;
        return true;
    case ENG_OP_SOFTMAX:
        wish->kernel = ENG_CUDA_SOFTMAX;
        wish->params.softmax.softmax = command->u.softmax;
        return true;
    case ENG_OP_NORM:
        return describe_norm(command, wish);
    case ENG_OP_CUMSUM:
        wish->kernel = ENG_CUDA_CUMSUM;
        wish->params.cumsum.cumsum = command->u.cumsum;
        return true;
    default:
        base_assert(command->op == ENG_OP_ATTENTION); // those of the table in cuda_prepare.c
        return describe_attention(command, wish);
    }
}

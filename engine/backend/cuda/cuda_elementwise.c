// Elementwise commands for the CUDA kernels: float32, the comparisons of it, and integers of up to
// 64 bits for the functions that need no division. What they mean is in program/scalar.c; here is
// only which of them the kernels have. Called by cuda_prepare.c on the planning thread.
#include "backend/cuda/cuda_describe.h"

#include "base/check.h"

bool eng_cuda_is_int(enum eng_dtype dtype)
{
    switch (dtype) {
    case ENG_BOOL:
    case ENG_U8:
    case ENG_I8:
    case ENG_U16:
    case ENG_I16:
    case ENG_U32:
    case ENG_I32:
    case ENG_I64:
        return true;
    default:
        return false;
    }
}

bool eng_cuda_is_f32(const struct eng_program *program, const struct eng_command *command)
{
    for (uint32_t i = 0; i < command->input_count; i++) {
        if (command->inputs[i] != ENG_NONE &&
            eng_cuda_type(program, command->inputs[i]) != ENG_F32) {
            return false;
        }
    }
    for (uint32_t i = 0; i < command->output_count; i++) {
        if (command->outputs[i] != ENG_NONE &&
            eng_cuda_type(program, command->outputs[i]) != ENG_F32) {
            return false;
        }
    }
    return true;
}

static bool describe_unary(const struct eng_program *program, const struct eng_command *command,
                           struct eng_cuda_wish *wish)
{
    const enum eng_unary_fn fn = command->u.unary.fn;
    const enum eng_dtype from = eng_cuda_type(program, command->inputs[0]);
    const bool is_test = fn == ENG_NOT || fn == ENG_IS_NAN || fn == ENG_IS_INF;
    if (is_test ? (from != ENG_F32 && from != ENG_BOOL) ||
                      eng_cuda_type(program, command->outputs[0]) != ENG_BOOL
                : fn == ENG_BIT_NOT || !eng_cuda_is_f32(program, command)) {
        return false;
    }
    wish->kernel = ENG_CUDA_UNARY;
    wish->params.unary = (struct eng_cuda_unary){
        .count = eng_desc_count(&eng_cuda_tensor(program, command->outputs[0])->desc),
        .unary = command->u.unary,
        .dtype = from,
    };
    return true;
}

static bool takes_binary(enum eng_dtype from, enum eng_dtype to, enum eng_binary_fn fn)
{
    const bool is_shift = fn == ENG_SHIFT_LEFT || fn == ENG_SHIFT_RIGHT;
    if (from == ENG_F32) {
        return !is_shift && (to == ENG_F32 || to == ENG_BOOL);
    }
    const bool divides = fn == ENG_DIV || fn == ENG_MOD || fn == ENG_FMOD || fn == ENG_POW;
    return eng_cuda_is_int(from) && eng_cuda_is_int(to) && !is_shift && !divides && fn != ENG_PRELU;
}

static int64_t results_of(const struct eng_program *program, const struct eng_command *command)
{
    return eng_desc_count(&program->tensors[command->outputs[0]].desc);
}

static bool describe_binary(const struct eng_program *program, const struct eng_command *command,
                            struct eng_cuda_wish *wish)
{
    const enum eng_dtype from = eng_cuda_type(program, command->inputs[0]);
    const enum eng_dtype to = eng_cuda_type(program, command->outputs[0]);
    if (!takes_binary(from, to, command->u.binary.fn) ||
        eng_cuda_type(program, command->inputs[1]) != from) {
        return false;
    }
    wish->kernel = ENG_CUDA_BINARY;
    wish->params.binary = (struct eng_cuda_binary){.count = results_of(program, command),
                                                   .box = command->box,
                                                   .views = {command->views[0], command->views[1]},
                                                   .fn = command->u.binary.fn,
                                                   .from = from,
                                                   .to = to};
    return true;
}

static bool describe_select(const struct eng_program *program, const struct eng_command *command,
                            struct eng_cuda_wish *wish)
{
    const enum eng_dtype dtype = eng_cuda_type(program, command->outputs[0]);
    if (dtype == ENG_STRING) {
        return false;
    }
    wish->kernel = ENG_CUDA_SELECT;
    wish->params.select =
        (struct eng_cuda_select){.count = results_of(program, command),
                                 .box = command->box,
                                 .views = {command->views[0], command->views[1], command->views[2]},
                                 .bytes = (uint32_t)eng_dtype_bytes(dtype)};
    return true;
}

static bool describe_expr(const struct eng_program *program, const struct eng_command *command,
                          struct eng_cuda_wish *wish)
{
    const struct eng_expr *expr = command->u.expr;
    if (!eng_cuda_is_f32(program, command) || expr->load_count + expr->op_count == 0) {
        return false;
    }
    base_assert(expr->load_count <= ENG_EXPR_LOADS_MAX);
    for (uint32_t o = 0; o < expr->op_count; o++) {
        const struct eng_expr_op *op = &expr->ops[o];
        if (op->kind == ENG_EXPR_UNARY
                ? op->fn == ENG_BIT_NOT
                : op->kind == ENG_EXPR_BINARY &&
                      !takes_binary(ENG_F32, ENG_F32, (enum eng_binary_fn)op->fn)) {
            return false;
        }
    }
    wish->kernel = ENG_CUDA_EXPR;
    wish->params.expr = (struct eng_cuda_expr){
        .count = results_of(program, command), .box = command->box, .expr = *expr};
    for (uint32_t v = 0; v < expr->load_count; v++) {
        wish->params.expr.views[v] = command->views[v];
    }
    return true;
}

static bool describe_cast(const struct eng_program *program, const struct eng_command *command,
                          struct eng_cuda_wish *wish)
{
    const enum eng_dtype from = eng_cuda_type(program, command->inputs[0]);
    const enum eng_dtype to = eng_cuda_type(program, command->outputs[0]);
    const bool is_real = from == ENG_F32 || from == ENG_F64 || eng_cuda_is_int(from);
    if (!is_real || !(to == ENG_F32 || to == ENG_F64 || eng_cuda_is_int(to))) {
        return false;
    }
    wish->kernel = ENG_CUDA_CAST;
    wish->params.cast = (struct eng_cuda_cast){results_of(program, command), from, to};
    return true;
}

bool eng_cuda_describe_elementwise(const struct eng_program *program,
                                   const struct eng_command *command, struct eng_cuda_wish *wish)
{
    switch (command->op) {
    case ENG_OP_UNARY:
        return describe_unary(program, command, wish);
    case ENG_OP_BINARY:
        return describe_binary(program, command, wish);
    case ENG_OP_SELECT:
        return describe_select(program, command, wish);
    case ENG_OP_EXPR:
        return describe_expr(program, command, wish);
    default:
        return command->op == ENG_OP_CAST && describe_cast(program, command, wish);
    }
}

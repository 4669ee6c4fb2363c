// Fused elementwise programs, one element at a time. Reference kernel: found by ref_prepare.c on
// the planning thread, runs on the session's thread. Each value is rounded on the way as the
// commands that were fused would have stored it, so that fusing (program/fuse_expr.c) does not
// change what a program computes here. Registers lie on the stack, bounded by ENG_EXPR_LOADS_MAX
// and ENG_EXPR_OPS_MAX.
#include "backend/ref/ref.h"

#include "backend/ref/ref_box.h"
#include "backend/ref/ref_element.h"
#include "base/check.h"

struct expr_ctx {
    const struct eng_expr *expr;
    const void *in[ENG_EXPR_LOADS_MAX];
    enum eng_dtype types[ENG_EXPR_LOADS_MAX];
    void *out;
    enum eng_dtype to;
};

static double apply(const struct eng_expr_op *op, const double *registers)
{
    switch (op->kind) {
    case ENG_EXPR_CONST:
        return (double)op->alpha;
    case ENG_EXPR_UNARY:
        return eng_scalar_unary((enum eng_unary_fn)op->fn, registers[op->a], (double)op->alpha,
                                (double)op->beta);
    default:
        return eng_scalar_binary((enum eng_binary_fn)op->fn, registers[op->a], registers[op->b]);
    }
}

static void row_expr(void *ctx, int64_t out, const int64_t *at, const int64_t *step, int64_t count)
{
    const struct expr_ctx *c = ctx;
    uint32_t loads = c->expr->load_count, ops = c->expr->op_count;
    base_assert(loads <= ENG_EXPR_LOADS_MAX && ops <= ENG_EXPR_OPS_MAX && loads + ops > 0);
    for (int64_t i = 0; i < count; i++) {
        double registers[ENG_EXPR_LOADS_MAX + ENG_EXPR_OPS_MAX] = {0};
        for (uint32_t v = 0; v < loads; v++) {
            registers[v] = eng_ref_load(c->types[v], c->in[v], at[v] + i * step[v]);
        }
        for (uint32_t o = 0; o < ops; o++) {
            double value = apply(&c->expr->ops[o], registers);
            // Rounded as the commands it was fused of would have stored it.
            registers[loads + o] = c->to == ENG_F64 ? value : (double)(float)value;
        }
        eng_ref_store(c->to, c->out, out + i, registers[loads + ops - 1]);
    }
}

static enum base_status run_expr(const struct eng_step *step, const struct eng_run *run)
{
    struct expr_ctx ctx = {.expr = step->command->u.expr,
                           .out = eng_ref_out(step, run, 0),
                           .to = eng_ref_out_type(step, 0)};
    base_assert(ctx.expr->load_count <= step->command->input_count);
    for (uint32_t v = 0; v < ctx.expr->load_count; v++) {
        ctx.in[v] = eng_ref_in(step, run, v);
        ctx.types[v] = eng_ref_in_type(step, v);
    }
    eng_ref_rows(&step->command->box, step->command->views, ctx.expr->load_count, row_expr, &ctx);
    return BASE_OK;
}

static enum base_status setup_expr(const struct eng_prepare *ctx, struct eng_step *step)
{
    const struct eng_expr *expr = step->command->u.expr;
    if (expr->load_count > ENG_EXPR_LOADS_MAX || expr->op_count > ENG_EXPR_OPS_MAX ||
        expr->load_count + expr->op_count == 0) {
        return eng_ref_refuse(ctx, step, "too many registers");
    }
    for (uint32_t o = 0; o < expr->op_count; o++) {
        const struct eng_expr_op *op = &expr->ops[o];
        uint32_t known = expr->load_count + o;
        bool is_bad = op->kind == ENG_EXPR_UNARY ? op->a >= known || op->fn >= ENG_UNARY_COUNT
                      : op->kind == ENG_EXPR_BINARY
                          ? op->a >= known || op->b >= known || op->fn >= ENG_BINARY_COUNT
                          : op->kind != ENG_EXPR_CONST;
        if (is_bad) {
            return eng_ref_refuse(ctx, step, "an instruction reads what is not computed yet");
        }
    }
    return BASE_OK;
}

const struct eng_ref_kernel eng_ref_expr[] = {
    {ENG_OP_EXPR, ENG_REF_FLOATS, run_expr, setup_expr},
    {.run = NULL},
};

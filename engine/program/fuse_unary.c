// Tells which function an expression of one argument computes by evaluating it: GELU has a dozen
// spellings, but only one graph of values. Called by fuse_expr.c on the planning thread. It
// evaluates with the functions of the reference backend (program/scalar.c) at SAMPLES places, where
// the candidates differ from each other and far outside; TOLERANCE is what constants written with
// seven digits bring.
#include "program/fuse.h"
#include "base/check.h"
#include "program/scalar.h"

#include <math.h>

// Where expressions are compared: over the interval in which the candidates differ from each other,
// and far outside.
#define SAMPLES      241
#define SAMPLE_BEGIN (-12.0)
#define SAMPLE_STEP  0.1
#define TOLERANCE    2e-6 // constants are written with seven digits

static double evaluate(const struct eng_expr *expr, double value)
{
    double registers[1 + ENG_EXPR_OPS_MAX] = {value};
    for (uint32_t i = 0; i < expr->op_count; i++) {
        const struct eng_expr_op *op = &expr->ops[i];
        double *out = &registers[1 + i];
        switch (op->kind) {
        case ENG_EXPR_UNARY:
            *out = eng_scalar_unary((enum eng_unary_fn)op->fn, registers[op->a], (double)op->alpha,
                                    (double)op->beta);
            break;
        case ENG_EXPR_BINARY:
            *out =
                eng_scalar_binary((enum eng_binary_fn)op->fn, registers[op->a], registers[op->b]);
            break;
        case ENG_EXPR_CONST:
            *out = (double)op->alpha;
            break;
        }
    }
    return registers[expr->op_count];
}

static bool agrees(const struct eng_expr *expr, enum eng_unary_fn fn)
{
    for (int i = 0; i < SAMPLES; i++) {
        double x = SAMPLE_BEGIN + SAMPLE_STEP * i;
        double got = evaluate(expr, x), wanted = eng_scalar_unary(fn, x, 0, 0);
        if (!(fabs(got - wanted) <= TOLERANCE * (1 + fabs(wanted)))) {
            return false;
        }
    }
    return true;
}

bool eng_expr_is_unary(const struct eng_expr *expr, enum eng_unary_fn *out_fn)
{
    base_assert(expr->op_count <= ENG_EXPR_OPS_MAX);
    static const enum eng_unary_fn candidates[] = {ENG_GELU, ENG_GELU_TANH, ENG_HARD_SWISH};
    if (expr->load_count != 1 || expr->op_count == 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
        if (agrees(expr, candidates[i])) {
            *out_fn = candidates[i];
            return true;
        }
    }
    return false;
}

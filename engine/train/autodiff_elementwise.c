// Gradients of unary, binary, select and cast. Called by the walk (autodiff.c) through its table,
// on the trainer's thread while it plans. Each is one expression over the operands, the result and
// its gradient. Where a derivative follows from the result alone the operand is not read, so it
// need not be kept; where the function is flat or has none, no gradient passes. What was broadcast
// is summed when the gradient is given on.
#include "train/autodiff_rules.h"

#include "base/check.h"

// --- unary ------------------------------------------------------------------------------------

// Derivative at x, where y = f(x) is at hand; every function returns the register of f'(x).

static uint8_t reciprocal_sqrt_of(struct ad_expr *expr, uint8_t square, double sign, double add)
{
    return ad_unary(expr, ENG_RSQRT, ad_plus(expr, ad_times(expr, square, sign), add));
}

// Functions whose derivative follows from y alone: x need not be kept, and may never be stored.
static bool is_known_by_y(enum eng_unary_fn fn)
{
    switch (fn) {
    case ENG_SQRT:
    case ENG_RSQRT:
    case ENG_RECIPROCAL:
    case ENG_EXP:
    case ENG_TAN:
    case ENG_TANH:
    case ENG_SIGMOID:
    case ENG_RELU:
    case ENG_CLIP:
        return true;
    default:
        return false;
    }
}

// Their derivatives.
static bool slope_from_y(struct ad_expr *expr, const struct eng_unary *unary, uint8_t output,
                         uint8_t *out)
{
    base_assert(is_known_by_y(unary->fn)); // `output` is y
    switch (unary->fn) {
    case ENG_RELU: // output is not below 0
        *out = ad_unary(expr, ENG_SIGN, output);
        return true;
    case ENG_CLIP: { // nor outside of its bounds
        uint8_t above = ad_unary(expr, ENG_SIGN, ad_plus(expr, output, -(double)unary->alpha));
        uint8_t below = ad_unary(
            expr, ENG_SIGN, ad_plus(expr, ad_unary(expr, ENG_NEG, output), (double)unary->beta));
        *out = ad_binary(expr, ENG_MUL, above, below);
        return true;
    }
    case ENG_SQRT:
        *out = ad_times(expr, ad_unary(expr, ENG_RECIPROCAL, output), 0.5);
        return true;
    case ENG_RSQRT:
        *out = ad_times(expr, ad_binary(expr, ENG_MUL, output, ad_unary(expr, ENG_SQUARE, output)),
                        -0.5);
        return true;
    case ENG_RECIPROCAL:
        *out = ad_unary(expr, ENG_NEG, ad_unary(expr, ENG_SQUARE, output));
        return true;
    case ENG_EXP:
        *out = output;
        return true;
    case ENG_TAN:
        *out = ad_plus(expr, ad_unary(expr, ENG_SQUARE, output), 1);
        return true;
    case ENG_TANH:
        *out = ad_plus(expr, ad_unary(expr, ENG_NEG, ad_unary(expr, ENG_SQUARE, output)), 1);
        return true;
    case ENG_SIGMOID:
        *out = ad_binary(expr, ENG_MUL, output, ad_plus(expr, ad_unary(expr, ENG_NEG, output), 1));
        return true;
    default:
        return false;
    }
}

static bool slope_of_library(struct ad_expr *expr, enum eng_unary_fn fn, uint8_t value,
                             uint8_t *out)
{
    base_assert(!is_known_by_y(fn)); // `value` is x
    uint8_t square = 0;
    switch (fn) {
    case ENG_ABS:
        *out = ad_unary(expr, ENG_SIGN, value);
        return true;
    case ENG_NEG:
        *out = ad_const(expr, -1);
        return true;
    case ENG_SQUARE:
        *out = ad_times(expr, value, 2);
        return true;
    case ENG_LOG:
        *out = ad_unary(expr, ENG_RECIPROCAL, value);
        return true;
    case ENG_SIN:
        *out = ad_unary(expr, ENG_COS, value);
        return true;
    case ENG_COS:
        *out = ad_unary(expr, ENG_NEG, ad_unary(expr, ENG_SIN, value));
        return true;
    case ENG_SINH:
        *out = ad_unary(expr, ENG_COSH, value);
        return true;
    case ENG_COSH:
        *out = ad_unary(expr, ENG_SINH, value);
        return true;
    default:
        break;
    }
    square = ad_unary(expr, ENG_SQUARE, value);
    switch (fn) {
    case ENG_ASIN:
        *out = reciprocal_sqrt_of(expr, square, -1, 1);
        return true;
    case ENG_ACOS:
        *out = ad_unary(expr, ENG_NEG, reciprocal_sqrt_of(expr, square, -1, 1));
        return true;
    case ENG_ASINH:
        *out = reciprocal_sqrt_of(expr, square, 1, 1);
        return true;
    case ENG_ACOSH:
        *out = reciprocal_sqrt_of(expr, square, 1, -1);
        return true;
    case ENG_ATAN:
        *out = ad_unary(expr, ENG_RECIPROCAL, ad_plus(expr, square, 1));
        return true;
    case ENG_ATANH:
        *out = ad_unary(expr, ENG_RECIPROCAL, ad_plus(expr, ad_unary(expr, ENG_NEG, square), 1));
        return true;
    case ENG_ERF:
        *out = ad_times(expr, ad_unary(expr, ENG_EXP, ad_unary(expr, ENG_NEG, square)),
                        1.12837916709551257390);
        return true;
    default:
        return false;
    }
}

// mask * high + (1 - mask) * low
static uint8_t either(struct ad_expr *expr, uint8_t mask, uint8_t high, uint8_t low)
{
    uint8_t difference = ad_binary(expr, ENG_SUB, high, low);
    return ad_binary(expr, ENG_ADD, ad_binary(expr, ENG_MUL, mask, difference), low);
}

// ELU and its relatives: `high` above 0, low * exp(value / width) below.
static uint8_t exponential_slope(struct ad_expr *expr, uint8_t value, double high, double low,
                                 double width)
{
    uint8_t below =
        ad_unary(expr, ENG_NEG, ad_unary(expr, ENG_RELU, ad_unary(expr, ENG_NEG, value)));
    uint8_t slope = ad_times(expr, ad_unary(expr, ENG_EXP, ad_times(expr, below, 1 / width)), low);
    return either(expr, ad_above(expr, value, 0), ad_const(expr, high), slope);
}

// 1 strictly between the limits, else 0.
static uint8_t between(struct ad_expr *expr, uint8_t value, double low, double high)
{
    return ad_binary(expr, ENG_MUL, ad_above(expr, value, low),
                     ad_above(expr, ad_unary(expr, ENG_NEG, value), -high));
}

// Phi(x) + x phi(x)
static uint8_t gelu_slope(struct ad_expr *expr, uint8_t value)
{
    uint8_t phi = ad_times(
        expr, ad_unary(expr, ENG_EXP, ad_times(expr, ad_unary(expr, ENG_SQUARE, value), -0.5)),
        0.39894228040143);
    uint8_t cdf = ad_unary(expr, ENG_ERF, ad_times(expr, value, 0.70710678118654752440));
    cdf = ad_plus(expr, ad_times(expr, cdf, 0.5), 0.5);
    return ad_binary(expr, ENG_ADD, cdf, ad_binary(expr, ENG_MUL, value, phi));
}

// y = x (1 + t) / 2 with t = tanh(c (x + d x^3)): (1 + t) / 2 + x (1 - t^2) c (1 + 3 d x^2) / 2
static uint8_t gelu_tanh_slope(struct ad_expr *expr, uint8_t value)
{
    const double c = 0.79788456080286535588, d = 0.044715;
    uint8_t square = ad_unary(expr, ENG_SQUARE, value);
    uint8_t inner =
        ad_binary(expr, ENG_MUL, value, ad_plus(expr, ad_times(expr, square, c * d), c));
    uint8_t t = ad_unary(expr, ENG_TANH, inner);
    uint8_t rise = ad_plus(expr, ad_unary(expr, ENG_NEG, ad_unary(expr, ENG_SQUARE, t)), 1);
    uint8_t steep = ad_plus(expr, ad_times(expr, square, 1.5 * c * d), 0.5 * c);
    uint8_t second = ad_binary(expr, ENG_MUL, ad_binary(expr, ENG_MUL, value, rise), steep);
    return ad_binary(expr, ENG_ADD, ad_plus(expr, ad_times(expr, t, 0.5), 0.5), second);
}

// Activations. False: the function is flat, or has no derivative.
static bool slope_of_activation(struct ad_expr *expr, const struct eng_unary *unary, uint8_t value,
                                uint8_t *out)
{
    base_assert(!is_known_by_y(unary->fn)); // `value` is x
    double alpha = (double)unary->alpha, beta = (double)unary->beta;
    switch (unary->fn) {
    case ENG_LEAKY_RELU:
        *out = ad_plus(expr, ad_times(expr, ad_above(expr, value, 0), 1 - alpha), alpha);
        return true;
    case ENG_ELU:
        *out = exponential_slope(expr, value, 1, alpha, 1);
        return true;
    case ENG_SELU:
        *out = exponential_slope(expr, value, beta, alpha * beta, 1);
        return true;
    case ENG_CELU:
        *out = exponential_slope(expr, value, 1, 1, alpha);
        return true;
    case ENG_SOFTPLUS:
        *out = ad_unary(expr, ENG_SIGMOID, value);
        return true;
    case ENG_SOFTSIGN:
        *out =
            ad_unary(expr, ENG_RECIPROCAL,
                     ad_unary(expr, ENG_SQUARE, ad_plus(expr, ad_unary(expr, ENG_ABS, value), 1)));
        return true;
    case ENG_HARD_SIGMOID:
        *out = ad_times(
            expr, between(expr, ad_plus(expr, ad_times(expr, value, alpha), beta), 0, 1), alpha);
        return true;
    case ENG_HARD_SWISH:
        *out = ad_binary(expr, ENG_ADD, ad_above(expr, value, 3),
                         ad_binary(expr, ENG_MUL, between(expr, value, -3, 3),
                                   ad_plus(expr, ad_times(expr, value, 1.0 / 3), 0.5)));
        return true;
    case ENG_THRESHOLDED_RELU:
        *out = ad_above(expr, value, alpha);
        return true;
    case ENG_SHRINK:
        *out = ad_above(expr, ad_unary(expr, ENG_ABS, value), alpha);
        return true;
    case ENG_GELU:
        *out = gelu_slope(expr, value);
        return true;
    case ENG_GELU_TANH:
        *out = gelu_tanh_slope(expr, value);
        return true;
    default:
        return false;
    }
}

static bool is_flat(enum eng_unary_fn fn)
{
    return fn == ENG_SIGN || fn == ENG_CEIL || fn == ENG_FLOOR || fn == ENG_ROUND;
}

enum base_status ad_rule_unary(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    const struct eng_unary *unary = &command->u.unary;
    uint32_t x = command->inputs[0], dx = ENG_NONE;
    struct eng_box box = ad_row(ad, x);
    struct ad_expr e;
    uint8_t slope = 0;
    if (is_flat(unary->fn)) {
        return BASE_OK;
    }
    ad_expr_init(&e, &box);
    uint8_t in = ad_load_dense(&e, is_known_by_y(unary->fn) ? command->outputs[0] : x);
    uint8_t in_dy = ad_load_dense(&e, dy);
    if (is_known_by_y(unary->fn) ? !slope_from_y(&e, unary, in, &slope)
                                 : !slope_of_activation(&e, unary, in, &slope) &&
                                       !slope_of_library(&e, unary->fn, in, &slope)) {
        return ad_refuse(ad, command, eng_unary_text(unary->fn));
    }
    (void)ad_binary(&e, ENG_MUL, slope, in_dy);
    BASE_TRY(ad_expr_emit(ad, &e, ad_tensor(ad, x)->desc.dtype, &dx));
    return ad_give(ad, x, dx);
}

// --- binary -----------------------------------------------------------------------------------

struct operands {
    uint8_t a, b, y, dy;
};

// 1 where left > right.
static uint8_t larger(struct ad_expr *expr, uint8_t left, uint8_t right)
{
    return ad_above(expr, ad_binary(expr, ENG_SUB, left, right), 0);
}

static uint8_t by_first(struct ad_expr *expr, enum eng_binary_fn fn,
                        const struct operands *operands)
{
    switch (fn) {
    case ENG_SUB:
    case ENG_MOD:
    case ENG_FMOD:
        return ad_times(expr, operands->dy, 1);
    case ENG_MUL:
        return ad_binary(expr, ENG_MUL, operands->dy, operands->b);
    case ENG_DIV:
        return ad_binary(expr, ENG_DIV, operands->dy, operands->b);
    case ENG_POW:
        return ad_binary(expr, ENG_MUL, ad_binary(expr, ENG_MUL, operands->dy, operands->b),
                         ad_binary(expr, ENG_POW, operands->a, ad_plus(expr, operands->b, -1)));
    case ENG_MAX: // on a tie the first gets it all
        return ad_binary(
            expr, ENG_MUL, operands->dy,
            ad_plus(expr, ad_unary(expr, ENG_NEG, larger(expr, operands->b, operands->a)), 1));
    case ENG_MIN:
        return ad_binary(
            expr, ENG_MUL, operands->dy,
            ad_plus(expr, ad_unary(expr, ENG_NEG, larger(expr, operands->a, operands->b)), 1));
    case ENG_PRELU:
        return ad_binary(expr, ENG_MUL, operands->dy,
                         either(expr, ad_above(expr, ad_unary(expr, ENG_NEG, operands->a), 0),
                                operands->b, ad_const(expr, 1)));
    default: // SQUARED_DIFF
        base_assert(fn == ENG_SQUARED_DIFF);
        return ad_binary(expr, ENG_MUL, ad_times(expr, operands->dy, 2),
                         ad_binary(expr, ENG_SUB, operands->a, operands->b));
    }
}

// The whole number of times b goes into a: rounded down for MOD, toward zero for FMOD.
static uint8_t quotient(struct ad_expr *expr, enum eng_binary_fn fn,
                        const struct operands *operands)
{
    uint8_t exact = ad_binary(expr, ENG_DIV, operands->a, operands->b);
    if (fn == ENG_MOD) {
        return ad_unary(expr, ENG_FLOOR, exact);
    }
    return ad_binary(expr, ENG_MUL, ad_unary(expr, ENG_SIGN, exact),
                     ad_unary(expr, ENG_FLOOR, ad_unary(expr, ENG_ABS, exact)));
}

static uint8_t by_second(struct ad_expr *expr, enum eng_binary_fn fn,
                         const struct operands *operands)
{
    uint8_t positive = 0;
    switch (fn) {
    case ENG_SUB:
        return ad_unary(expr, ENG_NEG, operands->dy);
    case ENG_MUL:
        return ad_binary(expr, ENG_MUL, operands->dy, operands->a);
    case ENG_DIV:
        return ad_unary(expr, ENG_NEG,
                        ad_binary(expr, ENG_MUL, operands->dy,
                                  ad_binary(expr, ENG_DIV, operands->y, operands->b)));
    case ENG_POW: // y log a; 0 where a is not positive
        positive = ad_above(expr, operands->a, 0);
        positive = ad_binary(
            expr, ENG_MUL, positive,
            ad_unary(expr, ENG_LOG, ad_binary(expr, ENG_MAX, operands->a, ad_const(expr, 1e-38))));
        return ad_binary(expr, ENG_MUL, operands->dy,
                         ad_binary(expr, ENG_MUL, operands->y, positive));
    case ENG_MOD:
    case ENG_FMOD:
        return ad_unary(expr, ENG_NEG,
                        ad_binary(expr, ENG_MUL, operands->dy, quotient(expr, fn, operands)));
    case ENG_MAX:
        return ad_binary(expr, ENG_MUL, operands->dy, larger(expr, operands->b, operands->a));
    case ENG_MIN:
        return ad_binary(expr, ENG_MUL, operands->dy, larger(expr, operands->a, operands->b));
    case ENG_PRELU:
        return ad_binary(expr, ENG_MUL, operands->dy,
                         ad_unary(expr, ENG_NEG,
                                  ad_unary(expr, ENG_RELU, ad_unary(expr, ENG_NEG, operands->a))));
    default:
        base_assert(fn == ENG_SQUARED_DIFF);
        return ad_binary(expr, ENG_MUL, ad_times(expr, operands->dy, -2),
                         ad_binary(expr, ENG_SUB, operands->a, operands->b));
    }
}

static bool has_slope(enum eng_binary_fn fn)
{
    return fn <= ENG_MAX || fn == ENG_PRELU || fn == ENG_SQUARED_DIFF;
}

enum base_status ad_rule_binary(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    base_assert(ad_volume(&command->box) == ad_count(ad, dy));
    enum eng_binary_fn fn = command->u.binary.fn;
    if (!has_slope(fn)) {
        return ad_refuse(ad, command, eng_binary_text(fn));
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t gradient = dy;
        if (!ad_needs(ad, command, i)) {
            continue;
        }
        if (fn != ENG_ADD && !(fn == ENG_SUB && i == 0)) {
            struct ad_expr e;
            ad_expr_init(&e, &command->box);
            struct operands o = {.a = ad_load(&e, command->inputs[0], &command->views[0]),
                                 .b = ad_load(&e, command->inputs[1], &command->views[1]),
                                 .y = ad_load_dense(&e, command->outputs[0]),
                                 .dy = ad_load_dense(&e, dy)};
            (void)(i == 0 ? by_first(&e, fn, &o) : by_second(&e, fn, &o));
            BASE_TRY(ad_expr_emit(ad, &e, ad_tensor(ad, dy)->desc.dtype, &gradient));
        }
        BASE_TRY(ad_give_view(ad, command->inputs[i], gradient, &command->box, &command->views[i]));
    }
    return BASE_OK;
}

// --- select and cast --------------------------------------------------------------------------

enum base_status ad_rule_select(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    uint32_t zero = ENG_NONE;
    BASE_TRY(ad_scalar(ad, ad_tensor(ad, dy)->desc.dtype, 0, &zero));
    for (uint32_t i = 1; i < 3; i++) {
        uint32_t gradient = ENG_NONE;
        uint32_t inputs[3] = {command->inputs[0], i == 1 ? dy : zero, i == 1 ? zero : dy};
        struct eng_command *select = NULL;
        if (!ad_needs(ad, command, i)) {
            continue;
        }
        BASE_TRY(ad_flat(ad, ad_tensor(ad, dy)->desc.dtype, ad_volume(&command->box), &gradient));
        BASE_TRY(ad_command(ad, ENG_OP_SELECT, &(struct ad_ports){inputs, 3, gradient}, &select));
        select->box = command->box;
        select->views[0] = command->views[0];
        select->views[i] = ad_dense_view(&command->box); // the other one reads zero: strides 0
        BASE_TRY(ad_give_view(ad, command->inputs[i], gradient, &command->box, &command->views[i]));
    }
    return BASE_OK;
}

enum base_status ad_rule_cast(struct eng_ad *ad, const struct eng_command *command, uint32_t dy)
{
    uint32_t x = command->inputs[0], dx = ENG_NONE;
    struct eng_command *cast = NULL;
    BASE_TRY(ad_like(ad, x, &dx));
    BASE_TRY(ad_command(ad, ENG_OP_CAST, &(struct ad_ports){&dy, 1, dx}, &cast));
    return ad_give(ad, x, dx);
}

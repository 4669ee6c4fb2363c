// Elementwise arithmetic, comparisons, logic and activations.
//
// Handlers are called by lowering, node by node, on the planning thread. Commands of one input and
// one function come from a table of rules; those of several inputs broadcast as numpy does.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

#define SELU_ALPHA 1.67326319217681884765625f
#define SELU_GAMMA 1.05070102214813232421875f

struct unary_rule {
    const char *op;
    enum eng_unary_fn fn;
    uint32_t types;
    const char *alpha, *beta; // attributes of the parameters, NULL: none
    float alpha_default, beta_default;
};

static const struct unary_rule unary_rules[] = {
    {"Abs", ENG_ABS, NN_TYPES_NUMERIC, NULL, NULL, 0, 0},
    {"Acos", ENG_ACOS, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Acosh", ENG_ACOSH, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Asin", ENG_ASIN, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Asinh", ENG_ASINH, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Atan", ENG_ATAN, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Atanh", ENG_ATANH, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"BitwiseNot", ENG_BIT_NOT, NN_TYPES_INT, NULL, NULL, 0, 0},
    {"Ceil", ENG_CEIL, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Celu", ENG_CELU, NN_TYPES_FLOAT, "alpha", NULL, 1.0f, 0},
    {"Cos", ENG_COS, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Cosh", ENG_COSH, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Elu", ENG_ELU, NN_TYPES_FLOAT, "alpha", NULL, 1.0f, 0},
    {"Erf", ENG_ERF, NN_TYPES_NUMERIC, NULL, NULL, 0, 0},
    {"Exp", ENG_EXP, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Floor", ENG_FLOOR, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"HardSigmoid", ENG_HARD_SIGMOID, NN_TYPES_FLOAT, "alpha", "beta", 0.2f, 0.5f},
    {"HardSwish", ENG_HARD_SWISH, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"IsNaN", ENG_IS_NAN, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"LeakyRelu", ENG_LEAKY_RELU, NN_TYPES_FLOAT, "alpha", NULL, 0.01f, 0},
    {"Log", ENG_LOG, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Neg", ENG_NEG, NN_TYPES_FLOAT | NN_TYPES_SIGNED, NULL, NULL, 0, 0},
    {"Not", ENG_NOT, NN_TYPE(BOOL), NULL, NULL, 0, 0},
    {"Reciprocal", ENG_RECIPROCAL, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Relu", ENG_RELU, NN_TYPES_FLOAT | NN_TYPES_SIGNED, NULL, NULL, 0, 0},
    {"Round", ENG_ROUND, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Selu", ENG_SELU, NN_TYPES_FLOAT, "alpha", "gamma", SELU_ALPHA, SELU_GAMMA},
    {"Shrink", ENG_SHRINK, NN_TYPES_NUMERIC, "lambd", "bias", 0.5f, 0},
    {"Sigmoid", ENG_SIGMOID, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Sign", ENG_SIGN, NN_TYPES_NUMERIC, NULL, NULL, 0, 0},
    {"Sin", ENG_SIN, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Sinh", ENG_SINH, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Softplus", ENG_SOFTPLUS, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Softsign", ENG_SOFTSIGN, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Sqrt", ENG_SQRT, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Tan", ENG_TAN, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"Tanh", ENG_TANH, NN_TYPES_FLOAT, NULL, NULL, 0, 0},
    {"ThresholdedRelu", ENG_THRESHOLDED_RELU, NN_TYPES_FLOAT, "alpha", NULL, 1.0f, 0},
};

static enum base_status lower_unary(struct eng_lower *lower, const struct eng_node *node)
{
    const struct unary_rule *rule = NULL;
    for (size_t i = 0; i < sizeof(unary_rules) / sizeof(unary_rules[0]); i++) {
        if (strcmp(unary_rules[i].op, node->op) == 0) {
            rule = &unary_rules[i];
        }
    }
    if (rule == NULL) {
        return eng_lower_fail(lower, node, BASE_ERR_BUG, "no rule for this operator");
    }
    base_assert((unsigned)rule->fn < ENG_UNARY_COUNT);
    uint32_t x;
    BASE_TRY(eng_nn_input(lower, node, 0, rule->types, &x));
    float alpha =
        rule->alpha != NULL ? eng_node_float(node, rule->alpha, rule->alpha_default) : 0.0f;
    float beta = rule->beta != NULL ? eng_node_float(node, rule->beta, rule->beta_default) : 0.0f;
    if (rule->fn == ENG_CELU && alpha == 0.0f) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "attribute alpha is 0");
    }
    uint32_t y;
    BASE_TRY(eng_emit_unary(lower, &(struct eng_unary){rule->fn, alpha, beta}, x, &y));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_gelu(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    struct eng_string text = eng_node_string(node, "approximate", "none");
    bool is_tanh = eng_string_is(text, "tanh");
    if (!is_tanh && !eng_string_is(text, "none")) {
        return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED, "approximate '%.*s' is not known",
                              (int)(text.size > 32 ? 32 : text.size), text.at);
    }
    BASE_TRY(eng_nn_unary(lower, is_tanh ? ENG_GELU_TANH : ENG_GELU, x, &y));
    return eng_lower_output(lower, node, 0, y);
}

// x * tanh(softplus(x)).
static enum base_status lower_mish(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    BASE_TRY(eng_nn_unary(lower, ENG_SOFTPLUS, x, &y));
    BASE_TRY(eng_nn_unary(lower, ENG_TANH, y, &y));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, x, y, &y));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_is_inf(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    float negative = eng_node_int(node, "detect_negative", 1) != 0 ? 1.0f : 0.0f;
    float positive = eng_node_int(node, "detect_positive", 1) != 0 ? 1.0f : 0.0f;
    uint32_t y;
    BASE_TRY(eng_emit_unary(lower, &(struct eng_unary){ENG_IS_INF, negative, positive}, x, &y));
    return eng_lower_output(lower, node, 0, y);
}

struct binary_rule {
    const char *op;
    enum eng_binary_fn fn;
    uint32_t types;
};

static const struct binary_rule binary_rules[] = {
    {"Add", ENG_ADD, NN_TYPES_NUMERIC},
    {"And", ENG_AND, NN_TYPE(BOOL)},
    {"BitwiseAnd", ENG_AND, NN_TYPES_INT},
    {"BitwiseOr", ENG_OR, NN_TYPES_INT},
    {"BitwiseXor", ENG_XOR, NN_TYPES_INT},
    {"Div", ENG_DIV, NN_TYPES_NUMERIC},
    {"Equal", ENG_EQUAL, NN_TYPES_NUMERIC | NN_TYPE(BOOL)},
    {"Greater", ENG_GREATER, NN_TYPES_NUMERIC},
    {"GreaterOrEqual", ENG_GREATER_EQUAL, NN_TYPES_NUMERIC},
    {"Less", ENG_LESS, NN_TYPES_NUMERIC},
    {"LessOrEqual", ENG_LESS_EQUAL, NN_TYPES_NUMERIC},
    {"Max", ENG_MAX, NN_TYPES_NUMERIC},
    {"Mean", ENG_ADD, NN_TYPES_FLOAT},
    {"Min", ENG_MIN, NN_TYPES_NUMERIC},
    {"Mul", ENG_MUL, NN_TYPES_NUMERIC},
    {"Or", ENG_OR, NN_TYPE(BOOL)},
    {"Sub", ENG_SUB, NN_TYPES_NUMERIC},
    {"Sum", ENG_ADD, NN_TYPES_FLOAT},
    {"Xor", ENG_XOR, NN_TYPE(BOOL)},
};

static const struct binary_rule *find_binary(const char *op)
{
    for (size_t i = 0; i < sizeof(binary_rules) / sizeof(binary_rules[0]); i++) {
        if (strcmp(binary_rules[i].op, op) == 0) {
            return &binary_rules[i];
        }
    }
    return NULL;
}

// Opsets before 7: `axis` names the dimension of a where the shape of b begins.
static enum base_status legacy_broadcast(struct eng_lower *lower, const struct eng_node *node,
                                         const struct eng_desc *left, const struct eng_desc *right,
                                         uint32_t *tensor)
{
    uint32_t axis;
    if (node->opset >= ENG_OPSET_FULL || eng_node_attr(node, "axis") == NULL) {
        return BASE_OK;
    }
    BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", 0), left->rank, &axis));
    if (axis + right->rank > left->rank) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "axis %u leaves no room for %u dimensions", axis, right->rank);
    }
    struct eng_desc wide = *right;
    wide.rank = left->rank - axis;
    base_assert(wide.rank >= right->rank);
    for (uint32_t d = right->rank; d < wide.rank; d++) {
        wide.dims[d] = 1;
    }
    return eng_lower_reshape(lower, *tensor, &wide, tensor);
}

static enum base_status lower_binary(struct eng_lower *lower, const struct eng_node *node)
{
    const struct binary_rule *rule = find_binary(node->op);
    if (rule == NULL) {
        return eng_lower_fail(lower, node, BASE_ERR_BUG, "no rule for this operator");
    }
    uint32_t a;
    uint32_t b;
    uint32_t y;
    bool text = rule->fn == ENG_EQUAL && node->opset >= 19; // strings are compared since then
    uint32_t types = rule->types | (text ? NN_TYPE(STRING) : 0);
    BASE_TRY(eng_nn_input(lower, node, 0, types, &a));
    struct eng_desc a_desc = *eng_lower_desc(lower, a);
    BASE_TRY(eng_nn_input(lower, node, 1, types, &b));
    struct eng_desc b_desc = *eng_lower_desc(lower, b);
    BASE_TRY(eng_nn_same_type(lower, node, 1, b_desc.dtype, a_desc.dtype));
    BASE_TRY(legacy_broadcast(lower, node, &a_desc, &b_desc, &b));
    BASE_TRY(eng_emit_binary(lower, rule->fn, a, b, &y));
    return eng_lower_output(lower, node, 0, y);
}

// Min, Max, Sum and Mean of any number of inputs, one after the other.
static enum base_status lower_variadic(struct eng_lower *lower, const struct eng_node *node)
{
    const struct binary_rule *rule = find_binary(node->op);
    if (rule == NULL || node->input_count == 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "the operator has no input");
    }
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, rule->types, &y));
    struct eng_desc first = *eng_lower_desc(lower, y);
    for (uint32_t i = 1; i < node->input_count; i++) {
        uint32_t x;
        BASE_TRY(eng_nn_input(lower, node, i, rule->types, &x));
        struct eng_desc desc = *eng_lower_desc(lower, x);
        BASE_TRY(eng_nn_same_type(lower, node, i, desc.dtype, first.dtype));
        BASE_TRY(eng_emit_binary(lower, rule->fn, y, x, &y));
    }
    if (node->input_count > 1 && strcmp(node->op, "Mean") == 0) {
        BASE_TRY(eng_nn_with(lower, ENG_DIV, y, node->input_count, &y));
    }
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_mod(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t a;
    uint32_t b;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_NUMERIC, &a));
    struct eng_desc a_desc = *eng_lower_desc(lower, a);
    BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPES_NUMERIC, &b));
    struct eng_desc b_desc = *eng_lower_desc(lower, b);
    BASE_TRY(eng_nn_same_type(lower, node, 1, b_desc.dtype, a_desc.dtype));
    bool fmod = eng_node_int(node, "fmod", 0) != 0;
    if (!fmod && ((NN_TYPES_FLOAT >> a_desc.dtype) & 1)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%s inputs need attribute fmod = 1",
                              eng_dtype_name(a_desc.dtype));
    }
    BASE_TRY(eng_emit_binary(lower, fmod ? ENG_FMOD : ENG_MOD, a, b, &y));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_bit_shift(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t a;
    uint32_t b;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_UINT, &a));
    struct eng_desc a_desc = *eng_lower_desc(lower, a);
    BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPES_UINT, &b));
    struct eng_desc b_desc = *eng_lower_desc(lower, b);
    BASE_TRY(eng_nn_same_type(lower, node, 1, b_desc.dtype, a_desc.dtype));
    struct eng_string direction = eng_node_string(node, "direction", "");
    bool left = eng_string_is(direction, "LEFT");
    if (!left && !eng_string_is(direction, "RIGHT")) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "attribute direction is '%.*s', expected LEFT or RIGHT",
                              (int)direction.size, direction.at);
    }
    BASE_TRY(eng_emit_binary(lower, left ? ENG_SHIFT_LEFT : ENG_SHIFT_RIGHT, a, b, &y));
    return eng_lower_output(lower, node, 0, y);
}

// x to a constant power that has a cheaper form. *out stays ENG_NONE when it has none.
static enum base_status power_of(struct eng_lower *lower, uint32_t input, double power,
                                 uint32_t *out)
{
    base_assert(*out == ENG_NONE);
    if (power == 1.0) {
        *out = input;
    } else if (power == 2.0) {
        return eng_nn_unary(lower, ENG_SQUARE, input, out);
    } else if (power == 3.0) {
        uint32_t square;
        BASE_TRY(eng_nn_unary(lower, ENG_SQUARE, input, &square));
        return eng_emit_binary(lower, ENG_MUL, square, input, out);
    } else if (power == 0.5) {
        return eng_nn_unary(lower, ENG_SQRT, input, out);
    } else if (power == -1.0) {
        return eng_nn_unary(lower, ENG_RECIPROCAL, input, out);
    }
    return BASE_OK;
}

// The type of the result is the base's; with mixed types the power is computed in double, or in
// int64 when both are integers.
static enum base_status lower_pow(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t e;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_NUMERIC, &x));
    struct eng_desc x_desc = *eng_lower_desc(lower, x);
    BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPES_NUMERIC, &e));
    struct eng_desc e_desc = *eng_lower_desc(lower, e);
    if (node->opset < 12) {
        BASE_TRY(eng_nn_same_type(lower, node, 1, e_desc.dtype, x_desc.dtype));
    }
    bool x_float = (NN_TYPES_FLOAT >> x_desc.dtype) & 1;
    uint32_t y = ENG_NONE;
    if (x_float && eng_lower_is_known(lower, e) && e_desc.rank <= x_desc.rank &&
        eng_desc_count(&e_desc) == 1) {
        double power;
        BASE_TRY(eng_lower_scalar(lower, node, e, &power));
        BASE_TRY(power_of(lower, x, power, &y));
        if (y != ENG_NONE) {
            base_assert(eng_desc_equal(eng_lower_desc(lower, y), &x_desc));
            return eng_lower_output(lower, node, 0, y);
        }
    }
    enum eng_dtype work = x_desc.dtype;
    if (x_desc.dtype != e_desc.dtype && !x_float) {
        work = ((NN_TYPES_FLOAT >> e_desc.dtype) & 1) ? ENG_F64 : ENG_I64;
    }
    BASE_TRY(eng_emit_cast(lower, x, work, &x));
    BASE_TRY(eng_emit_cast(lower, e, work, &e));
    BASE_TRY(eng_emit_binary(lower, ENG_POW, x, e, &y));
    BASE_TRY(eng_emit_cast(lower, y, x_desc.dtype, &y));
    return eng_lower_output(lower, node, 0, y);
}

// One bound of Clip. Before opset 11 a number alone.
struct clip_bound {
    uint32_t tensor; // a scalar of x's type, ENG_NONE: none
    double value;    // where known
    bool known;
};

// The bound in input `input`; `bound` holds what a missing one means.
static enum base_status clip_bound(struct eng_lower *lower, const struct eng_node *node,
                                   uint32_t input, enum eng_dtype dtype, struct clip_bound *bound)
{
    BASE_TRY(eng_nn_optional(lower, node, input, NN_TYPES_NUMERIC, &bound->tensor));
    if (bound->tensor == ENG_NONE) {
        return BASE_OK;
    }
    const struct eng_desc desc = *eng_lower_desc(lower, bound->tensor);
    BASE_TRY(eng_nn_same_type(lower, node, input, desc.dtype, dtype));
    if (eng_desc_count(&desc) != 1) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %u is not a scalar", input);
    }
    bound->known = eng_lower_is_known(lower, bound->tensor);
    return bound->known ? eng_lower_scalar(lower, node, bound->tensor, &bound->value) : BASE_OK;
}

// output fn the bound, where there is one.
static enum base_status clip_by(struct eng_lower *lower, enum eng_binary_fn fn,
                                const struct clip_bound *bound, uint32_t *output)
{
    base_assert(fn == ENG_MAX || fn == ENG_MIN);
    if (bound->tensor == ENG_NONE) {
        return BASE_OK;
    }
    uint32_t tensor;
    const struct eng_desc scalar = {.dtype = eng_lower_desc(lower, *output)->dtype};
    BASE_TRY(eng_nn_reshape(lower, bound->tensor, &scalar, &tensor));
    return eng_emit_binary(lower, fn, *output, tensor, output);
}

// Attributes before opset 11, inputs since. A missing bound does not clip at all.
static enum base_status lower_clip(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_NUMERIC, &x));
    const enum eng_dtype dtype = eng_lower_desc(lower, x)->dtype;
    struct clip_bound low = {.tensor = ENG_NONE, .value = -INFINITY, .known = true};
    struct clip_bound high = {.tensor = ENG_NONE, .value = INFINITY, .known = true};
    if (node->opset < 11) {
        low.value = (double)eng_node_float(node, "min", -INFINITY);
        high.value = (double)eng_node_float(node, "max", INFINITY);
    } else {
        BASE_TRY(clip_bound(lower, node, 1, dtype, &low));
        BASE_TRY(clip_bound(lower, node, 2, dtype, &high));
        if (low.tensor == ENG_NONE && high.tensor == ENG_NONE) {
            return eng_lower_output(lower, node, 0, x);
        }
    }
    uint32_t y = x;
    bool known = low.known && high.known;
    bool exact = (NN_TYPES_FLOAT >> dtype) & 1 && dtype != ENG_F64;
    if (known && low.value == 0.0 && isinf(high.value) && high.value > 0) {
        BASE_TRY(eng_nn_unary(lower, ENG_RELU, x, &y));
    } else if (known && (exact || node->opset < 11)) {
        // A low bound above the high one gives the high one.
        double least = low.value > high.value ? high.value : low.value;
        const struct eng_unary clip = {ENG_CLIP, (float)least, (float)high.value};
        BASE_TRY(eng_emit_unary(lower, &clip, x, &y));
    } else {
        BASE_TRY(clip_by(lower, ENG_MAX, &low, &y));
        BASE_TRY(clip_by(lower, ENG_MIN, &high, &y));
    }
    base_assert(eng_desc_equal(eng_lower_desc(lower, y), eng_lower_desc(lower, x)));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_prelu(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t slope;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT | NN_TYPES_INT, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPES_FLOAT | NN_TYPES_INT, &slope));
    struct eng_desc slope_desc = *eng_lower_desc(lower, slope);
    BASE_TRY(eng_nn_same_type(lower, node, 1, slope_desc.dtype, desc.dtype));
    if (node->opset < ENG_OPSET_FULL && slope_desc.rank == 1 && desc.rank > 2) {
        slope_desc.rank = desc.rank - 1; // a slope a channel: [C] meant [C, 1...]
        for (uint32_t d = 1; d < slope_desc.rank; d++) {
            slope_desc.dims[d] = 1;
        }
        BASE_TRY(eng_lower_reshape(lower, slope, &slope_desc, &slope));
    }
    bool fits = slope_desc.rank <= desc.rank;
    for (uint32_t i = 0; fits && i < slope_desc.rank; i++) {
        int64_t dim = slope_desc.dims[slope_desc.rank - 1 - i];
        fits = dim == 1 || dim == desc.dims[desc.rank - 1 - i];
    }
    if (!fits) {
        char a[64];
        char b[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "slope %s does not broadcast to %s",
                              eng_desc_text(&slope_desc, a, sizeof(a)),
                              eng_desc_text(&desc, b, sizeof(b)));
    }
    BASE_TRY(eng_emit_binary(lower, ENG_PRELU, x, slope, &y));
    base_assert(eng_desc_equal(eng_lower_desc(lower, y), &desc));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_where(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t condition;
    uint32_t a;
    uint32_t b;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPE(BOOL), &condition));
    BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPES_ANY, &a));
    struct eng_desc a_desc = *eng_lower_desc(lower, a);
    BASE_TRY(eng_nn_input(lower, node, 2, NN_TYPES_ANY, &b));
    struct eng_desc b_desc = *eng_lower_desc(lower, b);
    BASE_TRY(eng_nn_same_type(lower, node, 2, b_desc.dtype, a_desc.dtype));
    BASE_TRY(eng_emit_select(lower, condition, a, b, &y));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_identity(struct eng_lower *lower, const struct eng_node *node)
{
    struct eng_slot slot;
    BASE_TRY(eng_lower_slot(lower, node, 0, &slot));
    return eng_lower_output_slot(lower, node, 0, &slot);
}

// Running sums along the axis that input 1 names.
static enum base_status lower_cumsum(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t axis_tensor;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT | NN_TYPES_INT, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPES_INDEX, &axis_tensor));
    const int64_t *axes;
    uint32_t count;
    BASE_TRY(eng_lower_ints(lower, node, axis_tensor, &axes, &count));
    if (count != 1) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input 1 (axis) has %u values", count);
    }
    uint32_t axis;
    BASE_TRY(eng_lower_axis(lower, node, axes[0], desc.rank, &axis));
    const struct eng_command command = {
        .op = ENG_OP_CUMSUM,
        .inputs = &x,
        .input_count = 1,
        .output_count = 1,
        .u.cumsum = {.outer = eng_nn_product(&desc, 0, axis),
                     .n = desc.dims[axis],
                     .inner = eng_nn_product(&desc, axis + 1, desc.rank),
                     .exclusive = eng_node_int(node, "exclusive", 0) != 0,
                     .reverse = eng_node_int(node, "reverse", 0) != 0},
    };
    base_assert(command.u.cumsum.outer * command.u.cumsum.n * command.u.cumsum.inner ==
                eng_desc_count(&desc));
    uint32_t y;
    BASE_TRY(eng_emit(lower, &command, &desc, &y));
    return eng_lower_output(lower, node, 0, y);
}

// clang-format off
static const struct eng_op rows[] = {
    NN_ROW("Abs", 7, ATOMIC, lower_unary),
    NN_ROW("Acos", 7, ATOMIC, lower_unary),
    NN_ROW("Acosh", 9, ATOMIC, lower_unary),
    NN_ROW("Add", 7, ATOMIC, lower_binary),
    NN_ROW("And", 7, ATOMIC, lower_binary),
    NN_ROW("Asin", 7, ATOMIC, lower_unary),
    NN_ROW("Asinh", 9, ATOMIC, lower_unary),
    NN_ROW("Atan", 7, ATOMIC, lower_unary),
    NN_ROW("Atanh", 9, ATOMIC, lower_unary),
    NN_ROW("BitShift", 11, ATOMIC, lower_bit_shift),
    NN_ROW("BitwiseAnd", 18, ATOMIC, lower_binary),
    NN_ROW("BitwiseNot", 18, ATOMIC, lower_unary),
    NN_ROW("BitwiseOr", 18, ATOMIC, lower_binary),
    NN_ROW("BitwiseXor", 18, ATOMIC, lower_binary),
    NN_ROW("Ceil", 7, ATOMIC, lower_unary),
    NN_ROW("Celu", 12, ATOMIC, lower_unary),
    NN_ROW("Clip", 7, ATOMIC, lower_clip),
    NN_ROW("Cos", 7, ATOMIC, lower_unary),
    NN_ROW("Cosh", 9, ATOMIC, lower_unary),
    NN_ROW("CumSum", 11, ATOMIC, lower_cumsum),
    NN_ROW("Div", 7, ATOMIC, lower_binary),
    NN_ROW("Elu", 7, ATOMIC, lower_unary),
    NN_ROW("Equal", 7, ATOMIC, lower_binary),
    NN_ROW("Erf", 9, ATOMIC, lower_unary),
    NN_ROW("Exp", 7, ATOMIC, lower_unary),
    NN_ROW("Floor", 7, ATOMIC, lower_unary),
    NN_ROW("Gelu", 20, ATOMIC, lower_gelu),
    NN_ROW("Greater", 7, ATOMIC, lower_binary),
    NN_ROW("GreaterOrEqual", 12, ATOMIC, lower_binary),
    NN_ROW("HardSigmoid", 7, ATOMIC, lower_unary),
    NN_ROW("HardSwish", 14, ATOMIC, lower_unary),
    NN_ROW("Identity", 7, TRANSFORM, lower_identity),
    NN_ROW("IsInf", 10, ATOMIC, lower_is_inf),
    NN_ROW("IsNaN", 9, ATOMIC, lower_unary),
    NN_ROW("LeakyRelu", 7, ATOMIC, lower_unary),
    NN_ROW("Less", 7, ATOMIC, lower_binary),
    NN_ROW("LessOrEqual", 12, ATOMIC, lower_binary),
    NN_ROW("Log", 7, ATOMIC, lower_unary),
    NN_ROW("Max", 7, ATOMIC, lower_variadic),
    NN_ROW("Mean", 7, COMPOSITE, lower_variadic),
    NN_ROW("Min", 7, ATOMIC, lower_variadic),
    NN_ROW("Mish", 18, COMPOSITE, lower_mish),
    NN_ROW("Mod", 10, ATOMIC, lower_mod),
    NN_ROW("Mul", 7, ATOMIC, lower_binary),
    NN_ROW("Neg", 7, ATOMIC, lower_unary),
    NN_ROW("Not", 7, ATOMIC, lower_unary),
    NN_ROW("Or", 7, ATOMIC, lower_binary),
    NN_ROW("PRelu", 7, ATOMIC, lower_prelu),
    NN_ROW("Pow", 7, ATOMIC, lower_pow),
    NN_ROW("Reciprocal", 7, ATOMIC, lower_unary),
    NN_ROW("Relu", 7, ATOMIC, lower_unary),
    NN_ROW("Round", 11, ATOMIC, lower_unary),
    NN_ROW("Selu", 7, ATOMIC, lower_unary),
    NN_ROW("Shrink", 9, ATOMIC, lower_unary),
    NN_ROW("Sigmoid", 7, ATOMIC, lower_unary),
    NN_ROW("Sign", 9, ATOMIC, lower_unary),
    NN_ROW("Sin", 7, ATOMIC, lower_unary),
    NN_ROW("Sinh", 9, ATOMIC, lower_unary),
    NN_ROW("Softplus", 7, ATOMIC, lower_unary),
    NN_ROW("Softsign", 7, ATOMIC, lower_unary),
    NN_ROW("Sqrt", 7, ATOMIC, lower_unary),
    NN_ROW("Sub", 7, ATOMIC, lower_binary),
    NN_ROW("Sum", 7, ATOMIC, lower_variadic),
    NN_ROW("Tan", 7, ATOMIC, lower_unary),
    NN_ROW("Tanh", 7, ATOMIC, lower_unary),
    NN_ROW("ThresholdedRelu", 10, ATOMIC, lower_unary),
    NN_ROW("Where", 9, ATOMIC, lower_where),
    NN_ROW("Xor", 7, ATOMIC, lower_binary),
};
// clang-format on
const struct eng_op_table eng_ops_math = NN_TABLE(rows);

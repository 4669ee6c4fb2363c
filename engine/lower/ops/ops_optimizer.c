// The optimisers of ONNX's training preview: Adagrad, Adam, Momentum.
//
// Inputs are the rate R, the step T, then as many parameters, gradients and states; outputs the new
// parameters and states in the same order. Called by lowering on the planning thread.
#include "lower/ops/nn_kit.h"

#define TRAINING_DOMAIN "ai.onnx.preview.training"

struct optimizer {
    const struct eng_node *node;
    uint32_t rate, step;
    uint32_t count; // parameters
};

static enum base_status read_common(struct eng_lower *l, const struct eng_node *node,
                                    uint32_t states, struct optimizer *o)
{
    struct eng_desc rate;
    struct eng_desc step;
    uint32_t per_parameter = 2 + states;
    o->node = node;
    BASE_TRY(eng_nn_input(l, node, 0, NN_TYPE(F32) | NN_TYPE(F64), &o->rate, &rate));
    BASE_TRY(eng_nn_input(l, node, 1, NN_TYPE(I64), &o->step, &step));
    if (eng_desc_count(&rate) != 1 || eng_desc_count(&step) != 1) {
        return eng_lower_fail(l, node, BASE_ERR_INVALID, "R and T must be scalars");
    }
    struct eng_desc scalar = {.dtype = rate.dtype};
    BASE_TRY(eng_nn_reshape(l, o->rate, &scalar, &o->rate));
    BASE_TRY(eng_nn_reshape(l, o->step, &scalar, &o->step));
    if (node->input_count < 2 + per_parameter || (node->input_count - 2) % per_parameter != 0) {
        return eng_lower_fail(l, node, BASE_ERR_INVALID,
                              "%u inputs, expected 2 and %u for each "
                              "parameter",
                              node->input_count, per_parameter);
    }
    o->count = (node->input_count - 2) / per_parameter;
    return BASE_OK;
}

// Input `group` (parameters, gradients, states...) of parameter `i`, shaped as the parameter.
static enum base_status member(struct eng_lower *l, const struct optimizer *o, uint32_t group,
                               uint32_t i, uint32_t *out)
{
    uint32_t input = 2 + group * o->count + i;
    struct eng_desc desc;
    struct eng_desc parameter;
    uint32_t x;
    BASE_TRY(eng_nn_input(l, o->node, 2 + i, NN_TYPE(F32) | NN_TYPE(F64), &x, &parameter));
    BASE_TRY(eng_nn_input(l, o->node, input, NN_TYPE(F32) | NN_TYPE(F64), out, &desc));
    if (!eng_desc_equal(&desc, &parameter)) {
        return eng_lower_fail(l, o->node, BASE_ERR_INVALID, "inputs %u and %u differ in shape",
                              2 + i, input);
    }
    return BASE_OK;
}

// gradient + norm_coefficient * parameter
static enum base_status regularized(struct eng_lower *l, const struct optimizer *o, uint32_t i,
                                    uint32_t *out)
{
    uint32_t x;
    float norm = eng_node_float(o->node, "norm_coefficient", 0.0f);
    BASE_TRY(member(l, o, 1, i, out));
    if (norm == 0.0f) {
        return BASE_OK;
    }
    BASE_TRY(member(l, o, 0, i, &x));
    BASE_TRY(eng_nn_with(l, o->node, ENG_MUL, x, (double)norm, &x));
    return eng_emit_binary(l, o->node, ENG_ADD, x, *out, out);
}

// first * a + second * b
static enum base_status blend(struct eng_lower *l, const struct eng_node *node, uint32_t first,
                              double a, uint32_t second, double b, uint32_t *out)
{
    BASE_TRY(eng_nn_with(l, node, ENG_MUL, first, a, &first));
    BASE_TRY(eng_nn_with(l, node, ENG_MUL, second, b, &second));
    return eng_emit_binary(l, node, ENG_ADD, first, second, out);
}

// step > 0 ? x : otherwise
static enum base_status after_first(struct eng_lower *l, const struct optimizer *o, uint32_t x,
                                    uint32_t otherwise, uint32_t *out)
{
    uint32_t later;
    BASE_TRY(eng_nn_with(l, o->node, ENG_GREATER, o->step, 0.0, &later));
    return eng_emit_select(l, o->node, later, x, otherwise, out);
}

// parameter - rate * direction
static enum base_status descend(struct eng_lower *l, const struct optimizer *o, uint32_t i,
                                uint32_t rate, uint32_t direction, uint32_t *out)
{
    uint32_t x;
    BASE_TRY(member(l, o, 0, i, &x));
    BASE_TRY(eng_emit_cast(l, rate, eng_lower_desc(l, x)->dtype, &rate));
    BASE_TRY(eng_emit_binary(l, o->node, ENG_MUL, direction, rate, &direction));
    return eng_emit_binary(l, o->node, ENG_SUB, x, direction, out);
}

static enum base_status lower_adagrad(struct eng_lower *l, const struct eng_node *node)
{
    struct optimizer o;
    uint32_t rate;
    BASE_TRY(read_common(l, node, 1, &o));
    enum eng_dtype dtype = eng_lower_desc(l, o.rate)->dtype;
    BASE_TRY(eng_emit_cast(l, o.step, dtype, &rate));
    BASE_TRY(eng_nn_with(l, node, ENG_MUL, rate, (double)eng_node_float(node, "decay_factor", 0),
                         &rate));
    BASE_TRY(eng_nn_with(l, node, ENG_ADD, rate, 1.0, &rate));
    BASE_TRY(eng_emit_binary(l, node, ENG_DIV, o.rate, rate, &rate));
    double epsilon = (double)eng_node_float(node, "epsilon", 1e-6f);
    for (uint32_t i = 0; i < o.count; i++) {
        uint32_t g;
        uint32_t h;
        uint32_t y;
        BASE_TRY(regularized(l, &o, i, &g));
        BASE_TRY(member(l, &o, 2, i, &h));
        BASE_TRY(eng_nn_unary(l, ENG_SQUARE, g, &y));
        BASE_TRY(eng_emit_binary(l, node, ENG_ADD, h, y, &h));
        BASE_TRY(eng_nn_unary(l, ENG_SQRT, h, &y));
        BASE_TRY(eng_nn_with(l, node, ENG_ADD, y, epsilon, &y));
        BASE_TRY(eng_emit_binary(l, node, ENG_DIV, g, y, &y));
        BASE_TRY(descend(l, &o, i, rate, y, &y));
        BASE_TRY(eng_lower_output(l, node, i, y));
        BASE_TRY(eng_lower_output(l, node, o.count + i, h));
    }
    return BASE_OK;
}

// rate * sqrt(1 - beta^step) / (1 - alpha^step), from the second step on.
static enum base_status adam_rate(struct eng_lower *l, const struct optimizer *o, double alpha,
                                  double beta, uint32_t *out)
{
    const struct eng_node *node = o->node;
    uint32_t step;
    uint32_t a;
    uint32_t b;
    BASE_TRY(eng_emit_cast(l, o->step, eng_lower_desc(l, o->rate)->dtype, &step));
    BASE_TRY(eng_nn_from(l, node, ENG_POW, alpha, step, &a));
    BASE_TRY(eng_nn_from(l, node, ENG_SUB, 1.0, a, &a));
    BASE_TRY(eng_nn_from(l, node, ENG_POW, beta, step, &b));
    BASE_TRY(eng_nn_from(l, node, ENG_SUB, 1.0, b, &b));
    BASE_TRY(eng_nn_unary(l, ENG_SQRT, b, &b));
    BASE_TRY(eng_emit_binary(l, node, ENG_MUL, o->rate, b, &b));
    BASE_TRY(eng_emit_binary(l, node, ENG_DIV, b, a, &b));
    return after_first(l, o, b, o->rate, out);
}

static enum base_status lower_adam(struct eng_lower *l, const struct eng_node *node)
{
    struct optimizer o;
    uint32_t rate;
    double alpha = (double)eng_node_float(node, "alpha", 0.9f);
    double beta = (double)eng_node_float(node, "beta", 0.999f);
    double epsilon = (double)eng_node_float(node, "epsilon", 1e-6f);
    double post = 1.0 - (double)eng_node_float(node, "norm_coefficient_post", 0.0f);
    BASE_TRY(read_common(l, node, 2, &o));
    BASE_TRY(adam_rate(l, &o, alpha, beta, &rate));
    for (uint32_t i = 0; i < o.count; i++) {
        uint32_t g;
        uint32_t v;
        uint32_t h;
        uint32_t y;
        BASE_TRY(regularized(l, &o, i, &g));
        BASE_TRY(member(l, &o, 2, i, &v));
        BASE_TRY(member(l, &o, 3, i, &h));
        BASE_TRY(blend(l, node, v, alpha, g, 1.0 - alpha, &v));
        BASE_TRY(eng_nn_unary(l, ENG_SQUARE, g, &y));
        BASE_TRY(blend(l, node, h, beta, y, 1.0 - beta, &h));
        BASE_TRY(eng_nn_unary(l, ENG_SQRT, h, &y));
        BASE_TRY(eng_nn_with(l, node, ENG_ADD, y, epsilon, &y));
        BASE_TRY(eng_emit_binary(l, node, ENG_DIV, v, y, &y));
        BASE_TRY(descend(l, &o, i, rate, y, &y));
        if (post != 1.0) {
            BASE_TRY(eng_nn_with(l, node, ENG_MUL, y, post, &y));
        }
        BASE_TRY(eng_lower_output(l, node, i, y));
        BASE_TRY(eng_lower_output(l, node, o.count + i, v));
        BASE_TRY(eng_lower_output(l, node, 2 * o.count + i, h));
    }
    return BASE_OK;
}

static enum base_status lower_momentum(struct eng_lower *l, const struct eng_node *node)
{
    struct optimizer o;
    struct eng_string mode = eng_node_string(node, "mode", "standard");
    bool nesterov = eng_string_is(mode, "nesterov");
    double alpha = (double)eng_node_float(node, "alpha", 0.0f);
    double beta = (double)eng_node_float(node, "beta", 1.0f);
    if (!nesterov && !eng_string_is(mode, "standard")) {
        return eng_lower_fail(l, node, BASE_ERR_INVALID, "attribute mode is '%.*s'",
                              mode.size < 32 ? (int)mode.size : 32, mode.at);
    }
    BASE_TRY(read_common(l, node, 1, &o));
    for (uint32_t i = 0; i < o.count; i++) {
        uint32_t g;
        uint32_t v;
        uint32_t y;
        BASE_TRY(regularized(l, &o, i, &g));
        BASE_TRY(member(l, &o, 2, i, &v));
        BASE_TRY(eng_nn_with(l, node, ENG_MUL, g, beta, &y));
        BASE_TRY(after_first(l, &o, y, g, &y));
        BASE_TRY(eng_nn_with(l, node, ENG_MUL, v, alpha, &v));
        BASE_TRY(eng_emit_binary(l, node, ENG_ADD, v, y, &v));
        y = v;
        if (nesterov) {
            BASE_TRY(eng_nn_with(l, node, ENG_MUL, v, alpha, &y));
            BASE_TRY(eng_emit_binary(l, node, ENG_ADD, g, y, &y));
        }
        BASE_TRY(descend(l, &o, i, o.rate, y, &y));
        BASE_TRY(eng_lower_output(l, node, i, y));
        BASE_TRY(eng_lower_output(l, node, o.count + i, v));
    }
    return BASE_OK;
}

static const struct eng_op rows[] = {
    {TRAINING_DOMAIN, "Adagrad", 1, 1, ENG_KIND_COMPOSITE, lower_adagrad},
    {TRAINING_DOMAIN, "Adam", 1, 1, ENG_KIND_COMPOSITE, lower_adam},
    {TRAINING_DOMAIN, "Momentum", 1, 1, ENG_KIND_COMPOSITE, lower_momentum},
};
const struct eng_op_table eng_ops_optimizer = NN_TABLE(rows);

// The optimisers of ONNX's training preview: Adagrad, Adam, Momentum.
//
// Inputs are the rate R, the step T, then as many parameters, gradients and states; outputs the new
// parameters and states in the same order. Called by lowering on the planning thread.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

#define TRAINING_DOMAIN "ai.onnx.preview.training"

struct optimizer {
    const struct eng_node *node;
    uint32_t rate; // of this step
    uint32_t step;
    uint32_t count; // parameters
};

static enum base_status read_common(struct eng_lower *lower, const struct eng_node *node,
                                    uint32_t states, struct optimizer *optimizer)
{
    base_assert(states == 1 || states == 2);
    uint32_t per_parameter = 2 + states;
    optimizer->node = node;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPE(F32) | NN_TYPE(F64), &optimizer->rate));
    struct eng_desc rate = *eng_lower_desc(lower, optimizer->rate);
    BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPE(I64), &optimizer->step));
    struct eng_desc step = *eng_lower_desc(lower, optimizer->step);
    if (eng_desc_count(&rate) != 1 || eng_desc_count(&step) != 1) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "R and T must be scalars");
    }
    struct eng_desc scalar = {.dtype = rate.dtype};
    BASE_TRY(eng_nn_reshape(lower, optimizer->rate, &scalar, &optimizer->rate));
    BASE_TRY(eng_nn_reshape(lower, optimizer->step, &scalar, &optimizer->step));
    if (node->input_count < 2 + per_parameter || (node->input_count - 2) % per_parameter != 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "%u inputs, expected 2 and %u for each "
                              "parameter",
                              node->input_count, per_parameter);
    }
    optimizer->count = (node->input_count - 2) / per_parameter;
    return BASE_OK;
}

// Input `group` (parameters, gradients, states...) of parameter `i`, shaped as the parameter.
static enum base_status member(struct eng_lower *lower, const struct optimizer *optimizer,
                               uint32_t group, uint32_t index, uint32_t *out)
{
    base_assert(index < optimizer->count);
    uint32_t input = 2 + group * optimizer->count + index;
    uint32_t x;
    BASE_TRY(eng_nn_input(lower, optimizer->node, 2 + index, NN_TYPE(F32) | NN_TYPE(F64), &x));
    struct eng_desc parameter = *eng_lower_desc(lower, x);
    BASE_TRY(eng_nn_input(lower, optimizer->node, input, NN_TYPE(F32) | NN_TYPE(F64), out));
    struct eng_desc desc = *eng_lower_desc(lower, *out);
    if (!eng_desc_equal(&desc, &parameter)) {
        return eng_lower_fail(lower, optimizer->node, BASE_ERR_INVALID,
                              "inputs %u and %u differ in shape", 2 + index, input);
    }
    return BASE_OK;
}

// gradient + norm_coefficient * parameter
static enum base_status regularized(struct eng_lower *lower, const struct optimizer *optimizer,
                                    uint32_t index, uint32_t *out)
{
    uint32_t x;
    float norm = eng_node_float(optimizer->node, "norm_coefficient", 0.0f);
    BASE_TRY(member(lower, optimizer, 1, index, out));
    if (norm == 0.0f) {
        return BASE_OK;
    }
    BASE_TRY(member(lower, optimizer, 0, index, &x));
    BASE_TRY(eng_nn_with(lower, ENG_MUL, x, (double)norm, &x));
    return eng_emit_binary(lower, ENG_ADD, x, *out, out);
}

// first * share + second * (1 - share)
static enum base_status blend(struct eng_lower *lower, uint32_t first, uint32_t second,
                              double share, uint32_t *out)
{
    BASE_TRY(eng_nn_with(lower, ENG_MUL, first, share, &first));
    BASE_TRY(eng_nn_with(lower, ENG_MUL, second, 1.0 - share, &second));
    return eng_emit_binary(lower, ENG_ADD, first, second, out);
}

// step > 0 ? input : otherwise
static enum base_status after_first(struct eng_lower *lower, const struct optimizer *optimizer,
                                    uint32_t input, uint32_t otherwise, uint32_t *out)
{
    uint32_t later;
    BASE_TRY(eng_nn_with(lower, ENG_GREATER, optimizer->step, 0.0, &later));
    return eng_emit_select(lower, later, input, otherwise, out);
}

// parameter - rate * direction
static enum base_status descend(struct eng_lower *lower, const struct optimizer *optimizer,
                                uint32_t index, uint32_t direction, uint32_t *out)
{
    uint32_t x;
    uint32_t rate;
    BASE_TRY(member(lower, optimizer, 0, index, &x));
    BASE_TRY(eng_emit_cast(lower, optimizer->rate, eng_lower_desc(lower, x)->dtype, &rate));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, direction, rate, &direction));
    return eng_emit_binary(lower, ENG_SUB, x, direction, out);
}

static enum base_status lower_adagrad(struct eng_lower *lower, const struct eng_node *node)
{
    struct optimizer o;
    uint32_t rate;
    BASE_TRY(read_common(lower, node, 1, &o));
    base_assert(node->input_count == 2 + 3 * o.count);
    enum eng_dtype dtype = eng_lower_desc(lower, o.rate)->dtype;
    BASE_TRY(eng_emit_cast(lower, o.step, dtype, &rate));
    BASE_TRY(
        eng_nn_with(lower, ENG_MUL, rate, (double)eng_node_float(node, "decay_factor", 0), &rate));
    BASE_TRY(eng_nn_with(lower, ENG_ADD, rate, 1.0, &rate));
    BASE_TRY(eng_emit_binary(lower, ENG_DIV, o.rate, rate, &o.rate));
    double epsilon = (double)eng_node_float(node, "epsilon", 1e-6f);
    for (uint32_t i = 0; i < o.count; i++) {
        uint32_t g;
        uint32_t h;
        uint32_t y;
        BASE_TRY(regularized(lower, &o, i, &g));
        BASE_TRY(member(lower, &o, 2, i, &h));
        BASE_TRY(eng_nn_unary(lower, ENG_SQUARE, g, &y));
        BASE_TRY(eng_emit_binary(lower, ENG_ADD, h, y, &h));
        BASE_TRY(eng_nn_unary(lower, ENG_SQRT, h, &y));
        BASE_TRY(eng_nn_with(lower, ENG_ADD, y, epsilon, &y));
        BASE_TRY(eng_emit_binary(lower, ENG_DIV, g, y, &y));
        BASE_TRY(descend(lower, &o, i, y, &y));
        BASE_TRY(eng_lower_output(lower, node, i, y));
        BASE_TRY(eng_lower_output(lower, node, o.count + i, h));
    }
    return BASE_OK;
}

// rate * sqrt(1 - beta^step) / (1 - alpha^step), from the second step on.
static enum base_status adam_rate(struct eng_lower *lower, const struct optimizer *optimizer,
                                  double alpha, double beta, uint32_t *out)
{
    uint32_t step;
    uint32_t a;
    uint32_t b;
    BASE_TRY(eng_emit_cast(lower, optimizer->step, eng_lower_desc(lower, optimizer->rate)->dtype,
                           &step));
    BASE_TRY(eng_nn_from(lower, ENG_POW, alpha, step, &a));
    BASE_TRY(eng_nn_from(lower, ENG_SUB, 1.0, a, &a));
    BASE_TRY(eng_nn_from(lower, ENG_POW, beta, step, &b));
    BASE_TRY(eng_nn_from(lower, ENG_SUB, 1.0, b, &b));
    BASE_TRY(eng_nn_unary(lower, ENG_SQRT, b, &b));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, optimizer->rate, b, &b));
    BASE_TRY(eng_emit_binary(lower, ENG_DIV, b, a, &b));
    return after_first(lower, optimizer, b, optimizer->rate, out);
}

static enum base_status lower_adam(struct eng_lower *lower, const struct eng_node *node)
{
    struct optimizer o;
    double alpha = (double)eng_node_float(node, "alpha", 0.9f);
    double beta = (double)eng_node_float(node, "beta", 0.999f);
    double epsilon = (double)eng_node_float(node, "epsilon", 1e-6f);
    double post = 1.0 - (double)eng_node_float(node, "norm_coefficient_post", 0.0f);
    BASE_TRY(read_common(lower, node, 2, &o));
    base_assert(node->input_count == 2 + 4 * o.count);
    BASE_TRY(adam_rate(lower, &o, alpha, beta, &o.rate));
    for (uint32_t i = 0; i < o.count; i++) {
        uint32_t g;
        uint32_t v;
        uint32_t h;
        uint32_t y;
        BASE_TRY(regularized(lower, &o, i, &g));
        BASE_TRY(member(lower, &o, 2, i, &v));
        BASE_TRY(member(lower, &o, 3, i, &h));
        BASE_TRY(blend(lower, v, g, alpha, &v));
        BASE_TRY(eng_nn_unary(lower, ENG_SQUARE, g, &y));
        BASE_TRY(blend(lower, h, y, beta, &h));
        BASE_TRY(eng_nn_unary(lower, ENG_SQRT, h, &y));
        BASE_TRY(eng_nn_with(lower, ENG_ADD, y, epsilon, &y));
        BASE_TRY(eng_emit_binary(lower, ENG_DIV, v, y, &y));
        BASE_TRY(descend(lower, &o, i, y, &y));
        if (post != 1.0) {
            BASE_TRY(eng_nn_with(lower, ENG_MUL, y, post, &y));
        }
        BASE_TRY(eng_lower_output(lower, node, i, y));
        BASE_TRY(eng_lower_output(lower, node, o.count + i, v));
        BASE_TRY(eng_lower_output(lower, node, 2 * o.count + i, h));
    }
    return BASE_OK;
}

static enum base_status lower_momentum(struct eng_lower *lower, const struct eng_node *node)
{
    struct optimizer o;
    struct eng_string mode = eng_node_string(node, "mode", "standard");
    bool nesterov = eng_string_is(mode, "nesterov");
    double alpha = (double)eng_node_float(node, "alpha", 0.0f);
    double beta = (double)eng_node_float(node, "beta", 1.0f);
    if (!nesterov && !eng_string_is(mode, "standard")) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "attribute mode is '%.*s'",
                              mode.size < 32 ? (int)mode.size : 32, mode.at);
    }
    BASE_TRY(read_common(lower, node, 1, &o));
    base_assert(node->input_count == 2 + 3 * o.count);
    for (uint32_t i = 0; i < o.count; i++) {
        uint32_t g;
        uint32_t v;
        uint32_t y;
        BASE_TRY(regularized(lower, &o, i, &g));
        BASE_TRY(member(lower, &o, 2, i, &v));
        BASE_TRY(eng_nn_with(lower, ENG_MUL, g, beta, &y));
        BASE_TRY(after_first(lower, &o, y, g, &y));
        BASE_TRY(eng_nn_with(lower, ENG_MUL, v, alpha, &v));
        BASE_TRY(eng_emit_binary(lower, ENG_ADD, v, y, &v));
        y = v;
        if (nesterov) {
            BASE_TRY(eng_nn_with(lower, ENG_MUL, v, alpha, &y));
            BASE_TRY(eng_emit_binary(lower, ENG_ADD, g, y, &y));
        }
        BASE_TRY(descend(lower, &o, i, y, &y));
        BASE_TRY(eng_lower_output(lower, node, i, y));
        BASE_TRY(eng_lower_output(lower, node, o.count + i, v));
    }
    return BASE_OK;
}

static const struct eng_op rows[] = {
    {TRAINING_DOMAIN, "Adagrad", 1, 1, ENG_KIND_COMPOSITE, lower_adagrad},
    {TRAINING_DOMAIN, "Adam", 1, 1, ENG_KIND_COMPOSITE, lower_adam},
    {TRAINING_DOMAIN, "Momentum", 1, 1, ENG_KIND_COMPOSITE, lower_momentum},
};
const struct eng_op_table eng_ops_optimizer = NN_TABLE(rows);

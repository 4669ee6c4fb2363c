// The cells of RNN, GRU and LSTM: one step as products and elementwise commands.
//
// Called by ops_rnn.c on the planning thread. Gates are read as slices of one product, so a step
// costs one product and as few elementwise commands as the formulas allow.
#include "lower/ops/rnn_cell.h"

#include <strings.h>

// --- activations ---------------------------------------------------------------------------------

static const struct {
    const char *name;
    enum eng_unary_fn fn;
    bool is_affine, is_scaled;
    bool takes_alpha, takes_beta;
    float alpha, beta;
} activation_rules[] = {
    {"Relu", ENG_RELU, false, false, false, false, 0, 0},
    {"Tanh", ENG_TANH, false, false, false, false, 0, 0},
    {"Sigmoid", ENG_SIGMOID, false, false, false, false, 0, 0},
    {"Affine", ENG_ABS, true, false, true, true, 1.0f, 0},
    {"LeakyRelu", ENG_LEAKY_RELU, false, false, true, false, 0.01f, 0},
    {"ThresholdedRelu", ENG_THRESHOLDED_RELU, false, false, true, false, 1.0f, 0},
    {"ScaledTanh", ENG_TANH, false, true, true, true, 1.0f, 1.0f},
    {"HardSigmoid", ENG_HARD_SIGMOID, false, false, true, true, 0.2f, 0.5f},
    {"Elu", ENG_ELU, false, false, true, false, 1.0f, 0},
    {"Softsign", ENG_SOFTSIGN, false, false, false, false, 0, 0},
    {"Softplus", ENG_SOFTPLUS, false, false, false, false, 0, 0},
};
#define ACTIVATION_RULES (sizeof(activation_rules) / sizeof(activation_rules[0]))

static size_t find_activation(struct eng_string name)
{
    size_t i = 0;
    while (i < ACTIVATION_RULES) {
        const char *known = activation_rules[i].name;
        if (strncasecmp(known, name.at, (size_t)name.size) == 0 && known[name.size] == 0) {
            break;
        }
        i++;
    }
    return i;
}

// alpha and beta values belong, in order, to the activations that take one.
enum base_status eng_rnn_activations(struct eng_lower *lower, struct rnn_cell *cell,
                                     uint32_t direction)
{
    static const char *const usual[3][RNN_ACTIVATIONS_MAX] = {
        {"Tanh", "", ""}, {"Sigmoid", "Tanh", ""}, {"Sigmoid", "Tanh", "Tanh"}};
    const uint32_t per_direction = (uint32_t)cell->kind + 1;
    const struct eng_attr *names = eng_node_attr(cell->node, "activations");
    uint32_t alpha_count;
    uint32_t beta_count;
    const float *alphas = eng_node_floats(cell->node, "activation_alpha", &alpha_count);
    const float *betas = eng_node_floats(cell->node, "activation_beta", &beta_count);
    uint32_t alpha_at = 0;
    uint32_t beta_at = 0;
    bool given = names != NULL && names->kind == ENG_ATTR_STRINGS && names->count > 0;
    if (given && names->count < (direction + 1) * per_direction) {
        return eng_lower_fail(lower, cell->node, BASE_ERR_INVALID,
                              "%u activations, expected %u for each direction", names->count,
                              per_direction);
    }
    for (uint32_t i = 0; i < (direction + 1) * per_direction; i++) {
        const char *preset = usual[cell->kind][i % per_direction];
        struct eng_string name = {.at = preset, .size = 0};
        while (preset[name.size] != 0) {
            name.size++;
        }
        if (given) {
            name = names->u.strings[i];
        }
        size_t rule = name.size < 32 ? find_activation(name) : ACTIVATION_RULES;
        if (rule == ACTIVATION_RULES) {
            return eng_lower_fail(lower, cell->node, BASE_ERR_UNSUPPORTED, "activation '%.*s'",
                                  name.size < 32 ? (int)name.size : 32, name.at);
        }
        struct rnn_activation activation = {
            .fn = activation_rules[rule].fn,
            .is_affine = activation_rules[rule].is_affine,
            .is_scaled = activation_rules[rule].is_scaled,
            .alpha = activation_rules[rule].alpha,
            .beta = activation_rules[rule].beta,
        };
        if (activation_rules[rule].takes_alpha && alpha_at < alpha_count) {
            activation.alpha = alphas[alpha_at++];
        }
        if (activation_rules[rule].takes_beta && beta_at < beta_count) {
            activation.beta = betas[beta_at++];
        }
        cell->activations[i % per_direction] = activation;
    }
    return BASE_OK;
}

static enum base_status activate(struct eng_lower *lower, const struct rnn_cell *cell,
                                 uint32_t which, uint32_t x, uint32_t *out)
{
    const struct rnn_activation *f = &cell->activations[which];
    if (f->is_affine) {
        BASE_TRY(eng_nn_with(lower, cell->node, ENG_MUL, x, (double)f->alpha, &x));
        return eng_nn_with(lower, cell->node, ENG_ADD, x, (double)f->beta, out);
    }
    if (f->is_scaled) {
        BASE_TRY(eng_nn_with(lower, cell->node, ENG_MUL, x, (double)f->beta, &x));
        BASE_TRY(eng_nn_unary(lower, ENG_TANH, x, &x));
        return eng_nn_with(lower, cell->node, ENG_MUL, x, (double)f->alpha, out);
    }
    return eng_emit_unary(lower, f->fn, f->alpha, f->beta, x, out);
}

// --- gates ---------------------------------------------------------------------------------------

static enum base_status gate(struct eng_lower *lower, const struct rnn_cell *cell, uint32_t x,
                             uint32_t which, uint32_t *out)
{
    return eng_nn_part(lower, x, 1, which * cell->hidden, cell->hidden, out);
}

// The clipped sum of what input and state contribute to a gate, plus a peephole on `c`.
static enum base_status gate_input(struct eng_lower *lower, const struct rnn_cell *cell, uint32_t a,
                                   uint32_t b, uint32_t peephole, uint32_t c, uint32_t *out)
{
    uint32_t y;
    BASE_TRY(eng_emit_binary(lower, cell->node, ENG_ADD, a, b, &y));
    if (peephole != ENG_NONE) {
        uint32_t p;
        BASE_TRY(eng_emit_binary(lower, cell->node, ENG_MUL, peephole, c, &p));
        BASE_TRY(eng_emit_binary(lower, cell->node, ENG_ADD, y, p, &y));
    }
    if (cell->has_clip) {
        BASE_TRY(eng_emit_unary(lower, ENG_CLIP, -cell->clip, cell->clip, y, &y));
    }
    *out = y;
    return BASE_OK;
}

// f(gate `which` of both products), without a peephole.
static enum base_status plain_gate(struct eng_lower *lower, const struct rnn_cell *cell,
                                   uint32_t xw, uint32_t hr, uint32_t which, uint32_t activation,
                                   uint32_t *out)
{
    uint32_t a;
    uint32_t b;
    BASE_TRY(gate(lower, cell, xw, which, &a));
    BASE_TRY(gate(lower, cell, hr, which, &b));
    BASE_TRY(gate_input(lower, cell, a, b, ENG_NONE, ENG_NONE, &a));
    return activate(lower, cell, activation, a, out);
}

static enum base_status step_simple(struct eng_lower *lower, const struct rnn_cell *cell,
                                    uint32_t xw, uint32_t *h)
{
    uint32_t hr;
    BASE_TRY(eng_emit_matmul(lower, cell->node, *h, false, cell->recurrent, true, 1.0f, &hr));
    return plain_gate(lower, cell, xw, hr, 0, 0, h);
}

// The candidate state. The reset gate acts on the state before its product, or on the product.
static enum base_status gru_candidate(struct eng_lower *lower, const struct rnn_cell *cell,
                                      uint32_t xw, uint32_t hr, uint32_t reset, uint32_t h,
                                      uint32_t *out)
{
    uint32_t from_state;
    uint32_t from_input;
    BASE_TRY(gate(lower, cell, xw, 2, &from_input));
    if (cell->linear_before_reset) {
        BASE_TRY(gate(lower, cell, hr, 2, &from_state));
        if (cell->hidden_bias != ENG_NONE) {
            BASE_TRY(eng_emit_binary(lower, cell->node, ENG_ADD, from_state, cell->hidden_bias,
                                     &from_state));
        }
        BASE_TRY(eng_emit_binary(lower, cell->node, ENG_MUL, reset, from_state, &from_state));
    } else {
        uint32_t rows;
        uint32_t state;
        BASE_TRY(eng_nn_part(lower, cell->recurrent, 0, 2 * cell->hidden, cell->hidden, &rows));
        BASE_TRY(eng_emit_binary(lower, cell->node, ENG_MUL, reset, h, &state));
        BASE_TRY(eng_emit_matmul(lower, cell->node, state, false, rows, true, 1.0f, &from_state));
    }
    uint32_t sum;
    BASE_TRY(gate_input(lower, cell, from_input, from_state, ENG_NONE, ENG_NONE, &sum));
    return activate(lower, cell, 1, sum, out);
}

// Gates z (update), r (reset), h (candidate): h' = (1 - z) * candidate + z * h, computed as
// candidate + z * (h - candidate).
static enum base_status step_gru(struct eng_lower *lower, const struct rnn_cell *cell, uint32_t xw,
                                 uint32_t *h)
{
    uint32_t rows = cell->recurrent;
    uint32_t hr;
    uint32_t z;
    uint32_t r;
    uint32_t candidate;
    uint32_t y;
    if (!cell->linear_before_reset) {
        BASE_TRY(eng_nn_part(lower, cell->recurrent, 0, 0, 2 * cell->hidden, &rows));
    }
    BASE_TRY(eng_emit_matmul(lower, cell->node, *h, false, rows, true, 1.0f, &hr));
    BASE_TRY(plain_gate(lower, cell, xw, hr, 0, 0, &z));
    BASE_TRY(plain_gate(lower, cell, xw, hr, 1, 0, &r));
    BASE_TRY(gru_candidate(lower, cell, xw, hr, r, *h, &candidate));
    BASE_TRY(eng_emit_binary(lower, cell->node, ENG_SUB, *h, candidate, &y));
    BASE_TRY(eng_emit_binary(lower, cell->node, ENG_MUL, z, y, &y));
    return eng_emit_binary(lower, cell->node, ENG_ADD, candidate, y, h);
}

// Gates i, o, f, c; peepholes in the order i, o, f.
static enum base_status step_lstm(struct eng_lower *lower, const struct rnn_cell *cell, uint32_t xw,
                                  uint32_t *h, uint32_t *c)
{
    const struct eng_node *node = cell->node;
    uint32_t hr;
    uint32_t a[4];
    uint32_t b[4];
    uint32_t in;
    uint32_t forget;
    uint32_t candidate;
    uint32_t out;
    BASE_TRY(eng_emit_matmul(lower, node, *h, false, cell->recurrent, true, 1.0f, &hr));
    for (uint32_t i = 0; i < 4; i++) {
        BASE_TRY(gate(lower, cell, xw, i, &a[i]));
        BASE_TRY(gate(lower, cell, hr, i, &b[i]));
    }
    BASE_TRY(gate_input(lower, cell, a[0], b[0], cell->peepholes[0], *c, &in));
    BASE_TRY(activate(lower, cell, 0, in, &in));
    if (cell->input_forget) {
        BASE_TRY(eng_nn_from(lower, node, ENG_SUB, 1.0, in, &forget));
    } else {
        BASE_TRY(gate_input(lower, cell, a[2], b[2], cell->peepholes[2], *c, &forget));
        BASE_TRY(activate(lower, cell, 0, forget, &forget));
    }
    BASE_TRY(gate_input(lower, cell, a[3], b[3], ENG_NONE, ENG_NONE, &candidate));
    BASE_TRY(activate(lower, cell, 1, candidate, &candidate));
    BASE_TRY(eng_emit_binary(lower, node, ENG_MUL, forget, *c, &forget));
    BASE_TRY(eng_emit_binary(lower, node, ENG_MUL, in, candidate, &in));
    BASE_TRY(eng_emit_binary(lower, node, ENG_ADD, forget, in, c));
    BASE_TRY(gate_input(lower, cell, a[1], b[1], cell->peepholes[1], *c, &out));
    BASE_TRY(activate(lower, cell, 0, out, &out));
    BASE_TRY(activate(lower, cell, 2, *c, &candidate));
    return eng_emit_binary(lower, node, ENG_MUL, out, candidate, h);
}

enum base_status eng_rnn_step(struct eng_lower *lower, const struct rnn_cell *cell,
                              uint32_t projected, uint32_t *h, uint32_t *c)
{
    switch (cell->kind) {
    case RNN_LSTM:
        return step_lstm(lower, cell, projected, h, c);
    case RNN_GRU:
        return step_gru(lower, cell, projected, h);
    default:
        return step_simple(lower, cell, projected, h);
    }
}

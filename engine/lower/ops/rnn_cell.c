// The cells of RNN, GRU and LSTM: one step as products and elementwise commands.
//
// Called by ops_rnn.c on the planning thread. Gates are read as slices of one product, so a step
// costs one product and as few elementwise commands as the formulas allow.
#include "lower/ops/rnn_cell.h"

#include "base/check.h"

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
    base_assert(per_direction <= RNN_ACTIVATIONS_MAX);
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
                                 uint32_t which, uint32_t input, uint32_t *out)
{
    base_assert(which <= (uint32_t)cell->kind);
    const struct rnn_activation *f = &cell->activations[which];
    if (f->is_affine) {
        BASE_TRY(eng_nn_with(lower, ENG_MUL, input, (double)f->alpha, &input));
        return eng_nn_with(lower, ENG_ADD, input, (double)f->beta, out);
    }
    if (f->is_scaled) {
        BASE_TRY(eng_nn_with(lower, ENG_MUL, input, (double)f->beta, &input));
        BASE_TRY(eng_nn_unary(lower, ENG_TANH, input, &input));
        return eng_nn_with(lower, ENG_MUL, input, (double)f->alpha, out);
    }
    return eng_emit_unary(lower, &(struct eng_unary){f->fn, f->alpha, f->beta}, input, out);
}

// --- gates ---------------------------------------------------------------------------------------

static enum base_status gate(struct eng_lower *lower, const struct rnn_cell *cell, uint32_t input,
                             uint32_t which, uint32_t *out)
{
    base_assert(which < cell->gates);
    return eng_nn_part(lower, input, (struct eng_part){1, which * cell->hidden, cell->hidden}, out);
}

// What comes together at one gate.
struct gate_terms {
    uint32_t a, b;     // what input and state contribute
    uint32_t peephole; // weights of a peephole, ENG_NONE: none
};

// Their clipped sum; the peephole looks at `c`.
static enum base_status gate_input(struct eng_lower *lower, const struct rnn_cell *cell,
                                   const struct gate_terms *terms, uint32_t state, uint32_t *out)
{
    uint32_t y;
    BASE_TRY(eng_emit_binary(lower, ENG_ADD, terms->a, terms->b, &y));
    if (terms->peephole != ENG_NONE) {
        base_assert(cell->kind == RNN_LSTM);
        uint32_t p;
        BASE_TRY(eng_emit_binary(lower, ENG_MUL, terms->peephole, state, &p));
        BASE_TRY(eng_emit_binary(lower, ENG_ADD, y, p, &y));
    }
    if (cell->has_clip) {
        const struct eng_unary clip = {ENG_CLIP, -cell->clip, cell->clip};
        BASE_TRY(eng_emit_unary(lower, &clip, y, &y));
    }
    *out = y;
    return BASE_OK;
}

// What a step of RNN and GRU is computed from.
struct step_terms {
    uint32_t xw, hr; // what input and state contribute to all gates: [batch, gates * hidden]
    uint32_t h;      // the state before the step
};

// f(gate `which` of both products), without a peephole.
static enum base_status plain_gate(struct eng_lower *lower, const struct rnn_cell *cell,
                                   const struct step_terms *step, uint32_t which, uint32_t *out)
{
    struct gate_terms terms = {.peephole = ENG_NONE};
    BASE_TRY(gate(lower, cell, step->xw, which, &terms.a));
    BASE_TRY(gate(lower, cell, step->hr, which, &terms.b));
    BASE_TRY(gate_input(lower, cell, &terms, ENG_NONE, &terms.a));
    return activate(lower, cell, 0, terms.a, out);
}

// The product of a state and rows of the recurrent weights.
static enum base_status recur(struct eng_lower *lower, uint32_t hidden, uint32_t rows,
                              uint32_t *out)
{
    return eng_emit_matmul(lower, (struct eng_factor){.tensor = hidden},
                           (struct eng_factor){rows, .transposed = true}, 1.0f, out);
}

static enum base_status step_simple(struct eng_lower *lower, const struct rnn_cell *cell,
                                    uint32_t xw, uint32_t *hidden)
{
    struct step_terms step = {.xw = xw, .h = *hidden};
    BASE_TRY(recur(lower, *hidden, cell->recurrent, &step.hr));
    return plain_gate(lower, cell, &step, 0, hidden);
}

// The candidate state. The reset gate acts on the state before its product, or on the product.
static enum base_status gru_candidate(struct eng_lower *lower, const struct rnn_cell *cell,
                                      const struct step_terms *step, uint32_t reset, uint32_t *out)
{
    struct gate_terms terms = {.peephole = ENG_NONE};
    BASE_TRY(gate(lower, cell, step->xw, 2, &terms.a));
    if (cell->linear_before_reset) {
        BASE_TRY(gate(lower, cell, step->hr, 2, &terms.b));
        if (cell->hidden_bias != ENG_NONE) {
            BASE_TRY(eng_emit_binary(lower, ENG_ADD, terms.b, cell->hidden_bias, &terms.b));
        }
        BASE_TRY(eng_emit_binary(lower, ENG_MUL, reset, terms.b, &terms.b));
    } else {
        uint32_t rows;
        uint32_t state;
        const struct eng_part last = {0, 2 * cell->hidden, cell->hidden};
        BASE_TRY(eng_nn_part(lower, cell->recurrent, last, &rows));
        BASE_TRY(eng_emit_binary(lower, ENG_MUL, reset, step->h, &state));
        BASE_TRY(recur(lower, state, rows, &terms.b));
    }
    uint32_t sum;
    BASE_TRY(gate_input(lower, cell, &terms, ENG_NONE, &sum));
    return activate(lower, cell, 1, sum, out);
}

// Gates z (update), r (reset), h (candidate): h' = (1 - z) * candidate + z * hidden, computed
// as candidate + z * (hidden - candidate).
static enum base_status step_gru(struct eng_lower *lower, const struct rnn_cell *cell, uint32_t xw,
                                 uint32_t *hidden)
{
    base_assert(cell->gates == 3);
    struct step_terms step = {.xw = xw, .h = *hidden};
    uint32_t rows = cell->recurrent;
    uint32_t z;
    uint32_t r;
    uint32_t candidate;
    uint32_t y;
    if (!cell->linear_before_reset) {
        const struct eng_part first = {0, 0, 2 * cell->hidden};
        BASE_TRY(eng_nn_part(lower, cell->recurrent, first, &rows));
    }
    BASE_TRY(recur(lower, *hidden, rows, &step.hr));
    BASE_TRY(plain_gate(lower, cell, &step, 0, &z));
    BASE_TRY(plain_gate(lower, cell, &step, 1, &r));
    BASE_TRY(gru_candidate(lower, cell, &step, r, &candidate));
    BASE_TRY(eng_emit_binary(lower, ENG_SUB, *hidden, candidate, &y));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, z, y, &y));
    return eng_emit_binary(lower, ENG_ADD, candidate, y, hidden);
}

// Gates i, o, f, c; peepholes in the order i, o, f.
static enum base_status step_lstm(struct eng_lower *lower, const struct rnn_cell *cell, uint32_t xw,
                                  uint32_t *hidden, uint32_t *cell_state)
{
    base_assert(cell->gates == 4);
    uint32_t hr;
    struct gate_terms gates[4];
    uint32_t in;
    uint32_t forget;
    uint32_t candidate;
    uint32_t out;
    BASE_TRY(recur(lower, *hidden, cell->recurrent, &hr));
    for (uint32_t i = 0; i < 4; i++) {
        BASE_TRY(gate(lower, cell, xw, i, &gates[i].a));
        BASE_TRY(gate(lower, cell, hr, i, &gates[i].b));
        gates[i].peephole = i < 3 ? cell->peepholes[i] : ENG_NONE;
    }
    BASE_TRY(gate_input(lower, cell, &gates[0], *cell_state, &in));
    BASE_TRY(activate(lower, cell, 0, in, &in));
    if (cell->input_forget) {
        BASE_TRY(eng_nn_from(lower, ENG_SUB, 1.0, in, &forget));
    } else {
        BASE_TRY(gate_input(lower, cell, &gates[2], *cell_state, &forget));
        BASE_TRY(activate(lower, cell, 0, forget, &forget));
    }
    BASE_TRY(gate_input(lower, cell, &gates[3], ENG_NONE, &candidate));
    BASE_TRY(activate(lower, cell, 1, candidate, &candidate));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, forget, *cell_state, &forget));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, in, candidate, &in));
    BASE_TRY(eng_emit_binary(lower, ENG_ADD, forget, in, cell_state));
    BASE_TRY(gate_input(lower, cell, &gates[1], *cell_state, &out));
    BASE_TRY(activate(lower, cell, 0, out, &out));
    BASE_TRY(activate(lower, cell, 2, *cell_state, &candidate));
    return eng_emit_binary(lower, ENG_MUL, out, candidate, hidden);
}

enum base_status eng_rnn_step(struct eng_lower *lower, const struct rnn_cell *cell,
                              uint32_t projected, uint32_t *hidden, uint32_t *cell_state)
{
    base_assert(eng_lower_desc(lower, projected)->dims[1] == cell->gates * cell->hidden);
    switch (cell->kind) {
    case RNN_LSTM:
        return step_lstm(lower, cell, projected, hidden, cell_state);
    case RNN_GRU:
        return step_gru(lower, cell, projected, hidden);
    default:
        return step_simple(lower, cell, projected, hidden);
    }
}

// One direction of a recurrent layer, between ops_rnn.c (inputs, directions, outputs) and
// rnn_cell.c (what happens in one step).
#ifndef ENG_LOWER_OPS_RNN_CELL_H
#define ENG_LOWER_OPS_RNN_CELL_H

#include "lower/ops/nn_kit.h"

enum rnn_kind { RNN_SIMPLE, RNN_GRU, RNN_LSTM };
#define RNN_GATES_MAX       4
#define RNN_ACTIVATIONS_MAX 3

struct rnn_activation {
    enum eng_unary_fn fn;
    bool is_affine; // alpha * x + beta
    bool is_scaled; // alpha * tanh(beta * x)
    float alpha, beta;
};

struct rnn_cell {
    const struct eng_node *node;
    enum rnn_kind kind;
    enum eng_dtype dtype;
    int64_t batch, hidden;
    uint32_t gates;
    struct rnn_activation activations[RNN_ACTIVATIONS_MAX];
    bool has_clip;
    float clip;
    bool linear_before_reset; // GRU
    bool input_forget;        // LSTM: the forget gate is 1 - the input gate
    uint32_t recurrent;       // [gates * hidden, hidden]
    uint32_t hidden_bias;  // GRU with linear_before_reset: [hidden] of the last gate; else ENG_NONE
    uint32_t peepholes[3]; // LSTM: [hidden] of input, output, forget; ENG_NONE: none
};

// Reads the activations of direction `direction` of `count`.
BASE_NODISCARD enum base_status eng_rnn_activations(struct eng_lower *lower, struct rnn_cell *cell,
                                                    uint32_t direction);
// One step: `projected` [batch, gates * hidden] is what the input contributes with its biases;
// *hidden (and *cell_state of LSTM) [batch, hidden] go from the state before to the one after.
BASE_NODISCARD enum base_status eng_rnn_step(struct eng_lower *lower, const struct rnn_cell *cell,
                                             uint32_t projected, uint32_t *hidden,
                                             uint32_t *cell_state);

#endif

// RNN, GRU and LSTM, unrolled over time.
//
// The input's share of every step is one product over the whole sequence; what is left per step is
// the recurrent product and the gates (rnn_cell.c). Sequence lengths hold the state with selects:
// beyond its length a sequence keeps its last state and gives zeros, which for the reverse
// direction means that it starts at its own end. Called by lowering on the planning thread.
#include "lower/ops/rnn_cell.h"

#include "base/check.h"

#include <string.h>

#define RNN_STEPS_MAX 16384 // unrolled steps of one node

struct rnn {
    const struct eng_node *node;
    enum rnn_kind kind;
    bool batch_first; // layout = 1
    uint32_t directions;
    bool reversed[2];
    enum eng_dtype dtype;
    int64_t steps, batch, input, hidden;
    uint32_t gates;
    uint32_t x, w, r, b, lengths, h0, c0, p; // inputs; ENG_NONE: left out
};

static enum base_status check_shape(struct eng_lower *lower, const struct rnn *rnn, uint32_t input,
                                    uint32_t tensor, const struct eng_desc *want)
{
    const struct eng_desc *have = eng_lower_desc(lower, tensor);
    if (eng_desc_equal(have, want)) {
        return BASE_OK;
    }
    char have_text[64];
    char want_text[64];
    return eng_lower_fail(lower, rnn->node, BASE_ERR_INVALID, "input %u is %s, expected %s", input,
                          eng_desc_text(have, have_text, sizeof(have_text)),
                          eng_desc_text(want, want_text, sizeof(want_text)));
}

static enum base_status read_attributes(struct eng_lower *lower, struct rnn *rnn)
{
    const struct eng_node *node = rnn->node;
    struct eng_string direction = eng_node_string(node, "direction", "forward");
    rnn->directions = 1;
    if (eng_string_is(direction, "bidirectional")) {
        rnn->directions = 2;
        rnn->reversed[1] = true;
    } else if (eng_string_is(direction, "reverse")) {
        rnn->reversed[0] = true;
    } else if (!eng_string_is(direction, "forward")) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "attribute direction is '%.*s'",
                              direction.size < 32 ? (int)direction.size : 32, direction.at);
    }
    rnn->batch_first = eng_node_int(node, "layout", 0) != 0;
    rnn->kind = strcmp(node->op, "LSTM") == 0  ? RNN_LSTM
                : strcmp(node->op, "GRU") == 0 ? RNN_GRU
                                               : RNN_SIMPLE;
    rnn->gates = rnn->kind == RNN_LSTM ? 4 : rnn->kind == RNN_GRU ? 3 : 1;
    base_assert(rnn->gates <= RNN_GATES_MAX);
    return BASE_OK;
}

// An optional state [directions, batch, hidden] ([batch, directions, hidden] with layout 1).
static enum base_status read_state(struct eng_lower *lower, const struct rnn *rnn, uint32_t input,
                                   uint32_t *out)
{
    BASE_TRY(eng_nn_optional(lower, rnn->node, input, NN_TYPES_FLOAT, out));
    if (*out == ENG_NONE) {
        return BASE_OK;
    }
    static const uint32_t swap[3] = {1, 0, 2};
    struct eng_desc want = rnn->batch_first
                               ? eng_nn_desc3(rnn->dtype, rnn->batch, rnn->directions, rnn->hidden)
                               : eng_nn_desc3(rnn->dtype, rnn->directions, rnn->batch, rnn->hidden);
    BASE_TRY(check_shape(lower, rnn, input, *out, &want));
    return rnn->batch_first ? eng_lower_transpose(lower, *out, swap, out) : BASE_OK;
}

static enum base_status read_x(struct eng_lower *lower, struct rnn *rnn)
{
    BASE_TRY(eng_nn_input(lower, rnn->node, 0, NN_TYPES_FLOAT, &rnn->x));
    struct eng_desc desc = *eng_lower_desc(lower, rnn->x);
    if (desc.rank != 3) {
        return eng_lower_fail(lower, rnn->node, BASE_ERR_INVALID,
                              "the input has rank %u, expected 3", desc.rank);
    }
    if (rnn->batch_first) {
        static const uint32_t swap[3] = {1, 0, 2};
        BASE_TRY(eng_lower_transpose(lower, rnn->x, swap, &rnn->x));
        desc = *eng_lower_desc(lower, rnn->x);
    }
    rnn->dtype = desc.dtype;
    rnn->steps = desc.dims[0];
    rnn->batch = desc.dims[1];
    rnn->input = desc.dims[2];
    base_assert(rnn->steps * rnn->batch * rnn->input == eng_desc_count(&desc));
    if (rnn->steps > RNN_STEPS_MAX) {
        return eng_lower_fail(lower, rnn->node, BASE_ERR_TOO_LARGE, "%lld steps, at most %d",
                              (long long)rnn->steps, RNN_STEPS_MAX);
    }
    return BASE_OK;
}

static enum base_status read_inputs(struct eng_lower *lower, struct rnn *rnn)
{
    base_assert(rnn->gates >= 1 && rnn->directions >= 1 && rnn->directions <= 2);
    BASE_TRY(read_x(lower, rnn));
    BASE_TRY(eng_nn_input(lower, rnn->node, 2, NN_TYPES_FLOAT, &rnn->r));
    struct eng_desc desc = *eng_lower_desc(lower, rnn->r);
    rnn->hidden = desc.rank == 3 ? desc.dims[2] : 0;
    int64_t rows = rnn->hidden * rnn->gates;
    if (rnn->hidden == 0 || eng_node_int(rnn->node, "hidden_size", rnn->hidden) != rnn->hidden) {
        return eng_lower_fail(lower, rnn->node, BASE_ERR_INVALID,
                              "hidden_size does not fit input 2");
    }
    struct eng_desc want = eng_nn_desc3(rnn->dtype, rnn->directions, rows, rnn->hidden);
    BASE_TRY(check_shape(lower, rnn, 2, rnn->r, &want));
    BASE_TRY(eng_nn_input(lower, rnn->node, 1, NN_TYPES_FLOAT, &rnn->w));
    desc = *eng_lower_desc(lower, rnn->w);
    want.dims[2] = rnn->input;
    BASE_TRY(check_shape(lower, rnn, 1, rnn->w, &want));
    BASE_TRY(eng_nn_optional(lower, rnn->node, 3, NN_TYPES_FLOAT, &rnn->b));
    if (rnn->b != ENG_NONE) {
        want = eng_nn_desc2(rnn->dtype, rnn->directions, 2 * rows);
        BASE_TRY(check_shape(lower, rnn, 3, rnn->b, &want));
    }
    BASE_TRY(eng_nn_optional(lower, rnn->node, 4, NN_TYPES_INDEX, &rnn->lengths));
    if (rnn->lengths != ENG_NONE) {
        const enum eng_dtype dtype = eng_lower_desc(lower, rnn->lengths)->dtype;
        want = eng_nn_desc1(dtype, rnn->batch);
        BASE_TRY(check_shape(lower, rnn, 4, rnn->lengths, &want));
        struct eng_desc column = eng_nn_desc2(dtype, rnn->batch, 1);
        BASE_TRY(eng_nn_reshape(lower, rnn->lengths, &column, &rnn->lengths));
    }
    BASE_TRY(read_state(lower, rnn, 5, &rnn->h0));
    rnn->c0 = rnn->p = ENG_NONE;
    if (rnn->kind == RNN_LSTM) {
        BASE_TRY(read_state(lower, rnn, 6, &rnn->c0));
        BASE_TRY(eng_nn_optional(lower, rnn->node, 7, NN_TYPES_FLOAT, &rnn->p));
        if (rnn->p != ENG_NONE) {
            want = eng_nn_desc2(rnn->dtype, rnn->directions, 3 * rnn->hidden);
            BASE_TRY(check_shape(lower, rnn, 7, rnn->p, &want));
        }
    }
    return BASE_OK;
}

// Slice `direction` of a tensor [directions, ...] without that dim.
static enum base_status of_direction(struct eng_lower *lower, uint32_t tensor, uint32_t direction,
                                     uint32_t *out)
{
    uint32_t part;
    struct eng_desc full = *eng_lower_desc(lower, tensor);
    base_assert(full.rank >= 2 && direction < full.dims[0]);
    struct eng_desc desc = {.dtype = full.dtype, .rank = full.rank - 1};
    for (uint32_t i = 0; i < desc.rank; i++) {
        desc.dims[i] = full.dims[i + 1];
    }
    BASE_TRY(eng_nn_part(lower, tensor, (struct eng_part){0, direction, 1}, &part));
    return eng_nn_reshape(lower, part, &desc, out);
}

static enum base_status zeros(struct eng_lower *lower, const struct rnn *rnn, uint32_t *out)
{
    struct eng_desc desc = eng_nn_desc2(rnn->dtype, rnn->batch, rnn->hidden);
    BASE_TRY(eng_lower_const_f32(lower, rnn->dtype, 0.0, out));
    return eng_lower_expand(lower, *out, &desc, out);
}

static enum base_status initial(struct eng_lower *lower, const struct rnn *rnn, uint32_t state,
                                uint32_t direction, uint32_t *out)
{
    return state == ENG_NONE ? zeros(lower, rnn, out) : of_direction(lower, state, direction, out);
}

// Both biases of a direction as one; what GRU adds to the state's product alone stays apart.
static enum base_status read_bias(struct eng_lower *lower, const struct rnn *rnn,
                                  uint32_t direction, struct rnn_cell *cell, uint32_t *out)
{
    base_assert(direction < rnn->directions);
    base_assert(rnn->kind != RNN_GRU || rnn->gates == 3);
    uint32_t both;
    uint32_t w_bias;
    uint32_t r_bias;
    int64_t rows = rnn->gates * rnn->hidden;
    cell->hidden_bias = ENG_NONE;
    *out = ENG_NONE;
    if (rnn->b == ENG_NONE) {
        return BASE_OK;
    }
    BASE_TRY(of_direction(lower, rnn->b, direction, &both));
    BASE_TRY(eng_nn_part(lower, both, (struct eng_part){0, 0, rows}, &w_bias));
    BASE_TRY(eng_nn_part(lower, both, (struct eng_part){0, rows, rows}, &r_bias));
    if (rnn->kind == RNN_GRU && cell->linear_before_reset) {
        uint32_t parts[2];
        BASE_TRY(eng_nn_part(lower, both, (struct eng_part){0, rows + 2 * rnn->hidden, rnn->hidden},
                             &cell->hidden_bias));
        BASE_TRY(eng_nn_part(lower, both, (struct eng_part){0, rows, 2 * rnn->hidden}, &parts[0]));
        struct eng_desc desc = eng_nn_desc1(rnn->dtype, rnn->hidden);
        BASE_TRY(eng_lower_const_f32(lower, rnn->dtype, 0.0, &parts[1]));
        BASE_TRY(eng_lower_expand(lower, parts[1], &desc, &parts[1]));
        BASE_TRY(eng_lower_concat(lower, parts, 2, 0, &r_bias));
    }
    BASE_TRY(eng_emit_binary(lower, ENG_ADD, w_bias, r_bias, out));
    return eng_nn_fold(lower, *out, out);
}

static enum base_status make_cell(struct eng_lower *lower, const struct rnn *rnn,
                                  uint32_t direction, struct rnn_cell *cell, uint32_t *out_bias)
{
    base_assert(direction < rnn->directions);
    const struct eng_node *node = rnn->node;
    const struct eng_attr *clip = eng_node_attr(node, "clip");
    *cell = (struct rnn_cell){
        .node = node,
        .kind = rnn->kind,
        .dtype = rnn->dtype,
        .batch = rnn->batch,
        .hidden = rnn->hidden,
        .gates = rnn->gates,
        .has_clip = clip != NULL && clip->kind == ENG_ATTR_FLOAT && clip->u.f > 0,
        .clip = eng_node_float(node, "clip", 0),
        .linear_before_reset = eng_node_int(node, "linear_before_reset", 0) != 0,
        .input_forget = eng_node_int(node, "input_forget", 0) != 0,
        .peepholes = {ENG_NONE, ENG_NONE, ENG_NONE},
    };
    BASE_TRY(eng_rnn_activations(lower, cell, direction));
    BASE_TRY(of_direction(lower, rnn->r, direction, &cell->recurrent));
    if (rnn->p != ENG_NONE) {
        uint32_t p;
        BASE_TRY(of_direction(lower, rnn->p, direction, &p));
        for (uint32_t i = 0; i < 3; i++) {
            BASE_TRY(eng_nn_part(lower, p, (struct eng_part){0, i * rnn->hidden, rnn->hidden},
                                 &cell->peepholes[i]));
        }
    }
    return read_bias(lower, rnn, direction, cell, out_bias);
}

// X * W^T + bias for all steps: [steps, batch, gates * hidden].
static enum base_status project(struct eng_lower *lower, const struct rnn *rnn, uint32_t direction,
                                uint32_t bias, uint32_t *out)
{
    uint32_t w;
    uint32_t x;
    struct eng_desc flat = eng_nn_desc2(rnn->dtype, rnn->steps * rnn->batch, rnn->input);
    struct eng_desc cube =
        eng_nn_desc3(rnn->dtype, rnn->steps, rnn->batch, rnn->gates * rnn->hidden);
    BASE_TRY(of_direction(lower, rnn->w, direction, &w));
    BASE_TRY(eng_nn_reshape(lower, rnn->x, &flat, &x));
    BASE_TRY(eng_emit_matmul(lower, (struct eng_factor){.tensor = x}, (struct eng_factor){w, true},
                             1.0f, &x));
    if (bias != ENG_NONE) {
        BASE_TRY(eng_emit_binary(lower, ENG_ADD, x, bias, &x));
    }
    return eng_nn_reshape(lower, x, &cube, out);
}

// One direction on its way through the steps.
struct rnn_course {
    uint32_t projected; // what the input contributes: [steps, batch, gates * hidden]
    uint32_t h, c;      // the state: [batch, hidden]; c of LSTM
    uint32_t y;         // what the last step gave, zero where a sequence sat it out
    uint32_t zero;
};

// One step at time t, which sequences shorter than that sit out.
static enum base_status run_step(struct eng_lower *lower, const struct rnn *rnn,
                                 const struct rnn_cell *cell, int64_t step,
                                 struct rnn_course *course)
{
    base_assert(step >= 0 && step < rnn->steps);
    uint32_t now;
    struct rnn_course next = *course;
    BASE_TRY(of_direction(lower, course->projected, (uint32_t)step, &now));
    BASE_TRY(eng_rnn_step(lower, cell, now, &next.h, &next.c));
    next.y = next.h;
    if (rnn->lengths != ENG_NONE) {
        uint32_t active;
        BASE_TRY(eng_nn_with(lower, ENG_GREATER, rnn->lengths, (double)step, &active));
        BASE_TRY(eng_emit_select(lower, active, next.h, course->zero, &next.y));
        BASE_TRY(eng_emit_select(lower, active, next.h, course->h, &next.h));
        if (rnn->kind == RNN_LSTM) {
            BASE_TRY(eng_emit_select(lower, active, next.c, course->c, &next.c));
        }
    }
    *course = next;
    return BASE_OK;
}

// Runs one direction; ys[t * directions + direction] receives step t as [1, 1, batch, hidden].
static enum base_status run_direction(struct eng_lower *lower, const struct rnn *rnn,
                                      uint32_t direction, uint32_t *ys, struct rnn_course *course)
{
    base_assert(direction < rnn->directions);
    struct rnn_cell cell;
    uint32_t bias;
    struct eng_desc slot = {
        .dtype = rnn->dtype, .rank = 4, .dims = {1, 1, rnn->batch, rnn->hidden}};
    BASE_TRY(make_cell(lower, rnn, direction, &cell, &bias));
    BASE_TRY(project(lower, rnn, direction, bias, &course->projected));
    BASE_TRY(initial(lower, rnn, rnn->h0, direction, &course->h));
    BASE_TRY(initial(lower, rnn, rnn->c0, direction, &course->c));
    BASE_TRY(zeros(lower, rnn, &course->zero));
    for (int64_t i = 0; i < rnn->steps; i++) {
        int64_t t = rnn->reversed[direction] ? rnn->steps - 1 - i : i;
        BASE_TRY(run_step(lower, rnn, &cell, t, course));
        BASE_TRY(eng_nn_reshape(lower, course->y, &slot, &ys[t * rnn->directions + direction]));
    }
    return BASE_OK;
}

// Y [steps, directions, batch, hidden], with layout 1 [batch, steps, directions, hidden].
static enum base_status output_all(struct eng_lower *lower, const struct rnn *rnn,
                                   const uint32_t *ys)
{
    base_assert(rnn->directions == 1 || rnn->directions == 2);
    static const uint32_t to_batch_first[4] = {2, 0, 1, 3};
    struct eng_desc desc = {
        .dtype = rnn->dtype,
        .rank = 4,
        .dims = {rnn->steps, rnn->directions, rnn->batch, rnn->hidden},
    };
    uint32_t y;
    if (!eng_lower_wants(lower, rnn->node, 0)) {
        return BASE_OK;
    }
    if (rnn->steps == 0) {
        BASE_TRY(eng_lower_virtual(lower, &desc, NULL, 0, &y));
    } else {
        BASE_TRY(eng_lower_concat(lower, ys, (uint32_t)rnn->steps * rnn->directions, 0, &y));
        BASE_TRY(eng_nn_reshape(lower, y, &desc, &y));
    }
    if (rnn->batch_first) {
        BASE_TRY(eng_lower_transpose(lower, y, to_batch_first, &y));
    }
    return eng_lower_output(lower, rnn->node, 0, y);
}

// Last states of the directions: [directions, batch, hidden], with layout 1 [batch, directions,
// hidden].
static enum base_status output_state(struct eng_lower *lower, const struct rnn *rnn,
                                     uint32_t output, uint32_t *states)
{
    base_assert(output == 1 || output == 2);
    static const uint32_t swap[3] = {1, 0, 2};
    struct eng_desc desc = eng_nn_desc3(rnn->dtype, 1, rnn->batch, rnn->hidden);
    uint32_t y;
    if (!eng_lower_wants(lower, rnn->node, output)) {
        return BASE_OK;
    }
    for (uint32_t i = 0; i < rnn->directions; i++) {
        BASE_TRY(eng_nn_reshape(lower, states[i], &desc, &states[i]));
    }
    y = states[0];
    if (rnn->directions > 1) {
        BASE_TRY(eng_lower_concat(lower, states, rnn->directions, 0, &y));
    }
    if (rnn->batch_first) {
        BASE_TRY(eng_lower_transpose(lower, y, swap, &y));
    }
    return eng_lower_output(lower, rnn->node, output, y);
}

static enum base_status lower_rnn(struct eng_lower *lower, const struct eng_node *node)
{
    struct rnn rnn = {.node = node};
    BASE_TRY(read_attributes(lower, &rnn));
    BASE_TRY(read_inputs(lower, &rnn));
    uint32_t *ys =
        eng_lower_alloc(lower, ((size_t)rnn.steps * rnn.directions + 1) * sizeof(uint32_t));
    if (ys == NULL) {
        return BASE_ERR_NOMEM;
    }
    uint32_t hs[2] = {ENG_NONE, ENG_NONE};
    uint32_t cs[2] = {ENG_NONE, ENG_NONE};
    for (uint32_t d = 0; d < rnn.directions; d++) {
        struct rnn_course course;
        BASE_TRY(run_direction(lower, &rnn, d, ys, &course));
        hs[d] = course.h;
        cs[d] = course.c;
    }
    BASE_TRY(output_all(lower, &rnn, ys));
    BASE_TRY(output_state(lower, &rnn, 1, hs));
    return rnn.kind == RNN_LSTM ? output_state(lower, &rnn, 2, cs) : BASE_OK;
}

static const struct eng_op rows[] = {
    NN_ROW("GRU", 7, COMPOSITE, lower_rnn),
    NN_ROW("LSTM", 7, COMPOSITE, lower_rnn),
    NN_ROW("RNN", 7, COMPOSITE, lower_rnn),
};
const struct eng_op_table eng_ops_rnn = NN_TABLE(rows);

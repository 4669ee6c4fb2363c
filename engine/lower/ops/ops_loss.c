// Losses: negative log likelihood, and softmax with cross entropy.
//
// Handlers are called by lowering, node by node, on the planning thread. Classes [N, C, d...] and
// targets [N, d...]; the chosen log-probability is gathered, weighted and reduced.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

#include <string.h>

enum reduction { REDUCTION_NONE, REDUCTION_SUM, REDUCTION_MEAN };

struct loss {
    const struct eng_node *node;
    uint32_t scores, target, weight;
    struct eng_desc desc;        // of the scores
    struct eng_desc target_desc; // of the targets
    enum reduction reduction;
    bool has_ignored;
    int64_t ignored;
};

static enum base_status loss_read(struct eng_lower *lower, const struct eng_node *node,
                                  struct loss *loss)
{
    *loss = (struct loss){.node = node};
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &loss->scores));
    loss->desc = *eng_lower_desc(lower, loss->scores);
    BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPES_INDEX, &loss->target));
    loss->target_desc = *eng_lower_desc(lower, loss->target);
    BASE_TRY(eng_nn_optional(lower, node, 2, NN_TYPES_FLOAT, &loss->weight));
    bool fits = loss->desc.rank >= 2 && loss->target_desc.rank + 1 == loss->desc.rank;
    for (uint32_t i = 0; fits && i < loss->target_desc.rank; i++) {
        fits = loss->target_desc.dims[i] == loss->desc.dims[i == 0 ? 0 : i + 1];
    }
    if (!fits) {
        char a[64];
        char b[64];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "scores %s and targets %s do not fit",
                              eng_desc_text(&loss->desc, a, sizeof(a)),
                              eng_desc_text(&loss->target_desc, b, sizeof(b)));
    }
    base_assert(eng_desc_count(&loss->target_desc) * loss->desc.dims[1] ==
                eng_desc_count(&loss->desc));
    if (loss->weight != ENG_NONE) {
        const struct eng_desc weight = *eng_lower_desc(lower, loss->weight);
        BASE_TRY(eng_nn_same_type(lower, node, 2, weight.dtype, loss->desc.dtype));
        if (weight.rank != 1 || weight.dims[0] != loss->desc.dims[1]) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input 2 has not %lld weights",
                                  (long long)loss->desc.dims[1]);
        }
    }
    struct eng_string reduction = eng_node_string(node, "reduction", "mean");
    loss->reduction = eng_string_is(reduction, "none")  ? REDUCTION_NONE
                      : eng_string_is(reduction, "sum") ? REDUCTION_SUM
                                                        : REDUCTION_MEAN;
    if (loss->reduction == REDUCTION_MEAN && !eng_string_is(reduction, "mean")) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "attribute reduction is '%.*s'",
                              reduction.size < 32 ? (int)reduction.size : 32, reduction.at);
    }
    loss->has_ignored = eng_node_attr(node, "ignore_index") != NULL;
    loss->ignored = eng_node_int(node, "ignore_index", 0);
    return BASE_OK;
}

// Targets fit for gathering (ignored ones become class 0, wherever they pointed) and the weight of
// every target; ENG_NONE when all weigh 1.
static enum base_status target_weights(struct eng_lower *lower, struct loss *loss, uint32_t *out)
{
    uint32_t ignored = ENG_NONE;
    uint32_t zero;
    *out = ENG_NONE;
    BASE_TRY(eng_emit_cast(lower, loss->target, ENG_I64, &loss->target));
    if (loss->has_ignored) {
        uint32_t value;
        struct eng_desc scalar = {.dtype = ENG_I64};
        BASE_TRY(eng_lower_const(lower, &scalar, &loss->ignored, &value));
        BASE_TRY(eng_lower_const_f32(lower, ENG_I64, 0.0, &zero));
        BASE_TRY(eng_emit_binary(lower, ENG_EQUAL, loss->target, value, &ignored));
        BASE_TRY(eng_emit_select(lower, ignored, zero, loss->target, &loss->target));
    }
    if (loss->weight != ENG_NONE) {
        BASE_TRY(eng_emit_gather(lower, loss->weight, loss->target, 0, out));
    }
    if (loss->has_ignored) {
        uint32_t one;
        BASE_TRY(eng_lower_const_f32(lower, loss->desc.dtype, 0.0, &zero));
        BASE_TRY(eng_lower_const_f32(lower, loss->desc.dtype, 1.0, &one));
        BASE_TRY(eng_emit_select(lower, ignored, zero, *out == ENG_NONE ? one : *out, out));
    }
    base_assert(*out == ENG_NONE || eng_lower_desc(lower, *out)->rank == loss->target_desc.rank);
    return BASE_OK;
}

// -log_probability[n, target[n, d], d], shaped as the targets.
static enum base_status pick(struct eng_lower *lower, const struct loss *loss, uint32_t scores,
                             uint32_t *out)
{
    base_assert(loss->target_desc.rank + 1 == loss->desc.rank);
    base_assert(eng_desc_equal(eng_lower_desc(lower, scores), &loss->desc));
    int64_t inner = eng_nn_product(&loss->desc, 2, loss->desc.rank);
    uint32_t inputs[2] = {scores, ENG_NONE};
    const struct eng_command command = {
        .op = ENG_OP_GATHER,
        .inputs = inputs,
        .input_count = 2,
        .output_count = 1,
        .u.gather = {.outer = loss->desc.dims[0],
                     .n = loss->desc.dims[1],
                     .inner = inner,
                     .elementwise = true,
                     .m = 1},
    };
    struct eng_desc picked = eng_nn_desc3(loss->desc.dtype, loss->desc.dims[0], 1, inner);
    struct eng_desc index = picked;
    struct eng_desc shaped = loss->target_desc;
    index.dtype = ENG_I64;
    shaped.dtype = loss->desc.dtype;
    BASE_TRY(eng_nn_reshape(lower, loss->target, &index, &inputs[1]));
    BASE_TRY(eng_emit(lower, &command, &picked, out));
    BASE_TRY(eng_nn_reshape(lower, *out, &shaped, out));
    return eng_nn_unary(lower, ENG_NEG, *out, out);
}

// The loss of log-probabilities `scores`.
static enum base_status likelihood(struct eng_lower *lower, struct loss *loss, uint32_t scores,
                                   uint32_t *out)
{
    uint32_t weights;
    uint32_t y;
    BASE_TRY(target_weights(lower, loss, &weights));
    BASE_TRY(pick(lower, loss, scores, &y));
    if (weights != ENG_NONE) {
        BASE_TRY(eng_emit_binary(lower, ENG_MUL, y, weights, &y));
    }
    if (loss->reduction == REDUCTION_SUM ||
        (loss->reduction == REDUCTION_MEAN && weights != ENG_NONE)) {
        BASE_TRY(eng_nn_reduce_all(lower, ENG_REDUCE_SUM, y, &y));
    } else if (loss->reduction == REDUCTION_MEAN) {
        BASE_TRY(eng_nn_reduce_all(lower, ENG_REDUCE_MEAN, y, &y));
    }
    if (loss->reduction == REDUCTION_MEAN && weights != ENG_NONE) {
        BASE_TRY(eng_nn_reduce_all(lower, ENG_REDUCE_SUM, weights, &weights));
        BASE_TRY(eng_emit_binary(lower, ENG_DIV, y, weights, &y));
    }
    *out = y;
    return BASE_OK;
}

static enum base_status lower_nll(struct eng_lower *lower, const struct eng_node *node)
{
    struct loss loss;
    uint32_t y;
    BASE_TRY(loss_read(lower, node, &loss));
    BASE_TRY(likelihood(lower, &loss, loss.scores, &y));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_cross_entropy(struct eng_lower *lower, const struct eng_node *node)
{
    struct loss loss;
    uint32_t log_probability;
    uint32_t y;
    BASE_TRY(loss_read(lower, node, &loss));
    BASE_TRY(eng_emit_softmax(lower, true, loss.scores, (struct eng_axis_range){1, 2},
                              &log_probability));
    BASE_TRY(likelihood(lower, &loss, log_probability, &y));
    BASE_TRY(eng_lower_output(lower, node, 1, log_probability));
    return eng_lower_output(lower, node, 0, y);
}

static const struct eng_op rows[] = {
    NN_ROW("NegativeLogLikelihoodLoss", 12, COMPOSITE, lower_nll),
    NN_ROW("SoftmaxCrossEntropyLoss", 12, COMPOSITE, lower_cross_entropy),
};
const struct eng_op_table eng_ops_loss = NN_TABLE(rows);

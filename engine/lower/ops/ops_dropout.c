// Dropout: nothing at inference, a random mask in training.
//
// Called by lowering on the planning thread.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

// The mask of inference: every element is kept. Bool since opset 10, x's type before.
static enum base_status full_mask(struct eng_lower *lower, const struct eng_node *node,
                                  const struct eng_desc *desc)
{
    if (!eng_lower_wants(lower, node, 1)) {
        return BASE_OK;
    }
    uint32_t mask;
    struct eng_desc mask_desc = *desc;
    mask_desc.dtype = node->opset >= 10 ? ENG_BOOL : desc->dtype;
    BASE_TRY(eng_lower_const_f32(lower, mask_desc.dtype, 1.0, &mask));
    BASE_TRY(eng_lower_expand(lower, mask, &mask_desc, &mask));
    return eng_lower_output(lower, node, 1, mask);
}

static enum base_status training_dropout(struct eng_lower *lower, const struct eng_node *node,
                                         uint32_t input, double ratio)
{
    base_assert(ratio > 0.0 && ratio < 1.0);
    struct eng_desc desc = *eng_lower_desc(lower, input);
    struct eng_desc draw_desc = desc;
    draw_desc.dtype = ENG_F32;
    const struct eng_command command = {
        .op = ENG_OP_RANDOM,
        .output_count = 1,
        .u.random = {.fn = ENG_RANDOM_UNIFORM,
                     .low = 0.0f,
                     .high = 1.0f,
                     .seed = (uint64_t)eng_node_int(node, "seed", 0) + node->index},
    };
    uint32_t draw;
    uint32_t kept;
    uint32_t zero;
    uint32_t y;
    BASE_TRY(eng_emit(lower, &command, &draw_desc, &draw));
    BASE_TRY(eng_nn_with(lower, ENG_GREATER_EQUAL, draw, ratio, &kept));
    BASE_TRY(eng_nn_with(lower, ENG_MUL, input, ratio < 1.0 ? 1.0 / (1.0 - ratio) : 0.0, &y));
    BASE_TRY(eng_lower_const_f32(lower, desc.dtype, 0.0, &zero));
    BASE_TRY(eng_emit_select(lower, kept, y, zero, &y));
    BASE_TRY(eng_lower_output(lower, node, 1, kept));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_dropout(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    double ratio = 0.5;
    double training = 0;
    if (node->opset >= 12) {
        uint32_t tensor;
        BASE_TRY(eng_nn_optional(lower, node, 2, NN_TYPE(BOOL), &tensor));
        if (tensor != ENG_NONE) {
            BASE_TRY(eng_lower_scalar(lower, node, tensor, &training));
        }
        if (training != 0 && eng_lower_has(lower, node, 1)) {
            BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPES_FLOAT, &tensor));
            BASE_TRY(eng_lower_scalar(lower, node, tensor, &ratio));
        }
    }
    if (training != 0 && !(ratio >= 0.0 && ratio < 1.0)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "ratio is %g, expected 0 to below 1",
                              ratio);
    }
    if (training != 0 && ratio > 0.0) {
        return training_dropout(lower, node, x, ratio);
    }
    base_assert(training == 0 || ratio <= 0.0); // nothing is dropped
    BASE_TRY(full_mask(lower, node, &desc));
    return eng_lower_output(lower, node, 0, x);
}

static const struct eng_op rows[] = {
    NN_ROW("Dropout", 7, COMPOSITE, lower_dropout),
};
const struct eng_op_table eng_ops_dropout = NN_TABLE(rows);

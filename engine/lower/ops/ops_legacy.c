// Operators of opsets 1 to 6, for models older than what the engine promises (7): most operators
// already had the form they have at 7 and are lowered as such; the arithmetic ones with their
// explicit `broadcast` and `axis` are here. Everything else of those opsets is refused by name.
//
// Called by op_registry.c at load and by lowering on the planning thread.
#include "lower/ops/nn_kit.h"

#include <string.h>

#define LEGACY_OPSET_MAX (ENG_OPSET_MIN - 1)

// Operators whose form from this opset on is that of opset 7 (or one it contains).
static const struct {
    const char *name;
    int32_t since;
} unchanged[] = {
    {"Abs", 1},
    {"ArgMax", 1},
    {"ArgMin", 1},
    {"AveragePool", 1},
    {"Cast", 6},
    {"Ceil", 1},
    {"Clip", 1},
    {"Concat", 4},
    {"Constant", 1},
    {"Conv", 1},
    {"ConvTranspose", 1},
    {"DepthToSpace", 1},
    {"Elu", 1},
    {"Exp", 1},
    {"Flatten", 1},
    {"Floor", 1},
    {"Gather", 1},
    {"Gemm", 1},
    {"GlobalAveragePool", 1},
    {"GlobalLpPool", 2},
    {"GlobalMaxPool", 1},
    {"HardSigmoid", 1},
    {"Hardmax", 1},
    {"Identity", 1},
    {"If", 1},
    {"InstanceNormalization", 1},
    {"LRN", 1},
    {"LeakyRelu", 1},
    {"Log", 1},
    {"LogSoftmax", 1},
    {"Loop", 1},
    {"LpNormalization", 1},
    {"LpPool", 2},
    {"MatMul", 1},
    {"Max", 1},
    {"MaxPool", 1},
    {"Mean", 1},
    {"Min", 1},
    {"Neg", 1},
    {"Not", 1},
    {"Pad", 2},
    {"Reciprocal", 1},
    {"ReduceL1", 1},
    {"ReduceL2", 1},
    {"ReduceLogSum", 1},
    {"ReduceLogSumExp", 1},
    {"ReduceMax", 1},
    {"ReduceMean", 1},
    {"ReduceMin", 1},
    {"ReduceProd", 1},
    {"ReduceSum", 1},
    {"ReduceSumSquare", 1},
    {"Relu", 1},
    {"Reshape", 5},
    {"Selu", 6},
    {"Shape", 1},
    {"Sigmoid", 1},
    {"Size", 1},
    {"Slice", 1},
    {"Softmax", 1},
    {"Softplus", 1},
    {"Softsign", 1},
    {"SpaceToDepth", 1},
    {"Split", 2},
    {"Sqrt", 1},
    {"Squeeze", 1},
    {"Sum", 1},
    {"Tanh", 1},
    {"Tile", 6},
    {"TopK", 1},
    {"Transpose", 1},
    {"Unsqueeze", 1},
};

bool eng_op_is_unchanged(const char *domain, const char *name, int32_t opset)
{
    if (domain[0] != '\0' || opset < 1 || opset > LEGACY_OPSET_MAX) {
        return false;
    }
    for (size_t i = 0; i < sizeof unchanged / sizeof unchanged[0]; i++) {
        if (strcmp(unchanged[i].name, name) == 0) {
            return opset >= unchanged[i].since;
        }
    }
    return false;
}

// The second operand with dims behind it, so that its first dim stands at `axis` of the first
// operand's `rank` dims.
static enum base_status align(struct eng_lower *l, const struct eng_node *node, uint32_t rank,
                              int64_t axis, uint32_t *b)
{
    struct eng_desc desc = *eng_lower_desc(l, *b);
    axis = axis < 0 ? axis + rank : axis;
    if (axis < 0 || axis > rank || desc.rank > rank - (uint32_t)axis) {
        return eng_lower_fail(l, node, BASE_ERR_INVALID, "axis %lld does not fit %u and %u dims",
                              (long long)axis, rank, desc.rank);
    }
    while (desc.rank < rank - (uint32_t)axis) {
        desc.dims[desc.rank++] = 1;
    }
    return eng_lower_reshape(l, *b, &desc, b);
}

struct legacy_rule {
    const char *op;
    enum eng_binary_fn fn;
};
static const struct legacy_rule rules[] = {
    {"Add", ENG_ADD},   {"And", ENG_AND},         {"Div", ENG_DIV}, {"Equal", ENG_EQUAL},
    {"Less", ENG_LESS}, {"Greater", ENG_GREATER}, {"Mul", ENG_MUL}, {"Or", ENG_OR},
    {"Pow", ENG_POW},   {"Sub", ENG_SUB},         {"Xor", ENG_XOR},
};

static enum base_status lower_old_binary(struct eng_lower *l, const struct eng_node *node)
{
    uint32_t a;
    uint32_t b;
    uint32_t y;
    struct eng_desc a_desc;
    struct eng_desc b_desc;
    BASE_TRY(eng_nn_input(l, node, 0, NN_TYPES_NUMERIC | NN_TYPE(BOOL), &a, &a_desc));
    BASE_TRY(eng_nn_input(l, node, 1, NN_TYPES_NUMERIC | NN_TYPE(BOOL), &b, &b_desc));
    BASE_TRY(eng_nn_same_type(l, node, 1, b_desc.dtype, a_desc.dtype));
    if (eng_node_int(node, "broadcast", 0) == 0 && !eng_desc_equal(&a_desc, &b_desc)) {
        return eng_lower_fail(l, node, BASE_ERR_INVALID, "shapes differ and broadcast is not set");
    }
    if (eng_node_attr(node, "axis") != NULL) {
        BASE_TRY(align(l, node, a_desc.rank, eng_node_int(node, "axis", 0), &b));
    }
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].op, node->op) == 0) {
            BASE_TRY(eng_emit_binary(l, node, rules[i].fn, a, b, &y));
            return eng_lower_output(l, node, 0, y);
        }
    }
    return eng_lower_fail(l, node, BASE_ERR_BUG, "no rule for this operator");
}

// A slope of one dim goes with the channels.
static enum base_status lower_old_prelu(struct eng_lower *l, const struct eng_node *node)
{
    uint32_t x;
    uint32_t slope;
    uint32_t y;
    struct eng_desc x_desc;
    struct eng_desc slope_desc;
    BASE_TRY(eng_nn_input(l, node, 0, NN_TYPES_FLOAT, &x, &x_desc));
    BASE_TRY(eng_nn_input(l, node, 1, NN_TYPES_FLOAT, &slope, &slope_desc));
    BASE_TRY(eng_nn_same_type(l, node, 1, slope_desc.dtype, x_desc.dtype));
    if (slope_desc.rank == 1 && slope_desc.dims[0] != 1 && x_desc.rank > 1) {
        BASE_TRY(align(l, node, x_desc.rank, 1, &slope));
    }
    BASE_TRY(eng_emit_binary(l, node, ENG_PRELU, x, slope, &y));
    return eng_lower_output(l, node, 0, y);
}

// Of BatchNormalization, the form for inference.
static enum base_status lower_old_batch_norm(struct eng_lower *l, const struct eng_node *node)
{
    if (eng_node_int(node, "is_test", 0) == 0) {
        return eng_lower_fail(l, node, BASE_ERR_UNSUPPORTED, "the form for training");
    }
    const struct eng_op *now = eng_op_find("", node->op, ENG_OPSET_MIN);
    return now != NULL ? now->lower(l, node) : BASE_ERR_BUG;
}

#define LEGACY_ROW(name, kind, fn)                                                                 \
    {                                                                                              \
        "", name, 1, LEGACY_OPSET_MAX, ENG_KIND_##kind, fn                                         \
    }
static const struct eng_op rows[] = {
    LEGACY_ROW("Add", ATOMIC, lower_old_binary),
    LEGACY_ROW("And", ATOMIC, lower_old_binary),
    LEGACY_ROW("BatchNormalization", COMPOSITE, lower_old_batch_norm),
    LEGACY_ROW("Div", ATOMIC, lower_old_binary),
    LEGACY_ROW("Equal", ATOMIC, lower_old_binary),
    LEGACY_ROW("Greater", ATOMIC, lower_old_binary),
    LEGACY_ROW("Less", ATOMIC, lower_old_binary),
    LEGACY_ROW("Mul", ATOMIC, lower_old_binary),
    LEGACY_ROW("Or", ATOMIC, lower_old_binary),
    LEGACY_ROW("PRelu", ATOMIC, lower_old_prelu),
    LEGACY_ROW("Pow", ATOMIC, lower_old_binary),
    LEGACY_ROW("Sub", ATOMIC, lower_old_binary),
    LEGACY_ROW("Xor", ATOMIC, lower_old_binary),
};
const struct eng_op_table eng_ops_legacy = NN_TABLE(rows);

// Reductions, positions of extremes, softmax and its kin, the k largest.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

#include <string.h>

static const struct {
    const char *op;
    enum eng_reduce_fn fn;
} reduce_rules[] = {
    {"ReduceL1", ENG_REDUCE_L1},          {"ReduceL2", ENG_REDUCE_L2},
    {"ReduceLogSum", ENG_REDUCE_LOG_SUM}, {"ReduceLogSumExp", ENG_REDUCE_LOG_SUM_EXP},
    {"ReduceMax", ENG_REDUCE_MAX},        {"ReduceMean", ENG_REDUCE_MEAN},
    {"ReduceMin", ENG_REDUCE_MIN},        {"ReduceProd", ENG_REDUCE_PROD},
    {"ReduceSum", ENG_REDUCE_SUM},        {"ReduceSumSquare", ENG_REDUCE_SUM_SQUARE},
};

struct axis_set {
    uint32_t axes[ENG_RANK_MAX]; // sorted, each once
    uint32_t count;
};

// The axes of a list that may count from the end; all axes when it is empty.
static enum base_status read_axes(struct eng_lower *lower, const struct eng_node *node,
                                  struct eng_ints list, uint32_t rank, struct axis_set *out)
{
    bool chosen[ENG_RANK_MAX] = {false};
    for (uint32_t i = 0; i < list.count; i++) {
        uint32_t axis;
        BASE_TRY(eng_lower_axis(lower, node, list.values[i], rank, &axis));
        if (chosen[axis]) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "axis %u is listed twice", axis);
        }
        chosen[axis] = true;
    }
    out->count = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (chosen[i] || list.count == 0) {
            out->axes[out->count++] = i;
        }
    }
    base_assert(out->count == (list.count == 0 ? rank : list.count));
    return BASE_OK;
}

// Whether the operator at this opset also takes bool: the largest is "any", the smallest "all".
static bool reduces_bool(const struct eng_node *node, enum eng_reduce_fn fn)
{
    return node->opset >= 20 && (fn == ENG_REDUCE_MAX || fn == ENG_REDUCE_MIN);
}

// The axes are an attribute, since opset 18 (ReduceSum: 13) an input.
static enum base_status lower_reduce(struct eng_lower *lower, const struct eng_node *node)
{
    enum eng_reduce_fn fn = ENG_REDUCE_COUNT;
    for (size_t i = 0; i < sizeof(reduce_rules) / sizeof(reduce_rules[0]); i++) {
        if (strcmp(reduce_rules[i].op, node->op) == 0) {
            fn = reduce_rules[i].fn;
        }
    }
    if (fn == ENG_REDUCE_COUNT) {
        return eng_lower_fail(lower, node, BASE_ERR_BUG, "no rule for this operator");
    }
    uint32_t x;
    uint32_t y;
    uint32_t types = NN_TYPES_NUMERIC | (reduces_bool(node, fn) ? NN_TYPE(BOOL) : 0);
    BASE_TRY(eng_nn_input(lower, node, 0, types, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    struct eng_ints list;
    BASE_TRY(eng_lower_ints_of(lower, node, 1, "axes", &list));
    if (list.count == 0 && eng_node_int(node, "noop_with_empty_axes", 0) != 0) {
        return eng_lower_output(lower, node, 0, x);
    }
    struct axis_set set;
    BASE_TRY(read_axes(lower, node, list, desc.rank, &set));
    base_assert(set.count <= desc.rank);
    const struct eng_reduction reduction = {
        .fn = fn,
        .axes = set.axes,
        .axis_count = set.count,
        .keep_dims = eng_node_int(node, "keepdims", 1) != 0,
    };
    BASE_TRY(eng_emit_cast(lower, x, desc.dtype == ENG_BOOL ? ENG_U8 : desc.dtype, &x));
    BASE_TRY(eng_emit_reduce(lower, &reduction, x, &y));
    BASE_TRY(eng_emit_cast(lower, y, desc.dtype, &y));
    return eng_lower_output(lower, node, 0, y);
}

// Positions of the extremes along `axis`, which is not empty, as I64, its dim kept as 1. Of `which`
// the kind is taken, not the sizes.
static enum base_status arg_reduce(struct eng_lower *lower, const struct eng_arg_reduce *which,
                                   uint32_t input, uint32_t axis, uint32_t *out)
{
    struct eng_desc desc = *eng_lower_desc(lower, input);
    base_assert(axis < desc.rank);
    const struct eng_command command = {
        .op = ENG_OP_ARG_REDUCE,
        .inputs = &input,
        .input_count = 1,
        .output_count = 1,
        .u.arg_reduce = {.is_max = which->is_max,
                         .select_last = which->select_last,
                         .outer = eng_nn_product(&desc, 0, axis),
                         .n = desc.dims[axis],
                         .inner = eng_nn_product(&desc, axis + 1, desc.rank)},
    };
    desc.dims[axis] = 1;
    desc.dtype = ENG_I64;
    base_assert(command.u.arg_reduce.n > 0 || eng_desc_count(&desc) == 0);
    return eng_emit(lower, &command, &desc, out);
}

static enum base_status lower_arg(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_NUMERIC, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    uint32_t axis;
    BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", 0), desc.rank, &axis));
    if (desc.dims[axis] == 0 && eng_nn_product(&desc, 0, axis) > 0 &&
        eng_nn_product(&desc, axis + 1, desc.rank) > 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "axis %u is empty", axis);
    }
    const struct eng_arg_reduce which = {
        .is_max = strcmp(node->op, "ArgMax") == 0,
        .select_last = eng_node_int(node, "select_last_index", 0) != 0,
    };
    BASE_TRY(arg_reduce(lower, &which, x, axis, &y));
    base_assert(eng_lower_desc(lower, y)->dims[axis] == 1);
    if (eng_node_int(node, "keepdims", 1) == 0) {
        struct eng_desc squeezed = {.dtype = ENG_I64, .rank = desc.rank - 1};
        for (uint32_t i = 0; i + 1 < desc.rank; i++) {
            squeezed.dims[i] = desc.dims[i < axis ? i : i + 1];
        }
        BASE_TRY(eng_nn_reshape(lower, y, &squeezed, &y));
    }
    return eng_lower_output(lower, node, 0, y);
}

// Axes of a softmax: one since opset 13 (the last by default); before, all from `axis` (1 by
// default) on.
static enum base_status softmax_axes(struct eng_lower *lower, const struct eng_node *node,
                                     uint32_t rank, struct eng_axis_range *out)
{
    bool single = node->opset >= 13;
    int64_t axis = eng_node_int(node, "axis", single ? -1 : 1);
    if (!single && axis == (int64_t)rank) { // flattened to [count, 1]
        *out = (struct eng_axis_range){rank, rank};
        return BASE_OK;
    }
    BASE_TRY(eng_lower_axis(lower, node, axis, rank, &out->begin));
    out->end = single ? out->begin + 1 : rank;
    base_assert(out->begin < out->end && out->end <= rank);
    return BASE_OK;
}

static enum base_status lower_softmax(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t y;
    struct eng_axis_range axes;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    BASE_TRY(softmax_axes(lower, node, desc.rank, &axes));
    bool log = strcmp(node->op, "LogSoftmax") == 0;
    BASE_TRY(eng_emit_softmax(lower, log, x, axes, &y));
    return eng_lower_output(lower, node, 0, y);
}

// One at the first maximum, zero elsewhere: the position, then one-hot.
static enum base_status lower_hardmax(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t y;
    struct eng_axis_range axes;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    BASE_TRY(softmax_axes(lower, node, desc.rank, &axes));
    if (eng_desc_count(&desc) == 0) {
        return eng_lower_output(lower, node, 0, x);
    }
    int64_t n = eng_nn_product(&desc, axes.begin, axes.end);
    int64_t outer = eng_nn_product(&desc, 0, axes.begin);
    int64_t inner = eng_nn_product(&desc, axes.end, desc.rank);
    base_assert(n > 0 && outer * n * inner == eng_desc_count(&desc));
    struct eng_desc flat = eng_nn_desc3(desc.dtype, outer, n, inner);
    BASE_TRY(eng_nn_reshape(lower, x, &flat, &x));
    uint32_t inputs[2];
    BASE_TRY(arg_reduce(lower, &(struct eng_arg_reduce){.is_max = true}, x, 1, &inputs[0]));
    const double values[2] = {0.0, 1.0};
    struct eng_desc pair = eng_nn_desc1(ENG_F64, 2);
    BASE_TRY(eng_lower_const(lower, &pair, values, &inputs[1]));
    BASE_TRY(eng_emit_cast(lower, inputs[1], desc.dtype, &inputs[1]));
    BASE_TRY(eng_nn_fold(lower, inputs[1], &inputs[1]));
    const struct eng_command command = {
        .op = ENG_OP_ONE_HOT,
        .inputs = inputs,
        .input_count = 2,
        .output_count = 1,
        .u.one_hot = {.outer = outer, .depth = n, .inner = inner},
    };
    BASE_TRY(eng_emit(lower, &command, &desc, &y));
    return eng_lower_output(lower, node, 0, y);
}

// The number of elements TopK keeps: attribute k before opset 10, input 1 since.
static enum base_status topk_count(struct eng_lower *lower, const struct eng_node *node,
                                   int64_t total, int64_t *out)
{
    int64_t k = eng_node_int(node, "k", -1);
    if (node->opset >= 10) {
        uint32_t tensor;
        const int64_t *list;
        uint32_t count;
        BASE_TRY(eng_lower_input(lower, node, 1, &tensor));
        BASE_TRY(eng_lower_ints(lower, node, tensor, &list, &count));
        if (count != 1) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input 1 (K) has %u values",
                                  count);
        }
        k = list[0];
    }
    if (k < 0 || k > total) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "K is %lld on an axis of %lld",
                              (long long)k, (long long)total);
    }
    *out = k;
    return BASE_OK;
}

static enum base_status lower_topk(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t axis;
    int64_t k = 0;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_NUMERIC, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", -1), desc.rank, &axis));
    BASE_TRY(topk_count(lower, node, desc.dims[axis], &k));
    base_assert(k >= 0 && k <= desc.dims[axis]);
    const struct eng_command command = {
        .op = ENG_OP_TOPK,
        .inputs = &x,
        .input_count = 1,
        .output_count = 2,
        .u.topk = {.outer = eng_nn_product(&desc, 0, axis),
                   .n = desc.dims[axis],
                   .inner = eng_nn_product(&desc, axis + 1, desc.rank),
                   .k = k,
                   .largest = eng_node_int(node, "largest", 1) != 0,
                   .sorted = eng_node_int(node, "sorted", 1) != 0},
    };
    struct eng_desc out_descs[2] = {desc, desc};
    out_descs[0].dims[axis] = k;
    out_descs[1].dims[axis] = k;
    out_descs[1].dtype = ENG_I64;
    uint32_t out[2];
    BASE_TRY(eng_emit(lower, &command, out_descs, out));
    BASE_TRY(eng_lower_output(lower, node, 0, out[0]));
    return eng_lower_output(lower, node, 1, out[1]);
}

// clang-format off
static const struct eng_op rows[] = {
    NN_ROW("ArgMax", 7, ATOMIC, lower_arg),
    NN_ROW("ArgMin", 7, ATOMIC, lower_arg),
    NN_ROW("Hardmax", 7, COMPOSITE, lower_hardmax),
    NN_ROW("LogSoftmax", 7, ATOMIC, lower_softmax),
    NN_ROW("ReduceL1", 7, ATOMIC, lower_reduce),
    NN_ROW("ReduceL2", 7, ATOMIC, lower_reduce),
    NN_ROW("ReduceLogSum", 7, ATOMIC, lower_reduce),
    NN_ROW("ReduceLogSumExp", 7, ATOMIC, lower_reduce),
    NN_ROW("ReduceMax", 7, ATOMIC, lower_reduce),
    NN_ROW("ReduceMean", 7, ATOMIC, lower_reduce),
    NN_ROW("ReduceMin", 7, ATOMIC, lower_reduce),
    NN_ROW("ReduceProd", 7, ATOMIC, lower_reduce),
    NN_ROW("ReduceSum", 7, ATOMIC, lower_reduce),
    NN_ROW("ReduceSumSquare", 7, ATOMIC, lower_reduce),
    NN_ROW("Softmax", 7, ATOMIC, lower_softmax),
    NN_ROW("TopK", 7, ATOMIC, lower_topk),
};
// clang-format on
const struct eng_op_table eng_ops_reduce = NN_TABLE(rows);

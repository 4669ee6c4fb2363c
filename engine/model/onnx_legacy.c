// Old files: what of opsets 1 to 6 can be read as opset 7 without changing a node. The differences
// are those of the ONNX changelog; attributes that only said where a result may be stored
// ("consumed_inputs") are ignored. Called by onnx_read.c on the loading thread.
#include "model/onnx_legacy.h"

#include <string.h>

struct legacy {
    const char *op;
    int32_t since;    // first opset whose meaning is that of opset 7
    const char *only; // attribute that must be 1 (inference form), NULL: none
    bool no_axis;     // broadcasting from a given axis is not what opset 7 does
};

static const struct legacy table[] = {
    {"Abs", 1, NULL, false},
    {"Add", 1, NULL, true},
    {"And", 1, NULL, true},
    {"ArgMax", 1, NULL, false},
    {"ArgMin", 1, NULL, false},
    {"AveragePool", 1, NULL, false},
    {"BatchNormalization", 6, "is_test", false},
    {"Cast", 6, NULL, false},
    {"Ceil", 1, NULL, false},
    {"Clip", 1, NULL, false},
    {"Concat", 4, NULL, false},
    {"Constant", 1, NULL, false},
    {"Conv", 1, NULL, false},
    {"ConvTranspose", 1, NULL, false},
    {"DepthToSpace", 1, NULL, false},
    {"Div", 1, NULL, true},
    {"Dropout", 6, "is_test", false},
    {"Elu", 1, NULL, false},
    {"Equal", 1, NULL, true},
    {"Exp", 1, NULL, false},
    {"Flatten", 1, NULL, false},
    {"Floor", 1, NULL, false},
    {"Gather", 1, NULL, false},
    {"Gemm", 6, NULL, false},
    {"GlobalAveragePool", 1, NULL, false},
    {"GlobalLpPool", 2, NULL, false},
    {"GlobalMaxPool", 1, NULL, false},
    {"Greater", 1, NULL, true},
    {"HardSigmoid", 1, NULL, false},
    {"Hardmax", 1, NULL, false},
    {"Identity", 1, NULL, false},
    {"InstanceNormalization", 1, NULL, false},
    {"LRN", 1, NULL, false},
    {"LeakyRelu", 1, NULL, false},
    {"Less", 1, NULL, true},
    {"Log", 1, NULL, false},
    {"LogSoftmax", 1, NULL, false},
    {"LpNormalization", 1, NULL, false},
    {"LpPool", 2, NULL, false},
    {"MatMul", 1, NULL, false},
    {"Max", 1, NULL, false},
    {"MaxPool", 1, NULL, false},
    {"MaxRoiPool", 1, NULL, false},
    {"Mean", 1, NULL, false},
    {"Min", 1, NULL, false},
    {"Mul", 1, NULL, true},
    {"Neg", 1, NULL, false},
    {"Not", 1, NULL, false},
    {"Or", 1, NULL, true},
    {"Pad", 2, NULL, false},
    {"Pow", 1, NULL, true},
    {"RandomNormal", 1, NULL, false},
    {"RandomNormalLike", 1, NULL, false},
    {"RandomUniform", 1, NULL, false},
    {"RandomUniformLike", 1, NULL, false},
    {"Reciprocal", 1, NULL, false},
    {"ReduceL1", 1, NULL, false},
    {"ReduceL2", 1, NULL, false},
    {"ReduceLogSum", 1, NULL, false},
    {"ReduceLogSumExp", 1, NULL, false},
    {"ReduceMax", 1, NULL, false},
    {"ReduceMean", 1, NULL, false},
    {"ReduceMin", 1, NULL, false},
    {"ReduceProd", 1, NULL, false},
    {"ReduceSum", 1, NULL, false},
    {"ReduceSumSquare", 1, NULL, false},
    {"Relu", 1, NULL, false},
    {"Reshape", 5, NULL, false},
    {"Selu", 6, NULL, false}, // its defaults had other digits before
    {"Shape", 1, NULL, false},
    {"Sigmoid", 1, NULL, false},
    {"Size", 1, NULL, false},
    {"Slice", 1, NULL, false},
    {"Softmax", 1, NULL, false},
    {"Softplus", 1, NULL, false},
    {"Softsign", 1, NULL, false},
    {"SpaceToDepth", 1, NULL, false},
    {"Split", 2, NULL, false},
    {"Sqrt", 1, NULL, false},
    {"Squeeze", 1, NULL, false},
    {"Sub", 1, NULL, true},
    {"Sum", 1, NULL, false},
    {"Tanh", 1, NULL, false},
    {"Tile", 6, NULL, false},
    {"TopK", 1, NULL, false},
    {"Transpose", 1, NULL, false},
    {"Unsqueeze", 1, NULL, false},
    {"Xor", 1, NULL, true},
};

bool eng_legacy_upgrade(struct eng_node *node)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct legacy *row = &table[i];
        if (strcmp(row->op, node->op) != 0) {
            continue;
        }
        if (node->opset < row->since ||
            (row->only != NULL && eng_node_int(node, row->only, 0) != 1) ||
            (row->no_axis && eng_node_attr(node, "axis") != NULL)) {
            return false;
        }
        node->opset = ENG_OPSET_MIN;
        return true;
    }
    return false;
}

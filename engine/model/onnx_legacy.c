// Old files: what of opsets 1 to 6 can be read as opset 7 without changing a node. The differences
// are those of the ONNX changelog; attributes that only said where a result may be stored
// ("consumed_inputs") are ignored. Called by onnx_read.c on the loading thread.
#include "model/onnx_legacy.h"

#include "base/check.h"

#include <string.h>

struct legacy {
    const char *op;
    int32_t since;    // first opset whose meaning is that of opset 7
    const char *only; // attribute that must be 1 (inference form), NULL: none
};

static const struct legacy table[] = {
    {"Abs", 1, NULL},
    {"Add", 1, NULL},
    {"And", 1, NULL},
    {"ArgMax", 1, NULL},
    {"ArgMin", 1, NULL},
    {"AveragePool", 1, NULL},
    {"BatchNormalization", 6, "is_test"},
    {"Cast", 6, NULL},
    {"Ceil", 1, NULL},
    {"Clip", 1, NULL},
    {"Concat", 4, NULL},
    {"Constant", 1, NULL},
    {"Conv", 1, NULL},
    {"ConvTranspose", 1, NULL},
    {"DepthToSpace", 1, NULL},
    {"Div", 1, NULL},
    {"Dropout", 6, "is_test"},
    {"Elu", 1, NULL},
    {"Equal", 1, NULL},
    {"Exp", 1, NULL},
    {"Flatten", 1, NULL},
    {"Floor", 1, NULL},
    {"Gather", 1, NULL},
    {"Gemm", 6, NULL},
    {"GlobalAveragePool", 1, NULL},
    {"GlobalLpPool", 2, NULL},
    {"GlobalMaxPool", 1, NULL},
    {"Greater", 1, NULL},
    {"HardSigmoid", 1, NULL},
    {"Hardmax", 1, NULL},
    {"Identity", 1, NULL},
    {"InstanceNormalization", 1, NULL},
    {"LRN", 1, NULL},
    {"LeakyRelu", 1, NULL},
    {"Less", 1, NULL},
    {"Log", 1, NULL},
    {"LogSoftmax", 1, NULL},
    {"LpNormalization", 1, NULL},
    {"LpPool", 2, NULL},
    {"MatMul", 1, NULL},
    {"Max", 1, NULL},
    {"MaxPool", 1, NULL},
    {"MaxRoiPool", 1, NULL},
    {"Mean", 1, NULL},
    {"Min", 1, NULL},
    {"Mul", 1, NULL},
    {"Neg", 1, NULL},
    {"Not", 1, NULL},
    {"Or", 1, NULL},
    {"PRelu", 6, NULL},
    {"Pad", 2, NULL},
    {"Pow", 1, NULL},
    {"RandomNormal", 1, NULL},
    {"RandomNormalLike", 1, NULL},
    {"RandomUniform", 1, NULL},
    {"RandomUniformLike", 1, NULL},
    {"Reciprocal", 1, NULL},
    {"ReduceL1", 1, NULL},
    {"ReduceL2", 1, NULL},
    {"ReduceLogSum", 1, NULL},
    {"ReduceLogSumExp", 1, NULL},
    {"ReduceMax", 1, NULL},
    {"ReduceMean", 1, NULL},
    {"ReduceMin", 1, NULL},
    {"ReduceProd", 1, NULL},
    {"ReduceSum", 1, NULL},
    {"ReduceSumSquare", 1, NULL},
    {"Relu", 1, NULL},
    {"Reshape", 5, NULL},
    {"Selu", 6, NULL}, // its defaults had other digits before
    {"Shape", 1, NULL},
    {"Sigmoid", 1, NULL},
    {"Size", 1, NULL},
    {"Slice", 1, NULL},
    {"Softmax", 1, NULL},
    {"Softplus", 1, NULL},
    {"Softsign", 1, NULL},
    {"SpaceToDepth", 1, NULL},
    {"Split", 2, NULL},
    {"Sqrt", 1, NULL},
    {"Squeeze", 1, NULL},
    {"Sub", 1, NULL},
    {"Sum", 1, NULL},
    {"Tanh", 1, NULL},
    {"Tile", 6, NULL},
    {"TopK", 1, NULL},
    {"Transpose", 1, NULL},
    {"Unsqueeze", 1, NULL},
    {"Xor", 1, NULL},
};

bool eng_legacy_accepts(const struct eng_node *node)
{
    base_assert(node->domain[0] == '\0' && node->opset < ENG_OPSET_FULL);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct legacy *row = &table[i];
        if (strcmp(row->op, node->op) != 0) {
            continue;
        }
        return node->opset >= row->since &&
               (row->only == NULL || eng_node_int(node, row->only, 0) == 1);
    }
    return false;
}

// The forms of all operators, as the operators' texts have them from opset 1 on. A node with an
// attribute or an input that its operator does not have at its opset would otherwise be computed
// as if that were not there: a wrong result without a word.
//
// Called at model load, on the loading thread. Immutable.
#include "lower/op_forms.h"

#include <stdlib.h>
#include <string.h>

#define TRAINING "ai.onnx.preview.training"

// inputs: "since:most" for each opset that changed the number, `*` for any.
// attrs: names; "name@since" where it came later than the operator, "name@first-last" where it
// went again.
struct form {
    const char *domain, *name, *inputs, *attrs;
};

// Sorted by domain and name: looked up by bisection.
// clang-format off
static const struct form forms[] = {
    {"", "Abs", "1:1", "consumed_inputs@1-5"},
    {"", "Acos", "7:1", ""},
    {"", "Acosh", "9:1", ""},
    {"", "Add", "1:2", "axis@1-6 broadcast@1-6 consumed_inputs@1-5"},
    {"", "AffineGrid", "20:2", "align_corners"},
    {"", "And", "1:2", "axis@1-6 broadcast@1-6"},
    {"", "ArgMax", "1:1", "axis keepdims select_last_index@12"},
    {"", "ArgMin", "1:1", "axis keepdims select_last_index@12"},
    {"", "Asin", "7:1", ""},
    {"", "Asinh", "9:1", ""},
    {"", "Atan", "7:1", ""},
    {"", "Atanh", "9:1", ""},
    {"", "AveragePool", "1:1",
     "auto_pad ceil_mode@10 count_include_pad@7 dilations@19 kernel_shape pads strides"},
    {"", "BatchNormalization", "1:5",
     "consumed_inputs@1-5 epsilon is_test@1-6 momentum spatial@1-8 training_mode@14"},
    {"", "Bernoulli", "15:1", "dtype seed"},
    {"", "BitShift", "11:2", "direction"},
    {"", "BitwiseAnd", "18:2", ""},
    {"", "BitwiseNot", "18:1", ""},
    {"", "BitwiseOr", "18:2", ""},
    {"", "BitwiseXor", "18:2", ""},
    {"", "BlackmanWindow", "17:1", "output_datatype periodic"},
    {"", "Cast", "1:1", "saturate@19 to"},
    {"", "CastLike", "15:2", "saturate@19"},
    {"", "Ceil", "1:1", "consumed_inputs@1-5"},
    {"", "Celu", "12:1", "alpha"},
    {"", "CenterCropPad", "18:2", "axes"},
    {"", "Clip", "1:1 11:3", "consumed_inputs@1-5 max@1-10 min@1-10"},
    {"", "Col2Im", "18:3", "dilations pads strides"},
    {"", "Compress", "9:2", "axis"},
    {"", "Concat", "1:*", "axis"},
    {"", "ConcatFromSequence", "11:1", "axis new_axis"},
    {"", "Constant", "1:0",
     "sparse_value@11 value value_float@12 value_floats@12 value_int@12 value_ints@12 "
     "value_string@12 value_strings@12"},
    {"", "ConstantOfShape", "9:1", "value"},
    {"", "Conv", "1:3", "auto_pad dilations group kernel_shape pads strides"},
    {"", "ConvInteger", "10:4", "auto_pad dilations group kernel_shape pads strides"},
    {"", "ConvTranspose", "1:3",
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {"", "Cos", "7:1", ""},
    {"", "Cosh", "9:1", ""},
    {"", "CumSum", "11:2", "exclusive reverse"},
    {"", "DFT", "17:2 20:3", "axis@17-19 inverse onesided"},
    {"", "DeformConv", "19:5", "dilations group kernel_shape offset_group pads strides"},
    {"", "DepthToSpace", "1:1", "blocksize mode@11"},
    {"", "DequantizeLinear", "10:3", "axis@13 block_size@21"},
    {"", "Det", "11:1", ""},
    {"", "Div", "1:2", "axis@1-6 broadcast@1-6 consumed_inputs@1-5"},
    {"", "Dropout", "1:1 12:3", "consumed_inputs@1-5 is_test@1-6 ratio@1-11 seed@12"},
    {"", "DynamicQuantizeLinear", "11:1", ""},
    {"", "Einsum", "12:*", "equation"},
    {"", "Elu", "1:1", "alpha consumed_inputs@1-5"},
    {"", "Equal", "1:2", "axis@1-6 broadcast@1-6"},
    {"", "Erf", "9:1", ""},
    {"", "Exp", "1:1", "consumed_inputs@1-5"},
    {"", "Expand", "8:2", ""},
    {"", "EyeLike", "9:1", "dtype k"},
    {"", "Flatten", "1:1", "axis"},
    {"", "Floor", "1:1", "consumed_inputs@1-5"},
    {"", "GRU", "1:6",
     "activation_alpha activation_beta activations clip direction hidden_size "
     "layout@14 linear_before_reset@3 output_sequence@1-6"},
    {"", "Gather", "1:2", "axis"},
    {"", "GatherElements", "11:2", "axis"},
    {"", "GatherND", "11:2", "batch_dims@12"},
    {"", "Gelu", "20:1", "approximate"},
    {"", "Gemm", "1:3", "alpha beta broadcast@1-6 transA transB"},
    {"", "GlobalAveragePool", "1:1", ""},
    {"", "GlobalLpPool", "1:1", "p"},
    {"", "GlobalMaxPool", "1:1", ""},
    {"", "Greater", "1:2", "axis@1-6 broadcast@1-6"},
    {"", "GreaterOrEqual", "12:2", ""},
    {"", "GridSample", "16:2", "align_corners mode padding_mode"},
    {"", "GroupNormalization", "18:3", "epsilon num_groups stash_type@21"},
    {"", "HammingWindow", "17:1", "output_datatype periodic"},
    {"", "HannWindow", "17:1", "output_datatype periodic"},
    {"", "HardSigmoid", "1:1", "alpha beta consumed_inputs@1-5"},
    {"", "HardSwish", "14:1", ""},
    {"", "Hardmax", "1:1", "axis"},
    {"", "Identity", "1:1", ""},
    {"", "If", "1:1", "else_branch then_branch"},
    {"", "InstanceNormalization", "1:3", "consumed_inputs@1-5 epsilon"},
    {"", "IsInf", "10:1", "detect_negative detect_positive"},
    {"", "IsNaN", "9:1", ""},
    {"", "LRN", "1:1", "alpha beta bias size"},
    {"", "LSTM", "1:8",
     "activation_alpha activation_beta activations clip direction hidden_size "
     "input_forget layout@14 output_sequence@1-6"},
    {"", "LayerNormalization", "17:3", "axis epsilon stash_type"},
    {"", "LeakyRelu", "1:1", "alpha consumed_inputs@1-5"},
    {"", "Less", "1:2", "axis@1-6 broadcast@1-6"},
    {"", "LessOrEqual", "12:2", ""},
    {"", "Log", "1:1", "consumed_inputs@1-5"},
    {"", "LogSoftmax", "1:1", "axis"},
    {"", "Loop", "1:*", "body"},
    {"", "LpNormalization", "1:1", "axis p"},
    {"", "LpPool", "1:1", "auto_pad ceil_mode@18 dilations@18 kernel_shape p pads strides"},
    {"", "MatMul", "1:2", ""},
    {"", "MatMulInteger", "10:4", ""},
    {"", "Max", "1:*", "consumed_inputs@1-5"},
    {"", "MaxPool", "1:1",
     "auto_pad ceil_mode@10 dilations@10 kernel_shape pads storage_order@8 strides"},
    {"", "MaxRoiPool", "1:2", "pooled_shape spatial_scale"},
    {"", "MaxUnpool", "9:3", "kernel_shape pads strides"},
    {"", "Mean", "1:*", "consumed_inputs@1-5"},
    {"", "MeanVarianceNormalization", "9:1", "axes"},
    {"", "MelWeightMatrix", "17:5", "output_datatype"},
    {"", "Min", "1:*", "consumed_inputs@1-5"},
    {"", "Mish", "18:1", ""},
    {"", "Mod", "10:2", "fmod"},
    {"", "Mul", "1:2", "axis@1-6 broadcast@1-6 consumed_inputs@1-5"},
    {"", "Multinomial", "7:1", "dtype sample_size seed"},
    {"", "Neg", "1:1", "consumed_inputs@1-5"},
    {"", "NegativeLogLikelihoodLoss", "12:3", "ignore_index reduction"},
    {"", "NonMaxSuppression", "10:5", "center_point_box"},
    {"", "NonZero", "9:1", ""},
    {"", "Not", "1:1", ""},
    {"", "OneHot", "9:3", "axis"},
    {"", "Optional", "15:1", "type"},
    {"", "OptionalGetElement", "15:1", ""},
    {"", "OptionalHasElement", "15:1", ""},
    {"", "Or", "1:2", "axis@1-6 broadcast@1-6"},
    {"", "PRelu", "1:2", "consumed_inputs@1-5"},
    {"", "Pad", "1:1 11:3 18:4", "mode paddings@1-1 pads@2-10 value@1-10"},
    {"", "Pow", "1:2", "axis@1-6 broadcast@1-6"},
    {"", "QLinearConv", "10:9", "auto_pad dilations group kernel_shape pads strides"},
    {"", "QLinearMatMul", "10:8", ""},
    {"", "QuantizeLinear", "10:3", "axis@13 block_size@21 output_dtype@21 saturate@19"},
    {"", "RNN", "1:6",
     "activation_alpha activation_beta activations clip direction hidden_size "
     "layout@14 output_sequence@1-6"},
    {"", "RandomNormal", "1:0", "dtype mean scale seed shape"},
    {"", "RandomNormalLike", "1:1", "dtype mean scale seed"},
    {"", "RandomUniform", "1:0", "dtype high low seed shape"},
    {"", "RandomUniformLike", "1:1", "dtype high low seed"},
    {"", "Range", "11:3", ""},
    {"", "Reciprocal", "1:1", "consumed_inputs@1-5"},
    {"", "ReduceL1", "1:1 18:2", "axes@1-17 keepdims noop_with_empty_axes@18"},
    {"", "ReduceL2", "1:1 18:2", "axes@1-17 keepdims noop_with_empty_axes@18"},
    {"", "ReduceLogSum", "1:1 18:2", "axes@1-17 keepdims noop_with_empty_axes@18"},
    {"", "ReduceLogSumExp", "1:1 18:2", "axes@1-17 keepdims noop_with_empty_axes@18"},
    {"", "ReduceMax", "1:1 18:2", "axes@1-17 keepdims noop_with_empty_axes@18"},
    {"", "ReduceMean", "1:1 18:2", "axes@1-17 keepdims noop_with_empty_axes@18"},
    {"", "ReduceMin", "1:1 18:2", "axes@1-17 keepdims noop_with_empty_axes@18"},
    {"", "ReduceProd", "1:1 18:2", "axes@1-17 keepdims noop_with_empty_axes@18"},
    {"", "ReduceSum", "1:1 13:2", "axes@1-12 keepdims noop_with_empty_axes@13"},
    {"", "ReduceSumSquare", "1:1 18:2", "axes@1-17 keepdims noop_with_empty_axes@18"},
    {"", "Relu", "1:1", "consumed_inputs@1-5"},
    {"", "Reshape", "1:1 5:2", "allowzero@14 consumed_inputs@1-4 shape@1-4"},
    {"", "Resize", "10:2 11:4",
     "antialias@18 axes@18 coordinate_transformation_mode@11 cubic_coeff_a@11 "
     "exclude_outside@11 extrapolation_value@11 keep_aspect_ratio_policy@18 mode "
     "nearest_mode@11"},
    {"", "ReverseSequence", "10:2", "batch_axis time_axis"},
    {"", "RoiAlign", "10:3",
     "coordinate_transformation_mode@16 mode output_height output_width "
     "sampling_ratio spatial_scale"},
    {"", "Round", "11:1", ""},
    {"", "STFT", "17:4", "onesided"},
    {"", "Scan", "8:*",
     "body directions@8-8 num_scan_inputs scan_input_axes@9 scan_input_directions@9 "
     "scan_output_axes@9 scan_output_directions@9"},
    {"", "Scatter", "9:3 11:0", "axis@9-10"},
    {"", "ScatterElements", "11:3", "axis reduction@16"},
    {"", "ScatterND", "11:3", "reduction@16"},
    {"", "Selu", "1:1", "alpha consumed_inputs@1-5 gamma"},
    {"", "SequenceAt", "11:2", ""},
    {"", "SequenceConstruct", "11:*", ""},
    {"", "SequenceEmpty", "11:0", "dtype"},
    {"", "SequenceErase", "11:2", ""},
    {"", "SequenceInsert", "11:3", ""},
    {"", "SequenceLength", "11:1", ""},
    {"", "SequenceMap", "17:*", "body"},
    {"", "Shape", "1:1", "end@15 start@15"},
    {"", "Shrink", "9:1", "bias lambd"},
    {"", "Sigmoid", "1:1", "consumed_inputs@1-5"},
    {"", "Sign", "9:1", ""},
    {"", "Sin", "7:1", ""},
    {"", "Sinh", "9:1", ""},
    {"", "Size", "1:1", ""},
    {"", "Slice", "1:1 10:5", "axes@1-9 ends@1-9 starts@1-9"},
    {"", "Softmax", "1:1", "axis"},
    {"", "SoftmaxCrossEntropyLoss", "12:3", "ignore_index reduction"},
    {"", "Softplus", "1:1", ""},
    {"", "Softsign", "1:1", ""},
    {"", "SpaceToDepth", "1:1", "blocksize"},
    {"", "Split", "1:2 2:1 13:2", "axis num_outputs@18 split@1-12"},
    {"", "SplitToSequence", "11:2", "axis keepdims"},
    {"", "Sqrt", "1:1", "consumed_inputs@1-5"},
    {"", "Squeeze", "1:1 13:2", "axes@1-12"},
    {"", "StringConcat", "20:2", ""},
    {"", "StringNormalizer", "10:1", "case_change_action is_case_sensitive locale stopwords"},
    {"", "StringSplit", "20:1", "delimiter maxsplit"},
    {"", "Sub", "1:2", "axis@1-6 broadcast@1-6 consumed_inputs@1-5"},
    {"", "Sum", "1:*", "consumed_inputs@1-5"},
    {"", "Tan", "7:1", ""},
    {"", "Tanh", "1:1", "consumed_inputs@1-5"},
    {"", "TfIdfVectorizer", "9:1",
     "max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes "
     "pool_int64s pool_strings weights"},
    {"", "ThresholdedRelu", "10:1", "alpha"},
    {"", "Tile", "1:3 6:2", ""},
    {"", "TopK", "1:1 10:2", "axis k@1-9 largest@11 sorted@11"},
    {"", "Transpose", "1:1", "perm"},
    {"", "Trilu", "14:2", "upper"},
    {"", "Unique", "11:1", "axis sorted"},
    {"", "Unsqueeze", "1:1 13:2", "axes@1-12"},
    {"", "Upsample", "1:1 9:2 10:0", "height_scale@1-6 mode@1-9 scales@7-8 width_scale@1-6"},
    {"", "Where", "9:3", ""},
    {"", "Xor", "1:2", "axis@1-6 broadcast@1-6"},
    {TRAINING, "Adagrad", "1:*", "decay_factor epsilon norm_coefficient"},
    {TRAINING, "Adam", "1:*", "alpha beta epsilon norm_coefficient norm_coefficient_post"},
    {TRAINING, "Momentum", "1:*", "alpha beta mode norm_coefficient"},
};
// clang-format on

struct form_key {
    const char *domain, *name;
};

static int compare(const void *key, const void *row)
{
    const struct form_key *wanted = key;
    const struct form *form = row;
    int order = strcmp(wanted->domain, form->domain);
    return order != 0 ? order : strcmp(wanted->name, form->name);
}

static const struct form *find(const char *domain, const char *name)
{
    const struct form_key key = {domain, name};
    return bsearch(&key, forms, sizeof(forms) / sizeof(forms[0]), sizeof(forms[0]), compare);
}

bool eng_op_form_known(const char *domain, const char *name)
{
    return find(domain, name) != NULL;
}

// Reads the digits at *at, and goes on behind them.
static uint32_t number(const char **at)
{
    uint32_t value = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        value = value * 10 + (uint32_t)(**at - '0');
    }
    return value;
}

// The most inputs at an opset: the last entry that began by then.
static uint32_t inputs_max(const struct form *form, uint32_t opset)
{
    uint32_t most = 0;
    const char *at = form->inputs;
    while (*at != '\0') {
        uint32_t since = number(&at);
        at++; // the colon
        uint32_t count = *at == '*' ? UINT32_MAX : number(&at);
        at += strspn(at, "* ");
        most = since <= opset ? count : most;
    }
    return most;
}

// Whether one entry of the list names the attribute and covers the opset.
static bool entry_has(const char *entry, size_t size, const char *name, uint32_t opset)
{
    size_t length = strlen(name);
    if (size < length || memcmp(entry, name, length) != 0 ||
        (size > length && entry[length] != '@')) {
        return false;
    }
    if (size == length) {
        return true;
    }
    const char *at = entry + length + 1;
    uint32_t since = number(&at);
    uint32_t last = opset;
    if (*at == '-') {
        at++;
        last = number(&at);
    }
    return since <= opset && opset <= last;
}

static bool has_attr(const struct form *form, const char *name, uint32_t opset)
{
    for (const char *at = form->attrs; *at != '\0';) {
        size_t size = strcspn(at, " ");
        if (entry_has(at, size, name, opset)) {
            return true;
        }
        at += size + strspn(at + size, " ");
    }
    return false;
}

enum base_status eng_op_form_check(const struct eng_node *node, struct base_error *error)
{
    const struct form *form = find(node->domain, node->op);
    if (form == NULL) {
        return BASE_OK;
    }
    const uint32_t opset = (uint32_t)node->opset;
    uint32_t most = inputs_max(form, opset);
    if (node->input_count > most) {
        return eng_node_error(node, error, BASE_ERR_INVALID,
                              "it has %u inputs, the operator at this opset has at most %u",
                              node->input_count, most);
    }
    for (uint32_t i = 0; i < node->attr_count; i++) {
        if (!has_attr(form, node->attrs[i].name, opset)) {
            return eng_node_error(node, error, BASE_ERR_INVALID,
                                  "the operator at this opset has no attribute '%.60s'",
                                  node->attrs[i].name);
        }
    }
    return BASE_OK;
}

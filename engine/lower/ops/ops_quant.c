// Quantisation: to and from 8 and 16 bits, and the quantised product and convolution.
//
// Handlers are called by lowering, node by node, on the planning thread. Everything is composed of
// casts, elementwise commands and products; rounding is half to even.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

// What is quantized or dequantized, and along which of its axes scales and zero points differ.
struct quantized {
    struct eng_desc desc;
    int64_t axis;  // as the node has it: looked at only when there is more than one scale
    int64_t block; // elements of the axis that share them, 0: one (or all)
};

static struct quantized quantized_of(const struct eng_node *node, const struct eng_desc *desc)
{
    return (struct quantized){*desc, eng_node_int(node, "axis", 1),
                              eng_node_int(node, "block_size", 0)};
}

// A scale or zero point for each block of elements along the axis: repeated to the shape of
// `values`.
static enum base_status block_param(struct eng_lower *lower, const struct eng_node *node,
                                    uint32_t input, const struct quantized *values,
                                    uint32_t *tensor)
{
    uint32_t axis;
    BASE_TRY(eng_lower_axis(lower, node, values->axis, values->desc.rank, &axis));
    struct eng_desc desc = *eng_lower_desc(lower, *tensor);
    struct eng_desc wide = {.dtype = desc.dtype, .rank = desc.rank + 1};
    const int64_t size = values->block;
    const int64_t along = values->desc.dims[axis];
    bool fits = desc.rank == values->desc.rank && wide.rank <= ENG_RANK_MAX && size > 0;
    for (uint32_t d = 0; fits && d < desc.rank; d++) {
        int64_t blocks = d == axis ? along / size + (along % size != 0) : values->desc.dims[d];
        fits = desc.dims[d] == blocks;
        wide.dims[d <= axis ? d : d + 1] = desc.dims[d];
    }
    if (!fits) {
        char text[72];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "input %u is %s for blocks of %lld along axis %u", input,
                              eng_desc_text(&desc, text, sizeof(text)), (long long)size, axis);
    }
    wide.dims[axis + 1] = 1;
    BASE_TRY(eng_nn_reshape(lower, *tensor, &wide, tensor));
    // A last block may be cut: no more is repeated than there is.
    wide.dims[axis + 1] = size < along ? size : along;
    BASE_TRY(eng_lower_expand(lower, *tensor, &wide, tensor));
    desc.dims[axis] *= wide.dims[axis + 1];
    BASE_TRY(eng_nn_reshape(lower, *tensor, &desc, tensor));
    base_assert(desc.dims[axis] >= along);
    return eng_nn_part(lower, *tensor, (struct eng_part){axis, 0, along}, tensor);
}

// Input `input`, a scale or zero point in `*tensor` (ENG_NONE: left out), shaped to broadcast to
// values: one element, or one for each of the axis, or one for each block of it.
static enum base_status quant_param(struct eng_lower *lower, const struct eng_node *node,
                                    uint32_t input, const struct quantized *values,
                                    uint32_t *tensor)
{
    if (*tensor == ENG_NONE) {
        return BASE_OK;
    }
    const struct eng_desc desc = *eng_lower_desc(lower, *tensor);
    struct eng_desc to = {.dtype = desc.dtype};
    int64_t count = eng_desc_count(&desc);
    if (values->block != 0) {
        return block_param(lower, node, input, values, tensor);
    }
    if (desc.rank > 1) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "input %u has rank %u, expected 0 or 1", input, desc.rank);
    }
    if (count != 1) {
        uint32_t at;
        BASE_TRY(eng_lower_axis(lower, node, values->axis, values->desc.rank, &at));
        if (count != values->desc.dims[at]) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "input %u has %lld values for %lld along axis %u", input,
                                  (long long)count, (long long)values->desc.dims[at], at);
        }
        to = eng_nn_desc_axis(desc.dtype, values->desc.rank, at, count);
    }
    base_assert(eng_desc_count(&to) == count);
    return eng_nn_reshape(lower, *tensor, &to, tensor);
}

// saturate(round(input) + zero) as `to`, the input being float32; zero ENG_NONE: none.
static enum base_status saturate(struct eng_lower *lower, uint32_t input, uint32_t zero,
                                 enum eng_dtype to, uint32_t *out)
{
    base_assert(eng_lower_desc(lower, input)->dtype == ENG_F32);
    base_assert(to == ENG_I8 || to == ENG_U8 || to == ENG_I16 || to == ENG_U16);
    uint32_t y;
    BASE_TRY(eng_nn_unary(lower, ENG_ROUND, input, &y));
    if (zero != ENG_NONE) {
        BASE_TRY(eng_emit_cast(lower, zero, ENG_F32, &zero));
        BASE_TRY(eng_nn_fold(lower, zero, &zero));
        BASE_TRY(eng_emit_binary(lower, ENG_ADD, y, zero, &y));
    }
    float low = to == ENG_I8 ? -128.0f : to == ENG_I16 ? -32768.0f : 0.0f;
    float steps = to == ENG_I8 || to == ENG_U8 ? 255.0f : 65535.0f;
    const struct eng_unary clip = {ENG_CLIP, low, low + steps};
    BASE_TRY(eng_emit_unary(lower, &clip, y, &y));
    return eng_emit_cast(lower, y, to, out);
}

// Since opset 19 scales may be halves, since 21 integers of 16 bits.
static uint32_t scale_types(const struct eng_node *node)
{
    return node->opset < 19 ? NN_TYPE(F32) : NN_TYPE(F32) | NN_TYPE(F16) | NN_TYPE(BF16);
}

static uint32_t quant_types(const struct eng_node *node)
{
    return node->opset < 21 ? NN_TYPES_BYTE : NN_TYPES_BYTE | NN_TYPE(I16) | NN_TYPE(U16);
}

// The type of what a node quantizes to: that of the zero point, else attribute output_dtype.
static enum base_status quant_output(struct eng_lower *lower, const struct eng_node *node,
                                     uint32_t zero, enum eng_dtype *out)
{
    int64_t named = eng_node_int(node, "output_dtype", 0);
    enum eng_dtype to = zero != ENG_NONE ? eng_lower_desc(lower, zero)->dtype : ENG_U8;
    base_assert((quant_types(node) >> to) & 1);
    if (named == 0) {
        *out = to;
        return BASE_OK;
    }
    if (named < 0 || named >= ENG_DTYPE_COUNT || !((quant_types(node) >> named) & 1)) {
        return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED,
                              "output_dtype %lld is not supported", (long long)named);
    }
    if (zero != ENG_NONE && (int64_t)to != named) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "output_dtype %lld, a zero point of %s", (long long)named,
                              eng_dtype_name(to));
    }
    *out = (enum eng_dtype)named;
    return BASE_OK;
}

static enum base_status lower_quantize(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t scale;
    uint32_t zero;
    uint32_t y;
    enum eng_dtype to = ENG_UNDEFINED;
    BASE_TRY(eng_nn_input(lower, node, 0, scale_types(node) | NN_TYPE(I32), &x));
    const struct quantized q = quantized_of(node, eng_lower_desc(lower, x));
    BASE_TRY(eng_nn_optional(lower, node, 1, scale_types(node), &scale));
    BASE_TRY(quant_param(lower, node, 1, &q, &scale));
    BASE_TRY(eng_nn_optional(lower, node, 2, quant_types(node), &zero));
    BASE_TRY(quant_param(lower, node, 2, &q, &zero));
    if (scale == ENG_NONE) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input 1 (scale) is missing");
    }
    BASE_TRY(quant_output(lower, node, zero, &to));
    BASE_TRY(eng_emit_cast(lower, x, ENG_F32, &x));
    BASE_TRY(eng_emit_cast(lower, scale, ENG_F32, &scale));
    BASE_TRY(eng_emit_binary(lower, ENG_DIV, x, scale, &y));
    BASE_TRY(saturate(lower, y, zero, to, &y));
    base_assert(eng_desc_count(eng_lower_desc(lower, y)) == eng_desc_count(&q.desc));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_dequantize(struct eng_lower *lower, const struct eng_node *node)
{
    const uint32_t types = quant_types(node) | NN_TYPE(I32);
    uint32_t x;
    uint32_t scale;
    uint32_t zero;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, types, &x));
    const struct quantized q = quantized_of(node, eng_lower_desc(lower, x));
    BASE_TRY(eng_nn_optional(lower, node, 1, scale_types(node), &scale));
    BASE_TRY(quant_param(lower, node, 1, &q, &scale));
    BASE_TRY(eng_nn_optional(lower, node, 2, types, &zero));
    BASE_TRY(quant_param(lower, node, 2, &q, &zero));
    if (scale == ENG_NONE) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input 1 (scale) is missing");
    }
    const enum eng_dtype to = eng_lower_desc(lower, scale)->dtype;
    // 8 and 16 bits are exact in float32; the difference of two int32 is taken before rounding.
    enum eng_dtype work = q.desc.dtype == ENG_I32 ? ENG_I32 : ENG_F32;
    BASE_TRY(eng_emit_cast(lower, x, work, &y));
    if (zero != ENG_NONE) {
        BASE_TRY(
            eng_nn_same_type(lower, node, 2, eng_lower_desc(lower, zero)->dtype, q.desc.dtype));
        BASE_TRY(eng_emit_cast(lower, zero, work, &zero));
        BASE_TRY(eng_nn_fold(lower, zero, &zero));
        BASE_TRY(eng_emit_binary(lower, ENG_SUB, y, zero, &y));
    }
    BASE_TRY(eng_emit_cast(lower, y, ENG_F32, &y));
    BASE_TRY(eng_emit_cast(lower, scale, ENG_F32, &scale));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, y, scale, &y));
    base_assert(eng_desc_count(eng_lower_desc(lower, y)) == eng_desc_count(&q.desc));
    BASE_TRY(eng_emit_cast(lower, y, to, &y));
    return eng_lower_output(lower, node, 0, y);
}

// The range of x and 0, over 255 steps; a range of nothing has scale 1.
static enum base_status lower_dynamic_quantize(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t low;
    uint32_t high;
    uint32_t scale;
    uint32_t zero;
    uint32_t empty;
    uint32_t one;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPE(F32), &x));
    BASE_TRY(eng_nn_reduce_all(lower, ENG_REDUCE_MIN, x, &low));
    BASE_TRY(eng_nn_reduce_all(lower, ENG_REDUCE_MAX, x, &high));
    BASE_TRY(eng_nn_with(lower, ENG_MIN, low, 0.0, &low));
    BASE_TRY(eng_nn_with(lower, ENG_MAX, high, 0.0, &high));
    BASE_TRY(eng_emit_binary(lower, ENG_SUB, high, low, &scale));
    BASE_TRY(eng_nn_with(lower, ENG_DIV, scale, 255.0, &scale));
    BASE_TRY(eng_nn_with(lower, ENG_EQUAL, scale, 0.0, &empty));
    BASE_TRY(eng_lower_const_f32(lower, ENG_F32, 1.0, &one));
    BASE_TRY(eng_emit_select(lower, empty, one, scale, &scale));
    base_assert(eng_lower_desc(lower, scale)->rank == 0);
    BASE_TRY(eng_emit_binary(lower, ENG_DIV, low, scale, &zero));
    BASE_TRY(eng_nn_unary(lower, ENG_NEG, zero, &zero));
    const struct eng_unary bytes = {ENG_CLIP, 0.0f, 255.0f};
    BASE_TRY(eng_emit_unary(lower, &bytes, zero, &zero));
    BASE_TRY(eng_nn_unary(lower, ENG_ROUND, zero, &zero));
    BASE_TRY(eng_emit_binary(lower, ENG_DIV, x, scale, &y));
    BASE_TRY(saturate(lower, y, zero, ENG_U8, &y));
    BASE_TRY(eng_emit_cast(lower, zero, ENG_U8, &zero));
    BASE_TRY(eng_lower_output(lower, node, 0, y));
    BASE_TRY(eng_lower_output(lower, node, 1, scale));
    return eng_lower_output(lower, node, 2, zero);
}

// Scales of QLinearMatMul; they may be halves since opset 21.
static const uint32_t matmul_scales[3] = {1, 4, 6};

// a_scale * b_scale / y_scale. Several values belong to the dim that `rank_after` others follow.
static enum base_status rescale(struct eng_lower *lower, const struct eng_node *node,
                                const uint32_t inputs[3], const uint32_t rank_after[3],
                                uint32_t *out)
{
    uint32_t scales[3];
    for (uint32_t i = 0; i < 3; i++) {
        bool halves = node->opset >= 21 && inputs == matmul_scales;
        uint32_t types = halves ? NN_TYPES_FLOAT & ~NN_TYPE(F64) : NN_TYPE(F32);
        BASE_TRY(eng_nn_input(lower, node, inputs[i], types, &scales[i]));
        struct eng_desc desc = *eng_lower_desc(lower, scales[i]);
        BASE_TRY(eng_emit_cast(lower, scales[i], ENG_F32, &scales[i]));
        struct eng_desc to = {.dtype = ENG_F32};
        if (eng_desc_count(&desc) != 1) {
            if (desc.rank != 1) {
                continue;
            }
            to = eng_nn_desc_axis(ENG_F32, rank_after[i] + 1, 0, desc.dims[0]);
        }
        BASE_TRY(eng_nn_reshape(lower, scales[i], &to, &scales[i]));
    }
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, scales[0], scales[1], out));
    BASE_TRY(eng_emit_binary(lower, ENG_DIV, *out, scales[2], out));
    return eng_nn_fold(lower, *out, out);
}

// Scales the I32 result `*output` and brings it to the type of the zero point, input 7. A zero
// point of several values belongs to the dim that `rank_after` others follow.
static enum base_status requantize(struct eng_lower *lower, const struct eng_node *node,
                                   uint32_t scale, uint32_t rank_after, uint32_t *output)
{
    uint32_t zero;
    struct eng_desc wanted = *eng_lower_desc(lower, *output);
    base_assert(wanted.dtype == ENG_I32);
    BASE_TRY(eng_nn_input(lower, node, 7, NN_TYPES_BYTE, &zero));
    struct eng_desc desc = *eng_lower_desc(lower, zero);
    struct eng_desc to = {.dtype = desc.dtype};
    if (eng_desc_count(&desc) != 1) {
        to = desc.rank == 1 ? eng_nn_desc_axis(desc.dtype, rank_after + 1, 0, desc.dims[0]) : desc;
    }
    BASE_TRY(eng_nn_reshape(lower, zero, &to, &zero));
    BASE_TRY(eng_emit_cast(lower, *output, ENG_F32, output));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, *output, scale, output));
    BASE_TRY(saturate(lower, *output, zero, desc.dtype, output));
    wanted.dtype = desc.dtype;
    if (!eng_desc_equal(eng_lower_desc(lower, *output), &wanted)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "a scale or zero point does not fit the result");
    }
    return BASE_OK;
}

static enum base_status lower_qlinear_matmul(struct eng_lower *lower, const struct eng_node *node)
{
    static const uint32_t rank_after[3] = {1, 0, 1};
    const struct eng_nn_quant_inputs in = {.x = 0, .w = 3, .x_zero = 2, .w_zero = 5};
    uint32_t scale;
    uint32_t y;
    BASE_TRY(eng_nn_integer_matmul(lower, node, &in, &y));
    BASE_TRY(rescale(lower, node, matmul_scales, rank_after, &scale));
    BASE_TRY(requantize(lower, node, scale, 1, &y));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_qlinear_conv(struct eng_lower *lower, const struct eng_node *node)
{
    static const uint32_t scales[3] = {1, 4, 6};
    const struct eng_nn_quant_inputs in = {.x = 0, .w = 3, .x_zero = 2, .w_zero = 5};
    uint32_t scale;
    uint32_t bias;
    uint32_t y;
    BASE_TRY(eng_nn_integer_conv(lower, node, &in, &y));
    base_assert(eng_lower_desc(lower, y)->dtype == ENG_I32 && eng_lower_desc(lower, y)->rank >= 3);
    uint32_t spatial = eng_lower_desc(lower, y)->rank - 2;
    int64_t channels = eng_lower_desc(lower, y)->dims[1];
    BASE_TRY(eng_nn_optional(lower, node, 8, NN_TYPE(I32), &bias));
    if (bias != ENG_NONE) {
        const struct eng_desc desc = *eng_lower_desc(lower, bias);
        if (desc.rank != 1 || desc.dims[0] != channels) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input 8 has not %lld values",
                                  (long long)channels);
        }
        struct eng_desc column = eng_nn_desc_axis(ENG_I32, spatial + 1, 0, channels);
        BASE_TRY(eng_nn_reshape(lower, bias, &column, &bias));
        BASE_TRY(eng_emit_binary(lower, ENG_ADD, y, bias, &y));
    }
    const uint32_t rank_after[3] = {spatial, spatial, spatial};
    BASE_TRY(rescale(lower, node, scales, rank_after, &scale));
    BASE_TRY(requantize(lower, node, scale, spatial, &y));
    return eng_lower_output(lower, node, 0, y);
}

static const struct eng_op rows[] = {
    NN_ROW("DequantizeLinear", 10, COMPOSITE, lower_dequantize),
    NN_ROW("DynamicQuantizeLinear", 11, COMPOSITE, lower_dynamic_quantize),
    NN_ROW("QLinearConv", 10, COMPOSITE, lower_qlinear_conv),
    NN_ROW("QLinearMatMul", 10, COMPOSITE, lower_qlinear_matmul),
    NN_ROW("QuantizeLinear", 10, COMPOSITE, lower_quantize),
};
const struct eng_op_table eng_ops_quant = NN_TABLE(rows);

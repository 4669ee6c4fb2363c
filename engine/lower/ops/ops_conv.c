// Convolution and its transpose.
//
// Handlers are called by lowering, node by node, on the planning thread. CONV works in
// CHANNELS_LAST (eng_emit_conv); CONV_TRANSPOSE is plain.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

struct conv_inputs {
    uint32_t x, w, bias;
    struct eng_desc x_desc, w_desc;
    int64_t groups, channels_out;
};

// Reads x, w and the bias and checks that they belong together. A forward kernel is [M, C/groups,
// k...], a transposed one [C, M/groups, k...].
static enum base_status read_inputs(struct eng_lower *lower, const struct eng_node *node,
                                    bool transposed, struct conv_inputs *in)
{
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &in->x));
    in->x_desc = *eng_lower_desc(lower, in->x);
    BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPES_FLOAT, &in->w));
    in->w_desc = *eng_lower_desc(lower, in->w);
    BASE_TRY(eng_nn_same_type(lower, node, 1, in->w_desc.dtype, in->x_desc.dtype));
    char x_text[64];
    char w_text[64];
    (void)eng_desc_text(&in->x_desc, x_text, sizeof(x_text));
    (void)eng_desc_text(&in->w_desc, w_text, sizeof(w_text));
    in->groups = eng_node_int(node, "group", 1);
    if (in->x_desc.rank < 3 || in->w_desc.rank != in->x_desc.rank) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %s and weights %s do not fit",
                              x_text, w_text);
    }
    int64_t channels = in->x_desc.dims[1];
    int64_t c = in->w_desc.dims[transposed ? 0 : 1];
    int64_t m = in->w_desc.dims[transposed ? 1 : 0];
    if (in->groups < 1 || in->groups > (channels > 0 ? channels : 1) ||
        channels % in->groups != 0 || (transposed ? c != channels : c != channels / in->groups) ||
        (!transposed && m % in->groups != 0)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "input %s, weights %s and group %lld do not fit", x_text, w_text,
                              (long long)in->groups);
    }
    in->channels_out = transposed ? m * in->groups : m;
    base_assert(in->channels_out % in->groups == 0);
    BASE_TRY(eng_nn_optional(lower, node, 2, NN_TYPES_FLOAT, &in->bias));
    if (in->bias != ENG_NONE) {
        const struct eng_desc bias = *eng_lower_desc(lower, in->bias);
        BASE_TRY(eng_nn_same_type(lower, node, 2, bias.dtype, in->x_desc.dtype));
        if (bias.rank != 1 || bias.dims[0] != in->channels_out) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "bias is %s for %lld channels",
                                  eng_desc_text(&bias, x_text, sizeof(x_text)),
                                  (long long)in->channels_out);
        }
    }
    return BASE_OK;
}

struct eng_conv eng_conv_of(const struct eng_window *window, int64_t groups)
{
    base_assert(window->spatial >= 1 && window->spatial <= ENG_SPATIAL_MAX);
    base_assert(groups >= 1);
    struct eng_conv conv = {
        .spatial = window->spatial,
        .groups = groups,
        .epilogue = {.bias = ENG_NONE, .residual = ENG_NONE},
    };
    for (uint32_t i = 0; i < window->spatial; i++) {
        conv.kernel[i] = window->kernel[i];
        conv.stride[i] = window->stride[i];
        conv.dilation[i] = window->dilation[i];
        conv.pad_begin[i] = window->pad_begin[i];
        conv.pad_end[i] = window->pad_end[i];
    }
    return conv;
}

static enum base_status lower_conv(struct eng_lower *lower, const struct eng_node *node)
{
    struct conv_inputs in;
    struct eng_window window;
    uint32_t y;
    BASE_TRY(read_inputs(lower, node, false, &in));
    BASE_TRY(eng_window_read(lower, node, in.x_desc.rank - 2, in.w_desc.dims + 2, &window));
    BASE_TRY(eng_window_place(lower, node, in.x_desc.dims + 2, false, &window));
    struct eng_conv conv = eng_conv_of(&window, in.groups);
    conv.epilogue.bias = in.bias;
    BASE_TRY(eng_emit_conv(lower, &conv, in.x, in.w, &y));
    return eng_lower_output(lower, node, 0, y);
}

// Output dims and pads of a transposed window. output_shape wins over pads, which then follow from
// it; of an odd total SAME_UPPER puts the larger half at the end, everything else at the beginning.
static enum base_status place_transposed(struct eng_lower *lower, const struct eng_node *node,
                                         const int64_t *in, struct eng_window *window)
{
    base_assert(window->spatial >= 1 && window->spatial <= ENG_SPATIAL_MAX);
    uint32_t shape_count;
    uint32_t extra_count;
    const int64_t *shape = eng_node_ints(node, "output_shape", &shape_count);
    const int64_t *extra = eng_node_ints(node, "output_padding", &extra_count);
    if (shape_count == window->spatial + 2) { // some writers name batch and channels too
        shape += 2;
        shape_count = window->spatial;
    }
    if ((shape_count != 0 && shape_count != window->spatial) ||
        (extra_count != 0 && extra_count != window->spatial)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "output_shape or output_padding has not %u values", window->spatial);
    }
    bool upper = eng_string_is(window->auto_pad, "SAME_UPPER");
    bool same = upper || eng_string_is(window->auto_pad, "SAME_LOWER");
    for (uint32_t i = 0; i < window->spatial; i++) {
        int64_t more = extra_count != 0 ? extra[i] : 0;
        if (shape_count != 0 && (shape[i] < 0 || shape[i] > ENG_ELEMENTS_MAX)) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "output_shape: %lld is out of range", (long long)shape[i]);
        }
        if (more < 0 || (more >= window->stride[i] && more >= window->dilation[i])) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "output_padding %lld is not below stride or dilation",
                                  (long long)more);
        }
        int64_t full = window->stride[i] * (in[i] - 1) + more +
                       (window->kernel[i] - 1) * window->dilation[i] + 1;
        if (shape_count != 0 || same) {
            window->out[i] = shape_count != 0 ? shape[i] : in[i] * window->stride[i];
            int64_t total = full - window->out[i];
            total = total < 0 ? 0 : total;
            window->pad_begin[i] = upper ? total / 2 : total - total / 2;
            window->pad_end[i] = total - window->pad_begin[i];
        } else {
            window->out[i] = full - window->pad_begin[i] - window->pad_end[i];
        }
        if (window->out[i] < 0 || window->out[i] > ENG_ELEMENTS_MAX) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "output dimension %u would be %lld", i,
                                  (long long)window->out[i]);
        }
    }
    return BASE_OK;
}

static enum base_status lower_conv_transpose(struct eng_lower *lower, const struct eng_node *node)
{
    struct conv_inputs in;
    struct eng_window window;
    BASE_TRY(read_inputs(lower, node, true, &in));
    BASE_TRY(eng_window_read(lower, node, in.x_desc.rank - 2, in.w_desc.dims + 2, &window));
    BASE_TRY(place_transposed(lower, node, in.x_desc.dims + 2, &window));
    struct eng_desc out = in.x_desc;
    out.dims[1] = in.channels_out;
    for (uint32_t i = 0; i < window.spatial; i++) {
        out.dims[2 + i] = window.out[i];
    }
    int64_t count;
    if (eng_desc_check(&out, &count) != BASE_OK) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "the output has too many elements");
    }
    const struct eng_command command = {
        .op = ENG_OP_CONV_TRANSPOSE,
        .inputs = (uint32_t[]){in.x, in.w},
        .input_count = 2,
        .output_count = 1,
        .u.conv = eng_conv_of(&window, in.groups),
    };
    uint32_t y;
    BASE_TRY(eng_emit(lower, &command, &out, &y));
    if (in.bias != ENG_NONE) {
        struct eng_desc column = eng_nn_desc_axis(out.dtype, out.rank - 1, 0, in.channels_out);
        BASE_TRY(eng_nn_reshape(lower, in.bias, &column, &in.bias));
        BASE_TRY(eng_emit_binary(lower, ENG_ADD, y, in.bias, &y));
    }
    return eng_lower_output(lower, node, 0, y);
}

static const struct eng_op rows[] = {
    NN_ROW("Conv", 7, ATOMIC, lower_conv),
    NN_ROW("ConvTranspose", 7, ATOMIC, lower_conv_transpose),
};
const struct eng_op_table eng_ops_conv = NN_TABLE(rows);

// Convolution, its transpose, and the one whose windows are deformed by offsets.
//
// Handlers are called by lowering, node by node, on the planning thread. CONV works in
// CHANNELS_LAST (eng_emit_conv); CONV_TRANSPOSE is plain.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

// Most places of a deformed window: their positions are computed while planning.
#define DEFORM_PLACES_MAX ((int64_t)1 << 24)

struct conv_inputs {
    uint32_t x, w, bias;
    struct eng_desc x_desc, w_desc;
    int64_t groups, channels_out;
};

// Reads x and w and checks that they belong together. A forward kernel is [M, C/groups, k...], a
// transposed one [C, M/groups, k...].
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
    return BASE_OK;
}

// Reads the bias, input number `input`, which may be left out: one number a channel.
static enum base_status read_bias(struct eng_lower *lower, const struct eng_node *node,
                                  uint32_t input, struct conv_inputs *in)
{
    BASE_TRY(eng_nn_optional(lower, node, input, NN_TYPES_FLOAT, &in->bias));
    if (in->bias == ENG_NONE) {
        return BASE_OK;
    }
    const struct eng_desc bias = *eng_lower_desc(lower, in->bias);
    char text[64];
    BASE_TRY(eng_nn_same_type(lower, node, input, bias.dtype, in->x_desc.dtype));
    if (bias.rank != 1 || bias.dims[0] != in->channels_out) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "bias is %s for %lld channels",
                              eng_desc_text(&bias, text, sizeof(text)),
                              (long long)in->channels_out);
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
    BASE_TRY(read_bias(lower, node, 2, &in));
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
    BASE_TRY(read_bias(lower, node, 2, &in));
    base_assert(in.x_desc.rank >= 3 && in.w_desc.rank == in.x_desc.rank);
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

// --- DeformConv

// A deformable convolution while it is worked out: each element of the kernel (a tap) reads x where
// the offset of its place says, between pixels by linear interpolation.
struct deform {
    struct conv_inputs in;
    struct eng_window window;
    uint32_t offset, mask;
    int64_t offset_groups; // channels of one group share their offsets
    int64_t taps, places;  // elements of the kernel, positions of the window
};

// INVALID unless input i is as wanted.
static enum base_status check_is(struct eng_lower *lower, const struct eng_node *node,
                                 uint32_t input, uint32_t tensor, const struct eng_desc *wanted)
{
    const struct eng_desc desc = *eng_lower_desc(lower, tensor);
    if (eng_desc_equal(&desc, wanted)) {
        return BASE_OK;
    }
    char got[64];
    char want[64];
    return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %u is %s, %s wanted", input,
                          eng_desc_text(&desc, got, sizeof(got)),
                          eng_desc_text(wanted, want, sizeof(want)));
}

// The offsets and the mask, which have the dims of the output and numbers for each tap.
static enum base_status deform_inputs(struct eng_lower *lower, const struct eng_node *node,
                                      struct deform *deform)
{
    const uint32_t spatial = deform->window.spatial;
    base_assert(spatial + 2 == deform->in.x_desc.rank);
    base_assert(deform->taps >= 1 && deform->offset_groups >= 1);
    struct eng_desc wanted = deform->in.x_desc;
    wanted.dims[1] = deform->offset_groups * deform->taps * spatial;
    deform->places = 1;
    for (uint32_t d = 0; d < spatial; d++) {
        wanted.dims[2 + d] = deform->window.out[d];
        if (deform->window.out[d] > DEFORM_PLACES_MAX / deform->places) {
            return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE,
                                  "too many places of the window, at most %lld",
                                  (long long)DEFORM_PLACES_MAX);
        }
        deform->places *= deform->window.out[d];
    }
    BASE_TRY(eng_nn_input(lower, node, 2, NN_TYPES_FLOAT, &deform->offset));
    BASE_TRY(check_is(lower, node, 2, deform->offset, &wanted));
    BASE_TRY(eng_nn_optional(lower, node, 4, NN_TYPES_FLOAT, &deform->mask));
    if (deform->mask == ENG_NONE) {
        return BASE_OK;
    }
    wanted.dims[1] = deform->offset_groups * deform->taps;
    return check_is(lower, node, 4, deform->mask, &wanted);
}

static enum base_status deform_read(struct eng_lower *lower, const struct eng_node *node,
                                    struct deform *deform)
{
    struct conv_inputs *in = &deform->in;
    BASE_TRY(read_inputs(lower, node, false, in));
    BASE_TRY(read_bias(lower, node, 3, in));
    if (in->x_desc.rank != 4 && in->x_desc.rank != 5) {
        return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED,
                              "%u spatial dimensions; 2 and 3 are supported", in->x_desc.rank - 2);
    }
    const int64_t channels = in->x_desc.dims[1];
    deform->offset_groups = eng_node_int(node, "offset_group", 1);
    if (eng_desc_count(&in->x_desc) == 0 || eng_desc_count(&in->w_desc) == 0 ||
        deform->offset_groups < 1 || channels % deform->offset_groups != 0) {
        char x_text[64];
        char w_text[64];
        return eng_lower_fail(
            lower, node, BASE_ERR_INVALID, "input %s, weights %s and offset_group %lld do not fit",
            eng_desc_text(&in->x_desc, x_text, sizeof(x_text)),
            eng_desc_text(&in->w_desc, w_text, sizeof(w_text)), (long long)deform->offset_groups);
    }
    base_assert(in->w_desc.rank == in->x_desc.rank);
    deform->taps = eng_nn_product(&in->w_desc, 2, in->w_desc.rank);
    const uint32_t spatial = in->x_desc.rank - 2;
    BASE_TRY(eng_window_read(lower, node, spatial, in->w_desc.dims + 2, &deform->window));
    BASE_TRY(eng_window_place(lower, node, in->x_desc.dims + 2, false, &deform->window));
    return deform_inputs(lower, node, deform);
}

// Evenly spaced points of a box, in coordinates of a grid: along spatial dim d from first[d] on.
struct lattice {
    int64_t count[ENG_SPATIAL_MAX];
    double first[ENG_SPATIAL_MAX], step[ENG_SPATIAL_MAX];
};

// Its points as F64 [points, coordinates], the last dim's coordinate first.
static enum base_status lattice_const(struct eng_lower *lower, const struct lattice *lattice,
                                      uint32_t spatial, uint32_t *out)
{
    int64_t points = 1;
    for (uint32_t d = 0; d < spatial; d++) {
        points *= lattice->count[d];
    }
    base_assert(points >= 1 && spatial <= ENG_SPATIAL_MAX);
    double *values = eng_lower_alloc(lower, (size_t)points * spatial * sizeof(*values));
    if (values == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < points; i++) {
        int64_t rest = i;
        for (uint32_t d = spatial; d-- > 0;) {
            const int64_t at = rest % lattice->count[d];
            rest /= lattice->count[d];
            values[i * spatial + (spatial - 1 - d)] =
                lattice->first[d] + (double)at * lattice->step[d];
        }
    }
    const struct eng_desc desc = eng_nn_desc2(ENG_F64, points, spatial);
    return eng_lower_const(lower, &desc, values, out);
}

// Where the taps read, as a grid [images, taps, places, coordinates]: pixel p of a row of n is at
// (2p + 1) / n - 1. In double precision, so that whole offsets hit their pixels.
static enum base_status deform_grid(struct eng_lower *lower, const struct deform *deform,
                                    uint32_t *out)
{
    const struct eng_window *window = &deform->window;
    const uint32_t spatial = window->spatial;
    const int64_t images = deform->in.x_desc.dims[0] * deform->offset_groups;
    base_assert(spatial >= 2 && spatial + 2 == deform->in.x_desc.rank);
    base_assert(deform->taps >= 1 && deform->places <= DEFORM_PLACES_MAX);
    struct lattice pixel = {.count = {1, 1, 1}};
    struct lattice taps = {.first = {0}};
    struct lattice places = {.first = {0}};
    for (uint32_t d = 0; d < spatial; d++) {
        const double size = (double)deform->in.x_desc.dims[2 + d];
        pixel.first[d] = 2 / size;
        taps.count[d] = window->kernel[d];
        taps.step[d] = 2 * (double)window->dilation[d] / size;
        places.count[d] = window->out[d];
        places.first[d] = (1 - 2 * (double)window->pad_begin[d]) / size - 1;
        places.step[d] = 2 * (double)window->stride[d] / size;
    }
    uint32_t grid = ENG_NONE;
    uint32_t part = ENG_NONE;
    struct eng_desc desc =
        eng_nn_desc3(deform->in.x_desc.dtype, images * deform->taps, spatial, deform->places);
    BASE_TRY(eng_nn_reshape(lower, deform->offset, &desc, &grid));
    static const uint32_t coordinates_last[3] = {0, 2, 1};
    BASE_TRY(eng_lower_transpose(lower, grid, coordinates_last, &grid));
    struct eng_slice backwards = eng_slice_whole(eng_lower_desc(lower, grid));
    backwards.start[2] = (int64_t)spatial - 1;
    backwards.step[2] = -1;
    BASE_TRY(eng_lower_slice(lower, grid, &backwards, &grid));
    BASE_TRY(eng_emit_cast(lower, grid, ENG_F64, &grid));
    BASE_TRY(lattice_const(lower, &pixel, spatial, &part));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, grid, part, &grid));
    BASE_TRY(lattice_const(lower, &places, spatial, &part));
    BASE_TRY(eng_emit_binary(lower, ENG_ADD, grid, part, &grid));
    desc = (struct eng_desc){
        .dtype = ENG_F64, .rank = 4, .dims = {images, deform->taps, deform->places, spatial}};
    BASE_TRY(eng_nn_reshape(lower, grid, &desc, &grid));
    BASE_TRY(lattice_const(lower, &taps, spatial, &part));
    desc = eng_nn_desc3(ENG_F64, deform->taps, 1, spatial);
    BASE_TRY(eng_nn_reshape(lower, part, &desc, &part));
    return eng_emit_binary(lower, ENG_ADD, grid, part, out);
}

// What the taps read of x, times the mask: [N, groups of offsets, channels of one, taps * places].
static enum base_status deform_columns(struct eng_lower *lower, const struct eng_node *node,
                                       const struct deform *deform, uint32_t *out)
{
    const uint32_t rank = deform->in.x_desc.rank;
    const int64_t groups = deform->offset_groups;
    uint32_t inputs[2] = {deform->in.x, ENG_NONE};
    struct eng_desc desc = deform->in.x_desc;
    desc.dims[0] *= groups;
    desc.dims[1] /= groups;
    base_assert(desc.dims[0] * desc.dims[1] ==
                deform->in.x_desc.dims[0] * deform->in.x_desc.dims[1]);
    BASE_TRY(eng_nn_reshape(lower, deform->in.x, &desc, &inputs[0]));
    // The grid has as many dims as the image. The taps lie below each other along the first.
    struct eng_desc grid = {.dtype = ENG_F64, .rank = rank, .dims = {desc.dims[0]}};
    for (uint32_t d = 0; d < rank - 2; d++) {
        desc.dims[2 + d] = deform->window.out[d] * (d == 0 ? deform->taps : 1);
        grid.dims[1 + d] = desc.dims[2 + d];
    }
    grid.dims[rank - 1] = rank - 2;
    int64_t count = 0;
    if (eng_desc_check(&desc, &count) != BASE_OK) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "the taps read too many elements");
    }
    BASE_TRY(deform_grid(lower, deform, &inputs[1]));
    BASE_TRY(eng_nn_reshape(lower, inputs[1], &grid, &inputs[1]));
    const struct eng_command command = {
        .op = ENG_OP_GRID_SAMPLE, // linear, zeros outside
        .inputs = inputs,
        .input_count = 2,
        .output_count = 1,
    };
    BASE_TRY(eng_emit(lower, &command, &desc, out));
    desc = (struct eng_desc){
        .dtype = desc.dtype,
        .rank = 4,
        .dims = {deform->in.x_desc.dims[0], groups, desc.dims[1], deform->taps * deform->places}};
    BASE_TRY(eng_nn_reshape(lower, *out, &desc, out));
    if (deform->mask == ENG_NONE) {
        return BASE_OK;
    }
    uint32_t mask = ENG_NONE;
    desc.dims[2] = 1;
    BASE_TRY(eng_nn_reshape(lower, deform->mask, &desc, &mask));
    return eng_emit_binary(lower, ENG_MUL, *out, mask, out);
}

// The weights times what the taps read, group by group.
static enum base_status lower_deform_conv(struct eng_lower *lower, const struct eng_node *node)
{
    struct deform deform;
    uint32_t columns = ENG_NONE;
    uint32_t weights = ENG_NONE;
    uint32_t y = ENG_NONE;
    BASE_TRY(deform_read(lower, node, &deform));
    BASE_TRY(deform_columns(lower, node, &deform, &columns));
    const struct conv_inputs *in = &deform.in;
    base_assert(in->channels_out % in->groups == 0);
    const int64_t depth = in->w_desc.dims[1] * deform.taps;
    struct eng_desc desc = {.dtype = in->x_desc.dtype,
                            .rank = 4,
                            .dims = {in->x_desc.dims[0], in->groups, depth, deform.places}};
    BASE_TRY(eng_nn_reshape(lower, columns, &desc, &columns));
    desc = eng_nn_desc3(desc.dtype, in->groups, in->channels_out / in->groups, depth);
    BASE_TRY(eng_nn_reshape(lower, in->w, &desc, &weights));
    BASE_TRY(eng_emit_matmul(lower, (struct eng_factor){.tensor = weights},
                             (struct eng_factor){.tensor = columns}, 1, &y));
    desc = in->x_desc;
    desc.dims[1] = in->channels_out;
    for (uint32_t d = 0; d < deform.window.spatial; d++) {
        desc.dims[2 + d] = deform.window.out[d];
    }
    BASE_TRY(eng_nn_reshape(lower, y, &desc, &y));
    if (in->bias != ENG_NONE) {
        uint32_t bias = ENG_NONE;
        desc = eng_nn_desc_axis(desc.dtype, desc.rank - 1, 0, in->channels_out);
        BASE_TRY(eng_nn_reshape(lower, in->bias, &desc, &bias));
        BASE_TRY(eng_emit_binary(lower, ENG_ADD, y, bias, &y));
    }
    return eng_lower_output(lower, node, 0, y);
}

static const struct eng_op rows[] = {
    NN_ROW("Conv", 7, ATOMIC, lower_conv),
    NN_ROW("ConvTranspose", 7, ATOMIC, lower_conv_transpose),
    NN_ROW("DeformConv", 19, COMPOSITE, lower_deform_conv),
};
const struct eng_op_table eng_ops_conv = NN_TABLE(rows);

// Images: resizing, sampling by a grid, regions of interest. Nearest-neighbour enlarging by whole
// factors only moves elements and becomes regions.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/move_kit.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

// A value of a text attribute. The list of them ends with one without a name.
struct named {
    const char *name;
    int value;
};

// What a text attribute says; *value holds what is meant where it is not there.
static enum base_status pick(struct eng_lower *lower, const struct eng_node *node, const char *attr,
                             const struct named *names, int *value)
{
    const struct eng_attr *given = eng_node_attr(node, attr);
    if (given == NULL || given->kind != ENG_ATTR_STRING) {
        return BASE_OK;
    }
    const struct eng_string text = given->u.s;
    for (const struct named *known = names; known->name != NULL; known++) {
        if (eng_string_is(text, known->name)) {
            *value = known->value;
            return BASE_OK;
        }
    }
    return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED, "%s '%.*s' is not known", attr,
                          (int)(text.size > 32 ? 32 : text.size), text.at);
}

// --- Resize

// Opset 10 and Upsample: positions are index / scale, rounded down.
static enum base_status resize_mode(struct eng_lower *lower, const struct eng_node *node,
                                    struct eng_resize *resize)
{
    static const struct named modes[] = {{"nearest", ENG_RESIZE_NEAREST},
                                         {"linear", ENG_RESIZE_LINEAR},
                                         {"bilinear", ENG_RESIZE_LINEAR},
                                         {"cubic", ENG_RESIZE_CUBIC},
                                         {NULL, 0}};
    static const struct named coords[] = {
        {"half_pixel", ENG_COORD_HALF_PIXEL},
        {"half_pixel_symmetric", ENG_COORD_HALF_PIXEL_SYMMETRIC},
        {"pytorch_half_pixel", ENG_COORD_PYTORCH_HALF_PIXEL},
        {"align_corners", ENG_COORD_ALIGN_CORNERS},
        {"asymmetric", ENG_COORD_ASYMMETRIC},
        {"tf_half_pixel_for_nn", ENG_COORD_TF_HALF_PIXEL},
        {"tf_crop_and_resize", ENG_COORD_TF_CROP},
        {NULL, 0},
    };
    static const struct named rounds[] = {{"round_prefer_floor", ENG_ROUND_PREFER_FLOOR},
                                          {"round_prefer_ceil", ENG_ROUND_PREFER_CEIL},
                                          {"floor", ENG_ROUND_FLOOR},
                                          {"ceil", ENG_ROUND_CEIL},
                                          {NULL, 0}};
    _Static_assert(sizeof(coords) / sizeof(coords[0]) == ENG_COORD_TF_CROP + 2,
                   "each has a name, and one line ends the table");
    _Static_assert(sizeof(rounds) / sizeof(rounds[0]) == ENG_ROUND_CEIL + 2, "here too");
    bool is_old = node->opset < 11;
    int mode = ENG_RESIZE_NEAREST;
    int coord = is_old ? ENG_COORD_ASYMMETRIC : ENG_COORD_HALF_PIXEL;
    int round = is_old ? ENG_ROUND_FLOOR : ENG_ROUND_PREFER_FLOOR;
    BASE_TRY(pick(lower, node, "mode", modes, &mode));
    BASE_TRY(pick(lower, node, "coordinate_transformation_mode", coords, &coord));
    BASE_TRY(pick(lower, node, "nearest_mode", rounds, &round));
    resize->fn = (enum eng_resize_fn)mode;
    resize->coord = (enum eng_resize_coord)coord;
    resize->round = (enum eng_resize_round)round;
    resize->cubic_a = eng_node_float(node, "cubic_coeff_a", -0.75F);
    resize->extrapolation = eng_node_float(node, "extrapolation_value", 0);
    resize->exclude_outside = eng_node_int(node, "exclude_outside", 0) != 0;
    resize->antialias = eng_node_int(node, "antialias", 0) != 0;
    if (resize->antialias && resize->coord == ENG_COORD_TF_CROP) {
        return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED,
                              "antialias with tf_crop_and_resize is not known");
    }
    return BASE_OK;
}

// The axes that scales, sizes and roi have numbers for.
struct resize_axes {
    uint32_t axis[ENG_RANK_MAX];
    uint32_t count;
};

static enum base_status resize_axes(struct eng_lower *lower, const struct eng_node *node,
                                    uint32_t rank, struct resize_axes *out)
{
    const int64_t *list = eng_node_ints(node, "axes", &out->count);
    bool seen[ENG_RANK_MAX] = {false};
    out->count = list == NULL ? rank : out->count;
    if (out->count > rank) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%u axes of an input of rank %u",
                              out->count, rank);
    }
    for (uint32_t i = 0; i < out->count; i++) {
        BASE_TRY(
            eng_lower_axis(lower, node, list != NULL ? list[i] : (int64_t)i, rank, &out->axis[i]));
        if (seen[out->axis[i]]) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "axis %u is given twice",
                                  out->axis[i]);
        }
        seen[out->axis[i]] = true;
    }
    return BASE_OK;
}

// A Resize while it is worked out.
struct resizing {
    struct eng_desc in, out; // of the input; of the result, at first the input's
    struct resize_axes axes;
    struct eng_resize *params; // of the command
};

// The `wanted` numbers of input i (float tensor); *out without data when it is not there or empty.
static enum base_status read_reals(struct eng_lower *lower, const struct eng_node *node,
                                   uint32_t input, uint32_t wanted, struct eng_array *out)
{
    uint32_t tensor = ENG_NONE;
    *out = (struct eng_array){.data = NULL};
    BASE_TRY(eng_lower_optional(lower, node, input, &tensor));
    if (tensor == ENG_NONE || eng_desc_count(eng_lower_desc(lower, tensor)) == 0) {
        return BASE_OK;
    }
    BASE_TRY(eng_lower_content(lower, tensor, out));
    if (eng_desc_count(&out->desc) != (int64_t)wanted) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %u has %lld numbers, %u wanted",
                              input, (long long)eng_desc_count(&out->desc), wanted);
    }
    base_assert(out->data != NULL);
    return BASE_OK;
}

static enum base_status resize_roi(struct eng_lower *lower, const struct eng_node *node,
                                   struct resizing *resizing)
{
    struct eng_array roi;
    const uint32_t count = resizing->axes.count;
    if (resizing->params->coord != ENG_COORD_TF_CROP) {
        return BASE_OK;
    }
    BASE_TRY(read_reals(lower, node, 1, 2 * count, &roi));
    if (roi.data == NULL) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "tf_crop_and_resize needs roi");
    }
    for (uint32_t d = 0; d < resizing->in.rank; d++) {
        resizing->params->roi_end[d] = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        resizing->params->roi_begin[resizing->axes.axis[i]] = (float)eng_content_real(&roi, i);
        resizing->params->roi_end[resizing->axes.axis[i]] =
            (float)eng_content_real(&roi, count + i);
    }
    return BASE_OK;
}

// Scale of dimension `axis` checked; *dim becomes what it gives.
static enum base_status scaled_dim(struct eng_lower *lower, const struct eng_node *node,
                                   const struct eng_resize *resize, uint32_t axis, int64_t *dim)
{
    float scale = resize->scale[axis];
    float extent =
        resize->coord == ENG_COORD_TF_CROP ? resize->roi_end[axis] - resize->roi_begin[axis] : 1.0F;
    float size = (float)*dim * extent * scale;
    if (!(scale > 0) || !(size >= 0 && size <= (float)ENG_ELEMENTS_MAX)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "scale %g of dimension %lld",
                              (double)scale, (long long)*dim);
    }
    *dim = (int64_t)floorf(size);
    return BASE_OK;
}

// Dims that keep the proportions of the axes: the largest that fit into the sizes, or the smallest
// that cover them.
static enum base_status keep_aspect(struct eng_lower *lower, const struct eng_node *node,
                                    struct resizing *resizing)
{
    base_assert(resizing->axes.count <= resizing->in.rank);
    static const struct named policies[] = {
        {"stretch", 0}, {"not_larger", 1}, {"not_smaller", 2}, {NULL, 0}};
    int policy = 0;
    BASE_TRY(pick(lower, node, "keep_aspect_ratio_policy", policies, &policy));
    if (policy == 0) {
        return BASE_OK;
    }
    double scale = 0;
    for (uint32_t i = 0; i < resizing->axes.count; i++) {
        uint32_t d = resizing->axes.axis[i];
        double next = (double)resizing->out.dims[d] / (double)resizing->in.dims[d];
        scale = i == 0 || (policy == 1 ? next < scale : next > scale) ? next : scale;
    }
    for (uint32_t i = 0; i < resizing->axes.count; i++) {
        uint32_t d = resizing->axes.axis[i];
        double size = floor(scale * (double)resizing->in.dims[d] + 0.5);
        if (!(size >= 0 && size <= (double)ENG_ELEMENTS_MAX)) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "scale %g of dimension %lld",
                                  scale, (long long)resizing->in.dims[d]);
        }
        resizing->out.dims[d] = (int64_t)size;
        resizing->params->scale[d] = (float)scale;
    }
    return BASE_OK;
}

// Output dims from sizes; *has says whether there are any.
static enum base_status resize_sizes(struct eng_lower *lower, const struct eng_node *node,
                                     struct resizing *resizing, bool *has)
{
    const int64_t *sizes = NULL;
    uint32_t count = 0;
    uint32_t tensor = ENG_NONE;
    BASE_TRY(eng_lower_optional(lower, node, 3, &tensor));
    *has = tensor != ENG_NONE && eng_desc_count(eng_lower_desc(lower, tensor)) > 0;
    if (!*has) {
        return BASE_OK;
    }
    BASE_TRY(eng_lower_ints(lower, node, tensor, &sizes, &count));
    if (count != resizing->axes.count) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%u sizes for %u dimensions", count,
                              resizing->axes.count);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t d = resizing->axes.axis[i];
        base_assert(d < resizing->in.rank);
        int64_t dim = resizing->in.dims[d];
        if (sizes[i] < 0 || (dim == 0 && sizes[i] != 0)) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "size %lld of dimension %u, %lld",
                                  (long long)sizes[i], d, (long long)dim);
        }
        resizing->out.dims[d] = sizes[i];
        resizing->params->scale[d] = dim == 0 ? 1 : (float)((double)sizes[i] / (double)dim);
    }
    return keep_aspect(lower, node, resizing);
}

// Output dims from sizes, else from scales (input `scales_input`, or the attribute of Upsample 7).
static enum base_status resize_dims(struct eng_lower *lower, const struct eng_node *node,
                                    uint32_t scales_input, struct resizing *resizing)
{
    uint32_t count = 0;
    struct eng_array scales;
    bool has = false;
    for (uint32_t d = 0; d < resizing->in.rank; d++) {
        resizing->params->scale[d] = 1;
    }
    BASE_TRY(resize_sizes(lower, node, resizing, &has));
    if (has) {
        return eng_desc_allow(lower, node, &resizing->out);
    }
    const float *list = eng_node_floats(node, "scales", &count);
    BASE_TRY(read_reals(lower, node, scales_input, resizing->axes.count, &scales));
    if (scales.data == NULL && (list == NULL || count != resizing->axes.count)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "it has neither scales nor sizes");
    }
    for (uint32_t i = 0; i < resizing->axes.count; i++) {
        uint32_t d = resizing->axes.axis[i];
        resizing->params->scale[d] =
            scales.data != NULL ? (float)eng_content_real(&scales, i) : list[i];
        base_assert(resizing->out.dims[d] == resizing->in.dims[d]);
        BASE_TRY(scaled_dim(lower, node, resizing->params, d, &resizing->out.dims[d]));
        if (resizing->in.dims[d] == 0 && resizing->out.dims[d] != 0) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "dimension %u is empty", d);
        }
    }
    return eng_desc_allow(lower, node, &resizing->out);
}

// Whether element i of the result is element i / factor of the input, in every dimension.
static bool is_repeat(const struct eng_resize *resize, const struct eng_desc *in,
                      const struct eng_desc *out)
{
    base_assert(in->rank == out->rank);
    bool plain = resize->coord == ENG_COORD_ASYMMETRIC && resize->round == ENG_ROUND_FLOOR;
    // The middle of each of a whole number of parts lies strictly within its element.
    bool centered =
        (resize->coord == ENG_COORD_HALF_PIXEL || resize->coord == ENG_COORD_PYTORCH_HALF_PIXEL) &&
        (resize->round == ENG_ROUND_PREFER_FLOOR || resize->round == ENG_ROUND_PREFER_CEIL);
    if (resize->fn != ENG_RESIZE_NEAREST || !(plain || centered)) {
        return false;
    }
    for (uint32_t d = 0; d < in->rank; d++) {
        if (in->dims[d] == 0 || out->dims[d] % in->dims[d] != 0 ||
            (double)resize->scale[d] != (double)(out->dims[d] / in->dims[d])) {
            return false;
        }
    }
    return true;
}

static enum base_status repeat_regions(struct eng_lower *lower, uint32_t input,
                                       const struct eng_desc *in, const struct eng_desc *desc,
                                       uint32_t *out)
{
    int64_t from[ENG_RANK_MAX];
    int64_t to[ENG_RANK_MAX];
    eng_layout_strides(in, ENG_PLAIN, from);
    eng_layout_strides(desc, ENG_PLAIN, to);
    struct eng_map map = {.source = input, .rank = 2 * in->rank};
    for (uint32_t d = 0; d < in->rank; d++) {
        base_assert(desc->dims[d] % in->dims[d] == 0);
        int64_t factor = desc->dims[d] / in->dims[d];
        map.size[2 * d] = in->dims[d];
        map.src_stride[2 * d] = from[d];
        map.dst_stride[2 * d] = to[d] * factor;
        map.size[2 * d + 1] = factor;
        map.dst_stride[2 * d + 1] = to[d];
    }
    struct eng_maps maps = {.l = lower};
    BASE_TRY(eng_maps_add(&maps, &map));
    return eng_maps_finish(&maps, desc, out);
}

static enum base_status resize(struct eng_lower *lower, const struct eng_node *node,
                               uint32_t scales_input)
{
    uint32_t x = ENG_NONE;
    uint32_t out = ENG_NONE;
    struct resizing r;
    r.params = eng_lower_alloc(lower, sizeof(*r.params));
    if (r.params == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(r.params, 0, sizeof(*r.params));
    BASE_TRY(eng_input_plain(lower, node, 0, &x, &r.in));
    BASE_TRY(resize_mode(lower, node, r.params));
    BASE_TRY(resize_axes(lower, node, r.in.rank, &r.axes));
    BASE_TRY(resize_roi(lower, node, &r));
    r.out = r.in;
    BASE_TRY(resize_dims(lower, node, scales_input, &r));
    base_assert(r.out.rank == r.in.rank && r.out.dtype == r.in.dtype);
    if (is_repeat(r.params, &r.in, &r.out)) {
        BASE_TRY(repeat_regions(lower, x, &r.in, &r.out, &out));
        return eng_lower_output(lower, node, 0, out);
    }
    const struct eng_command command = {
        .op = ENG_OP_RESIZE,
        .inputs = &x,
        .input_count = 1,
        .output_count = 1,
        .u.resize = r.params,
    };
    BASE_TRY(eng_emit(lower, &command, &r.out, &out));
    return eng_lower_output(lower, node, 0, out);
}

static enum base_status lower_resize10(struct eng_lower *lower, const struct eng_node *node)
{
    return resize(lower, node, 1);
}

static enum base_status lower_resize(struct eng_lower *lower, const struct eng_node *node)
{
    return resize(lower, node, 2);
}

// --- GridSample

// An image of two or three spatial dims, a grid of as many coordinates a place.
static enum base_status check_grid(struct eng_lower *lower, const struct eng_node *node,
                                   const struct eng_desc *in, const struct eng_desc *at)
{
    uint32_t spatial = in->rank - 2;
    bool fits = (in->rank == 4 || (in->rank == 5 && node->opset >= 20)) && at->rank == in->rank &&
                at->dims[0] == in->dims[0] && at->dims[at->rank - 1] == (int64_t)spatial;
    if (fits && (eng_desc_count(at) == 0 || eng_dims_product(in->dims, 2, in->rank) > 0)) {
        return BASE_OK;
    }
    char first[64];
    char second[64];
    return eng_lower_fail(lower, node, BASE_ERR_INVALID, "image %s, grid %s",
                          eng_desc_text(in, first, sizeof(first)),
                          eng_desc_text(at, second, sizeof(second)));
}

static enum base_status lower_grid_sample(struct eng_lower *lower, const struct eng_node *node)
{
    static const struct named old_modes[] = {
        {"bilinear", 0}, {"nearest", 1}, {"bicubic", 2}, {NULL, 0}};
    static const struct named modes[] = {{"linear", 0}, {"nearest", 1}, {"cubic", 2}, {NULL, 0}};
    static const struct named paddings[] = {
        {"zeros", 0}, {"border", 1}, {"reflection", 2}, {NULL, 0}};
    uint32_t x = ENG_NONE;
    uint32_t grid = ENG_NONE;
    int mode = 0;
    int padding = 0;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    BASE_TRY(eng_lower_input(lower, node, 1, &grid));
    struct eng_desc in = *eng_lower_desc(lower, x);
    struct eng_desc at = *eng_lower_desc(lower, grid);
    BASE_TRY(check_grid(lower, node, &in, &at));
    base_assert(at.rank == in.rank && at.dims[0] == in.dims[0]);
    BASE_TRY(pick(lower, node, "mode", node->opset < 20 ? old_modes : modes, &mode));
    if (mode == 2 && in.rank != 4) {
        return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED,
                              "mode 'cubic' is for two spatial dimensions, there are %u",
                              in.rank - 2);
    }
    BASE_TRY(pick(lower, node, "padding_mode", paddings, &padding));
    const struct eng_command command = {
        .op = ENG_OP_GRID_SAMPLE,
        .inputs = (uint32_t[]){x, grid},
        .input_count = 2,
        .output_count = 1,
        .u.grid_sample = {.mode = (uint8_t)mode,
                          .padding = (uint8_t)padding,
                          .align_corners = eng_node_int(node, "align_corners", 0) != 0},
    };
    struct eng_desc desc = in;
    for (uint32_t d = 2; d < in.rank; d++) {
        desc.dims[d] = at.dims[d - 1];
    }
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    BASE_TRY(eng_emit(lower, &command, &desc, &out));
    return eng_lower_output(lower, node, 0, out);
}

// --- regions of interest

static enum base_status roi_fail(struct eng_lower *lower, const struct eng_node *node,
                                 const struct eng_desc *input, const struct eng_desc *rois)
{
    char first[64];
    char second[64];
    return eng_lower_fail(lower, node, BASE_ERR_INVALID, "image %s, regions %s",
                          eng_desc_text(input, first, sizeof(first)),
                          eng_desc_text(rois, second, sizeof(second)));
}

static enum base_status lower_roi_align(struct eng_lower *lower, const struct eng_node *node)
{
    static const struct named modes[] = {{"avg", 0}, {"max", 1}, {NULL, 0}};
    static const struct named shifts[] = {{"half_pixel", 1}, {"output_half_pixel", 0}, {NULL, 0}};
    uint32_t tensors[3];
    int mode = 0;
    int shift = node->opset < 16 ? 0 : 1;
    for (uint32_t i = 0; i < 3; i++) {
        BASE_TRY(eng_lower_input(lower, node, i, &tensors[i]));
    }
    struct eng_desc in = *eng_lower_desc(lower, tensors[0]);
    struct eng_desc rois = *eng_lower_desc(lower, tensors[1]);
    struct eng_desc batch = *eng_lower_desc(lower, tensors[2]);
    BASE_TRY(pick(lower, node, "mode", modes, &mode));
    BASE_TRY(pick(lower, node, "coordinate_transformation_mode", shifts, &shift));
    base_assert((mode == 0 || mode == 1) && (shift == 0 || shift == 1));
    const struct eng_command command = {
        .op = ENG_OP_ROI_ALIGN,
        .inputs = tensors,
        .input_count = 3,
        .output_count = 1,
        .u.roi_align = {.is_max = mode == 1,
                        .half_pixel = shift == 1,
                        .height = eng_node_int(node, "output_height", 1),
                        .width = eng_node_int(node, "output_width", 1),
                        .sampling_ratio = eng_node_int(node, "sampling_ratio", 0),
                        .scale = eng_node_float(node, "spatial_scale", 1)},
    };
    if (in.rank != 4 || rois.rank != 2 || rois.dims[1] != 4 || batch.rank != 1 ||
        batch.dims[0] != rois.dims[0] || in.dims[2] * in.dims[3] == 0 ||
        command.u.roi_align.height < 1 || command.u.roi_align.width < 1) {
        return roi_fail(lower, node, &in, &rois);
    }
    struct eng_desc desc =
        eng_desc_of(in.dtype,
                    (int64_t[]){rois.dims[0], in.dims[1], command.u.roi_align.height,
                                command.u.roi_align.width},
                    4);
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    BASE_TRY(eng_emit(lower, &command, &desc, &out));
    return eng_lower_output(lower, node, 0, out);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("Upsample", 7, 9, TRANSFORM, lower_resize10),
    ENG_OP_ROW("Resize", 10, 10, ATOMIC, lower_resize10),
    ENG_OP_ROW("Resize", 11, ENG_OPSET_MAX, ATOMIC, lower_resize),
    ENG_OP_ROW("GridSample", 16, ENG_OPSET_MAX, ATOMIC, lower_grid_sample),
    ENG_OP_ROW("RoiAlign", 10, ENG_OPSET_MAX, ATOMIC, lower_roi_align),
};
const struct eng_op_table eng_ops_vision = ENG_OP_TABLE(rows);

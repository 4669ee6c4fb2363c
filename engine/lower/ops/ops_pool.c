// Pooling: windows (maximum, average, Lp norm), global pools, unpooling, regions of interest, and
// the determinant.
//
// Handlers are called by lowering, node by node, on the planning thread. Global pools are
// reductions over the spatial axes, so CHANNELS_LAST stays as it is.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

#include <string.h>

// Since opset 19 what a last window of ceil_mode reaches beyond the pads counts as padding too.
static void count_overhang(const struct eng_window *window, const int64_t *in,
                           struct eng_pool *pool)
{
    base_assert(pool->spatial == window->spatial);
    for (uint32_t i = 0; i < window->spatial; i++) {
        int64_t reach = (window->kernel[i] - 1) * window->dilation[i] + 1;
        int64_t end = (window->out[i] - 1) * window->stride[i] + reach;
        int64_t pad = end - in[i] - pool->pad_begin[i];
        pool->pad_end[i] = pad > pool->pad_end[i] ? pad : pool->pad_end[i];
    }
}

static enum base_status lower_pool(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t y[2];
    struct eng_window window;
    bool is_max = strcmp(node->op, "MaxPool") == 0;
    bool is_lp = strcmp(node->op, "LpPool") == 0;
    uint32_t types = is_max ? NN_TYPES_FLOAT | NN_TYPES_BYTE : NN_TYPES_FLOAT;
    BASE_TRY(eng_nn_input(lower, node, 0, types, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    if (desc.rank < 3) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "the input has rank %u, expected 3 to 5", desc.rank);
    }
    BASE_TRY(eng_window_read(lower, node, desc.rank - 2, NULL, &window));
    base_assert(window.spatial + 2 == desc.rank);
    bool ceil_mode = eng_node_int(node, "ceil_mode", 0) != 0;
    BASE_TRY(eng_window_place(lower, node, desc.dims + 2, ceil_mode, &window));
    struct eng_pool pool = {
        .fn = is_max  ? ENG_POOL_MAX
              : is_lp ? ENG_POOL_LP
                      : ENG_POOL_AVERAGE,
        .spatial = window.spatial,
        .count_include_pad = eng_node_int(node, "count_include_pad", 0) != 0,
        .column_major = eng_node_int(node, "storage_order", 0) != 0,
        .p = eng_node_int(node, "p", 2),
    };
    if (is_lp && pool.p < 1) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "attribute p is %lld",
                              (long long)pool.p);
    }
    for (uint32_t i = 0; i < window.spatial; i++) {
        pool.kernel[i] = window.kernel[i];
        pool.stride[i] = window.stride[i];
        pool.dilation[i] = window.dilation[i];
        pool.pad_begin[i] = window.pad_begin[i];
        pool.pad_end[i] = window.pad_end[i];
    }
    if (node->opset >= 19 && ceil_mode && pool.count_include_pad) {
        count_overhang(&window, desc.dims + 2, &pool);
    }
    bool indices = is_max && eng_lower_wants(lower, node, 1);
    if (indices) {
        BASE_TRY(eng_emit_pool_indices(lower, &pool, window.out, x, y));
        BASE_TRY(eng_lower_output(lower, node, 1, y[1]));
    } else {
        BASE_TRY(eng_emit_pool(lower, &pool, window.out, x, &y[0]));
    }
    return eng_lower_output(lower, node, 0, y[0]);
}

// (sum |input|^exponent)^(1/exponent) over the spatial axes for exponent other than 1 and 2.
static enum base_status global_lp(struct eng_lower *lower, const struct eng_reduction *spatial,
                                  double exponent, uint32_t input, uint32_t *out)
{
    base_assert(exponent > 2);
    uint32_t y;
    struct eng_reduction sum = *spatial;
    sum.fn = ENG_REDUCE_SUM;
    BASE_TRY(eng_nn_unary(lower, ENG_ABS, input, &y));
    BASE_TRY(eng_nn_with(lower, ENG_POW, y, exponent, &y));
    BASE_TRY(eng_emit_reduce(lower, &sum, y, &y));
    return eng_nn_with(lower, ENG_POW, y, 1.0 / exponent, out);
}

static enum base_status lower_global(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    if (desc.rank < 2) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "the input has rank %u, expected 2 to %d", desc.rank, ENG_RANK_MAX);
    }
    uint32_t axes[ENG_RANK_MAX];
    struct eng_reduction spatial = {ENG_REDUCE_MEAN, axes, desc.rank - 2, .keep_dims = true};
    for (uint32_t i = 0; i < spatial.axis_count; i++) {
        axes[i] = 2 + i;
    }
    if (strcmp(node->op, "GlobalMaxPool") == 0) {
        spatial.fn = ENG_REDUCE_MAX;
    } else if (strcmp(node->op, "GlobalLpPool") == 0) {
        int64_t p = eng_node_int(node, "p", 2);
        if (p < 1) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "attribute p is %lld",
                                  (long long)p);
        }
        if (p > 2) {
            BASE_TRY(global_lp(lower, &spatial, (double)p, x, &y));
            return eng_lower_output(lower, node, 0, y);
        }
        spatial.fn = p == 1 ? ENG_REDUCE_L1 : ENG_REDUCE_L2;
    }
    BASE_TRY(eng_emit_reduce(lower, &spatial, x, &y));
    base_assert(eng_lower_desc(lower, y)->rank == desc.rank);
    return eng_lower_output(lower, node, 0, y);
}

// Dims of a MaxUnpool before output_shape: the smallest input the pool can have had.
static enum base_status unpooled(struct eng_lower *lower, const struct eng_node *node,
                                 const struct eng_desc *input, struct eng_desc *out)
{
    base_assert(input->rank >= 3);
    struct eng_window w;
    BASE_TRY(eng_window_read(lower, node, input->rank - 2, NULL, &w));
    *out = *input;
    for (uint32_t i = 0; i < w.spatial; i++) {
        int64_t dim =
            (input->dims[2 + i] - 1) * w.stride[i] + w.kernel[i] - w.pad_begin[i] - w.pad_end[i];
        if (dim < 0 || dim > ENG_ELEMENTS_MAX) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "output dimension %u would be %lld", i, (long long)dim);
        }
        out->dims[2 + i] = dim;
    }
    int64_t count;
    if (eng_desc_check(out, &count) != BASE_OK) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "the output has too many elements");
    }
    return BASE_OK;
}

// Puts `input` at the origin of a larger tensor of zeros.
static enum base_status enlarge(struct eng_lower *lower, const struct eng_node *node,
                                uint32_t input, struct eng_ints dims, uint32_t *out)
{
    struct eng_desc from = *eng_lower_desc(lower, input);
    struct eng_desc to = from;
    base_assert(from.rank >= 3);
    bool fits = dims.count == from.rank;
    for (uint32_t i = 0; fits && i < dims.count; i++) {
        fits = dims.values[i] >= from.dims[i] && dims.values[i] <= ENG_ELEMENTS_MAX;
        to.dims[i] = dims.values[i];
    }
    int64_t elements;
    if (!fits || eng_desc_check(&to, &elements) != BASE_OK) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "output_shape does not fit the input");
    }
    if (eng_desc_equal(&from, &to)) {
        *out = input;
        return BASE_OK;
    }
    // Batch and channels have one place each, so the box is [N*C, spatial...].
    int64_t src[ENG_RANK_MAX];
    int64_t dst[ENG_RANK_MAX];
    eng_layout_strides(&from, ENG_PLAIN, src);
    eng_layout_strides(&to, ENG_PLAIN, dst);
    struct eng_region region = {.rank = from.rank - 1};
    BASE_TRY(eng_lower_plain(lower, input, &region.source));
    if (from.dims[0] != to.dims[0] || from.dims[1] != to.dims[1] ||
        region.rank > ENG_REGION_RANK_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "output_shape changes batch or channels");
    }
    region.size[0] = from.dims[0] * from.dims[1];
    region.src_stride[0] = src[1];
    region.dst_stride[0] = dst[1];
    for (uint32_t i = 2; i < from.rank; i++) {
        region.size[i - 1] = from.dims[i];
        region.src_stride[i - 1] = src[i];
        region.dst_stride[i - 1] = dst[i];
    }
    return eng_lower_virtual(lower, &to, &region, 1, out);
}

// Values go back to where they were found; indices count elements of the whole unpooled tensor.
// output_shape only adds zeros behind it.
static enum base_status lower_max_unpool(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t indices;
    struct eng_desc out;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPE(I64), &indices));
    struct eng_desc indices_desc = *eng_lower_desc(lower, indices);
    indices_desc.dtype = desc.dtype;
    if (desc.rank < 3 || !eng_desc_equal(&desc, &indices_desc)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "values and indices differ in shape");
    }
    BASE_TRY(unpooled(lower, node, &desc, &out));
    base_assert(out.rank == desc.rank && out.dtype == desc.dtype);
    int64_t count = eng_desc_count(&desc);
    uint32_t inputs[3] = {ENG_NONE, indices, x};
    const struct eng_command command = {
        .op = ENG_OP_SCATTER,
        .inputs = inputs,
        .input_count = 3,
        .output_count = 1,
        .u.scatter = {.fn = ENG_SCATTER_SET,
                      .rows = eng_desc_count(&out),
                      .count = count,
                      .inner = 1},
    };
    struct eng_desc flat = eng_nn_desc1(ENG_I64, count);
    BASE_TRY(eng_lower_virtual(lower, &out, NULL, 0, &inputs[0]));
    BASE_TRY(eng_nn_reshape(lower, indices, &flat, &inputs[1]));
    flat.dtype = desc.dtype;
    BASE_TRY(eng_nn_reshape(lower, x, &flat, &inputs[2]));
    uint32_t y;
    BASE_TRY(eng_emit(lower, &command, &out, &y));
    if (eng_lower_has(lower, node, 2)) {
        struct eng_ints dims;
        BASE_TRY(eng_lower_ints_of(lower, node, 2, NULL, &dims));
        BASE_TRY(enlarge(lower, node, y, dims, &y));
    }
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_max_roi_pool(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t inputs[2];
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &inputs[0]));
    struct eng_desc x = *eng_lower_desc(lower, inputs[0]);
    BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPES_FLOAT, &inputs[1]));
    struct eng_desc rois = *eng_lower_desc(lower, inputs[1]);
    BASE_TRY(eng_nn_same_type(lower, node, 1, rois.dtype, x.dtype));
    uint32_t count;
    const int64_t *shape = eng_node_ints(node, "pooled_shape", &count);
    if (x.rank != 4 || rois.rank != 2 || rois.dims[1] != 5 || count != 2 || shape[0] < 1 ||
        shape[1] < 1 || shape[0] > ENG_ELEMENTS_MAX || shape[1] > ENG_ELEMENTS_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "needs input [N,C,H,W], rois [count,5] and two pooled_shape values");
    }
    const struct eng_command command = {
        .op = ENG_OP_ROI_POOL,
        .inputs = inputs,
        .input_count = 2,
        .output_count = 1,
        .u.roi_pool = {.height = shape[0],
                       .width = shape[1],
                       .scale = eng_node_float(node, "spatial_scale", 1.0f)},
    };
    struct eng_desc out = {
        .dtype = x.dtype, .rank = 4, .dims = {rois.dims[0], x.dims[1], shape[0], shape[1]}};
    int64_t elements;
    if (eng_desc_check(&out, &elements) != BASE_OK) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "the output has too many elements");
    }
    // The kernel multiplies them, also where there are no rois.
    base_assert(shape[0] * shape[1] <= ENG_ELEMENTS_MAX);
    BASE_TRY(eng_emit(lower, &command, &out, &y));
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_det(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x;
    uint32_t y;
    BASE_TRY(eng_nn_input(lower, node, 0, NN_TYPES_FLOAT, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    if (desc.rank < 2 || desc.dims[desc.rank - 1] != desc.dims[desc.rank - 2]) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "the input is not square matrices");
    }
    struct eng_desc out = desc;
    out.rank -= 2;
    int64_t n = desc.dims[desc.rank - 1];
    int64_t batch = eng_desc_count(&out);
    struct eng_desc cube = eng_nn_desc3(desc.dtype, batch, n, n);
    struct eng_desc flat = eng_nn_desc1(desc.dtype, batch);
    BASE_TRY(eng_nn_reshape(lower, x, &cube, &x));
    const struct eng_command command = {
        .op = ENG_OP_DET, .inputs = &x, .input_count = 1, .output_count = 1};
    BASE_TRY(eng_emit(lower, &command, &flat, &y));
    BASE_TRY(eng_nn_reshape(lower, y, &out, &y));
    return eng_lower_output(lower, node, 0, y);
}

// clang-format off
static const struct eng_op rows[] = {
    NN_ROW("AveragePool", 7, ATOMIC, lower_pool),
    NN_ROW("Det", 11, ATOMIC, lower_det),
    NN_ROW("GlobalAveragePool", 7, ATOMIC, lower_global),
    NN_ROW("GlobalLpPool", 7, COMPOSITE, lower_global),
    NN_ROW("GlobalMaxPool", 7, ATOMIC, lower_global),
    NN_ROW("LpPool", 7, ATOMIC, lower_pool),
    NN_ROW("MaxPool", 7, ATOMIC, lower_pool),
    NN_ROW("MaxRoiPool", 7, ATOMIC, lower_max_roi_pool),
    NN_ROW("MaxUnpool", 9, COMPOSITE, lower_max_unpool),
};
// clang-format on
const struct eng_op_table eng_ops_pool = NN_TABLE(rows);

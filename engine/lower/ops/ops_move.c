// Operators that only move elements: each becomes regions over its inputs, and no command. Pad has
// a file of its own.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/move_kit.h"

#include "base/check.h"

// Rows up to which Trilu is regions, one a row; longer matrices are selected by a mask.
#define TRILU_REGION_ROWS 1024

static enum base_status lower_transpose(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    uint32_t rank = eng_lower_desc(lower, x)->rank;
    base_assert(rank <= ENG_RANK_MAX);
    uint32_t perm[ENG_RANK_MAX] = {0};
    uint32_t count = 0;
    const int64_t *axes = eng_node_ints(node, "perm", &count);
    if (axes != NULL && count != rank) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "perm has %u axes, the input %u",
                              count, rank);
    }
    bool seen[ENG_RANK_MAX] = {false};
    for (uint32_t d = 0; d < rank; d++) {
        perm[d] = rank - 1 - d;
        if (axes != NULL) {
            BASE_TRY(eng_lower_axis(lower, node, axes[d], rank, &perm[d]));
        }
        if (seen[perm[d]]) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "axis %u is twice in perm",
                                  perm[d]);
        }
        seen[perm[d]] = true;
    }
    BASE_TRY(eng_lower_transpose(lower, x, perm, &out));
    return eng_lower_output(lower, node, 0, out);
}

// Whether two tensors may be joined along `axis`.
static enum base_status check_joined(struct eng_lower *lower, const struct eng_node *node,
                                     const struct eng_desc *left, const struct eng_desc *right,
                                     uint32_t axis)
{
    base_assert(axis < left->rank);
    bool equal = left->dtype == right->dtype && left->rank == right->rank;
    for (uint32_t d = 0; equal && d < left->rank; d++) {
        equal = d == axis || left->dims[d] == right->dims[d];
    }
    if (equal) {
        return BASE_OK;
    }
    char first[72];
    char second[72];
    return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%s and %s cannot be joined along axis %u",
                          eng_desc_text(left, first, sizeof(first)),
                          eng_desc_text(right, second, sizeof(second)), axis);
}

static enum base_status lower_concat(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t *tensors = eng_lower_alloc(lower, node->input_count * sizeof(*tensors) + 1);
    if (tensors == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (node->input_count == 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "it has no input");
    }
    struct eng_desc desc = {0};
    uint32_t axis = 0;
    int64_t total = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        BASE_TRY(eng_lower_input(lower, node, i, &tensors[i]));
        struct eng_desc next = *eng_lower_desc(lower, tensors[i]);
        if (i == 0) {
            desc = next;
            BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", 1), desc.rank, &axis));
        }
        BASE_TRY(check_joined(lower, node, &desc, &next, axis));
        total += next.dims[axis];
    }
    desc.dims[axis] = total;
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_concat(lower, tensors, node->input_count, axis, &out));
    base_assert(eng_desc_equal(eng_lower_desc(lower, out), &desc));
    return eng_lower_output(lower, node, 0, out);
}

// Sizes of the parts when the node names none: equal ones, since opset 18 `num_outputs` of them, of
// which the last may be smaller.
static enum base_status even_parts(struct eng_lower *lower, const struct eng_node *node,
                                   int64_t dim, int64_t *parts)
{
    int64_t count = (int64_t)node->output_count;
    bool named = node->opset >= 18;
    if (named && eng_node_int(node, "num_outputs", 0) != count) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "attribute num_outputs is %lld, it has %lld outputs and no split",
                              (long long)eng_node_int(node, "num_outputs", 0), (long long)count);
    }
    int64_t part = count == 0 ? 0 : (dim + count - 1) / count;
    int64_t last = dim - part * (count - 1);
    if (count == 0 || last < 0 || (!named && last != part)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "dimension %lld does not split into %lld %s parts", (long long)dim,
                              (long long)count, named ? "" : "equal");
    }
    for (int64_t i = 0; i < count; i++) {
        parts[i] = i + 1 < count ? part : last;
    }
    return BASE_OK;
}

// Sizes of the parts along a dimension, one an output.
static enum base_status split_parts(struct eng_lower *lower, const struct eng_node *node,
                                    int64_t dim, const int64_t **out)
{
    struct eng_ints split;
    BASE_TRY(eng_lower_ints_of(lower, node, 1, "split", &split));
    *out = split.values;
    if (split.values == NULL) {
        int64_t *parts = eng_lower_alloc(lower, (node->output_count + 1) * sizeof(*parts));
        if (parts == NULL) {
            return BASE_ERR_NOMEM;
        }
        *out = parts;
        return even_parts(lower, node, dim, parts);
    }
    bool fits = split.count == node->output_count;
    if (!fits || eng_node_attr(node, "num_outputs") != NULL) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "split has %u sizes for %u outputs%s",
                              split.count, node->output_count,
                              fits ? " and num_outputs is given too" : "");
    }
    return BASE_OK;
}

static enum base_status lower_split(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t axis = 0;
    const int64_t *parts = NULL;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    struct eng_desc in = *eng_lower_desc(lower, x);
    BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", 0), in.rank, &axis));
    BASE_TRY(split_parts(lower, node, in.dims[axis], &parts));
    struct eng_slice part = eng_slice_whole(&in);
    for (uint32_t i = 0; i < node->output_count; i++) {
        base_assert(part.start[axis] >= 0 && part.start[axis] <= in.dims[axis]);
        part.size[axis] = parts[i];
        if (parts[i] < 0 || parts[i] > in.dims[axis] - part.start[axis]) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "part %u of %lld does not fit into dimension %lld", i,
                                  (long long)parts[i], (long long)in.dims[axis]);
        }
        uint32_t out = ENG_NONE;
        BASE_TRY(eng_lower_slice(lower, x, &part, &out));
        BASE_TRY(eng_lower_output(lower, node, i, out));
        part.start[axis] += parts[i];
    }
    if (part.start[axis] != in.dims[axis]) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "sizes add up to %lld of %lld",
                              (long long)part.start[axis], (long long)in.dims[axis]);
    }
    return BASE_OK;
}

// Clamps one axis of a slice; *size is the number of elements taken. Backwards, a start before the
// beginning is the first element (numpy takes none there): so the operator's text has it.
static void slice_axis(int64_t dim, int64_t step, int64_t *start, int64_t end, int64_t *size)
{
    base_assert(dim >= 0 && step != 0);
    int64_t low = step > 0 ? 0 : -1;
    int64_t high = step > 0 ? dim : dim - 1;
    int64_t from = *start < 0 ? (*start < -dim ? 0 : *start + dim) : *start;
    int64_t to = end < 0 ? (end < -dim ? low : end + dim) : end;
    from = from > high ? high : from;
    to = to < low ? low : to > high ? high : to;
    int64_t span = step > 0 ? to - from : from - to;
    // A step past the whole dimension takes one element; -step of INT64_MIN would overflow.
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    *size = span <= 0 ? 0 : (int64_t)(((uint64_t)span - 1) / stride) + 1;
    *start = *size == 0 ? 0 : from;
    base_assert(*size == 0 || (*start >= 0 && *start < dim));
}

// What a Slice asks for: lists of one length.
struct slice_lists {
    struct eng_ints starts, ends;
    struct eng_ints axes, steps; // values NULL: the first axes, steps of 1
};

static enum base_status slice_lists(struct eng_lower *lower, const struct eng_node *node,
                                    struct slice_lists *lists)
{
    BASE_TRY(eng_lower_ints_of(lower, node, 1, "starts", &lists->starts));
    BASE_TRY(eng_lower_ints_of(lower, node, 2, "ends", &lists->ends));
    BASE_TRY(eng_lower_ints_of(lower, node, 3, "axes", &lists->axes));
    BASE_TRY(eng_lower_ints_of(lower, node, 4, "steps", &lists->steps));
    uint32_t count = lists->starts.count;
    if (count != lists->ends.count || (lists->axes.values != NULL && lists->axes.count != count) ||
        (lists->steps.values != NULL && lists->steps.count != count)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "starts, ends, axes, steps have %u, %u, %u, %u numbers", count,
                              lists->ends.count, lists->axes.count, lists->steps.count);
    }
    return BASE_OK;
}

static enum base_status lower_slice(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t out = ENG_NONE;
    struct slice_lists lists;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    BASE_TRY(slice_lists(lower, node, &lists));
    struct eng_desc in = *eng_lower_desc(lower, x);
    struct eng_slice slice = eng_slice_whole(&in);
    bool seen[ENG_RANK_MAX] = {false};
    for (uint32_t i = 0; i < lists.starts.count; i++) {
        uint32_t axis = 0;
        int64_t step = lists.steps.values != NULL ? lists.steps.values[i] : 1;
        int64_t named = lists.axes.values != NULL ? lists.axes.values[i] : (int64_t)i;
        BASE_TRY(eng_lower_axis(lower, node, named, in.rank, &axis));
        if (step == 0 || seen[axis]) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "axis %u is %s", axis,
                                  step == 0 ? "taken in steps of 0" : "given twice");
        }
        seen[axis] = true;
        slice.start[axis] = lists.starts.values[i];
        slice_axis(in.dims[axis], step, &slice.start[axis], lists.ends.values[i],
                   &slice.size[axis]);
        base_assert(slice.size[axis] >= 0 && slice.size[axis] <= in.dims[axis]);
        slice.step[axis] = slice.size[axis] > 1 ? step : 1;
    }
    BASE_TRY(eng_lower_slice(lower, x, &slice, &out));
    return eng_lower_output(lower, node, 0, out);
}

// Repeats per axis: an input from opset 6 on; before, one count for one axis, both inputs.
static enum base_status tile_repeats(struct eng_lower *lower, const struct eng_node *node,
                                     const struct eng_desc *in, int64_t repeats[ENG_RANK_MAX])
{
    uint32_t tensor = ENG_NONE;
    const int64_t *values = NULL;
    uint32_t count = 0;
    if (eng_lower_has(lower, node, 2)) {
        int64_t axis = 0;
        uint32_t at = 0;
        BASE_TRY(eng_input_int(lower, node, 2, &axis));
        BASE_TRY(eng_lower_axis(lower, node, axis, in->rank, &at));
        for (uint32_t d = 0; d < in->rank; d++) {
            repeats[d] = 1;
        }
        BASE_TRY(eng_input_int(lower, node, 1, &repeats[at]));
        count = in->rank;
    } else {
        BASE_TRY(eng_lower_input(lower, node, 1, &tensor));
        BASE_TRY(eng_lower_ints(lower, node, tensor, &values, &count));
    }
    if (count != in->rank) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%u repeats for %u dimensions", count,
                              in->rank);
    }
    base_assert(values != NULL || eng_lower_has(lower, node, 2)); // else `repeats` holds nothing
    for (uint32_t d = 0; d < in->rank; d++) {
        repeats[d] = values != NULL ? values[d] : repeats[d];
        if (repeats[d] < 0) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "repeats[%u] is negative", d);
        }
    }
    return BASE_OK;
}

static enum base_status lower_tile(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    struct eng_desc in;
    int64_t repeats[ENG_RANK_MAX];
    BASE_TRY(eng_input_plain(lower, node, 0, &x, &in));
    BASE_TRY(tile_repeats(lower, node, &in, repeats));
    struct eng_desc desc = in;
    for (uint32_t d = 0; d < in.rank; d++) {
        if (__builtin_mul_overflow(in.dims[d], repeats[d], &desc.dims[d])) {
            desc.dims[d] = INT64_MAX;
        }
    }
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    struct eng_maps maps = {.l = lower};
    uint32_t out = ENG_NONE;
    if (eng_desc_count(&desc) == 0) { // repeated no times: strides would be those of nothing
        BASE_TRY(eng_maps_finish(&maps, &desc, &out));
        return eng_lower_output(lower, node, 0, out);
    }
    base_assert(eng_desc_count(&in) > 0);
    int64_t from[ENG_RANK_MAX];
    int64_t to[ENG_RANK_MAX];
    eng_layout_strides(&in, ENG_PLAIN, from);
    eng_layout_strides(&desc, ENG_PLAIN, to);
    struct eng_map map = {.source = x, .rank = 2 * in.rank};
    for (uint32_t d = 0; d < in.rank; d++) {
        map.size[2 * d] = repeats[d];
        map.dst_stride[2 * d] = to[d] * in.dims[d];
        map.size[2 * d + 1] = in.dims[d];
        map.dst_stride[2 * d + 1] = to[d];
        map.src_stride[2 * d + 1] = from[d];
    }
    BASE_TRY(eng_maps_add(&maps, &map));
    BASE_TRY(eng_maps_finish(&maps, &desc, &out));
    return eng_lower_output(lower, node, 0, out);
}

// Reads input 0 as [N, C, H, W] and the block size.
static enum base_status block_input(struct eng_lower *lower, const struct eng_node *node,
                                    uint32_t *out_x, struct eng_desc *out_desc, int64_t *out_block)
{
    BASE_TRY(eng_lower_input(lower, node, 0, out_x));
    *out_desc = *eng_lower_desc(lower, *out_x);
    *out_block = eng_node_int(node, "blocksize", 0);
    if (out_desc->rank != 4 || *out_block < 1) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "rank %u (4 wanted), blocksize %lld",
                              out_desc->rank, (long long)*out_block);
    }
    return BASE_OK;
}

// reshape to `split`, transpose by `perm`, reshape to `desc`: one raster.
static enum base_status rearrange(struct eng_lower *lower, const struct eng_desc *split,
                                  const uint32_t perm[6], const struct eng_desc *desc,
                                  uint32_t *input)
{
    base_assert(split->rank == 6);
    uint32_t parts = ENG_NONE;
    uint32_t turned = ENG_NONE;
    BASE_TRY(eng_lower_reshape(lower, *input, split, &parts));
    BASE_TRY(eng_lower_transpose(lower, parts, perm, &turned));
    return eng_lower_reshape(lower, turned, desc, input);
}

static enum base_status lower_depth_to_space(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    struct eng_desc in;
    int64_t b = 0;
    BASE_TRY(block_input(lower, node, &x, &in, &b));
    const int64_t *dims = in.dims;
    if (b > dims[1] || dims[1] % b != 0 || dims[1] / b % b != 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "%lld channels for a block size of %lld", (long long)dims[1],
                              (long long)b);
    }
    struct eng_string mode = eng_node_string(node, "mode", "DCR");
    bool crd = eng_string_is(mode, "CRD");
    if (!crd && !eng_string_is(mode, "DCR")) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "mode is neither DCR nor CRD");
    }
    int64_t depth = dims[1] / b / b;
    base_assert(in.rank == 4 && depth * b * b == dims[1]);
    struct eng_desc split =
        crd ? eng_desc_of(in.dtype, (int64_t[]){dims[0], depth, b, b, dims[2], dims[3]}, 6)
            : eng_desc_of(in.dtype, (int64_t[]){dims[0], b, b, depth, dims[2], dims[3]}, 6);
    static const uint32_t perm_crd[6] = {0, 1, 4, 2, 5, 3};
    static const uint32_t perm_dcr[6] = {0, 3, 4, 1, 5, 2};
    struct eng_desc desc =
        eng_desc_of(in.dtype, (int64_t[]){dims[0], depth, dims[2] * b, dims[3] * b}, 4);
    BASE_TRY(rearrange(lower, &split, crd ? perm_crd : perm_dcr, &desc, &x));
    return eng_lower_output(lower, node, 0, x);
}

static enum base_status lower_space_to_depth(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    struct eng_desc in;
    int64_t b = 0;
    BASE_TRY(block_input(lower, node, &x, &in, &b));
    base_assert(in.rank == 4 && b >= 1);
    const int64_t *dims = in.dims;
    if (dims[2] % b != 0 || dims[3] % b != 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "%lld x %lld for a block size of %lld",
                              (long long)dims[2], (long long)dims[3], (long long)b);
    }
    int64_t height = dims[2] / b;
    int64_t width = dims[3] / b;
    struct eng_desc split =
        eng_desc_of(in.dtype, (int64_t[]){dims[0], dims[1], height, b, width, b}, 6);
    static const uint32_t perm[6] = {0, 3, 5, 1, 2, 4};
    // Empty images may come with a block size whose square does not fit.
    int64_t depth = 0;
    if (__builtin_mul_overflow(dims[1], b, &depth) || __builtin_mul_overflow(depth, b, &depth)) {
        depth = INT64_MAX;
    }
    struct eng_desc desc = eng_desc_of(in.dtype, (int64_t[]){dims[0], depth, height, width}, 4);
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    BASE_TRY(rearrange(lower, &split, perm, &desc, &x));
    return eng_lower_output(lower, node, 0, x);
}

// One region a row of the triangle; the rest is zero.
static enum base_status trilu_regions(struct eng_lower *lower, uint32_t input, bool upper,
                                      int64_t diagonal, uint32_t *out)
{
    const struct eng_desc in = *eng_lower_desc(lower, input);
    base_assert(in.rank >= 2);
    int64_t rows = in.dims[in.rank - 2];
    int64_t columns = in.dims[in.rank - 1];
    struct eng_maps maps = {.l = lower};
    for (int64_t row = 0; row < rows; row++) {
        // Columns [edge, columns) of the upper triangle, [0, edge) of the lower one.
        int64_t edge = 0;
        if (__builtin_add_overflow(row + (upper ? 0 : 1), diagonal, &edge)) {
            edge = columns;
        }
        edge = edge < 0 ? 0 : edge > columns ? columns : edge;
        struct eng_map map;
        eng_map_init(&map, input, &in);
        map.size[in.rank - 2] = 1;
        map.src_offset = row * columns + (upper ? edge : 0);
        map.dst_offset = map.src_offset;
        map.size[in.rank - 1] = upper ? columns - edge : edge;
        BASE_TRY(eng_maps_add(&maps, &map));
    }
    return eng_maps_finish(&maps, &in, out);
}

// Selects by column >= row + diagonal (upper) or <=: for matrices of many rows and a diagonal not
// known yet.
static enum base_status trilu_select(struct eng_lower *lower, uint32_t input, bool upper,
                                     uint32_t diagonal, uint32_t *out)
{
    const struct eng_desc in = *eng_lower_desc(lower, input);
    base_assert(in.rank >= 2);
    uint32_t rows = ENG_NONE;
    uint32_t columns = ENG_NONE;
    uint32_t edge = ENG_NONE;
    uint32_t mask = ENG_NONE;
    uint32_t zero = ENG_NONE;
    BASE_TRY(eng_const_steps(lower, 2, 0, (struct eng_steps){in.dims[in.rank - 2], 1}, &rows));
    BASE_TRY(eng_const_steps(lower, 2, 1, (struct eng_steps){in.dims[in.rank - 1], 1}, &columns));
    edge = rows;
    if (diagonal != ENG_NONE) {
        struct eng_desc scalar = {.dtype = ENG_I64};
        BASE_TRY(eng_lower_reshape(lower, diagonal, &scalar, &diagonal));
        BASE_TRY(eng_emit_binary(lower, ENG_ADD, rows, diagonal, &edge));
    }
    BASE_TRY(
        eng_emit_binary(lower, upper ? ENG_GREATER_EQUAL : ENG_LESS_EQUAL, columns, edge, &mask));
    BASE_TRY(eng_lower_const_f32(lower, in.dtype, 0, &zero));
    return eng_emit_select(lower, mask, input, zero, out);
}

static enum base_status lower_trilu(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t k = ENG_NONE;
    uint32_t out = ENG_NONE;
    struct eng_desc in;
    BASE_TRY(eng_input_plain(lower, node, 0, &x, &in));
    BASE_TRY(eng_lower_optional(lower, node, 1, &k));
    if (in.rank < 2) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input has rank %u, at least 2 wanted",
                              in.rank);
    }
    if (k != ENG_NONE) {
        struct eng_desc k_desc = *eng_lower_desc(lower, k);
        if (k_desc.dtype != ENG_I64 || eng_desc_count(&k_desc) != 1) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "k must be one int64");
        }
    }
    bool upper = eng_node_int(node, "upper", 1) != 0;
    bool is_known = k == ENG_NONE || eng_lower_is_known(lower, k);
    if (is_known && in.dims[in.rank - 2] <= TRILU_REGION_ROWS) {
        int64_t diagonal = 0;
        if (k != ENG_NONE) {
            BASE_TRY(eng_input_int(lower, node, 1, &diagonal));
        }
        BASE_TRY(trilu_regions(lower, x, upper, diagonal, &out));
    } else {
        BASE_TRY(trilu_select(lower, x, upper, k, &out));
    }
    base_assert(eng_desc_equal(eng_lower_desc(lower, out), &in));
    return eng_lower_output(lower, node, 0, out);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("Transpose", 1, ENG_OPSET_MAX, TRANSFORM, lower_transpose),
    ENG_OP_ROW("Concat", 1, ENG_OPSET_MAX, TRANSFORM, lower_concat),
    ENG_OP_ROW("Split", 1, ENG_OPSET_MAX, TRANSFORM, lower_split),
    ENG_OP_ROW("Slice", 1, ENG_OPSET_MAX, TRANSFORM, lower_slice),
    ENG_OP_ROW("Tile", 1, ENG_OPSET_MAX, TRANSFORM, lower_tile),
    ENG_OP_ROW("DepthToSpace", 1, ENG_OPSET_MAX, TRANSFORM, lower_depth_to_space),
    ENG_OP_ROW("SpaceToDepth", 1, ENG_OPSET_MAX, TRANSFORM, lower_space_to_depth),
    ENG_OP_ROW("Trilu", 14, ENG_OPSET_MAX, TRANSFORM, lower_trilu),
};
const struct eng_op_table eng_ops_move = ENG_OP_TABLE(rows);

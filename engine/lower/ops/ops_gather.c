// Operators that read by index. Indices stay tensors: their arithmetic is emitted on I64, so that
// no contents are needed; known ones become regions where few pieces do.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/index_kit.h"
#include "lower/ops/move_kit.h"

#include "base/check.h"

// Gather by at most this many known indices is regions, whatever their order.
#define GATHER_PIECES_MAX   16u
#define COMPRESS_PIECES_MAX 256u

// --- Gather

// Known indices made >= 0 and checked.
static enum base_status gather_numbers(struct eng_lower *lower, const struct eng_node *node,
                                       uint32_t indices, int64_t total, struct eng_ints *out)
{
    const int64_t *values = NULL;
    uint32_t count = 0;
    BASE_TRY(eng_lower_ints(lower, node, indices, &values, &count));
    int64_t *numbers = eng_lower_alloc(lower, count * sizeof(*numbers) + 1);
    if (numbers == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] < -total || values[i] >= total) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "index %lld is outside a dimension of %lld", (long long)values[i],
                                  (long long)total);
        }
        numbers[i] = values[i] < 0 ? values[i] + total : values[i];
    }
    *out = (struct eng_ints){numbers, count};
    return BASE_OK;
}

// Length of the run of evenly spaced numbers at the start of the list.
static uint32_t run_length(const int64_t *numbers, uint32_t count)
{
    base_assert(count > 0);
    uint32_t run = count < 2 ? count : 2;
    while (run > 1 && run < count && numbers[run] - numbers[run - 1] == numbers[1] - numbers[0]) {
        run++;
    }
    return run;
}

// What known indices take of a tensor.
struct picking {
    uint32_t data;           // PLAIN
    uint32_t axis;           // of it
    struct eng_ints numbers; // along the axis, in range
};

// Regions over data [outer, n, inner], one a run of evenly spaced indices; `desc` is the result's.
static enum base_status gather_regions(struct eng_lower *lower, const struct picking *picking,
                                       const struct eng_desc *desc, uint32_t *out)
{
    const struct eng_desc in = *eng_lower_desc(lower, picking->data);
    base_assert(picking->axis < in.rank);
    const int64_t *numbers = picking->numbers.values;
    const uint32_t count = picking->numbers.count;
    int64_t outer = eng_dims_product(in.dims, 0, picking->axis);
    int64_t inner = eng_dims_product(in.dims, picking->axis + 1, in.rank);
    base_assert(outer * count * inner == eng_desc_count(desc));
    struct eng_maps maps = {.l = lower};
    for (uint32_t at = 0; at < count;) {
        uint32_t run = run_length(numbers + at, count - at);
        struct eng_map map = {.source = picking->data, .rank = 3};
        map.src_offset = numbers[at] * inner;
        map.dst_offset = (int64_t)at * inner;
        map.size[0] = outer;
        map.src_stride[0] = in.dims[picking->axis] * inner;
        map.dst_stride[0] = (int64_t)count * inner;
        map.size[1] = run;
        map.src_stride[1] = run > 1 ? (numbers[at + 1] - numbers[at]) * inner : inner;
        map.dst_stride[1] = inner;
        map.size[2] = inner;
        map.src_stride[2] = 1;
        map.dst_stride[2] = 1;
        BASE_TRY(eng_maps_add(&maps, &map));
        at += run;
    }
    return eng_maps_finish(&maps, desc, out);
}

// How many runs the list falls into, counted up to `most` + 1.
static uint32_t count_runs(const struct eng_ints *numbers, uint32_t most)
{
    uint32_t runs = 0;
    for (uint32_t at = 0; at < numbers->count && runs <= most; runs++) {
        at += run_length(numbers->values + at, numbers->count - at);
    }
    return runs;
}

static enum base_status lower_gather(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t data = ENG_NONE;
    uint32_t indices = ENG_NONE;
    uint32_t axis = 0;
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 0, &data));
    BASE_TRY(eng_lower_input(lower, node, 1, &indices));
    struct eng_desc in = *eng_lower_desc(lower, data);
    struct eng_desc index = *eng_lower_desc(lower, indices);
    BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", 0), in.rank, &axis));
    if (index.dtype != ENG_I32 && index.dtype != ENG_I64) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "indices must be int32 or int64, are %s",
                              eng_dtype_name(index.dtype));
    }
    struct eng_desc desc = {.dtype = in.dtype, .rank = in.rank + index.rank - 1};
    if (desc.rank > ENG_RANK_MAX) {
        return eng_desc_allow(lower, node, &desc);
    }
    for (uint32_t d = 0; d < desc.rank; d++) {
        desc.dims[d] = d < axis                ? in.dims[d]
                       : d < axis + index.rank ? index.dims[d - axis]
                                               : in.dims[d + 1 - index.rank];
    }
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    if (eng_desc_count(&index) > 0 && in.dims[axis] == 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "dimension %u to gather from is empty",
                              axis);
    }
    if (eng_lower_is_known(lower, indices)) {
        struct picking picking = {.axis = axis};
        BASE_TRY(gather_numbers(lower, node, indices, in.dims[axis], &picking.numbers));
        if (count_runs(&picking.numbers, GATHER_PIECES_MAX) <= GATHER_PIECES_MAX) {
            BASE_TRY(eng_lower_plain(lower, data, &picking.data));
            BASE_TRY(gather_regions(lower, &picking, &desc, &out));
            return eng_lower_output(lower, node, 0, out);
        }
    }
    BASE_TRY(eng_emit_gather(lower, data, indices, axis, &out));
    base_assert(eng_desc_equal(eng_lower_desc(lower, out), &desc));
    return eng_lower_output(lower, node, 0, out);
}

// Rows the condition marks, as a gather by known numbers.
static enum base_status lower_compress(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t data = ENG_NONE;
    uint32_t axis = 0;
    struct eng_desc in;
    struct eng_array condition;
    BASE_TRY(eng_input_plain(lower, node, 0, &data, &in));
    BASE_TRY(eng_input_content(lower, node, 1, &condition));
    if (eng_node_attr(node, "axis") == NULL) {
        in = eng_desc_of(in.dtype, (int64_t[]){eng_desc_count(&in)}, 1);
        BASE_TRY(eng_lower_reshape(lower, data, &in, &data));
    } else {
        BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", 0), in.rank, &axis));
    }
    if (condition.desc.dtype != ENG_BOOL || condition.desc.rank != 1 ||
        condition.desc.dims[0] > in.dims[axis]) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "condition must be bool, at most [%lld]", (long long)in.dims[axis]);
    }
    int64_t most = condition.desc.dims[0];
    int64_t *numbers = eng_lower_alloc(lower, (size_t)most * sizeof(*numbers) + 1);
    if (numbers == NULL) {
        return BASE_ERR_NOMEM;
    }
    uint32_t count = 0;
    for (int64_t i = 0; i < most && count < UINT32_MAX; i++) {
        if (((const uint8_t *)condition.data)[i] != 0) {
            numbers[count++] = i;
        }
    }
    base_assert(count <= in.dims[axis]);
    uint32_t out = ENG_NONE;
    struct eng_desc desc = in;
    desc.dims[axis] = count;
    const struct picking picking = {data, axis, {numbers, count}};
    if (count_runs(&picking.numbers, COMPRESS_PIECES_MAX) <= COMPRESS_PIECES_MAX) {
        BASE_TRY(gather_regions(lower, &picking, &desc, &out));
    } else {
        uint32_t indices = ENG_NONE;
        BASE_TRY(eng_lower_const_ints(lower, numbers, count, &indices));
        BASE_TRY(eng_emit_gather(lower, data, indices, axis, &out));
    }
    return eng_lower_output(lower, node, 0, out);
}

// --- by element and by coordinate

static enum base_status lower_gather_elements(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t data = ENG_NONE;
    uint32_t indices = ENG_NONE;
    uint32_t axis = 0;
    BASE_TRY(eng_lower_input(lower, node, 0, &data));
    BASE_TRY(eng_input_index(lower, node, 1, &indices));
    struct eng_desc in = *eng_lower_desc(lower, data);
    struct eng_desc index = *eng_lower_desc(lower, indices);
    BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", 0), in.rank, &axis));
    BASE_TRY(eng_index_fits(lower, node, &in, &index, axis));
    // Other dimensions of the indices may be shorter than the data's: then only that part is read.
    struct eng_slice part = eng_slice_whole(&index);
    part.size[axis] = in.dims[axis];
    BASE_TRY(eng_lower_slice(lower, data, &part, &data));
    const struct eng_command command = {
        .op = ENG_OP_GATHER,
        .inputs = (uint32_t[]){data, indices},
        .input_count = 2,
        .output_count = 1,
        .u.gather = {.outer = eng_dims_product(index.dims, 0, axis),
                     .n = in.dims[axis],
                     .inner = eng_dims_product(index.dims, axis + 1, index.rank),
                     .elementwise = true,
                     .m = index.dims[axis]},
    };
    base_assert(eng_desc_count(eng_lower_desc(lower, data)) ==
                command.u.gather.outer * command.u.gather.n * command.u.gather.inner);
    struct eng_desc desc = index;
    desc.dtype = in.dtype;
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_emit(lower, &command, &desc, &out));
    return eng_lower_output(lower, node, 0, out);
}

static enum base_status lower_gather_nd(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t data = ENG_NONE;
    uint32_t indices = ENG_NONE;
    uint32_t rows = ENG_NONE;
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 0, &data));
    BASE_TRY(eng_input_index(lower, node, 1, &indices));
    struct eng_desc in = *eng_lower_desc(lower, data);
    struct eng_desc index = *eng_lower_desc(lower, indices);
    int64_t batch = eng_node_int(node, "batch_dims", 0);
    if (batch < 0 || batch >= (int64_t)in.rank || batch >= (int64_t)index.rank) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "batch_dims %lld for ranks %u and %u",
                              (long long)batch, in.rank, index.rank);
    }
    BASE_TRY(eng_index_rows_fit(lower, node, &in, &index, (uint32_t)batch));
    BASE_TRY(eng_index_rows(lower, &in, indices, (uint32_t)batch, &rows));
    uint32_t depth = (uint32_t)index.dims[index.rank - 1];
    struct eng_coords coords = eng_coords_of(in.dims + batch, depth);
    BASE_TRY(eng_index_coords(lower, node, indices, &coords));
    uint32_t behind = (uint32_t)batch + depth; // dimensions of the data that indices choose in
    base_assert(behind <= in.rank);
    struct eng_desc desc = {.dtype = in.dtype, .rank = index.rank - 1 + in.rank - behind};
    if (desc.rank > ENG_RANK_MAX) {
        return eng_desc_allow(lower, node, &desc);
    }
    for (uint32_t d = 0; d < desc.rank; d++) {
        desc.dims[d] = d + 1 < index.rank ? index.dims[d] : in.dims[behind + d + 1 - index.rank];
    }
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    struct eng_desc flat = {.dtype = in.dtype, .rank = 2};
    flat.dims[0] = eng_dims_product(in.dims, 0, behind);
    flat.dims[1] = eng_dims_product(in.dims, behind, in.rank);
    if (flat.dims[0] == 0 && eng_desc_count(&desc) > 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "data is empty");
    }
    BASE_TRY(eng_lower_reshape(lower, data, &flat, &data));
    const struct eng_command command = {
        .op = ENG_OP_GATHER,
        .inputs = (uint32_t[]){data, rows, indices},
        .input_count = coords.depth > 0 ? 3 : 2,
        .output_count = 1,
        .u.gather = {.outer = 1, .n = flat.dims[0], .inner = flat.dims[1], .coords = coords},
    };
    BASE_TRY(eng_emit(lower, &command, &desc, &out));
    return eng_lower_output(lower, node, 0, out);
}

// Row t of batch entry b comes from row length[b] - 1 - t while t < length[b]: a gather over the
// data seen as [time * batch, inner] or [batch * time, inner].
static enum base_status lower_reverse_sequence(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t data = ENG_NONE;
    uint32_t lengths = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 0, &data));
    BASE_TRY(eng_input_index(lower, node, 1, &lengths));
    struct eng_desc in = *eng_lower_desc(lower, data);
    struct eng_desc count = *eng_lower_desc(lower, lengths);
    int64_t time_axis = eng_node_int(node, "time_axis", 0);
    int64_t batch_axis = eng_node_int(node, "batch_axis", 1);
    bool time_first = time_axis == 0 && batch_axis == 1;
    bool batch_first = time_axis == 1 && batch_axis == 0;
    if (in.rank < 2 || (!time_first && !batch_first)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "rank %u, time axis %lld, batch axis %lld", in.rank,
                              (long long)time_axis, (long long)batch_axis);
    }
    if (count.rank != 1 || count.dims[0] != in.dims[batch_axis]) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "lengths must be [%lld]",
                              (long long)in.dims[batch_axis]);
    }
    uint32_t t = (uint32_t)time_axis;
    uint32_t b = (uint32_t)batch_axis;
    base_assert(t + b == 1);
    struct eng_desc wide = {.dtype = ENG_I64, .rank = 2};
    wide.dims[t] = 1;
    wide.dims[b] = in.dims[b];
    uint32_t time = ENG_NONE;
    uint32_t entry = ENG_NONE;
    uint32_t inside = ENG_NONE;
    uint32_t mirrored = ENG_NONE;
    uint32_t last = ENG_NONE;
    uint32_t one = ENG_NONE;
    uint32_t row = ENG_NONE;
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_reshape(lower, lengths, &wide, &lengths));
    BASE_TRY(eng_const_steps(lower, 2, t, (struct eng_steps){in.dims[t], 1}, &time));
    BASE_TRY(eng_const_steps(lower, 2, b, (struct eng_steps){in.dims[b], b == 0 ? in.dims[1] : 1},
                             &entry));
    BASE_TRY(eng_const_int(lower, 1, &one));
    BASE_TRY(eng_emit_binary(lower, ENG_LESS, time, lengths, &inside));
    BASE_TRY(eng_emit_binary(lower, ENG_SUB, lengths, one, &last));
    BASE_TRY(eng_emit_binary(lower, ENG_SUB, last, time, &mirrored));
    BASE_TRY(eng_emit_select(lower, inside, mirrored, time, &row));
    if (t == 0) {
        uint32_t scale = ENG_NONE;
        BASE_TRY(eng_const_int(lower, in.dims[1], &scale));
        BASE_TRY(eng_emit_binary(lower, ENG_MUL, row, scale, &row));
    }
    BASE_TRY(eng_emit_binary(lower, ENG_ADD, row, entry, &row));
    struct eng_desc flat = {.dtype = in.dtype, .rank = 2};
    flat.dims[0] = in.dims[0] * in.dims[1];
    flat.dims[1] = eng_dims_product(in.dims, 2, in.rank);
    BASE_TRY(eng_lower_reshape(lower, data, &flat, &data));
    BASE_TRY(eng_emit_gather(lower, data, row, 0, &out));
    return eng_output_reshaped(lower, node, out, &in);
}

// --- OneHot

static enum base_status lower_one_hot(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t indices = ENG_NONE;
    uint32_t tensor = ENG_NONE;
    uint32_t values = ENG_NONE;
    uint32_t axis = 0;
    double depth = 0;
    BASE_TRY(eng_lower_input(lower, node, 0, &indices));
    BASE_TRY(eng_lower_input(lower, node, 1, &tensor));
    BASE_TRY(eng_lower_input(lower, node, 2, &values));
    BASE_TRY(eng_lower_scalar(lower, node, tensor, &depth));
    struct eng_desc index = *eng_lower_desc(lower, indices);
    struct eng_desc value = *eng_lower_desc(lower, values);
    BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", -1), index.rank + 1, &axis));
    if (!(depth >= 0 && depth <= (double)ENG_ELEMENTS_MAX) || value.rank != 1 ||
        value.dims[0] != 2) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "depth %g; values must be [off, on]",
                              depth);
    }
    struct eng_desc desc = {.dtype = value.dtype, .rank = index.rank + 1};
    if (desc.rank > ENG_RANK_MAX) {
        return eng_desc_allow(lower, node, &desc);
    }
    base_assert(axis <= index.rank);
    for (uint32_t d = 0; d < desc.rank; d++) {
        desc.dims[d] = d < axis ? index.dims[d] : d == axis ? (int64_t)depth : index.dims[d - 1];
    }
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    const struct eng_command command = {
        .op = ENG_OP_ONE_HOT,
        .inputs = (uint32_t[]){indices, values},
        .input_count = 2,
        .output_count = 1,
        .u.one_hot = {.outer = eng_dims_product(index.dims, 0, axis),
                      .depth = (int64_t)depth,
                      .inner = eng_dims_product(index.dims, axis, index.rank)},
    };
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_emit(lower, &command, &desc, &out));
    return eng_lower_output(lower, node, 0, out);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("Gather", 1, ENG_OPSET_MAX, ATOMIC, lower_gather),
    ENG_OP_ROW("Compress", 9, ENG_OPSET_MAX, TRANSFORM, lower_compress),
    ENG_OP_ROW("GatherElements", 11, ENG_OPSET_MAX, ATOMIC, lower_gather_elements),
    ENG_OP_ROW("GatherND", 11, ENG_OPSET_MAX, COMPOSITE, lower_gather_nd),
    ENG_OP_ROW("ReverseSequence", 10, ENG_OPSET_MAX, COMPOSITE, lower_reverse_sequence),
    ENG_OP_ROW("OneHot", 9, ENG_OPSET_MAX, ATOMIC, lower_one_hot),
};
const struct eng_op_table eng_ops_gather = ENG_OP_TABLE(rows);

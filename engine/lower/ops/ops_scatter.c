// Operators that write by index: each is one SCATTER whose row numbers are computed by emitted
// arithmetic, so that no contents are needed.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/index_kit.h"

#include "base/check.h"

static enum base_status scatter_fn(struct eng_lower *lower, const struct eng_node *node,
                                   enum eng_scatter_fn *out)
{
    static const struct {
        const char *name;
        enum eng_scatter_fn fn;
    } fns[] = {{"none", ENG_SCATTER_SET},
               {"add", ENG_SCATTER_ADD},
               {"mul", ENG_SCATTER_MUL},
               {"min", ENG_SCATTER_MIN},
               {"max", ENG_SCATTER_MAX}};
    struct eng_string reduction = eng_node_string(node, "reduction", "none");
    for (size_t i = 0; i < sizeof(fns) / sizeof(fns[0]); i++) {
        if (eng_string_is(reduction, fns[i].name)) {
            *out = fns[i].fn;
            return BASE_OK;
        }
    }
    return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED, "reduction '%.*s' is not known",
                          (int)(reduction.size > 32 ? 32 : reduction.size), reduction.at);
}

// data, indices (cast to I64), updates, and the indices again as coordinates; updates have the
// data's type.
static enum base_status scatter_inputs(struct eng_lower *lower, const struct eng_node *node,
                                       uint32_t tensors[4])
{
    BASE_TRY(eng_lower_input(lower, node, 0, &tensors[0]));
    BASE_TRY(eng_input_index(lower, node, 1, &tensors[1]));
    BASE_TRY(eng_lower_input(lower, node, 2, &tensors[2]));
    tensors[3] = tensors[1];
    enum eng_dtype dtype = eng_lower_desc(lower, tensors[0])->dtype;
    enum eng_dtype other = eng_lower_desc(lower, tensors[2])->dtype;
    if (dtype != other) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "data are %s, updates %s",
                              eng_dtype_name(dtype), eng_dtype_name(other));
    }
    return BASE_OK;
}

static enum base_status emit_scatter(struct eng_lower *lower, const struct eng_node *node,
                                     const struct eng_scatter *scatter, uint32_t tensors[4])
{
    base_assert(eng_lower_desc(lower, tensors[1])->dtype == ENG_I64);
    struct eng_desc desc = *eng_lower_desc(lower, tensors[0]);
    // Nothing to write, or nothing to write to.
    if (scatter->count == 0 || scatter->inner == 0) {
        return eng_lower_output(lower, node, 0, tensors[0]);
    }
    if (scatter->rows == 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "data is empty");
    }
    const struct eng_command command = {
        .op = ENG_OP_SCATTER,
        .inputs = tensors,
        .input_count = scatter->coords.depth > 0 ? 4 : 3,
        .output_count = 1,
        .u.scatter = *scatter,
    };
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_emit(lower, &command, &desc, &out));
    return eng_lower_output(lower, node, 0, out);
}

static enum base_status lower_scatter_elements(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t tensors[4] = {ENG_NONE, ENG_NONE, ENG_NONE, ENG_NONE};
    uint32_t axis = 0;
    struct eng_scatter scatter = {.inner = 1};
    BASE_TRY(scatter_fn(lower, node, &scatter.fn));
    BASE_TRY(scatter_inputs(lower, node, tensors));
    struct eng_desc data = *eng_lower_desc(lower, tensors[0]);
    struct eng_desc index = *eng_lower_desc(lower, tensors[1]);
    struct eng_desc update = *eng_lower_desc(lower, tensors[2]);
    BASE_TRY(eng_lower_axis(lower, node, eng_node_int(node, "axis", 0), data.rank, &axis));
    update.dtype = index.dtype;
    if (!eng_desc_equal(&update, &index)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "indices and updates differ in shape");
    }
    BASE_TRY(eng_index_fits(lower, node, &data, &index, axis));
    scatter.coords = eng_coords_of(&data.dims[axis], 1);
    BASE_TRY(eng_index_coords(lower, node, tensors[3], &scatter.coords));
    BASE_TRY(eng_index_elements(lower, &data, tensors[1], axis, &tensors[1]));
    scatter.rows = eng_desc_count(&data);
    scatter.count = eng_desc_count(&index);
    base_assert(eng_desc_count(eng_lower_desc(lower, tensors[1])) == scatter.count);
    return emit_scatter(lower, node, &scatter, tensors);
}

static enum base_status lower_scatter_nd(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t tensors[4] = {ENG_NONE, ENG_NONE, ENG_NONE, ENG_NONE};
    struct eng_scatter scatter = {.rows = 1};
    BASE_TRY(scatter_fn(lower, node, &scatter.fn));
    BASE_TRY(scatter_inputs(lower, node, tensors));
    struct eng_desc data = *eng_lower_desc(lower, tensors[0]);
    struct eng_desc index = *eng_lower_desc(lower, tensors[1]);
    struct eng_desc update = *eng_lower_desc(lower, tensors[2]);
    BASE_TRY(eng_index_rows_fit(lower, node, &data, &index, 0));
    BASE_TRY(eng_index_rows(lower, &data, tensors[1], 0, &tensors[1]));
    uint32_t depth = (uint32_t)index.dims[index.rank - 1];
    base_assert(depth <= data.rank);
    struct eng_desc wanted = {.dtype = data.dtype, .rank = index.rank - 1 + data.rank - depth};
    for (uint32_t d = 0; d < wanted.rank && d < ENG_RANK_MAX; d++) {
        wanted.dims[d] = d + 1 < index.rank ? index.dims[d] : data.dims[depth + d + 1 - index.rank];
    }
    if (wanted.rank > ENG_RANK_MAX || !eng_desc_equal(&wanted, &update)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "updates must have the shape of the indices' and the rows'");
    }
    scatter.coords = eng_coords_of(data.dims, depth);
    BASE_TRY(eng_index_coords(lower, node, tensors[3], &scatter.coords));
    scatter.rows = eng_dims_product(data.dims, 0, depth);
    scatter.count = eng_dims_product(index.dims, 0, index.rank - 1);
    scatter.inner = eng_dims_product(data.dims, depth, data.rank);
    return emit_scatter(lower, node, &scatter, tensors);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("Scatter", 9, 10, COMPOSITE, lower_scatter_elements),
    ENG_OP_ROW("ScatterElements", 11, ENG_OPSET_MAX, COMPOSITE, lower_scatter_elements),
    ENG_OP_ROW("ScatterND", 11, ENG_OPSET_MAX, COMPOSITE, lower_scatter_nd),
};
const struct eng_op_table eng_ops_scatter = ENG_OP_TABLE(rows);

// Shared by the handlers of indexing operators (ops_gather.c, ops_scatter.c), on the planning
// thread. Index tensors stay tensors: coordinates become row numbers by commands that are emitted,
// so that a model whose indices come from its inputs needs no second plan. Since a row number no
// longer shows a coordinate that was out of range, coordinates go along to be checked at run time
// (backend/coords.h).
#include "lower/ops/index_kit.h"

#include "base/check.h"

enum base_status eng_index_fits(struct eng_lower *lower, const struct eng_node *node,
                                const struct eng_desc *data, const struct eng_desc *index,
                                uint32_t axis)
{
    base_assert(axis < data->rank);
    bool fits = data->rank == index->rank;
    for (uint32_t d = 0; fits && d < data->rank; d++) {
        fits = d == axis || index->dims[d] <= data->dims[d];
    }
    // An index into an empty dimension cannot be in range.
    if (fits && eng_desc_count(index) > 0) {
        fits = data->dims[axis] > 0;
    }
    if (fits) {
        return BASE_OK;
    }
    char first[72];
    char second[72];
    return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                          "indices %s do not suit data %s along axis %u",
                          eng_desc_text(index, first, sizeof(first)),
                          eng_desc_text(data, second, sizeof(second)), axis);
}

struct eng_coords eng_coords_of(const int64_t *dims, uint32_t depth)
{
    base_assert(depth <= ENG_RANK_MAX);
    struct eng_coords coords = {.depth = depth};
    for (uint32_t d = 0; d < depth; d++) {
        coords.dims[d] = dims[d];
    }
    return coords;
}

enum base_status eng_index_coords(struct eng_lower *lower, const struct eng_node *node,
                                  uint32_t indices, struct eng_coords *coords)
{
    const uint32_t depth = coords->depth;
    if (depth == 0 || !eng_lower_is_known(lower, indices)) {
        return BASE_OK;
    }
    const int64_t *values = NULL;
    uint32_t count = 0;
    BASE_TRY(eng_lower_ints(lower, node, indices, &values, &count));
    base_assert(count % depth == 0);
    for (uint32_t i = 0; i < count; i++) {
        const int64_t size = coords->dims[i % depth];
        if (values[i] < -size || values[i] >= size) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "coordinate %u of row %u is %lld, outside -%lld..%lld", i % depth,
                                  i / depth, (long long)values[i], (long long)size,
                                  (long long)size - 1);
        }
    }
    coords->depth = 0;
    return BASE_OK;
}

enum base_status eng_index_rows_fit(struct eng_lower *lower, const struct eng_node *node,
                                    const struct eng_desc *data, const struct eng_desc *index,
                                    uint32_t batch)
{
    base_assert(batch <= data->rank);
    bool fits =
        index->rank > batch && index->dims[index->rank - 1] <= (int64_t)(data->rank - batch);
    for (uint32_t d = 0; fits && d < batch; d++) {
        fits = index->dims[d] == data->dims[d];
    }
    if (fits) {
        return BASE_OK;
    }
    char first[72];
    char second[72];
    return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                          "indices %s do not suit data %s with %u batch dimensions",
                          eng_desc_text(index, first, sizeof(first)),
                          eng_desc_text(data, second, sizeof(second)), batch);
}

// Numbers from 0 on in steps of `step`, a constant of the given shape.
static enum base_status steps_shaped(struct eng_lower *lower, const struct eng_desc *desc,
                                     int64_t step, uint32_t *out)
{
    uint32_t flat = ENG_NONE;
    BASE_TRY(eng_const_steps(lower, 1, 0, (struct eng_steps){eng_desc_count(desc), step}, &flat));
    return eng_lower_reshape(lower, flat, desc, out);
}

enum base_status eng_index_rows(struct eng_lower *lower, const struct eng_desc *data,
                                uint32_t indices, uint32_t batch, uint32_t *out)
{
    struct eng_desc index = *eng_lower_desc(lower, indices);
    base_assert(index.dtype == ENG_I64 && index.rank > batch);
    uint32_t last = index.rank - 1;
    uint32_t depth = (uint32_t)index.dims[last];
    base_assert(batch + depth <= data->rank);
    int64_t strides[ENG_RANK_MAX];
    int64_t rows = 1;
    for (uint32_t d = depth; d-- > 0;) {
        strides[d] = rows;
        rows *= data->dims[batch + d];
    }
    uint32_t dims = ENG_NONE;
    uint32_t scale = ENG_NONE;
    const struct eng_reduction sum = {.fn = ENG_REDUCE_SUM, .axes = &last, .axis_count = 1};
    BASE_TRY(eng_lower_const_ints(lower, data->dims + batch, depth, &dims));
    BASE_TRY(eng_lower_const_ints(lower, strides, depth, &scale));
    BASE_TRY(eng_index_wrap(lower, indices, dims, &indices));
    BASE_TRY(eng_emit_binary(lower, ENG_MUL, indices, scale, &indices));
    BASE_TRY(eng_emit_reduce(lower, &sum, indices, &indices));
    if (batch > 0) { // the first row of every batch entry: [batch dims..., 1...]
        uint32_t first = ENG_NONE;
        struct eng_desc entries = {.dtype = ENG_I64, .rank = last};
        for (uint32_t d = 0; d < last; d++) {
            entries.dims[d] = d < batch ? data->dims[d] : 1;
        }
        BASE_TRY(steps_shaped(lower, &entries, rows, &first));
        BASE_TRY(eng_emit_binary(lower, ENG_ADD, indices, first, &indices));
    }
    *out = indices;
    return BASE_OK;
}

enum base_status eng_index_elements(struct eng_lower *lower, const struct eng_desc *data,
                                    uint32_t indices, uint32_t axis, uint32_t *out)
{
    struct eng_desc index = *eng_lower_desc(lower, indices);
    base_assert(index.dtype == ENG_I64 && index.rank == data->rank);
    base_assert(axis < data->rank);
    int64_t strides[ENG_RANK_MAX];
    eng_layout_strides(data, ENG_PLAIN, strides);
    uint32_t scalar = ENG_NONE;
    BASE_TRY(eng_const_int(lower, data->dims[axis], &scalar));
    BASE_TRY(eng_index_wrap(lower, indices, scalar, &indices));
    if (strides[axis] != 1) {
        BASE_TRY(eng_const_int(lower, strides[axis], &scalar));
        BASE_TRY(eng_emit_binary(lower, ENG_MUL, indices, scalar, &indices));
    }
    for (uint32_t d = 0; d < index.rank; d++) {
        if (d == axis || index.dims[d] == 1) {
            continue;
        }
        uint32_t steps = ENG_NONE;
        BASE_TRY(eng_const_steps(lower, index.rank, d,
                                 (struct eng_steps){index.dims[d], strides[d]}, &steps));
        BASE_TRY(eng_emit_binary(lower, ENG_ADD, indices, steps, &indices));
    }
    *out = indices;
    return BASE_OK;
}

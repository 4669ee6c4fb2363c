// Operators that ask for shapes or change them without touching elements, and those that make
// tensors from shapes and attributes: Constant, ConstantOfShape, Range, EyeLike, Expand.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/ops/move_kit.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

// Most elements Range may produce: its contents are computed while planning.
#define RANGE_ELEMENTS_MAX ((int64_t)1 << 24)

static enum base_status lower_shape(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    int64_t rank = (int64_t)desc.rank;
    int64_t start = eng_node_int(node, "start", 0);
    int64_t end = eng_node_int(node, "end", rank);
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    base_assert(start <= end && end <= rank);
    BASE_TRY(eng_lower_const_ints(lower, desc.dims + start, (uint32_t)(end - start), &out));
    return eng_lower_output(lower, node, 0, out);
}

static enum base_status lower_size(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    BASE_TRY(eng_const_int(lower, eng_desc_count(eng_lower_desc(lower, x)), &out));
    return eng_lower_output(lower, node, 0, out);
}

// Fills `out->dims` from what the node asks for: 0 copies a dimension, one -1 takes the rest.
static enum base_status reshape_dims(struct eng_lower *lower, const struct eng_node *node,
                                     const struct eng_desc *in, struct eng_ints wanted,
                                     struct eng_desc *out)
{
    bool allow_zero = eng_node_int(node, "allowzero", 0) != 0;
    if (wanted.count > ENG_RANK_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE,
                              "shape has %u dimensions, at most %d are supported", wanted.count,
                              ENG_RANK_MAX);
    }
    out->rank = wanted.count;
    uint32_t rest = ENG_NONE;
    int64_t known = 1;
    for (uint32_t d = 0; d < wanted.count; d++) {
        int64_t dim = wanted.values[d];
        if (dim == -1 && rest == ENG_NONE) {
            rest = d;
            continue;
        }
        if (dim == 0 && !allow_zero) {
            if (d >= in->rank) {
                return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                      "shape[%u] = 0 copies a dimension the input does not have",
                                      d);
            }
            dim = in->dims[d];
        }
        if (dim < 0 || __builtin_mul_overflow(known, dim, &known)) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "shape[%u] = %lld is not possible",
                                  d, (long long)dim);
        }
        out->dims[d] = dim;
    }
    int64_t total = eng_desc_count(in);
    if (rest != ENG_NONE) {
        out->dims[rest] = known == 0 ? 0 : total / known;
        known *= out->dims[rest];
    }
    if (known != total) {
        char from[80];
        char to[80];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "cannot reshape %s to %s",
                              eng_desc_text(in, from, sizeof(from)),
                              eng_desc_text(out, to, sizeof(to)));
    }
    base_assert(eng_desc_count(out) == total);
    return BASE_OK;
}

static enum base_status lower_reshape(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    struct eng_ints wanted;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    BASE_TRY(eng_lower_ints_of(lower, node, 1, "shape", &wanted));
    struct eng_desc in = *eng_lower_desc(lower, x);
    struct eng_desc desc = {.dtype = in.dtype};
    BASE_TRY(reshape_dims(lower, node, &in, wanted, &desc));
    return eng_output_reshaped(lower, node, x, &desc);
}

static enum base_status lower_flatten(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    struct eng_desc in = *eng_lower_desc(lower, x);
    int64_t axis = eng_node_int(node, "axis", 1);
    int64_t rank = (int64_t)in.rank;
    if (axis < -rank || axis > rank) {
        // A scalar flattens to [1,1] whatever the default axis says.
        if (rank > 0) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "axis %lld of a tensor of rank %u",
                                  (long long)axis, in.rank);
        }
        axis = 0;
    }
    uint32_t at = (uint32_t)(axis < 0 ? axis + rank : axis);
    struct eng_desc desc = {.dtype = in.dtype, .rank = 2};
    desc.dims[0] = eng_dims_product(in.dims, 0, at);
    desc.dims[1] = eng_dims_product(in.dims, at, in.rank);
    return eng_output_reshaped(lower, node, x, &desc);
}

static enum base_status lower_squeeze(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    struct eng_ints axes;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    BASE_TRY(eng_lower_ints_of(lower, node, 1, "axes", &axes));
    struct eng_desc in = *eng_lower_desc(lower, x);
    bool drop[ENG_RANK_MAX] = {false};
    for (uint32_t i = 0; i < axes.count; i++) {
        uint32_t axis = 0;
        BASE_TRY(eng_lower_axis(lower, node, axes.values[i], in.rank, &axis));
        if (in.dims[axis] != 1) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "dimension %u to squeeze is %lld, not 1", axis,
                                  (long long)in.dims[axis]);
        }
        drop[axis] = true;
    }
    struct eng_desc desc = {.dtype = in.dtype};
    for (uint32_t d = 0; d < in.rank; d++) {
        if (axes.values == NULL ? in.dims[d] != 1 : !drop[d]) {
            desc.dims[desc.rank++] = in.dims[d];
        }
    }
    base_assert(eng_desc_count(&desc) == eng_desc_count(&in)); // what went was 1
    return eng_output_reshaped(lower, node, x, &desc);
}

static enum base_status lower_unsqueeze(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    struct eng_ints axes;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    BASE_TRY(eng_lower_ints_of(lower, node, 1, "axes", &axes));
    struct eng_desc in = *eng_lower_desc(lower, x);
    if (axes.count > ENG_RANK_MAX - in.rank) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE,
                              "%u new axes on rank %u, at most %d dimensions are supported",
                              axes.count, in.rank, ENG_RANK_MAX);
    }
    struct eng_desc desc = {.dtype = in.dtype, .rank = in.rank + axes.count};
    bool is_new[ENG_RANK_MAX] = {false};
    for (uint32_t i = 0; i < axes.count; i++) {
        uint32_t axis = 0;
        BASE_TRY(eng_lower_axis(lower, node, axes.values[i], desc.rank, &axis));
        if (is_new[axis]) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "axis %u is given twice", axis);
        }
        is_new[axis] = true;
    }
    uint32_t from = 0;
    for (uint32_t d = 0; d < desc.rank; d++) {
        desc.dims[d] = is_new[d] ? 1 : in.dims[from++];
    }
    base_assert(from == in.rank);
    return eng_output_reshaped(lower, node, x, &desc);
}

// The attribute `attr` as a tensor: a list when it has one, else a scalar.
static enum base_status constant_of(struct eng_lower *lower, const struct eng_node *node,
                                    const struct eng_attr *attr, uint32_t *out)
{
    base_assert((unsigned)attr->kind <= ENG_ATTR_OTHER);
    struct eng_desc desc = {.rank = 1, .dims = {attr->count}};
    switch (attr->kind) {
    case ENG_ATTR_TENSOR:
        return eng_lower_model_const(lower, &attr->u.tensor.desc, attr->u.tensor.data, out);
    case ENG_ATTR_INT:
        return eng_const_int(lower, attr->u.i, out);
    case ENG_ATTR_FLOAT:
        desc = (struct eng_desc){.dtype = ENG_F32};
        return eng_lower_const(lower, &desc, &attr->u.f, out);
    case ENG_ATTR_STRING:
        desc = (struct eng_desc){.dtype = ENG_STRING};
        return eng_lower_const(lower, &desc, &attr->u.s, out);
    case ENG_ATTR_INTS:
        desc.dtype = ENG_I64;
        return eng_lower_const(lower, &desc, attr->u.ints, out);
    case ENG_ATTR_FLOATS:
        desc.dtype = ENG_F32;
        return eng_lower_const(lower, &desc, attr->u.floats, out);
    case ENG_ATTR_STRINGS:
        desc.dtype = ENG_STRING;
        return eng_lower_const(lower, &desc, attr->u.strings, out);
    case ENG_ATTR_GRAPH:
    case ENG_ATTR_OTHER:
        break;
    }
    return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED,
                          "attribute %s is of a kind not supported", attr->name);
}

static enum base_status lower_constant(struct eng_lower *lower, const struct eng_node *node)
{
    static const char *const names[] = {"value",         "value_int",    "value_ints",
                                        "value_float",   "value_floats", "value_string",
                                        "value_strings", "sparse_value"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct eng_attr *attr = eng_node_attr(node, names[i]);
        if (attr != NULL) {
            uint32_t out = ENG_NONE;
            BASE_TRY(constant_of(lower, node, attr, &out));
            return eng_lower_output(lower, node, 0, out);
        }
    }
    return eng_lower_fail(lower, node, BASE_ERR_INVALID, "it has no value attribute");
}

static enum base_status lower_constant_of_shape(struct eng_lower *lower,
                                                const struct eng_node *node)
{
    uint32_t shape = ENG_NONE;
    uint32_t one = ENG_NONE;
    uint32_t out = ENG_NONE;
    const int64_t *dims = NULL;
    uint32_t count = 0;
    BASE_TRY(eng_lower_input(lower, node, 0, &shape));
    BASE_TRY(eng_lower_ints(lower, node, shape, &dims, &count));
    if (count > ENG_RANK_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE,
                              "shape has %u dimensions, at most %d are supported", count,
                              ENG_RANK_MAX);
    }
    const struct eng_attr *value = eng_node_attr(node, "value");
    struct eng_desc scalar = {.dtype = ENG_F32};
    static const float zero = 0;
    const void *data = &zero;
    if (value != NULL) {
        if (value->kind != ENG_ATTR_TENSOR || eng_desc_count(&value->u.tensor.desc) != 1) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "value must be a one-element tensor");
        }
        scalar.dtype = value->u.tensor.desc.dtype;
        data = value->u.tensor.data;
    }
    struct eng_desc desc = eng_desc_of(scalar.dtype, dims, count);
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    BASE_TRY(eng_lower_const(lower, &scalar, data, &one));
    BASE_TRY(eng_lower_expand(lower, one, &desc, &out));
    base_assert(eng_desc_equal(eng_lower_desc(lower, out), &desc));
    return eng_lower_output(lower, node, 0, out);
}

static enum base_status lower_expand(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t shape = ENG_NONE;
    uint32_t out = ENG_NONE;
    const int64_t *dims = NULL;
    uint32_t count = 0;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    BASE_TRY(eng_lower_input(lower, node, 1, &shape));
    BASE_TRY(eng_lower_ints(lower, node, shape, &dims, &count));
    struct eng_desc in = *eng_lower_desc(lower, x);
    if (count > ENG_RANK_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE,
                              "shape has %u dimensions, at most %d are supported", count,
                              ENG_RANK_MAX);
    }
    struct eng_desc desc = {.dtype = in.dtype, .rank = in.rank > count ? in.rank : count};
    for (uint32_t d = 0; d < desc.rank; d++) {
        uint32_t from_end = desc.rank - d;
        int64_t a = from_end <= in.rank ? in.dims[in.rank - from_end] : 1;
        int64_t b = from_end <= count ? dims[count - from_end] : 1;
        if (a != b && a != 1 && b != 1) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "dimension %lld does not broadcast to %lld", (long long)a,
                                  (long long)b);
        }
        desc.dims[d] = a == 1 ? b : a;
    }
    BASE_TRY(eng_desc_allow(lower, node, &desc));
    BASE_TRY(eng_lower_expand(lower, x, &desc, &out));
    base_assert(eng_desc_equal(eng_lower_desc(lower, out), &desc));
    return eng_lower_output(lower, node, 0, out);
}

// Number of elements of Range for integers and for reals; -1: over the limit or not a number.
static int64_t range_ints_count(int64_t start, int64_t limit, int64_t delta)
{
    base_assert(delta != 0);
    if (delta > 0 ? start >= limit : start <= limit) {
        return 0;
    }
    uint64_t span =
        delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
    uint64_t count = (span - 1) / step + 1;
    return count > (uint64_t)RANGE_ELEMENTS_MAX ? -1 : (int64_t)count;
}

static int64_t range_reals_count(double start, double limit, double delta)
{
    base_assert(delta != 0);
    double count = ceil((limit - start) / delta);
    if (!(count <= (double)RANGE_ELEMENTS_MAX)) {
        return -1;
    }
    return count < 0 ? 0 : (int64_t)count;
}

static void fill_range_ints(enum eng_dtype dtype, void *out, int64_t count, int64_t start,
                            int64_t delta)
{
    for (int64_t i = 0; i < count; i++) {
        // Wraps like the subtraction in range_ints_count; every value itself fits.
        int64_t value = (int64_t)((uint64_t)start + (uint64_t)i * (uint64_t)delta);
        if (dtype == ENG_I64) {
            ((int64_t *)out)[i] = value;
        } else if (dtype == ENG_I32) {
            ((int32_t *)out)[i] = (int32_t)value;
        } else {
            ((int16_t *)out)[i] = (int16_t)value;
        }
    }
}

static void fill_range_reals(enum eng_dtype dtype, void *out, int64_t count, double start,
                             double delta)
{
    for (int64_t i = 0; i < count; i++) {
        if (dtype == ENG_F64) {
            ((double *)out)[i] = start + (double)i * delta;
        } else {
            ((float *)out)[i] = (float)start + (float)i * (float)delta;
        }
    }
}

// start, limit, delta of a Range: contents of inputs 0 to 2, in one of the two arrays.
static enum base_status range_args(struct eng_lower *lower, const struct eng_node *node,
                                   bool is_real, double reals[3], int64_t ints[3])
{
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t x = ENG_NONE;
        BASE_TRY(eng_lower_input(lower, node, i, &x));
        if (is_real) {
            BASE_TRY(eng_lower_scalar(lower, node, x, &reals[i]));
        } else {
            BASE_TRY(eng_input_int(lower, node, i, &ints[i]));
        }
    }
    if (is_real ? reals[2] == 0 : ints[2] == 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "delta is 0");
    }
    return BASE_OK;
}

static enum base_status lower_range(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    enum eng_dtype dtype = eng_lower_desc(lower, x)->dtype;
    bool is_real = dtype == ENG_F32 || dtype == ENG_F64;
    if (!is_real && dtype != ENG_I64 && dtype != ENG_I32 && dtype != ENG_I16) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "a range of %s is not defined",
                              eng_dtype_name(dtype));
    }
    double reals[3] = {0};
    int64_t ints[3] = {0};
    BASE_TRY(range_args(lower, node, is_real, reals, ints));
    int64_t count = is_real ? range_reals_count(reals[0], reals[1], reals[2])
                            : range_ints_count(ints[0], ints[1], ints[2]);
    if (count < 0) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "a range of more than %lld elements",
                              (long long)RANGE_ELEMENTS_MAX);
    }
    base_assert(count <= RANGE_ELEMENTS_MAX);
    struct eng_desc desc = {.dtype = dtype, .rank = 1, .dims = {count}};
    void *data = eng_lower_alloc(lower, (size_t)count * eng_dtype_bytes(dtype));
    if (data == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (is_real) {
        fill_range_reals(dtype, data, count, reals[0], reals[2]);
    } else {
        fill_range_ints(dtype, data, count, ints[0], ints[2]);
    }
    BASE_TRY(eng_lower_const(lower, &desc, data, &out));
    return eng_lower_output(lower, node, 0, out);
}

static enum base_status lower_eye_like(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t x = ENG_NONE;
    uint32_t out = ENG_NONE;
    BASE_TRY(eng_lower_input(lower, node, 0, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    if (desc.rank != 2) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input has rank %u, not 2", desc.rank);
    }
    int64_t dtype = eng_node_int(node, "dtype", desc.dtype);
    if (dtype <= ENG_UNDEFINED || dtype >= ENG_DTYPE_COUNT || dtype == ENG_STRING) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "dtype %lld is not numeric",
                              (long long)dtype);
    }
    desc.dtype = (enum eng_dtype)dtype;
    int64_t k = eng_node_int(node, "k", 0);
    struct eng_map map = {.rank = 1};
    if (k > -desc.dims[0] && k < desc.dims[1]) {
        int64_t row = k < 0 ? -k : 0;
        int64_t column = k > 0 ? k : 0;
        int64_t rows = desc.dims[0] - row;
        int64_t columns = desc.dims[1] - column;
        base_assert(rows > 0 && columns > 0);
        map.dst_offset = row * desc.dims[1] + column;
        map.size[0] = rows < columns ? rows : columns;
        map.dst_stride[0] = desc.dims[1] + 1;
    }
    struct eng_maps maps = {.l = lower};
    BASE_TRY(eng_lower_const_f32(lower, desc.dtype, 1, &map.source));
    BASE_TRY(eng_maps_add(&maps, &map));
    BASE_TRY(eng_maps_finish(&maps, &desc, &out));
    return eng_lower_output(lower, node, 0, out);
}

static const struct eng_op rows[] = {
    ENG_OP_ROW("Shape", 1, ENG_OPSET_MAX, TRANSFORM, lower_shape),
    ENG_OP_ROW("Size", 1, ENG_OPSET_MAX, TRANSFORM, lower_size),
    ENG_OP_ROW("Reshape", 1, ENG_OPSET_MAX, TRANSFORM, lower_reshape),
    ENG_OP_ROW("Flatten", 1, ENG_OPSET_MAX, TRANSFORM, lower_flatten),
    ENG_OP_ROW("Squeeze", 1, ENG_OPSET_MAX, TRANSFORM, lower_squeeze),
    ENG_OP_ROW("Unsqueeze", 1, ENG_OPSET_MAX, TRANSFORM, lower_unsqueeze),
    ENG_OP_ROW("Constant", 1, ENG_OPSET_MAX, TRANSFORM, lower_constant),
    ENG_OP_ROW("ConstantOfShape", 9, ENG_OPSET_MAX, TRANSFORM, lower_constant_of_shape),
    ENG_OP_ROW("Expand", 8, ENG_OPSET_MAX, TRANSFORM, lower_expand),
    ENG_OP_ROW("Range", 11, ENG_OPSET_MAX, TRANSFORM, lower_range),
    ENG_OP_ROW("EyeLike", 9, ENG_OPSET_MAX, TRANSFORM, lower_eye_like),
};
const struct eng_op_table eng_ops_shape = ENG_OP_TABLE(rows);

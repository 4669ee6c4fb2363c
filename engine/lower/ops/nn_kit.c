// Shared pieces of the arithmetic and network operators: type checks, short forms of emits.
//
// Called by the handlers of this folder on the planning thread.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

// Text of a set of types: the name of a class, or the names themselves.
static const char *types_text(uint32_t types, char *text, size_t size)
{
    base_assert(size > 0);
    static const struct {
        uint32_t types;
        const char *text;
    } classes[] = {
        {NN_TYPES_FLOAT, "a floating-point type"},
        {NN_TYPES_NUMERIC, "a numeric type"},
        {NN_TYPES_INT, "an integer type"},
        {NN_TYPES_UINT, "an unsigned integer type"},
        {NN_TYPES_FLOAT | NN_TYPES_SIGNED, "a signed numeric type"},
    };
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (classes[i].types == types) {
            return classes[i].text;
        }
    }
    size_t at = 0;
    text[0] = 0;
    for (int d = 1; d < ENG_DTYPE_COUNT && at + 1 < size; d++) {
        if ((types >> d) & 1) {
            int n = snprintf(text + at, size - at, "%s%s", at ? ", " : "",
                             eng_dtype_name((enum eng_dtype)d));
            at += n > 0 ? (size_t)n : 0;
        }
    }
    return text;
}

enum base_status eng_nn_check_type(struct eng_lower *lower, const struct eng_node *node,
                                   uint32_t input, uint32_t tensor, uint32_t types)
{
    base_assert(types != 0);
    enum eng_dtype dtype = eng_lower_desc(lower, tensor)->dtype;
    if ((types >> dtype) & 1) {
        return BASE_OK;
    }
    char text[80];
    return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %u has type %s, expected %s", input,
                          eng_dtype_name(dtype), types_text(types, text, sizeof(text)));
}

enum base_status eng_nn_input(struct eng_lower *lower, const struct eng_node *node, uint32_t input,
                              uint32_t types, uint32_t *out)
{
    uint32_t tensor;
    BASE_TRY(eng_lower_input(lower, node, input, &tensor));
    BASE_TRY(eng_nn_check_type(lower, node, input, tensor, types));
    *out = tensor;
    return BASE_OK;
}

enum base_status eng_nn_optional(struct eng_lower *lower, const struct eng_node *node,
                                 uint32_t input, uint32_t types, uint32_t *out)
{
    if (eng_lower_has(lower, node, input)) {
        return eng_nn_input(lower, node, input, types, out);
    }
    *out = ENG_NONE;
    return BASE_OK;
}

enum base_status eng_nn_same_type(struct eng_lower *lower, const struct eng_node *node,
                                  uint32_t input, enum eng_dtype got, enum eng_dtype dtype)
{
    if (got == dtype) {
        return BASE_OK;
    }
    return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %u has type %s, expected %s", input,
                          eng_dtype_name(got), eng_dtype_name(dtype));
}

int64_t eng_nn_product(const struct eng_desc *desc, uint32_t begin, uint32_t end)
{
    int64_t n = 1;
    base_assert(begin <= end);
    base_assert(end <= desc->rank);
    for (uint32_t i = begin; i < end; i++) {
        n *= desc->dims[i];
    }
    return n;
}

struct eng_desc eng_nn_desc1(enum eng_dtype dtype, int64_t d0)
{
    return (struct eng_desc){.dtype = dtype, .rank = 1, .dims = {d0}};
}

struct eng_desc eng_nn_desc2(enum eng_dtype dtype, int64_t d0, int64_t d1)
{
    return (struct eng_desc){.dtype = dtype, .rank = 2, .dims = {d0, d1}};
}

struct eng_desc eng_nn_desc3(enum eng_dtype dtype, int64_t d0, int64_t d1, int64_t d2)
{
    return (struct eng_desc){.dtype = dtype, .rank = 3, .dims = {d0, d1, d2}};
}

struct eng_desc eng_nn_desc_axis(enum eng_dtype dtype, uint32_t rank, uint32_t axis, int64_t count)
{
    base_assert(rank <= ENG_RANK_MAX);
    base_assert(axis < rank);
    struct eng_desc desc = {.dtype = dtype, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        desc.dims[i] = i == axis ? count : 1;
    }
    return desc;
}

enum base_status eng_nn_reshape(struct eng_lower *lower, uint32_t tensor,
                                const struct eng_desc *desc, uint32_t *out)
{
    const struct eng_desc *have = eng_lower_desc(lower, tensor);
    bool same = have->rank == desc->rank;
    for (uint32_t i = 0; same && i < desc->rank; i++) {
        same = have->dims[i] == desc->dims[i];
    }
    if (same) {
        *out = tensor;
        return BASE_OK;
    }
    return eng_lower_reshape(lower, tensor, desc, out);
}

enum base_status eng_nn_with(struct eng_lower *lower, enum eng_binary_fn fn, uint32_t input,
                             double value, uint32_t *out)
{
    uint32_t constant;
    BASE_TRY(eng_lower_const_f32(lower, eng_lower_desc(lower, input)->dtype, value, &constant));
    return eng_emit_binary(lower, fn, input, constant, out);
}

enum base_status eng_nn_from(struct eng_lower *lower, enum eng_binary_fn fn, double value,
                             uint32_t input, uint32_t *out)
{
    uint32_t constant;
    BASE_TRY(eng_lower_const_f32(lower, eng_lower_desc(lower, input)->dtype, value, &constant));
    return eng_emit_binary(lower, fn, constant, input, out);
}

enum base_status eng_nn_unary(struct eng_lower *lower, enum eng_unary_fn fn, uint32_t input,
                              uint32_t *out)
{
    return eng_emit_unary(lower, &(struct eng_unary){.fn = fn}, input, out);
}

enum base_status eng_nn_part(struct eng_lower *lower, uint32_t input, struct eng_part part,
                             uint32_t *out)
{
    const struct eng_desc *desc = eng_lower_desc(lower, input);
    base_assert(part.axis < desc->rank);
    base_assert(part.begin >= 0 && part.size >= 0);
    base_assert(part.begin + part.size <= desc->dims[part.axis]);
    if (part.begin == 0 && part.size == desc->dims[part.axis]) {
        *out = input;
        return BASE_OK;
    }
    struct eng_slice slice = eng_slice_whole(desc);
    slice.start[part.axis] = part.begin;
    slice.size[part.axis] = part.size;
    return eng_lower_slice(lower, input, &slice, out);
}

enum base_status eng_nn_fold(struct eng_lower *lower, uint32_t tensor, uint32_t *out)
{
    *out = tensor;
    if (!eng_lower_is_known(lower, tensor)) {
        return BASE_OK;
    }
    struct eng_array array;
    BASE_TRY(eng_lower_content(lower, tensor, &array));
    return eng_lower_const(lower, &array.desc, array.data, out);
}

enum base_status eng_nn_reduce_all(struct eng_lower *lower, enum eng_reduce_fn fn, uint32_t input,
                                   uint32_t *out)
{
    uint32_t rank = eng_lower_desc(lower, input)->rank;
    uint32_t axes[ENG_RANK_MAX];
    for (uint32_t i = 0; i < rank; i++) {
        axes[i] = i;
    }
    const struct eng_reduction all = {.fn = fn, .axes = axes, .axis_count = rank};
    return eng_emit_reduce(lower, &all, input, out);
}

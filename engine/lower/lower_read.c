// What handlers read: inputs, slots, attributes as lists, shapes; the constants they make; and how
// they refuse a model. Called by every handler of lower/ops and by lowering itself, on the planning
// thread. Contents that are not known yet end a handler with BUSY, and it runs again when they are.
// A refusal names the node, its operator and what is wrong, for whoever made the model.
#include "lower/lower_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint64_t eng_lower_seed(const struct eng_lower *lower)
{
    return lower->options->seed;
}

uint32_t *eng_lower_statistic(struct eng_lower *lower, const struct eng_node *node, uint32_t input)
{
    const bool is_noted = lower->options->statistics != NULL && lower->scope == &lower->root &&
                          input < node->input_count && node->inputs[input] != ENG_NONE;
    return is_noted ? &lower->options->statistics[node->inputs[input]] : NULL;
}

enum base_status eng_lower_fail(struct eng_lower *lower, const struct eng_node *node,
                                enum base_status status, const char *format, ...)
{
    char text[BASE_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (node == NULL) {
        return base_error_set(lower->error, status, "%s", text);
    }
    return eng_node_error(node, lower->error, status, "%s", text);
}

void *eng_lower_alloc(struct eng_lower *lower, size_t bytes)
{
    return base_arena_alloc(lower->arena, bytes);
}

// Slot of an input, NULL when it is left out.
static enum base_status input_slot(struct eng_lower *lower, const struct eng_node *node,
                                   uint32_t input, struct eng_slot **out)
{
    *out = NULL;
    if (input >= node->input_count || node->inputs[input] == ENG_NONE) {
        return BASE_OK;
    }
    return eng_lower_find(lower, lower->scope, node->inputs[input], out);
}

bool eng_lower_has(const struct eng_lower *lower, const struct eng_node *node, uint32_t input)
{
    if (input >= node->input_count || node->inputs[input] >= lower->scope->graph->value_count) {
        return false;
    }
    uint32_t value = node->inputs[input];
    return lower->scope->slots[value].type != ENG_VALUE_UNKNOWN ||
           lower->scope->graph->values[value].is_initializer;
}

enum base_status eng_lower_slot(struct eng_lower *lower, const struct eng_node *node,
                                uint32_t input, struct eng_slot *out)
{
    struct eng_slot *slot;
    BASE_TRY(input_slot(lower, node, input, &slot));
    if (slot == NULL) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %" PRIu32 " is missing", input);
    }
    *out = *slot;
    return BASE_OK;
}

enum base_status eng_lower_input(struct eng_lower *lower, const struct eng_node *node,
                                 uint32_t input, uint32_t *out)
{
    struct eng_slot slot = {0};
    BASE_TRY(eng_lower_slot(lower, node, input, &slot));
    if (slot.type != ENG_VALUE_TENSOR) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "input %" PRIu32 " is not a tensor",
                              input);
    }
    *out = slot.tensor;
    return BASE_OK;
}

enum base_status eng_lower_optional(struct eng_lower *lower, const struct eng_node *node,
                                    uint32_t input, uint32_t *out)
{
    if (!eng_lower_has(lower, node, input)) {
        *out = ENG_NONE;
        return BASE_OK;
    }
    return eng_lower_input(lower, node, input, out);
}

const struct eng_desc *eng_lower_desc(const struct eng_lower *lower, uint32_t tensor)
{
    return &tensor_of(lower, tensor)->desc;
}

static bool int_at(enum eng_dtype dtype, const void *data, int64_t index, int64_t *out)
{
    base_assert(index >= 0);
    switch (dtype) {
    case ENG_I64:
        *out = ((const int64_t *)data)[index];
        return true;
    case ENG_I32:
        *out = ((const int32_t *)data)[index];
        return true;
    case ENG_I16:
        *out = ((const int16_t *)data)[index];
        return true;
    case ENG_I8:
        *out = ((const int8_t *)data)[index];
        return true;
    case ENG_U64: {
        uint64_t value = ((const uint64_t *)data)[index];
        *out = value > INT64_MAX ? INT64_MAX : (int64_t)value;
        return true;
    }
    case ENG_U32:
        *out = ((const uint32_t *)data)[index];
        return true;
    case ENG_U16:
        *out = ((const uint16_t *)data)[index];
        return true;
    case ENG_U8:
    case ENG_BOOL:
        *out = ((const uint8_t *)data)[index];
        return true;
    default:
        return false;
    }
}

static bool float_at(enum eng_dtype dtype, const void *data, double *out)
{
    base_assert(dtype > ENG_UNDEFINED && dtype < ENG_DTYPE_COUNT);
    int64_t whole;
    switch (dtype) {
    case ENG_F32:
        *out = (double)*(const float *)data;
        return true;
    case ENG_F64:
        *out = *(const double *)data;
        return true;
    case ENG_F16:
        *out = (double)eng_f16_to_f32(*(const uint16_t *)data);
        return true;
    case ENG_BF16:
        *out = (double)eng_bf16_to_f32(*(const uint16_t *)data);
        return true;
    case ENG_U64:
        *out = (double)*(const uint64_t *)data;
        return true;
    default:
        if (!int_at(dtype, data, 0, &whole)) {
            return false;
        }
        *out = (double)whole;
        return true;
    }
}

enum base_status eng_lower_ints(struct eng_lower *lower, const struct eng_node *node,
                                uint32_t tensor, const int64_t **out, uint32_t *out_count)
{
    struct eng_array array;
    BASE_TRY(eng_lower_content(lower, tensor, &array));
    int64_t count = eng_desc_count(&array.desc);
    base_assert(count == 0 || array.data != NULL);
    static const int64_t zero;
    int64_t probe;
    if (!int_at(array.desc.dtype, &zero, 0, &probe)) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "integers are needed, not %s",
                              eng_dtype_name(array.desc.dtype));
    }
    if (count > UINT32_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "too many integers");
    }
    int64_t *values = eng_lower_alloc(lower, (size_t)(count + 1) * sizeof(int64_t));
    if (values == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < count; i++) {
        (void)int_at(array.desc.dtype, array.data, i, &values[i]);
    }
    *out = values;
    *out_count = (uint32_t)count;
    return BASE_OK;
}

enum base_status eng_lower_scalar(struct eng_lower *lower, const struct eng_node *node,
                                  uint32_t tensor, double *out)
{
    struct eng_array array;
    BASE_TRY(eng_lower_content(lower, tensor, &array));
    if (eng_desc_count(&array.desc) != 1 || !float_at(array.desc.dtype, array.data, out)) {
        char text[96];
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "one number is needed, not %s",
                              eng_desc_text(&array.desc, text, sizeof(text)));
    }
    return BASE_OK;
}

enum base_status eng_lower_ints_of(struct eng_lower *lower, const struct eng_node *node,
                                   uint32_t input, const char *attr, struct eng_ints *out)
{
    *out = (struct eng_ints){.values = NULL};
    if (eng_lower_has(lower, node, input)) {
        uint32_t tensor;
        BASE_TRY(eng_lower_input(lower, node, input, &tensor));
        return eng_lower_ints(lower, node, tensor, &out->values, &out->count);
    }
    if (attr != NULL) {
        out->values = eng_node_ints(node, attr, &out->count);
    }
    base_assert(out->values != NULL || out->count == 0);
    return BASE_OK;
}

enum base_status eng_lower_axis(struct eng_lower *lower, const struct eng_node *node, int64_t axis,
                                uint32_t rank, uint32_t *out)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "axis %" PRId64 " is outside rank %" PRIu32, axis, rank);
    }
    *out = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
    return BASE_OK;
}

enum base_status eng_lower_broadcast(struct eng_lower *lower, const struct eng_node *node,
                                     const uint32_t *tensors, uint32_t count, struct eng_desc *out)
{
    struct eng_desc all = {.dtype = count > 0 ? eng_lower_desc(lower, tensors[0])->dtype : ENG_F32};
    for (uint32_t t = 0; t < count; t++) {
        uint32_t rank = eng_lower_desc(lower, tensors[t])->rank;
        all.rank = rank > all.rank ? rank : all.rank;
    }
    for (uint32_t d = 0; d < all.rank; d++) {
        all.dims[d] = 1;
    }
    for (uint32_t t = 0; t < count; t++) {
        const struct eng_desc *desc = eng_lower_desc(lower, tensors[t]);
        base_assert(desc->rank <= all.rank);
        for (uint32_t d = 0; d < desc->rank; d++) {
            int64_t *to = &all.dims[all.rank - desc->rank + d];
            if (*to == desc->dims[d] || desc->dims[d] == 1) {
                continue;
            }
            if (*to != 1) {
                char first[64];
                char second[64];
                return eng_lower_fail(
                    lower, node, BASE_ERR_INVALID, "shapes %s and %s do not broadcast",
                    eng_desc_text(eng_lower_desc(lower, tensors[0]), first, sizeof(first)),
                    eng_desc_text(desc, second, sizeof(second)));
            }
            *to = desc->dims[d];
        }
    }
    *out = all;
    return BASE_OK;
}

enum base_status eng_lower_output_slot(struct eng_lower *lower, const struct eng_node *node,
                                       uint32_t output, const struct eng_slot *slot)
{
    if (output >= node->output_count || node->outputs[output] == ENG_NONE) {
        return BASE_OK;
    }
    struct eng_slot copy = *slot;
    if (slot->type == ENG_VALUE_SEQUENCE && slot->item_count > 0) {
        copy.items =
            base_arena_copy(lower->arena, slot->items, slot->item_count * sizeof(uint32_t));
        if (copy.items == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    return eng_lower_set(lower, lower->scope, node->outputs[output], &copy);
}

enum base_status eng_lower_output(struct eng_lower *lower, const struct eng_node *node,
                                  uint32_t output, uint32_t tensor)
{
    const struct eng_slot slot = {
        .type = ENG_VALUE_TENSOR, .tensor = tensor, .dtype = eng_lower_desc(lower, tensor)->dtype};
    return eng_lower_output_slot(lower, node, output, &slot);
}

bool eng_lower_wants(const struct eng_lower *lower, const struct eng_node *node, uint32_t output)
{
    (void)lower;
    return output < node->output_count && node->outputs[output] != ENG_NONE;
}

// --- constants

enum base_status eng_lower_const(struct eng_lower *lower, const struct eng_desc *desc,
                                 const void *data, uint32_t *out)
{
    int64_t count;
    enum base_status status = eng_desc_check(desc, &count);
    if (status != BASE_OK) {
        return eng_lower_fail(lower, lower->node, status, "a constant of impossible shape");
    }
    size_t bytes = eng_desc_bytes(desc);
    void *copy = base_arena_alloc(lower->arena, bytes == 0 ? 1 : bytes);
    if (copy == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (bytes > 0) {
        memcpy(copy, data, bytes);
    }
    return eng_lower_known(lower, desc, copy, NULL, out);
}

enum base_status eng_lower_model_const(struct eng_lower *lower, const struct eng_desc *desc,
                                       const void *data, uint32_t *out)
{
    return eng_lower_known(lower, desc, data, data, out);
}

// The integer nearest to zero that `value` stands for, at the ends of int64 when it does not fit.
static int64_t whole_of(double value)
{
    if (!(value > -0x1p63)) {
        return value <= -0x1p63 ? INT64_MIN : 0; // not a number: 0
    }
    return value >= 0x1p63 ? INT64_MAX : (int64_t)value;
}

enum base_status eng_lower_const_f32(struct eng_lower *lower, enum eng_dtype dtype, double value,
                                     uint32_t *out)
{
    union {
        float f32;
        double f64;
        uint16_t half;
        uint8_t byte;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint32_t u32;
        uint64_t u64;
        float c64[2];
        double c128[2];
    } bits;
    memset(&bits, 0, sizeof(bits));
    switch (dtype) {
    case ENG_F32:
    case ENG_C64:
        bits.c64[0] = (float)value;
        break;
    case ENG_F64:
    case ENG_C128:
        bits.c128[0] = value;
        break;
    case ENG_F16:
        bits.half = eng_f16_from_f32((float)value);
        break;
    case ENG_BF16:
        bits.half = eng_bf16_from_f32((float)value);
        break;
    case ENG_BOOL:
        bits.byte = value != 0;
        break;
    case ENG_U8:
        bits.byte = (uint8_t)whole_of(value);
        break;
    case ENG_I8:
        bits.i8 = (int8_t)whole_of(value);
        break;
    case ENG_U16:
        bits.half = (uint16_t)whole_of(value);
        break;
    case ENG_I16:
        bits.i16 = (int16_t)whole_of(value);
        break;
    case ENG_I32:
        bits.i32 = (int32_t)whole_of(value);
        break;
    case ENG_U32:
        bits.u32 = (uint32_t)whole_of(value);
        break;
    case ENG_I64:
        bits.i64 = whole_of(value);
        break;
    case ENG_U64:
        bits.u64 = value >= 0x1p63 && value < 0x1p64 ? (uint64_t)value : (uint64_t)whole_of(value);
        break;
    default:
        return eng_lower_fail(lower, lower->node, BASE_ERR_UNSUPPORTED, "no number of type %s",
                              eng_dtype_name(dtype));
    }
    const struct eng_desc desc = {.dtype = dtype};
    base_assert(eng_dtype_bytes(dtype) <= sizeof(bits));
    return eng_lower_const(lower, &desc, &bits, out);
}

enum base_status eng_lower_const_ints(struct eng_lower *lower, const int64_t *values,
                                      uint32_t count, uint32_t *out)
{
    const struct eng_desc desc = {.dtype = ENG_I64, .rank = 1, .dims = {count}};
    return eng_lower_const(lower, &desc, values, out);
}

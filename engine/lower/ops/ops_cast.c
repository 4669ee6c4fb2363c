// Cast and CastLike: called by lowering through their rows in the operator tables, on the planning
// thread. Between numbers a cast is an atomic command; to and from strings it needs the contents,
// which handlers read while planning, and its result is a constant. Numbers become the shortest
// text that reads back as the same number, with a point in every locale (base/text/real.h); whole
// numbers are read with all their 64 bits.
#include "lower/ops/nn_kit.h"

#include "base/check.h"
#include "base/text/real.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_TEXT_MAX 64 // longest text of a number that is read or written

struct number {
    bool is_float;
    double f;
    int64_t i;  // signed integers and bool
    uint64_t u; // unsigned ones
    bool is_unsigned;
};

static struct number number_at(const struct eng_array *array, int64_t at)
{
    struct number n = {0};
    switch (array->desc.dtype) {
    case ENG_F32:
        n = (struct number){.is_float = true, .f = (double)((const float *)array->data)[at]};
        break;
    case ENG_F64:
        n = (struct number){.is_float = true, .f = ((const double *)array->data)[at]};
        break;
    case ENG_F16:
        n.is_float = true;
        n.f = (double)eng_f16_to_f32(((const uint16_t *)array->data)[at]);
        break;
    case ENG_BF16:
        n.is_float = true;
        n.f = (double)eng_bf16_to_f32(((const uint16_t *)array->data)[at]);
        break;
    case ENG_I8:
        n.i = ((const int8_t *)array->data)[at];
        break;
    case ENG_I16:
        n.i = ((const int16_t *)array->data)[at];
        break;
    case ENG_I32:
        n.i = ((const int32_t *)array->data)[at];
        break;
    case ENG_I64:
        n.i = ((const int64_t *)array->data)[at];
        break;
    case ENG_U16:
        n.i = ((const uint16_t *)array->data)[at];
        break;
    case ENG_U32:
        n.i = ((const uint32_t *)array->data)[at];
        break;
    case ENG_U64:
        n = (struct number){.is_unsigned = true, .u = ((const uint64_t *)array->data)[at]};
        break;
    default: // U8 and BOOL
        base_assert(array->desc.dtype == ENG_U8 || array->desc.dtype == ENG_BOOL);
        n.i = ((const uint8_t *)array->data)[at];
        break;
    }
    return n;
}

static double rounded(double value, enum eng_dtype dtype)
{
    switch (dtype) {
    case ENG_F32:
        return (double)(float)value;
    case ENG_F16:
        return (double)eng_f16_to_f32(eng_f16_from_f32((float)value));
    case ENG_BF16:
        return (double)eng_bf16_to_f32(eng_bf16_from_f32((float)value));
    default:
        return value;
    }
}

// The shortest decimal text that reads back as the same number.
static size_t print_number(struct number number, enum eng_dtype dtype, char text[NUMBER_TEXT_MAX])
{
    const char *end = NULL;
    int size = 0;
    if (number.is_unsigned) {
        size = snprintf(text, NUMBER_TEXT_MAX, "%llu", (unsigned long long)number.u);
    } else if (!number.is_float) {
        size = snprintf(text, NUMBER_TEXT_MAX, "%lld", (long long)number.i);
    } else if (isnan(number.f)) {
        size = snprintf(text, NUMBER_TEXT_MAX, "NaN");
    } else if (isinf(number.f)) {
        size = snprintf(text, NUMBER_TEXT_MAX, number.f > 0 ? "INF" : "-INF");
    } else {
        for (int digits = 1; digits <= BASE_REAL_DIGITS_MAX; digits++) {
            size = (int)base_real_print(number.f, digits, text);
            if (rounded(base_real_read(text, &end), dtype) == number.f) {
                break;
            }
        }
    }
    base_assert(size < NUMBER_TEXT_MAX);
    return size > 0 ? (size_t)size : 0;
}

static enum base_status cast_to_string(struct eng_lower *lower, uint32_t input, uint32_t *out)
{
    struct eng_array array;
    BASE_TRY(eng_lower_content(lower, input, &array));
    base_assert(array.desc.dtype != ENG_STRING);
    int64_t count = eng_desc_count(&array.desc);
    struct eng_string *strings = eng_lower_alloc(lower, (size_t)(count + 1) * sizeof(*strings));
    if (strings == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < count; i++) {
        char text[NUMBER_TEXT_MAX];
        size_t size = print_number(number_at(&array, i), array.desc.dtype, text);
        char *at = eng_lower_alloc(lower, size + 1);
        if (at == NULL) {
            return BASE_ERR_NOMEM;
        }
        memcpy(at, text, size);
        strings[i] = (struct eng_string){.at = at, .size = size};
    }
    struct eng_desc desc = array.desc;
    desc.dtype = ENG_STRING;
    return eng_lower_const(lower, &desc, strings, out);
}

// Whole numbers are read as such (all 64 bits); everything else as floating point.
static bool read_i64(struct eng_string text, int64_t *out)
{
    bool negative = text.size > 0 && text.at[0] == '-';
    uint64_t value = 0;
    for (uint64_t i = negative ? 1 : 0; i < text.size; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' ||
            __builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text.at[i] - '0'), &value)) {
            return false;
        }
    }
    if (text.size == (negative ? 1u : 0u) || value > (uint64_t)INT64_MAX) {
        return false;
    }
    *out = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static bool read_f64(struct eng_string string, double *out)
{
    char text[NUMBER_TEXT_MAX];
    if (string.size == 0 || string.size >= sizeof(text)) {
        return false;
    }
    memcpy(text, string.at, string.size);
    text[string.size] = 0;
    const char *end;
    *out = base_real_read(text, &end);
    return end == text + string.size;
}

// Strings become doubles, or int64 for integer targets; an ordinary cast does the rest.
static enum base_status cast_from_string(struct eng_lower *lower, const struct eng_node *node,
                                         uint32_t input, enum eng_dtype to, uint32_t *out)
{
    struct eng_array array;
    BASE_TRY(eng_lower_content(lower, input, &array));
    base_assert(array.desc.dtype == ENG_STRING);
    base_assert(to != ENG_STRING);
    const struct eng_string *strings = array.data;
    int64_t count = eng_desc_count(&array.desc);
    bool integer = (NN_TYPES_INT >> to) & 1;
    union {
        double f;
        int64_t i;
    } *values = eng_lower_alloc(lower, (size_t)(count + 1) * sizeof(*values));
    if (values == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (int64_t i = 0; i < count; i++) {
        double real = 0;
        bool good = integer ? read_i64(strings[i], &values[i].i) : read_f64(strings[i], &real);
        if (integer && !good && read_f64(strings[i], &real) && fabs(real) < 0x1p63) {
            values[i].i = (int64_t)real;
            good = true;
        }
        if (!good) {
            int size = strings[i].size < 32 ? (int)strings[i].size : 32;
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "'%.*s' is not a number", size,
                                  strings[i].at != NULL ? strings[i].at : "");
        }
        if (!integer) {
            values[i].f = real;
        }
    }
    struct eng_desc desc = array.desc;
    desc.dtype = integer ? ENG_I64 : ENG_F64;
    BASE_TRY(eng_lower_const(lower, &desc, values, out));
    return eng_emit_cast(lower, *out, to, out);
}

static enum base_status cast_to(struct eng_lower *lower, const struct eng_node *node,
                                enum eng_dtype to)
{
    uint32_t x;
    uint32_t y;
    const uint32_t types = NN_TYPES_NUMERIC | NN_TYPE(BOOL) | NN_TYPE(STRING);
    BASE_TRY(eng_nn_input(lower, node, 0, types, &x));
    struct eng_desc desc = *eng_lower_desc(lower, x);
    if (to <= ENG_UNDEFINED || to >= ENG_DTYPE_COUNT || !((types >> to) & 1)) {
        return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED, "cast to type %d (%s)", (int)to,
                              eng_dtype_name(to));
    }
    if (to == desc.dtype) {
        y = x;
    } else if (to == ENG_STRING) {
        BASE_TRY(cast_to_string(lower, x, &y));
    } else if (desc.dtype == ENG_STRING) {
        BASE_TRY(cast_from_string(lower, node, x, to, &y));
    } else {
        BASE_TRY(eng_emit_cast(lower, x, to, &y));
    }
    return eng_lower_output(lower, node, 0, y);
}

static enum base_status lower_cast(struct eng_lower *lower, const struct eng_node *node)
{
    int64_t to = eng_node_int(node, "to", 0);
    return cast_to(lower, node,
                   to > 0 && to < ENG_DTYPE_COUNT ? (enum eng_dtype)to : ENG_UNDEFINED);
}

static enum base_status lower_cast_like(struct eng_lower *lower, const struct eng_node *node)
{
    uint32_t like;
    BASE_TRY(eng_nn_input(lower, node, 1, NN_TYPES_ANY, &like));
    struct eng_desc desc = *eng_lower_desc(lower, like);
    return cast_to(lower, node, desc.dtype);
}

static const struct eng_op rows[] = {
    NN_ROW("Cast", 7, ATOMIC, lower_cast),
    NN_ROW("CastLike", 15, ATOMIC, lower_cast_like),
};
const struct eng_op_table eng_ops_cast = NN_TABLE(rows);

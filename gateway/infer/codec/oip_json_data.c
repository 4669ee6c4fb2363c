// Elements of tensors from JSON, for oip_json_read.c, on its thread. This is where the time of a
// JSON call goes: rows of numbers are read by one loop for each type, without a tree. Brackets of
// nested data are taken where the shape wants them and nowhere else.
#include "infer/codec/oip_json_data.h"

#include "base/check.h"
#include "infer/codec/json_number.h"
#include "infer/codec/oip_tensor.h"

// ---- Rows of elements, between brackets

// Takes the comma between two elements, and spaces.
static inline bool next_element(struct gw_json_in *in, size_t i)
{
    if (i > 0) {
        if (in->at < in->end && *in->at == ',') {
            in->at++;
        } else if (!gw_json_take(in, ',')) {
            return gw_json_fail(in, BASE_ERR_INVALID, "data: fewer elements than the shape has");
        }
    }
    if (in->at == in->end || *in->at <= ' ') {
        (void)gw_json_peek(in);
    }
    return true;
}

static bool no_number(struct gw_json_in *in, enum eng_dtype dtype)
{
    struct base_str name = gw_oip_dtype_name(dtype);
    return gw_json_fail(in, BASE_ERR_INVALID, "data: a value of %.*s is wanted here",
                        (int)name.size, name.data);
}

static bool read_f32s(struct gw_json_in *in, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!next_element(in, i)) {
            return false;
        }
        const char *behind = gw_json_f32(in->at, in->end, &out[i]);
        if (behind == NULL) {
            return no_number(in, ENG_F32);
        }
        in->at = behind;
    }
    return true;
}

static bool read_f64s(struct gw_json_in *in, double *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!next_element(in, i)) {
            return false;
        }
        const char *behind = gw_json_f64(in->at, in->end, &out[i]);
        if (behind == NULL) {
            return no_number(in, ENG_F64);
        }
        in->at = behind;
    }
    return true;
}

static bool read_halves(struct gw_json_in *in, enum eng_dtype dtype, uint16_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = 0;
        if (!next_element(in, i)) {
            return false;
        }
        const char *behind = gw_json_f32(in->at, in->end, &value);
        if (behind == NULL) {
            return no_number(in, dtype);
        }
        out[i] = dtype == ENG_F16 ? eng_f16_from_f32(value) : eng_bf16_from_f32(value);
        in->at = behind;
    }
    return true;
}

// Of an integer type: the largest magnitude of a positive and of a negative number.
static void integer_range(enum eng_dtype dtype, uint64_t *out_most, uint64_t *out_least)
{
    unsigned bits = 8 * (unsigned)eng_dtype_bytes(dtype);
    bool is_signed = dtype == ENG_I8 || dtype == ENG_I16 || dtype == ENG_I32 || dtype == ENG_I64;
    *out_most = UINT64_MAX >> (64 - bits + is_signed);
    *out_least = is_signed ? *out_most + 1 : 0;
}

static bool read_integers(struct gw_json_in *in, enum eng_dtype dtype, uint8_t *out, size_t count)
{
    size_t size = eng_dtype_bytes(dtype);
    uint64_t most = 0;
    uint64_t least = 0;
    integer_range(dtype, &most, &least);
    for (size_t i = 0; i < count; i++) {
        bool negative = false;
        uint64_t value = 0;
        if (!next_element(in, i)) {
            return false;
        }
        const char *behind = gw_json_integer(in->at, in->end, &negative, &value);
        if (behind == NULL || value > (negative ? least : most)) {
            return no_number(in, dtype);
        }
        value = negative ? 0 - value : value;
        memcpy(out + i * size, &value, size); // its low bytes come first
        in->at = behind;
    }
    return true;
}

static bool read_bools(struct gw_json_in *in, bool *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!next_element(in, i) || !gw_json_in_bool(in, &out[i])) {
            return false;
        }
    }
    return true;
}

static bool read_texts(struct gw_json_in *in, struct eng_string *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct base_str text;
        if (!next_element(in, i) || !gw_json_in_text(in, &text)) {
            return false;
        }
        out[i] = (struct eng_string){text.data, text.size};
    }
    return true;
}

static bool read_row(struct gw_json_in *in, enum eng_dtype dtype, uint8_t *out, size_t count)
{
    switch (dtype) {
    case ENG_F32:
        return read_f32s(in, (float *)(void *)out, count);
    case ENG_F64:
        return read_f64s(in, (double *)(void *)out, count);
    case ENG_F16:
    case ENG_BF16:
        return read_halves(in, dtype, (uint16_t *)(void *)out, count);
    case ENG_BOOL:
        return read_bools(in, (bool *)(void *)out, count);
    case ENG_STRING:
        return read_texts(in, (struct eng_string *)(void *)out, count);
    default:
        return read_integers(in, dtype, out, count);
    }
}

// ---- Shapes

static bool take_brackets(struct gw_json_in *in, char bracket, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!gw_json_take(in, bracket)) {
            return gw_json_fail(in, BASE_ERR_INVALID,
                                "data: '%c' is wanted here, by the tensor's shape", bracket);
        }
    }
    return true;
}

// How many of the inner dimensions begin anew with row `row`, which is not the first.
static size_t brackets_between(const struct eng_desc *desc, size_t row)
{
    size_t count = 1;
    for (size_t d = desc->rank - 2; d > 0 && row % (size_t)desc->dims[d] == 0; d--) {
        row /= (size_t)desc->dims[d];
        count++;
    }
    return count;
}

static bool read_nested(struct gw_json_in *in, const struct eng_desc *desc, uint8_t *out,
                        size_t count)
{
    size_t width = (size_t)desc->dims[desc->rank - 1];
    size_t row_bytes = width * eng_dtype_bytes(desc->dtype);
    base_assert(count > 0);
    for (size_t row = 0; row < count / width; row++) {
        size_t brackets = row == 0 ? desc->rank : brackets_between(desc, row);
        if (row > 0 && !(take_brackets(in, ']', brackets) && take_brackets(in, ',', 1))) {
            return false;
        }
        if (!take_brackets(in, '[', brackets) ||
            !read_row(in, desc->dtype, out + row * row_bytes, width)) {
            return false;
        }
    }
    return take_brackets(in, ']', desc->rank);
}

// No elements: brackets alone.
static bool read_empty(struct gw_json_in *in)
{
    const char *from = in->at;
    if (!gw_json_skip(in)) {
        return false;
    }
    for (const char *at = from; at < in->at; at++) {
        if (*at > ' ' && *at != '[' && *at != ']' && *at != ',') {
            in->at = at;
            return gw_json_fail(in, BASE_ERR_INVALID, "data: the shape has no elements");
        }
    }
    return true;
}

static bool is_nested(struct gw_json_in *in, const struct eng_desc *desc)
{
    struct gw_json_in ahead = *in;
    return desc->rank > 1 && gw_json_take(&ahead, '[') && gw_json_peek(&ahead) == '[';
}

bool gw_oip_json_data(struct gw_json_in *in, struct gw_infer_tensor *tensor)
{
    const struct eng_desc *desc = &tensor->desc;
    struct base_error error = {0};
    size_t count = 0;
    if (gw_json_peek(in) != '[') {
        return gw_json_fail(in, BASE_ERR_INVALID, "data: an array is wanted here");
    }
    enum base_status status =
        gw_oip_shape(tensor, (uint64_t)(in->end - in->at) / 2, &count, &error);
    if (status != BASE_OK) {
        return gw_json_fail(in, status, "%s", error.text);
    }
    uint8_t *out = base_arena_alloc(in->arena, tensor->bytes);
    if (out == NULL) {
        return gw_json_fail(in, BASE_ERR_NOMEM, "out of memory");
    }
    tensor->data = out;
    if (count == 0) {
        return read_empty(in);
    }
    if (is_nested(in, desc)) {
        return read_nested(in, desc, out, count);
    }
    if (!gw_json_expect(in, '[') || !read_row(in, desc->dtype, out, count)) {
        return false;
    }
    return gw_json_take(in, ']') ||
           gw_json_fail(in, BASE_ERR_INVALID, "data: more elements than the shape has");
}

// ---- Writing

size_t gw_oip_json_data_bound(const struct gw_infer_tensor *tensor)
{
    size_t count = (size_t)eng_desc_count(&tensor->desc);
    if (tensor->desc.dtype != ENG_STRING) {
        return 2 + count * GW_JSON_NUMBER_TEXT_MAX;
    }
    const struct eng_string *texts = tensor->data;
    size_t bound = 2;
    for (size_t i = 0; i < count; i++) {
        bound += GW_JSON_TEXT_BOUND(texts[i].size) + 1;
    }
    return bound;
}

char *gw_oip_json_text_write(struct base_str text, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const char *from = text.data != NULL ? text.data : "";
    const char *end = from + text.size;
    *out++ = '"';
    for (const char *at = from; at < end; at++) {
        size_t size = gw_json_utf8(at, end);
        if (size == 0) {
            memcpy(out, "\\ufffd", 6);
            out += 6;
        } else if (*at == '"' || *at == '\\') {
            *out++ = '\\';
            *out++ = *at;
        } else if ((unsigned char)*at < 0x20) {
            memcpy(out, "\\u00", 4);
            out[4] = digits[*at >> 4];
            out[5] = digits[*at & 15];
            out += 6;
        } else {
            memcpy(out, at, size);
            out += size;
            at += size - 1;
        }
    }
    *out++ = '"';
    return out;
}

static char *write_integer(const struct gw_infer_tensor *tensor, size_t i, char *out)
{
    enum eng_dtype dtype = tensor->desc.dtype;
    size_t size = eng_dtype_bytes(dtype);
    uint64_t value = 0;
    uint64_t most = 0;
    uint64_t least = 0;
    memcpy(&value, (const uint8_t *)tensor->data + i * size, size);
    integer_range(dtype, &most, &least);
    bool negative = value > most; // of a signed type, whose upper bytes are not there
    uint64_t magnitude = negative ? (0 - value) & (most | least) : value;
    return out + gw_json_integer_text(negative, magnitude, out);
}

static char *write_value(const struct gw_infer_tensor *tensor, size_t i, char *out)
{
    const void *data = tensor->data;
    switch (tensor->desc.dtype) {
    case ENG_F32:
        return out + gw_json_f32_text(((const float *)data)[i], out);
    case ENG_F64:
        return out + gw_json_f64_text(((const double *)data)[i], out);
    case ENG_F16:
        return out + gw_json_f32_text(eng_f16_to_f32(((const uint16_t *)data)[i]), out);
    case ENG_BF16:
        return out + gw_json_f32_text(eng_bf16_to_f32(((const uint16_t *)data)[i]), out);
    case ENG_STRING: {
        const struct eng_string *text = (const struct eng_string *)data + i;
        return gw_oip_json_text_write((struct base_str){text->at, (size_t)text->size}, out);
    }
    case ENG_BOOL: {
        size_t size = ((const uint8_t *)data)[i] != 0 ? 4 : 5;
        memcpy(out, size == 4 ? "true" : "false", size);
        return out + size;
    }
    default:
        return write_integer(tensor, i, out);
    }
}

char *gw_oip_json_data_write(const struct gw_infer_tensor *tensor, char *out)
{
    size_t count = (size_t)eng_desc_count(&tensor->desc);
    *out++ = '[';
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            *out++ = ',';
        }
        out = write_value(tensor, i, out);
    }
    *out++ = ']';
    return out;
}

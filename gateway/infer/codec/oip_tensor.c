// Shapes and the raw form of tensors, for the JSON and the protobuf codec. Sizes
// come from strangers: each is checked against a limit, and against the bytes that are there,
// before memory is taken for it. On whichever thread the codecs run.
#include "infer/codec/oip_tensor.h"

#include "base/check.h"
#include "base/ckd.h"
#include "base/cursor.h"
#include "infer/codec/json_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw tensors are borrowed as they come");

#define TEXT_SIZE_BYTES 4 // in front of each element of BYTES

enum base_status gw_oip_shape(struct gw_infer_tensor *tensor, uint64_t most, size_t *out_count,
                              struct base_error *error)
{
    int64_t count = 0;
    int name_size = (int)tensor->name.size;
    enum base_status status = eng_desc_check(&tensor->desc, &count);
    if (status == BASE_ERR_INVALID) {
        return base_error_set(error, status, "tensor \"%.*s\": a dimension is negative", name_size,
                              tensor->name.data);
    }
    if (status != BASE_OK ||
        (uint64_t)count > GW_INFER_TENSOR_BYTES_MAX / eng_dtype_bytes(tensor->desc.dtype)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "tensor \"%.*s\": over %zu bytes",
                              name_size, tensor->name.data, GW_INFER_TENSOR_BYTES_MAX);
    }
    if ((uint64_t)count > most) {
        return base_error_set(
            error, BASE_ERR_TOO_LARGE, "tensor \"%.*s\": %lld elements, and data for %llu at most",
            name_size, tensor->name.data, (long long)count, (unsigned long long)most);
    }
    tensor->bytes = eng_desc_bytes(&tensor->desc);
    *out_count = (size_t)count;
    return BASE_OK;
}

enum base_status gw_oip_check_names(const struct gw_infer_call *call, struct base_error *error)
{
    for (size_t i = 0; i < call->input_count; i++) {
        for (size_t k = 0; k < i; k++) {
            struct base_str name = call->inputs[i].name;
            if (base_str_equal(name, call->inputs[k].name)) {
                return base_error_set(error, BASE_ERR_INVALID, "input \"%.*s\" comes twice",
                                      (int)name.size, name.data);
            }
        }
    }
    for (size_t i = 0; i < call->wish_count; i++) {
        for (size_t k = 0; k < i; k++) {
            struct base_str name = call->wishes[i].name;
            if (base_str_equal(name, call->wishes[k].name)) {
                return base_error_set(error, BASE_ERR_INVALID, "output \"%.*s\" comes twice",
                                      (int)name.size, name.data);
            }
        }
    }
    return BASE_OK;
}

// ---- Raw form

static enum base_status read_texts(struct base_arena *arena, struct base_str raw,
                                   struct gw_infer_tensor *tensor, struct base_error *error)
{
    size_t count = 0;
    BASE_TRY(gw_oip_shape(tensor, raw.size / TEXT_SIZE_BYTES, &count, error));
    struct eng_string *texts = base_arena_alloc(arena, tensor->bytes);
    if (texts == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    struct base_reader reader;
    base_reader_init(&reader, raw.data, raw.size);
    for (size_t i = 0; i < count; i++) {
        texts[i].size = base_reader_u32(&reader);
        texts[i].at = (const char *)base_reader_bytes(&reader, texts[i].size);
    }
    enum base_status status = base_reader_finish(&reader);
    if (status != BASE_OK) {
        return base_error_set(error, status, "tensor \"%.*s\": %zu bytes are no %zu texts",
                              (int)tensor->name.size, tensor->name.data, raw.size, count);
    }
    tensor->data = texts;
    return BASE_OK;
}

static enum base_status check_bools(const struct gw_infer_tensor *tensor, struct base_error *error)
{
    const uint8_t *values = tensor->data;
    uint8_t all = 0;
    for (size_t i = 0; i < tensor->bytes; i++) {
        all |= values[i];
    }
    if (all > 1) {
        return base_error_set(error, BASE_ERR_INVALID, "tensor \"%.*s\": a BOOL is neither 0 nor 1",
                              (int)tensor->name.size, tensor->name.data);
    }
    return BASE_OK;
}

enum base_status gw_oip_raw_read(struct base_arena *arena, struct base_str raw,
                                 struct gw_infer_tensor *tensor, struct base_error *error)
{
    size_t count = 0;
    size_t element = eng_dtype_bytes(tensor->desc.dtype);
    if (tensor->desc.dtype == ENG_STRING) {
        return read_texts(arena, raw, tensor, error);
    }
    BASE_TRY(gw_oip_shape(tensor, UINT64_MAX, &count, error));
    if (raw.size != tensor->bytes) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "tensor \"%.*s\": %zu bytes of data, the shape wants %zu",
                              (int)tensor->name.size, tensor->name.data, raw.size, tensor->bytes);
    }
    tensor->data = raw.data;
    if ((uintptr_t)raw.data % element != 0 || raw.data == NULL) {
        tensor->data = base_arena_copy(arena, raw.data != NULL ? raw.data : "", raw.size);
        if (tensor->data == NULL) {
            return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
        }
    }
    return tensor->desc.dtype == ENG_BOOL ? check_bools(tensor, error) : BASE_OK;
}

size_t gw_oip_raw_size(const struct gw_infer_tensor *tensor)
{
    if (tensor->desc.dtype != ENG_STRING) {
        return tensor->bytes;
    }
    const struct eng_string *texts = tensor->data;
    size_t count = tensor->bytes / sizeof(*texts);
    size_t size = count * TEXT_SIZE_BYTES;
    for (size_t i = 0; i < count; i++) {
        size += (size_t)texts[i].size;
    }
    return size;
}

uint8_t *gw_oip_raw_write(const struct gw_infer_tensor *tensor, uint8_t *out)
{
    if (tensor->desc.dtype != ENG_STRING) {
        if (tensor->bytes > 0) {
            memcpy(out, tensor->data, tensor->bytes);
        }
        return out + tensor->bytes;
    }
    const struct eng_string *texts = tensor->data;
    for (size_t i = 0; i < tensor->bytes / sizeof(*texts); i++) {
        base_check(texts[i].size <= UINT32_MAX);
        uint32_t size = (uint32_t)texts[i].size;
        memcpy(out, &size, sizeof(size));
        out += sizeof(size);
        if (size > 0) {
            memcpy(out, texts[i].at, size);
        }
        out += size;
    }
    return out;
}

// ---- Classification

struct ranked {
    double value;
    size_t index;
};

#define VALUE(kind, type)                                                                          \
    case kind:                                                                                     \
        return (double)((const type *)tensor->data)[i];

static double value_at(const struct gw_infer_tensor *tensor, size_t i)
{
    const uint16_t *halves = tensor->data;
    switch (tensor->desc.dtype) {
        VALUE(ENG_F32, float)
        VALUE(ENG_F64, double)
        VALUE(ENG_U8, uint8_t)
        VALUE(ENG_I8, int8_t)
        VALUE(ENG_U16, uint16_t)
        VALUE(ENG_I16, int16_t)
        VALUE(ENG_U32, uint32_t)
        VALUE(ENG_I32, int32_t)
        VALUE(ENG_U64, uint64_t)
        VALUE(ENG_I64, int64_t)
    case ENG_BF16:
        return (double)eng_bf16_to_f32(halves[i]);
    default:
        return (double)eng_f16_to_f32(halves[i]);
    }
}

#undef VALUE

static bool has_classes(enum eng_dtype dtype)
{
    return dtype != ENG_BOOL && dtype != ENG_STRING && gw_oip_dtype_name(dtype).size > 0;
}

static int by_rank(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;
    if (a->value != b->value) { // neither is NaN: those are the smallest number here
        return a->value > b->value ? -1 : 1;
    }
    return a->index < b->index ? -1 : a->index > b->index;
}

struct ranking {
    struct base_arena *arena;
    const struct gw_infer_tensor *tensor;
    struct ranked *row; // room for one
    size_t width;
    size_t classes;
};

static size_t value_text(const struct gw_infer_tensor *tensor, size_t i, char *out)
{
    double value = value_at(tensor, i);
    bool narrow = tensor->desc.dtype == ENG_F32 || tensor->desc.dtype == ENG_F16 ||
                  tensor->desc.dtype == ENG_BF16;
    return narrow ? gw_json_f32_text((float)value, out) : gw_json_f64_text(value, out);
}

// The row that begins at element `from`.
static enum base_status rank_row(const struct ranking *ranking, size_t from,
                                 struct eng_string *texts)
{
    for (size_t i = 0; i < ranking->width; i++) {
        double value = value_at(ranking->tensor, from + i);
        ranking->row[i] = (struct ranked){isnan(value) ? -INFINITY : value, i};
    }
    qsort(ranking->row, ranking->width, sizeof(*ranking->row), by_rank);
    for (size_t i = 0; i < ranking->classes; i++) {
        char text[2 * GW_JSON_NUMBER_TEXT_MAX];
        size_t size = value_text(ranking->tensor, from + ranking->row[i].index, text);
        int more = snprintf(text + size, GW_JSON_NUMBER_TEXT_MAX, ":%zu", ranking->row[i].index);
        base_check(more > 0);
        texts[i].size = size + (uint64_t)more;
        texts[i].at = base_arena_copy(ranking->arena, text, (size_t)texts[i].size);
        if (texts[i].at == NULL) {
            return BASE_ERR_NOMEM;
        }
    }
    return BASE_OK;
}

static enum base_status classify(struct base_arena *arena, const struct gw_infer_tensor *tensor,
                                 uint32_t classes, struct gw_infer_tensor *out)
{
    size_t count = (size_t)eng_desc_count(&tensor->desc);
    size_t width = tensor->desc.rank > 0 ? (size_t)tensor->desc.dims[tensor->desc.rank - 1] : 0;
    struct ranking ranking = {arena, tensor, NULL, width, classes < width ? classes : width};
    if (width == 0) {
        return BASE_ERR_INVALID;
    }
    size_t rows = count / width;
    *out = *tensor;
    out->desc.dtype = ENG_STRING;
    out->desc.dims[out->desc.rank - 1] = (int64_t)ranking.classes;
    out->bytes = rows * ranking.classes * sizeof(struct eng_string);
    struct eng_string *texts = base_arena_alloc(arena, out->bytes);
    ranking.row = base_arena_alloc(arena, width * sizeof(*ranking.row));
    if (texts == NULL || ranking.row == NULL) {
        return BASE_ERR_NOMEM;
    }
    out->data = texts;
    for (size_t i = 0; i < rows; i++) {
        BASE_TRY(rank_row(&ranking, i * width, texts + i * ranking.classes));
    }
    return BASE_OK;
}

enum base_status gw_oip_outputs(struct base_arena *arena, const struct gw_infer_call *call,
                                const struct gw_infer_result *result,
                                struct gw_infer_tensor **out_outputs)
{
    size_t bytes = result->output_count * sizeof(**out_outputs);
    struct gw_infer_tensor *outputs = base_arena_alloc(arena, bytes);
    if (outputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    base_check(call->wish_count == 0 || call->wish_count == result->output_count);
    for (size_t i = 0; i < result->output_count; i++) {
        outputs[i] = result->outputs[i];
        uint32_t classes = call->wish_count > 0 ? call->wishes[i].classes : 0;
        if (classes > 0 && !has_classes(outputs[i].desc.dtype)) {
            return BASE_ERR_INVALID;
        }
        if (classes > 0) {
            BASE_TRY(classify(arena, &result->outputs[i], classes, &outputs[i]));
        }
        outputs[i].binary = call->wish_count > 0 ? call->wishes[i].binary : call->binary_all;
    }
    *out_outputs = outputs;
    return BASE_OK;
}

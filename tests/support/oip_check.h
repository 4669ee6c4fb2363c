// What every inference call holds to that a codec has taken, for the fuzz targets of the codecs.
#ifndef OIP_CHECK_H
#define OIP_CHECK_H

#include "base/alloc.h"
#include "base/check.h"
#include "infer/codec/oip_json.h"

#include <stdlib.h>
#include <string.h>

#define OIP_ARENA_BYTES ((size_t)64 << 20)

static inline char *oip_exact(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    base_check(copy != NULL);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    return copy;
}

// Reads every byte of the elements, so that a sanitizer sees each.
static inline void oip_check_tensor(const struct gw_infer_tensor *tensor)
{
    static volatile uint8_t seen;
    int64_t count = 0;
    base_check(eng_desc_check(&tensor->desc, &count) == BASE_OK);
    base_check(tensor->bytes == (size_t)count * eng_dtype_bytes(tensor->desc.dtype));
    base_check(tensor->bytes <= GW_INFER_TENSOR_BYTES_MAX);
    base_check(tensor->name.size <= GW_INFER_NAME_BYTES_MAX);
    base_check(tensor->data != NULL);
    const uint8_t *bytes = tensor->data;
    for (size_t i = 0; i < tensor->bytes; i++) {
        seen ^= bytes[i];
        base_check(tensor->desc.dtype != ENG_BOOL || bytes[i] <= 1);
    }
    const struct eng_string *texts = tensor->data;
    for (int64_t i = 0; tensor->desc.dtype == ENG_STRING && i < count; i++) {
        for (uint64_t k = 0; k < texts[i].size; k++) {
            seen ^= (uint8_t)texts[i].at[k];
        }
    }
}

static inline void oip_check_call(const struct gw_infer_call *call)
{
    base_check(call->input_count <= GW_INFER_TENSORS_MAX);
    base_check(call->wish_count <= GW_INFER_TENSORS_MAX);
    base_check(call->priority < GW_INFER_PRIORITIES);
    base_check(call->timeout_us <= GW_INFER_TIMEOUT_US_MAX);
    base_check(call->id.size <= GW_INFER_ID_BYTES_MAX);
    for (size_t i = 0; i < call->input_count; i++) {
        oip_check_tensor(&call->inputs[i]);
    }
    for (size_t i = 0; i < call->wish_count; i++) {
        base_check(call->wishes[i].classes <= GW_INFER_CLASSES_MAX);
    }
}

static inline bool oip_same(const struct gw_infer_tensor *left, const struct gw_infer_tensor *right)
{
    if (!base_str_equal(left->name, right->name) || !eng_desc_equal(&left->desc, &right->desc)) {
        return false;
    }
    if (left->desc.dtype != ENG_STRING) { // NaN has one text, and then one set of bits
        return memcmp(left->data, right->data, left->bytes) == 0 || left->desc.dtype == ENG_F16 ||
               left->desc.dtype == ENG_BF16 || left->desc.dtype == ENG_F32 ||
               left->desc.dtype == ENG_F64;
    }
    const struct eng_string *a = left->data;
    const struct eng_string *b = right->data;
    for (size_t i = 0; i < left->bytes / sizeof(*a); i++) {
        if (a[i].size != b[i].size || memcmp(a[i].at, b[i].at, (size_t)a[i].size) != 0) {
            return false;
        }
    }
    return true;
}

// Writes the inputs as a result and reads that as a request.
static inline void oip_check_again(struct base_arena *arena, const struct gw_infer_call *call,
                                   bool binary)
{
    static const char was[] = "\"outputs\":[";
    static const char is[] = " \"inputs\":[";
    struct gw_infer_result result = {.outputs = call->inputs, .output_count = call->input_count};
    struct gw_infer_call all = {.binary_all = binary};
    struct gw_infer_call again = {0};
    struct base_error error = {0};
    struct base_str body;
    size_t json_bytes = 0;
    if (gw_oip_json_write(arena, &all, &result, &body, &json_bytes) != BASE_OK) {
        return; // no memory
    }
    base_check(json_bytes == 0 || binary);
    char *place = memmem(body.data, body.size, was, sizeof(was) - 1);
    base_check(place != NULL);
    memcpy(place, is, sizeof(is) - 1);
    enum base_status status = gw_oip_json_read(arena, body, json_bytes, &again, &error);
    base_check(status == BASE_OK || status == BASE_ERR_NOMEM);
    for (size_t i = 0; status == BASE_OK && i < call->input_count; i++) {
        base_check(oip_same(&call->inputs[i], &again.inputs[i]));
    }
}

static inline void oip_check_json(const uint8_t *data, size_t size, size_t json_bytes)
{
    struct base_arena arena;
    struct gw_infer_call call = {0};
    struct base_error error = {0};
    char *exact = oip_exact(data, size);
    base_arena_init(&arena, base_alloc_heap(), 0, OIP_ARENA_BYTES);
    enum base_status status =
        gw_oip_json_read(&arena, (struct base_str){exact, size}, json_bytes, &call, &error);
    struct gw_infer_call early = {.priority = GW_INFER_PRIORITY_USUAL};
    size_t json_size = json_bytes > 0 && json_bytes < size ? json_bytes : size;
    enum base_status seen = gw_oip_json_early(&arena, (struct base_str){exact, json_size}, &early);
    if (status == BASE_OK) {
        base_check(seen == BASE_ERR_NOMEM || (seen == BASE_OK && early.priority == call.priority &&
                                              early.timeout_us == call.timeout_us));
        oip_check_call(&call);
        if (json_bytes == 0) { // binary texts may be no UTF-8
            oip_check_again(&arena, &call, false);
        }
        oip_check_again(&arena, &call, true);
    } else {
        base_check(error.text[0] != '\0');
    }
    base_arena_done(&arena);
    free(exact);
}

#endif

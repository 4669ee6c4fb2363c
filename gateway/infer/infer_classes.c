// The `classification` parameter: of an output's last dimension the best so many, each as the text
// "value:index". infer_run.c calls, on the thread that ran the model. Values are compared as
// doubles; equal ones go by their index, and what is no number goes last.
#include "infer/infer_classes.h"

#include "base/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CLASS_TEXT_MAX 48u

#define TAKE(kind, type)                                                                           \
    case kind: {                                                                                   \
        type value;                                                                                \
        memcpy(&value, (const type *)data + at, sizeof(value));                                    \
        return (double)value;                                                                      \
    }

static double value_at(enum eng_dtype dtype, const void *data, size_t at)
{
    uint16_t half;
    switch (dtype) {
        TAKE(ENG_F32, float)
        TAKE(ENG_F64, double)
        TAKE(ENG_U8, uint8_t)
        TAKE(ENG_I8, int8_t)
        TAKE(ENG_U16, uint16_t)
        TAKE(ENG_I16, int16_t)
        TAKE(ENG_I32, int32_t)
        TAKE(ENG_I64, int64_t)
        TAKE(ENG_U32, uint32_t)
        TAKE(ENG_U64, uint64_t)
    default:
        memcpy(&half, (const uint16_t *)data + at, sizeof(half));
        return dtype == ENG_F16 ? eng_f16_to_f32(half) : eng_bf16_to_f32(half);
    }
}

static bool can_be_ordered(enum eng_dtype dtype)
{
    return dtype != ENG_UNDEFINED && dtype != ENG_STRING && dtype != ENG_BOOL && dtype != ENG_C64 &&
           dtype != ENG_C128 && dtype < ENG_DTYPE_COUNT;
}

static bool is_better(double a, double b)
{
    return a > b || (isnan(b) && !isnan(a));
}

// The best `classes` of `count` values from `first` on, in order, as indices in `out`.
static void choose(const struct gw_infer_tensor *tensor, size_t first, size_t count,
                   uint32_t classes, uint32_t *out)
{
    uint32_t have = 0;
    for (size_t i = 0; i < count; i++) {
        double value = value_at(tensor->desc.dtype, tensor->data, first + i);
        uint32_t at = have;
        while (at > 0 &&
               is_better(value, value_at(tensor->desc.dtype, tensor->data, first + out[at - 1]))) {
            at--;
        }
        if (at == classes) {
            continue;
        }
        have += have < classes;
        memmove(out + at + 1, out + at, (have - at - 1) * sizeof(*out));
        out[at] = (uint32_t)i;
    }
}

static bool write_text(struct base_arena *arena, double value, uint32_t index,
                       struct eng_string *out)
{
    char text[CLASS_TEXT_MAX];
    int size = snprintf(text, sizeof(text), "%.9g:%u", value, index);
    base_check(size > 0 && (size_t)size < sizeof(text));
    out->at = base_arena_copy(arena, text, (size_t)size);
    out->size = (uint64_t)size;
    return out->at != NULL;
}

enum base_status gw_infer_classify(struct base_arena *arena, uint32_t classes,
                                   struct gw_infer_tensor *tensor, struct base_error *error)
{
    uint32_t best[GW_INFER_CLASSES_MAX];
    struct eng_desc desc = tensor->desc;
    if (desc.rank == 0 || !can_be_ordered(desc.dtype) || classes > GW_INFER_CLASSES_MAX) {
        return base_error_set(
            error, BASE_ERR_INVALID, "output '%.*s': has no classes, it is a scalar or no numbers",
            tensor->name.size < 60 ? (int)tensor->name.size : 60, tensor->name.data);
    }
    size_t count = (size_t)desc.dims[desc.rank - 1];
    uint32_t kept = classes < count ? classes : (uint32_t)count;
    size_t lists = count > 0 ? (size_t)eng_desc_count(&desc) / count : 0;
    desc.dtype = ENG_STRING;
    desc.dims[desc.rank - 1] = kept;
    size_t bytes = eng_desc_bytes(&desc);
    struct eng_string *texts = base_arena_alloc(arena, bytes > 0 ? bytes : 1);
    bool fits = texts != NULL;
    for (size_t list = 0; fits && list < lists; list++) {
        choose(tensor, list * count, count, kept, best);
        for (uint32_t i = 0; fits && i < kept; i++) {
            double value = value_at(tensor->desc.dtype, tensor->data, list * count + best[i]);
            fits = write_text(arena, value, best[i], &texts[list * kept + i]);
        }
    }
    if (!fits) {
        return base_error_set(error, BASE_ERR_NOMEM, "no room for classes");
    }
    tensor->desc = desc;
    tensor->data = texts;
    tensor->bytes = bytes;
    return BASE_OK;
}

// Elements of every type as numbers, what is done to a result before it is stored, and the walk
// over boxes that elementwise commands share. Called by the reference kernels at run time, on the
// session's thread. What a function means is in program/scalar.c. Numbers that do not fit saturate;
// no contents are undefined.
#include "backend/ref/ref.h"

#include "backend/ref/ref_box.h"
#include "backend/ref/ref_element.h"
#include "base/check.h"

int64_t eng_ref_load_int(enum eng_dtype dtype, const void *data, int64_t index)
{
    switch (dtype) {
    case ENG_BOOL:
    case ENG_U8:
        return ((const uint8_t *)data)[index];
    case ENG_I8:
        return ((const int8_t *)data)[index];
    case ENG_U16:
        return ((const uint16_t *)data)[index];
    case ENG_I16:
        return ((const int16_t *)data)[index];
    case ENG_U32:
        return ((const uint32_t *)data)[index];
    case ENG_I32:
        return ((const int32_t *)data)[index];
    case ENG_U64:
    case ENG_I64:
        return ((const int64_t *)data)[index];
    default:
        base_assert(eng_ref_is(dtype, ENG_REF_FLOATS));
        return eng_ref_to_i64(eng_ref_load(dtype, data, index));
    }
}

void eng_ref_store_int(enum eng_dtype dtype, void *data, int64_t index, int64_t value)
{
    switch (dtype) {
    case ENG_BOOL:
        ((uint8_t *)data)[index] = value != 0;
        break;
    case ENG_U8:
    case ENG_I8:
        ((uint8_t *)data)[index] = (uint8_t)value;
        break;
    case ENG_U16:
    case ENG_I16:
        ((uint16_t *)data)[index] = (uint16_t)value;
        break;
    case ENG_U32:
    case ENG_I32:
        ((uint32_t *)data)[index] = (uint32_t)value;
        break;
    case ENG_U64:
    case ENG_I64:
        ((int64_t *)data)[index] = value;
        break;
    case ENG_F32: // straight, so that it is rounded once
        ((float *)data)[index] = (float)value;
        break;
    default:
        base_assert(eng_ref_is(dtype, ENG_REF_FLOATS)); // with any other this comes back here
        eng_ref_store(dtype, data, index, (double)value);
    }
}

double eng_ref_load_slow(enum eng_dtype dtype, const void *data, int64_t index)
{
    switch (dtype) {
    case ENG_F32:
        return (double)((const float *)data)[index];
    case ENG_F64:
        return ((const double *)data)[index];
    case ENG_F16:
        return (double)eng_f16_to_f32(((const uint16_t *)data)[index]);
    case ENG_BF16:
        return (double)eng_bf16_to_f32(((const uint16_t *)data)[index]);
    case ENG_U64:
        return (double)((const uint64_t *)data)[index];
    case ENG_BOOL:
    case ENG_U8:
    case ENG_I8:
    case ENG_U16:
    case ENG_I16:
    case ENG_U32:
    case ENG_I32:
    case ENG_I64:
        return (double)eng_ref_load_int(dtype, data, index);
    default:
        base_assert(dtype == ENG_STRING || eng_ref_is(dtype, ENG_REF_COMPLEX)); // no numbers
        return 0;
    }
}

static int64_t saturated(enum eng_dtype dtype, double value)
{
    int64_t whole = eng_ref_to_i64(value);
    switch (dtype) {
    case ENG_U8:
        return eng_ref_clamp(whole, 0, UINT8_MAX);
    case ENG_I8:
        return eng_ref_clamp(whole, INT8_MIN, INT8_MAX);
    case ENG_U16:
        return eng_ref_clamp(whole, 0, UINT16_MAX);
    case ENG_I16:
        return eng_ref_clamp(whole, INT16_MIN, INT16_MAX);
    case ENG_U32:
        return eng_ref_clamp(whole, 0, UINT32_MAX);
    case ENG_I32:
        return eng_ref_clamp(whole, INT32_MIN, INT32_MAX);
    default:
        return whole;
    }
}

void eng_ref_store_slow(enum eng_dtype dtype, void *data, int64_t index, double value)
{
    switch (dtype) {
    case ENG_F32:
        ((float *)data)[index] = eng_ref_to_f32(value);
        break;
    case ENG_F64:
        ((double *)data)[index] = value;
        break;
    case ENG_F16:
        ((uint16_t *)data)[index] = eng_f16_from_f32(eng_ref_to_f32(value));
        break;
    case ENG_BF16:
        ((uint16_t *)data)[index] = eng_bf16_from_f32(eng_ref_to_f32(value));
        break;
    case ENG_U64:
        ((uint64_t *)data)[index] = eng_ref_to_u64(value);
        break;
    case ENG_BOOL:
        ((uint8_t *)data)[index] = value != 0;
        break;
    default:
        base_assert(eng_ref_is(dtype, ENG_REF_INTS));
        eng_ref_store_int(dtype, data, index, saturated(dtype, value));
    }
}

double eng_ref_epilogue(const struct eng_step *step, const struct eng_run *run,
                        const struct eng_epilogue *epilogue, double value,
                        struct eng_ref_place place)
{
    base_assert(place.channel >= 0 && place.index >= 0);
    if (epilogue->bias != ENG_NONE) {
        value += eng_ref_load(eng_ref_tensor(step, epilogue->bias)->desc.dtype,
                              run->data[epilogue->bias], place.channel);
    }
    if (epilogue->residual != ENG_NONE) {
        value += eng_ref_load(eng_ref_tensor(step, epilogue->residual)->desc.dtype,
                              run->data[epilogue->residual], place.index);
    }
    return epilogue->has_activation
               ? eng_scalar_unary(epilogue->activation, value, (double)epilogue->alpha,
                                  (double)epilogue->beta)
               : value;
}

void eng_ref_rows(const struct eng_box *box, const struct eng_view *views, uint32_t view_count,
                  eng_ref_row_fn row, void *ctx)
{
    base_assert(view_count <= ENG_COMMAND_VIEWS_MAX && box->rank <= ENG_RANK_MAX);
    int64_t at[ENG_COMMAND_VIEWS_MAX] = {0}, step[ENG_COMMAND_VIEWS_MAX] = {0};
    int64_t index[ENG_RANK_MAX] = {0};
    uint32_t outer = box->rank > 0 ? box->rank - 1 : 0;
    int64_t count = box->rank > 0 ? box->size[outer] : 1, rows = 1;
    for (uint32_t d = 0; d < outer; d++) {
        rows *= box->size[d];
    }
    if (count == 0) {
        return;
    }
    for (uint32_t v = 0; v < view_count; v++) {
        at[v] = views[v].offset;
        step[v] = box->rank > 0 ? views[v].stride[outer] : 0;
    }
    for (int64_t r = 0; r < rows; r++) {
        row(ctx, r * count, at, step, count);
        for (uint32_t d = outer; d-- > 0;) {
            index[d]++;
            for (uint32_t v = 0; v < view_count; v++) {
                at[v] += views[v].stride[d];
            }
            if (index[d] < box->size[d]) {
                break;
            }
            for (uint32_t v = 0; v < view_count; v++) {
                at[v] -= views[v].stride[d] * box->size[d];
            }
            index[d] = 0;
        }
    }
}

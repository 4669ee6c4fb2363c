// See infer_agree.h. Called by infer_shadow.c where a shadow ends, on a thread of the service and
// without its lock. Numbers are compared as doubles, in which all but the largest whole ones of 64
// bits are exact; those are compared as what they are where they have to be equal.
#include "infer/split/infer_agree.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

static bool is_number(enum eng_dtype dtype)
{
    return dtype != ENG_STRING && dtype != ENG_BOOL && dtype != ENG_C64 && dtype != ENG_C128 &&
           dtype != ENG_UNDEFINED;
}

static double number_at(const struct eng_array *array, size_t index)
{
    const void *data = array->data;
    switch (array->desc.dtype) {
    case ENG_F32:
        return (double)((const float *)data)[index];
    case ENG_F64:
        return ((const double *)data)[index];
    case ENG_F16:
        return (double)eng_f16_to_f32(((const uint16_t *)data)[index]);
    case ENG_BF16:
        return (double)eng_bf16_to_f32(((const uint16_t *)data)[index]);
    case ENG_U8:
        return ((const uint8_t *)data)[index];
    case ENG_I8:
        return ((const int8_t *)data)[index];
    case ENG_U16:
        return ((const uint16_t *)data)[index];
    case ENG_I16:
        return ((const int16_t *)data)[index];
    case ENG_I32:
        return ((const int32_t *)data)[index];
    case ENG_U32:
        return ((const uint32_t *)data)[index];
    case ENG_I64:
        return (double)((const int64_t *)data)[index];
    default:
        base_assert(array->desc.dtype == ENG_U64);
        return (double)((const uint64_t *)data)[index];
    }
}

static bool texts_equal(const struct eng_string *one, const struct eng_string *other, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (one[i].size != other[i].size ||
            (one[i].size > 0 && memcmp(one[i].at, other[i].at, (size_t)one[i].size) != 0)) {
            return false;
        }
    }
    return true;
}

static bool near(const struct gw_infer_agree *rule, double one, double other)
{
    if (isnan(one) || isnan(other)) {
        return isnan(one) && isnan(other);
    }
    if (one == other) { // infinities too
        return true;
    }
    double larger = fabs(one) > fabs(other) ? fabs(one) : fabs(other);
    return isfinite(larger) && fabs(one - other) <= rule->absolute + rule->relative * larger;
}

// The first of the largest; a NaN is larger than all.
static size_t largest(const struct eng_array *array, size_t from, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++) {
        double value = number_at(array, from + i);
        double before = number_at(array, from + best);
        best = !isnan(before) && (isnan(value) || value > before) ? i : best;
    }
    return best;
}

static bool largest_agree(const struct eng_array *one, const struct eng_array *other, size_t count)
{
    size_t row = (size_t)one->desc.dims[one->desc.rank - 1];
    for (size_t at = 0; row > 0 && at < count; at += row) {
        if (largest(one, at, row) != largest(other, at, row)) {
            return false;
        }
    }
    return true;
}

bool gw_infer_agrees(const struct gw_infer_agree *rule, const struct eng_array *one,
                     const struct eng_array *other)
{
    if (!eng_desc_equal(&one->desc, &other->desc)) {
        return false;
    }
    size_t count = (size_t)eng_desc_count(&one->desc);
    enum eng_dtype dtype = one->desc.dtype;
    if (count == 0) {
        return true;
    }
    if (dtype == ENG_STRING) {
        return texts_equal(one->data, other->data, count);
    }
    if (is_number(dtype) && rule->argmax && one->desc.rank > 0) {
        return largest_agree(one, other, count);
    }
    bool exact = rule->absolute == 0 && rule->relative == 0;
    bool whole = dtype != ENG_F32 && dtype != ENG_F64 && dtype != ENG_F16 && dtype != ENG_BF16;
    if (!is_number(dtype) || (exact && whole)) {
        return memcmp(one->data, other->data, eng_desc_bytes(&one->desc)) == 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (!near(rule, number_at(one, i), number_at(other, i))) {
            return false;
        }
    }
    return true;
}

// Two tensors against each other, as `walle-engine check` and the node cases want it.
//
// Called by the commands of this program; no state.
#include "cli/engine_cli.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

#define BF16_STEP 0x1p-7f // relative distance of neighbours

// Element `i` of the real (part 0) or imaginary (part 1) numbers as double. Integers past 2^53 are
// compared elsewhere.
static double number_at(const struct eng_array *array, int64_t index, int part)
{
    const void *data = array->data;
    base_assert(index >= 0);
    base_assert(part == 0 || array->desc.dtype == ENG_C64 || array->desc.dtype == ENG_C128);
    switch (array->desc.dtype) {
    case ENG_F32:
        return ((const float *)data)[index];
    case ENG_F64:
        return ((const double *)data)[index];
    case ENG_F16:
        return eng_f16_to_f32(((const uint16_t *)data)[index]);
    case ENG_BF16:
        return eng_bf16_to_f32(((const uint16_t *)data)[index]);
    case ENG_C64:
        return ((const float *)data)[2 * index + part];
    case ENG_C128:
        return ((const double *)data)[2 * index + part];
    case ENG_U8:
    case ENG_BOOL:
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
        return (double)((const uint64_t *)data)[index];
    case ENG_I64:
        return (double)((const int64_t *)data)[index];
    default:
        return 0;
    }
}

static bool is_float(enum eng_dtype dtype)
{
    return dtype == ENG_F32 || dtype == ENG_F64 || dtype == ENG_F16 || dtype == ENG_BF16 ||
           dtype == ENG_C64 || dtype == ENG_C128;
}

static bool numbers_agree(double got, double want, const struct eng_cli_tolerance *tolerance)
{
    if (isnan(got) || isnan(want)) {
        return isnan(got) && isnan(want);
    }
    if (isinf(got) || isinf(want)) {
        return got == want;
    }
    return fabs(got - want) <= (double)tolerance->atol + (double)tolerance->rtol * fabs(want);
}

// Whether element i agrees; raises out->max_error.
static bool element_agrees(const struct eng_array *got, const struct eng_array *want, int64_t index,
                           const struct eng_cli_tolerance *tolerance,
                           struct eng_cli_difference *out)
{
    enum eng_dtype dtype = got->desc.dtype;
    base_assert(want->desc.dtype == dtype);
    if (dtype == ENG_STRING) {
        const struct eng_string *a = &((const struct eng_string *)got->data)[index];
        const struct eng_string *b = &((const struct eng_string *)want->data)[index];
        return a->size == b->size && (a->size == 0 || memcmp(a->at, b->at, a->size) == 0);
    }
    int parts = dtype == ENG_C64 || dtype == ENG_C128 ? 2 : 1;
    bool agrees = true;
    for (int part = 0; part < parts; part++) {
        double a = number_at(got, index, part);
        double b = number_at(want, index, part);
        double error = fabs(a - b);
        if (isfinite(error) && error > out->max_error) {
            out->max_error = error;
        }
        agrees = agrees && (is_float(dtype) ? numbers_agree(a, b, tolerance) : a == b);
    }
    if (agrees && !is_float(dtype)) { // 64-bit integers that one double cannot tell apart
        size_t bytes = eng_dtype_bytes(dtype);
        size_t at = (size_t)index * bytes;
        agrees = memcmp((const char *)got->data + at, (const char *)want->data + at, bytes) == 0;
    }
    return agrees;
}

static void describe(struct eng_cli_difference *out, int64_t count, enum eng_dtype dtype)
{
    if (dtype == ENG_STRING) {
        (void)snprintf(out->text, sizeof out->text, "%lld of %lld strings differ, first at %lld",
                       (long long)out->wrong, (long long)count, (long long)out->at);
        return;
    }
    (void)snprintf(out->text, sizeof out->text,
                   "%lld of %lld elements differ, first at %lld: %.7g, expected %.7g; largest "
                   "error %.3g",
                   (long long)out->wrong, (long long)count, (long long)out->at, out->got, out->want,
                   out->max_error);
}

void eng_cli_compare(const struct eng_array *got, const struct eng_array *want,
                     const struct eng_cli_tolerance *tolerance, bool values_too,
                     struct eng_cli_difference *out)
{
    struct eng_cli_tolerance allowed = *tolerance;
    base_assert(allowed.rtol >= 0 && allowed.atol >= 0);
    *out = (struct eng_cli_difference){.is_equal = true, .at = -1};
    if (!eng_desc_equal(&got->desc, &want->desc)) {
        char a[96];
        char b[96];
        out->is_equal = false;
        (void)snprintf(out->text, sizeof out->text, "is %s, expected %s",
                       eng_desc_text(&got->desc, a, sizeof a),
                       eng_desc_text(&want->desc, b, sizeof b));
        return;
    }
    if (got->desc.dtype == ENG_BF16 && allowed.rtol < BF16_STEP) {
        allowed.rtol = BF16_STEP; // references made by cutting bits off differ in the last one
    }
    int64_t count = eng_desc_count(&got->desc);
    for (int64_t i = 0; values_too && i < count; i++) {
        if (element_agrees(got, want, i, &allowed, out)) {
            continue;
        }
        if (out->wrong == 0) {
            out->at = i;
            out->got = number_at(got, i, 0);
            out->want = number_at(want, i, 0);
        }
        out->wrong++;
        out->is_equal = false;
    }
    base_assert(out->is_equal == (out->wrong == 0));
    if (!out->is_equal) {
        describe(out, count, got->desc.dtype);
    }
}

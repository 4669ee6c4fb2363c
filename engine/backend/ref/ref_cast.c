// Cast between all element types, strings included. Reference kernels; run on the session's thread.
//
// Numbers become strings in the shortest form that reads back as the same number; strings become
// numbers as strtod reads them. Texts made here live in the plan's arena, until the next run.
#include "backend/ref/ref.h"

#include "backend/ref/ref_element.h"
#include "base/check.h"
#include "base/text/real.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

#define NUMBER_TEXT_MAX 32 // any number of any type, NUL included

static void cast_numbers(const struct eng_step *step, const struct eng_run *run, int64_t count)
{
    enum eng_dtype from = eng_ref_in_type(step, 0), to = eng_ref_out_type(step, 0);
    const void *x = eng_ref_in(step, run, 0);
    void *y = eng_ref_out(step, run, 0);
    if (eng_ref_is(from, ENG_REF_FLOATS)) {
        for (int64_t i = 0; i < count; i++) {
            eng_ref_store(to, y, i, eng_ref_load(from, x, i));
        }
    } else if (from == ENG_U64 && eng_ref_is(to, ENG_REF_FLOATS)) {
        for (int64_t i = 0; i < count; i++) {
            eng_ref_store(to, y, i, eng_ref_load(from, x, i));
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            eng_ref_store_int(to, y, i, eng_ref_load_int(from, x, i));
        }
    }
}

static void cast_complex(const struct eng_step *step, const struct eng_run *run, int64_t count)
{
    // Twice as many real numbers.
    enum eng_dtype from = eng_ref_in_type(step, 0) == ENG_C64 ? ENG_F32 : ENG_F64;
    enum eng_dtype to = eng_ref_out_type(step, 0) == ENG_C64 ? ENG_F32 : ENG_F64;
    const void *x = eng_ref_in(step, run, 0);
    void *y = eng_ref_out(step, run, 0);
    for (int64_t i = 0; i < 2 * count; i++) {
        eng_ref_store(to, y, i, eng_ref_load(from, x, i));
    }
}

// --- numbers to strings -----------------------------------------------------------------------

// The shortest of %.1g .. %.17g that reads back as the same number of `dtype`.
static int shortest(enum eng_dtype dtype, double value, char *text)
{
    base_assert(isfinite(value)); // others have words of their own
    int length = 0;
    for (int digits = 1; digits <= BASE_REAL_DIGITS_MAX; digits++) {
        const char *end = NULL;
        length = (int)base_real_print(value, digits, text);
        double back = base_real_read(text, &end);
        uint8_t rounded[8];
        eng_ref_store(dtype, rounded, 0, back);
        if (eng_ref_load(dtype, rounded, 0) == value) {
            break;
        }
    }
    // %g goes over to exponents too early: a number below 1e16 is written out.
    if (strchr(text, 'e') != NULL && fabs(value) >= 1 && fabs(value) < 1e16) {
        length = snprintf(text, NUMBER_TEXT_MAX, "%.0f", value);
    }
    if (strpbrk(text, ".e") == NULL) {
        memcpy(text + length, ".0", 3);
        length += 2;
    }
    return length;
}

static int number_text(enum eng_dtype dtype, const void *input, int64_t index, char *text)
{
    if (dtype == ENG_U64) {
        return snprintf(text, NUMBER_TEXT_MAX, "%llu", ((const unsigned long long *)input)[index]);
    }
    if (dtype == ENG_BOOL) {
        return snprintf(text, NUMBER_TEXT_MAX, "%s",
                        eng_ref_load_int(dtype, input, index) != 0 ? "True" : "False");
    }
    if (eng_ref_is(dtype, ENG_REF_INTS)) {
        return snprintf(text, NUMBER_TEXT_MAX, "%lld",
                        (long long)eng_ref_load_int(dtype, input, index));
    }
    double value = eng_ref_load(dtype, input, index);
    if (isnan(value)) {
        return snprintf(text, NUMBER_TEXT_MAX, "NaN");
    }
    if (isinf(value)) {
        return snprintf(text, NUMBER_TEXT_MAX, value > 0 ? "INF" : "-INF");
    }
    return shortest(dtype, value, text);
}

static void cast_to_string(const struct eng_step *step, const struct eng_run *run, int64_t count)
{
    struct eng_string *y = eng_ref_out(step, run, 0);
    char *texts = step->state;
    for (int64_t i = 0; i < count; i++) {
        char *text = texts + i * NUMBER_TEXT_MAX;
        int length = number_text(eng_ref_in_type(step, 0), eng_ref_in(step, run, 0), i, text);
        base_assert(length > 0 && length < NUMBER_TEXT_MAX);
        y[i] = (struct eng_string){text, (uint64_t)length};
    }
}

// --- strings to numbers -----------------------------------------------------------------------

#define NUMBER_INPUT_MAX 400 // longer texts are no number of any type

static bool text_number(const struct eng_string *string, enum eng_dtype to, void *output,
                        int64_t index)
{
    char text[NUMBER_INPUT_MAX + 1];
    base_assert(to != ENG_STRING);
    if (string->size == 0 || string->size > NUMBER_INPUT_MAX) {
        return false;
    }
    memcpy(text, string->at, string->size);
    text[string->size] = '\0';
    int64_t whole = 0;
    if (eng_ref_is(to, ENG_REF_INTS) &&
        base_str_i64((struct base_str){text, string->size}, &whole) == BASE_OK) {
        eng_ref_store_int(to, output, index, whole);
        return true;
    }
    uint64_t large = 0;
    if (to == ENG_U64 && base_str_u64((struct base_str){text, string->size}, &large) == BASE_OK) {
        ((uint64_t *)output)[index] = large;
        return true;
    }
    const char *end = NULL;
    double value = base_real_read(text, &end);
    if (end != text + string->size) {
        return false;
    }
    eng_ref_store(to, output, index, value);
    return true;
}

static enum base_status cast_from_string(const struct eng_step *step, const struct eng_run *run,
                                         int64_t count)
{
    const struct eng_string *x = eng_ref_in(step, run, 0);
    for (int64_t i = 0; i < count; i++) {
        if (!text_number(&x[i], eng_ref_out_type(step, 0), eng_ref_out(step, run, 0), i)) {
            return base_error_set(run->error, BASE_ERR_INVALID, "cast: \"%.*s\" is not a number",
                                  (int)eng_ref_clamp((int64_t)x[i].size, 0, 60), x[i].at);
        }
    }
    return BASE_OK;
}

// --- the command ------------------------------------------------------------------------------

static enum base_status run_cast(const struct eng_step *step, const struct eng_run *run)
{
    enum eng_dtype from = eng_ref_in_type(step, 0), to = eng_ref_out_type(step, 0);
    int64_t count = eng_desc_count(&eng_ref_out_tensor(step, 0)->desc);
    if (from == to) {
        if (count > 0) {
            memcpy(eng_ref_out(step, run, 0), eng_ref_in(step, run, 0),
                   (size_t)count * eng_dtype_bytes(from));
        }
    } else if (from == ENG_STRING) {
        return cast_from_string(step, run, count);
    } else if (to == ENG_STRING) {
        cast_to_string(step, run, count);
    } else if (eng_ref_is(from, ENG_REF_COMPLEX)) {
        cast_complex(step, run, count);
    } else {
        cast_numbers(step, run, count);
    }
    return BASE_OK;
}

static enum base_status setup_cast(const struct eng_prepare *ctx, struct eng_step *step)
{
    enum eng_dtype from = eng_ref_in_type(step, 0), to = eng_ref_out_type(step, 0);
    if (from != to && eng_ref_is(from, ENG_REF_COMPLEX) != eng_ref_is(to, ENG_REF_COMPLEX)) {
        return eng_ref_refuse(ctx, step, "between complex and other types");
    }
    if (!eng_ref_is(to, ENG_REF_ALL)) {
        return eng_ref_refuse(ctx, step, "to an unknown type");
    }
    if (to == ENG_STRING && from != ENG_STRING) {
        size_t count = (size_t)eng_desc_count(&eng_ref_out_tensor(step, 0)->desc);
        step->state = base_arena_alloc(ctx->arena, count * NUMBER_TEXT_MAX);
        return step->state == NULL ? BASE_ERR_NOMEM : BASE_OK;
    }
    return BASE_OK;
}

const struct eng_ref_kernel eng_ref_cast[] = {
    {ENG_OP_CAST, ENG_REF_ALL, run_cast, setup_cast},
    {.run = NULL},
};

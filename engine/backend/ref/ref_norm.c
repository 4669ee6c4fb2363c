// Normalisation of rows by their mean and variance. Reference kernel: found by ref_prepare.c on the
// planning thread, runs on the session's thread. Two passes, the second over differences from the
// mean, in doubles: a row whose mean is large against its spread keeps its variance. Mean and
// inverse deviation are given out where the command has outputs for them, which is what training's
// gradients read.
#include "backend/ref/ref.h"

#include "backend/ref/ref_element.h"
#include "base/check.h"

#include <math.h>

struct moments {
    double mean, inverse; // 1 / sqrt(variance + epsilon)
};

static struct moments moments_of(const struct eng_norm *norm, enum eng_dtype dtype,
                                 const void *input, int64_t first)
{
    double sum = 0, squares = 0;
    struct moments m = {0, 0};
    base_assert(first >= 0 && norm->n >= 0);
    for (int64_t i = 0; i < norm->n && !norm->rms; i++) {
        sum += eng_ref_load(dtype, input, first + i);
    }
    m.mean = norm->n > 0 ? sum / (double)norm->n : 0;
    for (int64_t i = 0; i < norm->n; i++) {
        double d = eng_ref_load(dtype, input, first + i) - m.mean;
        squares += d * d;
    }
    m.inverse = 1 / sqrt(squares / (double)norm->n + (double)norm->epsilon);
    return m;
}

static enum base_status run_norm(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_norm *norm = &step->command->u.norm;
    enum eng_dtype dtype = eng_ref_in_type(step, 0);
    const void *x = eng_ref_in(step, run, 0), *scale = eng_ref_in(step, run, 1),
               *bias = eng_ref_in(step, run, 2);
    void *y = eng_ref_out(step, run, 0), *mean = eng_ref_out(step, run, 1),
         *inverse = eng_ref_out(step, run, 2);
    base_assert((scale == NULL && bias == NULL) || norm->scale_count > 0);
    int64_t scale_inner = norm->scale_inner > 0 ? norm->scale_inner : 1; // may be 0 without scale
    for (int64_t g = 0; g < norm->groups; g++) {
        struct moments m = moments_of(norm, dtype, x, g * norm->n);
        for (int64_t i = 0; i < norm->n; i++) {
            int64_t at = norm->scale_per_group ? g : i / scale_inner;
            double value = (eng_ref_load(dtype, x, g * norm->n + i) - m.mean) * m.inverse;
            if (scale != NULL) {
                value *= eng_ref_load(eng_ref_in_type(step, 1), scale, at % norm->scale_count);
            }
            if (bias != NULL) {
                value += eng_ref_load(eng_ref_in_type(step, 2), bias, at % norm->scale_count);
            }
            eng_ref_store(eng_ref_out_type(step, 0), y, g * norm->n + i, value);
        }
        if (mean != NULL) {
            eng_ref_store(eng_ref_out_type(step, 1), mean, g, m.mean);
        }
        if (inverse != NULL) {
            eng_ref_store(eng_ref_out_type(step, 2), inverse, g, m.inverse);
        }
    }
    return BASE_OK;
}

static enum base_status setup_norm(const struct eng_prepare *ctx, struct eng_step *step)
{
    const struct eng_norm *norm = &step->command->u.norm;
    bool has_scale = eng_ref_has(step, 1) || eng_ref_has(step, 2);
    if (has_scale && (norm->scale_count < 1 || (!norm->scale_per_group && norm->scale_inner < 1))) {
        return eng_ref_refuse(ctx, step, "scale without a count");
    }
    return BASE_OK;
}

const struct eng_ref_kernel eng_ref_norm[] = {
    {ENG_OP_NORM, ENG_REF_FLOATS, run_norm, setup_norm},
    {.run = NULL},
};

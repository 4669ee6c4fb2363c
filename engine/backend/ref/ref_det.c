// Determinants by elimination with partial pivoting, on a copy of each matrix in scratch. Reference
// kernel: found by ref_prepare.c on the planning thread, runs on the session's thread; no other
// backend has one. A pivot of 0 ends with 0, so nothing is ever divided by it; matrices that are
// not square are refused when the step is prepared.
#include "backend/ref/ref.h"

#include "backend/ref/ref_element.h"
#include "base/check.h"

#include <math.h>

// Destroys the matrix.
static double determinant(double *values, int64_t count)
{
    double product = 1;
    for (int64_t k = 0; k < count; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < count; i++) {
            pivot = fabs(values[i * count + k]) > fabs(values[pivot * count + k]) ? i : pivot;
        }
        if (values[pivot * count + k] == 0) {
            return 0;
        }
        for (int64_t j = 0; j < count && pivot != k; j++) {
            double swapped = values[k * count + j];
            values[k * count + j] = values[pivot * count + j];
            values[pivot * count + j] = swapped;
        }
        product *= pivot != k ? -values[k * count + k] : values[k * count + k];
        base_assert(values[k * count + k] != 0);
        for (int64_t i = k + 1; i < count; i++) {
            double factor = values[i * count + k] / values[k * count + k];
            for (int64_t j = k; j < count; j++) {
                values[i * count + j] -= factor * values[k * count + j];
            }
        }
    }
    return product;
}

static enum base_status run_det(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_desc *desc = &eng_ref_in_tensor(step, 0)->desc;
    base_assert(desc->rank >= 2);
    int64_t n = desc->dims[desc->rank - 1];
    int64_t batch = eng_desc_count(&eng_ref_out_tensor(step, 0)->desc);
    double *matrix = run->scratch;
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t i = 0; i < n * n; i++) {
            matrix[i] = eng_ref_load(desc->dtype, eng_ref_in(step, run, 0), b * n * n + i);
        }
        eng_ref_store(eng_ref_out_type(step, 0), eng_ref_out(step, run, 0), b,
                      determinant(matrix, n));
    }
    return BASE_OK;
}

static enum base_status setup_det(const struct eng_prepare *ctx, struct eng_step *step)
{
    const struct eng_desc *desc = &eng_ref_in_tensor(step, 0)->desc;
    if (desc->rank < 2 || desc->dims[desc->rank - 1] != desc->dims[desc->rank - 2]) {
        return eng_ref_refuse(ctx, step, "matrices that are not square");
    }
    int64_t n = desc->dims[desc->rank - 1];
    return eng_ref_scratch(step, n * n, sizeof(double));
}

const struct eng_ref_kernel eng_ref_det[] = {
    {ENG_OP_DET, ENG_REF_FLOATS, run_det, setup_det},
    {.run = NULL},
};

// Order along an axis: the largest, the k largest. Reference kernels: found by ref_prepare.c on the
// planning thread, run on the session's thread. Ties go to the lower index (or to the last, where
// an ARG_REDUCE asks for it), which a stable merge sort keeps; NaN is larger than any number. A
// column is sorted as a list of indices in scratch, so elements are never moved.
#include "backend/ref/ref.h"

#include "backend/ref/ref_element.h"
#include "base/check.h"

#include <math.h>
#include <string.h>

struct column {
    enum eng_dtype dtype;
    const void *data;
    int64_t first, stride;
    bool largest;
};

// Whether element a comes before element b; NaN is larger than any number.
static bool is_before(const struct column *column, int64_t left, int64_t right)
{
    int64_t at = column->first + left * column->stride, bt = column->first + right * column->stride;
    if (eng_ref_is(column->dtype, ENG_REF_FLOATS)) {
        double x = eng_ref_load(column->dtype, column->data, at),
               y = eng_ref_load(column->dtype, column->data, bt);
        if (isnan(x) || isnan(y)) {
            return column->largest ? isnan(x) && !isnan(y) : isnan(y) && !isnan(x);
        }
        return column->largest ? x > y : x < y;
    }
    int64_t x = eng_ref_load_int(column->dtype, column->data, at);
    int64_t y = eng_ref_load_int(column->dtype, column->data, bt);
    if (column->dtype == ENG_U64) {
        return column->largest ? (uint64_t)x > (uint64_t)y : (uint64_t)x < (uint64_t)y;
    }
    return column->largest ? x > y : x < y;
}

// Whether element `candidate` takes the place of the best so far. The first NaN is the extreme on
// either side, as it is for REDUCE (with `last` the last one).
static bool is_better(const struct column *column, bool last, int64_t candidate, int64_t best)
{
    if (eng_ref_is(column->dtype, ENG_REF_FLOATS)) {
        bool is_nan = isnan(
            eng_ref_load(column->dtype, column->data, column->first + candidate * column->stride));
        bool was_nan =
            isnan(eng_ref_load(column->dtype, column->data, column->first + best * column->stride));
        if (is_nan || was_nan) {
            return is_nan && (last || !was_nan);
        }
    }
    return last ? !is_before(column, best, candidate) : is_before(column, candidate, best);
}

static enum base_status run_arg_reduce(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_arg_reduce *arg = &step->command->u.arg_reduce;
    struct column c = {.dtype = eng_ref_in_type(step, 0),
                       .data = eng_ref_in(step, run, 0),
                       .stride = arg->inner,
                       .largest = arg->is_max};
    int64_t *out = eng_ref_out(step, run, 0);
    for (int64_t o = 0; o < arg->outer; o++) {
        for (int64_t i = 0; i < arg->inner; i++) {
            int64_t best = 0;
            c.first = o * arg->n * arg->inner + i;
            for (int64_t k = 1; k < arg->n; k++) {
                if (is_better(&c, arg->select_last, k, best)) {
                    best = k;
                }
            }
            out[o * arg->inner + i] = best;
        }
    }
    return BASE_OK;
}

// Two neighbouring runs of indices, each in order: [begin, middle) and [middle, end).
struct runs {
    int64_t begin, middle, end;
};

// Stable merge of both from `from` into `to`.
static void merge(const struct column *column, const int64_t *from, int64_t *to,
                  const struct runs *runs)
{
    int64_t a = runs->begin, b = runs->middle;
    base_assert(a <= b && b <= runs->end);
    for (int64_t i = runs->begin; i < runs->end; i++) {
        bool takes_b = a == runs->middle || (b < runs->end && is_before(column, from[b], from[a]));
        to[i] = takes_b ? from[b++] : from[a++];
    }
}

// Sorts 0..count-1 by the column; `order` and `spare` hold count each. Returns the one with the
// result.
static const int64_t *sort_column(const struct column *column, int64_t count, int64_t *order,
                                  int64_t *spare)
{
    base_assert(count == 0 || order != spare);
    for (int64_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t begin = 0; begin < count; begin += 2 * width) {
            struct runs runs = {begin, eng_ref_clamp(begin + width, 0, count),
                                eng_ref_clamp(begin + 2 * width, 0, count)};
            merge(column, order, spare, &runs);
        }
        int64_t *swapped = order;
        order = spare;
        spare = swapped;
    }
    return order;
}

static enum base_status run_topk(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_topk *topk = &step->command->u.topk;
    struct column c = {.dtype = eng_ref_in_type(step, 0),
                       .data = eng_ref_in(step, run, 0),
                       .stride = topk->inner,
                       .largest = topk->largest};
    size_t bytes = eng_dtype_bytes(c.dtype);
    base_assert(topk->k >= 0 && topk->k <= topk->n);
    uint8_t *values = eng_ref_out(step, run, 0);
    int64_t *indices = eng_ref_out(step, run, 1), *scratch = run->scratch;
    for (int64_t o = 0; o < topk->outer; o++) {
        for (int64_t i = 0; i < topk->inner; i++) {
            c.first = o * topk->n * topk->inner + i;
            const int64_t *order = sort_column(&c, topk->n, scratch, scratch + topk->n);
            for (int64_t k = 0; k < topk->k; k++) {
                int64_t to = (o * topk->k + k) * topk->inner + i;
                int64_t from = c.first + order[k] * c.stride;
                if (values != NULL) {
                    memcpy(values + (size_t)to * bytes,
                           (const uint8_t *)c.data + (size_t)from * bytes, bytes);
                }
                if (indices != NULL) {
                    indices[to] = order[k];
                }
            }
        }
    }
    return BASE_OK;
}

static enum base_status setup_topk(const struct eng_prepare *ctx, struct eng_step *step)
{
    const struct eng_topk *topk = &step->command->u.topk;
    if (topk->k < 0 || topk->k > topk->n) {
        return eng_ref_refuse(ctx, step, "more than there are");
    }
    return eng_ref_scratch(step, topk->n, 2 * sizeof(int64_t));
}

const struct eng_ref_kernel eng_ref_sort[] = {
    {ENG_OP_ARG_REDUCE, ENG_REF_NUMBERS, run_arg_reduce, NULL},
    {ENG_OP_TOPK, ENG_REF_NUMBERS, run_topk, setup_topk},
    {.run = NULL},
};

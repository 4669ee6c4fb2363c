// Reductions over the middle of [outer, n, inner]: reduce, cumulative sums, softmax. Sums are kept
// in double, integers in 64 bits. Reference kernels: found by ref_prepare.c on the planning thread,
// run on the session's thread. NaN wins over every number in a maximum or minimum, and the extreme
// of nothing is the type's least or largest number; cpu/vec_reduce.c and cpu/vec_rows.c are the
// fast ones for floats.
#include "backend/ref/ref.h"

#include "backend/ref/ref_element.h"
#include "base/check.h"

#include <math.h>

// --- reduce -----------------------------------------------------------------------------------

struct lane {
    enum eng_dtype dtype;
    const void *data;
    int64_t first, stride, count;
};

static double at(const struct lane *lane, int64_t index)
{
    return eng_ref_load(lane->dtype, lane->data, lane->first + index * lane->stride);
}

static double extreme(const struct lane *lane, enum eng_binary_fn fn)
{
    base_assert(fn == ENG_MAX || fn == ENG_MIN);
    double best = fn == ENG_MAX ? -INFINITY : INFINITY;
    for (int64_t i = 0; i < lane->count; i++) {
        best = eng_scalar_binary(fn, best, at(lane, i));
    }
    return best;
}

static double log_sum_exp(const struct lane *lane)
{
    double most = extreme(lane, ENG_MAX), sum = 0;
    if (!isfinite(most)) { // -inf: nothing to add up; +inf and NaN win
        return most;
    }
    for (int64_t i = 0; i < lane->count; i++) {
        sum += exp(at(lane, i) - most);
    }
    return most + log(sum);
}

static double sum_of(const struct lane *lane, enum eng_reduce_fn fn)
{
    double sum = 0;
    for (int64_t i = 0; i < lane->count; i++) {
        double x = at(lane, i);
        sum += fn == ENG_REDUCE_L1                                  ? fabs(x)
               : fn == ENG_REDUCE_L2 || fn == ENG_REDUCE_SUM_SQUARE ? x * x
                                                                    : x;
    }
    return sum;
}

static double reduce_float(const struct lane *lane, enum eng_reduce_fn fn)
{
    double product = 1;
    switch (fn) {
    case ENG_REDUCE_MAX:
        return extreme(lane, ENG_MAX);
    case ENG_REDUCE_MIN:
        return extreme(lane, ENG_MIN);
    case ENG_REDUCE_LOG_SUM_EXP:
        return log_sum_exp(lane);
    case ENG_REDUCE_PROD:
        for (int64_t i = 0; i < lane->count; i++) {
            product *= at(lane, i);
        }
        return product;
    case ENG_REDUCE_MEAN:
        return sum_of(lane, fn) / (double)lane->count;
    case ENG_REDUCE_L2:
        return sqrt(sum_of(lane, fn));
    case ENG_REDUCE_LOG_SUM:
        return log(sum_of(lane, fn));
    default:
        base_assert(fn == ENG_REDUCE_SUM || fn == ENG_REDUCE_SUM_SQUARE || fn == ENG_REDUCE_L1);
        return sum_of(lane, fn);
    }
}

// The least (for a maximum) or largest number of an integer type: the extreme of nothing.
static int64_t worst_int(enum eng_dtype dtype, bool is_max)
{
    base_assert(eng_ref_is(dtype, ENG_REF_INTS));
    unsigned spare = 64 - 8 * (unsigned)eng_dtype_bytes(dtype);
    bool is_unsigned = dtype == ENG_U8 || dtype == ENG_U16 || dtype == ENG_U32 || dtype == ENG_U64;
    if (is_unsigned) {
        return is_max ? 0 : (int64_t)(UINT64_MAX >> spare);
    }
    return is_max ? INT64_MIN / ((int64_t)1 << spare) : INT64_MAX >> spare;
}

static int64_t extreme_int(const struct lane *lane, bool is_max)
{
    bool is_signed = lane->dtype != ENG_U64;
    int64_t best = 0;
    if (lane->count == 0) {
        return worst_int(lane->dtype, is_max);
    }
    for (int64_t i = 0; i < lane->count; i++) {
        int64_t x = eng_ref_load_int(lane->dtype, lane->data, lane->first + i * lane->stride);
        bool is_less = is_signed ? x < best : (uint64_t)x < (uint64_t)best;
        if (i == 0 || (x != best && is_less != is_max)) {
            best = x;
        }
    }
    return best;
}

static int64_t reduce_int(const struct lane *lane, enum eng_reduce_fn fn)
{
    uint64_t sum = 0, product = 1, squares = 0, absolutes = 0;
    base_assert(!eng_ref_is(lane->dtype, ENG_REF_FLOATS) && (unsigned)fn < ENG_REDUCE_COUNT);
    if (fn == ENG_REDUCE_MAX || fn == ENG_REDUCE_MIN) {
        return extreme_int(lane, fn == ENG_REDUCE_MAX);
    }
    for (int64_t i = 0; i < lane->count; i++) {
        int64_t x = eng_ref_load_int(lane->dtype, lane->data, lane->first + i * lane->stride);
        uint64_t u = (uint64_t)x;
        sum += u;
        product *= u;
        squares += u * u;
        absolutes += x < 0 && lane->dtype != ENG_U64 ? 0 - u : u;
    }
    switch (fn) {
    case ENG_REDUCE_SUM:
        return (int64_t)sum;
    case ENG_REDUCE_PROD:
        return (int64_t)product;
    case ENG_REDUCE_SUM_SQUARE:
        return (int64_t)squares;
    case ENG_REDUCE_L1:
        return (int64_t)absolutes;
    case ENG_REDUCE_MEAN:
        if (lane->count == 0) {
            return 0;
        }
        return lane->dtype == ENG_U64 ? (int64_t)(sum / (uint64_t)lane->count)
                                      : (int64_t)sum / lane->count;
    default:
        return eng_ref_to_i64(reduce_float(lane, fn));
    }
}

static enum base_status run_reduce(const struct eng_step *step, const struct eng_run *run)
{
    base_assert(eng_desc_count(&eng_ref_in_tensor(step, 0)->desc) ==
                step->command->u.reduce.outer * step->command->u.reduce.n *
                    step->command->u.reduce.inner);
    const struct eng_reduce *reduce = &step->command->u.reduce;
    enum eng_dtype to = eng_ref_out_type(step, 0);
    struct lane lane = {.dtype = eng_ref_in_type(step, 0),
                        .data = eng_ref_in(step, run, 0),
                        .stride = reduce->inner,
                        .count = reduce->n};
    void *y = eng_ref_out(step, run, 0);
    bool is_float = eng_ref_is(lane.dtype, ENG_REF_FLOATS);
    for (int64_t o = 0; o < reduce->outer; o++) {
        for (int64_t i = 0; i < reduce->inner; i++) {
            int64_t out = o * reduce->inner + i;
            lane.first = o * reduce->n * reduce->inner + i;
            if (is_float) {
                eng_ref_store(to, y, out, reduce_float(&lane, reduce->fn));
            } else {
                eng_ref_store_int(to, y, out, reduce_int(&lane, reduce->fn));
            }
        }
    }
    return BASE_OK;
}

// --- cumulative sums --------------------------------------------------------------------------

static void cumsum_lane(const struct eng_cumsum *cumsum, const struct lane *lane, void *output)
{
    double sum = 0;
    uint64_t whole = 0;
    bool is_float = eng_ref_is(lane->dtype, ENG_REF_FLOATS);
    for (int64_t i = 0; i < lane->count; i++) {
        int64_t place = lane->first + (cumsum->reverse ? lane->count - 1 - i : i) * lane->stride;
        double before = sum;
        uint64_t whole_before = whole;
        if (is_float) {
            sum += eng_ref_load(lane->dtype, lane->data, place);
            eng_ref_store(lane->dtype, output, place, cumsum->exclusive ? before : sum);
        } else {
            whole += (uint64_t)eng_ref_load_int(lane->dtype, lane->data, place);
            eng_ref_store_int(lane->dtype, output, place,
                              (int64_t)(cumsum->exclusive ? whole_before : whole));
        }
    }
}

static enum base_status run_cumsum(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_cumsum *cumsum = &step->command->u.cumsum;
    struct lane lane = {.dtype = eng_ref_in_type(step, 0),
                        .data = eng_ref_in(step, run, 0),
                        .stride = cumsum->inner,
                        .count = cumsum->n};
    for (int64_t o = 0; o < cumsum->outer; o++) {
        for (int64_t i = 0; i < cumsum->inner; i++) {
            lane.first = o * cumsum->n * cumsum->inner + i;
            cumsum_lane(cumsum, &lane, eng_ref_out(step, run, 0));
        }
    }
    return BASE_OK;
}

// --- softmax ----------------------------------------------------------------------------------

static enum base_status run_softmax(const struct eng_step *step, const struct eng_run *run)
{
    base_assert(eng_ref_out_type(step, 0) == eng_ref_in_type(step, 0));
    const struct eng_softmax *softmax = &step->command->u.softmax;
    struct lane lane = {.dtype = eng_ref_in_type(step, 0),
                        .data = eng_ref_in(step, run, 0),
                        .stride = softmax->inner,
                        .count = softmax->n};
    void *y = eng_ref_out(step, run, 0);
    for (int64_t o = 0; o < softmax->outer; o++) {
        for (int64_t in = 0; in < softmax->inner; in++) {
            lane.first = o * softmax->n * softmax->inner + in;
            double most = extreme(&lane, ENG_MAX), sum = 0;
            for (int64_t i = 0; i < softmax->n; i++) {
                sum += exp(at(&lane, i) - most);
            }
            double log_sum = log(sum);
            for (int64_t i = 0; i < softmax->n; i++) {
                double x = at(&lane, i) - most;
                eng_ref_store(lane.dtype, y, lane.first + i * lane.stride,
                              softmax->log ? x - log_sum : exp(x) / sum);
            }
        }
    }
    return BASE_OK;
}

const struct eng_ref_kernel eng_ref_reduce[] = {
    {ENG_OP_REDUCE, ENG_REF_NUMBERS, run_reduce, NULL},
    {ENG_OP_CUMSUM, ENG_REF_NUMBERS, run_cumsum, NULL},
    {ENG_OP_SOFTMAX, ENG_REF_FLOATS, run_softmax, NULL},
    {.run = NULL},
};

// Resize of any number of dimensions: one pass per dimension that changes, over doubles in scratch.
// Reference kernel: found by ref_prepare.c on the planning thread, runs on the session's thread; no
// other backend has one. The weights of one place are also asked for by train/autodiff_resize.c, on
// the trainer's thread: a gradient needs the same ones the other way round, so what ONNX asks of
// coordinates, rounding and edges is written once, here.
#include "backend/ref/ref_resize.h"

#include "backend/ref/ref.h"
#include "backend/ref/ref_element.h"
#include "base/check.h"

#include <math.h>

// One dimension.
struct axis {
    const struct eng_resize *resize;
    int64_t in, out;
    double scale, resized; // resized: in * scale, not rounded when scales were given
    double roi_begin, roi_end;
    double *weights; // scratch for those of one place, of a wide axis
};

static struct axis axis_of(const struct eng_resize *resize, uint32_t dim, int64_t in, int64_t out)
{
    base_assert(dim < ENG_RANK_MAX && in > 0 && out >= 0);
    struct axis a = {.resize = resize,
                     .in = in,
                     .out = out,
                     .roi_begin = (double)resize->roi_begin[dim],
                     .roi_end = (double)resize->roi_end[dim]};
    // A scale that came from sizes is taken at full precision.
    double exact = (double)a.out / (double)a.in, scale = (double)resize->scale[dim];
    a.scale = scale <= 0 || fabs(scale - exact) < 1e-6 * exact ? exact : scale;
    a.resized = a.scale * (double)a.in;
    return a;
}

static double source_of(const struct axis *axis, int64_t index)
{
    base_assert((unsigned)axis->resize->coord <= ENG_COORD_TF_CROP);
    double x = (double)index, last = (double)axis->in - 1;
    switch (axis->resize->coord) {
    case ENG_COORD_ALIGN_CORNERS:
        return axis->resized == 1 ? 0 : x * last / (axis->resized - 1);
    case ENG_COORD_ASYMMETRIC:
        return x / axis->scale;
    case ENG_COORD_TF_CROP:
        return axis->out > 1 ? axis->roi_begin * last + x * (axis->roi_end - axis->roi_begin) *
                                                            last / (axis->resized - 1)
                             : 0.5 * (axis->roi_begin + axis->roi_end) * last;
    case ENG_COORD_HALF_PIXEL_SYMMETRIC:
        return (x + 0.5) / axis->scale - 0.5 +
               (1 - (double)axis->out / axis->resized) * (double)axis->in / 2;
    case ENG_COORD_TF_HALF_PIXEL:
        return (x + 0.5) / axis->scale;
    case ENG_COORD_PYTORCH_HALF_PIXEL:
        return axis->out > 1 ? (x + 0.5) / axis->scale - 0.5 : 0;
    default:
        return (x + 0.5) / axis->scale - 0.5;
    }
}

static double nearest(enum eng_resize_round round, double value)
{
    switch (round) {
    case ENG_ROUND_PREFER_CEIL:
        return floor(value + 0.5);
    case ENG_ROUND_FLOOR:
        return floor(value);
    case ENG_ROUND_CEIL:
        return ceil(value);
    default:
        return ceil(value - 0.5);
    }
}

// Weight of an element at `distance` >= 0.
static double cubic(double distance, double coefficient)
{
    if (distance <= 1) {
        return ((coefficient + 2) * distance - (coefficient + 3)) * distance * distance + 1;
    }
    return distance < 2
               ? ((coefficient * distance - 5 * coefficient) * distance + 8 * coefficient) *
                         distance -
                     4 * coefficient
               : 0;
}

static struct eng_resize_taps taps_of(const struct axis *axis, int64_t index)
{
    const struct eng_resize *r = axis->resize;
    struct eng_resize_taps t = {0};
    base_assert(axis->in > 0 && index >= 0 && index < axis->out);
    double x = source_of(axis, index), last = (double)axis->in - 1, first = floor(x), sum = 0;
    t.is_outside = r->coord == ENG_COORD_TF_CROP && !(x >= 0 && x <= last);
    if (r->fn == ENG_RESIZE_NEAREST) {
        t.count = 1;
        t.at[0] = eng_ref_clamp(eng_ref_to_i64(nearest(r->round, x)), 0, axis->in - 1);
        t.weight[0] = 1;
        return t;
    }
    t.count = r->fn == ENG_RESIZE_LINEAR ? 2 : 4;
    first -= t.count / 2 - 1;
    for (int k = 0; k < t.count; k++) {
        double place = first + k, distance = fabs(x - place);
        t.at[k] = eng_ref_clamp(eng_ref_to_i64(place), 0, axis->in - 1);
        t.weight[k] = t.count == 2 ? 1 - distance : cubic(distance, (double)r->cubic_a);
        if (r->exclude_outside && !(place >= 0 && place <= last)) {
            t.weight[k] = 0;
        }
        sum += t.weight[k];
    }
    for (int k = 0; k < t.count && r->exclude_outside && sum != 0; k++) {
        t.weight[k] /= sum;
    }
    return t;
}

struct eng_resize_taps eng_resize_taps_of(const struct eng_resize *resize, uint32_t dim, int64_t in,
                                          int64_t out, int64_t index)
{
    struct axis a = axis_of(resize, dim, in, out);
    return taps_of(&a, index);
}

// Whether a pass would change nothing.
static bool is_identity(const struct axis *axis)
{
    return axis->in == axis->out && axis->scale == 1 && axis->resize->coord != ENG_COORD_TF_CROP &&
           axis->resize->coord != ENG_COORD_TF_HALF_PIXEL;
}

bool eng_resize_is_identity(const struct eng_resize *resize, uint32_t dim, int64_t in, int64_t out)
{
    struct axis a = axis_of(resize, dim, in, out);
    return is_identity(&a);
}

// Whether the axis is made smaller with weights that reach over more elements.
static bool is_wide(const struct axis *axis)
{
    return axis->resize->antialias && axis->resize->fn != ENG_RESIZE_NEAREST && axis->scale < 1;
}

// Weights of the elements from *out_first on, *out_count of them, for a place of the result. They
// add up to 1. Places outside count for the edges, or not at all.
static void wide_weights(const struct axis *axis, int64_t index, int64_t *out_first,
                         int64_t *out_count)
{
    double *weights = axis->weights;
    base_assert(weights != NULL && axis->scale > 0 && axis->scale < 1);
    const struct eng_resize *r = axis->resize;
    double reach = (r->fn == ENG_RESIZE_LINEAR ? 1 : 2) / axis->scale, x = source_of(axis, index),
           sum = 0;
    double begin = floor(x - reach) + 1, end = ceil(x + reach);
    int64_t first = eng_ref_clamp(eng_ref_to_i64(begin), 0, axis->in - 1);
    int64_t last = eng_ref_clamp(eng_ref_to_i64(end) - 1, 0, axis->in - 1);
    for (int64_t k = first; k <= last; k++) {
        weights[k - first] = 0;
    }
    for (double place = begin; place < end; place++) {
        double d = fabs(place - x) * axis->scale;
        double weight = r->fn == ENG_RESIZE_CUBIC ? cubic(d, (double)r->cubic_a)
                        : d < 1                   ? 1 - d
                                                  : 0;
        int64_t at = eng_ref_clamp(eng_ref_to_i64(place), 0, axis->in - 1);
        if (!r->exclude_outside || (double)at == place) {
            weights[at - first] += weight;
            sum += weight;
        }
    }
    for (int64_t k = first; k <= last && sum != 0; k++) {
        weights[k - first] /= sum;
    }
    *out_first = first;
    *out_count = last - first + 1;
    base_assert(*out_count > 0 && *out_count <= axis->in);
}

static void resize_axis_wide(const struct axis *axis, const double *from, double *to, int64_t outer,
                             int64_t inner)
{
    const double *weights = axis->weights;
    for (int64_t i = 0; i < axis->out; i++) {
        int64_t first = 0, count = 0;
        wide_weights(axis, i, &first, &count);
        for (int64_t o = 0; o < outer; o++) {
            for (int64_t j = 0; j < inner; j++) {
                double sum = 0;
                for (int64_t k = 0; k < count; k++) {
                    sum += weights[k] * from[(o * axis->in + first + k) * inner + j];
                }
                to[(o * axis->out + i) * inner + j] = sum;
            }
        }
    }
}

// [outer, in, inner] -> [outer, out, inner].
static void resize_axis(const struct axis *axis, const double *from, double *to, int64_t outer,
                        int64_t inner)
{
    for (int64_t i = 0; i < axis->out; i++) {
        struct eng_resize_taps t = taps_of(axis, i);
        for (int64_t o = 0; o < outer; o++) {
            for (int64_t j = 0; j < inner; j++) {
                double sum = 0;
                for (int k = 0; k < t.count; k++) {
                    sum += t.weight[k] == 0
                               ? 0
                               : t.weight[k] * from[(o * axis->in + t.at[k]) * inner + j];
                }
                to[(o * axis->out + i) * inner + j] =
                    t.is_outside ? (double)axis->resize->extrapolation : sum;
            }
        }
    }
}

// Elements of the largest of the intermediate results.
static int64_t largest_stage(const struct eng_step *step)
{
    const struct eng_desc *in = &eng_ref_in_tensor(step, 0)->desc;
    const struct eng_desc *out = &eng_ref_out_tensor(step, 0)->desc;
    int64_t most = 0;
    for (uint32_t stage = 0; stage <= in->rank; stage++) {
        struct eng_desc desc = *in;
        int64_t count = 0;
        for (uint32_t d = 0; d < stage; d++) {
            desc.dims[d] = out->dims[d];
        }
        if (eng_desc_check(&desc, &count) != BASE_OK) {
            return -1;
        }
        most = count > most ? count : most;
    }
    return most;
}

static enum base_status run_resize(const struct eng_step *step, const struct eng_run *run)
{
    const struct eng_desc *in = &eng_ref_in_tensor(step, 0)->desc;
    const struct eng_desc *out = &eng_ref_out_tensor(step, 0)->desc;
    int64_t outer = 1, inner = eng_desc_count(in), count = eng_desc_count(out);
    if (count == 0) {
        return BASE_OK;
    }
    if (inner == 0) {
        return base_error_set(run->error, BASE_ERR_INVALID, "nothing can be resized to something");
    }
    base_assert(in->rank == out->rank);
    double *from = run->scratch, *to = from + largest_stage(step);
    double *weights = to + largest_stage(step);
    for (int64_t i = 0; i < inner; i++) {
        from[i] = eng_ref_load(in->dtype, eng_ref_in(step, run, 0), i);
    }
    for (uint32_t d = 0; d < in->rank; d++) {
        struct axis a = axis_of(step->command->u.resize, d, in->dims[d], out->dims[d]);
        inner /= a.in;
        if (!is_identity(&a)) {
            if (is_wide(&a)) {
                a.weights = weights;
                resize_axis_wide(&a, from, to, outer, inner);
            } else {
                resize_axis(&a, from, to, outer, inner);
            }
            double *swapped = from;
            from = to;
            to = swapped;
        }
        outer *= a.out;
    }
    for (int64_t i = 0; i < count; i++) {
        eng_ref_store(out->dtype, eng_ref_out(step, run, 0), i, from[i]);
    }
    return BASE_OK;
}

static enum base_status setup_resize(const struct eng_prepare *ctx, struct eng_step *step)
{
    const struct eng_desc *in = &eng_ref_in_tensor(step, 0)->desc;
    const struct eng_desc *out = &eng_ref_out_tensor(step, 0)->desc;
    if (in->rank != out->rank || (eng_desc_count(in) == 0 && eng_desc_count(out) != 0)) {
        return eng_ref_refuse(ctx, step, "something out of nothing");
    }
    // Two stages, and the weights of one place, which are no more than one dimension.
    return eng_ref_scratch(step, largest_stage(step), 3 * sizeof(double));
}

const struct eng_ref_kernel eng_ref_resize[] = {
    {ENG_OP_RESIZE, ENG_REF_NUMBERS, run_resize, setup_resize},
    {.run = NULL},
};

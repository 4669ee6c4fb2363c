// resize of walle.cv, and what a model's input is made of in one go. Along each side, every place
// of the result is a few places of the image, each with a weight; rows are resized across as they
// are needed, and kept while they are. uint8 by INTER_LINEAR is computed in whole numbers of 11
// bits, as OpenCV does. Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"

#include <float.h>
#include <math.h>

enum { NEAREST, LINEAR, CUBIC, AREA };

#define TAPS_CUBIC 4
#define FIXED      2048 // what a weight of 1 is in whole numbers

// How a side is resized: place i of the result is `taps` places from first[i] on, held within the
// side, with weights[i * taps + ...].
struct side {
    int64_t from;
    int64_t to;
    int64_t taps;
    double scale;  // places of the image for one of the result
    double *first; // whole numbers
    double *weights;
};

static int64_t held(int64_t at, int64_t size)
{
    return at < 0 ? 0 : at >= size ? size - 1 : at;
}

static void cubic_set(double part, double *weights)
{
    const double a = -0.75;
    double near = part;
    double other = 1 - part;
    weights[0] = ((a * (near + 1) - 5 * a) * (near + 1) + 8 * a) * (near + 1) - 4 * a;
    weights[1] = ((a + 2) * near - (a + 3)) * near * near + 1;
    weights[2] = ((a + 2) * other - (a + 3)) * other * other + 1;
    weights[3] = 1 - weights[0] - weights[1] - weights[2];
}

// Where in the image a place of the result is; of an enlarged area OpenCV takes other places.
static double place_of(const struct side *side, int64_t i, int how)
{
    if (how != AREA) {
        return (double)(float)(((double)i + 0.5) * side->scale - 0.5);
    }
    double first = floor((double)i * side->scale);
    double part = (double)(float)((double)(i + 1) - (first + 1) / side->scale);
    return first + (part <= 0 ? 0 : part - floor(part));
}

static void point_set(const struct side *side, int64_t i, int how, bool is_across)
{
    if (how == NEAREST) {
        side->first[i] = (double)held((int64_t)floor((double)i * side->scale), side->from);
        side->weights[i] = 1;
        return;
    }
    double at = place_of(side, i, how);
    double first = floor(at);
    double part = at - first;
    if (how == CUBIC) {
        side->first[i] = first - 1;
        cubic_set(part, side->weights + i * TAPS_CUBIC);
        return;
    }
    if (is_across && (first < 0 || first >= (double)(side->from - 1))) {
        part = 0;
    }
    side->first[i] = first;
    side->weights[2 * i] = 1 - part;
    side->weights[2 * i + 1] = part;
}

// The share that each place of the image has in one of the result.
static void share_set(const struct side *side, int64_t i)
{
    double low = (double)i * side->scale;
    double high = low + side->scale;
    double wide = fmin(side->scale, (double)side->from - low);
    double first = floor(low + 1e-3 < ceil(low) ? low : rint(low));
    side->first[i] = first;
    for (int64_t k = 0; k < side->taps; k++) {
        double begin = fmax(low, first + (double)k);
        double end = fmin(fmin(high, first + (double)k + 1), (double)side->from);
        double share = end - begin;
        side->weights[i * side->taps + k] = share > 1e-3 || side->taps == 1 ? share / wide : 0;
    }
}

static void side_set(struct side *side, int how, bool is_across, bool is_shrunk)
{
    size_t owed = 0;
    side->taps = how == NEAREST ? 1 : how == CUBIC ? TAPS_CUBIC : 2;
    if (is_shrunk) {
        side->taps = (int64_t)ceil(side->scale) + 1;
    }
    side->first = dev_cv_scratch((size_t)side->to);
    side->weights = dev_cv_scratch((size_t)(side->to * side->taps));
    for (int64_t i = 0; i < side->to; i++) {
        if (is_shrunk) {
            share_set(side, i);
        } else {
            point_set(side, i, how, is_across);
        }
        dev_cv_pay(&owed, (size_t)side->taps);
    }
}

// Whole weights of two taps.
static void side_fix(const struct side *side)
{
    for (int64_t i = 0; i < 2 * side->to; i++) {
        side->weights[i] = rint((double)((float)side->weights[i] * FIXED));
    }
}

struct resizing {
    struct cv_image from;
    struct side across;
    struct side down;
    bool is_fixed; // weights are whole numbers
    double *row;   // of the image
    double *kept;  // rows that were resized across, one behind another: row r at r % kept_count
    int64_t kept_count;
    int64_t kept_to; // rows before this one are there
    double *sum;     // a row of the result
};

static void across_row(const struct resizing *job, int64_t row, double *to)
{
    const struct side *side = &job->across;
    const int64_t channels = job->from.channels;
    dev_cv_load(&job->from, row, job->row);
    for (int64_t i = 0; i < side->to; i++) {
        const double *weights = side->weights + i * side->taps;
        int64_t first = (int64_t)side->first[i];
        for (int64_t c = 0; c < channels; c++) {
            double sum = 0;
            for (int64_t k = 0; k < side->taps; k++) {
                sum += weights[k] * job->row[held(first + k, side->from) * channels + c];
            }
            to[i * channels + c] = sum;
        }
    }
}

static double *kept_row(const struct resizing *job, int64_t row)
{
    return job->kept + (row % job->kept_count) * job->across.to * job->from.channels;
}

// Rows as whole numbers, as OpenCV adds up two of them.
static void fixed_sum(const struct resizing *job, int64_t row, const double *weights, size_t items)
{
    const double *one = kept_row(job, held(row, job->down.from));
    const double *other = kept_row(job, held(row + 1, job->down.from));
    const int64_t first = (int64_t)weights[0];
    const int64_t second = (int64_t)weights[1];
    for (size_t i = 0; i < items; i++) {
        int64_t sum =
            ((first * ((int64_t)one[i] >> 4)) >> 16) + ((second * ((int64_t)other[i] >> 4)) >> 16);
        job->sum[i] = (double)((sum + 2) >> 2);
    }
}

static void real_sum(const struct resizing *job, int64_t row, const double *weights, size_t items)
{
    for (size_t i = 0; i < items; i++) {
        job->sum[i] = 0;
    }
    for (int64_t k = 0; k < job->down.taps; k++) {
        const double *from = kept_row(job, held(row + k, job->down.from));
        const double weight = weights[k];
        for (size_t i = 0; i < items; i++) {
            job->sum[i] += weight * from[i];
        }
    }
}

// Leaves row y of the result in job->sum. Asked for in order.
static void row_make(struct resizing *job, int64_t y, size_t *owed)
{
    size_t items = (size_t)job->across.to * job->from.channels;
    int64_t first = (int64_t)job->down.first[y];
    int64_t last = held(first + job->down.taps - 1, job->down.from);
    int64_t from = held(first, job->down.from);
    if (job->kept_to < from) {
        job->kept_to = from; // rows that no place of the result is made of
    }
    for (; job->kept_to <= last; job->kept_to++) {
        across_row(job, job->kept_to, kept_row(job, job->kept_to));
        dev_cv_pay(owed, dev_cv_row_items(&job->from) + items * (size_t)job->across.taps);
    }
    const double *weights = job->down.weights + y * job->down.taps;
    (job->is_fixed ? fixed_sum : real_sum)(job, first, weights, items);
    dev_cv_pay(owed, items * (size_t)job->down.taps);
}

static bool is_whole(double scale)
{
    return fabs(scale - rint(scale)) < DBL_EPSILON;
}

// Allocates all that rows are made of. `job` has the image, and the sizes and scales of both sides.
static void resizing_begin(struct resizing *job, int how)
{
    const double across = job->across.scale;
    const double down = job->down.scale;
    if (how == LINEAR && across == 2 && down == 2 && is_whole(across)) {
        how = AREA;
    }
    bool is_shrunk = how == AREA && across >= 1 && down >= 1;
    side_set(&job->across, how, true, is_shrunk);
    side_set(&job->down, how, false, is_shrunk);
    job->is_fixed = job->is_fixed && job->from.type == NP_U8 && job->across.taps == 2 &&
                    job->down.taps == 2 && how != CUBIC && !is_shrunk;
    if (job->is_fixed) {
        side_fix(&job->across);
        side_fix(&job->down);
    }
    job->kept_count = job->down.taps < job->from.rows ? job->down.taps : job->from.rows;
    size_t items = (size_t)job->across.to * job->from.channels;
    job->row = dev_cv_scratch(dev_cv_row_items(&job->from));
    job->kept = dev_cv_scratch(items * (size_t)job->kept_count);
    job->sum = dev_cv_scratch(items);
    job->kept_to = 0;
}

// The sizes of a result, by `dsize` or else by the factors.
static void sizes_take(struct resizing *job, mp_obj_t dsize, double fx, double fy)
{
    int64_t size[2] = {0, 0};
    if (dsize != mp_const_none) {
        dev_cv_pair(dsize, size);
    }
    bool is_scaled = size[0] == 0 && size[1] == 0;
    if (is_scaled) {
        double wide = rint((double)job->from.columns * fx);
        double high = rint((double)job->from.rows * fy);
        if (!(wide >= 1 && high >= 1 && wide <= INT32_MAX && high <= INT32_MAX)) {
            dev_cv_bad("resize to a size, or by factors above 0");
        }
        size[0] = (int64_t)wide;
        size[1] = (int64_t)high;
    }
    if (size[0] <= 0 || size[1] <= 0) {
        dev_cv_bad("a size is above 0");
    }
    job->across.from = job->from.columns;
    job->across.to = size[0];
    job->across.scale = 1 / (is_scaled ? fx : (double)size[0] / (double)job->from.columns);
    job->down.from = job->from.rows;
    job->down.to = size[1];
    job->down.scale = 1 / (is_scaled ? fy : (double)size[1] / (double)job->from.rows);
}

// resize(src, dsize[, dst[, fx[, fy[, interpolation]]]])
static mp_obj_t resize(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DSIZE, DST, FX, FY, INTERPOLATION };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_NEEDS(dsize),
                                     CV_MAY(dst),   CV_MAY(fx),
                                     CV_MAY(fy),    CV_MAY_INT(interpolation, LINEAR)};
    CV_PARSE(table);
    struct resizing job = {.from = dev_cv_take(values[SRC].u_obj, CV_ALL), .is_fixed = true};
    mp_int_t how = values[INTERPOLATION].u_int;
    if (how < NEAREST || how > AREA || (job.from.type == NP_I32 && how != NEAREST)) {
        dev_cv_bad("resize by INTER_NEAREST, INTER_LINEAR, INTER_CUBIC or INTER_AREA; int32 by the "
                   "first");
    }
    sizes_take(&job, values[DSIZE].u_obj, dev_cv_real(values[FX].u_obj, 0),
               dev_cv_real(values[FY].u_obj, 0));
    struct np_array *made =
        dev_cv_new(job.from.type, job.down.to, job.across.to, job.from.channels);
    struct cv_image to = dev_cv_of(made);
    resizing_begin(&job, (int)how);
    size_t owed = 0;
    for (int64_t y = 0; y < to.rows; y++) {
        row_make(&job, y, &owed);
        dev_cv_store(to.type, (uint8_t *)(uintptr_t)dev_cv_row(&to, y), job.sum,
                     dev_cv_row_items(&to));
    }
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_resize_obj, 2, resize);

// The part of an image that a rectangle (x, y, width, height) has.
static void crop(struct cv_image *image, mp_obj_t rect)
{
    if (rect == mp_const_none) {
        return;
    }
    size_t size;
    mp_obj_t *items;
    mp_obj_get_array(rect, &size, &items);
    if (size != 4) {
        dev_cv_bad("a rectangle is x, y, width and height");
    }
    int64_t x = mp_obj_get_int(items[0]);
    int64_t y = mp_obj_get_int(items[1]);
    int64_t wide = mp_obj_get_int(items[2]);
    int64_t high = mp_obj_get_int(items[3]);
    if (x < 0 || y < 0 || wide <= 0 || high <= 0 || x > image->columns || y > image->rows ||
        wide > image->columns - x || high > image->rows - y) {
        dev_cv_bad("the rectangle is not within the image");
    }
    size_t pixel = dev_np_item(image->type) * image->channels;
    image->data += y * image->step + (int64_t)pixel * x;
    image->rows = high;
    image->columns = wide;
}

// crop_resize_normalize(src, dsize, rect=None, mean=0, scale=1, swapRB=False): an image as models
// take it, float32 of 1 x channels x rows x columns: each channel less its mean, times its scale.
static mp_obj_t crop_resize_normalize(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DSIZE, RECT, MEAN, SCALE, SWAP, CHANNELS = 4 };
    static const mp_arg_t table[] = {
        CV_NEEDS(src), CV_NEEDS(dsize), CV_MAY(rect),
        CV_MAY(mean),  CV_MAY(scale),   {MP_QSTR_swapRB, MP_ARG_BOOL, {.u_bool = false}}};
    CV_PARSE(table);
    struct resizing job = {.from = dev_cv_take(values[SRC].u_obj, CV_ALL)};
    if (job.from.channels > CHANNELS) {
        dev_cv_bad("of at most four channels");
    }
    crop(&job.from, values[RECT].u_obj);
    double means[CHANNELS];
    double scales[CHANNELS] = {1, 1, 1, 1};
    dev_cv_scalar(values[MEAN].u_obj, means);
    if (values[SCALE].u_obj != mp_const_none) {
        dev_cv_scalar(values[SCALE].u_obj, scales);
    }
    for (size_t c = 1; c < CHANNELS; c++) {
        means[c] = dev_np_number_type(values[MEAN].u_obj) != NP_TYPES ? means[0] : means[c];
        scales[c] = dev_np_number_type(values[SCALE].u_obj) != NP_TYPES ? scales[0] : scales[c];
    }
    sizes_take(&job, values[DSIZE].u_obj, 0, 0);
    const int64_t channels = job.from.channels;
    int64_t dims[] = {1, channels, job.down.to, job.across.to};
    struct np_array *made = dev_np_new(NP_F32, 4, dims);
    resizing_begin(&job, LINEAR);
    size_t owed = 0;
    for (int64_t y = 0; y < job.down.to; y++) {
        row_make(&job, y, &owed);
        for (int64_t c = 0; c < channels; c++) {
            int64_t in = values[SWAP].u_bool && channels >= 3 && c < 3 ? 2 - c : c;
            float *to = (float *)(void *)made->data + (c * job.down.to + y) * job.across.to;
            for (int64_t x = 0; x < job.across.to; x++) {
                to[x] = (float)((job.sum[x * channels + in] - means[c]) * scales[c]);
            }
        }
        dev_cv_pay(&owed, (size_t)(channels * job.across.to));
    }
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_crop_resize_normalize_obj, 2, crop_resize_normalize);

// resize of walle.cv, and what a model's input is made of in one go. Along each side, every place
// of the result is a few places of the image, each with a weight; rows are resized across as they
// are needed, and kept while they are. uint8 by INTER_LINEAR is computed in whole numbers of 11
// bits, as OpenCV does; other uint8 and float32 in floats, float64 in doubles. Called by scripts,
// on the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_side.h"
#include "vm/cv/rows/cv_place_rows.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct resizing {
    struct cv_image from;
    struct cv_side across;
    struct cv_side down;
    bool is_fixed;       // weights are whole numbers
    bool is_float;       // a row that is asked for has floats, whatever the image is of
    bool is_paired;      // two pixels across, none of which is outside
    int64_t tail;        // the first place that is the image's last pixel alone; no loop makes it
    struct cv_taps taps; // across
    cv_across_fn *make;
    const void *weights; // down
    uint8_t *row;        // of the image, with what is outside beside it
    uint8_t *kept;     // rows that were resized across, one behind another: row r at r % kept_count
    size_t kept_bytes; // of a row
    size_t item;       // bytes of an element of it
    int64_t kept_count;
    int64_t kept_to;   // rows before this one are there
    const void **rows; // kept ones that are added up
    void *sum;         // a row of the result; NULL: added up where it is stored
};

// Bytes of the image from a row's first to where its memory surely ends.
static int64_t bytes_from(const struct cv_image *image, int64_t row)
{
    int64_t size = (int64_t)(dev_cv_row_items(image) * dev_np_item(image->type));
    int64_t more = image->step > 0 ? image->rows - 1 - row : row;
    return size + more * (image->step > 0 ? image->step : -image->step);
}

// A row as loops read it: with the edges beside it, and bytes to spare.
static const uint8_t *row_padded(const struct resizing *job, int64_t row)
{
    const struct cv_image *from = &job->from;
    const size_t pixel = dev_np_item(from->type) * from->channels;
    const size_t size = (size_t)from->columns * pixel;
    const uint8_t *in = dev_cv_row(from, row);
    if (job->is_paired && bytes_from(from, row) >= (int64_t)(size + CV_ROW_SPARE)) {
        return in; // none of its places are outside
    }
    uint8_t *at = job->row + CV_SIDE_BEFORE * pixel;
    memcpy(at, in, size);
    const struct cv_move_rows *move = NP_CHOSEN(dev_cv_move_rows);
    move->repeat(job->row, in, CV_SIDE_BEFORE, pixel);
    move->repeat(at + size, in + size - pixel, (size_t)job->across.taps, pixel);
    return at;
}

static uint8_t *kept_row(const struct resizing *job, int64_t row)
{
    int64_t at = dev_cv_side_held(row, job->down.from) % job->kept_count;
    return job->kept + (size_t)at * job->kept_bytes;
}

// Resizes a row across, and keeps it.
static void row_keep(const struct resizing *job, int64_t row)
{
    const struct cv_image *from = &job->from;
    const size_t channels = from->channels;
    const uint8_t *in = row_padded(job, row);
    uint8_t *to = kept_row(job, row);
    job->make(to, in, &job->taps);
    const uint8_t *last = in + (size_t)(from->columns - 1) * channels * dev_np_item(from->type);
    to += (size_t)job->tail * channels * job->item;
    for (int64_t i = job->tail; i < job->across.to; i++, to += channels * job->item) {
        if (from->type != NP_U8) {
            memcpy(to, last, channels * job->item);
            continue;
        }
        for (size_t c = 0; c < channels; c++) {
            ((float *)(void *)to)[c] = (float)last[c];
        }
    }
}

// Makes row y of the result at `to`, or in job->sum where there is one. Asked for in order.
static void row_make(struct resizing *job, int64_t y, void *to, size_t *owed)
{
    const struct cv_resize_rows *loops = NP_CHOSEN(dev_cv_resize_rows);
    const size_t items = (size_t)job->across.to * job->from.channels;
    const int64_t taps = job->down.taps;
    int64_t first = job->down.at[y];
    int64_t last = dev_cv_side_held(first + taps - 1, job->down.from);
    int64_t from = dev_cv_side_held(first, job->down.from);
    if (job->kept_to < from) {
        job->kept_to = from; // rows that no place of the result is made of
    }
    for (; job->kept_to <= last; job->kept_to++) {
        row_keep(job, job->kept_to);
        dev_cv_pay(owed, dev_cv_row_items(&job->from) + items * (size_t)job->across.taps);
    }
    for (int64_t k = 0; k < taps; k++) {
        job->rows[k] = kept_row(job, first + k);
    }
    if (job->is_fixed) {
        const int16_t *two[] = {job->rows[0], job->rows[1]};
        loops->down_fixed(to, two, (const int16_t *)job->weights + 2 * y, items);
    } else if (job->from.type == NP_F64) {
        loops->down_f64(job->sum != NULL ? job->sum : to, job->rows,
                        (const double *)job->weights + taps * y, (size_t)taps, items);
    } else {
        loops->down_f32(job->sum != NULL ? job->sum : to, job->rows,
                        (const float *)job->weights + taps * y, (size_t)taps, items);
    }
    if (job->sum != NULL && !job->is_float) {
        loops->store_u8(to, job->sum, items);
    }
    dev_cv_pay(owed, items * (size_t)taps);
}

static bool is_whole(double scale)
{
    return fabs(scale - rint(scale)) < DBL_EPSILON;
}

// Chooses the loop across and its weights, and the weights down.
static void loops_choose(struct resizing *job)
{
    const struct cv_resize_rows *loops = NP_CHOSEN(dev_cv_resize_rows);
    job->taps = (struct cv_taps){.at = job->across.at,
                                 .count = (size_t)job->tail,
                                 .taps = (size_t)job->across.taps,
                                 .channels = job->from.channels};
    if (job->is_fixed) {
        job->make = loops->across_fixed;
        job->taps.weights = dev_cv_side_fixed(&job->across);
        job->weights = dev_cv_side_fixed(&job->down);
        job->item = sizeof(int16_t);
    } else if (job->from.type == NP_F64) {
        job->make = loops->across_f64;
        job->taps.weights = job->across.weights;
        job->weights = job->down.weights;
        job->item = sizeof(double);
    } else {
        job->make = job->from.type == NP_U8 ? loops->across_u8 : loops->across_f32;
        job->taps.weights = dev_cv_side_floats(&job->across);
        job->weights = dev_cv_side_floats(&job->down);
        job->item = sizeof(float);
    }
}

// Places across become elements. Of a pair both are in the image: what lies before its first pixel
// is that, and what is its last alone has a whole weight, or is no loop's.
static void places_set(struct resizing *job)
{
    const struct cv_side *side = &job->across;
    const int32_t last = (int32_t)side->from - 2;
    job->tail = side->to;
    for (int64_t i = 0; i < side->to; i++) {
        double *weights = side->weights + 2 * i;
        if (job->is_paired && side->at[i] > last) {
            weights[0] = 0;
            weights[1] = 1;
            side->at[i] = last;
            job->tail = job->tail < i || job->is_fixed ? job->tail : i;
        } else if (job->is_paired && side->at[i] < 0) {
            side->at[i] = 0; // whose weight is whole
        }
        side->at[i] *= (int32_t)job->from.channels;
    }
}

// Allocates all that rows are made of. `job` has the image, and the sizes and scales of both sides.
static void resizing_begin(struct resizing *job, enum cv_resizing how)
{
    const double across = job->across.scale;
    const double down = job->down.scale;
    if (how == CV_LINEAR && across == 2 && down == 2) {
        how = CV_AREA;
    }
    bool is_shrunk = how == CV_AREA && across >= 1 && down >= 1;
    dev_cv_side_set(&job->across, how, true, is_shrunk);
    dev_cv_side_set(&job->down, how, false, is_shrunk);
    job->is_fixed = !job->is_float && job->from.type == NP_U8 && job->down.taps == 2 && !is_shrunk;
    job->is_paired = job->across.taps == 2 && !is_shrunk && job->from.columns > 1;
    places_set(job);
    loops_choose(job);
    job->kept_count = job->down.taps < job->from.rows ? job->down.taps : job->from.rows;
    size_t items = (size_t)job->across.to * job->from.channels;
    size_t wide = (size_t)(job->from.columns + job->across.taps + CV_SIDE_BEFORE);
    size_t pixel = dev_np_item(job->from.type) * job->from.channels;
    job->kept_bytes = (items * job->item + 2 * CV_ROW_SPARE - 1) / CV_ROW_SPARE * CV_ROW_SPARE;
    job->row = (uint8_t *)dev_cv_scratch((wide * pixel + CV_ROW_SPARE) / sizeof(double) + 1);
    job->kept =
        (uint8_t *)dev_cv_scratch(job->kept_bytes / sizeof(double) * (size_t)job->kept_count);
    job->rows = (const void **)(void *)dev_cv_scratch((size_t)job->down.taps);
    job->sum = NULL;
    if (job->is_float || (job->from.type == NP_U8 && !job->is_fixed)) {
        job->sum = dev_cv_scratch(items);
    }
    job->kept_to = 0;
}

// --- pixels as they are, and cells of whole pixels

static void nearest(struct resizing *job, const struct cv_image *to)
{
    const size_t pixel = dev_np_item(to->type) * to->channels;
    size_t owed = 0;
    dev_cv_side_set(&job->across, CV_NEAREST, true, false);
    dev_cv_side_set(&job->down, CV_NEAREST, false, false);
    for (int64_t y = 0; y < to->rows; y++) {
        NP_CHOSEN(dev_cv_move_rows)
            ->pick((uint8_t *)(uintptr_t)dev_cv_row(to, y), dev_cv_row(&job->from, job->down.at[y]),
                   job->across.at, (size_t)to->columns, pixel);
        dev_cv_pay(&owed, 2 * dev_cv_row_items(to));
    }
}

// Whether every pixel of the result is one cell of whole pixels of the image.
static bool are_cells(const struct resizing *job, enum cv_resizing how)
{
    const struct cv_side *sides[] = {&job->across, &job->down};
    for (int i = 0; i < 2; i++) {
        double scale = sides[i]->scale;
        if (how == CV_LINEAR ? scale != 2 : !(scale >= 1 && is_whole(scale))) {
            return false;
        }
        if (scale > (double)sides[i]->from ||
            (int64_t)rint(scale) * sides[i]->to > sides[i]->from) {
            return false;
        }
    }
    return job->from.type == NP_U8 && (how == CV_LINEAR || how == CV_AREA);
}

static void cells_make(const struct resizing *job, const struct cv_image *to)
{
    const struct cv_resize_rows *loops = NP_CHOSEN(dev_cv_resize_rows);
    const struct cv_cells cells = {.count = (size_t)to->columns,
                                   .channels = to->channels,
                                   .across = (size_t)rint(job->across.scale),
                                   .down = (size_t)rint(job->down.scale)};
    const size_t items = dev_cv_row_items(to) * cells.across;
    uint32_t *sums = (uint32_t *)(void *)dev_cv_scratch(items / 2 + 1);
    size_t owed = 0;
    for (int64_t y = 0; y < to->rows; y++) {
        uint8_t *out = (uint8_t *)(uintptr_t)dev_cv_row(to, y);
        int64_t top = y * (int64_t)cells.down;
        if (cells.across == 2 && cells.down == 2) {
            const uint8_t *two[] = {dev_cv_row(&job->from, top), dev_cv_row(&job->from, top + 1)};
            loops->halve(out, two, &cells);
            dev_cv_pay(&owed, 4 * dev_cv_row_items(to));
            continue;
        }
        memset(sums, 0, items * sizeof(*sums));
        for (size_t k = 0; k < cells.down; k++) {
            loops->sum(sums, dev_cv_row(&job->from, top + (int64_t)k), items);
            dev_cv_pay(&owed, items);
        }
        loops->shrink(out, sums, &cells);
        dev_cv_pay(&owed, items);
    }
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
                                     CV_MAY(fy),    CV_MAY_INT(interpolation, CV_LINEAR)};
    CV_PARSE(table);
    struct resizing job = {.from = dev_cv_take(values[SRC].u_obj, CV_ALL)};
    mp_int_t how = values[INTERPOLATION].u_int;
    if (how < CV_NEAREST || how > CV_AREA || (job.from.type == NP_I32 && how != CV_NEAREST)) {
        dev_cv_bad("resize by INTER_NEAREST, INTER_LINEAR, INTER_CUBIC or INTER_AREA; int32 by the "
                   "first");
    }
    sizes_take(&job, values[DSIZE].u_obj, dev_cv_real(values[FX].u_obj, 0),
               dev_cv_real(values[FY].u_obj, 0));
    struct np_array *made =
        dev_cv_room(job.from.type, job.down.to, job.across.to, job.from.channels);
    struct cv_image to = dev_cv_of(made);
    if (how == CV_NEAREST) {
        nearest(&job, &to);
    } else if (are_cells(&job, (enum cv_resizing)how)) {
        cells_make(&job, &to);
    } else {
        resizing_begin(&job, (enum cv_resizing)how);
        size_t owed = 0;
        for (int64_t y = 0; y < to.rows; y++) {
            row_make(&job, y, (uint8_t *)(uintptr_t)dev_cv_row(&to, y), &owed);
        }
    }
    dev_cv_hold(&job);
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

// What was cut out, as float32.
static const struct np_array *floats_of(const struct cv_image *image)
{
    struct np_array *made = dev_cv_new(NP_F32, image->rows, image->columns, image->channels);
    struct cv_image to = dev_cv_of(made);
    double *row = dev_cv_scratch(dev_cv_row_items(image));
    size_t owed = 0;
    for (int64_t y = 0; y < image->rows; y++) {
        dev_cv_load(image, y, row);
        dev_cv_store(NP_F32, (uint8_t *)(uintptr_t)dev_cv_row(&to, y), row,
                     dev_cv_row_items(image));
        dev_cv_pay(&owed, dev_cv_row_items(image));
    }
    return made;
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
    struct resizing job = {.from = dev_cv_take(values[SRC].u_obj, CV_ALL), .is_float = true};
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
    if (job.from.type != NP_U8 && job.from.type != NP_F32) {
        job.from = dev_cv_of(floats_of(&job.from));
    }
    resizing_begin(&job, CV_LINEAR);
    size_t owed = 0;
    for (int64_t y = 0; y < job.down.to; y++) {
        row_make(&job, y, NULL, &owed);
        for (int64_t c = 0; c < channels; c++) {
            int64_t in = values[SWAP].u_bool && channels >= 3 && c < 3 ? 2 - c : c;
            float *to = (float *)(void *)made->data + (c * job.down.to + y) * job.across.to;
            NP_CHOSEN(dev_cv_resize_rows)
                ->level(to, (const float *)job.sum + in, (size_t)job.across.to, (size_t)channels,
                        (const float[]){(float)means[c], (float)scales[c]});
        }
        dev_cv_pay(&owed, (size_t)(channels * job.across.to));
    }
    dev_cv_hold(&job);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_crop_resize_normalize_obj, 2, crop_resize_normalize);

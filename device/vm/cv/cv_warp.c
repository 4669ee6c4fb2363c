// Functions of walle.cv that look for each place of the result where it is in the image:
// warpAffine, warpPerspective, remap. Places are taken to 1/32 of a pixel, as OpenCV does, so that
// results are the same. Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"

#include "vm/cv/rows/cv_place_rows.h"
#include "vm/cv/rows/cv_warp_rows.h"

#include <math.h>
#include <string.h>

enum { NEAREST, LINEAR, CUBIC, IS_INVERSE = 16 };

#define AFFINE      1024 // of what an affine place is counted in
#define AFFINE_BITS 10
#define BLOCK       32

// How places are read.
struct sampling {
    struct cv_image from;
    int how;
    int64_t taps; // along a side
    cv_sample_fn *sample;
    enum cv_border border;
    uint8_t around[4 * NP_ITEM_MAX];
    float weights[CV_STEPS][CV_TAPS_MAX]; // of the taps along a side, by the part behind the point
    double weights_long[CV_STEPS][CV_TAPS_MAX];
};

static int64_t clamped(double value)
{
    return value >= INT32_MAX ? INT32_MAX : value > INT32_MIN ? (int64_t)rint(value) : INT32_MIN;
}

static cv_sample_fn *sample_of(enum np_type type, int how)
{
    const struct cv_warp_rows *loops = NP_CHOSEN(dev_cv_warp_rows);
    if (how == NEAREST) {
        return loops->nearest;
    }
    if (type == NP_U8) {
        return how == LINEAR ? loops->linear_u8 : loops->cubic_u8;
    }
    if (type == NP_F32) {
        return how == LINEAR ? loops->linear_f32 : loops->cubic_f32;
    }
    return how == LINEAR ? loops->linear_f64 : loops->cubic_f64;
}

static void weights_set(struct sampling *sampling)
{
    for (int i = 0; i < CV_STEPS; i++) {
        double part = i / (double)CV_STEPS;
        double *weights = sampling->weights_long[i];
        if (sampling->how == LINEAR) {
            weights[0] = 1 - part;
            weights[1] = part;
        } else {
            const double a = -0.75;
            double other = 1 - part;
            weights[0] = ((a * (part + 1) - 5 * a) * (part + 1) + 8 * a) * (part + 1) - 4 * a;
            weights[1] = ((a + 2) * part - (a + 3)) * part * part + 1;
            weights[2] = ((a + 2) * other - (a + 3)) * other * other + 1;
            weights[3] = 1 - weights[0] - weights[1] - weights[2];
        }
        for (int k = 0; k < CV_TAPS_MAX; k++) {
            sampling->weights[i][k] = (float)weights[k];
        }
    }
}

static void sampling_begin(struct sampling *sampling, mp_int_t flags, mp_int_t border,
                           mp_obj_t value)
{
    enum np_type type = sampling->from.type;
    sampling->how = (int)(flags & 7);
    if (sampling->how > CUBIC || (type == NP_I32 && sampling->how != NEAREST)) {
        dev_cv_bad("by INTER_NEAREST, INTER_LINEAR or INTER_CUBIC; int32 by the first");
    }
    sampling->border = dev_cv_border_parse(border);
    sampling->taps = sampling->how == NEAREST ? 1 : sampling->how == LINEAR ? 2 : 4;
    sampling->sample = sample_of(type, sampling->how);
    double numbers[4];
    dev_cv_scalar(value, numbers);
    dev_cv_store(type, sampling->around, numbers, 4);
    weights_set(sampling);
}

// Where the places of a row of the result are found: `find` sets them, in steps of 1/32 of a pixel,
// or in pixels where the nearest is taken.
struct places;
typedef void places_fn(const struct places *places, int64_t row);
struct places {
    places_fn *find;
    int32_t *x;
    int32_t *y;
    size_t count;
    bool is_nearest;
    double matrix[9];
    int32_t *along[2]; // of an affine place, what its column adds to x and y
    int64_t reach[2];  // the most that one of those adds
    int64_t block;     // columns that perspective counts from
    const struct cv_image *map;
    const struct cv_image *other; // the second map; NULL: the first has both
};

// What a row of the result is made with, and which places are read without a look at the border:
// from `low` on, less than `within` further. Of those that lie `beyond` no tap is in the image.
struct passage {
    struct cv_source source;
    struct cv_source patch; // the taps of one place, where some of them are outside
    uint8_t *patch_data;
    uint8_t *constant; // a row of what is around; NULL: there is more than that
    int32_t low;
    uint32_t within[2];
    int32_t far;
    uint32_t beyond[2];
};

static void passage_begin(struct passage *passage, const struct sampling *sampling, int64_t columns)
{
    const struct cv_image *from = &sampling->from;
    const size_t item = dev_np_item(from->type);
    const size_t pixel = item * from->channels;
    const int64_t taps = sampling->taps;
    const int64_t unit = sampling->how == NEAREST ? 1 : CV_STEPS;
    const int64_t before = taps > 1 ? taps / 2 - 1 : 0;
    const int64_t spare = taps > 1 && from->channels == 3 ? 1 : 0; // loops read it, too
    const int64_t sides[] = {from->columns - spare, from->rows};
    *passage = (struct passage){.source = {.data = from->data,
                                           .step = from->step,
                                           .channels = from->channels,
                                           .pixel = pixel,
                                           .weights = sampling->weights,
                                           .weights_long = sampling->weights_long}};
    passage->low = (int32_t)(before * unit);
    passage->far = (int32_t)((before - taps + 1) * unit);
    for (int i = 0; i < 2; i++) {
        int64_t within = sides[i] - taps + 1;
        passage->within[i] = (uint32_t)(within > 0 ? within * unit : 0);
        passage->beyond[i] = (uint32_t)(((i == 0 ? from->columns : from->rows) + taps - 1) * unit);
    }
    passage->patch = passage->source;
    passage->patch.step = taps * (int64_t)pixel;
    passage->patch_data = (uint8_t *)dev_cv_scratch((size_t)(taps * taps) * pixel / 8 + 5);
    passage->patch.data = passage->patch_data;
    uint8_t *row = (uint8_t *)dev_cv_scratch((size_t)(columns + 1) * pixel / 8 + 1);
    uint8_t *color = row + (size_t)columns * pixel;
    for (uint32_t c = 0; c < from->channels; c++) {
        memcpy(color + c * item, sampling->around + (c & 3) * item, item);
    }
    NP_CHOSEN(dev_cv_move_rows)->repeat(row, color, (size_t)columns, pixel);
    passage->constant = row;
}

// A place at the image's edge: what its taps are is put together.
static void edge_read(const struct passage *passage, const struct sampling *sampling, int32_t x,
                      int32_t y, uint8_t *to)
{
    const struct cv_image *from = &sampling->from;
    const size_t pixel = passage->source.pixel;
    const int64_t taps = sampling->taps;
    const int bits = taps > 1 ? CV_STEP_BITS : 0;
    const int32_t unit = 1 << bits;
    const int64_t before = taps > 1 ? taps / 2 - 1 : 0;
    uint8_t *tap = passage->patch_data;
    for (int64_t j = 0; j < taps; j++) {
        int64_t row = dev_cv_border_at((y >> bits) - before + j, from->rows, sampling->border);
        for (int64_t i = 0; i < taps; i++, tap += pixel) {
            int64_t column =
                dev_cv_border_at((x >> bits) - before + i, from->columns, sampling->border);
            bool is_around = row < 0 || column < 0;
            memcpy(tap,
                   is_around ? passage->constant : dev_cv_row(from, row) + (size_t)column * pixel,
                   pixel);
        }
    }
    const int32_t place[] = {passage->low + (x & (unit - 1)), passage->low + (y & (unit - 1))};
    sampling->sample(to, &passage->patch, &place[0], &place[1], 1);
}

static bool is_within(const struct passage *passage, int32_t x, int32_t y)
{
    return (uint32_t)x - (uint32_t)passage->low < passage->within[0] &&
           (uint32_t)y - (uint32_t)passage->low < passage->within[1];
}

static bool is_beyond(const struct passage *passage, int32_t x, int32_t y)
{
    return (uint32_t)x - (uint32_t)passage->far >= passage->beyond[0] ||
           (uint32_t)y - (uint32_t)passage->far >= passage->beyond[1];
}

// One row of the result, in runs of places that are read alike.
static void row_read(const struct passage *passage, const struct sampling *sampling,
                     const struct places *places, uint8_t *to)
{
    const size_t pixel = passage->source.pixel;
    const int32_t *x = places->x;
    const int32_t *y = places->y;
    const size_t count = places->count;
    const bool is_constant = sampling->border == CV_BORDER_CONSTANT;
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && is_within(passage, x[end], y[end])) {
            end++;
        }
        if (end > i) {
            sampling->sample(to + i * pixel, &passage->source, x + i, y + i, end - i);
            i = end;
            continue;
        }
        while (is_constant && end < count && is_beyond(passage, x[end], y[end])) {
            end++;
        }
        if (end > i) {
            memcpy(to + i * pixel, passage->constant, (end - i) * pixel);
            i = end;
            continue;
        }
        edge_read(passage, sampling, x[i], y[i], to + i * pixel);
        i++;
    }
}

static struct np_array *sampled(const struct sampling *sampling, struct places *places,
                                int64_t rows, int64_t columns)
{
    struct np_array *made =
        dev_cv_room(sampling->from.type, rows, columns, sampling->from.channels);
    struct cv_image to = dev_cv_of(made);
    struct passage passage;
    passage_begin(&passage, sampling, columns);
    places->count = (size_t)columns;
    places->x = (int32_t *)(void *)dev_cv_scratch((size_t)columns / 2 + 1);
    places->y = (int32_t *)(void *)dev_cv_scratch((size_t)columns / 2 + 1);
    const size_t work = (size_t)(sampling->taps * sampling->taps) * 4;
    size_t owed = 0;
    for (int64_t y = 0; y < rows; y++) {
        dev_cv_pay(&owed, work * dev_cv_row_items(&to));
        places->find(places, y);
        row_read(&passage, sampling, places, (uint8_t *)(uintptr_t)dev_cv_row(&to, y));
    }
    dev_cv_hold(&sampling->from);
    dev_cv_hold(&passage);
    dev_cv_hold(places);
    return made;
}

static void size_take(mp_obj_t dsize, const struct cv_image *from, int64_t size[2])
{
    dev_cv_pair(dsize, size);
    if (size[0] == 0 && size[1] == 0) {
        size[0] = from->columns;
        size[1] = from->rows;
    }
    if (size[0] <= 0 || size[1] <= 0) {
        dev_cv_bad("a size is above 0");
    }
}

// What columns add to affine places.
static void affine_begin(struct places *places, int64_t columns)
{
    for (int i = 0; i < 2; i++) {
        places->along[i] = (int32_t *)(void *)dev_cv_scratch((size_t)columns / 2 + 1);
        places->reach[i] = 0;
        for (int64_t x = 0; x < columns; x++) {
            int64_t along = clamped(places->matrix[3 * i] * (double)x * AFFINE);
            places->along[i][x] = (int32_t)along;
            along = along < 0 ? -along : along;
            places->reach[i] = along > places->reach[i] ? along : places->reach[i];
        }
        dev_np_pay((size_t)columns);
    }
}

static void affine_find(const struct places *places, int64_t row)
{
    const int64_t half = places->is_nearest ? AFFINE / 2 : AFFINE / CV_STEPS / 2;
    const int bits = places->is_nearest ? AFFINE_BITS : AFFINE_BITS - CV_STEP_BITS;
    int32_t *to[] = {places->x, places->y};
    for (int i = 0; i < 2; i++) {
        const double *m = places->matrix + 3 * i;
        int64_t base = clamped((m[1] * (double)row + m[2]) * AFFINE) + half;
        if ((base < 0 ? -base : base) + places->reach[i] < INT32_MAX) {
            NP_CHOSEN(dev_cv_warp_rows)
                ->affine(to[i], places->along[i], (int32_t)base, bits, places->count);
            continue;
        }
        for (size_t x = 0; x < places->count; x++) {
            to[i][x] = (int32_t)((base + places->along[i][x]) >> bits);
        }
    }
}

static void perspective_find(const struct places *places, int64_t row)
{
    const struct cv_tilt tilt = {.matrix = places->matrix,
                                 .row = (double)row,
                                 .block = places->block,
                                 .scale = places->is_nearest ? 1 : CV_STEPS};
    NP_CHOSEN(dev_cv_warp_rows)->perspective(places->x, places->y, &tilt, places->count);
}

static void map_find(const struct places *places, int64_t row)
{
    const struct cv_warp_rows *loops = NP_CHOSEN(dev_cv_warp_rows);
    const double scale = places->is_nearest ? 1 : CV_STEPS;
    const size_t apart = places->map->channels;
    const float *first = (const void *)dev_cv_row(places->map, row);
    const float *second = first + 1;
    if (places->other != NULL) {
        second = (const void *)dev_cv_row(places->other, row);
    }
    loops->map(places->x, first, apart, scale, places->count);
    loops->map(places->y, second, apart, scale, places->count);
}

// What warpAffine and warpPerspective are given: (src, M, dsize[, dst[, flags[, borderMode[,
// borderValue]]]])
struct warping {
    struct sampling sampling;
    struct places places;
    int64_t size[2]; // columns and rows of the result
    mp_obj_t dst;
    bool is_inverse; // the matrix says where a pixel of the result comes from
};

static void warping_take(struct warping *out, int64_t matrix_rows, size_t count,
                         const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, M, DSIZE, DST, FLAGS, BORDER, VALUE };
    static const mp_arg_t table[] = {CV_NEEDS(src),
                                     CV_NEEDS(M),
                                     CV_NEEDS(dsize),
                                     CV_MAY(dst),
                                     CV_MAY_INT(flags, LINEAR),
                                     CV_MAY_INT(borderMode, 0),
                                     CV_MAY(borderValue)};
    CV_PARSE(table);
    *out = (struct warping){.sampling = {.from = dev_cv_take(values[SRC].u_obj, CV_ALL)},
                            .dst = values[DST].u_obj,
                            .is_inverse = (values[FLAGS].u_int & IS_INVERSE) != 0};
    sampling_begin(&out->sampling, values[FLAGS].u_int, values[BORDER].u_int, values[VALUE].u_obj);
    out->places.is_nearest = out->sampling.how == NEAREST;
    dev_cv_matrix(values[M].u_obj, matrix_rows, 3, out->places.matrix);
    size_take(values[DSIZE].u_obj, &out->sampling.from, out->size);
}

static mp_obj_t warped(struct warping *warping)
{
    return dev_cv_give(warping->dst, sampled(&warping->sampling, &warping->places, warping->size[1],
                                             warping->size[0]));
}

static mp_obj_t warp_affine(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct warping warping;
    warping_take(&warping, 2, count, args, named);
    warping.places.find = affine_find;
    if (!warping.is_inverse) {
        dev_cv_affine_invert(warping.places.matrix);
    }
    affine_begin(&warping.places, warping.size[0]);
    return warped(&warping);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_warpAffine_obj, 3, warp_affine);

static mp_obj_t warp_perspective(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct warping warping;
    warping_take(&warping, 3, count, args, named);
    warping.places.find = perspective_find;
    if (!warping.is_inverse) {
        dev_cv_perspective_invert(warping.places.matrix);
    }
    const int64_t *size = warping.size;
    int64_t high = size[1] < BLOCK / 2 ? size[1] : BLOCK / 2;
    warping.places.block = BLOCK * BLOCK / high < size[0] ? BLOCK * BLOCK / high : size[0];
    return warped(&warping);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_warpPerspective_obj, 3, warp_perspective);

// remap(src, map1, map2, interpolation[, dst[, borderMode[, borderValue]]])
static mp_obj_t remap(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, MAP1, MAP2, INTERPOLATION, DST, BORDER, VALUE };
    static const mp_arg_t table[] = {CV_NEEDS(src),      CV_NEEDS(map1),
                                     CV_NEEDS(map2),     CV_NEEDS_INT(interpolation),
                                     CV_MAY(dst),        CV_MAY_INT(borderMode, 0),
                                     CV_MAY(borderValue)};
    CV_PARSE(table);
    struct sampling sampling = {.from = dev_cv_take(values[SRC].u_obj, CV_ALL)};
    sampling_begin(&sampling, values[INTERPOLATION].u_int, values[BORDER].u_int,
                   values[VALUE].u_obj);
    struct cv_image map = dev_cv_take(values[MAP1].u_obj, CV_F32);
    struct cv_image other = {0};
    struct places places = {.find = map_find, .map = &map, .is_nearest = sampling.how == NEAREST};
    if (map.channels == 1) {
        other = dev_cv_take(values[MAP2].u_obj, CV_F32);
        places.other = &other;
    }
    if (map.channels > 2 || (places.other != NULL && !dev_cv_same_shape(&map, places.other))) {
        dev_cv_bad("the maps are float32, one of two channels or two of one and of the same size");
    }
    struct np_array *made = sampled(&sampling, &places, map.rows, map.columns);
    dev_cv_hold(&map);
    dev_cv_hold(&other);
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_remap_obj, 4, remap);

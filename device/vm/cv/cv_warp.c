// Functions of walle.cv that look for each place of the result where it is in the image:
// warpAffine, warpPerspective, remap. Places are taken to 1/32 of a pixel, as OpenCV does, so that
// results are the same. Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"

#include <math.h>

enum { NEAREST, LINEAR, CUBIC, IS_INVERSE = 16 };

#define STEPS       32 // of a pixel
#define STEP_BITS   5
#define AFFINE      1024 // of what an affine place is counted in
#define AFFINE_BITS 10
#define TAPS_MAX    4
#define BLOCK       32

// How places are read.
struct sampling {
    struct cv_image from;
    int how;
    enum cv_border border;
    double around[4];
    double weights[STEPS][TAPS_MAX]; // of the taps along a side, by the part behind the point
};

static int64_t clamped(double value)
{
    return value >= INT32_MAX ? INT32_MAX : value > INT32_MIN ? (int64_t)rint(value) : INT32_MIN;
}

static void sampling_begin(struct sampling *sampling, mp_int_t flags, mp_int_t border,
                           mp_obj_t value)
{
    sampling->how = (int)(flags & 7);
    if (sampling->how > CUBIC || (sampling->from.type == NP_I32 && sampling->how != NEAREST)) {
        dev_cv_bad("by INTER_NEAREST, INTER_LINEAR or INTER_CUBIC; int32 by the first");
    }
    sampling->border = dev_cv_border_parse(border);
    dev_cv_scalar(value, sampling->around);
    dev_cv_store(sampling->from.type, (uint8_t *)sampling->around, sampling->around, 4);
    struct np_array held = {.type = sampling->from.type};
    struct cv_image one = {
        .array = &held, .type = held.type, .columns = 4, .channels = 1, .rows = 1};
    uint8_t bytes[4 * NP_ITEM_MAX];
    __builtin_memcpy(bytes, sampling->around, sizeof(bytes));
    one.data = bytes;
    dev_cv_load(&one, 0, sampling->around);
    for (int i = 0; i < STEPS; i++) {
        double part = i / (double)STEPS;
        double *weights = sampling->weights[i];
        if (sampling->how == LINEAR) {
            weights[0] = 1 - part;
            weights[1] = part;
            continue;
        }
        const double a = -0.75;
        double other = 1 - part;
        weights[0] = ((a * (part + 1) - 5 * a) * (part + 1) + 8 * a) * (part + 1) - 4 * a;
        weights[1] = ((a + 2) * part - (a + 3)) * part * part + 1;
        weights[2] = ((a + 2) * other - (a + 3)) * other * other + 1;
        weights[3] = 1 - weights[0] - weights[1] - weights[2];
    }
}

static double item_of(const struct cv_image *from, const uint8_t *pixel, uint32_t channel)
{
    const void *at = pixel;
    switch (from->type) {
    case NP_U8:
        return pixel[channel];
    case NP_I32:
        return ((const int32_t *)at)[channel];
    case NP_F32:
        return (double)((const float *)at)[channel];
    default:
        return ((const double *)at)[channel];
    }
}

// Adds what is at a pixel, or around the image, to each channel.
static void pixel_add(const struct sampling *sampling, int64_t x, int64_t y, double weight,
                      double *to)
{
    const struct cv_image *from = &sampling->from;
    int64_t row = dev_cv_border_at(y, from->rows, sampling->border);
    int64_t column = dev_cv_border_at(x, from->columns, sampling->border);
    if (row < 0 || column < 0) {
        for (uint32_t c = 0; c < from->channels; c++) {
            to[c] += weight * sampling->around[c & 3];
        }
        return;
    }
    size_t pixel = dev_np_item(from->type) * from->channels;
    const uint8_t *at = dev_cv_row(from, row) + (size_t)column * pixel;
    for (uint32_t c = 0; c < from->channels; c++) {
        to[c] += weight * item_of(from, at, c);
    }
}

// A place in steps of 1/32; of NEAREST in pixels.
static void place_read(const struct sampling *sampling, int64_t x, int64_t y, double *to)
{
    for (uint32_t c = 0; c < sampling->from.channels; c++) {
        to[c] = 0;
    }
    if (sampling->how == NEAREST) {
        pixel_add(sampling, x, y, 1, to);
        return;
    }
    const int64_t taps = sampling->how == LINEAR ? 2 : 4;
    const double *across = sampling->weights[x & (STEPS - 1)];
    const double *down = sampling->weights[y & (STEPS - 1)];
    int64_t left = (x >> STEP_BITS) - (taps / 2 - 1);
    int64_t top = (y >> STEP_BITS) - (taps / 2 - 1);
    for (int64_t j = 0; j < taps; j++) {
        for (int64_t i = 0; i < taps; i++) {
            pixel_add(sampling, left + i, top + j, across[i] * down[j], to);
        }
    }
    for (uint32_t c = 0; c < sampling->from.channels && sampling->from.type == NP_U8; c++) {
        to[c] = floor(to[c] + 0.5);
    }
}

// Where row y, column x of the result is found, in the steps of place_read.
struct places;
typedef void place_fn(const struct places *places, int64_t x, int64_t y, int64_t *out_two);
struct places {
    place_fn *of;
    double matrix[9];
    const struct cv_image *map;
    const struct cv_image *other; // the second map; NULL: the first has both
    int64_t block;                // columns that perspective counts from
    bool is_nearest;
};

static struct np_array *sampled(const struct sampling *sampling, const struct places *places,
                                int64_t rows, int64_t columns)
{
    struct np_array *made = dev_cv_new(sampling->from.type, rows, columns, sampling->from.channels);
    struct cv_image to = dev_cv_of(made);
    uint32_t channels = to.channels;
    double *row_of = dev_cv_scratch((size_t)columns * channels);
    size_t taps = sampling->how == NEAREST ? 1 : sampling->how == LINEAR ? 4 : 16;
    size_t owed = 0;
    for (int64_t y = 0; y < rows; y++) {
        for (int64_t x = 0; x < columns; x++) {
            int64_t at[2];
            places->of(places, x, y, at);
            place_read(sampling, at[0], at[1], row_of + x * channels);
            dev_cv_pay(&owed, taps * channels * 4);
        }
        dev_cv_store(to.type, (uint8_t *)(uintptr_t)dev_cv_row(&to, y), row_of,
                     dev_cv_row_items(&to));
    }
    dev_cv_hold(&sampling->from);
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

static void affine_place(const struct places *places, int64_t x, int64_t y, int64_t *out_two)
{
    const double *m = places->matrix;
    const int64_t half = places->is_nearest ? AFFINE / 2 : AFFINE / STEPS / 2;
    const int bits = places->is_nearest ? AFFINE_BITS : AFFINE_BITS - STEP_BITS;
    for (int i = 0; i < 2; i++, m += 3) {
        int64_t of_row = clamped((m[1] * (double)y + m[2]) * AFFINE) + half;
        out_two[i] = (of_row + clamped(m[0] * (double)x * AFFINE)) >> bits;
    }
}

static void perspective_place(const struct places *places, int64_t x, int64_t y, int64_t *out_two)
{
    const double *m = places->matrix;
    double base = (double)(x / places->block * places->block);
    double rest = (double)x - base;
    double row = (double)y;
    double by = (m[6] * base + m[7] * row + m[8]) + m[6] * rest;
    by = by != 0 ? (places->is_nearest ? 1 : STEPS) / by : 0;
    out_two[0] = clamped(((m[0] * base + m[1] * row + m[2]) + m[0] * rest) * by);
    out_two[1] = clamped(((m[3] * base + m[4] * row + m[5]) + m[3] * rest) * by);
}

static void map_place(const struct places *places, int64_t x, int64_t y, int64_t *out_two)
{
    const struct cv_image *map = places->map;
    double scale = places->is_nearest ? 1 : STEPS;
    const uint8_t *at = dev_cv_row(map, y) + x * (int64_t)(map->channels * sizeof(float));
    const uint8_t *second = at + sizeof(float);
    if (places->other != NULL) {
        second = dev_cv_row(places->other, y) + x * (int64_t)sizeof(float);
    }
    out_two[0] = clamped(item_of(map, at, 0) * scale);
    out_two[1] = clamped(item_of(map, second, 0) * scale);
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
    warping.places.of = affine_place;
    if (!warping.is_inverse) {
        dev_cv_affine_invert(warping.places.matrix);
    }
    return warped(&warping);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_warpAffine_obj, 3, warp_affine);

static mp_obj_t warp_perspective(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct warping warping;
    warping_take(&warping, 3, count, args, named);
    warping.places.of = perspective_place;
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
    struct places places = {.of = map_place, .map = &map, .is_nearest = sampling.how == NEAREST};
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

// Functions of walle.cv about places between pixels and weights of pixels: a part of an image that
// lies between them, maps as remap takes them, and two images blended. Called by scripts, on the
// VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_points.h"

#include <math.h>
#include <stdlib.h>

#define STEPS 32 // of a pixel, as remap reads maps

// --- a part

static int64_t clamped(int64_t at, int64_t size)
{
    return at < 0 ? 0 : at < size ? at : size - 1;
}

// Two rows of an image, and how much of the second column, and row, there is.
struct between {
    const double *rows[2];
    double parts[2];
    int64_t x; // the first column
    int64_t columns;
    uint32_t channels;
};

static void part_row(const struct between *between, int64_t columns, double *row_of)
{
    const uint32_t channels = between->channels;
    const double *const *rows = between->rows;
    const double *parts = between->parts;
    for (int64_t i = 0; i < columns; i++) {
        int64_t left = clamped(between->x + i, between->columns) * channels;
        int64_t right = clamped(between->x + i + 1, between->columns) * channels;
        for (uint32_t c = 0; c < channels; c++) {
            double above = rows[0][left + c] * (1 - parts[0]) + rows[0][right + c] * parts[0];
            double below = rows[1][left + c] * (1 - parts[0]) + rows[1][right + c] * parts[0];
            row_of[i * channels + c] = above * (1 - parts[1]) + below * parts[1];
        }
    }
}

// getRectSubPix(image, patchSize, center[, patch[, patchType]])
static mp_obj_t get_rect_sub_pix(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { IMAGE, SIZE, CENTER, PATCH, TYPE };
    static const mp_arg_t table[] = {CV_NEEDS(image), CV_NEEDS(patchSize), CV_NEEDS(center),
                                     CV_MAY(patch), CV_MAY_INT(patchType, -1)};
    CV_PARSE(table);
    struct cv_image from = dev_cv_take(values[IMAGE].u_obj, CV_U8 | CV_F32);
    int64_t size[2];
    dev_cv_pair(values[SIZE].u_obj, size);
    struct cv_point center = dev_cv_point_parse(values[CENTER].u_obj);
    enum np_type type = dev_cv_depth(values[TYPE].u_int, from.type);
    if (size[0] <= 0 || size[1] <= 0 || (from.channels != 1 && from.channels != 3)) {
        dev_cv_bad("a size is above 0, of an image of one channel or of three");
    }
    if ((type != NP_U8 && type != NP_F32) || type < from.type || fabs(center.x) > INT32_MAX ||
        fabs(center.y) > INT32_MAX) {
        dev_cv_bad("a part is of the image's type or CV_32F, around a place of 32 bits");
    }
    struct np_array *made = dev_cv_room(type, size[1], size[0], from.channels);
    struct cv_image to = dev_cv_of(made);
    size_t items = dev_cv_row_items(&from);
    double *rows = dev_cv_scratch(2 * items);
    double *row_of = dev_cv_scratch(dev_cv_row_items(&to));
    double left = (double)(float)center.x - (double)(size[0] - 1) * 0.5;
    double top = (double)(float)center.y - (double)(size[1] - 1) * 0.5;
    struct between between = {.rows = {rows, rows + items},
                              .parts = {left - floor(left), top - floor(top)},
                              .x = (int64_t)floor(left),
                              .columns = from.columns,
                              .channels = from.channels};
    size_t owed = 0;
    for (int64_t y = 0; y < size[1]; y++) {
        int64_t row = (int64_t)floor(top) + y;
        dev_cv_load(&from, clamped(row, from.rows), rows);
        dev_cv_load(&from, clamped(row + 1, from.rows), rows + items);
        part_row(&between, to.columns, row_of);
        dev_cv_store(type, (uint8_t *)(uintptr_t)dev_cv_row(&to, y), row_of, dev_cv_row_items(&to));
        dev_cv_pay(&owed, 2 * items + 4 * dev_cv_row_items(&to));
    }
    dev_cv_hold(&from);
    return dev_cv_give(values[PATCH].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_getRectSubPix_obj, 3, get_rect_sub_pix);

// --- maps

enum { CV_16SC2 = 11, CV_32FC1 = 5, CV_32FC2 = 13 };

struct maps {
    struct cv_image first;
    struct cv_image second; // without rows: the first has all
    struct cv_image to;
    struct cv_image rest; // the second of the result, likewise
    bool is_nearest;
};

// Where row, column of the maps says a pixel is found.
static struct cv_point place_of(const struct maps *maps, int64_t row, int64_t x)
{
    const struct cv_image *first = &maps->first;
    const void *at = dev_cv_row(first, row);
    if (first->type == NP_I32) {
        const int32_t *whole = (const int32_t *)at + 2 * x;
        int32_t rest = 0;
        if (maps->second.rows > 0) {
            rest = ((const int32_t *)(const void *)dev_cv_row(&maps->second, row))[x];
        }
        return (struct cv_point){whole[0] + (rest % STEPS) / (double)STEPS,
                                 whole[1] + (rest / STEPS % STEPS) / (double)STEPS};
    }
    const float *real = at;
    if (maps->second.rows > 0) {
        const float *other = (const void *)dev_cv_row(&maps->second, row);
        return (struct cv_point){(double)real[x], (double)other[x]};
    }
    return (struct cv_point){(double)real[2 * x], (double)real[2 * x + 1]};
}

static int32_t short_of(double value)
{
    return (int32_t)fmax(INT16_MIN, fmin(INT16_MAX, value));
}

static void place_put(const struct maps *maps, int64_t row, int64_t x, struct cv_point place)
{
    uint8_t *at = (uint8_t *)(uintptr_t)dev_cv_row(&maps->to, row);
    uint8_t *beside = NULL;
    if (maps->rest.rows > 0) {
        beside = (uint8_t *)(uintptr_t)dev_cv_row(&maps->rest, row);
    }
    if (maps->to.type == NP_F32) {
        float *real = (void *)at;
        if (beside != NULL) {
            real[x] = (float)place.x;
            ((float *)(void *)beside)[x] = (float)place.y;
        } else {
            real[2 * x] = (float)place.x;
            real[2 * x + 1] = (float)place.y;
        }
        return;
    }
    int32_t *whole = (int32_t *)(void *)at + 2 * x;
    if (maps->is_nearest) {
        whole[0] = short_of(rint(place.x));
        whole[1] = short_of(rint(place.y));
        return;
    }
    double across = fmax(INT32_MIN, fmin(INT32_MAX, rint(place.x * STEPS)));
    double down = fmax(INT32_MIN, fmin(INT32_MAX, rint(place.y * STEPS)));
    whole[0] = short_of(floor(across / STEPS));
    whole[1] = short_of(floor(down / STEPS));
    ((int32_t *)(void *)beside)[x] =
        (int32_t)(((int64_t)down & (STEPS - 1)) * STEPS + ((int64_t)across & (STEPS - 1)));
}

static void maps_take(struct maps *maps, mp_obj_t first, mp_obj_t second)
{
    maps->first = dev_cv_take(first, CV_I32 | CV_F32);
    bool is_whole = maps->first.type == NP_I32;
    if (second != mp_const_none) {
        struct cv_image given = dev_cv_take_empty(second, CV_I32 | CV_F32);
        if (given.array->size > 0) {
            maps->second = given;
        }
    }
    bool has_second = maps->second.rows > 0;
    if (maps->first.channels != (is_whole || !has_second ? 2u : 1u) ||
        (has_second &&
         (maps->second.type != maps->first.type || maps->second.channels != 1 ||
          maps->second.rows != maps->first.rows || maps->second.columns != maps->first.columns))) {
        dev_cv_bad("maps are float32, one of two channels or two of one, or int32 of two channels "
                   "with one of one");
    }
}

// convertMaps(map1, map2, dstmap1type[, dstmap1[, dstmap2[, nninterpolation]]])
static mp_obj_t convert_maps(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { MAP1, MAP2, TYPE, DST1, DST2, NEAREST };
    static const mp_arg_t table[] = {CV_NEEDS(map1),
                                     CV_NEEDS(map2),
                                     CV_NEEDS_INT(dstmap1type),
                                     CV_MAY(dstmap1),
                                     CV_MAY(dstmap2),
                                     {MP_QSTR_nninterpolation, MP_ARG_BOOL, {.u_bool = false}}};
    CV_PARSE(table);
    struct maps maps = {.is_nearest = values[NEAREST].u_bool};
    maps_take(&maps, values[MAP1].u_obj, values[MAP2].u_obj);
    mp_int_t kind = values[TYPE].u_int;
    bool is_whole = kind == CV_16SC2;
    if ((kind != CV_16SC2 && kind != CV_32FC1 && kind != CV_32FC2) ||
        is_whole == (maps.first.type == NP_I32)) {
        dev_cv_bad("maps of float32 become CV_16SC2, and those of int32 CV_32FC1 or CV_32FC2");
    }
    int64_t rows = maps.first.rows;
    int64_t columns = maps.first.columns;
    enum np_type type = is_whole ? NP_I32 : NP_F32;
    const struct np_array *made = dev_cv_new(type, rows, columns, kind == CV_32FC1 ? 1 : 2);
    const struct np_array *rest = NULL;
    maps.to = dev_cv_of(made);
    if (kind == CV_32FC1 || (is_whole && !maps.is_nearest)) {
        rest = dev_cv_new(type, rows, columns, 1);
        maps.rest = dev_cv_of(rest);
    }
    size_t owed = 0;
    for (int64_t y = 0; y < rows; y++) {
        for (int64_t x = 0; x < columns; x++) {
            place_put(&maps, y, x, place_of(&maps, y, x));
        }
        dev_cv_pay(&owed, (size_t)columns * 8);
    }
    dev_cv_hold(&maps);
    mp_obj_t both[] = {dev_cv_give(values[DST1].u_obj, made), mp_const_none};
    if (rest != NULL) {
        both[1] = dev_cv_give(values[DST2].u_obj, rest);
    }
    return mp_obj_new_tuple(2, both);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_convertMaps_obj, 3, convert_maps);

// --- weights

// blendLinear(src1, src2, weights1, weights2[, dst])
static mp_obj_t blend_linear(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC1, SRC2, WEIGHTS1, WEIGHTS2, DST, PARTS = 4 };
    static const mp_arg_t table[] = {CV_NEEDS(src1), CV_NEEDS(src2), CV_NEEDS(weights1),
                                     CV_NEEDS(weights2), CV_MAY(dst)};
    CV_PARSE(table);
    struct cv_image parts[PARTS];
    double *rows[PARTS];
    for (int i = 0; i < PARTS; i++) {
        parts[i] = dev_cv_take(values[i].u_obj, i < WEIGHTS1 ? CV_U8 | CV_F32 : CV_F32);
        if (parts[i].rows != parts[0].rows || parts[i].columns != parts[0].columns ||
            parts[i].channels != (i < WEIGHTS1 ? parts[0].channels : 1) ||
            (i < WEIGHTS1 && parts[i].type != parts[0].type)) {
            dev_cv_bad("the two images are alike, and weights are float32, one for each pixel");
        }
        rows[i] = dev_cv_scratch(dev_cv_row_items(&parts[i]));
    }
    struct np_array *made = dev_cv_room_like(&parts[0]);
    struct cv_image to = dev_cv_of(made);
    const size_t items = dev_cv_row_items(&to);
    size_t owed = 0;
    for (int64_t y = 0; y < to.rows; y++) {
        for (int i = 0; i < PARTS; i++) {
            dev_cv_load(&parts[i], y, rows[i]);
        }
        for (size_t i = 0; i < items; i++) {
            double first = rows[WEIGHTS1][i / to.channels];
            double second = rows[WEIGHTS2][i / to.channels];
            rows[0][i] = (rows[0][i] * first + rows[1][i] * second) / (first + second + 1e-5);
        }
        dev_cv_store(to.type, (uint8_t *)(uintptr_t)dev_cv_row(&to, y), rows[0], items);
        dev_cv_pay(&owed, items * PARTS);
    }
    dev_cv_hold(parts);
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_blendLinear_obj, 4, blend_linear);

// Functions of walle.cv that compute with pixels by themselves: of one image or of two of the same
// size, and what a whole image comes to. Rows of uint8 and float32 have loops of their own in
// rows/; others are gone through as reals. Either way a number is rounded and held once, at the
// end. Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/rows/cv_tally_rows.h"

#include <float.h>
#include <math.h>
#include <string.h>

// A mask of 8 bits and one channel, as large as the image; false: there is none.
static bool mask_take(mp_obj_t value, const struct cv_image *image, struct cv_image *out_mask)
{
    if (value == mp_const_none) {
        return false;
    }
    *out_mask = dev_cv_take(value, CV_U8);
    if (out_mask->rows != image->rows || out_mask->columns != image->columns ||
        out_mask->channels != 1) {
        dev_cv_bad("a mask has one channel, and the size of the image");
    }
    return true;
}

static void both_take(mp_obj_t left, mp_obj_t right, uint32_t types, struct cv_image out_two[2])
{
    out_two[0] = dev_cv_take(left, types);
    out_two[1] = dev_cv_take(right, types);
    if (!dev_cv_same_shape(&out_two[0], &out_two[1])) {
        dev_cv_bad("the two images are of different sizes or channels");
    }
}

static uint8_t *row_to(const struct cv_image *image, int64_t row)
{
    return (uint8_t *)(uintptr_t)dev_cv_row(image, row);
}

// Images of one type, uint8 or float32, to that type.
static void weigh(const struct cv_image *to, const struct cv_image src[2],
                  const struct cv_weights *weights)
{
    const struct cv_level_rows *rows = NP_CHOSEN(dev_cv_level_rows);
    size_t items = dev_cv_row_items(to);
    size_t owed = 0;
    for (int64_t row = 0; row < to->rows; row++) {
        const uint8_t *const both[] = {dev_cv_row(&src[0], row), dev_cv_row(&src[1], row)};
        const float *const reals[] = {(const void *)both[0], (const void *)both[1]};
        if (to->type == NP_U8) {
            rows->weigh_u8(row_to(to, row), both, items, weights);
        } else {
            rows->weigh_f32((void *)row_to(to, row), reals, items, weights);
        }
        dev_cv_pay(&owed, items * 2);
    }
}

static void weigh_any(const struct cv_image *to, const struct cv_image src[2],
                      const struct cv_weights *weights)
{
    const struct cv_weights by = *weights;
    size_t items = dev_cv_row_items(to);
    double *one = dev_cv_scratch(2 * items);
    double *other = one + items;
    size_t owed = 0;
    for (int64_t row = 0; row < to->rows; row++) {
        dev_cv_load(&src[0], row, one);
        dev_cv_load(&src[1], row, other);
        for (size_t i = 0; i < items; i++) {
            one[i] = one[i] * by.alpha + other[i] * by.beta + by.gamma;
        }
        dev_cv_store(to->type, row_to(to, row), one, items);
        dev_cv_pay(&owed, items * 2);
    }
}

// addWeighted(src1, alpha, src2, beta, gamma[, dst[, dtype]])
static mp_obj_t add_weighted(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC1, ALPHA, SRC2, BETA, GAMMA, DST, DTYPE };
    static const mp_arg_t table[] = {CV_NEEDS(src1),       CV_NEEDS(alpha), CV_NEEDS(src2),
                                     CV_NEEDS(beta),       CV_NEEDS(gamma), CV_MAY(dst),
                                     CV_MAY_INT(dtype, -1)};
    CV_PARSE(table);
    struct cv_image src[2];
    both_take(values[SRC1].u_obj, values[SRC2].u_obj, CV_ALL, src);
    if (src[0].type != src[1].type && values[DTYPE].u_int < 0) {
        dev_cv_bad("images of different types need a dtype");
    }
    const struct cv_weights weights = {mp_obj_get_float(values[ALPHA].u_obj),
                                       mp_obj_get_float(values[BETA].u_obj),
                                       mp_obj_get_float(values[GAMMA].u_obj)};
    enum np_type type = dev_cv_depth(values[DTYPE].u_int, src[0].type);
    struct np_array *made = dev_cv_room(type, src[0].rows, src[0].columns, src[0].channels);
    struct cv_image to = dev_cv_of(made);
    bool is_typed = (type == NP_U8 || type == NP_F32) && src[0].type == type && src[1].type == type;
    (is_typed ? weigh : weigh_any)(&to, src, &weights);
    dev_cv_hold(src);
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_addWeighted_obj, 5, add_weighted);

// --- bits

static mp_obj_t bits(enum cv_bits how, const struct cv_image src[2], mp_obj_t dst,
                     mp_obj_t mask_value)
{
    if (src[0].type != src[1].type) {
        dev_cv_bad("the two images are of different types");
    }
    struct cv_image mask = {0};
    bool has_mask = mask_take(mask_value, &src[0], &mask);
    struct np_array *made = has_mask ? dev_cv_like(&src[0]) : dev_cv_room_like(&src[0]);
    struct cv_image to = dev_cv_of(made);
    size_t pixel = dev_np_item(to.type) * to.channels;
    size_t bytes = (size_t)to.columns * pixel;
    uint8_t *row_of = has_mask ? m_malloc(bytes) : NULL;
    const struct cv_level_rows *rows = NP_CHOSEN(dev_cv_level_rows);
    size_t owed = 0;
    for (int64_t row = 0; row < to.rows; row++) {
        const uint8_t *const both[] = {dev_cv_row(&src[0], row), dev_cv_row(&src[1], row)};
        rows->bits[how](has_mask ? row_of : row_to(&to, row), both, bytes);
        if (has_mask) {
            rows->chosen(row_to(&to, row), row_of, dev_cv_row(&mask, row), (size_t)to.columns,
                         pixel);
        }
        dev_cv_pay(&owed, bytes);
    }
    dev_cv_hold(src);
    dev_cv_hold(&mask);
    return dev_cv_give(dst, made);
}

static mp_obj_t bits_call(enum cv_bits how, size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC1, SRC2, DST, MASK };
    static const mp_arg_t table[] = {CV_NEEDS(src1), CV_NEEDS(src2), CV_MAY(dst), CV_MAY(mask)};
    CV_PARSE(table);
    struct cv_image src[2];
    both_take(values[SRC1].u_obj, values[SRC2].u_obj, CV_ALL, src);
    return bits(how, src, values[DST].u_obj, values[MASK].u_obj);
}

// bitwise_and(src1, src2[, dst[, mask]]), and the others of two
static mp_obj_t bitwise_and(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return bits_call(CV_BITS_AND, count, args, named);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_bitwise_and_obj, 2, bitwise_and);

static mp_obj_t bitwise_or(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return bits_call(CV_BITS_OR, count, args, named);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_bitwise_or_obj, 2, bitwise_or);

static mp_obj_t bitwise_xor(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return bits_call(CV_BITS_XOR, count, args, named);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_bitwise_xor_obj, 2, bitwise_xor);

// bitwise_not(src[, dst[, mask]])
static mp_obj_t bitwise_not(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DST, MASK };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_MAY(dst), CV_MAY(mask)};
    CV_PARSE(table);
    struct cv_image one = dev_cv_take(values[SRC].u_obj, CV_ALL);
    const struct cv_image src[] = {one, one};
    return bits(CV_BITS_NOT, src, values[DST].u_obj, values[MASK].u_obj);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_bitwise_not_obj, 1, bitwise_not);

// copyTo(src, mask[, dst]): into dst where the mask is not 0, else where dst is none, onto zeros
static mp_obj_t copy_to(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, MASK, DST };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_NEEDS(mask), CV_MAY(dst)};
    CV_PARSE(table);
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_ALL);
    struct cv_image mask = {0};
    bool has_mask = mask_take(values[MASK].u_obj, &src, &mask);
    struct np_array *made = has_mask ? dev_cv_like(&src) : dev_cv_room_like(&src);
    struct cv_image to = dev_cv_of(made);
    if (values[DST].u_obj != mp_const_none) {
        struct cv_image under = dev_cv_take(values[DST].u_obj, CV_ALL);
        if (under.type == src.type && dev_cv_same_shape(&under, &src)) {
            dev_np_fill(made, under.array);
        }
    }
    size_t pixel = dev_np_item(to.type) * to.channels;
    const struct cv_level_rows *rows = NP_CHOSEN(dev_cv_level_rows);
    size_t owed = 0;
    for (int64_t row = 0; row < to.rows; row++) {
        if (has_mask) {
            rows->chosen(row_to(&to, row), dev_cv_row(&src, row), dev_cv_row(&mask, row),
                         (size_t)to.columns, pixel);
        } else {
            memcpy(row_to(&to, row), dev_cv_row(&src, row), (size_t)to.columns * pixel);
        }
        dev_cv_pay(&owed, dev_cv_row_items(&to));
    }
    dev_cv_hold(&src);
    dev_cv_hold(&mask);
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_copyTo_obj, 2, copy_to);

// --- what an image comes to

#define MEANS 4 // channels at most

// The sums of each channel, where the mask is not 0; of how many pixels.
static double sums_of(const struct cv_image *src, const struct cv_image *mask, double sums[MEANS])
{
    double *row_of = dev_cv_scratch(dev_cv_row_items(src));
    double pixels = 0;
    size_t owed = 0;
    for (int64_t row = 0; row < src->rows; row++) {
        const uint8_t *is_in = mask != NULL ? dev_cv_row(mask, row) : NULL;
        dev_cv_load(src, row, row_of);
        for (int64_t x = 0; x < src->columns; x++) {
            if (is_in != NULL && is_in[x] == 0) {
                continue;
            }
            pixels++;
            for (uint32_t c = 0; c < src->channels; c++) {
                sums[c] += row_of[x * src->channels + c];
            }
        }
        dev_cv_pay(&owed, dev_cv_row_items(src));
    }
    return pixels;
}

// The same of uint8 without a mask, in whole numbers.
static double sums_of_whole(const struct cv_image *src, double sums[MEANS])
{
    const struct cv_tally_rows *rows = NP_CHOSEN(dev_cv_tally_rows);
    uint64_t whole[MEANS] = {0};
    size_t owed = 0;
    for (int64_t row = 0; row < src->rows; row++) {
        rows->summed(whole, dev_cv_row(src, row), (size_t)src->columns, src->channels);
        dev_cv_pay(&owed, dev_cv_row_items(src));
    }
    for (int i = 0; i < MEANS; i++) {
        sums[i] = (double)whole[i];
    }
    return (double)src->rows * (double)src->columns;
}

// mean(src[, mask]): of up to four channels
static mp_obj_t mean(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, MASK };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_MAY(mask)};
    CV_PARSE(table);
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_ALL);
    if (src.channels > MEANS) {
        dev_cv_bad("of at most four channels");
    }
    struct cv_image mask = {0};
    bool has_mask = mask_take(values[MASK].u_obj, &src, &mask);
    double sums[MEANS] = {0};
    double pixels = src.type == NP_U8 && !has_mask ? sums_of_whole(&src, sums)
                                                   : sums_of(&src, has_mask ? &mask : NULL, sums);
    dev_cv_hold(&mask);
    dev_cv_hold(&src);
    mp_obj_t means[MEANS];
    for (uint32_t c = 0; c < MEANS; c++) {
        means[c] = mp_obj_new_float(pixels > 0 ? sums[c] / pixels : 0);
    }
    return mp_obj_new_tuple(MEANS, means);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_mean_obj, 1, mean);

struct extent {
    double least;
    double largest;
    double sum; // of absolute values
    double squares;
};

static struct extent extent_of(const struct cv_image *src, double *row_of)
{
    struct extent seen = {INFINITY, -INFINITY, 0, 0};
    size_t items = dev_cv_row_items(src);
    size_t owed = 0;
    for (int64_t row = 0; row < src->rows; row++) {
        dev_cv_load(src, row, row_of);
        for (size_t i = 0; i < items; i++) {
            seen.least = row_of[i] < seen.least ? row_of[i] : seen.least;
            seen.largest = row_of[i] > seen.largest ? row_of[i] : seen.largest;
            seen.sum += fabs(row_of[i]);
            seen.squares += row_of[i] * row_of[i];
        }
        dev_cv_pay(&owed, items);
    }
    return seen;
}

// The least and the largest alone, of uint8 and of float32.
static struct extent ends_of(const struct cv_image *src)
{
    const struct cv_tally_rows *rows = NP_CHOSEN(dev_cv_tally_rows);
    size_t items = dev_cv_row_items(src);
    size_t owed = 0;
    uint8_t whole[] = {UINT8_MAX, 0};
    float real[] = {INFINITY, -INFINITY};
    bool is_whole = src->type == NP_U8;
    for (int64_t row = 0; row < src->rows; row++) {
        const void *from = dev_cv_row(src, row);
        if (is_whole) {
            rows->extent_u8(whole, from, items);
        } else {
            rows->extent_f32(real, from, items);
        }
        dev_cv_pay(&owed, items);
    }
    return (struct extent){.least = is_whole ? whole[0] : (double)real[0],
                           .largest = is_whole ? whole[1] : (double)real[1]};
}

enum norms { NORM_INF = 1, NORM_L1 = 2, NORM_L2 = 4, NORM_MINMAX = 32 };

// What normalize multiplies with and adds, alpha and gamma.
static struct cv_weights normal_weights(const struct cv_image *src, mp_int_t norm,
                                        const double range[2], double *row_of)
{
    double alpha = range[0];
    double beta = range[1];
    bool is_of_ends = norm == NORM_MINMAX || norm == NORM_INF;
    bool is_typed = src->type == NP_U8 || src->type == NP_F32;
    struct extent seen = is_of_ends && is_typed ? ends_of(src) : extent_of(src, row_of);
    double largest = fabs(seen.least) > fabs(seen.largest) ? fabs(seen.least) : fabs(seen.largest);
    struct cv_weights made = {0};
    switch (norm) {
    case NORM_MINMAX: {
        double low = alpha < beta ? alpha : beta;
        double spread = seen.largest - seen.least;
        made.alpha = fabs(beta - alpha) * (spread > DBL_EPSILON ? 1 / spread : 0);
        made.gamma = low - seen.least * made.alpha;
        break;
    }
    case NORM_INF:
    case NORM_L1:
    case NORM_L2: {
        double found = norm == NORM_INF ? largest : norm == NORM_L1 ? seen.sum : sqrt(seen.squares);
        made.alpha = found > DBL_EPSILON ? alpha / found : 0;
        break;
    }
    default:
        dev_cv_bad("normalize by NORM_INF, NORM_L1, NORM_L2 or NORM_MINMAX");
    }
    return made;
}

// Rows of uint8 to uint8 or of float32 to float32.
static void scale(const struct cv_image *to, const struct cv_image *src,
                  const struct cv_weights *weights)
{
    const struct cv_level_rows *rows = NP_CHOSEN(dev_cv_level_rows);
    size_t items = dev_cv_row_items(to);
    size_t owed = 0;
    double reals[CV_LEVELS];
    uint8_t levels[CV_LEVELS];
    for (int i = 0; i < CV_LEVELS; i++) {
        reals[i] = i * weights->alpha + weights->gamma;
    }
    rows->store_u8(levels, reals, CV_LEVELS);
    for (int64_t row = 0; row < to->rows; row++) {
        const void *from = dev_cv_row(src, row);
        if (to->type == NP_U8) {
            rows->scale_u8(row_to(to, row), from, items, weights, levels);
        } else {
            rows->scale_f32((void *)row_to(to, row), from, items, weights);
        }
        dev_cv_pay(&owed, items);
    }
}

static void scale_any(const struct cv_image *to, const struct cv_image *src,
                      const struct cv_weights *weights, double *row_of)
{
    size_t items = dev_cv_row_items(src);
    size_t owed = 0;
    for (int64_t row = 0; row < src->rows; row++) {
        dev_cv_load(src, row, row_of);
        for (size_t i = 0; i < items; i++) {
            row_of[i] = row_of[i] * weights->alpha + weights->gamma;
        }
        dev_cv_store(to->type, row_to(to, row), row_of, items);
        dev_cv_pay(&owed, items);
    }
}

// normalize(src, dst[, alpha[, beta[, norm_type[, dtype]]]])
static mp_obj_t normalize(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DST, ALPHA, BETA, NORM, DTYPE };
    static const mp_arg_t table[] = {CV_NEEDS(src),
                                     CV_NEEDS(dst),
                                     CV_MAY(alpha),
                                     CV_MAY(beta),
                                     CV_MAY_INT(norm_type, NORM_L2),
                                     CV_MAY_INT(dtype, -1)};
    CV_PARSE(table);
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_ALL);
    const double range[] = {dev_cv_real(values[ALPHA].u_obj, 1),
                            dev_cv_real(values[BETA].u_obj, 0)};
    enum np_type type = dev_cv_depth(values[DTYPE].u_int, src.type);
    struct np_array *made = dev_cv_room(type, src.rows, src.columns, src.channels);
    struct cv_image to = dev_cv_of(made);
    double *row_of = dev_cv_scratch(dev_cv_row_items(&src));
    const struct cv_weights weights = normal_weights(&src, values[NORM].u_int, range, row_of);
    if (src.type == type && (type == NP_U8 || type == NP_F32)) {
        scale(&to, &src, &weights);
    } else {
        scale_any(&to, &src, &weights, row_of);
    }
    dev_cv_hold(&src);
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_normalize_obj, 2, normalize);

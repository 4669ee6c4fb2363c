// Functions of walle.cv that compute with pixels by themselves: of one image or of two of the same
// size, and what a whole image comes to. Rows are gone through as reals, so that uint8 is rounded
// and held once, at the end. Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"

#include <float.h>
#include <math.h>

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
    double alpha = mp_obj_get_float(values[ALPHA].u_obj);
    double beta = mp_obj_get_float(values[BETA].u_obj);
    double gamma = mp_obj_get_float(values[GAMMA].u_obj);
    enum np_type type = dev_cv_depth(values[DTYPE].u_int, src[0].type);
    struct np_array *made = dev_cv_new(type, src[0].rows, src[0].columns, src[0].channels);
    struct cv_image to = dev_cv_of(made);
    size_t items = dev_cv_row_items(&to);
    double *one = dev_cv_scratch(2 * items);
    double *other = one + items;
    size_t owed = 0;
    for (int64_t row = 0; row < to.rows; row++) {
        dev_cv_load(&src[0], row, one);
        dev_cv_load(&src[1], row, other);
        for (size_t i = 0; i < items; i++) {
            one[i] = one[i] * alpha + other[i] * beta + gamma;
        }
        dev_cv_store(type, (uint8_t *)(uintptr_t)dev_cv_row(&to, row), one, items);
        dev_cv_pay(&owed, items * 2);
    }
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_addWeighted_obj, 5, add_weighted);

// --- bits

enum bits { BITS_AND, BITS_OR, BITS_XOR, BITS_NOT };

static void bits_row(enum bits how, uint8_t *to, const uint8_t *one, const uint8_t *other,
                     size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        switch (how) {
        case BITS_AND:
            to[i] = one[i] & other[i];
            break;
        case BITS_OR:
            to[i] = one[i] | other[i];
            break;
        case BITS_XOR:
            to[i] = one[i] ^ other[i];
            break;
        case BITS_NOT:
        default:
            to[i] = (uint8_t)~one[i];
            break;
        }
    }
}

static mp_obj_t bits(enum bits how, const struct cv_image src[2], mp_obj_t dst, mp_obj_t mask_value)
{
    if (src[0].type != src[1].type) {
        dev_cv_bad("the two images are of different types");
    }
    struct cv_image mask = {0};
    bool has_mask = mask_take(mask_value, &src[0], &mask);
    struct np_array *made = dev_cv_like(&src[0]);
    struct cv_image to = dev_cv_of(made);
    size_t pixel = dev_np_item(to.type) * to.channels;
    size_t bytes = (size_t)to.columns * pixel;
    size_t owed = 0;
    for (int64_t row = 0; row < to.rows; row++) {
        uint8_t *out = (uint8_t *)(uintptr_t)dev_cv_row(&to, row);
        bits_row(how, out, dev_cv_row(&src[0], row), dev_cv_row(&src[1], row), bytes);
        for (int64_t x = 0; has_mask && x < to.columns; x++) {
            if (dev_cv_row(&mask, row)[x] == 0) {
                __builtin_memset(out + (size_t)x * pixel, 0, pixel);
            }
        }
        dev_cv_pay(&owed, bytes);
    }
    dev_cv_hold(src);
    dev_cv_hold(&mask);
    return dev_cv_give(dst, made);
}

static mp_obj_t bits_call(enum bits how, size_t count, const mp_obj_t *args, mp_map_t *named)
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
    return bits_call(BITS_AND, count, args, named);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_bitwise_and_obj, 2, bitwise_and);

static mp_obj_t bitwise_or(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return bits_call(BITS_OR, count, args, named);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_bitwise_or_obj, 2, bitwise_or);

static mp_obj_t bitwise_xor(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return bits_call(BITS_XOR, count, args, named);
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
    return bits(BITS_NOT, src, values[DST].u_obj, values[MASK].u_obj);
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
    struct np_array *made = dev_cv_like(&src);
    struct cv_image to = dev_cv_of(made);
    if (values[DST].u_obj != mp_const_none) {
        struct cv_image under = dev_cv_take(values[DST].u_obj, CV_ALL);
        if (under.type == src.type && dev_cv_same_shape(&under, &src)) {
            dev_np_fill(made, under.array);
        }
    }
    size_t pixel = dev_np_item(to.type) * to.channels;
    size_t owed = 0;
    for (int64_t row = 0; row < to.rows; row++) {
        uint8_t *out = (uint8_t *)(uintptr_t)dev_cv_row(&to, row);
        const uint8_t *in = dev_cv_row(&src, row);
        for (int64_t x = 0; x < to.columns; x++) {
            if (!has_mask || dev_cv_row(&mask, row)[x] != 0) {
                __builtin_memcpy(out + (size_t)x * pixel, in + (size_t)x * pixel, pixel);
            }
        }
        dev_cv_pay(&owed, dev_cv_row_items(&to));
    }
    dev_cv_hold(&src);
    dev_cv_hold(&mask);
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_copyTo_obj, 2, copy_to);

// --- what an image comes to

// mean(src[, mask]): of up to four channels
static mp_obj_t mean(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, MASK, CHANNELS = 4 };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_MAY(mask)};
    CV_PARSE(table);
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_ALL);
    if (src.channels > CHANNELS) {
        dev_cv_bad("of at most four channels");
    }
    struct cv_image mask = {0};
    bool has_mask = mask_take(values[MASK].u_obj, &src, &mask);
    double *row_of = dev_cv_scratch(dev_cv_row_items(&src));
    double sums[CHANNELS] = {0};
    double pixels = 0;
    size_t owed = 0;
    for (int64_t row = 0; row < src.rows; row++) {
        dev_cv_load(&src, row, row_of);
        for (int64_t x = 0; x < src.columns; x++) {
            if (has_mask && dev_cv_row(&mask, row)[x] == 0) {
                continue;
            }
            pixels++;
            for (uint32_t c = 0; c < src.channels; c++) {
                sums[c] += row_of[x * src.channels + c];
            }
        }
        dev_cv_pay(&owed, dev_cv_row_items(&src));
    }
    dev_cv_hold(&mask);
    mp_obj_t means[CHANNELS];
    for (uint32_t c = 0; c < CHANNELS; c++) {
        means[c] = mp_obj_new_float(pixels > 0 ? sums[c] / pixels : 0);
    }
    return mp_obj_new_tuple(CHANNELS, means);
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

// normalize(src, dst[, alpha[, beta[, norm_type[, dtype]]]])
static mp_obj_t normalize(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DST, ALPHA, BETA, NORM, DTYPE, INF = 1, L1 = 2, L2 = 4, MINMAX = 32 };
    static const mp_arg_t table[] = {
        CV_NEEDS(src),        CV_NEEDS(dst), CV_MAY(alpha), CV_MAY(beta), CV_MAY_INT(norm_type, L2),
        CV_MAY_INT(dtype, -1)};
    CV_PARSE(table);
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_ALL);
    double alpha = dev_cv_real(values[ALPHA].u_obj, 1);
    double beta = dev_cv_real(values[BETA].u_obj, 0);
    enum np_type type = dev_cv_depth(values[DTYPE].u_int, src.type);
    struct np_array *made = dev_cv_new(type, src.rows, src.columns, src.channels);
    struct cv_image to = dev_cv_of(made);
    size_t items = dev_cv_row_items(&src);
    double *row_of = dev_cv_scratch(items);
    struct extent seen = extent_of(&src, row_of);
    double largest = fabs(seen.least) > fabs(seen.largest) ? fabs(seen.least) : fabs(seen.largest);
    double scale = 0;
    double shift = 0;
    switch (values[NORM].u_int) {
    case MINMAX: {
        double low = alpha < beta ? alpha : beta;
        double spread = seen.largest - seen.least;
        scale = fabs(beta - alpha) * (spread > DBL_EPSILON ? 1 / spread : 0);
        shift = low - seen.least * scale;
        break;
    }
    case INF:
    case L1:
    case L2: {
        double norm = values[NORM].u_int == INF  ? largest
                      : values[NORM].u_int == L1 ? seen.sum
                                                 : sqrt(seen.squares);
        scale = norm > DBL_EPSILON ? alpha / norm : 0;
        break;
    }
    default:
        dev_cv_bad("normalize by NORM_INF, NORM_L1, NORM_L2 or NORM_MINMAX");
    }
    size_t owed = 0;
    for (int64_t row = 0; row < src.rows; row++) {
        dev_cv_load(&src, row, row_of);
        for (size_t i = 0; i < items; i++) {
            row_of[i] = row_of[i] * scale + shift;
        }
        dev_cv_store(type, (uint8_t *)(uintptr_t)dev_cv_row(&to, row), row_of, items);
        dev_cv_pay(&owed, items);
    }
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_normalize_obj, 2, normalize);

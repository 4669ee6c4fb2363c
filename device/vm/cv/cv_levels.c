// Functions of walle.cv about how light pixels are: thresholds, histograms, and sums of all that
// is above and to the left. Pixels are read and written as in cv_image.c. Called by scripts, on
// the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_filter.h"

#include <float.h>
#include <math.h>

#define LEVELS 256

enum { BINARY, BINARY_INV, TRUNC, TOZERO, TOZERO_INV, KINDS = 7, OTSU = 8 };

static void levels_count(const struct cv_image *src, int64_t counts[LEVELS])
{
    size_t owed = 0;
    size_t items = dev_cv_row_items(src);
    for (int64_t row = 0; row < src->rows; row++) {
        const uint8_t *from = dev_cv_row(src, row);
        for (size_t i = 0; i < items; i++) {
            counts[from[i]]++;
        }
        dev_cv_pay(&owed, items);
    }
}

// Otsu's: where the two sides are furthest apart.
static double otsu(const struct cv_image *src)
{
    int64_t counts[LEVELS] = {0};
    levels_count(src, counts);
    double scale = 1 / (double)(src->rows * src->columns);
    double mean = 0;
    for (int i = 0; i < LEVELS; i++) {
        mean += i * (double)counts[i];
    }
    mean *= scale;
    double below = 0;
    double below_mean = 0;
    double best = 0;
    double level = 0;
    for (int i = 0; i < LEVELS; i++) {
        double part = (double)counts[i] * scale;
        below_mean *= below;
        below += part;
        double above = 1 - below;
        if (fmin(below, above) < (double)FLT_EPSILON ||
            fmax(below, above) > 1 - (double)FLT_EPSILON) {
            continue;
        }
        below_mean = (below_mean + i * part) / below;
        double above_mean = (mean - below * below_mean) / above;
        double apart = below * above * (below_mean - above_mean) * (below_mean - above_mean);
        if (apart > best) {
            best = apart;
            level = i;
        }
    }
    return level;
}

static double cut(int kind, double value, double level, double most)
{
    bool is_above = value > level;
    switch (kind) {
    case BINARY:
        return is_above ? most : 0;
    case BINARY_INV:
        return is_above ? 0 : most;
    case TRUNC:
        return is_above ? level : value;
    case TOZERO:
        return is_above ? value : 0;
    case TOZERO_INV:
    default:
        return is_above ? 0 : value;
    }
}

// threshold(src, thresh, maxval, type[, dst]): the threshold, and the image
static mp_obj_t threshold(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, THRESH, MAXVAL, TYPE, DST };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_NEEDS(thresh), CV_NEEDS(maxval),
                                     CV_NEEDS_INT(type), CV_MAY(dst)};
    CV_PARSE(table);
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_U8 | CV_REALS);
    double level = mp_obj_get_float(values[THRESH].u_obj);
    double most = mp_obj_get_float(values[MAXVAL].u_obj);
    mp_int_t kind = values[TYPE].u_int & KINDS;
    if (kind > TOZERO_INV || (values[TYPE].u_int & ~(mp_int_t)KINDS & ~(mp_int_t)OTSU) != 0) {
        dev_cv_bad(
            "a threshold is THRESH_BINARY to THRESH_TOZERO_INV, with THRESH_OTSU or without");
    }
    if ((values[TYPE].u_int & OTSU) != 0) {
        if (src.type != NP_U8 || src.channels != 1) {
            dev_cv_bad("THRESH_OTSU is of uint8 and one channel");
        }
        level = otsu(&src);
    }
    if (src.type == NP_U8) {
        level = floor(level);
        most = rint(most);
    } else if (src.type == NP_F32) {
        most = (double)(float)most;
    }
    double bound = src.type == NP_F32 ? (double)(float)level : level;
    struct np_array *made = dev_cv_like(&src);
    struct cv_image to = dev_cv_of(made);
    size_t items = dev_cv_row_items(&src);
    double *row_of = dev_cv_scratch(items);
    size_t owed = 0;
    for (int64_t row = 0; row < src.rows; row++) {
        dev_cv_load(&src, row, row_of);
        for (size_t i = 0; i < items; i++) {
            row_of[i] = cut((int)kind, row_of[i], bound, most);
        }
        dev_cv_store(to.type, (uint8_t *)(uintptr_t)dev_cv_row(&to, row), row_of, items);
        dev_cv_pay(&owed, items * 2);
    }
    mp_obj_t both[] = {mp_obj_new_float(level), dev_cv_give(values[DST].u_obj, made)};
    return mp_obj_new_tuple(2, both);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_threshold_obj, 4, threshold);

// What is around each place, as adaptiveThreshold compares with.
static struct np_array *surroundings(const struct cv_image *src, int64_t size, bool is_mean)
{
    struct cv_filter filter = {
        .from = *src, .scale = 1, .depth = -1, .border = CV_BORDER_REPLICATE};
    filter.kernel.rows = filter.kernel.columns = size;
    double *side = dev_cv_gaussian_numbers(size, 0);
    for (int64_t i = 0; is_mean && i < size; i++) {
        side[i] = 1;
    }
    filter.kernel.down = filter.kernel.across = side;
    filter.scale = is_mean ? 1 / (double)(size * size) : 1;
    dev_cv_anchor(&filter, mp_const_none);
    return dev_cv_filtered(&filter);
}

// adaptiveThreshold(src, maxValue, adaptiveMethod, thresholdType, blockSize, C[, dst])
static mp_obj_t adaptive_threshold(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, MAXVALUE, METHOD, TYPE, BLOCK, C, DST };
    static const mp_arg_t table[] = {CV_NEEDS(src),
                                     CV_NEEDS(maxValue),
                                     CV_NEEDS_INT(adaptiveMethod),
                                     CV_NEEDS_INT(thresholdType),
                                     CV_NEEDS_INT(blockSize),
                                     CV_NEEDS(C),
                                     CV_MAY(dst)};
    CV_PARSE(table);
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_U8);
    mp_int_t size = values[BLOCK].u_int;
    mp_int_t type = values[TYPE].u_int;
    mp_int_t method = values[METHOD].u_int;
    if (src.channels != 1 || size <= 1 || size % 2 == 0 || size > CV_KERNEL_MAX) {
        dev_cv_bad("of one channel, and a block of an odd size above 1");
    }
    if (type < BINARY || type > BINARY_INV || method < 0 || method > 1) {
        dev_cv_bad("by ADAPTIVE_THRESH_MEAN_C or _GAUSSIAN_C, to THRESH_BINARY or _BINARY_INV");
    }
    double most = rint(mp_obj_get_float(values[MAXVALUE].u_obj));
    uint8_t set = (uint8_t)(most < 0 ? 0 : most > 255 ? 255 : most);
    double given = mp_obj_get_float(values[C].u_obj);
    double less = type == BINARY ? ceil(given) : floor(given);
    struct np_array *made = surroundings(&src, size, method == 0);
    struct cv_image to = dev_cv_of(made);
    size_t owed = 0;
    for (int64_t row = 0; row < src.rows; row++) {
        uint8_t *out = (uint8_t *)(uintptr_t)dev_cv_row(&to, row);
        const uint8_t *from = dev_cv_row(&src, row);
        for (int64_t x = 0; x < src.columns; x++) {
            bool is_above = from[x] - out[x] > -less;
            out[x] = is_above == (type == BINARY) ? set : 0;
        }
        dev_cv_pay(&owed, (size_t)src.columns);
    }
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_adaptiveThreshold_obj, 6, adaptive_threshold);

// equalizeHist(src[, dst])
static mp_obj_t equalize_hist(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DST };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_MAY(dst)};
    CV_PARSE(table);
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_U8);
    if (src.channels != 1) {
        dev_cv_bad("of one channel");
    }
    int64_t counts[LEVELS] = {0};
    levels_count(&src, counts);
    int first = 0;
    while (first < LEVELS - 1 && counts[first] == 0) {
        first++;
    }
    int64_t total = src.rows * src.columns;
    uint8_t levels[LEVELS] = {0};
    if (counts[first] == total) {
        levels[first] = (uint8_t)first;
    } else {
        float scale = 255.F / (float)(total - counts[first]);
        int64_t sum = 0;
        for (int i = first + 1; i < LEVELS; i++) {
            sum += counts[i];
            levels[i] = (uint8_t)fmin(255, rint((double)((float)sum * scale)));
        }
    }
    struct np_array *made = dev_cv_like(&src);
    struct cv_image to = dev_cv_of(made);
    size_t owed = 0;
    for (int64_t row = 0; row < src.rows; row++) {
        uint8_t *out = (uint8_t *)(uintptr_t)dev_cv_row(&to, row);
        const uint8_t *from = dev_cv_row(&src, row);
        for (int64_t x = 0; x < src.columns; x++) {
            out[x] = levels[from[x]];
        }
        dev_cv_pay(&owed, (size_t)src.columns);
    }
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_equalizeHist_obj, 1, equalize_hist);

static mp_obj_t one_of(mp_obj_t list, const char *why)
{
    size_t size;
    mp_obj_t *items;
    mp_obj_get_array(list, &size, &items);
    if (size != 1) {
        dev_cv_bad(why);
    }
    return items[0];
}

// calcHist(images, channels, mask, histSize, ranges): of one image and one of its channels
static mp_obj_t calc_hist(size_t count, const mp_obj_t *args)
{
    (void)count;
    struct cv_image src = dev_cv_take(one_of(args[0], "of one image"), CV_U8 | CV_F32);
    mp_int_t channel = mp_obj_get_int(one_of(args[1], "of one channel"));
    mp_int_t bins = mp_obj_get_int(one_of(args[3], "of one size"));
    size_t ends;
    mp_obj_t *range;
    mp_obj_get_array(args[4], &ends, &range);
    if (channel < 0 || channel >= (mp_int_t)src.channels || bins < 1 || ends != 2) {
        dev_cv_bad("a channel of the image, a size above 0, and a range of two numbers");
    }
    double low = (double)(float)mp_obj_get_float(range[0]);
    double high = (double)(float)mp_obj_get_float(range[1]);
    if (!(low < high)) {
        dev_cv_bad("a range begins below its end");
    }
    struct cv_image mask = {0};
    bool has_mask = args[2] != mp_const_none;
    if (has_mask) {
        mask = dev_cv_take(args[2], CV_U8);
        if (mask.rows != src.rows || mask.columns != src.columns || mask.channels != 1) {
            dev_cv_bad("a mask has one channel, and the size of the image");
        }
    }
    struct np_array *made = dev_cv_new(NP_F32, bins, 1, 1);
    double *row_of = dev_cv_scratch(dev_cv_row_items(&src));
    float *counts = (float *)(void *)made->data;
    double by = (double)bins / (high - low);
    size_t owed = 0;
    for (int64_t row = 0; row < src.rows; row++) {
        dev_cv_load(&src, row, row_of);
        for (int64_t x = 0; x < src.columns; x++) {
            double at = floor(row_of[x * src.channels + channel] * by - low * by);
            if (at >= 0 && at < (double)bins && (!has_mask || dev_cv_row(&mask, row)[x] != 0)) {
                counts[(int64_t)at]++;
            }
        }
        dev_cv_pay(&owed, dev_cv_row_items(&src));
    }
    dev_cv_hold(&mask);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(dev_cv_calcHist_obj, 5, 5, calc_hist);

// integral(src[, sum[, sdepth]]): of uint8 int32, else float64; one row and column more than src
static mp_obj_t integral(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, SUM, DEPTH };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_MAY(sum), CV_MAY_INT(sdepth, -1)};
    CV_PARSE(table);
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_U8 | CV_REALS);
    enum np_type type = dev_cv_depth(values[DEPTH].u_int, src.type == NP_U8 ? NP_I32 : NP_F64);
    if (type == NP_U8 || (src.type != NP_U8 && type == NP_I32) ||
        (src.type == NP_F64 && type == NP_F32)) {
        dev_cv_bad("a sum is CV_32S of uint8, CV_32F of uint8 and float32, or CV_64F");
    }
    struct np_array *made = dev_cv_new(type, src.rows + 1, src.columns + 1, src.channels);
    struct cv_image to = dev_cv_of(made);
    size_t items = dev_cv_row_items(&src);
    double *row_of = dev_cv_scratch(items);
    double *above = dev_cv_scratch(items);
    for (size_t i = 0; i < items; i++) {
        above[i] = 0;
    }
    size_t owed = 0;
    for (int64_t row = 0; row < src.rows; row++) {
        dev_cv_load(&src, row, row_of);
        for (size_t i = src.channels; i < items; i++) {
            row_of[i] += row_of[i - src.channels];
        }
        for (size_t i = 0; i < items; i++) {
            above[i] += row_of[i];
        }
        uint8_t *out = (uint8_t *)(uintptr_t)dev_cv_row(&to, row + 1);
        dev_cv_store(type, out + src.channels * dev_np_item(type), above, items);
        dev_cv_pay(&owed, items * 3);
    }
    return dev_cv_give(values[SUM].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_integral_obj, 1, integral);

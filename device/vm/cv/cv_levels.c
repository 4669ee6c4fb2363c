// Functions of walle.cv about how light pixels are: thresholds, histograms, and sums of all that
// is above and to the left. Rows of uint8 have loops of their own in rows/, others are read and
// written as in cv_image.c. Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_filter.h"
#include "vm/cv/rows/cv_tally_rows.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { KINDS = 7, OTSU = 8 };

static uint8_t *row_to(const struct cv_image *image, int64_t row)
{
    return (uint8_t *)(uintptr_t)dev_cv_row(image, row);
}

// How often each level is there in a channel of uint8, where the mask, if any, is not 0.
static void levels_count(const struct cv_image *src, uint32_t channel, const struct cv_image *mask,
                         int64_t counts[CV_LEVELS])
{
    const struct cv_tally_rows *rows = NP_CHOSEN(dev_cv_tally_rows);
    uint32_t parts[CV_COUNTERS][CV_LEVELS] = {0};
    size_t owed = 0;
    for (int64_t row = 0; row < src->rows; row++) {
        const uint8_t *from = dev_cv_row(src, row) + channel;
        if (mask == NULL) {
            rows->counted(parts, from, (size_t)src->columns, src->channels);
        }
        for (int64_t x = 0; mask != NULL && x < src->columns; x++) {
            parts[0][from[x * src->channels]] += dev_cv_row(mask, row)[x] != 0;
        }
        dev_cv_pay(&owed, (size_t)src->columns);
    }
    for (int i = 0; i < CV_LEVELS; i++) {
        counts[i] = (int64_t)parts[0][i] + parts[1][i] + parts[2][i] + parts[3][i];
    }
}

// Otsu's: where the two sides are furthest apart.
static double otsu(const struct cv_image *src)
{
    int64_t counts[CV_LEVELS];
    levels_count(src, 0, NULL, counts);
    double scale = 1 / (double)(src->rows * src->columns);
    double mean = 0;
    for (int i = 0; i < CV_LEVELS; i++) {
        mean += i * (double)counts[i];
    }
    mean *= scale;
    double below = 0;
    double below_mean = 0;
    double best = 0;
    double level = 0;
    for (int i = 0; i < CV_LEVELS; i++) {
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
    case CV_BINARY:
        return is_above ? most : 0;
    case CV_BINARY_INV:
        return is_above ? 0 : most;
    case CV_TRUNC:
        return is_above ? level : value;
    case CV_TOZERO:
        return is_above ? value : 0;
    case CV_TOZERO_INV:
    default:
        return is_above ? 0 : value;
    }
}

static uint8_t held(double value)
{
    return (uint8_t)(value > 0 ? value < 255 ? value : 255 : 0); // whole; NaN: 0
}

// The same of uint8: what is kept and set of values below and above. `level` is whole or NaN.
static struct cv_cut cut_of_whole(int kind, double level, double most)
{
    bool keeps[] = {kind == CV_TRUNC || kind == CV_TOZERO_INV, kind == CV_TOZERO};
    struct cv_cut made = {.low = held(level + 1), .keep = {keeps[0] ? 255 : 0, keeps[1] ? 255 : 0}};
    made.set[0] = kind == CV_BINARY_INV ? held(most) : 0;
    made.set[1] = kind == CV_BINARY ? held(most) : kind == CV_TRUNC ? held(level) : 0;
    if (!(level < 255)) { // none is above
        made.keep[1] = made.keep[0];
        made.set[1] = made.set[0];
    }
    return made;
}

// `ends` are the level and what is set.
static void cut_rows(const struct cv_image *to, const struct cv_image *src, int kind,
                     const double ends[2])
{
    const struct cv_level_rows *rows = NP_CHOSEN(dev_cv_level_rows);
    const struct cv_cut whole = cut_of_whole(kind, ends[0], ends[1]);
    const float reals[] = {(float)ends[0], (float)ends[1]};
    size_t items = dev_cv_row_items(src);
    double *row_of = src->type == NP_F64 ? dev_cv_scratch(items) : NULL;
    size_t owed = 0;
    for (int64_t row = 0; row < src->rows; row++) {
        const void *from = dev_cv_row(src, row);
        if (src->type == NP_U8) {
            rows->cut_u8(row_to(to, row), from, items, &whole);
        } else if (src->type == NP_F32) {
            rows->cut_f32[kind]((void *)row_to(to, row), from, items, reals);
        } else {
            dev_cv_load(src, row, row_of);
            for (size_t i = 0; i < items; i++) {
                row_of[i] = cut(kind, row_of[i], ends[0], ends[1]);
            }
            dev_cv_store(to->type, row_to(to, row), row_of, items);
        }
        dev_cv_pay(&owed, items);
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
    if (kind > CV_TOZERO_INV || (values[TYPE].u_int & ~(mp_int_t)KINDS & ~(mp_int_t)OTSU) != 0) {
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
    }
    struct np_array *made = dev_cv_room_like(&src);
    struct cv_image to = dev_cv_of(made);
    const double ends[] = {level, most};
    cut_rows(&to, &src, (int)kind, ends);
    dev_cv_hold(&src);
    mp_obj_t both[] = {mp_obj_new_float(level), dev_cv_give(values[DST].u_obj, made)};
    return mp_obj_new_tuple(2, both);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_threshold_obj, 4, threshold);

// What is compared with what is around it: to which of two levels, where it is more than this more.
struct nearby {
    int64_t size;
    int32_t bound;
    uint8_t set[2];
};

// The mean of a square is of sums of columns, of a band of rows that moves down. Outside, the
// nearest row or column counts once more.
static void compare_mean(const struct cv_image *to, const struct cv_image *src,
                         const struct nearby *nearby)
{
    const struct cv_tally_rows *rows = NP_CHOSEN(dev_cv_tally_rows);
    const size_t columns = (size_t)src->columns;
    const int64_t last = src->rows - 1;
    const int64_t half = nearby->size / 2;
    uint32_t *sums = m_new0(uint32_t, columns + 2 * (size_t)half);
    uint32_t *inner = sums + half;
    uint32_t *before = m_new0(uint32_t, columns + 2 * (size_t)half + 1);
    const uint8_t *nothing = m_new0(uint8_t, columns);
    struct cv_near near = {.sums = before,
                           .size = (size_t)nearby->size,
                           .scale = 1 / (double)(nearby->size * nearby->size),
                           .bound = nearby->bound,
                           .set = {nearby->set[0], nearby->set[1]}};
    size_t owed = 0;
    // In front of the first row the band fills, and nothing leaves it.
    for (int64_t row = -2 * half; row < src->rows; row++) {
        int64_t in = row + half < 0 ? 0 : row + half > last ? last : row + half;
        int64_t out = row - half - 1 < 0 ? 0 : row - half - 1;
        const uint8_t *const both[] = {dev_cv_row(src, in),
                                       row > 0 ? dev_cv_row(src, out) : nothing};
        rows->moved(inner, both, columns);
        if (row >= 0) {
            for (int64_t i = 0; i < half; i++) {
                sums[i] = inner[0];
                inner[src->columns + i] = inner[src->columns - 1];
            }
            rows->added_up(before + 1, sums, columns + 2 * (size_t)half);
            near.from = dev_cv_row(src, row);
            rows->near(row_to(to, row), columns, &near);
        }
        dev_cv_pay(&owed, columns * 3 + (size_t)half);
    }
}

static void compare_weighed(const struct cv_image *to, const struct cv_image *src,
                            const struct nearby *nearby)
{
    struct cv_filter filter = {
        .from = *src, .scale = 1, .depth = -1, .border = CV_BORDER_REPLICATE};
    filter.kernel.rows = filter.kernel.columns = nearby->size;
    filter.kernel.down = filter.kernel.across = dev_cv_gaussian_numbers(nearby->size, 0);
    dev_cv_anchor(&filter, mp_const_none);
    const struct np_array *made = dev_cv_filtered(&filter);
    struct cv_image around = dev_cv_of(made);
    size_t owed = 0;
    for (int64_t row = 0; row < src->rows; row++) {
        uint8_t *out = row_to(to, row);
        const uint8_t *from = dev_cv_row(src, row);
        const uint8_t *mean = dev_cv_row(&around, row);
        for (int64_t x = 0; x < src->columns; x++) {
            out[x] = nearby->set[from[x] - mean[x] > nearby->bound];
        }
        dev_cv_pay(&owed, (size_t)src->columns);
    }
    dev_cv_hold(made);
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
    if (type < CV_BINARY || type > CV_BINARY_INV || method < 0 || method > 1) {
        dev_cv_bad("by ADAPTIVE_THRESH_MEAN_C or _GAUSSIAN_C, to THRESH_BINARY or _BINARY_INV");
    }
    double most = rint(mp_obj_get_float(values[MAXVALUE].u_obj));
    uint8_t set = (uint8_t)(most < 0 ? 0 : most > 255 ? 255 : most);
    double given = mp_obj_get_float(values[C].u_obj);
    double bound = type == CV_BINARY ? -ceil(given) : -floor(given);
    struct nearby nearby = {.size = size};
    // Two of uint8 are not further apart than 255; NaN: nothing is above.
    nearby.bound = bound > -256 ? (int32_t)(bound < 256 ? bound : 256) : bound <= -256 ? -256 : 256;
    nearby.set[type == CV_BINARY ? 1 : 0] = set;
    struct np_array *made = dev_cv_room_like(&src);
    struct cv_image to = dev_cv_of(made);
    (method == 0 ? compare_mean : compare_weighed)(&to, &src, &nearby);
    dev_cv_hold(&src);
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
    int64_t counts[CV_LEVELS];
    levels_count(&src, 0, NULL, counts);
    int first = 0;
    while (first < CV_LEVELS - 1 && counts[first] == 0) {
        first++;
    }
    int64_t total = src.rows * src.columns;
    uint8_t levels[CV_LEVELS] = {0};
    if (counts[first] == total) {
        levels[first] = (uint8_t)first;
    } else {
        float scale = 255.F / (float)(total - counts[first]);
        int64_t sum = 0;
        for (int i = first + 1; i < CV_LEVELS; i++) {
            sum += counts[i];
            levels[i] = (uint8_t)fmin(255, rint((double)((float)sum * scale)));
        }
    }
    struct np_array *made = dev_cv_room_like(&src);
    struct cv_image to = dev_cv_of(made);
    const struct cv_level_rows *rows = NP_CHOSEN(dev_cv_level_rows);
    size_t owed = 0;
    for (int64_t row = 0; row < src.rows; row++) {
        rows->mapped(row_to(&to, row), dev_cv_row(&src, row), (size_t)src.columns, levels);
        dev_cv_pay(&owed, (size_t)src.columns);
    }
    dev_cv_hold(&src);
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

struct bins {
    float *counts;
    double count;
    double low;
    double by; // bins to a unit
    uint32_t channel;
};

static void bins_add(const struct bins *bins, double value, int64_t how_often)
{
    double at = floor(value * bins->by - bins->low * bins->by);
    if (at >= 0 && at < bins->count) {
        bins->counts[(int64_t)at] += (float)how_often;
    }
}

static void bins_of_whole(const struct bins *bins, const struct cv_image *src,
                          const struct cv_image *mask)
{
    int64_t counts[CV_LEVELS];
    levels_count(src, bins->channel, mask, counts);
    for (int i = 0; i < CV_LEVELS; i++) {
        bins_add(bins, i, counts[i]);
    }
}

static void bins_of_real(const struct bins *bins, const struct cv_image *src,
                         const struct cv_image *mask)
{
    size_t owed = 0;
    for (int64_t row = 0; row < src->rows; row++) {
        const float *from = (const void *)dev_cv_row(src, row);
        for (int64_t x = 0; x < src->columns; x++) {
            if (mask == NULL || dev_cv_row(mask, row)[x] != 0) {
                bins_add(bins, (double)from[x * src->channels + bins->channel], 1);
            }
        }
        dev_cv_pay(&owed, dev_cv_row_items(src));
    }
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
    const struct bins all = {.counts = (float *)(void *)made->data,
                             .count = (double)bins,
                             .low = low,
                             .by = (double)bins / (high - low),
                             .channel = (uint32_t)channel};
    (src.type == NP_U8 ? bins_of_whole : bins_of_real)(&all, &src, has_mask ? &mask : NULL);
    dev_cv_hold(&src);
    dev_cv_hold(&mask);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(dev_cv_calcHist_obj, 5, 5, calc_hist);

// Of uint8 to int32, where the sum of all has room.
static void integral_whole(const struct cv_image *to, const struct cv_image *src)
{
    const struct cv_tally_rows *rows = NP_CHOSEN(dev_cv_tally_rows);
    const size_t edge = src->channels * sizeof(int32_t);
    size_t owed = 0;
    for (int64_t row = 0; row < src->rows; row++) {
        const int32_t *above = (const void *)dev_cv_row(to, row);
        int32_t *out = (void *)row_to(to, row + 1);
        memset(out, 0, edge);
        rows->integral(out + src->channels, above + src->channels, dev_cv_row(src, row),
                       dev_cv_row_items(src), src->channels);
        dev_cv_pay(&owed, dev_cv_row_items(src) * 2);
    }
}

static void integral_any(const struct cv_image *to, const struct cv_image *src)
{
    const size_t edge = src->channels * dev_np_item(to->type);
    size_t items = dev_cv_row_items(src);
    double *row_of = dev_cv_scratch(2 * items);
    double *above = row_of + items;
    for (size_t i = 0; i < items; i++) {
        above[i] = 0;
    }
    size_t owed = 0;
    for (int64_t row = 0; row < src->rows; row++) {
        dev_cv_load(src, row, row_of);
        for (size_t i = src->channels; i < items; i++) {
            row_of[i] += row_of[i - src->channels];
        }
        for (size_t i = 0; i < items; i++) {
            above[i] += row_of[i];
        }
        memset(row_to(to, row + 1), 0, edge);
        dev_cv_store(to->type, row_to(to, row + 1) + edge, above, items);
        dev_cv_pay(&owed, items * 3);
    }
}

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
    struct np_array *made = dev_cv_room(type, src.rows + 1, src.columns + 1, src.channels);
    struct cv_image to = dev_cv_of(made);
    bool is_whole =
        src.type == NP_U8 && type == NP_I32 && src.rows * src.columns <= INT32_MAX / UINT8_MAX;
    memset(made->data, 0, dev_cv_row_items(&to) * dev_np_item(type));
    (is_whole ? integral_whole : integral_any)(&to, &src);
    dev_cv_hold(&src);
    return dev_cv_give(values[SUM].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_integral_obj, 1, integral);

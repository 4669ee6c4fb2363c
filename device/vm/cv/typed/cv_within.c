// bilateralFilter of walle.cv: each pixel is smoothed with those around it that are like it. Of
// uint8 distances of colours are few, and their weights are looked up; of float32 they are
// computed. Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_filter.h"

#include "vm/cv/rows/cv_filter_rows.h"
#include "vm/np/np_wide.h"

#include <math.h>
#include <string.h>

struct within {
    struct cv_image from;
    int64_t radius;
    double of_color; // what a squared distance of colours is multiplied by, and one of places
    double of_space;
    enum cv_border border;
    double *rows; // with their borders, by row modulo their number
    int64_t wide; // numbers of one of them
};

static void row_pad(const struct within *within, int64_t row, double *source)
{
    const struct cv_image *from = &within->from;
    const int64_t kept = 2 * within->radius + 1;
    double *to = within->rows + (row + within->radius) % kept * within->wide;
    int64_t inside = dev_cv_border_at(row, from->rows, within->border);
    if (inside >= 0) {
        dev_cv_load(from, inside, source);
    }
    const int64_t channels = from->channels;
    for (int64_t i = 0; i < within->wide; i++) {
        int64_t x = dev_cv_border_at(i / channels - within->radius, from->columns, within->border);
        to[i] = inside >= 0 && x >= 0 ? source[x * channels + i % channels] : 0;
    }
}

static void pixel_make(const struct within *within, int64_t x, int64_t y, double *to)
{
    const int64_t channels = within->from.channels;
    const int64_t radius = within->radius;
    const int64_t kept = 2 * radius + 1;
    const double *center =
        within->rows + (y + radius) % kept * within->wide + (x + radius) * channels;
    double sums[3] = {0};
    double weights = 0;
    for (int64_t j = -radius; j <= radius; j++) {
        const double *row = within->rows + (y + j + radius) % kept * within->wide;
        for (int64_t i = -radius; i <= radius; i++) {
            const double *at = row + (x + radius + i) * channels;
            double apart = 0;
            if (i * i + j * j > radius * radius) {
                continue;
            }
            for (int64_t c = 0; c < channels; c++) {
                apart += fabs(at[c] - center[c]);
            }
            double weight =
                exp(apart * apart * within->of_color + (double)(i * i + j * j) * within->of_space);
            weights += weight;
            for (int64_t c = 0; c < channels; c++) {
                sums[c] += weight * at[c];
            }
        }
    }
    for (int64_t c = 0; c < channels; c++) {
        to[c] = sums[c] / weights;
    }
}

static struct np_array *smoothed(struct within *within)
{
    const struct cv_image *from = &within->from;
    const int64_t kept = 2 * within->radius + 1;
    struct np_array *made = dev_cv_like(from);
    struct cv_image to = dev_cv_of(made);
    within->wide = (from->columns + 2 * within->radius) * from->channels;
    within->rows = dev_cv_scratch((size_t)(within->wide * kept));
    double *source = dev_cv_scratch(dev_cv_row_items(from));
    size_t owed = 0;
    int64_t next = -within->radius;
    for (int64_t y = 0; y < from->rows; y++) {
        for (; next <= y + within->radius; next++) {
            row_pad(within, next, source);
            dev_cv_pay(&owed, (size_t)within->wide * 4);
        }
        for (int64_t x = 0; x < from->columns; x++) {
            pixel_make(within, x, y, source + x * from->channels);
            dev_cv_pay(&owed, (size_t)(kept * kept) * (from->channels + 8));
        }
        dev_cv_store(to.type, (uint8_t *)(uintptr_t)dev_cv_row(&to, y), source,
                     dev_cv_row_items(&to));
    }
    dev_cv_hold(within);
    return made;
}

// --- of uint8

// The places of the circle, and the weights of places and colours.
static void weights_fill(const struct within *within, struct cv_within *loop, const uint8_t **rows)
{
    const int64_t radius = within->radius;
    const size_t colors = UINT8_MAX * loop->channels + 1;
    float *of_space = (float *)(void *)dev_cv_scratch(loop->taps);
    float *of_color = (float *)(void *)dev_cv_scratch(colors);
    size_t taps = 0;
    for (int64_t j = -radius; j <= radius; j++) {
        for (int64_t i = -radius; i <= radius; i++) {
            if (i * i + j * j <= radius * radius) {
                of_space[taps++] = (float)exp((double)(i * i + j * j) * within->of_space);
            }
        }
    }
    for (size_t i = 0; i < colors; i++) {
        of_color[i] = (float)exp((double)(i * i) * within->of_color);
    }
    loop->of_space = of_space;
    loop->of_color = of_color;
    loop->rows = rows;
    loop->taps = taps;
}

// A row with its border, each channel in a plane of its own.
static void planes_pad(const struct within *within, const struct cv_within *loop, int64_t row,
                       uint8_t *to)
{
    const struct cv_image *from = &within->from;
    const int64_t inside = dev_cv_border_at(row, from->rows, within->border);
    const int64_t radius = within->radius;
    if (inside < 0) {
        memset(to, 0, loop->plane * loop->channels);
        return;
    }
    const uint8_t *source = dev_cv_row(from, inside);
    for (size_t c = 0; c < loop->channels; c++) {
        uint8_t *plane = to + c * loop->plane;
        for (int64_t x = 0; x < from->columns; x++) {
            plane[x + radius] = source[(size_t)x * loop->channels + c];
        }
        for (int64_t x = -radius; x < from->columns + radius; x++) {
            x = x == 0 ? from->columns : x; // the image itself is there
            int64_t at = dev_cv_border_at(x, from->columns, within->border);
            plane[x + radius] = at < 0 ? 0 : plane[at + radius];
        }
    }
}

static struct np_array *smoothed_bytes(const struct within *within)
{
    const struct cv_image *from = &within->from;
    const int64_t radius = within->radius;
    const int64_t kept = 2 * radius + 1;
    struct np_array *made = dev_cv_like(from);
    struct cv_image to = dev_cv_of(made);
    struct cv_within loop = {.plane = (size_t)(from->columns + 2 * radius),
                             .channels = from->channels,
                             .taps = (size_t)(kept * kept)};
    const size_t row_bytes = loop.plane * loop.channels;
    uint8_t *rows = (uint8_t *)(void *)dev_cv_scratch(row_bytes * (size_t)kept / 8 + 1);
    const uint8_t **taps = (const uint8_t **)(void *)dev_cv_scratch(loop.taps);
    weights_fill(within, &loop, taps);
    size_t owed = 0;
    int64_t next = -radius;
    for (int64_t y = 0; y < from->rows; y++) {
        for (; next <= y + radius; next++) {
            planes_pad(within, &loop, next, rows + (size_t)((next + radius) % kept) * row_bytes);
            dev_cv_pay(&owed, row_bytes * 2);
        }
        size_t k = 0;
        for (int64_t j = -radius; j <= radius; j++) {
            const uint8_t *row = rows + (size_t)((y + j + radius) % kept) * row_bytes;
            for (int64_t i = -radius; i <= radius; i++) {
                if (i * i + j * j <= radius * radius) {
                    taps[k++] = row + radius + i;
                }
            }
        }
        loop.center = rows + (size_t)((y + radius) % kept) * row_bytes + radius;
        NP_CHOSEN(dev_cv_pixel_rows)
            ->within((uint8_t *)(uintptr_t)dev_cv_row(&to, y), &loop, (size_t)from->columns);
        dev_cv_pay(&owed, (size_t)from->columns * loop.taps * loop.channels);
    }
    dev_cv_hold(within);
    return made;
}

// bilateralFilter(src, d, sigmaColor, sigmaSpace[, dst[, borderType]])
static mp_obj_t bilateral_filter(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, D, COLOR, SPACE, DST, BORDER };
    static const mp_arg_t table[] = {
        CV_NEEDS(src),        CV_NEEDS_INT(d), CV_NEEDS(sigmaColor),
        CV_NEEDS(sigmaSpace), CV_MAY(dst),     CV_MAY_INT(borderType, CV_BORDER_REFLECT_101)};
    CV_PARSE(table);
    struct within within = {.from = dev_cv_take(values[SRC].u_obj, CV_U8 | CV_F32)};
    within.border = dev_cv_border_parse(values[BORDER].u_int);
    double color = mp_obj_get_float(values[COLOR].u_obj);
    double space = mp_obj_get_float(values[SPACE].u_obj);
    color = color > 0 ? color : 1;
    space = space > 0 ? space : 1;
    double radius = values[D].u_int > 0 ? (double)(values[D].u_int / 2) : rint(space * 1.5);
    if (!(radius <= CV_KERNEL_MAX / 2) || within.from.channels == 2 || within.from.channels > 3) {
        dev_cv_bad("of one channel or of three, by at most 1024 places on each side");
    }
    within.radius = radius > 1 ? (int64_t)radius : 1;
    within.of_color = -0.5 / (color * color);
    within.of_space = -0.5 / (space * space);
    struct np_array *made = within.from.type == NP_U8 ? smoothed_bytes(&within) : smoothed(&within);
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_bilateralFilter_obj, 4, bilateral_filter);

// Connected parts of what is not 0 in an image: each pixel's label, and of each part its rectangle,
// its pixels and its middle. Labels are given in the order in which OpenCV meets parts: by pixels,
// and where corners connect, by squares of two by two. Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"

#include <math.h>

enum { LEFT, TOP, WIDTH, HEIGHT, AREA, STATS };

struct parts {
    struct cv_image image;
    int32_t *labels; // of the result; first of all provisional
    int32_t *heads;  // of a provisional label: one that it belongs to, itself where it is the first
    int32_t count;   // of provisional labels, with the background's
    size_t owed;
    bool has_corners; // corners connect
};

static int32_t head_of(int32_t *heads, int32_t label)
{
    while (heads[label] != label) {
        heads[label] = heads[heads[label]];
        label = heads[label];
    }
    return label;
}

static int32_t joined(struct parts *parts, int32_t label, int32_t other)
{
    if (other == 0 || label == other) {
        return label;
    }
    if (label == 0) {
        return other;
    }
    int32_t one = head_of(parts->heads, label);
    int32_t two = head_of(parts->heads, other);
    int32_t head = one < two ? one : two;
    parts->heads[one] = head;
    parts->heads[two] = head;
    return head;
}

static void row_label(struct parts *parts, int64_t y)
{
    const int64_t columns = parts->image.columns;
    const uint8_t *pixels = dev_cv_row(&parts->image, y);
    int32_t *to = parts->labels + y * columns;
    const int32_t *above = to - columns;
    for (int64_t x = 0; x < columns; x++) {
        if (pixels[x] == 0) {
            continue;
        }
        int32_t label = x > 0 ? to[x - 1] : 0;
        if (y > 0) {
            label = joined(parts, label, above[x]);
        }
        if (y > 0 && parts->has_corners) {
            label = joined(parts, label, x > 0 ? above[x - 1] : 0);
            label = joined(parts, label, x + 1 < columns ? above[x + 1] : 0);
        }
        if (label == 0) {
            label = parts->count++;
            parts->heads[label] = label;
        }
        to[x] = label;
    }
    dev_cv_pay(&parts->owed, (size_t)columns * 4);
}

// Gives the head of each part its number, in OpenCV's order, below 0 so that it is told from what
// is provisional; how many labels there are.
static int32_t number_parts(struct parts *parts)
{
    const int64_t columns = parts->image.columns;
    const int64_t rows = parts->image.rows;
    const int64_t side = parts->has_corners ? 2 : 1;
    int32_t *numbers = m_new0(int32_t, (size_t)parts->count);
    int32_t next = 1;
    for (int64_t y = 0; y < rows; y += side) {
        for (int64_t x = 0; x < columns * side; x++) {
            // Within a band of squares: all of a square before the next one.
            int64_t row = y + x / side % side;
            int64_t column = x / (side * side) * side + x % side;
            int32_t label = 0;
            if (row < rows && column < columns) {
                label = parts->labels[row * columns + column];
            }
            int32_t head = head_of(parts->heads, label);
            if (head != 0 && numbers[head] == 0) {
                numbers[head] = next++;
            }
        }
        dev_cv_pay(&parts->owed, (size_t)(columns * side) * 4);
    }
    for (int64_t y = 0; y < rows; y++) {
        int32_t *row = parts->labels + y * columns;
        for (int64_t x = 0; x < columns; x++) {
            row[x] = numbers[head_of(parts->heads, row[x])];
        }
        dev_cv_pay(&parts->owed, (size_t)columns * 4);
    }
    return next;
}

static void stats_begin(int32_t *stats, int32_t labels)
{
    for (int32_t i = 0; i < labels; i++, stats += STATS) {
        stats[LEFT] = INT32_MAX;
        stats[TOP] = INT32_MAX;
        stats[WIDTH] = -1; // the right end first, and the lowest
        stats[HEIGHT] = -1;
    }
}

static void stats_end(int32_t *stats, double *middles, int32_t labels)
{
    for (int32_t i = 0; i < labels; i++, stats += STATS, middles += 2) {
        if (stats[AREA] == 0) { // there is no background: what OpenCV says of it
            stats[LEFT] = -1;
            stats[WIDTH] = 0;
            stats[HEIGHT] = 0;
            middles[0] = middles[1] = NAN;
            continue;
        }
        stats[WIDTH] -= stats[LEFT] - 1;
        stats[HEIGHT] -= stats[TOP] - 1;
        middles[0] /= stats[AREA];
        middles[1] /= stats[AREA];
    }
}

static void measure(struct parts *parts, int32_t *stats, double *middles, int32_t labels)
{
    stats_begin(stats, labels);
    const int64_t columns = parts->image.columns;
    for (int32_t y = 0; y < parts->image.rows; y++) {
        const int32_t *row = parts->labels + y * columns;
        for (int32_t x = 0; x < columns; x++) {
            int32_t *to = stats + (int64_t)row[x] * STATS;
            to[LEFT] = x < to[LEFT] ? x : to[LEFT];
            to[TOP] = y < to[TOP] ? y : to[TOP];
            to[WIDTH] = x > to[WIDTH] ? x : to[WIDTH];
            to[HEIGHT] = y > to[HEIGHT] ? y : to[HEIGHT];
            to[AREA]++;
            middles[2 * (int64_t)row[x]] += x;
            middles[2 * (int64_t)row[x] + 1] += y;
        }
        dev_cv_pay(&parts->owed, (size_t)columns * 8);
    }
    stats_end(stats, middles, labels);
}

// connectedComponentsWithStats(image[, labels[, stats[, centroids[, connectivity[, ltype]]]]])
static mp_obj_t components(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { IMAGE, LABELS, STATS_OUT, MIDDLES, CONNECTIVITY, LTYPE };
    static const mp_arg_t table[] = {CV_NEEDS(image),
                                     CV_MAY(labels),
                                     CV_MAY(stats),
                                     CV_MAY(centroids),
                                     CV_MAY_INT(connectivity, 8),
                                     CV_MAY_INT(ltype, 4)};
    CV_PARSE(table);
    struct parts parts = {.image = dev_cv_take(values[IMAGE].u_obj, CV_U8), .count = 1};
    mp_int_t connectivity = values[CONNECTIVITY].u_int;
    mp_int_t type = values[LTYPE].u_int;
    if (parts.image.channels != 1 || (connectivity != 4 && connectivity != 8) ||
        (type != 2 && type != 4)) {
        dev_cv_bad("parts are those of one channel, by 4 or 8 neighbours, to CV_16U or CV_32S");
    }
    if (parts.image.array->size >= INT32_MAX) {
        dev_cv_bad("an image has at most 2,147,483,646 pixels here");
    }
    parts.has_corners = connectivity == 8;
    struct np_array *labels = dev_cv_new(NP_I32, parts.image.rows, parts.image.columns, 1);
    parts.labels = (void *)labels->data;
    parts.heads = m_new0(int32_t, parts.image.array->size / 2 + 2);
    for (int64_t y = 0; y < parts.image.rows; y++) {
        row_label(&parts, y);
    }
    int32_t found = number_parts(&parts);
    struct np_array *stats = dev_cv_new(NP_I32, found, STATS, 1);
    struct np_array *middles = dev_cv_new(NP_F64, found, 2, 1);
    measure(&parts, (void *)stats->data, (void *)middles->data, found);
    dev_cv_hold(&parts);
    mp_obj_t items[] = {MP_OBJ_NEW_SMALL_INT(found), dev_cv_give(values[LABELS].u_obj, labels),
                        dev_cv_give(values[STATS_OUT].u_obj, stats),
                        dev_cv_give(values[MIDDLES].u_obj, middles)};
    return mp_obj_new_tuple(4, items);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_connectedComponentsWithStats_obj, 1, components);

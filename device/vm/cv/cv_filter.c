// Filters: every place of the result is made of the places around it in the image. Rows are read
// with their border once, filtered across where the kernel is a product of two sides, and kept for
// as long as a row of the result needs them, so that little more memory is used than the result
// has. In float64 here; most images are filtered in their own types by cv_typed.c. Called by the
// functions of cv_smooth.c and cv_morph.c, on the VM's thread.
#include "vm/cv/cv_filter.h"

#include <math.h>

struct ring {
    const struct cv_filter *filter;
    size_t items;   // of a row of the result
    size_t wide;    // of one with its border
    size_t kept;    // of one that is kept
    double *source; // a row of the image
    double *padded; // with its border
    double *rows;   // as many as the kernel has
    double *sum;
};

void dev_cv_anchor(struct cv_filter *filter, mp_obj_t anchor)
{
    int64_t at[2] = {-1, -1};
    if (anchor != mp_const_none) {
        dev_cv_pair(anchor, at);
    }
    filter->anchor_x = at[0] == -1 ? filter->kernel.columns / 2 : at[0];
    filter->anchor_y = at[1] == -1 ? filter->kernel.rows / 2 : at[1];
    if (filter->anchor_x < 0 || filter->anchor_x >= filter->kernel.columns ||
        filter->anchor_y < 0 || filter->anchor_y >= filter->kernel.rows) {
        dev_cv_bad("the anchor is not in the kernel");
    }
}

enum cv_border dev_cv_filter_border(mp_int_t border)
{
    enum cv_border kind = dev_cv_border_parse(border);
    if (kind == CV_BORDER_WRAP) {
        dev_cv_bad("filters do not know BORDER_WRAP");
    }
    return kind;
}

// Fills the row with its border; row < 0: all of it is outside.
static void row_pad(const struct ring *ring, int64_t row)
{
    const struct cv_filter *filter = ring->filter;
    const struct cv_image *from = &filter->from;
    const int64_t channels = from->channels;
    if (row >= 0) {
        dev_cv_load(from, row, ring->source);
    }
    for (int64_t x = 0; x < (int64_t)ring->wide / channels; x++) {
        int64_t column = dev_cv_border_at(x - filter->anchor_x, from->columns, filter->border);
        double *to = ring->padded + x * channels;
        for (int64_t c = 0; c < channels; c++) {
            bool is_inside = row >= 0 && column >= 0;
            to[c] = is_inside ? ring->source[column * channels + c] : filter->around[c < 4 ? c : 3];
            to[c] = filter->squares ? to[c] * to[c] : to[c];
        }
    }
}

static void fold(enum cv_filter_how how, double *to, const double *from, double by, size_t items)
{
    switch (how) {
    case CV_FILTER_SUM:
        for (size_t i = 0; i < items; i++) {
            to[i] += by * from[i];
        }
        break;
    case CV_FILTER_LEAST:
        for (size_t i = 0; i < items; i++) {
            to[i] = from[i] < to[i] ? from[i] : to[i];
        }
        break;
    case CV_FILTER_LARGEST:
    default:
        for (size_t i = 0; i < items; i++) {
            to[i] = from[i] > to[i] ? from[i] : to[i];
        }
        break;
    }
}

static void begin(enum cv_filter_how how, double *to, size_t items)
{
    double first = how == CV_FILTER_SUM ? 0 : how == CV_FILTER_LEAST ? INFINITY : -INFINITY;
    for (size_t i = 0; i < items; i++) {
        to[i] = first;
    }
}

// Reads row `row` (of the border, too) to its place in the ring.
static void row_keep(const struct ring *ring, int64_t row, size_t *owed)
{
    const struct cv_filter *filter = ring->filter;
    const struct cv_kernel *kernel = &filter->kernel;
    row_pad(ring, dev_cv_border_at(row, filter->from.rows, filter->border));
    double *to = ring->rows + (size_t)((row + filter->anchor_y) % kernel->rows) * ring->kept;
    dev_cv_pay(owed, ring->wide * 4);
    if (kernel->numbers != NULL) {
        for (size_t i = 0; i < ring->kept; i++) {
            to[i] = ring->padded[i];
        }
        return;
    }
    begin(filter->how, to, ring->items);
    for (int64_t k = 0; k < kernel->columns; k++) {
        if (kernel->across[k] != 0) {
            fold(filter->how, to, ring->padded + k * filter->from.channels, kernel->across[k],
                 ring->items);
            dev_cv_pay(owed, ring->items);
        }
    }
}

// Row y of the result, of the rows that are kept.
static void row_make(const struct ring *ring, int64_t y, size_t *owed)
{
    const struct cv_filter *filter = ring->filter;
    const struct cv_kernel *kernel = &filter->kernel;
    begin(filter->how, ring->sum, ring->items);
    for (int64_t j = 0; j < kernel->rows; j++) {
        const double *from = ring->rows + (size_t)((y + j) % kernel->rows) * ring->kept;
        if (kernel->numbers == NULL) {
            if (kernel->down[j] != 0) {
                fold(filter->how, ring->sum, from, kernel->down[j], ring->items);
                dev_cv_pay(owed, ring->items);
            }
            continue;
        }
        for (int64_t i = 0; i < kernel->columns; i++) {
            double by = kernel->numbers[j * kernel->columns + i];
            if (by != 0) {
                fold(filter->how, ring->sum, from + i * filter->from.channels, by, ring->items);
                dev_cv_pay(owed, ring->items);
            }
        }
    }
}

// OpenCV has types that walle.np has wider ones for: their range is kept.
static void depth_hold(mp_int_t depth, double *numbers, size_t items)
{
    static const double ranges[][2] = {
        {0, UINT8_MAX}, {INT8_MIN, INT8_MAX}, {0, UINT16_MAX}, {INT16_MIN, INT16_MAX}};
    if (depth < 0 || depth >= (mp_int_t)MP_ARRAY_SIZE(ranges)) {
        return;
    }
    for (size_t i = 0; i < items; i++) {
        numbers[i] = numbers[i] < ranges[depth][0]   ? ranges[depth][0]
                     : numbers[i] > ranges[depth][1] ? ranges[depth][1]
                                                     : numbers[i];
    }
}

struct np_array *dev_cv_filtered(const struct cv_filter *filter)
{
    const struct cv_image *from = &filter->from;
    const struct cv_kernel *kernel = &filter->kernel;
    enum np_type type = dev_cv_depth(filter->depth, from->type);
    struct np_array *made = dev_cv_room(type, from->rows, from->columns, from->channels);
    struct cv_image to = dev_cv_of(made);
    if (dev_cv_filter_typed(filter, made)) {
        return made;
    }
    struct ring ring = {.filter = filter, .items = dev_cv_row_items(from)};
    ring.wide = ring.items + (size_t)(kernel->columns - 1) * from->channels;
    ring.kept = kernel->numbers != NULL ? ring.wide : ring.items;
    ring.source = dev_cv_scratch(ring.items);
    ring.padded = dev_cv_scratch(ring.wide);
    ring.rows = dev_cv_scratch(ring.kept * (size_t)kernel->rows);
    ring.sum = dev_cv_scratch(ring.items);
    size_t owed = 0;
    int64_t next = -filter->anchor_y;
    for (int64_t y = 0; y < from->rows; y++) {
        for (; next <= y - filter->anchor_y + kernel->rows - 1; next++) {
            row_keep(&ring, next, &owed);
        }
        row_make(&ring, y, &owed);
        for (size_t i = 0; i < ring.items; i++) {
            ring.sum[i] = ring.sum[i] * filter->scale + filter->delta;
            ring.sum[i] = filter->rounds_up ? floor(ring.sum[i] + 0.5) : ring.sum[i];
        }
        depth_hold(filter->depth, ring.sum, ring.items);
        dev_cv_store(type, (uint8_t *)(uintptr_t)dev_cv_row(&to, y), ring.sum, ring.items);
        dev_cv_pay(&owed, ring.items * 2);
    }
    return made;
}

// Filters in the types of images: rows with their border as elements of their own type, summed by
// the loops of rows/, kept for as long as a row of the result needs them. The border is a few
// elements that are looked up once an image. Called by cv_filter.c, on the VM's thread.
#include "vm/cv/typed/cv_typed.h"

#include "base/check.h"
#include "vm/np/np_wide.h"

#include <math.h>
#include <string.h>

#define DIRECT  8 // places across that are taken one by one
#define PER_PAY 4 // elements that a place costs as much as one of

struct typed {
    const struct cv_filter *filter;
    struct cv_plan *plan;
    size_t items;    // elements of a row of the result
    size_t wide;     // of one with its border
    size_t pixel;    // bytes of a pixel with its border
    size_t kept;     // bytes of a row that is kept
    int64_t *places; // columns that the places of the border stand for; negative: what is outside
    uint8_t *outside;
    uint8_t *padded; // two of them, where steps across need two
    uint8_t *fresh;  // what a box sums of a row
    uint8_t *rows;
    uint8_t *sum;
    uint8_t *real;
};

// Zeros: the sums of a box begin with them.
static uint8_t *bytes_scratch(size_t bytes)
{
    return (uint8_t *)(void *)dev_cv_scratch(bytes / sizeof(double) + 1);
}

// --- rows with their border

// A row of what is outside: its first pixel, then twice as much each time.
static void outside_fill(struct typed *typed)
{
    const struct cv_filter *filter = typed->filter;
    const struct cv_plan *plan = typed->plan;
    const size_t bytes = typed->wide * plan->item;
    void *outside = typed->outside;
    for (uint32_t c = 0; c < filter->from.channels; c++) {
        double value = filter->around[c < 4 ? c : 3];
        double held = value > 0 ? (value < UINT8_MAX ? rint(value) : UINT8_MAX) : 0;
        if (plan->source == NP_F32) {
            ((float *)outside)[c] = (float)value;
        } else if (plan->item == sizeof(int32_t)) {
            ((int32_t *)outside)[c] = (int32_t)held;
        } else if (plan->item == sizeof(uint16_t)) {
            ((uint16_t *)outside)[c] = (uint16_t)held;
        } else {
            ((uint8_t *)outside)[c] = (uint8_t)held;
        }
    }
    for (size_t done = typed->pixel; done < bytes; done *= 2) {
        size_t more = done < bytes - done ? done : bytes - done;
        memcpy(typed->outside + done, typed->outside, more);
    }
}

// Row `row` of the image with its border; negative: all of it is outside.
static void pad(const struct typed *typed, int64_t row, uint8_t *to)
{
    const struct cv_filter *filter = typed->filter;
    const struct cv_plan *plan = typed->plan;
    if (row < 0) {
        memcpy(to, typed->outside, typed->wide * plan->item);
        return;
    }
    uint8_t *inside = to + (size_t)filter->anchor_x * typed->pixel;
    const uint8_t *from = dev_cv_row(&filter->from, row);
    if (plan->load != NULL) {
        plan->load(inside, from, typed->items, &plan->first_how);
    } else {
        memcpy(inside, from, typed->items * plan->item);
    }
    if (filter->how != CV_FILTER_SUM && plan->source == NP_F32) {
        float nothing = filter->how == CV_FILTER_LEAST ? INFINITY : -INFINITY;
        NP_CHOSEN(dev_cv_extreme_rows)->numbers((float *)(void *)inside, typed->items, nothing);
    }
    for (int64_t b = 0; b < filter->kernel.columns - 1; b++) {
        int64_t x = b < filter->anchor_x ? b : b + filter->from.columns;
        int64_t at = typed->places[b];
        const uint8_t *pixel = at < 0 ? typed->outside : inside + (size_t)at * typed->pixel;
        memcpy(to + (size_t)x * typed->pixel, pixel, typed->pixel);
    }
}

// --- across

// The least or the largest of many places: of two, of four and so on, then of two that overlap.
static void across_extreme(const struct typed *typed, uint8_t *to)
{
    const struct cv_taps *across = &typed->plan->across;
    const size_t places = across->count;
    uint8_t *now = typed->padded;
    uint8_t *next = typed->padded + typed->wide * typed->plan->item;
    size_t items = typed->wide;
    size_t reach = 1;
    for (; reach * 2 <= places; reach *= 2) {
        const uint8_t *both[] = {now, now + reach * typed->pixel};
        items -= reach * typed->filter->from.channels;
        across->make(next, both, NULL, 2, items);
        uint8_t *swap = now;
        now = next;
        next = swap;
    }
    const uint8_t *both[] = {now, now + (places - reach) * typed->pixel};
    across->make(to, both, NULL, 2, typed->items);
}

static void add(const struct typed *typed, void *to, const uint8_t *one, const uint8_t *other,
                size_t count)
{
    const struct cv_finish_rows *loops = NP_CHOSEN(dev_cv_finish_rows);
    const void *first = one;
    const void *second = other;
    if (typed->plan->box.is_long) {
        loops->add_i32(to, first, second, count);
    } else {
        loops->add_u16(to, first, second, count);
    }
}

// The sum of all places of a box across: of two, of four and so on, as the bits of their number
// say.
static void across_box(const struct typed *typed)
{
    const struct cv_finish_rows *loops = NP_CHOSEN(dev_cv_finish_rows);
    const size_t places = (size_t)typed->filter->kernel.columns;
    const size_t channels = typed->filter->from.channels;
    uint8_t *now = typed->padded;
    uint8_t *next = typed->padded + typed->wide * typed->plan->item;
    size_t items = typed->wide;
    size_t done = 0;
    for (size_t reach = 1;; reach *= 2) {
        if ((places & reach) != 0) {
            const void *from = now + done * typed->pixel;
            if (done == 0) {
                memcpy(typed->fresh, from, typed->items * typed->plan->item);
            } else if (typed->plan->box.is_long) {
                loops->more_i32((int32_t *)(void *)typed->fresh, from, typed->items);
            } else {
                loops->more_u16((uint16_t *)(void *)typed->fresh, from, typed->items);
            }
            done += reach;
        }
        if (done == places) {
            return;
        }
        items -= reach * channels;
        add(typed, next, now, now + reach * typed->pixel, items);
        uint8_t *swap = now;
        now = next;
        next = swap;
    }
}

// Row `row`, of the border, too, to its place among those that are kept.
static void row_keep(const struct typed *typed, int64_t row, size_t *owed)
{
    const struct cv_filter *filter = typed->filter;
    const struct cv_taps *across = &typed->plan->across;
    const struct cv_finish_rows *loops = NP_CHOSEN(dev_cv_finish_rows);
    int64_t at = dev_cv_border_at(row, filter->from.rows, filter->border);
    uint32_t slot = (uint32_t)(row + filter->anchor_y) % (uint32_t)filter->kernel.rows;
    uint8_t *to = typed->rows + slot * typed->kept;
    void *kept = to;
    dev_cv_pay(owed, typed->wide + typed->items * across->count / PER_PAY);
    if (typed->plan->box.is_box) {
        void *sum = typed->sum;
        const void *fresh = typed->fresh;
        pad(typed, at, typed->padded);
        across_box(typed);
        if (typed->plan->box.is_long) {
            loops->slide_i32(sum, kept, fresh, typed->items);
        } else {
            loops->slide_u16(sum, kept, fresh, typed->items);
        }
        return;
    }
    pad(typed, at, across->make == NULL ? to : typed->padded);
    if (across->make == NULL) {
        return;
    }
    if (across->by == NULL && across->count > DIRECT) {
        across_extreme(typed, to);
        return;
    }
    for (size_t k = 0; k < across->count; k++) {
        across->rows[k] = typed->padded + (size_t)across->at[k].column * typed->pixel;
    }
    across->make(to, across->rows, across->by, across->count, typed->items);
}

// --- down

static void row_make(const struct typed *typed, int64_t y, uint8_t *to)
{
    const struct cv_filter *filter = typed->filter;
    const struct cv_plan *plan = typed->plan;
    const struct cv_taps *down = &plan->down;
    if (!plan->box.is_box) {
        const size_t rows = (size_t)filter->kernel.rows;
        const size_t first = (uint32_t)y % (uint32_t)rows;
        for (size_t k = 0; k < down->count; k++) {
            size_t slot = first + (size_t)down->at[k].row;
            slot -= slot < rows ? 0 : rows;
            down->rows[k] =
                typed->rows + slot * typed->kept + (size_t)down->at[k].column * typed->pixel;
        }
        uint8_t *sum = plan->first == NULL ? to : typed->sum;
        down->make(sum, down->rows, down->by, down->count, typed->items);
    }
    if (plan->first != NULL) {
        uint8_t *made = plan->last == NULL ? to : typed->real;
        plan->first(made, typed->sum, typed->items, &plan->first_how);
    }
    if (plan->last != NULL) {
        plan->last(to, typed->real, typed->items, &plan->last_how);
    }
}

static void prepare(struct typed *typed)
{
    const struct cv_filter *filter = typed->filter;
    const struct cv_plan *plan = typed->plan;
    typed->items = dev_cv_row_items(&filter->from);
    typed->wide = typed->items + (size_t)(filter->kernel.columns - 1) * filter->from.channels;
    typed->pixel = filter->from.channels * plan->item;
    bool is_product = plan->across.make != NULL || plan->box.is_box;
    typed->kept = (is_product ? typed->items : typed->wide) * plan->kept;
    typed->places = (int64_t *)(void *)dev_cv_scratch((size_t)filter->kernel.columns);
    for (int64_t b = 0; b < filter->kernel.columns - 1; b++) {
        int64_t x = b < filter->anchor_x ? b : b + filter->from.columns;
        typed->places[b] =
            dev_cv_border_at(x - filter->anchor_x, filter->from.columns, filter->border);
    }
    typed->outside =
        filter->border == CV_BORDER_CONSTANT ? bytes_scratch(typed->wide * plan->item) : NULL;
    typed->padded = bytes_scratch(typed->wide * plan->item * 2);
    typed->fresh = plan->box.is_box ? bytes_scratch(typed->items * plan->item) : NULL;
    typed->rows = bytes_scratch(typed->kept * (size_t)filter->kernel.rows);
    typed->sum = plan->first != NULL ? bytes_scratch(typed->items * plan->sum) : NULL;
    typed->real = plan->last != NULL ? bytes_scratch(typed->items * sizeof(float)) : NULL;
    if (filter->border == CV_BORDER_CONSTANT) {
        outside_fill(typed);
    }
}

bool dev_cv_filter_typed(const struct cv_filter *filter, struct np_array *made)
{
    struct cv_image to = dev_cv_of(made);
    struct cv_plan plan;
    struct typed typed = {.filter = filter, .plan = &plan};
    if (!dev_cv_plan(filter, to.type, &plan)) {
        return false;
    }
    base_assert(to.rows == filter->from.rows && to.columns == filter->from.columns);
    prepare(&typed);
    size_t owed = 0;
    int64_t next = -filter->anchor_y;
    for (int64_t y = 0; y < to.rows; y++) {
        for (; next <= y - filter->anchor_y + filter->kernel.rows - 1; next++) {
            row_keep(&typed, next, &owed);
        }
        row_make(&typed, y, (uint8_t *)(uintptr_t)dev_cv_row(&to, y));
        dev_cv_pay(&owed, typed.items + typed.items * plan.down.count / PER_PAY);
    }
    dev_cv_hold(&typed);
    return true;
}

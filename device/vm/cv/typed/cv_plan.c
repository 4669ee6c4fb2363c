// How a filter is best computed: in whole numbers of 16 bits where its kernel is of whole numbers
// or of parts of a power of two, in float32 else, a box by sums that slide. What none of them can
// do exactly enough stays with cv_filter.c's float64. Called by cv_filter.c, on the VM's thread.
#include "vm/cv/typed/cv_typed.h"

#include "base/check.h"
#include "vm/np/np_wide.h"

#include <math.h>
#include <string.h>

#define SHIFT_MAX   8    // of a power of two that a kernel's numbers are parts of
#define REAL_MOST   1e30 // of numbers that float32 sums
#define NEARLY      1e-7 // of the largest number, that a product may be off
#define BOX_REALS   64   // places of both sides of a box that float32 sums well enough
#define WORDS_SLIDE 256  // places of a box whose sums fit 16 bits, half a place more included

static size_t places_of(const struct cv_kernel *kernel)
{
    return (size_t)(kernel->rows * kernel->columns);
}

// Numbers of a side or of all of a kernel, as whole numbers by 2^shift.
struct whole {
    int shift;  // negative: they are none
    double sum; // of what they are without signs
    bool has_negative;
};

static struct whole whole_of(const double *numbers, size_t count)
{
    struct whole whole = {.shift = -1};
    for (int shift = 0; shift <= SHIFT_MAX && whole.shift < 0; shift++) {
        whole = (struct whole){.shift = shift};
        for (size_t i = 0; i < count; i++) {
            double number = ldexp(numbers[i], shift);
            if (!(fabs(number) < UINT16_MAX) || number != rint(number)) {
                whole.shift = -1;
                break;
            }
            whole.sum += fabs(number);
            whole.has_negative = whole.has_negative || number < 0;
        }
    }
    return whole;
}

// --- places

static void tap_room(struct cv_taps *taps, size_t count)
{
    taps->at = (struct cv_tap *)(void *)dev_cv_scratch(count * 2);
    taps->rows = (const uint8_t **)(void *)dev_cv_scratch(count);
    taps->by = dev_cv_scratch(count);
    taps->count = 0;
}

// Adds a place, where its number is not 0: as float32, or as a whole number by 2^shift.
static void tap_add(struct cv_taps *taps, struct cv_tap at, double number, int shift)
{
    if (number == 0) {
        return;
    }
    taps->at[taps->count] = at;
    if (shift < 0) {
        ((float *)taps->by)[taps->count] = (float)number;
    } else {
        ((uint16_t *)taps->by)[taps->count] = (uint16_t)(int32_t)ldexp(number, shift);
    }
    taps->count++;
}

// The places of both steps, or of one where the kernel is no product. Negative: no whole numbers.
static void taps_of(const struct cv_kernel *kernel, int across, int down, struct cv_plan *plan)
{
    if (kernel->numbers != NULL) {
        tap_room(&plan->down, places_of(kernel));
        for (int64_t j = 0; j < kernel->rows; j++) {
            for (int64_t i = 0; i < kernel->columns; i++) {
                tap_add(&plan->down, (struct cv_tap){j, i},
                        kernel->numbers[j * kernel->columns + i], down);
            }
        }
        return;
    }
    tap_room(&plan->across, (size_t)kernel->columns);
    tap_room(&plan->down, (size_t)kernel->rows);
    for (int64_t i = 0; i < kernel->columns; i++) {
        tap_add(&plan->across, (struct cv_tap){0, i}, kernel->across[i], across);
    }
    for (int64_t j = 0; j < kernel->rows; j++) {
        tap_add(&plan->down, (struct cv_tap){j, 0}, kernel->down[j], down);
    }
}

// A kernel that is the product of its largest number's row and column, nearly, as such.
static struct cv_kernel factored(const struct cv_kernel *kernel)
{
    const double *numbers = kernel->numbers;
    if (numbers == NULL || kernel->rows == 1 || kernel->columns == 1) {
        return *kernel;
    }
    size_t most = 0;
    for (size_t i = 1; i < places_of(kernel); i++) {
        most = fabs(numbers[i]) > fabs(numbers[most]) ? i : most;
    }
    if (!(fabs(numbers[most]) > 0 && fabs(numbers[most]) < REAL_MOST)) {
        return *kernel;
    }
    const double *row = numbers + most / (size_t)kernel->columns * (size_t)kernel->columns;
    const double *column = numbers + most % (size_t)kernel->columns;
    for (int64_t j = 0; j < kernel->rows; j++) {
        double by = column[j * kernel->columns] / numbers[most];
        for (int64_t i = 0; i < kernel->columns; i++) {
            double number = numbers[j * kernel->columns + i];
            bool is_near = fabs(by * row[i] - number) <= NEARLY * fabs(numbers[most]);
            if (!is_near || (number == 0) != (by * row[i] == 0)) {
                return *kernel;
            }
        }
    }
    double *down = dev_cv_scratch((size_t)kernel->rows);
    for (int64_t j = 0; j < kernel->rows; j++) {
        down[j] = column[j * kernel->columns] / numbers[most];
    }
    return (struct cv_kernel){
        .rows = kernel->rows, .columns = kernel->columns, .down = down, .across = row};
}

// --- the steps behind a sum

// From reals, or from what `first` makes reals of, to the result.
static void finish_reals(const struct cv_filter *filter, enum np_type type, struct cv_plan *plan)
{
    const struct cv_finish_rows *loops = NP_CHOSEN(dev_cv_finish_rows);
    const struct cv_finish how = {.scale = (float)filter->scale, .delta = (float)filter->delta};
    plan->first_how = (struct cv_finish){.scale = 1};
    plan->last_how = how;
    if (type == NP_U8 || type == NP_I32) {
        plan->last = type == NP_U8 ? loops->f32_u8 : loops->f32_i16;
    } else if (plan->first != NULL) {
        plan->first_how = how;
    } else if (filter->scale != 1 || filter->delta != 0) {
        plan->last = loops->f32_f32;
    }
    if (plan->first == NULL) {
        plan->first = plan->last;
        plan->first_how = plan->last_how;
        plan->last = NULL;
    }
}

static bool reals_fit(const struct cv_filter *filter, const struct cv_kernel *kernel)
{
    bool fits = fabs(filter->scale) < REAL_MOST && fabs(filter->delta) < REAL_MOST;
    for (int64_t i = 0; kernel->numbers == NULL && i < kernel->columns; i++) {
        fits = fits && fabs(kernel->across[i]) < REAL_MOST;
    }
    for (int64_t i = 0; kernel->numbers == NULL && i < kernel->rows; i++) {
        fits = fits && fabs(kernel->down[i]) < REAL_MOST;
    }
    for (size_t i = 0; kernel->numbers != NULL && i < places_of(kernel); i++) {
        fits = fits && fabs(kernel->numbers[i]) < REAL_MOST;
    }
    return fits;
}

// The one number of a box, or 0.
static double box_number(const struct cv_kernel *kernel)
{
    if (kernel->numbers != NULL) {
        return 0; // one number would be a product
    }
    bool is_same = true;
    for (int64_t i = 1; i < kernel->columns; i++) {
        is_same = is_same && kernel->across[i] == kernel->across[0];
    }
    for (int64_t i = 1; i < kernel->rows; i++) {
        is_same = is_same && kernel->down[i] == kernel->down[0];
    }
    return is_same ? kernel->across[0] * kernel->down[0] : 0;
}

// --- the ways

static bool plan_reals(const struct cv_filter *filter, const struct cv_kernel *kernel,
                       enum np_type type, struct cv_plan *plan)
{
    const struct cv_sum_rows *loops = NP_CHOSEN(dev_cv_sum_rows);
    bool is_large_box = filter->from.type == NP_F32 && box_number(kernel) != 0 &&
                        kernel->rows + kernel->columns > BOX_REALS;
    if (filter->rounds_up || is_large_box || !reals_fit(filter, kernel) ||
        (kernel->numbers != NULL && places_of(kernel) > CV_TAPS_MAX)) {
        return false;
    }
    taps_of(kernel, -1, -1, plan);
    plan->load = filter->from.type == NP_U8 ? NP_CHOSEN(dev_cv_finish_rows)->u8_f32 : NULL;
    plan->source = NP_F32;
    plan->item = plan->kept = plan->sum = sizeof(float);
    plan->across.make = kernel->numbers == NULL ? loops->reals : NULL;
    plan->down.make = loops->reals;
    finish_reals(filter, type, plan);
    return true;
}

// A Gaussian of uint8 with 8 bits behind the point.
static bool plan_fixed(const struct cv_filter *filter, const struct cv_kernel *kernel,
                       struct cv_plan *plan)
{
    const struct cv_sum_rows *loops = NP_CHOSEN(dev_cv_sum_rows);
    const double one = 1 << SHIFT_MAX;
    if (!filter->rounds_up || kernel->numbers != NULL || filter->scale != 1 || filter->delta != 0) {
        return false;
    }
    struct whole across = whole_of(kernel->across, (size_t)kernel->columns);
    struct whole down = whole_of(kernel->down, (size_t)kernel->rows);
    if (across.shift < 0 || down.shift < 0 || across.has_negative || down.has_negative ||
        ldexp(across.sum, SHIFT_MAX - across.shift) > one ||
        ldexp(down.sum, SHIFT_MAX - down.shift) > one) {
        return false;
    }
    for (int64_t j = 0; j < kernel->rows; j++) {
        if (kernel->down[j] != kernel->down[kernel->rows - 1 - j]) {
            return false;
        }
    }
    taps_of(kernel, SHIFT_MAX, SHIFT_MAX, plan);
    plan->kept = sizeof(uint16_t);
    plan->across.make = loops->bytes;
    plan->down.make = loops->fixed;
    return true;
}

static bool plan_words(const struct cv_filter *filter, const struct cv_kernel *kernel,
                       enum np_type type, struct cv_plan *plan)
{
    const struct cv_sum_rows *sums = NP_CHOSEN(dev_cv_sum_rows);
    const struct cv_finish_rows *loops = NP_CHOSEN(dev_cv_finish_rows);
    bool is_product = kernel->numbers == NULL;
    if (!is_product && places_of(kernel) > CV_TAPS_MAX) {
        return false;
    }
    struct whole down = is_product ? whole_of(kernel->down, (size_t)kernel->rows)
                                   : whole_of(kernel->numbers, places_of(kernel));
    struct whole across = {.sum = 1};
    if (is_product) {
        across = whole_of(kernel->across, (size_t)kernel->columns);
    }
    if (down.shift < 0 || across.shift < 0) {
        return false;
    }
    const int shift = down.shift + across.shift;
    const double most = UINT8_MAX * across.sum * down.sum;
    const uint16_t half = (uint16_t)(shift > 0 ? 1u << (shift - 1) : 0);
    const bool is_as_it_is = filter->scale == 1 && filter->delta == 0;
    const bool has_negative = down.has_negative || across.has_negative;
    if (filter->rounds_up) {
        if (type != NP_U8 || !is_as_it_is || has_negative || shift == 0 ||
            most + half > UINT16_MAX) {
            return false;
        }
        plan->first = loops->mean_u8;
        plan->first_how = (struct cv_finish){.half = half, .times = (uint16_t)(0x10000 >> shift)};
    } else if (most > INT16_MAX) {
        return false;
    } else if (is_as_it_is && shift == 0 && type != NP_F32) {
        plan->first = type == NP_U8 ? loops->i16_u8 : loops->i16_i32;
        plan->first_how = (struct cv_finish){.scale = 1};
    } else {
        struct cv_filter scaled = *filter;
        scaled.scale = ldexp(filter->scale, -shift);
        plan->first = loops->i16_f32;
        finish_reals(&scaled, type, plan);
    }
    taps_of(kernel, across.shift, down.shift, plan);
    plan->kept = is_product ? sizeof(uint16_t) : sizeof(uint8_t);
    plan->sum = sizeof(uint16_t);
    plan->across.make = is_product ? sums->bytes : NULL;
    plan->down.make = is_product ? sums->words : sums->bytes;
    return true;
}

// Dividing by `places` as a product: of all sums of so many uint8, exactly, a half up.
static bool mean_by(uint32_t places, struct cv_finish *out_how)
{
    base_assert(places >= 2 && places <= WORDS_SLIDE);
    uint32_t shift = 0;
    while (places >> (shift + 1) != 0) {
        shift++;
    }
    bool is_power = places == 1u << shift;
    shift -= is_power; // 2^15 twice is 2^16
    uint32_t whole = 1u << (16 + shift);
    uint32_t times = (whole + places - 1) / places;
    uint64_t off = (uint64_t)times * places - whole;
    *out_how = (struct cv_finish){
        .half = (uint16_t)(places / 2), .times = (uint16_t)times, .shift = (uint16_t)shift};
    return times <= UINT16_MAX && off * (UINT8_MAX * places + places / 2) < whole;
}

static bool plan_box(const struct cv_filter *filter, const struct cv_kernel *kernel,
                     enum np_type type, struct cv_plan *plan)
{
    const struct cv_finish_rows *loops = NP_CHOSEN(dev_cv_finish_rows);
    const double number = box_number(kernel);
    const size_t places = places_of(kernel);
    if (number == 0 || places < 2 || filter->rounds_up || !(fabs(number) < REAL_MOST) ||
        !reals_fit(filter, kernel)) {
        return false;
    }
    struct cv_filter scaled = *filter;
    scaled.scale = filter->scale * number;
    plan->box = (struct cv_box_plan){.is_box = true, .is_long = places > WORDS_SLIDE};
    plan->load = plan->box.is_long ? loops->u8_i32 : loops->u8_u16;
    plan->source = NP_I32;
    plan->item = plan->kept = plan->sum = plan->box.is_long ? sizeof(int32_t) : sizeof(uint16_t);
    bool is_mean =
        type == NP_U8 && scaled.delta == 0 && fabs(scaled.scale * (double)places - 1) < NEARLY;
    if (is_mean && plan->box.is_long) {
        plan->first = loops->mean_i32;
        plan->first_how = (struct cv_finish){.exact = 1 / (double)places};
    } else if (is_mean && mean_by((uint32_t)places, &plan->first_how)) {
        plan->first = loops->mean_u8;
    } else {
        plan->first = plan->box.is_long ? loops->i32_f32 : loops->u16_f32;
        finish_reals(&scaled, type, plan);
    }
    return true;
}

static bool plan_extreme(const struct cv_filter *filter, struct cv_plan *plan)
{
    const struct cv_extreme_rows *loops = NP_CHOSEN(dev_cv_extreme_rows);
    const struct cv_kernel *kernel = &filter->kernel;
    bool is_least = filter->how == CV_FILTER_LEAST;
    if (kernel->numbers != NULL && places_of(kernel) > CV_TAPS_MAX) {
        return false;
    }
    taps_of(kernel, -1, -1, plan);
    bool is_byte = filter->from.type == NP_U8;
    plan->source = filter->from.type;
    plan->item = plan->kept = is_byte ? sizeof(uint8_t) : sizeof(float);
    plan->down.make = is_byte ? (is_least ? loops->least_u8 : loops->largest_u8)
                              : (is_least ? loops->least_f32 : loops->largest_f32);
    plan->across.make = kernel->numbers == NULL ? plan->down.make : NULL;
    plan->across.by = NULL;
    plan->down.by = NULL;
    return true;
}

bool dev_cv_plan(const struct cv_filter *filter, enum np_type type, struct cv_plan *out_plan)
{
    const enum np_type from = filter->from.type;
    *out_plan = (struct cv_plan){.source = from, .item = sizeof(uint8_t)};
    if (filter->squares || (from != NP_U8 && from != NP_F32) || type == NP_F64) {
        return false;
    }
    if (filter->how != CV_FILTER_SUM) {
        return plan_extreme(filter, out_plan);
    }
    base_assert(type == NP_U8 || type == NP_I32 || type == NP_F32);
    struct cv_kernel kernel = factored(&filter->kernel);
    if (from == NP_U8 &&
        (plan_box(filter, &kernel, type, out_plan) || plan_words(filter, &kernel, type, out_plan) ||
         plan_fixed(filter, &kernel, out_plan))) {
        return true;
    }
    return plan_reals(filter, &kernel, type, out_plan);
}

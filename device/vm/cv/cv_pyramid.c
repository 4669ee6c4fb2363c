// Functions of walle.cv that filter in their own way: half and double size, both derivatives at
// once, and the kernel of Gabor. Pixels are read and written as in cv_image.c.
// Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_filter.h"

#include "base/check.h"
#include "vm/cv/rows/cv_filter_rows.h"
#include "vm/np/np_wide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILTERED (CV_U8 | CV_REALS)
#define TAPS     5

static const double smooth[TAPS] = {1, 4, 6, 4, 1};

// A pyramid's step: rows and columns of `from` that a place of `to` is made of.
struct step {
    struct cv_image from;
    struct cv_image to;
    enum cv_border border;
    bool is_up;
    double *source; // a row of `from`
    double *across; // rows of `from`, filtered across: as many as TAPS, by row modulo TAPS
    int64_t rows[TAPS];
    size_t owed;
};

// Where tap k of a place is found along a side of `size`; -1: the tap counts nothing.
static int64_t tap_at(const struct step *step, int64_t place, int64_t k, int64_t size)
{
    int64_t at = place * 2 + k - 2;
    if (!step->is_up) {
        return dev_cv_border_at(at, size, step->border);
    }
    // Between pixels of the image lie zeros; what is beyond an even size is the last again.
    place = place < 2 * size ? place : 2 * size - 1;
    at = place + k - 2;
    return at % 2 != 0 ? -1 : dev_cv_border_at(at, 2 * size, CV_BORDER_REFLECT_101) / 2;
}

static const double *row_across(struct step *step, int64_t row)
{
    const uint32_t channels = step->from.channels;
    double *to = step->across + (size_t)(row % TAPS) * dev_cv_row_items(&step->to);
    if (step->rows[row % TAPS] == row) {
        return to;
    }
    step->rows[row % TAPS] = row;
    dev_cv_load(&step->from, row, step->source);
    for (int64_t x = 0; x < step->to.columns; x++) {
        for (uint32_t c = 0; c < channels; c++) {
            to[x * channels + c] = 0;
        }
        for (int64_t k = 0; k < TAPS; k++) {
            int64_t at = tap_at(step, x, k, step->from.columns);
            for (uint32_t c = 0; c < channels && at >= 0; c++) {
                to[x * channels + c] += smooth[k] * step->source[at * channels + c];
            }
        }
    }
    dev_cv_pay(&step->owed, dev_cv_row_items(&step->to) * TAPS);
    return to;
}

static void row_make(struct step *step, int64_t y, double *sum)
{
    const size_t items = dev_cv_row_items(&step->to);
    const double scale = step->is_up ? 1.0 / 64 : 1.0 / 256;
    for (size_t i = 0; i < items; i++) {
        sum[i] = 0;
    }
    for (int64_t k = 0; k < TAPS; k++) {
        int64_t at = tap_at(step, y, k, step->from.rows);
        if (at < 0) {
            continue;
        }
        const double *row = row_across(step, at);
        for (size_t i = 0; i < items; i++) {
            sum[i] += smooth[k] * row[i];
        }
    }
    for (size_t i = 0; i < items; i++) {
        sum[i] *= scale;
        sum[i] = step->to.type == NP_U8 ? floor(sum[i] + 0.5) : sum[i];
    }
    dev_cv_pay(&step->owed, items * TAPS);
    dev_cv_store(step->to.type, (uint8_t *)(uintptr_t)dev_cv_row(&step->to, y), sum, items);
}

// The same in the types of uint8 and float32: rows are filtered down, which is along them, then
// across at the size of the image. Sums of uint8 have 16 bits.
struct typed_step {
    struct step *step;
    bool is_byte;
    size_t pixel;    // bytes of the image's
    size_t sum;      // bytes of a sum's
    uint8_t *padded; // a row filtered down, with its border
    uint8_t *across; // ... and across
    uint8_t *made;   // two rows of the image's type
};

// Rows and the numbers, which are whole, that they are summed by.
struct summed {
    const uint8_t *rows[TAPS];
    uint8_t numbers[TAPS];
    size_t taps;
    size_t items;
};

static void rows_sum(const struct typed_step *typed, uint8_t *to, const struct summed *summed)
{
    const struct cv_sum_rows *loops = NP_CHOSEN(dev_cv_sum_rows);
    uint16_t words[TAPS];
    float reals[TAPS];
    base_assert(summed->taps >= 1 && summed->taps <= TAPS);
    for (size_t k = 0; k < summed->taps; k++) {
        words[k] = summed->numbers[k];
        reals[k] = (float)summed->numbers[k];
    }
    if (!typed->is_byte) {
        loops->reals(to, summed->rows, reals, summed->taps, summed->items);
    } else if (to == typed->across) {
        loops->words(to, summed->rows, words, summed->taps, summed->items);
    } else {
        loops->bytes(to, summed->rows, words, summed->taps, summed->items);
    }
}

// Filters down to `padded`, behind `before` pixels of the border.
static void typed_down(const struct typed_step *typed, int64_t y, size_t before)
{
    const struct cv_image *from = &typed->step->from;
    struct summed summed = {.items = dev_cv_row_items(from)};
    for (int64_t k = 0; k < TAPS; k++) {
        int64_t at = tap_at(typed->step, y, k, from->rows);
        if (at >= 0) {
            summed.rows[summed.taps] = dev_cv_row(from, at);
            summed.numbers[summed.taps++] = (uint8_t)smooth[k];
        }
    }
    rows_sum(typed, typed->padded + before * typed->sum, &summed);
}

// Sums across to `made`, as the image's type: from `padded` on, `first` pixels further.
static void typed_across(const struct typed_step *typed, struct summed *summed, size_t first,
                         uint8_t *made)
{
    const struct cv_finish_rows *loops = NP_CHOSEN(dev_cv_finish_rows);
    const uint16_t parts = typed->step->is_up ? 64 : 256;
    const struct cv_finish how = {.scale = 1.0F / (float)parts,
                                  .half = (uint16_t)(parts / 2),
                                  .times = (uint16_t)(0x10000 / parts)};
    for (size_t k = 0; k < summed->taps; k++) {
        summed->rows[k] = typed->padded + (first + k) * typed->sum;
    }
    rows_sum(typed, typed->across, summed);
    if (typed->is_byte) {
        loops->mean_u8(made, typed->across, summed->items, &how);
    } else {
        loops->f32_f32(made, typed->across, summed->items, &how);
    }
}

static void typed_halve(const struct typed_step *typed, int64_t y)
{
    const struct step *step = typed->step;
    const int64_t columns = step->from.columns;
    const int64_t reach = TAPS / 2;
    struct summed summed = {.numbers = {1, 4, 6, 4, 1}, .taps = TAPS};
    summed.items = (size_t)(step->to.columns * 2 - 1) * step->from.channels;
    typed_down(typed, y, (size_t)reach);
    for (int64_t x = -reach; x < step->to.columns * 2 + 1; x++) {
        x = x == 0 ? columns : x; // the image itself is there
        int64_t at = dev_cv_border_at(x, columns, step->border);
        memcpy(typed->padded + (size_t)(x + reach) * typed->sum,
               typed->padded + (size_t)(at + reach) * typed->sum, typed->sum);
    }
    typed_across(typed, &summed, 0, typed->made);
    NP_CHOSEN(dev_cv_pixel_rows)
        ->every_other((uint8_t *)(uintptr_t)dev_cv_row(&step->to, y), typed->made,
                      (size_t)step->to.columns, typed->pixel);
}

static void typed_double(const struct typed_step *typed, int64_t y)
{
    const struct step *step = typed->step;
    const size_t columns = (size_t)step->from.columns;
    const size_t items = dev_cv_row_items(&step->from);
    struct summed for_even = {.numbers = {1, 6, 1}, .taps = 3, .items = items};
    struct summed for_odd = {.numbers = {4, 4}, .taps = 2, .items = items};
    uint8_t *odd = typed->made + columns * typed->pixel;
    uint8_t *to = (uint8_t *)(uintptr_t)dev_cv_row(&step->to, y);
    typed_down(typed, y, 1);
    // In front of the first pixel lies the second, behind the last the last.
    memcpy(typed->padded, typed->padded + (columns > 1 ? 2 : 1) * typed->sum, typed->sum);
    memcpy(typed->padded + (columns + 1) * typed->sum, typed->padded + columns * typed->sum,
           typed->sum);
    typed_across(typed, &for_even, 0, typed->made);
    typed_across(typed, &for_odd, 1, odd);
    const size_t wide = (size_t)step->to.columns;
    const size_t pairs = wide / 2 < columns ? wide / 2 : columns;
    NP_CHOSEN(dev_cv_pixel_rows)->in_turn(to, typed->made, odd, pairs, typed->pixel);
    if (wide > 2 * pairs) { // one more: of an even place, or the last again
        const uint8_t *last =
            pairs < columns ? typed->made + pairs * typed->pixel : odd + (pairs - 1) * typed->pixel;
        memcpy(to + 2 * pairs * typed->pixel, last, typed->pixel);
    }
}

static void typed_step(struct step *step)
{
    struct typed_step typed = {.step = step, .is_byte = step->from.type == NP_U8};
    const size_t item = dev_np_item(step->from.type);
    const size_t most = (size_t)(step->from.columns > step->to.columns * 2 ? step->from.columns
                                                                           : step->to.columns * 2);
    const size_t room = (most + 2 * TAPS) * step->from.channels;
    typed.pixel = item * step->from.channels;
    typed.sum = (typed.is_byte ? sizeof(uint16_t) : sizeof(float)) * step->from.channels;
    typed.padded = (uint8_t *)(void *)dev_cv_scratch(room);
    typed.across = (uint8_t *)(void *)dev_cv_scratch(room);
    typed.made = (uint8_t *)(void *)dev_cv_scratch(room);
    for (int64_t y = 0; y < step->to.rows; y++) {
        if (step->is_up) {
            typed_double(&typed, y);
        } else {
            typed_halve(&typed, y);
        }
        dev_cv_pay(&step->owed, room);
    }
}

static void general_step(struct step *step)
{
    size_t items = dev_cv_row_items(&step->to);
    step->source = dev_cv_scratch(dev_cv_row_items(&step->from));
    step->across = dev_cv_scratch(items * TAPS);
    double *sum = dev_cv_scratch(items);
    for (int i = 0; i < TAPS; i++) {
        step->rows[i] = -1;
    }
    for (int64_t y = 0; y < step->to.rows; y++) {
        row_make(step, y, sum);
    }
}

// (src[, dst[, dstsize[, borderType]]])
static mp_obj_t pyramid(bool is_up, size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DST, SIZE, BORDER };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_MAY(dst), CV_MAY(dstsize),
                                     CV_MAY_INT(borderType, CV_BORDER_REFLECT_101)};
    CV_PARSE(table);
    struct step step = {.from = dev_cv_take(values[SRC].u_obj, FILTERED), .is_up = is_up};
    step.border = dev_cv_border_parse(values[BORDER].u_int);
    if (is_up ? step.border != CV_BORDER_REFLECT_101 : step.border == CV_BORDER_CONSTANT) {
        dev_cv_bad("pyrUp knows BORDER_DEFAULT, and pyrDown all but BORDER_CONSTANT");
    }
    int64_t rows = step.from.rows;
    int64_t columns = step.from.columns;
    int64_t size[] = {0, 0};
    if (values[SIZE].u_obj != mp_const_none) {
        dev_cv_pair(values[SIZE].u_obj, size);
    }
    if (size[0] == 0 && size[1] == 0) {
        size[0] = is_up ? columns * 2 : (columns + 1) / 2;
        size[1] = is_up ? rows * 2 : (rows + 1) / 2;
    }
    bool is_near = is_up ? llabs(size[0] - columns * 2) == size[0] % 2 &&
                               llabs(size[1] - rows * 2) == size[1] % 2
                         : llabs(size[0] * 2 - columns) <= 2 && llabs(size[1] * 2 - rows) <= 2;
    if (size[0] <= 0 || size[1] <= 0 || !is_near) {
        dev_cv_bad("a pyramid's size is half or double, and at most a pixel off");
    }
    struct np_array *made = dev_cv_room(step.from.type, size[1], size[0], step.from.channels);
    step.to = dev_cv_of(made);
    if (step.from.type == NP_F64) {
        general_step(&step);
    } else {
        typed_step(&step);
    }
    dev_cv_hold(&step);
    return dev_cv_give(values[DST].u_obj, made);
}

static mp_obj_t pyr_down(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return pyramid(false, count, args, named);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_pyrDown_obj, 1, pyr_down);

static mp_obj_t pyr_up(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return pyramid(true, count, args, named);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_pyrUp_obj, 1, pyr_up);

// --- derivatives and Gabor's kernel

// spatialGradient(src[, dx[, dy[, ksize[, borderType]]]])
static mp_obj_t spatial_gradient(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DX, DY, SIZE, BORDER, PLACES = 3, INT16 = 3 };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_MAY(dx), CV_MAY(dy), CV_MAY_INT(ksize, 3),
                                     CV_MAY_INT(borderType, CV_BORDER_REFLECT_101)};
    CV_PARSE(table);
    struct cv_filter filter = {
        .from = dev_cv_take(values[SRC].u_obj, CV_U8), .scale = 1, .depth = INT16};
    filter.border = dev_cv_filter_border(values[BORDER].u_int);
    if (filter.from.channels != 1 || values[SIZE].u_int != PLACES ||
        (filter.border != CV_BORDER_REFLECT_101 && filter.border != CV_BORDER_REPLICATE)) {
        dev_cv_bad("of one channel, by 3 places, BORDER_DEFAULT or BORDER_REPLICATE");
    }
    mp_obj_t both[2];
    filter.kernel = (struct cv_kernel){.rows = PLACES, .columns = PLACES};
    for (int side = 0; side < 2; side++) {
        filter.kernel.across = dev_cv_sobel_numbers(PLACES, side == 0, false);
        filter.kernel.down = dev_cv_sobel_numbers(PLACES, side == 1, false);
        dev_cv_anchor(&filter, mp_const_none);
        both[side] = dev_cv_give(values[side == 0 ? DX : DY].u_obj, dev_cv_filtered(&filter));
    }
    return mp_obj_new_tuple(2, both);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_spatialGradient_obj, 1, spatial_gradient);

struct gabor {
    double sigma_x;
    double sigma_y;
    double across; // cosine and sine of the direction
    double down;
    double wave;
    double phase;
};

static int64_t gabor_side(int64_t size, double along, double other)
{
    const double deviations = 3;
    return size > 0 ? size / 2 : (int64_t)rint(deviations * fmax(fabs(along), fabs(other)));
}

static void gabor_fill(const struct gabor *gabor, struct np_array *made, int64_t wide, int64_t high)
{
    double *row_of = dev_cv_scratch((size_t)(2 * wide + 1));
    struct cv_image to = dev_cv_of(made);
    size_t owed = 0;
    for (int64_t y = -high; y <= high; y++) {
        for (int64_t x = -wide; x <= wide; x++) {
            double along = (double)x * gabor->across + (double)y * gabor->down;
            double aside = (double)y * gabor->across - (double)x * gabor->down;
            double part_x = along / gabor->sigma_x;
            double part_y = aside / gabor->sigma_y;
            row_of[wide - x] = exp(-0.5 * (part_x * part_x + part_y * part_y)) *
                               cos(gabor->wave * along + gabor->phase);
        }
        dev_cv_store(to.type, (uint8_t *)(uintptr_t)dev_cv_row(&to, high - y), row_of,
                     (size_t)(2 * wide + 1));
        dev_cv_pay(&owed, (size_t)(2 * wide + 1) * 8);
    }
}

// getGaborKernel(ksize, sigma, theta, lambd, gamma[, psi[, ktype]])
static mp_obj_t get_gabor_kernel(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SIZE, SIGMA, THETA, LAMBDA, GAMMA, PSI, KTYPE };
    static const mp_arg_t table[] = {CV_NEEDS(ksize),     CV_NEEDS(sigma), CV_NEEDS(theta),
                                     CV_NEEDS(lambd),     CV_NEEDS(gamma), CV_MAY(psi),
                                     CV_MAY_INT(ktype, 6)};
    CV_PARSE(table);
    int64_t size[2];
    dev_cv_pair(values[SIZE].u_obj, size);
    double theta = mp_obj_get_float(values[THETA].u_obj);
    struct gabor gabor = {.sigma_x = mp_obj_get_float(values[SIGMA].u_obj),
                          .across = cos(theta),
                          .down = sin(theta),
                          .wave = 2 * M_PI / mp_obj_get_float(values[LAMBDA].u_obj),
                          .phase = dev_cv_real(values[PSI].u_obj, M_PI / 2)};
    gabor.sigma_y = gabor.sigma_x / mp_obj_get_float(values[GAMMA].u_obj);
    double reach = fabs(gabor.sigma_x) + fabs(gabor.sigma_y);
    enum np_type type = dev_cv_depth(values[KTYPE].u_int, NP_F64);
    if (!dev_np_is_real(type) || !(reach < CV_KERNEL_MAX / 8) || size[0] > CV_KERNEL_MAX ||
        size[1] > CV_KERNEL_MAX) {
        dev_cv_bad("a kernel is of CV_32F or CV_64F, and has 1 to 1024 places on each side");
    }
    int64_t wide = gabor_side(size[0], gabor.sigma_x * gabor.across, gabor.sigma_y * gabor.down);
    int64_t high = gabor_side(size[1], gabor.sigma_x * gabor.down, gabor.sigma_y * gabor.across);
    struct np_array *made = dev_cv_new(type, 2 * high + 1, 2 * wide + 1, 1);
    gabor_fill(&gabor, made, wide, high);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_getGaborKernel_obj, 5, get_gabor_kernel);

// Functions of walle.cv that filter by a sum: smoothed, derived, or by a script's own kernel. Each
// makes the kernel and leaves the work to cv_filter.c. Pixels are read and written as in
// cv_image.c. Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_filter.h"

#include <math.h>

#define FILTERED (CV_U8 | CV_REALS)

static const double *ones(int64_t size)
{
    double *made = dev_cv_scratch((size_t)size);
    for (int64_t i = 0; i < size; i++) {
        made[i] = 1;
    }
    return made;
}

static struct cv_filter filter_of(mp_obj_t src, mp_int_t depth, mp_int_t border)
{
    struct cv_filter filter = {.from = dev_cv_take(src, FILTERED), .scale = 1, .depth = depth};
    filter.border = dev_cv_filter_border(border);
    enum np_type type = dev_cv_depth(depth, filter.from.type);
    if (type < filter.from.type || (depth > 0 && depth < 5 && depth != 3)) {
        dev_cv_bad("a depth is the image's, CV_16S, CV_32F or CV_64F, and no smaller one than the "
                   "image's");
    }
    return filter;
}

static mp_obj_t filtered(struct cv_filter *filter, mp_obj_t anchor, mp_obj_t dst)
{
    dev_cv_anchor(filter, anchor);
    return dev_cv_give(dst, dev_cv_filtered(filter));
}

// --- boxes

struct box {
    mp_obj_t size;
    mp_obj_t anchor;
    mp_obj_t dst;
    bool is_mean;
};

static mp_obj_t boxed(struct cv_filter *filter, const struct box *box)
{
    int64_t size[2];
    dev_cv_pair(box->size, size);
    if (size[0] < 1 || size[1] < 1 || size[0] > CV_KERNEL_MAX || size[1] > CV_KERNEL_MAX) {
        dev_cv_bad("a box has 1 to 1024 places on each side");
    }
    filter->kernel = (struct cv_kernel){.rows = size[1], .columns = size[0]};
    filter->kernel.across = ones(size[0]);
    filter->kernel.down = ones(size[1]);
    filter->scale = box->is_mean ? 1 / (double)(size[0] * size[1]) : 1;
    return filtered(filter, box->anchor, box->dst);
}

// blur(src, ksize[, dst[, anchor[, borderType]]])
static mp_obj_t blur(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, SIZE, DST, ANCHOR, BORDER };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_NEEDS(ksize), CV_MAY(dst), CV_MAY(anchor),
                                     CV_MAY_INT(borderType, CV_BORDER_REFLECT_101)};
    CV_PARSE(table);
    struct cv_filter filter = filter_of(values[SRC].u_obj, -1, values[BORDER].u_int);
    struct box box = {values[SIZE].u_obj, values[ANCHOR].u_obj, values[DST].u_obj, true};
    return boxed(&filter, &box);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_blur_obj, 2, blur);

static mp_obj_t box_call(bool squares, size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DEPTH, SIZE, DST, ANCHOR, NORMALIZE, BORDER };
    static const mp_arg_t table[] = {CV_NEEDS(src),
                                     CV_NEEDS_INT(ddepth),
                                     CV_NEEDS(ksize),
                                     CV_MAY(dst),
                                     CV_MAY(anchor),
                                     {MP_QSTR_normalize, MP_ARG_BOOL, {.u_bool = true}},
                                     CV_MAY_INT(borderType, CV_BORDER_REFLECT_101)};
    CV_PARSE(table);
    mp_int_t depth = values[DEPTH].u_int;
    struct cv_filter filter = filter_of(values[SRC].u_obj, depth, values[BORDER].u_int);
    filter.squares = squares;
    if (squares && depth < 0) {
        filter.depth = filter.from.type == NP_U8 ? 5 : 6;
    }
    struct box box = {values[SIZE].u_obj, values[ANCHOR].u_obj, values[DST].u_obj,
                      values[NORMALIZE].u_bool};
    return boxed(&filter, &box);
}

// boxFilter(src, ddepth, ksize[, dst[, anchor[, normalize[, borderType]]]]), sqrBoxFilter(...)
static mp_obj_t box_filter(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return box_call(false, count, args, named);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_boxFilter_obj, 3, box_filter);

static mp_obj_t sqr_box_filter(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return box_call(true, count, args, named);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_sqrBoxFilter_obj, 3, sqr_box_filter);

// --- Gaussian

// Of uint8 with 8 bits behind the point: what is lost to rounding is handed on to the next number,
// and what is left of 1 is the middle.
static const double *gaussian_fixed(const double *numbers, int64_t size)
{
    double *made = dev_cv_scratch((size_t)size);
    double lost = 0;
    double sum = 0;
    for (int64_t i = 0; i < size / 2; i++) {
        double wanted = numbers[i] * 256 + lost;
        double whole = rint(wanted);
        lost = wanted - whole;
        made[i] = made[size - 1 - i] = whole / 256;
        sum += 2 * whole;
    }
    made[size / 2] = (256 - sum) / 256;
    return made;
}

static int64_t gaussian_size(int64_t size, double sigma, bool is_byte)
{
    if (size <= 0 && sigma > 0) {
        double wide = rint(sigma * (is_byte ? 3 : 4) * 2 + 1);
        return wide < CV_KERNEL_MAX ? (int64_t)wide | 1 : CV_KERNEL_MAX;
    }
    return size;
}

// GaussianBlur(src, ksize, sigmaX[, dst[, sigmaY[, borderType]]])
static mp_obj_t gaussian_blur(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, SIZE, SIGMA_X, DST, SIGMA_Y, BORDER };
    static const mp_arg_t table[] = {
        CV_NEEDS(src), CV_NEEDS(ksize), CV_NEEDS(sigmaX),
        CV_MAY(dst),   CV_MAY(sigmaY),  CV_MAY_INT(borderType, CV_BORDER_REFLECT_101)};
    CV_PARSE(table);
    struct cv_filter filter = filter_of(values[SRC].u_obj, -1, values[BORDER].u_int);
    int64_t size[2];
    dev_cv_pair(values[SIZE].u_obj, size);
    bool is_byte = filter.from.type == NP_U8;
    double across = mp_obj_get_float(values[SIGMA_X].u_obj);
    double down = dev_cv_real(values[SIGMA_Y].u_obj, 0);
    down = down > 0 ? down : across;
    filter.kernel.columns = gaussian_size(size[0], across, is_byte);
    filter.kernel.rows = gaussian_size(size[1], down, is_byte);
    if (filter.border != CV_BORDER_CONSTANT) { // around one row or column there is nothing else
        filter.kernel.columns = filter.from.columns == 1 ? 1 : filter.kernel.columns;
        filter.kernel.rows = filter.from.rows == 1 ? 1 : filter.kernel.rows;
    }
    if (filter.kernel.columns % 2 != 1 || filter.kernel.rows % 2 != 1) {
        dev_cv_bad("the sides of a Gaussian are odd, or 0 with a sigma");
    }
    filter.kernel.across = dev_cv_gaussian_numbers(filter.kernel.columns, across);
    filter.kernel.down = dev_cv_gaussian_numbers(filter.kernel.rows, down);
    if (is_byte) {
        filter.kernel.across = gaussian_fixed(filter.kernel.across, filter.kernel.columns);
        filter.kernel.down = gaussian_fixed(filter.kernel.down, filter.kernel.rows);
        filter.rounds_up = true;
    }
    return filtered(&filter, mp_const_none, values[DST].u_obj);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_GaussianBlur_obj, 3, gaussian_blur);

// --- a script's kernels

// filter2D(src, ddepth, kernel[, dst[, anchor[, delta[, borderType]]]])
static mp_obj_t filter_2d(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DEPTH, KERNEL, DST, ANCHOR, DELTA, BORDER };
    static const mp_arg_t table[] = {CV_NEEDS(src),
                                     CV_NEEDS_INT(ddepth),
                                     CV_NEEDS(kernel),
                                     CV_MAY(dst),
                                     CV_MAY(anchor),
                                     CV_MAY(delta),
                                     CV_MAY_INT(borderType, CV_BORDER_REFLECT_101)};
    CV_PARSE(table);
    struct cv_filter filter =
        filter_of(values[SRC].u_obj, values[DEPTH].u_int, values[BORDER].u_int);
    filter.kernel = dev_cv_kernel_take(values[KERNEL].u_obj);
    filter.delta = dev_cv_real(values[DELTA].u_obj, 0);
    return filtered(&filter, values[ANCHOR].u_obj, values[DST].u_obj);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_filter2D_obj, 3, filter_2d);

// sepFilter2D(src, ddepth, kernelX, kernelY[, dst[, anchor[, delta[, borderType]]]])
static mp_obj_t sep_filter_2d(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DEPTH, KERNEL_X, KERNEL_Y, DST, ANCHOR, DELTA, BORDER };
    static const mp_arg_t table[] = {
        CV_NEEDS(src),     CV_NEEDS_INT(ddepth),
        CV_NEEDS(kernelX), CV_NEEDS(kernelY),
        CV_MAY(dst),       CV_MAY(anchor),
        CV_MAY(delta),     CV_MAY_INT(borderType, CV_BORDER_REFLECT_101)};
    CV_PARSE(table);
    struct cv_filter filter =
        filter_of(values[SRC].u_obj, values[DEPTH].u_int, values[BORDER].u_int);
    struct cv_kernel across = dev_cv_kernel_take(values[KERNEL_X].u_obj);
    struct cv_kernel down = dev_cv_kernel_take(values[KERNEL_Y].u_obj);
    if ((across.rows != 1 && across.columns != 1) || (down.rows != 1 && down.columns != 1)) {
        dev_cv_bad("the kernel of a side is a row or a column");
    }
    filter.kernel = (struct cv_kernel){.rows = down.rows * down.columns,
                                       .columns = across.rows * across.columns,
                                       .down = down.numbers,
                                       .across = across.numbers};
    filter.delta = dev_cv_real(values[DELTA].u_obj, 0);
    return filtered(&filter, values[ANCHOR].u_obj, values[DST].u_obj);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_sepFilter2D_obj, 4, sep_filter_2d);

// --- derivatives

struct derivative {
    int64_t dx;
    int64_t dy;
    int64_t size; // -1: Scharr
    mp_obj_t dst;
};

static mp_obj_t derived(struct cv_filter *filter, const struct derivative *of)
{
    if (of->dx < 0 || of->dy < 0 || of->dx + of->dy <= 0 ||
        (of->size == -1 && of->dx + of->dy != 1)) {
        dev_cv_bad("the orders of a derivative are not negative, and not both 0");
    }
    filter->kernel.columns = dev_cv_sobel_size(of->size, of->dx);
    filter->kernel.rows = dev_cv_sobel_size(of->size, of->dy);
    filter->kernel.across = dev_cv_sobel_numbers(of->size, of->dx, false);
    filter->kernel.down = dev_cv_sobel_numbers(of->size, of->dy, false);
    return filtered(filter, mp_const_none, of->dst);
}

// Sobel(src, ddepth, dx, dy[, dst[, ksize[, scale[, delta[, borderType]]]]])
static mp_obj_t sobel(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DEPTH, DX, DY, DST, SIZE, SCALE, DELTA, BORDER };
    static const mp_arg_t table[] = {
        CV_NEEDS(src),    CV_NEEDS_INT(ddepth), CV_NEEDS_INT(dx),
        CV_NEEDS_INT(dy), CV_MAY(dst),          CV_MAY_INT(ksize, 3),
        CV_MAY(scale),    CV_MAY(delta),        CV_MAY_INT(borderType, CV_BORDER_REFLECT_101)};
    CV_PARSE(table);
    struct cv_filter filter =
        filter_of(values[SRC].u_obj, values[DEPTH].u_int, values[BORDER].u_int);
    filter.scale = dev_cv_real(values[SCALE].u_obj, 1);
    filter.delta = dev_cv_real(values[DELTA].u_obj, 0);
    struct derivative of = {values[DX].u_int, values[DY].u_int, values[SIZE].u_int,
                            values[DST].u_obj};
    if (of.size != -1 && (of.size < 1 || of.size > 31)) {
        dev_cv_bad("a derivative has 1 to 31 places, or -1: Scharr's");
    }
    return derived(&filter, &of);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_Sobel_obj, 4, sobel);

// Scharr(src, ddepth, dx, dy[, dst[, scale[, delta[, borderType]]]])
static mp_obj_t scharr(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DEPTH, DX, DY, DST, SCALE, DELTA, BORDER };
    static const mp_arg_t table[] = {
        CV_NEEDS(src),    CV_NEEDS_INT(ddepth),
        CV_NEEDS_INT(dx), CV_NEEDS_INT(dy),
        CV_MAY(dst),      CV_MAY(scale),
        CV_MAY(delta),    CV_MAY_INT(borderType, CV_BORDER_REFLECT_101)};
    CV_PARSE(table);
    struct cv_filter filter =
        filter_of(values[SRC].u_obj, values[DEPTH].u_int, values[BORDER].u_int);
    filter.scale = dev_cv_real(values[SCALE].u_obj, 1);
    filter.delta = dev_cv_real(values[DELTA].u_obj, 0);
    struct derivative of = {values[DX].u_int, values[DY].u_int, -1, values[DST].u_obj};
    return derived(&filter, &of);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_Scharr_obj, 4, scharr);

// The sum of both second derivatives as one kernel.
static struct cv_kernel laplace_kernel(int64_t size)
{
    static const double small[] = {0, 1, 0, 1, -4, 1, 0, 1, 0};
    if (size == 1) {
        return (struct cv_kernel){.rows = 3, .columns = 3, .numbers = small};
    }
    const double *derivative = dev_cv_sobel_numbers(size, 2, false);
    const double *smooth = dev_cv_sobel_numbers(size, 0, false);
    double *numbers = dev_cv_scratch((size_t)(size * size));
    for (int64_t y = 0; y < size; y++) {
        for (int64_t x = 0; x < size; x++) {
            numbers[y * size + x] = derivative[x] * smooth[y] + smooth[x] * derivative[y];
        }
    }
    return (struct cv_kernel){.rows = size, .columns = size, .numbers = numbers};
}

// Laplacian(src, ddepth[, dst[, ksize[, scale[, delta[, borderType]]]]])
static mp_obj_t laplacian(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DEPTH, DST, SIZE, SCALE, DELTA, BORDER };
    static const mp_arg_t table[] = {CV_NEEDS(src),
                                     CV_NEEDS_INT(ddepth),
                                     CV_MAY(dst),
                                     CV_MAY_INT(ksize, 1),
                                     CV_MAY(scale),
                                     CV_MAY(delta),
                                     CV_MAY_INT(borderType, CV_BORDER_REFLECT_101)};
    CV_PARSE(table);
    struct cv_filter filter =
        filter_of(values[SRC].u_obj, values[DEPTH].u_int, values[BORDER].u_int);
    mp_int_t size = values[SIZE].u_int;
    if (size < 1 || size > 31 || size % 2 == 0) {
        dev_cv_bad("a Laplacian has 1 to 31 places, an odd number");
    }
    filter.kernel = laplace_kernel(size);
    filter.scale = dev_cv_real(values[SCALE].u_obj, 1);
    filter.delta = dev_cv_real(values[DELTA].u_obj, 0);
    return filtered(&filter, mp_const_none, values[DST].u_obj);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_Laplacian_obj, 2, laplacian);

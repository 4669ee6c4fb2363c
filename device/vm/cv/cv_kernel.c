// Kernels of filters: the numbers of a Gaussian, of derivatives and of shapes, as functions of
// walle.cv and for its filters. Pixels are read and written as in cv_image.c. Called by scripts
// and by the files that filter, on the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_filter.h"

#include <math.h>
#include <string.h>

static void size_check(int64_t size)
{
    if (size < 1 || size > CV_KERNEL_MAX) {
        dev_cv_bad("a kernel has 1 to 1024 places on each side");
    }
}

double *dev_cv_gaussian_numbers(int64_t size, double sigma)
{
    // Of 256 parts.
    static const uint8_t small[][9] = {{0}, // 256
                                       {64, 128, 64},
                                       {16, 64, 96, 64, 16},
                                       {8, 28, 56, 72, 56, 28, 8},
                                       {4, 13, 30, 51, 60, 51, 30, 13, 4}};
    size_check(size);
    double *made = dev_cv_scratch((size_t)size);
    if (sigma <= 0 && size % 2 == 1 && size <= 9) {
        for (int64_t i = 0; i < size; i++) {
            made[i] = size == 1 ? 1 : small[size / 2][i] / 256.0;
        }
        return made;
    }
    double wide = sigma > 0 ? sigma : ((double)(size - 1) * 0.5 - 1) * 0.3 + 0.8;
    double sum = 0;
    for (int64_t i = 0; i < size; i++) {
        double at = (double)i - (double)(size - 1) / 2;
        at = fabs(at) < 1 ? 0 : at; // of an even size OpenCV takes two places for the middle
        made[i] = exp(-at * at / (2 * wide * wide));
        sum += made[i];
    }
    for (int64_t i = 0; i < size; i++) {
        made[i] /= sum;
    }
    return made;
}

int64_t dev_cv_sobel_size(int64_t size, int64_t order)
{
    return size <= 0 ? 3 : size == 1 && order > 0 ? 3 : size;
}

double *dev_cv_sobel_numbers(int64_t size, int64_t order, bool is_normal)
{
    int64_t places = dev_cv_sobel_size(size, order);
    bool is_scharr = size <= 0;
    if (places % 2 == 0 || places > 31 || order < 0 ||
        order >= (is_scharr    ? 2
                  : places > 1 ? places
                               : 2)) {
        dev_cv_bad("a derivative of such an order, or by so many places, is not there");
    }
    double *made = dev_cv_scratch((size_t)places + 1);
    double scale = is_normal ? 1 / ldexp(1, (int)(places - order - 1)) : 1;
    if (is_scharr) {
        static const double scharr[][3] = {{3, 10, 3}, {-1, 0, 1}};
        memcpy(made, scharr[order], sizeof(scharr[0]));
        scale = is_normal && order == 0 ? 1.0 / 16 : is_normal ? 0.5 : 1;
    } else {
        made[0] = 1;
        for (int64_t k = 1; k < places; k++) { // smoothed with (1, 1), derived with (-1, 1)
            double before = k < places - order ? 1 : -1;
            for (int64_t i = k; i >= 0; i--) {
                made[i] = (i < k ? before * made[i] : 0) + (i > 0 ? made[i - 1] : 0);
            }
        }
    }
    for (int64_t i = 0; i < places; i++) {
        made[i] *= scale;
    }
    return made;
}

struct cv_kernel dev_cv_kernel_take(mp_obj_t value)
{
    struct cv_image image = dev_cv_take(value, CV_ALL);
    if (image.channels != 1) {
        dev_cv_bad("a kernel has one channel");
    }
    size_check(image.rows);
    size_check(image.columns);
    double *numbers = dev_cv_scratch((size_t)(image.rows * image.columns));
    for (int64_t row = 0; row < image.rows; row++) {
        dev_cv_load(&image, row, numbers + row * image.columns);
    }
    return (struct cv_kernel){image.rows, image.columns, numbers, NULL, NULL};
}

// A column of numbers, float64 or by `ktype` float32.
static mp_obj_t column_of(const double *numbers, int64_t size, mp_int_t ktype)
{
    enum np_type type = dev_cv_depth(ktype, NP_F64);
    if (!dev_np_is_real(type)) {
        dev_cv_bad("a kernel is of CV_32F or CV_64F");
    }
    struct np_array *made = dev_cv_new(type, size, 1, 1);
    dev_cv_store(type, made->data, numbers, (size_t)size);
    return MP_OBJ_FROM_PTR(made);
}

// getGaussianKernel(ksize, sigma[, ktype])
static mp_obj_t get_gaussian_kernel(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SIZE, SIGMA, KTYPE };
    static const mp_arg_t table[] = {CV_NEEDS_INT(ksize), CV_NEEDS(sigma), CV_MAY_INT(ktype, 6)};
    CV_PARSE(table);
    int64_t size = values[SIZE].u_int;
    const double *numbers = dev_cv_gaussian_numbers(size, mp_obj_get_float(values[SIGMA].u_obj));
    return column_of(numbers, size, values[KTYPE].u_int);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_getGaussianKernel_obj, 2, get_gaussian_kernel);

// getDerivKernels(dx, dy, ksize[, kx[, ky[, normalize[, ktype]]]])
static mp_obj_t get_deriv_kernels(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { DX, DY, SIZE, KX, KY, NORMALIZE, KTYPE };
    static const mp_arg_t table[] = {
        CV_NEEDS_INT(dx),    CV_NEEDS_INT(dy), CV_NEEDS_INT(ksize),
        CV_MAY(kx),          CV_MAY(ky),       {MP_QSTR_normalize, MP_ARG_BOOL, {.u_bool = false}},
        CV_MAY_INT(ktype, 5)};
    CV_PARSE(table);
    mp_obj_t both[2];
    int64_t size = values[SIZE].u_int;
    mp_int_t orders = values[DX].u_int + values[DY].u_int;
    if (orders <= 0 || (size <= 0 && orders != 1)) {
        dev_cv_bad("the orders of a derivative are not negative, and not both 0");
    }
    for (int side = 0; side < 2; side++) {
        int64_t order = values[side == 0 ? DX : DY].u_int;
        const double *numbers = dev_cv_sobel_numbers(size, order, values[NORMALIZE].u_bool);
        both[side] = column_of(numbers, dev_cv_sobel_size(size, order), values[KTYPE].u_int);
    }
    return mp_obj_new_tuple(2, both);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_getDerivKernels_obj, 3, get_deriv_kernels);

// getStructuringElement(shape, ksize[, anchor])
static mp_obj_t get_structuring_element(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SHAPE, SIZE, ANCHOR, RECT = 0, CROSS = 1, ELLIPSE = 2 };
    static const mp_arg_t table[] = {CV_NEEDS_INT(shape), CV_NEEDS(ksize), CV_MAY(anchor)};
    CV_PARSE(table);
    mp_int_t shape = values[SHAPE].u_int;
    int64_t size[2];
    dev_cv_pair(values[SIZE].u_obj, size);
    size_check(size[0]);
    size_check(size[1]);
    struct cv_filter filter = {.kernel = {.rows = size[1], .columns = size[0]}};
    dev_cv_anchor(&filter, values[ANCHOR].u_obj);
    if (shape < RECT || shape > ELLIPSE) {
        dev_cv_bad("an element is MORPH_RECT, MORPH_CROSS or MORPH_ELLIPSE");
    }
    shape = size[0] == 1 && size[1] == 1 ? RECT : shape;
    struct np_array *made = dev_cv_new(NP_U8, size[1], size[0], 1);
    int64_t tall = size[1] / 2;
    int64_t wide = size[0] / 2;
    size_t owed = 0;
    for (int64_t y = 0; y < size[1]; y++) {
        int64_t from = 0;
        int64_t to = size[0];
        if (shape == CROSS && y != filter.anchor_y) {
            from = filter.anchor_x;
            to = from + 1;
        } else if (shape == ELLIPSE) {
            int64_t dy = y - tall;
            double part = tall > 0 ? (double)(tall * tall - dy * dy) / (double)(tall * tall) : 0;
            int64_t dx = (int64_t)rint((double)wide * sqrt(part > 0 ? part : 0));
            from = wide - dx > 0 ? wide - dx : 0;
            to = wide + dx + 1 < size[0] ? wide + dx + 1 : size[0];
            to = dy <= tall && dy >= -tall ? to : from;
        }
        for (int64_t x = from; x < to; x++) {
            made->data[y * size[0] + x] = 1;
        }
        dev_cv_pay(&owed, (size_t)size[0]);
    }
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_getStructuringElement_obj, 2, get_structuring_element);

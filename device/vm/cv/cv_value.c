// Values beside images that functions of walle.cv take: numbers, points, sizes, depths, borders and
// small matrices, and what is raised where they do not fit. Called by all of the module, on the
// VM's thread.
#include "vm/cv/cv.h"

#include <string.h>

#define SCALARS 4

_Noreturn void dev_cv_bad(const char *why)
{
    mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.cv: %s"), why);
}

_Noreturn void dev_cv_bad_type(const char *why)
{
    mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("walle.cv: %s"), why);
}

double dev_cv_real(mp_obj_t value, double otherwise)
{
    return value == mp_const_none ? otherwise : mp_obj_get_float(value);
}

mp_int_t dev_cv_int(mp_obj_t value, mp_int_t otherwise)
{
    return value == mp_const_none ? otherwise : mp_obj_get_int(value);
}

void dev_cv_scalar(mp_obj_t value, double out_numbers[SCALARS])
{
    memset(out_numbers, 0, SCALARS * sizeof(double));
    if (value == mp_const_none) {
        return;
    }
    if (dev_np_number_type(value) != NP_TYPES) {
        out_numbers[0] = mp_obj_get_float(value);
        return;
    }
    const struct np_array *numbers = dev_np_dense(dev_np_of_type(value, NP_F64));
    if (numbers->rank > 1 || numbers->size > SCALARS) {
        dev_cv_bad("a scalar is a number, or up to four of them");
    }
    memcpy(out_numbers, numbers->data, numbers->size * sizeof(double));
}

void dev_cv_pair(mp_obj_t value, int64_t out_two[2])
{
    size_t size;
    mp_obj_t *items;
    mp_obj_get_array(value, &size, &items);
    if (size != 2) {
        dev_cv_bad("a size or a point is two numbers");
    }
    int64_t first = mp_obj_get_int(items[0]);
    int64_t second = mp_obj_get_int(items[1]);
    if (first < INT32_MIN || first > INT32_MAX || second < INT32_MIN || second > INT32_MAX) {
        dev_cv_bad("a size or a point is of numbers of 32 bits");
    }
    out_two[0] = first;
    out_two[1] = second;
}

enum np_type dev_cv_depth(mp_int_t depth, enum np_type own)
{
    // CV_8U, CV_8S, CV_16U, CV_16S, CV_32S, CV_32F, CV_64F: walle.np has wider ones for some.
    static const uint8_t types[] = {NP_U8, NP_I32, NP_I32, NP_I32, NP_I32, NP_F32, NP_F64};
    if (depth < 0) {
        return own;
    }
    if (depth >= (mp_int_t)MP_ARRAY_SIZE(types)) {
        dev_cv_bad("no such depth");
    }
    return (enum np_type)types[depth];
}

int64_t dev_cv_border_at(int64_t at, int64_t size, enum cv_border border)
{
    if (at >= 0 && at < size) {
        return at;
    }
    int64_t period;
    switch (border) {
    case CV_BORDER_REPLICATE:
        return at < 0 ? 0 : size - 1;
    case CV_BORDER_WRAP:
        return (at % size + size) % size;
    case CV_BORDER_REFLECT:
        period = 2 * size;
        at = (at % period + period) % period;
        return at < size ? at : period - 1 - at;
    case CV_BORDER_REFLECT_101:
        if (size == 1) {
            return 0;
        }
        period = 2 * size - 2;
        at = (at % period + period) % period;
        return at < size ? at : period - at;
    default:
        return -1;
    }
}

enum cv_border dev_cv_border_parse(mp_int_t border)
{
    mp_int_t kind = border & ~(mp_int_t)CV_BORDER_ISOLATED;
    if (kind < 0 || kind > CV_BORDER_REFLECT_101) {
        dev_cv_bad("no such border");
    }
    return (enum cv_border)kind;
}

void dev_cv_matrix(mp_obj_t value, int64_t rows, int64_t columns, double *out_numbers)
{
    const struct np_array *matrix = dev_np_dense(dev_np_of_type(value, NP_F64));
    if (matrix->rank != 2 || matrix->dims[0] != rows || matrix->dims[1] != columns) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.cv: a matrix of %d rows and %d columns is needed"),
                          (int)rows, (int)columns);
    }
    memcpy(out_numbers, matrix->data, matrix->size * sizeof(double));
}

// Images as functions of walle.cv take and give them: arrays of walle.np whose rows lie densely,
// elements of rows as reals and back, and the count of work. Called by all of the module, on the
// VM's thread.
#include "vm/cv/cv.h"

#include "base/ckd.h"
#include "vm/cv/rows/cv_level_rows.h"
#include "vm/vm_nn.h"

#include <string.h>

static struct cv_image image_of(const struct np_array *array)
{
    struct cv_image image = {.array = array, .data = array->data, .type = array->type};
    image.rows = array->rank > 0 ? array->dims[0] : 1;
    image.columns = array->rank > 1 ? array->dims[1] : 1;
    image.channels = array->rank > 2 ? (uint32_t)array->dims[2] : 1;
    image.step = array->rank > 0 ? array->steps[0] : 0;
    return image;
}

static bool rows_are_dense(const struct np_array *array)
{
    int64_t step = (int64_t)dev_np_item(array->type);
    for (uint32_t d = array->rank; d-- > 1;) {
        if (array->dims[d] != 1 && array->steps[d] != step) {
            return false;
        }
        step *= array->dims[d];
    }
    return true;
}

struct cv_image dev_cv_take_empty(mp_obj_t value, uint32_t types)
{
    if (!mp_obj_is_exact_type(value, &dev_np_array_type) &&
        !mp_obj_is_exact_type(value, &dev_vm_tensor_type)) {
        mp_raise_msg_varg(&mp_type_TypeError,
                          MP_ERROR_TEXT("walle.cv: an image is an array, not a %s"),
                          mp_obj_get_type_str(value));
    }
    const struct np_array *array = dev_np_of(value);
    if (array->type == NP_I64 && (types & CV_I32) != 0) {
        array = dev_np_cast(array, NP_I32);
    }
    if ((types & (1u << array->type)) == 0) {
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("walle.cv: not of images of %s"),
                          dev_np_type_name(array->type));
    }
    if (array->rank < 1 || array->rank > 3 ||
        (array->rank == 3 && array->dims[2] > CV_CHANNELS_MAX)) {
        dev_cv_bad("an image has rows, columns and at most 512 channels");
    }
    return image_of(rows_are_dense(array) ? array : dev_np_dense(array));
}

struct cv_image dev_cv_take(mp_obj_t value, uint32_t types)
{
    struct cv_image image = dev_cv_take_empty(value, types);
    if (image.array->size == 0) {
        dev_cv_bad("the image has no pixels");
    }
    return image;
}

struct np_array *dev_cv_new(enum np_type type, int64_t rows, int64_t columns, uint32_t channels)
{
    int64_t dims[] = {rows, columns, channels};
    return dev_np_new(type, channels == 1 ? 2 : 3, dims);
}

struct np_array *dev_cv_room(enum np_type type, int64_t rows, int64_t columns, uint32_t channels)
{
    int64_t dims[] = {rows, columns, channels};
    return dev_np_room(type, channels == 1 ? 2 : 3, dims);
}

struct np_array *dev_cv_room_like(const struct cv_image *image)
{
    return dev_cv_room(image->type, image->rows, image->columns, image->channels);
}

struct np_array *dev_cv_like(const struct cv_image *image)
{
    return dev_cv_new(image->type, image->rows, image->columns, image->channels);
}

struct cv_image dev_cv_of(const struct np_array *made)
{
    return image_of(made);
}

mp_obj_t dev_cv_give(mp_obj_t dst, const struct np_array *made)
{
    if (!mp_obj_is_exact_type(dst, &dev_np_array_type)) {
        return MP_OBJ_FROM_PTR(made);
    }
    const struct np_array *to = MP_OBJ_TO_PTR(dst);
    if (to->type != made->type || to->rank != made->rank || to->is_read_only ||
        memcmp(to->dims, made->dims, made->rank * sizeof(int64_t)) != 0) {
        return MP_OBJ_FROM_PTR(made);
    }
    dev_np_fill(to, made);
    return dst;
}

bool dev_cv_same_shape(const struct cv_image *one, const struct cv_image *other)
{
    return one->rows == other->rows && one->columns == other->columns &&
           one->channels == other->channels;
}

// --- elements as reals

void dev_cv_load(const struct cv_image *image, int64_t row, double *to)
{
    const void *from = dev_cv_row(image, row);
    size_t count = dev_cv_row_items(image);
    const struct cv_level_rows *rows = NP_CHOSEN(dev_cv_level_rows);
    switch (image->type) {
    case NP_U8:
        rows->load_u8(to, from, count);
        break;
    case NP_I32:
        rows->load_i32(to, from, count);
        break;
    case NP_F32:
        rows->load_f32(to, from, count);
        break;
    default:
        memcpy(to, from, count * sizeof(double));
        break;
    }
}

void dev_cv_store(enum np_type type, uint8_t *to, const double *from, size_t count)
{
    void *at = to;
    const struct cv_level_rows *rows = NP_CHOSEN(dev_cv_level_rows);
    switch (type) {
    case NP_U8:
        rows->store_u8(at, from, count);
        break;
    case NP_I32:
        rows->store_i32(at, from, count);
        break;
    case NP_F32:
        rows->store_f32(at, from, count);
        break;
    default:
        memcpy(at, from, count * sizeof(double));
        break;
    }
}

double *dev_cv_scratch(size_t count)
{
    size_t bytes;
    if (!base_ckd_mul(count, sizeof(double), &bytes)) {
        mp_raise_type(&mp_type_MemoryError);
    }
    return m_malloc(bytes);
}

void dev_cv_pay(size_t *owed, size_t elements)
{
    *owed += elements;
    if (*owed >= NP_CHUNK) {
        dev_np_pay(*owed);
        *owed = 0;
    }
}

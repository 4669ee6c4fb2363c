// Functions of walle.cv that move pixels as they are: turned, beside one another, channels apart
// and together, with a border. What comes out is a new array. Called by scripts, on the VM's
// thread.
#include "vm/cv/cv_calls.h"

#include <string.h>

// A view of an image with one of its sides, or both, turned around.
static struct np_array *turned(const struct np_array *array, bool rows, bool columns)
{
    struct np_array *view = dev_np_view(array);
    for (uint32_t d = 0; d < 2; d++) {
        if ((d == 0 ? rows : columns) && view->size > 0) {
            view->data += view->steps[d] * (view->dims[d] - 1);
            view->steps[d] = -view->steps[d];
        }
    }
    return view;
}

static const struct np_array *sided(mp_obj_t value)
{
    struct cv_image image = dev_cv_take(value, CV_ALL);
    struct np_array *view = dev_np_view(image.array);
    view->rank = image.channels == 1 ? 2 : 3;
    view->dims[0] = image.rows;
    view->dims[1] = image.columns;
    view->dims[2] = image.channels;
    if (image.array->rank < 2) {
        view->steps[1] = (int64_t)dev_np_item(view->type);
    }
    return view;
}

// flip(src, flipCode[, dst])
static mp_obj_t flip(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, CODE, DST };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_NEEDS_INT(flipCode), CV_MAY(dst)};
    CV_PARSE(table);
    const struct np_array *src = sided(values[SRC].u_obj);
    mp_int_t code = values[CODE].u_int;
    const struct np_array *view = turned(src, code <= 0, code != 0);
    return dev_cv_give(values[DST].u_obj, dev_np_cast(view, view->type));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_flip_obj, 2, flip);

// rotate(src, rotateCode[, dst])
static mp_obj_t rotate(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, CODE, DST, CLOCKWISE = 0, HALF = 1, COUNTERCLOCKWISE = 2 };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_NEEDS_INT(rotateCode), CV_MAY(dst)};
    CV_PARSE(table);
    mp_int_t code = values[CODE].u_int;
    if (code < CLOCKWISE || code > COUNTERCLOCKWISE) {
        dev_cv_bad("rotate by one of the three ROTATE_ codes");
    }
    struct np_array *view =
        turned(sided(values[SRC].u_obj), code != COUNTERCLOCKWISE, code != CLOCKWISE);
    if (code != HALF) {
        int64_t size = view->dims[0];
        int64_t step = view->steps[0];
        view->dims[0] = view->dims[1];
        view->steps[0] = view->steps[1];
        view->dims[1] = size;
        view->steps[1] = step;
    }
    return dev_cv_give(values[DST].u_obj, dev_np_cast(view, view->type));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_rotate_obj, 2, rotate);

// --- channels

static struct cv_image *images_take(mp_obj_t list, size_t *out_count)
{
    size_t size;
    mp_obj_t *items;
    mp_obj_get_array(list, &size, &items);
    if (size == 0 || size > CV_CHANNELS_MAX) {
        dev_cv_bad("a list of 1 to 512 images is needed");
    }
    struct cv_image *images = m_malloc(sizeof(*images) * size);
    for (size_t i = 0; i < size; i++) {
        images[i] = dev_cv_take(items[i], CV_ALL);
        if (images[i].type != images[0].type) {
            dev_cv_bad("the images are of different types");
        }
    }
    *out_count = size;
    return images;
}

// `item` bytes of every pixel, from and to places that lie apart by steps.
static void channel_move(const struct cv_image *to, uint32_t to_channel,
                         const struct cv_image *from, uint32_t from_channel, size_t *owed)
{
    size_t item = dev_np_item(to->type);
    for (int64_t row = 0; row < to->rows; row++) {
        uint8_t *out = (uint8_t *)(uintptr_t)dev_cv_row(to, row) + to_channel * item;
        const uint8_t *in = dev_cv_row(from, row) + from_channel * item;
        for (int64_t x = 0; x < to->columns; x++) {
            __builtin_memcpy(out, in, item);
            out += to->channels * item;
            in += from->channels * item;
        }
        dev_cv_pay(owed, (size_t)to->columns);
    }
}

// merge(mv[, dst])
static mp_obj_t merge(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { MV, DST };
    static const mp_arg_t table[] = {CV_NEEDS(mv), CV_MAY(dst)};
    CV_PARSE(table);
    size_t size;
    const struct cv_image *images = images_take(values[MV].u_obj, &size);
    uint32_t channels = 0;
    for (size_t i = 0; i < size; i++) {
        if (images[i].rows != images[0].rows || images[i].columns != images[0].columns) {
            dev_cv_bad("the images to merge are of different sizes");
        }
        channels += images[i].channels;
    }
    if (channels > CV_CHANNELS_MAX) {
        dev_cv_bad("an image has at most 512 channels");
    }
    struct np_array *made = dev_cv_new(images[0].type, images[0].rows, images[0].columns, channels);
    struct cv_image to = dev_cv_of(made);
    uint32_t at = 0;
    size_t owed = 0;
    for (size_t i = 0; i < size; i++) {
        for (uint32_t channel = 0; channel < images[i].channels; channel++) {
            channel_move(&to, at++, &images[i], channel, &owed);
        }
    }
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_merge_obj, 1, merge);

// split(m): a tuple of its channels
static mp_obj_t split(mp_obj_t m)
{
    struct cv_image from = dev_cv_take(m, CV_ALL);
    mp_obj_tuple_t *made = MP_OBJ_TO_PTR(mp_obj_new_tuple(from.channels, NULL));
    size_t owed = 0;
    for (uint32_t channel = 0; channel < from.channels; channel++) {
        made->items[channel] = mp_const_none;
    }
    for (uint32_t channel = 0; channel < from.channels; channel++) {
        struct np_array *part = dev_cv_new(from.type, from.rows, from.columns, 1);
        made->items[channel] = MP_OBJ_FROM_PTR(part);
        struct cv_image to = dev_cv_of(part);
        channel_move(&to, 0, &from, channel, &owed);
    }
    dev_cv_hold(&from);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_cv_split_obj, split);

// --- beside and around

// Rows of an image into a larger one, from a pixel on.
static void rows_move(const struct np_array *made, int64_t top, int64_t left,
                      const struct cv_image *from)
{
    struct cv_image to = dev_cv_of(made);
    size_t pixel = dev_np_item(from->type) * from->channels;
    size_t owed = 0;
    for (int64_t row = 0; row < from->rows; row++) {
        uint8_t *out = (uint8_t *)(uintptr_t)dev_cv_row(&to, top + row) + (size_t)left * pixel;
        __builtin_memcpy(out, dev_cv_row(from, row), (size_t)from->columns * pixel);
        dev_cv_pay(&owed, dev_cv_row_items(from));
    }
}

static mp_obj_t joined(mp_obj_t list, mp_obj_t dst, bool is_beside)
{
    size_t size;
    const struct cv_image *images = images_take(list, &size);
    int64_t total = 0;
    for (size_t i = 0; i < size; i++) {
        if ((is_beside ? images[i].rows != images[0].rows
                       : images[i].columns != images[0].columns) ||
            images[i].channels != images[0].channels) {
            dev_cv_bad("the images to join are of different sizes or channels");
        }
        total += is_beside ? images[i].columns : images[i].rows;
    }
    struct np_array *made = dev_cv_new(images[0].type, is_beside ? images[0].rows : total,
                                       is_beside ? total : images[0].columns, images[0].channels);
    int64_t at = 0;
    for (size_t i = 0; i < size; i++) {
        rows_move(made, is_beside ? 0 : at, is_beside ? at : 0, &images[i]);
        at += is_beside ? images[i].columns : images[i].rows;
    }
    return dev_cv_give(dst, made);
}

// hconcat(src[, dst]), vconcat(src[, dst])
static mp_obj_t hconcat(size_t count, const mp_obj_t *args)
{
    return joined(args[0], count > 1 ? args[1] : mp_const_none, true);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(dev_cv_hconcat_obj, 1, 2, hconcat);

static mp_obj_t vconcat(size_t count, const mp_obj_t *args)
{
    return joined(args[0], count > 1 ? args[1] : mp_const_none, false);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(dev_cv_vconcat_obj, 1, 2, vconcat);

// copyMakeBorder(src, top, bottom, left, right, borderType[, dst[, value]])
static mp_obj_t copy_make_border(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, TOP, BOTTOM, LEFT, RIGHT, BORDER, DST, VALUE };
    static const mp_arg_t table[] = {
        CV_NEEDS(src),       CV_NEEDS_INT(top),        CV_NEEDS_INT(bottom), CV_NEEDS_INT(left),
        CV_NEEDS_INT(right), CV_NEEDS_INT(borderType), CV_MAY(dst),          CV_MAY(value)};
    CV_PARSE(table);
    struct cv_image from = dev_cv_take(values[SRC].u_obj, CV_ALL);
    int64_t widths[] = {values[TOP].u_int, values[BOTTOM].u_int, values[LEFT].u_int,
                        values[RIGHT].u_int};
    for (size_t i = 0; i < MP_ARRAY_SIZE(widths); i++) {
        if (widths[i] < 0 || widths[i] > INT32_MAX) {
            dev_cv_bad("a border is not negative, and below 2^31");
        }
    }
    enum cv_border border = dev_cv_border_parse(values[BORDER].u_int);
    double scalar[4];
    dev_cv_scalar(values[VALUE].u_obj, scalar);
    struct np_array *made = dev_cv_new(from.type, from.rows + widths[0] + widths[1],
                                       from.columns + widths[2] + widths[3], from.channels);
    struct cv_image to = dev_cv_of(made);
    size_t item = dev_np_item(from.type);
    size_t pixel = item * from.channels;
    uint8_t around[4 * NP_ITEM_MAX];
    dev_cv_store(from.type, around, scalar, 4);
    size_t owed = 0;
    for (int64_t y = 0; y < to.rows; y++) {
        int64_t row = dev_cv_border_at(y - widths[0], from.rows, border);
        uint8_t *out = (uint8_t *)(uintptr_t)dev_cv_row(&to, y);
        for (int64_t x = 0; x < to.columns; x++, out += pixel) {
            int64_t column = dev_cv_border_at(x - widths[2], from.columns, border);
            if (row >= 0 && column >= 0) {
                __builtin_memcpy(out, dev_cv_row(&from, row) + (size_t)column * pixel, pixel);
                continue;
            }
            for (uint32_t c = 0; c < from.channels; c++) {
                __builtin_memcpy(out + c * item, around + (c < 4 ? c : 3) * item, item);
            }
        }
        dev_cv_pay(&owed, dev_cv_row_items(&to));
    }
    dev_cv_hold(&from);
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_copyMakeBorder_obj, 6, copy_make_border);

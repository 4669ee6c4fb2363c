// Functions of walle.cv that move pixels as they are: turned, beside one another, channels apart
// and together, with a border. What comes out is a new array. Called by scripts, on the VM's
// thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/rows/cv_place_rows.h"

#include <string.h>

#define TURNED 32 // columns that are turned before they are paid
#define FEW    4  // channels that one loop moves together

static uint8_t *row_to(const struct cv_image *image, int64_t row)
{
    return (uint8_t *)(uintptr_t)dev_cv_row(image, row);
}

static size_t pixel_of(const struct cv_image *image)
{
    return dev_np_item(image->type) * image->channels;
}

// An image with rows, columns or both in the opposite order.
static const struct np_array *mirrored(const struct cv_image *from, bool rows, bool columns)
{
    struct np_array *made = dev_cv_room_like(from);
    struct cv_image to = dev_cv_of(made);
    const size_t pixel = pixel_of(from);
    size_t owed = 0;
    for (int64_t y = 0; y < to.rows; y++) {
        const uint8_t *in = dev_cv_row(from, rows ? to.rows - 1 - y : y);
        if (columns) {
            NP_CHOSEN(dev_cv_move_rows)->reverse(row_to(&to, y), in, (size_t)to.columns, pixel);
        } else {
            memcpy(row_to(&to, y), in, (size_t)to.columns * pixel);
        }
        dev_cv_pay(&owed, dev_cv_row_items(&to));
    }
    dev_cv_hold(from);
    return made;
}

// An image whose rows are the columns of another.
static const struct np_array *turned(const struct cv_image *from, bool is_clockwise)
{
    struct np_array *made = dev_cv_room(from->type, from->columns, from->rows, from->channels);
    struct cv_image to = dev_cv_of(made);
    struct cv_turning turning = {.to = row_to(&to, is_clockwise ? 0 : to.rows - 1),
                                 .to_step = is_clockwise ? to.step : -to.step,
                                 .from = dev_cv_row(from, is_clockwise ? from->rows - 1 : 0),
                                 .from_step = is_clockwise ? -from->step : from->step,
                                 .rows = (size_t)from->rows,
                                 .pixel = pixel_of(from)};
    size_t owed = 0;
    for (int64_t x = 0; x < from->columns; x += TURNED) {
        int64_t end = from->columns - x < TURNED ? from->columns : x + TURNED;
        NP_CHOSEN(dev_cv_move_rows)->turn(&turning, (size_t)x, (size_t)end);
        dev_cv_pay(&owed, (size_t)(end - x) * dev_cv_row_items(&to));
    }
    dev_cv_hold(from);
    return made;
}

// flip(src, flipCode[, dst])
static mp_obj_t flip(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, CODE, DST };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_NEEDS_INT(flipCode), CV_MAY(dst)};
    CV_PARSE(table);
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_ALL);
    mp_int_t code = values[CODE].u_int;
    return dev_cv_give(values[DST].u_obj, mirrored(&src, code <= 0, code != 0));
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
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_ALL);
    return dev_cv_give(values[DST].u_obj,
                       code == HALF ? mirrored(&src, true, true) : turned(&src, code == CLOCKWISE));
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

// One channel of every pixel of an image to one of another.
static void channel_move(const struct cv_image *to, uint32_t to_channel,
                         const struct cv_image *from, uint32_t from_channel, size_t *owed)
{
    const size_t item = dev_np_item(to->type);
    const size_t steps[] = {to->channels * item, from->channels * item};
    for (int64_t row = 0; row < to->rows; row++) {
        NP_CHOSEN(dev_cv_move_rows)
            ->channel(row_to(to, row) + to_channel * item,
                      dev_cv_row(from, row) + from_channel * item, steps, (size_t)to->columns,
                      item);
        dev_cv_pay(owed, (size_t)to->columns);
    }
}

// Whether all channels of a pixel are moved at once.
static bool are_few(enum np_type type, uint32_t channels, size_t images)
{
    return type == NP_U8 && channels >= 2 && channels <= FEW && images == channels;
}

// Two to four images of one channel, as the channels of one.
static void few_merge(const struct cv_image *to, const struct cv_image *images, size_t *owed)
{
    for (int64_t y = 0; y < to->rows; y++) {
        const uint8_t *rows[FEW] = {NULL};
        for (uint32_t c = 0; c < to->channels; c++) {
            rows[c] = dev_cv_row(&images[c], y);
        }
        NP_CHOSEN(dev_cv_move_rows)->merge(row_to(to, y), rows, to->channels, (size_t)to->columns);
        dev_cv_pay(owed, dev_cv_row_items(to));
    }
}

static void few_split(const mp_obj_tuple_t *parts, const struct cv_image *from, size_t *owed)
{
    for (int64_t y = 0; y < from->rows; y++) {
        uint8_t *rows[FEW] = {NULL};
        for (uint32_t c = 0; c < from->channels; c++) {
            const struct np_array *part = MP_OBJ_TO_PTR(parts->items[c]);
            rows[c] = part->data + y * from->columns;
        }
        NP_CHOSEN(dev_cv_move_rows)
            ->split(rows, dev_cv_row(from, y), from->channels, (size_t)from->columns);
        dev_cv_pay(owed, dev_cv_row_items(from));
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
    struct np_array *made =
        dev_cv_room(images[0].type, images[0].rows, images[0].columns, channels);
    struct cv_image to = dev_cv_of(made);
    uint32_t at = 0;
    size_t owed = 0;
    if (are_few(to.type, channels, size)) {
        few_merge(&to, images, &owed);
        return dev_cv_give(values[DST].u_obj, made);
    }
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
        made->items[channel] = MP_OBJ_FROM_PTR(dev_cv_room(from.type, from.rows, from.columns, 1));
    }
    if (are_few(from.type, from.channels, from.channels)) {
        few_split(made, &from, &owed);
    } else {
        for (uint32_t channel = 0; channel < from.channels; channel++) {
            struct cv_image to = dev_cv_of(MP_OBJ_TO_PTR(made->items[channel]));
            channel_move(&to, 0, &from, channel, &owed);
        }
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
    struct np_array *made = dev_cv_room(images[0].type, is_beside ? images[0].rows : total,
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

// An image with a border around it.
struct framing {
    struct cv_image from;
    struct cv_image to;
    int64_t top;
    int64_t left;
    int64_t right;
    const int32_t *at; // columns that the left border shows, then the right one; unless `constant`
    const uint8_t *constant; // a row of pixels; NULL: the border is of the image
};

static void framed_row(const struct framing *framing, int64_t y, int64_t row)
{
    const struct cv_move_rows *rows = NP_CHOSEN(dev_cv_move_rows);
    const size_t pixel = pixel_of(&framing->from);
    const size_t left = (size_t)framing->left;
    const size_t right = (size_t)framing->right;
    const size_t inside = (size_t)framing->from.columns;
    uint8_t *to = row_to(&framing->to, y);
    if (row < 0) {
        memcpy(to, framing->constant, (size_t)framing->to.columns * pixel);
        return;
    }
    const uint8_t *in = dev_cv_row(&framing->from, row);
    memcpy(to + left * pixel, in, inside * pixel);
    if (framing->constant != NULL) {
        memcpy(to, framing->constant, left * pixel);
        memcpy(to + (left + inside) * pixel, framing->constant, right * pixel);
        return;
    }
    rows->pick(to, in, framing->at, left, pixel);
    rows->pick(to + (left + inside) * pixel, in, framing->at + left, right, pixel);
}

// Columns that borders to the left and to the right show.
static const int32_t *columns_of(const struct framing *framing, enum cv_border border)
{
    int64_t count = framing->left + framing->right;
    int32_t *made = (int32_t *)(void *)dev_cv_scratch((size_t)count / 2 + 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i - framing->left + (i < framing->left ? 0 : framing->from.columns);
        made[i] = (int32_t)dev_cv_border_at(at, framing->from.columns, border);
    }
    return made;
}

// A row of one colour: of four numbers, the last for all channels behind.
static const uint8_t *constant_of(const struct framing *framing, const double scalar[4])
{
    const struct cv_image *to = &framing->to;
    const size_t item = dev_np_item(to->type);
    const size_t pixel = pixel_of(to);
    uint8_t around[4 * NP_ITEM_MAX];
    dev_cv_store(to->type, around, scalar, 4);
    uint8_t *row = (uint8_t *)dev_cv_scratch((size_t)(to->columns + 1) * pixel / 8 + 1);
    uint8_t *color = row + (size_t)to->columns * pixel;
    for (uint32_t c = 0; c < to->channels; c++) {
        memcpy(color + c * item, around + (c < 4 ? c : 3) * item, item);
    }
    NP_CHOSEN(dev_cv_move_rows)->repeat(row, color, (size_t)to->columns, pixel);
    return row;
}

// copyMakeBorder(src, top, bottom, left, right, borderType[, dst[, value]])
static mp_obj_t copy_make_border(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, TOP, BOTTOM, LEFT, RIGHT, BORDER, DST, VALUE };
    static const mp_arg_t table[] = {
        CV_NEEDS(src),       CV_NEEDS_INT(top),        CV_NEEDS_INT(bottom), CV_NEEDS_INT(left),
        CV_NEEDS_INT(right), CV_NEEDS_INT(borderType), CV_MAY(dst),          CV_MAY(value)};
    CV_PARSE(table);
    struct framing framing = {.from = dev_cv_take(values[SRC].u_obj, CV_ALL),
                              .top = values[TOP].u_int,
                              .left = values[LEFT].u_int,
                              .right = values[RIGHT].u_int};
    const struct cv_image *from = &framing.from;
    int64_t bottom = values[BOTTOM].u_int;
    const int64_t widths[] = {framing.top, bottom, framing.left, framing.right};
    for (size_t i = 0; i < MP_ARRAY_SIZE(widths); i++) {
        if (widths[i] < 0 || widths[i] > INT32_MAX) {
            dev_cv_bad("a border is not negative, and below 2^31");
        }
    }
    enum cv_border border = dev_cv_border_parse(values[BORDER].u_int);
    double scalar[4];
    dev_cv_scalar(values[VALUE].u_obj, scalar);
    struct np_array *made =
        dev_cv_room(from->type, from->rows + framing.top + bottom,
                    from->columns + framing.left + framing.right, from->channels);
    framing.to = dev_cv_of(made);
    if (border == CV_BORDER_CONSTANT) {
        framing.constant = constant_of(&framing, scalar);
    } else {
        framing.at = columns_of(&framing, border);
    }
    size_t owed = 0;
    for (int64_t y = 0; y < framing.to.rows; y++) {
        framed_row(&framing, y, dev_cv_border_at(y - framing.top, from->rows, border));
        dev_cv_pay(&owed, dev_cv_row_items(&framing.to));
    }
    dev_cv_hold(&framing);
    return dev_cv_give(values[DST].u_obj, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_copyMakeBorder_obj, 6, copy_make_border);

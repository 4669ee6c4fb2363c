// Dots, spans, lines and circles on an image. Which pixels a line has is OpenCV's: Bresenham's in
// whole numbers between pixels, steps of 1/65536 between places. An image is drawn on where it
// lies. Called by cv_draw.c and cv_fill.c, on the VM's thread.
#include "vm/cv/cv_canvas.h"
#include "vm/cv/rows/cv_place_rows.h"

#include <stdlib.h>

void dev_cv_canvas_take(struct cv_canvas *out_canvas, mp_obj_t image, mp_obj_t color, mp_int_t line)
{
    if (!mp_obj_is_exact_type(image, &dev_np_array_type)) {
        mp_raise_msg_varg(&mp_type_TypeError,
                          MP_ERROR_TEXT("walle.cv: what is drawn on is an array, not a %s"),
                          mp_obj_get_type_str(image));
    }
    const struct np_array *array = MP_OBJ_TO_PTR(image);
    if (array->type == NP_I64 || ((1u << array->type) & CV_ALL) == 0) {
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("walle.cv: not of images of %s"),
                          dev_np_type_name(array->type));
    }
    if (array->is_read_only || array->rank < 2 || array->rank > 3 ||
        (array->rank == 3 && (array->dims[2] < 1 || array->dims[2] > 4))) {
        dev_cv_bad("what is drawn on has rows, columns and at most 4 channels, and may be written");
    }
    size_t channels = array->rank == 3 ? (size_t)array->dims[2] : 1;
    size_t item = dev_np_item(array->type);
    if (channels > 1 && array->steps[2] != (int64_t)item) {
        dev_cv_bad("the channels of what is drawn on lie beside one another");
    }
    if (line != 4 && line != 8 && line != 1) {
        dev_cv_bad("a line is LINE_8 or LINE_4");
    }
    *out_canvas = (struct cv_canvas){.array = array,
                                     .rows = array->dims[0],
                                     .columns = array->dims[1],
                                     .pixel = item * channels,
                                     .line = line == 8 ? 8 : 4};
    double numbers[4];
    dev_cv_scalar(color, numbers);
    dev_cv_store(array->type, out_canvas->color, numbers, channels);
}

struct cv_place dev_cv_place_parse(mp_obj_t value)
{
    int64_t two[2];
    dev_cv_pair(value, two);
    if (llabs(two[0]) > CV_PLACE_MAX || llabs(two[1]) > CV_PLACE_MAX) {
        dev_cv_bad("what is drawn lies within 16,777,216 pixels of the image");
    }
    return (struct cv_place){two[0], two[1]};
}

void dev_cv_dot(struct cv_canvas *canvas, int64_t x, int64_t y)
{
    if (x >= 0 && x < canvas->columns && y >= 0 && y < canvas->rows) {
        const struct np_array *array = canvas->array;
        uint8_t *to = array->data + y * array->steps[0] + x * array->steps[1];
        if (canvas->pixel == 3) { // sizes that are known are a move or two
            __builtin_memcpy(to, canvas->color, 3);
        } else if (canvas->pixel == 1) {
            *to = canvas->color[0];
        } else {
            __builtin_memcpy(to, canvas->color, canvas->pixel);
        }
    }
}

void dev_cv_span(struct cv_canvas *canvas, int64_t y, int64_t from, int64_t to)
{
    if (y < 0 || y >= canvas->rows) {
        return;
    }
    from = from > 0 ? from : 0;
    to = to < canvas->columns - 1 ? to : canvas->columns - 1;
    const struct np_array *array = canvas->array;
    if (array->steps[1] == (int64_t)canvas->pixel && from <= to) {
        uint8_t *first = array->data + y * array->steps[0] + from * array->steps[1];
        NP_CHOSEN(dev_cv_move_rows)
            ->repeat(first, canvas->color, (size_t)(to - from) + 1, canvas->pixel);
    } else {
        for (int64_t x = from; x <= to; x++) {
            dev_cv_dot(canvas, x, y);
        }
    }
    dev_cv_pay(&canvas->owed, from <= to ? (size_t)(to - from) + 1 : 1);
}

// Where an end lies: left, right, above, below, a bit each.
static unsigned side_of(struct cv_place place, int64_t right, int64_t bottom)
{
    return (place.x < 0 ? 1u : 0) + (place.x > right ? 2u : 0) + (place.y < 0 ? 4u : 0) +
           (place.y > bottom ? 8u : 0);
}

// Cuts a line to what lies within a size; false: nothing does.
static bool line_clip(int64_t columns, int64_t rows, struct cv_place ends[2])
{
    const int64_t right = columns - 1;
    const int64_t bottom = rows - 1;
    if (columns <= 0 || rows <= 0) {
        return false;
    }
    unsigned sides[] = {side_of(ends[0], right, bottom), side_of(ends[1], right, bottom)};
    bool may_cross = (sides[0] & sides[1]) == 0;
    for (int i = 0; i < 2 && may_cross; i++) {
        if ((sides[i] & 12) != 0) {
            int64_t to = sides[i] < 8 ? 0 : bottom;
            ends[i].x += (int64_t)((double)(to - ends[i].y) * (double)(ends[1].x - ends[0].x) /
                                   (double)(ends[1].y - ends[0].y));
            ends[i].y = to;
            sides[i] = side_of(ends[i], right, bottom);
        }
    }
    may_cross = (sides[0] & sides[1]) == 0;
    for (int i = 0; i < 2 && may_cross; i++) {
        if (sides[i] != 0) {
            int64_t to = sides[i] == 1 ? 0 : right;
            ends[i].y += (int64_t)((double)(to - ends[i].x) * (double)(ends[1].y - ends[0].y) /
                                   (double)(ends[1].x - ends[0].x));
            ends[i].x = to;
            sides[i] = 0;
        }
    }
    return (sides[0] | sides[1]) == 0;
}

static void turn_round(struct cv_place ends[2])
{
    struct cv_place first = ends[0];
    ends[0] = ends[1];
    ends[1] = first;
}

void dev_cv_line_thin(struct cv_canvas *canvas, struct cv_place from, struct cv_place to)
{
    struct cv_place ends[] = {from, to};
    if (!line_clip(canvas->columns, canvas->rows, ends)) {
        return;
    }
    if (ends[1].x < ends[0].x) {
        turn_round(ends);
    }
    int64_t wide = ends[1].x - ends[0].x;
    int64_t high = llabs(ends[1].y - ends[0].y);
    int64_t down = ends[1].y < ends[0].y ? -1 : 1;
    bool is_steep = high > wide;
    int64_t major = is_steep ? high : wide;
    int64_t minor = is_steep ? wide : high;
    bool has_corners = canvas->line == 8;
    int64_t error = has_corners ? major - 2 * minor : 0;
    int64_t dots = has_corners ? major : major + minor;
    struct cv_place at = ends[0];
    for (int64_t i = 0; i <= dots; i++) {
        dev_cv_dot(canvas, at.x, at.y);
        bool aside = error < 0;
        bool ahead = has_corners || !aside;
        error += aside ? 2 * major + (has_corners ? 0 : 2 * minor) : 0;
        error -= 2 * minor;
        at.x += (is_steep ? aside : ahead) ? 1 : 0;
        at.y += (is_steep ? ahead : aside) ? down : 0;
    }
    dev_cv_pay(&canvas->owed, (size_t)dots + 1);
}

static int64_t pixel_of(int64_t fixed)
{
    return (fixed + CV_FIXED / 2) >> CV_FIXED_BITS;
}

void dev_cv_line_fixed(struct cv_canvas *canvas, struct cv_place from, struct cv_place to)
{
    struct cv_place ends[] = {from, to};
    if (!line_clip(canvas->columns * CV_FIXED, canvas->rows * CV_FIXED, ends)) {
        return;
    }
    int64_t wide = llabs(ends[1].x - ends[0].x);
    int64_t high = llabs(ends[1].y - ends[0].y);
    bool is_flat = wide > high;
    if (is_flat ? ends[1].x < ends[0].x : ends[1].y < ends[0].y) {
        turn_round(ends);
    }
    int64_t dx = ends[1].x - ends[0].x;
    int64_t dy = ends[1].y - ends[0].y;
    int64_t dots = (is_flat ? dx : dy) >> CV_FIXED_BITS;
    struct cv_place step = {is_flat ? CV_FIXED : dx * CV_FIXED / (high | 1),
                            is_flat ? dy * CV_FIXED / (wide | 1) : CV_FIXED};
    dev_cv_dot(canvas, pixel_of(ends[1].x), pixel_of(ends[1].y));
    for (int64_t i = 0; i <= dots; i++) {
        dev_cv_dot(canvas, pixel_of(ends[0].x), pixel_of(ends[0].y));
        ends[0].x += step.x;
        ends[0].y += step.y;
    }
    dev_cv_pay(&canvas->owed, (size_t)dots + 2);
}

// Four dots, or two spans, that lie alike around a center.
static void disc_rows(struct cv_canvas *canvas, struct cv_place center, struct cv_place apart,
                      bool is_filled)
{
    for (int side = -1; side <= 1; side += 2) {
        int64_t y = center.y + side * apart.y;
        if (is_filled) {
            dev_cv_span(canvas, y, center.x - apart.x, center.x + apart.x);
        } else {
            dev_cv_dot(canvas, center.x - apart.x, y);
            dev_cv_dot(canvas, center.x + apart.x, y);
        }
    }
}

void dev_cv_disc(struct cv_canvas *canvas, struct cv_place center, int64_t radius, bool is_filled)
{
    int64_t error = 0;
    int64_t wide = radius;
    int64_t plus = 1;
    int64_t minus = 2 * radius - 1;
    for (int64_t high = 0; wide >= high; high++) {
        disc_rows(canvas, center, (struct cv_place){wide, high}, is_filled);
        disc_rows(canvas, center, (struct cv_place){high, wide}, is_filled);
        error += plus;
        plus += 2;
        if (error > 0) {
            error -= minus;
            wide--;
            minus -= 2;
        }
        dev_cv_pay(&canvas->owed, 8);
    }
}

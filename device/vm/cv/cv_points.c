// Points of a plane: read from arrays, sorted and given back, and what functions of walle.cv tell
// of a row of them: the area within and the rectangle around. Called by scripts and by the other
// functions about shapes, on the VM's thread.
#include "vm/cv/cv_points.h"

#include "vm/cv/cv_calls.h"

#include <math.h>

bool dev_cv_points_are(const struct np_array *array)
{
    if (array->rank == 2) {
        return array->dims[1] == 2;
    }
    return array->rank == 3 && array->dims[2] == 2 && (array->dims[0] == 1 || array->dims[1] == 1);
}

struct cv_points dev_cv_points_take(mp_obj_t value, uint32_t types)
{
    struct cv_image image = dev_cv_take(value, types);
    if (!dev_cv_points_are(image.array)) {
        dev_cv_bad("points are an array of count x 2, count x 1 x 2 or 1 x count x 2");
    }
    size_t count = image.array->size / 2;
    if (count > CV_POINTS_MAX) {
        dev_cv_bad("an array has at most 16,777,216 points");
    }
    double *numbers = dev_cv_scratch(2 * count);
    size_t items = dev_cv_row_items(&image);
    size_t owed = 0;
    for (int64_t row = 0; row < image.rows; row++) {
        dev_cv_load(&image, row, numbers + (size_t)row * items);
        dev_cv_pay(&owed, items);
    }
    for (size_t i = 0; i < 2 * count; i++) {
        if (!isfinite(numbers[i])) {
            dev_cv_bad("a point is of finite numbers");
        }
    }
    const void *at = numbers;
    return (struct cv_points){.count = count, .type = image.type, .at = at};
}

struct np_array *dev_cv_points_give(const struct cv_point *points, size_t count, enum np_type type)
{
    struct np_array *made = dev_cv_new(type, (int64_t)count, 1, 2);
    const void *numbers = points;
    dev_cv_store(type, made->data, numbers, 2 * count);
    dev_np_pay(count);
    return made;
}

struct cv_point dev_cv_point_parse(mp_obj_t value)
{
    size_t size;
    mp_obj_t *items;
    mp_obj_get_array(value, &size, &items);
    if (size != 2) {
        dev_cv_bad("a size or a point is two numbers");
    }
    struct cv_point point = {mp_obj_get_float(items[0]), mp_obj_get_float(items[1])};
    if (!isfinite(point.x) || !isfinite(point.y)) {
        dev_cv_bad("a point is of finite numbers");
    }
    return point;
}

static bool is_before(const struct cv_point *points, size_t one, size_t other)
{
    if (points[one].x != points[other].x) {
        return points[one].x < points[other].x;
    }
    return points[one].y != points[other].y ? points[one].y < points[other].y : one < other;
}

static void sift(size_t *items, size_t at, size_t count, const struct cv_point *points)
{
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && is_before(points, items[child], items[child + 1])) {
            child++;
        }
        if (!is_before(points, items[at], items[child])) {
            return;
        }
        size_t item = items[at];
        items[at] = items[child];
        items[child] = item;
        at = child;
    }
}

void dev_cv_sort(size_t *items, size_t count, const struct cv_point *points)
{
    const size_t deep = 2 * (8 * sizeof(unsigned) - (size_t)__builtin_clz((unsigned)count | 1));
    size_t owed = 0;
    for (size_t i = count / 2; i-- > 0;) {
        sift(items, i, count, points);
        dev_cv_pay(&owed, deep);
    }
    for (size_t end = count; end-- > 1;) {
        size_t item = items[0];
        items[0] = items[end];
        items[end] = item;
        sift(items, 0, end, points);
        dev_cv_pay(&owed, deep);
    }
}

// contourArea(contour[, oriented])
static mp_obj_t contour_area(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    static const mp_arg_t table[] = {CV_NEEDS(contour),
                                     {MP_QSTR_oriented, MP_ARG_BOOL, {.u_bool = false}}};
    CV_PARSE(table);
    struct cv_points points = dev_cv_points_take(values[0].u_obj, CV_I32 | CV_F32);
    double area = 0;
    size_t owed = 0;
    struct cv_point before = points.at[points.count - 1];
    for (size_t i = 0; i < points.count; i++) {
        struct cv_point point = points.at[i];
        area += before.x * point.y - before.y * point.x;
        before = point;
        dev_cv_pay(&owed, 2);
    }
    return mp_obj_new_float(values[1].u_bool ? area * 0.5 : fabs(area * 0.5));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_contourArea_obj, 1, contour_area);

static mp_obj_t rectangle_of(const double sides[4])
{
    double x = floor(sides[0]);
    double y = floor(sides[1]);
    double numbers[] = {x, y, floor(sides[2]) - x + 1, floor(sides[3]) - y + 1};
    mp_obj_t items[4];
    for (int i = 0; i < 4; i++) {
        items[i] = mp_obj_new_int_from_ll((long long)fmax(fmin(numbers[i], INT32_MAX), INT32_MIN));
    }
    return mp_obj_new_tuple(4, items);
}

static void extend(double sides[4], double x, double y)
{
    sides[0] = fmin(sides[0], x);
    sides[1] = fmin(sides[1], y);
    sides[2] = fmax(sides[2], x);
    sides[3] = fmax(sides[3], y);
}

// Around what is not 0 of a mask.
static mp_obj_t mask_rectangle(const struct cv_image *mask)
{
    if (mask->channels != 1) {
        dev_cv_bad("a mask has one channel");
    }
    double sides[] = {INFINITY, INFINITY, -INFINITY, -INFINITY};
    size_t owed = 0;
    for (int64_t row = 0; row < mask->rows; row++) {
        const uint8_t *at = dev_cv_row(mask, row);
        for (int64_t x = 0; x < mask->columns; x++) {
            if (at[x] != 0) {
                extend(sides, (double)x, (double)row);
            }
        }
        dev_cv_pay(&owed, (size_t)mask->columns);
    }
    static const double none[] = {0, 0, -1, -1};
    return rectangle_of(sides[0] <= sides[2] ? sides : none);
}

// boundingRect(array): of points, or of a mask of uint8
static mp_obj_t bounding_rect(mp_obj_t array)
{
    struct cv_image image = dev_cv_take(array, CV_U8 | CV_I32 | CV_F32);
    if (image.type == NP_U8) {
        mp_obj_t made = mask_rectangle(&image);
        dev_cv_hold(&image);
        return made;
    }
    struct cv_points points = dev_cv_points_take(array, CV_I32 | CV_F32);
    double sides[] = {INFINITY, INFINITY, -INFINITY, -INFINITY};
    size_t owed = 0;
    for (size_t i = 0; i < points.count; i++) {
        extend(sides, points.at[i].x, points.at[i].y);
        dev_cv_pay(&owed, 4);
    }
    return rectangle_of(sides);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_cv_boundingRect_obj, bounding_rect);

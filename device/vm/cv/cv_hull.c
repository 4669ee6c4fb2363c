// Hulls of points, and the smallest rectangle around them in any direction. The hull is a chain
// from the left to the right and one back over sorted points; products of whole numbers are exact
// up to 2^26. Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_points.h"

#include <float.h>
#include <math.h>

#define TIE 1e-7 // part by which two areas are no more than rounding apart

// Twice the area of the triangle; above 0: the turn is from x towards y.
static double turn(const struct cv_point *points, size_t first, size_t second, size_t third)
{
    struct cv_point a = points[first];
    struct cv_point b = points[second];
    struct cv_point c = points[third];
    return (b.x - a.x) * (c.y - b.y) - (b.y - a.y) * (c.x - b.x);
}

// OpenCV shifts the hull in the circle so that the indices rise or fall, where they can.
static void indices_begin(size_t *hull, size_t count, size_t *room)
{
    size_t rises = 0;
    size_t least = 0;
    size_t most = 0;
    for (size_t i = 0; i < count; i++) {
        rises += hull[i] < hull[(i + 1) % count];
        least = hull[i] < hull[least] ? i : least;
        most = hull[i] > hull[most] ? i : most;
    }
    if (count < 3 || (rises != 1 && rises != count - 1)) {
        return;
    }
    size_t first = rises == count - 1 ? least : most;
    for (size_t i = 0; i < count; i++) {
        room[i] = hull[(first + i) % count];
    }
    __builtin_memcpy(hull, room, count * sizeof(*hull));
}

// A chain over sorted points, to the left only, from `sorted` on; the number of points it has.
static size_t chain(const struct cv_point *points, const size_t *sorted, size_t count, int64_t step,
                    size_t *to)
{
    size_t made = 0;
    size_t owed = 0;
    for (size_t i = 0; i < count; i++, sorted += step) {
        while (made > 1 && turn(points, to[made - 2], to[made - 1], *sorted) <= 0) {
            made--;
        }
        to[made++] = *sorted;
        dev_cv_pay(&owed, 8);
    }
    return made;
}

// Points that lie upon another are left out, all but the first.
static size_t distinct(const struct cv_point *points, size_t *sorted, size_t count)
{
    size_t kept = 1;
    for (size_t i = 1; i < count; i++) {
        struct cv_point one = points[sorted[kept - 1]];
        struct cv_point other = points[sorted[i]];
        if (one.x != other.x || one.y != other.y) {
            sorted[kept++] = sorted[i];
        }
    }
    return kept;
}

size_t dev_cv_hull(const struct cv_points *points, bool is_clockwise, size_t *out_indices)
{
    size_t *sorted = m_malloc(points->count * sizeof(size_t));
    for (size_t i = 0; i < points->count; i++) {
        sorted[i] = i;
    }
    dev_cv_sort(sorted, points->count, points->at);
    size_t count = distinct(points->at, sorted, points->count);
    // With y downwards: from the left by the least y to the right, and back by the largest y.
    size_t made = chain(points->at, sorted, count, 1, out_indices);
    size_t right = made - 1;
    if (count > 1) {
        made = right + chain(points->at, sorted + count - 1, count, -1, out_indices + right) - 1;
    }
    // OpenCV begins at the right end; clockwise it begins at the left one and goes by the largest
    // y.
    size_t first = is_clockwise ? 0 : right;
    for (size_t i = 0; i < made; i++) {
        sorted[i] = out_indices[is_clockwise ? (made - i) % made : (first + i) % made];
    }
    __builtin_memcpy(out_indices, sorted, made * sizeof(size_t));
    indices_begin(out_indices, made, sorted);
    return made;
}

// The points of the hull. The room that dev_cv_hull wants is one more than there are points.
static struct cv_point *hull_of(const struct cv_points *points, bool is_clockwise,
                                size_t *out_count)
{
    size_t *indices = m_malloc((points->count + 1) * sizeof(size_t));
    *out_count = dev_cv_hull(points, is_clockwise, indices);
    struct cv_point *hull = m_malloc(*out_count * sizeof(struct cv_point));
    for (size_t i = 0; i < *out_count; i++) {
        hull[i] = points->at[indices[i]];
    }
    return hull;
}

// convexHull(points[, hull[, clockwise[, returnPoints]]])
static mp_obj_t convex_hull(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { POINTS, HULL, CLOCKWISE, RETURN_POINTS };
    static const mp_arg_t table[] = {CV_NEEDS(points),
                                     CV_MAY(hull),
                                     {MP_QSTR_clockwise, MP_ARG_BOOL, {.u_bool = false}},
                                     {MP_QSTR_returnPoints, MP_ARG_BOOL, {.u_bool = true}}};
    CV_PARSE(table);
    struct cv_points points = dev_cv_points_take(values[POINTS].u_obj, CV_I32 | CV_F32);
    bool is_clockwise = values[CLOCKWISE].u_bool;
    if (values[RETURN_POINTS].u_bool) {
        size_t made;
        const struct cv_point *hull = hull_of(&points, is_clockwise, &made);
        return dev_cv_give(values[HULL].u_obj, dev_cv_points_give(hull, made, points.type));
    }
    size_t *indices = m_malloc((points.count + 1) * sizeof(size_t));
    size_t made = dev_cv_hull(&points, is_clockwise, indices);
    struct np_array *given = dev_cv_new(NP_I32, (int64_t)made, 1, 1);
    for (size_t i = 0; i < made; i++) {
        ((int32_t *)(void *)given->data)[i] = (int32_t)indices[i];
    }
    return dev_cv_give(values[HULL].u_obj, given);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_convexHull_obj, 1, convex_hull);

// --- rectangles in any direction

struct turned {
    struct cv_point center;
    double width;
    double height;
    double angle; // degrees
};

// How far points reach along a direction: from out_reach[0] to out_reach[1].
static void reach(const struct cv_point *hull, size_t count, struct cv_point along,
                  double out_reach[2])
{
    out_reach[0] = INFINITY;
    out_reach[1] = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        double at = hull[i].x * along.x + hull[i].y * along.y;
        out_reach[0] = fmin(out_reach[0], at);
        out_reach[1] = fmax(out_reach[1], at);
    }
}

// The rectangle whose side lies along the edge, turned by quarters so that its angle is above 0 and
// not above 90 degrees.
static struct turned turned_of(const struct cv_point *hull, size_t count, size_t edge)
{
    struct cv_point from = hull[edge];
    struct cv_point to = hull[(edge + 1) % count];
    double long_is = hypot(to.x - from.x, to.y - from.y);
    struct cv_point along = {(to.x - from.x) / long_is, (to.y - from.y) / long_is};
    for (int i = 0; i < 3 && !(along.x >= 0 && along.y > 0); i++) {
        along = (struct cv_point){-along.y, along.x};
    }
    double wide[2];
    double high[2];
    reach(hull, count, along, wide);
    reach(hull, count, (struct cv_point){-along.y, along.x}, high);
    double across = (wide[0] + wide[1]) / 2;
    double down = (high[0] + high[1]) / 2;
    return (struct turned){
        .center = {across * along.x - down * along.y, across * along.y + down * along.x},
        .width = wide[1] - wide[0],
        .height = high[1] - high[0],
        .angle = atan2(along.y, along.x) * 180 / M_PI};
}

static struct turned smallest(const struct cv_point *hull, size_t count)
{
    if (count == 1) {
        return (struct turned){.center = hull[0]};
    }
    double dx = hull[1].x - hull[0].x;
    double dy = hull[1].y - hull[0].y;
    if (count == 2) {
        return (struct turned){.center = {hull[0].x + dx / 2, hull[0].y + dy / 2},
                               .width = hypot(dx, dy),
                               .angle = atan2(dy, dx) * 180 / M_PI};
    }
    struct turned best = turned_of(hull, count, 0); // of as small ones, the one of more degrees
    for (size_t i = 0; i < count; i++) {
        struct turned one = turned_of(hull, count, i);
        double more = one.width * one.height / (best.width * best.height);
        bool is_tie = fabs(more - 1) < TIE;
        best = is_tie ? (one.angle > best.angle ? one : best) : more < 1 ? one : best;
        dev_np_pay(4 * count);
    }
    return best;
}

static mp_obj_t pair_of(double first, double second)
{
    mp_obj_t items[] = {mp_obj_new_float((double)(float)first),
                        mp_obj_new_float((double)(float)second)};
    return mp_obj_new_tuple(2, items);
}

// minAreaRect(points): ((x, y) of the center, (width, height), angle)
static mp_obj_t min_area_rect(mp_obj_t value)
{
    struct cv_points points = dev_cv_points_take(value, CV_I32 | CV_F32);
    size_t count;
    const struct cv_point *hull = hull_of(&points, false, &count);
    struct turned best = smallest(hull, count);
    mp_obj_t items[] = {pair_of(best.center.x, best.center.y), pair_of(best.width, best.height),
                        mp_obj_new_float((double)(float)best.angle)};
    return mp_obj_new_tuple(3, items);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_cv_minAreaRect_obj, min_area_rect);

// boxPoints(box[, points]): the corners of what minAreaRect gives
static mp_obj_t box_points(size_t count, const mp_obj_t *args)
{
    size_t size;
    mp_obj_t *items;
    mp_obj_get_array(args[0], &size, &items);
    if (size != 3) {
        dev_cv_bad("a box is ((x, y), (width, height), angle)");
    }
    struct cv_point at = dev_cv_point_parse(items[0]);
    struct cv_point sides = dev_cv_point_parse(items[1]);
    double angle = mp_obj_get_float(items[2]) * M_PI / 180;
    double across = cos(angle) / 2;
    double down = sin(angle) / 2;
    double x = across * sides.x;
    double y = down * sides.x;
    double right = down * sides.y;
    double up = across * sides.y;
    double corners[] = {at.x - right - x, at.y + up - y, at.x + right - x, at.y - up - y,
                        at.x + right + x, at.y - up + y, at.x - right + x, at.y + up + y};
    struct np_array *made = dev_cv_new(NP_F32, 4, 2, 1);
    dev_cv_store(NP_F32, made->data, corners, 8);
    return dev_cv_give(count > 1 ? args[1] : mp_const_none, made);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(dev_cv_boxPoints_obj, 1, 2, box_points);

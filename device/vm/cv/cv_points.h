// walle.cv: points of a plane as functions take and give them, and hulls of them (cv_points.c,
// cv_hull.c). All in the script's heap.
#ifndef DEV_CV_POINTS_H
#define DEV_CV_POINTS_H

#include "vm/cv/cv.h"

#define CV_POINTS_MAX (1 << 24) // of one array

struct cv_point {
    double x;
    double y;
};

struct cv_points {
    size_t count; // at least 1
    enum np_type type;
    const struct cv_point *at;
};

// --- cv_points.c
// Of an array of `types` of count x 2, count x 1 x 2 or 1 x count x 2; raises for what is none, and
// for one without points.
struct cv_points dev_cv_points_take(mp_obj_t value, uint32_t types);
bool dev_cv_points_are(const struct np_array *array); // whether the shape is one of points
// count x 1 x 2, int32 or float32.
struct np_array *dev_cv_points_give(const struct cv_point *points, size_t count, enum np_type type);
struct cv_point dev_cv_point_parse(mp_obj_t value); // (x, y), whole or not, of any size
void dev_cv_sort(size_t *items, size_t count, const struct cv_point *points); // by x, then y

// --- cv_hull.c
// Which points the hull has, in OpenCV's order; not those between two others. The room holds
// points->count + 1.
size_t dev_cv_hull(const struct cv_points *points, bool is_clockwise, size_t *out_indices);

#endif

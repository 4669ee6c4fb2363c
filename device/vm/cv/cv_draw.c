// Functions of walle.cv that draw: lines, arrows, rectangles, circles, polygons and contours, in
// LINE_8 and LINE_4. A thick line is a shape of four corners and a disc at each end, as OpenCV has
// it. The image that is drawn on is given back. Called by scripts, on the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_canvas.h"
#include "vm/cv/cv_points.h"

#include <float.h>
#include <math.h>

#define DRAW_TABLE CV_MAY_INT(thickness, 1), CV_MAY_INT(lineType, 8), CV_MAY_INT(shift, 0)

struct pen {
    struct cv_canvas canvas;
    mp_int_t thickness;
    mp_int_t shift; // bits behind the point of places that are given
};

// `values` are thickness, lineType and shift.
static void pen_take(struct pen *pen, mp_obj_t image, mp_obj_t color, const mp_arg_val_t *values)
{
    dev_cv_canvas_take(&pen->canvas, image, color, values[1].u_int);
    pen->thickness = values[0].u_int;
    pen->shift = values[2].u_int;
    if (pen->thickness > CV_THICKNESS_MAX || pen->shift < 0 || pen->shift > CV_FIXED_BITS) {
        dev_cv_bad("a thickness is at most 32,767, and a shift 0 to 16");
    }
}

static struct cv_place fixed_of(const struct pen *pen, struct cv_place place)
{
    int64_t by = (int64_t)1 << (CV_FIXED_BITS - pen->shift);
    return (struct cv_place){place.x * by, place.y * by};
}

static struct cv_place whole_of(struct cv_place fixed)
{
    return (struct cv_place){(fixed.x + CV_FIXED / 2) >> CV_FIXED_BITS,
                             (fixed.y + CV_FIXED / 2) >> CV_FIXED_BITS};
}

// A line between fixed places; `discs`: at the first end, 1, and at the second one, 2.
static void stroke(struct pen *pen, struct cv_place from, struct cv_place to, unsigned discs)
{
    if (pen->thickness <= 1) {
        if (pen->canvas.line == 4 || pen->shift == 0) {
            dev_cv_line_thin(&pen->canvas, whole_of(from), whole_of(to));
        } else {
            dev_cv_line_fixed(&pen->canvas, from, to);
        }
        return;
    }
    double dx = (double)(from.x - to.x) / (double)CV_FIXED;
    double dy = (double)(to.y - from.y) / (double)CV_FIXED;
    double square = dx * dx + dy * dy;
    int64_t half = (int64_t)pen->thickness * (CV_FIXED / 2);
    if (square > DBL_EPSILON) {
        double by =
            ((double)half + (double)(pen->thickness & 1) * (double)CV_FIXED * 0.5) / sqrt(square);
        int64_t x = (int64_t)rint(dy * by);
        int64_t y = (int64_t)rint(dx * by);
        struct cv_place corners[] = {{from.x + x, from.y + y},
                                     {from.x - x, from.y - y},
                                     {to.x - x, to.y - y},
                                     {to.x + x, to.y + y}};
        dev_cv_fill_convex(&pen->canvas, corners, 4);
    }
    int64_t radius = (half + CV_FIXED / 2) >> CV_FIXED_BITS;
    if ((discs & 1) != 0) {
        dev_cv_disc(&pen->canvas, whole_of(from), radius, true);
    }
    if ((discs & 2) != 0) {
        dev_cv_disc(&pen->canvas, whole_of(to), radius, true);
    }
}

static void strokes(struct pen *pen, const struct cv_place *places, size_t count, bool is_closed)
{
    unsigned discs = is_closed ? 2 : 3;
    for (size_t i = is_closed ? 0 : 1; i < count; i++) {
        stroke(pen, places[i > 0 ? i - 1 : count - 1], places[i], discs);
        discs = 2;
    }
}

// line(img, pt1, pt2, color[, thickness[, lineType[, shift]]])
static mp_obj_t line(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { IMG, PT1, PT2, COLOR, THICKNESS };
    static const mp_arg_t table[] = {CV_NEEDS(img), CV_NEEDS(pt1), CV_NEEDS(pt2), CV_NEEDS(color),
                                     DRAW_TABLE};
    CV_PARSE(table);
    struct pen pen;
    pen_take(&pen, values[IMG].u_obj, values[COLOR].u_obj, values + THICKNESS);
    if (pen.thickness < 1) {
        dev_cv_bad("a line has a thickness");
    }
    stroke(&pen, fixed_of(&pen, dev_cv_place_parse(values[PT1].u_obj)),
           fixed_of(&pen, dev_cv_place_parse(values[PT2].u_obj)), 3);
    return values[IMG].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_line_obj, 4, line);

// arrowedLine(img, pt1, pt2, color[, thickness[, line_type[, shift[, tipLength]]]])
static mp_obj_t arrowed_line(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { IMG, PT1, PT2, COLOR, THICKNESS, TYPE, SHIFT, TIP };
    static const mp_arg_t table[] = {CV_NEEDS(img),
                                     CV_NEEDS(pt1),
                                     CV_NEEDS(pt2),
                                     CV_NEEDS(color),
                                     CV_MAY_INT(thickness, 1),
                                     CV_MAY_INT(line_type, 8),
                                     CV_MAY_INT(shift, 0),
                                     CV_MAY(tipLength)};
    CV_PARSE(table);
    struct pen pen;
    pen_take(&pen, values[IMG].u_obj, values[COLOR].u_obj, values + THICKNESS);
    struct cv_place from = dev_cv_place_parse(values[PT1].u_obj);
    struct cv_place to = dev_cv_place_parse(values[PT2].u_obj);
    double tip = dev_cv_real(values[TIP].u_obj, 0.1);
    if (pen.thickness < 1 || !(fabs(tip) <= 1)) {
        dev_cv_bad("an arrow has a thickness, and a tip of -1 to 1 of its length");
    }
    stroke(&pen, fixed_of(&pen, from), fixed_of(&pen, to), 3);
    tip *= hypot((double)(from.x - to.x), (double)(from.y - to.y));
    double angle = atan2((double)(from.y - to.y), (double)(from.x - to.x));
    for (int side = 1; side >= -1; side -= 2) {
        double turned = angle + side * M_PI / 4;
        struct cv_place end = {(int64_t)rint((double)to.x + tip * cos(turned)),
                               (int64_t)rint((double)to.y + tip * sin(turned))};
        stroke(&pen, fixed_of(&pen, end), fixed_of(&pen, to), 3);
    }
    return values[IMG].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_arrowedLine_obj, 4, arrowed_line);

static void rectangle_draw(struct pen *pen, struct cv_place one, struct cv_place other)
{
    struct cv_place corners[] = {one, {other.x, one.y}, other, {one.x, other.y}};
    for (int i = 0; i < 4; i++) {
        corners[i] = fixed_of(pen, corners[i]);
    }
    if (pen->thickness >= 0) {
        strokes(pen, corners, 4, true);
    } else {
        dev_cv_fill_convex(&pen->canvas, corners, 4);
    }
}

// rectangle(img, rec, color[, thickness[, lineType[, shift]]]): rec is x, y, width and height
static mp_obj_t rectangle_of(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { IMG, REC, COLOR, THICKNESS };
    static const mp_arg_t table[] = {CV_NEEDS(img), CV_NEEDS(rec), CV_NEEDS(color), DRAW_TABLE};
    CV_PARSE(table);
    struct pen pen;
    pen_take(&pen, values[IMG].u_obj, values[COLOR].u_obj, values + THICKNESS);
    mp_obj_t *numbers;
    mp_obj_get_array_fixed_n(values[REC].u_obj, 4, &numbers);
    mp_obj_t pairs[] = {mp_obj_new_tuple(2, numbers), mp_obj_new_tuple(2, numbers + 2)};
    struct cv_place at = dev_cv_place_parse(pairs[0]);
    struct cv_place size = dev_cv_place_parse(pairs[1]);
    if (size.x > 0 && size.y > 0) {
        int64_t pixel = (int64_t)1 << pen.shift;
        struct cv_place to = {at.x + size.x - pixel, at.y + size.y - pixel};
        rectangle_draw(&pen, at, to);
    }
    return values[IMG].u_obj;
}

// rectangle(img, pt1, pt2, color[, thickness[, lineType[, shift]]])
static mp_obj_t rectangle(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { IMG, PT1, PT2, COLOR, THICKNESS, RECTANGLE = 4 };
    mp_obj_t length = count > 1 ? mp_obj_len_maybe(args[1]) : MP_OBJ_NULL;
    if (length == MP_OBJ_NEW_SMALL_INT(RECTANGLE) ||
        mp_map_lookup(named, MP_OBJ_NEW_QSTR(MP_QSTR_rec), MP_MAP_LOOKUP) != NULL) {
        return rectangle_of(count, args, named);
    }
    static const mp_arg_t table[] = {CV_NEEDS(img), CV_NEEDS(pt1), CV_NEEDS(pt2), CV_NEEDS(color),
                                     DRAW_TABLE};
    CV_PARSE(table);
    struct pen pen;
    pen_take(&pen, values[IMG].u_obj, values[COLOR].u_obj, values + THICKNESS);
    rectangle_draw(&pen, dev_cv_place_parse(values[PT1].u_obj),
                   dev_cv_place_parse(values[PT2].u_obj));
    return values[IMG].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_rectangle_obj, 1, rectangle);

// --- circles

// Of a sine as OpenCV has it in its table: whole degrees, seven places behind the point.
static double sine(int degrees)
{
    return (double)(float)(rint(sin(degrees * M_PI / 180) * 1e7) / 1e7);
}

// A circle as a polygon, of fixed places.
static void round_draw(struct pen *pen, struct cv_place center, int64_t radius)
{
    enum { PLACES_MAX = 360 / 5 + 1 };
    int64_t pixels = (radius + CV_FIXED / 2) >> CV_FIXED_BITS;
    int step = pixels < 3 ? 90 : pixels < 10 ? 30 : pixels < 15 ? 18 : 5;
    struct cv_place places[PLACES_MAX + 1];
    size_t made = 0;
    for (int degrees = 0; degrees <= 360; degrees += step) {
        double x = (double)center.x + (double)radius * sine(450 - degrees);
        double y = (double)center.y + (double)radius * sine(degrees);
        struct cv_place place = {(int64_t)rint(x), (int64_t)rint(y)};
        if (made == 0 || place.x != places[made - 1].x || place.y != places[made - 1].y) {
            places[made++] = place;
        }
    }
    if (made == 1) {
        places[0] = places[1] = center;
        made = 2;
    }
    if (pen->thickness < 0) {
        dev_cv_fill_convex(&pen->canvas, places, made);
        return;
    }
    pen->shift = CV_FIXED_BITS; // the places have bits behind the point now
    strokes(pen, places, made, false);
}

// circle(img, center, radius, color[, thickness[, lineType[, shift]]])
static mp_obj_t circle(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { IMG, CENTER, RADIUS, COLOR, THICKNESS };
    static const mp_arg_t table[] = {CV_NEEDS(img), CV_NEEDS(center), CV_NEEDS_INT(radius),
                                     CV_NEEDS(color), DRAW_TABLE};
    CV_PARSE(table);
    struct pen pen;
    pen_take(&pen, values[IMG].u_obj, values[COLOR].u_obj, values + THICKNESS);
    struct cv_place center = dev_cv_place_parse(values[CENTER].u_obj);
    mp_int_t radius = values[RADIUS].u_int;
    if (radius < 0 || radius > CV_PLACE_MAX) {
        dev_cv_bad("a radius is 0 to 16,777,216");
    }
    if (pen.thickness > 1 || values[THICKNESS + 1].u_int != 8 || pen.shift > 0) {
        round_draw(&pen, fixed_of(&pen, center), radius * ((int64_t)1 << (16 - pen.shift)));
    } else {
        dev_cv_disc(&pen.canvas, center, radius, pen.thickness < 0);
    }
    return values[IMG].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_circle_obj, 4, circle);

// --- polygons

// A row of points as places, moved by an offset.
static struct cv_place *corners_take(mp_obj_t value, const int64_t offset[2], size_t *out_count)
{
    struct cv_points points = dev_cv_points_take(value, CV_I32);
    struct cv_place *corners = m_new(struct cv_place, points.count);
    size_t owed = 0;
    for (size_t i = 0; i < points.count; i++) {
        if (!(fabs(points.at[i].x) <= CV_PLACE_MAX && fabs(points.at[i].y) <= CV_PLACE_MAX)) {
            dev_cv_bad("what is drawn lies within 16,777,216 pixels of the image");
        }
        corners[i].x = (int64_t)points.at[i].x + offset[0];
        corners[i].y = (int64_t)points.at[i].y + offset[1];
        dev_cv_pay(&owed, 2);
    }
    *out_count = points.count;
    return corners;
}

static void offset_take(mp_obj_t value, int64_t offset[2])
{
    offset[0] = offset[1] = 0;
    if (value != mp_const_none) {
        struct cv_place place = dev_cv_place_parse(value);
        offset[0] = place.x;
        offset[1] = place.y;
    }
}

// fillPoly(img, pts, color[, lineType[, shift[, offset]]])
static mp_obj_t fill_poly(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { IMG, PTS, COLOR, TYPE, SHIFT, OFFSET };
    static const mp_arg_t table[] = {CV_NEEDS(img),           CV_NEEDS(pts),        CV_NEEDS(color),
                                     CV_MAY_INT(lineType, 8), CV_MAY_INT(shift, 0), CV_MAY(offset)};
    CV_PARSE(table);
    struct cv_canvas canvas;
    dev_cv_canvas_take(&canvas, values[IMG].u_obj, values[COLOR].u_obj, values[TYPE].u_int);
    if (values[SHIFT].u_int != 0) {
        dev_cv_bad("polygons have whole places: a shift is 0");
    }
    int64_t offset[2];
    offset_take(values[OFFSET].u_obj, offset);
    size_t size;
    mp_obj_t *items;
    mp_obj_get_array(values[PTS].u_obj, &size, &items);
    struct cv_edges edges = {0};
    for (size_t i = 0; i < size; i++) {
        size_t corners;
        const struct cv_place *places = corners_take(items[i], offset, &corners);
        dev_cv_edges_add(&canvas, &edges, places, corners);
    }
    dev_cv_fill_edges(&canvas, &edges);
    return values[IMG].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_fillPoly_obj, 3, fill_poly);

// --- contours

struct drawing {
    struct pen pen;
    struct cv_edges edges; // of all that is filled
    int64_t offset[2];
    size_t size; // contours
    mp_obj_t *contours;
    const int32_t *links; // four of each: next, before, child, parent; NULL: there are none
};

static void contour_draw(struct drawing *drawing, size_t index)
{
    struct pen *pen = &drawing->pen;
    size_t count;
    struct cv_place *places = corners_take(drawing->contours[index], drawing->offset, &count);
    if (pen->thickness < 0) {
        dev_cv_edges_add(&pen->canvas, &drawing->edges, places, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        places[i] = fixed_of(pen, places[i]);
    }
    strokes(pen, places, count, true);
}

static int32_t link_of(const struct drawing *drawing, int32_t index, int which)
{
    int32_t link = drawing->links[4 * index + which];
    if (link >= (int32_t)drawing->size) {
        dev_cv_bad("the hierarchy names a contour that is not there");
    }
    return link;
}

// A contour and what is nested in it, down to `depth` levels below; and, where `is_all`, what comes
// next beside it. A hierarchy that goes in circles ends when as many were drawn as there are.
static void tree_draw(struct drawing *drawing, int32_t first, mp_int_t depth, bool is_all)
{
    enum { NEXT, CHILD = 2, PARENT };
    mp_int_t level = 0;
    int32_t at = first;
    for (size_t drawn = 0; at >= 0 && drawn < drawing->size; drawn++) {
        contour_draw(drawing, (size_t)at);
        int32_t next = level < depth ? link_of(drawing, at, CHILD) : -1;
        level += next >= 0;
        while (next < 0 && at >= 0) {
            next = level > 0 || is_all ? link_of(drawing, at, NEXT) : -1;
            if (next < 0) {
                at = level > 0 ? link_of(drawing, at, PARENT) : -1;
                level--;
            }
        }
        at = next;
    }
}

static void hierarchy_take(struct drawing *drawing, mp_obj_t value)
{
    struct cv_image image = dev_cv_take(value, CV_I32);
    const struct np_array *array = image.array;
    if (array->rank != 3 || array->dims[0] != 1 || array->dims[2] != 4 ||
        array->dims[1] != (int64_t)drawing->size) {
        dev_cv_bad("a hierarchy is an array of 1 x contours x 4");
    }
    drawing->links = (const void *)array->data;
}

// drawContours(image, contours, contourIdx, color[, thickness[, lineType[, hierarchy[, maxLevel[,
// offset]]]]])
static mp_obj_t draw_contours(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { IMAGE, CONTOURS, INDEX, COLOR, THICKNESS, TYPE, HIERARCHY, LEVEL, OFFSET };
    static const mp_arg_t table[] = {CV_NEEDS(image),
                                     CV_NEEDS(contours),
                                     CV_NEEDS_INT(contourIdx),
                                     CV_NEEDS(color),
                                     CV_MAY_INT(thickness, 1),
                                     CV_MAY_INT(lineType, 8),
                                     CV_MAY(hierarchy),
                                     CV_MAY_INT(maxLevel, INT32_MAX),
                                     CV_MAY(offset)};
    CV_PARSE(table);
    const mp_arg_val_t style[] = {values[THICKNESS], values[TYPE], {.u_int = 0}};
    struct drawing drawing = {.links = NULL};
    pen_take(&drawing.pen, values[IMAGE].u_obj, values[COLOR].u_obj, style);
    offset_take(values[OFFSET].u_obj, drawing.offset);
    mp_obj_get_array(values[CONTOURS].u_obj, &drawing.size, &drawing.contours);
    mp_int_t index = values[INDEX].u_int;
    mp_int_t depth = values[LEVEL].u_int;
    if (drawing.size == 0) {
        return values[IMAGE].u_obj; // whatever the index is
    }
    if (drawing.size > INT32_MAX / 4 || index >= (mp_int_t)drawing.size) {
        dev_cv_bad("there is no contour of this index");
    }
    if (values[HIERARCHY].u_obj != mp_const_none && depth != 0) {
        hierarchy_take(&drawing, values[HIERARCHY].u_obj);
        tree_draw(&drawing, index < 0 ? 0 : (int32_t)index, index < 0 ? depth - 1 : depth,
                  index < 0);
    } else {
        size_t first = index < 0 ? 0 : (size_t)index;
        size_t end = index < 0 && depth != 0 ? drawing.size : first + 1; // of no level: one
        for (size_t i = first; i < end; i++) {
            contour_draw(&drawing, i);
        }
    }
    if (drawing.pen.thickness < 0) {
        dev_cv_fill_edges(&drawing.pen.canvas, &drawing.edges);
    }
    return values[IMAGE].u_obj;
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_drawContours_obj, 4, draw_contours);

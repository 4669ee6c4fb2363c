// walle.cv: what lines and shapes are drawn on (cv_canvas.c, cv_fill.c). Places have 16 bits behind
// the point where the name says `fixed`; they are OpenCV's to the pixel.
#ifndef DEV_CV_CANVAS_H
#define DEV_CV_CANVAS_H

#include "vm/cv/cv.h"

#define CV_FIXED_BITS    16
#define CV_FIXED         ((int64_t)1 << CV_FIXED_BITS)
#define CV_THICKNESS_MAX 32767
#define CV_PLACE_MAX     (1 << 24) // of a point that is drawn, to either side, in pixels
#define CV_CORNERS_MAX   (1 << 20) // of a shape that is filled

struct cv_canvas {
    const struct np_array *array; // is drawn on where it lies, whatever its steps are
    int64_t rows;
    int64_t columns;
    size_t pixel; // bytes
    uint8_t color[4 * NP_ITEM_MAX];
    mp_int_t line; // 4 or 8 neighbours
    size_t owed;
};

struct cv_place {
    int64_t x;
    int64_t y;
};

// --- cv_canvas.c
void dev_cv_canvas_take(struct cv_canvas *out_canvas, mp_obj_t image, mp_obj_t color,
                        mp_int_t line);
struct cv_place dev_cv_place_parse(mp_obj_t value); // raises for what is too far away
void dev_cv_dot(struct cv_canvas *canvas, int64_t x, int64_t y);
void dev_cv_span(struct cv_canvas *canvas, int64_t y, int64_t from, int64_t to); // both are drawn
void dev_cv_line_thin(struct cv_canvas *canvas, struct cv_place from, struct cv_place to);
void dev_cv_line_fixed(struct cv_canvas *canvas, struct cv_place from, struct cv_place to);
void dev_cv_disc(struct cv_canvas *canvas, struct cv_place center, int64_t radius, bool is_filled);

// --- cv_fill.c
// A shape without dents; fixed places.
void dev_cv_fill_convex(struct cv_canvas *canvas, const struct cv_place *corners, size_t count);
// Shapes that are filled together: what lies within an odd number of them.
struct cv_edge {
    int64_t top;
    int64_t bottom;
    int64_t x; // fixed, at the top and then at the line that is drawn
    int64_t dx;
};
struct cv_edges {
    struct cv_edge *at;
    size_t count;
    size_t room;
};
// Draws the outline, and keeps the edges for dev_cv_fill_edges.
void dev_cv_edges_add(struct cv_canvas *canvas, struct cv_edges *edges,
                      const struct cv_place *corners, size_t count);
void dev_cv_fill_edges(struct cv_canvas *canvas, struct cv_edges *edges);

#endif

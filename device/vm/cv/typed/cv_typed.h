// walle.cv: how a filter is computed in the types of images (cv_typed.c), and the plan of it, which
// cv_plan.c makes of what the filter is.
#ifndef DEV_CV_TYPED_H
#define DEV_CV_TYPED_H

#include "vm/cv/cv_filter.h"
#include "vm/cv/rows/cv_filter_rows.h"

#define CV_TAPS_MAX 1024 // places of a kernel that is no product

// One of the places that are summed, and its number.
struct cv_tap {
    int64_t row;
    int64_t column;
};

// What is summed across a row, or from the rows that are kept.
struct cv_taps {
    cv_taps_row *make;    // NULL: rows are kept as they are
    struct cv_tap *at;    // as many as `count`
    const uint8_t **rows; // room for as many
    void *by;             // their numbers; NULL: the least or the largest
    size_t count;
};

// A box of uint8: rows are summed across, and what is summed down slides.
struct cv_box_plan {
    bool is_box;
    bool is_long; // sums of 32 bits, not of 16
};

struct cv_plan {
    struct cv_taps across;
    struct cv_taps down;
    struct cv_box_plan box;
    enum np_type source;  // elements of a row with its border: U8, F32, or I32 for a box's sums
    size_t item;          // bytes of one of them
    size_t kept;          // bytes of an element of a kept row
    size_t sum;           // bytes of an element of what comes out of `down`; 0: the result's
    cv_finish_row *load;  // of the image's elements; NULL: they are copied
    cv_finish_row *first; // of a sum, NULL: none; to reals where there is a `last`
    cv_finish_row *last;
    struct cv_finish first_how;
    struct cv_finish last_how;
};

// Whether the filter, to elements of `type`, can be computed in the types of images.
bool dev_cv_plan(const struct cv_filter *filter, enum np_type type, struct cv_plan *out_plan);

#endif

// walle.cv: how a side of an image is resized (cv_side.c): place i of the result is `taps` places
// of the image from at[i] on, each with a weight. Places may lie outside by what cv_side_before and
// cv_side_behind say; the image's edge is what is there.
#ifndef DEV_CV_SIDE_H
#define DEV_CV_SIDE_H

#include "vm/cv/cv.h"

enum cv_resizing { CV_NEAREST, CV_LINEAR, CV_CUBIC, CV_AREA };

#define CV_TAPS_CUBIC  4
#define CV_SIDE_BEFORE 2 // places before the first of the image, at most

struct cv_side {
    int64_t from;
    int64_t to;
    int64_t taps;
    double scale; // places of the image for one of the result
    int32_t *at;
    double *weights;
};

// Both are allocated in the script's heap. `from`, `to` and `scale` are set.
void dev_cv_side_set(struct cv_side *side, enum cv_resizing how, bool is_across, bool is_shrunk);
// The weights as loops take them, in the script's heap.
int16_t *dev_cv_side_fixed(const struct cv_side *side); // of 11 bits
float *dev_cv_side_floats(const struct cv_side *side);

static inline int64_t dev_cv_side_held(int64_t at, int64_t size)
{
    return at < 0 ? 0 : at >= size ? size - 1 : at;
}

#endif

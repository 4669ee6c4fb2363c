// How a side of an image is resized: which places of it, with which weights, each place of the
// result is made of. Places are OpenCV's; what an enlarged area is made of is, too. Called by
// cv_resize.c, on the VM's thread.
#include "vm/cv/cv_side.h"

#include <math.h>

#define FIXED 2048 // what a weight of 1 is in whole numbers

static void cubic_set(double part, double *weights)
{
    const double a = -0.75;
    double near = part;
    double other = 1 - part;
    weights[0] = ((a * (near + 1) - 5 * a) * (near + 1) + 8 * a) * (near + 1) - 4 * a;
    weights[1] = ((a + 2) * near - (a + 3)) * near * near + 1;
    weights[2] = ((a + 2) * other - (a + 3)) * other * other + 1;
    weights[3] = 1 - weights[0] - weights[1] - weights[2];
}

// Where in the image a place of the result is; of an enlarged area OpenCV takes other places.
static double place_of(const struct cv_side *side, int64_t i, enum cv_resizing how)
{
    if (how != CV_AREA) {
        return (double)(float)(((double)i + 0.5) * side->scale - 0.5);
    }
    double first = floor((double)i * side->scale);
    double part = (double)(float)((double)(i + 1) - (first + 1) / side->scale);
    return first + (part <= 0 ? 0 : part - floor(part));
}

// Places so far outside that all taps are the edge are the edge.
static int32_t at_of(const struct cv_side *side, double first)
{
    double last = (double)(side->from - 1);
    return (int32_t)(first < -CV_SIDE_BEFORE ? -CV_SIDE_BEFORE : first > last ? last : first);
}

static void point_set(const struct cv_side *side, int64_t i, enum cv_resizing how, bool is_across)
{
    if (how == CV_NEAREST) {
        double at = floor((double)i * side->scale);
        side->at[i] = at_of(side, at > 0 ? at : 0);
        side->weights[i] = 1;
        return;
    }
    double at = place_of(side, i, how);
    double first = floor(at);
    double part = at - first;
    if (how == CV_CUBIC) {
        side->at[i] = at_of(side, first - 1);
        cubic_set(part, side->weights + i * CV_TAPS_CUBIC);
        return;
    }
    if (is_across && (first < 0 || first >= (double)(side->from - 1))) {
        part = 0;
    }
    side->at[i] = at_of(side, first);
    side->weights[2 * i] = 1 - part;
    side->weights[2 * i + 1] = part;
}

// The share that each place of the image has in one of the result.
static void share_set(const struct cv_side *side, int64_t i)
{
    double low = (double)i * side->scale;
    double high = low + side->scale;
    double wide = fmin(side->scale, (double)side->from - low);
    double first = floor(low + 1e-3 < ceil(low) ? low : rint(low));
    side->at[i] = at_of(side, first);
    for (int64_t k = 0; k < side->taps; k++) {
        double begin = fmax(low, first + (double)k);
        double end = fmin(fmin(high, first + (double)k + 1), (double)side->from);
        double share = end - begin;
        side->weights[i * side->taps + k] = share > 1e-3 || side->taps == 1 ? share / wide : 0;
    }
}

void dev_cv_side_set(struct cv_side *side, enum cv_resizing how, bool is_across, bool is_shrunk)
{
    size_t owed = 0;
    side->taps = how == CV_NEAREST ? 1 : how == CV_CUBIC ? CV_TAPS_CUBIC : 2;
    if (is_shrunk) {
        side->taps = (int64_t)ceil(side->scale) + 1;
    }
    side->at = (int32_t *)(void *)dev_cv_scratch((size_t)side->to / 2 + 1);
    side->weights = dev_cv_scratch((size_t)(side->to * side->taps));
    for (int64_t i = 0; i < side->to; i++) {
        if (is_shrunk) {
            share_set(side, i);
        } else {
            point_set(side, i, how, is_across);
        }
        dev_cv_pay(&owed, (size_t)side->taps);
    }
}

int16_t *dev_cv_side_fixed(const struct cv_side *side)
{
    int16_t *made = (int16_t *)(void *)dev_cv_scratch((size_t)side->to / 2 + 1);
    for (int64_t i = 0; i < 2 * side->to; i++) {
        made[i] = (int16_t)rint((double)((float)side->weights[i] * FIXED));
    }
    return made;
}

float *dev_cv_side_floats(const struct cv_side *side)
{
    int64_t count = side->to * side->taps;
    float *made = (float *)(void *)dev_cv_scratch((size_t)count / 2 + 1);
    for (int64_t i = 0; i < count; i++) {
        made[i] = (float)side->weights[i];
    }
    return made;
}

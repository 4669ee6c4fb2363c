// walle.cv: what every place's surroundings come to (cv_filter.c).
#ifndef DEV_CV_FILTER_H
#define DEV_CV_FILTER_H

#include "vm/cv/cv.h"

#define CV_KERNEL_MAX 1024 // places of a side

// A kernel: numbers of rows x columns. Where both sides are given apart, `down` and `across`, the
// kernel is their product. All in the script's heap.
struct cv_kernel {
    int64_t rows;
    int64_t columns;
    const double *numbers; // NULL: down and across
    const double *down;
    const double *across;
};

enum cv_filter_how { CV_FILTER_SUM, CV_FILTER_LEAST, CV_FILTER_LARGEST };

struct cv_filter {
    struct cv_image from;
    struct cv_kernel kernel;
    enum cv_filter_how how; // LEAST and LARGEST: of the places where the kernel is not 0
    int64_t anchor_x;
    int64_t anchor_y;
    enum cv_border border;
    double around[4]; // what is outside, of a constant border; of channels beyond, the last
    double scale;     // of a sum
    double delta;     // which is added to it
    bool squares;     // of the image's numbers, not of them
    bool rounds_up;   // a half is rounded up, not to even
    mp_int_t depth;   // of the result, as OpenCV counts; negative: the image's
};

// --- cv_filter.c
// Sets the anchor, the middle where it is (-1, -1) or None; raises where it is not in the kernel.
void dev_cv_anchor(struct cv_filter *filter, mp_obj_t anchor);
struct np_array *dev_cv_filtered(const struct cv_filter *filter);
enum cv_border dev_cv_filter_border(mp_int_t border); // raises for WRAP, which filters do not know

// --- typed/cv_typed.c
// Fills the array with what the filter comes to, in the types of images; false: that cannot be, and
// nothing was written. Row y is written when rows up to y and those around it were read, so that
// the array may be the image's own where its border reads none of them again.
bool dev_cv_filter_typed(const struct cv_filter *filter, struct np_array *made);

// --- cv_kernel.c
// Numbers of a side, in the script's heap.
double *dev_cv_gaussian_numbers(int64_t size, double sigma);
double *dev_cv_sobel_numbers(int64_t size, int64_t order, bool is_normal); // size -1: Scharr
int64_t dev_cv_sobel_size(int64_t size, int64_t order);                    // how many they are
// A kernel of numbers that a script gave, an array of one channel.
struct cv_kernel dev_cv_kernel_take(mp_obj_t value);

#endif

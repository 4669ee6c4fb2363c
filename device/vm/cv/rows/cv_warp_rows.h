// walle.cv: loops that look for pixels where a warp found them. Each is compiled twice
// (vm/np/np_wide.h), and both come to the same, bit for bit. Nothing is paid for here, and nothing
// allocated.
#ifndef DEV_CV_WARP_ROWS_H
#define DEV_CV_WARP_ROWS_H

#include "vm/np/np_wide.h"

#include <stddef.h>
#include <stdint.h>

#define CV_STEP_BITS 5
#define CV_STEPS     32 // of a pixel: what places are counted in, but for the nearest
#define CV_TAPS_MAX  4

// The image that is read. All taps of the places are in it, and where it has three channels the
// pixel to the right of them, too.
struct cv_source {
    const uint8_t *data;
    int64_t step;
    size_t channels;
    size_t pixel;                              // bytes
    const float (*weights)[CV_TAPS_MAX];       // of the taps of INTER_CUBIC, by the part
    const double (*weights_long)[CV_TAPS_MAX]; // of either, for float64
};

typedef void cv_sample_fn(void *to, const struct cv_source *from, const int32_t *x,
                          const int32_t *y, size_t count);

// A row of a perspective: places are counted from the first of each block of columns.
struct cv_tilt {
    const double *matrix;
    double row;
    int64_t block;
    double scale;
};

struct cv_warp_rows {
    // (base + along[i]) / 2^shift
    void (*affine)(int32_t *to, const int32_t *along, int32_t base, int shift, size_t count);
    void (*perspective)(int32_t *x, int32_t *y, const struct cv_tilt *tilt, size_t count);
    // Every number of `apart`, times a scale.
    void (*map)(int32_t *to, const float *map, size_t apart, double scale, size_t count);
    cv_sample_fn *nearest; // places are pixels
    cv_sample_fn *linear_u8;
    cv_sample_fn *linear_f32;
    cv_sample_fn *linear_f64;
    cv_sample_fn *cubic_u8;
    cv_sample_fn *cubic_f32;
    cv_sample_fn *cubic_f64;
};
extern const struct cv_warp_rows dev_cv_warp_rows_plain, dev_cv_warp_rows_wide;

#endif

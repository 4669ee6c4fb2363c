// walle.cv: loops that take pixels from other places: turned, picked, resized, warped. Each file
// is compiled twice (vm/np/np_wide.h), and both come to the same, bit for bit. Pixels are of
// `pixel` bytes or `channels` elements; nothing is paid for here, and nothing allocated.
#ifndef DEV_CV_PLACE_ROWS_H
#define DEV_CV_PLACE_ROWS_H

#include "vm/np/np_wide.h"

#include <stddef.h>
#include <stdint.h>

// Bytes behind what a loop is given, or behind what it leaves, that it may read or write, too.
#define CV_ROW_SPARE 32

// --- cv_rows_move.c

// Columns `from` to `to` of an image become rows of another. Steps are from a row to the next.
struct cv_turning {
    uint8_t *to;
    int64_t to_step;
    const uint8_t *from;
    int64_t from_step;
    size_t rows; // of `from`
    size_t pixel;
};

struct cv_move_rows {
    void (*reverse)(uint8_t *to, const uint8_t *from, size_t count, size_t pixel);
    // Pixel i is that at at[i].
    void (*pick)(uint8_t *to, const uint8_t *from, const int32_t *at, size_t count, size_t pixel);
    void (*repeat)(uint8_t *to, const uint8_t *color, size_t count, size_t pixel);
    void (*turn)(const struct cv_turning *turning, size_t from, size_t to);
    // Two to four channels of uint8: rows of one each, to pixels and back.
    void (*merge)(uint8_t *to, const uint8_t *const *rows, size_t channels, size_t count);
    void (*split)(uint8_t *const *rows, const uint8_t *from, size_t channels, size_t count);
    // `item` bytes of every pixel: steps are from a pixel to the next.
    void (*channel)(uint8_t *to, const uint8_t *from, const size_t steps[2], size_t count,
                    size_t item);
};
extern const struct cv_move_rows dev_cv_move_rows_plain, dev_cv_move_rows_wide;

// --- cv_rows_resize.c

// What each of `count` pixels is made of: `taps` pixels from element at[i] on, each with a weight.
struct cv_taps {
    const int32_t *at;
    const void *weights; // taps of pixel i from i * taps on: float, or int16 of 11 bits, or double
    size_t count;
    size_t taps;
    size_t channels;
};
// Reads CV_ROW_SPARE bytes behind the row, and leaves as many behind what it makes.
typedef void cv_across_fn(void *to, const void *from, const struct cv_taps *taps);
// Adds rows up, each with a weight: of the type that across_* made.
typedef void cv_down_fn(void *to, const void *const *rows, const void *weights, size_t taps,
                        size_t count);

// Pixels of `channels` that are sums of across x down pixels of an image.
struct cv_cells {
    size_t count;
    size_t channels;
    size_t across;
    size_t down;
};

struct cv_resize_rows {
    cv_across_fn *across_fixed; // uint8 to int16, two taps, as OpenCV computes
    cv_across_fn *across_u8;    // to float
    cv_across_fn *across_f32;
    cv_across_fn *across_f64;
    void (*down_fixed)(uint8_t *to, const int16_t *const rows[2], const int16_t weights[2],
                       size_t count);
    cv_down_fn *down_f32;
    cv_down_fn *down_f64;
    void (*store_u8)(uint8_t *to, const float *from, size_t count);
    // A channel of `channels`, less its mean, times its scale.
    void (*level)(float *to, const float *from, size_t count, size_t channels,
                  const float mean_scale[2]);
    void (*halve)(uint8_t *to, const uint8_t *const rows[2], const struct cv_cells *cells);
    void (*sum)(uint32_t *sums, const uint8_t *row, size_t count);
    void (*shrink)(uint8_t *to, const uint32_t *sums, const struct cv_cells *cells);
};
extern const struct cv_resize_rows dev_cv_resize_rows_plain, dev_cv_resize_rows_wide;

#endif

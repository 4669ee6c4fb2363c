// walle.cv: loops over the rows of filters, compiled twice (vm/np/np_wide.h). They allocate nothing
// and pay for nothing: who calls them does. Rows are apart from each other but where it is said,
// and need no alignment beyond their elements'. Results are the same bit for bit in both.
#ifndef DEV_CV_FILTER_ROWS_H
#define DEV_CV_FILTER_ROWS_H

#include <stddef.h>
#include <stdint.h>

// Makes a row of `count` elements of as many as `taps` rows, which may be one row further on.
typedef void cv_taps_row(void *to, const uint8_t *const *rows, const void *by, size_t taps,
                         size_t count);

// --- cv_sum_rows.c: the sum of rows, each times its number in `by`
struct cv_sum_rows {
    cv_taps_row *bytes; // uint8 times uint16 to uint16, modulo 65536: signed numbers, too
    cv_taps_row *words; // uint16 times uint16 to uint16, the same
    cv_taps_row *fixed; // uint16 times uint16 to uint8, of 65536 parts, a half up; symmetrical
    cv_taps_row *reals; // float32
};

// --- cv_extreme_rows.c: the least and the largest of rows; `by` is not looked at
struct cv_extreme_rows {
    cv_taps_row *least_u8;
    cv_taps_row *largest_u8;
    cv_taps_row *least_f32;
    cv_taps_row *largest_f32;
    void (*numbers)(float *row, size_t count, float otherwise); // in place of what is no number
};

// --- cv_finish_rows.c: what is summed, to the image's type
struct cv_finish {
    float scale; // a sum is multiplied by it, and `delta` is added
    float delta;
    double exact;   // as `scale`, of mean_i32
    uint16_t half;  // added in front of a shift
    uint16_t times; // multiplied with, of 65536 parts
    uint16_t shift; // then
};

typedef void cv_finish_row(void *to, const void *from, size_t count, const struct cv_finish *how);

struct cv_finish_rows {
    cv_finish_row *mean_u8;  // ((from + half) * times >> 16) >> shift, of uint16
    cv_finish_row *mean_i32; // from * exact to uint8, a half to even
    cv_finish_row *i16_u8;   // held within the type
    cv_finish_row *i16_i32;
    cv_finish_row *i16_f32; // from * scale + delta, and so on
    cv_finish_row *u16_f32;
    cv_finish_row *i32_f32;
    cv_finish_row *f32_f32;
    cv_finish_row *f32_u8;  // a half to even
    cv_finish_row *f32_i16; // to int32, held within int16
    cv_finish_row *u8_f32;  // as it is, as the next two
    cv_finish_row *u8_u16;
    cv_finish_row *u8_i32;
    // One row and another.
    void (*add_u16)(uint16_t *to, const uint16_t *one, const uint16_t *other, size_t count);
    void (*add_i32)(int32_t *to, const int32_t *one, const int32_t *other, size_t count);
    void (*more_u16)(uint16_t *to, const uint16_t *one, size_t count);
    void (*more_i32)(int32_t *to, const int32_t *one, size_t count);
    // sum += fresh - kept, and kept = fresh.
    void (*slide_u16)(uint16_t *sum, uint16_t *kept, const uint16_t *fresh, size_t count);
    void (*slide_i32)(int32_t *sum, int32_t *kept, const int32_t *fresh, size_t count);
    void (*less_u8)(uint8_t *to, const uint8_t *one, const uint8_t *other, size_t count); // >= 0
};

// --- cv_pixel_rows.c
#define CV_WITHIN_CHANNELS 3

// Means of what is around each pixel, of uint8, one channel or three, each in a plane of its own.
struct cv_within {
    const uint8_t *const *rows; // by place: the first plane, from where the first pixel's place is
    const uint8_t *center;      // ... and the first pixel itself
    size_t plane;               // bytes from a channel to the next
    size_t channels;
    size_t taps;
    const float *of_space; // by place
    const float *of_color; // by the sum of the channels' distances
};

struct cv_pixel_rows {
    void (*every_other)(uint8_t *to, const uint8_t *from, size_t pixels, size_t bytes);
    void (*in_turn)(uint8_t *to, const uint8_t *even, const uint8_t *odd, size_t pixels,
                    size_t bytes); // pixels of either
    void (*within)(uint8_t *to, const struct cv_within *within, size_t pixels);
};

extern const struct cv_sum_rows dev_cv_sum_rows_plain, dev_cv_sum_rows_wide;
extern const struct cv_extreme_rows dev_cv_extreme_rows_plain, dev_cv_extreme_rows_wide;
extern const struct cv_finish_rows dev_cv_finish_rows_plain, dev_cv_finish_rows_wide;
extern const struct cv_pixel_rows dev_cv_pixel_rows_plain, dev_cv_pixel_rows_wide;

#endif

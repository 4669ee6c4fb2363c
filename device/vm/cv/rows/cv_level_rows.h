// walle.cv: what is done with rows of elements, one by one (cv_level_rows.c). Compiled for every
// processor and for those with AVX2 (np_wide.h); both come to the same. The rows of a result and
// of what it is made from do not overlap; nothing here raises, allocates or counts its work.
#ifndef DEV_CV_LEVEL_ROWS_H
#define DEV_CV_LEVEL_ROWS_H

#include "vm/np/np_wide.h"

#include <stddef.h>
#include <stdint.h>

#define CV_LEVELS 256 // of uint8

// What becomes of uint8: which bits are kept and which are set, of those below `low` and of others.
struct cv_cut {
    uint8_t low;
    uint8_t keep[2];
    uint8_t set[2];
};

// Thresholds; the numbers are OpenCV's.
enum cv_cut_kind { CV_BINARY, CV_BINARY_INV, CV_TRUNC, CV_TOZERO, CV_TOZERO_INV, CV_CUT_KINDS };

// one * alpha + other * beta + gamma
struct cv_weights {
    double alpha;
    double beta;
    double gamma;
};

enum cv_bits { CV_BITS_AND, CV_BITS_OR, CV_BITS_XOR, CV_BITS_NOT, CV_BITS_KINDS };

struct cv_level_rows {
    // As reals, and back, rounded to even and held within the type.
    void (*load_u8)(double *restrict to, const uint8_t *restrict from, size_t count);
    void (*load_i32)(double *restrict to, const int32_t *restrict from, size_t count);
    void (*load_f32)(double *restrict to, const float *restrict from, size_t count);
    void (*store_u8)(uint8_t *restrict to, const double *restrict from, size_t count);
    void (*store_i32)(int32_t *restrict to, const double *restrict from, size_t count);
    void (*store_f32)(float *restrict to, const double *restrict from, size_t count);

    void (*cut_u8)(uint8_t *restrict to, const uint8_t *restrict from, size_t count,
                   const struct cv_cut *cut);
    // Above are those of more than ends[0]; ends[1] is what is set.
    void (*cut_f32[CV_CUT_KINDS])(float *restrict to, const float *restrict from, size_t count,
                                  const float ends[2]);
    void (*weigh_u8)(uint8_t *restrict to, const uint8_t *const both[2], size_t count,
                     const struct cv_weights *weights);
    void (*weigh_f32)(float *restrict to, const float *const both[2], size_t count,
                      const struct cv_weights *weights);
    // By alpha and gamma; `levels` is what uint8 come to so.
    void (*scale_u8)(uint8_t *restrict to, const uint8_t *restrict from, size_t count,
                     const struct cv_weights *weights, const uint8_t levels[CV_LEVELS]);
    void (*scale_f32)(float *restrict to, const float *restrict from, size_t count,
                      const struct cv_weights *weights);
    void (*bits[CV_BITS_KINDS])(uint8_t *restrict to, const uint8_t *const both[2], size_t bytes);
    void (*mapped)(uint8_t *restrict to, const uint8_t *restrict from, size_t count,
                   const uint8_t levels[CV_LEVELS]);
    // Pixels of so many bytes where the mask is not 0; elsewhere `to` is as it was.
    void (*chosen)(uint8_t *restrict to, const uint8_t *restrict from, const uint8_t *restrict mask,
                   size_t count, size_t pixel);
};

extern const struct cv_level_rows dev_cv_level_rows_plain, dev_cv_level_rows_wide;

#endif

// walle.cv: what rows of elements come to (cv_tally_rows.c): sums, extents, counts of levels, means
// of windows. Compiled for every processor and for those with AVX2 (np_wide.h); both come to the
// same. Nothing here raises, allocates or counts its work.
#ifndef DEV_CV_TALLY_ROWS_H
#define DEV_CV_TALLY_ROWS_H

#include "vm/cv/rows/cv_level_rows.h"

#define CV_COUNTERS 4 // of each level, so that equal pixels do not wait for one another

// A window of a mean: `size` columns, whose sums were added up, and the pixel in its middle.
struct cv_near {
    const uint8_t *from;
    const uint32_t *sums; // before a column: size more than pixels
    size_t size;
    double scale;   // of the sum; the mean is rounded to even
    int32_t bound;  // a pixel is above where it is more than this more than the mean
    uint8_t set[2]; // of those that are not above, and of those that are
};

struct cv_tally_rows {
    // Every `step`th of uint8 is counted, beside what was.
    void (*counted)(uint32_t counts[CV_COUNTERS][CV_LEVELS], const uint8_t *from, size_t count,
                    size_t step);
    // The sums of up to four channels, added to what is there.
    void (*summed)(uint64_t sums[4], const uint8_t *from, size_t pixels, uint32_t channels);
    // The least and the largest, with what is there; NaN is neither.
    void (*extent_u8)(uint8_t ends[2], const uint8_t *from, size_t count);
    void (*extent_f32)(float ends[2], const float *from, size_t count);
    // `above`, and the sum of what is before in the row and of the element: below 2 to the 31.
    void (*integral)(int32_t *restrict to, const int32_t *restrict above,
                     const uint8_t *restrict from, size_t count, uint32_t channels);
    // Of a window that goes down by a row: rows[0] comes to it and rows[1] leaves it.
    void (*moved)(uint32_t *restrict columns, const uint8_t *const rows[2], size_t count);
    void (*added_up)(uint32_t *restrict to, const uint32_t *restrict from, size_t count);
    void (*near)(uint8_t *restrict to, size_t count, const struct cv_near *near);
};

extern const struct cv_tally_rows dev_cv_tally_rows_plain, dev_cv_tally_rows_wide;

#endif

// walle.cv: rows of pixels from one space of colours to another (cv_color_rows.c). Compiled for
// every processor and for those with AVX2 (np_wide.h); both come to the same. Nothing here raises,
// allocates or counts its work.
#ifndef DEV_CV_COLOR_ROWS_H
#define DEV_CV_COLOR_ROWS_H

#include "vm/np/np_wide.h"

#include <stddef.h>
#include <stdint.h>

struct cv_color {
    uint32_t from; // channels of a pixel that is read
    uint32_t to;   // and of one that is written
    uint32_t blue; // which channel is blue, 0 or 2; of reorder: 2 where it changes places
    double hues;   // how many hues uint8 has
    size_t count;  // pixels
};

// `from` and `to` hold dense pixels of the type, and do not overlap.
typedef void cv_color_row(const struct cv_color *color, const void *from, void *to);

enum cv_color_way {
    CV_WAY_REORDER,
    CV_WAY_GRAY,
    CV_WAY_UNGRAY,
    CV_WAY_YCRCB,
    CV_WAY_UNYCRCB,
    CV_WAY_YUV,
    CV_WAY_UNYUV,
    CV_WAY_HSV,
    CV_WAY_UNHSV,
    CV_WAY_HLS,
    CV_WAY_UNHLS,
    CV_WAYS
};

struct cv_color_rows {
    cv_color_row *whole[CV_WAYS]; // of uint8
    cv_color_row *real[CV_WAYS];  // of float32
};

extern const struct cv_color_rows dev_cv_color_rows_plain, dev_cv_color_rows_wide;

#endif

// walle.cv: rows of pixels from one space of colours to another (cv_colors.c).
#ifndef DEV_CV_COLORS_H
#define DEV_CV_COLORS_H

#include <stddef.h>
#include <stdint.h>

struct cv_color {
    uint32_t from; // channels of a pixel that is read
    uint32_t to;   // and of one that is written
    uint32_t blue; // which channel is blue, 0 or 2; of reorder: 2 where it changes places
    double hues;   // how many hues uint8 has
    size_t count;  // pixels
};

// `from` and `to` hold dense pixels of the type that is named behind the function.
typedef void cv_color_row(const struct cv_color *color, const void *from, void *to);

cv_color_row dev_cv_reorder_u8, dev_cv_reorder_f32, dev_cv_gray_u8, dev_cv_gray_f32,
    dev_cv_ungray_u8, dev_cv_ungray_f32, dev_cv_ycrcb_u8, dev_cv_ycrcb_f32, dev_cv_unycrcb_u8,
    dev_cv_unycrcb_f32, dev_cv_yuv_u8, dev_cv_yuv_f32, dev_cv_unyuv_u8, dev_cv_unyuv_f32,
    dev_cv_hsv_u8, dev_cv_hsv_f32, dev_cv_unhsv_u8, dev_cv_unhsv_f32, dev_cv_hls_u8, dev_cv_hls_f32,
    dev_cv_unhls_u8, dev_cv_unhls_f32;

#endif

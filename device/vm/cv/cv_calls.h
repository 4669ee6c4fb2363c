// walle.cv: the functions that its table names, by file, and what these files use of one another.
#ifndef DEV_CV_CALLS_H
#define DEV_CV_CALLS_H

#include "vm/cv/cv.h"

// --- cv_arith.c
extern const mp_obj_fun_builtin_var_t dev_cv_addWeighted_obj, dev_cv_bitwise_and_obj,
    dev_cv_bitwise_or_obj, dev_cv_bitwise_xor_obj, dev_cv_bitwise_not_obj, dev_cv_copyTo_obj,
    dev_cv_mean_obj, dev_cv_normalize_obj;
// --- cv_codec.c
extern const mp_obj_fun_builtin_fixed_t dev_cv_imdecode_obj, dev_cv_haveImageReader_obj,
    dev_cv_haveImageWriter_obj;
extern const mp_obj_fun_builtin_var_t dev_cv_imencode_obj;
// --- cv_color.c
extern const mp_obj_fun_builtin_var_t dev_cv_cvtColor_obj, dev_cv_cvtColorTwoPlane_obj;
// --- cv_contours.c
extern const mp_obj_fun_builtin_var_t dev_cv_findContours_obj;
// --- cv_draw.c
extern const mp_obj_fun_builtin_var_t dev_cv_line_obj, dev_cv_arrowedLine_obj, dev_cv_rectangle_obj,
    dev_cv_circle_obj, dev_cv_fillPoly_obj, dev_cv_drawContours_obj;
// --- cv_hull.c
extern const mp_obj_fun_builtin_var_t dev_cv_convexHull_obj, dev_cv_boxPoints_obj;
extern const mp_obj_fun_builtin_fixed_t dev_cv_minAreaRect_obj;
// --- cv_kernel.c
extern const mp_obj_fun_builtin_var_t dev_cv_getGaussianKernel_obj, dev_cv_getDerivKernels_obj,
    dev_cv_getStructuringElement_obj;
// --- cv_levels.c
extern const mp_obj_fun_builtin_var_t dev_cv_threshold_obj, dev_cv_adaptiveThreshold_obj,
    dev_cv_equalizeHist_obj, dev_cv_calcHist_obj, dev_cv_integral_obj;
// --- cv_morph.c
extern const mp_obj_fun_builtin_var_t dev_cv_dilate_obj, dev_cv_erode_obj, dev_cv_morphologyEx_obj;
// --- cv_move.c
extern const mp_obj_fun_builtin_fixed_t dev_cv_split_obj;
extern const mp_obj_fun_builtin_var_t dev_cv_flip_obj, dev_cv_rotate_obj, dev_cv_merge_obj,
    dev_cv_hconcat_obj, dev_cv_vconcat_obj, dev_cv_copyMakeBorder_obj;
// --- cv_parts.c
extern const mp_obj_fun_builtin_var_t dev_cv_connectedComponentsWithStats_obj;
// --- cv_points.c
extern const mp_obj_fun_builtin_var_t dev_cv_contourArea_obj;
extern const mp_obj_fun_builtin_fixed_t dev_cv_boundingRect_obj;
// --- cv_turn.c, cv_pose.c
extern const mp_obj_fun_builtin_var_t dev_cv_Rodrigues_obj, dev_cv_solve_obj, dev_cv_solvePnP_obj;
// --- cv_pyramid.c
extern const mp_obj_fun_builtin_var_t dev_cv_pyrDown_obj, dev_cv_pyrUp_obj,
    dev_cv_bilateralFilter_obj, dev_cv_getGaborKernel_obj, dev_cv_spatialGradient_obj;
// --- cv_places.c
extern const mp_obj_fun_builtin_var_t dev_cv_getRectSubPix_obj, dev_cv_convertMaps_obj,
    dev_cv_blendLinear_obj;
// --- cv_resize.c
extern const mp_obj_fun_builtin_var_t dev_cv_resize_obj, dev_cv_crop_resize_normalize_obj;
// --- cv_smooth.c
extern const mp_obj_fun_builtin_var_t dev_cv_blur_obj, dev_cv_boxFilter_obj,
    dev_cv_sqrBoxFilter_obj, dev_cv_GaussianBlur_obj, dev_cv_filter2D_obj, dev_cv_sepFilter2D_obj,
    dev_cv_Sobel_obj, dev_cv_Scharr_obj, dev_cv_Laplacian_obj;
// --- cv_transform.c
void dev_cv_affine_invert(double m[6]);
void dev_cv_perspective_invert(double m[9]);
extern const mp_obj_fun_builtin_fixed_t dev_cv_getAffineTransform_obj,
    dev_cv_getPerspectiveTransform_obj, dev_cv_getRotationMatrix2D_obj,
    dev_cv_invertAffineTransform_obj;
// --- cv_warp.c
extern const mp_obj_fun_builtin_var_t dev_cv_warpAffine_obj, dev_cv_warpPerspective_obj,
    dev_cv_remap_obj;

#endif

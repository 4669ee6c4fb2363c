// walle.cv: turns as vectors and as matrices, and where a camera is (cv_turn.c, cv_pose.c).
// Matrices are rows, all of them densely.
#ifndef DEV_CV_POSE_H
#define DEV_CV_POSE_H

#include "vm/cv/cv.h"

// --- cv_turn.c
void dev_cv_turn_matrix(const double vector[3], double out_matrix[9]);
// Of a matrix that is nearly a rotation: the nearest one is taken. All 0 where there is none.
void dev_cv_turn_vector(const double matrix[9], double out_vector[3]);

#endif

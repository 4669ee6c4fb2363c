// Matrices that images are warped by: of three or four points, of an angle, and inverted. They are
// small enough that nothing of their work is counted. Called by scripts and by cv_warp.c, on the
// VM's thread.
#include "vm/cv/cv_calls.h"

#include <math.h>

#define UNKNOWNS_MAX 8

void dev_cv_affine_invert(double m[6])
{
    double by = m[0] * m[4] - m[1] * m[3];
    by = by != 0 ? 1 / by : 0;
    double a = m[4] * by;
    double d = m[0] * by;
    double b = m[1] * -by;
    double c = m[3] * -by;
    double x = -a * m[2] - b * m[5];
    double y = -c * m[2] - d * m[5];
    m[0] = a;
    m[1] = b;
    m[2] = x;
    m[3] = c;
    m[4] = d;
    m[5] = y;
}

void dev_cv_perspective_invert(double m[9])
{
    double made[9];
    for (int row = 0; row < 3; row++) {
        for (int column = 0; column < 3; column++) {
            int r1 = (column + 1) % 3;
            int r2 = (column + 2) % 3;
            int c1 = (row + 1) % 3;
            int c2 = (row + 2) % 3;
            made[row * 3 + column] =
                m[r1 * 3 + c1] * m[r2 * 3 + c2] - m[r1 * 3 + c2] * m[r2 * 3 + c1];
        }
    }
    double by = m[0] * made[0] + m[1] * made[3] + m[2] * made[6];
    by = by != 0 ? 1 / by : 0;
    for (int i = 0; i < 9; i++) {
        m[i] = made[i] * by;
    }
}

// Solves rows x = right by elimination with the largest pivot; false: there is no one solution.
static bool solved(double rows[UNKNOWNS_MAX][UNKNOWNS_MAX + 1], int size, double *out_x)
{
    for (int k = 0; k < size; k++) {
        int pivot = k;
        for (int i = k + 1; i < size; i++) {
            pivot = fabs(rows[i][k]) > fabs(rows[pivot][k]) ? i : pivot;
        }
        if (!(fabs(rows[pivot][k]) > 1e-14)) {
            return false;
        }
        for (int j = 0; j <= size; j++) {
            double value = rows[k][j];
            rows[k][j] = rows[pivot][j];
            rows[pivot][j] = value;
        }
        for (int i = k + 1; i < size; i++) {
            double by = rows[i][k] / rows[k][k];
            for (int j = k; j <= size; j++) {
                rows[i][j] -= by * rows[k][j];
            }
        }
    }
    for (int k = size; k-- > 0;) {
        double sum = rows[k][size];
        for (int j = k + 1; j < size; j++) {
            sum -= rows[k][j] * out_x[j];
        }
        out_x[k] = sum / rows[k][k];
    }
    return true;
}

static void points_take(mp_obj_t value, int64_t points, double *out_numbers)
{
    const struct np_array *given = dev_np_of(value);
    if (given->type != NP_F32) {
        dev_cv_bad("points are an array of float32");
    }
    dev_cv_matrix(value, points, 2, out_numbers);
}

static mp_obj_t matrix_of(const double *numbers, int64_t rows)
{
    struct np_array *made = dev_cv_new(NP_F64, rows, 3, 1);
    __builtin_memcpy(made->data, numbers, (size_t)rows * 3 * sizeof(double));
    return MP_OBJ_FROM_PTR(made);
}

// getAffineTransform(src, dst): of three points
static mp_obj_t get_affine_transform(mp_obj_t src, mp_obj_t dst)
{
    double from[6];
    double to[6];
    points_take(src, 3, from);
    points_take(dst, 3, to);
    double made[6] = {0};
    bool good = true;
    for (int side = 0; side < 2; side++) {
        double rows[UNKNOWNS_MAX][UNKNOWNS_MAX + 1];
        for (int i = 0; i < 3; i++) {
            rows[i][0] = from[2 * i];
            rows[i][1] = from[2 * i + 1];
            rows[i][2] = 1;
            rows[i][3] = to[2 * i + side];
        }
        good = good && solved(rows, 3, made + 3 * side);
    }
    static const double none[6];
    return matrix_of(good ? made : none, 2);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_cv_getAffineTransform_obj, get_affine_transform);

// getPerspectiveTransform(src, dst): of four points
static mp_obj_t get_perspective_transform(mp_obj_t src, mp_obj_t dst)
{
    double from[8];
    double to[8];
    points_take(src, 4, from);
    points_take(dst, 4, to);
    double rows[UNKNOWNS_MAX][UNKNOWNS_MAX + 1] = {0};
    for (int i = 0; i < 4; i++) {
        double x = from[2 * i];
        double y = from[2 * i + 1];
        for (int side = 0; side < 2; side++) {
            double *row = rows[i + 4 * side];
            double value = to[2 * i + side];
            row[3 * side] = x;
            row[3 * side + 1] = y;
            row[3 * side + 2] = 1;
            row[6] = -x * value;
            row[7] = -y * value;
            row[8] = value;
        }
    }
    double made[9] = {[8] = 1};
    if (!solved(rows, 8, made)) {
        dev_cv_bad("no perspective has these points");
    }
    return matrix_of(made, 3);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_cv_getPerspectiveTransform_obj, get_perspective_transform);

// getRotationMatrix2D(center, angle, scale)
static mp_obj_t get_rotation_matrix(mp_obj_t center, mp_obj_t angle, mp_obj_t scale)
{
    size_t size;
    mp_obj_t *items;
    mp_obj_get_array(center, &size, &items);
    if (size != 2) {
        dev_cv_bad("a point is two numbers");
    }
    double x = (double)(float)mp_obj_get_float(items[0]);
    double y = (double)(float)mp_obj_get_float(items[1]);
    double turn = mp_obj_get_float(angle) * M_PI / 180;
    double by = mp_obj_get_float(scale);
    double a = cos(turn) * by;
    double b = sin(turn) * by;
    double made[] = {a, b, (1 - a) * x - b * y, -b, a, b * x + (1 - a) * y};
    return matrix_of(made, 2);
}
MP_DEFINE_CONST_FUN_OBJ_3(dev_cv_getRotationMatrix2D_obj, get_rotation_matrix);

// invertAffineTransform(M)
static mp_obj_t invert_affine_transform(mp_obj_t matrix)
{
    const struct np_array *given = dev_np_of(matrix);
    if (!dev_np_is_real(given->type)) {
        dev_cv_bad("a matrix is of float32 or float64");
    }
    double m[6];
    dev_cv_matrix(matrix, 2, 3, m);
    dev_cv_affine_invert(m);
    struct np_array *made = dev_cv_new(given->type, 2, 3, 1);
    dev_cv_store(given->type, made->data, m, 6);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_cv_invertAffineTransform_obj, invert_affine_transform);

// Rodrigues and solve of walle.cv: a turn as a vector along its axis, as long as its angle, and as
// a matrix; and systems of linear equations, by the factors of walle.np. Called by scripts and by
// cv_pose.c, on the VM's thread.
#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_pose.h"
#include "vm/np/np_matrix.h"

#include <float.h>
#include <math.h>

#define CV_UNKNOWNS_MAX 512 // unknowns

// How a matrix changes with its vector, 3 x 9, where the vector is `axis` times `angle`.
static void matrix_changes(const double axis[3], double angle, double out_changes[27])
{
    const double c = cos(angle);
    const double s = sin(angle);
    const double by = angle != 0 ? 1 / angle : 0;
    for (int i = 0; i < 3; i++) {
        const double *r = axis;
        const double square = s * r[i] - 2 * (1 - c) * r[i] * by;
        const double cross = c * r[i] - s * r[i] * by;
        double *to = out_changes + 9 * i;
        for (int k = 0; k < 9; k++) {
            int row = k / 3;
            int column = k % 3;
            double product = (row == i ? r[column] : 0) + (column == i ? r[row] : 0);
            double made = square * r[row] * r[column] + (1 - c) * by * product;
            made -= row == column ? s * r[i] : 0;
            int other = 3 - row - column; // the axis that turns `row` and `column` into each other
            if (row != column) {
                double sign = (column - row + 3) % 3 == 1 ? -1 : 1;
                made += sign * (cross * r[other] + (other == i ? (angle != 0 ? s * by : 1) : 0));
            }
            to[k] = made;
        }
    }
}

void dev_cv_turn_matrix(const double vector[3], double out_matrix[9])
{
    double angle = sqrt(vector[0] * vector[0] + vector[1] * vector[1] + vector[2] * vector[2]);
    double by = angle > 0 ? 1 / angle : 0;
    double c = cos(angle);
    double s = sin(angle);
    for (int k = 0; k < 9; k++) {
        int row = k / 3;
        int column = k % 3;
        double made = (1 - c) * vector[row] * vector[column] * by * by + (row == column ? c : 0);
        if (row != column) {
            double sign = (column - row + 3) % 3 == 1 ? -1 : 1;
            made += sign * s * vector[3 - row - column] * by;
        }
        out_matrix[k] = made;
    }
}

// The rotation next to a matrix, of its singular vectors; false: numbers too large, or none.
static bool nearest_rotation(const double matrix[9], double out_rotation[9])
{
    double w[9];
    double z[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    double values[3];
    for (int k = 0; k < 9; k++) {
        if (!(fabs(matrix[k]) < 100)) {
            return false;
        }
        w[k] = matrix[k / 3 + k % 3 * 3];
    }
    const struct np_turning turning = {w, z, values, 3, 3};
    if (!dev_np_orthogonalise(&turning) || !(values[2] > DBL_EPSILON)) {
        return false;
    }
    for (int k = 0; k < 9; k++) {
        out_rotation[k] = 0;
        for (int i = 0; i < 3; i++) {
            out_rotation[k] += w[3 * i + k / 3] * z[3 * i + k % 3];
        }
    }
    return true;
}

// Of half a turn, whose sine says nothing.
static void half_turn(const double m[9], double angle, double out_vector[3])
{
    double *v = out_vector;
    v[0] = sqrt(fmax((m[0] + 1) / 2, 0));
    v[1] = sqrt(fmax((m[4] + 1) / 2, 0)) * (m[1] < 0 ? -1 : 1);
    v[2] = sqrt(fmax((m[8] + 1) / 2, 0)) * (m[2] < 0 ? -1 : 1);
    if (fabs(v[0]) < fabs(v[1]) && fabs(v[0]) < fabs(v[2]) && (m[5] > 0) != (v[1] * v[2] > 0)) {
        v[2] = -v[2];
    }
    double by = angle / sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int i = 0; i < 3; i++) {
        v[i] *= by;
    }
}

// The vector, and how it changes with the matrix, 9 x 3.
static void vector_of(const double matrix[9], double out_vector[3], double out_changes[27])
{
    double m[9];
    __builtin_memset(out_vector, 0, 3 * sizeof(double));
    __builtin_memset(out_changes, 0, 27 * sizeof(double));
    if (!nearest_rotation(matrix, m)) {
        return;
    }
    const double raw[] = {m[7] - m[5], m[2] - m[6], m[3] - m[1]};
    double s = sqrt((raw[0] * raw[0] + raw[1] * raw[1] + raw[2] * raw[2]) / 4);
    double c = fmax(-1, fmin(1, (m[0] + m[4] + m[8] - 1) / 2));
    double angle = acos(c);
    double by = 0.5;
    double by_trace = 0;
    if (s < 1e-5) {
        if (c <= 0) {
            half_turn(m, angle, out_vector);
            return;
        }
    } else {
        by = angle / (2 * s);
        by_trace = -1 / (4 * s * s) * (1 - angle * c / s);
    }
    static const uint8_t plus[] = {7, 2, 3};
    static const uint8_t minus[] = {5, 6, 1};
    for (int i = 0; i < 3; i++) {
        out_vector[i] = s < 1e-5 ? 0 : raw[i] * by;
        out_changes[plus[i] * 3 + i] = by;
        out_changes[minus[i] * 3 + i] = -by;
        for (int k = 0; k < 3; k++) {
            out_changes[4 * k * 3 + i] = raw[i] * by_trace;
        }
    }
}

void dev_cv_turn_vector(const double matrix[9], double out_vector[3])
{
    double changes[27];
    vector_of(matrix, out_vector, changes);
}

// Rodrigues(src[, dst[, jacobian]]): a vector to a matrix, or back
static mp_obj_t rodrigues(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC, DST, JACOBIAN };
    static const mp_arg_t table[] = {CV_NEEDS(src), CV_MAY(dst), CV_MAY(jacobian)};
    CV_PARSE(table);
    struct cv_image src = dev_cv_take(values[SRC].u_obj, CV_REALS);
    bool is_matrix = src.rows == 3 && src.columns == 3 && src.channels == 1;
    if (!is_matrix && (src.array->size != 3 || (src.rows != 1 && src.columns != 1))) {
        dev_cv_bad("a turn is a vector of 3 numbers or a matrix of 3 x 3");
    }
    double given[9];
    double made[9];
    double changes[27];
    for (int64_t row = 0; row < src.rows; row++) {
        dev_cv_load(&src, row, given + row * (int64_t)dev_cv_row_items(&src));
    }
    if (is_matrix) {
        vector_of(given, made, changes);
    } else {
        double angle = sqrt(given[0] * given[0] + given[1] * given[1] + given[2] * given[2]);
        bool is_none = angle < DBL_EPSILON;
        double by = is_none ? 0 : 1 / angle;
        const double axis[] = {given[0] * by, given[1] * by, given[2] * by};
        const double none[3] = {0};
        dev_cv_turn_matrix(is_none ? none : given, made);
        matrix_changes(axis, is_none ? 0 : angle, changes);
    }
    struct np_array *turn = dev_cv_new(src.type, 3, is_matrix ? 1 : 3, 1);
    struct np_array *jacobian = dev_cv_new(src.type, is_matrix ? 9 : 3, is_matrix ? 3 : 9, 1);
    dev_cv_store(src.type, turn->data, made, turn->size);
    dev_cv_store(src.type, jacobian->data, changes, jacobian->size);
    mp_obj_t both[] = {dev_cv_give(values[DST].u_obj, turn),
                       dev_cv_give(values[JACOBIAN].u_obj, jacobian)};
    return mp_obj_new_tuple(2, both);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_Rodrigues_obj, 1, rodrigues);

// --- equations

enum { LU, SVD, EIG, CHOLESKY, QR, NORMAL = 16 };

struct equations {
    size_t rows;
    size_t unknowns;
    size_t columns; // of the right side
    double *left;
    double *right; // of a square system the solution, too
    double *solution;
};

static bool square_solve(struct equations *of, bool is_symmetric)
{
    const size_t size = of->unknowns;
    if (is_symmetric) {
        double *lower = dev_cv_scratch(size * size);
        for (size_t i = 0; i < size * size; i++) {
            size_t row = i / size;
            size_t column = i % size;
            lower[i] = of->left[row > column ? i : column * size + row];
        }
        __builtin_memcpy(of->left, lower, size * size * sizeof(double));
        if (!dev_np_cholesky(lower, size)) {
            return false;
        }
    }
    int64_t *order = m_new(int64_t, size);
    double sign;
    if (!dev_np_lu(of->left, order, size, &sign)) {
        return false;
    }
    const struct np_solving solving = {of->left, order, size, of->columns,
                                       dev_cv_scratch(size * of->columns)};
    dev_np_lu_solve(&solving, of->right);
    __builtin_memcpy(of->solution, of->right, size * of->columns * sizeof(double));
    return true;
}

// The least squares, and of those the shortest, by singular vectors.
static bool least_squares(struct equations *of)
{
    const size_t size = of->unknowns;
    double *w = dev_cv_scratch(size * of->rows);
    double *z = dev_cv_scratch(size * size);
    double *values = dev_cv_scratch(size);
    for (size_t i = 0; i < size; i++) {
        for (size_t k = 0; k < of->rows; k++) {
            w[i * of->rows + k] = of->left[k * size + i];
        }
        for (size_t k = 0; k < size; k++) {
            z[i * size + k] = i == k;
        }
    }
    const struct np_turning turning = {w, z, values, size, of->rows};
    if (!dev_np_orthogonalise(&turning)) {
        return false;
    }
    size_t owed = 0;
    for (size_t i = 0; i < size && values[i] > values[0] * 1e-13; i++) {
        for (size_t c = 0; c < of->columns; c++) {
            double part = 0;
            for (size_t k = 0; k < of->rows; k++) {
                part += w[i * of->rows + k] * of->right[k * of->columns + c];
            }
            for (size_t k = 0; k < size; k++) {
                of->solution[k * of->columns + c] += z[i * size + k] * part / values[i];
            }
            dev_cv_pay(&owed, of->rows + size);
        }
    }
    return true;
}

static double *matrix_take(const struct cv_image *image)
{
    double *made = dev_cv_scratch(image->array->size);
    for (int64_t row = 0; row < image->rows; row++) {
        dev_cv_load(image, row, made + row * image->columns);
    }
    dev_np_pay(image->array->size);
    return made;
}

// solve(src1, src2[, dst[, flags]]): whether there is a solution, and it
static mp_obj_t solve(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { SRC1, SRC2, DST, FLAGS };
    static const mp_arg_t table[] = {CV_NEEDS(src1), CV_NEEDS(src2), CV_MAY(dst),
                                     CV_MAY_INT(flags, LU)};
    CV_PARSE(table);
    struct cv_image left = dev_cv_take(values[SRC1].u_obj, CV_REALS);
    struct cv_image right = dev_cv_take(values[SRC2].u_obj, CV_REALS);
    mp_int_t how = values[FLAGS].u_int & ~(mp_int_t)NORMAL;
    bool is_square = (how == LU || how == CHOLESKY) && how == values[FLAGS].u_int;
    if (left.channels != 1 || right.channels != 1 || left.type != right.type ||
        left.rows != right.rows || left.rows < left.columns || how < LU || how > QR ||
        (is_square && left.rows != left.columns)) {
        dev_cv_bad("equations have two matrices of one type and as many rows, at least as many as "
                   "unknowns, and DECOMP_LU and DECOMP_CHOLESKY take no more");
    }
    if (left.columns > CV_UNKNOWNS_MAX || right.columns > CV_UNKNOWNS_MAX) {
        dev_cv_bad("of at most 512 unknowns, and as many right sides");
    }
    struct equations of = {(size_t)left.rows,  (size_t)left.columns, (size_t)right.columns,
                           matrix_take(&left), matrix_take(&right),  NULL};
    size_t size = of.unknowns * of.columns;
    of.solution = dev_cv_scratch(size);
    __builtin_memset(of.solution, 0, size * sizeof(double));
    bool is_solved = is_square ? square_solve(&of, how == CHOLESKY) : least_squares(&of);
    struct np_array *made = dev_cv_new(left.type, left.columns, right.columns, 1);
    dev_cv_store(left.type, made->data, of.solution, size);
    mp_obj_t both[] = {mp_obj_new_bool(is_solved), dev_cv_give(values[DST].u_obj, made)};
    return mp_obj_new_tuple(2, both);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_solve_obj, 2, solve);

// solvePnP of walle.cv: where a camera is that sees known points at known places. A first pose is
// of the homography of points in a plane, or of the projection of others; then Levenberg's and
// Marquardt's steps bring it to the least squares of what is seen. Called by scripts, on the VM's
// thread.
#include "vm/cv/cv_pose.h"

#include "vm/cv/cv_calls.h"
#include "vm/cv/cv_points.h"
#include "vm/np/np_matrix.h"

#include <float.h>
#include <math.h>

#define UNKNOWNS   6   // of a pose: three of its turn, three of its shift
#define STEPS_MAX  100 // of the least squares
#define UNBEND_MAX 50  // rounds that take a lens's bending away
#define BENDS      8   // numbers of a lens: k1, k2, p1, p2, k3, k4, k5, k6
#define SIDE_MAX   12
#define NEAR_PLANE 1e-3 // of the second largest spread, where points lie in a plane

struct pose {
    double turn[9];
    double shift[3];
};

struct seen {
    size_t count;
    const double *points; // three numbers of each
    const double *places; // two
    double *straight;     // two: the places of a lens without bends, at a distance of 1
    double fx, fy, cx, cy;
    double bend[BENDS];
    size_t owed;
};

static void bent(const double k[BENDS], double x, double y, double out_two[2])
{
    double r2 = x * x + y * y;
    double by =
        (1 + ((k[4] * r2 + k[1]) * r2 + k[0]) * r2) / (1 + ((k[7] * r2 + k[6]) * r2 + k[5]) * r2);
    out_two[0] = x * by + 2 * k[2] * x * y + k[3] * (r2 + 2 * x * x);
    out_two[1] = y * by + k[2] * (r2 + 2 * y * y) + 2 * k[3] * x * y;
}

static void unbend(struct seen *seen)
{
    for (size_t i = 0; i < seen->count; i++) {
        double x = (seen->places[2 * i] - seen->cx) / seen->fx;
        double y = (seen->places[2 * i + 1] - seen->cy) / seen->fy;
        double *to = seen->straight + 2 * i;
        to[0] = x;
        to[1] = y;
        for (int round = 0; round < UNBEND_MAX; round++) {
            double at[2];
            bent(seen->bend, to[0], to[1], at);
            to[0] += x - at[0];
            to[1] += y - at[1];
        }
        if (!isfinite(to[0]) || !isfinite(to[1])) {
            to[0] = x;
            to[1] = y;
        }
        dev_cv_pay(&seen->owed, UNBEND_MAX * 8);
    }
}

static void product(const double *left, const double *right, double out_product[9])
{
    for (int k = 0; k < 9; k++) {
        const double *row = left + k / 3 * 3;
        const double *column = right + k % 3;
        out_product[k] = row[0] * column[0] + row[1] * column[3] + row[2] * column[6];
    }
}

// --- the first pose

// Adds a row's products with itself to the upper half of a square.
static void square_add(double *square, const double *row, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        for (size_t k = 0; k < size; k++) {
            square[i * size + k] += row[i] * row[k];
        }
    }
}

// The vector that the square does least to.
static bool least_vector(double *square, size_t size, double *out_vector)
{
    double vectors[SIDE_MAX * SIDE_MAX];
    double values[SIDE_MAX];
    if (!dev_np_eigen(square, vectors, values, size)) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        out_vector[i] = vectors[i * size];
    }
    return true;
}

static double length(const double *v, size_t step)
{
    return sqrt(v[0] * v[0] + v[step] * v[step] + v[2 * step] * v[2 * step]);
}

// Makes a turn of a matrix that is nearly one.
static void straighten(double turn[9])
{
    double vector[3];
    dev_cv_turn_vector(turn, vector);
    dev_cv_turn_matrix(vector, turn);
}

// Where points are in the middle, how far they reach, and along which axes (rows, least first).
struct spread {
    double middle[3];
    double axes[9];
    double values[3];
};

static bool spread_of(struct seen *seen, struct spread *out)
{
    *out = (struct spread){{0}, {0}, {0}};
    for (size_t i = 0; i < seen->count; i++) {
        for (int k = 0; k < 3; k++) {
            out->middle[k] += seen->points[3 * i + (size_t)k] / (double)seen->count;
        }
    }
    double square[9] = {0};
    for (size_t i = 0; i < seen->count; i++) {
        const double *at = seen->points + 3 * i;
        const double from[] = {at[0] - out->middle[0], at[1] - out->middle[1],
                               at[2] - out->middle[2]};
        square_add(square, from, 3);
        dev_cv_pay(&seen->owed, 9);
    }
    double columns[9];
    if (!dev_np_eigen(square, columns, out->values, 3) || !(out->values[2] > 0)) {
        return false;
    }
    for (int k = 3; k < 9; k++) {
        out->axes[k] = columns[k % 3 * 3 + k / 3];
    }
    for (int k = 0; k < 3; k++) { // the product of the others, so that axes are a turn
        int one = 3 + (k + 1) % 3;
        int two = 3 + (k + 2) % 3;
        out->axes[k] = out->axes[one] * out->axes[two + 3] - out->axes[two] * out->axes[one + 3];
    }
    return true;
}

static void along_axes(const struct spread *spread, const double *point, double out_three[3])
{
    for (int k = 0; k < 3; k++) {
        const double *axis = spread->axes + 3 * k;
        out_three[k] = axis[0] * (point[0] - spread->middle[0]) +
                       axis[1] * (point[1] - spread->middle[1]) +
                       axis[2] * (point[2] - spread->middle[2]);
    }
}

// A pose of points along their axes becomes one of the points themselves.
static void pose_place(const struct spread *spread, const double turn[9], const double shift[3],
                       struct pose *out)
{
    product(turn, spread->axes, out->turn);
    for (int k = 0; k < 3; k++) {
        const double *row = out->turn + 3 * k;
        out->shift[k] = shift[k] - row[0] * spread->middle[0] - row[1] * spread->middle[1] -
                        row[2] * spread->middle[2];
    }
}

// Of points in a plane: the axes across are its two, the third its normal.
static bool plane_pose(struct seen *seen, const struct spread *spread, struct pose *out)
{
    double square[81] = {0};
    for (size_t i = 0; i < seen->count; i++) {
        double at[3];
        along_axes(spread, seen->points + 3 * i, at);
        const double p[] = {at[1], at[2], 1};
        for (int side = 0; side < 2; side++) {
            double value = seen->straight[2 * i + (size_t)side];
            double row[9] = {0};
            for (int k = 0; k < 3; k++) {
                row[3 * side + k] = p[k];
                row[6 + k] = -value * p[k];
            }
            square_add(square, row, 9);
        }
        dev_cv_pay(&seen->owed, 200);
    }
    double h[9];
    if (!least_vector(square, 9, h)) {
        return false;
    }
    double by = 2 / (length(h, 3) + length(h + 1, 3));
    by = h[8] < 0 ? -by : by;
    double turn[9];
    double shift[3];
    for (int k = 0; k < 3; k++) {
        turn[3 * k + 1] = h[3 * k] * by;
        turn[3 * k + 2] = h[3 * k + 1] * by;
        shift[k] = h[3 * k + 2] * by;
    }
    for (int k = 0; k < 3; k++) { // the first axis is the product of the others
        int one = (k + 1) % 3;
        int two = (k + 2) % 3;
        turn[3 * k] = turn[3 * one + 1] * turn[3 * two + 2] - turn[3 * two + 1] * turn[3 * one + 2];
    }
    straighten(turn);
    pose_place(spread, turn, shift, out);
    return true;
}

// Of points in space: at least six.
static bool space_pose(struct seen *seen, const struct spread *spread, struct pose *out)
{
    const double size = sqrt(spread->values[2] / (double)seen->count);
    double square[SIDE_MAX * SIDE_MAX] = {0};
    for (size_t i = 0; i < seen->count; i++) {
        double at[3];
        along_axes(spread, seen->points + 3 * i, at);
        const double p[] = {at[0] / size, at[1] / size, at[2] / size, 1};
        for (int side = 0; side < 2; side++) {
            double value = seen->straight[2 * i + (size_t)side];
            double row[SIDE_MAX] = {0};
            for (int k = 0; k < 4; k++) {
                row[4 * side + k] = p[k];
                row[8 + k] = -value * p[k];
            }
            square_add(square, row, SIDE_MAX);
        }
        dev_cv_pay(&seen->owed, 300);
    }
    double p[SIDE_MAX];
    if (!least_vector(square, SIDE_MAX, p)) {
        return false;
    }
    double by = 3 / (length(p, 1) + length(p + 4, 1) + length(p + 8, 1));
    by = p[11] < 0 ? -by : by;
    double turn[9];
    double shift[3];
    for (int k = 0; k < 9; k++) {
        turn[k] = p[k / 3 * 4 + k % 3] * by;
    }
    for (int k = 0; k < 3; k++) {
        shift[k] = p[4 * k + 3] * by * size;
    }
    straighten(turn);
    pose_place(spread, turn, shift, out);
    return true;
}

// --- the least squares

static void project(const struct seen *seen, const struct pose *pose, size_t i, double out_two[2])
{
    const double *p = seen->points + 3 * i;
    double at[3];
    for (int k = 0; k < 3; k++) {
        const double *row = pose->turn + 3 * k;
        at[k] = row[0] * p[0] + row[1] * p[1] + row[2] * p[2] + pose->shift[k];
    }
    double by = at[2] != 0 ? 1 / at[2] : 1;
    bent(seen->bend, at[0] * by, at[1] * by, out_two);
    out_two[0] = out_two[0] * seen->fx + seen->cx;
    out_two[1] = out_two[1] * seen->fy + seen->cy;
}

static void pose_move(const struct pose *from, const double by[UNKNOWNS], struct pose *out)
{
    double turn[9];
    dev_cv_turn_matrix(by, turn);
    product(turn, from->turn, out->turn);
    for (int k = 0; k < 3; k++) {
        out->shift[k] = from->shift[k] + by[3 + k];
    }
}

static double squares_of(struct seen *seen, const struct pose *pose)
{
    double sum = 0;
    for (size_t i = 0; i < seen->count; i++) {
        double at[2];
        project(seen, pose, i, at);
        double x = at[0] - seen->places[2 * i];
        double y = at[1] - seen->places[2 * i + 1];
        sum += x * x + y * y;
        dev_cv_pay(&seen->owed, 40);
    }
    return sum;
}

// What a small move does to the squares: the normal equations.
static void normal_equations(struct seen *seen, const struct pose *pose, double scale,
                             double square[UNKNOWNS * UNKNOWNS], double right[UNKNOWNS])
{
    struct pose near[UNKNOWNS][2];
    double width[UNKNOWNS];
    for (int k = 0; k < UNKNOWNS; k++) {
        width[k] = k < 3 ? 1e-6 : 1e-6 * scale;
        for (int side = 0; side < 2; side++) {
            double by[UNKNOWNS] = {0};
            by[k] = side == 0 ? width[k] : -width[k];
            pose_move(pose, by, &near[k][side]);
        }
    }
    __builtin_memset(square, 0, UNKNOWNS * UNKNOWNS * sizeof(double));
    __builtin_memset(right, 0, UNKNOWNS * sizeof(double));
    for (size_t i = 0; i < seen->count; i++) {
        double at[2];
        double rows[2][UNKNOWNS];
        project(seen, pose, i, at);
        for (int k = 0; k < UNKNOWNS; k++) {
            double more[2];
            double less[2];
            project(seen, &near[k][0], i, more);
            project(seen, &near[k][1], i, less);
            rows[0][k] = (more[0] - less[0]) / (2 * width[k]);
            rows[1][k] = (more[1] - less[1]) / (2 * width[k]);
        }
        for (int side = 0; side < 2; side++) {
            double apart = seen->places[2 * i + (size_t)side] - at[side];
            square_add(square, rows[side], UNKNOWNS);
            for (int k = 0; k < UNKNOWNS; k++) {
                right[k] += rows[side][k] * apart;
            }
        }
        dev_cv_pay(&seen->owed, 600);
    }
}

// Where a damped step leads; false: nowhere.
static bool step_of(const double square[UNKNOWNS * UNKNOWNS], const double right[UNKNOWNS],
                    double damping, double out_step[UNKNOWNS])
{
    double lu[UNKNOWNS * UNKNOWNS];
    double work[UNKNOWNS];
    int64_t order[UNKNOWNS];
    double sign;
    __builtin_memcpy(lu, square, sizeof(lu));
    __builtin_memcpy(out_step, right, sizeof(work));
    for (int k = 0; k < UNKNOWNS; k++) {
        lu[k * (UNKNOWNS + 1)] *= 1 + damping;
    }
    if (!dev_np_lu(lu, order, UNKNOWNS, &sign)) {
        return false;
    }
    const struct np_solving solving = {lu, order, UNKNOWNS, 1, work};
    dev_np_lu_solve(&solving, out_step);
    return true;
}

static void refine(struct seen *seen, struct pose *pose)
{
    double damping = 1e-3;
    double squares = squares_of(seen, pose);
    for (int i = 0; i < STEPS_MAX; i++) {
        double square[UNKNOWNS * UNKNOWNS];
        double right[UNKNOWNS];
        double scale = fmax(fabs(pose->shift[2]), 1e-6);
        normal_equations(seen, pose, scale, square, right);
        bool is_better = false;
        double size = 0;
        for (int k = 0; k < 12 && !is_better; k++, damping *= 10) {
            double by[UNKNOWNS];
            struct pose next;
            if (!step_of(square, right, damping, by)) {
                continue;
            }
            pose_move(pose, by, &next);
            double made = squares_of(seen, &next);
            size = length(by, 1) + length(by + 3, 1) / scale;
            is_better = made <= squares;
            if (is_better) {
                *pose = next;
                squares = made;
            }
        }
        damping = fmax(damping / 100, 1e-12);
        if (!is_better || size < 1e-10) {
            return;
        }
    }
}

// --- what scripts give

// Points of `sides` numbers; how many there are.
static const double *rows_take(mp_obj_t value, uint32_t sides, size_t *out_count)
{
    struct cv_image image = dev_cv_take(value, CV_REALS);
    bool is_flat = image.channels == 1 && image.columns == (int64_t)sides;
    if (!is_flat && (image.channels != sides || (image.rows != 1 && image.columns != 1))) {
        dev_cv_bad("points of a pose are arrays of float32 or float64: count x 3, and count x 2");
    }
    size_t size = image.array->size;
    double *made = dev_cv_scratch(size);
    for (int64_t row = 0; row < image.rows; row++) {
        dev_cv_load(&image, row, made + (size_t)row * dev_cv_row_items(&image));
    }
    dev_np_pay(size);
    for (size_t i = 0; i < size; i++) {
        if (!isfinite(made[i])) {
            dev_cv_bad("a point is of finite numbers");
        }
    }
    *out_count = size / sides;
    return made;
}

static void lens_take(struct seen *seen, mp_obj_t camera, mp_obj_t bends)
{
    double m[9];
    dev_cv_matrix(camera, 3, 3, m);
    seen->fx = m[0];
    seen->fy = m[4];
    seen->cx = m[2];
    seen->cy = m[5];
    if (!(fabs(seen->fx) > DBL_MIN) || !(fabs(seen->fy) > DBL_MIN)) {
        dev_cv_bad("a camera's matrix has two focal lengths");
    }
    if (bends == mp_const_none) {
        return;
    }
    struct cv_image image = dev_cv_take_empty(bends, CV_REALS);
    size_t count = image.array->size;
    if (count == 0) {
        return;
    }
    if ((count != 4 && count != 5 && count != BENDS) ||
        (image.rows != 1 && image.columns != 1 && image.channels != 1)) {
        dev_cv_bad("a lens has 4, 5 or 8 numbers, or none");
    }
    for (int64_t row = 0; row < image.rows; row++) {
        dev_cv_load(&image, row, seen->bend + row * (int64_t)dev_cv_row_items(&image));
    }
}

static void guess_take(mp_obj_t rvec, mp_obj_t tvec, struct pose *out)
{
    size_t counts[2];
    const double *turn = rows_take(rvec, 1, &counts[0]);
    const double *shift = rows_take(tvec, 1, &counts[1]);
    if (counts[0] != 3 || counts[1] != 3) {
        dev_cv_bad("rvec and tvec are vectors of 3 numbers");
    }
    dev_cv_turn_matrix(turn, out->turn);
    __builtin_memcpy(out->shift, shift, sizeof(out->shift));
}

static mp_obj_t column_of(mp_obj_t dst, const double numbers[3])
{
    struct np_array *made = dev_cv_new(NP_F64, 3, 1, 1);
    dev_cv_store(NP_F64, made->data, numbers, 3);
    return dev_cv_give(dst, made);
}

// solvePnP(objectPoints, imagePoints, cameraMatrix, distCoeffs[, rvec[, tvec[, useExtrinsicGuess[,
// flags]]]])
static mp_obj_t solve_pnp(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { POINTS, PLACES, CAMERA, BEND, RVEC, TVEC, GUESS, FLAGS };
    static const mp_arg_t table[] = {CV_NEEDS(objectPoints),
                                     CV_NEEDS(imagePoints),
                                     CV_NEEDS(cameraMatrix),
                                     CV_NEEDS(distCoeffs),
                                     CV_MAY(rvec),
                                     CV_MAY(tvec),
                                     {MP_QSTR_useExtrinsicGuess, MP_ARG_BOOL, {.u_bool = false}},
                                     CV_MAY_INT(flags, 0)};
    CV_PARSE(table);
    struct seen seen = {0};
    size_t places;
    bool is_guessed = values[GUESS].u_bool;
    seen.points = rows_take(values[POINTS].u_obj, 3, &seen.count);
    seen.places = rows_take(values[PLACES].u_obj, 2, &places);
    lens_take(&seen, values[CAMERA].u_obj, values[BEND].u_obj);
    if (values[FLAGS].u_int != 0 || seen.count != places || seen.count < (is_guessed ? 3 : 4)) {
        dev_cv_bad("a pose is by SOLVEPNP_ITERATIVE, of as many points as places, and of at least "
                   "four; of three with a guess");
    }
    seen.straight = dev_cv_scratch(2 * seen.count);
    unbend(&seen);
    struct pose pose;
    struct spread spread;
    if (is_guessed) {
        guess_take(values[RVEC].u_obj, values[TVEC].u_obj, &pose);
    } else if (!spread_of(&seen, &spread)) {
        dev_cv_bad("the points of a pose lie upon one another");
    } else {
        bool is_plane = spread.values[0] < NEAR_PLANE * spread.values[1];
        if (!is_plane && seen.count < 6) {
            dev_cv_bad("points that lie in no plane are at least six");
        }
        if (!(is_plane ? plane_pose : space_pose)(&seen, &spread, &pose)) {
            dev_cv_bad("no pose has these points");
        }
    }
    refine(&seen, &pose);
    double turn[3];
    dev_cv_turn_vector(pose.turn, turn);
    mp_obj_t items[] = {mp_const_true, column_of(values[RVEC].u_obj, turn),
                        column_of(values[TVEC].u_obj, pose.shift)};
    return mp_obj_new_tuple(3, items);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_cv_solvePnP_obj, 4, solve_pnp);

// Singular values and eigenvalues, by turning two rows at a time until all are orthogonal (Jacobi,
// 1846; one-sided after Hestenes, 1958). Small values come out as exact as large ones, and the
// vectors are orthogonal to the last bits. Called by walle.np.linalg on the VM's thread.
#include "vm/np/np_matrix.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define EXPONENT_MAX 1000
#define SWEEPS_MAX   60 // ten are many: each about squares how far it is from the end

// (one, other) becomes (c * one - s * other, s * one + c * other).
struct turn {
    double c;
    double s;
};

static void rows_turn(double *restrict one, double *restrict other, struct turn turn, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double left = one[i];
        double right = other[i];
        one[i] = turn.c * left - turn.s * right;
        other[i] = turn.s * left + turn.c * right;
    }
}

// The smaller of the two turns that make `mixed` 0 between squares `one` and `other`.
static struct turn turn_of(double one, double other, double mixed)
{
    double zeta = (other - one) / (2 * mixed);
    double tangent = copysign(1, zeta) / (fabs(zeta) + hypot(1, zeta));
    double c = 1 / hypot(1, tangent);
    return (struct turn){c, c * tangent};
}

static double dot(const double *left, const double *right, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += left[i] * right[i];
    }
    return sum;
}

// The power of two that the largest of the values is below, within what can be multiplied by.
static int exponent_of(const double *values, size_t count, bool *is_finite)
{
    double largest = 0;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(values[i]));
        sum += values[i] * 0; // NaN where one is not finite
    }
    dev_np_pay(count);
    *is_finite = sum == 0;
    int exponent = 0;
    (void)frexp(largest, &exponent);
    return exponent < -EXPONENT_MAX  ? -EXPONENT_MAX
           : exponent > EXPONENT_MAX ? EXPONENT_MAX
                                     : exponent;
}

static void scale(double *values, size_t count, double by)
{
    for (size_t i = 0; i < count; i++) {
        values[i] *= by;
    }
    dev_np_pay(count);
}

// True: every pair was orthogonal already.
static bool sweep(const struct np_turning *turning, double margin)
{
    struct np_meter meter = {0};
    size_t length = turning->length;
    bool is_done = true;
    for (size_t p = 0; p + 1 < turning->rows; p++) {
        for (size_t q = p + 1; q < turning->rows; q++) {
            double *one = turning->w + p * length;
            double *other = turning->w + q * length;
            double mixed = dot(one, other, length);
            double square = dot(one, one, length);
            double other_square = dot(other, other, length);
            dev_np_meter(&meter, 3 * length + 1);
            if (fabs(mixed) <= margin * sqrt(square) * sqrt(other_square)) {
                continue;
            }
            is_done = false;
            struct turn turn = turn_of(square, other_square, mixed);
            rows_turn(one, other, turn, length);
            if (turning->z != NULL) {
                rows_turn(turning->z + p * turning->rows, turning->z + q * turning->rows, turn,
                          turning->rows);
            }
            dev_np_meter(&meter, 2 * length);
        }
    }
    dev_np_pay(meter.owed);
    return is_done;
}

static void rows_exchange(double *rows, size_t length, size_t one, size_t other)
{
    for (size_t i = 0; i < length; i++) {
        double moved = rows[one * length + i];
        rows[one * length + i] = rows[other * length + i];
        rows[other * length + i] = moved;
    }
}

// Largest first; the rows come to length 1.
static void values_take(const struct np_turning *turning, double unit)
{
    struct np_meter meter = {0};
    size_t length = turning->length;
    double *values = turning->values;
    for (size_t i = 0; i < turning->rows; i++) {
        double *row = turning->w + i * length;
        values[i] = sqrt(dot(row, row, length));
        for (size_t k = 0; k < length && values[i] > 0; k++) {
            row[k] /= values[i];
        }
        values[i] *= unit;
        dev_np_meter(&meter, 2 * length);
    }
    for (size_t i = 0; i < turning->rows; i++) {
        size_t best = i;
        for (size_t k = i + 1; k < turning->rows; k++) {
            best = values[k] > values[best] ? k : best;
        }
        double moved = values[i];
        values[i] = values[best];
        values[best] = moved;
        rows_exchange(turning->w, length, i, best);
        if (turning->z != NULL) {
            rows_exchange(turning->z, turning->rows, i, best);
        }
        dev_np_meter(&meter, 2 * length + turning->rows);
    }
    dev_np_pay(meter.owed);
}

bool dev_np_orthogonalise(const struct np_turning *turning)
{
    size_t size = turning->rows * turning->length;
    bool is_finite;
    int exponent = exponent_of(turning->w, size, &is_finite);
    if (!is_finite) {
        return false;
    }
    scale(turning->w, size, ldexp(1, -exponent)); // squares neither overflow nor vanish
    double margin = DBL_EPSILON * (4 + sqrt((double)turning->length));
    for (uint32_t i = 0; i < SWEEPS_MAX; i++) {
        if (sweep(turning, margin)) {
            values_take(turning, ldexp(1, exponent));
            return true;
        }
    }
    return false;
}

// --- rows that are missing

// The unit vector that the rows reach least, without what they reach of it.
static void row_add(double *q, size_t there, size_t length)
{
    double *row = q + there * length;
    struct np_meter meter = {0};
    memset(row, 0, length * sizeof(double));
    for (size_t i = 0; i < there; i++) {
        for (size_t k = 0; k < length; k++) {
            row[k] += q[i * length + k] * q[i * length + k];
        }
        dev_np_meter(&meter, length);
    }
    size_t best = 0;
    for (size_t k = 1; k < length; k++) {
        best = row[k] < row[best] ? k : best;
    }
    memset(row, 0, length * sizeof(double));
    row[best] = 1;
    for (size_t i = 0; i < 2 * there; i++) { // twice: the second time takes what rounding left
        const double *other = q + i % there * length;
        double by = dot(row, other, length);
        for (size_t k = 0; k < length; k++) {
            row[k] -= by * other[k];
        }
        dev_np_meter(&meter, 2 * length);
    }
    scale(row, length, 1 / sqrt(dot(row, row, length)));
    dev_np_pay(meter.owed);
}

void dev_np_basis_complete(double *q, size_t there, size_t rows, size_t length)
{
    for (size_t i = there; i < rows; i++) {
        row_add(q, i, length);
    }
}

// --- symmetric

static void columns_turn(double *a, size_t p, size_t q, struct turn turn, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        double left = a[i * size + p];
        double right = a[i * size + q];
        a[i * size + p] = turn.c * left - turn.s * right;
        a[i * size + q] = turn.s * left + turn.c * right;
    }
}

static bool symmetric_sweep(double *a, double *v, size_t size, double margin)
{
    struct np_meter meter = {0};
    bool is_done = true;
    for (size_t p = 0; p + 1 < size; p++) {
        for (size_t q = p + 1; q < size; q++) {
            double mixed = a[p * size + q];
            if (fabs(mixed) <= margin) {
                continue;
            }
            is_done = false;
            struct turn turn = turn_of(a[p * size + p], a[q * size + q], mixed);
            rows_turn(a + p * size, a + q * size, turn, size);
            columns_turn(a, p, q, turn, size);
            a[p * size + q] = 0;
            a[q * size + p] = 0;
            if (v != NULL) {
                rows_turn(v + p * size, v + q * size, turn, size);
            }
            dev_np_meter(&meter, 6 * size);
        }
        dev_np_meter(&meter, size);
    }
    dev_np_pay(meter.owed);
    return is_done;
}

// Values from the diagonal, least first; rows of v alike, which then become columns.
static void eigen_take(const double *a, double *v, double *values, size_t size)
{
    struct np_meter meter = {0};
    for (size_t i = 0; i < size; i++) {
        values[i] = a[i * size + i];
    }
    for (size_t i = 0; i < size; i++) {
        size_t best = i;
        for (size_t k = i + 1; k < size; k++) {
            best = values[k] < values[best] ? k : best;
        }
        double moved = values[i];
        values[i] = values[best];
        values[best] = moved;
        if (v != NULL) {
            rows_exchange(v, size, i, best);
        }
        dev_np_meter(&meter, 2 * size);
    }
    for (size_t i = 0; v != NULL && i < size; i++) {
        for (size_t k = 0; k < i; k++) {
            double moved = v[i * size + k];
            v[i * size + k] = v[k * size + i];
            v[k * size + i] = moved;
        }
        dev_np_meter(&meter, i);
    }
    dev_np_pay(meter.owed);
}

bool dev_np_eigen(double *a, double *v, double *values, size_t size)
{
    bool is_finite;
    int exponent = exponent_of(a, size * size, &is_finite);
    if (!is_finite) {
        return false;
    }
    scale(a, size * size, ldexp(1, -exponent));
    for (size_t i = 0; v != NULL && i < size; i++) {
        memset(v + i * size, 0, size * sizeof(double));
        v[i * size + i] = 1;
    }
    double margin = DBL_EPSILON * sqrt(dot(a, a, size * size)) / (double)(2 * size + 2);
    for (uint32_t i = 0; i < SWEEPS_MAX; i++) {
        if (symmetric_sweep(a, v, size, margin)) {
            eigen_take(a, v, values, size);
            scale(values, size, ldexp(1, exponent));
            return true;
        }
    }
    return false;
}

// Triangular factors of a matrix: Gauss with pivots, Cholesky, Householder. The innermost loops go
// along rows, which lie densely. Called by walle.np.linalg on the VM's thread, in memory that its
// callers took; nothing is allocated here.
#include "vm/np/np_matrix.h"

#include <math.h>
#include <string.h>

// to -= by * from
static void row_subtract(double *restrict to, const double *restrict from, double by, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] -= by * from[i];
    }
}

static void rows_exchange(double *one, double *other, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double moved = one[i];
        one[i] = other[i];
        other[i] = moved;
    }
}

// --- Gauss

static size_t pivot_of(const double *a, size_t size, size_t k)
{
    size_t best = k;
    for (size_t i = k + 1; i < size; i++) {
        if (fabs(a[i * size + k]) > fabs(a[best * size + k])) {
            best = i;
        }
    }
    return best;
}

bool dev_np_lu(double *a, int64_t *order, size_t size, double *sign)
{
    struct np_meter meter = {0};
    bool is_regular = true;
    *sign = 1;
    for (size_t i = 0; i < size; i++) {
        order[i] = (int64_t)i;
    }
    for (size_t k = 0; k < size; k++) {
        size_t pivot = pivot_of(a, size, k);
        dev_np_meter(&meter, size);
        if (pivot != k) {
            int64_t moved = order[k];
            order[k] = order[pivot];
            order[pivot] = moved;
            *sign = -*sign;
            rows_exchange(a + k * size, a + pivot * size, size);
        }
        if (a[k * size + k] == 0) {
            is_regular = false;
            continue;
        }
        for (size_t i = k + 1; i < size; i++) {
            double by = a[i * size + k] /= a[k * size + k];
            row_subtract(a + i * size + k + 1, a + k * size + k + 1, by, size - k - 1);
            dev_np_meter(&meter, size - k);
        }
    }
    dev_np_pay(meter.owed);
    return is_regular;
}

void dev_np_lu_solve(const struct np_solving *solving, double *b)
{
    size_t size = solving->size;
    size_t columns = solving->columns;
    const double *lu = solving->lu;
    double *x = solving->work;
    struct np_meter meter = {0};
    for (size_t i = 0; i < size; i++) {
        memcpy(x + i * columns, b + (size_t)solving->order[i] * columns, columns * sizeof(double));
        for (size_t k = 0; k < i; k++) {
            row_subtract(x + i * columns, x + k * columns, lu[i * size + k], columns);
            dev_np_meter(&meter, columns);
        }
    }
    for (size_t i = size; i-- > 0;) {
        double *row = x + i * columns;
        for (size_t k = i + 1; k < size; k++) {
            row_subtract(row, x + k * columns, lu[i * size + k], columns);
            dev_np_meter(&meter, columns);
        }
        for (size_t j = 0; j < columns; j++) {
            row[j] /= lu[i * size + i];
        }
    }
    memcpy(b, x, size * columns * sizeof(double));
    dev_np_pay(meter.owed);
}

// --- Cholesky

static double dot(const double *restrict left, const double *restrict right, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += left[i] * right[i];
    }
    return sum;
}

bool dev_np_cholesky(double *a, size_t size)
{
    struct np_meter meter = {0};
    for (size_t i = 0; i < size; i++) {
        double *row = a + i * size;
        for (size_t j = 0; j < i; j++) {
            const double *other = a + j * size;
            row[j] = (row[j] - dot(row, other, j)) / other[j];
            dev_np_meter(&meter, j + 1);
        }
        double left = row[i] - dot(row, row, i);
        if (!(left > 0)) {
            return false;
        }
        row[i] = sqrt(left);
        for (size_t j = i + 1; j < size; j++) {
            row[j] = 0;
        }
    }
    dev_np_pay(meter.owed);
    return true;
}

// --- Householder

// to -= tau * v (v' to), v being column `at` of the reflections, in columns `from` to `columns`.
struct reflection {
    const double *v; // below its first element, which is 1
    size_t v_step;
    size_t rows;
    double tau;
    double *work;
};

static void reflect(const struct reflection *by, double *to, size_t step, size_t columns)
{
    struct np_meter meter = {0};
    if (by->tau == 0 || columns == 0) {
        return;
    }
    memcpy(by->work, to, columns * sizeof(double));
    for (size_t i = 1; i < by->rows; i++) {
        row_subtract(by->work, to + i * step, -by->v[i * by->v_step], columns);
        dev_np_meter(&meter, columns);
    }
    row_subtract(to, by->work, by->tau, columns);
    for (size_t i = 1; i < by->rows; i++) {
        row_subtract(to + i * step, by->work, by->tau * by->v[i * by->v_step], columns);
        dev_np_meter(&meter, columns);
    }
    dev_np_pay(meter.owed);
}

// The reflection that takes a column to its first element; gives its factor.
static double reflection_make(double *column, size_t rows, size_t step)
{
    double largest = 0;
    double square = 0;
    for (size_t i = 1; i < rows; i++) {
        largest = fmax(largest, fabs(column[i * step]));
    }
    if (largest == 0) {
        return 0;
    }
    for (size_t i = 1; i < rows; i++) {
        square += column[i * step] / largest * (column[i * step] / largest);
    }
    double beta = -copysign(hypot(column[0], largest * sqrt(square)), column[0]);
    double by = column[0] - beta;
    for (size_t i = 1; i < rows; i++) {
        column[i * step] /= by;
    }
    double tau = -by / beta;
    column[0] = beta;
    return tau;
}

void dev_np_qr(const struct np_qr *qr)
{
    size_t columns = qr->columns;
    for (size_t k = 0; k < qr->rows && k < columns; k++) {
        double *at = qr->a + k * columns + k;
        qr->tau[k] = reflection_make(at, qr->rows - k, columns);
        dev_np_pay(qr->rows - k);
        struct reflection by = {at, columns, qr->rows - k, qr->tau[k], qr->work};
        reflect(&by, at + 1, columns, columns - k - 1);
    }
}

void dev_np_qr_form(const struct np_qr *qr, double *q, size_t wanted)
{
    size_t columns = qr->columns;
    memset(q, 0, qr->rows * wanted * sizeof(double));
    for (size_t i = 0; i < qr->rows && i < wanted; i++) {
        q[i * wanted + i] = 1;
    }
    for (size_t k = qr->rows < columns ? qr->rows : columns; k-- > 0;) {
        struct reflection by = {qr->a + k * columns + k, columns, qr->rows - k, qr->tau[k],
                                qr->work};
        reflect(&by, q + k * wanted + k, wanted, wanted - k);
    }
}

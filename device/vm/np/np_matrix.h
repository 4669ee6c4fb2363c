// walle.np.linalg: what its files share: matrices as they are worked on, and the kernels.
//
// A matrix is float64, row by row, whatever the type of the array that it comes from. Kernels work
// in place, in memory that their callers took from the heap of the VM, and count their work: a run
// over its budget is ended within them.
#ifndef DEV_NP_MATRIX_H
#define DEV_NP_MATRIX_H

#include "vm/np/np.h"

// A stack of matrices: a copy that may be written to.
struct np_matrices {
    struct np_array *array; // float64, dense, of 2 dimensions or more
    double *data;           // its elements
    size_t count;           // matrices
    size_t rows;
    size_t columns;
    enum np_type type; // of results: float32 of a float32, else float64
};

struct np_meter {
    size_t owed;
};
// Counts `elements` gone through; pays when NP_CHUNK of them have come together.
static inline void dev_np_meter(struct np_meter *meter, size_t elements)
{
    meter->owed += elements;
    if (meter->owed >= NP_CHUNK) {
        dev_np_pay(meter->owed);
        meter->owed = 0;
    }
}

extern const mp_obj_type_t dev_np_linalg_error_type; // LinAlgError
_Noreturn void dev_np_raise_linalg(mp_rom_error_text_t message);

// --- np_linalg.c
// Raises LinAlgError for less than 2 dimensions, or where they have to be square and are not.
struct np_matrices dev_np_matrices(mp_obj_t a, bool is_square);
// A stack of as many matrices of this size. Zeros; float64.
struct np_array *dev_np_stack_new(const struct np_matrices *like, size_t rows, size_t columns);
mp_obj_t dev_np_typed(const struct np_matrices *like, struct np_array *made); // in its result type
static inline double *dev_np_reals(struct np_array *array)
{
    return (double *)(void *)array->data;
}
mp_obj_t dev_np_inv(mp_obj_t a);
// Singular values alone, largest first: (..., smaller of rows and columns), float64.
struct np_array *dev_np_singular_values(const struct np_matrices *of); // np_svd.c

// --- np_factor.c
// Rows change places so that pivots are large; `order[i]` is the row that came to i. False: a pivot
// is 0, and the determinant with it. `sign` is -1 where an odd number of rows changed places.
bool dev_np_lu(double *a, int64_t *order, size_t size, double *sign);
// b, of `columns` columns, becomes the solution; `work` is as large as b.
struct np_solving {
    const double *lu;
    const int64_t *order;
    size_t size;
    size_t columns;
    double *work;
};
void dev_np_lu_solve(const struct np_solving *solving, double *b);
bool dev_np_cholesky(double *a, size_t size); // the lower half; false: not positive definite
// Householder's: R on and above the diagonal, the reflections below it, their factors in `tau`.
struct np_qr {
    double *a;
    double *tau;  // of the smaller of rows and columns
    double *work; // of the larger
    size_t rows;
    size_t columns;
};
void dev_np_qr(const struct np_qr *qr);
void dev_np_qr_form(const struct np_qr *qr, double *q, size_t wanted); // rows x wanted

// --- np_spectral.c
// Rows of w (rows <= length) are turned until each is orthogonal to the others; the rows of z,
// square, are turned alike. `values` are their lengths then, and the rows have length 1, but those
// of length 0. Largest first. False: w has no finite numbers, or it did not end.
struct np_turning {
    double *w;
    double *z; // NULL: not wanted
    double *values;
    size_t rows;
    size_t length;
};
bool dev_np_orthogonalise(const struct np_turning *turning);
// Gives q, `rows` orthonormal rows of `length` of which the first `there` are given, the others.
void dev_np_basis_complete(double *q, size_t there, size_t rows, size_t length);
// Of a symmetric matrix: eigenvalues, least first, and (not NULL) as columns of v the vectors.
// False: it did not end. a is used up.
bool dev_np_eigen(double *a, double *v, double *values, size_t size);

#endif

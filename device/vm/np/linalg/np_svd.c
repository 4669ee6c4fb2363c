// walle.np.linalg: what is made of singular values and of eigenvalues. Signs of vectors are not
// those of NumPy, whose own are chosen by its library; what they are of is the same. Called by
// scripts through the module's table, on the VM's thread.
#include "vm/np/np_calls.h"
#include "vm/np/linalg/np_linalg.h"
#include "vm/np/np_math.h"
#include "vm/np/np_matrix.h"

#include <float.h>
#include <math.h>
#include <string.h>

// The singular values of one matrix and, in rows, the vectors: `wide` of the longer side, `square`
// of the shorter.
struct svd {
    struct np_array *wide;   // (full: longer, else shorter) x longer
    struct np_array *square; // shorter x shorter; NULL: no vectors are wanted
    struct np_array *values; // shorter
    size_t shorter;
    size_t longer;
    bool is_tall; // the longer side are the rows
};

static struct svd svd_new(const struct np_matrices *of, bool with_vectors, bool is_full)
{
    struct svd svd = {.is_tall = of->rows >= of->columns};
    svd.longer = svd.is_tall ? of->rows : of->columns;
    svd.shorter = svd.is_tall ? of->columns : of->rows;
    const int64_t wide[2] = {(int64_t)(is_full ? svd.longer : svd.shorter), (int64_t)svd.longer};
    const int64_t square[2] = {(int64_t)svd.shorter, (int64_t)svd.shorter};
    svd.wide = dev_np_new(NP_F64, 2, wide);
    svd.values = dev_np_new(NP_F64, 1, square);
    svd.square = with_vectors ? dev_np_new(NP_F64, 2, square) : NULL;
    return svd;
}

static void svd_run(const struct svd *svd, const double *a)
{
    double *wide = dev_np_reals(svd->wide);
    double *square = svd->square == NULL ? NULL : dev_np_reals(svd->square);
    double *values = dev_np_reals(svd->values);
    for (size_t i = 0; i < svd->shorter; i++) {
        for (size_t k = 0; k < svd->longer; k++) {
            wide[i * svd->longer + k] =
                a[svd->is_tall ? k * svd->shorter + i : i * svd->longer + k];
        }
    }
    for (size_t i = 0; square != NULL && i < svd->shorter; i++) {
        memset(square + i * svd->shorter, 0, svd->shorter * sizeof(double));
        square[i * svd->shorter + i] = 1;
    }
    dev_np_pay(svd->shorter * svd->longer);
    struct np_turning turning = {wide, square, values, svd->shorter, svd->longer};
    if (!dev_np_orthogonalise(&turning)) {
        dev_np_raise_linalg(MP_ERROR_TEXT("walle.np.linalg: SVD did not converge"));
    }
    size_t there = 0;
    while (there < svd->shorter && values[there] > 0) {
        there++;
    }
    if (square != NULL) {
        dev_np_basis_complete(wide, there, (size_t)svd->wide->dims[0], svd->longer);
    }
    dev_vm_step();
}

static struct np_array *values_new(const struct np_matrices *of)
{
    int64_t dims[NP_RANK];
    uint32_t rank = of->array->rank - 1;
    memcpy(dims, of->array->dims, rank * sizeof(int64_t));
    dims[rank - 1] = (int64_t)(of->rows < of->columns ? of->rows : of->columns);
    return dev_np_new(NP_F64, rank, dims);
}

struct np_array *dev_np_singular_values(const struct np_matrices *of)
{
    struct np_array *made = values_new(of);
    struct svd svd = svd_new(of, false, false);
    for (size_t i = 0; i < of->count; i++) {
        svd_run(&svd, of->data + i * of->rows * of->columns);
        memcpy(dev_np_reals(made) + i * svd.shorter, svd.values->data,
               svd.shorter * sizeof(double));
    }
    return made;
}

// Rows become columns where `is_turned`; `rows` of them are of length `length`.
static void vectors_copy(double *to, const struct np_array *from, bool is_turned)
{
    size_t rows = (size_t)from->dims[0];
    size_t length = (size_t)from->dims[1];
    const double *at = (const double *)(const void *)from->data;
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < length; k++) {
            to[is_turned ? k * rows + i : i * length + k] = at[i * length + k];
        }
    }
    dev_np_pay(rows * length);
}

static mp_obj_t svd(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, FULL_MATRICES, COMPUTE_UV, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_full_matrices, MP_ARG_BOOL, {.u_bool = true}},
        {MP_QSTR_compute_uv, MP_ARG_BOOL, {.u_bool = true}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct np_matrices a = dev_np_matrices(values[A].u_obj, false);
    if (!values[COMPUTE_UV].u_bool) {
        return dev_np_typed(&a, dev_np_singular_values(&a));
    }
    struct svd svd = svd_new(&a, true, values[FULL_MATRICES].u_bool);
    size_t wide = (size_t)svd.wide->dims[0];
    size_t inner = svd.shorter;
    struct np_array *u = dev_np_stack_new(&a, a.rows, svd.is_tall ? wide : inner);
    struct np_array *s = values_new(&a);
    struct np_array *vh = dev_np_stack_new(&a, svd.is_tall ? inner : wide, a.columns);
    for (size_t i = 0; i < a.count; i++) {
        svd_run(&svd, a.data + i * a.rows * a.columns);
        double *left = dev_np_reals(u) + i * a.rows * (svd.is_tall ? wide : inner);
        double *right = dev_np_reals(vh) + i * a.columns * (svd.is_tall ? inner : wide);
        vectors_copy(left, svd.is_tall ? svd.wide : svd.square, true);
        vectors_copy(right, svd.is_tall ? svd.square : svd.wide, false);
        memcpy(dev_np_reals(s) + i * inner, svd.values->data, inner * sizeof(double));
    }
    mp_obj_t made[] = {dev_np_typed(&a, u), dev_np_typed(&a, s), dev_np_typed(&a, vh)};
    return mp_obj_new_tuple(3, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_svd_obj, 1, svd);

// --- rank

static double epsilon_of(enum np_type type)
{
    return type == NP_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
}

static size_t larger(size_t one, size_t other)
{
    return one > other ? one : other;
}

static mp_obj_t matrix_rank(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, TOL, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_A, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_tol, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    if (dev_np_of(values[A].u_obj)->rank < 2) {
        return MP_OBJ_NEW_SMALL_INT(mp_obj_is_true(dev_np_any(values[A].u_obj)) ? 1 : 0);
    }
    struct np_matrices a = dev_np_matrices(values[A].u_obj, false);
    struct np_array *singular = dev_np_singular_values(&a);
    const double *at = dev_np_reals(singular);
    size_t inner = a.rows < a.columns ? a.rows : a.columns;
    bool is_told = values[TOL].u_obj != mp_const_none;
    double told = is_told ? (double)mp_obj_get_float(values[TOL].u_obj) : 0;
    if (inner == 0 && !is_told) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.linalg: no values have no largest"));
    }
    struct np_array *made = dev_np_new(NP_I64, a.array->rank - 2, a.array->dims);
    int64_t *ranks = (int64_t *)(void *)made->data;
    for (size_t i = 0; i < a.count; i++) {
        double largest = inner == 0 ? 0 : at[i * inner];
        double limit =
            is_told ? told : largest * (double)larger(a.rows, a.columns) * epsilon_of(a.type);
        for (size_t k = 0; k < inner; k++) {
            ranks[i] += at[i * inner + k] > limit;
        }
    }
    return dev_np_result(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_matrix_rank_obj, 1, matrix_rank);

// --- pseudo-inverse and least squares

// to (columns x wanted) = the pseudo-inverse times b (rows x wanted; NULL: the unit matrix),
// without values up to `limit`; gives how many are above it.
struct inverting {
    const struct svd *svd;
    double limit;
    size_t wanted;
    const double *b;
};

static int64_t inverse_times(const struct inverting *by, double *to)
{
    const struct svd *svd = by->svd;
    const double *values = dev_np_reals(svd->values);
    const double *left = dev_np_reals(svd->is_tall ? svd->wide : svd->square);
    const double *right = dev_np_reals(svd->is_tall ? svd->square : svd->wide);
    size_t rows = svd->is_tall ? svd->longer : svd->shorter;
    size_t columns = svd->is_tall ? svd->shorter : svd->longer;
    struct np_meter meter = {0};
    size_t used = 0;
    for (; used < svd->shorter && values[used] > by->limit; used++) {
        // The vector of the rows' side; a square one has its vectors in rows as well.
        const double *u = left + used * rows;
        const double *v = right + used * columns;
        for (size_t j = 0; j < by->wanted; j++) {
            double sum = 0;
            for (size_t i = 0; by->b != NULL && i < rows; i++) {
                sum += u[i] * by->b[i * by->wanted + j];
            }
            sum = (by->b != NULL ? sum : u[j]) / values[used];
            for (size_t i = 0; i < columns; i++) {
                to[i * by->wanted + j] += sum * v[i];
            }
            dev_np_meter(&meter, rows + columns);
        }
    }
    dev_np_pay(meter.owed);
    return (int64_t)used;
}

static mp_obj_t pinv(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, RCOND, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_rcond, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    bool is_told = values[RCOND].u_obj != mp_const_none;
    double share = is_told ? (double)mp_obj_get_float(values[RCOND].u_obj) : 1e-15;
    struct np_matrices a = dev_np_matrices(values[A].u_obj, false);
    struct np_array *made = dev_np_stack_new(&a, a.columns, a.rows);
    if (a.rows == 0 || a.columns == 0) { // NumPy keeps the type of what is empty
        return MP_OBJ_FROM_PTR(dev_np_cast(made, dev_np_of(values[A].u_obj)->type));
    }
    struct svd svd = svd_new(&a, true, false);
    for (size_t i = 0; made->size > 0 && i < a.count; i++) {
        svd_run(&svd, a.data + i * a.rows * a.columns);
        struct inverting by = {&svd, share * *dev_np_reals(svd.values), a.rows, NULL};
        (void)inverse_times(&by, dev_np_reals(made) + i * a.rows * a.columns);
    }
    return dev_np_typed(&a, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_pinv_obj, 1, pinv);

// Sums of the squares of what is left over, for each column.
static void residuals_make(const struct np_matrices *a, const struct np_array *b,
                           struct np_array *x, struct np_array *to)
{
    size_t wanted = to->size;
    const double *right = (const double *)(const void *)b->data;
    double *sums = dev_np_reals(to);
    struct np_meter meter = {0};
    for (size_t i = 0; i < a->rows; i++) {
        for (size_t j = 0; j < wanted; j++) {
            double left = right[i * wanted + j];
            for (size_t k = 0; k < a->columns; k++) {
                left -= a->data[i * a->columns + k] * dev_np_reals(x)[k * wanted + j];
            }
            sums[j] += left * left;
            dev_np_meter(&meter, a->columns + 1);
        }
    }
    dev_np_pay(meter.owed);
}

// lstsq(a, b, rcond=-1): (x, sums of squares left, rank, singular values)
static mp_obj_t lstsq(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, B, RCOND, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_b, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_rcond, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(-1)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct np_matrices a = dev_np_matrices(values[A].u_obj, false);
    const struct np_array *given = dev_np_of(values[B].u_obj);
    bool is_vector = given->rank == 1;
    if (a.array->rank != 2 || given->rank < 1 || given->rank > 2) {
        dev_np_raise_linalg(MP_ERROR_TEXT("walle.np.linalg: lstsq is of one matrix"));
    }
    if ((size_t)given->dims[0] != a.rows) {
        dev_np_raise_linalg(MP_ERROR_TEXT("walle.np.linalg: Incompatible dimensions"));
    }
    a.type = a.type == NP_F32 && given->type == NP_F32 ? NP_F32 : NP_F64;
    struct np_array *b = dev_np_cast(given, NP_F64);
    int64_t dims[2] = {(int64_t)a.columns, is_vector ? 1 : given->dims[1]};
    struct np_array *x = dev_np_new(NP_F64, is_vector ? 1 : 2, dims);
    struct svd svd = svd_new(&a, true, false);
    double share = values[RCOND].u_obj == mp_const_none
                       ? (double)larger(a.rows, a.columns) * epsilon_of(a.type)
                       : (double)mp_obj_get_float(values[RCOND].u_obj);
    share = share < 0 ? epsilon_of(a.type) : share;
    svd_run(&svd, a.data);
    double largest = svd.shorter > 0 ? *dev_np_reals(svd.values) : 0;
    struct inverting by = {&svd, share * largest, (size_t)dims[1], dev_np_reals(b)};
    int64_t rank = inverse_times(&by, dev_np_reals(x));
    bool is_over = (size_t)rank == a.columns && a.rows > a.columns;
    int64_t sums = is_over ? dims[1] : 0;
    struct np_array *left = dev_np_new(NP_F64, 1, &sums);
    if (is_over) {
        residuals_make(&a, b, x, left);
    }
    mp_obj_t made[] = {dev_np_typed(&a, x), dev_np_typed(&a, left), mp_obj_new_int_from_ll(rank),
                       dev_np_typed(&a, svd.values)};
    return mp_obj_new_tuple(4, made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_lstsq_obj, 2, lstsq);

// --- symmetric matrices

// The half that is not looked at becomes what the other is.
static void halves_match(double *a, size_t size, bool of_lower)
{
    for (size_t i = 0; i < size; i++) {
        for (size_t k = 0; k < i; k++) {
            double *low = a + i * size + k;
            double *high = a + k * size + i;
            *(of_lower ? high : low) = *(of_lower ? low : high);
        }
    }
    dev_np_pay(size * size);
}

static mp_obj_t eigen(size_t count, const mp_obj_t *args, mp_map_t *named, bool with_vectors)
{
    enum { A, UPLO, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_UPLO, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_L)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const char *half = mp_obj_str_get_str(values[UPLO].u_obj);
    bool is_lower = half[0] == 'L' || half[0] == 'l';
    if ((!is_lower && half[0] != 'U' && half[0] != 'u') || half[1] != 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.linalg: UPLO is 'L' or 'U'"));
    }
    struct np_matrices a = dev_np_matrices(values[A].u_obj, true);
    struct np_array *v = with_vectors ? dev_np_stack_new(&a, a.rows, a.rows) : NULL;
    struct np_array *w = values_new(&a);
    for (size_t i = 0; i < a.count; i++) {
        double *one = a.data + i * a.rows * a.rows;
        double *vectors = v == NULL ? NULL : dev_np_reals(v) + i * a.rows * a.rows;
        halves_match(one, a.rows, is_lower);
        if (!dev_np_eigen(one, vectors, dev_np_reals(w) + i * a.rows, a.rows)) {
            dev_np_raise_linalg(MP_ERROR_TEXT("walle.np.linalg: Eigenvalues did not converge"));
        }
        dev_vm_step();
    }
    if (v == NULL) {
        return dev_np_typed(&a, w);
    }
    mp_obj_t made[] = {dev_np_typed(&a, w), dev_np_typed(&a, v)};
    return mp_obj_new_tuple(2, made);
}

static mp_obj_t eigh(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return eigen(count, args, named, true);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_eigh_obj, 1, eigh);

static mp_obj_t eigvalsh(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return eigen(count, args, named, false);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_eigvalsh_obj, 1, eigvalsh);

// The module `walle.np.linalg`: its table, and what is made of triangular factors. Arguments, types
// of results and kinds of errors are NumPy's; all is computed in float64. Called by scripts through
// the module's table, on the VM's thread.
#include "vm/np/linalg/np_linalg.h"

#include "vm/np/np_calls.h"
#include "vm/np/np_math.h"
#include "vm/np/np_matrix.h"

#include "py/objexcept.h"
#include "py/objmodule.h"

#include <math.h>
#include <string.h>

MP_DEFINE_CONST_OBJ_TYPE(dev_np_linalg_error_type, MP_QSTR_LinAlgError, MP_TYPE_FLAG_NONE, make_new,
                         mp_obj_exception_make_new, print, mp_obj_exception_print, attr,
                         mp_obj_exception_attr, parent, &mp_type_ValueError);

_Noreturn void dev_np_raise_linalg(mp_rom_error_text_t message)
{
    mp_raise_msg(&dev_np_linalg_error_type, message);
}

// --- stacks of matrices

static void matrices_check(const struct np_array *a, bool is_square)
{
    if (a->rank < 2) {
        dev_np_raise_linalg(MP_ERROR_TEXT("walle.np.linalg: a matrix has 2 dimensions or more"));
    }
    if (is_square && a->dims[a->rank - 1] != a->dims[a->rank - 2]) {
        dev_np_raise_linalg(MP_ERROR_TEXT("walle.np.linalg: the last 2 dimensions differ"));
    }
}

struct np_matrices dev_np_matrices(mp_obj_t a, bool is_square)
{
    const struct np_array *given = dev_np_of(a);
    struct np_matrices made = {.type = given->type == NP_F32 ? NP_F32 : NP_F64, .count = 1};
    matrices_check(given, is_square);
    made.array = dev_np_cast(given, NP_F64);
    made.data = dev_np_reals(made.array);
    made.rows = (size_t)given->dims[given->rank - 2];
    made.columns = (size_t)given->dims[given->rank - 1];
    for (uint32_t d = 0; d + 2 < given->rank; d++) {
        made.count *= (size_t)given->dims[d];
    }
    return made;
}

struct np_array *dev_np_stack_new(const struct np_matrices *like, size_t rows, size_t columns)
{
    int64_t dims[NP_RANK];
    uint32_t rank = like->array->rank;
    memcpy(dims, like->array->dims, rank * sizeof(int64_t));
    dims[rank - 2] = (int64_t)rows;
    dims[rank - 1] = (int64_t)columns;
    return dev_np_new(NP_F64, rank, dims);
}

mp_obj_t dev_np_typed(const struct np_matrices *like, struct np_array *made)
{
    return dev_np_result(like->type == NP_F32 ? dev_np_cast(made, NP_F32) : made);
}

// One number for each matrix.
static struct np_array *numbers_new(const struct np_matrices *like)
{
    return dev_np_new(NP_F64, like->array->rank - 2, like->array->dims);
}

// --- determinants

// Signs and logarithms of the determinants, or (logarithms NULL) the determinants.
static void determinants(const struct np_matrices *a, double *signs, double *logarithms)
{
    size_t size = a->rows;
    const int64_t dims = (int64_t)size;
    struct np_array *order = dev_np_new(NP_I64, 1, &dims);
    for (size_t i = 0; i < a->count; i++) {
        double *one = a->data + i * size * size;
        double sign;
        bool is_regular = dev_np_lu(one, (int64_t *)(void *)order->data, size, &sign);
        double product = is_regular ? sign : 0;
        double sum = is_regular ? 0 : -(double)INFINITY;
        for (size_t k = 0; k < size && is_regular; k++) {
            double pivot = one[k * size + k];
            product *= logarithms == NULL ? pivot : copysign(1, pivot);
            sum += logarithms == NULL ? 0 : log(fabs(pivot));
        }
        signs[i] = product;
        if (logarithms != NULL) {
            logarithms[i] = sum;
        }
        dev_vm_step();
    }
}

static mp_obj_t det(mp_obj_t a)
{
    struct np_matrices matrices = dev_np_matrices(a, true);
    struct np_array *made = numbers_new(&matrices);
    determinants(&matrices, dev_np_reals(made), NULL);
    return dev_np_typed(&matrices, made);
}
static MP_DEFINE_CONST_FUN_OBJ_1(det_obj, det);

static mp_obj_t slogdet(mp_obj_t a)
{
    struct np_matrices matrices = dev_np_matrices(a, true);
    struct np_array *signs = numbers_new(&matrices);
    struct np_array *logarithms = numbers_new(&matrices);
    determinants(&matrices, dev_np_reals(signs), dev_np_reals(logarithms));
    mp_obj_t both[] = {dev_np_typed(&matrices, signs), dev_np_typed(&matrices, logarithms)};
    return mp_obj_new_tuple(2, both);
}
static MP_DEFINE_CONST_FUN_OBJ_1(slogdet_obj, slogdet);

// --- equations

// Each matrix of `a` becomes its factors, each of `b` (of `columns` columns) the solution.
static void equations_solve(const struct np_matrices *a, struct np_array *b, size_t columns)
{
    size_t size = a->rows;
    const int64_t dims[2] = {(int64_t)size, (int64_t)columns};
    struct np_array *order = dev_np_new(NP_I64, 1, dims);
    struct np_array *work = dev_np_new(NP_F64, 2, dims);
    double *right = dev_np_reals(b);
    for (size_t i = 0; i < a->count; i++) {
        double *one = a->data + i * size * size;
        double sign;
        int64_t *rows = (int64_t *)(void *)order->data;
        if (!dev_np_lu(one, rows, size, &sign)) {
            dev_np_raise_linalg(MP_ERROR_TEXT("walle.np.linalg: Singular matrix"));
        }
        struct np_solving solving = {one, rows, size, columns, dev_np_reals(work)};
        dev_np_lu_solve(&solving, right + i * size * columns);
        dev_vm_step();
    }
}

mp_obj_t dev_np_inv(mp_obj_t a)
{
    struct np_matrices matrices = dev_np_matrices(a, true);
    size_t size = matrices.rows;
    struct np_array *made = dev_np_new(NP_F64, matrices.array->rank, matrices.array->dims);
    double *at = dev_np_reals(made);
    for (size_t i = 0; i < matrices.count * size; i++) {
        at[i * size + i % size] = 1;
    }
    dev_np_pay(matrices.count * size);
    equations_solve(&matrices, made, size);
    return dev_np_typed(&matrices, made);
}
static MP_DEFINE_CONST_FUN_OBJ_1(inv_obj, dev_np_inv);

// solve(a, b): b is of vectors where it has one dimension less than a
static mp_obj_t solve(mp_obj_t a_object, mp_obj_t b_object)
{
    const struct np_array *a = dev_np_of(a_object);
    const struct np_array *b = dev_np_of(b_object);
    matrices_check(a, true);
    bool is_vector = b->rank + 1 == a->rank;
    const struct np_array *tall = is_vector ? dev_np_expanded(b, b->rank) : b;
    if (tall->rank < 2 || tall->dims[tall->rank - 2] != a->dims[a->rank - 1]) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.linalg: b has not as many rows as a"));
    }
    struct np_array heads[2] = {*a, *tall}; // the stacks alone
    const struct np_array *both[] = {&heads[0], &heads[1]};
    struct np_array shape;
    heads[0].rank -= 2;
    heads[1].rank -= 2;
    dev_np_broadcast_dims(both, 2, &shape);
    int64_t dims[NP_RANK + 2];
    uint32_t rank = shape.rank + 2;
    memcpy(dims, shape.dims, shape.rank * sizeof(int64_t));
    dims[rank - 2] = dims[rank - 1] = a->dims[a->rank - 1];
    struct np_array wide = dev_np_stretched(a, rank, dims);
    struct np_matrices matrices = dev_np_matrices(MP_OBJ_FROM_PTR(dev_np_view(&wide)), true);
    dims[rank - 1] = tall->dims[tall->rank - 1];
    struct np_array wide_b = dev_np_stretched(tall, rank, dims);
    struct np_array *made = dev_np_cast(&wide_b, NP_F64);
    equations_solve(&matrices, made, (size_t)dims[rank - 1]);
    matrices.type = a->type == NP_F32 && b->type == NP_F32 ? NP_F32 : NP_F64;
    made->rank -= is_vector ? 1 : 0;
    return dev_np_typed(&matrices, made);
}
static MP_DEFINE_CONST_FUN_OBJ_2(solve_obj, solve);

static mp_obj_t cholesky(mp_obj_t a)
{
    struct np_matrices matrices = dev_np_matrices(a, true);
    for (size_t i = 0; i < matrices.count; i++) {
        if (!dev_np_cholesky(matrices.data + i * matrices.rows * matrices.rows, matrices.rows)) {
            dev_np_raise_linalg(MP_ERROR_TEXT("walle.np.linalg: Matrix is not positive definite"));
        }
        dev_vm_step();
    }
    return dev_np_typed(&matrices, matrices.array);
}
static MP_DEFINE_CONST_FUN_OBJ_1(cholesky_obj, cholesky);

// --- qr(a, mode='reduced')

static void upper_take(double *to, const double *from, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = i; k < columns; k++) {
            to[i * columns + k] = from[i * columns + k];
        }
    }
    dev_np_pay(rows * columns);
}

static mp_obj_t qr(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, MODE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_mode, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_reduced)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const char *mode = mp_obj_str_get_str(values[MODE].u_obj);
    bool is_complete = strcmp(mode, "complete") == 0;
    bool only_r = strcmp(mode, "r") == 0;
    if (!is_complete && !only_r && strcmp(mode, "reduced") != 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np.linalg: mode is 'reduced', 'complete' or 'r'"));
    }
    struct np_matrices a = dev_np_matrices(values[A].u_obj, false);
    size_t least = a.rows < a.columns ? a.rows : a.columns;
    size_t wanted = is_complete ? a.rows : least;
    int64_t sizes = (int64_t)(a.rows + a.columns);
    struct np_array *r = dev_np_stack_new(&a, wanted, a.columns);
    struct np_array *q = only_r ? NULL : dev_np_stack_new(&a, a.rows, wanted);
    struct np_array *tau = dev_np_new(NP_F64, 1, &sizes);
    struct np_array *work = dev_np_new(NP_F64, 1, &sizes);
    for (size_t i = 0; i < a.count; i++) {
        struct np_qr qr = {a.data + i * a.rows * a.columns, dev_np_reals(tau), dev_np_reals(work),
                           a.rows, a.columns};
        dev_np_qr(&qr);
        upper_take(dev_np_reals(r) + i * wanted * a.columns, qr.a, least, a.columns);
        if (q != NULL) {
            dev_np_qr_form(&qr, dev_np_reals(q) + i * a.rows * wanted, wanted);
        }
        dev_vm_step();
    }
    if (q == NULL) {
        return dev_np_typed(&a, r);
    }
    mp_obj_t both[] = {dev_np_typed(&a, q), dev_np_typed(&a, r)};
    return mp_obj_new_tuple(2, both);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(qr_obj, 1, qr);

// matrix_power(a, n): products of squares
static mp_obj_t matrix_power(mp_obj_t a, mp_obj_t n)
{
    const struct np_array *given = dev_np_of(a);
    matrices_check(given, true);
    mp_int_t power = mp_obj_get_int(n);
    mp_obj_t square = power < 0 ? dev_np_inv(MP_OBJ_FROM_PTR(given)) : MP_OBJ_FROM_PTR(given);
    if (power == 0) {
        struct np_array *made = dev_np_new(given->type, given->rank, given->dims);
        size_t size = (size_t)given->dims[given->rank - 1];
        size_t item = dev_np_item(given->type);
        for (size_t i = 0; size > 0 && i < made->size / size; i++) {
            dev_np_set(made->type, made->data + (i * size + i % size) * item,
                       MP_OBJ_NEW_SMALL_INT(1));
        }
        return MP_OBJ_FROM_PTR(made);
    }
    mp_obj_t made = MP_OBJ_NULL;
    for (mp_uint_t left = power < 0 ? -(mp_uint_t)power : (mp_uint_t)power; left > 0; left /= 2) {
        if (left % 2 == 1) {
            made = made == MP_OBJ_NULL ? square : dev_np_matmul(made, square);
        }
        square = left > 1 ? dev_np_matmul(square, square) : square;
    }
    return power == 1 ? MP_OBJ_FROM_PTR(dev_np_cast(given, given->type)) : made;
}
static MP_DEFINE_CONST_FUN_OBJ_2(matrix_power_obj, matrix_power);

static const mp_rom_map_elem_t globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_linalg)},
    {MP_ROM_QSTR(MP_QSTR_LinAlgError), MP_ROM_PTR(&dev_np_linalg_error_type)},
    {MP_ROM_QSTR(MP_QSTR_cholesky), MP_ROM_PTR(&cholesky_obj)},
    {MP_ROM_QSTR(MP_QSTR_det), MP_ROM_PTR(&det_obj)},
    {MP_ROM_QSTR(MP_QSTR_eigh), MP_ROM_PTR(&dev_np_eigh_obj)},
    {MP_ROM_QSTR(MP_QSTR_eigvalsh), MP_ROM_PTR(&dev_np_eigvalsh_obj)},
    {MP_ROM_QSTR(MP_QSTR_inv), MP_ROM_PTR(&inv_obj)},
    {MP_ROM_QSTR(MP_QSTR_lstsq), MP_ROM_PTR(&dev_np_lstsq_obj)},
    {MP_ROM_QSTR(MP_QSTR_matrix_power), MP_ROM_PTR(&matrix_power_obj)},
    {MP_ROM_QSTR(MP_QSTR_matrix_rank), MP_ROM_PTR(&dev_np_matrix_rank_obj)},
    {MP_ROM_QSTR(MP_QSTR_norm), MP_ROM_PTR(&dev_np_norm_obj)},
    {MP_ROM_QSTR(MP_QSTR_pinv), MP_ROM_PTR(&dev_np_pinv_obj)},
    {MP_ROM_QSTR(MP_QSTR_qr), MP_ROM_PTR(&qr_obj)},
    {MP_ROM_QSTR(MP_QSTR_slogdet), MP_ROM_PTR(&slogdet_obj)},
    {MP_ROM_QSTR(MP_QSTR_solve), MP_ROM_PTR(&solve_obj)},
    {MP_ROM_QSTR(MP_QSTR_svd), MP_ROM_PTR(&dev_np_svd_obj)},
};
static MP_DEFINE_CONST_DICT(globals, globals_table);

const mp_obj_module_t dev_np_module_linalg = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&globals,
};

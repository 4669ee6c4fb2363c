// Ranges whose steps are factors, grids, and what relates several arrays or an index and a shape.
// Names, arguments and defaults are NumPy's; what is made is new, but for the views that
// broadcast_arrays gives. Called by scripts, on the VM's thread.
#include "vm/np/np_calls.h"
#include "vm/np/np_fold.h"
#include "vm/np/np_math.h"

#include <math.h>
#include <string.h>

#define POWERS 1024 // between two looks at the budget

// --- ranges

// sign * base ** each, in place; then of the type that was asked for.
static struct np_array *powers(struct np_array *line, double base, double sign)
{
    double *each = (double *)(void *)line->data;
    for (size_t i = 0; i < line->size; i++) {
        each[i] = sign * pow(base, each[i]);
        if (i % POWERS == POWERS - 1) {
            dev_np_pay(POWERS * (DEV_VM_WORK_PER_UNIT / DEV_VM_LOOP_PER_UNIT));
        }
    }
    return line;
}

static mp_obj_t of_type(struct np_array *made, mp_obj_t dtype)
{
    enum np_type type = dtype == mp_const_none ? NP_F64 : dev_np_type_parse(dtype);
    return MP_OBJ_FROM_PTR(type == NP_F64 ? made : dev_np_cast(made, type));
}

// logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None), of numbers
static mp_obj_t logspace(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { START, STOP, NUM, ENDPOINT, BASE, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_start, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_stop, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_num, MP_ARG_INT, {.u_int = 50}},
        {MP_QSTR_endpoint, MP_ARG_BOOL, {.u_bool = true}},
        {MP_QSTR_base, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(10)}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct np_array *line =
        dev_np_line(mp_obj_get_float(values[START].u_obj), mp_obj_get_float(values[STOP].u_obj),
                    values[NUM].u_int, values[ENDPOINT].u_bool);
    return of_type(powers(line, mp_obj_get_float(values[BASE].u_obj), 1), values[DTYPE].u_obj);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_logspace_obj, 2, logspace);

// geomspace(start, stop, num=50, endpoint=True, dtype=None), of numbers: the ends are exact
static mp_obj_t geomspace(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { START, STOP, NUM, ENDPOINT, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_start, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_stop, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_num, MP_ARG_INT, {.u_int = 50}},
        {MP_QSTR_endpoint, MP_ARG_BOOL, {.u_bool = true}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    double first = mp_obj_get_float(values[START].u_obj);
    double last = mp_obj_get_float(values[STOP].u_obj);
    if (first == 0 || last == 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: a geometric sequence cannot include 0"));
    }
    double sign = first < 0 && last < 0 ? -1 : 1;
    struct np_array *made = powers(dev_np_line(log10(sign * first), log10(sign * last),
                                               values[NUM].u_int, values[ENDPOINT].u_bool),
                                   10, sign);
    double *each = (double *)(void *)made->data;
    if (made->size > 0) {
        each[0] = first;
    }
    if (made->size > 1 && values[ENDPOINT].u_bool) {
        each[made->size - 1] = last;
    }
    return of_type(made, values[DTYPE].u_obj);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_geomspace_obj, 2, geomspace);

// --- several arrays in one shape

// meshgrid(*xi, copy=True, sparse=False, indexing='xy')
static mp_obj_t meshgrid(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { COPY, SPARSE, INDEXING, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_copy, MP_ARG_KW_ONLY | MP_ARG_BOOL, {.u_bool = true}},
        {MP_QSTR_sparse, MP_ARG_KW_ONLY | MP_ARG_BOOL, {.u_bool = false}},
        {MP_QSTR_indexing, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_xy)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(0, NULL, named, ARGUMENTS, allowed, values);
    qstr indexing = mp_obj_str_get_qstr(values[INDEXING].u_obj);
    if (count > NP_RANK || (indexing != MP_QSTR_xy && indexing != MP_QSTR_ij)) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.np: meshgrid is of at most %d arrays, 'xy' or 'ij'"),
                          NP_RANK);
    }
    const struct np_array *flat[NP_RANK];
    int64_t dims[NP_RANK];
    uint32_t axes[NP_RANK];
    for (uint32_t i = 0; i < count; i++) {
        bool is_swapped = indexing == MP_QSTR_xy && count > 1 && i < 2;
        flat[i] = dev_np_flat(dev_np_of(args[i]));
        axes[i] = is_swapped ? 1 - i : i;
        dims[axes[i]] = flat[i]->dims[0];
    }
    mp_obj_t list = mp_obj_new_list(0, NULL);
    for (uint32_t i = 0; i < count; i++) {
        struct np_array grid = *flat[i];
        grid.rank = (uint32_t)count;
        for (uint32_t d = 0; d < count; d++) {
            grid.dims[d] = d == axes[i] ? dims[d] : 1;
            grid.steps[d] = d == axes[i] ? flat[i]->steps[0] : 0;
        }
        if (!values[SPARSE].u_bool) {
            grid = dev_np_stretched(&grid, grid.rank, dims);
            grid.is_read_only = true;
        }
        mp_obj_list_append(list, MP_OBJ_FROM_PTR(values[COPY].u_bool ? dev_np_cast(&grid, grid.type)
                                                                     : dev_np_view(&grid)));
    }
    return list;
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_meshgrid_obj, 0, meshgrid);

// broadcast_arrays(*args): views, not to be written to where they repeat elements
static mp_obj_t broadcast_arrays(size_t count, const mp_obj_t *args)
{
    struct np_array shape = {.rank = 0};
    mp_obj_t list = mp_obj_new_list(0, NULL);
    for (size_t i = 0; i < count; i++) {
        const struct np_array *array = dev_np_of(args[i]);
        const struct np_array *both[] = {&shape, array};
        struct np_array wider;
        dev_np_broadcast_dims(both, 2, &wider);
        shape.rank = wider.rank;
        memcpy(shape.dims, wider.dims, wider.rank * sizeof(int64_t));
        mp_obj_list_append(list, MP_OBJ_FROM_PTR(array));
        dev_vm_step();
    }
    size_t size;
    mp_obj_t *items;
    mp_obj_get_array(list, &size, &items);
    for (size_t i = 0; i < size; i++) {
        const struct np_array *array = MP_OBJ_TO_PTR(items[i]);
        struct np_array wide = dev_np_stretched(array, shape.rank, shape.dims);
        wide.is_read_only = array->is_read_only || wide.size != array->size;
        items[i] = MP_OBJ_FROM_PTR(dev_np_view(&wide));
        dev_vm_step();
    }
    return list;
}
MP_DEFINE_CONST_FUN_OBJ_VAR(dev_np_broadcast_arrays_obj, 0, broadcast_arrays);

static bool are_equal(mp_obj_t left, mp_obj_t right, bool equal_nan)
{
    mp_obj_t same = dev_np_binary(NP_EQUAL, left, right, MP_OBJ_NULL);
    if (equal_nan) {
        mp_obj_t nan = dev_np_binary(NP_LOGICAL_AND, dev_np_unary(NP_ISNAN, left, MP_OBJ_NULL),
                                     dev_np_unary(NP_ISNAN, right, MP_OBJ_NULL), MP_OBJ_NULL);
        same = dev_np_binary(NP_LOGICAL_OR, same, nan, MP_OBJ_NULL);
    }
    const struct np_array *each = dev_np_of(same);
    struct np_array *all = dev_np_reduce(NP_ALL, each, dev_np_axes(mp_const_none, each->rank));
    return *all->data != 0;
}

// array_equal(a1, a2, equal_nan=False)
static mp_obj_t array_equal(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A1, A2, EQUAL_NAN, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a1, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_a2, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_equal_nan, MP_ARG_BOOL, {.u_bool = false}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *left = dev_np_of(values[A1].u_obj);
    const struct np_array *right = dev_np_of(values[A2].u_obj);
    if (left->rank != right->rank ||
        memcmp(left->dims, right->dims, left->rank * sizeof(int64_t)) != 0) {
        return mp_const_false;
    }
    return mp_obj_new_bool(
        are_equal(MP_OBJ_FROM_PTR(left), MP_OBJ_FROM_PTR(right), values[EQUAL_NAN].u_bool));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_array_equal_obj, 2, array_equal);

// --- indices

// unravel_index(indices, shape): an array, or a number, for each dimension
static mp_obj_t unravel_index(mp_obj_t indices, mp_obj_t shape)
{
    int64_t dims[NP_RANK];
    uint32_t rank = dev_np_shape(shape, dims);
    int64_t size = 1;
    for (uint32_t d = 0; d < rank; d++) {
        if (dims[d] < 0 || __builtin_mul_overflow(size, dims[d], &size)) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: a dimension is negative or too large"));
        }
    }
    const struct np_array *given = dev_np_of(indices);
    if (dev_np_is_real(given->type)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np: indices are whole numbers"));
    }
    struct np_array *left = dev_np_cast(given, NP_I64);
    int64_t *from = (int64_t *)(void *)left->data;
    dev_np_pay(left->size * (rank + 1));
    for (size_t i = 0; i < left->size; i++) {
        if (from[i] < 0 || from[i] >= size) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: an index is out of bounds of the shape"));
        }
    }
    mp_obj_t results[NP_RANK];
    for (uint32_t d = rank; d-- > 0;) {
        struct np_array *made = dev_np_new(NP_I64, left->rank, left->dims);
        int64_t *to = (int64_t *)(void *)made->data;
        for (size_t i = 0; i < left->size; i++) {
            to[i] = from[i] % dims[d];
            from[i] /= dims[d];
        }
        results[d] = dev_np_result(made);
    }
    return mp_obj_new_tuple(rank, results);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_unravel_index_obj, unravel_index);

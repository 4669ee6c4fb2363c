// Functions that make arrays: of numbers, filled, of ranges. Names, arguments and defaults are
// NumPy's; what is made without values holds zeros. Called by scripts through the module's table,
// on the VM's thread.
#include "vm/np/np.h"
#include "vm/np/np_calls.h"

#include <math.h>
#include <string.h>

static enum np_type type_or(mp_obj_t dtype, enum np_type otherwise)
{
    return dtype == mp_const_none ? otherwise : dev_np_type_parse(dtype);
}

// array(object, dtype=None, copy=True, ndmin=0)
static mp_obj_t np_array(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { OBJECT, DTYPE, COPY, NDMIN, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_object, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_copy, MP_ARG_KW_ONLY | MP_ARG_BOOL, {.u_bool = true}},
        {MP_QSTR_ndmin, MP_ARG_KW_ONLY | MP_ARG_INT, {.u_int = 0}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    mp_obj_t object = values[OBJECT].u_obj;
    const struct np_array *array = dev_np_of_type(object, type_or(values[DTYPE].u_obj, NP_TYPES));
    if (values[COPY].u_bool && (MP_OBJ_FROM_PTR(array) == object || array->is_read_only)) {
        array = dev_np_cast(array, array->type);
    }
    mp_int_t least = values[NDMIN].u_int;
    if (least > NP_RANK) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: ndmin is larger than the most dimensions"));
    }
    if (least > (mp_int_t)array->rank) {
        struct np_array *made = dev_np_view(array);
        uint32_t more = (uint32_t)least - array->rank;
        memmove(made->dims + more, array->dims, array->rank * sizeof(int64_t));
        memmove(made->steps + more, array->steps, array->rank * sizeof(int64_t));
        for (uint32_t d = 0; d < more; d++) {
            made->dims[d] = 1;
            made->steps[d] = 0;
        }
        made->rank = (uint32_t)least;
        array = made;
    }
    return MP_OBJ_FROM_PTR(array);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_array_obj, 1, np_array);

// asarray(a, dtype=None): without a copy where there is nothing to change
static mp_obj_t asarray(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    return MP_OBJ_FROM_PTR(dev_np_of_type(values[A].u_obj, type_or(values[DTYPE].u_obj, NP_TYPES)));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_asarray_obj, 1, asarray);

// asfarray(a, dtype=float64): of reals, whatever was there
static mp_obj_t asfarray(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    enum np_type type = type_or(values[DTYPE].u_obj, NP_F64);
    return MP_OBJ_FROM_PTR(dev_np_of_type(values[A].u_obj, dev_np_is_real(type) ? type : NP_F64));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_asfarray_obj, 1, asfarray);

// copy(a)
static mp_obj_t copy(mp_obj_t a)
{
    const struct np_array *array = dev_np_of(a);
    return MP_OBJ_FROM_PTR(dev_np_cast(array, array->type));
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_copy_obj, copy);

// astype(a, dtype, copy=True)
static mp_obj_t astype(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, DTYPE, COPY, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_copy, MP_ARG_KW_ONLY | MP_ARG_BOOL, {.u_bool = true}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *array = dev_np_of(values[A].u_obj);
    enum np_type type = dev_np_type_parse(values[DTYPE].u_obj);
    if (!values[COPY].u_bool && type == array->type) {
        return MP_OBJ_FROM_PTR(array);
    }
    return MP_OBJ_FROM_PTR(dev_np_cast(array, type));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_astype_obj, 2, astype);

// --- filled

static mp_obj_t filled(enum np_type type, uint32_t rank, const int64_t *dims, mp_obj_t value)
{
    struct np_array *made = dev_np_room(type, rank, dims);
    const struct np_array *from = dev_np_of(value);
    if (from->rank == 0 && type != NP_BOOL && !dev_np_is_real(type)) {
        struct np_array *fitting = dev_np_new(type, 0, NULL); // what does not fit is refused
        dev_np_set(type, fitting->data, dev_np_get(from->type, from->data));
        from = fitting;
    }
    dev_np_fill(made, from);
    return MP_OBJ_FROM_PTR(made);
}

static mp_obj_t shaped(size_t count, const mp_obj_t *args, mp_map_t *named, mp_obj_t value)
{
    enum { SHAPE, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_shape, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    int64_t dims[NP_RANK];
    uint32_t rank = dev_np_shape(values[SHAPE].u_obj, dims);
    enum np_type type = type_or(values[DTYPE].u_obj, NP_F64);
    if (value == mp_const_none) {
        return MP_OBJ_FROM_PTR(dev_np_new(type, rank, dims));
    }
    return filled(type, rank, dims, value);
}

static mp_obj_t zeros(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return shaped(count, args, named, mp_const_none);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_zeros_obj, 1, zeros);

static mp_obj_t ones(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return shaped(count, args, named, MP_OBJ_NEW_SMALL_INT(1));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_ones_obj, 1, ones);

// Of a shape, or with `like` of an array's; its type is by the array, else by the value.
static mp_obj_t fill_call(size_t count, const mp_obj_t *args, mp_map_t *named, bool like)
{
    enum { OF, FILL, DTYPE, ARGUMENTS };
    const mp_arg_t allowed[] = {
        {like ? MP_QSTR_a : MP_QSTR_shape,
         MP_ARG_REQUIRED | MP_ARG_OBJ,
         {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_fill_value, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    mp_obj_t value = values[FILL].u_obj;
    const struct np_array *array = dev_np_of(like ? values[OF].u_obj : value);
    enum np_type type = type_or(values[DTYPE].u_obj, array->type);
    if (like) {
        return filled(type, array->rank, array->dims, value);
    }
    int64_t dims[NP_RANK];
    uint32_t rank = dev_np_shape(values[OF].u_obj, dims);
    return filled(type, rank, dims, value);
}

// full(shape, fill_value, dtype=None)
static mp_obj_t full(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return fill_call(count, args, named, false);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_full_obj, 2, full);

static mp_obj_t alike(size_t count, const mp_obj_t *args, mp_map_t *named, mp_obj_t value)
{
    enum { A, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *array = dev_np_of(values[A].u_obj);
    enum np_type type = type_or(values[DTYPE].u_obj, array->type);
    if (value == mp_const_none) {
        return MP_OBJ_FROM_PTR(dev_np_new(type, array->rank, array->dims));
    }
    return filled(type, array->rank, array->dims, value);
}

static mp_obj_t zeros_like(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return alike(count, args, named, mp_const_none);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_zeros_like_obj, 1, zeros_like);

static mp_obj_t ones_like(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return alike(count, args, named, MP_OBJ_NEW_SMALL_INT(1));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_ones_like_obj, 1, ones_like);

// full_like(a, fill_value, dtype=None)
static mp_obj_t full_like(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return fill_call(count, args, named, true);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_full_like_obj, 2, full_like);

// --- ranges

// first, first + step, ...: `count` elements, each by itself, as NumPy does.
static struct np_array *ramp(enum np_type type, int64_t count, double first, double step)
{
    struct np_array *made = dev_np_room(NP_F64, 1, &count);
    double *to = (double *)(void *)made->data;
    for (int64_t done = 0; done < count; done += NP_CHUNK) {
        int64_t end = count - done < NP_CHUNK ? count : done + NP_CHUNK;
        for (int64_t i = done; i < end; i++) {
            to[i] = first + (double)i * step;
        }
        dev_np_pay((size_t)(end - done));
    }
    return type == NP_F64 ? made : dev_np_cast(made, type);
}

static struct np_array *whole_ramp(int64_t first, int64_t stop, int64_t step)
{
    uint64_t count = 0;
    if (step > 0 && stop > first) {
        count = ((uint64_t)stop - (uint64_t)first - 1) / (uint64_t)step + 1;
    } else if (step < 0 && stop < first) {
        count = ((uint64_t)first - (uint64_t)stop - 1) / (0 - (uint64_t)step) + 1;
    }
    int64_t size = count > INT64_MAX ? INT64_MAX : (int64_t)count;
    struct np_array *made = dev_np_room(NP_I64, 1, &size);
    int64_t *to = (int64_t *)(void *)made->data;
    for (int64_t done = 0; done < size; done += NP_CHUNK) {
        int64_t end = size - done < NP_CHUNK ? size : done + NP_CHUNK;
        for (int64_t i = done; i < end; i++) {
            to[i] = (int64_t)((uint64_t)first + (uint64_t)i * (uint64_t)step);
        }
        dev_np_pay((size_t)(end - done));
    }
    return made;
}

// arange(stop), arange(start, stop, step=1, dtype=None)
static mp_obj_t arange(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { START, STOP, STEP, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_start, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_stop, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_step, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(1)}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    mp_obj_t start = values[START].u_obj;
    mp_obj_t stop = values[STOP].u_obj;
    mp_obj_t step = values[STEP].u_obj;
    if (stop == mp_const_none) {
        stop = start;
        start = MP_OBJ_NEW_SMALL_INT(0);
    }
    if (mp_obj_is_int(start) && mp_obj_is_int(stop) && mp_obj_is_int(step)) {
        if (mp_obj_get_int(step) == 0) {
            mp_raise_msg(&mp_type_ZeroDivisionError, MP_ERROR_TEXT("walle.np: a step of 0"));
        }
        struct np_array *made =
            whole_ramp(mp_obj_get_int(start), mp_obj_get_int(stop), mp_obj_get_int(step));
        enum np_type type = type_or(values[DTYPE].u_obj, NP_I64);
        return MP_OBJ_FROM_PTR(type == NP_I64 ? made : dev_np_cast(made, type));
    }
    double first = mp_obj_get_float(start);
    double by = mp_obj_get_float(step);
    if (by == 0) {
        mp_raise_msg(&mp_type_ZeroDivisionError, MP_ERROR_TEXT("walle.np: a step of 0"));
    }
    double length = ceil((mp_obj_get_float(stop) - first) / by);
    if (!(length <= (double)ENG_ELEMENTS_MAX)) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: the range is too large"));
    }
    return MP_OBJ_FROM_PTR(
        ramp(type_or(values[DTYPE].u_obj, NP_F64), length > 0 ? (int64_t)length : 0, first, by));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_arange_obj, 1, arange);

struct np_array *dev_np_line(double first, double last, int64_t size, bool has_end)
{
    if (size < 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: the number of samples is negative"));
    }
    int64_t parts = has_end ? size - 1 : size;
    struct np_array *made =
        ramp(NP_F64, size, first, parts > 0 ? (last - first) / (double)parts : 0);
    if (has_end && size > 1) {
        ((double *)(void *)made->data)[size - 1] = last;
    }
    return made;
}

// linspace(start, stop, num=50, endpoint=True, dtype=None), of numbers
static mp_obj_t linspace(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { START, STOP, NUM, ENDPOINT, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_start, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_stop, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_num, MP_ARG_INT, {.u_int = 50}},
        {MP_QSTR_endpoint, MP_ARG_BOOL, {.u_bool = true}},
        {MP_QSTR_dtype, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    double first = mp_obj_get_float(values[START].u_obj);
    double last = mp_obj_get_float(values[STOP].u_obj);
    struct np_array *made = dev_np_line(first, last, values[NUM].u_int, values[ENDPOINT].u_bool);
    enum np_type type = type_or(values[DTYPE].u_obj, NP_F64);
    if (!dev_np_is_real(type)) { // rounded down, not towards zero
        double *each = (double *)(void *)made->data;
        for (size_t i = 0; i < made->size; i++) {
            each[i] = floor(each[i]);
        }
    }
    return MP_OBJ_FROM_PTR(type == NP_F64 ? made : dev_np_cast(made, type));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_linspace_obj, 2, linspace);

// Ones on the k-th diagonal.
static struct np_array *diagonal(enum np_type type, const int64_t dims[2], int64_t k)
{
    struct np_array *made = dev_np_new(type, 2, dims);
    for (int64_t i = k < 0 ? (k < -dims[0] ? dims[0] : -k) : 0; i < dims[0] && k < dims[1] - i;
         i++) {
        dev_np_set(type, made->data + i * made->steps[0] + (i + k) * made->steps[1],
                   MP_OBJ_NEW_SMALL_INT(1));
    }
    return made;
}

// eye(N, M=None, k=0, dtype=float)
static mp_obj_t eye(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { ROWS, COLUMNS, K, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_N, MP_ARG_REQUIRED | MP_ARG_INT, {.u_int = 0}},
        {MP_QSTR_M, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_k, MP_ARG_INT, {.u_int = 0}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    int64_t dims[2] = {values[ROWS].u_int, values[ROWS].u_int};
    if (values[COLUMNS].u_obj != mp_const_none) {
        dims[1] = mp_obj_get_int(values[COLUMNS].u_obj);
    }
    enum np_type type = type_or(values[DTYPE].u_obj, NP_F64);
    return MP_OBJ_FROM_PTR(diagonal(type, dims, values[K].u_int));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_eye_obj, 1, eye);

// identity(n, dtype=None)
static mp_obj_t identity(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { N, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_n, MP_ARG_REQUIRED | MP_ARG_INT, {.u_int = 0}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    int64_t dims[2] = {values[N].u_int, values[N].u_int};
    return MP_OBJ_FROM_PTR(diagonal(type_or(values[DTYPE].u_obj, NP_F64), dims, 0));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_identity_obj, 1, identity);

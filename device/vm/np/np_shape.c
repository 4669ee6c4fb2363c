// Functions that show the same elements in another shape: nothing is copied, but by reshape and
// ravel of a view that does not lie densely. What is shown of elements that may not be written to
// may not be either. Called by scripts, on the VM's thread.
#include "vm/np/np_calls.h"

#include <string.h>

// --- reshape and ravel

static struct np_array *reshaped(const struct np_array *array, uint32_t rank, int64_t *dims)
{
    int64_t *open = NULL;
    size_t made = 1;
    bool good = true;
    for (uint32_t d = 0; d < rank; d++) {
        if (dims[d] == -1 && open == NULL) {
            open = &dims[d];
            continue;
        }
        good = good && dims[d] >= 0 && !__builtin_mul_overflow(made, (size_t)dims[d], &made);
    }
    if (good && open != NULL) {
        good = made > 0 && array->size % made == 0;
        *open = good ? (int64_t)(array->size / made) : 0;
    } else {
        good = good && made == array->size;
    }
    if (!good) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.np: cannot reshape %u elements into this shape"),
                          (unsigned)array->size);
    }
    struct np_array *view = dev_np_view(dev_np_dense(array));
    int64_t step = (int64_t)dev_np_item(array->type);
    view->rank = rank;
    for (uint32_t d = rank; d-- > 0;) {
        view->dims[d] = dims[d];
        view->steps[d] = step;
        step *= dims[d];
    }
    return view;
}

// reshape(a, newshape)
static mp_obj_t reshape(mp_obj_t a, mp_obj_t shape)
{
    int64_t dims[NP_RANK];
    uint32_t rank = dev_np_shape(shape, dims);
    return MP_OBJ_FROM_PTR(reshaped(dev_np_of(a), rank, dims));
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_reshape_obj, reshape);

// a.reshape((2, 3)) or a.reshape(2, 3)
static mp_obj_t reshape_method(size_t count, const mp_obj_t *args)
{
    return reshape(args[0], count == 2 ? args[1] : mp_obj_new_tuple(count - 1, args + 1));
}
MP_DEFINE_CONST_FUN_OBJ_VAR(dev_np_reshape_method_obj, 2, reshape_method);

struct np_array *dev_np_flat(const struct np_array *array)
{
    int64_t size = (int64_t)array->size;
    return reshaped(array, 1, &size);
}

static mp_obj_t ravel(mp_obj_t a)
{
    return MP_OBJ_FROM_PTR(dev_np_flat(dev_np_of(a)));
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_ravel_obj, ravel);

static mp_obj_t flatten(mp_obj_t a)
{
    const struct np_array *array = dev_np_of(a);
    return MP_OBJ_FROM_PTR(dev_np_flat(dev_np_cast(array, array->type)));
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_flatten_obj, flatten);

// --- the order of dimensions

// Dimension d of the result is dimension from[d].
static struct np_array *ordered(const struct np_array *array, const uint32_t *from)
{
    struct np_array *view = dev_np_view(array);
    for (uint32_t d = 0; d < array->rank; d++) {
        view->dims[d] = array->dims[from[d]];
        view->steps[d] = array->steps[from[d]];
    }
    return view;
}

mp_obj_t dev_np_transposed(const struct np_array *array)
{
    uint32_t from[NP_RANK];
    for (uint32_t d = 0; d < array->rank; d++) {
        from[d] = array->rank - 1 - d;
    }
    return MP_OBJ_FROM_PTR(ordered(array, from));
}

static mp_obj_t transposed_by(const struct np_array *array, mp_obj_t axes)
{
    size_t count;
    mp_obj_t *items;
    uint32_t from[NP_RANK];
    uint32_t seen = 0;
    mp_obj_get_array(axes, &count, &items);
    if (count != array->rank) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: the axes do not match the array"));
    }
    for (size_t d = 0; d < count; d++) {
        from[d] = (uint32_t)dev_np_axis(mp_obj_get_int(items[d]), array->rank);
        seen |= 1U << from[d];
    }
    if (seen != (1U << count) - 1) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: repeated axis in transpose"));
    }
    return MP_OBJ_FROM_PTR(ordered(array, from));
}

// transpose(a, axes=None)
static mp_obj_t transpose(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, AXES, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axes, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *array = dev_np_of(values[A].u_obj);
    if (values[AXES].u_obj == mp_const_none) {
        return dev_np_transposed(array);
    }
    return transposed_by(array, values[AXES].u_obj);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_transpose_obj, 1, transpose);

// a.transpose(), a.transpose((1, 0)) or a.transpose(1, 0)
static mp_obj_t transpose_method(size_t count, const mp_obj_t *args)
{
    const struct np_array *array = MP_OBJ_TO_PTR(args[0]);
    if (count == 1 || (count == 2 && args[1] == mp_const_none)) {
        return dev_np_transposed(array);
    }
    bool is_sequence = count == 2 && !mp_obj_is_int(args[1]);
    return transposed_by(array, is_sequence ? args[1] : mp_obj_new_tuple(count - 1, args + 1));
}
MP_DEFINE_CONST_FUN_OBJ_VAR(dev_np_transpose_method_obj, 1, transpose_method);

// swapaxes(a, axis1, axis2)
static mp_obj_t swapaxes(mp_obj_t a, mp_obj_t axis1, mp_obj_t axis2)
{
    const struct np_array *array = dev_np_of(a);
    uint32_t from[NP_RANK];
    uint32_t one = (uint32_t)dev_np_axis(mp_obj_get_int(axis1), array->rank);
    uint32_t other = (uint32_t)dev_np_axis(mp_obj_get_int(axis2), array->rank);
    for (uint32_t d = 0; d < array->rank; d++) {
        from[d] = d == one ? other : d == other ? one : d;
    }
    return MP_OBJ_FROM_PTR(ordered(array, from));
}
MP_DEFINE_CONST_FUN_OBJ_3(dev_np_swapaxes_obj, swapaxes);

static size_t axes_take(mp_obj_t axes, uint32_t rank, uint32_t *out)
{
    size_t count = 1;
    mp_obj_t *items = &axes;
    uint32_t seen = 0;
    if (!mp_obj_is_int(axes)) {
        mp_obj_get_array(axes, &count, &items);
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t axis = (uint32_t)dev_np_axis(mp_obj_get_int(items[i]), rank);
        if ((seen >> axis & 1) != 0) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: repeated axis"));
        }
        seen |= 1U << axis;
        out[i] = axis;
    }
    return count;
}

// moveaxis(a, source, destination)
static mp_obj_t moveaxis(mp_obj_t a, mp_obj_t source, mp_obj_t destination)
{
    const struct np_array *array = dev_np_of(a);
    uint32_t sources[NP_RANK];
    uint32_t targets[NP_RANK];
    uint32_t from[NP_RANK];
    uint32_t moved = 0;
    uint32_t taken = 0;
    size_t count = axes_take(source, array->rank, sources);
    if (axes_take(destination, array->rank, targets) != count) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: source and destination differ in length"));
    }
    for (size_t i = 0; i < count; i++) {
        moved |= 1U << sources[i];
        taken |= 1U << targets[i];
        from[targets[i]] = sources[i];
    }
    uint32_t next = 0;
    for (uint32_t d = 0; d < array->rank; d++) {
        if ((taken >> d & 1) != 0) {
            continue;
        }
        while ((moved >> next & 1) != 0) {
            next++;
        }
        from[d] = next++;
    }
    return MP_OBJ_FROM_PTR(ordered(array, from));
}
MP_DEFINE_CONST_FUN_OBJ_3(dev_np_moveaxis_obj, moveaxis);

// rollaxis(a, axis, start=0): the axis goes in front of the one at `start`
static mp_obj_t rollaxis(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, AXIS, START, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_REQUIRED | MP_ARG_INT, {.u_int = 0}},
        {MP_QSTR_start, MP_ARG_INT, {.u_int = 0}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *array = dev_np_of(values[A].u_obj);
    uint32_t axis = (uint32_t)dev_np_axis(values[AXIS].u_int, array->rank);
    mp_int_t start = values[START].u_int;
    start += start < 0 ? (mp_int_t)array->rank : 0;
    if (start < 0 || start > (mp_int_t)array->rank) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: start is no axis of the array"));
    }
    uint32_t to = (uint32_t)start - (axis < (uint32_t)start ? 1 : 0);
    uint32_t from[NP_RANK];
    uint32_t next = 0;
    for (uint32_t d = 0; d < array->rank; d++) {
        next += next == axis ? 1 : 0;
        from[d] = d == to ? axis : next++;
    }
    return MP_OBJ_FROM_PTR(ordered(array, from));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_rollaxis_obj, 2, rollaxis);

// --- dimensions of size 1

// squeeze(a, axis=None)
static mp_obj_t squeeze(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, AXIS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *array = dev_np_of(values[A].u_obj);
    uint32_t axes = dev_np_axes(values[AXIS].u_obj, array->rank);
    struct np_array *view = dev_np_view(array);
    view->rank = 0;
    for (uint32_t d = 0; d < array->rank; d++) {
        bool is_told = (axes >> d & 1) != 0;
        if (is_told && values[AXIS].u_obj != mp_const_none && array->dims[d] != 1) {
            mp_raise_ValueError(
                MP_ERROR_TEXT("walle.np: cannot squeeze a dimension that is not of size 1"));
        }
        if (!is_told || array->dims[d] != 1) {
            view->dims[view->rank] = array->dims[d];
            view->steps[view->rank++] = array->steps[d];
        }
    }
    return MP_OBJ_FROM_PTR(view);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_squeeze_obj, 1, squeeze);

struct np_array *dev_np_expanded(const struct np_array *array, uint32_t axis)
{
    if (array->rank == NP_RANK) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.np: more than %d dimensions"),
                          NP_RANK);
    }
    struct np_array *view = dev_np_view(array);
    uint32_t behind = array->rank - axis;
    memmove(view->dims + axis + 1, array->dims + axis, behind * sizeof(int64_t));
    memmove(view->steps + axis + 1, array->steps + axis, behind * sizeof(int64_t));
    view->dims[axis] = 1;
    view->steps[axis] = 0;
    view->rank++;
    return view;
}

// expand_dims(a, axis), of one axis or several
static mp_obj_t expand_dims(mp_obj_t a, mp_obj_t axis)
{
    const struct np_array *array = dev_np_of(a);
    size_t more = 1;
    mp_obj_t *items = &axis;
    if (!mp_obj_is_int(axis)) {
        mp_obj_get_array(axis, &more, &items);
    }
    if (more > NP_RANK) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: too many dimensions"));
    }
    uint32_t axes = dev_np_axes(axis, array->rank + (uint32_t)more);
    for (uint32_t d = 0; d < array->rank + 1 && d < NP_RANK + 1; d++) {
        if ((axes >> d & 1) != 0) {
            array = dev_np_expanded(array, d);
        }
    }
    return MP_OBJ_FROM_PTR(array);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_expand_dims_obj, expand_dims);

// broadcast_to(array, shape): not to be written to, as NumPy's
static mp_obj_t broadcast_to(mp_obj_t a, mp_obj_t shape)
{
    int64_t dims[NP_RANK];
    uint32_t rank = dev_np_shape(shape, dims);
    for (uint32_t d = 0; d < rank; d++) {
        if (dims[d] < 0) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: negative dimensions are not allowed"));
        }
    }
    struct np_array wide = dev_np_stretched(dev_np_of(a), rank, dims);
    wide.is_read_only = true;
    return MP_OBJ_FROM_PTR(dev_np_view(&wide));
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_broadcast_to_obj, broadcast_to);

static mp_obj_t at_least(mp_obj_t a, uint32_t rank)
{
    const struct np_array *array = dev_np_of(a);
    if (rank == 3 && array->rank > 0) { // NumPy puts these so
        array = array->rank == 1 ? dev_np_expanded(array, 0) : array;
        return MP_OBJ_FROM_PTR(array->rank == 2 ? dev_np_expanded(array, 2) : array);
    }
    while (array->rank < rank) {
        array = dev_np_expanded(array, 0);
    }
    return MP_OBJ_FROM_PTR(array);
}

static mp_obj_t atleast_1d(mp_obj_t a)
{
    return at_least(a, 1);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_atleast_1d_obj, atleast_1d);

static mp_obj_t atleast_2d(mp_obj_t a)
{
    return at_least(a, 2);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_atleast_2d_obj, atleast_2d);

static mp_obj_t atleast_3d(mp_obj_t a)
{
    return at_least(a, 3);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_atleast_3d_obj, atleast_3d);

// --- backwards

// flip(m, axis=None)
static mp_obj_t flip(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { M, AXIS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_m, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct np_array *view = dev_np_view(dev_np_of(values[M].u_obj));
    uint32_t axes = dev_np_axes(values[AXIS].u_obj, view->rank);
    for (uint32_t d = 0; d < view->rank; d++) {
        if ((axes >> d & 1) != 0 && view->dims[d] > 0) {
            view->data += view->steps[d] * (view->dims[d] - 1);
            view->steps[d] = -view->steps[d];
        }
    }
    return MP_OBJ_FROM_PTR(view);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_flip_obj, 1, flip);

// --- shape, size, ndim as functions

static mp_obj_t shape(mp_obj_t a)
{
    return dev_np_shape_object(dev_np_of(a));
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_shape_obj, shape);

static mp_obj_t size(mp_obj_t a)
{
    return mp_obj_new_int_from_uint(dev_np_of(a)->size);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_size_obj, size);

static mp_obj_t ndim(mp_obj_t a)
{
    return MP_OBJ_NEW_SMALL_INT(dev_np_of(a)->rank);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_ndim_obj, ndim);

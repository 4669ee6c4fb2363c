// Functions that repeat, shift and surround elements, and those that choose among them: most by an
// array of indices along a dimension. What comes out is a new array. Called by scripts, on the VM's
// thread.
#include "vm/np/np_calls.h"
#include "vm/np/np_index.h"
#include "vm/np/np_math.h"

#include <string.h>

// a[..., indices, ...] along an axis; the indices are in range.
static struct np_array *taken(const struct np_array *array, uint32_t axis,
                              const struct np_array *indices)
{
    struct np_array *key = dev_np_view(indices);
    mp_obj_t parts[NP_RANK];
    for (uint32_t d = 0; d < axis; d++) {
        parts[d] = mp_obj_new_slice(mp_const_none, mp_const_none, mp_const_none);
    }
    parts[axis] = MP_OBJ_FROM_PTR(key);
    return MP_OBJ_TO_PTR(
        dev_np_subscr(MP_OBJ_FROM_PTR(array), mp_obj_new_tuple(axis + 1, parts), MP_OBJ_SENTINEL));
}

static const struct np_array *along(mp_obj_t a, mp_obj_t axis_object, uint32_t *axis)
{
    const struct np_array *array = dev_np_of(a);
    *axis = 0;
    if (axis_object == mp_const_none) {
        return dev_np_flat(array);
    }
    *axis = (uint32_t)dev_np_axis(mp_obj_get_int(axis_object), array->rank);
    return array;
}

// repeat(a, repeats, axis=None)
static mp_obj_t repeat(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, REPEATS, AXIS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_repeats, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    uint32_t axis;
    const struct np_array *array = along(values[A].u_obj, values[AXIS].u_obj, &axis);
    const struct np_array *given = dev_np_of(values[REPEATS].u_obj);
    if (dev_np_is_real(given->type) || given->rank > 1) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np: repeats are whole numbers"));
    }
    struct np_array wide = dev_np_stretched(given, 1, &array->dims[axis]);
    const struct np_array *times = dev_np_cast(&wide, NP_I64);
    const int64_t *each = (const int64_t *)(const void *)times->data;
    int64_t total = 0;
    for (size_t i = 0; i < times->size; i++) {
        if (each[i] < 0 || __builtin_add_overflow(total, each[i], &total)) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: repeats may not be negative"));
        }
    }
    struct np_array *indices = dev_np_room(NP_I64, 1, &total);
    int64_t *to = (int64_t *)(void *)indices->data;
    for (size_t i = 0; i < times->size; i++) {
        for (int64_t k = 0; k < each[i]; k++) {
            *to++ = (int64_t)i;
        }
    }
    return MP_OBJ_FROM_PTR(taken(array, axis, indices));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_repeat_obj, 2, repeat);

// tile(A, reps): a view with each dimension twice, once of repeats, is copied.
static mp_obj_t tile(mp_obj_t a, mp_obj_t reps)
{
    int64_t times[NP_RANK];
    const struct np_array *array = dev_np_of(a);
    uint32_t given = dev_np_shape(reps, times);
    uint32_t rank = given > array->rank ? given : array->rank;
    int64_t dims[NP_RANK];
    for (uint32_t d = 0; d < rank; d++) {
        int64_t size = d + array->rank >= rank ? array->dims[d + array->rank - rank] : 1;
        int64_t by = d + given >= rank ? times[d + given - rank] : 1;
        if (by < 0 || __builtin_mul_overflow(size, by, &dims[d])) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: reps may not be negative"));
        }
    }
    while (array->rank < rank) {
        array = dev_np_expanded(array, 0);
    }
    struct np_array *made = dev_np_room(array->type, rank, dims);
    if (made->size == 0) {
        return MP_OBJ_FROM_PTR(made);
    }
    // The first copy, then along each dimension what is there already.
    struct np_array part = *made;
    memcpy(part.dims, array->dims, sizeof(part.dims));
    part.size = array->size;
    dev_np_fill(&part, array);
    for (uint32_t d = rank; d-- > 0;) {
        struct np_array next = part;
        for (int64_t at = array->dims[d]; at < dims[d]; at += array->dims[d]) {
            next.data = part.data + at * part.steps[d];
            dev_np_fill(&next, &part);
            dev_vm_step();
        }
        part.size = part.size / (size_t)part.dims[d] * (size_t)dims[d];
        part.dims[d] = dims[d];
    }
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_tile_obj, tile);

// repmat(a, m, n), of at most two dimensions
static mp_obj_t repmat(mp_obj_t a, mp_obj_t m, mp_obj_t n)
{
    mp_obj_t reps[] = {m, n};
    if (dev_np_of(a)->rank > 2) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: repmat is of at most two dimensions"));
    }
    return tile(a, mp_obj_new_tuple(2, reps));
}
MP_DEFINE_CONST_FUN_OBJ_3(dev_np_repmat_obj, repmat);

static const struct np_array *rolled(const struct np_array *array, int64_t shift, uint32_t axis)
{
    int64_t size = array->dims[axis];
    struct np_array *indices = dev_np_room(NP_I64, 1, &size);
    int64_t *to = (int64_t *)(void *)indices->data;
    int64_t from = size == 0 ? 0 : (size - shift % size) % size;
    for (int64_t i = 0; i < size; i++) {
        to[i] = (from + i) % size;
    }
    return taken(array, axis, indices);
}

// roll(a, shift, axis=None), of one axis or as many as there are shifts
static mp_obj_t roll(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, SHIFT, AXIS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_shift, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *array = dev_np_of(values[A].u_obj);
    mp_obj_t axis = values[AXIS].u_obj;
    mp_obj_t shift = values[SHIFT].u_obj;
    if (axis == mp_const_none) {
        const struct np_array *flat = rolled(dev_np_flat(array), mp_obj_get_int(shift), 0);
        return dev_np_reshape_obj.fun._2(MP_OBJ_FROM_PTR(flat), dev_np_shape_object(array));
    }
    size_t axis_count = 1;
    size_t shift_count = 1;
    mp_obj_t *axes = &axis;
    mp_obj_t *shifts = &shift;
    if (!mp_obj_is_int(axis)) {
        mp_obj_get_array(axis, &axis_count, &axes);
    }
    if (!mp_obj_is_int(shift)) {
        mp_obj_get_array(shift, &shift_count, &shifts);
    }
    size_t most = axis_count > shift_count ? axis_count : shift_count;
    if ((axis_count != most && axis_count != 1) || (shift_count != most && shift_count != 1)) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: shift and axis differ in length"));
    }
    for (size_t i = 0; i < most; i++) {
        int32_t at = dev_np_axis(mp_obj_get_int(axes[axis_count == 1 ? 0 : i]), array->rank);
        array = rolled(array, mp_obj_get_int(shifts[shift_count == 1 ? 0 : i]), (uint32_t)at);
        dev_vm_step();
    }
    return MP_OBJ_FROM_PTR(array);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_roll_obj, 2, roll);

// pad_width as NumPy has it: one number, (before, after), or one pair for each dimension.
static void widths_take(mp_obj_t width, const struct np_array *array, int64_t out[NP_RANK][2])
{
    int64_t dims[2] = {array->rank, 2};
    const struct np_array *given = dev_np_of(width);
    if (dev_np_is_real(given->type)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np: pad_width is of whole numbers"));
    }
    struct np_array wide = dev_np_stretched(given, 2, dims);
    const struct np_array *each = dev_np_cast(&wide, NP_I64);
    memcpy(out, each->data, each->size * sizeof(int64_t));
    for (uint32_t d = 0; d < array->rank; d++) {
        if (out[d][0] < 0 || out[d][1] < 0 || out[d][0] > ENG_ELEMENTS_MAX ||
            out[d][1] > ENG_ELEMENTS_MAX) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: pad_width may not be negative"));
        }
    }
}

// pad(array, pad_width, mode='constant', constant_values=0): constant, edge, reflect, wrap
enum padding { PAD_EDGE, PAD_REFLECT, PAD_WRAP };

static int64_t padded_index(enum padding mode, int64_t at, int64_t size)
{
    if (mode == PAD_EDGE) {
        return at < 0 ? 0 : at >= size ? size - 1 : at;
    }
    int64_t period = mode == PAD_WRAP ? size : size == 1 ? 1 : 2 * (size - 1);
    int64_t in = (at % period + period) % period;
    return in < size ? in : period - in;
}

static const struct np_array *padded_along(const struct np_array *array, uint32_t axis,
                                           enum padding mode, const int64_t width[2])
{
    int64_t size = array->dims[axis];
    int64_t total = size + width[0] + width[1];
    if (size == 0 && total > 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: nothing to pad an empty dimension with"));
    }
    struct np_array *indices = dev_np_room(NP_I64, 1, &total);
    int64_t *to = (int64_t *)(void *)indices->data;
    dev_np_pay((size_t)total);
    for (int64_t i = 0; i < total; i++) {
        to[i] = padded_index(mode, i - width[0], size);
    }
    return taken(array, axis, indices);
}

static mp_obj_t pad(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, WIDTH, MODE, VALUES, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_array, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_pad_width, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_mode, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_constant)}},
        {MP_QSTR_constant_values, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *array = dev_np_of(values[A].u_obj);
    int64_t widths[NP_RANK][2];
    widths_take(values[WIDTH].u_obj, array, widths);
    qstr mode = mp_obj_str_get_qstr(values[MODE].u_obj);
    if (mode == MP_QSTR_edge || mode == MP_QSTR_reflect || mode == MP_QSTR_wrap) {
        enum padding how = mode == MP_QSTR_edge      ? PAD_EDGE
                           : mode == MP_QSTR_reflect ? PAD_REFLECT
                                                     : PAD_WRAP;
        for (uint32_t d = 0; d < array->rank; d++) {
            array = padded_along(array, d, how, widths[d]);
        }
        return MP_OBJ_FROM_PTR(array);
    }
    if (mode != MP_QSTR_constant) {
        mp_raise_ValueError(
            MP_ERROR_TEXT("walle.np: pad has the modes constant, edge, reflect and wrap"));
    }
    int64_t dims[NP_RANK];
    for (uint32_t d = 0; d < array->rank; d++) {
        dims[d] = array->dims[d] + widths[d][0] + widths[d][1];
    }
    struct np_array *made = dev_np_room(array->type, array->rank, dims);
    const struct np_array *value = dev_np_of(values[VALUES].u_obj);
    if (value->rank != 0) {
        mp_raise_NotImplementedError(MP_ERROR_TEXT("walle.np: constant_values is one number"));
    }
    dev_np_fill(made, value);
    struct np_array inner = *made;
    for (uint32_t d = 0; d < array->rank; d++) {
        inner.data += widths[d][0] * made->steps[d];
        inner.dims[d] = array->dims[d];
    }
    inner.size = array->size;
    dev_np_fill(&inner, array);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_pad_obj, 2, pad);

// --- choosing

// take(a, indices, axis=None)
static mp_obj_t take(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, INDICES, AXIS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_indices, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    uint32_t axis;
    const struct np_array *array = along(values[A].u_obj, values[AXIS].u_obj, &axis);
    const struct np_array *indices = dev_np_of(values[INDICES].u_obj);
    if (dev_np_is_real(indices->type)) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np: indices are whole numbers"));
    }
    if (indices->type == NP_BOOL) {
        indices = dev_np_cast(indices, NP_I64);
    }
    return dev_np_result(taken(array, axis, indices));
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_take_obj, 2, take);

// nonzero(a): a tuple of arrays, one for each dimension
static mp_obj_t nonzero(mp_obj_t a)
{
    const struct np_array *places[NP_RANK];
    mp_obj_t items[NP_RANK];
    const struct np_array *array = dev_np_of(a);
    array = array->rank == 0 ? dev_np_expanded(array, 0) : array;
    (void)dev_np_places(array, places);
    for (uint32_t d = 0; d < array->rank; d++) {
        items[d] = MP_OBJ_FROM_PTR(places[d]);
    }
    return mp_obj_new_tuple(array->rank, items);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_nonzero_obj, nonzero);

static mp_obj_t flatnonzero(mp_obj_t a)
{
    const struct np_array *places[NP_RANK];
    (void)dev_np_places(dev_np_flat(dev_np_of(a)), places);
    return MP_OBJ_FROM_PTR(places[0]);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_flatnonzero_obj, flatnonzero);

// argwhere(a): a row of indices for each element that is not zero
static mp_obj_t argwhere(mp_obj_t a)
{
    const struct np_array *places[NP_RANK];
    const struct np_array *array = dev_np_of(a);
    int64_t dims[2] = {(int64_t)dev_np_places(array, places), array->rank};
    struct np_array *made = dev_np_room(NP_I64, 2, dims);
    for (uint32_t d = 0; d < array->rank; d++) {
        struct np_array column = *made;
        column.data += (int64_t)d * made->steps[1];
        column.rank = 1;
        column.size = (size_t)dims[0];
        dev_np_fill(&column, places[d]);
    }
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_argwhere_obj, argwhere);

// where(condition), where(condition, x, y)
static mp_obj_t where(size_t count, const mp_obj_t *args)
{
    if (count == 1) {
        return nonzero(args[0]);
    }
    if (count == 2) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: either both or neither of x and y"));
    }
    const struct np_array *condition = dev_np_of_type(args[0], NP_BOOL);
    const struct np_array *x = dev_np_of(args[1]);
    const struct np_array *y = dev_np_of(args[2]);
    const struct np_array *all[] = {condition, x, y};
    struct np_array shape;
    dev_np_broadcast_dims(all, 3, &shape);
    struct np_array *made = dev_np_room(dev_np_common(x, y), shape.rank, shape.dims);
    dev_np_fill(made, y);
    struct np_array from =
        dev_np_stretched(dev_np_of_type(MP_OBJ_FROM_PTR(x), made->type), shape.rank, shape.dims);
    struct np_array mask = dev_np_stretched(condition, shape.rank, shape.dims);
    const struct np_array *walked[] = {made, &from, &mask};
    dev_np_walk(walked, 3, dev_np_choose_loop(made->type));
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(dev_np_where_obj, 1, 3, where);

// clip(a, a_min, a_max)
static mp_obj_t clip(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, LOW, HIGH, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_a_min, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_a_max, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    mp_obj_t made = MP_OBJ_FROM_PTR(dev_np_of(values[A].u_obj));
    if (values[LOW].u_obj == mp_const_none && values[HIGH].u_obj == mp_const_none) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: one of a_min and a_max must be given"));
    }
    if (values[LOW].u_obj != mp_const_none) {
        made = dev_np_binary(NP_MAXIMUM, made, values[LOW].u_obj, MP_OBJ_NULL);
    }
    if (values[HIGH].u_obj != mp_const_none) {
        made = dev_np_binary(NP_MINIMUM, made, values[HIGH].u_obj, MP_OBJ_NULL);
    }
    return made;
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_clip_obj, 1, clip);

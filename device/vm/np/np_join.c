// Functions that put arrays together, take them apart, or repeat and move their elements. Parts
// that split gives share the elements of what was split; all else is copied. Called by scripts, on
// the VM's thread.
#include "vm/np/np_calls.h"

#include <string.h>

#define PARTS_MAX 4096 // arrays of one call

struct parts {
    size_t count;
    const struct np_array **arrays;
    enum np_type type; // of all
};

static struct parts parts_take(mp_obj_t sequence)
{
    struct parts parts = {0};
    mp_obj_t *items;
    if (mp_obj_is_exact_type(sequence, &dev_np_array_type)) {
        sequence = mp_call_function_1(MP_OBJ_FROM_PTR(&mp_type_list), sequence);
    }
    mp_obj_get_array(sequence, &parts.count, &items);
    if (parts.count == 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: need at least one array"));
    }
    if (parts.count > PARTS_MAX) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: too many arrays"));
    }
    parts.arrays = m_new(const struct np_array *, parts.count);
    for (size_t i = 0; i < parts.count; i++) {
        const struct np_array *array = dev_np_of(items[i]);
        parts.arrays[i] = array;
        parts.type = i == 0 ? array->type : dev_np_promote(parts.type, array->type);
    }
    return parts;
}

// The part of an array from `at` on, `size` long, along an axis.
static struct np_array part_of(const struct np_array *array, uint32_t axis, int64_t at,
                               int64_t size)
{
    struct np_array part = *array;
    part.data += at * array->steps[axis];
    part.dims[axis] = size;
    part.size = 1;
    for (uint32_t d = 0; d < part.rank; d++) {
        part.size *= (size_t)part.dims[d];
    }
    return part;
}

static struct np_array *joined(const struct parts *parts, uint32_t axis)
{
    int64_t dims[NP_RANK];
    const struct np_array *first = parts->arrays[0];
    memcpy(dims, first->dims, sizeof(dims));
    dims[axis] = 0;
    for (size_t i = 0; i < parts->count; i++) {
        const struct np_array *array = parts->arrays[i];
        bool good = array->rank == first->rank;
        for (uint32_t d = 0; good && d < first->rank; d++) {
            good = d == axis || array->dims[d] == first->dims[d];
        }
        if (!good) {
            mp_raise_ValueError(
                MP_ERROR_TEXT("walle.np: all dimensions but the joined one must be the same"));
        }
        dims[axis] += array->dims[axis];
    }
    struct np_array *made = dev_np_room(parts->type, first->rank, dims);
    int64_t at = 0;
    for (size_t i = 0; i < parts->count; i++) {
        int64_t size = parts->arrays[i]->dims[axis];
        struct np_array part = part_of(made, axis, at, size);
        dev_np_fill(&part, parts->arrays[i]);
        at += size;
    }
    return made;
}

static mp_obj_t join_call(size_t count, const mp_obj_t *args, mp_map_t *named, bool is_new_axis)
{
    enum { ARRAYS, AXIS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_arrays, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct parts parts = parts_take(values[ARRAYS].u_obj);
    mp_obj_t axis_object = values[AXIS].u_obj;
    if (!is_new_axis && axis_object == mp_const_none) {
        for (size_t i = 0; i < parts.count; i++) {
            parts.arrays[i] = dev_np_flat(parts.arrays[i]);
        }
        return MP_OBJ_FROM_PTR(joined(&parts, 0));
    }
    uint32_t rank = parts.arrays[0]->rank;
    if (!is_new_axis && rank == 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: arrays without dimensions are not joined"));
    }
    uint32_t axis =
        (uint32_t)dev_np_axis(mp_obj_get_int(axis_object), is_new_axis ? rank + 1 : rank);
    for (size_t i = 0; is_new_axis && i < parts.count; i++) {
        if (parts.arrays[i]->rank != rank) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: all arrays must have the same shape"));
        }
        parts.arrays[i] = dev_np_expanded(parts.arrays[i], axis);
    }
    for (size_t i = 1; is_new_axis && i < parts.count; i++) {
        if (memcmp(parts.arrays[i]->dims, parts.arrays[0]->dims, (rank + 1) * sizeof(int64_t)) !=
            0) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: all arrays must have the same shape"));
        }
    }
    return MP_OBJ_FROM_PTR(joined(&parts, axis));
}

// concatenate(arrays, axis=0)
static mp_obj_t concatenate(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return join_call(count, args, named, false);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_concatenate_obj, 1, concatenate);

// stack(arrays, axis=0)
static mp_obj_t stack(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    return join_call(count, args, named, true);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_stack_obj, 1, stack);

enum stacking { ROWS, COLUMNS, DEPTH, AS_COLUMNS };

static mp_obj_t stacked(mp_obj_t sequence, enum stacking how)
{
    struct parts parts = parts_take(sequence);
    for (size_t i = 0; i < parts.count; i++) {
        const struct np_array *array = parts.arrays[i];
        if (array->rank == 0) {
            array = dev_np_expanded(array, 0);
        }
        if (array->rank == 1 && how != COLUMNS) {
            array = dev_np_expanded(array, how == AS_COLUMNS ? 1 : 0);
        }
        if (array->rank == 2 && how == DEPTH) {
            array = dev_np_expanded(array, 2);
        }
        parts.arrays[i] = array;
    }
    bool is_flat = parts.arrays[0]->rank == 1;
    uint32_t axis = how == ROWS || is_flat ? 0 : how == DEPTH ? 2 : 1;
    return MP_OBJ_FROM_PTR(joined(&parts, axis));
}

static mp_obj_t vstack(mp_obj_t arrays)
{
    return stacked(arrays, ROWS);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_vstack_obj, vstack);

static mp_obj_t hstack(mp_obj_t arrays)
{
    return stacked(arrays, COLUMNS);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_hstack_obj, hstack);

static mp_obj_t dstack(mp_obj_t arrays)
{
    return stacked(arrays, DEPTH);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_dstack_obj, dstack);

static mp_obj_t column_stack(mp_obj_t arrays)
{
    return stacked(arrays, AS_COLUMNS);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_column_stack_obj, column_stack);

// --- split

static void split_add(mp_obj_t list, const struct np_array *array, uint32_t axis,
                      const int64_t range[2])
{
    int64_t size = array->dims[axis];
    int64_t from = range[0] < size ? range[0] : size;
    int64_t to = range[1] < size ? range[1] : size;
    struct np_array part = part_of(array, axis, from < to ? from : 0, from < to ? to - from : 0);
    mp_obj_list_append(list, MP_OBJ_FROM_PTR(dev_np_view(&part)));
    dev_vm_step();
}

static mp_obj_t split_at(const struct np_array *array, mp_obj_t places, uint32_t axis)
{
    size_t count;
    mp_obj_t *items;
    mp_obj_get_array(places, &count, &items);
    mp_obj_t list = mp_obj_new_list(0, NULL);
    int64_t range[2] = {0, 0};
    for (size_t i = 0; i <= count; i++) {
        int64_t size = array->dims[axis];
        range[1] = i < count ? mp_obj_get_int(items[i]) : size;
        range[1] += range[1] < 0 ? size : 0;
        range[1] = range[1] < 0 ? 0 : range[1];
        split_add(list, array, axis, range);
        range[0] = range[1];
    }
    return list;
}

static mp_obj_t split_into(const struct np_array *array, int64_t parts, uint32_t axis, bool is_even)
{
    int64_t size = array->dims[axis];
    if (parts <= 0 || (is_even && size % parts != 0)) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: array split does not result in equal parts"));
    }
    mp_obj_t list = mp_obj_new_list(0, NULL);
    int64_t range[2] = {0, 0};
    for (int64_t i = 0; i < parts; i++) {
        range[1] = range[0] + size / parts + (i < size % parts ? 1 : 0);
        split_add(list, array, axis, range);
        range[0] = range[1];
    }
    return list;
}

static mp_obj_t split_call(const mp_obj_t *args, int64_t axis, bool is_even)
{
    const struct np_array *array = dev_np_of(args[0]);
    uint32_t along = (uint32_t)dev_np_axis((mp_int_t)axis, array->rank);
    if (mp_obj_is_int(args[1])) {
        return split_into(array, mp_obj_get_int(args[1]), along, is_even);
    }
    return split_at(array, args[1], along);
}

static int64_t split_axis(size_t count, const mp_obj_t *args, mp_map_t *named, mp_obj_t *out)
{
    enum { ARY, PLACES, AXIS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_ary, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_indices_or_sections, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_INT, {.u_int = 0}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    out[0] = values[ARY].u_obj;
    out[1] = values[PLACES].u_obj;
    return values[AXIS].u_int;
}

// split(ary, indices_or_sections, axis=0)
static mp_obj_t split(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    mp_obj_t given[2];
    int64_t axis = split_axis(count, args, named, given);
    return split_call(given, axis, true);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_split_obj, 2, split);

// array_split(ary, indices_or_sections, axis=0): the first parts may be longer by one
static mp_obj_t array_split(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    mp_obj_t given[2];
    int64_t axis = split_axis(count, args, named, given);
    return split_call(given, axis, false);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_array_split_obj, 2, array_split);

static mp_obj_t vsplit(mp_obj_t ary, mp_obj_t places)
{
    mp_obj_t given[] = {ary, places};
    if (dev_np_of(ary)->rank < 2) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: vsplit is for 2 or more dimensions"));
    }
    return split_call(given, 0, true);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_vsplit_obj, vsplit);

static mp_obj_t hsplit(mp_obj_t ary, mp_obj_t places)
{
    mp_obj_t given[] = {ary, places};
    return split_call(given, dev_np_of(ary)->rank > 1 ? 1 : 0, true);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_hsplit_obj, hsplit);

static mp_obj_t dsplit(mp_obj_t ary, mp_obj_t places)
{
    mp_obj_t given[] = {ary, places};
    if (dev_np_of(ary)->rank < 3) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: dsplit is for 3 or more dimensions"));
    }
    return split_call(given, 2, true);
}
MP_DEFINE_CONST_FUN_OBJ_2(dev_np_dsplit_obj, dsplit);

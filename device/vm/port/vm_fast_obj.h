// Objects as the interpreter's loop takes them apart without a call (patch_speed.py puts this into
// py/vm.c and py/runtime.c): items, methods, steps of iterators, calls, truth. What is not done
// here gives MP_OBJ_NULL or false and leaves all as it was; what is, comes to the same and is
// counted the same as the longer way. Included where MicroPython's own headers were.
#ifndef DEV_VM_FAST_OBJ_H
#define DEV_VM_FAST_OBJ_H

#include "py/objarray.h"
#include "py/objlist.h"
#include "py/objtuple.h"
#include "vm_fast.h"

static inline const mp_obj_type_t *dev_fast_type(mp_obj_t of)
{
    return mp_obj_is_obj(of) ? ((mp_obj_base_t *)MP_OBJ_TO_PTR(of))->type : mp_obj_get_type(of);
}

// A place in a list or tuple, from its end where it is negative; SIZE_MAX: there is none.
static inline size_t dev_fast_at(mp_obj_t index, size_t count)
{
    if (!mp_obj_is_small_int(index)) {
        return SIZE_MAX;
    }
    mp_int_t at = MP_OBJ_SMALL_INT_VALUE(index);
    at += at < 0 ? (mp_int_t)count : 0;
    return (mp_uint_t)at < count ? (size_t)at : SIZE_MAX;
}

// An item of a dictionary, or of a list or tuple. Raises KeyError.
static inline mp_obj_t dev_fast_item(mp_obj_t of, mp_obj_t index)
{
    const mp_obj_type_t *type = dev_fast_type(of);
    if (type == &mp_type_dict) {
        mp_map_t *map = &((mp_obj_dict_t *)MP_OBJ_TO_PTR(of))->map;
        mp_map_elem_t *elem = dev_fast_find(map, index);
        elem = elem != NULL ? elem : mp_map_lookup(map, index, MP_MAP_LOOKUP);
        if (elem == NULL) {
            mp_raise_type_arg(&mp_type_KeyError, index);
        }
        return elem->value;
    }
    if (type == &mp_type_list) {
        const mp_obj_list_t *list = MP_OBJ_TO_PTR(of);
        size_t at = dev_fast_at(index, list->len);
        return at != SIZE_MAX ? list->items[at] : MP_OBJ_NULL;
    }
    if (type == &mp_type_tuple) {
        const mp_obj_tuple_t *tuple = MP_OBJ_TO_PTR(of);
        size_t at = dev_fast_at(index, tuple->len);
        return at != SIZE_MAX ? tuple->items[at] : MP_OBJ_NULL;
    }
    if (type == &mp_type_bytearray) {
        const mp_obj_array_t *array = MP_OBJ_TO_PTR(of);
        size_t at = dev_fast_at(index, array->len);
        return at != SIZE_MAX ? MP_OBJ_NEW_SMALL_INT(((uint8_t *)array->items)[at]) : MP_OBJ_NULL;
    }
    return MP_OBJ_NULL;
}

// Puts an item there. Nothing (NULL) takes one away, which is not done here.
static inline bool dev_fast_item_put(mp_obj_t of, mp_obj_t index, mp_obj_t value)
{
    const mp_obj_type_t *type = dev_fast_type(of);
    if (value == MP_OBJ_NULL) {
        return false;
    }
    if (type == &mp_type_dict) {
        if (!dev_fast_put(MP_OBJ_TO_PTR(of), index, value)) {
            mp_obj_dict_store(of, index, value);
        }
        return true;
    }
    if (type == &mp_type_list) {
        mp_obj_list_t *list = MP_OBJ_TO_PTR(of);
        size_t at = dev_fast_at(index, list->len);
        if (at != SIZE_MAX) {
            list->items[at] = value;
        }
        return at != SIZE_MAX;
    }
    mp_uint_t byte = (mp_uint_t)MP_OBJ_SMALL_INT_VALUE(value);
    if (type == &mp_type_bytearray && mp_obj_is_small_int(value) && byte <= UINT8_MAX) {
        mp_obj_array_t *array = MP_OBJ_TO_PTR(of);
        size_t at = dev_fast_at(index, array->len);
        if (at != SIZE_MAX) {
            ((uint8_t *)array->items)[at] = (uint8_t)byte;
        }
        return at != SIZE_MAX;
    }
    return false;
}

// A function of a type that has no say in how its attributes are found, and the object.
static inline bool dev_fast_method(mp_obj_t of, qstr name, mp_obj_t *out)
{
    const mp_obj_type_t *type = dev_fast_type(of);
    if (MP_OBJ_TYPE_HAS_SLOT(type, attr) || !MP_OBJ_TYPE_HAS_SLOT(type, locals_dict) ||
        name == MP_QSTR___class__ || name == MP_QSTR___next__) {
        return false;
    }
    const unsigned wanted = MP_TYPE_FLAG_BINDS_SELF | MP_TYPE_FLAG_BUILTIN_FUN;
    const mp_map_elem_t *elem =
        dev_fast_find(&MP_OBJ_TYPE_GET_SLOT(type, locals_dict)->map, MP_OBJ_NEW_QSTR(name));
    if (elem == NULL || !mp_obj_is_obj(elem->value) ||
        (dev_fast_type(elem->value)->flags & wanted) != wanted) {
        return false;
    }
    out[0] = elem->value;
    out[1] = of;
    return true;
}

// The next of an iterator that a for-loop has, as mp_iternext_allow_raise gives it.
static inline mp_obj_t dev_fast_next(mp_obj_t from)
{
    struct { // as py/objpolyiter.c begins
        mp_obj_base_t base;
        mp_fun_1_t iternext;
    } *iter = MP_OBJ_TO_PTR(from);
    const mp_obj_type_t *type = dev_fast_type(from);
    if ((type->flags & MP_TYPE_FLAG_ITER_IS_STREAM) != MP_TYPE_FLAG_ITER_IS_ITERNEXT) {
        return mp_iternext_allow_raise(from);
    }
    MP_STATE_THREAD(stop_iteration_arg) = MP_OBJ_NULL;
    return type == &mp_type_polymorph_iter ? iter->iternext(from)
                                           : ((mp_fun_1_t)MP_OBJ_TYPE_GET_SLOT(type, iter))(from);
}

static inline bool dev_fast_true(mp_obj_t of)
{
    return of == mp_const_true || (of != mp_const_false && mp_obj_is_true(of));
}

static inline mp_obj_t dev_fast_call(size_t args, size_t names, mp_obj_t of, mp_obj_t *first)
{
    const mp_obj_type_t *type = dev_fast_type(of);
    return MP_OBJ_TYPE_HAS_SLOT(type, call)
               ? MP_OBJ_TYPE_GET_SLOT(type, call)(of, args, names, first)
               : mp_call_function_n_kw(of, args, names, first);
}

// Two or three items of a tuple that has so many, the last first.
static inline bool dev_fast_unpack(mp_obj_t from, size_t count, mp_obj_t *out)
{
    const mp_obj_tuple_t *tuple = MP_OBJ_TO_PTR(from);
    if (count < 2 || count > 3 || dev_fast_type(from) != &mp_type_tuple || tuple->len != count) {
        return false;
    }
    out[count - 1] = tuple->items[0];
    out[count - 2] = tuple->items[1];
    out[0] = tuple->items[count - 1];
    return true;
}

static inline void dev_fast_append(mp_obj_t to, mp_obj_t item)
{
    mp_obj_list_t *list = MP_OBJ_TO_PTR(to);
    if (dev_fast_type(to) == &mp_type_list && list->len < list->alloc) {
        list->items[list->len++] = item;
    } else {
        mp_obj_list_append(to, item);
    }
}

#endif

// The type of arrays as scripts meet it: attributes, methods, iteration, text, and what other
// modules ask of it (a buffer of dense elements). An array's shape and type never change; its
// elements do. Called by MicroPython on the VM's thread.
#include "vm/np/np_calls.h"
#include "vm/np/np_index.h"
#include "vm/np/np_math.h"

#include "vm/vm_nn.h"

#include "py/cstack.h"
#include "py/objlist.h"

#include <string.h>

static const struct np_array *array_from(mp_obj_t self)
{
    return MP_OBJ_TO_PTR(self);
}

static mp_obj_t list_from(const struct np_array *array, uint32_t depth, const uint8_t *at)
{
    mp_cstack_check();
    if (depth == array->rank) {
        return dev_np_get(array->type, at);
    }
    size_t size = (size_t)array->dims[depth];
    mp_obj_list_t *list = MP_OBJ_TO_PTR(mp_obj_new_list(size, NULL));
    for (size_t i = 0; i < size; i++) {
        list->items[i] = list_from(array, depth + 1, at + (int64_t)i * array->steps[depth]);
    }
    return MP_OBJ_FROM_PTR(list);
}

static mp_obj_t tolist(mp_obj_t self)
{
    return list_from(array_from(self), 0, array_from(self)->data);
}
static MP_DEFINE_CONST_FUN_OBJ_1(tolist_obj, tolist);

// a.item(), and asscalar(a)
static mp_obj_t item(mp_obj_t self)
{
    const struct np_array *array = dev_np_of(self);
    if (array->size != 1) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: item is for an array of one element"));
    }
    return dev_np_get(array->type, array->data);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_item_obj, item);

static mp_obj_t tobytes(mp_obj_t self)
{
    const struct np_array *array = dev_np_dense(array_from(self));
    return mp_obj_new_bytes(array->data, array->size * dev_np_item(array->type));
}
static MP_DEFINE_CONST_FUN_OBJ_1(tobytes_obj, tobytes);

static mp_obj_t fill(mp_obj_t self, mp_obj_t value)
{
    (void)dev_np_subscr(self, NP_ELLIPSIS, value);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_2(fill_obj, fill);

static void attr(mp_obj_t self, qstr name, mp_obj_t *dest)
{
    const struct np_array *array = array_from(self);
    if (dest[0] != MP_OBJ_NULL) {
        return; // a store, which is refused
    }
    switch (name) {
    case MP_QSTR_shape:
        dest[0] = dev_np_shape_object(array);
        return;
    case MP_QSTR_size:
        dest[0] = mp_obj_new_int_from_uint(array->size);
        return;
    case MP_QSTR_ndim:
        dest[0] = MP_OBJ_NEW_SMALL_INT(array->rank);
        return;
    case MP_QSTR_itemsize:
        dest[0] = MP_OBJ_NEW_SMALL_INT((mp_int_t)dev_np_item(array->type));
        return;
    case MP_QSTR_nbytes:
        dest[0] = mp_obj_new_int_from_uint(array->size * dev_np_item(array->type));
        return;
    case MP_QSTR_dtype: {
        const char *text = dev_np_type_name(array->type);
        dest[0] = mp_obj_new_str_via_qstr(text, strlen(text));
        return;
    }
    case MP_QSTR_T:
        dest[0] = dev_np_transposed(array);
        return;
    default:
        dest[1] = MP_OBJ_SENTINEL; // a method
        return;
    }
}

static void print(const mp_print_t *print, mp_obj_t self, mp_print_kind_t kind)
{
    const struct np_array *array = array_from(self);
    mp_obj_t values = tolist(self);
    if (kind == PRINT_STR) {
        mp_obj_print_helper(print, values, PRINT_REPR);
        return;
    }
    mp_print_str(print, "array(");
    mp_obj_print_helper(print, values, PRINT_REPR);
    bool is_told = array->type == NP_I64 || array->type == NP_F64 || array->type == NP_BOOL;
    if (!is_told || array->size == 0) {
        mp_printf(print, ", dtype=%s", dev_np_type_name(array->type));
    }
    mp_print_str(print, ")");
}

struct array_iterator {
    mp_obj_base_t base;
    mp_fun_1_t next;
    mp_obj_t array;
    size_t at;
};

static mp_obj_t iterator_next(mp_obj_t self)
{
    struct array_iterator *iterator = MP_OBJ_TO_PTR(self);
    if (iterator->at >= (size_t)array_from(iterator->array)->dims[0]) {
        return MP_OBJ_STOP_ITERATION;
    }
    return dev_np_subscr(iterator->array, mp_obj_new_int_from_uint(iterator->at++),
                         MP_OBJ_SENTINEL);
}

static mp_obj_t iterate(mp_obj_t self, mp_obj_iter_buf_t *buffer)
{
    _Static_assert(sizeof(struct array_iterator) <= sizeof(mp_obj_iter_buf_t), "fits the buffer");
    if (array_from(self)->rank == 0) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np: iteration over a 0-d array"));
    }
    struct array_iterator *iterator = (struct array_iterator *)buffer;
    iterator->base.type = &mp_type_polymorph_iter;
    iterator->next = iterator_next;
    iterator->array = self;
    iterator->at = 0;
    return MP_OBJ_FROM_PTR(iterator);
}

// Elements as they lie; of a view that does not lie densely, a copy, for reading. Nobody writes
// into bool: there are bytes that are none.
static mp_int_t buffer_of(mp_obj_t self, mp_buffer_info_t *buffer, mp_uint_t flags)
{
    const struct np_array *array = array_from(self);
    bool is_fixed = array->is_read_only || array->type == NP_BOOL || !dev_np_is_dense(array);
    if ((flags & MP_BUFFER_WRITE) && is_fixed) {
        return 1;
    }
    array = dev_np_dense(array);
    buffer->buf = array->data;
    buffer->len = array->size * dev_np_item(array->type);
    buffer->typecode = 'B';
    return 0;
}

static const mp_rom_map_elem_t locals_table[] = {
    {MP_ROM_QSTR(MP_QSTR_tolist), MP_ROM_PTR(&tolist_obj)},
    {MP_ROM_QSTR(MP_QSTR_item), MP_ROM_PTR(&dev_np_item_obj)},
    {MP_ROM_QSTR(MP_QSTR_tobytes), MP_ROM_PTR(&tobytes_obj)},
    {MP_ROM_QSTR(MP_QSTR_fill), MP_ROM_PTR(&fill_obj)},
    {MP_ROM_QSTR(MP_QSTR_copy), MP_ROM_PTR(&dev_np_copy_obj)},
    {MP_ROM_QSTR(MP_QSTR_astype), MP_ROM_PTR(&dev_np_astype_obj)},
    {MP_ROM_QSTR(MP_QSTR_sum), MP_ROM_PTR(&dev_np_sum_obj)},
    {MP_ROM_QSTR(MP_QSTR_prod), MP_ROM_PTR(&dev_np_prod_obj)},
    {MP_ROM_QSTR(MP_QSTR_min), MP_ROM_PTR(&dev_np_min_obj)},
    {MP_ROM_QSTR(MP_QSTR_max), MP_ROM_PTR(&dev_np_max_obj)},
    {MP_ROM_QSTR(MP_QSTR_any), MP_ROM_PTR(&dev_np_any_obj)},
    {MP_ROM_QSTR(MP_QSTR_all), MP_ROM_PTR(&dev_np_all_obj)},
    {MP_ROM_QSTR(MP_QSTR_mean), MP_ROM_PTR(&dev_np_mean_obj)},
    {MP_ROM_QSTR(MP_QSTR_std), MP_ROM_PTR(&dev_np_std_obj)},
    {MP_ROM_QSTR(MP_QSTR_var), MP_ROM_PTR(&dev_np_var_obj)},
    {MP_ROM_QSTR(MP_QSTR_ptp), MP_ROM_PTR(&dev_np_ptp_obj)},
    {MP_ROM_QSTR(MP_QSTR_argmin), MP_ROM_PTR(&dev_np_argmin_obj)},
    {MP_ROM_QSTR(MP_QSTR_argmax), MP_ROM_PTR(&dev_np_argmax_obj)},
    {MP_ROM_QSTR(MP_QSTR_cumsum), MP_ROM_PTR(&dev_np_cumsum_obj)},
    {MP_ROM_QSTR(MP_QSTR_cumprod), MP_ROM_PTR(&dev_np_cumprod_obj)},
    {MP_ROM_QSTR(MP_QSTR_reshape), MP_ROM_PTR(&dev_np_reshape_method_obj)},
    {MP_ROM_QSTR(MP_QSTR_transpose), MP_ROM_PTR(&dev_np_transpose_method_obj)},
    {MP_ROM_QSTR(MP_QSTR_ravel), MP_ROM_PTR(&dev_np_ravel_obj)},
    {MP_ROM_QSTR(MP_QSTR_flatten), MP_ROM_PTR(&dev_np_flatten_obj)},
    {MP_ROM_QSTR(MP_QSTR_squeeze), MP_ROM_PTR(&dev_np_squeeze_obj)},
    {MP_ROM_QSTR(MP_QSTR_repeat), MP_ROM_PTR(&dev_np_repeat_obj)},
    {MP_ROM_QSTR(MP_QSTR_swapaxes), MP_ROM_PTR(&dev_np_swapaxes_obj)},
    {MP_ROM_QSTR(MP_QSTR_round), MP_ROM_PTR(&dev_np_around_obj)},
    {MP_ROM_QSTR(MP_QSTR_clip), MP_ROM_PTR(&dev_np_clip_obj)},
    {MP_ROM_QSTR(MP_QSTR_nonzero), MP_ROM_PTR(&dev_np_nonzero_obj)},
    {MP_ROM_QSTR(MP_QSTR_dot), MP_ROM_PTR(&dev_np_dot_obj)},
    {MP_ROM_QSTR(MP_QSTR_sort), MP_ROM_PTR(&dev_np_sort_method_obj)},
    {MP_ROM_QSTR(MP_QSTR_argsort), MP_ROM_PTR(&dev_np_argsort_obj)},
    {MP_ROM_QSTR(MP_QSTR_searchsorted), MP_ROM_PTR(&dev_np_searchsorted_obj)},
};
static MP_DEFINE_CONST_DICT(locals, locals_table);

MP_DEFINE_CONST_OBJ_TYPE(dev_np_array_type, MP_QSTR_ndarray,
                         MP_TYPE_FLAG_EQ_NOT_REFLEXIVE | MP_TYPE_FLAG_EQ_CHECKS_OTHER_TYPE |
                             MP_TYPE_FLAG_EQ_HAS_NEQ_TEST,
                         print, print, attr, attr, unary_op, dev_np_unary_operator, binary_op,
                         dev_np_operator, subscr, dev_np_subscr, iter, iterate, buffer, buffer_of,
                         locals_dict, &locals);

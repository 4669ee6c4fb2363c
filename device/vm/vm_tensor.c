// Tensors in a script's heap: made of numbers, bytes or a model's output, read as numbers or bytes.
// They never change. Runs on the VM's thread; each number that becomes an element, or the other way
// round, costs a budget unit.
#include "vm/vm_nn.h"

#include "vm/vm_np.h"
#include "vm/vm_state.h"

#include "py/binary.h"
#include "py/cstack.h"
#include "py/objlist.h"
#include "py/runtime.h"

#include <string.h>

#define CODE_BYTES      'B'
#define CODE_BYTE_ARRAY 1 // of a bytearray

static mp_obj_t tensor_new(const struct eng_desc *desc, const void *block, const void *data)
{
    struct dev_vm_tensor *tensor =
        mp_obj_malloc_var(struct dev_vm_tensor, dims, int64_t, desc->rank, &dev_vm_tensor_type);
    tensor->block = block;
    tensor->data = data;
    tensor->dtype = desc->dtype;
    tensor->rank = desc->rank;
    tensor->count = 1;
    for (uint32_t d = 0; d < desc->rank; d++) {
        tensor->dims[d] = desc->dims[d];
        tensor->count *= (size_t)desc->dims[d];
    }
    return MP_OBJ_FROM_PTR(tensor);
}

mp_obj_t dev_vm_tensor_over(const struct eng_desc *desc, const void *block)
{
    return tensor_new(desc, block, block);
}

static const struct dev_vm_tensor *tensor_from(mp_obj_t object)
{
    return MP_OBJ_TO_PTR(object);
}

static struct eng_desc desc_of(const struct dev_vm_tensor *tensor)
{
    struct eng_desc desc = {.dtype = tensor->dtype, .rank = tensor->rank};
    memcpy(desc.dims, tensor->dims, tensor->rank * sizeof(int64_t));
    return desc;
}

static size_t bytes_of(const struct dev_vm_tensor *tensor)
{
    return tensor->count * eng_dtype_bytes(tensor->dtype);
}

// Memory for the elements of a shape; one byte for none, so that it is a block of the heap.
static uint8_t *elements_new(const struct eng_desc *desc)
{
    int64_t count = 0;
    if (eng_desc_check(desc, &count) != BASE_OK) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.nn: a shape is too large"));
    }
    size_t bytes = (size_t)count * eng_dtype_bytes(desc->dtype);
    return m_new(uint8_t, bytes > 0 ? bytes : 1);
}

// --- shapes

static void rank_check(size_t rank)
{
    if (rank > ENG_RANK_MAX) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.nn: more than %d dimensions"),
                          ENG_RANK_MAX);
    }
}

// Writes the dimensions a script says, an int or a sequence; one of them may be -1 and is what is
// left of `count`. Raises ValueError when they do not make `count`.
static void shape_take(mp_obj_t shape, size_t count, struct eng_desc *desc)
{
    size_t rank = 1;
    mp_obj_t *items = &shape;
    if (!mp_obj_is_int(shape)) {
        mp_obj_get_array(shape, &rank, &items);
    }
    rank_check(rank);
    int64_t *open = NULL;
    size_t made = 1;
    bool good = true;
    desc->rank = (uint32_t)rank;
    for (size_t d = 0; d < rank; d++) {
        desc->dims[d] = mp_obj_get_int(items[d]);
        if (desc->dims[d] == -1 && open == NULL) {
            open = &desc->dims[d];
            continue;
        }
        good = good && desc->dims[d] >= 0 &&
               !__builtin_mul_overflow(made, (size_t)desc->dims[d], &made);
    }
    if (good && open != NULL) {
        good = made > 0 && count % made == 0;
        *open = good ? (int64_t)(count / made) : 0;
    } else {
        good = good && made == count;
    }
    if (!good) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.nn: %d elements do not have this shape"),
                          (int)count);
    }
}

static mp_obj_t shape_object(const struct dev_vm_tensor *tensor)
{
    mp_obj_t items[ENG_RANK_MAX];
    for (uint32_t d = 0; d < tensor->rank; d++) {
        items[d] = mp_obj_new_int_from_ll(tensor->dims[d]);
    }
    return mp_obj_new_tuple(tensor->rank, items);
}

// --- making: numbers

static bool is_list(mp_obj_t values)
{
    return mp_obj_is_exact_type(values, &mp_type_list) ||
           mp_obj_is_exact_type(values, &mp_type_tuple);
}

// The shape of nested lists, by their first items.
static void nesting_take(mp_obj_t values, struct eng_desc *desc)
{
    while (is_list(values)) {
        size_t size;
        mp_obj_t *items;
        mp_obj_get_array(values, &size, &items);
        rank_check(desc->rank + 1);
        desc->dims[desc->rank++] = (int64_t)size;
        if (size == 0) {
            return;
        }
        values = items[0];
    }
}

struct filling {
    const struct eng_desc *desc;
    uint8_t *at;
    size_t element_bytes;
};

// Recursion is as deep as the shape's rank. No code of the script runs meanwhile: only numbers,
// lists and tuples are taken.
static void fill(struct filling *filling, uint32_t depth, mp_obj_t values)
{
    if (depth == filling->desc->rank) {
        mp_cstack_check();
        dev_vm_element_set(filling->desc->dtype, filling->at, values);
        filling->at += filling->element_bytes;
        return;
    }
    size_t size = 0;
    mp_obj_t *items = NULL;
    if (is_list(values)) {
        mp_obj_get_array(values, &size, &items);
    }
    if (items == NULL || size != (size_t)filling->desc->dims[depth]) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.nn: lists of different lengths"));
    }
    for (size_t i = 0; i < size; i++) {
        fill(filling, depth + 1, items[i]);
    }
}

static mp_obj_t of_numbers(mp_obj_t values, enum eng_dtype dtype)
{
    struct eng_desc desc = {.dtype = dtype};
    nesting_take(values, &desc);
    uint8_t *block = elements_new(&desc);
    struct filling filling = {&desc, block, eng_dtype_bytes(dtype)};
    fill(&filling, 0, values);
    return dev_vm_tensor_over(&desc, block);
}

// --- making: elements that lie somewhere

// Elements of type `from`, `count` of them, as a vector of type `dtype`.
static mp_obj_t of_elements(const uint8_t *data, enum eng_dtype from, size_t count,
                            enum eng_dtype dtype)
{
    struct eng_desc desc = {.dtype = dtype, .rank = 1, .dims = {(int64_t)count}};
    size_t bytes = eng_dtype_bytes(dtype);
    size_t step = eng_dtype_bytes(from);
    uint8_t *block = elements_new(&desc);
    if (from == dtype) {
        if (count > 0) {
            memcpy(block, data, count * bytes);
        }
        return dev_vm_tensor_over(&desc, block);
    }
    for (size_t i = 0; i < count; i++) {
        mp_cstack_check();
        mp_obj_t value = dev_vm_element_get(from, data + i * step);
        if (mp_obj_is_exact_type(value, &mp_type_float) && dev_vm_dtype_is_whole(dtype)) {
            value = mp_obj_new_int_from_float(mp_obj_get_float(value)); // towards zero
        }
        dev_vm_element_set(dtype, block + i * bytes, value);
    }
    return dev_vm_tensor_over(&desc, block);
}

// Bytes hold the elements as they lie; the items of an array are numbers.
static mp_obj_t of_buffer(const mp_buffer_info_t *buffer, bool is_array, enum eng_dtype dtype)
{
    char code = (char)buffer->typecode;
    size_t bytes = eng_dtype_bytes(dtype);
    if (!is_array && (code == CODE_BYTES || code == CODE_BYTE_ARRAY)) {
        if (buffer->len % bytes != 0) {
            mp_raise_msg_varg(&mp_type_ValueError,
                              MP_ERROR_TEXT("walle.nn: %d bytes are no whole number of %s"),
                              (int)buffer->len, dev_vm_dtype_name(dtype));
        }
        mp_obj_t made = of_elements(buffer->buf, dtype, buffer->len / bytes, dtype);
        const struct dev_vm_tensor *tensor = tensor_from(made);
        dev_vm_work(dtype == ENG_BOOL ? tensor->count / DEV_VM_TEXT_PER_UNIT : 0);
        for (size_t i = 0; dtype == ENG_BOOL && i < tensor->count; i++) {
            ((uint8_t *)(uintptr_t)tensor->data)[i] = tensor->data[i] != 0;
        }
        return made;
    }
    enum eng_dtype from = dev_vm_dtype_of_code(code);
    if (from == ENG_UNDEFINED) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.nn: an array of other things than numbers"));
    }
    return of_elements(buffer->buf, from, buffer->len / eng_dtype_bytes(from), dtype);
}

static mp_obj_t of_tensor(const struct dev_vm_tensor *from, enum eng_dtype dtype)
{
    if (dtype == ENG_UNDEFINED || dtype == from->dtype) {
        return MP_OBJ_FROM_PTR(from);
    }
    const struct dev_vm_tensor *flat =
        tensor_from(of_elements(from->data, from->dtype, from->count, dtype));
    struct eng_desc desc = desc_of(from);
    desc.dtype = dtype;
    return dev_vm_tensor_over(&desc, flat->block);
}

// Over the elements of an array of walle.np where they lie densely and have this type; else copied.
static mp_obj_t of_array(const struct np_array *array, enum eng_dtype dtype)
{
    enum np_type type = dtype == ENG_UNDEFINED ? array->type : dev_np_type_of(dtype);
    if (type != NP_TYPES && type != array->type) {
        array = dev_np_cast(array, type);
    }
    array = dev_np_dense(array);
    struct eng_desc desc = {.dtype = dev_np_dtype(array->type), .rank = array->rank};
    memcpy(desc.dims, array->dims, array->rank * sizeof(int64_t));
    return of_tensor(tensor_from(tensor_new(&desc, array->block, array->data)), dtype);
}

const struct dev_vm_tensor *dev_vm_tensor_of(mp_obj_t values, enum eng_dtype dtype)
{
    if (mp_obj_is_exact_type(values, &dev_np_array_type)) {
        return tensor_from(of_array(MP_OBJ_TO_PTR(values), dtype));
    }
    if (mp_obj_is_exact_type(values, &dev_vm_tensor_type)) {
        return tensor_from(of_tensor(tensor_from(values), dtype));
    }
    mp_buffer_info_t buffer;
    dtype = dtype == ENG_UNDEFINED ? ENG_F32 : dtype;
    if (dev_vm_is_number(values) || is_list(values)) {
        return tensor_from(of_numbers(values, dtype));
    }
    if (!mp_obj_is_str(values) && mp_get_buffer(values, &buffer, MP_BUFFER_READ)) {
        return tensor_from(of_buffer(&buffer, mp_obj_is_exact_type(values, &mp_type_array), dtype));
    }
    mp_raise_msg_varg(&mp_type_TypeError,
                      MP_ERROR_TEXT("walle.nn: a tensor is made of numbers or bytes, not of %s"),
                      mp_obj_get_type_str(values));
}

static mp_obj_t reshaped(const struct dev_vm_tensor *tensor, mp_obj_t shape)
{
    struct eng_desc desc = {.dtype = tensor->dtype};
    shape_take(shape, tensor->count, &desc);
    return tensor_new(&desc, tensor->block, tensor->data);
}

// tensor(values, shape=None, dtype="float32")
static mp_obj_t tensor_make(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { VALUES, SHAPE, DTYPE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_values, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_shape, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_dtype, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    enum eng_dtype dtype = values[DTYPE].u_obj == mp_const_none
                               ? ENG_UNDEFINED
                               : dev_vm_dtype_parse(values[DTYPE].u_obj);
    mp_obj_t from = values[VALUES].u_obj;
    if (mp_obj_is_exact_type(from, &dev_np_array_type)) { // which may change, as a tensor may not
        const struct np_array *array = MP_OBJ_TO_PTR(from);
        from = MP_OBJ_FROM_PTR(dev_np_cast(array, array->type));
    }
    const struct dev_vm_tensor *tensor = dev_vm_tensor_of(from, dtype);
    if (values[SHAPE].u_obj == mp_const_none) {
        return MP_OBJ_FROM_PTR(tensor);
    }
    return reshaped(tensor, values[SHAPE].u_obj);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_vm_tensor_obj, 1, tensor_make);

// --- reading

static mp_obj_t tolist_from(const struct dev_vm_tensor *tensor, uint32_t depth, const uint8_t **at)
{
    mp_cstack_check();
    if (depth == tensor->rank) {
        const uint8_t *element = *at;
        *at += eng_dtype_bytes(tensor->dtype);
        return dev_vm_element_get(tensor->dtype, element);
    }
    size_t size = (size_t)tensor->dims[depth];
    mp_obj_list_t *list = MP_OBJ_TO_PTR(mp_obj_new_list(size, NULL));
    for (size_t i = 0; i < size; i++) {
        list->items[i] = tolist_from(tensor, depth + 1, at);
    }
    return MP_OBJ_FROM_PTR(list);
}

static mp_obj_t tensor_tolist(mp_obj_t self)
{
    const uint8_t *at = tensor_from(self)->data;
    return tolist_from(tensor_from(self), 0, &at);
}
static MP_DEFINE_CONST_FUN_OBJ_1(tensor_tolist_obj, tensor_tolist);

// The number of a tensor of one.
static mp_obj_t tensor_item(mp_obj_t self)
{
    const struct dev_vm_tensor *tensor = tensor_from(self);
    if (tensor->count != 1) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.nn: item is for one element"));
    }
    return dev_vm_element_get(tensor->dtype, tensor->data);
}
static MP_DEFINE_CONST_FUN_OBJ_1(tensor_item_obj, tensor_item);

static mp_obj_t tensor_tobytes(mp_obj_t self)
{
    return mp_obj_new_bytes(tensor_from(self)->data, bytes_of(tensor_from(self)));
}
static MP_DEFINE_CONST_FUN_OBJ_1(tensor_tobytes_obj, tensor_tobytes);

// reshape((2, 3)) or reshape(2, 3)
static mp_obj_t tensor_reshape(size_t count, const mp_obj_t *args)
{
    mp_obj_t shape = count == 2 ? args[1] : mp_obj_new_tuple(count - 1, args + 1);
    return reshaped(tensor_from(args[0]), shape);
}
static MP_DEFINE_CONST_FUN_OBJ_VAR(tensor_reshape_obj, 2, tensor_reshape);

static mp_obj_t tensor_argmax(mp_obj_t self)
{
    const struct dev_vm_tensor *tensor = tensor_from(self);
    if (tensor->count == 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.nn: argmax of no elements"));
    }
    if (dev_vm_budget_charge(tensor->count / DEV_VM_WORK_PER_UNIT)) {
        dev_vm_over_budget();
    }
    return mp_obj_new_int_from_uint(
        dev_vm_element_largest(tensor->dtype, tensor->data, tensor->count));
}
static MP_DEFINE_CONST_FUN_OBJ_1(tensor_argmax_obj, tensor_argmax);

static void tensor_attr(mp_obj_t self, qstr attr, mp_obj_t *dest)
{
    const struct dev_vm_tensor *tensor = tensor_from(self);
    if (dest[0] != MP_OBJ_NULL) {
        return; // a store, which is refused
    }
    switch (attr) {
    case MP_QSTR_shape:
        dest[0] = shape_object(tensor);
        return;
    case MP_QSTR_size:
        dest[0] = mp_obj_new_int_from_uint(tensor->count);
        return;
    case MP_QSTR_dtype: {
        const char *name = dev_vm_dtype_name(tensor->dtype);
        dest[0] = mp_obj_new_str_via_qstr(name, strlen(name));
        return;
    }
    default:
        dest[1] = MP_OBJ_SENTINEL; // a method
        return;
    }
}

// --- as a sequence

static size_t length_of(const struct dev_vm_tensor *tensor)
{
    if (tensor->rank == 0) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.nn: a tensor without dimensions has no length"));
    }
    return (size_t)tensor->dims[0];
}

// Elements under one index of the first dimension.
static size_t step_of(const struct dev_vm_tensor *tensor)
{
    size_t step = 1;
    for (uint32_t d = 1; d < tensor->rank; d++) {
        step *= (size_t)tensor->dims[d];
    }
    return step;
}

// The part at index `at`, or the `size` parts from there on.
static mp_obj_t part(const struct dev_vm_tensor *tensor, size_t at, size_t size, bool is_slice)
{
    const uint8_t *data = tensor->data + at * step_of(tensor) * eng_dtype_bytes(tensor->dtype);
    struct eng_desc desc = desc_of(tensor);
    if (is_slice) {
        desc.dims[0] = (int64_t)size;
        return tensor_new(&desc, tensor->block, data);
    }
    if (tensor->rank == 1) {
        return dev_vm_element_get(tensor->dtype, data);
    }
    desc.rank--;
    memmove(desc.dims, desc.dims + 1, desc.rank * sizeof(int64_t));
    return tensor_new(&desc, tensor->block, data);
}

static mp_obj_t tensor_subscr(mp_obj_t self, mp_obj_t index, mp_obj_t value)
{
    const struct dev_vm_tensor *tensor = tensor_from(self);
    if (value != MP_OBJ_SENTINEL) {
        return MP_OBJ_NULL; // only loads
    }
    size_t length = length_of(tensor);
    if (mp_obj_is_exact_type(index, &mp_type_slice)) {
        mp_bound_slice_t slice;
        if (!mp_seq_get_fast_slice_indexes(length, index, &slice)) {
            mp_raise_NotImplementedError(MP_ERROR_TEXT("walle.nn: slices have step 1"));
        }
        return part(tensor, (size_t)slice.start, (size_t)(slice.stop - slice.start), true);
    }
    return part(tensor, mp_get_index(&dev_vm_tensor_type, length, index, false), 1, false);
}

static mp_obj_t tensor_unary(mp_unary_op_t op, mp_obj_t self)
{
    const struct dev_vm_tensor *tensor = tensor_from(self);
    return op == MP_UNARY_OP_LEN ? mp_obj_new_int_from_uint(length_of(tensor)) : MP_OBJ_NULL;
}

struct tensor_iterator {
    mp_obj_base_t base;
    mp_fun_1_t next;
    const struct dev_vm_tensor *tensor;
    size_t at;
};

static mp_obj_t iterator_next(mp_obj_t self)
{
    struct tensor_iterator *iterator = MP_OBJ_TO_PTR(self);
    if (iterator->at >= (size_t)iterator->tensor->dims[0]) {
        return MP_OBJ_STOP_ITERATION;
    }
    return part(iterator->tensor, iterator->at++, 1, false);
}

static mp_obj_t tensor_iter(mp_obj_t self, mp_obj_iter_buf_t *buffer)
{
    _Static_assert(sizeof(struct tensor_iterator) <= sizeof(mp_obj_iter_buf_t), "fits the buffer");
    (void)length_of(tensor_from(self));
    struct tensor_iterator *iterator = (struct tensor_iterator *)buffer;
    iterator->base.type = &mp_type_polymorph_iter;
    iterator->next = iterator_next;
    iterator->tensor = tensor_from(self);
    iterator->at = 0;
    return MP_OBJ_FROM_PTR(iterator);
}

static mp_int_t tensor_buffer(mp_obj_t self, mp_buffer_info_t *buffer, mp_uint_t flags)
{
    const struct dev_vm_tensor *tensor = tensor_from(self);
    if (flags & MP_BUFFER_WRITE) {
        return 1;
    }
    buffer->buf = (void *)(uintptr_t)tensor->data;
    buffer->len = bytes_of(tensor);
    buffer->typecode = CODE_BYTES;
    return 0;
}

static void tensor_print(const mp_print_t *print, mp_obj_t self, mp_print_kind_t kind)
{
    (void)kind;
    const struct dev_vm_tensor *tensor = tensor_from(self);
    mp_printf(print, "<Tensor %s [", dev_vm_dtype_name(tensor->dtype));
    for (uint32_t d = 0; d < tensor->rank; d++) {
        mp_printf(print, d == 0 ? "%d" : ",%d", (int)tensor->dims[d]);
    }
    mp_print_str(print, "]>");
}

static const mp_rom_map_elem_t tensor_locals_table[] = {
    {MP_ROM_QSTR(MP_QSTR_tolist), MP_ROM_PTR(&tensor_tolist_obj)},
    {MP_ROM_QSTR(MP_QSTR_item), MP_ROM_PTR(&tensor_item_obj)},
    {MP_ROM_QSTR(MP_QSTR_tobytes), MP_ROM_PTR(&tensor_tobytes_obj)},
    {MP_ROM_QSTR(MP_QSTR_reshape), MP_ROM_PTR(&tensor_reshape_obj)},
    {MP_ROM_QSTR(MP_QSTR_argmax), MP_ROM_PTR(&tensor_argmax_obj)},
};
static MP_DEFINE_CONST_DICT(tensor_locals, tensor_locals_table);

MP_DEFINE_CONST_OBJ_TYPE(dev_vm_tensor_type, MP_QSTR_Tensor, MP_TYPE_FLAG_NONE, print, tensor_print,
                         attr, tensor_attr, unary_op, tensor_unary, subscr, tensor_subscr, iter,
                         tensor_iter, buffer, tensor_buffer, locals_dict, &tensor_locals);

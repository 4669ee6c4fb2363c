// Arrays themselves: memory, views, what is made of numbers, lists, buffers and tensors. Called by
// all of walle.np, on the VM's thread. The elements lie in the same block as the array that was
// made with them, so a small array is one allocation.
#include "vm/np/np.h"

#include "base/ckd.h"
#include "vm/vm_nn.h"

#include "py/binary.h"
#include "py/cstack.h"
#include "py/gc.h"

#include <string.h>

#define HEAD_BYTES ((sizeof(struct np_array) + 15) / 16 * 16)

// Memory that was in use a moment ago is in the processor's cache: where so many bytes were made
// since the last collection, and EARLY_FACTOR times those that it looked at, a large array is worth
// another one. A heap that is not larger than EARLY_HEAP is in the cache anyway, and room in one
// piece is worth more there.
#define EARLY_ARRAY  4096
#define EARLY_BYTES  ((size_t)1 << 20)
#define EARLY_FACTOR 8
#define EARLY_HEAP   ((size_t)2 << 20)

#define COPY_PART ((size_t)1 << 20) // bytes, between two looks at the budget

static _Noreturn void raise_memory(size_t bytes)
{
    mp_raise_msg_varg(&mp_type_MemoryError,
                      MP_ERROR_TEXT("walle.np: %u bytes for an array; the task's memory is %u KiB "
                                    "(heap_kib in task.json)"),
                      (unsigned)(bytes < UINT32_MAX ? bytes : UINT32_MAX),
                      (unsigned)(dev_vm_current->heap_bytes / 1024));
}

// Steps of elements that lie densely, the last dimension next to one another.
static void steps_set(struct np_array *array)
{
    int64_t step = (int64_t)dev_np_item(array->type);
    for (uint32_t d = array->rank; d-- > 0;) {
        array->steps[d] = step;
        step *= array->dims[d];
    }
}

static void collect_early(void)
{
    size_t made = MP_STATE_MEM(gc_alloc_amount) * MICROPY_BYTES_PER_GC_BLOCK;
    size_t scanned = MP_STATE_MEM(area).gc_scanned_blocks * MICROPY_BYTES_PER_GC_BLOCK;
    size_t heap = (size_t)(MP_STATE_MEM(area).gc_pool_end - MP_STATE_MEM(area).gc_pool_start);
    if (heap > EARLY_HEAP && made >= EARLY_BYTES && made / EARLY_FACTOR >= scanned &&
        MP_STATE_MEM(gc_auto_collect_enabled) && MP_STATE_THREAD(gc_lock_depth) == 0) {
        gc_collect();
    }
}

static struct np_array *array_make(enum np_type type, uint32_t rank, const int64_t *dims,
                                   unsigned flags)
{
    size_t size = 1;
    size_t bytes = 0;
    bool fits = true;
    for (uint32_t d = 0; d < rank; d++) {
        if (dims[d] < 0) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: negative dimensions are not allowed"));
        }
        fits = fits && base_ckd_mul(size, (size_t)dims[d], &size);
    }
    fits = fits && size <= (size_t)ENG_ELEMENTS_MAX;
    fits = fits && base_ckd_mul(size, dev_np_item(type), &bytes);
    fits = fits && base_ckd_add(bytes, HEAD_BYTES, &bytes);
    if (fits && bytes >= EARLY_ARRAY) {
        collect_early();
    }
    struct np_array *array = fits ? gc_alloc(bytes, flags) : NULL;
    if (array == NULL) {
        raise_memory(fits ? bytes : SIZE_MAX);
    }
    array->base.type = &dev_np_array_type;
    array->block = (uint8_t *)array;
    array->data = (uint8_t *)array + HEAD_BYTES;
    array->size = size;
    array->type = type;
    array->rank = rank;
    array->is_read_only = false;
    for (uint32_t d = 0; d < rank; d++) {
        array->dims[d] = dims[d];
    }
    steps_set(array);
    dev_np_pay(bytes / NP_ITEM_MAX);
    return array;
}

struct np_array *dev_np_new(enum np_type type, uint32_t rank, const int64_t *dims)
{
    return array_make(type, rank, dims, 0);
}

struct np_array *dev_np_room(enum np_type type, uint32_t rank, const int64_t *dims)
{
    return array_make(type, rank, dims, dev_vm_pool_is_clear() ? DEV_VM_ALLOC_UNCLEARED : 0);
}

struct np_array *dev_np_view(const struct np_array *array)
{
    struct np_array *made = m_malloc_maybe(sizeof(*made));
    if (made == NULL) {
        raise_memory(sizeof(*made));
    }
    *made = *array;
    made->base.type = &dev_np_array_type;
    return made;
}

bool dev_np_is_dense(const struct np_array *array)
{
    int64_t step = (int64_t)dev_np_item(array->type);
    for (uint32_t d = array->rank; d-- > 0;) {
        if (array->dims[d] != 1 && array->steps[d] != step && array->size > 0) {
            return false;
        }
        step *= array->dims[d];
    }
    return true;
}

void dev_np_fill(const struct np_array *to, const struct np_array *from)
{
    struct np_array source = dev_np_stretched(from, to->rank, to->dims);
    if (to->type == from->type && source.size == from->size && dev_np_is_dense(to) &&
        dev_np_is_dense(&source)) {
        size_t bytes = to->size * dev_np_item(to->type);
        size_t part = dev_np_overlap(to, &source) ? bytes : COPY_PART;
        for (size_t done = 0; done < bytes; done += part) {
            size_t now = bytes - done < part ? bytes - done : part;
            dev_np_pay(now / NP_ITEM_MAX);
            memmove(to->data + done, source.data + done, now);
        }
        return;
    }
    if (dev_np_overlap(to, from)) {
        source = dev_np_stretched(dev_np_cast(from, from->type), to->rank, to->dims);
    }
    const struct np_array *both[] = {to, &source};
    dev_np_walk(both, 2, dev_np_cast_loop(to->type, from->type));
}

struct np_array *dev_np_cast(const struct np_array *array, enum np_type type)
{
    struct np_array *made = dev_np_room(type, array->rank, array->dims);
    dev_np_fill(made, array);
    return made;
}

const struct np_array *dev_np_dense(const struct np_array *array)
{
    return dev_np_is_dense(array) ? array : dev_np_cast(array, array->type);
}

// --- made of what a script gives

static bool is_list(mp_obj_t values)
{
    return mp_obj_is_exact_type(values, &mp_type_list) ||
           mp_obj_is_exact_type(values, &mp_type_tuple);
}

// The elements of a tensor, which are not copied and not written to.
static struct np_array *of_tensor(const struct dev_vm_tensor *tensor)
{
    enum np_type type = dev_np_type_of(tensor->dtype);
    if (type == NP_TYPES) {
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("walle.np: no arrays of %s"),
                          dev_vm_dtype_name(tensor->dtype));
    }
    struct np_array view = {.block = (uint8_t *)(uintptr_t)tensor->block,
                            .data = (uint8_t *)(uintptr_t)tensor->data,
                            .size = tensor->count,
                            .type = type,
                            .rank = tensor->rank,
                            .is_read_only = true};
    memcpy(view.dims, tensor->dims, tensor->rank * sizeof(int64_t));
    steps_set(&view);
    return dev_np_view(&view);
}

// What nested lists are an array of. By their first items; the rest is checked as it is read.
struct nesting {
    struct np_array shape;
    enum np_type type; // of all that was seen; NP_TYPES: nothing yet
};

static void type_see(struct nesting *nesting, enum np_type type)
{
    nesting->type = nesting->type == NP_TYPES ? type : dev_np_promote(nesting->type, type);
}

static _Noreturn void raise_ragged(void)
{
    mp_raise_ValueError(MP_ERROR_TEXT("walle.np: the array has an inhomogeneous shape"));
}

static void shape_see(struct nesting *nesting, mp_obj_t values)
{
    struct np_array *shape = &nesting->shape;
    while (is_list(values)) {
        size_t size;
        mp_obj_t *items;
        mp_obj_get_array(values, &size, &items);
        if (shape->rank == NP_RANK) {
            mp_raise_msg_varg(&mp_type_ValueError,
                              MP_ERROR_TEXT("walle.np: more than %d dimensions"), NP_RANK);
        }
        shape->dims[shape->rank++] = (int64_t)size;
        if (size == 0) {
            return;
        }
        values = items[0];
    }
    if (mp_obj_is_exact_type(values, &dev_np_array_type) ||
        mp_obj_is_exact_type(values, &dev_vm_tensor_type)) {
        const struct np_array *inner = dev_np_of(values);
        if (shape->rank + inner->rank > NP_RANK) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: too many dimensions"));
        }
        memcpy(shape->dims + shape->rank, inner->dims, inner->rank * sizeof(int64_t));
        shape->rank += inner->rank;
    }
}

// Looks at the types of all items, `depth` lists deep.
static void types_see(struct nesting *nesting, uint32_t depth, mp_obj_t values)
{
    mp_cstack_check();
    if (is_list(values)) {
        size_t size;
        mp_obj_t *items;
        mp_obj_get_array(values, &size, &items);
        if (depth >= nesting->shape.rank || size != (size_t)nesting->shape.dims[depth]) {
            raise_ragged();
        }
        for (size_t i = 0; i < size; i++) {
            types_see(nesting, depth + 1, items[i]);
        }
        return;
    }
    enum np_type type = dev_np_number_type(values);
    if (type != NP_TYPES) {
        if (depth != nesting->shape.rank) {
            raise_ragged();
        }
        type_see(nesting, type);
        return;
    }
    const struct np_array *inner = dev_np_of(values);
    if (depth + inner->rank != nesting->shape.rank ||
        memcmp(inner->dims, nesting->shape.dims + depth, inner->rank * sizeof(int64_t)) != 0) {
        raise_ragged();
    }
    type_see(nesting, inner->type);
}

// The lists were looked at and no code of the script ran since.
static void items_read(const struct np_array *to, uint32_t depth, uint8_t *at, mp_obj_t values)
{
    mp_cstack_check();
    if (is_list(values)) {
        size_t size;
        mp_obj_t *items;
        mp_obj_get_array(values, &size, &items);
        for (size_t i = 0; i < size; i++) {
            items_read(to, depth + 1, at + (int64_t)i * to->steps[depth], items[i]);
        }
    } else if (dev_np_number_type(values) != NP_TYPES) {
        dev_np_set(to->type, at, values);
    } else {
        const struct np_array *inner = dev_np_of(values);
        struct np_array part = *to;
        part.data = at;
        part.rank = inner->rank;
        part.size = inner->size;
        memcpy(part.dims, inner->dims, inner->rank * sizeof(int64_t));
        memmove(part.steps, to->steps + depth, inner->rank * sizeof(int64_t));
        dev_np_fill(&part, inner);
    }
}

static struct np_array *of_numbers(mp_obj_t values, enum np_type type)
{
    struct nesting nesting = {.type = NP_TYPES};
    shape_see(&nesting, values);
    types_see(&nesting, 0, values);
    if (type == NP_TYPES) {
        type = nesting.type == NP_TYPES ? NP_F64 : nesting.type;
    }
    struct np_array *made = dev_np_room(type, nesting.shape.rank, nesting.shape.dims);
    items_read(made, 0, made->data, values);
    return made;
}

// The items of an array('f') and the like, and bytes as uint8; copied.
static struct np_array *of_buffer(const mp_buffer_info_t *buffer)
{
    char code = (char)buffer->typecode;
    enum eng_dtype dtype = code == BYTEARRAY_TYPECODE ? ENG_U8 : dev_vm_dtype_of_code(code);
    enum np_type type = dev_np_type_of(dtype);
    if (type == NP_TYPES) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np: no arrays of these items"));
    }
    int64_t count = (int64_t)(buffer->len / dev_np_item(type));
    struct np_array *made = dev_np_room(type, 1, &count);
    memcpy(made->data, buffer->buf, (size_t)count * dev_np_item(type));
    return made;
}

// A new array of this type (NP_TYPES: its own), or where nothing has to be made, what is there.
static const struct np_array *take(mp_obj_t values, enum np_type type)
{
    const struct np_array *array = NULL;
    mp_buffer_info_t buffer;
    if (mp_obj_is_exact_type(values, &dev_np_array_type)) {
        array = MP_OBJ_TO_PTR(values);
    } else if (mp_obj_is_exact_type(values, &dev_vm_tensor_type)) {
        array = of_tensor(MP_OBJ_TO_PTR(values));
    } else if (is_list(values) || dev_np_number_type(values) != NP_TYPES) {
        return of_numbers(values, type);
    } else if (mp_obj_is_exact_type(values, &mp_type_range)) {
        return of_numbers(mp_call_function_1(MP_OBJ_FROM_PTR(&mp_type_list), values), type);
    } else if (!mp_obj_is_str(values) && mp_get_buffer(values, &buffer, MP_BUFFER_READ)) {
        array = of_buffer(&buffer);
    } else {
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("walle.np: no array of a %s"),
                          mp_obj_get_type_str(values));
    }
    return type == NP_TYPES || type == array->type ? array : dev_np_cast(array, type);
}

const struct np_array *dev_np_of(mp_obj_t values)
{
    return take(values, NP_TYPES);
}

const struct np_array *dev_np_of_type(mp_obj_t values, enum np_type type)
{
    return take(values, type);
}

// --- shapes

uint32_t dev_np_shape(mp_obj_t shape, int64_t dims[NP_RANK])
{
    size_t rank = 1;
    mp_obj_t *items = &shape;
    if (is_list(shape)) {
        mp_obj_get_array(shape, &rank, &items);
    }
    if (rank > NP_RANK) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("walle.np: more than %d dimensions"),
                          NP_RANK);
    }
    for (size_t d = 0; d < rank; d++) {
        dims[d] = mp_obj_get_int(items[d]);
    }
    return (uint32_t)rank;
}

mp_obj_t dev_np_shape_object(const struct np_array *array)
{
    mp_obj_t items[NP_RANK];
    for (uint32_t d = 0; d < array->rank; d++) {
        items[d] = mp_obj_new_int_from_ll(array->dims[d]);
    }
    return mp_obj_new_tuple(array->rank, items);
}

int32_t dev_np_axis(mp_int_t axis, uint32_t rank)
{
    mp_int_t counted = axis < 0 ? axis + (mp_int_t)rank : axis;
    if (counted < 0 || counted >= (mp_int_t)rank) {
        mp_raise_msg_varg(&mp_type_ValueError,
                          MP_ERROR_TEXT("walle.np: axis %d is out of bounds for %u dimensions"),
                          (int)axis, (unsigned)rank);
    }
    return (int32_t)counted;
}

mp_obj_t dev_np_result(const struct np_array *array)
{
    return array->rank == 0 ? dev_np_get(array->type, array->data) : MP_OBJ_FROM_PTR(array);
}

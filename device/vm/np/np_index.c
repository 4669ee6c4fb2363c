// Indexing: numbers, slices, `...`, None, masks and arrays of indices, for reading (a view where
// only the first four are in it, a copy else) and for writing. Rules of shape are NumPy's. Called
// by scripts through a[...], on the VM's thread.
#include "vm/np/np_index.h"

#include "vm/vm_nn.h"

#include <string.h>

#define KEY_PARTS_MAX (2 * NP_RANK + 1) // a number and a None for each dimension, and `...`

// A key taken apart. `view` has a dimension for each part of the key but numbers; those that an
// array of indices will choose from are in `chosen`, by their place in the view.
struct key {
    struct np_array view;
    uint32_t chosen_count;
    uint32_t chosen[NP_RANK];
    const struct np_array *indices[NP_RANK]; // int64, not yet checked
    bool is_array;                           // some part is an array: what is read is a copy
    bool is_split; // arrays with something else between them: their dimensions come first
};

static _Noreturn void raise_index(int64_t index, int64_t size)
{
    mp_raise_msg_varg(&mp_type_IndexError,
                      MP_ERROR_TEXT("walle.np: index %d is out of bounds for a size of %d"),
                      (int)index, (int)size);
}

static _Noreturn void raise_many(void)
{
    mp_raise_msg(&mp_type_IndexError, MP_ERROR_TEXT("walle.np: too many indices for the array"));
}

static bool is_indices(mp_obj_t part)
{
    return mp_obj_is_exact_type(part, &dev_np_array_type) ||
           mp_obj_is_exact_type(part, &mp_type_list) ||
           mp_obj_is_exact_type(part, &mp_type_tuple) ||
           mp_obj_is_exact_type(part, &dev_vm_tensor_type) || mp_obj_is_bool(part);
}

// How many dimensions of the array a part of the key is about.
static uint32_t dims_of(mp_obj_t part, const struct np_array **out_indices)
{
    *out_indices = NULL;
    if (part == mp_const_none || part == NP_ELLIPSIS) {
        return 0;
    }
    if (!is_indices(part)) {
        return 1;
    }
    const struct np_array *indices = dev_np_of(part);
    if (indices->type == NP_F64 && indices->size == 0) {
        indices = dev_np_cast(indices, NP_I64); // an empty list
    }
    if (dev_np_is_real(indices->type)) {
        mp_raise_msg(&mp_type_IndexError,
                     MP_ERROR_TEXT("walle.np: arrays of indices are of whole numbers or bool"));
    }
    *out_indices = indices;
    return indices->type == NP_BOOL ? indices->rank : 1;
}

static void dim_add(struct key *key, int64_t size, int64_t step)
{
    if (key->view.rank == NP_RANK) {
        raise_many();
    }
    key->view.dims[key->view.rank] = size;
    key->view.steps[key->view.rank++] = step;
}

static void slice_add(struct key *key, mp_obj_t part, int64_t size, int64_t step)
{
    mp_bound_slice_t bound;
    mp_obj_slice_indices(part, (mp_int_t)size, &bound);
    int64_t count = 0;
    if (bound.step > 0 && bound.stop > bound.start) {
        count = (bound.stop - bound.start - 1) / bound.step + 1;
    } else if (bound.step < 0 && bound.stop < bound.start) {
        count = (bound.start - bound.stop - 1) / -bound.step + 1;
    }
    key->view.data += count > 0 ? bound.start * step : 0;
    dim_add(key, count, count > 1 ? bound.step * step : 0);
}

static void number_add(struct key *key, mp_obj_t part, int64_t size, int64_t step)
{
    if (!mp_obj_is_int(part)) {
        mp_raise_msg(&mp_type_IndexError,
                     MP_ERROR_TEXT("walle.np: only numbers, slices, ..., None and arrays are "
                                   "indices"));
    }
    int64_t index = mp_obj_get_int(part);
    int64_t counted = index < 0 ? index + size : index;
    if (counted < 0 || counted >= size) {
        raise_index(index, size);
    }
    key->view.data += counted * step;
}

static void choose(struct key *key, const struct np_array *indices, int64_t size, int64_t step)
{
    if (key->chosen_count == NP_RANK) {
        raise_many();
    }
    key->indices[key->chosen_count] = indices;
    key->chosen[key->chosen_count++] = key->view.rank;
    dim_add(key, size, step);
}

// A mask over dimensions from `at` on becomes an array of indices for each of them.
static void mask_add(struct key *key, const struct np_array *array, uint32_t at,
                     const struct np_array *mask)
{
    const struct np_array *places[NP_RANK];
    if (memcmp(mask->dims, array->dims + at, mask->rank * sizeof(int64_t)) != 0) {
        mp_raise_msg(&mp_type_IndexError,
                     MP_ERROR_TEXT("walle.np: the mask has another shape than the array"));
    }
    if (mask->rank == 0) { // True or False: a dimension of 1 or 0 more
        int64_t count = *mask->data != 0 ? 1 : 0;
        choose(key, dev_np_new(NP_I64, 1, &count), 1, 0);
        return;
    }
    dev_np_places(mask, places);
    for (uint32_t d = 0; d < mask->rank; d++) {
        choose(key, places[d], array->dims[at + d], array->steps[at + d]);
    }
}

struct parts {
    size_t count;
    mp_obj_t *items;
    mp_obj_t single;
};

static void key_take(struct key *key, const struct np_array *array, const struct parts *parts)
{
    const struct np_array *indices = NULL;
    uint32_t used = 0;
    uint32_t open = 0;
    bool has_ellipsis = false;
    for (size_t i = 0; i < parts->count; i++) {
        used += dims_of(parts->items[i], &indices);
        key->is_array = key->is_array || indices != NULL;
        if (parts->items[i] == NP_ELLIPSIS && has_ellipsis) {
            mp_raise_msg(&mp_type_IndexError, MP_ERROR_TEXT("walle.np: more than one ellipsis"));
        }
        has_ellipsis = has_ellipsis || parts->items[i] == NP_ELLIPSIS;
    }
    if (used > array->rank) {
        raise_many();
    }
    open = array->rank - used;
    uint32_t at = 0;
    uint32_t last = 0; // 1 + the place of the part before that was an array; 0: none was
    for (size_t i = 0; i <= parts->count; i++) {
        bool is_end = i == parts->count;
        mp_obj_t part = is_end ? NP_ELLIPSIS : parts->items[i];
        if (part == NP_ELLIPSIS && !(is_end && has_ellipsis)) {
            for (; open > 0; open--, at++) {
                dim_add(key, array->dims[at], array->steps[at]);
            }
            continue;
        }
        if (is_end) {
            break;
        }
        uint32_t dims = dims_of(part, &indices);
        bool is_number =
            dims == 1 && indices == NULL && !mp_obj_is_exact_type(part, &mp_type_slice);
        if (key->is_array && (indices != NULL || is_number)) { // numbers are arrays among arrays
            key->is_split = key->is_split || (last != 0 && last != i);
            last = (uint32_t)i + 1;
        }
        if (part == mp_const_none) {
            dim_add(key, 1, 0);
        } else if (indices != NULL && indices->type == NP_BOOL) {
            mask_add(key, array, at, indices);
        } else if (indices != NULL) {
            choose(key, indices->type == NP_I64 ? indices : dev_np_cast(indices, NP_I64),
                   array->dims[at], array->steps[at]);
        } else if (mp_obj_is_exact_type(part, &mp_type_slice)) {
            slice_add(key, part, array->dims[at], array->steps[at]);
        } else if (key->is_array && mp_obj_is_int(part)) {
            choose(key, dev_np_of_type(part, NP_I64), array->dims[at], array->steps[at]);
        } else {
            number_add(key, part, array->dims[at], array->steps[at]);
        }
        at += dims;
    }
}

static void size_set(struct np_array *view)
{
    view->size = 1;
    for (uint32_t d = 0; d < view->rank; d++) {
        view->size *= (size_t)view->dims[d];
    }
}

static void key_make(struct key *key, const struct np_array *array, mp_obj_t index)
{
    struct parts parts = {.count = 1, .single = index};
    parts.items = &parts.single;
    if (mp_obj_is_exact_type(index, &mp_type_tuple)) {
        mp_obj_get_array(index, &parts.count, &parts.items);
    }
    if (parts.count > KEY_PARTS_MAX) {
        raise_many();
    }
    memset(key, 0, sizeof(*key));
    key->view = *array;
    key->view.rank = 0;
    key_take(key, array, &parts);
    size_set(&key->view);
}

// --- arrays of indices

// Elements that are chosen: where each begins, from the view's data on, and what is under it.
struct choice {
    struct np_array offsets; // int64, dense: of the shape of the arrays of indices
    struct np_array rest;    // the dimensions that nothing was chosen from
    uint32_t place;          // of the chosen dimensions in the result
};

static void add_offsets(struct np_array *offsets, const struct np_array *indices, int64_t size,
                        int64_t step)
{
    struct np_array wide = dev_np_stretched(indices, offsets->rank, offsets->dims);
    const struct np_array *dense = dev_np_dense(&wide);
    const int64_t *from = (const int64_t *)(const void *)dense->data;
    int64_t *to = (int64_t *)(void *)offsets->data;
    for (size_t i = 0; i < offsets->size; i++) {
        if (i % NP_CHUNK == 0) {
            dev_np_pay(offsets->size - i < NP_CHUNK ? offsets->size - i : NP_CHUNK);
        }
        int64_t index = from[i] < 0 ? from[i] + size : from[i];
        if (index < 0 || index >= size) {
            raise_index(from[i], size);
        }
        to[i] += index * step;
    }
}

static void choice_make(struct choice *choice, const struct key *key)
{
    struct np_array shape;
    dev_np_broadcast_dims(key->indices, key->chosen_count, &shape);
    choice->offsets = *dev_np_new(NP_I64, shape.rank, shape.dims);
    choice->rest = key->view;
    choice->rest.rank = 0;
    uint32_t next = 0;
    for (uint32_t d = 0; d < key->view.rank; d++) {
        if (next < key->chosen_count && key->chosen[next] == d) {
            add_offsets(&choice->offsets, key->indices[next], key->view.dims[d],
                        key->view.steps[d]);
            next++;
        } else {
            choice->rest.dims[choice->rest.rank] = key->view.dims[d];
            choice->rest.steps[choice->rest.rank++] = key->view.steps[d];
        }
    }
    size_set(&choice->rest);
    choice->place = key->is_split ? 0 : key->chosen[0];
    if (choice->offsets.rank + choice->rest.rank > NP_RANK) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: the result has too many dimensions"));
    }
}

// The shape of the result, the chosen dimensions first.
static uint32_t choice_dims(const struct choice *choice, int64_t *dims)
{
    memcpy(dims, choice->offsets.dims, choice->offsets.rank * sizeof(int64_t));
    memcpy(dims + choice->offsets.rank, choice->rest.dims, choice->rest.rank * sizeof(int64_t));
    return choice->offsets.rank + choice->rest.rank;
}

// Moves the first `count` dimensions behind the `place` after them.
static void dims_move(struct np_array *array, uint32_t count, uint32_t place)
{
    struct np_array from = *array;
    for (uint32_t d = 0; d < count + place; d++) {
        uint32_t to = d < count ? d + place : d - count;
        array->dims[to] = from.dims[d];
        array->steps[to] = from.steps[d];
    }
}

// Elements by themselves, from where they lie or to there.
#define SCATTER(name, T)                                                                           \
    static void name(uint8_t *base, const int64_t *offsets, uint8_t *dense, size_t count,          \
                     bool is_write)                                                                \
    {                                                                                              \
        T *row = (T *)(void *)dense;                                                               \
        for (size_t i = 0; is_write && i < count; i++) {                                           \
            *(T *)(void *)(base + offsets[i]) = row[i];                                            \
        }                                                                                          \
        for (size_t i = 0; !is_write && i < count; i++) {                                          \
            row[i] = *(const T *)(const void *)(base + offsets[i]);                                \
        }                                                                                          \
    }
SCATTER(scatter_8, uint8_t)
SCATTER(scatter_32, uint32_t)
SCATTER(scatter_64, uint64_t)

static void elements_copy(const struct choice *choice, const struct np_array *dense, bool is_write)
{
    const int64_t *offsets = (const int64_t *)(const void *)choice->offsets.data;
    size_t item = dev_np_item(dense->type);
    size_t count = choice->offsets.size;
    for (size_t done = 0; done < count; done += NP_CHUNK) {
        size_t now = count - done < NP_CHUNK ? count - done : NP_CHUNK;
        (item == 1   ? scatter_8
         : item == 4 ? scatter_32
                     : scatter_64)(choice->rest.data, offsets + done, dense->data + done * item,
                                   now, is_write);
        dev_np_pay(now);
    }
}

// Copies between what was chosen of an array and `dense`, which has the chosen dimensions first.
static void choice_copy(const struct choice *choice, struct np_array *dense, bool is_write)
{
    const int64_t *offsets = (const int64_t *)(const void *)choice->offsets.data;
    if (choice->rest.size == 1) {
        elements_copy(choice, dense, is_write);
        return;
    }
    size_t item = dev_np_item(dense->type);
    struct np_array part = *dense; // of one choice
    struct np_array rest = choice->rest;
    size_t count = choice->offsets.size;
    part.rank = rest.rank;
    part.size = rest.size;
    memcpy(part.dims, rest.dims, sizeof(part.dims));
    memmove(part.steps, dense->steps + choice->offsets.rank, rest.rank * sizeof(int64_t));
    uint8_t *at = dense->data;
    size_t bytes = rest.size * item;
    for (size_t i = 0; i < count; i++, at += bytes) {
        if (i % NP_CHUNK == 0) {
            dev_np_pay(count - i < NP_CHUNK ? count - i : NP_CHUNK);
        }
        part.data = at;
        rest.data = choice->rest.data + offsets[i];
        dev_np_fill(is_write ? &rest : &part, is_write ? &part : &rest);
        dev_np_pay(NP_RANK * DEV_VM_WORK_PER_UNIT / 64);
    }
}

static mp_obj_t chosen_read(const struct key *key)
{
    struct choice choice;
    choice_make(&choice, key);
    int64_t dims[NP_RANK];
    uint32_t rank = choice_dims(&choice, dims);
    struct np_array *made = dev_np_room(key->view.type, rank, dims);
    choice_copy(&choice, made, false);
    dims_move(made, choice.offsets.rank, choice.place);
    return MP_OBJ_FROM_PTR(made);
}

static void chosen_write(const struct key *key, const struct np_array *value)
{
    struct choice choice;
    choice_make(&choice, key);
    int64_t dims[NP_RANK];
    uint32_t rank = choice_dims(&choice, dims);
    struct np_array *dense = dev_np_room(key->view.type, rank, dims);
    struct np_array shown = *dense; // as the script sees the shape
    dims_move(&shown, choice.offsets.rank, choice.place);
    struct np_array narrow = *value;
    while (narrow.rank > shown.rank && narrow.dims[0] == 1) { // more dimensions, of size 1
        memmove(narrow.dims, narrow.dims + 1, sizeof(narrow.dims) - sizeof(narrow.dims[0]));
        memmove(narrow.steps, narrow.steps + 1, sizeof(narrow.steps) - sizeof(narrow.steps[0]));
        narrow.rank--;
    }
    dev_np_fill(&shown, &narrow);
    choice_copy(&choice, dense, true);
}

// --- a mask of the array's own shape, where both lie densely

#define EIGHT_TRUE UINT64_C(0x0101010101010101) // as many bool

static uint64_t eight_of(const uint8_t *mask)
{
    uint64_t eight;
    memcpy(&eight, mask, sizeof(eight));
    return eight;
}

static size_t trues_of(const struct np_array *mask)
{
    size_t count = 0;
    for (size_t done = 0; done < mask->size; done += NP_CHUNK) {
        size_t now = mask->size - done < NP_CHUNK ? mask->size - done : NP_CHUNK;
        uint32_t trues = 0;
        for (size_t i = 0; i < now; i++) {
            trues += mask->data[done + i] != 0;
        }
        count += trues;
        dev_np_pay(now);
    }
    return count;
}

// How many elements are true: up to `room` of them are read into a row, or written from one; with
// `step` 0 one element is written to all.
#define MASKED(name, T)                                                                            \
    static size_t name##_read(T *row, const T *array, const uint8_t *mask, size_t count,           \
                              size_t room)                                                         \
    {                                                                                              \
        size_t made = 0;                                                                           \
        size_t i = 0;                                                                              \
        while (i < count && made < room) {                                                         \
            const uint64_t eight = count - i >= 8 ? eight_of(mask + i) : 1;                        \
            if (eight == 0) {                                                                      \
                i += 8;                                                                            \
            } else if (eight == EIGHT_TRUE && room - made >= 8) {                                  \
                memcpy(row + made, array + i, 8 * sizeof(T));                                      \
                made += 8;                                                                         \
                i += 8;                                                                            \
            } else {                                                                               \
                size_t end = count - i < 8 ? count : i + 8;                                        \
                for (; i < end && made < room; i++) {                                              \
                    row[made] = array[i];                                                          \
                    made += mask[i] != 0;                                                          \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        return made;                                                                               \
    }                                                                                              \
    static size_t name##_write(T *array, const T *row, size_t step, const uint8_t *mask,           \
                               size_t count)                                                       \
    {                                                                                              \
        size_t used = 0;                                                                           \
        for (size_t i = 0; i < count;) {                                                           \
            const uint64_t eight = count - i >= 8 ? eight_of(mask + i) : 1;                        \
            if (eight == 0) {                                                                      \
                i += 8;                                                                            \
            } else if (eight == EIGHT_TRUE && step == 1) {                                         \
                memcpy(array + i, row + used, 8 * sizeof(T));                                      \
                used += 8;                                                                         \
                i += 8;                                                                            \
            } else {                                                                               \
                size_t end = count - i < 8 ? count : i + 8;                                        \
                for (; i < end; i++) {                                                             \
                    if (mask[i] != 0) {                                                            \
                        array[i] = row[used * step];                                               \
                        used++;                                                                    \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        return used;                                                                               \
    }                                                                                              \
    static size_t name##_read_bytes(uint8_t *row, const uint8_t *array, const uint8_t *mask,       \
                                    size_t count, size_t room)                                     \
    {                                                                                              \
        return name##_read((T *)(void *)row, (const T *)(const void *)array, mask, count, room);   \
    }                                                                                              \
    static size_t name##_write_bytes(uint8_t *array, const uint8_t *row, size_t step,              \
                                     const uint8_t *mask, size_t count)                            \
    {                                                                                              \
        return name##_write((T *)(void *)array, (const T *)(const void *)row, step, mask, count);  \
    }
MASKED(masked_8, uint8_t)
MASKED(masked_32, uint32_t)
MASKED(masked_64, uint64_t)

// NULL: the index is no such mask of the array.
static const struct np_array *mask_of(const struct np_array *array, mp_obj_t index)
{
    if (!mp_obj_is_exact_type(index, &dev_np_array_type)) {
        return NULL;
    }
    const struct np_array *mask = MP_OBJ_TO_PTR(index);
    bool is_mask = mask->type == NP_BOOL && mask->rank > 0 && mask->rank == array->rank &&
                   memcmp(mask->dims, array->dims, mask->rank * sizeof(int64_t)) == 0;
    return is_mask && dev_np_is_dense(mask) && dev_np_is_dense(array) ? mask : NULL;
}

static mp_obj_t masked_read(const struct np_array *array, const struct np_array *mask)
{
    size_t item = dev_np_item(array->type);
    size_t count = trues_of(mask);
    int64_t dims = (int64_t)count;
    struct np_array *made = dev_np_room(array->type, 1, &dims);
    size_t found = 0;
    for (size_t done = 0; done < mask->size; done += NP_CHUNK) {
        size_t now = mask->size - done < NP_CHUNK ? mask->size - done : NP_CHUNK;
        found += (item == 1   ? masked_8_read_bytes
                  : item == 4 ? masked_32_read_bytes
                              : masked_64_read_bytes)(made->data + found * item,
                                                      array->data + done * item, mask->data + done,
                                                      now, count - found);
        dev_np_pay(now);
    }
    return MP_OBJ_FROM_PTR(made);
}

// false: the value is of another type or shape, or lies in the array too.
static bool masked_write(const struct np_array *array, const struct np_array *mask,
                         const struct np_array *value)
{
    bool is_one = value->rank == 0;
    if (value->type != array->type || value->rank > 1 || dev_np_overlap(array, mask) ||
        dev_np_overlap(array, value) || (!is_one && !dev_np_is_dense(value)) ||
        (!is_one && value->size != trues_of(mask))) {
        return false;
    }
    size_t item = dev_np_item(array->type);
    size_t used = 0;
    for (size_t done = 0; done < mask->size; done += NP_CHUNK) {
        size_t now = mask->size - done < NP_CHUNK ? mask->size - done : NP_CHUNK;
        used += (item == 1   ? masked_8_write_bytes
                 : item == 4 ? masked_32_write_bytes
                             : masked_64_write_bytes)(array->data + done * item,
                                                      value->data + (is_one ? 0 : used * item),
                                                      is_one ? 0 : 1, mask->data + done, now);
        dev_np_pay(now);
    }
    return true;
}

// --- the slot

static void write(const struct np_array *array, mp_obj_t index, mp_obj_t value)
{
    struct key key;
    if (array->is_read_only) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: assignment destination is read-only"));
    }
    const struct np_array *mask = mask_of(array, index);
    if (mask != NULL &&
        masked_write(array, mask,
                     dev_np_number_type(value) != NP_TYPES ? dev_np_of_type(value, array->type)
                                                           : dev_np_of(value))) {
        return;
    }
    key_make(&key, array, index);
    if (key.view.rank == 0 && dev_np_number_type(value) != NP_TYPES) {
        dev_np_set(array->type, key.view.data, value);
        return;
    }
    const struct np_array *from = dev_np_number_type(value) != NP_TYPES
                                      ? dev_np_of_type(value, array->type)
                                      : dev_np_of(value);
    if (key.is_array) {
        chosen_write(&key, from);
        return;
    }
    struct np_array narrow = *from;
    while (narrow.rank > key.view.rank && narrow.dims[0] == 1) {
        memmove(narrow.dims, narrow.dims + 1, sizeof(narrow.dims) - sizeof(narrow.dims[0]));
        memmove(narrow.steps, narrow.steps + 1, sizeof(narrow.steps) - sizeof(narrow.steps[0]));
        narrow.rank--;
    }
    dev_np_fill(&key.view, &narrow);
}

mp_obj_t dev_np_subscr(mp_obj_t self, mp_obj_t index, mp_obj_t value)
{
    const struct np_array *array = MP_OBJ_TO_PTR(self);
    if (value == MP_OBJ_NULL) {
        return MP_OBJ_NULL; // del
    }
    if (value != MP_OBJ_SENTINEL) {
        write(array, index, value);
        return mp_const_none;
    }
    if (mp_obj_is_small_int(index) && array->rank == 1) { // the most common one
        int64_t at = MP_OBJ_SMALL_INT_VALUE(index);
        int64_t counted = at < 0 ? at + array->dims[0] : at;
        if (counted >= 0 && counted < array->dims[0]) {
            return dev_np_get(array->type, array->data + counted * array->steps[0]);
        }
    }
    const struct np_array *mask = mask_of(array, index);
    if (mask != NULL) {
        return masked_read(array, mask);
    }
    struct key key;
    key_make(&key, array, index);
    if (key.is_array) {
        return chosen_read(&key);
    }
    // Only numbers make an element of it; `a[...]` stays an array.
    bool has_ellipsis = index == NP_ELLIPSIS;
    if (mp_obj_is_exact_type(index, &mp_type_tuple)) {
        size_t count;
        mp_obj_t *items;
        mp_obj_get_array(index, &count, &items);
        for (size_t i = 0; i < count; i++) {
            has_ellipsis = has_ellipsis || items[i] == NP_ELLIPSIS;
        }
    }
    if (key.view.rank == 0 && !has_ellipsis) {
        return dev_np_get(array->type, key.view.data);
    }
    return MP_OBJ_FROM_PTR(dev_np_view(&key.view));
}

// --- where elements are not zero

// Of one dimension.
static void places_row(const struct np_array *mask, int64_t *to, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < mask->size && found < count;) {
        size_t end = mask->size - i < 8 ? mask->size : i + 8;
        if (end - i == 8 && eight_of(mask->data + i) == 0) {
            i = end;
        }
        for (; i < end && found < count; i++) {
            to[found] = (int64_t)i;
            found += mask->data[i] != 0;
        }
        if (i % NP_CHUNK == 0) {
            dev_np_pay(NP_CHUNK);
        }
    }
}

uint64_t dev_np_places(const struct np_array *values, const struct np_array **out_places)
{
    const struct np_array *mask =
        values->type == NP_BOOL ? dev_np_dense(values) : dev_np_cast(values, NP_BOOL);
    int64_t count = (int64_t)trues_of(mask);
    int64_t *to[NP_RANK];
    for (uint32_t d = 0; d < mask->rank; d++) {
        struct np_array *made = dev_np_room(NP_I64, 1, &count);
        out_places[d] = made;
        to[d] = (int64_t *)(void *)made->data;
    }
    if (mask->rank == 1) {
        places_row(mask, to[0], (size_t)count);
        return (uint64_t)count;
    }
    int64_t index[NP_RANK] = {0};
    size_t found = 0;
    for (size_t i = 0; i < mask->size; i++) {
        if (i % NP_CHUNK == NP_CHUNK - 1) {
            dev_np_pay((size_t)NP_CHUNK * (mask->rank + 1));
        }
        if (mask->data[i] != 0) {
            for (uint32_t d = 0; d < mask->rank; d++) {
                to[d][found] = index[d];
            }
            found++;
        }
        for (uint32_t d = mask->rank; d-- > 0;) {
            if (++index[d] < mask->dims[d]) {
                break;
            }
            index[d] = 0;
        }
    }
    return (uint64_t)count;
}

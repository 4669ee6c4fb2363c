// Sorting and searching. Rows are sorted in place, long ones by the bytes of their elements where
// few of those differ, others by merging: both are stable and take no longer whatever lies in the
// row; a NaN comes after all else. Called by scripts, on the VM's thread.
#include "vm/np/np_calls.h"
#include "vm/np/np_lanes.h"
#include "vm/np/np_math.h"

#include <string.h>

#define RUN          12  // shorter rows are sorted by insertion
#define RADIX_MIN    256 // ... and shorter ones by merging
#define RADIX_PASSES 4   // more bytes that differ are merging's, too
#define ORDER_PASSES 2   // ... of indices, whose keys lie anywhere
#define SEARCHES     256 // between two looks at the budget
#define SEARCH_WORK  64  // elements that one costs

// Sorts `order`, indices of `values`, of which `half` has room for as many.
typedef void np_sort_indices(const uint8_t *values, int64_t *order, int64_t *half, size_t count);
typedef void np_sort_values(uint8_t *values, uint8_t *half, size_t count);
// How many of `count` sorted values come before a value; those equal to it too where `is_right`.
typedef size_t np_search(const uint8_t *values, size_t count, const uint8_t *value, bool is_right);

// Leaves of sorted values the first of each; how many.
typedef size_t np_distinct(uint8_t *values, size_t count);

#define BEFORE(a, b) ((a) < (b) || ((b) != (b) && (a) == (a)))

// E: what is moved; KEY: its value.
#define MERGE_SORT(name, E, KEY, extra)                                                            \
    static void name extra                                                                         \
    {                                                                                              \
        for (size_t from = 0; from < count; from += RUN) {                                         \
            size_t to = count - from < RUN ? count : from + RUN;                                   \
            for (size_t i = from + 1; i < to; i++) {                                               \
                const E moved = items[i];                                                          \
                size_t at = i;                                                                     \
                for (; at > from && BEFORE(KEY(moved), KEY(items[at - 1])); at--) {                \
                    items[at] = items[at - 1];                                                     \
                }                                                                                  \
                items[at] = moved;                                                                 \
            }                                                                                      \
        }                                                                                          \
        for (size_t run = RUN; run < count; run *= 2) {                                            \
            for (size_t from = 0; from + run < count; from += 2 * run) {                           \
                size_t end = count - from < 2 * run ? count : from + 2 * run;                      \
                size_t left = 0;                                                                   \
                size_t right = from + run;                                                         \
                memcpy(half, items + from, run * sizeof(E));                                       \
                for (size_t at = from; left < run; at++) {                                         \
                    bool is_right = right < end && BEFORE(KEY(items[right]), KEY(half[left]));     \
                    items[at] = is_right ? items[right++] : half[left++];                          \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
// By the bytes of a key whose order is that of the elements, from the lowest; a byte that all have
// alike is passed over. false: too many differ, nothing was moved.
#define RADIX_SORT(name, E, K, KEY, most, extra)                                                   \
    static bool name extra                                                                         \
    {                                                                                              \
        uint32_t counts[sizeof(K)][256];                                                           \
        E *from = items;                                                                           \
        E *to = half;                                                                              \
        size_t passes = 0;                                                                         \
        memset(counts, 0, sizeof(counts));                                                         \
        for (size_t i = 0; i < count; i++) {                                                       \
            K key = KEY(items[i]);                                                                 \
            for (size_t byte = 0; byte < sizeof(K); byte++, key = (K)(key >> 4 >> 4)) {            \
                counts[byte][key & 255]++;                                                         \
            }                                                                                      \
        }                                                                                          \
        const K first = KEY(items[0]);                                                             \
        for (size_t byte = 0; byte < sizeof(K); byte++) {                                          \
            passes += counts[byte][first >> 8 * byte & 255] != count;                              \
        }                                                                                          \
        if (passes > (most)) {                                                                     \
            return false;                                                                          \
        }                                                                                          \
        for (size_t byte = 0; byte < sizeof(K); byte++) {                                          \
            if (counts[byte][first >> 8 * byte & 255] == count) {                                  \
                continue;                                                                          \
            }                                                                                      \
            uint32_t at = 0;                                                                       \
            for (size_t digit = 0; digit < 256; digit++) {                                         \
                uint32_t next = at + counts[byte][digit];                                          \
                counts[byte][digit] = at;                                                          \
                at = next;                                                                         \
            }                                                                                      \
            for (size_t i = 0; i < count; i++) {                                                   \
                to[counts[byte][KEY(from[i]) >> 8 * byte & 255]++] = from[i];                      \
            }                                                                                      \
            E *swapped = from;                                                                     \
            from = to;                                                                             \
            to = swapped;                                                                          \
        }                                                                                          \
        if (from != items) {                                                                       \
            memcpy(items, from, count * sizeof(E));                                                \
        }                                                                                          \
        return true;                                                                               \
    }

static inline uint8_t key_u8(uint8_t value)
{
    return value;
}

static inline uint32_t key_i32(int32_t value)
{
    return (uint32_t)value ^ (uint32_t)1 << 31;
}

static inline uint64_t key_i64(int64_t value)
{
    return (uint64_t)value ^ (uint64_t)1 << 63;
}

static inline uint64_t key_u64(uint64_t value)
{
    return value;
}

// Equals have one key: both zeros, and all NaN, which is the last.
static inline uint32_t key_f32(float value)
{
    uint32_t bits;
    value += 0.0F;
    memcpy(&bits, &value, sizeof(bits));
    bits ^= bits >> 31 != 0 ? UINT32_MAX : (uint32_t)1 << 31;
    return value != value ? UINT32_MAX : bits;
}

static inline uint64_t key_f64(double value)
{
    uint64_t bits;
    value += 0.0;
    memcpy(&bits, &value, sizeof(bits));
    bits ^= bits >> 63 != 0 ? UINT64_MAX : (uint64_t)1 << 63;
    return value != value ? UINT64_MAX : bits;
}

#define OWN(e)     (e)
#define INDEXED(e) (keys[e])
#define KEY_u8(e)  key_u8(keys[e])
#define KEY_i32(e) key_i32(keys[e])
#define KEY_i64(e) key_i64(keys[e])
#define KEY_u64(e) key_u64(keys[e])
#define KEY_f32(e) key_f32(keys[e])
#define KEY_f64(e) key_f64(keys[e])
#define SORTS(n, T, K)                                                                             \
    MERGE_SORT(n##_sort, T, OWN, (T * items, T * half, size_t count))                              \
    MERGE_SORT(n##_order, int64_t, INDEXED,                                                        \
               (const T *keys, int64_t *items, int64_t *half, size_t count))                       \
    RADIX_SORT(n##_radix, T, K, key_##n, RADIX_PASSES, (T * items, T * half, size_t count))        \
    RADIX_SORT(n##_radix_order, int64_t, K, KEY_##n, ORDER_PASSES,                                 \
               (const T *keys, int64_t *items, int64_t *half, size_t count))                       \
    static void n##_sort_bytes(uint8_t *values, uint8_t *half, size_t count)                       \
    {                                                                                              \
        T *items = (T *)(void *)values;                                                            \
        if (count < RADIX_MIN || !n##_radix(items, (T *)(void *)half, count)) {                    \
            n##_sort(items, (T *)(void *)half, count);                                             \
        }                                                                                          \
    }                                                                                              \
    static void n##_order_bytes(const uint8_t *values, int64_t *order, int64_t *half,              \
                                size_t count)                                                      \
    {                                                                                              \
        const T *keys = (const T *)(const void *)values;                                           \
        if (count < RADIX_MIN || !n##_radix_order(keys, order, half, count)) {                     \
            n##_order(keys, order, half, count);                                                   \
        }                                                                                          \
    }                                                                                              \
    static size_t n##_search(const uint8_t *values, size_t count, const uint8_t *value,            \
                             bool is_right)                                                        \
    {                                                                                              \
        const T *in = (const T *)(const void *)values;                                             \
        const T of = *(const T *)(const void *)value;                                              \
        size_t low = 0;                                                                            \
        while (count > 0) {                                                                        \
            size_t half = count / 2;                                                               \
            const T at = in[low + half];                                                           \
            bool is_before = is_right ? !BEFORE(of, at) : BEFORE(at, of);                          \
            low += is_before ? half + 1 : 0;                                                       \
            count = is_before ? count - half - 1 : half;                                           \
        }                                                                                          \
        return low;                                                                                \
    }                                                                                              \
    static size_t n##_distinct(uint8_t *values, size_t count)                                      \
    {                                                                                              \
        T *items = (T *)(void *)values;                                                            \
        size_t made = count > 0 ? 1 : 0;                                                           \
        for (size_t i = 1; i < count; i++) {                                                       \
            const T last = items[made - 1];                                                        \
            const T next = items[i];                                                               \
            items[made] = next;                                                                    \
            made += !(next == last || (next != next && last != last));                             \
        }                                                                                          \
        return made;                                                                               \
    }
SORTS(u8, uint8_t, uint8_t)
SORTS(i32, int32_t, uint32_t)
SORTS(i64, int64_t, uint64_t)
SORTS(u64, uint64_t, uint64_t)
SORTS(f32, float, uint32_t)
SORTS(f64, double, uint64_t)

static np_sort_values *const value_sorts[NP_TYPES] = {
    u8_sort_bytes,  u8_sort_bytes,  i32_sort_bytes, i64_sort_bytes,
    u64_sort_bytes, f32_sort_bytes, f64_sort_bytes};
static np_sort_indices *const index_sorts[NP_TYPES] = {
    u8_order_bytes,  u8_order_bytes,  i32_order_bytes, i64_order_bytes,
    u64_order_bytes, f32_order_bytes, f64_order_bytes};
static np_distinct *const distincts[NP_TYPES] = {
    u8_distinct, u8_distinct, i32_distinct, i64_distinct, u64_distinct, f32_distinct, f64_distinct};
static np_search *const searches[NP_TYPES] = {u8_search,  u8_search,  i32_search, i64_search,
                                              u64_search, f32_search, f64_search};

// --- rows

struct sorting {
    enum np_type type;
    size_t length;
    uint8_t *row;  // a lane, next to one another
    uint8_t *half; // as much again
    int64_t *order;
    int64_t *order_half;
};

// Comparisons of one row, DEV_VM_LOOP_PER_UNIT for a unit, in elements.
static size_t work_of(size_t length)
{
    size_t rounds = 1;
    for (size_t left = length; left > 1; left /= 2) {
        rounds++;
    }
    return length * rounds * (DEV_VM_WORK_PER_UNIT / DEV_VM_LOOP_PER_UNIT);
}

static void row_copy(const struct np_lane *lane, uint32_t which, const struct sorting *sorting,
                     bool is_back)
{
    size_t item = dev_np_item(sorting->type);
    uint8_t *at = lane->at[which];
    if (lane->steps[which] == (int64_t)item) {
        memcpy(is_back ? at : sorting->row, is_back ? sorting->row : at, sorting->length * item);
        return;
    }
    for (size_t i = 0; i < sorting->length; i++) {
        uint8_t *in_row = sorting->row + i * item;
        memcpy(is_back ? at : in_row, is_back ? in_row : at, item);
        at += lane->steps[which];
    }
}

static void sort_each(const struct np_lane *lane)
{
    const struct sorting *sorting = lane->ctx;
    row_copy(lane, 0, sorting, false);
    value_sorts[sorting->type](sorting->row, sorting->half, sorting->length);
    row_copy(lane, 0, sorting, true);
}

// Sorts the indices that lie in the first array by the second's values: those of equal values keep
// their order.
static void order_each(const struct np_lane *lane)
{
    const struct sorting *sorting = lane->ctx;
    row_copy(lane, 1, sorting, false);
    const uint8_t *from = lane->at[0];
    for (size_t i = 0; i < sorting->length; i++) {
        memcpy(&sorting->order[i], from, sizeof(int64_t));
        from += lane->steps[0];
    }
    index_sorts[sorting->type](sorting->row, sorting->order, sorting->order_half, sorting->length);
    uint8_t *at = lane->at[0];
    for (size_t i = 0; i < sorting->length; i++) {
        memcpy(at, &sorting->order[i], sizeof(int64_t));
        at += lane->steps[0];
    }
}

static void count_each(const struct np_lane *lane)
{
    const size_t *length = lane->ctx;
    uint8_t *at = lane->at[0];
    for (int64_t i = 0; i < (int64_t)*length; i++) {
        memcpy(at, &i, sizeof(i));
        at += lane->steps[0];
    }
}

static struct sorting sorting_make(const struct np_array *array, uint32_t axis, bool has_order)
{
    int64_t length = array->dims[axis];
    struct sorting sorting = {.type = array->type, .length = (size_t)length};
    sorting.row = dev_np_room(array->type, 1, &length)->data;
    sorting.half = dev_np_room(array->type, 1, &length)->data;
    if (has_order) {
        sorting.order = (int64_t *)(void *)dev_np_room(NP_I64, 1, &length)->data;
        sorting.order_half = (int64_t *)(void *)dev_np_room(NP_I64, 1, &length)->data;
    }
    return sorting;
}

static void sort_in_place(struct np_array *array, uint32_t axis)
{
    struct sorting sorting = sorting_make(array, axis, false);
    const struct np_array *one[] = {array};
    const struct np_lanes lanes = {1, axis, work_of(sorting.length), &sorting};
    dev_np_lanes(one, &lanes, sort_each);
}

struct sort_arguments {
    const struct np_array *array;
    uint32_t axis;
};

static struct sort_arguments sort_take(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, AXIS, KIND, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(-1)}},
        {MP_QSTR_kind, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}}, // all are stable
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    struct sort_arguments taken = {.array = dev_np_of(values[A].u_obj)};
    if (values[AXIS].u_obj == mp_const_none) {
        taken.array = dev_np_flat(taken.array);
    } else {
        taken.axis = (uint32_t)dev_np_axis(mp_obj_get_int(values[AXIS].u_obj), taken.array->rank);
    }
    return taken;
}

// sort(a, axis=-1, kind=None): a sorted copy
static mp_obj_t sort(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct sort_arguments taken = sort_take(count, args, named);
    struct np_array *made = dev_np_cast(taken.array, taken.array->type);
    sort_in_place(made, taken.axis);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_sort_obj, 1, sort);

// a.sort(axis=-1, kind=None): in place
static mp_obj_t sort_method(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct np_array *array = MP_OBJ_TO_PTR(args[0]);
    struct sort_arguments taken = sort_take(count, args, named);
    if (array->is_read_only) {
        mp_raise_ValueError(MP_ERROR_TEXT("walle.np: sort array is read-only"));
    }
    sort_in_place(array, taken.axis);
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_sort_method_obj, 1, sort_method);

// msort(a): a copy sorted along the first axis
static mp_obj_t msort(mp_obj_t a)
{
    const struct np_array *array = dev_np_of(a);
    uint32_t axis = (uint32_t)dev_np_axis(0, array->rank);
    struct np_array *made = dev_np_cast(array, array->type);
    sort_in_place(made, axis);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_1(dev_np_msort_obj, msort);

// 0, 1, 2 ... along an axis of an array of this shape.
static struct np_array *counted(const struct np_array *array, uint32_t axis)
{
    struct np_array *made = dev_np_room(NP_I64, array->rank, array->dims);
    const struct np_array *one[] = {made};
    size_t length = (size_t)array->dims[axis];
    const struct np_lanes lanes = {1, axis, length, &length};
    dev_np_lanes(one, &lanes, count_each);
    return made;
}

static void order_by(struct np_array *order, const struct np_array *key, uint32_t axis)
{
    struct sorting sorting = sorting_make(key, axis, true);
    const struct np_array *both[] = {order, key};
    const struct np_lanes lanes = {2, axis, work_of(sorting.length), &sorting};
    dev_np_lanes(both, &lanes, order_each);
}

// argsort(a, axis=-1, kind=None)
static mp_obj_t argsort(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    struct sort_arguments taken = sort_take(count, args, named);
    struct np_array *made = counted(taken.array, taken.axis);
    order_by(made, taken.array, taken.axis);
    return MP_OBJ_FROM_PTR(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_argsort_obj, 1, argsort);

// lexsort(keys, axis=-1): by the last key, among its equals by the one before, and so on
static mp_obj_t lexsort(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { KEYS, AXIS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_keys, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_axis, MP_ARG_INT, {.u_int = -1}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    mp_obj_iter_buf_t buffer;
    mp_obj_t keys = mp_getiter(values[KEYS].u_obj, &buffer);
    struct np_array *made = NULL;
    uint32_t axis = 0;
    mp_obj_t next;
    while ((next = mp_iternext(keys)) != MP_OBJ_STOP_ITERATION) {
        const struct np_array *key = dev_np_of(next);
        if (made == NULL) {
            axis = key->rank == 0 ? 0 : (uint32_t)dev_np_axis(values[AXIS].u_int, key->rank);
            made = key->rank == 0 ? dev_np_new(NP_I64, 0, NULL) : counted(key, axis);
        }
        if (key->rank != made->rank ||
            memcmp(key->dims, made->dims, key->rank * sizeof(int64_t)) != 0) {
            mp_raise_ValueError(MP_ERROR_TEXT("walle.np: all keys need to be of the same shape"));
        }
        if (key->rank > 0) {
            order_by(made, key, axis);
        }
    }
    if (made == NULL) {
        mp_raise_TypeError(MP_ERROR_TEXT("walle.np: lexsort needs at least one key"));
    }
    return dev_np_result(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_lexsort_obj, 1, lexsort);

// --- searching

// searchsorted(a, v, side='left')
static mp_obj_t searchsorted(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { A, V, SIDE, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_a, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_v, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_side, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_left)}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *array = dev_np_of(values[A].u_obj);
    const struct np_array *wanted = dev_np_of(values[V].u_obj);
    qstr side = mp_obj_str_get_qstr(values[SIDE].u_obj);
    if (array->rank != 1 || (side != MP_QSTR_left && side != MP_QSTR_right)) {
        mp_raise_ValueError(
            MP_ERROR_TEXT("walle.np: searchsorted is of one dimension, 'left' or 'right'"));
    }
    enum np_type type = dev_np_promote(array->type, wanted->type);
    array = dev_np_dense(array->type == type ? array : dev_np_cast(array, type));
    wanted = dev_np_dense(wanted->type == type ? wanted : dev_np_cast(wanted, type));
    struct np_array *made = dev_np_room(NP_I64, wanted->rank, wanted->dims);
    int64_t *to = (int64_t *)(void *)made->data;
    for (size_t i = 0; i < wanted->size; i++) {
        if (i % SEARCHES == 0) {
            size_t now = wanted->size - i < SEARCHES ? wanted->size - i : SEARCHES;
            dev_np_pay(now * SEARCH_WORK);
        }
        to[i] = (int64_t)searches[type](
            array->data, array->size, wanted->data + i * dev_np_item(type), side == MP_QSTR_right);
    }
    return dev_np_result(made);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_searchsorted_obj, 2, searchsorted);

// --- unique

struct unique {
    struct np_array *order;  // of the sorted elements
    struct np_array *firsts; // bool: a sorted element that is not like the one before
    int64_t count;           // of those
    struct np_array *results[4];
};

static bool are_same(enum np_type type, const uint8_t *a, const uint8_t *b)
{
    uint8_t *at[] = {(uint8_t[]){0}, (uint8_t *)(uintptr_t)a, (uint8_t *)(uintptr_t)b};
    const int64_t steps[] = {0, 0, 0};
    dev_np_binary_loop(NP_EQUAL, type)(at, steps, 1);
    if (*at[0] == 0 && dev_np_is_real(type)) { // one NaN is enough
        uint8_t nan_a = 0;
        uint8_t nan_b = 0;
        uint8_t *of_a[] = {&nan_a, (uint8_t *)(uintptr_t)a};
        uint8_t *of_b[] = {&nan_b, (uint8_t *)(uintptr_t)b};
        dev_np_unary_loop(NP_ISNAN, type)(of_a, steps, 1);
        dev_np_unary_loop(NP_ISNAN, type)(of_b, steps, 1);
        return nan_a != 0 && nan_b != 0;
    }
    return *at[0] != 0;
}

static void unique_fill(struct unique *unique, const struct np_array *flat)
{
    const int64_t *order = (const int64_t *)(const void *)unique->order->data;
    size_t item = dev_np_item(flat->type);
    int64_t *first = (int64_t *)(void *)unique->results[1]->data;
    int64_t *inverse = (int64_t *)(void *)unique->results[2]->data;
    int64_t *counts = (int64_t *)(void *)unique->results[3]->data;
    int64_t at = -1;
    dev_np_pay(flat->size * 4);
    for (size_t i = 0; i < flat->size; i++) {
        if (unique->firsts->data[i] != 0) {
            at++;
            memcpy(unique->results[0]->data + (size_t)at * item,
                   flat->data + (size_t)order[i] * item, item);
            first[at] = order[i];
        }
        inverse[order[i]] = at;
        counts[at]++;
    }
}

static void unique_make(struct unique *unique, const struct np_array *flat)
{
    int64_t size = (int64_t)flat->size;
    size_t item = dev_np_item(flat->type);
    mp_obj_t given = MP_OBJ_FROM_PTR(flat);
    mp_map_t none;
    mp_map_init_fixed_table(&none, 0, NULL);
    unique->order = MP_OBJ_TO_PTR(argsort(1, &given, &none));
    unique->firsts = dev_np_room(NP_BOOL, 1, &size);
    const int64_t *order = (const int64_t *)(const void *)unique->order->data;
    dev_np_pay(flat->size * 4);
    for (size_t i = 0; i < flat->size; i++) {
        bool is_first = i == 0 || !are_same(flat->type, flat->data + (size_t)order[i] * item,
                                            flat->data + (size_t)order[i - 1] * item);
        unique->firsts->data[i] = is_first ? 1 : 0;
        unique->count += is_first ? 1 : 0;
    }
    unique->results[0] = dev_np_room(flat->type, 1, &unique->count);
    unique->results[1] = dev_np_room(NP_I64, 1, &unique->count);
    unique->results[2] = dev_np_room(NP_I64, 1, &size);
    unique->results[3] = dev_np_new(NP_I64, 1, &unique->count);
    unique_fill(unique, flat);
}

// Where only the elements are asked for.
static struct np_array *unique_values(const struct np_array *flat)
{
    struct np_array *sorted = dev_np_cast(flat, flat->type);
    sort_in_place(sorted, 0);
    dev_np_pay(sorted->size * 4);
    int64_t count = (int64_t)distincts[flat->type](sorted->data, sorted->size);
    struct np_array *made = dev_np_room(flat->type, 1, &count);
    memcpy(made->data, sorted->data, (size_t)count * dev_np_item(flat->type));
    return made;
}

// unique(ar, return_index=False, return_inverse=False, return_counts=False)
static mp_obj_t unique(size_t count, const mp_obj_t *args, mp_map_t *named)
{
    enum { AR, INDEX, INVERSE, COUNTS, ARGUMENTS };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_ar, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_return_index, MP_ARG_BOOL, {.u_bool = false}},
        {MP_QSTR_return_inverse, MP_ARG_BOOL, {.u_bool = false}},
        {MP_QSTR_return_counts, MP_ARG_BOOL, {.u_bool = false}},
    };
    mp_arg_val_t values[ARGUMENTS];
    mp_arg_parse_all(count, args, named, ARGUMENTS, allowed, values);
    const struct np_array *flat = dev_np_flat(dev_np_of(values[AR].u_obj));
    if (!values[INDEX].u_bool && !values[INVERSE].u_bool && !values[COUNTS].u_bool) {
        return MP_OBJ_FROM_PTR(unique_values(flat));
    }
    struct unique unique = {.count = 0};
    unique_make(&unique, flat);
    mp_obj_t results[4] = {MP_OBJ_FROM_PTR(unique.results[0])};
    size_t wanted = 1;
    for (size_t i = INDEX; i < ARGUMENTS; i++) {
        if (values[i].u_bool) {
            results[wanted++] = MP_OBJ_FROM_PTR(unique.results[i]);
        }
    }
    return wanted == 1 ? results[0] : mp_obj_new_tuple(wanted, results);
}
MP_DEFINE_CONST_FUN_OBJ_KW(dev_np_unique_obj, 1, unique);

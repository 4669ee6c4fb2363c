// walle.np, arrays for scripts: what the files of the module share. Names, defaults, types of
// results and kinds of errors are NumPy's (docs/NUMPY.md says where they are not).
//
// An array is a view: elements of one type in a block of the script's heap, with a step in bytes
// for each dimension. The block is counted like all else in the heap and lives as long as an array
// over it. All of it runs on the VM's thread, within the run's budget: whoever goes through
// elements pays with dev_np_pay as it goes. Raised are TypeError, ValueError, IndexError and
// MemoryError, as NumPy does.
#ifndef DEV_NP_H
#define DEV_NP_H

#include "vm/vm_np.h"
#include "vm/vm_state.h"

#include "py/runtime.h"

#include "vm_hooks.h"

#define NP_CHUNK    16384 // elements that a loop goes through between two looks at the budget
#define NP_ITEM_MAX 8     // bytes of the largest element
#define NP_OPERANDS 3
#define NP_ELLIPSIS MP_OBJ_FROM_PTR(&mp_const_ellipsis_obj)

// Operands of the same shape, gone through in rows: the last dimension is given to a loop.
struct np_walk {
    uint32_t rank;
    uint32_t operands;
    int64_t dims[NP_RANK];
    int64_t steps[NP_OPERANDS][NP_RANK];
    uint8_t *at[NP_OPERANDS];
};

// Goes through `count` elements of each operand; the first is the one that is written.
typedef void np_loop(uint8_t *const *at, const int64_t *steps, size_t count);

// Counts `elements` that are about to be gone through; raises where the budget is used up.
void dev_np_pay(size_t elements);

// --- np_type.c
size_t dev_np_item(enum np_type type); // bytes of an element
const char *dev_np_type_name(enum np_type type);
bool dev_np_is_real(enum np_type type);
enum np_type dev_np_type_parse(mp_obj_t dtype); // a name, or bool, int, float; raises TypeError
enum np_type dev_np_promote(enum np_type left, enum np_type right);
// The type that numbers of a script have by themselves; NP_TYPES: it is no number.
enum np_type dev_np_number_type(mp_obj_t value);
// What two operands are computed in; a number or an array without dimensions gives way, by its
// value.
enum np_type dev_np_common(const struct np_array *left, const struct np_array *right);
mp_obj_t dev_np_get(enum np_type type, const void *at);
void dev_np_set(enum np_type type, void *at, mp_obj_t value); // raises for what does not fit
np_loop *dev_np_cast_loop(enum np_type to, enum np_type from);

// --- np_array.c
struct np_array *dev_np_new(enum np_type type, uint32_t rank, const int64_t *dims); // zeros
// Its elements are whatever lay there: all of them are written before a script sees it.
struct np_array *dev_np_room(enum np_type type, uint32_t rank, const int64_t *dims);
struct np_array *dev_np_view(const struct np_array *array); // another array over the same elements
const struct np_array *dev_np_of(mp_obj_t values);          // an array as it is, or made of numbers
const struct np_array *dev_np_of_type(mp_obj_t values, enum np_type type);
bool dev_np_is_dense(const struct np_array *array);
void dev_np_fill(const struct np_array *to, const struct np_array *from); // broadcasts and casts
mp_obj_t dev_np_result(const struct np_array *array); // a number where there are no dimensions
uint32_t dev_np_shape(mp_obj_t shape, int64_t dims[NP_RANK]); // an int or a sequence; the rank
mp_obj_t dev_np_shape_object(const struct np_array *array);
int32_t dev_np_axis(mp_int_t axis, uint32_t rank); // counted from the end where negative; raises
extern const mp_obj_fun_builtin_var_t dev_np_array_obj;

// --- np_walk.c
void dev_np_broadcast_dims(const struct np_array *const *arrays, uint32_t count,
                           struct np_array *out_shape); // dims and rank of it; raises ValueError
// The array with steps of 0 where the shape repeats it; raises ValueError.
struct np_array dev_np_stretched(const struct np_array *array, uint32_t rank, const int64_t *dims);
void dev_np_walk(const struct np_array *const *arrays, uint32_t count, np_loop *loop);
bool dev_np_overlap(const struct np_array *left, const struct np_array *right);

#endif

// walle.np, as the rest of the VM uses it: an array, and a tensor over its elements. The module's
// own files share np/np.h.
#ifndef DEV_VM_NP_H
#define DEV_VM_NP_H

#include "base/cursor.h"
#include "engine/tensor.h"

#include "py/obj.h"
#include "py/objmodule.h"

#define NP_RANK ENG_RANK_MAX

// In the order of promotion; the types that scripts may compute with.
enum np_type { NP_BOOL, NP_U8, NP_I32, NP_I64, NP_U64, NP_F32, NP_F64, NP_TYPES };

struct np_array {
    mp_obj_base_t base;
    uint8_t *block; // where the memory begins that the collector follows
    uint8_t *data;  // the element at index 0 of every dimension
    size_t size;    // elements
    enum np_type type;
    uint32_t rank;
    bool is_read_only; // over the elements of a tensor, which never change
    int64_t dims[NP_RANK];
    int64_t steps[NP_RANK]; // bytes from one index to the next; any sign
};

extern const mp_obj_type_t dev_np_array_type;
extern const mp_obj_module_t dev_vm_module_np;

// --- np/np_type.c
enum np_type dev_np_type_of(enum eng_dtype dtype); // NP_TYPES: none
enum eng_dtype dev_np_dtype(enum np_type type);

// --- np/np_array.c
struct np_array *dev_np_cast(const struct np_array *array, enum np_type type); // always a copy
const struct np_array *dev_np_dense(const struct np_array *array);             // itself, or a copy

// --- np/np_store.c
// An array as walle.store keeps it; reading raises ValueError for bytes that are none.
void dev_np_store_write(struct base_writer *writer, mp_obj_t value);
mp_obj_t dev_np_store_read(struct base_reader *reader);

#endif

// walle.nn: what the files of the module share.
#ifndef DEV_VM_NN_H
#define DEV_VM_NN_H

#include "engine/tensor.h"
#include "vm/vm.h"

#include "py/obj.h"
#include "py/objmodule.h"

extern const mp_obj_module_t dev_vm_module_nn;
extern const mp_obj_type_t dev_vm_tensor_type;

// --- vm_tensor.c
// A tensor as scripts have it. It never changes, so that parts of one may share its elements.
struct dev_vm_tensor {
    mp_obj_base_t base;
    const uint8_t
        *block;          // where the elements of the whole tensor begin: what the collector follows
    const uint8_t *data; // where those of this one do
    size_t count;        // elements
    enum eng_dtype dtype;
    uint32_t rank;
    int64_t dims[];
};
// What nn.tensor() gives: of numbers in nested lists and tuples, of bytes, of an array, or of a
// tensor or an array of walle.np, whose type stays when `dtype` is ENG_UNDEFINED (else that means
// float32). Elements of the last two are shared where they can be: it is for as long as no script
// runs. Raises TypeError, ValueError, OverflowError.
const struct dev_vm_tensor *dev_vm_tensor_of(mp_obj_t values, enum eng_dtype dtype);
// A tensor over elements that lie in the script's heap, from `block` on.
mp_obj_t dev_vm_tensor_over(const struct eng_desc *desc, const void *block);
extern const mp_obj_fun_builtin_var_t dev_vm_tensor_obj; // nn.tensor

// --- vm_element.c
// One element and the number it is in a script.
bool dev_vm_dtype_ok(enum eng_dtype dtype);          // does the script know numbers of this type?
const char *dev_vm_dtype_name(enum eng_dtype dtype); // "float32"; of others the engine's name
enum eng_dtype dev_vm_dtype_parse(mp_obj_t name);    // raises ValueError
bool dev_vm_dtype_is_whole(enum eng_dtype dtype);    // int8 to uint64
bool dev_vm_is_number(mp_obj_t value);
// Raises TypeError for what is no number of this type, OverflowError for one out of its range.
void dev_vm_element_set(enum eng_dtype dtype, void *at, mp_obj_t value);
mp_obj_t dev_vm_element_get(enum eng_dtype dtype, const void *at);
// The type whose elements lie as those of an array with this code; ENG_UNDEFINED: no numbers.
enum eng_dtype dev_vm_dtype_of_code(char typecode);
// Index of the first largest element, a NaN being larger than all; count > 0.
size_t dev_vm_element_largest(enum eng_dtype dtype, const void *data, size_t count);

#endif

// How large an allocation of MicroPython is: one place for every m_new, m_renew and m_new_obj_var,
// so that no call can compute a size of its own (patch_bounds.py puts it into py/misc.h). A size
// that does not fit is SIZE_MAX, which no heap has: the script gets a MemoryError. Included by
// mpconfigport.h, so it may use nothing of MicroPython.
#ifndef DEV_VM_ALLOC_H
#define DEV_VM_ALLOC_H

#include <stddef.h>
#include <stdint.h>

// Bytes that one format of the module struct may describe: more than the largest heap has room for.
#define DEV_VM_STRUCT_MAX ((size_t)64 << 20)

// Arguments that a `*` is given room for because its __len__ said so; more are taken as they come.
#define DEV_VM_ARGS_HINT_MAX 4096

// A flag of gc_alloc, beside MicroPython's own: the bytes asked for are not cleared.
#define DEV_VM_ALLOC_UNCLEARED 2u

// The largest exponent, and the largest shift, of a constant that the compiler works out.
#define DEV_VM_FOLD_MAX 256

// head + item * count, or SIZE_MAX.
static inline size_t dev_vm_size(size_t head, size_t item, size_t count)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(item, count, &bytes) ||
        __builtin_add_overflow(bytes, head, &bytes)) {
        return SIZE_MAX;
    }
    return bytes;
}

#endif

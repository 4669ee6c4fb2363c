// walle.store: the module. Values of scripts are kept as bytes:
//
//   value := 'N' | 'T' | 'F' | 'I' zigzag | 'D' u64 of a double | 'S' varint size, UTF-8
//          | 'B' varint size, bytes | 'L' varint count, values | 'U' varint count, values (a tuple)
//          | 'M' varint count, count x { varint size, key, value }
//          | 'A' u8 type, u8 rank, rank x varint size, elements (an array of walle.np)
#ifndef DEV_VM_STORE_H
#define DEV_VM_STORE_H

#include "py/obj.h"
#include "py/objmodule.h"

extern const mp_obj_module_t dev_vm_module_store;

// store.get(key, default) and store.put(key, value), for what keeps things for a script.
mp_obj_t dev_vm_store_get(size_t count, const mp_obj_t *args);
mp_obj_t dev_vm_store_put(mp_obj_t key_in, mp_obj_t value_in);

#endif

// JSON text of a script's value, for walle.result() and walle.data.
#ifndef DEV_VM_JSON_H
#define DEV_VM_JSON_H

#include "py/obj.h"

#include <stddef.h>

// Writes `value` (None, bool, int, finite float, str, and lists, tuples and dicts with str keys of
// such) and returns the size. Raises TypeError, ValueError or UnicodeError for what JSON cannot
// hold or what does not fit, RuntimeError for values nested too deep.
size_t dev_vm_json_write(mp_obj_t value, char *out, size_t capacity);

// What a JSON text says, as json.loads does. Raises ValueError.
mp_obj_t dev_vm_json_read(const char *text, size_t size);

#endif

// Syntax that Python has and MicroPython's compiler does not.
#ifndef DEV_VM_NEWER_H
#define DEV_VM_NEWER_H

#include "base/str.h"

#include <stddef.h>

// What the statement on that line seems to use that a device's Python has not, in words that follow
// "no"; NULL: nothing that is known. Of a source that did not compile; does not raise.
const char *dev_vm_newer(struct base_str source, size_t line);

#endif

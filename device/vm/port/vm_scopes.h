// What a function of a source may have, beyond which its bytecode says something else or is refused
// by a device. MicroPython's compiler asks (patch_sources.py puts the questions into py/compile.c),
// so that the line is known and the reason is the true one; vm_scopes.c answers. Included by
// the changed py/compile.c.
#ifndef DEV_VM_SCOPES_H
#define DEV_VM_SCOPES_H

#include "py/scope.h"

#define DEV_VM_CELLS_MAX      127 // variables of a function that functions in it use
#define DEV_VM_CELL_PLACE_MAX 255 // last variable of a function that functions in it can use
#define DEV_VM_PLACED_MAX     511 // arguments by place, with the variables it gets from around it
#define DEV_VM_NAMED_MAX      127 // arguments by name alone
#define DEV_VM_DEFAULTS_MAX   127 // arguments by place that have default values
#define DEV_VM_CAPTURED_MAX   255 // variables of functions around it that a function uses

// Once the variables of a scope are numbered: what is too many, as static text; NULL: nothing.
const char *dev_vm_scope_excess(const scope_t *scope);
// While a scope is compiled: what is too much at one time, likewise. Its variables are numbered in
// all passes but the first.
const char *dev_vm_scope_too_deep(const scope_t *scope);

#endif

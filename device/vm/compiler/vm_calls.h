// Calls in a source that no instruction can count the arguments of.
#ifndef DEV_VM_CALLS_H
#define DEV_VM_CALLS_H

#include "py/parse.h"

#include <stddef.h>

// The line of the first call with more than DEV_VM_ARGUMENTS_MAX arguments by place, or by name; 0:
// there is none.
size_t dev_vm_calls_long(mp_parse_node_t root);

#endif

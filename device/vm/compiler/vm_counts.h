// What a source has so much of that it is refused between parsing and compiling, with its line.
#ifndef DEV_VM_COUNTS_H
#define DEV_VM_COUNTS_H

#include "py/parse.h"

#include <stddef.h>

// The line of the first assignment with more than DEV_VM_TARGETS_MAX names before or behind the one
// with a star; 0: there is none.
size_t dev_vm_targets_many(mp_parse_node_t root);
// The line of the dotted name, "a.b" in an import, with which there are more than
// DEV_VM_DOTTED_MAX; 0: there are fewer.
size_t dev_vm_dotted_many(mp_parse_node_t root);

#endif

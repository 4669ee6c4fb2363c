// What a source imports, found in its parse tree.
#ifndef VM_IMPORTS_H
#define VM_IMPORTS_H

#include "vm/vm.h"

#include "py/parse.h"

// Adds to out->imports what the tree imports outside of try statements that catch an ImportError.
void dev_vm_imports_find(mp_parse_node_t root, struct dev_vm_compiled *out);

#endif

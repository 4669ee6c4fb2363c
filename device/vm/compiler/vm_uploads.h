// What a source uploads to, found in its parse tree.
#ifndef DEV_VM_UPLOADS_H
#define DEV_VM_UPLOADS_H

#include "vm/vm.h"

#include "py/parse.h"

// Adds to out->uploads the calls of walle.data.upload whose first argument is a literal.
void dev_vm_uploads_find(mp_parse_node_t root, struct dev_vm_compiled *out);

#endif

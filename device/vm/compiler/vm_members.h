// What a source asks of the modules it imports by attribute, found in its parse tree.
#ifndef DEV_VM_MEMBERS_H
#define DEV_VM_MEMBERS_H

#include "vm/vm.h"

#include "py/parse.h"

// Adds to out->members the dotted names that begin with a module the source imports: "walle.np.sum"
// of "np.sum", with "from walle import np". Each once. Not told: what lies in the body of a try
// statement with an except, and names that the source also uses in any other way (another value,
// an argument), for then nobody knows what they stand for.
void dev_vm_members_find(mp_parse_node_t root, struct dev_vm_compiled *out);

#endif

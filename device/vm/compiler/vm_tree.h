// Nodes of MicroPython's parse tree, for those who walk over it between parsing and compiling.
#ifndef DEV_VM_TREE_H
#define DEV_VM_TREE_H

#include "py/parse.h"

#include <stddef.h>
#include <stdint.h>

// Kinds of nodes, numbered as py/parse.c numbers them.
enum dev_vm_tree_kind {
#define DEF_RULE(rule, comp, kind, ...) KIND_##rule,
#define DEF_RULE_NC(rule, kind, ...)
#include "py/grammar.h"
#undef DEF_RULE
#undef DEF_RULE_NC
    KIND_const_object, // holds an object, no nodes
#define DEF_RULE(rule, comp, kind, ...)
#define DEF_RULE_NC(rule, kind, ...) KIND_##rule,
#include "py/grammar.h"
#undef DEF_RULE
#undef DEF_RULE_NC
};

// Each step of a walk asks it. A walk goes as deep as the source is nested, so it looks at the C
// stack as the compiler does, and ends likewise, by an exception: "nested too deep". Steps of the
// compiler take more of the stack: what it compiles, no walk refuses.
static inline void dev_vm_tree_step(void)
{
    mp_cstack_check();
}

// The node as one with nodes; NULL: a leaf, or nothing.
static inline const mp_parse_node_struct_t *dev_vm_tree_struct(mp_parse_node_t node)
{
    return MP_PARSE_NODE_IS_STRUCT(node) ? (const mp_parse_node_struct_t *)node : NULL;
}

// ... of this kind; NULL: another one.
static inline const mp_parse_node_struct_t *dev_vm_tree_of_kind(mp_parse_node_t node, uint32_t kind)
{
    const mp_parse_node_struct_t *found = dev_vm_tree_struct(node);
    return found != NULL && (uint32_t)MP_PARSE_NODE_STRUCT_KIND(found) == kind ? found : NULL;
}

#endif

// A walk over MicroPython's parse tree for calls with too many arguments. Called by vm_compile.c
// between parsing and compiling, on its thread. An instruction counts the arguments by place in one
// byte and those by name in another, and the compiler does not look: what is over runs into the
// other count, and the call would be another one.
#include "vm/compiler/vm_calls.h"

#include "vm/compiler/vm_tree.h"
#include "vm/vm.h"

#define CLASS_ARGUMENTS 2 // that a class adds to its bases: its function and its name

struct walk {
    size_t line; // of the first that was found
};

// name=value, or **values; what is neither is by place: (... for ...) and (name := value), too.
static bool is_named(mp_parse_node_t any)
{
    const mp_parse_node_struct_t *argument = dev_vm_tree_of_kind(any, KIND_argument);
    return argument != NULL ? dev_vm_tree_of_kind(argument->nodes[1], KIND_comp_for) == NULL &&
                                  dev_vm_tree_of_kind(argument->nodes[1], KIND_argument_3) == NULL
                            : dev_vm_tree_of_kind(any, KIND_arglist_dbl_star) != NULL;
}

static bool is_long(const mp_parse_node_struct_t *list, size_t placed)
{
    size_t named = 0;
    for (size_t i = 0; i < MP_PARSE_NODE_STRUCT_NUM_NODES(list); i++) {
        bool by_name = is_named(list->nodes[i]);
        named += by_name ? 1 : 0;
        placed += by_name ? 0 : 1;
    }
    return placed > DEV_VM_ARGUMENTS_MAX || named > DEV_VM_ARGUMENTS_MAX;
}

// `added`: arguments by place beside those of a list that stands here.
static void visit(struct walk *walk, mp_parse_node_t any, size_t added)
{
    const mp_parse_node_struct_t *node = dev_vm_tree_struct(any);
    uint32_t kind = node != NULL ? (uint32_t)MP_PARSE_NODE_STRUCT_KIND(node) : KIND_const_object;
    if (kind == KIND_const_object || walk->line != 0) {
        return;
    }
    if (kind == KIND_arglist && is_long(node, added)) {
        walk->line = node->source_line;
        return;
    }
    dev_vm_tree_step();
    for (size_t i = 0; i < MP_PARSE_NODE_STRUCT_NUM_NODES(node); i++) {
        visit(walk, node->nodes[i], kind == KIND_classdef ? CLASS_ARGUMENTS : 0);
    }
}

size_t dev_vm_calls_long(mp_parse_node_t root)
{
    struct walk walk = {0};
    visit(&walk, root, 0);
    return walk.line;
}

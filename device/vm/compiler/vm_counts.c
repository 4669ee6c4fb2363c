// Walks over MicroPython's parse tree that count. Called by vm_compile.c between parsing and
// compiling, on its thread. An instruction counts the targets before a starred one in a byte and
// those behind it in another, and the compiler does not look: what is over runs into the other
// count. The whole of a dotted name is looked for among all names there are each time, so very many
// of them would keep a build busy for minutes.
#include "vm/compiler/vm_counts.h"

#include "vm/compiler/vm_tree.h"
#include "vm/vm.h"

struct walk {
    size_t line; // of the first that is too much
    size_t dotted;
};

typedef void (*look_fn)(struct walk *walk, const mp_parse_node_struct_t *node);

static void look_at_targets(struct walk *walk, const mp_parse_node_struct_t *node)
{
    size_t count = MP_PARSE_NODE_STRUCT_NUM_NODES(node);
    for (size_t i = 0; i < count; i++) {
        bool starred = dev_vm_tree_of_kind(node->nodes[i], KIND_star_expr) != NULL;
        if (starred && (i > DEV_VM_TARGETS_MAX || count - 1 - i > DEV_VM_TARGETS_MAX)) {
            walk->line = node->source_line;
        }
    }
}

static void look_at_dotted(struct walk *walk, const mp_parse_node_struct_t *node)
{
    if (MP_PARSE_NODE_STRUCT_KIND(node) == KIND_dotted_name) {
        walk->dotted++;
        walk->line = walk->dotted > DEV_VM_DOTTED_MAX ? node->source_line : 0;
    }
}

static void visit(struct walk *walk, mp_parse_node_t any, look_fn look)
{
    const mp_parse_node_struct_t *node = dev_vm_tree_struct(any);
    if (node == NULL || MP_PARSE_NODE_STRUCT_KIND(node) == KIND_const_object) {
        return;
    }
    look(walk, node);
    dev_vm_tree_step();
    for (size_t i = 0; i < MP_PARSE_NODE_STRUCT_NUM_NODES(node) && walk->line == 0; i++) {
        visit(walk, node->nodes[i], look);
    }
}

size_t dev_vm_targets_many(mp_parse_node_t root)
{
    struct walk walk = {0};
    visit(&walk, root, look_at_targets);
    return walk.line;
}

size_t dev_vm_dotted_many(mp_parse_node_t root)
{
    struct walk walk = {0};
    visit(&walk, root, look_at_dotted);
    return walk.line;
}

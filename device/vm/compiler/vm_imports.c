// A walk over MicroPython's parse tree for import statements. Called by vm_compile.c between
// parsing and compiling.
#include "vm/compiler/vm_imports.h"

#include "py/qstr.h"

#include <string.h>

#define DEPTH_MAX 200 // of nodes in nodes; the compiler refuses sooner what is nested so deep

// Kinds of nodes, numbered as py/parse.c numbers them.
enum kind {
#define DEF_RULE(rule, comp, kind, ...) KIND_##rule,
#define DEF_RULE_NC(rule, kind, ...)
#include "py/grammar.h"
#undef DEF_RULE
#undef DEF_RULE_NC
    KIND_const_object,
#define DEF_RULE(rule, comp, kind, ...)
#define DEF_RULE_NC(rule, kind, ...) KIND_##rule,
#include "py/grammar.h"
#undef DEF_RULE
#undef DEF_RULE_NC
};

struct walk {
    struct dev_vm_compiled *out;
    uint32_t depth;
};

static const mp_parse_node_struct_t *struct_of(mp_parse_node_t node)
{
    return MP_PARSE_NODE_IS_STRUCT(node) ? (const mp_parse_node_struct_t *)node : NULL;
}

// "a" or "a.b.c"; false: it is neither, or too long.
static bool name_of(mp_parse_node_t node, char out[DEV_VM_FILE_MAX])
{
    const mp_parse_node_struct_t *dotted = struct_of(node);
    size_t count = dotted != NULL ? MP_PARSE_NODE_STRUCT_NUM_NODES(dotted) : 1;
    size_t at = 0;
    if (dotted != NULL ? MP_PARSE_NODE_STRUCT_KIND(dotted) != KIND_dotted_name
                       : !MP_PARSE_NODE_IS_ID(node)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        mp_parse_node_t part = dotted != NULL ? dotted->nodes[i] : node;
        const char *text = qstr_str((qstr)MP_PARSE_NODE_LEAF_ARG(part));
        size_t size = strlen(text);
        if (at + size + 2 > DEV_VM_FILE_MAX) {
            return false;
        }
        if (i > 0) {
            out[at++] = '.';
        }
        memcpy(out + at, text, size);
        at += size;
    }
    out[at] = '\0';
    return true;
}

static void found(struct walk *walk, mp_parse_node_t node, uint32_t line)
{
    struct dev_vm_compiled *out = walk->out;
    const mp_parse_node_struct_t *as = struct_of(node);
    if (as != NULL && MP_PARSE_NODE_STRUCT_KIND(as) == KIND_dotted_as_name) {
        node = as->nodes[0];
    }
    if (out->import_count < DEV_VM_IMPORTS_MAX &&
        name_of(node, out->imports[out->import_count].name)) {
        out->imports[out->import_count++].line = line;
    }
}

static void statement(struct walk *walk, const mp_parse_node_struct_t *node, uint32_t kind)
{
    const mp_parse_node_struct_t *list = struct_of(node->nodes[0]);
    uint32_t line = (uint32_t)node->source_line;
    if (kind == KIND_import_name && list != NULL &&
        MP_PARSE_NODE_STRUCT_KIND(list) == KIND_dotted_as_names) {
        for (size_t i = 0; i < MP_PARSE_NODE_STRUCT_NUM_NODES(list); i++) {
            found(walk, list->nodes[i], line);
        }
    } else {
        found(walk, node->nodes[0], line);
    }
}

static void visit(struct walk *walk, mp_parse_node_t any)
{
    const mp_parse_node_struct_t *node = struct_of(any);
    if (node == NULL || walk->depth == DEPTH_MAX) {
        return;
    }
    uint32_t kind = (uint32_t)MP_PARSE_NODE_STRUCT_KIND(node);
    if (kind == KIND_const_object) { // holds an object, no nodes
        return;
    }
    if (kind == KIND_import_name || kind == KIND_import_from) {
        statement(walk, node, kind);
        return;
    }
    size_t first = 0;
    if (kind == KIND_try_stmt) { // one that only cleans up catches nothing
        first = MP_PARSE_NODE_IS_STRUCT_KIND(node->nodes[1], KIND_try_stmt_finally) ? 0 : 1;
    }
    walk->depth++;
    for (size_t i = first; i < MP_PARSE_NODE_STRUCT_NUM_NODES(node); i++) {
        visit(walk, node->nodes[i]);
    }
    walk->depth--;
}

void dev_vm_imports_find(mp_parse_node_t root, struct dev_vm_compiled *out)
{
    struct walk walk = {.out = out};
    visit(&walk, root);
}

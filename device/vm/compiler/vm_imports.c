// A walk over MicroPython's parse tree for import statements, so that `walle task build` can say
// which modules a version lacks before a device does. Called by vm_compile.c between parsing and
// compiling, on its thread. What a try guards against an ImportError is left out, for the script
// copes without it; a function's body is not guarded by what stands around its definition. The
// recursion ends where the C stack does (vm_tree.h).
#include "vm/compiler/vm_imports.h"

#include "vm/compiler/vm_tree.h"

#include "py/qstr.h"

#include <string.h>

struct walk {
    struct dev_vm_compiled *out;
    uint32_t caught; // try statements around this place that catch what an import raises
};

// "a" or "a.b.c"; false: it is neither, or too long.
static bool name_of(mp_parse_node_t node, char out[DEV_VM_FILE_MAX])
{
    const mp_parse_node_struct_t *dotted = dev_vm_tree_struct(node);
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

// One more for `out`, of the module that `node` names; NULL: it has no name that can be told, or
// `out` is full.
static struct dev_vm_import *found(struct walk *walk, mp_parse_node_t node, uint32_t line)
{
    struct dev_vm_compiled *out = walk->out;
    const mp_parse_node_struct_t *as = dev_vm_tree_struct(node);
    if (as != NULL && MP_PARSE_NODE_STRUCT_KIND(as) == KIND_dotted_as_name) {
        node = as->nodes[0];
    }
    if (out->import_count == DEV_VM_IMPORTS_MAX ||
        !name_of(node, out->imports[out->import_count].name)) {
        return NULL;
    }
    struct dev_vm_import *import = &out->imports[out->import_count++];
    import->item[0] = '\0';
    import->line = line;
    return import;
}

// `item`, which follows "import" in "from x import item as y", is of that import.
static void name_item(struct dev_vm_import *import, mp_parse_node_t item)
{
    const mp_parse_node_struct_t *node = dev_vm_tree_struct(item);
    if (import == NULL || node == NULL || MP_PARSE_NODE_STRUCT_KIND(node) != KIND_import_as_name) {
        return; // nowhere to go, or all: "*"
    }
    const char *text = qstr_str((qstr)MP_PARSE_NODE_LEAF_ARG(node->nodes[0]));
    size_t size = strlen(text);
    if (size < sizeof(import->item)) {
        memcpy(import->item, text, size + 1);
    }
}

static void statement(struct walk *walk, const mp_parse_node_struct_t *node, uint32_t kind)
{
    uint32_t line = (uint32_t)node->source_line;
    bool from = kind == KIND_import_from;
    mp_parse_node_t list = node->nodes[from ? 1 : 0];
    mp_parse_node_t *parts = NULL;
    size_t count = mp_parse_node_extract_list(
        &list, from ? KIND_import_as_names : KIND_dotted_as_names, &parts);
    for (size_t i = 0; i < count; i++) {
        if (from) {
            name_item(found(walk, node->nodes[0], line), parts[i]);
        } else {
            (void)found(walk, parts[i], line);
        }
    }
}

// A name, or names, behind `except`. Only those of other exceptions are known not to catch an
// ImportError.
static bool may_catch(mp_parse_node_t any)
{
    static const char *const others[] = {
        "ArithmeticError",   "AssertionError",      "AttributeError", "EOFError",
        "GeneratorExit",     "IndentationError",    "IndexError",     "KeyError",
        "KeyboardInterrupt", "LookupError",         "MemoryError",    "NameError",
        "OSError",           "NotImplementedError", "OverflowError",  "RuntimeError",
        "StopIteration",     "StopAsyncIteration",  "SyntaxError",    "SystemExit",
        "TypeError",         "UnicodeError",        "ValueError",     "ZeroDivisionError"};
    const mp_parse_node_struct_t *node = dev_vm_tree_struct(any);
    if (node == NULL && MP_PARSE_NODE_IS_ID(any)) {
        const char *name = qstr_str((qstr)MP_PARSE_NODE_LEAF_ARG(any));
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
            if (strcmp(name, others[i]) == 0) {
                return false;
            }
        }
        return true;
    }
    if (node == NULL) {
        return false;
    }
    dev_vm_tree_step();
    bool found = MP_PARSE_NODE_STRUCT_KIND(node) == KIND_const_object;
    for (size_t i = 0; i < MP_PARSE_NODE_STRUCT_NUM_NODES(node) && !found; i++) {
        found = may_catch(node->nodes[i]);
    }
    return found;
}

static bool clause_catches(const mp_parse_node_struct_t *clause)
{
    mp_parse_node_t what = clause->nodes[0];
    const mp_parse_node_struct_t *as = dev_vm_tree_struct(what);
    if (as != NULL && MP_PARSE_NODE_STRUCT_KIND(as) == KIND_try_stmt_as_name) {
        what = as->nodes[0];
    }
    return MP_PARSE_NODE_IS_NULL(what) || may_catch(what);
}

// What is behind the body of a try statement: one clause, several, or more than clauses.
static bool catches(mp_parse_node_t any)
{
    const mp_parse_node_struct_t *node = dev_vm_tree_struct(any);
    uint32_t kind =
        node != NULL ? (uint32_t)MP_PARSE_NODE_STRUCT_KIND(node) : KIND_try_stmt_finally;
    if (kind == KIND_try_stmt_except_and_more) { // the first of its nodes are the clauses
        any = node->nodes[0];
        node = dev_vm_tree_struct(any);
        kind = node != NULL ? (uint32_t)MP_PARSE_NODE_STRUCT_KIND(node) : KIND_try_stmt_finally;
    }
    if (kind == KIND_try_stmt_except) {
        return clause_catches(node);
    }
    bool found = false;
    if (kind == KIND_try_stmt_except_list) {
        for (size_t i = 0; i < MP_PARSE_NODE_STRUCT_NUM_NODES(node) && !found; i++) {
            const mp_parse_node_struct_t *clause = dev_vm_tree_struct(node->nodes[i]);
            found = clause != NULL && clause_catches(clause);
        }
    }
    return found;
}

static void visit(struct walk *walk, mp_parse_node_t any)
{
    const mp_parse_node_struct_t *node = dev_vm_tree_struct(any);
    if (node == NULL) {
        return;
    }
    uint32_t kind = (uint32_t)MP_PARSE_NODE_STRUCT_KIND(node);
    if (kind == KIND_const_object) { // holds an object, no nodes
        return;
    }
    if (kind == KIND_import_name || kind == KIND_import_from) {
        if (walk->caught == 0) {
            statement(walk, node, kind);
        }
        return;
    }
    uint32_t caught = walk->caught;
    bool guards = kind == KIND_try_stmt && catches(node->nodes[1]);
    dev_vm_tree_step();
    for (size_t i = 0; i < MP_PARSE_NODE_STRUCT_NUM_NODES(node); i++) {
        // A function's body runs when it is called, wherever that is.
        walk->caught = kind == KIND_funcdef ? 0 : guards && i == 0 ? caught + 1 : caught;
        visit(walk, node->nodes[i]);
    }
    walk->caught = caught;
}

void dev_vm_imports_find(mp_parse_node_t root, struct dev_vm_compiled *out)
{
    struct walk walk = {.out = out};
    visit(&walk, root);
}

// A walk over MicroPython's parse tree for attributes of imported modules, so that `walle task
// build` can say which of them a device lacks before one does. Called by vm_compile.c between
// parsing and compiling, on its thread. What modules are called is asked of the import statements
// of the whole file; then every name is looked at: one that stands anywhere but before a period may
// be something else at times, and is let be; then what stands behind those that are left is told.
#include "vm/compiler/vm_members.h"

#include "vm/compiler/vm_tree.h"

#include "py/qstr.h"

#include <string.h>

#define ROOTS_MAX 32 // names that imports bind; of more nothing is told

struct root {
    qstr name;
    bool unsure; // it may stand for something else, too
    char path[DEV_VM_FILE_MAX];
};

enum pass { PASS_IMPORTS, PASS_NAMES, PASS_MEMBERS };

struct walk {
    struct dev_vm_compiled *out;
    enum pass pass;
    struct root roots[ROOTS_MAX];
    uint32_t count;
};

static struct root *root_of(struct walk *walk, mp_parse_node_t node)
{
    for (uint32_t i = 0; i < walk->count && MP_PARSE_NODE_IS_ID(node); i++) {
        if (walk->roots[i].name == (qstr)MP_PARSE_NODE_LEAF_ARG(node)) {
            return &walk->roots[i];
        }
    }
    return NULL;
}

// Adds ".text", or "text" at the beginning; false: there is no room.
static bool path_add(char path[DEV_VM_FILE_MAX], mp_parse_node_t name)
{
    const char *text = qstr_str((qstr)MP_PARSE_NODE_LEAF_ARG(name));
    size_t at = strlen(path);
    size_t size = strlen(text);
    if (at + size + 2 > DEV_VM_FILE_MAX) {
        return false;
    }
    if (at > 0) {
        path[at++] = '.';
    }
    memcpy(path + at, text, size + 1);
    return true;
}

// ---- What modules are called

// `module`, and `item` of it (NULL: none), is called `name` from here on.
static void root_add(struct walk *walk, mp_parse_node_t name, mp_parse_node_t module,
                     mp_parse_node_t item)
{
    struct root root = {.name = (qstr)MP_PARSE_NODE_LEAF_ARG(name)};
    struct root *there = root_of(walk, name);
    if (!path_add(root.path, module) ||
        (item != MP_PARSE_NODE_NULL && !path_add(root.path, item))) {
        root.unsure = true;
    }
    if (there != NULL) {
        there->unsure = there->unsure || root.unsure || strcmp(there->path, root.path) != 0;
    } else if (walk->count < ROOTS_MAX) {
        walk->roots[walk->count++] = root;
    }
}

// One part of an import: "a", "a as b"; "a.b" is no module of a device, which is said elsewhere.
static void part_take(struct walk *walk, mp_parse_node_t part, uint32_t kind, mp_parse_node_t from)
{
    const mp_parse_node_struct_t *as = dev_vm_tree_of_kind(part, kind);
    mp_parse_node_t what = as != NULL ? as->nodes[0] : part;
    mp_parse_node_t name = as != NULL && MP_PARSE_NODE_IS_ID(as->nodes[1]) ? as->nodes[1] : what;
    if (!MP_PARSE_NODE_IS_ID(what) || !MP_PARSE_NODE_IS_ID(name)) {
        return;
    }
    if (from == MP_PARSE_NODE_NULL) {
        root_add(walk, name, what, MP_PARSE_NODE_NULL);
    } else {
        root_add(walk, name, from, what);
    }
}

static void import_take(struct walk *walk, const mp_parse_node_struct_t *node, bool from)
{
    mp_parse_node_t list = node->nodes[from ? 1 : 0];
    mp_parse_node_t *parts = NULL;
    if (from && !MP_PARSE_NODE_IS_ID(node->nodes[0])) {
        return;
    }
    size_t count = mp_parse_node_extract_list(
        &list, from ? KIND_import_as_names : KIND_dotted_as_names, &parts);
    for (size_t i = 0; i < count; i++) {
        part_take(walk, parts[i], from ? KIND_import_as_name : KIND_dotted_as_name,
                  from ? node->nodes[0] : MP_PARSE_NODE_NULL);
    }
}

// ---- What stands behind them

static bool is_told(const struct dev_vm_compiled *out, const char *path)
{
    for (uint32_t i = 0; i < out->member_count; i++) {
        if (strcmp(out->members[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

static void member_take(struct walk *walk, const struct root *root,
                        const mp_parse_node_struct_t *node)
{
    struct dev_vm_compiled *out = walk->out;
    struct dev_vm_member member = {.line = (uint32_t)node->source_line};
    mp_parse_node_t list = node->nodes[1];
    mp_parse_node_t *trailers = NULL;
    size_t count = mp_parse_node_extract_list(&list, KIND_atom_expr_trailers, &trailers);
    memcpy(member.path, root->path, sizeof(member.path));
    for (size_t i = 0; i < count; i++) {
        const mp_parse_node_struct_t *period =
            dev_vm_tree_of_kind(trailers[i], KIND_trailer_period);
        if (period == NULL || !path_add(member.path, period->nodes[0])) {
            break;
        }
    }
    if (out->member_count < DEV_VM_MEMBERS_MAX && !is_told(out, member.path)) {
        out->members[out->member_count++] = member;
    }
}

// Does the node begin with a module's name and a period? Then the name is not looked at again.
static struct root *head_of(struct walk *walk, const mp_parse_node_struct_t *node, uint32_t kind)
{
    mp_parse_node_t *trailers = NULL;
    if (kind != KIND_atom_expr_normal) {
        return NULL;
    }
    mp_parse_node_t list = node->nodes[1];
    size_t count = mp_parse_node_extract_list(&list, KIND_atom_expr_trailers, &trailers);
    bool period = count > 0 && dev_vm_tree_of_kind(trailers[0], KIND_trailer_period) != NULL;
    return period ? root_of(walk, node->nodes[0]) : NULL;
}

static void visit(struct walk *walk, mp_parse_node_t any, bool guarded);

static void leaf_visit(struct walk *walk, mp_parse_node_t leaf)
{
    struct root *root = walk->pass == PASS_NAMES ? root_of(walk, leaf) : NULL;
    if (root != NULL) {
        root->unsure = true;
    }
}

static bool has_except(mp_parse_node_t behind)
{
    return dev_vm_tree_struct(behind) != NULL &&
           dev_vm_tree_of_kind(behind, KIND_try_stmt_finally) == NULL;
}

static void children_visit(struct walk *walk, const mp_parse_node_struct_t *node, uint32_t kind,
                           bool guarded)
{
    struct root *head = head_of(walk, node, kind);
    if (head != NULL && walk->pass == PASS_MEMBERS && !head->unsure && !guarded) {
        member_take(walk, head, node);
    }
    bool guards = kind == KIND_try_stmt && has_except(node->nodes[1]);
    for (size_t i = head != NULL ? 1 : 0; i < MP_PARSE_NODE_STRUCT_NUM_NODES(node); i++) {
        visit(walk, node->nodes[i], guarded || (guards && i == 0));
    }
}

static void visit(struct walk *walk, mp_parse_node_t any, bool guarded)
{
    const mp_parse_node_struct_t *node = dev_vm_tree_struct(any);
    uint32_t kind = node != NULL ? (uint32_t)MP_PARSE_NODE_STRUCT_KIND(node) : KIND_const_object;
    if (node == NULL) {
        leaf_visit(walk, any);
    }
    if (kind == KIND_const_object || kind == KIND_trailer_period) { // no names of the source's own
        return;
    }
    bool import = kind == KIND_import_name || kind == KIND_import_from;
    if (import && walk->pass == PASS_IMPORTS) {
        import_take(walk, node, kind == KIND_import_from);
    }
    if (!import) {
        dev_vm_tree_step();
        children_visit(walk, node, kind, guarded);
    }
}

void dev_vm_members_find(mp_parse_node_t root, struct dev_vm_compiled *out)
{
    struct walk walk = {.out = out};
    static const enum pass passes[] = {PASS_IMPORTS, PASS_NAMES, PASS_MEMBERS};
    for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++) {
        walk.pass = passes[i];
        visit(&walk, root, false);
    }
}

// A walk over MicroPython's parse tree for calls of walle.data.upload, so that `walle task build`
// can say which names task.json does not declare. Called by vm_compile.c between parsing and
// compiling, on its thread. What `walle` and `walle.data` are called is asked of the import
// statements of the whole file first, wherever they stand; then every expression that begins with
// such a name is looked at.
#include "vm/compiler/vm_uploads.h"

#include "vm/compiler/vm_tree.h"

#include "py/objstr.h"
#include "py/qstr.h"

#include <string.h>

#define NAMES_MAX 8 // that a source gives the module, of either kind

// What the source calls a module.
struct names {
    qstr items[NAMES_MAX];
    uint32_t count;
};

struct walk {
    struct dev_vm_compiled *out;
    struct names modules; // walle
    struct names datas;   // walle.data
    bool calls;           // names are known: calls are looked for
};

static void add_name(struct names *names, qstr name)
{
    if (names->count < NAMES_MAX) {
        names->items[names->count++] = name;
    }
}

static bool is_among(const struct names *names, mp_parse_node_t node)
{
    bool found = false;
    for (uint32_t i = 0; i < names->count && MP_PARSE_NODE_IS_ID(node); i++) {
        found = found || names->items[i] == (qstr)MP_PARSE_NODE_LEAF_ARG(node);
    }
    return found;
}

static bool is_name(mp_parse_node_t node, const char *text)
{
    return MP_PARSE_NODE_IS_ID(node) &&
           strcmp(qstr_str((qstr)MP_PARSE_NODE_LEAF_ARG(node)), text) == 0;
}

// ---- What the modules are called

// "a", or "a as b" as a node of `kind`: adds what `wanted` is called.
static void take_name(mp_parse_node_t part, uint32_t kind, const char *wanted, struct names *names)
{
    const mp_parse_node_struct_t *as = dev_vm_tree_of_kind(part, kind);
    mp_parse_node_t name = as != NULL ? as->nodes[0] : part;
    if (is_name(name, wanted)) {
        bool renamed = as != NULL && MP_PARSE_NODE_IS_ID(as->nodes[1]);
        add_name(names, (qstr)MP_PARSE_NODE_LEAF_ARG(renamed ? as->nodes[1] : name));
    }
}

static void take_import(struct walk *walk, const mp_parse_node_struct_t *node, uint32_t kind)
{
    bool from = kind == KIND_import_from;
    mp_parse_node_t list = node->nodes[from ? 1 : 0];
    mp_parse_node_t *parts = NULL;
    if (from && !is_name(node->nodes[0], "walle")) {
        return;
    }
    if (from && MP_PARSE_NODE_IS_TOKEN(list)) { // "*"
        add_name(&walk->datas, qstr_from_str("data"));
        return;
    }
    size_t count = mp_parse_node_extract_list(
        &list, from ? KIND_import_as_names : KIND_dotted_as_names, &parts);
    for (size_t i = 0; i < count; i++) {
        if (from) {
            take_name(parts[i], KIND_import_as_name, "data", &walk->datas);
        } else {
            take_name(parts[i], KIND_dotted_as_name, "walle", &walk->modules);
        }
    }
}

// ---- Calls

// The text of a literal, and its size; NULL: it is none, or one of bytes.
static const char *literal_of(mp_parse_node_t node, size_t *out_size)
{
    if (MP_PARSE_NODE_IS_LEAF(node)) {
        bool text = MP_PARSE_NODE_LEAF_KIND(node) == MP_PARSE_NODE_STRING;
        return text ? (const char *)qstr_data((qstr)MP_PARSE_NODE_LEAF_ARG(node), out_size) : NULL;
    }
    const mp_parse_node_struct_t *constant = dev_vm_tree_of_kind(node, KIND_const_object);
    mp_obj_t object =
        constant != NULL
            ? mp_parse_node_extract_const_object((mp_parse_node_struct_t *)(uintptr_t)constant)
            : MP_OBJ_NULL;
    return object != MP_OBJ_NULL && mp_obj_is_str(object) ? mp_obj_str_get_data(object, out_size)
                                                          : NULL;
}

// ("name", value): tells it, with the line of the name.
static void take_call(struct walk *walk, const mp_parse_node_struct_t *brackets)
{
    struct dev_vm_compiled *out = walk->out;
    const mp_parse_node_struct_t *list = dev_vm_tree_of_kind(brackets->nodes[0], KIND_arglist);
    size_t size = 0;
    const char *text = list != NULL ? literal_of(list->nodes[0], &size) : NULL;
    if (text == NULL || out->upload_count == DEV_VM_UPLOADS_MAX) {
        return;
    }
    struct dev_vm_upload *upload = &out->uploads[out->upload_count++];
    size = size < sizeof(upload->name) ? size : sizeof(upload->name) - 1;
    memcpy(upload->name, text, size);
    upload->name[size] = '\0';
    upload->line = (uint32_t)list->source_line;
}

static bool is_member(mp_parse_node_t trailer, const char *name)
{
    const mp_parse_node_struct_t *period = dev_vm_tree_of_kind(trailer, KIND_trailer_period);
    return period != NULL && is_name(period->nodes[0], name);
}

// A name and what is behind it: ".data", ".upload", "(...)".
static void take_expression(struct walk *walk, const mp_parse_node_struct_t *node)
{
    mp_parse_node_t list = node->nodes[1];
    mp_parse_node_t *trailers = NULL;
    size_t count = mp_parse_node_extract_list(&list, KIND_atom_expr_trailers, &trailers);
    size_t at = 0;
    bool ours = is_among(&walk->datas, node->nodes[0]);
    if (!ours && is_among(&walk->modules, node->nodes[0])) {
        ours = count > 0 && is_member(trailers[0], "data");
        at = 1;
    }
    if (!ours || count < at + 2 || !is_member(trailers[at], "upload")) {
        return;
    }
    const mp_parse_node_struct_t *call = dev_vm_tree_of_kind(trailers[at + 1], KIND_trailer_paren);
    if (call != NULL) {
        take_call(walk, call);
    }
}

static void visit(struct walk *walk, mp_parse_node_t any)
{
    const mp_parse_node_struct_t *node = dev_vm_tree_struct(any);
    uint32_t kind = node != NULL ? (uint32_t)MP_PARSE_NODE_STRUCT_KIND(node) : KIND_const_object;
    if (kind == KIND_const_object) {
        return;
    }
    if (!walk->calls && (kind == KIND_import_name || kind == KIND_import_from)) {
        take_import(walk, node, kind);
        return;
    }
    if (walk->calls && kind == KIND_atom_expr_normal) {
        take_expression(walk, node);
    }
    dev_vm_tree_step();
    for (size_t i = 0; i < MP_PARSE_NODE_STRUCT_NUM_NODES(node); i++) {
        visit(walk, node->nodes[i]);
    }
}

void dev_vm_uploads_find(mp_parse_node_t root, struct dev_vm_compiled *out)
{
    struct walk walk = {.out = out};
    visit(&walk, root);
    walk.calls = true;
    visit(&walk, root);
}

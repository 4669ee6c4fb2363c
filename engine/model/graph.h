// The graph as the file describes it: values, nodes in topological order, attributes, subgraphs.
//
// Lifetime: the model's arena; immutable after load except for the load-time passes (fold_bn.c).
// Values are numbered per graph. A subgraph (If, Loop, Scan, SequenceMap) that reads a value of an
// enclosing graph has a value of its own for it, listed in `captures` with the parent's number.
#ifndef ENG_MODEL_GRAPH_H
#define ENG_MODEL_GRAPH_H

#include "base/arena.h"
#include "base/str.h"
#include "engine/engine.h"

#define ENG_NONE UINT32_MAX // no value: an omitted optional input or output

// Limits of what a model may hold (docs/ENGINE.md repeats this table).
#define ENG_NODES_MAX       1000000u // nodes of one graph
#define ENG_VALUES_MAX      4000000u // values of one graph
#define ENG_NODE_PORTS_MAX  65536u   // inputs or outputs of one node
#define ENG_ATTRS_MAX       256u     // attributes of one node
#define ENG_GRAPH_DEPTH_MAX 16u      // nested subgraphs
// Smaller initializers are copied out of the file: a page of it that is read brings its neighbours
// into memory.
#define ENG_MAPPED_BYTES_MIN ((size_t)64 << 10)
// Float initializers of this size and more stay where the file has them, at any address: who reads
// them as numbers makes an aligned copy first (session/exec.h does for steps).
#define ENG_LOOSE_BYTES_MIN ((size_t)256 << 10)
// Opsets before 7 are read with the meaning of 7; a node in a form that 7 no longer has is refused.
#define ENG_OPSET_MIN  1
#define ENG_OPSET_FULL 7
#define ENG_OPSET_MAX  22

struct eng_graph;
struct eng_op; // lower/lower.h

enum eng_attr_kind {
    ENG_ATTR_INT,
    ENG_ATTR_FLOAT,
    ENG_ATTR_STRING,
    ENG_ATTR_TENSOR,
    ENG_ATTR_GRAPH,
    ENG_ATTR_INTS,
    ENG_ATTR_FLOATS,
    ENG_ATTR_STRINGS,
    ENG_ATTR_OTHER, // kinds no supported operator has (sparse tensors, type protos, lists of
                    // graphs)
};

struct eng_attr {
    const char *name;
    enum eng_attr_kind kind;
    uint32_t count; // of ints, floats, strings
    union {
        int64_t i;
        float f;
        struct eng_string s;
        struct eng_array tensor;
        struct eng_graph *graph;
        const int64_t *ints;
        const float *floats;
        const struct eng_string *strings;
    } u;
};

struct eng_node {
    const char *name;   // "" when the file gives none
    const char *op;     // "Conv"
    const char *domain; // "" is the ONNX domain ("ai.onnx" is stored as "")
    int32_t opset;      // version of the node's domain that the model imports
    uint32_t index;     // place in graph->nodes
    uint32_t input_count;
    uint32_t output_count;
    uint32_t attr_count;
    const uint32_t *inputs; // value numbers or ENG_NONE
    const uint32_t *outputs;
    const struct eng_attr *attrs;
    const struct eng_op *impl; // who lowers it; set at load
};

enum eng_value_type { ENG_VALUE_UNKNOWN, ENG_VALUE_TENSOR, ENG_VALUE_SEQUENCE, ENG_VALUE_OPTIONAL };

struct eng_value {
    const char *name;
    enum eng_value_type type; // declared type; UNKNOWN when the file says nothing
    bool has_shape;
    struct eng_desc desc;         // declared: dims -1 where symbolic; dtype UNDEFINED when unknown
    const char *const *dim_names; // desc.rank names or NULLs; NULL when none is symbolic
    const void *data; // initializer: dense elements in the file's mapping or the arena, else NULL.
                      // 16-byte aligned is NOT promised; element alignment is, but for float
                      // tensors of ENG_LOOSE_BYTES_MIN and more
    bool is_initializer;
    bool is_folded;    // fold_bn.h took it away: nothing computes it any more
    uint32_t producer; // node index, ENG_NONE for inputs, initializers and captures
};

struct eng_capture {
    uint32_t inner; // value of this graph
    uint32_t outer; // value of the parent graph
};

struct eng_graph {
    const char *name;
    struct eng_graph *parent; // NULL for the main graph
    struct eng_value *values;
    struct eng_node *nodes;
    uint32_t *inputs; // without initializers (IR 3 files list them as inputs too)
    uint32_t *outputs;
    struct eng_capture *captures;
    uint32_t value_count, node_count, input_count, output_count, capture_count;
};

// The model behind engine.h. `packs` (backend/pack.h) and `device_weights`
// (backend/device_weights.h) are shared, mutable and lock themselves.
struct eng_pack_cache;
struct eng_device_weights;
struct eng_mappings;
struct eng_model {
    struct base_arena arena;
    struct eng_graph *graph;
    struct eng_port_info *inputs; // of the main graph, as engine.h shows them
    struct eng_port_info *outputs;
    int64_t ir_version;
    const char *producer_name;
    int32_t opset;            // of the ONNX domain
    uint64_t parameter_count; // elements of float initializers
    uint64_t content_key;     // hash of the file's structure: names the model in the search cache
    struct eng_pack_cache *packs;
    struct eng_device_weights *device_weights; // NULL: no session was on a device yet
    struct eng_mappings *mappings; // model_file.h: files mapped, released with the model
    uint32_t refs;                 // atomic
};

// Attribute by name or NULL. The typed getters give `otherwise` when it is absent or of another
// kind.
const struct eng_attr *eng_node_attr(const struct eng_node *node, const char *name);
int64_t eng_node_int(const struct eng_node *node, const char *name, int64_t otherwise);
float eng_node_float(const struct eng_node *node, const char *name, float otherwise);
// Borrowed text; not NUL-terminated in general: compare with eng_string_is.
struct eng_string eng_node_string(const struct eng_node *node, const char *name,
                                  const char *otherwise);
bool eng_string_is(struct eng_string string, const char *text);
// Borrowed list; NULL and *out_count 0 when absent.
const int64_t *eng_node_ints(const struct eng_node *node, const char *name, uint32_t *out_count);
const float *eng_node_floats(const struct eng_node *node, const char *name, uint32_t *out_count);
const struct eng_graph *eng_node_graph(const struct eng_node *node, const char *name);

// Fills `error` with "node 'name' (Op, opset N): text" and returns `status`.
enum base_status eng_node_error(const struct eng_node *node, struct base_error *error,
                                enum base_status status, const char *format, ...) BASE_PRINTF(4, 5);

// Gives pages of initializers back to the file (they return when read): called after packing.
void eng_model_release_pages(struct eng_model *model, const void *data, size_t bytes);

#endif

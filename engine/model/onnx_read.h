// From the bytes of an ONNX file to a graph: scan, unpack, build, sort, prune, bind operators.
//
// The pieces share struct eng_onnx: onnx_read.c drives, onnx_graph.c builds graphs, onnx_attr.c
// turns attributes, tensors and types into the engine's. Lives for the time of one load.
#ifndef ENG_MODEL_ONNX_READ_H
#define ENG_MODEL_ONNX_READ_H

#include "model/look.h"
#include "model/graph.h"
#include "model/onnx_scan.h"

#include <onnx.pb-c.h>

// Memory that protobuf-c and the building may take for a model's structure, besides the result.
#define ENG_SCRATCH_BYTES_MAX ((size_t)1 << 30)
#define ENG_OPSET_IMPORTS_MAX 64u

struct eng_mappings;

// Finds who lowers an operator: eng_op_find, or a test's own.
typedef const struct eng_op *(*eng_op_find_fn)(const char *domain, const char *name, int32_t opset);

// Refuses a node that its operator does not describe: eng_op_form_check, or NULL.
typedef enum base_status (*eng_op_check_fn)(const struct eng_node *node, struct base_error *error);

struct eng_read_options {
    const void *bytes;
    size_t size;
    struct eng_mappings *mappings; // for external data
    eng_op_find_fn find_op;
    eng_op_check_fn check_op;            // nodes of operators that find_op knows
    bool allow_unknown;                  // nodes find_op does not know stay without impl
    const struct base_alloc_port *alloc; // for what the load itself needs
    const struct eng_look *look;         // asked between steps; NULL: nobody
};

struct eng_onnx {
    struct base_arena *arena;   // the model's
    struct base_arena *scratch; // until the end of the load
    struct eng_scan scan;
    const Onnx__ModelProto *message;
    struct eng_mappings *mappings;
    uint64_t parameter_count;
    const struct eng_look *look;
    struct base_error *error;
};

// Fills model->graph, opset, ir_version, producer_name and parameter_count; model->arena is
// initialised. Everything that is kept lies in the arena, the mappings, or `bytes` itself.
// INVALID, TRUNCATED, TOO_LARGE, UNSUPPORTED, IO, TIMEOUT, NOMEM as eng_model_load says.
BASE_NODISCARD enum base_status eng_onnx_read(struct eng_model *model,
                                              const struct eng_read_options *options,
                                              struct base_error *error);

// Version of a domain that the model imports, 0 when it does not. "ai.onnx" is "".
int32_t eng_onnx_opset(const struct eng_onnx *onnx, const char *domain);
// onnx_graph.c: the main graph with everything below it; sorted, without dead nodes.
BASE_NODISCARD enum base_status eng_onnx_graph(struct eng_onnx *onnx,
                                               const Onnx__GraphProto *message,
                                               struct eng_graph **out_graph);
// onnx_attr.c: the tensor a skeleton message stands for. `loose`: large floats at any address.
// *out_name is a copy in the arena.
BASE_NODISCARD enum base_status eng_onnx_tensor(struct eng_onnx *onnx,
                                                const Onnx__TensorProto *message, bool loose,
                                                struct eng_array *out_array, const char **out_name);
// Every kind but GRAPH, which is left to the caller (kind and name set, graph NULL).
BASE_NODISCARD enum base_status eng_onnx_attr(struct eng_onnx *onnx,
                                              const Onnx__AttributeProto *message,
                                              struct eng_attr *out_attr);
// Declared type and shape into a value; NULL says nothing and changes nothing.
BASE_NODISCARD enum base_status eng_onnx_type(struct eng_onnx *onnx, const Onnx__TypeProto *message,
                                              struct eng_value *value);
// Text for the arena; "" for NULL. NULL when out of memory.
const char *eng_onnx_text(struct eng_onnx *onnx, const char *text);

#endif

// Drives the reading of an ONNX file: scan, unpack the skeleton with protobuf-c, check versions,
// build the graph, bind operators. Called by model.c on the loading thread. protobuf-c sees only
// what onnx_scan.c has bounded, and allocates from a scratch arena that is released as a whole.
// Operators are bound to handlers once here, so a model with one that is unknown fails at load and
// not in its first run.
#include "model/onnx_read.h"

#include "base/check.h"
#include "model/onnx_legacy.h"

#include <string.h>

#define SCRATCH_CHUNK_BYTES ((size_t)64 << 10)
#define IR_VERSION_MIN      3
#define IR_VERSION_MAX      10

// protobuf-c's allocator over the scratch arena: bounded, released as a whole.
struct proto_heap {
    struct base_arena *arena;
    const struct eng_onnx *onnx;
    enum base_status stopped; // what ended the unpacking, if anything did
    bool is_empty;            // there was no memory, though the bound was not reached
};

static void *proto_alloc(void *ctx, size_t size)
{
    struct proto_heap *heap = ctx;
    if (heap->stopped == BASE_OK) {
        heap->stopped = eng_look(heap->onnx->look, heap->onnx->error);
    }
    if (heap->stopped != BASE_OK) {
        return NULL;
    }
    void *memory = base_arena_alloc(heap->arena, size);
    if (memory == NULL) {
        base_assert(heap->arena->used_bytes <= heap->arena->limit_bytes);
        const size_t left = heap->arena->limit_bytes - heap->arena->used_bytes;
        heap->is_empty = heap->is_empty || size <= left;
    }
    return memory;
}

static void proto_free(void *ctx, void *memory)
{
    (void)ctx;
    (void)memory;
}

static enum base_status unpack(struct eng_onnx *onnx)
{
    struct proto_heap heap = {.arena = onnx->scratch, .onnx = onnx};
    base_assert(onnx->scan.skeleton.size <= ENG_SKELETON_BYTES_MAX);
    ProtobufCAllocator allocator = {proto_alloc, proto_free, &heap};
    onnx->message =
        onnx__model_proto__unpack(&allocator, onnx->scan.skeleton.size, onnx->scan.skeleton.data);
    if (heap.stopped != BASE_OK) {
        return heap.stopped;
    }
    if (onnx->message == NULL && heap.is_empty) {
        return BASE_ERR_NOMEM;
    }
    if (onnx->message == NULL) {
        return base_error_set(onnx->error, BASE_ERR_INVALID,
                              "not a readable ONNX model, or too large a structure");
    }
    if (onnx->message->graph == NULL) {
        return base_error_set(onnx->error, BASE_ERR_INVALID, "the model has no graph");
    }
    return BASE_OK;
}

static bool same_domain(const char *left, const char *right)
{
    left = left == NULL || strcmp(left, "ai.onnx") == 0 ? "" : left;
    right = right == NULL || strcmp(right, "ai.onnx") == 0 ? "" : right;
    return strcmp(left, right) == 0;
}

int32_t eng_onnx_opset(const struct eng_onnx *onnx, const char *domain)
{
    for (size_t i = 0; i < onnx->message->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *import = onnx->message->opset_import[i];
        if (same_domain(import->domain, domain)) {
            return import->version > 0 && import->version <= INT32_MAX ? (int32_t)import->version
                                                                       : 0;
        }
    }
    return 0;
}

static enum base_status check_versions(const struct eng_onnx *onnx)
{
    _Static_assert(ENG_OPSET_MIN < ENG_OPSET_FULL && ENG_OPSET_FULL <= ENG_OPSET_MAX,
                   "what is read as ENG_OPSET_FULL has rows of its own");
    const Onnx__ModelProto *m = onnx->message;
    if (m->ir_version < IR_VERSION_MIN || m->ir_version > IR_VERSION_MAX) {
        return base_error_set(onnx->error, BASE_ERR_UNSUPPORTED,
                              "IR version %lld is not supported (%d to %d are)",
                              (long long)m->ir_version, IR_VERSION_MIN, IR_VERSION_MAX);
    }
    if (m->n_opset_import == 0 || m->n_opset_import > ENG_OPSET_IMPORTS_MAX) {
        return base_error_set(onnx->error, BASE_ERR_INVALID, "%zu operator sets are imported",
                              m->n_opset_import);
    }
    for (size_t i = 0; i < m->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *import = m->opset_import[i];
        if (same_domain(import->domain, "") &&
            (import->version < ENG_OPSET_MIN || import->version > ENG_OPSET_MAX)) {
            return base_error_set(onnx->error, BASE_ERR_UNSUPPORTED,
                                  "opset %lld is not supported (%d to %d are)",
                                  (long long)import->version, ENG_OPSET_MIN, ENG_OPSET_MAX);
        }
    }
    return BASE_OK;
}

static bool is_local_function(const struct eng_onnx *onnx, const struct eng_node *node)
{
    for (size_t i = 0; i < onnx->message->n_functions; i++) {
        const Onnx__FunctionProto *function = onnx->message->functions[i];
        if (same_domain(function->domain, node->domain) && function->name != NULL &&
            strcmp(function->name, node->op) == 0) {
            return true;
        }
    }
    return false;
}

// Recursion follows subgraphs, bounded when they were read.
static enum base_status bind_ops(const struct eng_onnx *onnx, struct eng_graph *graph,
                                 const struct eng_read_options *options)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        struct eng_node *node = &graph->nodes[n];
        BASE_TRY(eng_look(onnx->look, onnx->error));
        if (node->domain[0] != '\0' || node->opset >= ENG_OPSET_FULL || eng_legacy_accepts(node)) {
            node->impl = options->find_op(node->domain, node->op, node->opset);
        }
        if (node->impl == NULL && !options->allow_unknown) {
            bool local = is_local_function(onnx, node);
            return eng_node_error(node, onnx->error, BASE_ERR_UNSUPPORTED,
                                  local ? "functions defined in the model are not supported%s%.40s"
                                        : "this operator is not supported%s%.40s",
                                  node->domain[0] != '\0' ? ", domain " : "", node->domain);
        }
        if (node->impl != NULL && options->check_op != NULL) {
            BASE_TRY(options->check_op(node, onnx->error));
        }
        for (uint32_t a = 0; a < node->attr_count; a++) {
            if (node->attrs[a].kind == ENG_ATTR_GRAPH) {
                base_assert(node->attrs[a].u.graph->parent == graph);
                BASE_TRY(bind_ops(onnx, node->attrs[a].u.graph, options));
            }
        }
    }
    return BASE_OK;
}

static enum base_status read_scanned(struct eng_onnx *onnx, struct eng_model *model,
                                     const struct eng_read_options *options)
{
    base_assert(model->graph == NULL);
    BASE_TRY(eng_look(onnx->look, onnx->error));
    BASE_TRY(unpack(onnx));
    BASE_TRY(check_versions(onnx));
    model->ir_version = onnx->message->ir_version;
    model->opset = eng_onnx_opset(onnx, "");
    model->producer_name = eng_onnx_text(onnx, onnx->message->producer_name);
    if (model->producer_name == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(eng_onnx_graph(onnx, onnx->message->graph, &model->graph));
    model->parameter_count = onnx->parameter_count;
    return bind_ops(onnx, model->graph, options);
}

enum base_status eng_onnx_read(struct eng_model *model, const struct eng_read_options *options,
                               struct base_error *error)
{
    struct base_error unused;
    struct base_arena scratch;
    base_arena_init(&scratch, options->alloc, SCRATCH_CHUNK_BYTES, ENG_SCRATCH_BYTES_MAX);
    struct eng_onnx onnx = {
        .arena = &model->arena,
        .scratch = &scratch,
        .mappings = options->mappings,
        .look = options->look,
        .error = error != NULL ? error : &unused,
    };
    const struct eng_scan_source source = {options->bytes, options->size, options->look};
    enum base_status status = eng_scan_model(&onnx.scan, options->alloc, &source, onnx.error);
    if (status == BASE_OK) {
        status = read_scanned(&onnx, model, options);
    }
    if (status == BASE_ERR_NOMEM) {
        status = base_error_set(error, status, "out of memory while reading the model");
    }
    base_assert(status != BASE_OK || model->graph != NULL);
    eng_scan_done(&onnx.scan);
    base_arena_done(&scratch);
    return status;
}

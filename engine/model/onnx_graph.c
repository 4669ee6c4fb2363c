// Builds graphs from unpacked ONNX messages: numbers values, resolves names through enclosing
// scopes, turns Constant nodes into initializers, and reads subgraphs.
//
// Called by onnx_read.c on the loading thread. Recursion follows subgraphs and is bounded by
// ENG_GRAPH_DEPTH_MAX.
#include "model/onnx_read.h"

#include "base/check.h"
#include "model/graph_sort.h"
#include "model/name_map.h"

#include <string.h>

// One graph while it is built. Values and captures grow in scratch memory and are copied to the
// model's arena at the end: never keep a pointer into them across a call that may add one.
struct scope {
    struct eng_onnx *onnx;
    struct scope *parent;
    const Onnx__GraphProto *message;
    struct eng_graph *graph;
    struct eng_name_map names;
    struct eng_value *values;
    uint32_t value_count, value_capacity;
    struct eng_capture *captures;
    uint32_t capture_count, capture_capacity;
    uint32_t depth;
};

static enum base_status fail(const struct scope *scope, enum base_status status, const char *text,
                             const char *name)
{
    return base_error_set(scope->onnx->error, status, "graph '%.40s': %s '%.60s'",
                          scope->graph->name, text, name);
}

static enum base_status grow_array(struct base_arena *scratch, void **array, uint32_t count,
                                   uint32_t *capacity, size_t bytes)
{
    base_assert(count <= *capacity);
    if (count < *capacity) {
        return BASE_OK;
    }
    uint32_t wanted = *capacity == 0 ? 32 : *capacity * 2;
    void *grown = base_arena_alloc(scratch, wanted * bytes);
    if (grown == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (count > 0) {
        memcpy(grown, *array, count * bytes);
    }
    *array = grown;
    *capacity = wanted;
    return BASE_OK;
}

// Adds a value under a name that lives in the arena. EXISTS: the name is taken in this graph.
static enum base_status add_value(struct scope *scope, const char *name, uint32_t *out)
{
    if (scope->value_count == ENG_VALUES_MAX) {
        return fail(scope, BASE_ERR_TOO_LARGE, "too many values, at", name);
    }
    void *values = scope->values;
    BASE_TRY(grow_array(scope->onnx->scratch, &values, scope->value_count, &scope->value_capacity,
                        sizeof(*scope->values)));
    scope->values = values;
    BASE_TRY(eng_name_map_add(&scope->names, name, scope->value_count));
    scope->values[scope->value_count] = (struct eng_value){.name = name, .producer = ENG_NONE};
    *out = scope->value_count++;
    return BASE_OK;
}

// A name of this graph, or one of an enclosing graph made known here as a capture. NOT_FOUND.
static enum base_status resolve(struct scope *scope, const char *name, uint32_t *out)
{
    if (eng_name_map_find(&scope->names, name, out)) {
        return BASE_OK;
    }
    if (scope->parent == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    uint32_t outer;
    BASE_TRY(resolve(scope->parent, name, &outer));
    void *captures = scope->captures;
    BASE_TRY(grow_array(scope->onnx->scratch, &captures, scope->capture_count,
                        &scope->capture_capacity, sizeof(*scope->captures)));
    scope->captures = captures;
    base_assert(outer < scope->parent->value_count);
    struct eng_value value = scope->parent->values[outer];
    BASE_TRY(add_value(scope, value.name, out));
    // Type and shape are known from outside; content is the capture's business.
    value.data = NULL;
    value.is_initializer = false;
    value.producer = ENG_NONE;
    scope->values[*out] = value;
    scope->captures[scope->capture_count++] = (struct eng_capture){.inner = *out, .outer = outer};
    return BASE_OK;
}

static void set_initializer(struct eng_value *value, const struct eng_array *array)
{
    value->type = ENG_VALUE_TENSOR;
    value->has_shape = true;
    value->desc = array->desc;
    value->dim_names = NULL;
    value->data = array->data;
    value->is_initializer = true;
}

static bool is_float(enum eng_dtype dtype)
{
    return dtype == ENG_F32 || dtype == ENG_F16 || dtype == ENG_BF16 || dtype == ENG_F64;
}

static enum base_status read_initializers(struct scope *scope)
{
    base_assert(scope->value_count == 0); // they come first
    for (size_t i = 0; i < scope->message->n_initializer; i++) {
        BASE_TRY(eng_look(scope->onnx->look, scope->onnx->error));
        struct eng_array array;
        const char *name;
        BASE_TRY(eng_onnx_tensor(scope->onnx, scope->message->initializer[i], true, &array, &name));
        if (name[0] == '\0') {
            return fail(scope, BASE_ERR_INVALID, "an initializer without a name, shape of", "");
        }
        uint32_t number;
        enum base_status status = add_value(scope, name, &number);
        if (status == BASE_ERR_EXISTS) {
            return fail(scope, BASE_ERR_INVALID, "two initializers are called", name);
        }
        BASE_TRY(status);
        set_initializer(&scope->values[number], &array);
        if (is_float(array.desc.dtype)) {
            scope->onnx->parameter_count += (uint64_t)eng_desc_count(&array.desc);
        }
    }
    return BASE_OK;
}

// Inputs that are initializers too are defaults (IR 3 lists all of them): no inputs of ours.
static enum base_status read_inputs(struct scope *scope)
{
    const Onnx__GraphProto *m = scope->message;
    struct eng_graph *graph = scope->graph;
    graph->inputs = base_arena_alloc(scope->onnx->arena, m->n_input * sizeof(*graph->inputs));
    if (graph->inputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (size_t i = 0; i < m->n_input; i++) {
        const char *name = eng_onnx_text(scope->onnx, m->input[i]->name);
        if (name == NULL) {
            return BASE_ERR_NOMEM;
        }
        uint32_t number;
        if (eng_name_map_find(&scope->names, name, &number)) {
            if (scope->values[number].is_initializer) {
                continue;
            }
            return fail(scope, BASE_ERR_INVALID, "two inputs are called", name);
        }
        if (name[0] == '\0') {
            return fail(scope, BASE_ERR_INVALID, "an input without a name, after", "");
        }
        BASE_TRY(add_value(scope, name, &number));
        BASE_TRY(eng_onnx_type(scope->onnx, m->input[i]->type, &scope->values[number]));
        base_assert(graph->input_count <= i);
        graph->inputs[graph->input_count++] = number;
    }
    return BASE_OK;
}

// The header of a node: names, ports' room, domain and opset.
static enum base_status begin_node(struct scope *scope, const Onnx__NodeProto *message,
                                   struct eng_node *node)
{
    struct eng_onnx *onnx = scope->onnx;
    const char *domain =
        message->domain == NULL || strcmp(message->domain, "ai.onnx") == 0 ? "" : message->domain;
    *node = (struct eng_node){
        .name = eng_onnx_text(onnx, message->name),
        .op = eng_onnx_text(onnx, message->op_type),
        .domain = eng_onnx_text(onnx, domain),
        .opset = eng_onnx_opset(onnx, domain),
    };
    if (node->name == NULL || node->op == NULL || node->domain == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (message->n_input > ENG_NODE_PORTS_MAX || message->n_output > ENG_NODE_PORTS_MAX ||
        message->n_attribute > ENG_ATTRS_MAX) {
        return eng_node_error(node, onnx->error, BASE_ERR_TOO_LARGE,
                              "too many inputs, outputs or attributes");
    }
    if (node->opset == 0) {
        return eng_node_error(node, onnx->error, BASE_ERR_INVALID,
                              "the model does not import the operator's domain '%.40s'", domain);
    }
    base_assert(node->domain[0] != '\0' || node->opset <= ENG_OPSET_MAX); // check_versions
    node->input_count = (uint32_t)message->n_input;
    node->output_count = (uint32_t)message->n_output;
    node->attr_count = (uint32_t)message->n_attribute;
    return BASE_OK;
}

static enum base_status read_outputs_of(struct scope *scope, const Onnx__NodeProto *message,
                                        struct eng_node *node)
{
    base_assert(node->output_count == message->n_output); // begin_node refused more
    uint32_t *outputs = base_arena_alloc(scope->onnx->arena, message->n_output * sizeof(*outputs));
    if (outputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    node->outputs = outputs;
    for (size_t o = 0; o < message->n_output; o++) {
        outputs[o] = ENG_NONE;
        if (message->output[o][0] == '\0') {
            continue;
        }
        const char *name = eng_onnx_text(scope->onnx, message->output[o]);
        if (name == NULL) {
            return BASE_ERR_NOMEM;
        }
        enum base_status status = add_value(scope, name, &outputs[o]);
        if (status == BASE_ERR_EXISTS) {
            return eng_node_error(node, scope->onnx->error, BASE_ERR_INVALID,
                                  "its output '%.60s' is another value's name already", name);
        }
        BASE_TRY(status);
    }
    return BASE_OK;
}

static enum base_status read_graph(struct eng_onnx *onnx, const Onnx__GraphProto *message,
                                   struct scope *parent, struct eng_graph **out_graph);

static enum base_status read_attrs(struct scope *scope, const Onnx__NodeProto *message,
                                   struct eng_node *node)
{
    struct eng_onnx *onnx = scope->onnx;
    base_assert(node->attr_count == message->n_attribute);
    struct eng_attr *attrs = base_arena_alloc(onnx->arena, message->n_attribute * sizeof(*attrs));
    if (attrs == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (size_t a = 0; a < message->n_attribute; a++) {
        const Onnx__AttributeProto *attribute = message->attribute[a];
        enum base_status status = eng_onnx_attr(onnx, attribute, &attrs[a]);
        if (status != BASE_OK && status != BASE_ERR_NOMEM) {
            const struct base_error inner =
                onnx->error != NULL ? *onnx->error : (struct base_error){0};
            return eng_node_error(node, onnx->error, status, "attribute '%.30s': %s",
                                  attribute->name != NULL ? attribute->name : "", inner.text);
        }
        BASE_TRY(status);
        for (size_t b = 0; b < a; b++) {
            if (strcmp(attrs[b].name, attrs[a].name) == 0) {
                return eng_node_error(node, onnx->error, BASE_ERR_INVALID,
                                      "attribute '%.60s' occurs twice", attrs[a].name);
            }
        }
        if (attrs[a].kind == ENG_ATTR_GRAPH) {
            if (attribute->g == NULL) {
                return eng_node_error(node, onnx->error, BASE_ERR_INVALID,
                                      "attribute '%.60s' has no graph", attrs[a].name);
            }
            BASE_TRY(read_graph(onnx, attribute->g, scope, &attrs[a].u.graph));
        }
    }
    node->attrs = attrs;
    return BASE_OK;
}

static enum base_status read_inputs_of(struct scope *scope, const Onnx__NodeProto *message,
                                       struct eng_node *node)
{
    base_assert(node->input_count == message->n_input);
    uint32_t *inputs = base_arena_alloc(scope->onnx->arena, message->n_input * sizeof(*inputs));
    if (inputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    node->inputs = inputs;
    for (size_t i = 0; i < message->n_input; i++) {
        inputs[i] = ENG_NONE;
        if (message->input[i][0] == '\0') {
            continue;
        }
        enum base_status status = resolve(scope, message->input[i], &inputs[i]);
        if (status == BASE_ERR_NOT_FOUND) {
            return eng_node_error(node, scope->onnx->error, BASE_ERR_INVALID,
                                  "its input '%.60s' is no output, input or initializer",
                                  message->input[i]);
        }
        BASE_TRY(status);
    }
    return BASE_OK;
}

// What a Constant node holds; false when it holds something only its operator could explain.
static bool constant_content(const struct eng_node *node, struct eng_array *out)
{
    if (node->domain[0] != '\0' || strcmp(node->op, "Constant") != 0 || node->attr_count != 1 ||
        node->output_count != 1 || node->outputs[0] == ENG_NONE || node->input_count != 0) {
        return false;
    }
    const struct eng_attr *attr = &node->attrs[0];
    if (strncmp(attr->name, "value", 5) != 0) {
        return false;
    }
    *out = (struct eng_array){0};
    out->data = (void *)(uintptr_t)&attr->u;
    switch (attr->kind) {
    case ENG_ATTR_TENSOR:
        *out = attr->u.tensor;
        return true;
    case ENG_ATTR_INT:
        out->desc.dtype = ENG_I64;
        return true;
    case ENG_ATTR_FLOAT:
        out->desc.dtype = ENG_F32;
        return true;
    case ENG_ATTR_STRING:
        out->desc.dtype = ENG_STRING;
        return true;
    case ENG_ATTR_INTS:
    case ENG_ATTR_FLOATS:
    case ENG_ATTR_STRINGS:
        out->desc.dtype = attr->kind == ENG_ATTR_INTS     ? ENG_I64
                          : attr->kind == ENG_ATTR_FLOATS ? ENG_F32
                                                          : ENG_STRING;
        out->desc.rank = 1;
        out->desc.dims[0] = attr->count;
        out->data = (void *)(uintptr_t)attr->u.ints;
        return true;
    default:
        base_assert(attr->kind == ENG_ATTR_GRAPH || attr->kind == ENG_ATTR_OTHER);
        return false;
    }
}

static enum base_status read_nodes(struct scope *scope)
{
    const Onnx__GraphProto *m = scope->message;
    struct eng_graph *graph = scope->graph;
    if (m->n_node > ENG_NODES_MAX) {
        return fail(scope, BASE_ERR_TOO_LARGE, "too many nodes in", graph->name);
    }
    graph->nodes = base_arena_alloc(scope->onnx->arena, m->n_node * sizeof(*graph->nodes));
    if (graph->nodes == NULL) {
        return BASE_ERR_NOMEM;
    }
    // All names first: subgraphs and unsorted files read values that are defined further down.
    for (size_t n = 0; n < m->n_node; n++) {
        BASE_TRY(eng_look(scope->onnx->look, scope->onnx->error));
        BASE_TRY(begin_node(scope, m->node[n], &graph->nodes[n]));
        BASE_TRY(read_outputs_of(scope, m->node[n], &graph->nodes[n]));
    }
    for (size_t n = 0; n < m->n_node; n++) {
        struct eng_node *node = &graph->nodes[n];
        BASE_TRY(eng_look(scope->onnx->look, scope->onnx->error));
        BASE_TRY(read_attrs(scope, m->node[n], node));
        BASE_TRY(read_inputs_of(scope, m->node[n], node));
        struct eng_array content;
        if (constant_content(node, &content)) {
            set_initializer(&scope->values[node->outputs[0]], &content);
        } else {
            base_assert(graph->node_count <= n);
            graph->nodes[graph->node_count++] = *node;
        }
    }
    return BASE_OK;
}

static enum base_status read_outputs(struct scope *scope)
{
    const Onnx__GraphProto *m = scope->message;
    struct eng_graph *graph = scope->graph;
    graph->outputs = base_arena_alloc(scope->onnx->arena, m->n_output * sizeof(*graph->outputs));
    if (graph->outputs == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (size_t i = 0; i < m->n_output; i++) {
        const char *name = m->output[i]->name != NULL ? m->output[i]->name : "";
        uint32_t number;
        enum base_status status = resolve(scope, name, &number);
        if (status == BASE_ERR_NOT_FOUND) {
            return fail(scope, BASE_ERR_INVALID, "nothing computes the output", name);
        }
        BASE_TRY(status);
        base_assert(number < scope->value_count);
        if (!scope->values[number].is_initializer) {
            BASE_TRY(eng_onnx_type(scope->onnx, m->output[i]->type, &scope->values[number]));
        }
        graph->outputs[graph->output_count++] = number;
    }
    // Types of values in between: a help for people, nothing relies on them.
    for (size_t i = 0; i < m->n_value_info; i++) {
        uint32_t number;
        const char *name = m->value_info[i]->name != NULL ? m->value_info[i]->name : "";
        if (eng_name_map_find(&scope->names, name, &number) &&
            scope->values[number].type == ENG_VALUE_UNKNOWN) {
            BASE_TRY(eng_onnx_type(scope->onnx, m->value_info[i]->type, &scope->values[number]));
        }
    }
    return BASE_OK;
}

static enum base_status keep_arrays(struct scope *scope)
{
    struct eng_graph *graph = scope->graph;
    base_assert(graph->values == NULL && graph->captures == NULL);
    graph->values = base_arena_copy(scope->onnx->arena, scope->values,
                                    scope->value_count * sizeof(*scope->values));
    graph->captures = base_arena_copy(scope->onnx->arena, scope->captures,
                                      scope->capture_count * sizeof(*scope->captures));
    graph->value_count = scope->value_count;
    graph->capture_count = scope->capture_count;
    return graph->values == NULL || graph->captures == NULL ? BASE_ERR_NOMEM : BASE_OK;
}

static enum base_status read_graph(struct eng_onnx *onnx, const Onnx__GraphProto *message,
                                   struct scope *parent, struct eng_graph **out_graph)
{
    struct scope s = {.onnx = onnx, .parent = parent, .message = message};
    base_assert(parent == NULL || parent->depth <= ENG_GRAPH_DEPTH_MAX);
    s.depth = parent == NULL ? 0 : parent->depth + 1;
    s.graph = base_arena_zalloc(onnx->arena, sizeof(*s.graph));
    if (s.graph == NULL) {
        return BASE_ERR_NOMEM;
    }
    s.graph->name = eng_onnx_text(onnx, message->name);
    s.graph->parent = parent == NULL ? NULL : parent->graph;
    if (s.graph->name == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (s.depth > ENG_GRAPH_DEPTH_MAX) {
        return fail(&s, BASE_ERR_TOO_LARGE, "subgraphs are nested too deep, at", s.graph->name);
    }
    eng_name_map_init(&s.names, onnx->scratch);
    BASE_TRY(read_initializers(&s));
    BASE_TRY(read_inputs(&s));
    BASE_TRY(read_nodes(&s));
    BASE_TRY(read_outputs(&s));
    BASE_TRY(keep_arrays(&s));
    BASE_TRY(eng_graph_sort(s.graph, onnx->scratch, onnx->error));
    BASE_TRY(eng_graph_prune(s.graph, onnx->scratch));
    *out_graph = s.graph;
    return BASE_OK;
}

enum base_status eng_onnx_graph(struct eng_onnx *onnx, const Onnx__GraphProto *message,
                                struct eng_graph **out_graph)
{
    return read_graph(onnx, message, NULL, out_graph);
}

// Subgraphs: lowered in place (the chosen branch of an If), or called on known contents (one
// iteration of a Loop). Called by handlers of control-flow operators (ops_control.c,
// ops_sequence.c, body_kit.c), on the planning thread. A call has a lowering and a program of its
// own, run at once by the session's runner; only its results, as constants, reach the outer one.
// Nesting is bounded by ENG_GRAPH_DEPTH_MAX.
#include "lower/lower_state.h"

#include "base/check.h"

#include <inttypes.h>
#include <string.h>

static enum base_status check_depth(struct eng_lower *lower, const struct eng_node *node)
{
    if (lower->depth >= ENG_GRAPH_DEPTH_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_TOO_LARGE, "subgraphs nested over %u deep",
                              ENG_GRAPH_DEPTH_MAX);
    }
    return BASE_OK;
}

static enum base_status new_scope(struct eng_lower *lower, const struct eng_graph *graph,
                                  struct eng_scope **out)
{
    base_assert(graph != NULL);
    struct eng_scope *scope = base_arena_zalloc(lower->arena, sizeof(*scope));
    size_t bytes = (size_t)graph->value_count * sizeof(struct eng_slot);
    if (scope == NULL) {
        return BASE_ERR_NOMEM;
    }
    scope->graph = graph;
    scope->slots = base_arena_zalloc(lower->arena, bytes + 1);
    if (scope->slots == NULL) {
        return BASE_ERR_NOMEM;
    }
    *out = scope;
    return BASE_OK;
}

// Captured values and inputs of a subgraph, by the bindings around it.
static enum base_status bind_scope(struct eng_lower *lower, struct eng_scope *outer,
                                   struct eng_scope *scope, const struct eng_slot *inputs)
{
    const struct eng_graph *graph = scope->graph;
    for (uint32_t i = 0; i < graph->capture_count; i++) {
        struct eng_slot *slot;
        BASE_TRY(eng_lower_find(lower, outer, graph->captures[i].outer, &slot));
        if (slot != NULL) {
            BASE_TRY(eng_lower_set(lower, scope, graph->captures[i].inner, slot));
        }
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (inputs[i].type != ENG_VALUE_UNKNOWN) {
            BASE_TRY(eng_lower_set(lower, scope, graph->inputs[i], &inputs[i]));
        }
    }
    return BASE_OK;
}

// Lowers every node of the current scope and reads its outputs.
static enum base_status lower_scope(struct eng_lower *lower, const struct eng_node *node,
                                    struct eng_slot *outputs)
{
    const struct eng_graph *graph = lower->scope->graph;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        BASE_TRY(eng_lower_node(lower, &graph->nodes[i]));
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        struct eng_slot *slot;
        BASE_TRY(eng_lower_find(lower, lower->scope, graph->outputs[i], &slot));
        if (slot == NULL) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "output %" PRIu32 " of its subgraph is computed by no node", i);
        }
        outputs[i] = *slot;
    }
    return BASE_OK;
}

enum base_status eng_lower_inline(struct eng_lower *lower, const struct eng_node *node,
                                  const struct eng_graph *graph, const struct eng_slot *inputs,
                                  struct eng_slot *outputs)
{
    base_assert(graph != NULL);
    BASE_TRY(check_depth(lower, node));
    struct eng_scope *outer = lower->scope;
    struct eng_scope *scope;
    BASE_TRY(new_scope(lower, graph, &scope));
    BASE_TRY(bind_scope(lower, outer, scope, inputs));
    lower->scope = scope;
    lower->depth++;
    enum base_status status = lower_scope(lower, node, outputs);
    lower->depth--;
    base_assert(lower->scope == scope);
    lower->scope = outer;
    return status;
}

// --- calls

// A tensor of `from` as a constant of `to`. BUSY: not known.
static enum base_status carry_tensor(struct eng_lower *from, struct eng_lower *to, bool copy,
                                     uint32_t tensor, uint32_t *out)
{
    base_assert(from != to);
    struct eng_array array;
    BASE_TRY(eng_lower_content(from, tensor, &array));
    if (copy) {
        return eng_lower_const(to, &array.desc, array.data, out);
    }
    return eng_lower_known(to, &array.desc, array.data, tensor_of(from, tensor)->identity, out);
}

static enum base_status carry_slot(struct eng_lower *from, struct eng_lower *to, bool copy,
                                   const struct eng_slot *slot, struct eng_slot *out)
{
    *out = *slot;
    if (slot->type == ENG_VALUE_TENSOR) {
        return carry_tensor(from, to, copy, slot->tensor, &out->tensor);
    }
    if (slot->type == ENG_VALUE_SEQUENCE && slot->item_count > 0) {
        uint32_t *items = base_arena_alloc(to->arena, slot->item_count * sizeof(uint32_t));
        if (items == NULL) {
            return BASE_ERR_NOMEM;
        }
        for (uint32_t i = 0; i < slot->item_count; i++) {
            BASE_TRY(carry_tensor(from, to, copy, slot->items[i], &items[i]));
        }
        out->items = items;
    }
    return BASE_OK;
}

// Inputs and captures of the body become constants of its own lowering.
static enum base_status bind_call(struct eng_lower *lower, struct eng_lower *body,
                                  const struct eng_slot *inputs)
{
    base_assert(body != lower);
    const struct eng_graph *graph = body->root.graph;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        struct eng_slot slot;
        if (inputs[i].type != ENG_VALUE_UNKNOWN) {
            BASE_TRY(carry_slot(lower, body, false, &inputs[i], &slot));
            BASE_TRY(eng_lower_set(body, &body->root, graph->inputs[i], &slot));
        }
    }
    for (uint32_t i = 0; i < graph->capture_count; i++) {
        struct eng_slot *outer;
        struct eng_slot slot;
        BASE_TRY(eng_lower_find(lower, lower->scope, graph->captures[i].outer, &outer));
        if (outer != NULL) {
            BASE_TRY(carry_slot(lower, body, false, outer, &slot));
            BASE_TRY(eng_lower_set(body, &body->root, graph->captures[i].inner, &slot));
        }
    }
    return BASE_OK;
}

// One run for all tensors among the outputs that need one.
static enum base_status run_outputs(struct eng_lower *body, struct eng_slot *outputs)
{
    base_assert(body->closed);
    uint32_t count = body->root.graph->output_count;
    uint32_t *tensors = base_arena_alloc(body->arena, ((size_t)count + 1) * sizeof(uint32_t));
    struct eng_array *arrays =
        base_arena_alloc(body->arena, ((size_t)count + 1) * sizeof(struct eng_array));
    if (tensors == NULL || arrays == NULL) {
        return BASE_ERR_NOMEM;
    }
    uint32_t run = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (outputs[i].type == ENG_VALUE_TENSOR) {
            BASE_TRY(eng_lower_as(body, outputs[i].tensor, ENG_PLAIN, false, &outputs[i].tensor));
            if (body->notes[outputs[i].tensor].content == NULL) {
                tensors[run++] = outputs[i].tensor;
            }
        }
    }
    if (run > 0) {
        BASE_TRY(eng_lower_evaluate(body, tensors, run, arrays));
    }
    for (uint32_t i = 0; i < run; i++) {
        body->notes[tensors[i]].content = arrays[i].data;
    }
    return BASE_OK;
}

// The lowering of a called subgraph, with a program of its own, in the call's arena.
static enum base_status new_body(struct eng_lower *lower, struct base_arena *arena,
                                 const struct eng_graph *graph, struct eng_lower **out)
{
    struct eng_program *program = base_arena_zalloc(arena, sizeof(*program));
    struct eng_lower_options *options = base_arena_copy(arena, lower->options, sizeof(*options));
    if (program == NULL || options == NULL) {
        return BASE_ERR_NOMEM;
    }
    eng_program_init(program, arena);
    options->params = false;
    options->keep_values = false;
    struct eng_lower *body = eng_lower_new(arena, program, graph, options, lower->error);
    if (body == NULL) {
        return BASE_ERR_NOMEM;
    }
    body->closed = true;
    body->depth = lower->depth + 1;
    body->node_index = 0;
    base_assert(body->depth <= ENG_GRAPH_DEPTH_MAX);
    *out = body;
    return BASE_OK;
}

static enum base_status run_body(struct eng_lower *lower, const struct eng_node *node,
                                 struct eng_lower *body, const struct eng_slot *inputs,
                                 struct eng_slot *outputs)
{
    uint32_t count = body->root.graph->output_count;
    struct eng_slot *results =
        base_arena_alloc(body->arena, ((size_t)count + 1) * sizeof(struct eng_slot));
    if (results == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(bind_call(lower, body, inputs));
    enum base_status status = lower_scope(body, node, results);
    if (status == BASE_ERR_BUSY) {
        return eng_lower_fail(lower, node, BASE_ERR_BUG, "a call waits for contents");
    }
    BASE_TRY(status);
    BASE_TRY(run_outputs(body, results));
    for (uint32_t i = 0; i < count; i++) {
        BASE_TRY(carry_slot(body, lower, true, &results[i], &outputs[i]));
    }
    return BASE_OK;
}

enum base_status eng_lower_call(struct eng_lower *lower, const struct eng_node *node,
                                const struct eng_graph *graph, const struct eng_slot *inputs,
                                struct eng_slot *outputs)
{
    base_assert(graph != NULL);
    BASE_TRY(check_depth(lower, node));
    struct base_arena arena;
    struct eng_lower *body;
    base_arena_init(&arena, lower->arena->alloc, 0, 0);
    enum base_status status = new_body(lower, &arena, graph, &body);
    if (status == BASE_OK) {
        status = run_body(lower, node, body, inputs, outputs);
    }
    base_arena_done(&arena);
    return status;
}

// The values that a session is asked for beside the model's outputs: found by their names when the
// session is made, and from then on read as the last of its outputs.
//
// That a value is asked for is a use of it after the last node (session.c), as an output is: what a
// segment computes and somebody uses later lasts, and no fusion takes it away. Called by session.c
// and session_io.c on the session's thread.
#include "session/segment.h"

#include "base/check.h"
#include "base/text/likeness.h"

#include <string.h>

#define NAMES_COMPARED_MAX 20000u // of the graph, for a name that nobody knows
#define NEAR_MAX           2u     // that an error names

uint32_t eng_session_output_value(const struct eng_session *session, size_t index)
{
    const struct eng_graph *graph = session->model->graph;
    if (index < graph->output_count) {
        return graph->outputs[index];
    }
    index -= graph->output_count;
    base_assert(session->asked_count == 0 || session->asked != NULL);
    return index < session->asked_count ? session->asked[index] : ENG_NONE;
}

static const struct eng_live *planned(const struct eng_session *session, uint32_t value)
{
    const struct eng_live *found = &session->live[value];
    for (uint32_t s = 0; s < session->segment_count; s++) {
        const struct eng_segment *segment = session->segments[s];
        for (uint32_t r = 0; r < segment->result_count; r++) {
            found = segment->results[r].value == value ? &segment->results[r].live : found;
        }
    }
    return found;
}

enum base_status eng_session_output_desc(const struct eng_session *session, size_t index,
                                         struct eng_desc *out_desc, struct base_error *error)
{
    const uint32_t value = eng_session_output_value(session, index);
    if (value == ENG_NONE) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "there is no output %zu", index);
    }
    const struct eng_live *live = planned(session, value);
    base_assert(live->type != ENG_VALUE_TENSOR || live->count == 1);
    if (live->type != ENG_VALUE_TENSOR) {
        return base_error_set(
            error, live->type == ENG_VALUE_UNKNOWN ? BASE_ERR_CONFLICT : BASE_ERR_UNSUPPORTED,
            "output '%.60s' is not planned, or no tensor",
            session->model->graph->values[value].name);
    }
    *out_desc = live->items[0].desc;
    return BASE_OK;
}

static uint32_t value_of(const struct eng_graph *graph, const char *name)
{
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (strcmp(graph->values[v].name, name) == 0) {
            return v;
        }
    }
    return ENG_NONE;
}

// The node whose subgraph, on the first level, has a value of this name; NULL: there is none.
static const struct eng_node *holder_of(const struct eng_graph *graph, const char *name)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct eng_node *node = &graph->nodes[n];
        for (uint32_t a = 0; a < node->attr_count; a++) {
            if (node->attrs[a].kind == ENG_ATTR_GRAPH &&
                value_of(node->attrs[a].u.graph, name) != ENG_NONE) {
                return node;
            }
        }
    }
    return NULL;
}

static bool is_there(const struct eng_graph *graph, uint32_t value)
{
    const struct eng_value *v = &graph->values[value];
    bool found = v->is_initializer || v->producer != ENG_NONE;
    for (uint32_t i = 0; !found && i < graph->input_count; i++) {
        found = graph->inputs[i] == value;
    }
    return found;
}

// The nearest of the names that can be asked for but `besides`; NULL: none is near.
static const char *nearest(const struct eng_graph *graph, const char *name, const char *besides)
{
    struct base_nearest near = base_nearest_to(base_str_of(name));
    const uint32_t count =
        graph->value_count < NAMES_COMPARED_MAX ? graph->value_count : NAMES_COMPARED_MAX;
    for (uint32_t v = 0; v < count; v++) {
        const struct eng_value *value = &graph->values[v];
        if (value->name != besides && (value->is_folded || is_there(graph, v))) {
            base_nearest_offer(&near, graph->values[v].name);
        }
    }
    return near.found;
}

static enum base_status unknown(const struct eng_graph *graph, const char *name,
                                struct base_error *error)
{
    const struct eng_node *holder = holder_of(graph, name);
    if (holder != NULL) {
        return eng_node_error(holder, error, BASE_ERR_UNSUPPORTED,
                              "value '%.40s' is inside of its subgraph, of which none is given",
                              name);
    }
    const char *near[NEAR_MAX] = {nearest(graph, name, NULL)};
    near[1] = near[0] != NULL ? nearest(graph, name, near[0]) : NULL;
    base_assert(near[0] != NULL || near[1] == NULL);
    return base_error_set(error, BASE_ERR_NOT_FOUND,
                          "the graph has no value '%.40s'%s%.40s%s%.40s%s", name,
                          near[0] != NULL ? "; near is '" : "", near[0] != NULL ? near[0] : "",
                          near[1] != NULL ? "', then '" : "", near[1] != NULL ? near[1] : "",
                          near[0] != NULL ? "'" : "");
}

static enum base_status find(const struct eng_graph *graph, const char *name, uint32_t *out,
                             struct base_error *error)
{
    const uint32_t value = value_of(graph, name);
    if (value == ENG_NONE) {
        return unknown(graph, name, error);
    }
    if (!is_there(graph, value)) {
        bool folded = graph->values[value].is_folded;
        return base_error_set(error, folded ? BASE_ERR_CONFLICT : BASE_ERR_UNSUPPORTED,
                              folded ? "value '%.60s' was folded away with a BatchNormalization"
                                     : "value '%.60s' is computed for none of the model's outputs",
                              name);
    }
    *out = value;
    return BASE_OK;
}

enum base_status eng_session_ask(struct eng_session *session,
                                 const struct eng_session_options *options,
                                 struct base_error *error)
{
    base_assert(session->asked == NULL); // once, while the session is made
    if (options->value_count > ENG_ASKED_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "more than %u values are asked for",
                              ENG_ASKED_MAX);
    }
    session->asked =
        base_arena_zalloc(&session->arena, ((size_t)options->value_count + 1) * sizeof(uint32_t));
    if (session->asked == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < options->value_count; i++) {
        BASE_TRY(find(session->model->graph, options->values[i], &session->asked[i], error));
    }
    session->asked_count = options->value_count;
    return BASE_OK;
}

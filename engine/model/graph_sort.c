// Sorting and pruning of graphs. Called by onnx_graph.c for each graph, innermost first, and by
// fold_bn.c after it rewired nodes; on the loading thread. Files need not be sorted, though ONNX
// asks for it: an order is made here, kept where it was good, and a cycle is refused with a node
// that is on it. A node reads what its subgraphs capture, too. Linear in nodes and their inputs; no
// recursion.
#include "model/graph_sort.h"

#include "base/check.h"

#include <string.h>

typedef void (*visit_fn)(void *ctx, uint32_t value);

// Calls visit for every value a node reads, its subgraphs' captures included.
static void visit_inputs(const struct eng_node *node, visit_fn visit, void *ctx)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] != ENG_NONE) {
            visit(ctx, node->inputs[i]);
        }
    }
    for (uint32_t a = 0; a < node->attr_count; a++) {
        if (node->attrs[a].kind != ENG_ATTR_GRAPH || node->attrs[a].u.graph == NULL) {
            continue;
        }
        const struct eng_graph *inner = node->attrs[a].u.graph;
        for (uint32_t c = 0; c < inner->capture_count; c++) {
            visit(ctx, inner->captures[c].outer);
        }
    }
}

struct sort {
    const struct eng_graph *graph;
    uint32_t node;     // being looked at
    uint32_t *pending; // by node: inputs whose producers are not placed yet
    uint32_t *first;   // by node: its consumers are consumers[first[node]..first[node + 1])
    uint32_t *consumers;
    bool in_order;
};

static void count_input(void *ctx, uint32_t value)
{
    struct sort *s = ctx;
    base_assert(value < s->graph->value_count);
    uint32_t producer = s->graph->values[value].producer;
    base_assert(producer == ENG_NONE || producer < s->graph->node_count);
    if (producer != ENG_NONE) {
        s->pending[s->node]++;
        s->first[producer + 1]++;
        s->in_order = s->in_order && producer < s->node;
    }
}

static void note_consumer(void *ctx, uint32_t value)
{
    struct sort *s = ctx;
    uint32_t producer = s->graph->values[value].producer;
    if (producer != ENG_NONE) {
        s->consumers[s->first[producer]++] = s->node;
    }
}

struct walk_back {
    const struct sort *s;
    uint32_t found;
};

static void find_pending(void *ctx, uint32_t value)
{
    struct walk_back *w = ctx;
    uint32_t producer = w->s->graph->values[value].producer;
    if (producer != ENG_NONE && w->s->pending[producer] > 0) {
        w->found = producer;
    }
}

// From any node that was not placed, going back along producers that were not placed either must
// come to a node on a cycle after at most node_count steps.
static enum base_status report_cycle(const struct sort *sort, struct base_error *error)
{
    struct walk_back w = {sort, 0};
    while (sort->pending[w.found] == 0) {
        w.found++;
        base_assert(w.found < sort->graph->node_count); // not all nodes were placed
    }
    for (uint32_t i = 0; i < sort->graph->node_count; i++) {
        visit_inputs(&sort->graph->nodes[w.found], find_pending, &w);
    }
    return eng_node_error(&sort->graph->nodes[w.found], error, BASE_ERR_INVALID,
                          "its input depends on its own output (a cycle)");
}

static void renumber(struct eng_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        struct eng_node *node = &graph->nodes[n];
        node->index = n;
        for (uint32_t o = 0; o < node->output_count; o++) {
            if (node->outputs[o] != ENG_NONE) {
                base_assert(node->outputs[o] < graph->value_count);
                graph->values[node->outputs[o]].producer = n;
            }
        }
    }
}

static enum base_status place(struct eng_graph *graph, struct sort *sort,
                              struct base_arena *scratch, struct base_error *error)
{
    uint32_t count = graph->node_count;
    for (uint32_t n = 0; n < count; n++) {
        sort->first[n + 1] += sort->first[n];
    }
    sort->consumers =
        base_arena_alloc(scratch, ((size_t)sort->first[count] + 1) * sizeof(uint32_t));
    uint32_t *order = base_arena_alloc(scratch, ((size_t)count + 1) * sizeof(*order));
    struct eng_node *sorted = base_arena_alloc(scratch, (size_t)count * sizeof(*sorted));
    if (sort->consumers == NULL || order == NULL || sorted == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (sort->node = 0; sort->node < count; sort->node++) {
        visit_inputs(&graph->nodes[sort->node], note_consumer, sort);
    }
    uint32_t ready = 0;
    for (uint32_t n = 0; n < count; n++) {
        if (sort->pending[n] == 0) {
            order[ready++] = n;
        }
    }
    // note_consumer moved first[n] to where the consumers of n + 1 begin.
    for (uint32_t at = 0; at < ready; at++) {
        uint32_t begin = order[at] == 0 ? 0 : sort->first[order[at] - 1];
        for (uint32_t c = begin; c < sort->first[order[at]]; c++) {
            if (--sort->pending[sort->consumers[c]] == 0) {
                order[ready++] = sort->consumers[c];
            }
        }
    }
    base_assert(ready <= count); // each node became ready once
    if (ready != count) {
        return report_cycle(sort, error);
    }
    for (uint32_t n = 0; n < count; n++) {
        sorted[n] = graph->nodes[order[n]];
    }
    memcpy(graph->nodes, sorted, (size_t)count * sizeof(*sorted));
    renumber(graph);
    return BASE_OK;
}

enum base_status eng_graph_sort(struct eng_graph *graph, struct base_arena *scratch,
                                struct base_error *error)
{
    if (graph->node_count == 0) {
        return BASE_OK;
    }
    size_t numbers = ((size_t)graph->node_count + 1) * sizeof(uint32_t);
    struct sort s = {.graph = graph, .in_order = true};
    s.pending = base_arena_zalloc(scratch, numbers);
    s.first = base_arena_zalloc(scratch, numbers);
    if (s.pending == NULL || s.first == NULL) {
        return BASE_ERR_NOMEM;
    }
    renumber(graph);
    for (s.node = 0; s.node < graph->node_count; s.node++) {
        visit_inputs(&graph->nodes[s.node], count_input, &s);
    }
    return s.in_order ? BASE_OK : place(graph, &s, scratch, error);
}

static void mark(void *ctx, uint32_t value)
{
    ((uint8_t *)ctx)[value] = 1;
}

enum base_status eng_graph_prune(struct eng_graph *graph, struct base_arena *scratch)
{
    uint8_t *needed = base_arena_zalloc(scratch, (size_t)graph->value_count + 1);
    if (needed == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        base_assert(graph->outputs[i] < graph->value_count);
        needed[graph->outputs[i]] = 1;
    }
    for (uint32_t n = graph->node_count; n > 0; n--) {
        const struct eng_node *node = &graph->nodes[n - 1];
        bool live = false;
        for (uint32_t o = 0; o < node->output_count; o++) {
            live = live || (node->outputs[o] != ENG_NONE && needed[node->outputs[o]] != 0);
        }
        if (live) {
            visit_inputs(node, mark, needed);
        }
    }
    uint32_t kept = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct eng_node *node = &graph->nodes[n];
        bool live = false;
        for (uint32_t o = 0; o < node->output_count; o++) {
            live = live || (node->outputs[o] != ENG_NONE && needed[node->outputs[o]] != 0);
        }
        for (uint32_t o = 0; !live && o < node->output_count; o++) {
            if (node->outputs[o] != ENG_NONE) {
                graph->values[node->outputs[o]].producer = ENG_NONE;
            }
        }
        if (live) {
            graph->nodes[kept++] = *node;
        }
    }
    graph->node_count = kept;
    renumber(graph);
    return BASE_OK;
}

// Order of a graph's nodes: topological, cycles refused, nodes nobody needs dropped.
#ifndef ENG_MODEL_GRAPH_SORT_H
#define ENG_MODEL_GRAPH_SORT_H

#include "model/graph.h"

// Brings nodes into an order in which producers come first; an order that is right already stays
// as it is. Sets node->index and value->producer. Values a node's subgraphs capture count as its
// inputs. INVALID: a cycle; the text names a node on it. NOMEM.
BASE_NODISCARD enum base_status eng_graph_sort(struct eng_graph *graph, struct base_arena *scratch,
                                               struct base_error *error);
// Drops nodes that no output of the graph depends on. The nodes are sorted. NOMEM.
BASE_NODISCARD enum base_status eng_graph_prune(struct eng_graph *graph,
                                                struct base_arena *scratch);

#endif

// Names a model by its structure, for caches of measured choices.
#ifndef ENG_MODEL_MODEL_KEY_H
#define ENG_MODEL_MODEL_KEY_H

#include "model/graph.h"

// Hash of operators, attributes, connections, types and shapes, and of small constants (which often
// are shapes). Large weights do not count: they do not change which kernel is the fastest.
uint64_t eng_graph_key(const struct eng_graph *graph);

#endif

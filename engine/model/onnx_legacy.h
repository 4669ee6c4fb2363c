// Operators of opsets 1 to 6 that mean the same as in opset 7.
#ifndef ENG_MODEL_ONNX_LEGACY_H
#define ENG_MODEL_ONNX_LEGACY_H

#include "model/graph.h"

// Whether a node of the ONNX domain, imported at an opset below ENG_OPSET_FULL, means there what it
// means at ENG_OPSET_FULL, or differs only in what its handler knows of (`axis` of the arithmetic
// operators, one slope a channel).
bool eng_legacy_accepts(const struct eng_node *node);

#endif

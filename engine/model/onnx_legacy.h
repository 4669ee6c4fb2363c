// Operators of opsets 1 to 6 that mean the same as in opset 7.
#ifndef ENG_MODEL_ONNX_LEGACY_H
#define ENG_MODEL_ONNX_LEGACY_H

#include "model/graph.h"

#define ENG_OPSET_READ_MIN 1 // below ENG_OPSET_MIN only what eng_legacy_upgrade accepts

// Whether a node of the ONNX domain, imported at an opset below ENG_OPSET_MIN, means the same at
// ENG_OPSET_MIN; its opset becomes that then.
bool eng_legacy_upgrade(struct eng_node *node);

#endif

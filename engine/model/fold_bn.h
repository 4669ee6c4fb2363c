// BatchNormalization folded into the convolution or product before it, once per model.
#ifndef ENG_MODEL_FOLD_BN_H
#define ENG_MODEL_FOLD_BN_H

#include "model/look.h"
#include "model/graph.h"

// Rewrites the main graph: Conv, ConvTranspose or Gemm with constant float32 weights whose only
// reader is a BatchNormalization in inference form with constant parameters becomes that node with
// new weights and bias in the model's arena. Weights are never changed in place: others may use
// them. Everything else is left as it is; values that go are marked. NOMEM; what `look`, asked at
// each node, says.
BASE_NODISCARD enum base_status eng_model_fold_bn(struct eng_model *model,
                                                  const struct eng_look *look, uint32_t *out_folded,
                                                  struct base_error *error);

#endif

// The `classification` parameter of a wish: labels by their place in place of the numbers.
#ifndef GW_INFER_CLASSES_H
#define GW_INFER_CLASSES_H

#include "base/arena.h"
#include "base/error.h"
#include "infer/infer_call.h"

// Puts the `classes` best of the tensor's last dimension in its place, as texts "value:index" in
// the arena. INVALID: a scalar, or nothing that can be ordered; NOMEM.
BASE_NODISCARD enum base_status gw_infer_classify(struct base_arena *arena, uint32_t classes,
                                                  struct gw_infer_tensor *tensor,
                                                  struct base_error *error);

#endif

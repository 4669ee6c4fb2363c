// InferTensorContents: typed elements of one tensor.
#ifndef GW_OIP_PROTO_CONTENTS_H
#define GW_OIP_PROTO_CONTENTS_H

#include "base/arena.h"
#include "base/error.h"
#include "infer/infer_call.h"

// Reads the elements of a tensor whose name and desc are filled from its `contents`, of which a
// message may hold several, one behind the other (their lists are joined). INVALID: another number
// or type of elements, or a value that does not fit; TOO_LARGE; NOMEM.
BASE_NODISCARD enum base_status gw_oip_proto_contents(struct base_arena *arena,
                                                      struct base_str message,
                                                      struct gw_infer_tensor *tensor,
                                                      struct base_error *error);
// Bytes that the elements of such an input take when they are read; 0: none, or it is malformed.
size_t gw_oip_proto_contents_room(struct base_str input);

#endif

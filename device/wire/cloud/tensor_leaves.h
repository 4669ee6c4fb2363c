// May a call of a model in the cloud leave the device, by what the version declares
// (wire/leaves/leaves_check.h)? Pure, about 7 KB of stack.
#ifndef WIRE_TENSOR_LEAVES_H
#define WIRE_TENSOR_LEAVES_H

#include "base/error.h"
#include "wire/cloud/tensor_call.h"

// `declaration` as in the version's manifest; empty: none. The codes of wire_leaves_call_check.
BASE_NODISCARD enum base_status wire_tensor_may_leave(struct base_str declaration,
                                                      struct base_str model,
                                                      const struct wire_tensor_call *call,
                                                      struct base_error *error);

#endif

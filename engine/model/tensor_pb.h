// Tensors as protobuf messages: TensorProto, SequenceProto, OptionalProto (onnx-data.proto).
#ifndef ENG_MODEL_TENSOR_PB_H
#define ENG_MODEL_TENSOR_PB_H

#include "base/buffer.h"
#include "base/span.h"
#include "model/tensor_file.h"

// `expected` says which message it is. Elements are copied into the arena.
BASE_NODISCARD enum base_status eng_pb_read(struct base_span message, enum eng_value_type expected,
                                            struct base_arena *arena,
                                            struct eng_tensor_list *out_list,
                                            struct base_error *error);
// Appends the message that list->kind calls for. INVALID: the count does not fit the kind.
BASE_NODISCARD enum base_status
eng_pb_write(struct base_buffer *out, const struct eng_tensor_list *list, struct base_error *error);

#endif

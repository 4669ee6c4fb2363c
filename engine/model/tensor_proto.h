// One TensorProto of an ONNX file: its header, and its elements in whatever form the file chose.
//
// Elements that lie in the file as the engine wants them (raw or packed floats, aligned to the
// element) are pointed at; all others are decoded or copied into an arena, once. Element counts are
// checked against the bytes that are there before memory is asked for.
#ifndef ENG_MODEL_TENSOR_PROTO_H
#define ENG_MODEL_TENSOR_PROTO_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/tensor.h"

struct eng_mappings;

struct eng_tensor_proto {
    struct base_str name; // borrowed from the message, at most ENG_NAME_BYTES_MAX bytes
    struct eng_desc desc; // checked
    int64_t count;
    const uint8_t *bytes; // the message
    size_t size;
    const uint8_t *raw; // raw_data; NULL: none
    size_t raw_size;
    bool is_external;
    struct base_str location; // external data
    uint64_t offset, length;
    bool has_length;
};

// Parses everything but the elements. INVALID, TRUNCATED, OVERFLOW, UNSUPPORTED (element type,
// rank over ENG_RANK_MAX, segments).
BASE_NODISCARD enum base_status eng_tensor_proto_parse(const uint8_t *bytes, size_t size,
                                                       struct eng_tensor_proto *out,
                                                       struct base_error *error);
struct eng_tensor_source {
    struct base_arena *arena;
    struct eng_mappings *mappings; // for external data; NULL: there is none
    bool copy;                     // the message goes away: point at nothing in it
    bool loose;                    // large float tensors may lie at any address
};
// The elements. INVALID: too few or too many of them; also what eng_mappings_external returns.
// NOMEM.
BASE_NODISCARD enum base_status eng_tensor_proto_data(const struct eng_tensor_proto *proto,
                                                      const struct eng_tensor_source *source,
                                                      struct eng_array *out_array,
                                                      struct base_error *error);

#endif

// One call of the inference service and its result, as the Open Inference Protocol (v2) has them,
// whichever form they came in: JSON, JSON with binary tensors, or protobuf over gRPC. The codecs
// make calls and write results; the service runs them. Nothing here does I/O or knows HTTP.
//
// Lifetimes: exchange > call and result. All strings and bytes are borrowed: from the request's
// body, or from the arena that the codec was given.
#ifndef GW_INFER_CALL_H
#define GW_INFER_CALL_H

#include "base/str.h"
#include "engine/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_INFER_TENSORS_MAX      64u   // inputs or outputs of a call
#define GW_INFER_NAME_BYTES_MAX   1024u // of a model, a version, a tensor
#define GW_INFER_ID_BYTES_MAX     256u  // of a call
#define GW_INFER_CLASSES_MAX      1000u // of the `classification` parameter
#define GW_INFER_PRIORITIES       4u    // 0 goes first
#define GW_INFER_PRIORITY_USUAL   1u
#define GW_INFER_TIMEOUT_US_MAX   600000000u // ten minutes
#define GW_INFER_TENSOR_BYTES_MAX ((size_t)256 << 20)

// Dense row-major elements, in the byte order of this machine. Of ENG_STRING (the protocol's BYTES)
// the elements are struct eng_string, whose texts are borrowed as well.
struct gw_infer_tensor {
    struct base_str name;
    struct eng_desc desc; // all dimensions known
    const void *data;     // aligned to its element
    size_t bytes;         // eng_desc_bytes(&desc)
    bool binary;          // in a JSON result: written behind the JSON (the binary extension)
};

// An output that the caller asks for.
struct gw_infer_wish {
    struct base_str name;
    bool binary;
    uint32_t classes; // the best so many as "value:index" texts; 0: the tensor itself
};

struct gw_infer_call {
    struct base_str model;   // of the path or of the message
    struct base_str version; // empty: the service chooses
    struct base_str id;      // given back; empty: none
    uint32_t priority;       // below GW_INFER_PRIORITIES
    uint64_t timeout_us;     // from its arrival; 0: none
    struct gw_infer_tensor *inputs;
    size_t input_count;
    struct gw_infer_wish *wishes; // none: all outputs
    size_t wish_count;
    bool binary_all; // outputs that no wish names are written binary
};

struct gw_infer_result {
    struct base_str model;
    struct base_str version; // which ran it
    struct base_str id;
    struct gw_infer_tensor *outputs; // in the order of the wishes, else of the model
    size_t output_count;
};

#endif

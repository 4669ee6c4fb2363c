// First pass over an ONNX file: walks the wire format, bounds everything, and writes a skeleton
// that protobuf-c can unpack without ever seeing the weights.
//
// The skeleton is a ModelProto with the fields the engine reads and no others (no documentation
// texts, no unknown fields). Each TensorProto in it is replaced by one whose raw_data is four
// bytes, the little-endian index of the tensor in the scan's table, which says where the message
// lies in the file. So weights are neither read nor copied here.
//
// Bounds: ENG_SCAN_DEPTH_MAX nested messages, ENG_SCAN_NODES_MAX nodes over all graphs,
// ENG_SKELETON_BYTES_MAX. A message field that may occur once but occurs twice is refused (the
// format would merge the two).
#ifndef ENG_MODEL_ONNX_SCAN_H
#define ENG_MODEL_ONNX_SCAN_H

#include "base/buffer.h"
#include "model/look.h"

#define ENG_SCAN_DEPTH_MAX     64u
#define ENG_SCAN_NODES_MAX     1000000u
#define ENG_SCAN_TENSORS_MAX   4000000u
#define ENG_SKELETON_BYTES_MAX ((size_t)128 << 20)

struct eng_scan_tensor {
    const uint8_t *at; // TensorProto in the file
    size_t size;
};

struct eng_scan {
    struct base_buffer skeleton;
    struct base_buffer tensors; // struct eng_scan_tensor
    uint32_t tensor_count;
    uint32_t node_count;
};

// What is scanned.
struct eng_scan_source {
    const void *bytes;
    size_t size;
    const struct eng_look *look; // asked at each node and tensor; NULL: nobody
};

// Scans a whole ModelProto. Release with eng_scan_done in any case.
// INVALID, TRUNCATED: not the wire format of a model. TOO_LARGE: over a limit. UNSUPPORTED: sparse
// initializers. NOMEM. What `look` says.
BASE_NODISCARD enum base_status eng_scan_model(struct eng_scan *scan,
                                               const struct base_alloc_port *alloc,
                                               const struct eng_scan_source *source,
                                               struct base_error *error);
void eng_scan_done(struct eng_scan *scan); // accepts a zeroed scan
// Tensor by its index in the skeleton's raw_data; NULL past the end.
const struct eng_scan_tensor *eng_scan_tensor(const struct eng_scan *scan, uint32_t index);

#endif

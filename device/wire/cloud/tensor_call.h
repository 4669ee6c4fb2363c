// A call of a model in the cloud, as a device asks for it and as the gateway answers it
// (POST /v2/models/M/infer with this content type): names, shapes and the elements as they lie. The
// same bytes go from a task's process to its agent and from there to the gateway.
//
//   call   := u8 version (1), u8 priority, u32 deadline_ms, u8 count, count x tensor
//   answer := u8 version (1), text version of the model, u8 count, count x tensor
//   tensor := text name, u8 dtype, u8 rank, rank x varint dimension, elements
//   text   := u8 size, bytes
//
// Numbers are little-endian; elements are dense, row-major and not aligned. A dtype is ONNX's
// TensorProto.DataType, of numbers alone. A call of the second type is one zstd frame of that.
// Pure; both sides take what the other sent for an attacker's.
#ifndef WIRE_TENSOR_CALL_H
#define WIRE_TENSOR_CALL_H

#include "base/cursor.h"
#include "base/str.h"

#include <stdbool.h>

BASE_C_BEGIN

#define WIRE_TENSOR_TYPE        "application/x-walle-tensors"
#define WIRE_TENSOR_TYPE_PACKED "application/x-walle-tensors+zstd"
#define WIRE_TENSOR_VERSION     1
#define WIRE_TENSORS_MAX        16u            // of a call, and of its answer
#define WIRE_TENSOR_NAME_MAX    128u           // bytes of a tensor's name
#define WIRE_TENSOR_RANK_MAX    8u             // dimensions
#define WIRE_TENSOR_MODEL_MAX   128u           // bytes of a model's name
#define WIRE_TENSOR_CALL_MAX    (1024u * 1024) // bytes of a call
#define WIRE_TENSOR_ANSWER_MAX  (512u * 1024)  // bytes of an answer
#define WIRE_TENSOR_PRIORITIES  4u             // 0 goes first
#define WIRE_TENSOR_DEADLINE_MS 600000u        // the longest
#define WIRE_CLOUD_KEY_BYTES    32u            // hex digits of an idempotency key
#define WIRE_CLOUD_REASON       "walle-reason" // header of an answer that refuses

// What became of a call. The words are what scripts, headers and logs have.
#define WIRE_CLOUD_MAP(X)                                                                          \
    X(ANSWERED, "answered")                                                                        \
    X(OFFLINE, "offline")         /* no gateway answers */                                         \
    X(SLOW, "slow")               /* not within the deadline, as far as is known */                \
    X(LATE, "late")               /* the deadline passed */                                        \
    X(QUOTA, "quota")             /* the device's calls or bytes are used up for now */            \
    X(BUSY, "busy")               /* the service is overloaded, or too many calls wait here */     \
    X(NOT_ALLOWED, "not_allowed") /* by setting, manifest or gateway */                            \
    X(NO_MODEL, "no_model")       /* there is none of this name, or it is not loaded */            \
    X(REFUSED, "refused")         /* the model takes no such inputs */                             \
    X(TOO_LARGE, "too_large")     /* over a limit, there, in the run, or back */                   \
    X(FAILED, "failed")           /* what the gateway said makes no sense, or it is at fault */    \
    X(CLOSED, "closed")           /* the run or the runtime ends */

enum wire_cloud_why {
#define WIRE_CLOUD_ENUM(name, word) WIRE_CLOUD_##name,
    WIRE_CLOUD_MAP(WIRE_CLOUD_ENUM)
#undef WIRE_CLOUD_ENUM
        WIRE_CLOUD_COUNT
};
const char *wire_cloud_word(enum wire_cloud_why why); // of no such value: "failed"
// False: no such word.
bool wire_cloud_of_word(struct base_str word, enum wire_cloud_why *out);

// Borrowed from the bytes it was read from, or the caller's.
struct wire_tensor {
    struct base_str name;
    uint8_t dtype;
    uint8_t rank;
    uint64_t dims[WIRE_TENSOR_RANK_MAX];
    const uint8_t *data;
    size_t bytes;
};

struct wire_tensor_call {
    uint8_t priority; // below WIRE_TENSOR_PRIORITIES
    uint32_t deadline_ms;
    uint32_t count;
    struct wire_tensor tensors[WIRE_TENSORS_MAX];
};

struct wire_tensor_answer {
    struct base_str version;
    uint32_t count;
    struct wire_tensor tensors[WIRE_TENSORS_MAX];
};

// Bytes of an element; 0: no dtype of numbers.
uint32_t wire_tensor_element_bytes(uint8_t dtype);
// A model's name, as the inference service has it: A-Z a-z 0-9 . _ -, no dot in front.
bool wire_tensor_model_ok(struct base_str name);

// Writers mark their writer failed with INVALID for what a reader would refuse.
void wire_tensor_call_write(struct base_writer *writer, const struct wire_tensor_call *call);
void wire_tensor_answer_write(struct base_writer *writer, const struct wire_tensor_answer *answer);
// INVALID, TRUNCATED, TOO_LARGE (more elements than the limit has bytes).
BASE_NODISCARD enum base_status wire_tensor_call_parse(const uint8_t *bytes, size_t size,
                                                       struct wire_tensor_call *out);
BASE_NODISCARD enum base_status wire_tensor_answer_parse(const uint8_t *bytes, size_t size,
                                                         struct wire_tensor_answer *out);

BASE_C_END

#endif

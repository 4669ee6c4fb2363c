// Tensors as the engine's callers see them: an element type, up to ENG_RANK_MAX dimensions and a
// pointer to dense row-major elements (the last dimension is contiguous).
//
// Element types carry the numbers of ONNX TensorProto.DataType. BOOL is one byte, 0 or 1. F16 and
// BF16 are two bytes each. A STRING element is a struct eng_string.
#ifndef ENGINE_TENSOR_H
#define ENGINE_TENSOR_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define ENG_RANK_MAX 8
// Most elements one tensor may have: what keeps every size computation within 63 bits.
#define ENG_ELEMENTS_MAX ((int64_t)1 << 40)

enum eng_dtype {
    ENG_UNDEFINED = 0,
    ENG_F32 = 1,
    ENG_U8 = 2,
    ENG_I8 = 3,
    ENG_U16 = 4,
    ENG_I16 = 5,
    ENG_I32 = 6,
    ENG_I64 = 7,
    ENG_STRING = 8,
    ENG_BOOL = 9,
    ENG_F16 = 10,
    ENG_F64 = 11,
    ENG_U32 = 12,
    ENG_U64 = 13,
    ENG_C64 = 14,  // two float32: real, imaginary
    ENG_C128 = 15, // two float64
    ENG_BF16 = 16,
    ENG_DTYPE_COUNT
};

struct eng_string {
    const char *at; // not NUL-terminated; borrowed from the model, the caller or the run
    uint64_t size;
};

// Type and shape. Dimensions are >= 0 in a concrete description; -1 stands for "not known yet" only
// where a comment says so. Rank 0 is a scalar.
struct eng_desc {
    enum eng_dtype dtype;
    uint32_t rank;
    int64_t dims[ENG_RANK_MAX];
};

// A view of dense elements somebody else owns.
struct eng_array {
    struct eng_desc desc;
    void *data;
};

// Bytes of one element; 0 for UNDEFINED and numbers outside the enum.
size_t eng_dtype_bytes(enum eng_dtype dtype);
// Static lower-case name as ONNX writes it ("float", "int64", "bfloat16"), never NULL.
const char *eng_dtype_name(enum eng_dtype dtype);

// Product of the dimensions, 1 for a scalar, 0 when any is 0.
// INVALID: a dimension is negative or the rank too large. OVERFLOW: over ENG_ELEMENTS_MAX.
BASE_NODISCARD enum base_status eng_desc_check(const struct eng_desc *desc, int64_t *out_count);
// The same for a description known to be good (checked before); asserts it in debug builds.
int64_t eng_desc_count(const struct eng_desc *desc);
size_t eng_desc_bytes(const struct eng_desc *desc);
bool eng_desc_equal(const struct eng_desc *left, const struct eng_desc *right);
// Writes "float[1,3,224,224]" cut at `size`, always NUL-terminated; returns `text`.
const char *eng_desc_text(const struct eng_desc *desc, char *text, size_t size);

// IEEE 754 binary16 and bfloat16 to and from float32, round to nearest even, NaN kept.
float eng_f16_to_f32(uint16_t half);
uint16_t eng_f16_from_f32(float value);
float eng_bf16_to_f32(uint16_t half);
uint16_t eng_bf16_from_f32(float value);

#endif

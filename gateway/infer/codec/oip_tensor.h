// What the two forms of the Open Inference Protocol (v2) share: limits of shapes, the raw form of
// tensors (binary data extension, raw_input_contents), and the `classification` of an output. No
// I/O; any thread.
//
// Raw form: dense little-endian elements; of BYTES each element is its size in four bytes and the
// text. Source: Triton's "Binary Tensor Data Extension".
#ifndef GW_OIP_TENSOR_H
#define GW_OIP_TENSOR_H

#include "base/arena.h"
#include "base/error.h"
#include "infer/dtype/oip_dtype.h"
#include "infer/infer_call.h"

// Counts the elements of a tensor whose name and desc are filled and sets `bytes`. INVALID: a
// dimension is negative; TOO_LARGE: over GW_INFER_TENSOR_BYTES_MAX or more elements than `most`,
// which is what the message has room for.
BASE_NODISCARD enum base_status gw_oip_shape(struct gw_infer_tensor *tensor, uint64_t most,
                                             size_t *out_count, struct base_error *error);

// Reads the elements of a tensor whose name and desc are filled: borrowed where they lie well, else
// copied to the arena. INVALID: the size is another, a BOOL is neither 0 nor 1; TRUNCATED: a text
// ends behind them; TOO_LARGE; NOMEM.
BASE_NODISCARD enum base_status gw_oip_raw_read(struct base_arena *arena, struct base_str raw,
                                                struct gw_infer_tensor *tensor,
                                                struct base_error *error);
size_t gw_oip_raw_size(const struct gw_infer_tensor *tensor);
// Writes gw_oip_raw_size bytes; returns what is behind them.
uint8_t *gw_oip_raw_write(const struct gw_infer_tensor *tensor, uint8_t *out);

// No two inputs and no two wishes have one name. INVALID.
BASE_NODISCARD enum base_status gw_oip_check_names(const struct gw_infer_call *call,
                                                   struct base_error *error);

// The outputs as the call wants them: those with classes become BYTES of "value:index", the best
// first, NaN last, along the last dimension; `binary` is set as it is wished for. INVALID: an
// output that has no classes. NOMEM.
BASE_NODISCARD enum base_status gw_oip_outputs(struct base_arena *arena,
                                               const struct gw_infer_call *call,
                                               const struct gw_infer_result *result,
                                               struct gw_infer_tensor **out_outputs);

#endif

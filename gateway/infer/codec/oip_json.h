// The JSON form of inference calls and results: Open Inference Protocol (v2), REST, with the binary
// tensor data extension and Triton's parameters: `priority`, `timeout` (microseconds),
// `binary_data_output`; of an input `binary_data_size`; of an output `binary_data` and
// `classification`. Members and parameters that are not known are passed over; one that is known
// and comes twice is a fault.
//
// Beyond JSON, data may say NaN, Infinity and -Infinity, and so do results. FP16 and BF16 are
// numbers in JSON. No I/O, no state; any thread.
#ifndef GW_OIP_JSON_H
#define GW_OIP_JSON_H

#include "base/arena.h"
#include "base/error.h"
#include "infer/infer_call.h"

// Reads a request's body; json_bytes: how much of it is JSON (Inference-Header-Content-Length), 0:
// all. Fills all of *out but model and version, which the path has. INVALID, TRUNCATED, OVERFLOW:
// malformed; TOO_LARGE: over a limit of infer_call.h; UNSUPPORTED: an unknown datatype; NOMEM. The
// error says where.
BASE_NODISCARD enum base_status gw_oip_json_read(struct base_arena *arena, struct base_str body,
                                                 size_t json_bytes, struct gw_infer_call *out,
                                                 struct base_error *error);
// Reads of a request's JSON, which is whole, what says when it is to be answered: fills `priority`
// and `timeout_us` where they are there. As above: whoever reads it all finds the same fault.
BASE_NODISCARD enum base_status gw_oip_json_early(struct base_arena *arena, struct base_str json,
                                                  struct gw_infer_call *call);
// Writes the answer to a call; *out_json_bytes: how much of it is JSON, 0: all, none is binary.
// INVALID: `classification` of an output that has no classes; NOMEM.
BASE_NODISCARD enum base_status gw_oip_json_write(struct base_arena *arena,
                                                  const struct gw_infer_call *call,
                                                  const struct gw_infer_result *result,
                                                  struct base_str *out_body,
                                                  size_t *out_json_bytes);
// {"error": TEXT}; empty when there is no memory.
struct base_str gw_oip_json_error(struct base_arena *arena, struct base_str text);

#endif

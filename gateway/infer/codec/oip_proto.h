// The protobuf form of inference calls and results: Open Inference Protocol (v2), gRPC, as in
// infer/grpc/inference.proto. Messages are read where they lie: of raw tensors nothing is copied
// that lies well, and of typed contents each element once.
//
// Parameters: `priority`, `timeout` (microseconds) of a call, `classification` of an output; others
// are passed over. Of a field that comes twice the last counts, as in protobuf. Results are always
// raw_output_contents. No I/O, no state; any thread.
#ifndef GW_OIP_PROTO_H
#define GW_OIP_PROTO_H

#include "base/arena.h"
#include "base/error.h"
#include "infer/infer_call.h"

// Reads a ModelInferRequest. INVALID, TRUNCATED: malformed, sizes that contradict; UNSUPPORTED: an
// unknown datatype; TOO_LARGE: over a limit of infer_call.h; OVERFLOW; NOMEM. The error says where.
BASE_NODISCARD enum base_status gw_oip_proto_read(struct base_arena *arena, struct base_str message,
                                                  struct gw_infer_call *out,
                                                  struct base_error *error);
// Reads what comes of a ModelInferRequest before its tensors: fills `model`, `version`, `priority`
// and `timeout_us` where they are there, borrowed. TRUNCATED: the piece ends before the first
// tensor; INVALID, TOO_LARGE: as above.
BASE_NODISCARD enum base_status gw_oip_proto_early(struct base_str piece,
                                                   struct gw_infer_call *call);
// Bytes of it that are raw_input_contents, as far as it is well-formed.
size_t gw_oip_proto_raw_bytes(struct base_str message);
// Bytes that its typed contents take beside it once they are read (a number of one byte may be one
// of eight in memory), as far as it is well-formed: what is to be counted before that.
size_t gw_oip_proto_typed_room(struct base_str message);
// Writes a ModelInferResponse, framed for gRPC (pb_out.h). INVALID: `classification` of an output
// that has no classes; NOMEM; TOO_LARGE.
BASE_NODISCARD enum base_status gw_oip_proto_write(struct base_arena *arena,
                                                   const struct gw_infer_call *call,
                                                   const struct gw_infer_result *result,
                                                   struct base_str *out_frame);

// The same as the answer to a message of a stream: a ModelStreamInferResponse.
BASE_NODISCARD enum base_status gw_oip_proto_write_streamed(struct base_arena *arena,
                                                            const struct gw_infer_call *call,
                                                            const struct gw_infer_result *result,
                                                            struct base_str *out_frame);
// A ModelStreamInferResponse that says why the call with this id has no result; what of the text is
// no printable ASCII becomes '?'. NOMEM.
BASE_NODISCARD enum base_status gw_oip_proto_write_refusal(struct base_arena *arena,
                                                           struct base_str id, const char *text,
                                                           struct base_str *out_frame);
// The id of a ModelInferRequest, as far as it is well-formed; empty: none that can be told.
struct base_str gw_oip_proto_id(struct base_str message);

// What the other requests ask: their fields 1 and 2. Other fields are passed over.
struct gw_oip_query {
    struct base_str first;
    struct base_str second;
    bool flag; // field 2, where it is a boolean
};
// INVALID, TRUNCATED: malformed; TOO_LARGE: a name over GW_INFER_NAME_BYTES_MAX.
BASE_NODISCARD enum base_status
gw_oip_proto_query(struct base_str message, struct gw_oip_query *out, struct base_error *error);

#endif

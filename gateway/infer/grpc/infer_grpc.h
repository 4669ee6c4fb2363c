// The inference service over gRPC: methods of inference.GRPCInferenceService, as
// infer/grpc/inference.proto has them, on the port and the connections that carry everything else.
// ModelStreamInfer is in infer_stream.h, the others are unary.
//
// Errors are gRPC's: INVALID_ARGUMENT what the model or the protocol does not take, NOT_FOUND,
// RESOURCE_EXHAUSTED with grpc-retry-pushback-ms, UNAVAILABLE while a model is not loaded or the
// gateway drains, DEADLINE_EXCEEDED, UNIMPLEMENTED other methods and compressed messages; of
// loading and unloading PERMISSION_DENIED, and FAILED_PRECONDITION where a name is another model's.
// A client that cancels, or whose deadline (grpc-timeout) passes, has its call dropped.
#ifndef GW_INFER_GRPC_H
#define GW_INFER_GRPC_H

#include "svc/infer_seam.h"

// Answers one request; `self` is the service (infer/infer_service.h). For gw_infer_seam.grpc.
void gw_infer_grpc_handle(void *self, struct gw_worker *worker, struct gw_exchange *exchange);
// Looks at the beginning of its body (gw_infer_seam.early).
enum gw_early gw_infer_grpc_early(void *self, struct gw_exchange *exchange, struct base_str piece,
                                  size_t *out_wanted);

#endif

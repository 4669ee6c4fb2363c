// Calls of models one after the other over one stream of gRPC: ModelStreamInfer. Each message is a
// ModelInferRequest on its way as any call (infer_exchange.h), with its own priority, time-out,
// quota and place in a batch; several run at once, and are answered in the order they were asked
// in. One that fails is answered with error_message and its id, and the stream goes on. It ends
// after the last answer when its caller ends it (OK), and at once when what comes is no message,
// when its deadline (grpc-timeout) passes, when its caller may not call any more, and before the
// gateway ends (UNAVAILABLE).
//
// Bounded: while GW_INFER_STREAM_CALLS_MAX calls are not read, or GW_INFER_STREAM_UNREAD_BYTES of
// their answers, or GW_INFER_STREAM_READ_BYTES of what was asked is not answered, no more is taken
// than the stream's window. Typed contents count as what they take in memory.
#ifndef GW_INFER_STREAM_H
#define GW_INFER_STREAM_H

#include "svc/infer_seam.h"

#define GW_INFER_STREAM_CALLS_MAX    32u                 // of a stream, running or not read
#define GW_INFER_STREAM_UNREAD_BYTES ((size_t)256 << 10) // of its answers; then no call begins
// Of messages that are not answered and what they take once read; then no call begins.
#define GW_INFER_STREAM_READ_BYTES ((size_t)32 << 20)
// What a stream may hold of messages before it counts: about its window.
#define GW_INFER_STREAM_FREE_BYTES ((size_t)64 << 10)

struct gw_infer_service;

// Worker's thread: ends in one gw_exchange_finish, when the stream is over. Its caller was
// admitted.
void gw_infer_stream_begin(struct gw_infer_service *service, struct gw_worker *worker,
                           struct gw_exchange *exchange);

#endif

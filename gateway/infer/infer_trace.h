// What is told of a call that belongs to somebody's trace (`traceparent`): the answer has the trace
// with a span of ours, and how long the call waited and ran (`server-timing`); the log has a line
// with the same. Worker's thread.
#ifndef GW_INFER_TRACE_H
#define GW_INFER_TRACE_H

#include "infer/infer_exchange.h"

// The reply is filled. A call without a trace is left as it is.
void gw_infer_trace(struct gw_infer_exchange *self);

#endif

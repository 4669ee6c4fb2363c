// W3C Trace Context (https://www.w3.org/TR/trace-context/): which trace a call belongs to, as its
// `traceparent` says, and what is said of the answer. Pure; any thread.
#ifndef GW_TRACE_CONTEXT_H
#define GW_TRACE_CONTEXT_H

#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define GW_TRACE_PARENT_BYTES    55u  // 00-TRACE-SPAN-FLAGS
#define GW_TRACE_STATE_BYTES_MAX 512u // of tracestate; a longer one is not passed on

struct gw_trace_context {
    char trace[33]; // 32 hex digits; empty: the call belongs to none
    char span[17];  // of the caller
    uint8_t flags;  // 1: it is recorded
};

// INVALID: malformed, or all zero, which is as if none were there. A version above 00 is read as
// far as 00 goes, as the specification has it.
BASE_NODISCARD enum base_status gw_trace_context_read(struct base_str traceparent,
                                                      struct gw_trace_context *out);
// The same trace with a span of ours, which is not 0, as a text with its NUL.
void gw_trace_context_write(const struct gw_trace_context *context, uint64_t span,
                            char out[GW_TRACE_PARENT_BYTES + 1]);

#endif

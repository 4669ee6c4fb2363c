// What gRPC's answers have in common, whether one message is asked or a stream of them: errors and
// what their headers say. Source: "gRPC over HTTP2" and "Compression" of the gRPC project. Worker's
// thread; memory is the exchange's.
#ifndef GW_GRPC_REPLY_H
#define GW_GRPC_REPLY_H

#include "infer/codec/grpc_frame.h"
#include "svc/exchange.h"

#define GW_GRPC_TIMEOUT_WRONG "grpc-timeout: up to 8 digits and a unit"

// The number's digits, or those of INTERNAL without memory.
struct base_str gw_grpc_number(struct base_arena *arena, uint64_t value);
// Fills the reply with headers alone ("Trailers-Only"). `status` is not OK.
void gw_grpc_fill_error(struct gw_exchange *exchange, enum gw_grpc_status status, const char *text);
// ... and adds to it how long the caller is to wait.
void gw_grpc_fill_pushback(struct gw_exchange *exchange, uint32_t seconds);
// What a compressed message is refused with: UNIMPLEMENTED, or INTERNAL where no grpc-encoding says
// how it is compressed.
enum gw_grpc_status gw_grpc_compressed_status(const struct gw_request *request);
// The same as a reply, with the encodings that are taken.
void gw_grpc_fill_compressed(struct gw_exchange *exchange);
// How long the call may take in microseconds, by its header; UINT64_MAX: none says it. False: it is
// no time.
bool gw_grpc_read_timeout(const struct gw_request *request, uint64_t *out_us);

#endif

// Building replies: what every handler of the core and of the operator API needs. All memory comes
// from the exchange's arena; when it runs out the reply becomes a bare status, never a crash.
#ifndef GW_REPLY_H
#define GW_REPLY_H

#include "svc/exchange.h"

// Hands the reply to the transport: calls exchange->finish. The exchange may be gone afterwards.
void gw_exchange_finish(struct gw_exchange *exchange);

// Fills the reply with a bare status and no body; headers set before are dropped.
void gw_reply_status(struct gw_exchange *exchange, int status);
// Fills the reply with `body` (in the arena or static) and its type.
void gw_reply_body(struct gw_exchange *exchange, int status, struct base_str content_type,
                   const void *body, size_t size);
// RFC 9457 problem: {"type":"about:blank","title":..,"status":..,"detail":..}. `detail` is cut at
// 400 bytes; both texts are escaped. Below /v2 it is {"error":DETAIL}, as the inference protocol
// has it.
// To a call over gRPC it is a status of gRPC, as gw_grpc_problem says.
void gw_reply_problem(struct gw_exchange *exchange, int status, const char *detail_format, ...)
    BASE_PRINTF(3, 4);
// Fills the reply with the status of gRPC that says the same as this one of HTTP, and `detail`,
// when the request is a call over gRPC (content-type application/grpc of its path). Else false.
bool gw_grpc_problem(struct gw_exchange *exchange, int status, struct base_str detail);
// Problem with the HTTP status that fits `status` of a failed call: INVALID and the other input
// codes 400 (NOT_FOUND 404, EXISTS and CONFLICT 409, TOO_LARGE 413), HASH 422, trust 403, resources
// 503 with retry-after (FULL 507), environment and bugs 500.
void gw_reply_failure(struct gw_exchange *exchange, enum base_status status, const char *detail,
                      uint32_t retry_after_s);
// 503 with retry-after.
void gw_reply_busy(struct gw_exchange *exchange, uint32_t retry_after_s);
void gw_reply_retry_after(struct gw_exchange *exchange, uint32_t retry_after_s); // adds the header
// 405 with `allow`.
void gw_reply_method(struct gw_exchange *exchange, const char *allow);

#endif

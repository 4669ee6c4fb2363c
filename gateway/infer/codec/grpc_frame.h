// What gRPC puts around its messages in HTTP/2: the prefix of a message, its status, texts in
// headers, and deadlines. Source: "gRPC over HTTP2" of the gRPC project. Pure; any thread.
#ifndef GW_GRPC_FRAME_H
#define GW_GRPC_FRAME_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

#define GW_GRPC_TIMEOUT_DIGITS_MAX 8u

// Numbers of gRPC; those that this gateway says.
enum gw_grpc_status {
    GW_GRPC_OK = 0,
    GW_GRPC_CANCELLED = 1,
    GW_GRPC_INVALID_ARGUMENT = 3,
    GW_GRPC_DEADLINE_EXCEEDED = 4,
    GW_GRPC_NOT_FOUND = 5,
    GW_GRPC_PERMISSION_DENIED = 7,
    GW_GRPC_RESOURCE_EXHAUSTED = 8,
    GW_GRPC_FAILED_PRECONDITION = 9,
    GW_GRPC_UNIMPLEMENTED = 12,
    GW_GRPC_INTERNAL = 13,
    GW_GRPC_UNAVAILABLE = 14,
    GW_GRPC_UNAUTHENTICATED = 16
};

// What a failed call of the inference service is in gRPC.
enum gw_grpc_status gw_grpc_status_of(enum base_status status);
// Is the content type gRPC's with protobuf messages: application/grpc, or with +proto?
bool gw_grpc_is(struct base_str content_type);

// The one message of a unary request's body, borrowed. INVALID, TRUNCATED: the body is not one
// message; UNSUPPORTED: it is compressed.
BASE_NODISCARD enum base_status gw_grpc_message(struct base_str body, struct base_str *out,
                                                struct base_error *error);
// The value of grpc-timeout in microseconds, rounded up. INVALID.
BASE_NODISCARD enum base_status gw_grpc_timeout(struct base_str text, uint64_t *out_us);
// The value of grpc-message: everything but printable ASCII as %XX. Empty without memory.
struct base_str gw_grpc_escape(struct base_arena *arena, struct base_str text);

#endif

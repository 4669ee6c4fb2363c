// Errors of gRPC's calls, for infer_grpc.c and infer_stream.c. Of encodings there is identity
// alone: a message that is compressed is refused, and the answer says which encoding is taken, so
// that a client may send it once more.
#include "infer/grpc/grpc_reply.h"

#include "base/check.h"
#include "svc/reply.h"

#include <stdio.h>

#define NUMBER_TEXT_MAX 24u

struct base_str gw_grpc_number(struct base_arena *arena, uint64_t value)
{
    char text[NUMBER_TEXT_MAX];
    int size = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    base_check(size > 0);
    const char *copy = base_arena_text(arena, text, (size_t)size);
    return copy != NULL ? (struct base_str){copy, (size_t)size} : BASE_STR("13"); // INTERNAL
}

void gw_grpc_fill_error(struct gw_exchange *exchange, enum gw_grpc_status status, const char *text)
{
    base_assert(status != GW_GRPC_OK);
    gw_reply_body(exchange, 200, BASE_STR("application/grpc"), NULL, 0);
    gw_reply_header(&exchange->reply, BASE_STR("grpc-status"),
                    gw_grpc_number(exchange->arena, (uint64_t)status));
    gw_reply_header(&exchange->reply, BASE_STR("grpc-message"),
                    gw_grpc_escape(exchange->arena, base_str_of(text)));
}

void gw_grpc_fill_pushback(struct gw_exchange *exchange, uint32_t seconds)
{
    gw_reply_header(&exchange->reply, BASE_STR("grpc-retry-pushback-ms"),
                    gw_grpc_number(exchange->arena, seconds * 1000ull));
}

enum gw_grpc_status gw_grpc_compressed_status(const struct gw_request *request)
{
    bool named = request->grpc_encoding.size > 0 &&
                 !base_str_equal(request->grpc_encoding, BASE_STR("identity"));
    return named ? GW_GRPC_UNIMPLEMENTED : GW_GRPC_INTERNAL;
}

void gw_grpc_fill_compressed(struct gw_exchange *exchange)
{
    enum gw_grpc_status status = gw_grpc_compressed_status(&exchange->request);
    gw_grpc_fill_error(exchange, status,
                       status == GW_GRPC_UNIMPLEMENTED
                           ? "gRPC: compressed messages are not taken"
                           : "gRPC: a message is compressed, and no grpc-encoding says how");
    gw_reply_header(&exchange->reply, BASE_STR("grpc-accept-encoding"), BASE_STR("identity"));
}

bool gw_grpc_read_timeout(const struct gw_request *request, uint64_t *out_us)
{
    *out_us = UINT64_MAX;
    return request->grpc_timeout.size == 0 ||
           gw_grpc_timeout(request->grpc_timeout, out_us) == BASE_OK;
}

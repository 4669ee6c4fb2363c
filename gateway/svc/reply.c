// Building replies: status, headers, body, and problems as JSON (RFC 9457). Called by every handler
// of the core, of gateway/api and gateway/ddi; worker's thread, or the thread a call was posted to
// while it has the exchange. Memory comes from the exchange's arena; when it runs out the reply is
// a bare status. An answer that a device was refused is noted here for `why` (device_faults.c), so
// that no handler can forget it.
#include "svc/reply.h"

#include "base/check.h"
#include "base/cursor.h"
#include "svc/route.h"
#include "wire/http_status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DETAIL_MAX 400

void gw_reply_header(struct gw_reply *reply, struct base_str name, struct base_str value)
{
    base_assert(reply->header_count < GW_REPLY_HEADERS_MAX);
    if (reply->header_count < GW_REPLY_HEADERS_MAX) {
        reply->headers[reply->header_count++] = (struct gw_header){name, value};
    }
}

void gw_reply_trailer(struct gw_reply *reply, struct base_str name, struct base_str value)
{
    base_assert(reply->trailer_count < GW_REPLY_TRAILERS_MAX);
    if (reply->trailer_count < GW_REPLY_TRAILERS_MAX) {
        reply->trailers[reply->trailer_count++] = (struct gw_header){name, value};
    }
}

void gw_exchange_finish(struct gw_exchange *exchange)
{
    if (exchange->note != NULL && exchange->reply.status >= 400) {
        exchange->note(exchange->noted, exchange->noted_as, exchange);
    }
    exchange->finish(exchange);
}

void gw_reply_status(struct gw_exchange *exchange, int status)
{
    struct gw_reply *reply = &exchange->reply;
    reply->kind = GW_REPLY_BYTES;
    reply->status = status;
    reply->header_count = 0;
    reply->trailer_count = 0;
    reply->body = NULL;
    reply->body_bytes = 0;
    reply->blob = NULL;
    reply->blob_from = 0;
    reply->blob_bytes = 0;
}

void gw_reply_body(struct gw_exchange *exchange, int status, struct base_str content_type,
                   const void *body, size_t size)
{
    gw_reply_status(exchange, status);
    gw_reply_header(&exchange->reply, BASE_STR("content-type"), content_type);
    exchange->reply.body = body;
    exchange->reply.body_bytes = size;
}

// JSON string content: quotes, backslashes and control characters escaped. `out` holds 6 * size.
static size_t escape(const char *text, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";
    size_t at = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') {
            out[at++] = '\\';
            out[at++] = (char)c;
        } else if (c < 0x20 || c >= 0x7f) {
            memcpy(out + at, "\\u00", 4);
            out[at + 4] = digits[c >> 4];
            out[at + 5] = digits[c & 15];
            at += 6;
        } else {
            out[at++] = (char)c;
        }
    }
    return at;
}

static void put(struct base_writer *writer, struct base_str text)
{
    base_writer_bytes(writer, text.data, text.size);
}

// {"error":TEXT} into `out`; returns its size.
static size_t error_write(struct base_str escaped, char *out, size_t capacity)
{
    struct base_writer writer;
    base_writer_init(&writer, out, capacity);
    put(&writer, BASE_STR("{\"error\":\""));
    put(&writer, escaped);
    put(&writer, BASE_STR("\"}"));
    base_assert(writer.status == BASE_OK);
    return base_writer_size(&writer);
}

// The document into `out`; returns its size.
static size_t problem_write(int status, struct base_str escaped, char *out, size_t capacity)
{
    struct base_writer writer;
    char digits[WIRE_STATUS_DIGITS];
    base_writer_init(&writer, out, capacity);
    put(&writer, BASE_STR("{\"type\":\"about:blank\",\"title\":\""));
    put(&writer, base_str_of(wire_status_title(status)));
    put(&writer, BASE_STR("\",\"status\":"));
    put(&writer, wire_status_digits(status, digits));
    put(&writer, BASE_STR(",\"detail\":\""));
    put(&writer, escaped);
    put(&writer, BASE_STR("\"}"));
    base_assert(writer.status == BASE_OK);
    return base_writer_size(&writer);
}

// As gRPC's own table for HTTP statuses has it, but where one of ours says more.
static const char *grpc_status(int status)
{
    switch (status) {
    case 400:
        return "3"; // INVALID_ARGUMENT
    case 401:
        return "16"; // UNAUTHENTICATED
    case 403:
        return "7"; // PERMISSION_DENIED
    case 404:
    case 405:
        return "12"; // UNIMPLEMENTED
    case 408:
        return "4"; // DEADLINE_EXCEEDED
    case 413:
    case 429:
    case 431:
    case 507:
        return "8"; // RESOURCE_EXHAUSTED
    case 502:
    case 503:
    case 504:
        return "14"; // UNAVAILABLE
    default:
        return "2"; // UNKNOWN
    }
}

bool gw_grpc_problem(struct gw_exchange *exchange, int status, struct base_str detail)
{
    const struct gw_route *route = exchange->route;
    bool grpc = route != NULL && (route->flags & GW_ROUTE_OIP) == GW_ROUTE_INFER;
    if (!grpc || !base_str_starts(exchange->request.content_type, BASE_STR("application/grpc"))) {
        return false;
    }
    char *text = base_arena_text(exchange->arena, detail.data, detail.size);
    for (size_t i = 0; text != NULL && i < detail.size; i++) {
        bool plain = text[i] >= ' ' && text[i] <= '~' && text[i] != '%';
        text[i] = plain ? text[i] : '?'; // others would have to be escaped
    }
    gw_reply_body(exchange, 200, BASE_STR("application/grpc"), NULL, 0);
    gw_reply_header(&exchange->reply, BASE_STR("grpc-status"), base_str_of(grpc_status(status)));
    if (text != NULL) {
        gw_reply_header(&exchange->reply, BASE_STR("grpc-message"),
                        (struct base_str){text, detail.size});
    }
    return true;
}

void gw_reply_problem(struct gw_exchange *exchange, int status, const char *detail_format, ...)
{
    char detail[DETAIL_MAX];
    char escaped[DETAIL_MAX * 6];
    va_list args;
    va_start(args, detail_format);
    int wrote = vsnprintf(detail, sizeof(detail), detail_format, args);
    va_end(args);
    size_t size = wrote < 0 ? 0 : (size_t)wrote;
    size = size < sizeof(detail) ? size : sizeof(detail) - 1;
    if (gw_grpc_problem(exchange, status, (struct base_str){detail, size})) {
        return;
    }
    size = escape(detail, size, escaped);
    size_t capacity = size + 160;
    char *body = base_arena_alloc(exchange->arena, capacity);
    if (body == NULL) {
        gw_reply_status(exchange, status);
        return;
    }
    if (gw_route_has(exchange, GW_ROUTE_OIP)) {
        size = error_write((struct base_str){escaped, size}, body, capacity);
        gw_reply_body(exchange, status, BASE_STR("application/json"), body, size);
        return;
    }
    size = problem_write(status, (struct base_str){escaped, size}, body, capacity);
    gw_reply_body(exchange, status, BASE_STR("application/problem+json"), body, size);
}

void gw_reply_retry_after(struct gw_exchange *exchange, uint32_t seconds)
{
    char text[16];
    int size = snprintf(text, sizeof(text), "%u", seconds);
    const char *copy = base_arena_text(exchange->arena, text, (size_t)size);
    if (copy != NULL) {
        gw_reply_header(&exchange->reply, BASE_STR("retry-after"),
                        (struct base_str){copy, (size_t)size});
    }
}

void gw_reply_busy(struct gw_exchange *exchange, uint32_t retry_after_s)
{
    gw_reply_problem(exchange, 503, "busy, try again later");
    gw_reply_retry_after(exchange, retry_after_s);
}

static int http_status(enum base_status status)
{
    switch (status) {
    case BASE_ERR_NOT_FOUND:
        return 404;
    case BASE_ERR_EXISTS:
    case BASE_ERR_CONFLICT:
        return 409;
    case BASE_ERR_TOO_LARGE:
        return 413;
    case BASE_ERR_HASH:
        return 422;
    case BASE_ERR_FULL:
        return 507;
    default:
        break;
    }
    if (base_status_is_input(status)) {
        return 400;
    }
    if (base_status_is_trust(status)) {
        return 403;
    }
    return base_status_is_resource(status) || status == BASE_ERR_CLOSED ? 503 : 500;
}

void gw_reply_failure(struct gw_exchange *exchange, enum base_status status, const char *detail,
                      uint32_t retry_after_s)
{
    int code = http_status(status);
    gw_reply_problem(exchange, code, "%s",
                     detail != NULL && detail[0] != 0 ? detail : base_status_text(status));
    if (code == 503 || code == 507) {
        gw_reply_retry_after(exchange, retry_after_s);
    }
}

void gw_reply_method(struct gw_exchange *exchange, const char *allow)
{
    gw_reply_problem(exchange, 405, "allowed: %s", allow);
    gw_reply_header(&exchange->reply, BASE_STR("allow"), base_str_of(allow));
}

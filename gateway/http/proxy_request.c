// Heads of proxied requests and replies; called by proxy.c on the worker's thread. Both directions
// are text in, text out, without a socket. Fields that speak of one connection alone (RFC 9110,
// 7.6.1) stay behind, as do those by which a client could pretend to be a proxy; `forwarded` and
// its older kin are made here from what the connection is known to be. A target or an authority
// with a blank in it is refused before it can become a second line.
#include "http/proxy_request.h"

#include "http/proxy_ride.h"

#include "http/conn.h"
#include "http/stream.h"
#include "wire/http_status.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static const char *const method_names[GW_METHOD_COUNT] = {
    [GW_METHOD_GET] = "GET",         [GW_METHOD_HEAD] = "HEAD",   [GW_METHOD_POST] = "POST",
    [GW_METHOD_PUT] = "PUT",         [GW_METHOD_PATCH] = "PATCH", [GW_METHOD_DELETE] = "DELETE",
    [GW_METHOD_OPTIONS] = "OPTIONS", [GW_METHOD_OTHER] = "OTHER",
};

// The path with its query: they lie behind one another.
static struct base_str target_of(const struct gw_request *request)
{
    struct base_str target = request->path;
    if (request->query.data != NULL) {
        target.size = (size_t)(request->query.data + request->query.size - request->path.data);
    }
    return target;
}

// Ours stands in quotes in `forwarded`.
static bool has_quote(struct base_str text)
{
    return text.size > 0 && (memchr(text.data, '"', text.size) != NULL ||
                             memchr(text.data, '\\', text.size) != NULL);
}

static bool is_visible(struct base_str text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c <= 0x20 || c == 0x7f) {
            return false;
        }
    }
    return true;
}

bool gw_proxy_request_valid(const struct gw_stream_work *work)
{
    struct base_str target = target_of(&work->exchange.request);
    return target.size > 0 && target.data[0] == '/' && is_visible(target) &&
           is_visible(work->authority) && !has_quote(work->authority);
}

static bool is_one_of(struct base_str name, const struct base_str *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (base_str_equal(name, names[i])) {
            return true;
        }
    }
    return false;
}

// Some upstreams read '_' in a name as '-': both are one name here.
static char folded(char c)
{
    return c == '_' ? '-' : c;
}

static bool begins(struct base_str name, struct base_str with, bool whole)
{
    if (whole ? name.size != with.size : name.size < with.size) {
        return false;
    }
    for (size_t i = 0; i < with.size; i++) {
        if (folded(name.data[i]) != with.data[i]) {
            return false;
        }
    }
    return true;
}

// Not forwarded: hop-by-hop (RFC 9110, 7.6.1), or said by us: what a client says of its own
// address, of the way it came or of what was proven, the upstream might believe.
static bool is_dropped_request_field(struct base_str name)
{
    static const struct base_str prefixes[] = {{"x-forwarded-", 12}, {"proxy-", 6}};
    static const struct base_str dropped[] = {
        {"te", 2},
        {"host", 4},
        {"expect", 6},
        {"upgrade", 7},
        {"trailer", 7},
        {"forwarded", 9},
        {"x-forwarded", 11},
        {"remote-user", 11},
        {"forwarded-for", 13},
        {"x-original-url", 14},
        {"x-real-ip", 9},
        {"client-ip", 9},
        {"connection", 10},
        {"keep-alive", 10},
        {"x-client-ip", 11},
        {"walle-proven", 12},
        {"content-length", 14},
        {"true-client-ip", 14},
        {"cf-connecting-ip", 16},
        {"x-cluster-client-ip", 19},
        {"x-original-forwarded-for", 24},
        {"transfer-encoding", 17},
        {"walle-credential", 16},
        {"walle-enroll-key", 16},
    };
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (begins(name, prefixes[i], false)) {
            return true;
        }
    }
    if (begins(name, BASE_STR("walle-"), false) && memchr(name.data, '_', name.size) != NULL) {
        return true; // what looks like ours to such an upstream
    }
    for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++) {
        if (begins(name, dropped[i], true)) {
            return true;
        }
    }
    return false;
}

static bool add(struct evbuffer *out, struct base_str text)
{
    return evbuffer_add(out, text.data, text.size) == 0;
}

static bool add_field(struct evbuffer *out, struct base_str name, struct base_str value)
{
    return add(out, name) && add(out, BASE_STR(": ")) && add(out, value) &&
           add(out, BASE_STR("\r\n"));
}

// Cookies come as crumbs in HTTP/2 and go as one field in HTTP/1.1 (RFC 9113, 8.2.3).
static bool add_cookies(const struct gw_stream_work *work, struct evbuffer *out)
{
    bool first = true;
    bool ok = true;
    for (uint32_t i = 0; i < work->header_count && ok; i++) {
        if (base_str_equal(work->headers[i].name, BASE_STR("cookie"))) {
            ok = add(out, first ? BASE_STR("cookie: ") : BASE_STR("; ")) &&
                 add(out, work->headers[i].value);
            first = false;
        }
    }
    return ok && (first || add(out, BASE_STR("\r\n")));
}

static void print_client(const struct gw_peer_address *client, char out[INET6_ADDRSTRLEN])
{
    bool v4 = gw_peer_is_v4(client);
    out[0] = '\0';
    (void)inet_ntop(v4 ? AF_INET : AF_INET6, client->bytes + (v4 ? 12 : 0), out, INET6_ADDRSTRLEN);
}

// The port the client came to; 0: not known.
static unsigned port_of(const struct gw_conn *conn)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } here;
    socklen_t size = sizeof(here);
    if (getsockname(conn->fd, &here.any, &size) != 0) {
        return 0;
    }
    return here.any.sa_family == AF_INET    ? ntohs(here.v4.sin_port)
           : here.any.sa_family == AF_INET6 ? ntohs(here.v6.sin6_port)
                                            : 0;
}

// What the gateway knows of the way the request came: as RFC 7239 has it, and as most read it.
static bool add_forwarded(const struct gw_stream_work *work, struct evbuffer *out)
{
    const struct gw_conn *conn = work->stream->conn;
    char client[INET6_ADDRSTRLEN];
    print_client(&work->client, client);
    bool v6 = strchr(client, ':') != NULL;
    const char *scheme = conn->ssl != NULL ? "https" : "http";
    int host_bytes = (int)work->authority.size;
    const char *host = host_bytes > 0 ? work->authority.data : "";
    return evbuffer_add_printf(out,
                               "x-forwarded-for: %s\r\nx-real-ip: %s\r\nx-forwarded-proto: %s\r\n"
                               "x-forwarded-host: %.*s\r\nx-forwarded-port: %u\r\n"
                               "forwarded: for=%s%s%s;host=\"%.*s\";proto=%s\r\n",
                               client, client, scheme, host_bytes, host, port_of(conn),
                               v6 ? "\"[" : "", client, v6 ? "]\"" : "", host_bytes, host,
                               scheme) > 0;
}

static bool add_host(const struct gw_stream_work *work, const char *upstream_host,
                     struct evbuffer *out)
{
    return add_field(out, BASE_STR("host"),
                     work->authority.size > 0 ? work->authority : base_str_of(upstream_host));
}

// The body is whole: its length is known, whatever the client said of it.
static bool add_framing(const struct gw_request *request, struct evbuffer *out)
{
    bool expected = request->method == GW_METHOD_POST || request->method == GW_METHOD_PUT ||
                    request->method == GW_METHOD_PATCH;
    return (request->body_bytes == 0 && !expected) ||
           evbuffer_add_printf(out, "content-length: %zu\r\n", request->body_bytes) > 0;
}

enum base_status gw_proxy_request_head(const struct gw_stream_work *work, const char *upstream_host,
                                       struct base_str proven, struct evbuffer *out)
{
    const struct gw_request *request = &work->exchange.request;
    bool ok = add(out, base_str_of(method_names[request->method])) && add(out, BASE_STR(" ")) &&
              add(out, target_of(request)) && add(out, BASE_STR(" HTTP/1.1\r\n")) &&
              add_host(work, upstream_host, out) && add_forwarded(work, out) &&
              (proven.size == 0 || add_field(out, BASE_STR("walle-proven"), proven)) &&
              add_framing(request, out) && add_cookies(work, out);
    for (uint32_t i = 0; i < work->header_count && ok; i++) {
        struct base_str name = work->headers[i].name;
        if (!is_dropped_request_field(name) && !base_str_equal(name, BASE_STR("cookie"))) {
            ok = add_field(out, name, work->headers[i].value);
        }
    }
    return ok && add(out, BASE_STR("\r\n")) ? BASE_OK : BASE_ERR_NOMEM;
}

static bool is_dropped_reply_field(int status, struct base_str name)
{
    static const struct base_str dropped[] = {
        {"connection", 10},       {"keep-alive", 10},        {"upgrade", 7},
        {"proxy-connection", 16}, {"transfer-encoding", 17}, {"trailer", 7},
    };
    // Nothing comes: a length would be wrong, an error even to clients of HTTP/2 (RFC 9110 8.6).
    if ((status == 204 || status == 304) && base_str_equal(name, BASE_STR("content-length"))) {
        return true;
    }
    // A device believes that what is called walle- is the gateway's word.
    return begins(name, BASE_STR("walle-"), false) ||
           is_one_of(name, dropped, sizeof(dropped) / sizeof(dropped[0]));
}

// Not put into the connection's header table: what an upstream says is its own, and one secret next
// to what somebody else may choose could be guessed from sizes (RFC 7541, 7.1).
static nghttp2_nv field(struct base_str name, struct base_str value)
{
    return (nghttp2_nv){
        (uint8_t *)(uintptr_t)name.data, (uint8_t *)(uintptr_t)value.data, name.size, value.size,
        NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE | NGHTTP2_NV_FLAG_NO_INDEX};
}

size_t gw_proxy_reply_fields(const struct gw_h1_message *response, char *status_text,
                             const struct gw_proxy_said *said, nghttp2_nv *out)
{
    // What is said to one device at one time must come out of no cache.
    const struct base_str cache_control = BASE_STR("cache-control");
    bool says = said->offer.size > 0 || said->ride.size > 0;
    size_t count = 0;
    out[count] = field(BASE_STR(":status"), wire_status_digits(response->status, status_text));
    if (wire_status_common(response->status)) {
        out[count].flags &= (uint8_t)~NGHTTP2_NV_FLAG_NO_INDEX;
    }
    count++;
    for (uint32_t i = 0; i < response->field_count; i++) {
        const struct gw_h1_field *from = &response->fields[i];
        if (!is_dropped_reply_field(response->status, from->name) &&
            !(says && base_str_equal(from->name, cache_control))) {
            out[count++] = field(from->name, from->value);
        }
    }
    if (says) {
        out[count++] = field(cache_control, BASE_STR("no-store"));
    }
    if (said->offer.size > 0) {
        out[count++] = field(BASE_STR("walle-offer"), said->offer);
    }
    if (said->ride.size > 0) {
        out[count++] = field(BASE_STR("walle-ride"), said->ride);
    }
    return count;
}

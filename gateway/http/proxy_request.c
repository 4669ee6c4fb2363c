// Heads of proxied requests and replies; called by proxy.c.
#include "http/proxy_request.h"

#include "http/conn.h"
#include "http/stream.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <string.h>

static const char *const method_names[GW_METHOD_COUNT] = {
    [GW_METHOD_GET] = "GET",     [GW_METHOD_HEAD] = "HEAD",   [GW_METHOD_POST] = "POST",
    [GW_METHOD_PUT] = "PUT",     [GW_METHOD_PATCH] = "PATCH", [GW_METHOD_DELETE] = "DELETE",
    [GW_METHOD_OTHER] = "OTHER",
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
           is_visible(work->authority);
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

// Not forwarded: hop-by-hop (RFC 9110, 7.6.1), or said by us.
static bool is_dropped_request_field(struct base_str name)
{
    static const struct base_str dropped[] = {
        {"te", 2},
        {"host", 4},
        {"connection", 10},
        {"keep-alive", 10},
        {"upgrade", 7},
        {"expect", 6},
        {"proxy-connection", 16},
        {"transfer-encoding", 17},
        {"x-forwarded-for", 15},
        {"x-forwarded-proto", 17},
    };
    return is_one_of(name, dropped, sizeof(dropped) / sizeof(dropped[0]));
}

static const struct gw_forward_header *find(const struct gw_stream_work *work, struct base_str name)
{
    for (uint32_t i = 0; i < work->header_count; i++) {
        if (base_str_equal(work->headers[i].name, name)) {
            return &work->headers[i];
        }
    }
    return NULL;
}

bool gw_proxy_request_has_length(const struct gw_stream_work *work)
{
    return find(work, BASE_STR("content-length")) != NULL;
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

static bool add_forwarded(const struct gw_stream_work *work, struct evbuffer *out)
{
    const struct gw_conn *conn = work->stream->conn;
    char address[INET6_ADDRSTRLEN] = "";
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    bool v4 = memcmp(conn->peer.bytes, mapped, sizeof(mapped)) == 0;
    (void)inet_ntop(v4 ? AF_INET : AF_INET6, conn->peer.bytes + (v4 ? 12 : 0), address,
                    sizeof(address));
    const struct gw_forward_header *before = find(work, BASE_STR("x-forwarded-for"));
    bool ok = add(out, BASE_STR("x-forwarded-for: "));
    if (before != NULL) {
        ok = ok && add(out, before->value) && add(out, BASE_STR(", "));
    }
    return ok && add(out, base_str_of(address)) && add(out, BASE_STR("\r\n")) &&
           add_field(out, BASE_STR("x-forwarded-proto"),
                     conn->ssl != NULL ? BASE_STR("https") : BASE_STR("http"));
}

static bool add_host(const struct gw_stream_work *work, const char *upstream_host,
                     struct evbuffer *out)
{
    const struct gw_forward_header *host = find(work, BASE_STR("host"));
    struct base_str value = work->authority;
    if (value.size == 0) {
        value = host != NULL ? host->value : base_str_of(upstream_host);
    }
    return add_field(out, BASE_STR("host"), value);
}

static bool add_framing(const struct gw_stream_work *work, bool no_body, struct evbuffer *out)
{
    enum gw_method method = work->exchange.request.method;
    if (gw_proxy_request_has_length(work)) {
        return true; // forwarded with the other fields
    }
    if (!no_body) {
        return add_field(out, BASE_STR("transfer-encoding"), BASE_STR("chunked"));
    }
    bool expected =
        method == GW_METHOD_POST || method == GW_METHOD_PUT || method == GW_METHOD_PATCH;
    return !expected || add_field(out, BASE_STR("content-length"), BASE_STR("0"));
}

enum base_status gw_proxy_request_head(const struct gw_stream_work *work, const char *upstream_host,
                                       bool no_body, struct evbuffer *out)
{
    const struct gw_request *request = &work->exchange.request;
    bool ok = add(out, base_str_of(method_names[request->method])) && add(out, BASE_STR(" ")) &&
              add(out, target_of(request)) && add(out, BASE_STR(" HTTP/1.1\r\n")) &&
              add_host(work, upstream_host, out) && add_forwarded(work, out) &&
              add_framing(work, no_body, out) && add_cookies(work, out);
    for (uint32_t i = 0; i < work->header_count && ok; i++) {
        struct base_str name = work->headers[i].name;
        if (!is_dropped_request_field(name) && !base_str_equal(name, BASE_STR("cookie"))) {
            ok = add_field(out, name, work->headers[i].value);
        }
    }
    return ok && add(out, BASE_STR("\r\n")) ? BASE_OK : BASE_ERR_NOMEM;
}

static bool is_dropped_reply_field(struct base_str name)
{
    static const struct base_str dropped[] = {
        {"connection", 10},       {"keep-alive", 10},        {"upgrade", 7},
        {"proxy-connection", 16}, {"transfer-encoding", 17}, {"walle-offer", 11},
    };
    return is_one_of(name, dropped, sizeof(dropped) / sizeof(dropped[0]));
}

static nghttp2_nv field(struct base_str name, struct base_str value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name.data, (uint8_t *)(uintptr_t)value.data,
                        name.size, value.size,
                        NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

size_t gw_proxy_reply_fields(const struct gw_h1_response *response, char *status_text,
                             struct base_str offer, nghttp2_nv *out)
{
    size_t count = 0;
    status_text[0] = (char)('0' + response->status / 100);
    status_text[1] = (char)('0' + response->status / 10 % 10);
    status_text[2] = (char)('0' + response->status % 10);
    out[count++] = field(BASE_STR(":status"), (struct base_str){status_text, 3});
    for (uint32_t i = 0; i < response->field_count; i++) {
        const struct gw_h1_field *from = &response->fields[i];
        if (!is_dropped_reply_field(from->name)) {
            out[count++] = field(from->name, from->value);
        }
    }
    if (offer.size > 0) {
        out[count++] = field(BASE_STR("walle-offer"), offer);
    }
    return count;
}

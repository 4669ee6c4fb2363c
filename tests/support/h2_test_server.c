// The test server: libevent listener and bufferevents, nghttp2, and OpenSSL with a certificate of
// its own for 127.0.0.1. Everything aborts on errors of its own: it only runs in tests.
#include "h2_test_server.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <nghttp2/nghttp2.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct stream {
    struct stream *next;
    struct connection *connection;
    int32_t id;
    char method[16];
    char path[512];
    char device[64];
    char profile[12288];
    char authority[128];
    bool has_range;
    uint64_t range_from;
    uint8_t body[H2T_BODY_MAX];
    size_t body_bytes;
    struct h2t_reply reply;
    size_t sent;
    char pushed[4096];
    size_t pushed_bytes;
};

struct connection {
    struct connection *next;
    struct h2t_server *server;
    struct bufferevent *bev;
    nghttp2_session *session;
    struct stream *streams;
    uint32_t number;
    uint32_t open;
    bool dead;
};

struct h2t_server {
    struct event_base *base;
    struct h2t_options options;
    struct evconnlistener *listener;
    SSL_CTX *tls;
    char ca_path[64];
    uint16_t port;
    struct connection *connections;
    uint32_t count;
    uint32_t streams_max_seen;
};

static void must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "h2_test_server: %s\n", what);
        abort();
    }
}

static void pump(struct connection *connection)
{
    if (connection->dead) {
        return;
    }
    struct evbuffer *out = bufferevent_get_output(connection->bev);
    const uint8_t *bytes = NULL;
    ssize_t size;
    while ((size = nghttp2_session_mem_send(connection->session, &bytes)) > 0) {
        evbuffer_add(out, bytes, (size_t)size);
    }
}

static void connection_free(struct connection *connection)
{
    struct connection **link = &connection->server->connections;
    while (*link != connection) {
        link = &(*link)->next;
    }
    *link = connection->next;
    nghttp2_session_del(connection->session);
    while (connection->streams != NULL) {
        struct stream *next = connection->streams->next;
        free(connection->streams);
        connection->streams = next;
    }
    bufferevent_free(connection->bev);
    free(connection);
}

static struct stream *stream_find(struct connection *connection, int32_t id)
{
    struct stream *stream = connection->streams;
    while (stream != NULL && stream->id != id) {
        stream = stream->next;
    }
    return stream;
}

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct connection *connection = user;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0;
    }
    struct stream *stream = calloc(1, sizeof(*stream));
    must(stream != NULL, "memory");
    stream->id = frame->hd.stream_id;
    stream->connection = connection;
    stream->next = connection->streams;
    connection->streams = stream;
    connection->open++;
    if (connection->open > connection->server->streams_max_seen) {
        connection->server->streams_max_seen = connection->open;
    }
    nghttp2_session_set_stream_user_data(session, stream->id, stream);
    return 0;
}

static void text_copy(char *out, size_t capacity, const uint8_t *value, size_t size)
{
    must(size < capacity, "header too long");
    memcpy(out, value, size);
    out[size] = '\0';
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *user)
{
    (void)flags;
    (void)user;
    struct stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    struct base_str key = {(const char *)name, name_size};
    if (base_str_equal(key, BASE_STR(":method"))) {
        text_copy(stream->method, sizeof(stream->method), value, value_size);
    } else if (base_str_equal(key, BASE_STR(":path"))) {
        text_copy(stream->path, sizeof(stream->path), value, value_size);
    } else if (base_str_equal(key, BASE_STR(":authority"))) {
        text_copy(stream->authority, sizeof(stream->authority), value, value_size);
    } else if (base_str_equal(key, BASE_STR("walle-device"))) {
        text_copy(stream->device, sizeof(stream->device), value, value_size);
    } else if (base_str_equal(key, BASE_STR("walle-profile"))) {
        text_copy(stream->profile, sizeof(stream->profile), value, value_size);
    } else if (base_str_equal(key, BASE_STR("range"))) {
        must(value_size > 7 && memcmp(value, "bytes=", 6) == 0, "range form");
        must(value[value_size - 1] == '-', "range is open-ended");
        struct base_str digits = {(const char *)value + 6, value_size - 7};
        must(base_str_u64(digits, &stream->range_from) == BASE_OK, "range number");
        stream->has_range = true;
    }
    return 0;
}

static ssize_t body_read(nghttp2_session *session, int32_t id, uint8_t *out, size_t capacity,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)user;
    struct stream *stream = source->ptr;
    struct h2t_reply *reply = &stream->reply;
    size_t size = reply->body_bytes - stream->sent;
    size = size < capacity ? size : capacity;
    if (size > 0) {
        memcpy(out, reply->body + stream->sent, size);
    }
    stream->sent += size;
    if (stream->sent < reply->body_bytes) {
        return (ssize_t)size;
    }
    if (reply->act == H2T_RESET || reply->act == H2T_CLOSE) {
        if (size == 0) {
            if (reply->act == H2T_RESET) {
                nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR);
            } else {
                stream->connection->dead = true;
            }
            return NGHTTP2_ERR_DEFERRED;
        }
        return (ssize_t)size;
    }
    if (!reply->open) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        return (ssize_t)size;
    }
    size_t more = stream->pushed_bytes;
    more = more < capacity - size ? more : capacity - size;
    memcpy(out + size, stream->pushed, more);
    memmove(stream->pushed, stream->pushed + more, stream->pushed_bytes - more);
    stream->pushed_bytes -= more;
    return size + more > 0 ? (ssize_t)(size + more) : NGHTTP2_ERR_DEFERRED;
}

static void answer(struct stream *stream)
{
    struct connection *connection = stream->connection;
    struct h2t_reply *reply = &stream->reply;
    char status[8];
    char length[24];
    nghttp2_nv fields[8];
    size_t count = 0;
    snprintf(status, sizeof(status), "%d", reply->status);
    fields[count++] = (nghttp2_nv){(uint8_t *)":status", (uint8_t *)status, 7, strlen(status), 0};
    if (reply->declared_bytes != UINT64_MAX) {
        snprintf(length, sizeof(length), "%llu",
                 (unsigned long long)(reply->declared_bytes > 0 ? reply->declared_bytes
                                                                : reply->body_bytes));
        fields[count++] =
            (nghttp2_nv){(uint8_t *)"content-length", (uint8_t *)length, 14, strlen(length), 0};
    }
    for (uint32_t i = 0; i < reply->header_count; i++) {
        fields[count++] =
            (nghttp2_nv){(uint8_t *)(uintptr_t)reply->header_names[i],
                         (uint8_t *)(uintptr_t)reply->header_values[i],
                         strlen(reply->header_names[i]), strlen(reply->header_values[i]), 0};
    }
    nghttp2_data_provider provider = {.source = {.ptr = stream}, .read_callback = body_read};
    bool body =
        reply->body_bytes > 0 || reply->open || reply->act == H2T_RESET || reply->act == H2T_CLOSE;
    must(nghttp2_submit_response(connection->session, stream->id, fields, count,
                                 body ? &provider : NULL) == 0,
         "submit_response");
    if (reply->act == H2T_GOAWAY) {
        nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR,
                              NULL, 0);
    }
}

static void handle(struct stream *stream)
{
    struct connection *connection = stream->connection;
    struct h2t_server *server = connection->server;
    SSL *ssl = server->tls != NULL ? bufferevent_openssl_get_ssl(connection->bev) : NULL;
    struct h2t_request request = {
        .method = base_str_of(stream->method),
        .path = base_str_of(stream->path),
        .device = base_str_of(stream->device),
        .profile = base_str_of(stream->profile),
        .authority = base_str_of(stream->authority),
        .has_range = stream->has_range,
        .range_from = stream->range_from,
        .body = stream->body,
        .body_bytes = stream->body_bytes,
        .connection = connection->number,
        .resumed = ssl != NULL && SSL_session_reused(ssl) == 1,
    };
    stream->reply = (struct h2t_reply){.status = 200};
    server->options.handle(server->options.ctx, &request, &stream->reply);
    switch (stream->reply.act) {
    case H2T_HOLD:
        return;
    case H2T_RESET:
    case H2T_CLOSE:
        if (stream->reply.body_bytes == 0) {
            connection->dead = stream->reply.act == H2T_CLOSE;
            nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, stream->id,
                                      NGHTTP2_INTERNAL_ERROR);
            return;
        }
        break;
    case H2T_ANSWER:
    case H2T_GOAWAY:
        break;
    }
    answer(stream);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)user;
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        struct stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (stream != NULL) {
            handle(stream);
        }
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t size, void *user)
{
    (void)flags;
    (void)user;
    struct stream *stream = nghttp2_session_get_stream_user_data(session, id);
    must(size <= sizeof(stream->body) - stream->body_bytes, "request body too long");
    memcpy(stream->body + stream->body_bytes, bytes, size);
    stream->body_bytes += size;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    (void)session;
    (void)error;
    struct connection *connection = user;
    struct stream *stream = stream_find(connection, id);
    if (stream == NULL) {
        return 0;
    }
    struct stream **link = &connection->streams;
    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
    connection->open--;
    free(stream);
    return 0;
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct connection *connection = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    size_t size = evbuffer_get_length(in);
    ssize_t taken = nghttp2_session_mem_recv(connection->session, evbuffer_pullup(in, -1), size);
    if (taken < 0) {
        connection_free(connection);
        return;
    }
    evbuffer_drain(in, size);
    pump(connection);
    if (connection->dead) {
        bufferevent_flush(bev, EV_WRITE, BEV_FLUSH);
        if (evbuffer_get_length(bufferevent_get_output(bev)) == 0) {
            connection_free(connection);
        }
    }
}

static void on_written(struct bufferevent *bev, void *arg)
{
    (void)bev;
    struct connection *connection = arg;
    if (connection->dead) {
        connection_free(connection);
        return;
    }
    pump(connection);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    (void)bev;
    if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) != 0) {
        connection_free(arg);
    }
}

static void session_new(struct connection *connection)
{
    nghttp2_session_callbacks *callbacks = NULL;
    must(nghttp2_session_callbacks_new(&callbacks) == 0, "memory");
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    must(nghttp2_session_server_new(&connection->session, callbacks, connection) == 0, "memory");
    nghttp2_session_callbacks_del(callbacks);
    uint32_t max = connection->server->options.max_streams;
    nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, max > 0 ? max : 100};
    nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, &entry, 1);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *peer,
                      int size, void *arg)
{
    (void)listener;
    (void)peer;
    (void)size;
    struct h2t_server *server = arg;
    struct connection *connection = calloc(1, sizeof(*connection));
    must(connection != NULL, "memory");
    connection->server = server;
    connection->number = ++server->count;
    connection->next = server->connections;
    server->connections = connection;
    if (server->tls != NULL) {
        connection->bev = bufferevent_openssl_socket_new(
            server->base, fd, SSL_new(server->tls), BUFFEREVENT_SSL_ACCEPTING,
            BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    } else {
        connection->bev = bufferevent_socket_new(server->base, fd,
                                                 BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    }
    must(connection->bev != NULL, "bufferevent");
    session_new(connection);
    bufferevent_setcb(connection->bev, on_read, on_written, on_event, connection);
    bufferevent_enable(connection->bev, EV_READ | EV_WRITE);
    pump(connection);
}

static int select_h2(SSL *ssl, const unsigned char **out, unsigned char *out_size,
                     const unsigned char *in, unsigned int in_size, void *arg)
{
    (void)ssl;
    (void)arg;
    if (nghttp2_select_next_protocol((unsigned char **)(uintptr_t)out, out_size, in, in_size) !=
        1) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    return SSL_TLSEXT_ERR_OK;
}

static void tls_setup(struct h2t_server *server)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_EXTENSION *san =
        X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_set_version(certificate, 2);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"test", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_set_pubkey(certificate, key);
    X509_add_ext(certificate, san, -1);
    must(X509_sign(certificate, key, EVP_sha256()) > 0, "certificate");
    snprintf(server->ca_path, sizeof(server->ca_path), "/tmp/h2t-ca-XXXXXX");
    int fd = mkstemp(server->ca_path);
    FILE *file = fdopen(fd, "w");
    must(file != NULL && PEM_write_X509(file, certificate) == 1 && fclose(file) == 0, "ca file");
    server->tls = SSL_CTX_new(TLS_server_method());
    must(SSL_CTX_use_certificate(server->tls, certificate) == 1 &&
             SSL_CTX_use_PrivateKey(server->tls, key) == 1,
         "TLS context");
    SSL_CTX_set_alpn_select_cb(server->tls, select_h2, NULL);
    X509_EXTENSION_free(san);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

struct h2t_server *h2t_server_new(struct event_base *base, const struct h2t_options *options)
{
    struct h2t_server *server = calloc(1, sizeof(*server));
    must(server != NULL, "memory");
    server->base = base;
    server->options = *options;
    if (options->tls) {
        tls_setup(server);
    }
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    server->listener =
        evconnlistener_new_bind(base, on_accept, server, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE,
                                64, (struct sockaddr *)&address, sizeof(address));
    must(server->listener != NULL, "listen");
    socklen_t size = sizeof(address);
    must(getsockname(evconnlistener_get_fd(server->listener), (struct sockaddr *)&address, &size) ==
             0,
         "getsockname");
    server->port = ntohs(address.sin_port);
    return server;
}

void h2t_drop_all(struct h2t_server *server)
{
    while (server->connections != NULL) {
        connection_free(server->connections);
    }
}

void h2t_server_free(struct h2t_server *server)
{
    if (server == NULL) {
        return;
    }
    h2t_drop_all(server);
    evconnlistener_free(server->listener);
    event_base_loop(server->base, EVLOOP_NONBLOCK); // bufferevents go at the next turn
    SSL_CTX_free(server->tls);
    if (server->ca_path[0] != '\0') {
        unlink(server->ca_path);
    }
    free(server);
}

uint16_t h2t_server_port(const struct h2t_server *server)
{
    return server->port;
}

const char *h2t_server_ca_path(const struct h2t_server *server)
{
    return server->ca_path[0] != '\0' ? server->ca_path : NULL;
}

uint32_t h2t_server_connections(const struct h2t_server *server)
{
    return server->count;
}

uint32_t h2t_server_streams_max_seen(const struct h2t_server *server)
{
    return server->streams_max_seen;
}

void h2t_push(struct h2t_server *server, const char *text)
{
    for (struct connection *c = server->connections; c != NULL; c = c->next) {
        for (struct stream *stream = c->streams; stream != NULL; stream = stream->next) {
            if (stream->reply.open) {
                size_t size = strlen(text);
                must(size <= sizeof(stream->pushed) - stream->pushed_bytes, "push too long");
                memcpy(stream->pushed + stream->pushed_bytes, text, size);
                stream->pushed_bytes += size;
                nghttp2_session_resume_data(c->session, stream->id);
            }
        }
        pump(c);
    }
}

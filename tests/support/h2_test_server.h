// A small HTTP/2 server for tests: runs on the test's own event base, clear or TLS with a
// certificate made at start, and answers what a handler says, including every kind of misbehaviour
// a client must survive.
#ifndef H2_TEST_SERVER_H
#define H2_TEST_SERVER_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define H2T_BODY_MAX 65536 // of a request

struct event_base;
struct h2t_server;

struct h2t_request {
    struct base_str method;
    struct base_str path;
    struct base_str device;
    struct base_str profile;
    struct base_str authority;
    bool has_range;
    uint64_t range_from;
    const uint8_t *body;
    size_t body_bytes;
    uint32_t connection; // 1 for the first
    bool resumed;        // the TLS session was resumed
};

enum h2t_act {
    H2T_ANSWER,
    H2T_HOLD,   // never answer
    H2T_RESET,  // RST_STREAM after `body_bytes` of the body (0: at once)
    H2T_GOAWAY, // answer, and send GOAWAY
    H2T_CLOSE,  // close the connection after `body_bytes` of the body (0: at once)
};

struct h2t_reply {
    enum h2t_act act;
    int status;
    const char *header_names[4];
    const char *header_values[4]; // copied
    uint32_t header_count;
    const uint8_t *body; // must stay until the server is freed
    size_t body_bytes;
    uint64_t declared_bytes; // content-length; UINT64_MAX: none; 0: body_bytes
    bool open;               // more follows through h2t_push
};

struct h2t_options {
    bool tls;
    uint32_t max_streams; // 0: 100
    void *ctx;
    void (*handle)(void *ctx, const struct h2t_request *request, struct h2t_reply *reply);
};

struct h2t_server *h2t_server_new(struct event_base *base, const struct h2t_options *options);
void h2t_server_free(struct h2t_server *server);
uint16_t h2t_server_port(const struct h2t_server *server);
// PEM of the certificate, for the client's trust; NULL without TLS.
const char *h2t_server_ca_path(const struct h2t_server *server);
uint32_t h2t_server_connections(const struct h2t_server *server);
uint32_t h2t_server_streams_max_seen(const struct h2t_server *server);
// Sends text on every stream that was answered with `open`.
void h2t_push(struct h2t_server *server, const char *text);
// Closes all connections without a word.
void h2t_drop_all(struct h2t_server *server);

#endif

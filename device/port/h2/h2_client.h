// HTTP/2 client connection on nghttp2 over a libevent loop, clear or TLS: under the device's posix
// port, under the fleet simulator's carrier and dedicated connections, and under the load generator
// of the benchmarks.
//
// One connection carries many exchanges (streams). Everything happens on the thread that runs
// `base`. Callbacks are never made from inside h2_client_request. Bounded: requests past the peer's
// stream limit wait in the connection in order (h2_client_waiting tells how many).
#ifndef H2_CLIENT_H
#define H2_CLIENT_H

#include "base/status.h"
#include "base/str.h"

#include <stdint.h>

#define H2_CLIENT_BODY_MAX (128u * 1024) // of one open body, waiting to be sent

struct base_block_pool;
struct event_base;
struct h2_client;
struct h2_tls; // shared TLS client context (sessions are kept for resumption)

struct h2_header {
    struct base_str name; // lower case
    struct base_str value;
};

struct h2_request {
    struct base_str method; // "GET"
    struct base_str path;
    const struct h2_header *headers; // besides the pseudo headers
    uint32_t header_count;
    const uint8_t *body; // copied
    size_t body_bytes;
    // The body is what h2_client_write brings, until h2_client_finish; `body` is empty then.
    bool open_body;
    uint16_t weight; // of its body among those of the connection, 1 to 256; 0 takes 16
    // A request that may be played back by somebody without harm: it may be made, with what is
    // written `early` of its body, before the TLS handshake is complete (0-RTT), when every request
    // of the connection so far is such a one.
    bool early;
};

enum h2_encoding {
    H2_ENCODING_IDENTITY,
    H2_ENCODING_DCZ,
    H2_ENCODING_WDELTA,
    H2_ENCODING_OTHER,
};

// Values of response headers the callers here care for; everything else is skipped unless on_header
// is set.
struct h2_head {
    int status;
    enum h2_encoding encoding; // content-encoding
    uint64_t content_bytes;    // UINT64_MAX: not said
    uint64_t range_from;       // from content-range
    uint32_t retry_after_s;
    struct base_str offer;  // walle-offer; valid during the call
    struct base_str ride;   // walle-ride; likewise
    struct base_str reason; // walle-reason; likewise
};

// `user` is the value given with the request.
struct h2_events {
    void (*head)(void *ctx, void *user, const struct h2_head *head);
    void (*body)(void *ctx, void *user, const uint8_t *bytes, size_t size);
    // Exactly once per request that was accepted and not cancelled. OK: complete. CLOSED, TIMEOUT,
    // IO otherwise.
    void (*end)(void *ctx, void *user, enum base_status status);
    // The connection can carry requests (OK), or is gone (negative; after every `end`). May be
    // NULL.
    void (*state)(void *ctx, struct h2_client *client, enum base_status status);
    void *ctx;
    // After h2_client_write said BUSY: there is room again. May be NULL.
    void (*writable)(void *ctx, void *user);
};

struct h2_options {
    struct base_str host; // numeric address, or a name (the system resolver may then block); also
                          // SNI and :authority
    uint16_t port;
    struct h2_tls *tls;             // NULL: clear text with prior knowledge
    struct base_str source_address; // local address to bind; empty: any
    uint32_t window_bytes;          // per-stream receive window; 0: 65,535
    uint32_t connect_timeout_ms;    // 0 takes 10,000
    bool small;                     // shrink buffers: for thousands of connections
    // A stream socket that is connected and does not block is there: `fd`, the client's from the
    // call on, whatever comes of it. `host` and `port` are then names alone.
    bool connected;
    int fd;
    // Where the codec's small blocks come from and go to, of this thread; it must outlive the
    // client. NULL: the heap.
    struct base_block_pool *blocks;
};

// `ca_pem_path` NULL: the peer is not verified (development certificates in tests and simulations
// only). INVALID when the file does not load. Ignores SIGPIPE unless the program decided about it.
BASE_NODISCARD enum base_status h2_tls_new(const char *ca_pem_path, struct h2_tls **out_tls);
// Shows this certificate to peers that ask for one: PEM files. INVALID.
BASE_NODISCARD enum base_status h2_tls_certificate(struct h2_tls *tls, const char *certificate_path,
                                                   const char *key_path);
// A wall clock behind `born_s` (seconds since 1970) was never set: the peer's certificate is not
// held against it. Its issuer, its name and its signature are, and what a device follows is signed
// besides. Before the first connection; 0: a clock is always believed.
void h2_tls_born(struct h2_tls *tls, uint64_t born_s);
void h2_tls_free(struct h2_tls *tls);

// Starts connecting; `state` is called later. Requests may be made at once. IO, NOMEM, INVALID,
// LIMIT (no file descriptors). `events` is copied; `tls` must outlive the client.
BASE_NODISCARD enum base_status h2_client_new(struct event_base *base,
                                              const struct h2_options *options,
                                              const struct h2_events *events,
                                              struct h2_client **out_client);
// Ends every exchange with CLOSED (their `end` runs before this returns; `state` is not called) and
// frees. Accepts NULL. Allowed from a callback: the memory then goes when the callback returned.
void h2_client_free(struct h2_client *client);
// CLOSED when the connection is gone or draining (GOAWAY), LIMIT, NOMEM, INVALID. *out_stream names
// it for cancel.
BASE_NODISCARD enum base_status h2_client_request(struct h2_client *client,
                                                  const struct h2_request *request, void *user,
                                                  int32_t *out_stream);
// More of an open body, all of it or nothing. BUSY: over H2_CLIENT_BODY_MAX would be waiting;
// `writable` is called when half of that is gone. CLOSED: no such stream, or its body is finished.
// TOO_LARGE, NOMEM. `early`: see struct h2_request; only in front of what is not.
BASE_NODISCARD enum base_status h2_client_write(struct h2_client *client, int32_t stream,
                                                const uint8_t *bytes, size_t size, bool early);
// The open body ends behind what was written.
void h2_client_finish(struct h2_client *client, int32_t stream);
// RST_STREAM(CANCEL); no callback follows for it.
void h2_client_cancel(struct h2_client *client, int32_t stream);
bool h2_client_usable(const struct h2_client *client);
// Static text of what went wrong, to be asked when `state` told a negative status: what the system
// or the check of the certificate said. NULL where the status says it all.
const char *h2_client_why(const struct h2_client *client);
// It ended since the peer's certificate is not one of h2_tls_new's CA file, or not for this host.
bool h2_client_unbelieved(const struct h2_client *client);
uint32_t h2_client_open_streams(const struct h2_client *client);
uint32_t h2_client_waiting(const struct h2_client *client);
// Of the TLS handshake: was a session resumed, was early data accepted? False before its end.
void h2_client_handshake(const struct h2_client *client, bool *out_resumed, bool *out_early);
// Bytes read and written on the socket so far.
void h2_client_traffic(const struct h2_client *client, uint64_t *out_read, uint64_t *out_written);

#endif

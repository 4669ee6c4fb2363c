// One request and its reply, between whatever speaks HTTP (gateway/http, or the simulator and tests
// directly) and the gateway's socket-free core.
//
// The transport fills `request`, gives the exchange an arena that lives as long as the stream, and
// calls gw_core_handle on the worker that owns the stream. The core answers at once, or keeps the
// exchange and answers later; either way it calls `finish` exactly once, on the owning worker.
// After `abandon` (the stream is gone) the core still calls finish, which then only releases
// memory.
//
// Two-way streams. A request whose route is GW_ROUTE_DUPLEX is handed over when its headers are
// complete, its body open, and answered before gw_core_handle returns. With GW_REPLY_DUPLEX
// both bodies stay open and carry frames of the tunnel (tunnel/gw_tunnel.h); any other answer ends
// it. Of GW_ROUTE_OPEN: svc/two_way.h.
#ifndef GW_EXCHANGE_H
#define GW_EXCHANGE_H

#include "base/arena.h"
#include "base/str.h"

#include <stdint.h>

#define GW_REPLY_HEADERS_MAX  12
#define GW_REPLY_TRAILERS_MAX 2

enum gw_method {
    GW_METHOD_GET,
    GW_METHOD_HEAD,
    GW_METHOD_POST,
    GW_METHOD_PUT,
    GW_METHOD_PATCH,
    GW_METHOD_DELETE,
    GW_METHOD_OPTIONS, // for the upstream; here everything answers it with 405 and what it allows
    GW_METHOD_OTHER,   // 501
    GW_METHOD_COUNT
};

// Borrowed from the stream's arena. Empty when the header was not there.
struct gw_request {
    enum gw_method method;
    struct base_str path;            // without query, percent-encoding untouched
    struct base_str authority;       // host and port as the client named them
    struct base_str query;           // behind '?', without it
    struct base_str device;          // walle-device
    struct base_str profile;         // walle-profile
    struct base_str nonce;           // walle-nonce
    struct base_str ride;            // walle-ride: it stands for a check-in
    struct base_str report;          // walle-report: which brings a report
    struct base_str accept_encoding; // accept-encoding
    struct base_str available_dictionary;
    struct base_str range;
    struct base_str if_none_match;
    struct base_str if_range;
    struct base_str authorization;
    struct base_str content_type;
    struct base_str grpc_timeout;  // grpc-timeout
    struct base_str grpc_encoding; // grpc-encoding
    struct base_str if_match;
    struct base_str idempotency_key;
    struct base_str infer_json;   // inference-header-content-length: how much of the body is JSON
    struct base_str trace_parent; // traceparent (W3C Trace Context)
    struct base_str trace_state;  // tracestate
    struct base_str credential;   // walle-credential: of a device
    struct base_str enrol_key;    // walle-enroll-key: what a device drew before it enrols
    struct base_str priority;     // priority (RFC 9218)
    struct base_str origin;       // origin: of a browser's page
    struct base_str fetch_site; // sec-fetch-site: how a browser sees that page beside this gateway
    struct base_str tenant;     // walle-tenant: in which an operator of all tenants acts
    const uint8_t *body;
    size_t body_bytes;
    // Who sends, for limits: an IPv4 address, or the /64 of an IPv6 one; no two share a number.
    uint64_t peer;
    bool loopback; // the peer is on this machine
    // Set when the request shows a credential or token that holds; NULL: nobody asks.
    bool *proven;
    // The peer showed a client certificate that verified and names a device.
    bool has_certificate;
    uint64_t certificate_device;
    struct base_str certificate_tenant; // its organisation; empty: none named
    bool secure;                        // over TLS
    bool hop; // through a trusted hop (listen.trusted_hops), which may have ended TLS itself
};

struct gw_header {
    struct base_str name; // lower case; static or in the arena
    struct base_str value;
};

enum gw_reply_kind {
    GW_REPLY_BYTES,  // status, headers, body in memory
    GW_REPLY_BLOB,   // body is a byte range of a stored blob, streamed by the transport through
                     // gw_blob_bytes
    GW_REPLY_STREAM, // stays open: a hint stream; `body` comes first, then the transport writes
                     // what the core hands to its gw_hint_fn
    GW_REPLY_DUPLEX, // both bodies stay open: a tunnel stream of `device`
    GW_REPLY_OPEN,   // both bodies stay open until finish (svc/two_way.h)
    GW_REPLY_KIND_COUNT
};

struct gw_core;
struct gw_blob; // reference to stored content, see svc/content/blob.h

struct gw_reply {
    enum gw_reply_kind kind;
    int status;
    struct gw_header headers[GW_REPLY_HEADERS_MAX]; // besides :status and content-length
    uint32_t header_count;
    const uint8_t *body; // arena or static
    size_t body_bytes;
    // BYTES in HTTP/2: fields behind the body, which is then not empty.
    struct gw_header trailers[GW_REPLY_TRAILERS_MAX];
    uint32_t trailer_count;
    struct gw_blob *blob; // a reference that passes to the transport with finish
    uint64_t blob_from;
    uint64_t blob_bytes;
    uint64_t device; // DUPLEX: who it is, checked
    uint32_t tenant; // ... and whose
    bool proven;     // ... which it showed
};

#define GW_BODY_SMALL_BYTES 16384u // of routes that take a report or nothing

enum gw_body_size {
    GW_BODY_SMALL,  // GW_BODY_SMALL_BYTES
    GW_BODY_PLAIN,  // limits.body_bytes
    GW_BODY_UPLOAD, // limits.upload_bytes
    GW_BODY_INFER,  // limits.infer_bytes
    GW_BODY_SIZE_COUNT
};

// What the beginning of a body decides.
enum gw_early {
    GW_EARLY_GO_ON,   // nothing
    GW_EARLY_MORE,    // not known yet
    GW_EARLY_REFUSED, // the reply is filled
    GW_EARLY_COUNT
};

struct gw_route;     // svc/route.h
struct gw_open_port; // svc/two_way.h
struct gw_open_calls;

struct gw_exchange {
    struct base_arena *arena;
    struct gw_request request;
    const struct gw_route *route; // of its path; NULL: not looked up, or none
    struct gw_reply reply;
    void *owner;                              // the transport's stream
    void (*finish)(struct gw_exchange *self); // set by the transport
    // Set by the core while it keeps an exchange for long: the transport calls it, on the owning
    // worker, when it has set `abandoned`, or when the peer shut its side of an HTTP/1.1
    // connection; perhaps for both. finish is still to come. NULL: nobody wants to know.
    void (*gone)(struct gw_exchange *self);
    void *keeper; // whoever set that finds the rest by it
    // Set by the core where the reply's body lies in memory of its own: gives that back when the
    // transport has no room for the answer and says something else. NULL: it lies in the arena.
    void (*drop)(struct gw_exchange *self);
    // For a stream that may stay open both ways; NULL: not over this transport.
    const struct gw_open_port *open;
    const struct gw_open_calls *opened; // set by its `begin`
    bool proven;                        // what request.proven points to
    bool abandoned; // set by the transport; read by the core on the owning worker only
    bool refused;   // set by the core at the headers: the reply is filled (svc/access/head_check.h)
    // Set by the core: called when the answer is an error. NULL: it is not noted.
    void (*note)(struct gw_core *core, int as, const struct gw_exchange *self);
    struct gw_core *noted; // its first two arguments
    int noted_as;
};

// Adds a header; silently ignored past GW_REPLY_HEADERS_MAX (a bug caught by base_assert in debug
// builds).
void gw_reply_header(struct gw_reply *reply, struct base_str name, struct base_str value);
// The same of what comes behind the body.
void gw_reply_trailer(struct gw_reply *reply, struct base_str name, struct base_str value);

#endif

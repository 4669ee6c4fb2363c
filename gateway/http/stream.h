// One HTTP/2 stream: a request, its way through the core or the proxy, and its reply.
//
//   HEADERS -> BODY -> HANDLING -> REPLYING -> CLOSED
//                         |-----> HINTS ----/         (a hint stream stays open)
//   HEADERS -> HANDLING --+-----> TUNNEL ---/          (so does a tunnel stream, both ways)
//   HEADERS -> HANDLING --+-----> OPEN -> REPLYING     (both ways, while the core has it)
//   any -> CLOSED when the peer or the connection goes away
//
// A reply is committed exactly once. What a request needs besides (arena, exchange, body) is a
// `gw_stream_work`, given back when the stream becomes one that stays open, so that 200,000 of
// those cost little. When the stream goes while the core still has the exchange, the work lives on,
// marked abandoned, until the core calls finish.
#ifndef GW_HTTP_STREAM_H
#define GW_HTTP_STREAM_H

#include "base/arena.h"
#include "http/memory/body_budget.h"
#include "http/memory/body_spool.h"
#include "http/guard/peer_table.h"
#include "http/send_guard.h"
#include "svc/access/head_check.h"
#include "svc/core.h"

#include <nghttp2/nghttp2.h>

struct gw_conn;
struct gw_http_worker;
struct gw_proxy_exchange;
struct gw_proxy_ride;
struct gw_hint_stream;
struct gw_hint_text;
struct gw_tunnel_stream;

#define GW_STREAM_FORWARD_HEADERS_MAX 100
#define GW_STREAM_CHUNK_BYTES         2048
#define GW_STREAM_ARENA_MAX           (256 * 1024)
#define GW_STREAM_ANSWER_FREE_BYTES   4096 // of a model; larger ones are counted
// Of a body that was refused by its beginning, which its caller goes on to send.
#define GW_STREAM_UNWANTED_BYTES_MAX (1024u * 1024)
#define GW_STREAM_LINGER_MS          1000 // for an unwanted body to end by itself

enum gw_stream_state {
    GW_STREAM_HEADERS,  // header block is being read
    GW_STREAM_BODY,     // request body is being read
    GW_STREAM_HANDLING, // the core or the proxy works on it
    GW_STREAM_REPLYING, // reply submitted
    GW_STREAM_HINTS,    // reply submitted, stays open
    GW_STREAM_TUNNEL,   // reply submitted, both bodies stay open
    GW_STREAM_OPEN,     // the same while the core works on it (stream_open.c)
    GW_STREAM_CLOSED,
    GW_STREAM_STATE_COUNT
};

struct gw_stream {
    struct gw_conn *conn;
    struct gw_stream *next; // in one of the connection's lists; or in the worker's pool
    struct gw_stream **prev;
    struct gw_stream_work *work;     // NULL once it is a stream that stays open
    struct gw_hint_stream *hints;    // NULL unless it is a hint stream
    struct gw_tunnel_stream *tunnel; // NULL unless it is a tunnel stream
    uint64_t moved_ms;               // last progress: what its deadline counts from
    int32_t id;
    uint32_t unwanted_left; // of a body that was refused early: so much still gets its window back
    uint8_t state;
    bool committed;    // a reply was submitted
    bool request_done; // END_STREAM seen
    bool head;         // HEAD: no body goes out
    bool reset_after;  // the body was not wanted: when the reply is out, the stream lingers
    bool lingers;      // the reply is out: RST_STREAM(NO_ERROR) unless the request ends by itself
};

// A header that is forwarded to the upstream.
struct gw_forward_header {
    struct base_str name;
    struct base_str value;
};

// Where the next bytes of a body go.
struct gw_body_room {
    uint8_t *out;
    size_t size; // bytes at `out`
    bool ended;  // set by the source: what it gave now is the last of the body
};
// Body source of a reply: how many bytes it put into the room. ERR_DEFERRED: none now, and
// nghttp2_session_resume_data says when; ERR_TEMPORAL_CALLBACK_FAILURE: the stream is reset.
typedef ssize_t (*gw_stream_source_fn)(struct gw_stream *stream, struct gw_body_room *room);

struct gw_stream_work {
    struct gw_stream *stream; // NULL: abandoned
    struct gw_http_worker *worker;
    struct gw_stream_work *next; // in the worker's pool
    struct base_arena arena;
    struct gw_body_spool spool; // the body
    struct gw_actor_key actor;  // who answers for it; set where a body or the upstream is wanted
    uint64_t reserved[GW_BUDGET_PLACE_COUNT]; // counted in the budget
    uint64_t body_max;
    uint64_t length; // content-length
    bool has_length;
    bool looks;          // the core looks at the body while it comes
    size_t look_at;      // ... when so much of it is there
    struct gw_head head; // of a request for the upstream
    uint64_t began_us;
    gw_stream_source_fn source;  // of the reply's body, once one is submitted
    uint64_t sent;               // reply body bytes given to nghttp2
    struct gw_send_guard taking; // how its peer takes them, where that is watched
    bool deferred;               // of an open stream: nghttp2 waits to be told that there is output
    uint32_t header_bytes;
    struct gw_peer_address client; // who asks, as far as is known: limits and logs are by it
    int refuse_status; // a limit was crossed: the answer, once headers are complete; 0: none
    bool forward;      // the path belongs to the upstream
    bool path_seen;
    struct base_str authority;
    struct gw_forward_header *headers; // forwarded ones, GW_STREAM_FORWARD_HEADERS_MAX
    uint32_t header_count;
    struct gw_proxy_exchange *proxy;
    struct gw_proxy_ride *ride; // in the arena; NULL: no report rides with the request
    char status_text[4];
    char length_text[24];
    struct gw_exchange exchange;
};

// Called from nghttp2's callbacks.
struct gw_stream *gw_stream_new(struct gw_conn *conn, int32_t id); // NULL: out of memory
// The request is whole. True: it is to be handed over.
bool gw_stream_request_done(struct gw_stream *stream);
// The reply is out, the request's body is not in, and nobody wants it. A small one may come to its
// end (many clients take a reset for a failure, whatever came before it); what comes is thrown
// away, and no window is given for more, but where it was refused by its beginning.
void gw_stream_linger(struct gw_stream *stream);
// The request goes to the core or the proxy with the body there is.
void gw_stream_hand_over(struct gw_stream *stream);
// The peer of these streams, a list, sends no more: in HTTP/1.1 that is all there is to see when
// it went away. What takes long is told; others are answered.
void gw_stream_peer_left(struct gw_stream *first);
// The stream is gone (closed by nghttp2, or with its connection); frees it.
void gw_stream_close(struct gw_stream *stream);
// It stays open from now on: from the connection's streams with deadlines to those without.
void gw_stream_stays(struct gw_stream *stream);
// True when `now_ms` is past the stream's deadline; *out_status gets the reply for it when one can
// still be sent, else 0.
bool gw_stream_overdue(const struct gw_stream *stream, uint64_t now_ms, int *out_status);

// stream_headers.c: one request header. Values that matter are copied to the arena.
void gw_stream_header(struct gw_stream *stream, struct base_str name, struct base_str value);

// stream_head.c: the header block is complete.
void gw_stream_headers_done(struct gw_stream *stream);

// stream_body.c: a piece of the body.
void gw_stream_body(struct gw_stream *stream, const uint8_t *bytes, size_t size);
// Puts the body into the request. NOMEM.
BASE_NODISCARD enum base_status gw_stream_body_whole(struct gw_stream_work *work);
// Counts the answer of a model, which stays until its reader has it. False: too many wait.
bool gw_stream_count_answer(struct gw_stream_work *work);
// So many bytes of calls are held now in this place of the budget. LIMIT, BUSY, NOMEM: as before.
BASE_NODISCARD enum base_status gw_stream_hold(struct gw_stream_work *work,
                                               enum gw_budget_place place, uint64_t bytes);
// Forgets the body and gives back what it took.
void gw_stream_body_release(struct gw_stream_work *work);
void gw_stream_budget_limits(const struct gw_http_worker *worker, enum gw_budget_place place,
                             struct gw_budget_limits *out);

// stream_reply.c: submits the work's reply (exchange.reply).
void gw_stream_commit(struct gw_stream *stream);
// Submits a problem document (RFC 9457) as the reply; below /v2 {"error":DETAIL}.
void gw_stream_problem(struct gw_stream *stream, int status, const char *detail);
// Submits a reply whose body comes from `source`, NULL: it has none; header values must live as
// long as the work.
void gw_stream_commit_body(struct gw_stream *stream, const nghttp2_nv *headers, size_t count,
                           gw_stream_source_fn source);

bool gw_stream_may_follow(enum gw_stream_state from, enum gw_stream_state to);
// Checks that `state` may follow.
void gw_stream_set_state(struct gw_stream *stream, enum gw_stream_state state);
// The work goes back to its pool; its stream, if any, forgets it.
void gw_stream_work_release(struct gw_stream_work *work);

#endif

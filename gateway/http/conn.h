// One connection: a socket, TLS or clear, with an nghttp2 server session on it. Idle, it holds no
// I/O buffer: it reads into and writes from buffers of its worker.
#ifndef GW_HTTP_CONN_H
#define GW_HTTP_CONN_H

#include "http/parse/frame_scan.h"
#include "http/memory/h2_memory.h"
#include "http/header_guard.h"
#include "http/guard/peer_table.h"
#include "http/send_guard.h"
#include "http/loop/timer_wheel.h"
#include "http/loop/turns.h"
#include "policy/ratelimit.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

struct gw_conn_intro;
struct gw_h1_door;
struct gw_http_worker;
struct gw_stream;

enum gw_conn_state {
    GW_CONN_INTRO,     // a trusted balancer says whom it carries
    GW_CONN_HANDSHAKE, // TLS
    GW_CONN_OPEN,      // HTTP/2, or HTTP/1.1 through a door
    GW_CONN_LINGER,    // our side is shut; input is thrown away so that the last frames arrive
    GW_CONN_CLOSED,    // about to be freed
    GW_CONN_STATE_COUNT
};

struct gw_conn {
    struct gw_http_worker *worker;
    struct gw_conn *next;
    struct gw_conn **prev;
    struct gw_conn *dirty_next;
    struct gw_timer timer;
    struct gw_turn turn;
    struct event event; // read, or read and write
    int fd;
    uint8_t state;
    bool dirty;
    bool busy;           // inside nghttp2: must not be freed or flushed
    bool tls;            // or will be
    bool counted;        // in the table of peers
    bool loopback;       // peer is on this machine, and nobody is behind it
    bool hop;            // peer is a trusted hop: x-forwarded-for says who asks
    bool proven;         // somebody has shown on it a credential, certificate or token that holds
    bool carries_tunnel; // small answers overtake a download on it
    bool early;          // open, and its handshake is not complete: what came is early data
    bool early_read;     // all of its early data was read, or there was none
    uint8_t magic_bytes; // of the first three, which tell HTTP/2 from HTTP/1.1; 3: it is told
    bool preface_seen;   // the peer's first SETTINGS came
    bool draining;       // told to open no more streams
    bool goaway_sent;    // with the last stream served: closes with its last stream
    bool trimmed;        // idle memory was given back
    bool want_read;
    bool want_write;
    bool read_on;                     // there may be input that makes no socket readable
    bool failed;                      // to be closed at the next flush
    bool ping_sent;                   // and nothing heard since
    struct gw_conn_intro *intro;      // NULL: there is none to come
    struct gw_h1_door *door;          // NULL: it speaks HTTP/2
    SSL *ssl;                         // NULL: clear
    struct gw_tls_identity *identity; // of a client certificate; NULL: none
    nghttp2_session *session;
    struct gw_h2_lease lease;
    struct gw_peer_address peer;

    struct gw_stream *active;  // requests and replies
    struct gw_stream *lasting; // hint and tunnel streams
    struct gw_stream *current; // whose header block is being read
    uint32_t stream_count;     // in both lists
    int32_t last_stream;       // highest id opened
    int32_t skipped_from;      // ids last skipped by the peer: never opened
    int32_t skipped_to;
    int32_t reset_low; // lowest and highest stream that we reset; 0: none
    int32_t reset_high;
    uint32_t block_bytes; // of the header block being read

    uint8_t *rest; // unsent output
    uint32_t rest_at;
    uint32_t rest_bytes;

    uint64_t read_ms;   // last input
    uint64_t write_ms;  // last progress of `rest`
    uint64_t ping_ms;   // when it was sent
    uint64_t idle_ms;   // since when there is no stream
    uint64_t begun_ms;  // when it was accepted
    uint64_t paused_ms; // until when it is not read; 0: it is
    uint64_t dated_s;   // which second's date an answer said last
    struct gw_frame_scan scan;
    struct gw_header_guard headers;
    struct gw_send_guard sending;
    struct pol_ratelimit resets;
    struct pol_ratelimit controls;
};

#define GW_CONN_ANSWER_TABLE_BYTES 1024 // HPACK table of our answers; 2 to 3 times that in memory
#define GW_CONN_LINGER_MS          1000 // our side is shut: for the peer to shut its own

struct gw_conn_origin {
    struct gw_peer_address peer; // counted in the table of peers
    bool loopback;
    bool hop;
    bool proxied; // begins with a PROXY header
};

// Takes an accepted socket, whatever the outcome. NOMEM, IO.
BASE_NODISCARD enum base_status gw_conn_new(struct gw_http_worker *worker, int fd, bool tls,
                                            const struct gw_conn_origin *origin);
// Closes at once and frees; not from inside nghttp2 (set `failed` there). Streams are ended.
void gw_conn_free(struct gw_conn *conn);
// There is something to write: it goes out at the end of the event.
void gw_conn_mark(struct gw_conn *conn);
// Its turn of those that wait for one: a further request, or input that makes no socket readable.
void gw_conn_on_turn(struct gw_conn *conn);
// Writes what there is; may close and free the connection.
void gw_conn_flush(struct gw_conn *conn);
// Hands frames to the connection's session: from the peer, or from its door.
void gw_conn_feed(struct gw_conn *conn, const uint8_t *bytes, size_t size);
// Writes frames now if the socket took all that went before; not from inside nghttp2. The
// connection stays, `failed` or not.
void gw_conn_write_now(struct gw_conn *conn);
// Small answers that somebody waits for go out on this connection: a last one that was lost is sent
// again early (where the kernel can: Linux 6.16). A download beside them waits here, where they
// overtake it, rather than in the kernel, as on every connection. Once.
void gw_conn_carry_tunnel(struct gw_conn *conn);
// Tells the peer to open no more streams, but serves those it does (RFC 9113, 6.8). Hint streams
// are ended.
void gw_conn_drain(struct gw_conn *conn);
// Ends the tunnel streams that are still there after what they have to send.
void gw_conn_end_tunnels(struct gw_conn *conn);
// A little later: GOAWAY with the last stream served; the connection ends with its last stream.
void gw_conn_drain_last(struct gw_conn *conn);
// Ends the connection with GOAWAY(error) after what is queued.
void gw_conn_terminate(struct gw_conn *conn, uint32_t error);
// Large header fields wait when the peer's address has had enough of them: false, and it is not
// read until conn->paused_ms.
bool gw_conn_pay_headers(struct gw_conn *conn);
// conn_deadlines.c: timer callback of the worker's wheel.
void gw_conn_on_timer(struct gw_conn *conn);
// ... A stream was added, or a head of HTTP/1.1 comes: its deadlines are looked at from now on.
void gw_conn_wake_timer(struct gw_conn *conn);

// h2_events.c: the callbacks of every session.
// A frame begins that nghttp2 has not seen yet, but everything in front of it when it is a DATA
// frame: for what nghttp2 drops without a callback. May terminate the connection.
void gw_h2_frame_ahead(struct gw_conn *conn, const struct gw_frame_head *head);
void gw_h2_events_set(nghttp2_session_callbacks *callbacks);

#endif

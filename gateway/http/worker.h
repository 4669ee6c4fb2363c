// One worker: a thread with an event base, its listeners, its connections and its view of the core.
// Everything in here belongs to that thread; others reach it through the mailbox only
// (worker_life.h has what they call).
//
// Lifetimes: process (gw_server) > worker > connection (conn.h) > stream (stream.h).
#ifndef GW_HTTP_WORKER_H
#define GW_HTTP_WORKER_H

#include "base/log.h"
#include "base/ports.h"
#include "http/config/http_limits.h"
#include "http/config/http_trust.h"
#include "http/memory/h2_memory.h"
#include "http/loop/mailbox.h"
#include "http/guard/peer_rates.h"
#include "http/guard/peer_table.h"
#include "http/loop/timer_wheel.h"
#include "http/loop/turns.h"
#include "http/worker_life.h"
#include "svc/core.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>

struct event;
struct event_base;
struct gw_body_budget;
struct gw_conn;
struct gw_host_list;
struct gw_hint_text;
struct gw_tunnel_worker;
struct gw_listener;
struct gw_overload;
struct gw_proxy;
struct gw_stream;
struct gw_stream_work;

#define GW_WORKER_INPUT_BYTES  (64 * 1024)
#define GW_WORKER_OUTPUT_BYTES (64 * 1024) // written at once when there is that much
#define GW_WORKER_LISTENERS    2
#define GW_WORKER_POOL_MAX     1024 // stream objects kept for reuse
#define GW_WORKER_TICK_MS      100
#define GW_WORKER_LATE_MS      1000 // between two ticks: the worker did not run
#define GW_WORKER_SHED_MS      400  // between two looks for connections that have to go

enum gw_worker_state {
    GW_WORKER_RUNNING,
    GW_WORKER_DRAINING, // no new connections; open streams may finish
    GW_WORKER_STOPPING, // every connection is closed; waiting for the core's last answers
    GW_WORKER_STOPPED,
    GW_WORKER_STATE_COUNT
};

struct gw_http_worker {
    // Fixed for the worker's life.
    uint32_t index;
    pthread_t thread;
    bool started; // the thread was; it is joined in free
    bool has_tls;
    struct gw_worker *svc;
    struct gw_tunnel_worker *tunnel; // NULL: no tunnel
    struct gw_transport_stats *stats;
    struct gw_peer_table *peers;   // shared by all workers
    struct gw_peer_rates *rates;   // as well
    struct gw_overload *overload;  // as well; NULL: nobody measures
    uint32_t worker_count;         // of the server
    struct gw_body_budget *budget; // the same
    bool own_budget;               // it was given none
    const char *spool_dir;         // where large bodies go on; NULL: nowhere
    const struct base_log *log;
    void (*stopped)(void *ctx, struct gw_http_worker *worker); // called once, at the thread's end
    void *stopped_ctx;
    struct base_clock_port clock; // `mono_us` NULL: the system's, and the worker runs by itself
    struct gw_http_tap tap;       // `asked` NULL: nobody

    struct event_base *base;
    struct gw_mailbox mailbox;
    struct event *mailbox_event;
    struct event *tick_event;
    struct event *turn_event;  // due at once while somebody waits for a turn
    struct event *alarm_event; // the core's (gw_worker_on_alarm)
    uint64_t alarm_us;         // ... of a worker by hand; UINT64_MAX: none
    struct gw_listener *listeners[GW_WORKER_LISTENERS];
    struct gw_proxy *proxy; // NULL: no upstream

    // Replaced by message.
    struct gw_limits limits;
    struct gw_trust trust;
    SSL_CTX *tls;               // NULL: no TLS listener
    struct gw_host_list *hosts; // NULL: any
    uint64_t proxy_body_bytes;
    enum gw_worker_state state;
    uint64_t drain_from_ms;
    uint64_t drain_until_ms;
    bool tunnels_ended; // by the drain

    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    struct gw_h2_memory h2_memory;
    struct gw_wheel wheel;
    struct gw_turns turns;
    uint64_t intro_warn_ms; // when to say the next wrong PROXY header
    uint64_t shed_ms;       // when to look again
    uint64_t now_us;        // of the current event
    uint64_t now_ms;
    uint64_t tick_ms; // of the last tick, or of the start
    bool late;        // the tick came much later than it should: others had the machine

    struct gw_conn *conns;
    struct gw_conn *dirty; // have something to write
    uint64_t body_bytes;   // request bodies held
    uint64_t unfinished;   // exchanges the core has
    struct gw_stream *stream_pool;
    uint32_t stream_pool_count;
    struct gw_stream_work *work_pool;
    uint32_t work_pool_count;
    struct gw_hint_text *last_hint; // shared by the streams that were told the same
    char authority[64];             // of hosts, seen last
    uint32_t authority_bytes;
    char date[32]; // IMF-fixdate of date_s
    uint64_t date_s;

    uint8_t *input;      // GW_WORKER_INPUT_BYTES, shared by all connections
    uint8_t *output;     // GW_WORKER_OUTPUT_BYTES + one frame
    size_t output_bytes; // filled
};

// Reads the clock: at the start of every event.
void gw_http_worker_now(struct gw_http_worker *worker);
// The steady clock that the worker goes by, read now.
uint64_t gw_http_worker_mono_us(const struct gw_http_worker *worker);
// An event each, for who runs a worker by hand: a tick, and the core's alarm, when it is due.
void gw_http_worker_tick(struct gw_http_worker *worker);
void gw_http_worker_alarm(struct gw_http_worker *worker);
// Writes out what the event has produced: at the end of every event.
void gw_http_worker_flush(struct gw_http_worker *worker);
// Queues a connection for its turn, behind the others. NOMEM: it has none.
BASE_NODISCARD enum base_status gw_http_worker_queue(struct gw_http_worker *worker,
                                                     struct gw_turn *turn);
// Ends the loop when a stopping worker has nothing left.
void gw_http_worker_maybe_stopped(struct gw_http_worker *worker);
// The date header's value: valid for the worker's life, brought up to date in place.
struct base_str gw_http_worker_date(struct gw_http_worker *worker);

#endif

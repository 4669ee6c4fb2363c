// A worker's life, seen from the main thread: made, given its sockets, started, told new settings,
// stopped and freed. What runs on the worker's own thread finds the rest in worker.h.
//
// A worker is freed only when its thread has ended (`stopped` was called) or never started.
#ifndef GW_HTTP_WORKER_LIFE_H
#define GW_HTTP_WORKER_LIFE_H

#include "base/error.h"
#include "base/log.h"
#include "http/config/http_config.h"
#include "svc/core.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

struct base_clock_port;
struct gw_body_budget;
struct gw_exchange;
struct gw_host_list;
struct gw_http_worker;
struct gw_overload;
struct gw_peer_rates;
struct gw_peer_table;
struct gw_tunnel;

// Where a request came in: the worker's end of its connection, and its stream there.
struct gw_http_place {
    int fd;
    int32_t stream;
};

// Sees what the core is asked and what it says, on the worker's thread, and changes nothing of it.
// Both or neither.
struct gw_http_tap {
    void *ctx;
    // The request is whole; the core has it next.
    void (*asked)(void *ctx, const struct gw_exchange *exchange, const struct gw_http_place *place);
    // The reply is filled, and goes out next. Not of a stream that is gone.
    void (*answered)(void *ctx, const struct gw_exchange *exchange,
                     const struct gw_http_place *place);
};

struct gw_http_worker_options {
    uint32_t index;
    struct gw_core *core;
    struct gw_tunnel *tunnel; // NULL: no tunnel
    struct gw_peer_table *peers;
    struct gw_peer_rates *rates;
    struct gw_overload *overload; // NULL: nobody measures
    uint32_t worker_count;        // of the server; 0: this one alone
    const struct gw_http_config *config;
    SSL_CTX *tls;                  // a reference is taken
    struct gw_host_list *hosts;    // the same; NULL: any name
    struct gw_body_budget *budget; // outlives the worker; NULL: it makes one of its own
    const char *spool_dir;         // the same; NULL: bodies stay in memory
    // NULL: the system's. With another one nothing happens by itself: hand/hand_worker.h.
    const struct base_clock_port *clock;
    const struct gw_http_tap *tap; // copied; NULL: nobody
    const struct base_log *log;
    void (*stopped)(void *ctx, struct gw_http_worker *worker);
    void *stopped_ctx;
};

// Builds the worker; its thread does not run yet. NOMEM, IO.
BASE_NODISCARD enum base_status gw_http_worker_new(const struct gw_http_worker_options *options,
                                                   struct gw_http_worker **out_worker,
                                                   struct base_error *error);
// The worker takes the listening socket. Before start only.
BASE_NODISCARD enum base_status gw_http_worker_listen(struct gw_http_worker *worker, int fd,
                                                      bool tls);
BASE_NODISCARD enum base_status gw_http_worker_start(struct gw_http_worker *worker);
// Any thread: finish what is open within `drain_ms` (0: close everything now), then end the thread.
// NOMEM: nothing was done.
BASE_NODISCARD enum base_status gw_http_worker_stop(struct gw_http_worker *worker,
                                                    uint64_t drain_ms);
// Any thread: new limits and names and, when not NULL, a new TLS context (references are taken).
BASE_NODISCARD enum base_status gw_http_worker_reload(struct gw_http_worker *worker,
                                                      const struct gw_http_config *config,
                                                      SSL_CTX *tls, struct gw_host_list *hosts);
// The thread must have ended, or never started. Accepts NULL.
void gw_http_worker_free(struct gw_http_worker *worker);

#endif

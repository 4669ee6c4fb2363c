// What a worker thread has of the tunnel: its sessions, its counters, its inbox, the buffer it
// decompresses into.
#ifndef GW_TUNNEL_WORKER_H
#define GW_TUNNEL_WORKER_H

#include "tunnel/gw_tunnel.h"
#include "tunnel/tunnel_zstd.h"

#include <pthread.h>
#include <stdatomic.h>

struct gw_tunnel_counters {
#define GW_TUNNEL_ATOMIC(name, help) _Atomic uint64_t name;
    GW_TUNNEL_COUNTERS(GW_TUNNEL_ATOMIC)
#undef GW_TUNNEL_ATOMIC
    _Atomic uint64_t sessions;
    _Atomic uint64_t thin_step;
};

struct gw_tunnel_worker {
    struct gw_message wake; // first
    struct gw_tunnel *tunnel;
    void *post_ctx;
    void (*post)(void *post_ctx, struct gw_message *message);
    struct gw_session *sessions;
    struct gw_tunnel_zstd *zstd;
    bool starving;       // some session of its
    bool thinned;        // likewise
    uint32_t thin_step;  // thinning.h
    uint64_t thin_us;    // since when
    uint64_t turn_bytes; // decompressed since the last flush
    uint64_t log_us;     // of the second in which log_count lines were written
    uint32_t log_count;
    struct gw_tunnel_counters counters;
    pthread_mutex_t inbox_lock;
    struct gw_session *inbox;
    bool wake_pending;
    bool dead;
    struct gw_tunnel_worker *next; // of the tunnel
};

static inline void gw_count(_Atomic uint64_t *counter, uint64_t add)
{
    // One writer each: a plain add would do, were it not for readers.
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + add,
                          memory_order_relaxed);
}

// When nobody needs it any more, its counters included.
void gw_tunnel_worker_destroy(struct gw_tunnel_worker *worker);
void gw_tunnel_worker_wake(struct gw_tunnel_worker *worker); // any thread
// Puts the session on its worker's list and wakes the worker. With the shard's mutex held, or on
// the session's worker.
void gw_session_notify(struct gw_session *session, unsigned flags, bool wake);
// Hostile peers must not fill the log: so many lines a second and worker.
bool gw_tunnel_worker_may_log(struct gw_tunnel_worker *worker);
// The worker's step, brought up to date. True: it was lowered, and who was thinned is to be told.
bool gw_tunnel_worker_thin_step(struct gw_tunnel_worker *worker);

#endif

// A worker's part of the tunnel: its inbox, to which other threads put sessions that have something
// to do, its turn over them, and what all its sessions share. The transport calls it (gw_tunnel.h),
// on the worker's thread; gw_session_notify and gw_tunnel_worker_wake come from the sink's too.
#include "tunnel/tunnel_worker.h"

#include "tunnel/session_hello.h"
#include "tunnel/session_input.h"
#include "tunnel/session_output.h"
#include "tunnel/session_private.h"

#include "base/check.h"

#include <stdlib.h>

#define LOG_LINES_PER_S 10u
#define US_PER_S        UINT64_C(1000000)
#define THIN_STEP_US    UINT64_C(1000000)

void gw_tunnel_worker_destroy(struct gw_tunnel_worker *worker)
{
    gw_tunnel_zstd_free(worker->zstd);
    pthread_mutex_destroy(&worker->inbox_lock);
    free(worker);
}

static void run_wake(struct gw_message *message)
{
    struct gw_tunnel_worker *worker = (struct gw_tunnel_worker *)message;
    pthread_mutex_lock(&worker->inbox_lock);
    worker->wake_pending = false;
    bool dead = worker->dead;
    pthread_mutex_unlock(&worker->inbox_lock);
    if (!dead) {
        gw_tunnel_worker_flush(worker);
    }
}

enum base_status gw_tunnel_worker_new(struct gw_tunnel *tunnel, void *post_ctx,
                                      void (*post)(void *post_ctx, struct gw_message *message),
                                      struct gw_tunnel_worker **out)
{
    base_assert(tunnel->sink.submit != NULL); // workers come when the tunnel is whole
    struct gw_tunnel_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return BASE_ERR_NOMEM;
    }
    worker->wake.run = run_wake;
    worker->tunnel = tunnel;
    worker->post_ctx = post_ctx;
    worker->post = post;
    pthread_mutex_init(&worker->inbox_lock, NULL);
    enum base_status status = gw_tunnel_zstd_new(&worker->zstd);
    if (status != BASE_OK) {
        gw_tunnel_worker_destroy(worker);
        return status;
    }
    pthread_mutex_lock(&tunnel->workers_lock);
    worker->next = tunnel->workers;
    tunnel->workers = worker;
    pthread_mutex_unlock(&tunnel->workers_lock);
    *out = worker;
    return BASE_OK;
}

// Its counters stay, and its memory: a message may be pending. gw_tunnel_free has the rest.
void gw_tunnel_worker_free(struct gw_tunnel_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    base_check(worker->sessions == NULL);
    pthread_mutex_lock(&worker->inbox_lock);
    worker->dead = true;
    pthread_mutex_unlock(&worker->inbox_lock);
    gw_tunnel_zstd_free(worker->zstd);
    worker->zstd = NULL;
}

void gw_session_notify(struct gw_session *session, unsigned flags, bool wake)
{
    struct gw_tunnel_worker *worker = session->worker;
    base_assert((flags & ~(unsigned)(GW_SESSION_SUPERSEDED | GW_SESSION_FAILED)) == 0);
    if (flags != 0) {
        atomic_fetch_or_explicit(&session->flags, flags, memory_order_relaxed);
    }
    pthread_mutex_lock(&worker->inbox_lock);
    if (session->queue_prev == NULL) {
        session->queue_next = worker->inbox;
        session->queue_prev = &worker->inbox;
        if (worker->inbox != NULL) {
            worker->inbox->queue_prev = &session->queue_next;
        }
        worker->inbox = session;
    }
    bool post = wake && !worker->wake_pending && !worker->dead;
    worker->wake_pending = worker->wake_pending || post;
    pthread_mutex_unlock(&worker->inbox_lock);
    if (post) {
        worker->post(worker->post_ctx, &worker->wake);
    }
}

void gw_tunnel_worker_wake(struct gw_tunnel_worker *worker)
{
    pthread_mutex_lock(&worker->inbox_lock);
    bool post = !worker->wake_pending && !worker->dead;
    worker->wake_pending = worker->wake_pending || post;
    pthread_mutex_unlock(&worker->inbox_lock);
    if (post) {
        worker->post(worker->post_ctx, &worker->wake);
    }
}

static struct gw_session *pop_inbox(struct gw_tunnel_worker *worker)
{
    pthread_mutex_lock(&worker->inbox_lock);
    struct gw_session *session = worker->inbox;
    if (session != NULL) {
        base_assert(session->worker == worker);
        base_assert(session->queue_prev == &worker->inbox);
        worker->inbox = session->queue_next;
        if (worker->inbox != NULL) {
            worker->inbox->queue_prev = &worker->inbox;
        }
        session->queue_prev = NULL;
    }
    pthread_mutex_unlock(&worker->inbox_lock);
    return session;
}

static void serve(struct gw_session *session)
{
    unsigned flags = atomic_exchange_explicit(&session->flags, 0, memory_order_relaxed);
    base_assert(flags == 0 || session->state != GW_SESSION_START); // it has no lanes yet
    if (session->state == GW_SESSION_ENDED) {
        return;
    }
    if ((flags & GW_SESSION_SUPERSEDED) != 0) {
        gw_count(&session->worker->counters.superseded_total, 1);
        gw_session_away(session, GW_TUNNEL_SUPERSEDED_MS, GW_TUNNEL_SUPERSEDED_SPREAD_MS);
        return;
    }
    if ((flags & GW_SESSION_FAILED) != 0) {
        gw_session_away(session, GW_TUNNEL_AWAY_MS, GW_TUNNEL_AWAY_SPREAD_MS);
        return;
    }
    if (session->state == GW_SESSION_WAITING) {
        gw_session_try_welcome(session);
    }
    if (session->state == GW_SESSION_OPEN && session->input_size > 0 &&
        gw_session_receive(session, NULL, 0) != BASE_OK) {
        session->port.end(session->port.ctx, true);
    }
    if (session->state == GW_SESSION_OPEN) {
        gw_session_settle(session);
    }
}

// Memory is back: who got no credit for want of it gets it now.
static void feed_starving(struct gw_tunnel_worker *worker)
{
    worker->starving = false;
    for (struct gw_session *session = worker->sessions; session != NULL; session = session->next) {
        if (session->starving && session->state == GW_SESSION_OPEN) {
            session->starving = false;
            gw_session_settle(session);
        }
    }
}

// Fewer are asked to thin, or less: told at once, so that nothing is lost for nothing.
static void lift_samples(struct gw_tunnel_worker *worker)
{
    worker->thinned = false;
    for (struct gw_session *session = worker->sessions; session != NULL; session = session->next) {
        if (session->thinned) {
            gw_session_thin(session);
            worker->thinned = worker->thinned || session->thinned;
        }
    }
}

void gw_tunnel_worker_flush(struct gw_tunnel_worker *worker)
{
    worker->turn_bytes = 0;
    if (gw_tunnel_worker_thin_step(worker) && worker->thinned) {
        lift_samples(worker);
    }
    if (worker->starving && !gw_tunnel_is_crowded(worker->tunnel)) {
        feed_starving(worker);
    }
    // What comes back on the list meanwhile is for the next turn: it was told of by a message.
    pthread_mutex_lock(&worker->inbox_lock);
    base_assert(!worker->dead);
    uint32_t count = 0;
    for (struct gw_session *at = worker->inbox; at != NULL; at = at->queue_next) {
        count++;
    }
    pthread_mutex_unlock(&worker->inbox_lock);
    for (uint32_t i = 0; i < count; i++) {
        struct gw_session *session = pop_inbox(worker);
        if (session == NULL) {
            break;
        }
        serve(session);
    }
}

void gw_tunnel_worker_drain(struct gw_tunnel_worker *worker, uint32_t reconnect_after_ms,
                            uint32_t spread_ms)
{
    for (struct gw_session *session = worker->sessions; session != NULL; session = session->next) {
        if (session->state != GW_SESSION_ENDED) {
            gw_session_settle(session);
            gw_session_away(session, reconnect_after_ms, spread_ms);
        }
    }
}

bool gw_tunnel_worker_may_log(struct gw_tunnel_worker *worker)
{
    uint64_t now_us = gw_tunnel_now_us(worker->tunnel);
    if (now_us - worker->log_us >= US_PER_S) {
        worker->log_us = now_us;
        worker->log_count = 0;
    }
    return worker->log_count++ < LOG_LINES_PER_S;
}

bool gw_tunnel_worker_thin_step(struct gw_tunnel_worker *worker)
{
    const struct gw_tunnel *tunnel = worker->tunnel;
    uint64_t bytes = atomic_load_explicit(&tunnel->memory, memory_order_relaxed);
    uint32_t next = gw_thin_next(&tunnel->thin, worker->thin_step, bytes);
    if (next == worker->thin_step) {
        return false;
    }
    uint64_t now_us = gw_tunnel_now_us(tunnel);
    bool lower = next < worker->thin_step;
    if (lower && now_us - worker->thin_us < THIN_STEP_US) {
        return false; // up at once, down step by step
    }
    base_assert(next <= GW_THIN_STEPS);
    worker->thin_step = lower ? worker->thin_step - 1 : next;
    worker->thin_us = now_us;
    atomic_store_explicit(&worker->counters.thin_step, worker->thin_step, memory_order_relaxed);
    return lower;
}

// A worker of the core: its plan, cohorts, waiting touches, hint and tunnel streams, and what it
// counts. All of it is its own thread's, but for the inbox. Cohorts, touches and answers belong to
// the parts that make and free them: the worker only says where they are. Only gateway/svc and its
// tests look in.
#ifndef GW_CORE_WORKER_H
#define GW_CORE_WORKER_H

#include "svc/core.h"

#include <pthread.h>
#include <stdatomic.h>

#define GW_LATENCY_BOUNDS 14u

struct gw_answer_batch; // svc/trust/answer_batch.h
struct gw_cohorts;      // svc/plan/cohort.h
struct gw_meta;         // svc/trust/director.h
struct gw_plan;         // svc/plan/plan.h
struct gw_touches;      // svc/device/touches.h

// Written by the worker, read by anybody: relaxed.
struct gw_worker_stats {
    _Atomic uint64_t checkins;
    _Atomic uint64_t checkins_current; // answered from the digest alone
    _Atomic uint64_t checkins_settled; // nothing to offer, known from the last time or just now
    _Atomic uint64_t checkins_asked;   // for pairs
    _Atomic uint64_t checkins_offered;
    _Atomic uint64_t checkins_held;  // by a rate, a cap or a window
    _Atomic uint64_t checkins_paced; // told the interval
    _Atomic uint64_t checkins_bad;
    _Atomic uint64_t rides; // check-ins answered on proxied requests
    _Atomic uint64_t offers;
    _Atomic uint64_t offers_ran_out;      // not made, for the statement is not valid any more
    _Atomic uint64_t offers_refused;      // ... for the device refuses it
    _Atomic uint64_t offers_without_room; // ... for the device holds no more tasks
    _Atomic uint64_t reports;
    _Atomic uint64_t reports_bad;
    _Atomic uint64_t blobs;
    _Atomic uint64_t exclusives;
    _Atomic uint64_t exclusives_refused; // no credential, or nothing there for this device
    _Atomic uint64_t hints_sent;
    _Atomic uint64_t hint_streams;
    _Atomic uint64_t tunnel_streams;
    _Atomic uint64_t cohorts;
    _Atomic uint64_t cohort_probes_long;
    _Atomic uint64_t touches_waiting;
    _Atomic uint64_t latency[GW_LATENCY_BOUNDS + 1];
    _Atomic uint64_t latency_sum_us;
};

struct gw_worker {
    struct gw_core *core;
    struct gw_worker *next_zombie;
    void *post_ctx;
    void (*post)(void *post_ctx, struct gw_message *message);

    // The inbox: control fills it, `wake` tells the worker.
    pthread_mutex_t inbox_lock;
    struct gw_message wake;
    bool wake_pending;
    bool dead;
    struct gw_plan *next_plan;
    struct gw_meta *next_meta;
    struct gw_meta *meta; // what the director publishes; NULL: nothing

    struct gw_plan *plan;
    struct gw_cohorts *cohorts;
    struct gw_touches *touches; // that the table of devices has not been told of

    struct gw_answer_batch *answers; // that wait to be signed
    gw_alarm_fn alarm_set;           // NULL: nobody will call
    void *alarm_ctx;

    gw_hint_fn hint_write;
    gw_hint_end_fn hint_end;
    void *hint_ctx;
    struct gw_hint *hints;
    struct gw_hint *walk_at;   // next stream of the walk under way
    struct gw_hint *walk_stop; // where it ends once it has begun anew; NULL: with the last
    bool walk_anew;            // it goes on from the first when it comes to the last
    bool walking;
    bool plan_is_everywhere;     // no worker has an older one
    _Atomic uint64_t plan_taken; // generation of `plan`, for the other workers
    bool walk_again;             // a stream with news could not be told
    bool walk_revoked;           // this walk ends the streams of revoked devices
    uint64_t revocations_seen;   // of the core's
    uint64_t hint_count;
    gw_tunnel_end_fn tunnel_end;
    void *tunnel_ctx;
    struct gw_tunnel_watch *tunnels;
    struct gw_tunnel_watch *tunnel_at; // next of the walk for revoked devices
    uint64_t tunnel_count;
    uint64_t hint_place_ns; // monotonic time the next hinted device may come
    uint32_t hint_peers;    // workers that share the rate

    struct gw_worker_stats stats;
    struct gw_transport_stats transport;
};

// Adds by the only writer: no locked instruction.
static inline void gw_count(_Atomic uint64_t *counter, uint64_t add)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + add,
                          memory_order_relaxed);
}

// Any thread: have the worker look at its inbox, flush its touches, and go on walking.
void gw_worker_wake(struct gw_worker *worker);

#endif

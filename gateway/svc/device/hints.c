// Hint streams of one worker: who is subscribed, and telling those for whom a new plan has news.
//
// A new plan starts a walk over the list in slices of GW_HINT_SLICE, each its own message, so that
// two hundred thousand streams do not keep the worker from its other work. It begins when every
// worker has that plan: the check-in that a hint brings may reach another worker, which would know
// of nothing new yet, and the device would not ask again before its interval. It goes no further
// than the pace of hints allows for the next moment: who is told late is told what holds then, and
// a million hints do not wait in buffers. A stream costs its struct gw_hint. Worker's thread.
#include "svc/device/hints.h"

#include "svc/device/checkin.h"
#include "svc/device/touches.h"
#include "svc/reply.h"
#include "svc/core_worker.h"
#include "svc/device/device_table.h"
#include "svc/plan/cohort.h"
#include "svc/plan/plan.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

#define GW_HINT_TEXT_BYTES   96
#define GW_HINT_AFTER_MS_MAX 3600000u // a device waits no longer than an hour
#define GW_HINT_AHEAD_MS     1000u // a walk tells who comes within this; its worker is woken sooner

#define HELLO "event: hello\ndata: {}\n\n"

void gw_hints_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct gw_checkin checkin;
    const char *problem = NULL;
    enum base_status status = gw_checkin_read(worker, &exchange->request, &checkin, &problem);
    if (status != BASE_OK) {
        gw_checkin_refuse(worker, exchange, status, &checkin, problem);
    } else {
        gw_worker_touch(worker, &checkin, gw_core_now_s(worker->core));
        gw_reply_body(exchange, 200, BASE_STR("text/event-stream"), HELLO, sizeof(HELLO) - 1);
        exchange->reply.kind = GW_REPLY_STREAM;
        gw_reply_header(&exchange->reply, BASE_STR("cache-control"), BASE_STR("no-store"));
    }
    gw_exchange_finish(exchange);
}

void gw_worker_on_hint(struct gw_worker *worker, gw_hint_fn write, gw_hint_end_fn end, void *ctx)
{
    worker->hint_write = write;
    worker->hint_end = end;
    worker->hint_ctx = ctx;
    worker->hint_peers = 1;
}

// When the next device may check in, so that the hinted ones do not come faster than
// hint_rate_per_s: each takes the next free place in time.
static uint32_t hint_after_ms(const struct gw_worker *worker)
{
    uint64_t now_us = worker->core->clock.mono_us(worker->core->clock.ctx);
    uint64_t after_ms = worker->hint_place_ns / 1000000u;
    after_ms = after_ms > now_us / 1000u ? after_ms - now_us / 1000u : 0;
    return after_ms < GW_HINT_AFTER_MS_MAX ? (uint32_t)after_ms : GW_HINT_AFTER_MS_MAX;
}

static void take_place(struct gw_worker *worker)
{
    uint32_t rate = worker->core->set.hint_rate_per_s;
    uint64_t now_ns = worker->core->clock.mono_us(worker->core->clock.ctx) * 1000u;
    if (worker->hint_place_ns < now_ns) {
        worker->hint_place_ns = now_ns;
    }
    if (rate > 0) {
        worker->hint_place_ns += (uint64_t)worker->hint_peers * 1000000000u / rate;
    }
}

static bool write_hint(struct gw_worker *worker, struct gw_hint *hint)
{
    char text[GW_HINT_TEXT_BYTES];
    uint32_t after_ms = hint_after_ms(worker);
    uint32_t spread_ms = worker->core->set.hint_spread_ms;
    int size = after_ms == 0 ? snprintf(text, sizeof(text),
                                        "event: hint\ndata: {\"spread_ms\":%u}\n\n", spread_ms)
                             : snprintf(text, sizeof(text),
                                        "event: hint\ndata: {\"after_ms\":%u,\"spread_ms\":%u}\n\n",
                                        after_ms, spread_ms);
    if (worker->hint_write == NULL ||
        !worker->hint_write(worker->hint_ctx, hint, (struct base_str){text, (size_t)size})) {
        return false;
    }
    take_place(worker);
    gw_count(&worker->stats.hints_sent, 1);
    return true;
}

// Tells one stream about the plan if there is news for it. False: its buffer is full.
static bool consider(struct gw_worker *worker, struct gw_hint *hint)
{
    uint32_t generation = (uint32_t)worker->plan->generation;
    if (hint->plan_seen == generation) {
        return true;
    }
    const struct gw_cohort *cohort = gw_cohorts_at(worker->cohorts, worker->plan, hint->cohort);
    // Who was told, and asked while that was paused, has to ask again; whether a plan in between
    // was seen here or not.
    bool missed =
        cohort != NULL && (int32_t)(worker->plan->went_on - hint->plan_seen) > 0 &&
        (gw_device_table_stands(worker->core->table, hint->device_id) & GW_DEVICE_WITHOUT) != 0;
    // Nothing that concerns its cohort changed.
    if (cohort != NULL && cohort->signature == hint->signature && !missed) {
        hint->plan_seen = generation;
        return true;
    }
    // A device whose cohort could not be kept is told of every plan.
    uint64_t expected =
        cohort != NULL ? gw_cohort_expected(cohort, hint->device_id) : ~hint->digest;
    // Control of a trial is told too, as who it is compared with is, although it has what it
    // should.
    bool drawn = cohort != NULL && cohort->trial && gw_cohort_draws(cohort, hint->device_id);
    bool news = expected != hint->digest || drawn;
    bool settled = cohort != NULL && news &&
                   gw_device_table_settled(worker->core->table, hint->device_id, hint->digest,
                                           cohort->signature);
    // A device that is on its way to what is paused now learns by a check-in that the offer is
    // gone.
    bool withdrawn =
        cohort != NULL && cohort->paused &&
        (gw_device_table_stands(worker->core->table, hint->device_id) & GW_DEVICE_UNDER_WAY) != 0;
    if ((news && !settled) || withdrawn || missed) {
        if (!write_hint(worker, hint)) {
            return false;
        }
        hint->digest = expected;
    }
    hint->plan_seen = generation;
    hint->signature = cohort != NULL ? cohort->signature : 0;
    return true;
}

// A walk that is under way goes once around from where it is: from the first each time, those at
// the end would wait as long as plans come faster than all can be told.
void gw_hints_plan_changed(struct gw_worker *worker)
{
    worker->walk_anew = worker->walk_at != NULL && worker->walk_at != worker->hints;
    worker->walk_stop = worker->walk_anew ? worker->walk_at : NULL;
    worker->walk_at = worker->walk_anew ? worker->walk_at : worker->hints;
    worker->walking = worker->hints != NULL;
    worker->walk_again = false;
    pthread_mutex_lock(&worker->core->workers_lock);
    worker->hint_peers = worker->core->worker_count;
    pthread_mutex_unlock(&worker->core->workers_lock);
}

static bool others_have(const struct gw_worker *worker)
{
    const struct gw_core *core = worker->core;
    for (uint32_t i = 0; i < core->worker_count; i++) {
        if (atomic_load_explicit(&core->workers[i]->plan_taken, memory_order_acquire) <
            worker->plan->generation) {
            return false;
        }
    }
    return true;
}

static void look_whether_everywhere(struct gw_worker *worker)
{
    pthread_mutex_lock(&worker->core->workers_lock);
    worker->plan_is_everywhere = others_have(worker);
    pthread_mutex_unlock(&worker->core->workers_lock);
}

void gw_hints_plan_taken(struct gw_worker *worker)
{
    struct gw_core *core = worker->core;
    atomic_store_explicit(&worker->plan_taken, worker->plan->generation, memory_order_release);
    pthread_mutex_lock(&core->workers_lock);
    worker->plan_is_everywhere = others_have(worker);
    for (uint32_t i = 0; worker->plan_is_everywhere && i < core->worker_count; i++) {
        if (core->workers[i] != worker) {
            gw_worker_wake(core->workers[i]); // they may have waited for this one
        }
    }
    pthread_mutex_unlock(&core->workers_lock);
}

// The stream whose turn it is, or NULL at the end of the walk.
static struct gw_hint *walk_next(struct gw_worker *worker)
{
    if (worker->walk_at == NULL && worker->walk_anew) {
        worker->walk_anew = false;
        worker->walk_at = worker->hints;
    }
    if (worker->walk_at == worker->walk_stop && !worker->walk_anew) {
        worker->walk_at = NULL;
    }
    return worker->walk_at;
}

// A slice of the walk. True: nobody else is told for now, as places are taken for a while.
static bool walk_on(struct gw_worker *worker)
{
    const struct gw_core *core = worker->core;
    uint64_t ahead_ns =
        (core->clock.mono_us(core->clock.ctx) + GW_HINT_AHEAD_MS * 1000u) * UINT64_C(1000);
    struct gw_hint *hint = NULL;
    for (uint32_t i = 0; i < GW_HINT_SLICE && (hint = walk_next(worker)) != NULL; i++) {
        bool waits = worker->hint_place_ns > ahead_ns;
        if (waits && !worker->walk_revoked) {
            return true;
        }
        worker->walk_at = hint->next; // before the write, which may end the stream
        if (worker->walk_revoked && worker->hint_end != NULL &&
            gw_credentials_revoked(core->credentials, hint->device_id)) {
            worker->hint_end(worker->hint_ctx, hint);
            continue;
        }
        if (waits || !worker->plan_is_everywhere || !consider(worker, hint)) {
            worker->walk_again = true;
        }
    }
    return false;
}

void gw_hints_walk(struct gw_worker *worker)
{
    if (!worker->walking) {
        if (!worker->walk_again) {
            return;
        }
        gw_hints_plan_changed(worker);
    }
    if (!worker->plan_is_everywhere) {
        look_whether_everywhere(worker);
    }
    if (!worker->plan_is_everywhere && !worker->walk_revoked) {
        return; // the last worker to take the plan wakes this one
    }
    bool waits = walk_on(worker); // the control thread's round wakes this one
    if (walk_next(worker) == NULL) {
        worker->walking = false;
        worker->walk_revoked = false;
    } else if (!waits) {
        gw_worker_wake(worker);
    }
}

void gw_worker_subscribe(struct gw_worker *worker, const struct gw_exchange *exchange,
                         struct gw_hint *hint)
{
    struct gw_checkin checkin;
    const char *problem = NULL;
    memset(hint, 0, sizeof(*hint));
    hint->cohort = GW_COHORT_NONE;
    hint->plan_seen = (uint32_t)worker->plan->generation;
    bool news = false;
    uint64_t expected = 0;
    if (gw_checkin_read(worker, &exchange->request, &checkin, &problem) == BASE_OK) {
        hint->device_id = checkin.device_id;
        hint->digest = checkin.profile.digest;
        if (gw_cohorts_pin(worker->cohorts, checkin.cohort, checkin.proven)) {
            hint->cohort = checkin.cohort->index;
        }
        expected = gw_cohort_expected(checkin.cohort, checkin.device_id);
        news = expected != hint->digest;
    }
    hint->next = worker->hints;
    hint->prev = &worker->hints;
    if (worker->hints != NULL) {
        worker->hints->prev = &hint->next;
    }
    worker->hints = hint;
    worker->hint_count++;
    atomic_store_explicit(&worker->stats.hint_streams, worker->hint_count, memory_order_relaxed);
    // What it missed between its last check-in and now is told at once, or by the next walk.
    if (news && !gw_device_table_settled(worker->core->table, hint->device_id, hint->digest,
                                         checkin.cohort->signature)) {
        if (!worker->plan_is_everywhere) {
            look_whether_everywhere(worker);
        }
        if (worker->plan_is_everywhere && write_hint(worker, hint)) {
            hint->digest = expected;
        } else {
            hint->plan_seen--;
            worker->walk_again = true;
        }
    }
}

void gw_worker_unsubscribe(struct gw_worker *worker, struct gw_hint *hint)
{
    if (hint->prev == NULL) {
        return;
    }
    if (worker->walk_at == hint) {
        worker->walk_at = hint->next;
    }
    if (worker->walk_stop == hint) {
        worker->walk_stop = hint->next;
    }
    *hint->prev = hint->next;
    if (hint->next != NULL) {
        hint->next->prev = hint->prev;
    }
    gw_cohorts_unpin(worker->cohorts, hint->cohort);
    hint->next = NULL;
    hint->prev = NULL;
    worker->hint_count--;
    atomic_store_explicit(&worker->stats.hint_streams, worker->hint_count, memory_order_relaxed);
}

uint64_t gw_worker_hint_count(const struct gw_worker *worker)
{
    return worker->hint_count;
}

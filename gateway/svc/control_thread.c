// The control thread: calls from workers, flushing devices to the store, the rollout controller,
// and waking workers for their housekeeping. gw_control_post runs on workers; the rest on the
// control thread, or on the caller of gw_core_tick when there is none.
#include "svc/core_private.h"

#include "svc/device_record.h"

#include <stdlib.h>

#define FLUSH_PERIOD_US UINT64_C(100000)

static void run_done(struct gw_message *message)
{
    struct gw_control_call *call = (struct gw_control_call *)message;
    call->done(call->worker, call);
}
_Static_assert(offsetof(struct gw_control_call, message) == 0, "run_done casts");

enum base_status gw_control_post(struct gw_worker *worker, struct gw_control_call *call)
{
    struct gw_control *control = &worker->core->control;
    call->worker = worker;
    call->next = NULL;
    call->message.next = NULL;
    call->message.run = run_done;
    pthread_mutex_lock(&control->lock);
    bool room = control->count < GW_CONTROL_QUEUE_MAX && !control->stopping;
    if (room) {
        if (control->last != NULL) {
            control->last->next = call;
        } else {
            control->first = call;
        }
        control->last = call;
        control->count++;
    }
    pthread_mutex_unlock(&control->lock);
    if (!room) {
        return BASE_ERR_BUSY;
    }
    gw_bell_ring(&control->bell);
    return BASE_OK;
}

static bool run_calls(struct gw_core *core)
{
    struct gw_control *control = &core->control;
    bool ran = false;
    for (;;) {
        pthread_mutex_lock(&control->lock);
        struct gw_control_call *call = control->first;
        if (call != NULL) {
            control->first = call->next;
            control->last = control->first == NULL ? NULL : control->last;
            control->count--;
        }
        pthread_mutex_unlock(&control->lock);
        if (call == NULL) {
            return ran;
        }
        ran = true;
        call->run(core, call);
        struct gw_worker *worker = call->worker;
        worker->post(worker->post_ctx, &call->message);
    }
}

// Workers with touches waiting or streams that could not be told.
static void wake_workers(struct gw_core *core)
{
    pthread_mutex_lock(&core->workers_lock);
    for (uint32_t i = 0; i < core->worker_count; i++) {
        struct gw_worker *worker = core->workers[i];
        bool touches =
            atomic_load_explicit(&worker->stats.touches_waiting, memory_order_relaxed) > 0;
        bool streams = atomic_load_explicit(&worker->stats.hint_streams, memory_order_relaxed) > 0;
        if (touches || streams) {
            gw_worker_wake(worker);
        }
    }
    pthread_mutex_unlock(&core->workers_lock);
}

// Everything that is dirty, for who waits for it.
static void flush_all(struct gw_core *core)
{
    while (gw_devices_flush(core) == GW_FLUSH_BATCH) {
    }
}

bool gw_control_step(struct gw_core *core)
{
    bool changed = run_calls(core);
    flush_all(core);
    changed = gw_rollouts_tick(core) || changed;
    wake_workers(core);
    return changed;
}

static bool stopping(struct gw_control *control)
{
    pthread_mutex_lock(&control->lock);
    bool stop = control->stopping;
    pthread_mutex_unlock(&control->lock);
    return stop;
}

static void *control_main(void *arg)
{
    struct gw_core *core = arg;
    uint64_t wait_us = FLUSH_PERIOD_US;
    while (!stopping(&core->control)) {
        (void)gw_bell_wait(&core->control.bell, wait_us);
        (void)run_calls(core);
        // One batch, then calls and ticks have their turn again, however many devices wait.
        wait_us = gw_devices_flush(core) == GW_FLUSH_BATCH ? 0 : FLUSH_PERIOD_US;
        uint64_t now_us = gw_core_now_us(core);
        if (now_us >= core->control.next_tick_us) {
            core->control.next_tick_us = now_us + (uint64_t)core->tick_ms * 1000u;
            (void)gw_rollouts_tick(core);
            gw_operators_flush(core);
            wake_workers(core);
        }
    }
    return NULL;
}

enum base_status gw_control_start(struct gw_core *core, struct base_error *error)
{
    struct gw_control *control = &core->control;
    control->flush = calloc(GW_FLUSH_BATCH, sizeof(control->flush[0]));
    control->changes =
        calloc((size_t)GW_FLUSH_BATCH * GW_DEVICE_MARKS_MAX, sizeof(control->changes[0]));
    if (control->flush == NULL || control->changes == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (!core->control_thread) {
        return BASE_OK;
    }
    if (pthread_create(&control->thread, NULL, control_main, core) != 0) {
        return base_error_set(error, BASE_ERR_NOMEM, "cannot start the control thread");
    }
    control->started = true;
    return BASE_OK;
}

void gw_control_stop(struct gw_core *core)
{
    struct gw_control *control = &core->control;
    pthread_mutex_lock(&control->lock);
    control->stopping = true;
    pthread_mutex_unlock(&control->lock);
    gw_bell_ring(&control->bell);
    if (control->started) {
        pthread_join(control->thread, NULL);
        control->started = false;
    }
    if (control->flush != NULL && control->changes != NULL && core->store != NULL) {
        flush_all(core);
    }
    free(control->flush);
    free(control->changes);
    control->flush = NULL;
    control->changes = NULL;
}

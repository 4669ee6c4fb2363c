// The control thread: calls from workers, flushing devices to the store, the rollout controller,
// and waking workers for their housekeeping. gw_control_post runs on workers; the rest on the
// control thread, or on the caller of gw_core_tick when there is none.
#include "svc/core_private.h"

#include "svc/device/record_edit.h"

#include <stdlib.h>

#define FLUSH_PERIOD_US UINT64_C(100000)

enum base_status gw_control_post(struct gw_worker *worker, struct gw_control_call *call)
{
    return gw_call_queue_post(&worker->core->control.queue, worker, call);
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
    gw_core_clock_step(core);
    bool changed = gw_call_queue_run(&core->control.queue, core);
    changed = gw_background_step(core) || changed;
    flush_all(core);
    gw_strangers_step(core);
    changed = gw_rollouts_tick(core) || changed;
    if (gw_director_is_due(core)) {
        gw_core_publish(core);
    }
    wake_workers(core);
    return changed;
}

static void *control_main(void *arg)
{
    struct gw_core *core = arg;
    uint64_t wait_us = FLUSH_PERIOD_US;
    struct gw_call_queue *queue = &core->control.queue;
    while (!gw_call_queue_stopping(queue)) {
        (void)gw_bell_wait(&queue->bell, wait_us);
        (void)gw_call_queue_run(queue, core);
        // One batch, then calls and ticks have their turn again, however many devices wait.
        wait_us = gw_devices_flush(core) == GW_FLUSH_BATCH ? 0 : FLUSH_PERIOD_US;
        uint64_t now_us = core->clock.mono_us(core->clock.ctx);
        if (now_us >= core->control.next_tick_us) {
            core->control.next_tick_us = now_us + (uint64_t)core->tick_ms * 1000u;
            gw_core_clock_step(core);
            (void)gw_rollouts_tick(core);
            gw_operators_flush(core);
            gw_strangers_step(core);
            if (gw_director_is_due(core)) {
                gw_core_publish(core);
            }
            wake_workers(core);
        }
    }
    return NULL;
}

enum base_status gw_control_start(struct gw_core *core, struct base_error *error)
{
    struct gw_control *control = &core->control;
    control->flush = malloc(GW_FLUSH_BATCH * sizeof(control->flush[0]));
    control->changes =
        malloc((size_t)GW_FLUSH_BATCH * GW_RECORD_MERGE_CHANGES * sizeof(control->changes[0]));
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
    gw_call_queue_stop(&control->queue);
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

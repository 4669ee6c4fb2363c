// The background thread: work that costs CPU and may wait, compressing above all, so
// that rollouts and commands on the control thread never stand behind it. gw_background_post runs
// on workers, step on the caller of gw_core_tick when the core has no threads of its own.
#include "svc/core_private.h"

enum base_status gw_background_post(struct gw_worker *worker, struct gw_control_call *call)
{
    return gw_call_queue_post(&worker->core->background.queue, worker, call);
}

static void *background_main(void *arg)
{
    struct gw_core *core = arg;
    struct gw_call_queue *queue = &core->background.queue;
    while (!gw_call_queue_stopping(queue)) {
        (void)gw_bell_wait(&queue->bell, UINT64_MAX);
        (void)gw_call_queue_run(queue, core);
    }
    return NULL;
}

enum base_status gw_background_start(struct gw_core *core, struct base_error *error)
{
    if (!core->control_thread) {
        return BASE_OK;
    }
    if (pthread_create(&core->background.thread, NULL, background_main, core) != 0) {
        return base_error_set(error, BASE_ERR_NOMEM, "cannot start the background thread");
    }
    core->background.started = true;
    return BASE_OK;
}

void gw_background_stop(struct gw_core *core)
{
    gw_call_queue_stop(&core->background.queue);
    if (core->background.started) {
        pthread_join(core->background.thread, NULL);
        core->background.started = false;
    }
}

bool gw_background_step(struct gw_core *core)
{
    return gw_call_queue_run(&core->background.queue, core);
}

// The background threads: work that costs CPU and may wait, so that rollouts and commands on the
// control thread never stand behind it. One makes compressed forms and what else takes a moment;
// the other makes deltas, of which a large one takes longer than others should wait. *_post run on
// workers, step on the caller of gw_core_tick when the core has no threads of its own.
#include "svc/control_thread.h"
#include "svc/core_private.h"
#include "svc/core_worker.h"

enum base_status gw_background_post(struct gw_worker *worker, struct gw_control_call *call)
{
    return gw_call_queue_post(&worker->core->threads->background.queue, worker, call);
}

enum base_status gw_deltas_post(struct gw_worker *worker, struct gw_control_call *call)
{
    return gw_call_queue_post(&worker->core->threads->deltas.queue, worker, call);
}

bool gw_deltas_stopping(struct gw_core *core)
{
    return gw_call_queue_stopping(&core->threads->deltas.queue);
}

static void *background_main(void *arg)
{
    struct gw_background *self = arg;
    struct gw_call_queue *queue = &self->queue;
    while (!gw_call_queue_stopping(queue)) {
        (void)gw_bell_wait(&queue->bell, UINT64_MAX);
        (void)gw_call_queue_run(queue, self->core);
    }
    return NULL;
}

static enum base_status start(struct gw_background *self, struct gw_core *core,
                              struct base_error *error)
{
    self->core = core;
    if (pthread_create(&self->thread, NULL, background_main, self) != 0) {
        return base_error_set(error, BASE_ERR_NOMEM, "cannot start a background thread");
    }
    self->started = true;
    return BASE_OK;
}

static void stop(struct gw_background *self)
{
    gw_call_queue_stop(&self->queue);
    if (self->started) {
        pthread_join(self->thread, NULL);
        self->started = false;
    }
}

enum base_status gw_background_start(struct gw_core *core, struct base_error *error)
{
    if (!core->set.control_thread) {
        return BASE_OK;
    }
    BASE_TRY(start(&core->threads->background, core, error));
    return start(&core->threads->deltas, core, error);
}

void gw_background_stop(struct gw_core *core)
{
    gw_call_queue_stop(&core->threads->deltas.queue); // both end at the same time
    stop(&core->threads->background);
    stop(&core->threads->deltas);
}

bool gw_background_step(struct gw_core *core)
{
    bool ran = gw_call_queue_run(&core->threads->background.queue, core);
    return gw_call_queue_run(&core->threads->deltas.queue, core) || ran;
}

// What any part may ask of a worker: its core, the transport's figures, and that it looks at its
// inbox. Called by the parts' handlers on the worker's own thread; waking it is any thread's. It
// stands below the parts, so that none has to know core.c.
#include "svc/core_worker.h"

#include "svc/control.h"
#include "svc/core_private.h"

struct gw_core *gw_worker_core(struct gw_worker *worker)
{
    return worker->core;
}

struct gw_transport_stats *gw_worker_transport_stats(struct gw_worker *worker)
{
    return &worker->transport;
}

void gw_worker_wake(struct gw_worker *worker)
{
    pthread_mutex_lock(&worker->inbox_lock);
    if (!worker->wake_pending && !worker->dead) {
        worker->wake_pending = true;
        worker->post(worker->post_ctx, &worker->wake);
    }
    pthread_mutex_unlock(&worker->inbox_lock);
}

// Calls from workers to a thread of the core and back. control_thread.c and background_thread.c
// have one for each of their threads. gw_call_queue_post runs on any worker, gw_call_queue_run on
// the owning thread; `done` comes back to the worker as a message, so an exchange is touched by its
// worker alone. A queue that is full answers BUSY, and the worker replies 503: nothing waits
// without a bound.
#include "svc/call_queue.h"

#include "svc/core_private.h"

void gw_call_queue_init(struct gw_call_queue *queue)
{
    *queue = (struct gw_call_queue){.first = NULL};
    pthread_mutex_init(&queue->lock, NULL);
    gw_bell_init(&queue->bell);
}

void gw_call_queue_done(struct gw_call_queue *queue)
{
    gw_bell_done(&queue->bell);
    pthread_mutex_destroy(&queue->lock);
}

static void run_done(struct gw_message *message)
{
    struct gw_control_call *call = (struct gw_control_call *)message;
    call->done(call->worker, call);
}
_Static_assert(offsetof(struct gw_control_call, message) == 0, "run_done casts");

enum base_status gw_call_queue_post(struct gw_call_queue *queue, struct gw_worker *worker,
                                    struct gw_control_call *call)
{
    call->worker = worker;
    call->next = NULL;
    call->message.next = NULL;
    call->message.run = run_done;
    pthread_mutex_lock(&queue->lock);
    bool room = queue->count < GW_CONTROL_QUEUE_MAX && !queue->stopping;
    if (room) {
        if (queue->last != NULL) {
            queue->last->next = call;
        } else {
            queue->first = call;
        }
        queue->last = call;
        queue->count++;
    }
    pthread_mutex_unlock(&queue->lock);
    if (!room) {
        return BASE_ERR_BUSY;
    }
    gw_bell_ring(&queue->bell);
    return BASE_OK;
}

bool gw_call_queue_run(struct gw_call_queue *queue, struct gw_core *core)
{
    bool ran = false;
    for (;;) {
        pthread_mutex_lock(&queue->lock);
        struct gw_control_call *call = queue->first;
        if (call != NULL) {
            queue->first = call->next;
            queue->last = queue->first == NULL ? NULL : queue->last;
            queue->count--;
        }
        pthread_mutex_unlock(&queue->lock);
        if (call == NULL) {
            return ran;
        }
        ran = true;
        call->run(core, call);
        struct gw_worker *worker = call->worker;
        worker->post(worker->post_ctx, &call->message);
    }
}

void gw_call_queue_stop(struct gw_call_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->stopping = true;
    pthread_mutex_unlock(&queue->lock);
    gw_bell_ring(&queue->bell);
}

bool gw_call_queue_stopping(struct gw_call_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    bool stop = queue->stopping;
    pthread_mutex_unlock(&queue->lock);
    return stop;
}

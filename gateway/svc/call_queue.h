// A queue of calls from workers to one thread of the core, which runs them in order and sends each
// back to the worker it came from. Three threads have one: control, background and deltas.
#ifndef GW_CALL_QUEUE_H
#define GW_CALL_QUEUE_H

#include "store/bell.h"
#include "svc/control.h"

struct gw_call_queue {
    pthread_mutex_t lock; // of all below but the bell
    struct gw_control_call *first;
    struct gw_control_call *last;
    uint32_t count;
    bool stopping;
    struct gw_bell bell; // rung when there is something to do
};

void gw_call_queue_init(struct gw_call_queue *queue);
void gw_call_queue_done(struct gw_call_queue *queue);
// On a worker's thread. BUSY: full or stopping, and the call was not taken.
BASE_NODISCARD enum base_status gw_call_queue_post(struct gw_call_queue *queue,
                                                   struct gw_worker *worker,
                                                   struct gw_control_call *call);
// On the owner's thread: runs what is there. False: there was nothing.
bool gw_call_queue_run(struct gw_call_queue *queue, struct gw_core *core);
// Any thread: nothing is taken any more, and the owner is woken.
void gw_call_queue_stop(struct gw_call_queue *queue);
bool gw_call_queue_stopping(struct gw_call_queue *queue);

#endif

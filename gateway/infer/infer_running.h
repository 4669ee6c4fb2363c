// What the service's threads do: batches that run, calls that are read. infer_run.c and
// infer_service.c share it; all of it is behind the service's lock but what says otherwise.
#ifndef GW_INFER_RUNNING_H
#define GW_INFER_RUNNING_H

#include "infer/infer_private.h"

// On its thread's stack while it runs.
struct gw_infer_batch {
    struct gw_infer_version *version;
    struct gw_infer_session *session;
    struct gw_infer_ticket *tickets[GW_INFER_BATCH_MAX]; // NULL: it ended before
    uint32_t from[GW_INFER_BATCH_MAX];                   // the first row of each
    uint32_t count;
    uint32_t left; // of these
    uint64_t shape;
    uint32_t rows;     // planned; 0: one call, with its inputs as they are
    _Atomic bool stop; // nobody waits for it any more
    bool here;         // on a caller's thread, which has others to look after
    bool planned;      // the session had this plan before
};

// The call that waits so.
static inline struct gw_infer_ticket *gw_infer_ticket_of(struct gw_infer_wait *wait)
{
    return (struct gw_infer_ticket *)(void *)((char *)wait -
                                              offsetof(struct gw_infer_ticket, wait));
}
// With the lock, before and after: reads the next call that is to be read, and queues it. False:
// there is none, or enough threads read.
bool gw_infer_read_next(struct gw_infer_service *service);

// Who answers, into the ticket's result. NOMEM.
BASE_NODISCARD enum base_status gw_infer_name_result(struct gw_infer_ticket *ticket,
                                                     const struct gw_infer_version *version);
void *gw_infer_run_main(void *service); // of a thread
// With the lock: is a call that would be queued now better run by its caller's thread? Nothing else
// is under way, its plan is there, its runs are short, they cost what its shapes say and not what
// its tensors hold, and the thread had time for others since it last ran one.
bool gw_infer_may_run_here(const struct gw_infer_service *service,
                           const struct gw_infer_ticket *ticket);
// With the lock, before and after: runs it and ends it, or stops it and queues it anew, when it
// takes longer than `stop_here_us`.
void gw_infer_run_here(struct gw_infer_service *service, struct gw_infer_ticket *ticket);
void gw_infer_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_us);

#endif

// Messages to a loop from any thread: a lock-free stack that its owner empties in order, woken by
// an eventfd. Posting never blocks and never fails; the order of posts from one thread is kept.
#ifndef GW_MAILBOX_H
#define GW_MAILBOX_H

#include "base/status.h"
#include "svc/core.h"

struct gw_mailbox {
    _Atomic(struct gw_message *) head; // newest first
    int wake_fd;                       // readable while there may be messages; -1 before init
};

// IO when the kernel gives no eventfd.
BASE_NODISCARD enum base_status gw_mailbox_init(struct gw_mailbox *mailbox);
// Closes the descriptor. Messages still inside are the poster's mistake (asserted).
void gw_mailbox_done(struct gw_mailbox *mailbox);
// Any thread. `message` belongs to the mailbox until its `run` is called.
void gw_mailbox_post(struct gw_mailbox *mailbox, struct gw_message *message);
// Owner only: runs what is there, oldest first; returns how many ran. Messages that are posted by
// those are left for the next call (the descriptor stays readable).
uint32_t gw_mailbox_run(struct gw_mailbox *mailbox);

#endif

// What may leave the device with a call of a model in the cloud, by what the running version
// declares (wire/leaves/leaves_check.h). Asked in the agent, which does not trust the task's
// process.
#ifndef POSIX_LEAVE_H
#define POSIX_LEAVE_H

#include "posix/run/posix_cloud.h"
#include "wire/leaves/leaves_ledger.h"

#include <pthread.h>

// The calls of a day, of all tasks, while the agent lives.
struct posix_leave_ledger {
    pthread_mutex_t mutex; // guards what follows: workers count at the same time
    struct wire_leaves_ledger counts;
};

void posix_leave_ledger_init(struct posix_leave_ledger *ledger);
void posix_leave_ledger_done(struct posix_leave_ledger *ledger);

// Of the run under way.
struct posix_leave {
    struct base_str task;        // borrowed until the run is over, as the next one
    struct base_str declaration; // of the version's manifest; empty: none
    struct posix_leave_ledger *ledger;
};

// As posix_cloud_leave.may; `ctx` is a struct posix_leave. Worker's thread.
enum wire_cloud_why posix_leave_may(void *ctx, const struct dev_vm_cloud_call *call,
                                    const struct wire_tensor_call *parsed, char *out_detail,
                                    size_t detail_size);

#endif

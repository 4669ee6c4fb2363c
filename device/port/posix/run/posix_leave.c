// Holds a call against the declaration of the version that runs, and counts the calls of a day.
// Called by posix_cloud.c on the task worker's thread, before the call is queued: whoever makes it,
// a script's VM or a process that has got out of it, gets nothing else past. What was counted is
// kept by the agent, not stored.
#include "posix/run/posix_leave.h"

#include "base/clock.h"
#include "base/error.h"
#include "wire/cloud/tensor_leaves.h"
#include "wire/leaves/leaves_check.h"

#include <stdio.h>

void posix_leave_ledger_init(struct posix_leave_ledger *ledger)
{
    ledger->counts = (struct wire_leaves_ledger){.day = 0};
    pthread_mutex_init(&ledger->mutex, NULL);
}

void posix_leave_ledger_done(struct posix_leave_ledger *ledger)
{
    pthread_mutex_destroy(&ledger->mutex);
}

static bool take(struct posix_leave_ledger *ledger, uint64_t key, uint32_t per_day)
{
    pthread_mutex_lock(&ledger->mutex);
    bool taken =
        wire_leaves_ledger_take(&ledger->counts, key, base_clock_wall_us() / 1000, per_day);
    pthread_mutex_unlock(&ledger->mutex);
    return taken;
}

enum wire_cloud_why posix_leave_may(void *ctx, const struct dev_vm_cloud_call *call,
                                    const struct wire_tensor_call *parsed, char *out_detail,
                                    size_t detail_size)
{
    struct posix_leave *leave = ctx;
    struct base_error error = {.status = BASE_OK};
    if (wire_tensor_may_leave(leave->declaration, call->model, parsed, &error) != BASE_OK) {
        (void)snprintf(out_detail, detail_size, "may not leave: %.140s", error.text);
        return WIRE_CLOUD_NOT_ALLOWED;
    }
    uint64_t key = wire_leaves_ledger_key(leave->task, BASE_STR("model"), call->model);
    uint32_t per_day = wire_leaves_model_per_day(leave->declaration, call->model);
    if (!take(leave->ledger, key, per_day)) {
        (void)snprintf(out_detail, detail_size,
                       "may not leave: %u calls of a day have been made, as declared",
                       (unsigned)per_day);
        return WIRE_CLOUD_NOT_ALLOWED;
    }
    return WIRE_CLOUD_ANSWERED;
}

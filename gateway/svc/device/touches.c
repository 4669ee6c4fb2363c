// What a worker saw of devices on its way to the table. Check-ins and hint streams add to it; it is
// flushed when it is full, when somebody is about to ask the table, and when the worker wakes up or
// ends (core.c). Behind `struct gw_worker` nobody else looks in. Worker's thread.
#include "svc/device/touches.h"

#include "svc/core_worker.h"
#include "svc/device/device_table.h"
#include "svc/device/strangers.h"
#include "svc/plan/attr_pool.h"
#include "svc/plan/cohort.h"
#include "svc/plan/plan.h"

#include "base/check.h"

#include <stdlib.h>

struct gw_touches {
    uint32_t count;
    struct gw_device_touch rows[GW_TOUCHES_MAX];
};

enum base_status gw_touches_new(struct gw_touches **out_touches)
{
    struct gw_touches *touches = malloc(sizeof(*touches));
    if (touches == NULL) {
        return BASE_ERR_NOMEM;
    }
    touches->count = 0;
    *out_touches = touches;
    return BASE_OK;
}

void gw_touches_free(struct gw_touches *touches)
{
    free(touches);
}

bool gw_worker_may_touch(struct gw_worker *worker, const struct gw_checkin *checkin, uint32_t now_s)
{
    struct gw_core *core = worker->core;
    struct gw_cohort *cohort = checkin->cohort;
    if (!checkin->proven && !gw_device_table_has(core->table, checkin->device_id) &&
        !(worker->plan->trusts_unproven && gw_strangers_admit(core, checkin->peer))) {
        return false;
    }
    if (cohort->attrs_id == 0) {
        const struct gw_attr_bringer by = {checkin->device_id, checkin->proven, now_s};
        cohort->attrs_id = gw_attr_pool_intern(core->pool, cohort->attrs, cohort->attrs_size, &by);
    }
    return true;
}

void gw_worker_flush_touches(struct gw_worker *worker)
{
    struct gw_touches *touches = worker->touches;
    if (touches->count > 0) {
        gw_device_table_touch(worker->core->table, touches->rows, touches->count);
        touches->count = 0;
        atomic_store_explicit(&worker->stats.touches_waiting, 0, memory_order_relaxed);
    }
}

void gw_worker_touch(struct gw_worker *worker, const struct gw_checkin *checkin, uint32_t now_s)
{
    if (!gw_worker_may_touch(worker, checkin, now_s)) {
        return;
    }
    struct gw_touches *touches = worker->touches;
    base_assert(touches->count < GW_TOUCHES_MAX);
    touches->rows[touches->count++] =
        (struct gw_device_touch){checkin->device_id, checkin->cohort->attrs_id, now_s,
                                 checkin->proven, checkin->profile.interval_s};
    if (touches->count == GW_TOUCHES_MAX) {
        gw_worker_flush_touches(worker);
        return;
    }
    atomic_store_explicit(&worker->stats.touches_waiting, touches->count, memory_order_relaxed);
}

// The plan: an immutable snapshot of what every device should have.
//
// The control thread builds a new plan whenever a rollout changes and hands it to every worker by
// message; a worker uses one plan until it is handed the next. Counted; nothing is written after it
// was published.
#ifndef GW_PLAN_H
#define GW_PLAN_H

#include "svc/release.h"

#define GW_PLAN_RETIRED_MAX 4u // rolled-back releases of a task whose way back is still offered

struct gw_plan_task {
    uint64_t task_id;
    uint16_t tenant;             // whose devices get it
    struct gw_release *baseline; // last completed; NULL: none
    struct gw_release *open;     // RUNNING or PAUSED; NULL: none
    struct pol_rollout open_state;
    uint32_t retired_count;
    struct gw_release *retired[GW_PLAN_RETIRED_MAX]; // rolling back or rolled back, newest first
};

struct gw_plan {
    _Atomic uint32_t refs;
    uint64_t generation;
    uint32_t task_count;
    struct gw_plan_task tasks[]; // by ascending task_id
};

// All tasks zeroed, the caller fills them (taking references) before publishing. NULL: no memory.
struct gw_plan *gw_plan_new(uint64_t generation, uint32_t task_count);
struct gw_plan *gw_plan_ref(struct gw_plan *plan);
void gw_plan_unref(struct gw_plan *plan); // accepts NULL; drops the releases with the last one
// Ids ascend, counts are within limits, open states fit. For tests and debug builds.
bool gw_plan_validate(const struct gw_plan *plan);

// What one task should be on one device, and how it gets there.
struct gw_want {
    uint64_t version_id;                  // 0: nothing
    const struct gw_statement *statement; // what to offer; NULL: nothing to offer
    const struct gw_release *release;     // whose statement it is
    bool install_open;                    // it is the open rollout's INSTALL: an offer that counts
    uint8_t stage;                        // the open rollout's stage, when install_open
};

// What is known of a device when one task is decided.
struct gw_device_facts {
    uint64_t device_id;
    bool baseline_matched; // the baseline's target
    bool admitted;         // by the open rollout, were it running
    uint64_t have;         // version it runs; 0: none
    uint64_t blocked;      // version it refuses; 0: none
    uint64_t counter;      // highest release counter it accepted; 0: not known
};

// The statement of the open rollout's stage that lets this device in is chosen by the caller's
// `attrs` and the device's bucket.
struct gw_want gw_plan_decide(const struct gw_plan_task *task, const struct gw_device_facts *facts,
                              const struct pol_attrs *attrs);

#endif

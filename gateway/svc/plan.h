// The plan: an immutable snapshot of what every device should have.
//
// The control thread builds a new plan whenever a rollout changes and hands it to every worker by
// message; a worker uses one plan until it is handed the next. A plan shares with the one before it
// every task that did not change, and it lists what did, so that a worker which holds what it
// computed from an older plan computes the difference only. The index over anchors says which tasks
// can concern a device with given attributes at all. Everything here is counted; nothing is written
// after it was published.
#ifndef GW_PLAN_H
#define GW_PLAN_H

#include "svc/release.h"

#define GW_PLAN_RETIRED_MAX  4u // rolled-back releases of a task whose way back is still offered
#define GW_PLAN_OPEN_MAX     GW_TASK_OPEN_MAX
#define GW_PLAN_CHANGES_MAX  1024u // changed tasks a plan remembers
#define GW_ANCHOR_VALUES_MAX 64u   // values of a release in the index; with more it is for all

struct gw_plan_open {
    struct gw_release *release;
    struct pol_rollout state; // RUNNING or PAUSED
    uint64_t quarantine;      // signature of the segments that are kept off it
    bool shadow;              // offered as a shadow, by the stage it is in
};

struct gw_plan_task {
    _Atomic uint32_t refs;
    uint32_t slot;               // in the plan: the same for as long as the process lives
    uint64_t task_id;            // of a task's shadows it is wire_shadow_task_id
    bool shadow;                 // these are a task's shadows: no baseline, nothing retired
    uint16_t tenant;             // whose devices get it
    uint64_t signature;          // of all that decides what its devices are offered
    uint64_t retired_signature;  // of the retired releases; 0: none
    struct gw_release *baseline; // last completed; NULL: none
    uint64_t baseline_quarantine;
    uint32_t open_count;
    struct gw_plan_open open[GW_PLAN_OPEN_MAX]; // a device follows the first that targets it
    uint32_t retired_count;
    struct gw_release *retired[GW_PLAN_RETIRED_MAX]; // rolling back or rolled back, newest first
};

struct gw_plan_change {
    uint64_t generation;
    uint32_t slot;
};

struct gw_plan_index; // svc/plan_index.h

struct gw_plan {
    _Atomic uint32_t refs;
    uint64_t generation;
    uint64_t retired_signature;  // of all tasks
    bool trusts_unproven;        // an open rollout counts devices that never showed who they are
    struct gw_plan_index *index; // of this generation or one since changes_from
    uint64_t changes_from;       // what was computed from this generation or later can catch up
    uint32_t change_count;
    struct gw_plan_change changes[GW_PLAN_CHANGES_MAX]; // ascending, those after changes_from
    uint32_t task_count;
    uint32_t *by_id;              // slots by ascending task id
    struct gw_plan_task *tasks[]; // by slot
};

struct gw_plan *gw_plan_ref(struct gw_plan *plan);
void gw_plan_unref(struct gw_plan *plan); // accepts NULL; drops the tasks with the last one
// Task `i` of the plan to be, by ascending task id: everything but refs and signatures. Slots are
// 0..count-1 in some order and stay what they were; releases are borrowed.
typedef void (*gw_plan_fill_fn)(const void *ctx, uint32_t i, struct gw_plan_task *out);

// Builds the plan that follows `previous` (NULL: the first) from `count` tasks. NULL: no memory, or
// (*out_changed false) nothing changed.
struct gw_plan *gw_plan_build(const struct gw_plan *previous, uint32_t count, gw_plan_fill_fn fill,
                              const void *ctx, bool *out_changed);
// Ids ascend, counts are within limits, open states fit. For tests and debug builds.
bool gw_plan_validate(const struct gw_plan *plan);
// NULL: no such task.
const struct gw_plan_task *gw_plan_find(const struct gw_plan *plan, uint64_t task_id);

// What one task should be on one device, and how it gets there.
struct gw_want {
    uint64_t version_id;                  // 0: nothing
    const struct gw_statement *statement; // what to offer; NULL: nothing to offer
    const struct gw_release *release;     // whose statement it is
    bool install_open;                    // it is an open rollout's INSTALL: an offer that counts
    uint8_t stage;                        // that rollout's stage, when install_open
    bool shadow;                          // ... which is a shadow stage
};

// What is known of a device when one task is decided.
struct gw_device_facts {
    uint64_t device_id;
    bool baseline_matched;           // the baseline's target
    const struct gw_plan_open *open; // the rollout that it follows; NULL: none
    bool admitted;                   // by that, were it running
    bool quarantined;                // kept off that: a device that has it goes back
    uint64_t have;                   // version it runs; 0: none
    uint64_t blocked;                // version it refuses; 0: none
    uint64_t counter;                // highest release counter it accepted; 0: not known
};

// The statement of the followed rollout's stage that lets this device in is chosen by the caller's
// `attrs` and the device's bucket.
struct gw_want gw_plan_decide(const struct gw_plan_task *task, const struct gw_device_facts *facts,
                              const struct pol_attrs *attrs);

// The statement by which a device may go on with what it has: of the open rollout's latest stage
// that lets it in, or the baseline's last. NULL: it may not, or has something else.
const struct gw_statement *gw_plan_held(const struct gw_plan_task *task,
                                        const struct gw_device_facts *facts,
                                        const struct pol_attrs *attrs);

#endif

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

#include "svc/plan/kept_off.h"
#include "svc/plan/release.h"

#define GW_PLAN_OPEN_MAX GW_TASK_OPEN_MAX
#define GW_STOP_BYTES    16u
// Completed releases of a task that devices may be on; of more, those approved last.
#define GW_PLAN_BASES_MAX 16u
// Among them is always room for so many versions that are for everybody: the newest, and those
// before it for who refuses that. The list ends behind them.
#define GW_PLAN_BASES_ALL_MAX 4u
#define GW_PLAN_CLAIMS_MAX    (GW_PLAN_OPEN_MAX + GW_PLAN_BASES_MAX)
#define GW_PLAN_CHANGES_MAX   1024u // changed tasks a plan remembers
#define GW_ANCHOR_VALUES_MAX  64u   // values of a release in the index; with more it is for all

struct gw_plan_open {
    const struct gw_release *release;
    struct pol_rollout state;           // RUNNING or PAUSED
    uint64_t quarantine;                // signature of the segments that are kept off it
    const struct gw_kept_off *kept_off; // these, the tally's; NULL only where the signature is 0
};

// A completed release, or one that is guarded: the baseline of those it was completed for.
struct gw_plan_base {
    const struct gw_release *release;
    uint64_t quarantine; // this and the next as of an open one
    const struct gw_kept_off *kept_off;
    bool guarded; // offers of it count, and wait for its last stage's pace
    bool held;    // for nobody who has not its version
};

struct gw_plan_task {
    _Atomic uint32_t refs;
    uint32_t slot;      // in the plan: the same for as long as the process lives
    uint64_t task_id;   // of a task's shadows it is wire_shadow_task_id
    bool shadow;        // these are a task's shadows: no bases
    bool begun;         // a rollout of it was: what nothing is meant for is stopped
    uint16_t tenant;    // whose devices get it
    uint64_t signature; // of all that decides what its devices are offered

    uint32_t base_count;
    struct gw_plan_base bases[GW_PLAN_BASES_MAX]; // approved last first
    uint32_t open_count;
    struct gw_plan_open open[GW_PLAN_OPEN_MAX]; // a device follows the first that targets it
    uint8_t stop[GW_STOP_BYTES]; // the envelope that orders it stopped (PROTOCOL.md, section 9)
    size_t stop_bytes;
};

struct gw_plan_change {
    uint64_t generation;
    uint32_t slot;
};

struct gw_plan_index; // svc/plan/plan_index.h

struct gw_plan {
    _Atomic uint32_t refs;
    uint64_t generation;
    // One more whenever a task lost a claim, or its first rollout began: who keeps what it had asks
    // again.
    uint64_t recalls;
    uint64_t went_on;     // the generation in which a claim last did that had been paused; 0: none
    bool trusts_unproven; // an open rollout counts devices that never showed who they are
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

// Claims of a task (policy/desired.h) by number: its open releases as they stand in `open`, then
// its bases from GW_PLAN_OPEN_MAX on.
const struct gw_release *gw_plan_claim_release(const struct gw_plan_task *task, uint8_t number);
uint32_t gw_plan_claim_newest(const struct gw_plan_task *task, uint8_t number); // open stage
// The widest share that is open, whatever the audience: buckets below it.
uint16_t gw_plan_claim_share(const struct gw_plan_task *task, uint8_t number);

#endif

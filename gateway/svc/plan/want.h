// What one task should be on one device, and how it gets there. Pure: a plan, what a cohort knows
// of it, and what the device says; which version it is says policy/desired.h. Worker's thread.
#ifndef GW_WANT_H
#define GW_WANT_H

#include "policy/desired.h"
#include "svc/plan/cohort.h"
#include "wire/profile.h"

struct gw_want {
    uint64_t version_id;                  // 0: nothing
    enum pol_desired_rule rule;           // why
    const struct gw_release *release;     // whose version it is; NULL: nothing
    uint8_t number;                       // of that claim in the plan's task
    const struct gw_statement *statement; // what to order; NULL: nothing
    bool stop;                            // the order is that nothing of the task runs
    bool back;                            // the order leads to what was approved before
    bool install_open; // it is the INSTALL of a rollout that is open or guarded: an offer that
                       // counts
    uint8_t stage;     // that rollout's stage, when install_open
    bool shadow;       // ... which is a shadow stage
    bool refused;      // it would be another, but for a statement it refuses
    bool floored;      // it would be another, but for its floor
};

// What the device says of the task.
struct gw_device_facts {
    const uint64_t *device_id; // borrowed
    uint64_t have;             // version it runs; 0: none
    uint64_t approved;         // release counter by which it has that; 0: not known
    uint64_t blocked;          // version it refuses, for it failed there last; 0: none
    uint64_t retry;            // version that it may try again although it refuses it; 0: none
    uint64_t floor;            // it follows no release below; 0: not known
    uint32_t held;   // bit n: what the claim n offers is held back from it, as if it were paused
    uint32_t let_in; // bit n: as if the open claim n's share had it (svc/plan/draw.h)
    const struct wire_profile *told; // names what else it refuses; NULL: nothing
};

// Does the device say that the version failed there before the one that failed last?
bool gw_want_failed_before(const struct gw_device_facts *facts, uint64_t task_id,
                           uint64_t version_id);

// `entries`: what the device's cohort has of the task; none when it does not concern it.
struct gw_want gw_want_decide(const struct gw_plan_task *task, const struct gw_cohort_task *entries,
                              uint32_t entry_count, const struct gw_device_facts *facts,
                              const struct pol_attrs *attrs);

// The same from the attributes alone: for who has no cohort at hand (svc/view/why.h).
struct gw_want gw_want_of(const struct gw_plan_task *task, const struct gw_device_facts *facts,
                          const struct pol_attrs *attrs);

// The number of the open claim that the device follows before a release of this priority which is
// approved after all of them, or which is the open rollout `self` (0: none of them);
// GW_PLAN_OPEN_MAX: none, so that it would follow that release (svc/device/preview.h).
uint8_t gw_want_followed(const struct gw_plan_task *task, uint16_t priority, uint64_t self,
                         uint64_t device_id, const struct pol_attrs *attrs);

// Of the open claims that come after that release: bit n, the device is in the target of number n.
uint32_t gw_want_waiting(const struct gw_plan_task *task, uint16_t priority, uint64_t self,
                         uint64_t device_id, const struct pol_attrs *attrs);

// The statement by which a device that has what it should goes on with it: of the latest stage that
// lets it in, also when the target shuts it out (KEEPS). NULL: it has something else, no audience
// has it, or an open stage failed and is not held.
const struct gw_statement *gw_want_held(const struct gw_plan_task *task, const struct gw_want *want,
                                        const struct gw_device_facts *facts,
                                        const struct pol_attrs *attrs);

#endif

// Devices of a task for which nothing is left: a version ran well there that was taken back since,
// and names a floor above the baseline, or there is no baseline, or none whose target they match.
// Control thread.
#ifndef GW_FLOORED_H
#define GW_FLOORED_H

#include "base/status.h"

#include <stdint.h>

struct gw_core;

struct gw_floored {
    uint64_t rollout;  // that was taken back, and names a floor
    uint64_t floor;    // by release counter
    uint64_t baseline; // counter of the task's; 0: it has none
    uint64_t devices;  // known ones on which its version ran well
    // Of a rollout that is asked for and ran anywhere, when `devices` is 0: known ones that its
    // target matches, and that of no baseline.
    uint64_t untargeted;
    uint32_t open; // rollouts of the task that may let them in all the same; no device is looked at
};

// Of rollout `rollout_id`; 0: of the task's rollouts the one with the most devices. All 0: there
// are none. O(rollouts), and O(known devices) where a baseline is left that is not for everybody.
// NOT_FOUND: the task has no such rollout; NOMEM.
BASE_NODISCARD enum base_status gw_floored_of(struct gw_core *core, uint64_t task_id,
                                              uint64_t rollout_id, struct gw_floored *out);

#endif

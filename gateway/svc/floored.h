// Devices of a task for which nothing is left: a version ran well there that was taken back since,
// and names a floor above the baseline, or there is no baseline. Control thread.
#ifndef GW_FLOORED_H
#define GW_FLOORED_H

#include <stdint.h>

struct gw_core;

struct gw_floored {
    uint64_t rollout;  // that was taken back, and names a floor
    uint64_t floor;    // by release counter
    uint64_t baseline; // counter of the task's; 0: it has none
    uint64_t devices;  // known ones on which its version ran well
};

// Of several rollouts the one with the most devices; `devices` 0: none. O(rollouts).
void gw_floored_of(struct gw_core *core, uint64_t task_id, struct gw_floored *out);

#endif

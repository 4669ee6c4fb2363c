// Who has a version already, and by which rollouts: what another rollout of it would bring them is
// nothing. Control thread.
#ifndef GW_PRESENT_H
#define GW_PRESENT_H

#include "wire/digest.h"

#include "policy/rollout.h"

#define GW_PRESENT_ROLLOUTS_MAX 8u // that are listed: the open ones, then those approved last

struct gw_core;

struct gw_present_rollout {
    uint64_t id;
    enum pol_rollout_state state;
    uint64_t devices; // known ones that came to the version by it, and did not come off it
};

struct gw_present {
    uint64_t devices; // of all of them
    uint32_t rollout_count;
    struct gw_present_rollout rollouts[GW_PRESENT_ROLLOUTS_MAX]; // the first of them
};

// Of the rollouts of the task's version that are open, are a baseline that nothing is everybody's
// behind, or go back with devices on it. `rollout_count` 0: nobody has it, and nothing brings it.
// O(rollouts).
void gw_present_of(struct gw_core *core, uint64_t task_id, const struct wire_sha256 *manifest,
                   struct gw_present *out);

#endif

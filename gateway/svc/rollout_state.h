// Stored form of rollouts and of their log. Control thread.
#ifndef GW_ROLLOUT_STATE_H
#define GW_ROLLOUT_STATE_H

#include "svc/core_private.h"

// A change of one rollout, written in one transaction: its row, its task's row, one log line.
struct gw_rollout_change {
    struct gw_rollout next; // what the rollout becomes
    uint64_t task_counter;  // what its task's counter becomes
    uint64_t task_baseline; // what its task's baseline becomes
    struct gw_rollout_log_view line;
};

// Writes the change and waits until it is on disk; memory is not touched.
BASE_NODISCARD enum base_status gw_rollout_store(struct gw_core *core, const struct gw_task *task,
                                                 const struct gw_rollout_change *change);
// Parses a row into a new rollout (its task is not set). CORRUPT, NOMEM.
BASE_NODISCARD enum base_status gw_rollout_decode(const uint8_t *bytes, size_t size,
                                                  struct gw_rollout **out_rollout);

#endif

// Rollouts that completed and go on failing: no gate judges them any more, so that it is said, and
// a person takes them back (undo) or kills the version. Control thread.
#ifndef GW_LATE_FAILURES_H
#define GW_LATE_FAILURES_H

#include "svc/rollout/rollouts.h"

#define GW_LATE_LOOK_US UINT64_C(2000000) // between two looks at all that completed

struct gw_core;
struct gw_rollout;

// Looks at all rollouts that completed, now and then: counts those that fail late, and says each
// once in the log.
void gw_late_step(struct gw_core *core);
// Has a completed rollout more failures, among all that ran it, than its last stage's max_failure?
// *out_failed of *out_completed devices then. False for what is open, went back, or was killed.
bool gw_late_failures(struct gw_core *core, const struct gw_rollout *rollout, uint64_t *out_failed,
                      uint64_t *out_completed);

#endif

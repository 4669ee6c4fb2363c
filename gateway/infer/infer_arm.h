// The arm of a release that a call belongs to, and shadows: calls that are run by the candidate as
// well, whose answers nobody gets. Only gateway/infer/infer_*.c include this.
#ifndef GW_INFER_ARM_H
#define GW_INFER_ARM_H

#include "infer/infer_running.h"

enum gw_infer_arm {
    GW_INFER_ARM_NONE,
    GW_INFER_ARM_SERVING,
    GW_INFER_ARM_SHADOWED, // the same, and its candidate may run it too
    GW_INFER_ARM_CANDIDATE,
    GW_INFER_ARM_SHADOW
};

// With the lock: gw_infer_find for a call, and its arm where it names no version.
struct gw_infer_version *gw_infer_choose(struct gw_infer_service *service,
                                         struct gw_infer_ticket *ticket);
// With the lock: the run of the batch begins.
void gw_infer_arms_begin(struct gw_infer_batch *batch, uint64_t now_us);
// With the lock: it ended so.
void gw_infer_arm_count(struct gw_infer_ticket *ticket, enum base_status status);
// With the lock, of a call that was not let in: it counts unless the fault is its own. That the
// candidate refuses what the serving version takes is the candidate's.
void gw_infer_arm_refused(struct gw_infer_service *service, struct gw_infer_ticket *ticket,
                          enum base_status status);

// ---- Shadows

// With the lock: is there room for the shadow of a call whose answer is known now? Then it has its
// place until gw_infer_shadow_copy gives it up, or the shadow ended.
bool gw_infer_shadow_room(struct gw_infer_service *service, struct gw_infer_ticket *ticket);
// Without it, while the call is held: copies inputs and outputs. NULL: it is too large, or has no
// answer, or there is no memory; the place is free again.
struct gw_infer_shadow *gw_infer_shadow_copy(struct gw_infer_service *service,
                                             const struct gw_infer_ticket *ticket, bool answered);
void gw_infer_shadow_put(struct gw_infer_ends *ends, struct gw_infer_shadow *shadow);
// Without the lock: they begin, when the answers of their calls are away.
void gw_infer_shadows_begin(struct gw_infer_shadow *first);
// With the lock, when a call of this version comes: where every thread has work, or the version as
// many runs as it may have, shadows end.
void gw_infer_shadow_yield(struct gw_infer_service *service, const struct gw_infer_version *version,
                           struct gw_infer_ends *ends);

#endif

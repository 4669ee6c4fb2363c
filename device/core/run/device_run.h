// Runs of tasks: one at a time, when it is due or when behaviour asks for it. To the other parts
// only whether one is under way; its state is in run_parts.h.
#ifndef DEV_DEVICE_RUN_H
#define DEV_DEVICE_RUN_H

#include "core/base/runtime.h"

extern const struct dev_part dev_run_part;
extern const struct dev_part dev_triggered_part;
extern const struct dev_part dev_shadow_part;
// The active version is of another rollout now, which wants to see it run.
void dev_run_entered(struct dev_task *task);
bool dev_run_is_busy(const struct dev_runtime *runtime);
bool dev_triggered_is_busy(const struct dev_runtime *runtime); // one that behaviour asked for waits
bool dev_run_valid(const struct dev_runtime *runtime);         // for dev_validate

#endif

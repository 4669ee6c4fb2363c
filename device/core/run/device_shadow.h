// Shadows: versions that run beside the active one of their task, for comparison.
#ifndef DEV_DEVICE_SHADOW_H
#define DEV_DEVICE_SHADOW_H

#include "core/base/runtime.h"

// The shadow of a task, or the task of a shadow; NULL: there is none.
struct dev_task *dev_shadow_other(struct dev_runtime *runtime, const struct dev_task *task);
// May a verified shadow statement be followed? NOT_FOUND: nothing runs that it could run beside;
// EXISTS: the device went further than that already.
BASE_NODISCARD enum base_status dev_shadow_admit(const struct dev_runtime *runtime,
                                                 const struct wire_release *release);
void dev_shadow_follow(struct dev_runtime *runtime, struct dev_task *shadow,
                       const struct wire_release *release, bool is_new, bool retry);

#endif

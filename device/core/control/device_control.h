// Control: check-ins and reports, as requests of the runtime's own or on those of the app; and the
// hint stream. What others want of it are events. Its state is in control_parts.h.
#ifndef DEV_DEVICE_CONTROL_H
#define DEV_DEVICE_CONTROL_H

#include "core/base/runtime.h"

extern const struct dev_part dev_control_part;
extern const struct dev_part dev_hints_part;
bool dev_control_is_busy(const struct dev_runtime *runtime);

#endif

// The collection of content that nothing needs any more.
#ifndef DEV_DEVICE_COLLECT_H
#define DEV_DEVICE_COLLECT_H

#include "core/base/runtime.h"

extern const struct dev_part dev_collect_part;

#endif

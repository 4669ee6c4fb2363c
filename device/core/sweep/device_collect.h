// The collection of content that nothing needs any more.
#ifndef DEV_DEVICE_COLLECT_H
#define DEV_DEVICE_COLLECT_H

#include "core/base/runtime.h"

extern const struct dev_part dev_collect_part;
// A check-in was answered in full: content of pulls that were given up, and whose version was not
// offered again, is collected.
void dev_collect_leftovers(struct dev_runtime *runtime);

#endif

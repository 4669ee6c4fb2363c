// The pull: brings the content of accepted versions, and what is damaged of the others. Its state
// is in pull_state.h.
#ifndef DEV_DEVICE_PULL_H
#define DEV_DEVICE_PULL_H

#include "core/base/runtime.h"

extern const struct dev_part dev_pull_part;
// Another statement of the task was accepted, or none is any more: what fails now was not reported.
void dev_pull_accepted(struct dev_task *task);
// A check-in was answered in full: content of pulls that were given up, and whose version was not
// offered again, is to be collected.
void dev_pull_leftovers(struct dev_runtime *runtime);
bool dev_pull_is_idle(const struct dev_runtime *runtime);
bool dev_pull_is_due(const struct dev_runtime *runtime, uint64_t now_us);
bool dev_pull_valid(const struct dev_runtime *runtime); // for dev_validate

#endif

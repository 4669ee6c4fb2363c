// Versions that run on a lease, and versions that must stop.
#ifndef DEV_DEVICE_LEASE_H
#define DEV_DEVICE_LEASE_H

#include "core/base/runtime.h"

// The statement a task follows: does its version run on a lease, and how long?
void dev_lease_grant(struct dev_runtime *runtime, struct dev_task *task,
                     const struct wire_release *release);
// Likewise of a mark that is followed: the lease of its active version, if it has one.
void dev_lease_again(struct dev_runtime *runtime, struct dev_task *task);
// The version of the task does not run on a lease any more: it was stopped, killed, or lost it.
void dev_lease_drop(struct dev_task *task);
extern const struct dev_part dev_lease_part;
// When a check-in is due that renews the leases; UINT64_MAX: there is none.
uint64_t dev_lease_renew_us(const struct dev_runtime *runtime);
bool dev_lease_any(const struct dev_runtime *runtime);

#endif

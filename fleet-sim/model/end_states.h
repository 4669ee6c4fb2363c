// The end state of every device, once nothing goes wrong around it any more: the liveness half of a
// run with faults. On the coordinator's thread, after the shards ended.
#ifndef SIM_END_STATES_H
#define SIM_END_STATES_H

#include "model/ledger.h"

// Time for everybody to come to where a release is: several check-ins and the longest back-off.
#define SIM_ENDS_WITHIN_S 1800

// Where devices that came online were in the end.
struct sim_ends {
    uint64_t devices;
    uint64_t astray[SIM_VERSIONS_MAX]; // neither run it well nor hold a reason against it
    uint64_t on[SIM_VERSIONS_MAX];
};

// Counts, for every version, the devices that are not where its release should have brought them.
void sim_ends_count(const struct sim_ledger *const *ledgers, uint32_t count, struct sim_ends *out);

#endif

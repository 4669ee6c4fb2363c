// The end state of every device, once nothing goes wrong around it any more: the liveness half of a
// run with faults. On the coordinator's thread, after the shards ended.
#ifndef SIM_END_STATES_H
#define SIM_END_STATES_H

#include "report/run_result.h"

// Time for everybody to come to where a release is: several check-ins and the longest back-off.
#define SIM_ENDS_WITHIN_S 1800

// Counts, for every version, the devices that are not where its release should have brought them.
void sim_ends_count(const struct sim_ledger *const *ledgers, uint32_t count, struct sim_ends *out);
// Judges the newest rollout of those in the result, if it is over and there was time since.
void sim_ends_judge(struct sim_run_result *result);

#endif

// What shards know of roots when a run is over.
#ifndef SIM_FLEET_TRUST_H
#define SIM_FLEET_TRUST_H

#include "report/trust_report.h"
#include "run/fleet.h"

void sim_trust_gather(struct sim_shard *const *shards, uint32_t count,
                      struct sim_versions *versions, struct sim_trust_result *out);

#endif

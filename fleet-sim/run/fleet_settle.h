// The law over a whole run: for each device and class, records offered to the tunnel = durable at
// the gateway + queued + declared lost + those a kill took back before they were in the store.
#ifndef SIM_FLEET_SETTLE_H
#define SIM_FLEET_SETTLE_H

#include "model/law_sums.h"
#include "run/fleet_behaviour.h"

#include <stdio.h>

// Boots every device that behaved once more and reads its tunnel. A row of each device and class
// goes to `rows` (NULL: none), which `walle-fleet-sim law` compares with the gateway's log. NOMEM.
BASE_NODISCARD enum base_status sim_settle(struct sim_shard *const *shards, uint32_t count,
                                           FILE *rows, struct sim_law *out);

#endif

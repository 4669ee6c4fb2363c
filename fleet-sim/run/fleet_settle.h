// The law over a whole run: for each device and class, records offered to the tunnel = durable at
// the gateway + queued + declared lost + those a kill took back before they were in the store.
#ifndef SIM_FLEET_SETTLE_H
#define SIM_FLEET_SETTLE_H

#include "run/fleet_behaviour.h"

#include <stdio.h>

struct sim_law_class {
    uint64_t offered;  // to the tunnel, counted by the simulator
    uint64_t produced; // of them, those the device knows of at the end
    uint64_t durable;
    uint64_t queued;
    uint64_t lost;
    uint64_t lost_by[WIRE_TUNNEL_LOSS_END];
    uint64_t gone; // with a kill, before they were stored
};

struct sim_law {
    struct sim_law_class classes[WIRE_TUNNEL_CLASSES];
    uint64_t devices;
    uint64_t checked; // pairs of device and class
    uint64_t broken;
    uint64_t stored_bytes; // in the stores of all devices
};

// Boots every device that behaved once more and reads its tunnel. A row of each device and class
// goes to `rows` (NULL: none), which `walle-fleet-sim law` compares with the gateway's log. NOMEM.
BASE_NODISCARD enum base_status sim_settle(struct sim_shard *const *shards, uint32_t count,
                                           FILE *rows, struct sim_law *out);

#endif

// Where a device's doings meet what the simulator noted of it (model/facts.h). fleet_device.c and
// fleet_ports.c call it, on the shard's thread.
#ifndef SIM_FLEET_FACTS_H
#define SIM_FLEET_FACTS_H

#include "run/fleet.h"

BASE_NODISCARD enum base_status sim_fleet_facts_init(struct sim_shard *shard);
// It has booted. What it lost with its storage is not held against it.
void sim_fleet_facts_woke(struct sim_awake *awake);
// It goes to sleep in order.
void sim_fleet_facts_sleeps(struct sim_awake *awake);
// An exchange is over: answered with what is of use, or not.
void sim_fleet_facts_heard(struct sim_awake *awake, const struct sim_exchange *exchange, bool good);
// Versions moved: its counters before, now, and whether another one is active of the task followed.
void sim_fleet_facts_moved(struct sim_awake *awake, const struct dev_stats *stats,
                           uint8_t active_before);

#endif

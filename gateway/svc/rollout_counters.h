// What is counted of all rollouts, for /metrics. Written by the control thread, read by anybody.
#ifndef GW_ROLLOUT_COUNTERS_H
#define GW_ROLLOUT_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

struct gw_rollout_counters {
    _Atomic uint64_t decisions;
    _Atomic uint64_t pages; // somebody must look
    _Atomic uint64_t completed;
    _Atomic uint64_t rolled_back; // began to go back
    _Atomic uint64_t held;        // failed, and wait for a person
    _Atomic uint64_t guards_over; // completed although devices were outstanding
    _Atomic uint64_t late;        // completed, and failing now
    uint64_t late_looked_us;      // when they were last looked for
};

#endif

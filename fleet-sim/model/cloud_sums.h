// What devices' calls of models in the cloud came to. Every field is a 64-bit sum: they are counted
// by each shard, on its thread, and added up (model/ledger.h).
#ifndef SIM_CLOUD_SUMS_H
#define SIM_CLOUD_SUMS_H

#include <stdint.h>

// asked = kept + sent; sent = answered + late + refused.
struct sim_cloud_sums {
    uint64_t asked;
    uint64_t kept; // of them: never left the device, which is offline, or may not send that
    uint64_t sent;
    uint64_t answered;
    uint64_t late;       // the deadline passed first
    uint64_t refused;    // over the quota, too many waiting, or no such model or inputs
    uint64_t over_quota; // of those
    uint64_t busy;       // likewise
    uint64_t waited;     // calls that waited for an instance
    uint64_t served_us;  // that instances were taken
};

#endif

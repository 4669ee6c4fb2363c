// What a run needs of a machine (run/preflight.c counts it).
#ifndef SIM_BUDGET_H
#define SIM_BUDGET_H

#include <stdint.h>

struct sim_budget {
    uint32_t carriers;
    uint32_t dedicated;
    uint64_t sockets;
    uint64_t open_files;
    uint64_t source_addresses;
    uint64_t record_bytes;     // dormant devices, ledger and expected saved state
    uint64_t awake_bytes;      // slots, of devices with one task
    uint64_t tasks_bytes;      // ... and more, when every place for another one is taken
    uint64_t connection_bytes; // ours
    uint64_t kernel_bytes;
    // What devices pull: a copy for each shard and for each device that shares nothing.
    uint64_t content_bytes;
    uint64_t gateway_bytes; // of its core and store, in virtual time
    uint64_t users_bytes;   // of those who behave: pipelines in memory, and what is kept of them
    uint64_t fixed_bytes;   // the program, and what a thread has before the first device
    uint64_t memory_bytes;  // all of it but tasks_bytes
    double ramp_s;          // until the last device came online
};

#endif

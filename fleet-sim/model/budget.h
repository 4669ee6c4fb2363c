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
    uint64_t awake_bytes;      // slots
    uint64_t tasks_bytes;      // ... of these, places for tasks beyond the first
    uint64_t connection_bytes; // ours
    uint64_t kernel_bytes;
    uint64_t
        content_bytes;     // what devices pull: a copy for each thread and each that shares nothing
    uint64_t memory_bytes; // all of it
    double ramp_s;         // until the last device came online
};

#endif

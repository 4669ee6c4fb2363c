// Preflight: what a run will need, before it starts, against what the machine has.
#ifndef SIM_PREFLIGHT_H
#define SIM_PREFLIGHT_H

#include "run/fleet.h"

#include <stdio.h>

// What the machine has; a parameter, so that refusals can be tested.
struct sim_machine {
    uint64_t open_files_max;
    uint64_t memory_bytes; // available
};

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

void sim_machine_read(struct sim_machine *out);
// INVALID for options that contradict each other, LIMIT when the machine has too little; `error`
// says what to change. `out` is filled in any case.
BASE_NODISCARD enum base_status sim_preflight(const struct sim_options *options,
                                              const struct sim_machine *machine,
                                              struct sim_budget *out, struct base_error *error);
void sim_budget_print(const struct sim_budget *budget, const struct sim_options *options,
                      const struct sim_machine *machine, FILE *file);

#endif

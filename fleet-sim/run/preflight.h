// Preflight: what a run will need, before it starts, against what the machine has.
#ifndef SIM_PREFLIGHT_H
#define SIM_PREFLIGHT_H

#include "model/budget.h"
#include "run/fleet.h"

#include <stdio.h>

// What the machine has; a parameter, so that refusals can be tested.
struct sim_machine {
    uint64_t open_files_max;
    uint64_t memory_bytes; // available
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

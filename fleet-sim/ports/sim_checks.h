// The check of bytecode (vm/mpy/mpy_check.h) is a pure function of the bytes: a shard does it once
// for content of its store, which never changes. What is not its store's, and what a device that
// shares nothing runs, is checked each time; of the latter the two answers are compared.
//
// One per shard, owned by its thread.
#ifndef SIM_SIM_CHECKS_H
#define SIM_SIM_CHECKS_H

#include "ports/content_store.h"
#include "vm/vm.h"

struct sim_checks {
    struct sim_store *store;                       // NULL: nothing is shared
    uint8_t passed[(SIM_STORE_BLOBS_MAX + 7) / 8]; // by the content's index, a bit each
    const struct dev_task_job *job;                // of the run under way
    bool real;                                     // ... its device shares nothing
    uint64_t shared;
    uint64_t made;
    uint64_t compared; // of `made`: with what was known
    uint64_t mismatches;
};

// For the run of `job`: valid until the next.
struct dev_vm_check_port sim_checks_port(struct sim_checks *checks, const struct dev_task_job *job,
                                         bool real);

#endif

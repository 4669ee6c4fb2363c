// Task runs of virtual devices: the real VM of the shard's thread, and the checks of the ledger.
//
// Every run is loaded and executed for real, from an empty interpreter. One runner per shard, owned
// by its thread.
#ifndef SIM_SIM_TASK_H
#define SIM_SIM_TASK_H

#include "ports/content_store.h"
#include "vm/vm.h"

#define SIM_VMS_MAX         4 // heap sizes kept at once
#define SIM_TASK_DETAIL_MAX WIRE_REPORT_DETAIL_MAX

struct sim_runner {
    struct dev_vm *vm[SIM_VMS_MAX];
    uint32_t heap_kib[SIM_VMS_MAX];
    uint32_t count;
    struct dev_vm_module modules[DEV_VM_MODULES_MAX];
    uint64_t vm_us; // time spent inside the VM
};

// How a run ended, with storage for its text: valid until the next run for `result`.
struct sim_task_end {
    struct dev_task_end end;
    char detail[SIM_TASK_DETAIL_MAX + 1];
};

void sim_runner_init(struct sim_runner *runner);
void sim_runner_done(struct sim_runner *runner);
// Runs the job to its end. Whatever goes wrong is an outcome.
void sim_runner_run(struct sim_runner *runner, const struct dev_task_job *job,
                    struct sim_task_end *out);
// An end that did not come from the VM: an injected failure.
void sim_task_end_set(struct sim_task_end *out, enum wire_outcome_kind outcome,
                      uint64_t duration_us, const char *detail);
// Is every byte the job would run content that was verified in `store`, the manifest included? The
// files behind the manifest's are exclusive ones; whose they are is not asked here.
bool sim_task_verified(struct sim_store *store, const struct dev_task_job *job);

#endif

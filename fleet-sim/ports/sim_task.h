// Task runs of virtual devices: the real VM of the shard's thread, and the checks of the ledger.
//
// A run is loaded and executed for real, from an empty interpreter, unless its device shares runs.
// One runner per shard, owned by its thread; VMs are of a thread. Models are the whole fleet's:
// each is loaded once.
#ifndef SIM_SIM_TASK_H
#define SIM_SIM_TASK_H

#include "cloud/sim_cloud.h"
#include "model/model_store.h"
#include "pipeline/storage/feature_store.h"
#include "ports/sim_checks.h"
#include "ports/sim_runs.h"
#include "posix/run/posix_run_io.h"
#include "vm/vm.h"

#define SIM_VMS_MAX 4 // heap sizes kept at once

// Of a thread. A run begins with an empty interpreter, so it does not matter which one it has.
struct sim_vms {
    struct dev_vm *vm[SIM_VMS_MAX];
    uint32_t heap_kib[SIM_VMS_MAX];
    uint32_t count;
};

struct sim_runner {
    struct sim_vms own;
    struct sim_vms *vms; // those, or the ones of the thread that the shard is on just now
    struct dev_vm_module modules[DEV_VM_MODULES_MAX];
    struct dev_vm_model models[DEV_VM_MODELS_MAX];
    struct dev_vm_bytes files[DEV_VM_FILES_MAX];
    struct dev_vm_bytes blobs[DEV_BLOBS_MAX];
    struct dev_model_store *model_store; // of all shards; NULL: scripts run no models
    struct sim_cloud_side cloud;         // zero: scripts ask no models in the cloud
    struct sim_checks checks;            // of bytecode
    struct sim_runs runs;                // that devices share
    uint64_t vm_us;                      // time spent inside the VM
    struct posix_run_effects effects;    // of the last run
};

// What a run may ask for beside its files: stored features (NULL: none). A device that is `real`
// shares nothing.
struct sim_run_data {
    struct dev_feature_store *features;
    uint64_t now_us;
    bool real;
    bool shares; // its run may be another's with the same files, which are verified
    const struct dev_runtime *runtime; // whose run it is: is there a way to the cloud?
    uint32_t device;                   // likewise, of the shard
    uint64_t at_us;                    // now, by the shard's clock
    uint32_t slower;                   // times as slow as it is mostly; 0 and 1: it is not
    bool virtual_time; // its time is counted in units of work, which every machine has alike
};

// `runner` must stay where it is. `store` (NULL: none): whose content is checked once. It outlives
// the runner.
void sim_runner_init(struct sim_runner *runner, struct sim_store *store);
void sim_runner_done(struct sim_runner *runner);
void sim_vms_done(struct sim_vms *vms);
// Runs the job to its end. Whatever goes wrong is an outcome.
void sim_runner_run(struct sim_runner *runner, const struct dev_task_job *job,
                    const struct sim_run_data *data, struct sim_task_end *out);
// An end that did not come from the VM: an injected failure.
void sim_task_end_set(struct sim_task_end *out, enum wire_outcome_kind outcome,
                      uint64_t duration_us, const char *detail);
// Is every byte the job would run content that was verified in `store`, the manifest included? The
// files behind the manifest's are exclusive ones; whose they are is not asked here.
bool sim_task_verified(struct sim_store *store, const struct dev_task_job *job);

#endif

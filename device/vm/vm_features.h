// The device's store of features as a script's walle.data.query asks it. Called inside a run, on
// the VM's thread, which must be the store's.
#ifndef DEV_VM_FEATURES_H
#define DEV_VM_FEATURES_H

#include "pipeline/storage/feature_store.h"
#include "pipeline/storage/task_store.h"
#include "vm/vm.h"

struct dev_vm_features {
    struct dev_feature_store *store; // NULL: there are no rows
    uint64_t now_us;
    struct dev_task_store_of of; // whose store walle.store is
    dev_vm_row_fn visit;         // of the query under way
    void *visit_ctx;
};

// `features` stays until the run is over. Of more rows than one query gives the first are given.
struct dev_vm_data_port dev_vm_features_port(struct dev_vm_features *features);

#endif

// What goes into a run and comes out of it besides texts: the models it may load, its data files
// and what the app hands to it, as the script's VM wants them, and a copy of what it stored and
// sent, which outlives the VM.
#ifndef POSIX_RUN_IO_H
#define POSIX_RUN_IO_H

#include "device/port.h"
#include "pipeline/pipeline.h"
#include "pipeline/storage/task_store.h"
#include "vm/vm.h"

// The models among a job's files, as the VM wants them; names and bytes are borrowed. `out` has
// room for DEV_VM_MODELS_MAX. TOO_LARGE: there are more.
BASE_NODISCARD enum base_status posix_run_models(const struct dev_task_file *files,
                                                 uint32_t file_count, struct dev_vm_model *out,
                                                 uint32_t *out_count);

// Where a run failed; all empty where it did not.
void posix_run_place(const struct dev_vm_result *result, struct dev_task_place *out);
// Where its time went.
struct dev_task_phases posix_run_phases(const struct dev_vm_result *result);

// The data files likewise; those that are not proven, larger than the heap as they are, without
// bytes. `out` has room for DEV_VM_FILES_MAX. TOO_LARGE: there are more.
BASE_NODISCARD enum base_status posix_run_files(const struct dev_task_file *files,
                                                uint32_t file_count, struct dev_vm_bytes *out,
                                                uint32_t *out_count);
// What the app hands to the run; `out` has room for DEV_BLOBS_MAX. Gives how many there are.
uint32_t posix_run_blobs(const struct dev_blob_set *set, struct dev_vm_bytes *out);
// What of it is walle.input: the one that is called so (DEV_BLOB_INPUT); empty: there is none.
struct base_str posix_run_input(const struct dev_vm_bytes *blobs, uint32_t count);

struct posix_run_effects {
    struct dev_effect *effects; // malloc
    uint32_t count;
    uint8_t *bytes; // malloc: texts and values of all of them
};
// NOMEM. Zero-initialise *out first.
BASE_NODISCARD enum base_status posix_run_effects_copy(const struct dev_vm_result *result,
                                                       struct posix_run_effects *out);
// Says in what the run leaves of its store whose it is: a task's process may have said anything.
void posix_run_effects_tag(const struct posix_run_effects *effects,
                           const struct dev_task_store_of *of);
void posix_run_effects_done(struct posix_run_effects *effects);

#endif

// What goes into a run and comes out of it besides texts: the models it may load, as the script's
// VM wants them, and a copy of what it stored and sent, which outlives the VM.
#ifndef POSIX_RUN_IO_H
#define POSIX_RUN_IO_H

#include "device/port.h"
#include "pipeline/pipeline.h"
#include "vm/vm.h"

// The models among a job's files, as the VM wants them; names and bytes are borrowed. `out` has
// room for DEV_VM_MODELS_MAX. TOO_LARGE: there are more.
BASE_NODISCARD enum base_status posix_run_models(const struct dev_task_file *files,
                                                 uint32_t file_count, struct dev_vm_model *out,
                                                 uint32_t *out_count);

// Where a run failed; all empty where it did not.
void posix_run_place(const struct dev_vm_result *result, struct dev_task_place *out);

struct posix_run_effects {
    struct dev_effect *effects; // malloc
    uint32_t count;
    uint8_t *bytes; // malloc: texts and values of all of them
};
// NOMEM. Zero-initialise *out first.
BASE_NODISCARD enum base_status posix_run_effects_copy(const struct dev_vm_result *result,
                                                       struct posix_run_effects *out);
void posix_run_effects_done(struct posix_run_effects *effects);

#endif

// What goes into a run and comes out of it besides texts: the events it was started with and the
// models it may load, as the script's VM wants them, and a copy of what it stored and sent, which
// outlives the VM.
#ifndef POSIX_RUN_IO_H
#define POSIX_RUN_IO_H

#include "pipeline/pipeline.h"
#include "vm/vm.h"

// Events of an input (blocks, each `varint size, block`). Texts are borrowed from the input's
// bytes.
struct posix_run_events {
    struct dev_event *events; // malloc
    uint32_t count;
    uint8_t *attrs; // malloc: of all of them
};
// INVALID and the errors of wire_event_block_parse, NOMEM. Zero-initialise *out first.
BASE_NODISCARD enum base_status posix_run_events_make(const uint8_t *bytes, size_t size,
                                                      struct posix_run_events *out);
void posix_run_events_done(struct posix_run_events *events);

struct dev_task_file;
// The models among a job's files, as the VM wants them; names and bytes are borrowed. `out` has
// room for DEV_VM_MODELS_MAX. TOO_LARGE: there are more.
BASE_NODISCARD enum base_status posix_run_models(const struct dev_task_file *files,
                                                 uint32_t file_count, struct dev_vm_model *out,
                                                 uint32_t *out_count);

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

// A run's inputs as they lie in sealed memory: everything but the models in one file, the models in
// another, which the agent keeps from run to run.
//
//   job     := u32 head_size, head, modules, input, data files, blobs; each part begins at a
//              multiple of 16
//   head    := u32 heap_kib, u32 time_ms, u64 instruction_max, u64 model_memory_max, u64 device_id,
//              text entry, text config, text declaration, u8 has_attrs, [varint size, attributes
//              (wire/attrs.h)], text json input, varint input_bytes, u8 has_query, u8 has_cloud,
//              varint module_count, module_count x (text name, varint size), varint model_count,
//              model_count x (text name, varint size, sha256[32]), varint file_count,
//              file_count x given, varint blob_count, blob_count x given
//   given   := text name, varint size, u8 is_there; of one that is not there are no bytes
//   text    := varint size, bytes
//   models  := the files one behind the other; each begins at a multiple of 64
#ifndef DEV_RUNNER_JOB_H
#define DEV_RUNNER_JOB_H

#include "vm/vm.h"

#define DEV_RUNNER_HEAD_MAX  (256 * 1024) // of a job: names of 272 files, texts
#define DEV_RUNNER_BLOBS_MAX 16           // of a run; as DEV_BLOBS_MAX

// A run as the agent has it. Of `vm` the events and the ports are not looked at: events are `input`
// (blocks, each `varint size, block`), and questions come over the channel.
struct dev_runner_job {
    const struct dev_vm_job *vm;
    uint32_t heap_kib;
    const uint8_t *input;
    size_t input_bytes;
};

// A part of one of the two files; `bytes` NULL: only padding.
typedef enum base_status (*dev_runner_part_fn)(void *ctx, const void *bytes, size_t size);

// Gives the parts of the job's file in order. TOO_LARGE: its head is over DEV_RUNNER_HEAD_MAX;
// NOMEM; what `part` gives ends it.
BASE_NODISCARD enum base_status dev_runner_job_parts(const struct dev_runner_job *job,
                                                     dev_runner_part_fn part, void *ctx);
// The same of the models' file.
BASE_NODISCARD enum base_status dev_runner_model_parts(const struct dev_vm_job *vm,
                                                       dev_runner_part_fn part, void *ctx);

// A job as the process sees it; everything is borrowed from the two files, and from itself.
struct dev_runner_view {
    struct dev_vm_job vm; // without events, data and model port
    uint32_t heap_kib;
    bool has_query;
    bool has_cloud;
    const uint8_t *input;
    size_t input_bytes;
    struct wire_attrs attrs;
    struct dev_vm_module modules[DEV_VM_MODULES_MAX];
    struct dev_vm_model models[DEV_VM_MODELS_MAX];
    struct dev_vm_bytes files[DEV_VM_FILES_MAX];
    struct dev_vm_bytes blobs[DEV_RUNNER_BLOBS_MAX];
};
// INVALID, TRUNCATED, TOO_LARGE.
BASE_NODISCARD enum base_status dev_runner_job_parse(const uint8_t *bytes, size_t size,
                                                     const uint8_t *models, size_t models_size,
                                                     struct dev_runner_view *out);

#endif

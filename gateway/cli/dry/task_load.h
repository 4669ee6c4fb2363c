// A build made ready to run here, as a device would: its files in memory, what a run is given
// beside them, and the job that the script VM takes. Called by `walle task run` and by the dry run
// of a build; one thread.
#ifndef TASK_LOAD_H
#define TASK_LOAD_H

#include "cli/base/cli_json.h"
#include "cli/task/task_build.h"
#include "cli/dry/task_cloud.h"
#include "cli/dry/task_given.h"
#include "model/model_store.h"
#include "vm/vm.h"

#define TASK_LOAD_FILES_MAX (WIRE_MANIFEST_FILES_MAX + WIRE_EXCLUSIVE_FILES_MAX)

// What a run is given; all may be NULL.
struct task_load_ask {
    const struct cli *cli; // whose gateway answers walle.cloud
    const char *device;    // 16 hex digits; NULL: 1
    const char *user;      // whose exclusive files are taken
    const char *attrs;     // a file
    const char *give;      // NAME=PATH, one a line
    const char *input;     // a file
};

// Zero-initialise; release with task_load_done. Points into itself: it stays where it is.
struct task_load {
    struct task_build build;
    const char *folder; // of the build; borrowed
    struct dev_vm_module modules[TASK_LOAD_FILES_MAX];
    struct dev_vm_model models[TASK_LOAD_FILES_MAX];
    struct dev_vm_bytes files[TASK_LOAD_FILES_MAX];
    uint8_t *bytes[TASK_LOAD_FILES_MAX]; // of all three
    char names[TASK_LOAD_FILES_MAX][WIRE_FILE_NAME_MAX + 1];
    uint32_t file_count;
    struct dev_model_store *model_store;
    struct dev_model_port model_port;
    struct task_cloud cloud;
    struct dev_vm_cloud_port cloud_port;
    json_t *attrs_root;
    struct wire_attrs attrs;
    struct task_given given;
    char *input;
    size_t input_bytes;
    struct dev_vm_job job;
};

// IO, INVALID, NOT_FOUND (exclusive files that the version requires), TOO_LARGE, NOMEM; `error`
// says what of which file.
BASE_NODISCARD enum base_status task_load_open(struct task_load *load, const char *folder,
                                               const struct task_load_ask *ask,
                                               struct base_error *error);
void task_load_done(struct task_load *load); // accepts half-loaded ones

#endif

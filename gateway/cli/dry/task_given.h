// What `walle task run --give` hands to a script by name (walle.blob).
#ifndef TASK_GIVEN_H
#define TASK_GIVEN_H

#include "base/error.h"
#include "blobs/blob_files.h"
#include "vm/vm.h"

struct task_given {
    struct dev_blob_set *set; // of blobs/blob_files.h; NULL: nothing
    struct dev_vm_bytes blobs[DEV_BLOBS_MAX];
    uint32_t count;
};

// Reads the files of the option's texts, one a line; of a folder its first file. The codes of
// blob_files_add and blob_files_read; NOMEM.
BASE_NODISCARD enum base_status task_given_load(const char *texts, struct task_given *out,
                                                struct base_error *error);
void task_given_done(struct task_given *given);

#endif

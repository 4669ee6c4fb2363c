// A file that walle.store of `walle task run --store FILE` is kept in, from one command to the
// next: the image of device/wire/store/store_image.h as it is on a device. One thread, which is the
// VM's.
#ifndef TASK_STORE_FILE_H
#define TASK_STORE_FILE_H

#include "base/error.h"
#include "vm/vm.h"
#include "wire/store/store_image.h"

struct task_store_file {
    const char *path; // NULL: there is none, and each run begins with an empty store
    size_t size;      // of the image; 0: nothing is kept yet
    uint8_t image[WIRE_STORE_IMAGE_MAX];
};

// Reads the file; one that is not there is a store without keys. INVALID: it is no store; IO,
// TOO_LARGE, NOMEM; `error` names it.
BASE_NODISCARD enum base_status task_store_file_open(const char *path, struct task_store_file *out,
                                                     struct base_error *error);
// What a job's `data` is to be: walle.store finds the image, queries find no rows. Borrows `file`.
struct dev_vm_data_port task_store_file_port(struct task_store_file *file);
// A run ended: what it kept is the image from here on and written to the file. Of one that failed
// nothing is. The errors of base_output_write.
BASE_NODISCARD enum base_status task_store_file_ran(struct task_store_file *file,
                                                    const struct dev_vm_result *result,
                                                    struct base_error *error);

#endif

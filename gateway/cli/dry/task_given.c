// Files for a script that is tried on this machine: read once, before its first run, and the same
// in each. What the option says and how it is read is blobs/blob_files.h, as for the agent. One
// thread.
#include "cli/dry/task_given.h"

enum base_status task_given_load(const char *texts, struct task_given *out,
                                 struct base_error *error)
{
    struct blob_files files = {.count = 0};
    enum base_status status = blob_files_add_all(&files, texts, '\n', error);
    if (status == BASE_OK) {
        status = blob_files_read(&files, 0, &out->set, error);
    }
    blob_files_done(&files);
    for (uint32_t i = 0; status == BASE_OK && i < out->set->count; i++) {
        const struct dev_blob *blob = &out->set->blobs[i];
        out->blobs[out->count++] =
            (struct dev_vm_bytes){.name = blob->name, .bytes = blob->bytes, .size = blob->size};
    }
    return status;
}

void task_given_done(struct task_given *given)
{
    blob_files_free(given->set);
    given->set = NULL;
}

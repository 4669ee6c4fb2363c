// Bytes for tasks out of files, as options NAME=PATH name them: what the agent, `walle task run`
// and the simulator hand to runs (device/blobs.h). PATH is a file, or a folder of which a turn
// takes one file after the other, in the order of their names.
#ifndef BLOB_FILES_H
#define BLOB_FILES_H

#include "base/error.h"
#include "device/blobs.h"

#define BLOB_FILES_FOLDER_MAX 1024 // files of a folder; hidden ones do not count
#define BLOB_FILES_PATH_MAX   1024
#define BLOB_FILES_FORM       "[a-z][a-z0-9_.-]*"

struct blob_files {
    struct blob_source *sources[DEV_BLOBS_MAX];
    uint32_t count;
    uint32_t turns; // files of the largest folder; 1: there is none
};

// Adds an option's text to a zero-initialised list. Looks at the path, but reads nothing: INVALID
// (no NAME=PATH, a bad name, a name twice, neither file nor folder, an empty folder), NOT_FOUND,
// IO, TOO_LARGE (too many), NOMEM; `error` says which.
BASE_NODISCARD enum base_status blob_files_add(struct blob_files *files, const char *text,
                                               struct base_error *error);
// The same of several texts with a character between them.
BASE_NODISCARD enum base_status blob_files_add_all(struct blob_files *files, const char *texts,
                                                   char between, struct base_error *error);
void blob_files_done(struct blob_files *files);
// Reads what the list names, of each folder file number `turn`, round and round. TOO_LARGE:
// together more than DEV_BLOBS_BYTES_MAX; NOT_FOUND, INVALID, IO, NOMEM; `error` says the file. The
// caller frees the set by blob_files_free; it does not hang on the list.
BASE_NODISCARD enum base_status blob_files_read(const struct blob_files *files, uint64_t turn,
                                                struct dev_blob_set **out_set,
                                                struct base_error *error);
void blob_files_free(const struct dev_blob_set *set); // accepts NULL

#endif

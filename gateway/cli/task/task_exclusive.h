// Exclusive files of a build: what single devices and users get
// (device/wire/trust/exclusive_files.h).
//
//   FOLDER/device/0123456789abcdef/...     files of one device
//   FOLDER/user/ana/...                    files of one user
//
// FOLDER is named by "exclusive" in task.json. Each subject's files become blobs and a exclusive
// manifest; the list of all of them is BUILD/exclusive, and a blob as well. Names that begin with a
// dot are left out.
#ifndef TASK_EXCLUSIVE_H
#define TASK_EXCLUSIVE_H

#include "base/error.h"
#include "cli/task/task_source.h"
#include "wire/trust/exclusive_files.h"

struct task_exclusive {
    uint8_t *list; // malloc; NULL: there are none
    size_t list_size;
    struct wire_sha256 list_digest;
    struct wire_sha256 root;
    uint32_t subject_count;
    uint32_t file_count;
    uint64_t files_bytes;
};

// Builds all subjects; no file may have a name of `manifest`. INVALID, TOO_LARGE and what building
// a file gives; `error` says which subject and which file.
BASE_NODISCARD enum base_status task_exclusive_make(const char *folder, const char *out_folder,
                                                    const struct wire_manifest *manifest,
                                                    struct task_exclusive *out,
                                                    struct base_error *error);
// Reads BUILD/exclusive when `manifest` names a tree. HASH: it is not that tree's.
BASE_NODISCARD enum base_status task_exclusive_load(const char *folder,
                                                    const struct wire_manifest *manifest,
                                                    struct task_exclusive *out,
                                                    struct base_error *error);
// Calls `visit` for each subject with its exclusive manifest, until one does not give OK.
typedef enum base_status (*task_subject_fn)(void *ctx, const struct wire_entry *entry,
                                            const struct wire_exclusive_files *exclusive,
                                            struct base_error *error);
BASE_NODISCARD enum base_status task_exclusive_each(const char *folder,
                                                    const struct task_exclusive *exclusive,
                                                    task_subject_fn visit, void *ctx,
                                                    struct base_error *error);
// Every file of every subject as task_file_verify, and no name of `manifest` among them.
BASE_NODISCARD enum base_status task_exclusive_verify(const char *folder,
                                                      const struct task_exclusive *exclusive,
                                                      const struct wire_manifest *manifest,
                                                      struct base_error *error);
void task_exclusive_done(struct task_exclusive *exclusive); // accepts zeroed ones

#endif

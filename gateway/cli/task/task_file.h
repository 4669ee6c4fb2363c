// One file of a version: from its source to a blob, and a blob checked against what names it.
#ifndef TASK_FILE_H
#define TASK_FILE_H

#include "base/error.h"
#include "cli/task/task_source.h"
#include "vm/vm.h"

#define TASK_BUILD_SOURCE_MAX (1024u * 1024)       // one Python file
#define TASK_BUILD_FILE_MAX   (256u * 1024 * 1024) // one model or data file

struct task_built_file {
    char name[WIRE_FILE_NAME_MAX + 2]; // "ipv.mpy"
    enum wire_file_kind kind;
    size_t size;
    struct wire_sha256 digest;
};

struct task_file_source {
    const char *name; // "ipv.py"
    const char *path;
    enum wire_file_kind kind;
};

// Compiles the script at `path`; it is called `name` in its bytecode, which the caller frees. IO,
// INVALID, TOO_LARGE, NOMEM; `error` says the path, the line and what is wrong.
BASE_NODISCARD enum base_status task_file_compile(const char *name, const char *path,
                                                  struct dev_vm_compiled *out,
                                                  struct base_error *error);
// Compiles a script, loads an .onnx model to see that the engine takes it, writes
// OUT/blobs/SHA256. IO, INVALID, UNSUPPORTED, TOO_LARGE, NOMEM; `error` says the file, the line or
// node, and what is wrong.
BASE_NODISCARD enum base_status task_file_build(const char *out_folder,
                                                const struct task_file_source *source,
                                                struct task_built_file *out,
                                                struct base_error *error);
// The blob of a file must have the bytes its name promises, be a script of this runtime, a model
// the engine takes. HASH, IO, INVALID.
BASE_NODISCARD enum base_status task_file_verify(const char *folder,
                                                 const struct wire_manifest_file *file,
                                                 struct base_error *error);
BASE_NODISCARD enum base_status task_blob_write(const char *out_folder,
                                                const struct wire_sha256 *digest,
                                                const uint8_t *bytes, size_t size,
                                                struct base_error *error);
// Reads FOLDER/blobs/SHA256, which must be no symbolic link, and checks its hash; the caller frees.
// HASH, INVALID, IO, TOO_LARGE, NOMEM.
BASE_NODISCARD enum base_status task_blob_read(const char *folder, const struct wire_sha256 *digest,
                                               uint8_t **out_bytes, size_t *out_size,
                                               struct base_error *error);

#endif

// A built version on disk, and how a source becomes one.
//
//   BUILD/manifest            the manifest's bytes (device/wire/manifest.h)
//   BUILD/blobs/SHA256        every file of the version, and the manifest itself
//   BUILD/exclusive           the list of exclusive files, when there are any
//   (cli/task/task_exclusive.h) BUILD/build.json          the same in words, for people and scripts
//
// The same source always gives the same bytes.
#ifndef TASK_BUILD_H
#define TASK_BUILD_H

#include "base/error.h"
#include "cli/task/task_exclusive.h"
#include "cli/task/task_file.h"
#include "cli/task/task_source.h"

struct task_build {
    uint8_t *manifest_bytes; // malloc
    size_t manifest_size;
    struct wire_sha256 manifest_digest;
    struct wire_manifest manifest; // borrowed from manifest_bytes
    struct task_exclusive exclusive;
    json_t *samples; // of a build that was just made: "samples" of task.json; NULL: none
};

struct task_build_options {
    const char *folder;
    const char *out_folder;
    const char *version;                  // NULL: the one in task.json
    const struct task_identity *identity; // may be NULL
    const char *commit;                   // noted in build.json; NULL: not from git
};

// Compiles, loads every .onnx model to see that the engine takes it, and writes. IO, INVALID,
// UNSUPPORTED (an operator the engine lacks), TOO_LARGE, NOMEM; `error` says the file, the line or
// node, and what is wrong.
BASE_NODISCARD enum base_status task_build_make(const struct task_build_options *options,
                                                struct task_build *out, struct base_error *error);
// Does the build hold what it says: every blob there with the bytes its name promises, scripts of
// this runtime, models the engine takes? HASH, NOT_FOUND, INVALID.
BASE_NODISCARD enum base_status
task_build_verify(const char *folder, const struct task_build *build, struct base_error *error);
// Reads BUILD/manifest. IO, INVALID.
BASE_NODISCARD enum base_status task_build_load(const char *folder, struct task_build *out,
                                                struct base_error *error);
void task_build_done(struct task_build *build); // accepts NULL and zeroed builds

#endif

// A task's source folder: task.json, read and checked.
//
// Besides, "triggers", "events", "uploads", "result", "store", "priority", "deadline_ms" and
// "at_once": task_declare.h.
//
//   { "name": "ipv", "version": "1.0.0", "entry": "ipv",          required
//     "heap_kib": 64, "time_ms": 200, "every_s": 0,               limits of a run, and how often
//     "config": { ... },                                          given to the script as it is
//     "files": [ "ipv.py", {"name": "model.onnx", "path": "../models/a.onnx", "kind": "model"} ],
//     "exclusive": {"path": "exclusive", "required": false} }      files of single devices and
//     users
//
// A .py file becomes bytecode and is imported under its name without suffix. Kinds: script (.py),
// model (.onnx), data (anything else). `path` is relative to the folder. In git a file may come
// from another tag of the same repository: {"name": "words.bin", "from": "shared/v3"}; name and
// version come from the branch and the tag, and where task.json has them too they must agree.
#ifndef TASK_SOURCE_H
#define TASK_SOURCE_H

#include "base/error.h"
#include "wire/manifest.h"

#include <jansson.h>

#define TASK_SOURCE_PATH_MAX 1024

struct task_source_file {
    enum wire_file_kind kind;
    const char *name; // as listed: "ipv.py"; borrowed from the document
    char path[TASK_SOURCE_PATH_MAX];
};

// Who a source is when its folder does not say it all: a version in git. Borrowed.
struct task_identity {
    const char *name;
    const char *version;
    bool confined; // paths must stay inside the folder
    // Brings a file of another tag; NULL: "from" is refused.
    enum base_status (*fetch)(void *ctx, const char *tag, const char *path,
                              char out_path[TASK_SOURCE_PATH_MAX], struct base_error *error);
    void *ctx;
};

// Zero-initialise; release with task_source_done. Texts are borrowed from the document inside.
struct task_source {
    json_t *document;
    const struct task_identity *identity; // may be NULL
    const char *name;
    const char *version;
    const char *entry;
    uint32_t heap_kib;
    uint32_t time_ms;
    uint32_t every_s;
    uint8_t *declaration; // malloc; what task_declare.h makes of it
    size_t declaration_bytes;
    char *config; // compact JSON with sorted keys; "" when there is none
    char exclusive_path[TASK_SOURCE_PATH_MAX]; // folder of exclusive files; "": there are none
    bool exclusive_required;
    uint32_t file_count;
    struct task_source_file files[WIRE_MANIFEST_FILES_MAX];
};

// IO, INVALID, TOO_LARGE, NOMEM; `error` says the file, the field and what is wrong.
// `identity` NULL: task.json says it all.
BASE_NODISCARD enum base_status task_source_load(const char *folder,
                                                 const struct task_identity *identity,
                                                 struct task_source *out, struct base_error *error);
// What a file is by its name: .py, .onnx, anything else.
enum wire_file_kind task_source_kind(const char *name);
void task_source_done(struct task_source *source); // accepts NULL and half-loaded sources

#endif

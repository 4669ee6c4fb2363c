// Tree objects of git, which anybody may have made, written out as files and folders.
//
// The objects are read as raw bytes through a source, so that the same code runs over a repository
// and over what a fuzzer makes up. A tree is refused whole for one bad entry: a name that
// base/os/path_part.h refuses, one name twice, a link, a submodule, an unknown mode, damage, or too
// much. Files are made new, inside folders made new, without following any link.
#ifndef TASK_TREE_H
#define TASK_TREE_H

#include "base/error.h"
#include "base/str.h"

#define TASK_TREE_ID_BYTES     20u
#define TASK_TREE_ENTRIES_MAX  4096u                   // files and folders of a version
#define TASK_TREE_BYTES_MAX    (1024ull * 1024 * 1024) // of all its files
#define TASK_TREE_DEPTH_MAX    32u                     // folders inside folders
#define TASK_TREE_PATH_MAX     768u                    // bytes of a path in the tree
#define TASK_TREE_OBJECT_BYTES (1024u * 1024)          // of one tree object

enum task_tree_kind {
    TASK_TREE_FILE,
    TASK_TREE_FOLDER,
};

struct task_tree_object {
    const uint8_t *bytes; // valid until released
    size_t size;
    void *handle; // the source's
};

// Where objects come from. `read` gives an object of `kind` with at most `max` bytes: NOT_FOUND,
// INVALID (another kind), TOO_LARGE, IO, NOMEM. What it gave is released once.
struct task_tree_source {
    void *ctx;
    enum base_status (*read)(void *ctx, const uint8_t id[TASK_TREE_ID_BYTES],
                             enum task_tree_kind kind, size_t max, struct task_tree_object *out);
    void (*release)(void *ctx, struct task_tree_object *object);
};

struct task_tree_limits {
    uint32_t entries;
    uint64_t bytes;
};

// Writes the tree `root` into the folder behind `folder_fd`, which stays the caller's. INVALID,
// TOO_LARGE, IO, NOMEM and those of the source; `error` names the entry. What was written before
// the error stays.
BASE_NODISCARD enum base_status task_tree_write(const struct task_tree_source *source,
                                                const uint8_t root[TASK_TREE_ID_BYTES],
                                                const struct task_tree_limits *limits,
                                                int folder_fd, struct base_error *error);

struct task_tree_entry {
    enum task_tree_kind kind;
    struct base_str name; // in the object's bytes
    const uint8_t *id;    // TASK_TREE_ID_BYTES, in the object's bytes
};

// Takes the entry at *at of a raw tree and moves *at behind it; *at < size. INVALID with why in
// *out_fault: a static text that goes on "entry NAME ...". `out->name` is set even then, if it
// could be found.
BASE_NODISCARD enum base_status task_tree_entry_next(const uint8_t *bytes, size_t size, size_t *at,
                                                     struct task_tree_entry *out,
                                                     const char **out_fault);

#endif

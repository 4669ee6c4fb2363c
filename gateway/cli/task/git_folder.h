// Where a repository keeps what libgit2 reads, and a look at all of it before libgit2 does.
//
// Whoever made the folder may have put anything in place of git's files: a pipe, whose opening
// waits for ever, a device, a file without end, a link to either. So everything that will be opened
// (HEAD, packed-refs, refs, objects, and the folders these are borrowed from) is a regular file, or
// a link to one, and what is read whole has a bound. Settings and hooks are not read at all.
#ifndef GIT_FOLDER_H
#define GIT_FOLDER_H

#include "base/error.h"
#include "cli/task/task_source.h"

#define GIT_FOLDER_ENTRIES_MAX  4000000u                // files and folders of objects and refs
#define GIT_FOLDER_DEPTH_MAX    32u                     // folders inside folders
#define GIT_FOLDER_BORROWED_MAX 5u                      // folders of objects borrowed in a row
#define GIT_FOLDER_REF_BYTES    4096u                   // one ref, HEAD, a file that names a folder
#define GIT_FOLDER_LIST_BYTES   (64u * 1024)            // objects/info/alternates
#define GIT_FOLDER_PACKED_BYTES (64u * 1024 * 1024)     // packed-refs
#define GIT_FOLDER_LOOSE_BYTES  (1024ull * 1024 * 1024) // an object that lies by itself

struct git_folder {
    char path[TASK_SOURCE_PATH_MAX]; // of HEAD: "shop.git", "shop/.git", ".../worktrees/shop"
    char name[TASK_SOURCE_PATH_MAX]; // of the repository: "shop"
};

// Finds the repository of a folder, or of one above it, and looks at it. NOT_FOUND: there is none;
// INVALID: something in it is no file; TOO_LARGE, IO; `error` says which file it is.
BASE_NODISCARD enum base_status git_folder_find(const char *start, struct git_folder *out,
                                                struct base_error *error);

#endif

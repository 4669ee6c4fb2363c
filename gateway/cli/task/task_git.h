// A task's version in git: the scenario is the repository, the task a branch, the version a tag.
//
// A tag ends in the version, with or without a v: "1.2.0", "v1.2.0". What stands before a last
// slash names the branch: "page-view/v1.2.0". Without it the branch is the only one that has the
// tagged commit (or the only one that ends in it), or is named by the caller. The task's name is
// then SCENARIO/BRANCH. Repositories may be bare; nothing in them is changed, no work tree is
// needed, and what is built is what was committed.
#ifndef TASK_GIT_H
#define TASK_GIT_H

#include "base/error.h"
#include "cli/base/cli_files.h"
#include "cli/task/git_folder.h"
#include "cli/task/task_source.h"

#define TASK_GIT_NAME_MAX   200u // of a tag or branch
#define TASK_GIT_COMMIT_HEX 40u

struct task_git_options {
    const char *repository; // path of a work tree or a bare repository
    const char *tag;
    const char *branch;    // NULL: told by the tag
    const char *scenario;  // NULL: the repository's name
    const char *subfolder; // of task.json in the tree; NULL: at the top
};

struct task_git {
    char name[WIRE_TASK_NAME_MAX + 1]; // SCENARIO/BRANCH
    char version[WIRE_VERSION_TEXT_MAX + 1];
    char commit[TASK_GIT_COMMIT_HEX + 1];
    char folder[TASK_SOURCE_PATH_MAX];  // the tree, written out, with task.json in it
    char scratch[TASK_SOURCE_PATH_MAX]; // what task_git_done removes
    struct git_folder home;
    void *repository;
    uint32_t fetched; // files of other tags
};

// Finds the tag and writes its tree to a scratch folder. NOT_FOUND, CONFLICT (several branches),
// INVALID (names, links, submodules), TOO_LARGE, IO; `error` says what to do about it.
BASE_NODISCARD enum base_status task_git_open(const struct task_git_options *options,
                                              struct task_git *out, struct base_error *error);
// For struct task_identity: a file of another tag of the same repository, written to the scratch
// folder ("from" in task.json: shared files).
BASE_NODISCARD enum base_status task_git_fetch(void *ctx, const char *tag, const char *path,
                                               char out_path[TASK_SOURCE_PATH_MAX],
                                               struct base_error *error);
void task_git_done(struct task_git *git); // accepts NULL and zeroed ones

#endif

// Versions out of git repositories. The command's one door to libgit2. Called by the task commands;
// one thread. That is cli_task.c. git_folder.c has looked at the repository before the library
// opens it. The tree of the tag is written to a scratch folder and built there like any other
// source, so a version from git is what was committed and nothing of the work tree.
#include "cli/task/task_git.h"

#include "base/os/folder.h"
#include "base/os/output_file.h"
#include "base/os/path_part.h"
#include "cli/task/task_file.h"
#include "cli/task/task_tree.h"
#include "policy/semver.h"

#include <fcntl.h>
#include <ftw.h>
#include <git2.h>
#include <git2/sys/repository.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REF_MAX     (TASK_GIT_NAME_MAX + 32)
#define OPEN_FILES  16
#define REMOTE_NAME "origin/"

static enum base_status git_failed(struct base_error *error, enum base_status status,
                                   const char *what)
{
    const git_error *last = git_error_last();
    return base_error_set(error, status, "%s: %s", what,
                          last != NULL && last->message != NULL ? last->message : "git failed");
}

// ---- Names

// Where the version begins in a tag; its branch, if any, is in front of the slash.
static const char *version_of(const char *tag)
{
    const char *slash = strrchr(tag, '/');
    const char *version = slash != NULL ? slash + 1 : tag;
    struct pol_semver parsed;
    version += version[0] == 'v' ? 1 : 0;
    return pol_semver_parse(version, (uint32_t)strlen(version), &parsed) ? version : NULL;
}

// ---- The branch

static bool branch_has(git_repository *repository, const git_reference *branch,
                       const git_oid *commit, bool *out_tip)
{
    git_object *tip = NULL;
    if (git_reference_peel(&tip, branch, GIT_OBJECT_COMMIT) != 0) {
        return false;
    }
    const git_oid *id = git_object_id(tip);
    *out_tip = git_oid_equal(id, commit) != 0;
    bool has = *out_tip || git_graph_descendant_of(repository, id, commit) == 1;
    git_object_free(tip);
    return has;
}

struct branch_search {
    const char *wanted; // NULL: any
    char found[TASK_GIT_NAME_MAX + 1];
    uint32_t count;     // branches with the commit
    uint32_t tip_count; // ... that end in it
    char tip[TASK_GIT_NAME_MAX + 1];
};

static void consider(struct branch_search *search, git_repository *repository,
                     const git_reference *branch, const git_oid *commit)
{
    const char *name = NULL;
    bool tip = false;
    if (git_branch_name(&name, branch) != 0) {
        return;
    }
    if (strncmp(name, REMOTE_NAME, strlen(REMOTE_NAME)) == 0) {
        name += strlen(REMOTE_NAME);
    }
    bool named = search->wanted == NULL || strcmp(name, search->wanted) == 0;
    bool known = strcmp(name, search->found) == 0 || strcmp(name, search->tip) == 0;
    if (!named || known || strcmp(name, "HEAD") == 0 || strlen(name) > TASK_GIT_NAME_MAX ||
        !branch_has(repository, branch, commit, &tip)) {
        return;
    }
    search->count++;
    (void)snprintf(search->found, sizeof(search->found), "%s", name);
    if (tip) {
        search->tip_count++;
        (void)snprintf(search->tip, sizeof(search->tip), "%s", name);
    }
}

static enum base_status find_branch(git_repository *repository, const git_oid *commit,
                                    struct branch_search *search, struct base_error *error)
{
    git_branch_iterator *branches = NULL;
    git_reference *branch = NULL;
    git_branch_t type;
    if (git_branch_iterator_new(&branches, repository, GIT_BRANCH_ALL) != 0) {
        return git_failed(error, BASE_ERR_IO, "branches");
    }
    while (git_branch_next(&branch, &type, branches) == 0) {
        consider(search, repository, branch, commit);
        git_reference_free(branch);
    }
    git_branch_iterator_free(branches);
    if (search->count == 0 && search->wanted != NULL) {
        return base_error_set(error, BASE_ERR_NOT_FOUND,
                              "branch '%.100s': there is none, or it lacks the tagged commit",
                              search->wanted);
    }
    if (search->count == 0) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no branch has the tagged commit");
    }
    if (search->count > 1 && search->tip_count != 1) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "%u branches have the tagged commit: say which with --branch, or tag "
                              "it BRANCH/VERSION",
                              search->count);
    }
    if (search->count > 1) {
        (void)snprintf(search->found, sizeof(search->found), "%s", search->tip);
    }
    return BASE_OK;
}

// ---- Writing a tree out

// For struct task_tree_source. The size is asked before the content is read.
static enum base_status read_object(void *ctx, const uint8_t id[TASK_TREE_ID_BYTES],
                                    enum task_tree_kind kind, size_t max,
                                    struct task_tree_object *out)
{
    git_oid name;
    git_odb_object *object = NULL;
    size_t size = 0;
    git_object_t type = GIT_OBJECT_INVALID;
    memcpy(name.id, id, TASK_TREE_ID_BYTES);
    if (git_odb_read_header(&size, &type, ctx, &name) != 0) {
        return BASE_ERR_NOT_FOUND;
    }
    if (type != (kind == TASK_TREE_FOLDER ? GIT_OBJECT_TREE : GIT_OBJECT_BLOB)) {
        return BASE_ERR_INVALID;
    }
    if (size > max) {
        return BASE_ERR_TOO_LARGE;
    }
    if (git_odb_read(&object, ctx, &name) != 0) {
        return BASE_ERR_IO;
    }
    if (git_odb_object_size(object) > max || git_odb_object_type(object) != type) {
        git_odb_object_free(object);
        return BASE_ERR_INVALID;
    }
    out->bytes = git_odb_object_data(object);
    out->size = git_odb_object_size(object);
    out->handle = object;
    return BASE_OK;
}
_Static_assert(TASK_TREE_ID_BYTES == GIT_OID_RAWSZ, "an id fits");

static void release_object(void *ctx, struct task_tree_object *object)
{
    (void)ctx;
    git_odb_object_free(object->handle);
}

static enum base_status write_tree(struct task_git *git, const git_object *commit,
                                   struct base_error *error)
{
    const struct task_tree_limits limits = {.entries = TASK_TREE_ENTRIES_MAX,
                                            .bytes = TASK_TREE_BYTES_MAX};
    git_odb *objects = NULL;
    if (git_repository_odb(&objects, git->repository) != 0) {
        return git_failed(error, BASE_ERR_IO, "objects");
    }
    struct task_tree_source source = {
        .ctx = objects, .read = read_object, .release = release_object};
    int folder = open(git->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    enum base_status status =
        folder >= 0 ? task_tree_write(&source, git_commit_tree_id((const git_commit *)commit)->id,
                                      &limits, folder, error)
                    : base_error_set(error, BASE_ERR_IO, "%s: cannot be opened", git->folder);
    if (folder >= 0) {
        (void)close(folder);
    }
    git_odb_free(objects);
    return status;
}

// ---- Opening

static enum base_status find_tag(struct task_git *git, const char *tag, git_object **out_commit,
                                 struct base_error *error)
{
    char name[REF_MAX];
    git_reference *reference = NULL;
    if (strlen(tag) > TASK_GIT_NAME_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "a tag's name is at most %u bytes",
                              TASK_GIT_NAME_MAX);
    }
    (void)snprintf(name, sizeof(name), "refs/tags/%s", tag);
    if (git_reference_lookup(&reference, git->repository, name) != 0) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "there is no tag '%.100s'", tag);
    }
    int peeled = git_reference_peel(out_commit, reference, GIT_OBJECT_COMMIT);
    git_reference_free(reference);
    return peeled == 0 ? BASE_OK : git_failed(error, BASE_ERR_INVALID, tag);
}

static enum base_status take_names(struct task_git *git, const struct task_git_options *options,
                                   const git_oid *commit, struct base_error *error)
{
    char prefix[TASK_GIT_NAME_MAX + 1];
    const char *version = version_of(options->tag);
    const char *slash = strrchr(options->tag, '/');
    struct branch_search search = {.wanted = options->branch};
    if (version == NULL || strlen(version) > WIRE_VERSION_TEXT_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "tag '%.80s' does not end in a semantic version, as v1.2.0 does",
                              options->tag);
    }
    if (search.wanted == NULL && slash != NULL) {
        (void)snprintf(prefix, sizeof(prefix), "%.*s", (int)(slash - options->tag), options->tag);
        search.wanted = prefix;
    }
    BASE_TRY(find_branch(git->repository, commit, &search, error));
    (void)snprintf(git->version, sizeof(git->version), "%s", version);
    int size =
        snprintf(git->name, sizeof(git->name), "%s/%s",
                 options->scenario != NULL ? options->scenario : git->home.name, search.found);
    const char *fault = size > WIRE_TASK_NAME_MAX ? "is longer than 64 characters"
                                                  : wire_task_name_fault(base_str_of(git->name));
    if (fault != NULL) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "'%.40s' is no task name: it %s; --scenario names the repository "
                              "otherwise",
                              git->name, fault);
    }
    return BASE_OK;
}

static enum base_status make_scratch(struct task_git *git, struct base_error *error)
{
    const char *base = getenv("TMPDIR");
    int size = snprintf(git->scratch, sizeof(git->scratch), "%s/walle-git-XXXXXX",
                        base != NULL && base[0] == '/' ? base : "/tmp");
    if (size >= TASK_SOURCE_PATH_MAX - 8 || mkdtemp(git->scratch) == NULL) {
        git->scratch[0] = '\0';
        return base_error_set(error, BASE_ERR_IO, "cannot make a scratch folder in TMPDIR");
    }
    (void)snprintf(git->folder, sizeof(git->folder), "%.*s/tree", TASK_SOURCE_PATH_MAX - 8,
                   git->scratch);
    return base_folder_make(git->folder, error);
}

static enum base_status enter_subfolder(struct task_git *git, const char *subfolder,
                                        struct base_error *error)
{
    size_t size = strlen(git->folder);
    if (subfolder == NULL || subfolder[0] == '\0') {
        return BASE_OK;
    }
    if (base_path_fault(base_str_of(subfolder)) != NULL ||
        snprintf(git->folder + size, sizeof(git->folder) - size, "/%s", subfolder) >=
            (int)(sizeof(git->folder) - size)) {
        return base_error_set(error, BASE_ERR_INVALID, "--folder is a path inside the repository");
    }
    return BASE_OK;
}

// Opens what was looked at. Its settings are not read: they may name more files, anywhere, and none
// of them changes what a tag has.
static int open_unset(const char *path, git_repository **out)
{
    git_repository *repository = NULL;
    git_config *none = NULL;
    int rv = git_config_new(&none);
    if (rv == 0) {
        rv = git_repository_open_bare(&repository, path);
    }
    if (rv == 0) {
        rv = git_repository_set_config(repository, none);
    }
    git_config_free(none);
    if (rv != 0) {
        git_repository_free(repository);
        return rv;
    }
    *out = repository;
    return 0;
}

enum base_status task_git_open(const struct task_git_options *options, struct task_git *out,
                               struct base_error *error)
{
    git_object *commit = NULL;
    git_repository *repository = NULL;
    BASE_TRY(git_folder_find(options->repository, &out->home, error));
    (void)git_libgit2_init();
    if (open_unset(out->home.path, &repository) != 0) {
        enum base_status status = git_failed(error, BASE_ERR_NOT_FOUND, options->repository);
        (void)git_libgit2_shutdown();
        return status;
    }
    out->repository = repository;
    BASE_TRY(find_tag(out, options->tag, &commit, error));
    (void)git_oid_tostr(out->commit, sizeof(out->commit), git_object_id(commit));
    enum base_status status = take_names(out, options, git_object_id(commit), error);
    if (status == BASE_OK) {
        status = make_scratch(out, error);
    }
    if (status == BASE_OK) {
        status = write_tree(out, commit, error);
    }
    git_object_free(commit);
    return status == BASE_OK ? enter_subfolder(out, options->subfolder, error) : status;
}

// The id of a regular file in a commit's tree.
static enum base_status find_file(const git_object *commit, const char *tag, const char *path,
                                  git_oid *out_id, struct base_error *error)
{
    git_tree *tree = NULL;
    git_tree_entry *entry = NULL;
    if (git_commit_tree(&tree, (const git_commit *)commit) != 0) {
        return git_failed(error, BASE_ERR_IO, "tree");
    }
    int found = git_tree_entry_bypath(&entry, tree, path);
    git_tree_free(tree);
    git_filemode_t mode = found == 0 ? git_tree_entry_filemode(entry) : GIT_FILEMODE_UNREADABLE;
    if (found == 0) {
        git_oid_cpy(out_id, git_tree_entry_id(entry));
        git_tree_entry_free(entry);
    }
    if (mode == GIT_FILEMODE_LINK) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "file '%.80s' of tag '%.80s' is a symbolic link", path, tag);
    }
    return mode == GIT_FILEMODE_BLOB || mode == GIT_FILEMODE_BLOB_EXECUTABLE
               ? BASE_OK
               : base_error_set(error, BASE_ERR_NOT_FOUND, "tag '%.80s' has no file '%.80s'", tag,
                                path);
}

static enum base_status write_shared(struct task_git *git, const git_oid *id, const char *path,
                                     const char *to, struct base_error *error)
{
    struct task_tree_object object = {0};
    git_odb *objects = NULL;
    if (git_repository_odb(&objects, git->repository) != 0) {
        return git_failed(error, BASE_ERR_IO, "objects");
    }
    enum base_status status =
        read_object(objects, id->id, TASK_TREE_FILE, TASK_BUILD_FILE_MAX, &object);
    if (status == BASE_OK) {
        status = base_output_write(to, object.bytes, object.size, error);
        release_object(objects, &object);
    } else {
        (void)base_error_set(error, status, "%.100s: %s", path, base_status_text(status));
    }
    git_odb_free(objects);
    return status;
}

enum base_status task_git_fetch(void *ctx, const char *tag, const char *path,
                                char out_path[TASK_SOURCE_PATH_MAX], struct base_error *error)
{
    struct task_git *git = ctx;
    git_object *commit = NULL;
    git_oid id;
    const char *fault = base_path_fault(base_str_of(path));
    if (fault != NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "file '%.80s' of tag '%.80s': a part %s",
                              path, tag, fault);
    }
    BASE_TRY(find_tag(git, tag, &commit, error));
    enum base_status status = find_file(commit, tag, path, &id, error);
    git_object_free(commit);
    if (status != BASE_OK) {
        return status;
    }
    (void)snprintf(out_path, TASK_SOURCE_PATH_MAX, "%.*s/shared-%u", TASK_SOURCE_PATH_MAX - 24,
                   git->scratch, git->fetched++);
    return write_shared(git, &id, path, out_path, error);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

void task_git_done(struct task_git *git)
{
    if (git == NULL || git->repository == NULL) {
        return;
    }
    if (git->scratch[0] != '\0' &&
        nftw(git->scratch, remove_one, OPEN_FILES, FTW_DEPTH | FTW_PHYS) != 0) {
        git->scratch[0] = '\0'; // left behind in TMPDIR, which the system empties
    }
    git_repository_free(git->repository);
    (void)git_libgit2_shutdown();
    git->repository = NULL;
}

// Finds and checks a repository's folder; see the header. Called by task_git.c before libgit2 opens
// anything; one thread. All that libgit2 will open is looked at here first, by type and by size,
// because the folder may be somebody else's: a pipe would hold the command for ever, a file without
// end would fill its memory.
#include "cli/task/git_folder.h"

#include "cli/base/cli_files.h"

#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SHOWN_MAX 100u // bytes of a path in an error

struct look {
    uint32_t entries;
    struct base_error *error;
};

// The end of a path says more than its beginning.
static const char *shown(const char *path)
{
    size_t size = strlen(path);
    return size > SHOWN_MAX ? path + size - SHOWN_MAX : path;
}

static enum base_status join(const char *folder, const char *name, char out[TASK_SOURCE_PATH_MAX],
                             struct base_error *error)
{
    const char *between = folder[0] != '\0' && folder[strlen(folder) - 1] == '/' ? "" : "/";
    int size = name[0] == '/'
                   ? snprintf(out, TASK_SOURCE_PATH_MAX, "%s", name)
                   : snprintf(out, TASK_SOURCE_PATH_MAX, "%s%s%s", folder, between, name);
    return size < TASK_SOURCE_PATH_MAX
               ? BASE_OK
               : base_error_set(error, BASE_ERR_TOO_LARGE, "...%s: the path is too long",
                                shown(folder));
}

// ---- One file

static enum base_status check_size(const char *path, off_t size, uint64_t max,
                                   struct base_error *error)
{
    return size >= 0 && (uint64_t)size <= max
               ? BASE_OK
               : base_error_set(error, BASE_ERR_TOO_LARGE, "%s: larger than %llu bytes",
                                shown(path), (unsigned long long)max);
}

static enum base_status no_file(const char *path, struct base_error *error)
{
    return base_error_set(error, BASE_ERR_INVALID, "%s: is no file", shown(path));
}

// A regular file or a link to one, or nothing.
static enum base_status check_file(const char *path, uint64_t max, struct base_error *error)
{
    struct stat about;
    if (stat(path, &about) != 0) {
        return errno == ENOENT
                   ? BASE_OK
                   : base_error_set(error, BASE_ERR_IO, "%s: %s", shown(path), strerror(errno));
    }
    return S_ISREG(about.st_mode) ? check_size(path, about.st_size, max, error)
                                  : no_file(path, error);
}

static enum base_status check_named(const char *folder, const char *name, uint64_t max,
                                    struct base_error *error)
{
    char path[TASK_SOURCE_PATH_MAX];
    BASE_TRY(join(folder, name, path, error));
    return check_file(path, max, error);
}

// ---- Folders of files

// How large a file of objects/ may be: packs, and what lies beside them, are mapped.
static uint64_t object_bytes_max(const char *below)
{
    bool mapped = strncmp(below, "/pack/", 6) == 0 || strncmp(below, "/info/", 6) == 0;
    return mapped ? UINT64_MAX : GIT_FOLDER_LOOSE_BYTES;
}

static enum base_status check_entry(struct look *look, const FTSENT *entry, uint64_t max)
{
    const char *path = entry->fts_path;
    if (++look->entries > GIT_FOLDER_ENTRIES_MAX) {
        return base_error_set(look->error, BASE_ERR_TOO_LARGE,
                              "%s: the repository has more than %u files; git gc packs them",
                              shown(path), GIT_FOLDER_ENTRIES_MAX);
    }
    switch (entry->fts_info) {
    case FTS_D:
        return entry->fts_level <= (int)GIT_FOLDER_DEPTH_MAX
                   ? BASE_OK
                   : base_error_set(look->error, BASE_ERR_TOO_LARGE, "%s: deeper than %u folders",
                                    shown(path), GIT_FOLDER_DEPTH_MAX);
    case FTS_DP:
        return BASE_OK;
    case FTS_F:
        return check_size(path, entry->fts_statp->st_size, max, look->error);
    case FTS_SL:
    case FTS_SLNONE:
        return check_file(path, max, look->error);
    case FTS_DEFAULT:
        return no_file(path, look->error);
    default:
        return base_error_set(look->error, BASE_ERR_IO, "%s: %s", shown(path),
                              entry->fts_errno != 0 ? strerror(entry->fts_errno) : "a circle");
    }
}

// Everything in a folder. One that is not there has nothing in it.
static enum base_status check_below(struct look *look, char *folder, bool objects)
{
    char *const roots[] = {folder, NULL};
    struct stat about;
    enum base_status status = BASE_OK;
    if (stat(folder, &about) != 0 && errno == ENOENT) {
        return BASE_OK;
    }
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
    if (walk == NULL) {
        return base_error_set(look->error, BASE_ERR_IO, "%s: %s", shown(folder), strerror(errno));
    }
    size_t skip = strlen(folder);
    for (const FTSENT *entry; status == BASE_OK && (entry = fts_read(walk)) != NULL;) {
        status = check_entry(
            look, entry, objects ? object_bytes_max(entry->fts_path + skip) : GIT_FOLDER_REF_BYTES);
    }
    (void)fts_close(walk);
    return status;
}

// ---- Objects, and those they are borrowed from

static enum base_status check_objects(struct look *look, char *folder, uint32_t borrowed);

// Each line of objects/info/alternates names another folder of objects.
static enum base_status check_borrowed(struct look *look, const char *folder, uint32_t borrowed,
                                       char *list)
{
    char next[TASK_SOURCE_PATH_MAX];
    char *rest = list;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (line[0] == '\0' || line[0] == '#') {
            continue;
        }
        if (borrowed == GIT_FOLDER_BORROWED_MAX) {
            return base_error_set(look->error, BASE_ERR_INVALID,
                                  "%s: objects are borrowed over more than %u folders",
                                  shown(folder), GIT_FOLDER_BORROWED_MAX);
        }
        BASE_TRY(join(folder, line, next, look->error));
        BASE_TRY(check_objects(look, next, borrowed + 1));
    }
    return BASE_OK;
}

// Calls itself through check_borrowed, GIT_FOLDER_BORROWED_MAX times at most.
static enum base_status check_objects(struct look *look, char *folder, uint32_t borrowed)
{
    char path[TASK_SOURCE_PATH_MAX];
    struct stat about;
    uint8_t *list = NULL;
    size_t size = 0;
    BASE_TRY(check_below(look, folder, true));
    BASE_TRY(join(folder, "info/alternates", path, look->error));
    if (stat(path, &about) != 0) {
        return BASE_OK;
    }
    BASE_TRY(cli_file_read_own(path, GIT_FOLDER_LIST_BYTES, &list, &size, look->error));
    enum base_status status = check_borrowed(look, folder, borrowed, (char *)list);
    free(list);
    return status;
}

// ---- The repository

// The path in a file that holds nothing else but perhaps a word before it; `out` is it beside
// `folder`.
static enum base_status read_path(const char *folder, const char *file, const char *word,
                                  char out[TASK_SOURCE_PATH_MAX], struct base_error *error)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    BASE_TRY(cli_file_read_own(file, GIT_FOLDER_REF_BYTES, &bytes, &size, error));
    char *text = (char *)bytes;
    while (size > 0 && strchr(" \t\r\n", text[size - 1]) != NULL) {
        text[--size] = '\0';
    }
    size_t skip = strlen(word);
    enum base_status status =
        size > skip && strncmp(text, word, skip) == 0
            ? join(folder, text + skip, out, error)
            : base_error_set(error, BASE_ERR_INVALID, "%s: names no folder", shown(file));
    free(bytes);
    return status;
}

static enum base_status check_top(struct look *look, const char *folder)
{
    char refs[TASK_SOURCE_PATH_MAX];
    BASE_TRY(check_named(folder, "HEAD", GIT_FOLDER_REF_BYTES, look->error));
    BASE_TRY(check_named(folder, "packed-refs", GIT_FOLDER_PACKED_BYTES, look->error));
    BASE_TRY(join(folder, "refs", refs, look->error));
    return check_below(look, refs, false);
}

// The folder of HEAD, and the one that its refs and objects are in, where that is another.
static enum base_status check_repository(const char *folder, struct base_error *error)
{
    char path[TASK_SOURCE_PATH_MAX];
    char common[TASK_SOURCE_PATH_MAX];
    struct look look = {.error = error};
    struct stat about;
    BASE_TRY(check_top(&look, folder));
    BASE_TRY(join(folder, "commondir", path, error));
    (void)snprintf(common, sizeof(common), "%s", folder);
    if (lstat(path, &about) == 0) {
        BASE_TRY(read_path(folder, path, "", common, error));
        BASE_TRY(check_top(&look, common));
    }
    BASE_TRY(join(common, "objects", path, error));
    return check_objects(&look, path, 0);
}

static bool has(const char *folder, const char *name)
{
    char path[TASK_SOURCE_PATH_MAX];
    struct base_error ignored;
    struct stat about;
    return join(folder, name, path, &ignored) == BASE_OK && lstat(path, &about) == 0;
}

static bool is_repository(const char *folder)
{
    return has(folder, "HEAD") &&
           ((has(folder, "objects") && has(folder, "refs")) || has(folder, "commondir"));
}

// The repository at this very folder: NOT_FOUND when it is none and holds none.
static enum base_status find_at(const char *folder, char out[TASK_SOURCE_PATH_MAX],
                                struct base_error *error)
{
    char path[TASK_SOURCE_PATH_MAX];
    struct stat about;
    BASE_TRY(join(folder, ".git", path, error));
    if (stat(path, &about) == 0) {
        if (!S_ISDIR(about.st_mode)) {
            return read_path(folder, path, "gitdir: ", out, error);
        }
        if (is_repository(path)) {
            return join(path, "", out, error);
        }
    }
    return is_repository(folder) ? join(folder, "", out, error) : BASE_ERR_NOT_FOUND;
}

// "shop.git" and "shop/.git" are both the repository shop; a linked work tree has its own name.
static void take_name(const char *folder, struct git_folder *out)
{
    const char *slash = strrchr(folder, '/');
    size_t size = strlen(folder);
    if (slash != NULL && strcmp(slash, "/.git") == 0) {
        size = (size_t)(slash - folder);
    } else if (size > 4 && strcmp(folder + size - 4, ".git") == 0) {
        size -= 4;
    }
    size_t start = size;
    while (start > 0 && folder[start - 1] != '/') {
        start--;
    }
    (void)snprintf(out->name, sizeof(out->name), "%.*s", (int)(size - start), folder + start);
}

enum base_status git_folder_find(const char *start, struct git_folder *out,
                                 struct base_error *error)
{
    char at[PATH_MAX];
    struct stat about;
    enum base_status status = BASE_ERR_NOT_FOUND;
    if (realpath(start, at) == NULL || stat(at, &about) != 0 || !S_ISDIR(about.st_mode)) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "%s: is no folder", shown(start));
    }
    while ((status = find_at(at, out->path, error)) == BASE_ERR_NOT_FOUND) {
        char *slash = strrchr(at, '/');
        if (slash == at) {
            return base_error_set(error, BASE_ERR_NOT_FOUND, "%s: is no git repository",
                                  shown(start));
        }
        *slash = '\0';
    }
    BASE_TRY(status);
    take_name(at, out);
    return check_repository(out->path, error);
}

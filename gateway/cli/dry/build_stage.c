// Builds beside what their folder holds; see the header. Called by `walle task build`; one thread.
// What is moved is what task_build.c wrote: folders become folders that are no links, files replace
// plain files or stand where nothing was. A command that is cut off leaves the folder it made in,
// and the earlier build as it was.
#include "cli/dry/build_stage.h"

#include "cli/base/cli_files.h"

#include "base/check.h"
#include "base/os/folder.h"
#include "base/os/regular_file.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAST "manifest" // with it, the new build is the folder's

enum base_status build_stage_open(struct build_stage *stage, const char *folder,
                                  struct base_error *error)
{
    char made[CLI_PATH_MAX];
    struct stat about;
    int size = snprintf(made, sizeof(made), "%s/" BUILD_STAGE_PREFIX "XXXXXX", folder);
    base_assert(stage->made[0] == '\0');
    if (size >= CLI_PATH_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.100s: path too long", folder);
    }
    stage->own = stat(folder, &about) != 0 && errno == ENOENT;
    BASE_TRY(base_folder_make(folder, error));
    if (mkdtemp(made) == NULL) {
        return base_error_set(error, BASE_ERR_IO, "%s: %s", folder, strerror(errno));
    }
    stage->folder = folder;
    memcpy(stage->made, made, sizeof(made));
    return BASE_OK;
}

// ---- To its place

static enum base_status put_file(const char *from, const char *to, struct base_error *error)
{
    struct stat about;
    bool there = lstat(to, &about) == 0;
    if (there && !S_ISREG(about.st_mode)) {
        return base_regular_refuse(about.st_mode, to, error);
    }
    return rename(from, to) == 0
               ? BASE_OK
               : base_error_set(error, BASE_ERR_IO, "%s: %s", to, strerror(errno));
}

static enum base_status put_folder(const FTSENT *entry, const char *to, struct base_error *error)
{
    char above[CLI_PATH_MAX];
    size_t size = strlen(to) - entry->fts_namelen - 1; // both end in its name
    memcpy(above, to, size);
    above[size] = '\0';
    return cli_folder_below(above, entry->fts_name, error);
}

static enum base_status put_entry(const struct build_stage *stage, const FTSENT *entry,
                                  struct base_error *error)
{
    char to[CLI_PATH_MAX];
    bool waits = entry->fts_level == 1 && strcmp(entry->fts_name, LAST) == 0;
    if (entry->fts_level == 0 || entry->fts_info == FTS_DP || waits) {
        return BASE_OK;
    }
    int size =
        snprintf(to, sizeof(to), "%s%s", stage->folder, entry->fts_path + strlen(stage->made));
    if (size >= CLI_PATH_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.100s: path too long", entry->fts_path);
    }
    if (entry->fts_info == FTS_D) {
        return put_folder(entry, to, error);
    }
    return entry->fts_info == FTS_F
               ? put_file(entry->fts_path, to, error)
               : base_error_set(error, BASE_ERR_IO, "%.200s: cannot be read", entry->fts_path);
}

static FTS *walk_open(char *folder)
{
    char *const roots[] = {folder, NULL};
    return fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
}

enum base_status build_stage_put(struct build_stage *stage, struct base_error *error)
{
    char from[CLI_PATH_MAX + sizeof(LAST)];
    char to[CLI_PATH_MAX + sizeof(LAST)];
    base_assert(stage->made[0] != '\0');
    FTS *walk = walk_open(stage->made);
    if (walk == NULL) {
        return base_error_set(error, BASE_ERR_IO, "%s: %s", stage->made, strerror(errno));
    }
    enum base_status status = BASE_OK;
    for (FTSENT *entry; status == BASE_OK && (entry = fts_read(walk)) != NULL;) {
        status = put_entry(stage, entry, error);
    }
    (void)fts_close(walk);
    (void)snprintf(from, sizeof(from), "%s/" LAST, stage->made);
    (void)snprintf(to, sizeof(to), "%s/" LAST, stage->folder);
    return status == BASE_OK ? put_file(from, to, error) : status;
}

// ---- Gone

void build_stage_done(struct build_stage *stage)
{
    FTS *walk = stage->made[0] != '\0' ? walk_open(stage->made) : NULL;
    for (FTSENT *entry; walk != NULL && (entry = fts_read(walk)) != NULL;) {
        if (entry->fts_info != FTS_D) { // folders when they are empty
            (void)remove(entry->fts_path);
        }
    }
    if (walk != NULL) {
        (void)fts_close(walk);
    }
    if (stage->made[0] != '\0' && stage->own) {
        (void)rmdir(stage->folder); // what holds a build stays
    }
    stage->made[0] = '\0';
}

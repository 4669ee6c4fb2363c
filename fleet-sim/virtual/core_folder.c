// Copying a gateway's data folder, so that a run can write to it. core_gateway.c does so before it
// opens the store. The copy lies in memory where the system has such a place (/dev/shm): a run
// writes as much as a gateway does, and none of it is kept. Links are not followed: a gateway whose
// store or blobs are somewhere else would be another one, so what is neither file nor folder is
// refused.
//
// A run holds its copy by a lock on the folder. One that nobody holds is what a killed run left.
#include "virtual/core_folder.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/os/errno_status.h"
#include "base/os/regular_file.h"
#include "base/os/write_all.h"
#include "virtual/core_gateway.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES 65536
#define OPEN_MAX   16
#define NAME       "walle-virtual-"
#define LEFT_S     60 // of a copy that is younger the lock may not have been taken yet

// nftw gives its visitor no context.
static _Thread_local struct {
    const char *from;
    const char *to;
    enum base_status status;
    struct base_error why; // where that is more than the status
} copying;

static enum base_status copy_file(const char *from, const char *to, mode_t mode)
{
    static _Thread_local uint8_t bytes[COPY_BYTES];
    int in = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int out = in >= 0 ? open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode) : -1;
    enum base_status status = out >= 0 ? BASE_OK : base_status_of_errno(errno);
    while (status == BASE_OK) {
        ssize_t size = read(in, bytes, sizeof(bytes));
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size <= 0) {
            status = size < 0 ? base_status_of_errno(errno) : BASE_OK;
            break;
        }
        status = base_write_all(out, bytes, (size_t)size);
    }
    if (in >= 0) {
        (void)close(in);
    }
    if (out >= 0 && close(out) != 0 && status == BASE_OK) {
        status = base_status_of_errno(errno);
    }
    return status;
}

// Of what lies in the folder: the store and its blobs. Keys, tokens, certificates and the tunnel's
// log stay where they are.
static bool is_wanted(const char *name)
{
    return strcmp(name, "store.mdb") == 0 || strcmp(name, "blobs") == 0;
}

static enum base_status refuse(const char *path, const struct stat *about, int kind)
{
    if (kind == FTW_DNR || kind == FTW_NS) {
        return base_error_set(&copying.why, BASE_ERR_IO, "%.120s: it cannot be read", path);
    }
    return base_regular_refuse(about->st_mode, path, &copying.why);
}

static int copy_one(const char *path, const struct stat *about, int kind, struct FTW *at)
{
    char to[PATH_MAX];
    const char *below = path + strlen(copying.from);
    bool first = at->level == 1;
    if (first && !is_wanted(path + at->base)) {
        return FTW_SKIP_SUBTREE;
    }
    bool folder = kind == FTW_D && !(first && strcmp(path + at->base, "store.mdb") == 0);
    int size = snprintf(to, sizeof(to), "%s%s", copying.to, below);
    if (size < 0 || (size_t)size >= sizeof(to)) {
        copying.status = BASE_ERR_TOO_LARGE;
    } else if (folder && at->level > 0 && mkdir(to, 0700) != 0) {
        copying.status = base_status_of_errno(errno);
    } else if (kind == FTW_F && S_ISREG(about->st_mode)) {
        copying.status = copy_file(path, to, about->st_mode & 0600);
    } else if (!folder) {
        copying.status = refuse(path, about, kind);
    }
    return copying.status == BASE_OK ? FTW_CONTINUE : FTW_STOP;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *at)
{
    (void)about, (void)kind, (void)at;
    (void)remove(path);
    return 0;
}

static enum base_status store_look(const char *dir, struct stat *out, struct base_error *error)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%.4000s/store.mdb", dir);
    if (lstat(path, out) != 0) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "%s: no gateway's data folder: %s", dir,
                              strerror(errno));
    }
    return S_ISREG(out->st_mode) ? BASE_OK : base_regular_refuse(out->st_mode, path, error);
}

static bool is_left(int fd)
{
    struct stat about;
    uint64_t now_s = base_clock_wall_us() / 1000000;
    return fstat(fd, &about) == 0 && about.st_uid == geteuid() && about.st_mtim.tv_sec >= 0 &&
           (uint64_t)about.st_mtim.tv_sec + LEFT_S < now_s && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static void remove_left(const char *place)
{
    char path[PATH_MAX];
    DIR *folder = opendir(place);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, NAME, strlen(NAME)) != 0) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", place, entry->d_name);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && is_left(fd)) {
            (void)nftw(path, remove_one, OPEN_MAX, FTW_DEPTH | FTW_PHYS);
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
}

// The folder of the copy, held.
static enum base_status place_make(const char *place, struct sim_core_folder *out)
{
    (void)snprintf(out->path, sizeof(out->path), "%s/" NAME "XXXXXX", place);
    if (mkdtemp(out->path) == NULL) {
        out->path[0] = '\0'; // there is none
        return base_status_of_errno(errno);
    }
    out->held = open(out->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool held = out->held >= 0 && flock(out->held, LOCK_EX | LOCK_NB) == 0;
    return held ? BASE_OK : base_status_of_errno(errno);
}

// Nobody may write there while it is copied. The lock is let go with *out_fd.
static enum base_status lock(const char *dir, int *out_fd, struct base_error *error)
{
    char path[PATH_MAX];
    struct stat about;
    BASE_TRY(store_look(dir, &about, error));
    (void)snprintf(path, sizeof(path), "%.4000s/gateway.lock", dir);
    *out_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*out_fd >= 0 && flock(*out_fd, LOCK_SH | LOCK_NB) != 0) {
        (void)close(*out_fd);
        *out_fd = -1;
        return base_error_set(error, BASE_ERR_BUSY,
                              "%s: a gateway runs there: stop it, or take a copy of the folder",
                              dir);
    }
    return BASE_OK;
}

// Nobody writes there meanwhile, or all that is written stands in the files at once.
static enum base_status copy_whole(const char *dir, struct sim_core_folder *out,
                                   struct base_error *error)
{
    char whole[PATH_MAX]; // without links and slashes at its end, which paths below would show
    const char *place = out->in_memory ? "/dev/shm" : P_tmpdir;
    copying.from = whole;
    copying.to = out->path;
    copying.why = (struct base_error){.status = BASE_OK};
    copying.status =
        realpath(dir, whole) != NULL ? place_make(place, out) : base_status_of_errno(errno);
    if (copying.status == BASE_OK &&
        nftw(whole, copy_one, OPEN_MAX, FTW_PHYS | FTW_ACTIONRETVAL) < 0) {
        copying.status = base_status_of_errno(errno);
    }
    enum base_status status = copying.status;
    if (status != BASE_OK && copying.why.status != BASE_OK) {
        *error = copying.why;
    } else if (status != BASE_OK) {
        (void)base_error_set(error, status, "%s: cannot be copied to %s: %s", dir, place,
                             base_status_text(status));
    }
    if (status != BASE_OK) {
        sim_core_folder_remove(out);
    }
    return status;
}

enum base_status sim_core_folder_copy(const char *dir, struct sim_core_folder *out,
                                      struct base_error *error)
{
    int held = -1;
    *out = (struct sim_core_folder){.held = -1};
    BASE_TRY(lock(dir, &held, error));
    out->in_memory = access("/dev/shm", W_OK | X_OK) == 0;
    remove_left(out->in_memory ? "/dev/shm" : P_tmpdir);
    enum base_status status = copy_whole(dir, out, error);
    if (held >= 0) {
        (void)close(held);
    }
    return status;
}

enum base_status sim_core_folder_again(const struct sim_core_folder *folder,
                                       struct sim_core_folder *out, struct base_error *error)
{
    base_assert(folder->path[0] != '\0');
    *out = (struct sim_core_folder){.held = -1, .in_memory = folder->in_memory};
    return copy_whole(folder->path, out, error);
}

// Small blobs lie in the store, large ones in files.
uint64_t sim_core_folder_content(const char *dir)
{
    char path[PATH_MAX];
    struct stat about;
    uint64_t bytes = 0;
    (void)snprintf(path, sizeof(path), "%.4000s/blobs", dir);
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        bool is_file = fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISREG(about.st_mode);
        bytes += is_file ? (uint64_t)about.st_size : 0;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    (void)snprintf(path, sizeof(path), "%.4000s/store.mdb", dir);
    return bytes + (stat(path, &about) == 0 ? (uint64_t)about.st_size : 0);
}

// The store alone grows; its blobs are those that devices share.
uint64_t sim_core_folder_bytes(const struct sim_core_folder *folder)
{
    struct stat about;
    struct base_error error;
    bool counts = folder->in_memory && store_look(folder->path, &about, &error) == BASE_OK;
    return counts ? (uint64_t)about.st_blocks * 512 : 0;
}

void sim_core_folder_remove(struct sim_core_folder *folder)
{
    if (folder->path[0] != '\0') {
        (void)nftw(folder->path, remove_one, OPEN_MAX, FTW_DEPTH | FTW_PHYS);
        folder->path[0] = '\0';
        if (folder->held >= 0) {
            (void)close(folder->held);
        }
    }
}

enum base_status sim_core_folder_time(const char *dir, uint64_t *out_wall_us,
                                      struct base_error *error)
{
    struct stat about;
    BASE_TRY(store_look(dir, &about, error));
    *out_wall_us = (uint64_t)about.st_mtim.tv_sec * 1000000;
    return BASE_OK;
}

// Copying a gateway's data folder, so that a run can write to it. core_gateway.c does so before it
// opens the store. The copy lies in memory where the system has such a place (/dev/shm): a run
// writes as much as a gateway does, and none of it is kept. Links are not followed, and what is no
// file or folder is left out.
#include "virtual/core_folder.h"

#include "base/os/errno_status.h"
#include "base/os/write_all.h"
#include "virtual/core_gateway.h"

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

// nftw gives its visitor no context.
static _Thread_local struct {
    const char *from;
    const char *to;
    enum base_status status;
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

// Of what lies in the folder: the store, its blobs, and the keys that the gateway signs with.
// Tokens, certificates and the tunnel's log stay where they are.
static bool is_wanted(const char *name)
{
    return strcmp(name, "store.mdb") == 0 || strcmp(name, "blobs") == 0 ||
           strcmp(name, "keys") == 0;
}

static int copy_one(const char *path, const struct stat *about, int kind, struct FTW *at)
{
    char to[PATH_MAX];
    const char *below = path + strlen(copying.from);
    if (at->level == 1 && !is_wanted(path + at->base)) {
        return FTW_SKIP_SUBTREE;
    }
    int size = snprintf(to, sizeof(to), "%s%s", copying.to, below);
    if (size < 0 || (size_t)size >= sizeof(to)) {
        copying.status = BASE_ERR_TOO_LARGE;
    } else if (kind == FTW_D && at->level > 0 && mkdir(to, 0700) != 0) {
        copying.status = base_status_of_errno(errno);
    } else if (kind == FTW_F && S_ISREG(about->st_mode)) {
        copying.status = copy_file(path, to, about->st_mode & 0600);
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
    return stat(path, out) == 0
               ? BASE_OK
               : base_error_set(error, BASE_ERR_NOT_FOUND, "%s: no gateway's data folder: %s", dir,
                                strerror(errno));
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

enum base_status sim_core_folder_copy(const char *dir, struct sim_core_folder *out,
                                      struct base_error *error)
{
    char whole[PATH_MAX]; // without links and slashes at its end, which paths below would show
    int held = -1;
    out->path[0] = '\0';
    BASE_TRY(lock(dir, &held, error));
    const char *place = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : P_tmpdir;
    (void)snprintf(out->path, sizeof(out->path), "%s/walle-fleet-sim-XXXXXX", place);
    copying.from = whole;
    copying.to = out->path;
    bool begun = realpath(dir, whole) != NULL && mkdtemp(out->path) != NULL;
    copying.status = begun ? BASE_OK : base_status_of_errno(errno);
    if (begun && nftw(whole, copy_one, OPEN_MAX, FTW_PHYS | FTW_ACTIONRETVAL) < 0) {
        copying.status = base_status_of_errno(errno);
    }
    if (!begun) {
        out->path[0] = '\0'; // there is none
    }
    if (held >= 0) {
        (void)close(held);
    }
    enum base_status status = copying.status;
    if (status != BASE_OK) {
        (void)base_error_set(error, status, "%s: cannot be copied to %s: %s", dir, place,
                             base_status_text(status));
        sim_core_folder_remove(out);
    }
    return status;
}

void sim_core_folder_remove(struct sim_core_folder *folder)
{
    if (folder->path[0] != '\0') {
        (void)nftw(folder->path, remove_one, OPEN_MAX, FTW_DEPTH | FTW_PHYS);
        folder->path[0] = '\0';
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

// Taking odd things out of the way in a device's folder. Called by posix_storage.c when it opens
// its folders and when content turns out to be none, and by posix_state.c for what stands in the
// place of a record; on the thread of the event base. What is set aside is renamed, never deleted,
// so that somebody can look at it: at most POSIX_ASIDE_MAX of a name, then the device reports an
// error. An empty folder is simply removed.
#include "posix/store/posix_aside.h"

#include "base/os/errno_status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIR_MODE   0700
#define NAME_BYTES 96

enum base_status posix_set_aside(int folder, const char *name, const char *where,
                                 const struct base_log *log)
{
    char aside[NAME_BYTES];
    if (unlinkat(folder, name, AT_REMOVEDIR) == 0) { // an empty folder
        base_log_warn(log, "device", "%s/%s: a folder, empty, in place of content: removed", where,
                      name);
        return BASE_OK;
    }
    for (int i = 1; i <= POSIX_ASIDE_MAX; i++) {
        struct stat about;
        char number[4] = "";
        if (i > 1) {
            (void)snprintf(number, sizeof(number), "%d", i);
        }
        (void)snprintf(aside, sizeof(aside), "%.80s.aside%s", name, number);
        if (fstatat(folder, aside, &about, AT_SYMLINK_NOFOLLOW) == 0) {
            continue;
        }
        if (renameat(folder, name, folder, aside) != 0) {
            return base_status_of_errno(errno);
        }
        base_log_warn(log, "device", "%s/%s: not what belongs there; set aside as %s", where, name,
                      aside);
        return BASE_OK;
    }
    base_log_error(log, "device", "%s/%s: not what belongs there, and %d such are set aside", where,
                   name, POSIX_ASIDE_MAX);
    return BASE_ERR_IO;
}

static int folder_enter(int folder, const char *name)
{
    return openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

enum base_status posix_folder_open(int folder, const char *name, const char *where,
                                   const struct base_log *log, int *out_fd)
{
    for (int tries = 0; tries < 2; tries++) {
        if (mkdirat(folder, name, DIR_MODE) != 0 && errno != EEXIST) {
            return base_status_of_errno(errno);
        }
        *out_fd = folder_enter(folder, name);
        if (*out_fd >= 0) {
            return BASE_OK;
        }
        if (tries > 0 || (errno != ENOTDIR && errno != ELOOP)) {
            return base_status_of_errno(errno);
        }
        BASE_TRY(posix_set_aside(folder, name, where, log));
    }
    return BASE_ERR_IO;
}

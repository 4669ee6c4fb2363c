// Makes the folders that operators name: of the simulator's reports, of what the command line tool
// builds. Called on the main thread before anything is started, so that whether a folder can be
// written to is known early.
#include "base/os/folder.h"

#include "base/check.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum base_status refuse(const char *path, int number, struct base_error *error)
{
    return base_error_set(error, BASE_ERR_IO, "%.100s: %s", path, strerror(number));
}

enum base_status base_folder_make(const char *path, struct base_error *error)
{
    char part[PATH_MAX];
    size_t size = strlen(path);
    base_assert(error != NULL);
    if (size == 0 || size >= sizeof(part)) {
        return refuse(path, size == 0 ? ENOENT : ENAMETOOLONG, error);
    }
    for (size_t i = 1; i <= size; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            return refuse(part, errno, error);
        }
    }
    struct stat about;
    if (stat(path, &about) != 0) {
        return refuse(path, errno, error);
    }
    if (!S_ISDIR(about.st_mode)) {
        return refuse(path, ENOTDIR, error);
    }
    return access(path, W_OK | X_OK) == 0 ? BASE_OK : refuse(path, errno, error);
}

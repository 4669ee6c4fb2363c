// Opening what has to be a regular file. Called by programs at start and by their stores
// (gateway/store, gateway/tunnel, device/port/posix), by the tools for files that operators name,
// and by output_file.c and private_file.c beside it; any thread. Everything is opened without
// waiting and looked at as a descriptor, so what is judged is what is then read. What stands there
// instead is named in words: that is most of this file.
#include "base/os/regular_file.h"

#include "base/os/errno_status.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum base_status failed(struct base_error *error, const char *path)
{
    return base_error_set(error, base_status_of_errno(errno), "%s: %s", path, strerror(errno));
}

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFLNK:
        return "a symbolic link";
    case S_IFIFO:
        return "a named pipe";
    case S_IFDIR:
        return "a folder";
    case S_IFSOCK:
        return "a socket";
    case S_IFCHR:
    case S_IFBLK:
        return "a device";
    case S_IFREG:
        return "a file";
    default:
        return "something else";
    }
}

enum base_status base_regular_refuse(unsigned mode, const char *path, struct base_error *error)
{
    return base_error_set(error, BASE_ERR_INVALID, "%s: %s, not a regular file", path,
                          kind_of((mode_t)mode));
}

enum base_status base_regular_check(int fd, const char *path, struct base_error *error)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return failed(error, path);
    }
    return S_ISREG(about.st_mode) ? BASE_OK : base_regular_refuse(about.st_mode, path, error);
}

// Why open() did not: what a FIFO without a reader, a socket, a folder and a link answer.
static enum base_status not_opened(int folder, const char *name, int flags,
                                   struct base_error *error)
{
    int reason = errno;
    struct stat about;
    bool follow = (flags & O_NOFOLLOW) == 0;
    bool seen = fstatat(folder, name, &about, follow ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
    if (seen && !S_ISREG(about.st_mode)) {
        return base_regular_refuse(about.st_mode, name, error);
    }
    errno = reason;
    return failed(error, name);
}

enum base_status base_regular_openat(int folder, const char *name, int flags, int *out_fd,
                                     struct base_error *error)
{
    // O_NOCTTY: a terminal in its place does not become the program's.
    int fd =
        openat(folder, name, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, (mode_t)BASE_FILE_MODE);
    if (fd < 0) {
        return not_opened(folder, name, flags, error);
    }
    enum base_status status = base_regular_check(fd, name, error);
    if (status != BASE_OK) {
        close(fd);
        return status;
    }
    *out_fd = fd;
    return BASE_OK;
}

enum base_status base_regular_open(const char *path, int flags, int *out_fd,
                                   struct base_error *error)
{
    return base_regular_openat(AT_FDCWD, path, flags, out_fd, error);
}

enum base_status base_regular_stream(const char *path, FILE **out_file, struct base_error *error)
{
    int fd = -1;
    BASE_TRY(base_regular_open(path, O_RDONLY, &fd, error));
    FILE *file = fdopen(fd, "r");
    if (file == NULL) {
        enum base_status status = failed(error, path);
        close(fd);
        return status;
    }
    *out_file = file;
    return BASE_OK;
}

enum base_status base_regular_look(const char *path, bool follow, struct base_error *error)
{
    struct stat about;
    if (fstatat(AT_FDCWD, path, &about, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
        return failed(error, path);
    }
    return S_ISREG(about.st_mode) ? BASE_OK : base_regular_refuse(about.st_mode, path, error);
}

enum base_status base_regular_holds(const char *path, uint64_t max, struct base_error *error)
{
    struct stat about;
    BASE_TRY(base_regular_look(path, true, error));
    if (stat(path, &about) != 0) {
        return failed(error, path);
    }
    if (about.st_size == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: it is empty", path);
    }
    return (uint64_t)about.st_size <= max
               ? BASE_OK
               : base_error_set(error, BASE_ERR_TOO_LARGE, "%s: more than %llu bytes", path,
                                (unsigned long long)max);
}

enum base_status base_folder_look(int folder, const char *name, struct base_error *error)
{
    struct stat about;
    if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? BASE_OK : failed(error, name);
    }
    return S_ISDIR(about.st_mode) ? BASE_OK
                                  : base_error_set(error, BASE_ERR_INVALID, "%s: %s, not a folder",
                                                   name, kind_of(about.st_mode));
}

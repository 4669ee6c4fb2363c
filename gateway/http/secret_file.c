// Reading and writing of secret files, on the main thread at start and on reload.
#include "http/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_MODE 0600

static enum base_status system_failed(struct base_error *error, const char *path)
{
    return base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
}

// All of it, on stable storage.
static bool write_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        bytes += n;
        size -= (size_t)n;
    }
    return fsync(fd) == 0;
}

enum base_status gw_secret_file_write(const char *path, const void *bytes, size_t size,
                                      struct base_error *error)
{
    char temporary[PATH_MAX];
    int length = snprintf(temporary, sizeof(temporary), "%s.new", path);
    if (length < 0 || (size_t)length >= sizeof(temporary)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "path too long: %.100s", path);
    }
    (void)unlink(temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, SECRET_MODE);
    if (fd < 0) {
        return system_failed(error, temporary);
    }
    bool written = write_all(fd, bytes, size);
    enum base_status status = written ? BASE_OK : system_failed(error, temporary);
    close(fd);
    if (status == BASE_OK && rename(temporary, path) != 0) {
        status = system_failed(error, path);
    }
    if (status != BASE_OK) {
        (void)unlink(temporary);
    }
    return status;
}

enum base_status gw_secret_file_read(const char *path, void *out, size_t size,
                                     struct base_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return system_failed(error, path);
    }
    struct stat about;
    enum base_status status = BASE_OK;
    if (fstat(fd, &about) != 0) {
        status = system_failed(error, path);
    } else if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        status = base_error_set(error, BASE_ERR_INVALID,
                                "%s: others may read it; it must have mode 0600", path);
    } else if (about.st_size != (off_t)size || read(fd, out, size) != (ssize_t)size) {
        status =
            base_error_set(error, BASE_ERR_INVALID, "%s: must hold exactly %zu bytes", path, size);
    }
    close(fd);
    return status;
}

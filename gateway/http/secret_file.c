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

#define SECRET_MODE    0600
#define HEX_DIGITS_MIN (GW_SECRET_BITS_MIN / 4)
#define CHARACTERS_MIN 22u // of base64, which has 6 bits each
#define DIFFERENT_MIN  8u

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
        status = base_error_set(error, BASE_ERR_INVALID, "%s: others may read it: chmod 600 %s",
                                path, path);
    } else if (about.st_size != (off_t)size || read(fd, out, size) != (ssize_t)size) {
        status =
            base_error_set(error, BASE_ERR_INVALID, "%s: must hold exactly %zu bytes", path, size);
    }
    close(fd);
    return status;
}

static bool is_hex(const char *text)
{
    return text[strspn(text, "0123456789abcdefABCDEF")] == '\0';
}

// What can be told from the text alone: how long it is, and that it is no repetition.
static bool is_guessable(const char *text)
{
    bool seen[256] = {false};
    unsigned different = 0;
    for (const char *at = text; *at != '\0'; at++) {
        bool *one = &seen[(unsigned char)*at];
        different += *one ? 0 : 1;
        *one = true;
    }
    return different < DIFFERENT_MIN ||
           strlen(text) < (is_hex(text) ? HEX_DIGITS_MIN : CHARACTERS_MIN);
}

// The open file's first line. INVALID, IO.
static enum base_status take_line(int fd, const char *path, char *out, size_t capacity,
                                  struct base_error *error)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return system_failed(error, path);
    }
    if (!S_ISREG(about.st_mode)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: not a regular file", path);
    }
    if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: others may read it: chmod 600 %s", path,
                              path);
    }
    ssize_t size = read(fd, out, capacity);
    if (size < 0) {
        return system_failed(error, path);
    }
    const char *end = memchr(out, '\n', (size_t)size);
    size_t length = end != NULL ? (size_t)(end - out) : (size_t)size;
    if (length == capacity) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: the line is longer than %zu bytes",
                              path, capacity - 1);
    }
    out[length] = '\0';
    out[strcspn(out, "\r")] = '\0';
    return BASE_OK;
}

enum base_status gw_secret_line_read(const char *path, char *out, size_t capacity,
                                     struct base_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return system_failed(error, path);
    }
    enum base_status status = take_line(fd, path, out, capacity, error);
    close(fd);
    BASE_TRY(status);
    if (out[0] == '\0') {
        return base_error_set(error, BASE_ERR_INVALID, "%s: empty", path);
    }
    return is_guessable(out)
               ? base_error_set(error, BASE_ERR_INVALID,
                                "%s: the token is guessable (under 128 bits): openssl rand -hex 32 "
                                "makes a good one",
                                path)
               : BASE_OK;
}
_Static_assert(GW_SECRET_BITS_MIN == 128, "the text above says so");

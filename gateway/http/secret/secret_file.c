// Reading and writing of secret files, on the main thread at start and on reload: certificates'
// keys, ticket keys, online keys, tokens. A file is written beside its name, synced and renamed,
// with mode 0600 from its first byte; reading refuses what others may read. A token that can be
// told to be guessable (under GW_SECRET_BITS_MIN bits by its length, or a repetition) is refused
// too.
#include "http/secret/secret_file.h"

#include "base/os/private_file.h"
#include "base/os/write_all.h"

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
static bool write_durably(int fd, const uint8_t *bytes, size_t size)
{
    return base_write_all(fd, bytes, size) == BASE_OK && fsync(fd) == 0;
}

// Writes a new file beside `path`. The caller names it or removes it.
static enum base_status write_beside(const char *path, const void *bytes, size_t size,
                                     char temporary[PATH_MAX], struct base_error *error)
{
    int length = snprintf(temporary, PATH_MAX, "%s.new", path);
    if (length < 0 || length >= PATH_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "path too long: %.100s", path);
    }
    (void)unlink(temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, SECRET_MODE);
    if (fd < 0) {
        return system_failed(error, temporary);
    }
    bool written = write_durably(fd, bytes, size);
    enum base_status status = written ? BASE_OK : system_failed(error, temporary);
    close(fd);
    if (!written) {
        (void)unlink(temporary);
    }
    return status;
}

// The names in the folder of `path`, on stable storage.
static enum base_status sync_folder(const char *path, struct base_error *error)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    (void)snprintf(folder, sizeof(folder), "%.*s", slash != NULL ? (int)(slash - path + 1) : 1,
                   slash != NULL ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        enum base_status status = system_failed(error, folder);
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    close(fd);
    return BASE_OK;
}

enum base_status gw_secret_file_write(const char *path, const void *bytes, size_t size,
                                      struct base_error *error)
{
    char temporary[PATH_MAX];
    BASE_TRY(write_beside(path, bytes, size, temporary, error));
    if (rename(temporary, path) != 0) {
        enum base_status status = system_failed(error, path);
        (void)unlink(temporary);
        return status;
    }
    return sync_folder(path, error);
}

enum base_status gw_secret_file_make(const char *path, const void *bytes, size_t size,
                                     struct base_error *error)
{
    char temporary[PATH_MAX];
    BASE_TRY(write_beside(path, bytes, size, temporary, error));
    bool made = link(temporary, path) == 0; // which, unlike rename, replaces nothing
    enum base_status status = made ? BASE_OK : system_failed(error, path);
    (void)unlink(temporary);
    return made ? sync_folder(path, error) : status;
}

enum base_status gw_secret_file_read(const char *path, void *out, size_t size,
                                     struct base_error *error)
{
    int fd = -1;
    struct stat about;
    BASE_TRY(base_private_open(path, false, &fd, error));
    bool fits = fstat(fd, &about) == 0 && about.st_size == (off_t)size &&
                read(fd, out, size) == (ssize_t)size;
    close(fd);
    return fits ? BASE_OK
                : base_error_set(error, BASE_ERR_INVALID, "%s: must hold exactly %zu bytes", path,
                                 size);
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

enum base_status gw_secret_line_read(const char *path, bool own, char *out, size_t capacity,
                                     struct base_error *error)
{
    BASE_TRY(base_private_line(path, own, out, capacity, error));
    return is_guessable(out)
               ? base_error_set(error, BASE_ERR_INVALID,
                                "%s: the token is guessable (under 128 bits): openssl rand -hex 32 "
                                "makes a good one",
                                path)
               : BASE_OK;
}
_Static_assert(GW_SECRET_BITS_MIN == 128, "the text above says so");

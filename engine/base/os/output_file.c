// Writing what an operator named. Called by programs for their results (walle, walle-engine, the
// simulator, the agent's root.born, the engine's cache of choices); any thread, each path by one at
// a time. A regular file is written beside its name and renamed when all is there; streams and what
// /dev leads to are written to as they are, for nothing could take their place. Opening never
// waits: a pipe that nobody reads is an error, not a program that hangs.
#include "base/os/output_file.h"

#include "base/check.h"
#include "base/prng.h"
#include "base/os/regular_file.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE 0666 // less what the user's mask takes
// What is written beside a name: no other program's.
#define BESIDE_HEAD   ".walle-"
#define BESIDE_DIGITS 8u
#define BESIDE_TAIL   ".tmp"

static enum base_status failed(struct base_error *error, const char *path, int number)
{
    enum base_status status = number == ENOENT                       ? BASE_ERR_NOT_FOUND
                              : number == ENOSPC || number == EDQUOT ? BASE_ERR_FULL
                              : number == ENOMEM                     ? BASE_ERR_NOMEM
                                                                     : BASE_ERR_IO;
    return base_error_set(error, status, "%s: %s", path, strerror(number));
}

static enum base_status stream_of(struct base_output_file *out, int fd, struct base_error *error)
{
    out->file = fdopen(fd, "w");
    if (out->file != NULL) {
        return BASE_OK;
    }
    int number = errno;
    (void)close(fd);
    if (out->beside[0] != '\0') {
        (void)unlink(out->beside);
    }
    return failed(error, out->path, number);
}

// What is there is a stream, or leads to what the system says: written to as it is. `links`: a name
// of the system's.
static enum base_status open_there(struct base_output_file *out, bool links,
                                   struct base_error *error)
{
    base_assert(out->beside[0] == '\0'); // nothing takes the place of what is there
    struct stat about;
    int flags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (links ? 0 : O_NOFOLLOW);
    int fd = open(out->path, flags);
    if (fd < 0 && errno == ENXIO) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: a named pipe that nobody reads",
                              out->path);
    }
    if (fd < 0) {
        return failed(error, out->path, errno);
    }
    int now = fcntl(fd, F_GETFL);
    bool ok = fstat(fd, &about) == 0 && now >= 0 && fcntl(fd, F_SETFL, now & ~O_NONBLOCK) == 0;
    bool fits = ok && (S_ISFIFO(about.st_mode) || S_ISCHR(about.st_mode) ||
                       (links && S_ISREG(about.st_mode)));
    if (!fits) {
        int number = errno;
        (void)close(fd);
        return ok ? base_regular_refuse(about.st_mode, out->path, error)
                  : failed(error, out->path, number);
    }
    return stream_of(out, fd, error);
}

static enum base_status open_beside(struct base_output_file *out, struct base_error *error)
{
    int size = snprintf(out->beside, sizeof(out->beside), "%s" BESIDE_HEAD "%08x" BESIDE_TAIL,
                        out->path, (unsigned)base_entropy_u64());
    if (size < 0 || (size_t)size >= sizeof(out->beside)) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.100s: path too long", out->path);
    }
    int fd = open(out->beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, MODE);
    return fd < 0 ? failed(error, out->path, errno) : stream_of(out, fd, error);
}

enum base_status base_output_open(struct base_output_file *out, const char *path,
                                  struct base_error *error)
{
    struct stat about;
    bool of_system = base_str_starts(base_str_of(path), BASE_STR("/dev/"));
    out->path = path;
    out->beside[0] = '\0';
    if (lstat(path, &about) != 0) {
        return errno == ENOENT ? open_beside(out, error) : failed(error, path, errno);
    }
    if (S_ISREG(about.st_mode)) {
        return open_beside(out, error);
    }
    if (S_ISFIFO(about.st_mode) || S_ISCHR(about.st_mode) ||
        (S_ISLNK(about.st_mode) && of_system)) {
        return open_there(out, of_system, error);
    }
    return base_regular_refuse(about.st_mode, path, error);
}

enum base_status base_output_close(struct base_output_file *out, enum base_status written,
                                   struct base_error *error)
{
    bool bad = ferror(out->file) != 0;
    errno = 0;
    bad = fclose(out->file) != 0 || bad;
    int number = errno;
    bool replaces = out->beside[0] != '\0';
    if (written == BASE_OK && !bad && replaces && rename(out->beside, out->path) != 0) {
        number = errno;
        bad = true;
    }
    if (replaces && (bad || written != BASE_OK)) {
        (void)unlink(out->beside);
    }
    if (written != BASE_OK || !bad) {
        return written;
    }
    return number != 0 ? failed(error, out->path, number)
                       : base_error_set(error, BASE_ERR_IO, "%s: not written whole", out->path);
}

enum base_status base_output_write(const char *path, const void *bytes, size_t size,
                                   struct base_error *error)
{
    struct base_output_file out;
    BASE_TRY(base_output_open(&out, path, error));
    errno = 0;
    enum base_status status = BASE_OK;
    if (size > 0 && fwrite(bytes, 1, size, out.file) != size) {
        status = failed(error, path, errno != 0 ? errno : EIO);
    }
    return base_output_close(&out, status, error);
}

// Is `name` what open_beside made of `of`?
static bool is_beside(const char *name, const char *of)
{
    size_t size = strlen(of);
    size_t head = strlen(BESIDE_HEAD);
    if (strncmp(name, of, size) != 0 || strncmp(name + size, BESIDE_HEAD, head) != 0) {
        return false;
    }
    const char *number = name + size + head;
    size_t digits = strspn(number, "0123456789abcdef");
    return digits == BESIDE_DIGITS && strcmp(number + digits, BESIDE_TAIL) == 0;
}

void base_output_sweep(const char *path)
{
    char folder[BASE_OUTPUT_PATH_MAX];
    const char *slash = strrchr(path, '/');
    int size = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    if ((size_t)size >= sizeof(folder)) {
        return;
    }
    (void)snprintf(folder, sizeof(folder), "%.*s", size, slash == NULL ? "." : path);
    DIR *dir = opendir(folder);
    const char *name = slash == NULL ? path : slash + 1;
    struct dirent *entry = NULL;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (is_beside(entry->d_name, name)) {
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

// See export_file.h. Called by cli_tunnel.c for `walle tunnel export` with a file. One thread;
// several processes, of which the lock lets one in. The side file is replaced as a whole after the
// records are durable, never before: an export that dies between the two leaves bytes that the next
// one cuts off, and no record is there twice.
#include "cli/export_file.h"

#include "cli/base/cli_files.h"

#include "base/os/output_file.h"
#include "base/os/regular_file.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIDE_MAX       (EXPORT_PLACE_MAX + 24)
#define LENGTH_UNKNOWN UINT64_MAX

static enum base_status failed(const char *path, struct base_error *error)
{
    return base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
}

// Place and length as they were kept; an empty place and LENGTH_UNKNOWN where nothing was.
static enum base_status load(struct export_file *file, uint64_t *out_length, bool *out_known,
                             struct base_error *error)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    *out_length = LENGTH_UNKNOWN;
    *out_known = false;
    enum base_status status = cli_file_read_own(file->side, SIDE_MAX, &bytes, &size, error);
    if (status != BASE_OK) {
        return status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
    }
    const char *text = (const char *)bytes;
    size_t place = strcspn(text, " \n");
    size_t end = place + strcspn(text + place, "\n");
    const struct base_str number = {text + place + 1, end > place ? end - place - 1 : 0};
    uint64_t length = LENGTH_UNKNOWN;
    bool good =
        place < EXPORT_PLACE_MAX && (end == place || base_str_u64(number, &length) == BASE_OK);
    if (good) {
        (void)snprintf(file->place, sizeof(file->place), "%.*s", (int)place, text);
        *out_length = length;
        *out_known = place > 0 || end > place;
    }
    free(bytes);
    return good ? BASE_OK
                : base_error_set(error, BASE_ERR_INVALID,
                                 "%s: this is no place of an export; without it, an export begins "
                                 "at the first record",
                                 file->side);
}

// Brings the file to what the last export left.
static enum base_status settle(struct export_file *file, int fd, uint64_t length, bool known,
                               struct base_error *error)
{
    struct stat found;
    if (fstat(fd, &found) != 0) {
        return failed(file->path, error);
    }
    uint64_t size = (uint64_t)found.st_size;
    file->fresh = size == 0 || length == 0;
    if (size > 0 && !known) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%s is there, and %s is not: an export goes on behind what exports "
                              "wrote, or makes a new file",
                              file->path, file->side);
    }
    if (size > 0 && size < length && length != LENGTH_UNKNOWN) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%s has %llu bytes and had %llu when the last export ended: take it "
                              "away to go on in a new one, or remove %s too to begin anew",
                              file->path, (unsigned long long)size, (unsigned long long)length,
                              file->side);
    }
    uint8_t last = '\n';
    if (size > length && length > 0 && pread(fd, &last, 1, (off_t)length - 1) != 1) {
        return failed(file->path, error);
    }
    if (last != '\n') {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%s has no end of a line where %s says that the last export ended",
                              file->path, file->side);
    }
    file->length = size < length ? size : length; // shorter: empty, and begun anew
    return size > length && ftruncate(fd, (off_t)length) != 0 ? failed(file->path, error) : BASE_OK;
}

// Does the path still name what is written to? Who took the file away has what was kept of it; the
// rest goes, since the next export writes it again.
static enum base_status check_same(struct export_file *file, const struct stat *mine,
                                   struct base_error *error)
{
    struct stat there;
    if (lstat(file->path, &there) == 0 && there.st_ino == mine->st_ino &&
        there.st_dev == mine->st_dev) {
        return BASE_OK;
    }
    (void)ftruncate(fileno(file->to), (off_t)file->length);
    return base_error_set(error, BASE_ERR_CONFLICT,
                          "%s was taken away while this export wrote to it; the next one goes on "
                          "behind what it had kept",
                          file->path);
}

enum base_status export_file_open(struct export_file *file, const char *path,
                                  struct base_error *error)
{
    int fd = -1;
    uint64_t length = 0;
    bool known = false;
    *file = (struct export_file){.path = path};
    int size = snprintf(file->side, sizeof(file->side), "%s.next", path);
    if (size < 0 || size >= EXPORT_PATH_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%.80s...: the path is too long", path);
    }
    BASE_TRY(base_regular_open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, &fd, error));
    enum base_status status = BASE_OK;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        status = errno == EWOULDBLOCK
                     ? base_error_set(error, BASE_ERR_BUSY, "%s: another export writes to it", path)
                     : failed(path, error);
    }
    if (status == BASE_OK) {
        status = load(file, &length, &known, error);
    }
    if (status == BASE_OK) {
        status = settle(file, fd, length, known, error);
    }
    if (status == BASE_OK) {
        file->to = fdopen(fd, "a");
        status = file->to != NULL ? BASE_OK : failed(path, error);
    }
    if (status != BASE_OK) {
        (void)close(fd);
        return status;
    }
    // From here on what is behind the length is an export's.
    status = file->fresh ? export_file_keep(file, error) : BASE_OK;
    if (status != BASE_OK) {
        export_file_close(file);
    }
    return status;
}

enum base_status export_file_keep(struct export_file *file, struct base_error *error)
{
    struct base_output_file side;
    struct stat found;
    if (fflush(file->to) != 0 || fsync(fileno(file->to)) != 0 ||
        fstat(fileno(file->to), &found) != 0) {
        return failed(file->path, error);
    }
    BASE_TRY(check_same(file, &found, error));
    BASE_TRY(base_output_open(&side, file->side, error));
    bool good =
        fprintf(side.file, "%s %llu\n", file->place, (unsigned long long)found.st_size) > 0 &&
        fflush(side.file) == 0 && fsync(fileno(side.file)) == 0;
    file->length = (uint64_t)found.st_size;
    return base_output_close(&side, good ? BASE_OK : failed(file->side, error), error);
}

void export_file_close(struct export_file *file)
{
    if (file->to != NULL) {
        (void)fclose(file->to);
        file->to = NULL;
    }
}

// Files of the command: whole reads with a limit, and folders. Called by the commands that read
// tasks, builds, keys and repositories; one thread. A file is opened without waiting and looked at
// before it is read, so a pipe or a device under a name that was expected to be a file does not
// hang the command. Writing is base/os/output_file.h.
#include "cli/base/cli_files.h"

#include "base/os/folder.h"
#include "base/os/path_part.h"
#include "base/os/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_PATH_MAX 1024
#define READ_FIRST     (64u * 1024)

struct readable {
    FILE *file;
    const char *path;
    size_t max; // bytes
};

static enum base_status read_all(struct readable from, uint8_t **out_bytes, size_t *out_size,
                                 struct base_error *error)
{
    FILE *file = from.file;
    size_t capacity = READ_FIRST;
    size_t size = 0;
    uint8_t *bytes = malloc(capacity + 1);

    while (bytes != NULL) {
        size += fread(bytes + size, 1, capacity - size, file);
        if (ferror(file) != 0 || size > from.max) {
            enum base_status status = size > from.max ? BASE_ERR_TOO_LARGE : BASE_ERR_IO;
            free(bytes);
            return status == BASE_ERR_IO
                       ? base_error_set(error, status, "%s: %s", from.path, strerror(errno))
                       : base_error_set(error, status, "%s: more than %zu bytes", from.path,
                                        from.max);
        }
        if (size < capacity) {
            bytes[size] = 0;
            *out_bytes = bytes;
            *out_size = size;
            return BASE_OK;
        }
        capacity *= 2;
        uint8_t *larger = realloc(bytes, capacity + 1);
        if (larger == NULL) {
            free(bytes);
        }
        bytes = larger;
    }
    return base_error_set(error, BASE_ERR_NOMEM, "%s: out of memory", from.path);
}

enum base_status cli_file_read(const char *path, size_t max, uint8_t **out_bytes, size_t *out_size,
                               struct base_error *error)
{
    FILE *file = NULL;

    BASE_TRY(base_regular_stream(path, &file, error));
    enum base_status status =
        read_all((struct readable){file, path, max}, out_bytes, out_size, error);
    fclose(file);
    return status;
}

enum base_status cli_file_read_own(const char *path, size_t max, uint8_t **out_bytes,
                                   size_t *out_size, struct base_error *error)
{
    int fd = -1;
    BASE_TRY(base_regular_open(path, O_RDONLY | O_NOFOLLOW, &fd, error));
    FILE *file = fdopen(fd, "r");

    if (file == NULL) {
        (void)close(fd);
        return base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
    }
    enum base_status status =
        read_all((struct readable){file, path, max}, out_bytes, out_size, error);
    fclose(file);
    return status;
}

enum base_status cli_folder_below(const char *folder, const char *name, struct base_error *error)
{
    char path[FILES_PATH_MAX];
    struct stat about;
    const char *fault = base_path_part_fault(base_str_of(name));

    if (fault != NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "folder '%.100s': the name %s", name, fault);
    }
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path)) {
        return base_error_set(error, BASE_ERR_IO, "%.100s: path too long", folder);
    }
    BASE_TRY(base_folder_make(folder, error));
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (lstat(path, &about) != 0 || !S_ISDIR(about.st_mode)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: is a symbolic link or a file", path);
    }
    return BASE_OK;
}

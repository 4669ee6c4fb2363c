// Maps or copies model files and their external data. Called by the model reader (model.c,
// tensor_proto.c) and by tensor_file.c, on the loading thread; pages of weights that were packed
// are given back by the executor (session/exec.c, through model.c) and fold_bn.c. External
// locations come from the file, hence from a stranger: they are walked component by component below
// the model's folder, following no link and no "..".
#include "model/model_file.h"

#include "base/check.h"
#include "base/os/path_part.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct mapping {
    char *location; // of external data; NULL: the model file
    void *bytes;    // NULL for an empty file
    size_t size;
};

struct eng_mappings {
    int folder; // descriptor, -1: none known
    bool copy;  // what is mapped is memory of our own, filled from the file
    size_t limit_bytes;
    size_t total_bytes;
    struct mapping *items;
    uint32_t count;
    uint32_t capacity;
};

enum base_status eng_mappings_new(size_t limit_bytes, bool copy, struct eng_mappings **out_mappings)
{
    struct eng_mappings *mappings = calloc(1, sizeof(*mappings));
    if (mappings == NULL) {
        return BASE_ERR_NOMEM;
    }
    mappings->folder = -1;
    mappings->limit_bytes = limit_bytes;
    mappings->copy = copy;
    *out_mappings = mappings;
    return BASE_OK;
}

void eng_mappings_free(struct eng_mappings *mappings)
{
    if (mappings == NULL) {
        return;
    }
    for (uint32_t i = 0; i < mappings->count; i++) {
        if (mappings->items[i].bytes != NULL) {
            (void)munmap(mappings->items[i].bytes, mappings->items[i].size);
        }
        free(mappings->items[i].location);
    }
    if (mappings->folder >= 0) {
        (void)close(mappings->folder);
    }
    free(mappings->items);
    free(mappings);
}

static enum base_status grow(struct eng_mappings *mappings)
{
    base_assert(mappings->count <= mappings->capacity);
    if (mappings->count < mappings->capacity) {
        return BASE_OK;
    }
    if (mappings->count > ENG_EXTERNAL_FILES_MAX) {
        return BASE_ERR_LIMIT;
    }
    uint32_t capacity = mappings->capacity == 0 ? 4 : mappings->capacity * 2;
    struct mapping *items = realloc(mappings->items, capacity * sizeof(*items));
    if (items == NULL) {
        return BASE_ERR_NOMEM;
    }
    mappings->items = items;
    mappings->capacity = capacity;
    return BASE_OK;
}

static bool read_all(int file, uint8_t *bytes, size_t size, const char *name,
                     struct base_error *error)
{
    for (size_t at = 0; at < size;) {
        ssize_t got = pread(file, bytes + at, size - at, (off_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            (void)base_error_set(error, BASE_ERR_IO, "%s: %s", name,
                                 got < 0 ? strerror(errno) : "became shorter while it was read");
            return false;
        }
        at += (size_t)got;
    }
    return true;
}

// `size` bytes of the file, not 0, as pages that munmap frees. NULL: `error` says why not.
static void *map_bytes(int file, size_t size, bool copy, const char *name, struct base_error *error)
{
    void *bytes = copy
                      ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                      : mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED) {
        (void)base_error_set(error, BASE_ERR_IO, "%s: %s", name, strerror(errno));
        return NULL;
    }
    if (copy && !read_all(file, bytes, size, name, error)) {
        (void)munmap(bytes, size);
        return NULL;
    }
    return bytes;
}

// Maps the file behind `file` and appends it; the descriptor stays the caller's.
static enum base_status map_descriptor(struct eng_mappings *mappings, int file, const char *name,
                                       struct base_error *error)
{
    struct stat info;
    if (fstat(file, &info) != 0) {
        return base_error_set(error, BASE_ERR_IO, "%s: %s", name, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return base_error_set(error, BASE_ERR_IO, "%s: not a regular file", name);
    }
    size_t size = (size_t)info.st_size;
    base_assert(mappings->total_bytes <= mappings->limit_bytes);
    if (size > mappings->limit_bytes - mappings->total_bytes) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "%s: %zu bytes are over the limit", name,
                              size);
    }
    enum base_status status = grow(mappings);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s: %s", name, base_status_text(status));
    }
    void *bytes = NULL;
    if (size > 0) {
        bytes = map_bytes(file, size, mappings->copy, name, error);
        if (bytes == NULL) {
            return BASE_ERR_IO;
        }
    }
    mappings->items[mappings->count++] = (struct mapping){.bytes = bytes, .size = size};
    mappings->total_bytes += size;
    return BASE_OK;
}

enum base_status eng_mappings_open(struct eng_mappings *mappings, const char *path,
                                   const void **out_bytes, size_t *out_size,
                                   struct base_error *error)
{
    // NONBLOCK: a pipe must not hold the caller up; it is refused as no regular file.
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return base_error_set(error, BASE_ERR_IO, "%s: %s", path, strerror(errno));
    }
    enum base_status status = map_descriptor(mappings, file, path, error);
    (void)close(file);
    BASE_TRY(status);
    *out_bytes = mappings->items[mappings->count - 1].bytes;
    *out_size = mappings->items[mappings->count - 1].size;
    return BASE_OK;
}

enum base_status eng_mappings_folder(struct eng_mappings *mappings, const char *folder,
                                     const char *model_path, struct base_error *error)
{
    char *parent = NULL;
    base_assert(mappings->folder < 0); // a model has one folder
    if (folder == NULL) {
        const char *slash = strrchr(model_path, '/');
        size_t size = slash == NULL ? 0 : (size_t)(slash - model_path) + 1;
        parent = size == 0 ? strdup(".") : strndup(model_path, size);
        if (parent == NULL) {
            return BASE_ERR_NOMEM;
        }
        folder = parent;
    }
    mappings->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum base_status status = BASE_OK;
    if (mappings->folder < 0) {
        status = base_error_set(error, BASE_ERR_IO, "%s: %s", folder, strerror(errno));
    }
    free(parent);
    return status;
}

// Cuts the first component off `path`; false at its end.
static bool next_component(const char **path, struct base_str *out)
{
    while (**path == '/') {
        (*path)++;
    }
    size_t size = strcspn(*path, "/");
    *out = (struct base_str){*path, size};
    *path += size;
    return size > 0;
}

static bool location_is_safe(const char *location)
{
    size_t size = strlen(location);
    if (size == 0 || size > ENG_LOCATION_BYTES_MAX || location[0] == '/' ||
        location[size - 1] == '/') {
        return false;
    }
    struct base_str part;
    for (const char *at = location; next_component(&at, &part);) {
        bool stays = base_str_equal(part, BASE_STR("."));
        if (!stays && base_path_part_fault(part) != NULL) {
            return false;
        }
    }
    return true;
}

// Walks down component by component, following no symbolic link. -1 with errno set on failure.
static int open_below(int folder, const char *location)
{
    char name[NAME_MAX + 1];
    int at = folder;
    base_assert(folder >= 0 && location_is_safe(location));
    struct base_str part;
    while (next_component(&location, &part)) {
        if (part.size > NAME_MAX) {
            errno = ENAMETOOLONG;
            break;
        }
        memcpy(name, part.data, part.size);
        name[part.size] = '\0';
        bool last = *location == '\0';
        int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
        int next = openat(at, name, flags);
        int failure = errno;
        if (at != folder) {
            (void)close(at);
        }
        errno = failure;
        if (next < 0 || last) {
            return next;
        }
        at = next;
    }
    if (at != folder) {
        int failure = errno;
        (void)close(at);
        errno = failure;
    }
    return -1;
}

// The place of a file mapped before, or `count`. The last one is looked at first: tensors of one
// file mostly come together.
static uint32_t find_location(const struct eng_mappings *mappings, const char *location)
{
    for (uint32_t i = mappings->count; i > 0; i--) {
        const char *known = mappings->items[i - 1].location;
        if (known != NULL && strcmp(known, location) == 0) {
            return i - 1;
        }
    }
    return mappings->count;
}

enum base_status eng_mappings_external(struct eng_mappings *mappings, const char *location,
                                       const void **out_bytes, size_t *out_size,
                                       struct base_error *error)
{
    if (mappings->folder < 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "external data '%.80s', but no folder was given", location);
    }
    if (!location_is_safe(location)) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "external data '%.80s' is not a path below the model's folder",
                              location);
    }
    uint32_t at = find_location(mappings, location);
    if (at == mappings->count) {
        int file = open_below(mappings->folder, location);
        if (file < 0) {
            return base_error_set(error, BASE_ERR_IO, "external data '%.80s': %s", location,
                                  errno == ELOOP ? "is a symbolic link" : strerror(errno));
        }
        enum base_status status = map_descriptor(mappings, file, location, error);
        (void)close(file);
        BASE_TRY(status);
        base_assert(at == mappings->count - 1);
        // Without its name the file would be mapped again, nothing worse.
        mappings->items[at].location = strdup(location);
    }
    *out_bytes = mappings->items[at].bytes;
    *out_size = mappings->items[at].size;
    return BASE_OK;
}

void eng_mappings_release(const struct eng_mappings *mappings, const void *data, size_t bytes)
{
    uintptr_t begin = (uintptr_t)data;
    if (mappings->copy) {
        return; // there is no file to read them from again
    }
    for (uint32_t i = 0; i < mappings->count; i++) {
        uintptr_t start = (uintptr_t)mappings->items[i].bytes;
        size_t size = mappings->items[i].size;
        if (start == 0 || begin < start || begin - start > size || bytes > size - (begin - start)) {
            continue;
        }
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t first = (begin + page - 1) / page * page;
        uintptr_t last = (begin + bytes) / page * page;
        if (first < last) {
            // Advice only: failure costs memory, not correctness.
            (void)madvise((void *)first, last - first, MADV_DONTNEED);
        }
        return;
    }
}

// Storage of the posix port: the state record (posix_state.h), and blobs as files named by their
// SHA-256.
//
// A blob grows under partial/, is flushed and renamed to blobs/ when sealed, and the folder is
// flushed after it; so a name in blobs/ stood for whole, verified content when it was made. One
// thread.
#include "posix/store/posix_storage.h"

#include "posix/store/posix_aside.h"
#include "posix/store/posix_state.h"

#include "base/os/errno_status.h"
#include "base/os/regular_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define DIR_MODE      0700
#define LOCK_TRIES    40
#define LOCK_PAUSE_NS 50000000 // 2 s in all

struct mapping {
    struct mapping *next;
    struct wire_sha256 name;
    const uint8_t *bytes;
    size_t size;
    bool own; // memory, not pages of the file
};

struct posix_storage {
    const struct base_log *log;
    int dir; // file descriptors of the folders
    int blobs;
    int partial;
    int lock;
    int writing; // the partial blob being appended to; -1: none
    struct wire_sha256 writing_name;
    uint64_t writing_bytes;
    struct mapping *mappings;
    struct posix_state state;
};

// ---- The state record

static enum base_status state_load(void *ctx, uint8_t *out, size_t capacity, size_t *out_size)
{
    struct posix_storage *storage = ctx;
    return posix_state_load(&storage->state, false, out, capacity, out_size);
}

static enum base_status state_before(void *ctx, uint8_t *out, size_t capacity, size_t *out_size)
{
    struct posix_storage *storage = ctx;
    return posix_state_load(&storage->state, true, out, capacity, out_size);
}

static enum base_status state_save(void *ctx, const uint8_t *bytes, size_t size)
{
    struct posix_storage *storage = ctx;
    return posix_state_save(&storage->state, bytes, size);
}

// ---- Blobs

static const char *hex_of(const struct wire_sha256 *name, char out[WIRE_SHA256_HEX + 1])
{
    wire_sha256_hex(name, out);
    return out;
}

static void writing_close(struct posix_storage *storage)
{
    if (storage->writing >= 0) {
        (void)close(storage->writing);
        storage->writing = -1;
    }
}

static bool is_writing(const struct posix_storage *storage, const struct wire_sha256 *name)
{
    return storage->writing >= 0 && wire_sha256_equal(&storage->writing_name, name);
}

// Takes away what is there under the name of content; a folder that holds something is set aside.
static enum base_status take_away(const struct posix_storage *storage, int folder, const char *hex)
{
    if (unlinkat(folder, hex, 0) == 0) {
        return BASE_OK;
    }
    return errno == EISDIR || errno == EPERM
               ? posix_set_aside(folder, hex, folder == storage->blobs ? "blobs" : "partial",
                                 storage->log)
               : base_status_of_errno(errno);
}

// Is content there? What is no file is none, and is taken away.
static enum base_status content_stat(const struct posix_storage *storage, int folder,
                                     const char *hex, struct stat *out)
{
    if (fstatat(folder, hex, out, AT_SYMLINK_NOFOLLOW) != 0) {
        return base_status_of_errno(errno);
    }
    if (S_ISREG(out->st_mode)) {
        return BASE_OK;
    }
    if (!S_ISDIR(out->st_mode)) {
        base_log_warn(storage->log, "device",
                      "%s/%s: a link or a pipe in place of content: removed",
                      folder == storage->blobs ? "blobs" : "partial", hex);
    }
    BASE_TRY(take_away(storage, folder, hex));
    return BASE_ERR_NOT_FOUND;
}

static enum base_status blob_stat(void *ctx, const struct wire_sha256 *name, uint64_t *out_bytes,
                                  bool *out_sealed)
{
    struct posix_storage *storage = ctx;
    char hex[WIRE_SHA256_HEX + 1];
    struct stat info;
    bool sealed = content_stat(storage, storage->blobs, hex_of(name, hex), &info) == BASE_OK;
    if (!sealed) {
        BASE_TRY(content_stat(storage, storage->partial, hex, &info));
    }
    *out_bytes = (uint64_t)info.st_size;
    *out_sealed = sealed;
    return BASE_OK;
}

static enum base_status writing_open(struct posix_storage *storage, const struct wire_sha256 *name)
{
    char hex[WIRE_SHA256_HEX + 1];
    struct stat info;
    if (is_writing(storage, name)) {
        return BASE_OK;
    }
    writing_close(storage);
    BASE_TRY(base_regular_openat(storage->partial, hex_of(name, hex),
                                 O_WRONLY | O_CREAT | O_NOFOLLOW, &storage->writing, NULL));
    if (fstat(storage->writing, &info) != 0) {
        return base_status_of_errno(errno);
    }
    storage->writing_name = *name;
    storage->writing_bytes = (uint64_t)info.st_size;
    return BASE_OK;
}

static enum base_status blob_append(void *ctx, const struct wire_sha256 *name, uint64_t offset,
                                    const uint8_t *bytes, size_t size)
{
    struct posix_storage *storage = ctx;
    BASE_TRY(writing_open(storage, name));
    if (offset != storage->writing_bytes) {
        return BASE_ERR_INVALID;
    }
    size_t done = 0;
    while (done < size) {
        ssize_t step = pwrite(storage->writing, bytes + done, size - done, (off_t)(offset + done));
        if (step < 0 && errno == EINTR) {
            continue;
        }
        if (step <= 0) {
            enum base_status status = step < 0 ? base_status_of_errno(errno) : BASE_ERR_FULL;
            writing_close(storage); // its size is looked up again next time
            return status;
        }
        done += (size_t)step;
    }
    storage->writing_bytes += size;
    return BASE_OK;
}

static enum base_status blob_seal(void *ctx, const struct wire_sha256 *name)
{
    struct posix_storage *storage = ctx;
    char hex[WIRE_SHA256_HEX + 1];
    struct stat info;
    BASE_TRY(writing_open(storage, name));
    if (fsync(storage->writing) != 0) {
        return base_status_of_errno(errno);
    }
    writing_close(storage);
    if (content_stat(storage, storage->blobs, hex_of(name, hex), &info) == BASE_ERR_IO) {
        return BASE_ERR_IO; // something stands in its place, and stays
    }
    if (renameat(storage->partial, hex, storage->blobs, hex) != 0 || fsync(storage->blobs) != 0) {
        return base_status_of_errno(errno);
    }
    return BASE_OK;
}

static enum base_status space(void *ctx, uint64_t *out_bytes)
{
    const struct posix_storage *storage = ctx;
    struct statvfs info;
    if (fstatvfs(storage->partial, &info) != 0) {
        return base_status_of_errno(errno);
    }
    uint64_t bytes = (uint64_t)info.f_bavail * info.f_frsize;
    *out_bytes = bytes > POSIX_SPACE_MIN_FREE ? bytes - POSIX_SPACE_MIN_FREE : 0;
    return BASE_OK;
}

// Blocks behind the end of the file are kept without making it longer: its size is still what was
// brought. Truncating it to its own size gives them back.
static enum base_status reserve_end(struct posix_storage *storage, const struct wire_sha256 *name)
{
    char hex[WIRE_SHA256_HEX + 1];
    struct stat info;
    if (is_writing(storage, name)) {
        writing_close(storage);
    }
    if (fstatat(storage->partial, hex_of(name, hex), &info, 0) != 0) {
        return base_status_of_errno(errno);
    }
    if (info.st_size == 0) {
        return unlinkat(storage->partial, hex, 0) == 0 ? BASE_OK : base_status_of_errno(errno);
    }
    BASE_TRY(writing_open(storage, name));
    bool done = ftruncate(storage->writing, info.st_size) == 0;
    enum base_status status = done ? BASE_OK : base_status_of_errno(errno);
    writing_close(storage);
    return status;
}

static enum base_status blob_reserve(void *ctx, const struct wire_sha256 *name, uint64_t bytes)
{
    struct posix_storage *storage = ctx;
    if (bytes == 0) {
        return reserve_end(storage, name);
    }
    BASE_TRY(writing_open(storage, name));
    if (fallocate(storage->writing, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) == 0 ||
        errno == EOPNOTSUPP || errno == ENOSYS) { // then the look at what is free must do
        return BASE_OK;
    }
    return base_status_of_errno(errno);
}

static enum base_status mapping_add(struct posix_storage *storage, const struct wire_sha256 *name,
                                    const uint8_t *bytes, size_t size, bool own)
{
    struct mapping *mapping = malloc(sizeof(*mapping));
    if (mapping == NULL) {
        return BASE_ERR_NOMEM;
    }
    *mapping = (struct mapping){storage->mappings, *name, bytes, size, own};
    storage->mappings = mapping;
    return BASE_OK;
}

static enum base_status blob_map(void *ctx, const struct wire_sha256 *name,
                                 const uint8_t **out_bytes, size_t *out_size)
{
    static const uint8_t empty[1] = {0};
    struct posix_storage *storage = ctx;
    char hex[WIRE_SHA256_HEX + 1];
    struct stat info;
    int fd = -1;
    enum base_status status =
        base_regular_openat(storage->blobs, hex_of(name, hex), O_RDONLY | O_NOFOLLOW, &fd, NULL);
    if (status != BASE_OK) {
        status = base_regular_openat(storage->partial, hex, O_RDONLY | O_NOFOLLOW, &fd, NULL);
    }
    BASE_TRY(status);
    const uint8_t *bytes = empty;
    size_t size = 0;
    status = fstat(fd, &info) == 0 ? BASE_OK : base_status_of_errno(errno);
    if (status == BASE_OK && info.st_size > 0) {
        size = (size_t)info.st_size;
        void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        status = mapped != MAP_FAILED ? BASE_OK : base_status_of_errno(errno);
        bytes = mapped;
    }
    (void)close(fd);
    BASE_TRY(status);
    status = mapping_add(storage, name, bytes, size, false);
    if (status != BASE_OK) {
        if (size > 0) {
            (void)munmap((void *)(uintptr_t)bytes, size);
        }
        return status;
    }
    *out_bytes = bytes;
    *out_size = size;
    return BASE_OK;
}

// What cannot be read is as bad as damaged.
static enum base_status read_whole(int fd, uint8_t *out, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t step = pread(fd, out + done, size - done, (off_t)done);
        if (step < 0 && errno == EINTR) {
            continue;
        }
        if (step <= 0) {
            return BASE_ERR_CORRUPT;
        }
        done += (size_t)step;
    }
    return BASE_OK;
}

static enum base_status blob_load(void *ctx, const struct wire_sha256 *name,
                                  const uint8_t **out_bytes, size_t *out_size)
{
    struct posix_storage *storage = ctx;
    char hex[WIRE_SHA256_HEX + 1];
    struct stat info;
    int fd = -1;
    enum base_status status =
        base_regular_openat(storage->blobs, hex_of(name, hex), O_RDONLY | O_NOFOLLOW, &fd, NULL);
    if (status != BASE_OK) {
        return status == BASE_ERR_INVALID ? BASE_ERR_CORRUPT : status; // a pipe is no content
    }
    status = fstat(fd, &info) == 0 ? BASE_OK : base_status_of_errno(errno);
    size_t size = status == BASE_OK ? (size_t)info.st_size : 0;
    uint8_t *bytes = status == BASE_OK ? malloc(size > 0 ? size : 1) : NULL;
    if (status == BASE_OK) {
        status = bytes != NULL ? read_whole(fd, bytes, size) : BASE_ERR_NOMEM;
    }
    (void)close(fd);
    if (status == BASE_OK) {
        status = mapping_add(storage, name, bytes, size, true);
    }
    if (status != BASE_OK) {
        free(bytes);
        return status;
    }
    *out_bytes = bytes;
    *out_size = size;
    return BASE_OK;
}

static void blob_unmap(void *ctx, const struct wire_sha256 *name, const uint8_t *bytes, size_t size)
{
    struct posix_storage *storage = ctx;
    (void)size;
    for (struct mapping **link = &storage->mappings; *link != NULL; link = &(*link)->next) {
        struct mapping *mapping = *link;
        if (wire_sha256_equal(&mapping->name, name) && (bytes == NULL || bytes == mapping->bytes)) {
            *link = mapping->next;
            if (mapping->own) {
                free((void *)(uintptr_t)mapping->bytes);
            } else if (mapping->size > 0) {
                (void)munmap((void *)(uintptr_t)mapping->bytes, mapping->size);
            }
            free(mapping);
            return;
        }
    }
}

static enum base_status blob_delete(void *ctx, const struct wire_sha256 *name)
{
    struct posix_storage *storage = ctx;
    char hex[WIRE_SHA256_HEX + 1];
    hex_of(name, hex);
    if (is_writing(storage, name)) {
        writing_close(storage);
    }
    enum base_status sealed = take_away(storage, storage->blobs, hex);
    enum base_status partial = take_away(storage, storage->partial, hex);
    return sealed == BASE_OK || partial == BASE_OK ? BASE_OK
           : sealed == BASE_ERR_NOT_FOUND          ? partial
                                                   : sealed;
}

static enum base_status folder_each(int folder,
                                    void (*visit)(void *visit_ctx, const struct wire_sha256 *name),
                                    void *visit_ctx)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        enum base_status status = base_status_of_errno(errno);
        if (fd >= 0) {
            (void)close(fd);
        }
        return status;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct wire_sha256 name;
        if (wire_sha256_parse(base_str_of(entry->d_name), &name) == BASE_OK) {
            visit(visit_ctx, &name);
        }
    }
    (void)closedir(dir);
    return BASE_OK;
}

static enum base_status blob_each(void *ctx,
                                  void (*visit)(void *visit_ctx, const struct wire_sha256 *name),
                                  void *visit_ctx)
{
    struct posix_storage *storage = ctx;
    BASE_TRY(folder_each(storage->blobs, visit, visit_ctx));
    return folder_each(storage->partial, visit, visit_ctx);
}

// ---- Life

// The folder that the program was given: it may be a link.
static enum base_status own_open(const char *dir, int *out_fd)
{
    if (mkdir(dir, DIR_MODE) != 0 && errno != EEXIST) {
        return base_status_of_errno(errno);
    }
    *out_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *out_fd >= 0 ? BASE_OK : base_status_of_errno(errno);
}

// Of a process that was killed a child may hold the lock, until it has begun its program.
static bool lock_take(int lock)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
            return true;
        }
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

static enum base_status storage_open(struct posix_storage *storage, const char *dir,
                                     struct base_error *error)
{
    enum base_status status = own_open(dir, &storage->dir);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s: cannot open the folder: %s", dir,
                              base_status_text(status));
    }
    struct base_error why = {0};
    status = base_regular_openat(storage->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW,
                                 &storage->lock, &why);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s/%s", dir, why.text);
    }
    if (!lock_take(storage->lock)) {
        return base_error_set(error, BASE_ERR_BUSY, "%s: another process uses this folder", dir);
    }
    status = posix_folder_open(storage->dir, "blobs", dir, storage->log, &storage->blobs);
    if (status == BASE_OK) {
        status = posix_folder_open(storage->dir, "partial", dir, storage->log, &storage->partial);
    }
    if (status == BASE_OK && base_folder_look(storage->dir, "state", &why) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "%s/%s", dir, why.text);
    }
    if (status == BASE_OK) {
        status = posix_state_open(&storage->state, storage->dir, dir, storage->log);
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s: cannot open the store: %s", dir,
                              base_status_text(status));
    }
    return BASE_OK;
}

enum base_status posix_storage_new(const char *dir, const struct base_log *log,
                                   struct posix_storage **out_storage, struct base_error *error)
{
    struct posix_storage *storage = calloc(1, sizeof(*storage));
    if (storage == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    storage->log = log;
    storage->dir = storage->blobs = storage->partial = storage->lock = storage->writing = -1;
    storage->state.folder = -1;
    enum base_status status = storage_open(storage, dir, error);
    if (status != BASE_OK) {
        posix_storage_free(storage);
        return status;
    }
    *out_storage = storage;
    return BASE_OK;
}

static void fd_close(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

void posix_storage_free(struct posix_storage *storage)
{
    if (storage == NULL) {
        return;
    }
    while (storage->mappings != NULL) {
        struct mapping *mapping = storage->mappings;
        blob_unmap(storage, &mapping->name, mapping->bytes, mapping->size);
    }
    writing_close(storage);
    posix_state_close(&storage->state);
    fd_close(storage->blobs);
    fd_close(storage->partial);
    fd_close(storage->lock);
    fd_close(storage->dir);
    free(storage);
}

struct dev_storage_port posix_storage_table(struct posix_storage *storage)
{
    return (struct dev_storage_port){
        .ctx = storage,
        .state_load = state_load,
        .state_before = state_before,
        .state_save = state_save,
        .blob_stat = blob_stat,
        .blob_append = blob_append,
        .blob_seal = blob_seal,
        .space = space,
        .blob_reserve = blob_reserve,
        .blob_map = blob_map,
        .blob_load = blob_load,
        .blob_unmap = blob_unmap,
        .blob_delete = blob_delete,
        .blob_each = blob_each,
    };
}

// Gathers a body; see the header. Called by stream_body.c on the worker's thread: what is written
// goes to the page cache, and nothing is synced, since a body that was not answered may be lost.
// The file has no name (O_TMPFILE, or unlinked at once), so it ends with the process whatever
// happens. A body goes to a file once it is larger than GW_SPOOL_MEMORY_MAX
// and is not to stay.
#include "http/memory/body_spool.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/os/write_all.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void gw_body_spool_init(struct gw_body_spool *spool)
{
    base_buffer_init(&spool->memory, base_alloc_heap(), 0);
    spool->bytes = 0;
    spool->stays = false;
    spool->fd = -1;
    spool->map = NULL;
}

void gw_body_spool_done(struct gw_body_spool *spool)
{
    base_buffer_done(&spool->memory);
    if (spool->map != NULL) {
        (void)munmap(spool->map, (size_t)spool->bytes);
        spool->map = NULL;
    }
    if (spool->fd >= 0) {
        (void)close(spool->fd);
        spool->fd = -1;
    }
    spool->bytes = 0;
}

bool gw_body_spool_spills(const struct gw_body_spool *spool, uint64_t more)
{
    return spool->fd >= 0 || (!spool->stays && (more > GW_SPOOL_MEMORY_MAX ||
                                                spool->bytes > GW_SPOOL_MEMORY_MAX - more));
}

static enum base_status status_of(int error)
{
    if (error == ENOSPC || error == EDQUOT) {
        return BASE_ERR_FULL;
    }
    return error == EMFILE || error == ENFILE ? BASE_ERR_LIMIT : BASE_ERR_IO;
}

// A file that no name leads to: it ends with the process, whatever happens.
static int open_file(const char *dir)
{
    char path[PATH_MAX];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
        return fd;
    }
    int size = snprintf(path, sizeof(path), "%s/body.XXXXXX", dir); // an older file system
    if (size < 0 || (size_t)size >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) {
        (void)unlink(path);
    }
    return fd;
}

static enum base_status write_spooled(int fd, const uint8_t *bytes, size_t size)
{
    return base_write_all(fd, bytes, size) == BASE_OK ? BASE_OK : status_of(errno);
}

static enum base_status spill(struct gw_body_spool *spool, const char *dir)
{
    spool->fd = open_file(dir);
    if (spool->fd < 0) {
        return status_of(errno);
    }
    BASE_TRY(write_spooled(spool->fd, spool->memory.data, spool->memory.size));
    base_buffer_done(&spool->memory);
    base_buffer_init(&spool->memory, base_alloc_heap(), 0);
    return BASE_OK;
}

enum base_status gw_body_spool_add(struct gw_body_spool *spool, const char *dir, const void *bytes,
                                   size_t size)
{
    base_check(spool->map == NULL);
    if (dir != NULL && spool->fd < 0 && gw_body_spool_spills(spool, size)) {
        BASE_TRY(spill(spool, dir));
    }
    enum base_status status = spool->fd >= 0 ? write_spooled(spool->fd, bytes, size)
                                             : base_buffer_add(&spool->memory, bytes, size);
    if (status == BASE_OK) {
        spool->bytes += size;
    }
    return status;
}

enum base_status gw_body_spool_bytes(struct gw_body_spool *spool, const uint8_t **out_bytes)
{
    if (spool->fd < 0) {
        *out_bytes = spool->memory.data;
        return BASE_OK;
    }
    if (spool->map == NULL) {
        void *map = mmap(NULL, (size_t)spool->bytes, PROT_READ, MAP_SHARED, spool->fd, 0);
        if (map == MAP_FAILED) {
            return BASE_ERR_NOMEM;
        }
        spool->map = map;
    }
    *out_bytes = spool->map;
    return BASE_OK;
}

// All of a write: the loop around write(2) that every program needs.
//
// Called by stores, spools, the task runner and the guard of terminals; any thread. Nothing is kept
// between calls.
#include "base/os/write_all.h"

#include "base/os/errno_status.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#define PAGE_BYTES 4096

enum base_status base_write_all(int fd, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t wrote = write(fd, at, size);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote < 0) {
            return base_status_of_errno(errno);
        }
        if (wrote == 0) {
            errno = ENOSPC;
            return BASE_ERR_FULL;
        }
        at += wrote;
        size -= (size_t)wrote;
    }
    return BASE_OK;
}

enum base_status base_write_end_look(int fd)
{
    static const uint8_t page[PAGE_BYTES]; // less might fit what is left of the last block
    if (lseek(fd, 0, SEEK_END) < 0) {
        return base_status_of_errno(errno);
    }
    return base_write_all(fd, page, sizeof page);
}

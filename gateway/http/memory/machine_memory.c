// Small files of /proc and /sys, read with one call each. Called by overload.c: at start and
// reload, and five times a second by the measuring worker. Any thread; there is no state. A
// container's limit counts when it is below the machine's. What cannot be read is 0, which means no
// limit, so a system without these files still starts.
#include "http/memory/machine_memory.h"

#include "base/str.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES_MAX 256

// The numbered word of a small file, words counted from 0. False when there is no such number.
static bool read_number(const char *path, uint32_t word, uint64_t *out)
{
    char text[FILE_BYTES_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t size = read(fd, text, sizeof(text));
    close(fd);
    const char *at = text;
    const char *end = text + (size > 0 ? size : 0);
    for (;;) {
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\n')) {
            at++;
        }
        const char *start = at;
        while (at < end && *at != ' ' && *at != '\t' && *at != '\n') {
            at++;
        }
        if (start == at) {
            return false;
        }
        if (word-- == 0) {
            return base_str_u64((struct base_str){start, (size_t)(at - start)}, out) == BASE_OK;
        }
    }
}

void gw_machine_memory_read(struct gw_machine_memory *out)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t number;
    out->total_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * page;
    if (read_number("/sys/fs/cgroup/memory.max", 0, &number) && number < out->total_bytes) {
        out->total_bytes = number;
    }
    out->tcp_easy_bytes = read_number("/proc/sys/net/ipv4/tcp_mem", 0, &number) ? number * page : 0;
}

uint64_t gw_machine_memory_own(void)
{
    uint64_t resident;
    uint64_t shared;
    if (!read_number("/proc/self/statm", 1, &resident) ||
        !read_number("/proc/self/statm", 2, &shared) || shared > resident) {
        return 0;
    }
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

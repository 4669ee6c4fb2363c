// Opening the segment log: which segments there are, and the cut behind the last whole record. Runs
// on the program's main thread before the writer starts. segment_log.c calls it. Only the newest
// segment can have a torn end, since a segment is complete before the next is made; zeros that were
// laid ahead of the records are cut without a word, anything else is told in the log. A segment in
// the middle whose head is no head is an error: nothing is thrown away.
#include "tunnel/segment/segment_private.h"

#include "base/check.h"
#include "base/os/errno_status.h"
#include "base/os/regular_file.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_PREFIX "segment-"
#define HEX_DIGITS  16u

enum base_status gw_segment_errno(int code)
{
    // A file the log had is no answer to a question.
    return code == ENOENT ? BASE_ERR_IO : base_status_of_errno(code);
}

void gw_segment_name(uint64_t base, char out[GW_SEGMENT_NAME_MAX])
{
    (void)snprintf(out, GW_SEGMENT_NAME_MAX, NAME_PREFIX "%016llx", (unsigned long long)base);
}

// The base a file's name says; false: not a segment's.
static bool name_base(const char *name, uint64_t *out)
{
    size_t prefix = sizeof(NAME_PREFIX) - 1;
    uint8_t bytes[HEX_DIGITS / 2];
    if (strncmp(name, NAME_PREFIX, prefix) != 0 || strlen(name) != prefix + HEX_DIGITS ||
        base_hex_decode((struct base_str){name + prefix, HEX_DIGITS}, bytes, sizeof(bytes)) !=
            BASE_OK) {
        return false;
    }
    uint64_t base = 0;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        base = base << 8 | bytes[i];
    }
    char own[GW_SEGMENT_NAME_MAX];
    gw_segment_name(base, own);
    *out = base;
    return strcmp(name, own) == 0; // with capital letters it is another file
}

static enum base_status add_segment(struct gw_segment_log *log, const struct gw_segment *segment)
{
    if (log->count == GW_SEGMENTS_MAX) {
        return BASE_ERR_LIMIT;
    }
    if (log->count == log->capacity) {
        uint32_t capacity = log->capacity == 0 ? 16 : log->capacity * 2;
        struct gw_segment *segments = realloc(log->segments, capacity * sizeof(*segments));
        if (segments == NULL) {
            return BASE_ERR_NOMEM;
        }
        log->segments = segments;
        log->capacity = capacity;
    }
    log->segments[log->count++] = *segment;
    return BASE_OK;
}

static enum base_status write_head(struct gw_segment_log *log, int fd,
                                   const struct gw_segment *segment)
{
    uint8_t bytes[GW_SEGMENT_HEAD];
    const struct gw_segment_head head = {.base = segment->base, .made_ms = segment->made_ms};
    gw_segment_head_encode(&head, bytes);
    ssize_t wrote = pwrite(fd, bytes, sizeof(bytes), 0);
    if (wrote != (ssize_t)sizeof(bytes)) {
        return wrote < 0 ? gw_segment_errno(errno) : BASE_ERR_FULL;
    }
    if (fdatasync(fd) != 0 || fsync(log->dir_fd) != 0) {
        return gw_segment_errno(errno);
    }
    return BASE_OK;
}

enum base_status gw_segment_make(struct gw_segment_log *log, uint64_t base, int *out_fd)
{
    char name[GW_SEGMENT_NAME_MAX];
    gw_segment_name(base, name);
    struct gw_segment segment = {.base = base,
                                 .size = GW_SEGMENT_HEAD,
                                 .made_ms = log->clock.wall_us(log->clock.ctx) / 1000};
    int fd = openat(log->dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return gw_segment_errno(errno);
    }
    enum base_status status = write_head(log, fd, &segment);
    if (status == BASE_OK) {
        pthread_mutex_lock(&log->lock);
        base_assert(log->count == 0 || base > log->segments[log->count - 1].base);
        status = add_segment(log, &segment);
        pthread_mutex_unlock(&log->lock);
    }
    if (status != BASE_OK) {
        close(fd);
        (void)unlinkat(log->dir_fd, name, 0);
        return status;
    }
    *out_fd = fd;
    return BASE_OK;
}

static int compare_segments(const void *left, const void *right)
{
    uint64_t x = ((const struct gw_segment *)left)->base;
    uint64_t y = ((const struct gw_segment *)right)->base;
    return x < y ? -1 : x > y;
}

static enum base_status list_segments(struct gw_segment_log *log)
{
    base_assert(log->count == 0);
    int fd = openat(log->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return BASE_ERR_IO;
    }
    enum base_status status = BASE_OK;
    for (struct dirent *entry = readdir(dir); entry != NULL && status == BASE_OK;
         entry = readdir(dir)) {
        struct gw_segment segment = {0};
        if (name_base(entry->d_name, &segment.base)) {
            status = add_segment(log, &segment);
        }
    }
    closedir(dir);
    if (status == BASE_OK && log->count > 0) {
        qsort(log->segments, log->count, sizeof(log->segments[0]), compare_segments);
    }
    return status;
}

// Reads head and size. NOT_FOUND: it never got a whole head.
static enum base_status look_at(struct gw_segment_log *log, struct gw_segment *segment, int *out_fd,
                                struct base_error *error)
{
    char name[GW_SEGMENT_NAME_MAX];
    gw_segment_name(segment->base, name);
    struct stat stat;
    int fd = -1;
    BASE_TRY(base_regular_openat(log->dir_fd, name, O_RDWR | O_NOFOLLOW, &fd, error));
    if (fstat(fd, &stat) != 0) {
        int code = errno;
        close(fd);
        return base_error_set(error, BASE_ERR_IO, "%s: %s", name, strerror(code));
    }
    uint8_t bytes[GW_SEGMENT_HEAD];
    struct gw_segment_head head;
    ssize_t got = pread(fd, bytes, sizeof(bytes), 0);
    enum base_status status = gw_segment_head_parse(bytes, got > 0 ? (size_t)got : 0, &head);
    if (status == BASE_OK && head.base != segment->base) {
        status = BASE_ERR_CORRUPT;
    }
    if (status != BASE_OK) {
        close(fd);
        bool torn = stat.st_size <= (off_t)GW_SEGMENT_HEAD && status != BASE_ERR_UNSUPPORTED;
        return torn ? BASE_ERR_NOT_FOUND
                    : base_error_set(error, status, "%s: %s", name, base_status_text(status));
    }
    segment->made_ms = head.made_ms;
    segment->size = (uint64_t)stat.st_size;
    base_assert(segment->size >= GW_SEGMENT_HEAD);
    *out_fd = fd;
    return BASE_OK;
}

// Whether only zeros lie from `from` on: laid ahead, with nothing on them.
static bool only_zeros(int fd, uint64_t from, uint64_t size)
{
    uint8_t bytes[4096];
    while (from < size) {
        uint64_t want = size - from < sizeof(bytes) ? size - from : sizeof(bytes);
        ssize_t got = pread(fd, bytes, (size_t)want, (off_t)from);
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] != 0) {
                return false;
            }
        }
        if (got <= 0) {
            return false;
        }
        from += (uint64_t)got;
    }
    return true;
}

// Cuts the newest segment behind its last whole record.
static enum base_status repair(struct gw_segment_log *log, struct gw_segment *segment, int fd)
{
    struct gw_segment_cursor cursor;
    struct gw_sink_batch batch;
    gw_segment_cursor_init(&cursor);
    gw_segment_cursor_set(&cursor, fd, GW_SEGMENT_HEAD, segment->size);
    enum base_status status = BASE_OK;
    while (status == BASE_OK) {
        status = gw_segment_cursor_next(&cursor, &batch);
    }
    uint64_t end = cursor.at;
    gw_segment_cursor_done(&cursor);
    if (status != BASE_ERR_NOT_FOUND && status != BASE_ERR_CORRUPT) {
        return status;
    }
    base_assert(end >= GW_SEGMENT_HEAD && end <= segment->size);
    if (end < segment->size) {
        if (!only_zeros(fd, end, segment->size)) {
            log->stats.cut_bytes = segment->size - end;
            base_log_warn(log->log, "tunnel",
                          "segment %016llx: %llu bytes behind the last whole record are cut",
                          (unsigned long long)segment->base,
                          (unsigned long long)(segment->size - end));
        }
        if (ftruncate(fd, (off_t)end) != 0 || fsync(fd) != 0) {
            return gw_segment_errno(errno);
        }
        segment->size = end;
    }
    return BASE_OK;
}

enum base_status gw_segment_recover(struct gw_segment_log *log, struct base_error *error)
{
    BASE_TRY(list_segments(log));
    for (uint32_t i = 0; i < log->count; i++) {
        struct gw_segment *segment = &log->segments[i];
        bool newest = i + 1 == log->count;
        int fd = -1;
        enum base_status status = look_at(log, segment, &fd, error);
        if (status == BASE_ERR_NOT_FOUND && newest) {
            log->count--; // made again below
            break;
        }
        if (status != BASE_OK) {
            return status == BASE_ERR_NOT_FOUND
                       ? base_error_set(error, BASE_ERR_CORRUPT, "segment %016llx has no head",
                                        (unsigned long long)segment->base)
                       : status;
        }
        if (!newest) {
            uint64_t end = log->segments[i + 1].base - segment->base;
            segment->size = segment->size < end ? segment->size : end; // without what lies ahead
            close(fd);
            continue;
        }
        log->fd = fd;
        BASE_TRY(repair(log, segment, fd));
        log->laid = segment->size;
    }
    if (log->fd < 0) {
        uint64_t base = 0;
        if (log->count > 0) {
            const struct gw_segment *last = &log->segments[log->count - 1];
            base = last->base + last->size;
        }
        log->laid = GW_SEGMENT_HEAD;
        return gw_segment_make(log, base, &log->fd);
    }
    base_assert(log->count > 0 && log->laid >= GW_SEGMENT_HEAD);
    return BASE_OK;
}

// Opening the segment log: which segments there are, and the cut behind the last whole record. Runs
// on the program's main thread before the writer starts. segment_log.c calls it. Only the newest
// segment can have a torn end, since a segment is complete before the next is made; zeros that were
// laid ahead of the records are cut without a word, anything else is told in the log.
//
// A crash leaves one thing more: the next segment without a whole head, exactly where the records
// of the one before it end. That one is made again. Any other file that has a segment's name and
// does not go on where the one before it ends was put there, and the log does not open: left out,
// it would stand in the way of a later segment; taken in, it would hide what is durable. The text
// says which file is to go. Nothing is thrown away.
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

// Where the whole records of a file end. IO, NOMEM.
static enum base_status records_end(int fd, uint64_t size, uint64_t *out)
{
    struct gw_segment_cursor cursor;
    struct gw_sink_batch batch;
    gw_segment_cursor_init(&cursor);
    gw_segment_cursor_set(&cursor, fd, GW_SEGMENT_HEAD, size);
    enum base_status status = BASE_OK;
    while (status == BASE_OK) {
        status = gw_segment_cursor_next(&cursor, &batch);
    }
    uint64_t end = cursor.at;
    gw_segment_cursor_done(&cursor);
    if (status != BASE_ERR_NOT_FOUND && status != BASE_ERR_CORRUPT) {
        return status;
    }
    base_assert(end >= GW_SEGMENT_HEAD && end <= size);
    *out = end;
    return BASE_OK;
}

// Cuts the newest segment behind its last whole record.
static enum base_status repair(struct gw_segment_log *log, struct gw_segment *segment, int fd)
{
    uint64_t end = 0;
    BASE_TRY(records_end(fd, segment->size, &end));
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

static enum base_status in_the_way(uint64_t base, struct base_error *error)
{
    char name[GW_SEGMENT_NAME_MAX];
    gw_segment_name(base, name);
    return base_error_set(error, BASE_ERR_CORRUPT,
                          "%s is no part of the log and stands in its way: move it out of the "
                          "folder",
                          name);
}

// A crash leaves one file without a head. Which of two it was is not guessed: the log makes it
// again.
static enum base_status both_headless(uint64_t first, uint64_t second, struct base_error *error)
{
    char names[2][GW_SEGMENT_NAME_MAX];
    gw_segment_name(first, names[0]);
    gw_segment_name(second, names[1]);
    return base_error_set(error, BASE_ERR_CORRUPT,
                          "%s and %s have no head, and a crash leaves one such: move both out of "
                          "the folder",
                          names[0], names[1]);
}

// The newest file has no whole head. It is of the log when a crash can have left it: the first one
// of all, or right behind the records of the one before it.
static enum base_status check_headless(struct gw_segment_log *log, struct base_error *error)
{
    const uint64_t base = log->segments[log->count - 1].base;
    uint64_t expected = 0;
    if (log->count > 1) {
        struct gw_segment last = log->segments[log->count - 2];
        int fd = -1;
        enum base_status status = look_at(log, &last, &fd, error);
        if (status == BASE_ERR_NOT_FOUND) {
            return both_headless(last.base, base, error);
        }
        BASE_TRY(status);
        uint64_t end = 0;
        status = records_end(fd, last.size, &end);
        close(fd);
        BASE_TRY(status);
        expected = last.base + end;
    }
    return base == expected ? BASE_OK : in_the_way(base, error);
}

// A segment in the middle ends where the next begins. In the file no more than zeros lie behind.
// When it is shorter, the reader tells what is missing as damage, and goes on with the next one.
static enum base_status end_at_next(struct gw_segment_log *log, struct gw_segment *segment, int fd,
                                    struct base_error *error)
{
    const uint64_t next = segment[1].base;
    base_assert(next > segment->base);
    const uint64_t end = next - segment->base;
    if (end < GW_SEGMENT_HEAD || !only_zeros(fd, end, segment->size)) {
        return in_the_way(next, error);
    }
    if (segment->size < end) {
        base_log_warn(log->log, "tunnel", "segment %016llx: %llu bytes at its end are missing",
                      (unsigned long long)segment->base, (unsigned long long)(end - segment->size));
    }
    segment->size = end;
    return BASE_OK;
}

// Looks at the newest segment, which becomes the writer's. When a crash came before it had a head,
// it is dropped, to be made again, and log->fd stays -1.
static enum base_status take_newest(struct gw_segment_log *log, struct base_error *error)
{
    struct gw_segment *newest = &log->segments[log->count - 1];
    enum base_status status = look_at(log, newest, &log->fd, error);
    if (status != BASE_ERR_NOT_FOUND) {
        return status;
    }
    BASE_TRY(check_headless(log, error));
    log->count--;
    return BASE_OK;
}

enum base_status gw_segment_recover(struct gw_segment_log *log, struct base_error *error)
{
    BASE_TRY(list_segments(log));
    const uint32_t files = log->count;
    if (files > 0) {
        BASE_TRY(take_newest(log, error));
    }
    for (uint32_t i = 0; i + 1 < files; i++) {
        struct gw_segment *segment = &log->segments[i];
        int fd = -1;
        enum base_status status = look_at(log, segment, &fd, error);
        if (status != BASE_OK) {
            return status == BASE_ERR_NOT_FOUND ? in_the_way(segment->base, error) : status;
        }
        status = end_at_next(log, segment, fd, error);
        close(fd);
        BASE_TRY(status);
    }
    struct gw_segment *last = log->count > 0 ? &log->segments[log->count - 1] : NULL;
    if (log->fd < 0) {
        log->laid = GW_SEGMENT_HEAD;
        return gw_segment_make(log, last != NULL ? last->base + last->size : 0, &log->fd);
    }
    base_assert(last != NULL && log->count == files);
    BASE_TRY(repair(log, last, log->fd));
    log->laid = last->size;
    return BASE_OK;
}

// The cursor of segment_cursor.h: a window over a file that moves with the records. Any thread, one
// at a time. Those are segment_reader.c and, at open, segment_recover.c. What it returns points
// into the window and is good until the next call. At its limit it says NOT_FOUND, in front of
// bytes that are no whole record CORRUPT, and stays there.
#include "tunnel/segment/segment_cursor.h"

#include "base/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gw_segment_cursor_init(struct gw_segment_cursor *cursor)
{
    *cursor = (struct gw_segment_cursor){.fd = -1};
}

void gw_segment_cursor_done(struct gw_segment_cursor *cursor)
{
    free(cursor->buffer);
    cursor->buffer = NULL;
}

void gw_segment_cursor_set(struct gw_segment_cursor *cursor, int fd, uint64_t at, uint64_t limit)
{
    bool same = cursor->fd == fd && at >= cursor->start && at <= cursor->start + cursor->filled;
    cursor->fd = fd;
    cursor->at = at;
    cursor->limit = limit;
    if (!same) {
        cursor->start = at;
        cursor->filled = 0;
    }
}

static enum base_status read_at(struct gw_segment_cursor *cursor, size_t want)
{
    while (cursor->filled < want) {
        uint64_t from = cursor->start + cursor->filled;
        uint64_t room = cursor->capacity - cursor->filled;
        uint64_t left = cursor->limit - from;
        ssize_t got = pread(cursor->fd, cursor->buffer + cursor->filled,
                            (size_t)(room < left ? room : left), (off_t)from);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? BASE_ERR_IO : BASE_ERR_CORRUPT;
        }
        cursor->filled += (size_t)got;
    }
    return BASE_OK;
}

// Makes `size` bytes from `at` on lie in the buffer.
static enum base_status need(struct gw_segment_cursor *cursor, size_t size)
{
    base_assert(cursor->start <= cursor->at && cursor->at <= cursor->limit);
    base_assert(cursor->filled <= cursor->capacity);
    if (size > cursor->limit - cursor->at) {
        return BASE_ERR_CORRUPT;
    }
    size_t offset = (size_t)(cursor->at - cursor->start);
    if (offset + size <= cursor->filled) {
        return BASE_OK;
    }
    size_t keep = offset < cursor->filled ? cursor->filled - offset : 0;
    if (keep > 0) {
        memmove(cursor->buffer, cursor->buffer + offset, keep);
    }
    cursor->start = cursor->at;
    cursor->filled = keep;
    size_t capacity = size > GW_CURSOR_CHUNK ? size : GW_CURSOR_CHUNK;
    if (capacity > cursor->capacity) {
        uint8_t *buffer = realloc(cursor->buffer, capacity);
        if (buffer == NULL) {
            return BASE_ERR_NOMEM;
        }
        cursor->buffer = buffer;
        cursor->capacity = capacity;
    }
    return read_at(cursor, size);
}

enum base_status gw_segment_cursor_next(struct gw_segment_cursor *cursor, struct gw_sink_batch *out)
{
    if (cursor->at >= cursor->limit) {
        return BASE_ERR_NOT_FOUND;
    }
    BASE_TRY(need(cursor, GW_SEGMENT_RECORD_HEAD));
    uint32_t size;
    BASE_TRY(gw_segment_record_size(cursor->buffer + (cursor->at - cursor->start),
                                    GW_SEGMENT_RECORD_HEAD, &size));
    BASE_TRY(need(cursor, size));
    BASE_TRY(gw_segment_record_parse(cursor->buffer + (cursor->at - cursor->start), size, out));
    cursor->at += size;
    return BASE_OK;
}

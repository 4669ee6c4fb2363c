// Readers of the segment log: a cursor that goes from segment to segment up to the durable end. Any
// thread; each reader on one at a time. checkpoint.c reads the log back with one, record_text.c
// reads pages. A reader holds a file of its own, so a segment that is let go meanwhile is read to
// its end. The durable end is asked again at each step; what lies behind it is not shown.
#include "tunnel/segment/segment_private.h"

#include "base/check.h"
#include "base/os/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct gw_segment_reader {
    struct gw_segment_log *log;
    struct gw_segment_cursor cursor;
    uint64_t base; // of the segment that is open
    int fd;
};

enum base_status gw_segment_reader_open(struct gw_segment_log *log, struct gw_segment_reader **out)
{
    struct gw_segment_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        return BASE_ERR_NOMEM;
    }
    reader->log = log;
    reader->fd = -1;
    gw_segment_cursor_init(&reader->cursor);
    struct gw_segment_stats stats;
    gw_segment_log_stats(log, &stats);
    enum base_status status = gw_segment_reader_seek(reader, stats.first);
    if (status != BASE_OK) {
        gw_segment_reader_close(reader);
        return status;
    }
    *out = reader;
    return BASE_OK;
}

void gw_segment_reader_close(struct gw_segment_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    if (reader->fd >= 0) {
        close(reader->fd);
    }
    gw_segment_cursor_done(&reader->cursor);
    free(reader);
}

// The segment that holds `position`, or begins there. False: none.
static bool find_segment(struct gw_segment_log *log, uint64_t position, struct gw_segment *out)
{
    bool found = false;
    pthread_mutex_lock(&log->lock);
    uint32_t low = 0;
    uint32_t high = log->count;
    while (low < high) { // the first that begins behind it
        uint32_t middle = low + (high - low) / 2;
        if (log->segments[middle].base <= position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low > 0) {
        *out = log->segments[low - 1];
        found = position < out->base + out->size ||
                (low == log->count && position == out->base + out->size);
    }
    pthread_mutex_unlock(&log->lock);
    return found;
}

static enum base_status use_segment(struct gw_segment_reader *reader,
                                    const struct gw_segment *segment, uint64_t offset)
{
    if (reader->fd < 0 || reader->base != segment->base) {
        char name[GW_SEGMENT_NAME_MAX];
        gw_segment_name(segment->base, name);
        int fd = -1;
        enum base_status status =
            base_regular_openat(reader->log->dir_fd, name, O_RDONLY | O_NOFOLLOW, &fd, NULL);
        if (status != BASE_OK) {
            return status == BASE_ERR_NOT_FOUND ? status : BASE_ERR_IO;
        }
        if (reader->fd >= 0) {
            close(reader->fd);
        }
        reader->fd = fd;
        reader->base = segment->base;
        reader->cursor.fd = -1; // what it holds is another file's
    }
    gw_segment_cursor_set(&reader->cursor, reader->fd, offset, segment->size);
    return BASE_OK;
}

enum base_status gw_segment_reader_seek(struct gw_segment_reader *reader, uint64_t position)
{
    struct gw_segment segment;
    if (!find_segment(reader->log, position, &segment)) {
        return BASE_ERR_NOT_FOUND;
    }
    uint64_t offset = position - segment.base;
    if (offset == 0) {
        offset = GW_SEGMENT_HEAD;
    }
    return offset < GW_SEGMENT_HEAD ? BASE_ERR_NOT_FOUND : use_segment(reader, &segment, offset);
}

enum base_status gw_segment_reader_seek_time(struct gw_segment_reader *reader, uint64_t ms)
{
    struct gw_segment_log *log = reader->log;
    pthread_mutex_lock(&log->lock);
    uint32_t low = 0;
    uint32_t high = log->count;
    while (low < high) { // the first that was made behind it
        uint32_t middle = low + (high - low) / 2;
        if (log->segments[middle].made_ms <= ms) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    uint64_t base = log->segments[low > 0 ? low - 1 : 0].base;
    pthread_mutex_unlock(&log->lock);
    return gw_segment_reader_seek(reader, base);
}

enum base_status gw_segment_reader_next(struct gw_segment_reader *reader, struct gw_sink_batch *out,
                                        uint64_t *out_position, uint64_t *out_next)
{
    for (;;) {
        base_assert(reader->cursor.at <= reader->cursor.limit);
        uint64_t position = reader->base + reader->cursor.at;
        enum base_status status = gw_segment_cursor_next(&reader->cursor, out);
        *out_position = position;
        *out_next = reader->base + reader->cursor.at;
        if (status == BASE_ERR_CORRUPT) {
            *out_next = reader->base + reader->cursor.limit;
        }
        if (status != BASE_ERR_NOT_FOUND) {
            return status;
        }
        // At what was the end when the segment was looked at: more of it, or the one behind it.
        struct gw_segment segment;
        if (!find_segment(reader->log, position, &segment)) {
            return BASE_ERR_NOT_FOUND;
        }
        if (segment.base == reader->base && segment.size == reader->cursor.limit) {
            return BASE_ERR_NOT_FOUND;
        }
        uint64_t offset = segment.base == reader->base ? reader->cursor.at : GW_SEGMENT_HEAD;
        BASE_TRY(use_segment(reader, &segment, offset));
    }
}

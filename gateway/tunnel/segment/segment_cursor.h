// Walks the records of one segment file, with one read per GW_CURSOR_CHUNK. Used by readers and by
// the repair at open. One thread.
#ifndef GW_SEGMENT_CURSOR_H
#define GW_SEGMENT_CURSOR_H

#include "tunnel/segment/segment_record.h"

#define GW_CURSOR_CHUNK (256u * 1024)

struct gw_segment_cursor {
    int fd;          // the caller's
    uint64_t at;     // offset in the file of the next record
    uint64_t limit;  // offset behind the last byte that may be read
    uint8_t *buffer; // [start, start + filled) of the file
    size_t capacity;
    uint64_t start;
    size_t filled;
};

void gw_segment_cursor_init(struct gw_segment_cursor *cursor);
void gw_segment_cursor_done(struct gw_segment_cursor *cursor);
// To offset `at` of another file or the same.
void gw_segment_cursor_set(struct gw_segment_cursor *cursor, int fd, uint64_t at, uint64_t limit);
// NOT_FOUND: at the limit. CORRUPT: what follows is no whole record. IO, NOMEM. The payload is
// borrowed until the next call.
BASE_NODISCARD enum base_status gw_segment_cursor_next(struct gw_segment_cursor *cursor,
                                                       struct gw_sink_batch *out);

#endif

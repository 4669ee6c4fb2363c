// Recent events of the two sides of a join, kept whole and oldest first in a bounded block. An
// event waits here for partners of the other side with the same key, not longer than the time
// bound; when there is no room the oldest goes, counted by who owns the buffer. How late the latest
// was that had waited long enough is remembered: who comes before that may miss a partner.
#ifndef DEV_JOIN_BUFFER_H
#define DEV_JOIN_BUFFER_H

#include "pipeline/record/event.h"
#include "pipeline/stream/value.h"

#define DEV_JOIN_BYTES_MIN     4096
#define DEV_JOIN_BYTES_DEFAULT 16384
#define DEV_JOIN_BYTES_MAX     (256 * 1024)

#define DEV_JOIN_LEFT  1u // the stream's own event
#define DEV_JOIN_RIGHT 2u // of the other stream; an event may be on both sides

struct dev_join_buffer {
    uint8_t *bytes; // aligned to 8
    uint32_t capacity;
    uint32_t head; // of the oldest
    uint32_t tail;
    uint64_t gone_ms; // one past the latest time of those that dev_join_expire dropped; 0: none
};

void dev_join_init(struct dev_join_buffer *buffer, void *memory, uint32_t capacity);

// Keeps a copy with its keys (of the sides it is on). Returns how many of the oldest had to go; the
// event itself is not kept, and UINT32_MAX returned, when it would take more than a quarter.
uint32_t dev_join_put(struct dev_join_buffer *buffer, const struct dev_event *event, uint32_t sides,
                      struct dev_value left_key, struct dev_value right_key);
// Drops from the oldest on while they are from before `wall_ms`.
void dev_join_expire(struct dev_join_buffer *buffer, uint64_t wall_ms);
// Empties it; how many there were.
uint32_t dev_join_clear(struct dev_join_buffer *buffer);

// Walks the events oldest first; *at begins at 0. Views and keys are borrowed until the next
// change.
struct dev_join_entry {
    struct dev_event event;
    uint32_t sides;
    struct dev_value left_key;
    struct dev_value right_key;
};
bool dev_join_next(const struct dev_join_buffer *buffer, uint32_t *at, struct dev_join_entry *out);

#endif

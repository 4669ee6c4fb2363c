// Names of an event's attributes, told apart by marks first. A mark is a few bits of a name, cheap
// because every attribute of every event is asked for its own; names that are not equal may share
// one, so who finds a mark looks at the names themselves. Any thread, no state.
#ifndef DEV_PIPELINE_EVENT_NAMES_H
#define DEV_PIPELINE_EVENT_NAMES_H

#include "base/cursor.h"
#include "pipeline/record/record.h"

#include <string.h>

#define DEV_EVENT_MARK_BITS 9
#define DEV_EVENT_MARKS     (1u << DEV_EVENT_MARK_BITS)

struct dev_event_names { // marks that came, of one event; zeroed: none
    uint64_t marks[DEV_EVENT_MARKS / 64];
};

// From both ends of the name and its size. Below DEV_EVENT_MARKS.
static inline uint32_t dev_event_mark(struct base_str name)
{
    uint64_t first = 0;
    uint64_t last = 0;
    if (name.size >= 8) {
        memcpy(&first, name.data, 8);
        memcpy(&last, name.data + name.size - 8, 8);
    } else if (name.size >= 4) {
        memcpy(&first, name.data, 4);
        memcpy(&last, name.data + name.size - 4, 4);
    } else if (name.size > 0) {
        first = (uint8_t)name.data[0];
        last = (uint64_t)(uint8_t)name.data[name.size / 2] << 8 | (uint8_t)name.data[name.size - 1];
    }
    uint64_t mixed = (first ^ (last << 29 | last >> 35)) + name.size * 0xd1b54a32d192ed03u;
    return (uint32_t)(mixed * 0x9e3779b97f4a7c15u >> (64 - DEV_EVENT_MARK_BITS));
}

// Writes attribute `at` of the event's, whose mark is `mark`; those before that were written are in
// `names`. INVALID (also a name that came before), TOO_LARGE.
BASE_NODISCARD enum base_status dev_event_attr_write(struct base_writer *writer,
                                                     const struct dev_event_attr *attrs,
                                                     uint32_t at, uint32_t mark,
                                                     struct dev_event_names *names);

#endif

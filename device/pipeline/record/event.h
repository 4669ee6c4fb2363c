// A behaviour event: what the user did, where, when. Everything in device/pipeline speaks of events
// through this view; where its bytes lie (the recorder's ring, a stored block, a test) is the
// business of whoever made the view.
//
// Order. `seq` is per device and has no gaps: it is the order, times are data. A recorder gives an
// event its seq when it is recorded, also when the event is then not kept because nobody needs it.
//
// Page visits. A visit begins with ENTER of a page and ends with its EXIT, with the next ENTER of
// the same page and instance, or with the end of the process. Visits nest (a dialogue above a
// page); two tabs that show one page are told apart by `instance`. `visit` is the number of the
// innermost open visit of the event's page and instance, 0 when there is none; numbers ascend and
// are never used again within one install. The time-level sequence is all events by seq; the
// page-level sequence of a visit is its events by seq, ENTER and EXIT included.
#ifndef DEV_PIPELINE_EVENT_H
#define DEV_PIPELINE_EVENT_H

#include "pipeline/record/record.h"

#include <stddef.h>
#include <stdint.h>

struct wire_event; // wire/event_block.h

// Borrowed: texts and attributes live as long as the view's maker says.
struct dev_event {
    uint64_t seq;
    uint64_t wall_ms; // when it happened, by the device's clock, which may step
    uint64_t mono_us; // monotonic within one boot
    uint32_t boot;    // changes with each boot of the device or reset of the monotonic clock
    uint32_t visit;
    uint32_t instance;
    enum dev_event_kind kind;
    struct base_str name; // of a CUSTOM event; empty otherwise
    struct base_str page;
    struct base_str item; // empty: none
    uint64_t name_hash;   // dev_event_hash of the texts; 0 for an empty text
    uint64_t page_hash;
    uint64_t item_hash;
    const uint8_t *attrs; // encoded; read with dev_event_attr_next
    uint32_t attrs_bytes;
    uint32_t attr_count;
};

// The event as blocks on disk and wire have it: no hashes, the boot is the block's. Borrows the
// same.
void dev_event_wire(const struct dev_event *event, struct wire_event *out);
// Keyed hash of a page, item or name; `secret` is drawn once per install, so that nobody can choose
// ids that collide. Never 0 for a text that is not empty.
uint64_t dev_event_hash(uint64_t secret, struct base_str text);
const char *dev_event_kind_name(enum dev_event_kind kind); // "enter"; "?" when out of range
// OK and the kind, or NOT_FOUND.
BASE_NODISCARD enum base_status dev_event_kind_parse(struct base_str text,
                                                     enum dev_event_kind *out);

// Encodes attributes; names and texts are checked. INVALID, TOO_LARGE.
BASE_NODISCARD enum base_status dev_event_attrs_encode(const struct dev_event_attr *attrs,
                                                       uint32_t count, uint8_t *out,
                                                       size_t capacity, size_t *out_size);
// Walks encoded attributes that dev_event_attrs_encode made or wire_event_attrs_check accepted:
// *at begins at 0. False: no more. What *out points to lies in `event->attrs`.
bool dev_event_attr_next(const struct dev_event *event, uint32_t *at, struct dev_event_attr *out);
// NOT_FOUND.
BASE_NODISCARD enum base_status dev_event_attr(const struct dev_event *event, struct base_str name,
                                               struct dev_event_attr *out);

#endif

// A part of the runtime (control, pull, trust, run ...) and what parts tell each other.
//
// A part keeps its state to itself and has four doors. The runtime goes through a table of parts
// (runtime.c): at boot, at each tick, when it asks what is due, and when something happened. What a
// part wants of another it tells as an event, and never writes into the other's state. An event is
// carried out before dev_tell returns, in the order of the table, so a part that tells goes on with
// what came of it; no part tells an event of the kind it is being told of.
#ifndef DEV_PART_H
#define DEV_PART_H

#include "base/span.h"
#include "device/port.h"

struct dev_runtime;

enum dev_event_kind {
    DEV_EVENT_RESTORED, // the boot read the record: go on from there
    DEV_EVENT_STOPPED,  // the runtime ends: what is under way is cancelled
    // The transport brought something of the exchange, which the part that began it takes.
    DEV_EVENT_HEAD,
    DEV_EVENT_BODY,
    DEV_EVENT_END, // `status`: how
    DEV_EVENT_COUNT
};

struct dev_event {
    enum dev_event_kind kind;
    uint32_t exchange;                    // HEAD, BODY, END
    enum base_status status;              // END
    const struct dev_response_head *head; // HEAD
    struct base_span body;                // BODY
};

// NULL: the part has no such door.
struct dev_part {
    const char *name;
    // At boot, before the record is read. No request goes before `first_us`.
    void (*init)(struct dev_runtime *runtime, uint64_t first_us);
    // Does what is due, and returns when it must wait.
    void (*step)(struct dev_runtime *runtime, uint64_t now_us);
    // When the next step is due; UINT64_MAX: something has to happen first.
    uint64_t (*due_us)(const struct dev_runtime *runtime);
    // True: it was for this part.
    bool (*on_event)(struct dev_runtime *runtime, const struct dev_event *event);
};

// Tells all parts, or, what a transport brought, the one whose it is. True: a part took it.
bool dev_tell(struct dev_runtime *runtime, const struct dev_event *event);

#endif

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
struct dev_task;

enum dev_part_event_kind {
    DEV_PART_EVENT_ANEW, // nothing is stored that counts: the stored members are as on a new device
    DEV_PART_EVENT_RESTORED, // the boot read the record: go on from there
    DEV_PART_EVENT_STOPPED,  // the runtime ends: what is under way is cancelled
    DEV_PART_EVENT_STORE,    // the record is to be stored before anything is done; `at_us`: now
    // The transport brought something of the exchange, which the part that began it takes.
    DEV_PART_EVENT_HEAD,
    DEV_PART_EVENT_BODY,
    DEV_PART_EVENT_END, // `status`: how
    // To control. A check-in at `at_us` or before; as soon as may be.
    DEV_PART_EVENT_CHECKIN,
    DEV_PART_EVENT_CHECKIN_SOON,
    DEV_PART_EVENT_OUTCOME, // an outcome waits to be reported
    // By control: a check-in was answered.
    DEV_PART_EVENT_ANSWERED,
    // Of `task`. What was accepted is not to be brought; its run, if there is one, is to end; when
    // its next one is due is to be found out; it gives its place back, and those behind move up.
    DEV_PART_EVENT_UNWANTED,
    DEV_PART_EVENT_HALT,
    DEV_PART_EVENT_SCHEDULE,
    DEV_PART_EVENT_DROPPED,
    // By slots, of `task`: its active version begins, for the first time or once more, or there is
    // none any more; it is the accepted one; it proved itself here before; it stays, and the trial
    // that a mark began is over.
    DEV_PART_EVENT_BEGUN,
    DEV_PART_EVENT_ACTIVATED,
    DEV_PART_EVENT_PROVEN,
    DEV_PART_EVENT_STOOD,
    DEV_PART_EVENT_ENDED,   // a task was stopped: it may be over
    DEV_PART_EVENT_GARBAGE, // blobs may have become useless
    DEV_PART_EVENT_NEEDED,  // which blobs does a part need, beside those of the tasks?
    // By trust: another timestamp is in force; a director's answer is; the gateway took back that
    // time had gone further.
    DEV_PART_EVENT_TIMESTAMP,
    DEV_PART_EVENT_DIRECTED,
    DEV_PART_EVENT_TIME_BACK,
    DEV_PART_EVENT_METADATA, // by trust: a cycle brought something new, which offers may wait for
    DEV_PART_EVENT_COUNT
};

// Told which blobs are needed.
struct dev_need {
    void (*blob)(void *ctx, const struct wire_sha256 *name);
    void *ctx;
};

_Static_assert(DEV_PART_EVENT_COUNT <= 32, "a bit each in dev_runtime.telling");

struct dev_part_event {
    enum dev_part_event_kind kind;
    uint32_t exchange; // HEAD, BODY, END; otherwise 0
    union {
        const struct dev_response_head *head;
        struct base_span body;
        enum base_status status;
        uint64_t at_us; // CHECKIN, STORE
        const struct wire_outcome *outcome;
        struct dev_task *task; // UNWANTED to STOOD
        const struct dev_need *need;
    };
};

// Of the kinds that a part is told of.
#define DEV_PART_HEARS(KIND) (UINT32_C(1) << DEV_PART_EVENT_##KIND)
// What the transport brought of an exchange.
#define DEV_PART_HEARS_EXCHANGE (DEV_PART_HEARS(HEAD) | DEV_PART_HEARS(BODY) | DEV_PART_HEARS(END))

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
    bool (*on_event)(struct dev_runtime *runtime, const struct dev_part_event *event);
    uint32_t hears; // kinds of events, a bit each: of the others `on_event` is not told
};

// Tells the parts that hear of it, or, what a transport brought, the one whose it is. True: a part
// took it.
bool dev_tell(struct dev_runtime *runtime, const struct dev_part_event *event);
// Likewise, of events that say nothing more, a time, or a task.
void dev_tell_that(struct dev_runtime *runtime, enum dev_part_event_kind kind);
void dev_tell_at(struct dev_runtime *runtime, enum dev_part_event_kind kind, uint64_t at_us);
void dev_tell_of(struct dev_runtime *runtime, enum dev_part_event_kind kind, struct dev_task *task);

#endif

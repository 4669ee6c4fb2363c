// Page visits: which visit an event belongs to, and which visits end. The rules are in event.h.
//
// At most DEV_VISITS_MAX visits are open; one more closes the oldest, counted. Pages are compared
// by their keyed hash. A value of its owner, the recorder; one thread.
#ifndef DEV_PIPELINE_VISIT_H
#define DEV_PIPELINE_VISIT_H

#include "pipeline/record/event.h"

#define DEV_VISITS_MAX 32

enum dev_visit_end {
    DEV_VISIT_EXIT,    // EXIT came
    DEV_VISIT_REENTER, // ENTER of the same page and instance without an EXIT between
    DEV_VISIT_OVERFLOW,
    DEV_VISIT_KILLED, // the process ended; said at the next boot
    DEV_VISIT_END_COUNT
};

struct dev_visit {
    uint32_t number; // never 0
    uint32_t instance;
    uint64_t page_hash;
    uint64_t enter_seq;
};

struct dev_visits {
    uint32_t next; // number of the next visit
    uint32_t count;
    struct dev_visit open[DEV_VISITS_MAX]; // oldest first
    uint64_t ended[DEV_VISIT_END_COUNT];   // counts
    uint64_t unmatched;                    // EXIT without an open visit
};

struct dev_visit_step {
    uint32_t visit; // of this event; 0: none
    bool ends;      // `ended` ended: before the event when it is an ENTER, after it when an EXIT
    enum dev_visit_end why;
    struct dev_visit ended;
};

void dev_visits_init(struct dev_visits *visits, uint32_t next);
// What the event does to visits: its kind, page_hash, instance and seq are looked at. Numbers that
// would pass UINT32_MAX are not given: visit 0.
void dev_visits_step(struct dev_visits *visits, const struct dev_event *event,
                     struct dev_visit_step *out);
bool dev_visits_validate(const struct dev_visits *visits);

#endif

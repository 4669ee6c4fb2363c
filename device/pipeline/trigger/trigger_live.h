// The pieces of an engine's live state. Shared by the files of the trigger engine; nobody else
// includes it.
//
// A node with one state: `mark` is 1 + its place in `sticky` while it is remembered behind a gap,
// `start` the time of the first literal of the latest start. A KEYED node: `mark` is 1 + its place
// in `keyed_sticky`, `start` is 1 + the first of its keyed states. What the last event reached and
// the next may continue is in `live`, with starts of its own.
#ifndef DEV_TRIGGER_LIVE_H
#define DEV_TRIGGER_LIVE_H

#include "pipeline/trigger/trigger.h"

struct trig_state {
    uint32_t start;
    uint32_t mark;
};

struct trig_reach {
    uint32_t node;
    uint32_t start;
};

struct trig_keyed_reach {
    uint64_t item;
    uint32_t node;
    uint32_t start;
    uint32_t visit;
};

// A state of a KEYED node. Links are 1 + index, 0 ends.
struct trig_key {
    uint64_t item;
    uint32_t node;
    uint32_t start;
    uint32_t visit;
    uint32_t hash_next;
    uint32_t node_prev;
    uint32_t node_next;
    uint32_t age_prev; // entered later
    uint32_t age_next; // entered earlier
};

struct trig_match {
    uint64_t item;
    uint32_t source;
    uint32_t node;
    uint32_t start;
    uint32_t visit;
};

enum { TRIG_HAS_START = 1, TRIG_HAS_DAY = 2, TRIG_RESET_NOW = 4 };

struct trig_policy_state {
    uint32_t last_ms; // of the last start
    uint32_t day_ms;  // when the day began
    uint16_t count;   // starts in it
    uint8_t flags;
    uint8_t visit_next;
    uint32_t visits[DEV_TRIGGER_VISITS_KEPT]; // 0: free
};

struct trig_clock {
    uint64_t us; // since the first event, summed up
    uint64_t mono_us;
    uint64_t wall_ms;
    uint32_t boot;
    uint32_t swept_ms; // when starts were last kept from wrapping
    bool running;
};

#endif

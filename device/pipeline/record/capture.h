// What live tasks need to see: kinds, pages and names of events, and which attributes of them. The
// recorder keeps nothing else. Made from the patterns and stream declarations of all live tasks,
// anew whenever the set of tasks changes: begin, add each need, publish to the recorder between two
// events (dev_recorder_capture).
//
// Two stages. The gate is a handful of words that any thread reads without a lock and that may let
// too much through, never too little; the table behind it is exact and is asked on the runtime's
// thread. A table that is full widens what does not fit to "this kind on every page" (counted)
// rather than missing an event.
//
// ENTER and EXIT of every page pass always, because visits are made of them; they are kept without
// attributes, unless a need wants those.
#ifndef DEV_PIPELINE_CAPTURE_H
#define DEV_PIPELINE_CAPTURE_H

#include "pipeline/record/event.h"
#include "pipeline/record/event_names.h"

#define DEV_CAPTURE_NEEDS_MAX 256 // different (kind, page, name); a power of two
#define DEV_CAPTURE_ATTRS_MAX 128 // different attribute names; beyond: all attributes are kept
#define DEV_CAPTURE_GATE_BITS 2048

struct dev_capture_need {
    uint32_t kinds;               // bits 1 << enum dev_event_kind
    struct base_str page;         // empty: every page
    struct base_str name;         // of CUSTOM events; empty: every name
    const struct base_str *attrs; // names of the attributes wanted
    uint32_t attr_count;
    bool every_attr;
};

struct dev_capture_set { // bits of attribute names
    uint64_t bits[DEV_CAPTURE_ATTRS_MAX / 64];
    bool wanted;
    bool every_attr;
};

struct dev_capture_row {
    uint64_t key; // 0: free
    struct dev_capture_set set;
};

// The words of the gate, as plain values.
struct dev_capture_gate {
    uint32_t kinds; // wanted on every page
    bool every_attr;
    uint64_t pages[DEV_CAPTURE_GATE_BITS / 64];
    uint64_t names[DEV_EVENT_MARKS / 64];
};

// About 18 KB. A value of its owner.
struct dev_capture {
    uint64_t secret;
    uint32_t row_count;
    uint32_t attr_count;
    uint64_t widened;                               // needs that did not fit
    struct dev_capture_set any[DEV_EVENT_KIND_END]; // on every page, of every name
    uint64_t attrs[DEV_CAPTURE_ATTRS_MAX];          // hashes of names
    uint8_t attr_slots[2 * DEV_CAPTURE_ATTRS_MAX];  // 1 + index, by hash; 0: free
    struct dev_capture_row rows[2 * DEV_CAPTURE_NEEDS_MAX];
    struct dev_capture_gate gate;
};

// Nothing is wanted. `secret` is the recorder's (dev_recorder_secret).
void dev_capture_begin(struct dev_capture *capture, uint64_t secret);
// INVALID: a text or kind that no event can have.
BASE_NODISCARD enum base_status dev_capture_add(struct dev_capture *capture,
                                                const struct dev_capture_need *need);
// Exact: what is wanted of such an event.
void dev_capture_find(const struct dev_capture *capture, enum dev_event_kind kind,
                      uint64_t page_hash, uint64_t name_hash, struct dev_capture_set *out);
bool dev_capture_wants_attr(const struct dev_capture *capture, const struct dev_capture_set *set,
                            struct base_str name);

// The bit of the gate that stands for an event; an attribute's is the mark of its name.
uint32_t dev_capture_gate_bit(enum dev_event_kind kind, uint64_t page_hash);

#endif

// What an event or a node leads to in a compiled set: literals, children, sources. Pure; shared by
// the files of the trigger engine; nobody else includes it.
#ifndef DEV_TRIGGER_MATCH_H
#define DEV_TRIGGER_MATCH_H

#include "pipeline/trigger/trigger_set.h"

// Hash of what a symbol fixes; hashes that it leaves open are 0.
uint64_t trig_symbol_key(uint32_t shape, uint32_t kind, uint64_t name, uint64_t page,
                         uint64_t item);
// Its place; TRIG_NONE: no pattern mentions it.
uint32_t trig_find_symbol(const struct dev_trigger_set *set, uint64_t key);
struct dev_pattern_test trig_test_of(const struct dev_trigger_set *set, uint32_t index);
// Has the event the kind, name, page and item that the literal fixes?
bool trig_literal_fixes(const struct dev_trigger_set *set, uint32_t literal,
                        const struct dev_event *event);
// What an event is to a set. Returned in registers: it is asked for each event.
struct trig_found {
    uint32_t count; // of the literals that it matches
    bool known;     // a literal fixes what it has, whatever its tests say
    uint64_t work;  // steps that finding them took
};
// The literals that the event matches, at most certificate.matched_max of them.
struct trig_found trig_match_event(const struct dev_trigger_set *set, const struct dev_event *event,
                                   uint32_t *out_literals);

// The child of `parent` by an edge that is in the hash; TRIG_NONE: there is none.
static inline uint32_t trig_child(const struct dev_trigger_set *set, uint32_t parent,
                                  uint32_t label)
{
    uint32_t tag = (uint32_t)(trig_edge_hash(parent, label) >> 32);
    for (const struct trig_slot *slot = &set->slots[trig_place(tag, set->counts.slot_span)];
         slot->node != TRIG_SLOT_FREE && slot->tag <= tag; slot++) {
        if (slot->tag == tag && trig_parent(set->nodes[slot->node]) == parent &&
            ((set->nodes[slot->node].label ^ label) & TRIG_KEY_MASK) == 0) {
            return slot->node;
        }
    }
    return TRIG_NONE;
}

// The first of the NOT nodes below `parent` in set->nots.
uint32_t trig_first_not(const struct dev_trigger_set *set, uint32_t parent);
// The sources that end at `node`: set->accept_sources[*out_first .. *out_end).
void trig_accepts(const struct dev_trigger_set *set, uint32_t node, uint32_t *out_first,
                  uint32_t *out_end);

#endif

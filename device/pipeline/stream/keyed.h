// KeyBy: a bounded table of keys, and for each key a list of nodes from one bounded pool (panes of
// windows, or single events). The least recently used key is the first to go; who owns the table
// decides and counts.
//
// Memory is the caller's block; what a node holds behind its head is the caller's business. Slots
// are numbered; the lowest free one is taken, so that the same history gives the same numbers.
#ifndef DEV_KEYED_H
#define DEV_KEYED_H

#include "pipeline/stream/value.h"

#define DEV_KEYED_NONE UINT32_MAX

struct dev_key_slot {
    uint64_t hash;
    struct dev_cell key;
    uint32_t newer; // in the order of use
    uint32_t older;
    uint32_t first; // nodes, by `start` and then by seq
    uint32_t last;
    uint32_t nodes;
    uint32_t since;      // hops by count: events since the last result; SLIDING: 1: events were cut
    uint64_t dropped_at; // SLIDING: time of the latest one that was cut
    bool used;
};

// What every node begins with; a multiple of 8 bytes.
struct dev_node {
    uint64_t start; // pane: where it begins, in ms; event: its time; page: the visit
    uint64_t end;   // session: time of its last event
    uint64_t first_seq;
    uint64_t last_seq;
    uint64_t events;
    uint32_t next;
    uint32_t reserved;
};

struct dev_keyed {
    struct dev_key_slot *slots;
    uint32_t *index; // open addressing: slot number, or NONE
    uint8_t *pool;
    size_t node_bytes;
    uint32_t slot_count;
    uint32_t index_size; // a power of two, at least twice the slots
    uint32_t node_count;
    uint32_t free_node; // list
    uint32_t free_slot; // no free slot is below
    uint32_t keys;      // in use
    uint32_t newest;
    uint32_t oldest;
};

// Bytes of slots, index and pool, a multiple of 8. The caller checks the sizes; `node_bytes` is
// a multiple of 8.
size_t dev_keyed_bytes(uint32_t keys, uint32_t nodes, size_t node_bytes);
// `memory` is aligned to 8.
void dev_keyed_init(struct dev_keyed *keyed, void *memory, uint32_t keys, uint32_t nodes,
                    size_t node_bytes);
void dev_keyed_clear(struct dev_keyed *keyed);

// NONE: not there. Does not change the order of use.
uint32_t dev_keyed_find(const struct dev_keyed *keyed, struct dev_value key);
// A key that is not there. NONE: all slots are taken. The new key is the newest.
uint32_t dev_keyed_insert(struct dev_keyed *keyed, struct dev_value key);
void dev_keyed_touch(struct dev_keyed *keyed, uint32_t slot); // it is the newest now
// The key and its nodes go.
void dev_keyed_remove(struct dev_keyed *keyed, uint32_t slot);
static inline bool dev_keyed_full(const struct dev_keyed *keyed)
{
    return keyed->keys == keyed->slot_count;
}

static inline struct dev_node *dev_keyed_node(const struct dev_keyed *keyed, uint32_t node)
{
    return (struct dev_node *)(void *)(keyed->pool + (size_t)node * keyed->node_bytes);
}
static inline bool dev_keyed_nodes_left(const struct dev_keyed *keyed)
{
    return keyed->free_node != DEV_KEYED_NONE;
}
// A node in its place: behind those with a smaller `start`, or an equal one and a smaller seq; its
// head is filled in, the rest is as it was. There must be one left.
uint32_t dev_keyed_node_add(struct dev_keyed *keyed, uint32_t slot, uint64_t start, uint64_t seq);
// Takes out the node behind `before` (NONE: the first of the slot).
void dev_keyed_node_remove(struct dev_keyed *keyed, uint32_t slot, uint32_t before);

// Checks all links; for tests and debug builds.
bool dev_keyed_validate(const struct dev_keyed *keyed);

#endif

// The nodes and edges of a compiled set of patterns: a trie of steps (trigger_set.h has the set).
// Shared by the files of the trigger engine; nobody else includes it.
//
// A node is a prefix of patterns. Below a root every edge is one of: a literal right after the
// parent's event (ADJACENT), a literal after any number of events (GAPPED), any one event (ANY), or
// none (NOT): a NOT node is entered together with its parent and is left when its literal matches;
// below it all is GAPPED. Patterns with `page` hang below a root of their own, and so does each
// pattern with `reset`, which may drop its nodes without asking others.
//
// Where the next state is looked for: edges from roots and GAPPED edges stand in lists per literal;
// all edges but those from roots and to NOT nodes are in the hash.
#ifndef DEV_TRIGGER_NODE_H
#define DEV_TRIGGER_NODE_H

#include "base/prng.h"

#define TRIG_NO_NODE   0xffffffu  // parent of a root
#define TRIG_NONE      UINT32_MAX // no index
#define TRIG_SLOT_FREE UINT32_MAX
#define TRIG_FOREVER   31u        // class of a node that does not expire
#define TRIG_LONG_AGO  (1u << 31) // ms: older than any `within`

enum {                  // flags of a node, in the high byte of parent_flags
    TRIG_ADJ = 1,       // has ADJACENT children
    TRIG_ANY = 2,       // has an ANY child
    TRIG_GAP = 4,       // has GAPPED children: entering it is remembered
    TRIG_NOTS = 8,      // has NOT children
    TRIG_ACCEPT = 16,   // patterns end here
    TRIG_KEYED = 32,    // one state per visit or item
    TRIG_ITEMIZED = 64, // there is a same(item) on the way here
    TRIG_UNTIMED = 128, // no literal on the way here
};

enum { TRIG_EDGE_ADJACENT, TRIG_EDGE_GAPPED, TRIG_EDGE_ANY, TRIG_EDGE_NOT, TRIG_EDGE_ROOT };

// label: literal in 22 bits, edge in 3, one free, page in 1, class of life in 5.
#define TRIG_LITERAL_MASK 0x3fffffu
#define TRIG_EDGE_SHIFT   22
#define TRIG_KEY_MASK     0x1ffffffu // what tells siblings apart
#define TRIG_PAGE_BIT     (1u << 26)
#define TRIG_CLASS_SHIFT  27

struct trig_node {
    uint32_t parent_flags;
    uint32_t label;
};

static inline uint32_t trig_parent(struct trig_node node)
{
    return node.parent_flags & 0xffffffu;
}
static inline uint32_t trig_flags(struct trig_node node)
{
    return node.parent_flags >> 24;
}
static inline uint32_t trig_edge(uint32_t label)
{
    return label >> TRIG_EDGE_SHIFT & 7;
}
static inline uint32_t trig_label(uint32_t edge, uint32_t literal)
{
    return edge << TRIG_EDGE_SHIFT | literal;
}
static inline uint64_t trig_edge_hash(uint32_t parent, uint32_t label)
{
    return base_mix64((uint64_t)parent << 32 | (label & TRIG_KEY_MASK));
}
// A place in [0, count) that grows with the hash.
static inline uint32_t trig_place(uint32_t hash, uint32_t count)
{
    return (uint32_t)((uint64_t)hash * count >> 32);
}

// The hash of edges and the table of symbols are in the order of their hashes, so that a look for
// what is not there ends early; a free place ends a run. The last place is free.
struct trig_slot {
    uint32_t tag; // high half of the edge's hash
    uint32_t node;
};

struct trig_symbol {
    uint32_t high; // halves of its key
    uint32_t low;
    uint32_t first; // of its literals; TRIG_NONE: a free place
};

// An entry of a literal's list: what kind in the high byte, a node below; in this order.
enum {
    TRIG_LIST_ROOT,  // the child of a root
    TRIG_LIST_WATCH, // a NOT node that it clears
    TRIG_LIST_GAP,   // the parent of a GAPPED edge, which has one state
    TRIG_LIST_KEYED, // the parent of a GAPPED edge, which is KEYED
};

static inline uint32_t trig_entry_kind(uint32_t entry)
{
    return entry >> 24;
}
static inline uint32_t trig_entry_node(uint32_t entry)
{
    return entry & 0xffffffu;
}

#endif

// A compiled set of patterns: a trie of steps, the hash of its edges, and for each literal the
// places where it stands. Shared by the files of the trigger engine; nobody else includes it.
//
// A node is a prefix of patterns. Below a root every edge is one of: a literal right after the
// parent's event (ADJACENT), a literal after any number of events (GAPPED), any one event (ANY), or
// none (NOT): a NOT node is entered together with its parent and is left when its literal matches;
// below it all is GAPPED. Patterns with `page` hang below a root of their own, and so does each
// pattern with `reset`, which may drop its nodes without asking others.
//
// Where the next state is looked for: edges from roots and GAPPED edges stand in lists per literal;
// all edges but those from roots and to NOT nodes are in the hash.
#ifndef DEV_TRIGGER_SET_H
#define DEV_TRIGGER_SET_H

#include "pipeline/trigger.h"

#include "base/prng.h"

#define TRIG_SHAPES    12         // how much of kind, name, page and item a symbol fixes
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

enum { TRIG_LIT_ITEM = 1, TRIG_LIT_MARKED = 2 };

// Its list and its tests end where those of the next literal begin.
struct trig_literal {
    uint32_t symbol; // place in `symbols`
    uint32_t first;  // of its list
    uint32_t tests_flags;
};

static inline uint32_t trig_tests(struct trig_literal literal)
{
    return literal.tests_flags & 0x3fffffffu;
}
static inline uint32_t trig_literal_flags(struct trig_literal literal)
{
    return literal.tests_flags >> 30;
}

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

struct trig_test {
    int64_t digits;
    uint32_t text_at; // in `texts`: the attribute's name, then the text
    uint8_t attr_size;
    uint8_t scale;
    uint8_t op;
    uint8_t type;
    uint32_t text_size;
    uint32_t unused; // sets are hashed as bytes
};

// Of a source with a cooldown, a cap, `reset` or `once per visit`.
struct trig_policy {
    uint32_t source;
    uint32_t cooldown_ms;
    uint32_t node_first; // reset: its nodes
    uint32_t node_end;
    uint16_t per_day;
    uint8_t kind; // enum dev_pattern_policy
};

struct trig_source {
    uint64_t key;
    uint32_t within_ms;    // 0: none
    uint32_t policy : 24;  // 1 + index; 0: none
    uint32_t variants : 8; // nodes that it ends at
};

struct trig_counts {
    uint32_t sources;
    uint32_t nodes;
    uint32_t literals;
    uint32_t tests;
    uint32_t texts; // bytes
    uint32_t symbols;
    uint32_t symbol_span;   // places that hashes say
    uint32_t symbol_places; // with the last run and the free one
    uint32_t hashed;        // edges
    uint32_t slot_span;
    uint32_t slots;
    uint32_t lists;   // entries
    uint32_t watches; // of these
    uint32_t root_anys;
    uint32_t accept_nodes;
    uint32_t accepts;
    uint32_t policies;
    uint32_t sticky;       // nodes with GAPPED children, one state each
    uint32_t keyed_sticky; // the same, KEYED
    uint32_t keyed_reach;  // entries of the lists of keyed states
    uint32_t keys;         // places for keyed states
    uint32_t shapes;       // bits
    bool has_page;
    bool has_any; // a `?` below a literal
};

struct dev_trigger_set {
    uint64_t secret;
    uint64_t fingerprint; // of everything below
    uint32_t work_max;
    struct trig_counts counts;
    struct dev_trigger_certificate certificate;
    struct trig_symbol *symbols;
    struct trig_literal *literals; // one more than there are
    struct trig_test *tests;
    struct trig_source *sources;
    uint64_t *accept_bits;
    struct trig_node *nodes;
    struct trig_slot *slots;
    uint32_t *lists;
    uint32_t *root_anys;
    uint32_t *nots;         // NOT nodes by parent
    uint32_t *accept_ranks; // accepting nodes before each 64 nodes
    uint32_t *accept_first; // one more than there are accepting nodes
    uint32_t *accept_sources;
    struct trig_policy *policies;
    char *texts;
};

// ---- trigger_build.c: the trie in scratch

struct build_node {
    uint32_t parent;
    uint32_t label;
    uint32_t flags;
    uint32_t life_ms; // longest `within` of the patterns through here; UINT32_MAX: some have none
    uint32_t weight;  // steps of work when it is reached
    uint32_t accepts;
    bool multiple; // under same(item): one event can reach it for many items
    uint64_t path; // of its labels since the last gap, as hashes: what the events were
    uint64_t mask; // how literal each of them is
};

struct build_literal {
    uint64_t symbol;
    uint64_t form;  // hash of shape, tests, flags
    uint32_t tests; // first
    uint32_t symbol_index;
    uint32_t to;    // number in the set
    uint32_t roots; // edges and NOT nodes that have it
    uint32_t gaps;
    uint32_t keyed_gaps;
    uint32_t watches;
    uint8_t test_count;
    uint8_t shape;
    uint8_t flags;
};

struct build_source {
    uint64_t key;
    uint32_t within_ms;
    uint32_t cooldown_ms;
    uint32_t node_first;
    uint32_t node_end;
    uint16_t per_day;
    uint8_t policy;
    uint8_t variants;
};

// Sums over nodes of one path hash; maxima of these over the paths of one mask hash.
enum {
    SUM_REACHED,
    SUM_LIVE,
    SUM_KEYED_REACHED,
    SUM_KEYED_LIVE,
    SUM_WEIGHT,
    SUM_ACCEPTS,
    SUM_COUNT
};

struct build_sum {
    uint64_t key; // 0: free
    uint64_t mask;
    uint32_t sums[SUM_COUNT];
};

struct build_symbol {
    uint64_t key;
    uint64_t cost;
    uint32_t literals;
    uint32_t shape;
    uint32_t place; // in the set
    uint32_t first; // its literals in the set
    uint32_t placed;
};

struct trig_build {
    uint64_t ready; // a certificate was given
    struct trig_counts room;
    struct trig_counts counts;
    struct dev_trigger_options options;
    struct dev_trigger_certificate certificate;
    uint32_t table; // places of each hash table below, a power of two
    struct build_node *nodes;
    struct build_literal *literals;
    struct build_source *sources;
    struct build_symbol *symbols;
    struct build_sum *paths; // `table`
    struct build_sum *masks; // `table`
    uint64_t *accepts;       // node << 32 | source
    uint64_t *nots;          // parent << 32 | node
    uint64_t *edges;         // tag << 32 | node, of those in the hash
    uint64_t *keys;          // of symbols, sorted
    struct trig_test *tests;
    uint32_t *node_table;    // `table`: 1 + node
    uint32_t *literal_table; // `table`: 1 + literal
    uint32_t *symbol_table;  // `table`: 1 + symbol
    char *texts;
};

// Parses the first `count` sources into the trie. INVALID, TOO_LARGE, LIMIT.
BASE_NODISCARD enum base_status trig_build_all(struct trig_build *build,
                                               const struct dev_trigger_source *sources,
                                               uint32_t count, struct dev_trigger_fault *fault);
void trig_sort(uint64_t *values, uint32_t count); // ascending, in place

// ---- trigger_certify.c
void trig_certify_build(struct trig_build *build);

// ---- trigger_compile.c
void trig_plan_places(struct trig_build *build); // numbers literals, sorts what is hashed
size_t trig_set_bytes(const struct trig_counts *counts);
size_t trig_set_bytes_max(const struct trig_counts *counts); // whatever the hashes are

// ---- trigger_engine.c
size_t trig_state_bytes(const struct trig_counts *counts,
                        const struct dev_trigger_certificate *certificate);

// ---- trigger_match.c

// Hash of what a symbol fixes; hashes that it leaves open are 0.
uint64_t trig_symbol_key(uint32_t shape, uint32_t kind, uint64_t name, uint64_t page,
                         uint64_t item);
// Its place; TRIG_NONE: no pattern mentions it.
uint32_t trig_find_symbol(const struct dev_trigger_set *set, uint64_t key);
struct dev_pattern_test trig_test_of(const struct dev_trigger_set *set, uint32_t index);
// Has the event the kind, name, page and item that the literal fixes?
bool trig_literal_fixes(const struct dev_trigger_set *set, uint32_t literal,
                        const struct dev_event *event);
// The literals that the event matches, at most certificate.matched_max of them; counts its steps.
uint32_t trig_match_event(const struct dev_trigger_set *set, const struct dev_event *event,
                          uint32_t *out_literals, uint64_t *work);

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

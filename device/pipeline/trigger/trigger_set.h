// A compiled set of patterns: the trie (trigger_node.h), the hash of its edges, and for each
// literal the places where it stands. Shared by the files of the trigger engine; nobody else
// includes it.
#ifndef DEV_TRIGGER_SET_H
#define DEV_TRIGGER_SET_H

#include "pipeline/trigger/trigger.h"
#include "pipeline/trigger/trigger_node.h"

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

#endif

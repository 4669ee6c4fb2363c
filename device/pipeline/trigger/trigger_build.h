// A set of patterns while it is compiled: the trie in scratch. Shared by trigger_build.c (parsing
// into the trie), trigger_certify.c (what it costs) and trigger_compile.c (its compiled form).
#ifndef DEV_TRIGGER_BUILD_H
#define DEV_TRIGGER_BUILD_H

#include "pipeline/trigger/trigger_set.h"

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

#endif

// From the trie in scratch to a set in one block: literals grouped by symbol, lists per literal,
// the hash of edges, accepting nodes by rank. Also what others ask of a set. Called where sets are
// made; a finished set is never written again.
#include "pipeline/trigger/trigger_build.h"
#include "pipeline/trigger/trigger_match.h"

#include "base/carve.h"
#include "base/check.h"
#include "base/hash.h"

#include <string.h>

static size_t words_of(uint32_t nodes)
{
    return (nodes + 63) / 64;
}

static size_t lay_out(struct dev_trigger_set *set, const struct trig_counts *counts, uint8_t *block)
{
    struct base_carver carver = {.block = block, .capacity = SIZE_MAX, .alignment = 8};
    (void)base_carve(&carver, 1, sizeof *set);
    set->symbols = base_carve(&carver, counts->symbol_places, sizeof *set->symbols);
    set->literals = base_carve(&carver, counts->literals + 1u, sizeof *set->literals);
    set->tests = base_carve(&carver, counts->tests, sizeof *set->tests);
    set->sources = base_carve(&carver, counts->sources, sizeof *set->sources);
    set->accept_bits = base_carve(&carver, words_of(counts->nodes), sizeof *set->accept_bits);
    set->nodes = base_carve(&carver, counts->nodes, sizeof *set->nodes);
    set->slots = base_carve(&carver, counts->slots, sizeof *set->slots);
    set->lists = base_carve(&carver, counts->lists, sizeof *set->lists);
    set->root_anys = base_carve(&carver, counts->root_anys, sizeof *set->root_anys);
    set->nots = base_carve(&carver, counts->watches, sizeof *set->nots);
    set->accept_ranks = base_carve(&carver, words_of(counts->nodes), sizeof *set->accept_ranks);
    set->accept_first = base_carve(&carver, counts->accept_nodes + 1u, sizeof *set->accept_first);
    set->accept_sources = base_carve(&carver, counts->accepts, sizeof *set->accept_sources);
    set->policies = base_carve(&carver, counts->policies, sizeof *set->policies);
    set->texts = base_carve(&carver, counts->texts, 1);
    return carver.used;
}

size_t trig_set_bytes(const struct trig_counts *counts)
{
    struct dev_trigger_set set = {0};
    return lay_out(&set, counts, NULL);
}

size_t trig_set_bytes_max(const struct trig_counts *counts)
{
    // At the worst all hashes have their place at the end of the span, one behind the other.
    struct trig_counts worst = *counts;
    worst.symbol_places = counts->symbol_span + counts->symbols + 1;
    worst.slots = counts->slot_span + counts->hashed + 1;
    return trig_set_bytes(&worst);
}

// ---- Before the set has its block: numbers and places, which say how large it is

static struct build_symbol *symbol_of_key(struct trig_build *build, uint64_t key)
{
    uint32_t mask = build->table - 1;
    uint32_t at = (uint32_t)key & mask;
    while (build->symbols[build->symbol_table[at] - 1].key != key) {
        at = (at + 1) & mask;
    }
    return &build->symbols[build->symbol_table[at] - 1];
}

// The place of each in a table where hashes stay in order: its own, or behind the one before.
static uint32_t next_place(uint64_t hash, uint32_t span, uint32_t free_from)
{
    uint32_t place = trig_place((uint32_t)(hash >> 32), span);
    return place > free_from ? place : free_from;
}

static bool is_hashed(const struct trig_build *build, const struct build_node *node)
{
    uint32_t edge = trig_edge(node->label);
    return edge != TRIG_EDGE_ROOT && edge != TRIG_EDGE_NOT &&
           trig_edge(build->nodes[node->parent].label) != TRIG_EDGE_ROOT;
}

static uint32_t numbered_label(const struct trig_build *build, const struct build_node *node)
{
    uint32_t literal = node->label & TRIG_LITERAL_MASK;
    uint32_t edge = trig_edge(node->label);
    bool has_literal =
        edge == TRIG_EDGE_ADJACENT || edge == TRIG_EDGE_GAPPED || edge == TRIG_EDGE_NOT;
    return trig_label(edge, has_literal ? build->literals[literal].to : literal);
}

void trig_plan_places(struct trig_build *build)
{
    struct trig_counts *counts = &build->counts;
    for (uint32_t i = 0; i < counts->symbols; i++) {
        build->keys[i] = build->symbols[i].key;
    }
    trig_sort(build->keys, counts->symbols);
    counts->symbol_span = counts->symbols + counts->symbols / 4 + 1;
    uint32_t place = 0;
    uint32_t literal = 0;
    for (uint32_t i = 0; i < counts->symbols; i++) {
        struct build_symbol *symbol = symbol_of_key(build, build->keys[i]);
        symbol->place = next_place(symbol->key, counts->symbol_span, place);
        symbol->first = literal;
        symbol->placed = 0;
        place = symbol->place + 1;
        literal += symbol->literals;
    }
    base_assert(literal == counts->literals);
    counts->symbol_places = (place > counts->symbol_span ? place : counts->symbol_span) + 1;
    for (uint32_t i = 0; i < counts->literals; i++) { // those of one symbol are neighbours
        struct build_symbol *symbol = &build->symbols[build->literals[i].symbol_index];
        build->literals[i].to = symbol->first + symbol->placed++;
    }
    uint32_t hashed = 0;
    for (uint32_t i = 0; i < counts->nodes; i++) {
        const struct build_node *node = &build->nodes[i];
        if (is_hashed(build, node)) {
            uint64_t hash = trig_edge_hash(node->parent, numbered_label(build, node));
            build->edges[hashed++] = (hash >> 32 << 32) | i;
        }
    }
    trig_sort(build->edges, hashed);
    counts->hashed = hashed;
    counts->slot_span = hashed + hashed / 4 + 1;
    place = 0;
    for (uint32_t i = 0; i < hashed; i++) {
        place = next_place(build->edges[i], counts->slot_span, place) + 1;
    }
    counts->slots = (place > counts->slot_span ? place : counts->slot_span) + 1;
    base_assert(counts->slots > hashed); // the last place is free
}

// ---- Filling the block

static void place_symbols(const struct trig_build *build, struct dev_trigger_set *set)
{
    for (uint32_t i = 0; i < set->counts.symbol_places; i++) {
        set->symbols[i].first = TRIG_NONE;
    }
    for (uint32_t i = 0; i < build->counts.symbols; i++) {
        const struct build_symbol *symbol = &build->symbols[i];
        set->symbols[symbol->place] = (struct trig_symbol){.high = (uint32_t)(symbol->key >> 32),
                                                           .low = (uint32_t)symbol->key,
                                                           .first = symbol->first};
    }
}

// Tests of literals and the places of their lists, in the set's order.
static void place_literals(const struct trig_build *build, struct dev_trigger_set *set)
{
    uint32_t count = build->counts.literals;
    for (uint32_t i = 0; i < count; i++) { // sizes first
        const struct build_literal *from = &build->literals[i];
        set->literals[from->to] = (struct trig_literal){
            .symbol = build->symbols[from->symbol_index].place,
            .first = from->roots + from->watches + from->gaps + from->keyed_gaps,
            .tests_flags = from->test_count | (uint32_t)from->flags << 30};
    }
    set->literals[count] = (struct trig_literal){.symbol = TRIG_NONE};
    uint32_t first = 0;
    uint32_t tests = 0;
    for (uint32_t i = 0; i <= count; i++) { // then sums
        struct trig_literal size = set->literals[i];
        set->literals[i].first = first;
        set->literals[i].tests_flags = tests | trig_literal_flags(size) << 30;
        first += size.first;
        tests += trig_tests(size);
    }
    base_assert(first == set->counts.lists && tests == set->counts.tests);
    for (uint32_t i = 0; i < count; i++) {
        const struct build_literal *from = &build->literals[i];
        for (uint32_t t = 0; t < from->test_count; t++) {
            set->tests[trig_tests(set->literals[from->to]) + t] = build->tests[from->tests + t];
        }
    }
    if (build->counts.texts > 0) {
        memcpy(set->texts, build->texts, build->counts.texts);
    }
}

static uint32_t class_of_life(uint32_t life_ms)
{
    if (life_ms == UINT32_MAX) {
        return TRIG_FOREVER;
    }
    uint32_t class_id = 0;
    while (class_id < TRIG_FOREVER - 1 && (1u << class_id) < life_ms) {
        class_id++;
    }
    return class_id;
}

static void place_nodes(const struct trig_build *build, struct dev_trigger_set *set)
{
    for (uint32_t i = 0; i < build->counts.nodes; i++) {
        const struct build_node *from = &build->nodes[i];
        base_assert(from->parent <= TRIG_NO_NODE && from->flags <= UINT8_MAX);
        set->nodes[i] = (struct trig_node){
            .parent_flags = from->parent | from->flags << 24,
            .label = numbered_label(build, from) | (from->label & TRIG_PAGE_BIT) |
                     class_of_life(from->life_ms) << TRIG_CLASS_SHIFT,
        };
    }
}

static void place_slots(const struct trig_build *build, struct dev_trigger_set *set)
{
    for (uint32_t i = 0; i < set->counts.slots; i++) {
        set->slots[i] = (struct trig_slot){.node = TRIG_SLOT_FREE};
    }
    uint32_t place = 0;
    for (uint32_t i = 0; i < build->counts.hashed; i++) {
        place = next_place(build->edges[i], set->counts.slot_span, place);
        set->slots[place++] = (struct trig_slot){.tag = (uint32_t)(build->edges[i] >> 32),
                                                 .node = (uint32_t)build->edges[i]};
    }
    base_assert(place < set->counts.slots); // the last place is free
}

// What is entered for a node in its literal's list; false: nothing is.
static bool entry_of(const struct dev_trigger_set *set, uint32_t node, uint32_t *out)
{
    base_assert(trig_edge(set->nodes[node].label) != TRIG_EDGE_ROOT);
    uint32_t edge = trig_edge(set->nodes[node].label);
    uint32_t parent = trig_parent(set->nodes[node]);
    if (edge == TRIG_EDGE_NOT) {
        *out = (uint32_t)TRIG_LIST_WATCH << 24 | node;
        return true;
    }
    if (edge == TRIG_EDGE_GAPPED) {
        bool keyed = (trig_flags(set->nodes[parent]) & TRIG_KEYED) != 0;
        *out = (uint32_t)(keyed ? TRIG_LIST_KEYED : TRIG_LIST_GAP) << 24 | parent;
        return true;
    }
    *out = (uint32_t)TRIG_LIST_ROOT << 24 | node;
    return edge == TRIG_EDGE_ADJACENT && trig_edge(set->nodes[parent].label) == TRIG_EDGE_ROOT;
}

// While lists are filled, a literal's first runs ahead to where that of the next one was; then all
// are set back by one literal.
static void place_lists(struct dev_trigger_set *set)
{
    uint32_t anys = 0;
    for (uint32_t kind = TRIG_LIST_ROOT; kind <= TRIG_LIST_KEYED; kind++) {
        for (uint32_t i = 0; i < set->counts.nodes; i++) {
            uint32_t edge = trig_edge(set->nodes[i].label);
            uint32_t entry;
            if (edge == TRIG_EDGE_ROOT) {
                continue;
            }
            if (edge == TRIG_EDGE_ANY) {
                uint32_t parent = trig_parent(set->nodes[i]);
                bool at_root = trig_edge(set->nodes[parent].label) == TRIG_EDGE_ROOT;
                if (at_root && kind == TRIG_LIST_ROOT) {
                    set->root_anys[anys++] = i;
                }
            } else if (entry_of(set, i, &entry) && trig_entry_kind(entry) == kind) {
                uint32_t literal = set->nodes[i].label & TRIG_LITERAL_MASK;
                set->lists[set->literals[literal].first++] = entry;
            }
        }
    }
    base_assert(anys == set->counts.root_anys);
    for (uint32_t i = set->counts.literals; i-- > 0;) {
        set->literals[i].first = i > 0 ? set->literals[i - 1].first : 0;
    }
}

static void place_accepts(const struct trig_build *build, uint64_t *accepts,
                          struct dev_trigger_set *set)
{
    trig_sort(accepts, build->counts.accepts);
    memset(set->accept_bits, 0, words_of(set->counts.nodes) * sizeof *set->accept_bits);
    uint32_t ranks = 0;
    for (uint32_t i = 0; i < build->counts.accepts; i++) {
        uint32_t node = (uint32_t)(accepts[i] >> 32);
        if (i == 0 || node != (uint32_t)(accepts[i - 1] >> 32)) {
            set->accept_first[ranks++] = i;
        }
        set->accept_bits[node / 64] |= (uint64_t)1 << node % 64;
        set->accept_sources[i] = (uint32_t)accepts[i];
    }
    set->accept_first[ranks] = build->counts.accepts;
    base_check(ranks == set->counts.accept_nodes);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < words_of(set->counts.nodes); i++) {
        set->accept_ranks[i] = rank;
        rank += (uint32_t)__builtin_popcountll(set->accept_bits[i]);
    }
    base_assert(rank == ranks);
}

static void place_sources(const struct trig_build *build, struct dev_trigger_set *set)
{
    uint32_t policies = 0;
    for (uint32_t i = 0; i < build->counts.sources; i++) {
        const struct build_source *from = &build->sources[i];
        set->sources[i] = (struct trig_source){
            .key = from->key, .within_ms = from->within_ms, .variants = from->variants};
        if (from->policy == DEV_PATTERN_EACH && from->cooldown_ms == 0 && from->per_day == 0) {
            continue;
        }
        set->policies[policies++] = (struct trig_policy){.source = i,
                                                         .cooldown_ms = from->cooldown_ms,
                                                         .node_first = from->node_first,
                                                         .node_end = from->node_end,
                                                         .per_day = from->per_day,
                                                         .kind = from->policy};
        set->sources[i].policy = policies & 0xffffff;
    }
    base_check(policies == set->counts.policies);
}

static uint64_t fingerprint_of(const struct dev_trigger_set *set)
{
    const struct trig_counts *counts = &set->counts;
    uint64_t hash = base_hash64_seed(set->nodes, counts->nodes * sizeof *set->nodes, set->secret);
    hash = base_hash64_seed(set->literals, counts->literals * sizeof *set->literals, hash);
    hash = base_hash64_seed(set->tests, counts->tests * sizeof *set->tests, hash);
    hash = base_hash64_seed(set->texts, counts->texts, hash);
    hash = base_hash64_seed(set->sources, counts->sources * sizeof *set->sources, hash);
    return base_hash64_seed(set->accept_sources, counts->accepts * sizeof *set->accept_sources,
                            hash);
}

enum base_status dev_trigger_compile(void *scratch, void *memory, size_t memory_bytes,
                                     const struct dev_trigger_set **out)
{
    struct trig_build *build = scratch;
    if (build->ready != 1) {
        return BASE_ERR_CONFLICT;
    }
    if (memory_bytes < build->certificate.set_bytes) {
        return BASE_ERR_NOMEM;
    }
    base_assert((uintptr_t)memory % 8 == 0);
    build->ready = 0; // what is sorted and numbered below serves once
    memset(memory, 0, build->certificate.set_bytes);
    struct dev_trigger_set *set = memory;
    set->secret = build->options.secret;
    set->work_max = build->options.work_max;
    set->counts = build->counts;
    set->certificate = build->certificate;
    size_t used = lay_out(set, &build->counts, memory);
    base_assert(used == build->certificate.set_bytes);
    place_symbols(build, set);
    place_literals(build, set);
    place_nodes(build, set);
    place_slots(build, set);
    place_lists(set);
    trig_sort(build->nots, build->counts.watches);
    for (uint32_t i = 0; i < build->counts.watches; i++) {
        set->nots[i] = (uint32_t)build->nots[i];
    }
    place_accepts(build, build->accepts, set);
    place_sources(build, set);
    set->fingerprint = fingerprint_of(set);
    *out = set;
    return BASE_OK;
}

uint32_t trig_first_not(const struct dev_trigger_set *set, uint32_t parent)
{
    uint32_t low = 0;
    uint32_t high = set->counts.watches;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (trig_parent(set->nodes[set->nots[middle]]) < parent) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void trig_accepts(const struct dev_trigger_set *set, uint32_t node, uint32_t *out_first,
                  uint32_t *out_end)
{
    base_assert(node < set->counts.nodes && (set->accept_bits[node / 64] >> node % 64 & 1) != 0);
    uint64_t below = set->accept_bits[node / 64] & (((uint64_t)1 << node % 64) - 1);
    uint32_t rank = set->accept_ranks[node / 64] + (uint32_t)__builtin_popcountll(below);
    *out_first = set->accept_first[rank];
    *out_end = set->accept_first[rank + 1];
}

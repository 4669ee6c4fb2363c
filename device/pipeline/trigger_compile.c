// From the trie in scratch to a set in one block: literals grouped by symbol, lists per literal,
// the hash of edges, accepting nodes by rank. Also what others ask of a set. Called where sets are
// made; a finished set is never written again.
#include "pipeline/trigger_set.h"

#include "base/check.h"
#include "base/hash.h"

#include <string.h>

static void *piece(uint8_t *block, size_t *used, size_t count, size_t size)
{
    void *at = block == NULL ? NULL : block + *used;
    *used += (count * size + 7) / 8 * 8;
    return at;
}

static size_t words_of(uint32_t nodes)
{
    return (nodes + 63) / 64;
}

static size_t lay_out(struct dev_trigger_set *set, const struct trig_counts *counts, uint8_t *block)
{
    size_t used = (sizeof *set + 7) / 8 * 8;
    set->symbols = piece(block, &used, counts->symbol_places, sizeof *set->symbols);
    set->literals = piece(block, &used, counts->literals + 1u, sizeof *set->literals);
    set->tests = piece(block, &used, counts->tests, sizeof *set->tests);
    set->sources = piece(block, &used, counts->sources, sizeof *set->sources);
    set->accept_bits = piece(block, &used, words_of(counts->nodes), sizeof *set->accept_bits);
    set->nodes = piece(block, &used, counts->nodes, sizeof *set->nodes);
    set->slots = piece(block, &used, counts->slots, sizeof *set->slots);
    set->roots = piece(block, &used, counts->roots, sizeof *set->roots);
    set->gaps = piece(block, &used, counts->gaps, sizeof *set->gaps);
    set->keyed_gaps = piece(block, &used, counts->keyed_gaps, sizeof *set->keyed_gaps);
    set->watches = piece(block, &used, counts->watches, sizeof *set->watches);
    set->root_anys = piece(block, &used, counts->root_anys, sizeof *set->root_anys);
    set->nots = piece(block, &used, counts->watches, sizeof *set->nots);
    set->accept_ranks = piece(block, &used, words_of(counts->nodes), sizeof *set->accept_ranks);
    set->accept_first = piece(block, &used, counts->accept_nodes + 1u, sizeof *set->accept_first);
    set->accept_sources = piece(block, &used, counts->accepts, sizeof *set->accept_sources);
    set->policies = piece(block, &used, counts->policies, sizeof *set->policies);
    set->texts = piece(block, &used, counts->texts, 1);
    return used;
}

size_t trig_set_bytes(const struct trig_counts *counts)
{
    struct dev_trigger_set set = {0};
    return lay_out(&set, counts, NULL);
}

// Literals of one symbol get neighbouring numbers; build->literals[i].to is the number in the set.
static void number_literals(struct trig_build *build, struct dev_trigger_set *set)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < build->counts.symbols; i++) {
        struct build_symbol *symbol = &build->symbols[i];
        symbol->first = next;
        symbol->placed = 0;
        next += symbol->literals;
        uint32_t at = trig_place(symbol->key, set->counts.symbol_places);
        while (set->symbols[at].count != 0) {
            at = at + 1 == set->counts.symbol_places ? 0 : at + 1;
        }
        set->symbols[at] = (struct trig_symbol){
            .key = symbol->key, .first = symbol->first, .count = symbol->literals};
    }
    for (uint32_t i = 0; i < build->counts.literals; i++) {
        struct build_symbol *symbol = &build->symbols[build->literals[i].symbol_index];
        build->literals[i].to = symbol->first + symbol->placed++;
    }
}

// Tests and lists of literals, in the set's order. Lists are filled later; here are their places.
static void place_literals(const struct trig_build *build, struct dev_trigger_set *set)
{
    uint32_t count = build->counts.literals;
    for (uint32_t i = 0; i < count; i++) { // sizes first
        const struct build_literal *from = &build->literals[i];
        set->literals[from->to] = (struct trig_literal){.symbol = from->symbol,
                                                        .roots = from->roots,
                                                        .gaps = from->gaps,
                                                        .keyed_gaps = from->keyed_gaps,
                                                        .watches = from->watches,
                                                        .tests = from->test_count,
                                                        .flags = from->flags};
    }
    set->literals[count] = (struct trig_literal){0};
    struct trig_literal at = {0};
    for (uint32_t i = 0; i <= count; i++) { // then sums
        struct trig_literal size = set->literals[i];
        set->literals[i].roots = at.roots;
        set->literals[i].gaps = at.gaps;
        set->literals[i].keyed_gaps = at.keyed_gaps;
        set->literals[i].watches = at.watches;
        set->literals[i].tests = at.tests;
        at.roots += size.roots;
        at.gaps += size.gaps;
        at.keyed_gaps += size.keyed_gaps;
        at.watches += size.watches;
        at.tests += size.tests;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct build_literal *from = &build->literals[i];
        for (uint32_t t = 0; t < from->test_count; t++) {
            set->tests[set->literals[from->to].tests + t] = build->tests[from->tests + t];
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
        uint32_t literal = from->label & TRIG_LITERAL_MASK;
        uint32_t edge = trig_edge(from->label);
        if (edge == TRIG_EDGE_ADJACENT || edge == TRIG_EDGE_GAPPED || edge == TRIG_EDGE_NOT) {
            literal = build->literals[literal].to;
        }
        set->nodes[i] = (struct trig_node){
            .parent_flags = from->parent | from->flags << 24,
            .label = trig_label(edge, literal) | (from->label & TRIG_PAGE_BIT) |
                     class_of_life(from->life_ms) << TRIG_CLASS_SHIFT,
        };
    }
}

static void place_slot(struct dev_trigger_set *set, uint32_t node)
{
    uint64_t hash = trig_edge_hash(trig_parent(set->nodes[node]), set->nodes[node].label);
    uint32_t at = trig_place(hash, set->counts.slots);
    while (set->slots[at].node != TRIG_SLOT_FREE) {
        at = at + 1 == set->counts.slots ? 0 : at + 1;
    }
    set->slots[at] = (struct trig_slot){.tag = (uint32_t)hash, .node = node};
}

// Edges go into the hash and into the lists. While lists are filled, a literal's firsts run ahead
// to where those of the next one began; afterwards they are set back by one literal.
static void place_edges(struct dev_trigger_set *set)
{
    memset(set->slots, 0xff, set->counts.slots * sizeof *set->slots);
    uint32_t anys = 0;
    for (uint32_t i = 0; i < set->counts.nodes; i++) {
        uint32_t edge = trig_edge(set->nodes[i].label);
        if (edge == TRIG_EDGE_ROOT) {
            continue;
        }
        struct trig_node parent = set->nodes[trig_parent(set->nodes[i])];
        struct trig_literal *literal = &set->literals[set->nodes[i].label & TRIG_LITERAL_MASK];
        bool at_root = trig_edge(parent.label) == TRIG_EDGE_ROOT;
        if (edge == TRIG_EDGE_NOT) {
            set->watches[literal->watches++] = i;
            continue;
        }
        if (at_root && edge == TRIG_EDGE_ANY) {
            set->root_anys[anys++] = i;
        } else if (at_root) {
            set->roots[literal->roots++] = i;
        } else if (edge == TRIG_EDGE_GAPPED && (trig_flags(parent) & TRIG_KEYED) != 0) {
            set->keyed_gaps[literal->keyed_gaps++] = i;
        } else if (edge == TRIG_EDGE_GAPPED) {
            set->gaps[literal->gaps++] = i;
        }
        if (!at_root) {
            place_slot(set, i);
        }
    }
    for (uint32_t i = set->counts.literals; i-- > 0;) {
        struct trig_literal *literal = &set->literals[i];
        const struct trig_literal *before = i > 0 ? literal - 1 : &(struct trig_literal){0};
        literal->roots = before->roots;
        literal->gaps = before->gaps;
        literal->keyed_gaps = before->keyed_gaps;
        literal->watches = before->watches;
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
    build->ready = 0; // what is sorted and numbered below serves once
    memset(memory, 0, build->certificate.set_bytes);
    struct dev_trigger_set *set = memory;
    set->secret = build->options.secret;
    set->work_max = build->options.work_max;
    set->counts = build->counts;
    set->certificate = build->certificate;
    (void)lay_out(set, &build->counts, memory);
    number_literals(build, set);
    place_literals(build, set);
    place_nodes(build, set);
    place_edges(set);
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

uint32_t dev_trigger_source_count(const struct dev_trigger_set *set)
{
    return set->counts.sources;
}

uint64_t dev_trigger_source_key(const struct dev_trigger_set *set, uint32_t source)
{
    return source < set->counts.sources ? set->sources[source].key : 0;
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
    uint64_t below = set->accept_bits[node / 64] & (((uint64_t)1 << node % 64) - 1);
    uint32_t rank = set->accept_ranks[node / 64] + (uint32_t)__builtin_popcountll(below);
    *out_first = set->accept_first[rank];
    *out_end = set->accept_first[rank + 1];
}

// The certificate: how many nodes can be live, how many patterns match and how many steps an event
// costs, for any history. Called by trigger_build.c (dev_trigger_certify) over the trie in scratch,
// on a device and where versions are published; no state. The engine allocates nothing and has no
// budget to check while events come, because these numbers bound it; a set that may cost more than
// its work_max is refused before it is compiled. A bound that is too high costs a place, one that
// is too low would be a fault.
#include "pipeline/trigger/trigger_build.h"

#include "base/check.h"

#include <string.h>

// What one event can reach. All states behind gaps may be remembered at once, so a segment (from a
// gap or a root to the next gap) may begin at any of them; what lies further inside a segment is
// live only if the last events were what its labels say. Take the last d events as given: then for
// each choice of how literal each label is (which of kind, name, page and item it fixes, with which
// tests, or `?`) there is one sequence of labels. So the nodes reached by one event are at most the
// sum, over these choices, of the greatest number of nodes that one sequence of labels has. The
// lattice of literals and wildcards over one symbol is counted exactly, and 100,000 different
// sequences of literals count once.

#define SEGMENT_AT_ROOT 0x726f6f74u
#define SEGMENT_AT_GAP  0x67617073u
#define ANY_LABEL       0x616e79u

static uint64_t chain(uint64_t hash, uint64_t value)
{
    return base_mix64(hash ^ base_mix64(value)) | 1;
}

static bool is_literal(uint32_t label)
{
    return trig_edge(label) == TRIG_EDGE_ADJACENT || trig_edge(label) == TRIG_EDGE_GAPPED;
}

static void hash_paths(struct trig_build *build)
{
    for (uint32_t i = 0; i < build->counts.nodes; i++) {
        struct build_node *node = &build->nodes[i];
        uint32_t edge = trig_edge(node->label);
        node->multiple = false;
        if (edge == TRIG_EDGE_ROOT || edge == TRIG_EDGE_NOT) {
            node->path = node->mask = edge == TRIG_EDGE_ROOT ? SEGMENT_AT_ROOT : SEGMENT_AT_GAP;
            continue;
        }
        base_assert(node->parent < i); // whose path is known
        const struct build_node *parent = &build->nodes[node->parent];
        bool gapped = edge == TRIG_EDGE_GAPPED;
        uint64_t path = gapped ? SEGMENT_AT_GAP : parent->path;
        uint64_t mask = gapped ? SEGMENT_AT_GAP : parent->mask;
        const struct build_literal *literal = &build->literals[node->label & TRIG_LITERAL_MASK];
        bool marked = is_literal(node->label) && (literal->flags & TRIG_LIT_MARKED) != 0;
        node->path = chain(path, is_literal(node->label) ? chain(literal->symbol, literal->form)
                                                         : ANY_LABEL);
        node->mask = chain(mask, is_literal(node->label) ? literal->form : ANY_LABEL);
        node->multiple =
            !marked && (gapped ? (parent->flags & TRIG_ITEMIZED) != 0 : parent->multiple);
    }
}

static struct build_sum *sum_of(struct build_sum *table, uint32_t places, uint64_t key)
{
    base_assert(key != 0 && (places & (places - 1)) == 0);
    uint32_t at = (uint32_t)(key >> 8) & (places - 1);
    while (table[at].key != 0 && table[at].key != key) {
        at = (at + 1) & (places - 1);
    }
    table[at].key = key;
    return &table[at];
}

// The sums above, over all masks. They only grow with more patterns.
static void sum_masks(struct trig_build *build, uint64_t totals[SUM_COUNT])
{
    base_assert(build->counts.nodes <= build->table / 2); // so that probing ends
    memset(build->paths, 0, build->table * sizeof *build->paths);
    memset(build->masks, 0, build->table * sizeof *build->masks);
    memset(totals, 0, SUM_COUNT * sizeof *totals);
    for (uint32_t i = 0; i < build->counts.nodes; i++) {
        const struct build_node *node = &build->nodes[i];
        uint32_t edge = trig_edge(node->label);
        if (edge == TRIG_EDGE_ROOT || edge == TRIG_EDGE_NOT) {
            continue; // no event reaches it
        }
        bool keyed = (node->flags & TRIG_KEYED) != 0;
        bool live = (node->flags & (TRIG_ADJ | TRIG_ANY)) != 0;
        struct build_sum *path = sum_of(build->paths, build->table, node->path);
        struct build_sum *mask = sum_of(build->masks, build->table, node->mask);
        path->sums[keyed ? SUM_KEYED_REACHED : SUM_REACHED]++;
        path->sums[keyed ? SUM_KEYED_LIVE : SUM_LIVE] += live;
        path->sums[SUM_WEIGHT] += node->weight;
        path->sums[SUM_ACCEPTS] += node->accepts;
        for (uint32_t k = 0; k < SUM_COUNT; k++) {
            if (path->sums[k] > mask->sums[k]) {
                totals[k] += path->sums[k] - mask->sums[k];
                mask->sums[k] = path->sums[k];
            }
        }
    }
}

// Lists per literal, and how large everything in the set is.
static void count_lists(struct trig_build *build)
{
    struct trig_counts *counts = &build->counts;
    base_assert(counts->accept_nodes == 0 && counts->sticky == 0);
    base_assert(counts->keyed_sticky == 0 && counts->root_anys == 0);
    for (uint32_t i = 0; i < counts->literals; i++) {
        struct build_literal *literal = &build->literals[i];
        literal->roots = literal->gaps = literal->keyed_gaps = literal->watches = 0;
    }
    for (uint32_t i = 0; i < counts->nodes; i++) {
        const struct build_node *node = &build->nodes[i];
        uint32_t edge = trig_edge(node->label);
        bool keyed = (node->flags & TRIG_KEYED) != 0;
        counts->accept_nodes += (node->flags & TRIG_ACCEPT) != 0;
        *(keyed ? &counts->keyed_sticky : &counts->sticky) += (node->flags & TRIG_GAP) != 0;
        if (edge == TRIG_EDGE_ROOT) {
            continue;
        }
        const struct build_node *parent = &build->nodes[node->parent];
        struct build_literal *literal = &build->literals[node->label & TRIG_LITERAL_MASK];
        bool at_root = trig_edge(parent->label) == TRIG_EDGE_ROOT;
        if (edge == TRIG_EDGE_NOT) {
            literal->watches++;
        } else if (at_root && edge == TRIG_EDGE_ANY) {
            counts->root_anys++;
        } else if (at_root) {
            literal->roots++;
        } else if (edge == TRIG_EDGE_GAPPED) {
            *((parent->flags & TRIG_KEYED) != 0 ? &literal->keyed_gaps : &literal->gaps) += 1;
        }
    }
    counts->lists = 0;
    for (uint32_t i = 0; i < counts->literals; i++) {
        const struct build_literal *literal = &build->literals[i];
        counts->lists += literal->roots + literal->gaps + literal->keyed_gaps + literal->watches;
    }
}

// What the literals that one event can match cost: of each shape, one symbol.
static uint64_t cost_of_literals(struct trig_build *build, uint32_t *out_matched_max)
{
    const struct trig_counts *counts = &build->counts;
    uint64_t dearest[DEV_TRIGGER_SHAPES] = {0};
    uint32_t most[DEV_TRIGGER_SHAPES] = {0};
    for (uint32_t i = 0; i < counts->symbols; i++) {
        build->symbols[i].cost = 0;
    }
    for (uint32_t i = 0; i < counts->literals; i++) {
        const struct build_literal *literal = &build->literals[i];
        uint32_t gaps = literal->gaps < counts->sticky ? literal->gaps : counts->sticky;
        uint32_t keyed =
            literal->keyed_gaps < counts->keyed_sticky ? literal->keyed_gaps : counts->keyed_sticky;
        build->symbols[literal->symbol_index].cost +=
            (uint64_t)1 + literal->test_count + literal->roots + gaps + keyed + literal->watches;
    }
    for (uint32_t i = 0; i < counts->symbols; i++) {
        const struct build_symbol *symbol = &build->symbols[i];
        uint32_t shape = symbol->shape;
        base_assert(shape < DEV_TRIGGER_SHAPES);
        dearest[shape] = dearest[shape] > symbol->cost ? dearest[shape] : symbol->cost;
        most[shape] = most[shape] > symbol->literals ? most[shape] : symbol->literals;
    }
    uint64_t cost = 0;
    *out_matched_max = 0;
    for (uint32_t shape = 0; shape < DEV_TRIGGER_SHAPES; shape++) {
        cost += dearest[shape] + ((counts->shapes >> shape & 1) != 0); // one look for the symbol
        *out_matched_max += most[shape];
    }
    return cost;
}

// Where one event may move the states of many items at once: at most how often each.
static uint32_t count_multiple(struct trig_build *build, uint32_t matched_max, bool *out_live)
{
    uint32_t widest = 0;
    *out_live = false;
    for (uint32_t i = 0; i < build->counts.nodes; i++) {
        struct build_node *node = &build->nodes[i];
        if (!node->multiple) {
            continue;
        }
        *out_live = *out_live || (node->flags & (TRIG_ADJ | TRIG_ANY)) != 0;
        widest = matched_max; // children of one node by one event: at most the matched literals
    }
    return widest;
}

static bool has_keyed_not(const struct trig_build *build)
{
    for (uint32_t i = 0; i < build->counts.watches; i++) {
        if ((build->nodes[(uint32_t)build->nots[i]].flags & TRIG_KEYED) != 0) {
            return true;
        }
    }
    return false;
}

static uint32_t to_u32(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

void trig_certify_build(struct trig_build *build)
{
    struct trig_counts *counts = &build->counts;
    base_assert(counts->nodes <= build->room.nodes && counts->literals <= build->room.literals);
    counts->accept_nodes = counts->sticky = counts->keyed_sticky = counts->root_anys = 0;
    hash_paths(build);
    count_lists(build);
    uint64_t totals[SUM_COUNT];
    sum_masks(build, totals);
    uint32_t matched = 0;
    uint64_t work = cost_of_literals(build, &matched);
    bool multiple_live = false;
    uint64_t keys = counts->keyed_sticky > 0 ? build->options.keys_max : 0;
    uint64_t multiple = count_multiple(build, matched, &multiple_live) * keys;
    uint64_t keyed_live = totals[SUM_KEYED_LIVE] + (multiple_live ? multiple + keys : 0);
    counts->keys = (uint32_t)keys;
    counts->keyed_reach = to_u32(totals[SUM_KEYED_REACHED] + multiple + (multiple_live ? keys : 0));

    work += (totals[SUM_LIVE] + keyed_live) * (matched + 1u);
    work += totals[SUM_WEIGHT] + counts->root_anys;
    work += 4 * multiple; // found, reached, remembered, ended
    work += has_keyed_not(build) ? keys : 0;
    work += counts->has_page ? keys : 0;     // the visit that ends
    work += counts->policies > 0 ? keys : 0; // those of a pattern with reset
    work += 4;                               // sweeping what expired
    build->certificate = (struct dev_trigger_certificate){
        .sources = counts->sources,
        .nodes = counts->nodes,
        .literals = counts->literals,
        .live_max = to_u32(totals[SUM_LIVE] + keyed_live),
        .reached_max = to_u32(totals[SUM_REACHED]),
        .fired_max = to_u32(totals[SUM_ACCEPTS]),
        .matched_max = matched,
        .work = work,
    };
}

// From one set to the next: what was matched so far lives on wherever the new set has the same
// prefix, symbol by symbol and test by test. Called by pipeline_tasks.c between two events, when
// tasks were changed; on the pipeline's thread. Both engines are there meanwhile: the old one is
// read only. Nodes have other numbers in the new set, so each state is found again by the path to
// its node, which has at most PATH_MAX_EDGES edges; policies move by their source keys.
#include "pipeline/trigger/trigger_engine.h"
#include "pipeline/trigger/trigger_match.h"

#include "base/check.h"

#include <string.h>

#define PATH_MAX_EDGES (DEV_PATTERN_STEPS_MAX + DEV_PATTERN_NOTS_MAX)

static bool same_test(const struct dev_trigger_set *a, uint32_t a_index,
                      const struct dev_trigger_set *b, uint32_t b_index)
{
    struct dev_pattern_test x = trig_test_of(a, a_index);
    struct dev_pattern_test y = trig_test_of(b, b_index);
    return base_str_equal(x.attr, y.attr) && base_str_equal(x.text, y.text) &&
           x.digits == y.digits && x.scale == y.scale && x.op == y.op && x.type == y.type;
}

static uint32_t map_literal(const struct dev_trigger_set *from, const struct dev_trigger_set *to,
                            uint32_t literal)
{
    base_assert(literal < from->counts.literals);
    const struct trig_literal *old = &from->literals[literal];
    struct trig_symbol key = from->symbols[old->symbol];
    uint32_t symbol = trig_find_symbol(to, (uint64_t)key.high << 32 | key.low);
    if (symbol == TRIG_NONE) {
        return TRIG_NONE;
    }
    for (uint32_t i = to->symbols[symbol].first; to->literals[i].symbol == symbol; i++) {
        const struct trig_literal *at = &to->literals[i];
        uint32_t tests = trig_tests(at[1]) - trig_tests(*at);
        bool same = trig_literal_flags(*at) == trig_literal_flags(*old) &&
                    tests == trig_tests(old[1]) - trig_tests(*old);
        for (uint32_t t = 0; same && t < tests; t++) {
            same = same_test(from, trig_tests(*old) + t, to, trig_tests(*at) + t);
        }
        if (same) {
            return i;
        }
    }
    return TRIG_NONE;
}

static uint32_t map_root(const struct dev_trigger_set *from, const struct dev_trigger_set *to,
                         uint32_t root)
{
    if (root < 2) {
        return root;
    }
    const struct trig_policy *policy = &from->policies[trig_policy_of_node(from, root)];
    uint32_t cursor = 0;
    uint32_t at = trig_policy_of_key(to, from->sources[policy->source].key, &cursor);
    if (at == TRIG_NONE || to->policies[at].kind != DEV_PATTERN_RESET) {
        return TRIG_NONE;
    }
    uint32_t mapped = to->policies[at].node_first;
    bool same = ((to->nodes[mapped].label ^ from->nodes[root].label) & TRIG_PAGE_BIT) == 0;
    return same ? mapped : TRIG_NONE;
}

static uint32_t child_in(const struct dev_trigger_set *to, uint32_t parent, uint32_t label)
{
    base_assert(parent < to->counts.nodes);
    uint32_t literal = label & TRIG_LITERAL_MASK;
    uint32_t edge = trig_edge(label);
    bool at_root = trig_edge(to->nodes[parent].label) == TRIG_EDGE_ROOT;
    if (edge != TRIG_EDGE_NOT && !at_root) {
        return trig_child(to, parent, label);
    }
    bool any = edge == TRIG_EDGE_ANY;
    const uint32_t *list = any ? to->root_anys : to->lists;
    uint32_t first = any ? 0 : to->literals[literal].first;
    uint32_t end = any ? to->counts.root_anys : to->literals[literal + 1].first;
    uint32_t kind = edge == TRIG_EDGE_NOT ? TRIG_LIST_WATCH : TRIG_LIST_ROOT;
    for (uint32_t i = first; i < end; i++) {
        uint32_t node = trig_entry_node(list[i]);
        if (trig_entry_kind(list[i]) == kind && trig_parent(to->nodes[node]) == parent) {
            return node;
        }
    }
    return TRIG_NONE;
}

static uint32_t map_node(const struct dev_trigger_set *from, const struct dev_trigger_set *to,
                         uint32_t node)
{
    base_assert(node < from->counts.nodes);
    uint32_t labels[PATH_MAX_EDGES];
    uint32_t count = 0;
    while (trig_edge(from->nodes[node].label) != TRIG_EDGE_ROOT) {
        if (count == PATH_MAX_EDGES) {
            return TRIG_NONE;
        }
        labels[count++] = from->nodes[node].label;
        node = trig_parent(from->nodes[node]);
    }
    uint32_t at = map_root(from, to, node);
    while (count > 0 && at != TRIG_NONE) {
        uint32_t label = labels[--count];
        uint32_t literal = 0;
        if (trig_edge(label) != TRIG_EDGE_ANY) {
            literal = map_literal(from, to, label & TRIG_LITERAL_MASK);
        }
        at = literal == TRIG_NONE ? TRIG_NONE
                                  : child_in(to, at, trig_label(trig_edge(label), literal));
    }
    return at;
}

// The node of the new set, if it has the flags for such a state.
static uint32_t place_for(const struct dev_trigger_engine *from, struct dev_trigger_engine *to,
                          uint32_t node, uint32_t wanted)
{
    uint32_t at = map_node(from->set, to->set, node);
    if (at == TRIG_NONE || (trig_flags(to->set->nodes[at]) & wanted) == 0) {
        to->stats.lost_partials++;
        return TRIG_NONE;
    }
    return at;
}

static void carry_nodes(const struct dev_trigger_engine *from, struct dev_trigger_engine *to)
{
    for (uint32_t i = 0; i < from->sticky_count; i++) {
        uint32_t node = place_for(from, to, from->sticky[i], TRIG_GAP);
        if (node != TRIG_NONE) {
            trig_sticky_add(to, node, from->states[from->sticky[i]].start);
        }
    }
    for (uint32_t i = 0; i < from->live_count; i++) {
        uint32_t node = place_for(from, to, from->live[i].node, TRIG_ADJ | TRIG_ANY);
        if (node == TRIG_NONE) {
            continue;
        }
        if (to->live_count == to->set->certificate.reached_max) {
            to->stats.lost_partials++;
            continue;
        }
        to->live[to->live_count++] = (struct trig_reach){node, from->live[i].start};
    }
}

static void carry_keys(const struct dev_trigger_engine *from, struct dev_trigger_engine *to)
{
    for (uint32_t i = from->key_oldest; i != 0; i = from->keys[i - 1].age_prev) {
        const struct trig_key *key = &from->keys[i - 1];
        uint32_t node = place_for(from, to, key->node, TRIG_GAP);
        if (node != TRIG_NONE) {
            trig_keys_put(to, node, key->visit, key->item, key->start);
        }
    }
    for (uint32_t i = 0; i < from->keyed_live_count; i++) {
        struct trig_keyed_reach at = from->keyed_live[i];
        at.node = place_for(from, to, at.node, TRIG_ADJ | TRIG_ANY);
        if (at.node == TRIG_NONE) {
            continue;
        }
        if (to->keyed_live_count == to->set->counts.keyed_reach) {
            to->stats.lost_partials++;
            continue;
        }
        to->keyed_live[to->keyed_live_count++] = at;
    }
}

void dev_trigger_carry(const struct dev_trigger_engine *from, struct dev_trigger_engine *to)
{
    base_assert(from->set->secret == to->set->secret);
    base_assert(!to->clock.running && to->sticky_count == 0 && to->key_count == 0);
    to->clock = from->clock;
    to->last_seq = from->last_seq;
    to->stats = from->stats;
    uint32_t cursor = 0;
    for (uint32_t i = 0; i < from->set->counts.policies; i++) {
        uint64_t key = from->set->sources[from->set->policies[i].source].key;
        uint32_t at = trig_policy_of_key(to->set, key, &cursor);
        if (at != TRIG_NONE) {
            to->policies[at] = from->policies[i];
        }
    }
    carry_nodes(from, to);
    carry_keys(from, to);
    base_assert(dev_trigger_validate(to));
}

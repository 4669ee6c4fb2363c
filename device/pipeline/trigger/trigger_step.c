// How an event moves what is active: from the last event's nodes to their children, from nodes
// remembered behind gaps, from the roots. All of it reads the state as it was before the event and
// only lists what was reached; trigger_engine.c enters that afterwards. Called for each event.
#include "pipeline/trigger/trigger_engine.h"
#include "pipeline/trigger/trigger_match.h"

#include "base/check.h"

void trig_sticky_add(struct dev_trigger_engine *engine, uint32_t node, uint32_t start)
{
    base_assert((trig_flags(engine->set->nodes[node]) & (TRIG_GAP | TRIG_KEYED)) == TRIG_GAP);
    struct trig_state *state = &engine->states[node];
    state->start = start; // later starts expire later and have the same future
    if (state->mark == 0) {
        base_assert(engine->sticky_count < engine->set->counts.sticky);
        engine->sticky[engine->sticky_count++] = node;
        state->mark = engine->sticky_count;
        trig_set_active(engine, node);
    }
}

void trig_sticky_remove(struct dev_trigger_engine *engine, uint32_t node)
{
    struct trig_state *state = &engine->states[node];
    if (state->mark == 0) {
        return;
    }
    base_assert(state->mark <= engine->sticky_count && engine->sticky[state->mark - 1] == node);
    uint32_t moved = engine->sticky[--engine->sticky_count];
    engine->sticky[state->mark - 1] = moved;
    engine->states[moved].mark = state->mark;
    state->mark = 0;
    trig_set_idle(engine, node);
}

static void reach_keyed(struct dev_trigger_engine *engine, uint32_t node, uint32_t visit,
                        uint64_t item, uint32_t start)
{
    base_assert((trig_flags(engine->set->nodes[node]) & TRIG_KEYED) != 0);
    engine->work++;
    if (engine->keyed_next_count == engine->set->counts.keyed_reach) {
        engine->stats.evicted_keys++;
        return;
    }
    engine->keyed_next[engine->keyed_next_count++] =
        (struct trig_keyed_reach){.item = item, .node = node, .start = start, .visit = visit};
}

static bool is_marked(const struct dev_trigger_set *set, uint32_t node)
{
    uint32_t label = set->nodes[node].label;
    return trig_edge(label) != TRIG_EDGE_ANY &&
           (trig_literal_flags(set->literals[label & TRIG_LITERAL_MASK]) & TRIG_LIT_MARKED) != 0;
}

// From a parent that has one state.
static void reach(struct dev_trigger_engine *engine, const struct dev_event *event, uint32_t node,
                  uint32_t start)
{
    base_assert(node < engine->set->counts.nodes);
    const struct dev_trigger_set *set = engine->set;
    struct trig_node at = set->nodes[node];
    if ((trig_flags(at) & TRIG_KEYED) == 0) {
        engine->work++;
        __builtin_prefetch(&engine->states[node], 1);
        if (engine->next_count == set->certificate.reached_max) {
            engine->stats.lost_partials++; // stored state that no history leads to
            return;
        }
        engine->next[engine->next_count++] = (struct trig_reach){node, start};
        return;
    }
    bool page = (at.label & TRIG_PAGE_BIT) != 0;
    if (!page || event->visit != 0) {
        reach_keyed(engine, node, page ? event->visit : 0,
                    is_marked(set, node) ? event->item_hash : 0, start);
    }
}

static uint32_t start_below(const struct dev_trigger_engine *engine, uint32_t parent,
                            uint32_t start)
{
    bool untimed = (trig_flags(engine->set->nodes[parent]) & TRIG_UNTIMED) != 0;
    return untimed ? trig_now(engine) : start;
}

// ---- From the last event

static void from_live(struct dev_trigger_engine *engine, const struct dev_event *event)
{
    const struct dev_trigger_set *set = engine->set;
    for (uint32_t i = 0; i < engine->live_count; i++) {
        struct trig_reach at = engine->live[i];
        uint32_t flags = trig_flags(set->nodes[at.node]);
        uint32_t start = start_below(engine, at.node, at.start);
        if ((flags & TRIG_ANY) != 0) {
            engine->work++;
            uint32_t child = trig_child(set, at.node, trig_label(TRIG_EDGE_ANY, 0));
            reach(engine, event, child, start);
        }
        for (uint32_t k = 0; (flags & TRIG_ADJ) != 0 && k < engine->literal_count; k++) {
            engine->work++;
            uint32_t child =
                trig_child(set, at.node, trig_label(TRIG_EDGE_ADJACENT, engine->literals[k]));
            if (child != TRIG_NONE) {
                reach(engine, event, child, start);
            }
        }
    }
}

// The child of one keyed state, if visit and item agree.
static void move_keyed(struct dev_trigger_engine *engine, const struct dev_event *event,
                       uint32_t parent, uint32_t child, struct trig_keyed_reach from)
{
    base_assert(trig_parent(engine->set->nodes[child]) == parent);
    const struct dev_trigger_set *set = engine->set;
    bool marked = is_marked(set, child);
    bool itemized = (trig_flags(set->nodes[parent]) & TRIG_ITEMIZED) != 0;
    if ((from.visit != 0 && from.visit != event->visit) ||
        (marked && itemized && from.item != event->item_hash)) {
        return;
    }
    reach_keyed(engine, child, from.visit, marked ? event->item_hash : from.item,
                start_below(engine, parent, from.start));
}

static void from_keyed_live(struct dev_trigger_engine *engine, const struct dev_event *event)
{
    const struct dev_trigger_set *set = engine->set;
    for (uint32_t i = 0; i < engine->keyed_live_count; i++) {
        struct trig_keyed_reach at = engine->keyed_live[i];
        uint32_t flags = trig_flags(set->nodes[at.node]);
        if ((flags & TRIG_ANY) != 0) {
            engine->work++;
            uint32_t child = trig_child(set, at.node, trig_label(TRIG_EDGE_ANY, 0));
            move_keyed(engine, event, at.node, child, at);
        }
        for (uint32_t k = 0; (flags & TRIG_ADJ) != 0 && k < engine->literal_count; k++) {
            engine->work++;
            uint32_t child =
                trig_child(set, at.node, trig_label(TRIG_EDGE_ADJACENT, engine->literals[k]));
            if (child != TRIG_NONE) {
                move_keyed(engine, event, at.node, child, at);
            }
        }
    }
}

// ---- From behind gaps

static void from_sticky(struct dev_trigger_engine *engine, const struct dev_event *event,
                        uint32_t parent, uint32_t child)
{
    base_assert(trig_is_active(engine, parent));
    uint32_t start = engine->states[parent].start;
    if (trig_is_expired(engine, parent, start)) {
        trig_sticky_remove(engine, parent);
        return;
    }
    reach(engine, event, child, start);
}

// The smaller of the two: what is remembered, or where the literal stands behind a gap (the part
// [first, end) of its list).
static void over_gaps(struct dev_trigger_engine *engine, const struct dev_event *event,
                      uint32_t literal, uint32_t first, uint32_t end)
{
    base_assert(first <= end && end <= engine->set->counts.lists);
    const struct dev_trigger_set *set = engine->set;
    uint32_t label = trig_label(TRIG_EDGE_GAPPED, literal);
    if (end - first <= engine->sticky_count) {
        engine->work += end - first;
        for (uint32_t i = first; i < end; i++) {
            uint32_t parent = trig_entry_node(set->lists[i]);
            if (trig_is_active(engine, parent)) {
                from_sticky(engine, event, parent, trig_child(set, parent, label));
            }
        }
        return;
    }
    engine->work += engine->sticky_count;
    for (uint32_t i = engine->sticky_count; i-- > 0;) { // backwards: entries may be taken out
        uint32_t parent = engine->sticky[i];
        uint32_t child = trig_child(set, parent, label);
        if (child != TRIG_NONE) {
            from_sticky(engine, event, parent, child);
        }
    }
}

static void from_key(struct dev_trigger_engine *engine, const struct dev_event *event,
                     uint32_t child, uint32_t index)
{
    base_assert(index != 0 && index <= engine->key_places);
    const struct trig_key *key = &engine->keys[index - 1];
    struct trig_keyed_reach from = {
        .item = key->item, .node = key->node, .start = key->start, .visit = key->visit};
    move_keyed(engine, event, key->node, child, from);
}

static void from_keyed_sticky(struct dev_trigger_engine *engine, const struct dev_event *event,
                              uint32_t parent, uint32_t child)
{
    const struct dev_trigger_set *set = engine->set;
    base_assert((trig_flags(set->nodes[parent]) & TRIG_KEYED) != 0);
    bool page = (set->nodes[parent].label & TRIG_PAGE_BIT) != 0;
    bool itemized = (trig_flags(set->nodes[parent]) & TRIG_ITEMIZED) != 0;
    if (page && event->visit == 0) {
        return;
    }
    if (!itemized || is_marked(set, child)) {
        uint32_t index = trig_keys_find(engine, parent, page ? event->visit : 0,
                                        itemized ? event->item_hash : 0);
        if (index != 0) {
            from_key(engine, event, child, index);
        }
        return;
    }
    for (uint32_t index = engine->states[parent].start; index != 0;) { // the items of all states
        uint32_t next = engine->keys[index - 1].node_next;
        bool last = next == 0;
        engine->work++;
        if (trig_is_expired(engine, parent, engine->keys[index - 1].start)) {
            trig_keys_remove(engine, index);
        } else {
            from_key(engine, event, child, index);
        }
        index = last ? 0 : next;
    }
}

static void over_keyed_gaps(struct dev_trigger_engine *engine, const struct dev_event *event,
                            uint32_t literal, uint32_t first, uint32_t end)
{
    base_assert(first <= end && end <= engine->set->counts.lists);
    const struct dev_trigger_set *set = engine->set;
    uint32_t label = trig_label(TRIG_EDGE_GAPPED, literal);
    if (end - first <= engine->keyed_sticky_count) {
        engine->work += end - first;
        for (uint32_t i = first; i < end; i++) {
            uint32_t parent = trig_entry_node(set->lists[i]);
            if (trig_is_active(engine, parent)) {
                from_keyed_sticky(engine, event, parent, trig_child(set, parent, label));
            }
        }
        return;
    }
    engine->work += engine->keyed_sticky_count;
    for (uint32_t i = engine->keyed_sticky_count; i-- > 0;) {
        uint32_t parent = engine->keyed_sticky[i];
        uint32_t child = trig_child(set, parent, label);
        if (child != TRIG_NONE) {
            from_keyed_sticky(engine, event, parent, child);
        }
    }
}

// A literal's list from its two ends: roots and watches are few, keyed gaps come last.
static void over_list(struct dev_trigger_engine *engine, const struct dev_event *event,
                      uint32_t literal)
{
    base_assert(literal < engine->set->counts.literals);
    const struct dev_trigger_set *set = engine->set;
    uint32_t at = set->literals[literal].first;
    uint32_t end = set->literals[literal + 1].first;
    uint32_t now = trig_now(engine);
    for (; at < end && trig_entry_kind(set->lists[at]) == TRIG_LIST_ROOT; at++) {
        reach(engine, event, trig_entry_node(set->lists[at]), now);
    }
    for (; at < end && trig_entry_kind(set->lists[at]) == TRIG_LIST_WATCH; at++) {
        engine->watched = true;
    }
    if (at == end) {
        return;
    }
    uint32_t keyed = at;
    if (trig_entry_kind(set->lists[end - 1]) != TRIG_LIST_KEYED) {
        keyed = end;
    } else if (trig_entry_kind(set->lists[at]) != TRIG_LIST_KEYED) {
        uint32_t low = at; // the first keyed entry is in (low, high]
        uint32_t high = end - 1;
        while (high - low > 1) {
            uint32_t middle = low + (high - low) / 2;
            *(trig_entry_kind(set->lists[middle]) == TRIG_LIST_KEYED ? &high : &low) = middle;
        }
        keyed = high;
    }
    if (at < keyed && engine->sticky_count > 0) {
        over_gaps(engine, event, literal, at, keyed);
    }
    if (keyed < end && engine->keyed_sticky_count > 0) {
        over_keyed_gaps(engine, event, literal, keyed, end);
    }
}

void trig_advance(struct dev_trigger_engine *engine, const struct dev_event *event)
{
    base_assert(engine->next_count == 0 && engine->keyed_next_count == 0);
    const struct dev_trigger_set *set = engine->set;
    engine->watched = false;
    from_live(engine, event);
    from_keyed_live(engine, event);
    for (uint32_t k = 0; k < engine->literal_count; k++) {
        over_list(engine, event, engine->literals[k]);
    }
    for (uint32_t i = 0; i < set->counts.root_anys; i++) {
        reach(engine, event, set->root_anys[i], trig_now(engine));
    }
}

// ---- not .. before next

static void clear_keyed(struct dev_trigger_engine *engine, const struct dev_event *event,
                        uint32_t node)
{
    base_assert((trig_flags(engine->set->nodes[node]) & TRIG_KEYED) != 0);
    bool page = (engine->set->nodes[node].label & TRIG_PAGE_BIT) != 0;
    bool marked = is_marked(engine->set, node);
    for (uint32_t index = engine->states[node].mark != 0 ? engine->states[node].start : 0;
         index != 0;) {
        const struct trig_key *key = &engine->keys[index - 1];
        uint32_t next = key->node_next;
        engine->work++;
        if ((!page || key->visit == event->visit) && (!marked || key->item == event->item_hash)) {
            trig_keys_remove(engine, index);
        }
        index = next;
    }
}

void trig_clear_watched(struct dev_trigger_engine *engine, const struct dev_event *event)
{
    const struct dev_trigger_set *set = engine->set;
    base_assert(engine->watched && engine->literal_count > 0);
    for (uint32_t k = 0; k < engine->literal_count; k++) {
        uint32_t literal = engine->literals[k];
        uint32_t end = set->literals[literal + 1].first;
        for (uint32_t i = set->literals[literal].first; i < end; i++) {
            uint32_t kind = trig_entry_kind(set->lists[i]);
            uint32_t node = trig_entry_node(set->lists[i]);
            if (kind > TRIG_LIST_WATCH) {
                break;
            }
            if (kind == TRIG_LIST_ROOT) {
                continue;
            }
            engine->work++;
            if ((trig_flags(set->nodes[node]) & TRIG_KEYED) != 0) {
                clear_keyed(engine, event, node);
            } else {
                trig_sticky_remove(engine, node);
            }
        }
    }
}

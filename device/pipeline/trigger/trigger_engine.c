// The engine: memory, and what happens at an event, in this order: which literals does it match, is
// it new, how much time passed, what does it reach, what does it clear, what is entered, which
// patterns end, what do their policies say. One thread per engine; no allocation, no clock.
#include "pipeline/trigger/trigger_engine.h"

#include "pipeline/trigger/trigger_build.h"
#include "pipeline/trigger/trigger_match.h"

#include "base/carve.h"
#include "base/check.h"

#include <string.h>

// ---- Memory

static uint32_t match_max(const struct trig_counts *counts,
                          const struct dev_trigger_certificate *certificate)
{
    return certificate->fired_max < counts->sources ? certificate->fired_max : counts->sources;
}

static size_t lay_out(struct dev_trigger_engine *engine, const struct trig_counts *counts,
                      const struct dev_trigger_certificate *certificate, uint8_t *block)
{
    base_assert(block == NULL || block == (void *)engine); // which is the first piece of it
    struct base_carver carver = {.block = block, .capacity = SIZE_MAX, .alignment = 8};
    (void)base_carve(&carver, 1, sizeof *engine);
    uint32_t reached = certificate->reached_max;
    uint32_t matches = match_max(counts, certificate);
    engine->match_max = matches;
    engine->key_places = counts->keys;
    engine->states = base_carve(&carver, counts->nodes, sizeof *engine->states);
    engine->active = base_carve(&carver, (counts->nodes + 63) / 64, sizeof *engine->active);
    engine->sticky = base_carve(&carver, counts->sticky, sizeof *engine->sticky);
    engine->keyed_sticky = base_carve(&carver, counts->keyed_sticky, sizeof *engine->keyed_sticky);
    engine->live = base_carve(&carver, reached, sizeof *engine->live);
    engine->next = base_carve(&carver, reached, sizeof *engine->next);
    engine->keyed_live = base_carve(&carver, counts->keyed_reach, sizeof *engine->keyed_live);
    engine->keyed_next = base_carve(&carver, counts->keyed_reach, sizeof *engine->keyed_next);
    engine->keys = base_carve(&carver, counts->keys, sizeof *engine->keys);
    engine->key_table = base_carve(&carver, counts->keys, sizeof *engine->key_table);
    engine->literals = base_carve(&carver, certificate->matched_max, sizeof *engine->literals);
    engine->matches = base_carve(&carver, matches, sizeof *engine->matches);
    engine->fired = base_carve(&carver, matches, sizeof *engine->fired);
    engine->match_of = base_carve(&carver, counts->sources, sizeof *engine->match_of);
    engine->policies = base_carve(&carver, counts->policies, sizeof *engine->policies);
    return carver.used;
}

size_t trig_state_bytes(const struct trig_counts *counts,
                        const struct dev_trigger_certificate *certificate)
{
    struct dev_trigger_engine engine = {0};
    return lay_out(&engine, counts, certificate, NULL);
}

enum base_status dev_trigger_init(const struct dev_trigger_set *set, void *memory,
                                  size_t memory_bytes, struct dev_trigger_engine **out)
{
    base_assert((uintptr_t)memory % 8 == 0);
    if (memory_bytes < set->certificate.state_bytes) {
        return BASE_ERR_NOMEM;
    }
    memset(memory, 0, set->certificate.state_bytes);
    struct dev_trigger_engine *engine = memory;
    engine->set = set;
    size_t used = lay_out(engine, &set->counts, &set->certificate, memory);
    base_assert(used == set->certificate.state_bytes);
    trig_keys_init(engine);
    *out = engine;
    return BASE_OK;
}

// ---- An event

static void add_match(struct dev_trigger_engine *engine, uint32_t source, struct trig_match match)
{
    base_assert(source < engine->set->counts.sources);
    bool once = engine->set->sources[source].variants == 1 &&
                (trig_flags(engine->set->nodes[match.node]) & TRIG_KEYED) == 0;
    uint32_t at = once ? engine->match_count : engine->match_of[source];
    if (at >= engine->match_count || engine->matches[at].source != source) {
        if (engine->match_count == engine->match_max) {
            engine->stats.lost_partials++; // as in reach()
            return;
        }
        engine->match_of[source] = engine->match_count;
        engine->matches[engine->match_count++] = match;
        return;
    }
    struct trig_match *have = &engine->matches[at];
    uint32_t now = trig_now(engine);
    if (now - match.start < now - have->start) { // the latest start speaks for the pattern
        *have = match;
    }
}

static void end_at(struct dev_trigger_engine *engine, struct trig_keyed_reach at)
{
    const struct dev_trigger_set *set = engine->set;
    uint32_t first;
    uint32_t end;
    trig_accepts(set, at.node, &first, &end);
    engine->work += end - first;
    base_assert(first < end && end <= set->counts.accepts);
    for (uint32_t i = first; i < end; i++) {
        uint32_t source = set->accept_sources[i];
        uint32_t within = set->sources[source].within_ms;
        if (within == 0 || trig_now(engine) - at.start <= within) {
            add_match(engine, source,
                      (struct trig_match){.item = at.item,
                                          .source = source,
                                          .node = at.node,
                                          .start = at.start,
                                          .visit = at.visit});
        }
    }
}

static void remember(struct dev_trigger_engine *engine, uint32_t node,
                     const struct trig_keyed_reach *at, bool keyed)
{
    base_assert(((trig_flags(engine->set->nodes[node]) & TRIG_KEYED) != 0) == keyed);
    engine->work++;
    if (keyed) {
        trig_keys_put(engine, node, at->visit, at->item, at->start);
    } else {
        trig_sticky_add(engine, node, at->start);
    }
}

static void enter(struct dev_trigger_engine *engine, struct trig_keyed_reach at, bool keyed)
{
    base_assert(at.node < engine->set->counts.nodes);
    const struct dev_trigger_set *set = engine->set;
    uint32_t flags = trig_flags(set->nodes[at.node]);
    if ((flags & TRIG_ACCEPT) != 0) {
        end_at(engine, at);
    }
    if ((flags & TRIG_GAP) != 0) {
        remember(engine, at.node, &at, keyed);
    }
    if ((flags & TRIG_NOTS) == 0) {
        return;
    }
    for (uint32_t i = trig_first_not(set, at.node);
         i < set->counts.watches && trig_parent(set->nodes[set->nots[i]]) == at.node; i++) {
        remember(engine, set->nots[i], &at, keyed);
    }
}

static void enter_all(struct dev_trigger_engine *engine)
{
    base_assert(engine->next_count <= engine->set->certificate.reached_max);
    base_assert(engine->keyed_next_count <= engine->set->counts.keyed_reach);
    engine->match_count = 0;
    for (uint32_t i = 0; i < engine->next_count; i++) {
        struct trig_reach at = engine->next[i];
        enter(engine, (struct trig_keyed_reach){.node = at.node, .start = at.start}, false);
    }
    for (uint32_t i = 0; i < engine->keyed_next_count; i++) {
        enter(engine, engine->keyed_next[i], true);
    }
}

static bool lives_on(const struct dev_trigger_engine *engine, uint32_t node)
{
    return (trig_flags(engine->set->nodes[node]) & (TRIG_ADJ | TRIG_ANY)) != 0 &&
           !trig_was_reset(engine, node);
}

// What was reached and has children at the next event is live until then.
static void swap_live(struct dev_trigger_engine *engine)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < engine->next_count; i++) {
        if (lives_on(engine, engine->next[i].node)) {
            engine->next[kept++] = engine->next[i];
        }
    }
    struct trig_reach *live = engine->live;
    engine->live = engine->next;
    engine->live_count = kept;
    engine->next = live;
    engine->next_count = 0;
    kept = 0;
    for (uint32_t i = 0; i < engine->keyed_next_count; i++) {
        if (lives_on(engine, engine->keyed_next[i].node)) {
            engine->keyed_next[kept++] = engine->keyed_next[i];
        }
    }
    struct trig_keyed_reach *keyed_live = engine->keyed_live;
    engine->keyed_live = engine->keyed_next;
    engine->keyed_live_count = kept;
    engine->keyed_next = keyed_live;
    engine->keyed_next_count = 0;
    base_assert(engine->live_count <= engine->set->certificate.reached_max);
    base_assert(engine->keyed_live_count <= engine->set->counts.keyed_reach);
    if (engine->reset_count > 0) {
        trig_end_resets(engine);
    }
}

// A step or two at each event: states that no pattern can use any more leave room.
static void sweep_expired(struct dev_trigger_engine *engine)
{
    for (uint32_t i = 0; i < 2 && engine->sticky_count > 0; i++) {
        engine->sweep_at = engine->sweep_at + 1 < engine->sticky_count ? engine->sweep_at + 1 : 0;
        base_assert(engine->sweep_at < engine->sticky_count);
        uint32_t node = engine->sticky[engine->sweep_at];
        engine->work++;
        if (trig_is_expired(engine, node, engine->states[node].start)) {
            trig_sticky_remove(engine, node);
        }
    }
    for (uint32_t i = 0; i < 2 && engine->key_oldest != 0; i++) {
        const struct trig_key *oldest = &engine->keys[engine->key_oldest - 1];
        engine->work++;
        if (!trig_is_expired(engine, oldest->node, oldest->start)) {
            break;
        }
        trig_keys_remove(engine, engine->key_oldest);
    }
}

static bool is_new(struct dev_trigger_engine *engine, const struct dev_event *event)
{
    if (engine->clock.running) {
        uint64_t ahead = event->seq - engine->last_seq;
        if (ahead == 0 || ahead > INT64_MAX) {
            engine->stats.duplicates++;
            return false;
        }
        if (ahead > 1) {
            engine->stats.gaps++;
            engine->live_count = 0;
            engine->keyed_live_count = 0;
        }
    }
    engine->last_seq = event->seq;
    engine->stats.events++;
    return true;
}

static void end_event(struct dev_trigger_engine *engine, const struct dev_event *event)
{
    base_assert(engine->next_count == 0 && engine->keyed_next_count == 0);
    if (event->kind == DEV_EVENT_EXIT && event->visit != 0 && engine->set->counts.has_page) {
        trig_keys_remove_visit(engine, event->visit);
    }
    sweep_expired(engine);
    struct dev_trigger_stats *stats = &engine->stats;
    stats->work_seen_max =
        stats->work_seen_max > engine->work ? stats->work_seen_max : engine->work;
    stats->overruns += engine->work > engine->set->work_max;
}

// False: no match depends on the event. `out_seen` NULL: the engine is to see every one.
static bool look_up(struct dev_trigger_engine *engine, const struct dev_event *event,
                    bool *out_seen)
{
    struct trig_found found = trig_match_event(engine->set, event, engine->literals);
    engine->work = found.work;
    engine->literal_count = found.count;
    if (out_seen != NULL) {
        *out_seen = found.known || engine->set->counts.has_any;
    }
    return out_seen == NULL || *out_seen;
}

static const struct dev_trigger_fired *take_in(struct dev_trigger_engine *engine,
                                               const struct dev_event *event, uint32_t *out_count,
                                               bool *out_seen)
{
    *out_count = 0;
    if (!look_up(engine, event, out_seen) || !is_new(engine, event)) {
        return engine->fired;
    }
    trig_clock_advance(engine, event);
    if (engine->literal_count == 0 && engine->live_count == 0 && engine->keyed_live_count == 0 &&
        engine->set->counts.root_anys == 0) {
        end_event(engine, event);
        return engine->fired;
    }
    trig_advance(engine, event);
    if (engine->watched) {
        trig_clear_watched(engine, event);
    }
    enter_all(engine);
    if (engine->match_count > 0) {
        *out_count = trig_apply_policies(engine, event);
    }
    base_assert(*out_count <= engine->match_max);
    swap_live(engine);
    end_event(engine, event);
    return engine->fired;
}

const struct dev_trigger_fired *dev_trigger_on_event(struct dev_trigger_engine *engine,
                                                     const struct dev_event *event,
                                                     uint32_t *out_count)
{
    return take_in(engine, event, out_count, NULL);
}

const struct dev_trigger_fired *dev_trigger_on_wanted(struct dev_trigger_engine *engine,
                                                      const struct dev_event *event,
                                                      uint32_t *out_count, bool *out_seen)
{
    base_assert(out_seen != NULL);
    return take_in(engine, event, out_count, out_seen);
}

void dev_trigger_stats(const struct dev_trigger_engine *engine, struct dev_trigger_stats *out)
{
    *out = engine->stats;
    out->live_transient = engine->live_count + engine->keyed_live_count;
    out->live_sticky = engine->sticky_count;
    out->live_keys = engine->key_count;
}

// ---- Invariants

static bool lists_are_whole(const struct dev_trigger_engine *engine)
{
    base_assert(engine->sticky_count <= engine->set->counts.sticky);
    base_assert(engine->keyed_sticky_count <= engine->set->counts.keyed_sticky);
    for (uint32_t i = 0; i < engine->sticky_count; i++) {
        uint32_t node = engine->sticky[i];
        uint32_t flags = trig_flags(engine->set->nodes[node]);
        if (engine->states[node].mark != i + 1 || (flags & TRIG_GAP) == 0 ||
            (flags & TRIG_KEYED) != 0) {
            return false;
        }
    }
    for (uint32_t i = 0; i < engine->keyed_sticky_count; i++) {
        uint32_t node = engine->keyed_sticky[i];
        uint32_t flags = trig_flags(engine->set->nodes[node]);
        if (engine->states[node].mark != i + 1 || (flags & TRIG_GAP) == 0 ||
            (flags & TRIG_KEYED) == 0 || engine->states[node].start == 0) {
            return false;
        }
    }
    uint32_t marked = 0;
    for (uint32_t i = 0; i < engine->set->counts.nodes; i++) {
        marked += engine->states[i].mark != 0;
        if (trig_is_active(engine, i) != (engine->states[i].mark != 0)) {
            return false;
        }
    }
    return marked == engine->sticky_count + engine->keyed_sticky_count;
}

static bool keys_are_whole(const struct dev_trigger_engine *engine)
{
    uint32_t by_age = 0;
    uint32_t newer = 0;
    for (uint32_t i = engine->key_newest; i != 0; i = engine->keys[i - 1].age_next) {
        if (engine->keys[i - 1].age_prev != newer || ++by_age > engine->key_count) {
            return false;
        }
        newer = i;
    }
    uint32_t by_node = 0;
    for (uint32_t i = 0; i < engine->keyed_sticky_count; i++) {
        uint32_t node = engine->keyed_sticky[i];
        for (uint32_t k = engine->states[node].start; k != 0; k = engine->keys[k - 1].node_next) {
            if (engine->keys[k - 1].node != node || ++by_node > engine->key_count) {
                return false;
            }
        }
    }
    return newer == engine->key_oldest && by_age == engine->key_count &&
           by_node == engine->key_count;
}

bool dev_trigger_validate(const struct dev_trigger_engine *engine)
{
    return lists_are_whole(engine) && keys_are_whole(engine) && engine->next_count == 0 &&
           engine->live_count <= engine->set->certificate.reached_max &&
           engine->keyed_live_count <= engine->set->counts.keyed_reach;
}

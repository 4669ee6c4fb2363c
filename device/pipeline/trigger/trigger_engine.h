// An engine with its live state (trigger_live.h), and what its files call of each other. Shared by
// the files of the trigger engine; nobody else includes it.
#ifndef DEV_TRIGGER_ENGINE_H
#define DEV_TRIGGER_ENGINE_H

#include "pipeline/trigger/trigger_live.h"
#include "pipeline/trigger/trigger_set.h"

struct dev_trigger_engine {
    const struct dev_trigger_set *set;
    struct trig_clock clock;
    uint64_t last_seq;
    uint64_t work; // of this event
    struct trig_state *states;
    uint64_t *active; // bit per node: `mark` is not 0
    uint32_t *sticky;
    uint32_t *keyed_sticky;
    struct trig_reach *live;
    struct trig_reach *next;
    struct trig_keyed_reach *keyed_live;
    struct trig_keyed_reach *keyed_next;
    struct trig_key *keys;
    uint32_t *key_table; // `key_places`
    uint32_t *literals;  // that this event matches
    struct trig_match *matches;
    struct dev_trigger_fired *fired;
    uint32_t *match_of; // per source: where in `matches`, if that says so too
    struct trig_policy_state *policies;
    uint32_t sticky_count;
    uint32_t keyed_sticky_count;
    uint32_t live_count;
    uint32_t next_count;
    uint32_t keyed_live_count;
    uint32_t keyed_next_count;
    uint32_t literal_count;
    uint32_t match_count;
    uint32_t match_max;
    uint32_t reset_count; // patterns that this event reset
    uint32_t key_places;
    uint32_t key_free;   // 1 + index
    uint32_t key_newest; // 1 + index
    uint32_t key_oldest; // 1 + index
    uint32_t key_count;
    uint32_t sweep_at;
    bool watched; // a literal of this event stands in a `not`
    struct dev_trigger_stats stats;
};

static inline uint32_t trig_now(const struct dev_trigger_engine *engine)
{
    return (uint32_t)(engine->clock.us / 1000);
}

static inline bool trig_is_active(const struct dev_trigger_engine *engine, uint32_t node)
{
    return (engine->active[node / 64] >> node % 64 & 1) != 0;
}
static inline void trig_set_active(struct dev_trigger_engine *engine, uint32_t node)
{
    engine->active[node / 64] |= (uint64_t)1 << node % 64;
}
static inline void trig_set_idle(struct dev_trigger_engine *engine, uint32_t node)
{
    engine->active[node / 64] &= ~((uint64_t)1 << node % 64);
}

// Too old for every pattern below the node.
static inline bool trig_is_expired(const struct dev_trigger_engine *engine, uint32_t node,
                                   uint32_t start)
{
    uint32_t class_id = engine->set->nodes[node].label >> TRIG_CLASS_SHIFT;
    return class_id != TRIG_FOREVER && trig_now(engine) - start > 1u << class_id;
}

// ---- trigger_keys.c: states per visit and item
void trig_keys_init(struct dev_trigger_engine *engine);
// 1 + index; 0: there is none, or it was expired.
uint32_t trig_keys_find(struct dev_trigger_engine *engine, uint32_t node, uint32_t visit,
                        uint64_t item);
void trig_keys_put(struct dev_trigger_engine *engine, uint32_t node, uint32_t visit, uint64_t item,
                   uint32_t start);
void trig_keys_remove(struct dev_trigger_engine *engine, uint32_t key); // 1 + index
void trig_keys_remove_node(struct dev_trigger_engine *engine, uint32_t node);
void trig_keys_remove_visit(struct dev_trigger_engine *engine, uint32_t visit);

// ---- trigger_step.c: where an event moves what is active
void trig_sticky_add(struct dev_trigger_engine *engine, uint32_t node, uint32_t start);
void trig_sticky_remove(struct dev_trigger_engine *engine, uint32_t node);
void trig_advance(struct dev_trigger_engine *engine, const struct dev_event *event);
// Of an event with a literal that is watched.
void trig_clear_watched(struct dev_trigger_engine *engine, const struct dev_event *event);

// ---- trigger_clock.c
void trig_clock_advance(struct dev_trigger_engine *engine, const struct dev_event *event);

// ---- trigger_state.c
// The policy of the source with this key; *cursor (0 at first) is where the last one was found.
uint32_t trig_policy_of_key(const struct dev_trigger_set *set, uint64_t key, uint32_t *cursor);

// ---- trigger_policy.c
// The policy whose nodes end first behind `node`: of a node of a pattern with reset, its own.
uint32_t trig_policy_of_node(const struct dev_trigger_set *set, uint32_t node);
bool trig_was_reset(const struct dev_trigger_engine *engine, uint32_t node); // by this event
void trig_end_resets(struct dev_trigger_engine *engine);                     // when it reset any
uint32_t trig_apply_policies(struct dev_trigger_engine *engine, const struct dev_event *event);

#endif

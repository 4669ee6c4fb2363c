// States of KEYED nodes: one per node, visit and item, found by a hash, listed per node and by age.
// When all places are taken the one entered longest ago goes, and is counted. Called by the engine,
// on its thread.
#include "pipeline/trigger/trigger_engine.h"

#include "base/check.h"

#include <string.h>

static uint32_t *bucket_of(struct dev_trigger_engine *engine, uint32_t node, uint32_t visit,
                           uint64_t item)
{
    base_assert(engine->key_places > 0);
    uint64_t hash = base_mix64(base_mix64((uint64_t)node << 32 | visit) ^ item);
    return &engine->key_table[trig_place((uint32_t)(hash >> 32), engine->key_places)];
}

void trig_keys_init(struct dev_trigger_engine *engine)
{
    base_assert(engine->key_count == 0 && engine->key_newest == 0);
    uint32_t count = engine->set->counts.keys;
    for (uint32_t i = 0; i < count; i++) {
        engine->keys[i].hash_next = i + 1 < count ? i + 2 : 0;
    }
    engine->key_free = count > 0 ? 1 : 0;
}

static void unlink_age(struct dev_trigger_engine *engine, struct trig_key *key)
{
    *(key->age_prev != 0 ? &engine->keys[key->age_prev - 1].age_next : &engine->key_newest) =
        key->age_next;
    *(key->age_next != 0 ? &engine->keys[key->age_next - 1].age_prev : &engine->key_oldest) =
        key->age_prev;
}

static void link_newest(struct dev_trigger_engine *engine, uint32_t index)
{
    base_assert(index != 0 && index <= engine->key_places);
    struct trig_key *key = &engine->keys[index - 1];
    key->age_prev = 0;
    key->age_next = engine->key_newest;
    *(engine->key_newest != 0 ? &engine->keys[engine->key_newest - 1].age_prev
                              : &engine->key_oldest) = index;
    engine->key_newest = index;
}

static void forget_node(struct dev_trigger_engine *engine, uint32_t node)
{
    struct trig_state *state = &engine->states[node];
    base_check(state->mark != 0 && state->mark <= engine->keyed_sticky_count);
    uint32_t moved = engine->keyed_sticky[--engine->keyed_sticky_count];
    engine->keyed_sticky[state->mark - 1] = moved;
    engine->states[moved].mark = state->mark;
    state->mark = 0;
    trig_set_idle(engine, node);
}

void trig_keys_remove(struct dev_trigger_engine *engine, uint32_t index)
{
    base_assert(index != 0 && index <= engine->key_places && engine->key_count > 0);
    struct trig_key *key = &engine->keys[index - 1];
    uint32_t *link = bucket_of(engine, key->node, key->visit, key->item);
    while (*link != index) {
        base_check(*link != 0);
        link = &engine->keys[*link - 1].hash_next;
    }
    *link = key->hash_next;
    struct trig_state *state = &engine->states[key->node];
    *(key->node_prev != 0 ? &engine->keys[key->node_prev - 1].node_next : &state->start) =
        key->node_next;
    if (key->node_next != 0) {
        engine->keys[key->node_next - 1].node_prev = key->node_prev;
    }
    unlink_age(engine, key);
    if (state->start == 0) {
        forget_node(engine, key->node);
    }
    key->hash_next = engine->key_free;
    engine->key_free = index;
    engine->key_count--;
}

static uint32_t lookup(struct dev_trigger_engine *engine, uint32_t node, uint32_t visit,
                       uint64_t item)
{
    uint32_t index = *bucket_of(engine, node, visit, item);
    while (index != 0) {
        const struct trig_key *key = &engine->keys[index - 1];
        if (key->node == node && key->visit == visit && key->item == item) {
            return index;
        }
        index = key->hash_next;
    }
    return 0;
}

uint32_t trig_keys_find(struct dev_trigger_engine *engine, uint32_t node, uint32_t visit,
                        uint64_t item)
{
    uint32_t index = lookup(engine, node, visit, item);
    if (index != 0 && trig_is_expired(engine, node, engine->keys[index - 1].start)) {
        trig_keys_remove(engine, index);
        return 0;
    }
    return index;
}

static uint32_t take_free(struct dev_trigger_engine *engine)
{
    if (engine->key_free == 0) {
        base_assert(engine->key_count == engine->key_places);
        const struct trig_key *oldest = &engine->keys[engine->key_oldest - 1];
        engine->stats.evicted_keys += !trig_is_expired(engine, oldest->node, oldest->start);
        trig_keys_remove(engine, engine->key_oldest);
    }
    uint32_t index = engine->key_free;
    base_assert(index != 0 && engine->key_count < engine->key_places);
    engine->key_free = engine->keys[index - 1].hash_next;
    engine->key_count++;
    return index;
}

void trig_keys_put(struct dev_trigger_engine *engine, uint32_t node, uint32_t visit, uint64_t item,
                   uint32_t start)
{
    base_assert((trig_flags(engine->set->nodes[node]) & TRIG_KEYED) != 0);
    uint32_t index = lookup(engine, node, visit, item);
    if (index != 0) {
        unlink_age(engine, &engine->keys[index - 1]);
    } else {
        index = take_free(engine);
        struct trig_state *state = &engine->states[node];
        uint32_t *bucket = bucket_of(engine, node, visit, item);
        engine->keys[index - 1] = (struct trig_key){.item = item,
                                                    .node = node,
                                                    .visit = visit,
                                                    .hash_next = *bucket,
                                                    .node_next = state->start};
        *bucket = index;
        if (state->start != 0) {
            engine->keys[state->start - 1].node_prev = index;
        }
        state->start = index;
        if (state->mark == 0) {
            base_assert(engine->keyed_sticky_count < engine->set->counts.keyed_sticky);
            engine->keyed_sticky[engine->keyed_sticky_count++] = node;
            state->mark = engine->keyed_sticky_count;
            trig_set_active(engine, node);
        }
    }
    engine->keys[index - 1].start = start;
    link_newest(engine, index);
}

void trig_keys_remove_node(struct dev_trigger_engine *engine, uint32_t node)
{
    while (engine->states[node].mark != 0) {
        engine->work++;
        trig_keys_remove(engine, engine->states[node].start);
    }
}

void trig_keys_remove_visit(struct dev_trigger_engine *engine, uint32_t visit)
{
    for (uint32_t index = engine->key_newest; index != 0;) {
        uint32_t older = engine->keys[index - 1].age_next;
        engine->work++;
        if (engine->keys[index - 1].visit == visit) {
            trig_keys_remove(engine, index);
        }
        index = older;
    }
}

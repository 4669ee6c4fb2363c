// The bounded table of keys and the pool of their nodes. Called by the stream functions
// (event_stream.c, stream_window.c) on their owner's thread; no allocation, no state of its own. An
// index with open addressing finds a key, a list through all keys keeps the order of use, and each
// key has a list of nodes by (start, seq). Taking a key out moves later ones of its run forward, so
// no place is ever marked as deleted and probing stays short however long a device runs.
#include "pipeline/stream/keyed.h"

#include "base/carve.h"
#include "base/check.h"

#include <string.h>

static uint32_t index_size_of(uint32_t keys)
{
    uint32_t size = 4;
    while (size < 2 * keys) {
        size *= 2;
    }
    return size;
}

static void lay_out(struct dev_keyed *keyed, struct base_carver *carver)
{
    keyed->slots = base_carve(carver, keyed->slot_count, sizeof(keyed->slots[0]));
    keyed->index = base_carve(carver, keyed->index_size, sizeof(keyed->index[0]));
    keyed->pool = base_carve(carver, keyed->node_count, keyed->node_bytes);
}

size_t dev_keyed_bytes(uint32_t keys, uint32_t nodes, size_t node_bytes)
{
    struct base_carver carver = {.capacity = SIZE_MAX, .alignment = 8};
    struct dev_keyed keyed = {.slot_count = keys,
                              .index_size = index_size_of(keys),
                              .node_count = nodes,
                              .node_bytes = node_bytes};
    lay_out(&keyed, &carver);
    return carver.used;
}

void dev_keyed_init(struct dev_keyed *keyed, void *memory, uint32_t keys, uint32_t nodes,
                    size_t node_bytes)
{
    base_assert((uintptr_t)memory % 8 == 0 && node_bytes % 8 == 0);
    base_assert(node_bytes >= sizeof(struct dev_node));
    struct base_carver carver = {.block = memory, .capacity = SIZE_MAX, .alignment = 8};
    keyed->slot_count = keys;
    keyed->index_size = index_size_of(keys);
    keyed->node_count = nodes;
    keyed->node_bytes = node_bytes;
    lay_out(keyed, &carver);
    dev_keyed_clear(keyed);
}

void dev_keyed_clear(struct dev_keyed *keyed)
{
    memset(keyed->slots, 0, keyed->slot_count * sizeof(keyed->slots[0]));
    memset(keyed->index, 0xFF, keyed->index_size * sizeof(keyed->index[0]));
    keyed->keys = 0;
    keyed->free_slot = 0;
    keyed->newest = DEV_KEYED_NONE;
    keyed->oldest = DEV_KEYED_NONE;
    keyed->free_node = keyed->node_count > 0 ? 0 : DEV_KEYED_NONE;
    for (uint32_t i = 0; i < keyed->node_count; i++) {
        dev_keyed_node(keyed, i)->next = i + 1 < keyed->node_count ? i + 1 : DEV_KEYED_NONE;
    }
}

uint32_t dev_keyed_find(const struct dev_keyed *keyed, struct dev_value key)
{
    uint64_t hash = dev_value_hash(key);
    uint32_t mask = keyed->index_size - 1;
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        uint32_t slot = keyed->index[at];
        if (slot == DEV_KEYED_NONE) {
            return DEV_KEYED_NONE;
        }
        if (keyed->slots[slot].hash == hash &&
            dev_value_equal(dev_cell_get(&keyed->slots[slot].key), key)) {
            return slot;
        }
    }
}

// --- order of use

static void order_out(struct dev_keyed *keyed, uint32_t slot)
{
    struct dev_key_slot *key = &keyed->slots[slot];
    if (key->newer == DEV_KEYED_NONE) {
        keyed->newest = key->older;
    } else {
        keyed->slots[key->newer].older = key->older;
    }
    if (key->older == DEV_KEYED_NONE) {
        keyed->oldest = key->newer;
    } else {
        keyed->slots[key->older].newer = key->newer;
    }
}

static void order_in(struct dev_keyed *keyed, uint32_t slot)
{
    struct dev_key_slot *key = &keyed->slots[slot];
    key->newer = DEV_KEYED_NONE;
    key->older = keyed->newest;
    if (keyed->newest == DEV_KEYED_NONE) {
        keyed->oldest = slot;
    } else {
        keyed->slots[keyed->newest].newer = slot;
    }
    keyed->newest = slot;
}

void dev_keyed_touch(struct dev_keyed *keyed, uint32_t slot)
{
    base_assert(slot < keyed->slot_count && keyed->slots[slot].used);
    if (keyed->newest != slot) {
        order_out(keyed, slot);
        order_in(keyed, slot);
    }
}

// --- keys

uint32_t dev_keyed_insert(struct dev_keyed *keyed, struct dev_value key)
{
    base_assert(dev_keyed_find(keyed, key) == DEV_KEYED_NONE);
    if (dev_keyed_full(keyed)) {
        return DEV_KEYED_NONE;
    }
    uint32_t slot = keyed->free_slot;
    while (keyed->slots[slot].used) {
        slot++;
    }
    keyed->free_slot = slot + 1;
    struct dev_key_slot *added = &keyed->slots[slot];
    *added = (struct dev_key_slot){
        .hash = dev_value_hash(key),
        .first = DEV_KEYED_NONE,
        .last = DEV_KEYED_NONE,
        .used = true,
    };
    bool whole = dev_cell_set(&added->key, key);
    base_check(whole);
    keyed->keys++;
    order_in(keyed, slot);
    uint32_t mask = keyed->index_size - 1;
    uint32_t at = (uint32_t)added->hash & mask;
    while (keyed->index[at] != DEV_KEYED_NONE) {
        at = (at + 1) & mask;
    }
    keyed->index[at] = slot;
    return slot;
}

// Takes the entry out and moves later ones of its run forward, so that probing finds them.
static void index_remove(struct dev_keyed *keyed, uint32_t slot)
{
    uint32_t mask = keyed->index_size - 1;
    uint32_t hole = (uint32_t)keyed->slots[slot].hash & mask;
    while (keyed->index[hole] != slot) {
        hole = (hole + 1) & mask;
    }
    for (uint32_t at = (hole + 1) & mask; keyed->index[at] != DEV_KEYED_NONE;
         at = (at + 1) & mask) {
        uint32_t home = (uint32_t)keyed->slots[keyed->index[at]].hash & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            keyed->index[hole] = keyed->index[at];
            hole = at;
        }
    }
    keyed->index[hole] = DEV_KEYED_NONE;
}

void dev_keyed_remove(struct dev_keyed *keyed, uint32_t slot)
{
    base_assert(slot < keyed->slot_count && keyed->slots[slot].used && keyed->keys > 0);
    struct dev_key_slot *key = &keyed->slots[slot];
    while (key->first != DEV_KEYED_NONE) {
        dev_keyed_node_remove(keyed, slot, DEV_KEYED_NONE);
    }
    index_remove(keyed, slot);
    order_out(keyed, slot);
    key->used = false;
    keyed->keys--;
    keyed->free_slot = slot < keyed->free_slot ? slot : keyed->free_slot;
}

// --- nodes

// The last node that comes before (start, seq); NONE: there is none. New ones mostly come last.
static uint32_t node_before(const struct dev_keyed *keyed, const struct dev_key_slot *key,
                            uint64_t start, uint64_t seq)
{
    uint32_t before = DEV_KEYED_NONE;
    if (key->last != DEV_KEYED_NONE && dev_keyed_node(keyed, key->last)->start < start) {
        return key->last;
    }
    for (uint32_t at = key->first; at != DEV_KEYED_NONE; at = dev_keyed_node(keyed, at)->next) {
        const struct dev_node *node = dev_keyed_node(keyed, at);
        if (node->start > start || (node->start == start && dev_seq_before(seq, node->first_seq))) {
            break;
        }
        before = at;
    }
    return before;
}

uint32_t dev_keyed_node_add(struct dev_keyed *keyed, uint32_t slot, uint64_t start, uint64_t seq)
{
    base_assert(slot < keyed->slot_count && keyed->slots[slot].used);
    struct dev_key_slot *key = &keyed->slots[slot];
    uint32_t added = keyed->free_node;
    base_check(added != DEV_KEYED_NONE);
    struct dev_node *node = dev_keyed_node(keyed, added);
    keyed->free_node = node->next;
    uint32_t before = node_before(keyed, key, start, seq);
    *node = (struct dev_node){.start = start, .end = start, .first_seq = seq, .last_seq = seq};
    if (before == DEV_KEYED_NONE) {
        node->next = key->first;
        key->first = added;
    } else {
        node->next = dev_keyed_node(keyed, before)->next;
        dev_keyed_node(keyed, before)->next = added;
    }
    if (node->next == DEV_KEYED_NONE) {
        key->last = added;
    }
    key->nodes++;
    return added;
}

void dev_keyed_node_remove(struct dev_keyed *keyed, uint32_t slot, uint32_t before)
{
    base_assert(slot < keyed->slot_count && keyed->slots[slot].nodes > 0);
    struct dev_key_slot *key = &keyed->slots[slot];
    uint32_t gone = before == DEV_KEYED_NONE ? key->first : dev_keyed_node(keyed, before)->next;
    base_check(gone != DEV_KEYED_NONE);
    struct dev_node *node = dev_keyed_node(keyed, gone);
    if (before == DEV_KEYED_NONE) {
        key->first = node->next;
    } else {
        dev_keyed_node(keyed, before)->next = node->next;
    }
    if (key->last == gone) {
        key->last = before;
    }
    key->nodes--;
    node->next = keyed->free_node;
    keyed->free_node = gone;
}

bool dev_keyed_validate(const struct dev_keyed *keyed)
{
    base_assert(keyed->index_size >= 2 * keyed->slot_count); // so that probing ends
    uint32_t keys = 0;
    uint32_t nodes = 0;
    for (uint32_t slot = keyed->newest; slot != DEV_KEYED_NONE; slot = keyed->slots[slot].older) {
        const struct dev_key_slot *key = &keyed->slots[slot];
        if (!key->used || ++keys > keyed->keys ||
            dev_keyed_find(keyed, dev_cell_get(&key->key)) != slot) {
            return false;
        }
        uint32_t own = 0;
        uint64_t start = 0;
        for (uint32_t at = key->first; at != DEV_KEYED_NONE; at = dev_keyed_node(keyed, at)->next) {
            const struct dev_node *node = dev_keyed_node(keyed, at);
            if (++own > key->nodes || node->start < start) {
                return false;
            }
            start = node->start;
            if (node->next == DEV_KEYED_NONE && key->last != at) {
                return false;
            }
        }
        if (own != key->nodes) {
            return false;
        }
        nodes += own;
    }
    for (uint32_t at = keyed->free_node; at != DEV_KEYED_NONE && nodes <= keyed->node_count;
         at = dev_keyed_node(keyed, at)->next) {
        nodes++;
    }
    return keys == keyed->keys && nodes == keyed->node_count;
}

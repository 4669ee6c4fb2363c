// The map of value names behind onnx_graph.c; on the loading thread. Open addressing in the arena
// of one load, doubled when it is half full; nothing is ever taken out, and a name that is there
// already is told (EXISTS). Names are borrowed from the file and hashed under a seed drawn per map,
// since who writes a model also chooses its names.
#include "model/name_map.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/prng.h"

#include <string.h>

#define CAPACITY_MIN 64u

void eng_name_map_init(struct eng_name_map *map, struct base_arena *arena)
{
    *map = (struct eng_name_map){.arena = arena, .seed = base_entropy_u64()};
}

// The slot that holds the name, or the free one where it belongs.
static struct eng_name_slot *slot_of(struct eng_name_slot *slots, uint32_t capacity,
                                     const char *name, uint64_t hash)
{
    base_assert(capacity > 0 && (capacity & (capacity - 1)) == 0);
    for (uint32_t i = (uint32_t)hash & (capacity - 1);; i = (i + 1) & (capacity - 1)) {
        struct eng_name_slot *slot = &slots[i];
        if (slot->name == NULL || (slot->hash == hash && strcmp(slot->name, name) == 0)) {
            return slot;
        }
    }
}

static enum base_status grow(struct eng_name_map *map)
{
    base_assert(map->count == map->capacity / 2);
    uint32_t capacity = map->capacity == 0 ? CAPACITY_MIN : map->capacity * 2;
    struct eng_name_slot *slots = base_arena_zalloc(map->arena, capacity * sizeof(*slots));
    if (slots == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < map->capacity; i++) {
        const struct eng_name_slot *old = &map->slots[i];
        if (old->name != NULL) {
            *slot_of(slots, capacity, old->name, old->hash) = *old;
        }
    }
    map->slots = slots;
    map->capacity = capacity;
    return BASE_OK;
}

enum base_status eng_name_map_add(struct eng_name_map *map, const char *name, uint32_t number)
{
    if (map->count >= map->capacity / 2) {
        BASE_TRY(grow(map));
    }
    uint64_t hash = base_hash64_seed(name, strlen(name), map->seed);
    struct eng_name_slot *slot = slot_of(map->slots, map->capacity, name, hash);
    if (slot->name != NULL) {
        return BASE_ERR_EXISTS;
    }
    *slot = (struct eng_name_slot){name, hash, number};
    map->count++;
    base_assert(map->count <= map->capacity / 2); // so looking for a name comes to an end
    return BASE_OK;
}

bool eng_name_map_find(const struct eng_name_map *map, const char *name, uint32_t *out_number)
{
    if (map->count == 0) {
        return false;
    }
    uint64_t hash = base_hash64_seed(name, strlen(name), map->seed);
    const struct eng_name_slot *slot = slot_of(map->slots, map->capacity, name, hash);
    if (slot->name == NULL) {
        return false;
    }
    *out_number = slot->number;
    return true;
}

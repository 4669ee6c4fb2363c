// From names to numbers, while a graph is read. Open addressing in an arena; keys are borrowed and
// must outlive the map. Seeded per map, so that a file cannot choose names that collide.
#ifndef ENG_MODEL_NAME_MAP_H
#define ENG_MODEL_NAME_MAP_H

#include "base/arena.h"

#include <stdint.h>

struct eng_name_slot {
    const char *name; // NULL: free
    uint64_t hash;
    uint32_t number;
};

struct eng_name_map {
    struct base_arena *arena;
    struct eng_name_slot *slots;
    uint32_t capacity; // a power of two, at least twice `count`; 0 before the first name
    uint32_t count;
    uint64_t seed;
};

void eng_name_map_init(struct eng_name_map *map, struct base_arena *arena);
// EXISTS: the name is there already (its number stays). NOMEM.
BASE_NODISCARD enum base_status eng_name_map_add(struct eng_name_map *map, const char *name,
                                                 uint32_t number);
bool eng_name_map_find(const struct eng_name_map *map, const char *name, uint32_t *out_number);

#endif

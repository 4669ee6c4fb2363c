// Short ways of the interpreter's loop (patch_speed.py puts them into py/vm.c, py/map.c and
// py/runtime.c): what scripts do most, without calls. Each does what the longer way does, to the
// unit that is counted, or nothing; then it gives MP_OBJ_NULL, NULL or false and the longer way is
// taken. Included where MicroPython's own headers were.
#ifndef DEV_VM_FAST_H
#define DEV_VM_FAST_H

#include "py/runtime.h"

// Where the cache of places has an object: names and small numbers next to each other lie apart.
#define DEV_FAST_AT(key)                                                                           \
    ((((uintptr_t)(key) >> 3) + (((uintptr_t)(key)&7) << 4)) % MICROPY_OPT_MAP_LOOKUP_CACHE_SIZE)

// hash % alloc: a division of 64 bits takes twice as long as one of 32.
static inline size_t dev_fast_place(mp_uint_t hash, size_t alloc)
{
    return (uint64_t)(hash | alloc) >> 32 == 0 ? (uint32_t)hash % (uint32_t)alloc : hash % alloc;
}

// The element whose key is this very object, where the cache knows it.
static inline mp_map_elem_t *dev_fast_find(const mp_map_t *map, mp_obj_t key)
{
    size_t at = MP_STATE_VM(map_lookup_cache)[DEV_FAST_AT(key)];
    mp_map_elem_t *elem = &map->table[at];
    return at < map->alloc && elem->key == key ? elem : NULL;
}

static inline mp_obj_t dev_fast_name(qstr name)
{
    mp_obj_dict_t *globals = mp_globals_get();
    mp_map_elem_t *elem = NULL;
    if (mp_locals_get() == globals) {
        elem = dev_fast_find(&globals->map, MP_OBJ_NEW_QSTR(name));
    }
    return elem != NULL ? elem->value : mp_load_name(name);
}

static inline mp_obj_t dev_fast_global(qstr name)
{
    mp_map_elem_t *elem = dev_fast_find(&mp_globals_get()->map, MP_OBJ_NEW_QSTR(name));
    return elem != NULL ? elem->value : mp_load_global(name);
}

static inline bool dev_fast_put(mp_obj_dict_t *dict, mp_obj_t key, mp_obj_t value)
{
    mp_map_elem_t *elem = dict->map.is_fixed ? NULL : dev_fast_find(&dict->map, key);
    if (elem == NULL) {
        return false;
    }
    elem->value = value;
    return true;
}

#endif

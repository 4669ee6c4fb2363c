// See dict_cache.h. The worker's thread.
#include "tunnel/dict_cache.h"

#include <stdlib.h>

struct slot {
    uint32_t id;
    uint64_t used;             // when, in calls
    struct gw_zstd_dict *dict; // NULL: free
};

struct gw_dict_cache {
    const struct gw_tunnel_dict_port *port;
    uint64_t clock;
    struct slot slots[GW_DICT_CACHE_MAX];
};

enum base_status gw_dict_cache_new(const struct gw_tunnel_dict_port *port,
                                   struct gw_dict_cache **out)
{
    struct gw_dict_cache *cache = calloc(1, sizeof(*cache));
    if (cache == NULL) {
        return BASE_ERR_NOMEM;
    }
    cache->port = port;
    *out = cache;
    return BASE_OK;
}

void gw_dict_cache_free(struct gw_dict_cache *cache)
{
    for (uint32_t i = 0; cache != NULL && i < GW_DICT_CACHE_MAX; i++) {
        gw_zstd_dict_free(cache->slots[i].dict);
    }
    free(cache);
}

static enum base_status load(const struct gw_dict_cache *cache, uint32_t id,
                             struct gw_zstd_dict **out)
{
    struct gw_store_bytes bytes;
    if (cache->port->load == NULL || id == 0) {
        return BASE_ERR_NOT_FOUND;
    }
    BASE_TRY(cache->port->load(cache->port->ctx, id, &bytes));
    *out = gw_zstd_dict_new(bytes.data, bytes.size);
    gw_store_bytes_done(&bytes);
    return *out != NULL ? BASE_OK : BASE_ERR_CORRUPT;
}

enum base_status gw_dict_cache_get(struct gw_dict_cache *cache, uint32_t id,
                                   const struct gw_zstd_dict **out)
{
    struct slot *oldest = &cache->slots[0];
    cache->clock++;
    for (uint32_t i = 0; i < GW_DICT_CACHE_MAX; i++) {
        struct slot *slot = &cache->slots[i];
        if (slot->dict != NULL && slot->id == id) {
            slot->used = cache->clock;
            *out = slot->dict;
            return BASE_OK;
        }
        oldest = slot->used < oldest->used ? slot : oldest; // free ones were never used
    }
    struct gw_zstd_dict *dict;
    BASE_TRY(load(cache, id, &dict));
    gw_zstd_dict_free(oldest->dict);
    *oldest = (struct slot){.id = id, .used = cache->clock, .dict = dict};
    *out = dict;
    return BASE_OK;
}

uint32_t gw_dict_cache_choose(const struct gw_dict_cache *cache, const uint32_t *ids,
                              uint32_t count)
{
    uint32_t chosen = 0;
    uint64_t newest = 0;
    for (uint32_t i = 0; cache->port->find != NULL && i < count; i++) {
        struct gw_tunnel_dict dict;
        if (ids[i] != 0 && cache->port->find(cache->port->ctx, ids[i], &dict) == BASE_OK &&
            (chosen == 0 || dict.created_s > newest)) {
            chosen = ids[i];
            newest = dict.created_s;
        }
    }
    return chosen;
}

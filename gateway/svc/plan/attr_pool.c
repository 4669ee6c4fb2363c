// The pool of attribute blocks: each distinct one once, found by a keyed hash with linear probing.
// Any thread; the mutex guards the table, the blocks never change and never go, so a pointer to one
// stays good. checkin_answer.c interns on a worker once for a new cohort, devices_store.c at start;
// preview.c, reach.c, floored.c and watch.c read blocks on their walks. Past the limit, or from a
// device that brings one after the other, a block gets number 0: its attributes are not known.
#include "svc/plan/attr_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 1024u
#define BRINGERS    65536u // devices are counted by a hash of their ids
#define HOUR_S      3600u

struct block {
    uint64_t hash;
    size_t size;
    uint8_t bytes[];
};

struct gw_attr_pool {
    pthread_mutex_t lock;
    struct block **blocks; // number - 1
    uint32_t count;
    uint32_t capacity;
    uint32_t *slots; // numbers, 0: free
    uint32_t slot_count;
    uint64_t probes_long;
    uint32_t hour;             // that `brought` is of
    uint8_t brought[BRINGERS]; // new blocks of it
    struct base_hash_key key;
};

enum base_status gw_attr_pool_new(const struct base_hash_key *key, struct gw_attr_pool **out_pool)
{
    struct gw_attr_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return BASE_ERR_NOMEM;
    }
    pool->slots = calloc(SLOTS_FIRST, sizeof(pool->slots[0]));
    if (pool->slots == NULL) {
        free(pool);
        return BASE_ERR_NOMEM;
    }
    pool->slot_count = SLOTS_FIRST;
    pool->key = *key;
    pthread_mutex_init(&pool->lock, NULL);
    *out_pool = pool;
    return BASE_OK;
}

void gw_attr_pool_free(struct gw_attr_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    for (uint32_t i = 0; i < pool->count; i++) {
        free(pool->blocks[i]);
    }
    free(pool->blocks);
    free(pool->slots);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

// The slot of the block, or the free slot where it belongs.
static uint32_t probe(struct gw_attr_pool *pool, uint64_t hash, const uint8_t *bytes, size_t size)
{
    uint32_t mask = pool->slot_count - 1;
    uint32_t at = (uint32_t)hash & mask;
    uint32_t steps = 0;
    for (; pool->slots[at] != 0; at = (at + 1) & mask) {
        const struct block *block = pool->blocks[pool->slots[at] - 1];
        if (block->hash == hash && block->size == size && memcmp(block->bytes, bytes, size) == 0) {
            break;
        }
        steps++;
    }
    pool->probes_long += steps > BASE_PROBE_LONG;
    return at;
}

static bool grow_slots(struct gw_attr_pool *pool)
{
    uint32_t wanted = pool->slot_count * 2;
    uint32_t *slots = calloc(wanted, sizeof(slots[0]));
    if (slots == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < pool->count; i++) {
        uint32_t at = (uint32_t)pool->blocks[i]->hash & (wanted - 1);
        while (slots[at] != 0) {
            at = (at + 1) & (wanted - 1);
        }
        slots[at] = i + 1;
    }
    free(pool->slots);
    pool->slots = slots;
    pool->slot_count = wanted;
    return true;
}

static uint32_t add(struct gw_attr_pool *pool, uint64_t hash, const uint8_t *bytes, size_t size)
{
    if ((pool->count + 1) * 2 > pool->slot_count && !grow_slots(pool)) {
        return 0;
    }
    if (pool->count == pool->capacity) {
        uint32_t wanted = pool->capacity == 0 ? 256 : pool->capacity * 2;
        struct block **grown = realloc(pool->blocks, wanted * sizeof(grown[0]));
        if (grown == NULL) {
            return 0;
        }
        pool->blocks = grown;
        pool->capacity = wanted;
    }
    struct block *block = malloc(sizeof(*block) + size);
    if (block == NULL) {
        return 0;
    }
    block->hash = hash;
    block->size = size;
    memcpy(block->bytes, bytes, size);
    uint32_t at = probe(pool, hash, bytes, size);
    pool->blocks[pool->count++] = block;
    pool->slots[at] = pool->count;
    return pool->count;
}

// Counts one new block more of the device. False: it has brought its part of this hour.
static bool may_bring(struct gw_attr_pool *pool, const struct gw_attr_bringer *by)
{
    if (pool->count >= (by->proven ? GW_ATTR_POOL_MAX : GW_ATTR_POOL_UNPROVEN)) {
        return false;
    }
    if (by->device_id == 0) {
        return true;
    }
    if (pool->hour != by->now_s / HOUR_S) {
        pool->hour = by->now_s / HOUR_S;
        memset(pool->brought, 0, sizeof(pool->brought));
    }
    uint8_t *brought = &pool->brought[base_keyed64_u64(&pool->key, by->device_id) % BRINGERS];
    bool may = *brought < GW_ATTR_POOL_EACH_MAX;
    *brought = (uint8_t)(*brought + may);
    return may;
}

uint32_t gw_attr_pool_intern(struct gw_attr_pool *pool, const uint8_t *block, size_t size,
                             const struct gw_attr_bringer *by)
{
    if (size == 0) {
        return 0;
    }
    uint64_t hash = base_keyed64(&pool->key, block, size);
    pthread_mutex_lock(&pool->lock);
    uint32_t number = pool->slots[probe(pool, hash, block, size)];
    if (number == 0 && may_bring(pool, by)) {
        number = add(pool, hash, block, size);
    }
    pthread_mutex_unlock(&pool->lock);
    return number;
}

const uint8_t *gw_attr_pool_get(struct gw_attr_pool *pool, uint32_t number, size_t *out_size)
{
    *out_size = 0;
    const uint8_t *bytes = NULL;
    pthread_mutex_lock(&pool->lock);
    if (number > 0 && number <= pool->count) {
        bytes = pool->blocks[number - 1]->bytes;
        *out_size = pool->blocks[number - 1]->size;
    }
    pthread_mutex_unlock(&pool->lock);
    return bytes;
}

uint64_t gw_attr_pool_probes_long(struct gw_attr_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    uint64_t count = pool->probes_long;
    pthread_mutex_unlock(&pool->lock);
    return count;
}

uint32_t gw_attr_pool_count(struct gw_attr_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    uint32_t count = pool->count;
    pthread_mutex_unlock(&pool->lock);
    return count;
}

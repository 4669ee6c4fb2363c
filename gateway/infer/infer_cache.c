// The cache of infer_cache.h: a table by key and a list by use, under a lock of its own, so that
// copying an answer keeps no other call of the service. infer_service.c asks before a call waits,
// infer_run.c keeps what a run gave.
#include "infer/infer_cache.h"

#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define PORT_WORDS (3 + ENG_RANK_MAX) // of an input: type, rank, dimensions, contents

// One answer: this, its outputs, and behind them their names and elements.
struct entry {
    struct gw_infer_cache_key key;
    UT_hash_handle hh;
    struct entry *newer; // in the order of use
    struct entry *older;
    size_t bytes;
    size_t output_count;
    struct gw_infer_tensor outputs[];
};

struct gw_infer_cache {
    pthread_mutex_t lock;
    struct base_hash_key keys[2];
    size_t bytes_max;
    size_t bytes;
    struct entry *by_key;
    struct entry *newest;
    struct entry *oldest;
};

struct gw_infer_cache *gw_infer_cache_new(size_t bytes_max, const struct base_hash_key *secret)
{
    struct gw_infer_cache *cache = calloc(1, sizeof(*cache));
    if (cache == NULL) {
        return NULL;
    }
    pthread_mutex_init(&cache->lock, NULL);
    cache->bytes_max = bytes_max;
    for (uint64_t i = 0; i < 2; i++) { // neither says anything of the other
        cache->keys[i].k0 = base_keyed64_u64(secret, 2 * i);
        cache->keys[i].k1 = base_keyed64_u64(secret, 2 * i + 1);
    }
    return cache;
}

// With the lock.
static void unlink_entry(struct gw_infer_cache *cache, struct entry *entry)
{
    *(entry->newer != NULL ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older != NULL ? &entry->older->newer : &cache->oldest) = entry->newer;
    entry->newer = NULL;
    entry->older = NULL;
}

static void link_newest(struct gw_infer_cache *cache, struct entry *entry)
{
    entry->older = cache->newest;
    *(entry->older != NULL ? &entry->older->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static void drop(struct gw_infer_cache *cache, struct entry *entry)
{
    base_check(cache->bytes >= entry->bytes);
    HASH_DEL(cache->by_key, entry);
    unlink_entry(cache, entry);
    cache->bytes -= entry->bytes;
    free(entry);
}

void gw_infer_cache_free(struct gw_infer_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    while (cache->oldest != NULL) {
        drop(cache, cache->oldest);
    }
    base_check(cache->bytes == 0);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

// ---- Keys

bool gw_infer_cache_has_key(const struct gw_infer_cache_key *key)
{
    return (key->words[0] | key->words[1]) != 0;
}

// What tells an input from another: its type, shape and elements. Returns how many words.
static size_t put_input(const struct base_hash_key *key, const struct gw_infer_tensor *tensor,
                        uint64_t words[PORT_WORDS])
{
    size_t count = 0;
    words[count++] = tensor->desc.dtype;
    words[count++] = tensor->desc.rank;
    for (uint32_t i = 0; i < tensor->desc.rank; i++) {
        words[count++] = (uint64_t)tensor->desc.dims[i];
    }
    words[count++] = tensor->bytes > 0 ? base_keyed64(key, tensor->data, tensor->bytes) : 0;
    return count;
}

struct gw_infer_cache_key gw_infer_cache_key_of(const struct gw_infer_cache *cache,
                                                const struct gw_infer_asked *asked)
{
    struct gw_infer_cache_key key = {{0}};
    uint64_t words[(PORT_WORDS + 1) * GW_INFER_TENSORS_MAX + 1];
    base_check(asked->input_count <= GW_INFER_TENSORS_MAX &&
               asked->output_count <= GW_INFER_TENSORS_MAX);
    for (size_t i = 0; i < 2; i++) {
        size_t count = 0;
        words[count++] = asked->input_count;
        for (size_t k = 0; k < asked->input_count; k++) {
            if (asked->inputs[k]->desc.dtype == ENG_STRING) {
                return (struct gw_infer_cache_key){{0}};
            }
            count += put_input(&cache->keys[i], asked->inputs[k], words + count);
        }
        for (size_t k = 0; k < asked->output_count; k++) {
            words[count++] = asked->outputs[k];
        }
        key.words[i] = base_keyed64(&cache->keys[i], words, count * sizeof(words[0]));
    }
    return key;
}

// ---- Answers

// A key is a keyed hash already.
static unsigned place_of(const struct gw_infer_cache_key *key)
{
    return (unsigned)key->words[0];
}

static size_t rounded(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

bool gw_infer_cache_get(struct gw_infer_cache *cache, const struct gw_infer_cache_key *key,
                        struct base_arena *arena, struct gw_infer_result *out)
{
    struct entry *entry = NULL;
    struct gw_infer_tensor *outputs = NULL;
    base_assert(gw_infer_cache_has_key(key));
    pthread_mutex_lock(&cache->lock);
    HASH_FIND_BYHASHVALUE(hh, cache->by_key, key, sizeof(*key), place_of(key), entry);
    if (entry != NULL) {
        size_t count = entry->output_count;
        outputs = base_arena_zalloc(arena, (count + 1) * sizeof(*outputs));
        for (size_t i = 0; outputs != NULL && i < count; i++) {
            const struct gw_infer_tensor *kept = &entry->outputs[i];
            outputs[i] = *kept;
            outputs[i].data = base_arena_copy(arena, kept->data, kept->bytes);
            outputs[i].name.data = base_arena_text(arena, kept->name.data, kept->name.size);
            if (outputs[i].data == NULL || outputs[i].name.data == NULL) {
                outputs = NULL;
            }
        }
        out->outputs = outputs != NULL ? outputs : out->outputs;
        out->output_count = outputs != NULL ? count : out->output_count;
        unlink_entry(cache, entry);
        link_newest(cache, entry);
    }
    pthread_mutex_unlock(&cache->lock);
    return outputs != NULL;
}

// NULL: it has a text, is too large, or there is no memory.
static struct entry *entry_of(const struct gw_infer_cache *cache,
                              const struct gw_infer_result *result)
{
    size_t bytes = sizeof(struct entry) + result->output_count * sizeof(*result->outputs);
    for (size_t i = 0; i < result->output_count; i++) {
        const struct gw_infer_tensor *output = &result->outputs[i];
        bytes = rounded(bytes) + rounded(output->bytes) + output->name.size;
        if (output->desc.dtype == ENG_STRING || bytes > cache->bytes_max) {
            return NULL;
        }
    }
    struct entry *entry = calloc(1, bytes);
    if (entry == NULL) {
        return NULL;
    }
    entry->bytes = bytes;
    entry->output_count = result->output_count;
    size_t at = sizeof(*entry) + result->output_count * sizeof(*result->outputs);
    for (size_t i = 0; i < result->output_count; i++) {
        const struct gw_infer_tensor *output = &result->outputs[i];
        char *data = (char *)entry + rounded(at);
        char *name = data + rounded(output->bytes);
        entry->outputs[i] = *output;
        if (output->bytes > 0) {
            memcpy(data, output->data, output->bytes);
        }
        memcpy(name, output->name.data, output->name.size);
        entry->outputs[i].data = data;
        entry->outputs[i].name.data = name;
        at = (size_t)(name - (char *)entry) + output->name.size;
    }
    base_check(at <= bytes);
    return entry;
}

void gw_infer_cache_put(struct gw_infer_cache *cache, const struct gw_infer_cache_key *key,
                        const struct gw_infer_result *result)
{
    struct entry *there = NULL;
    base_assert(gw_infer_cache_has_key(key));
    struct entry *entry = entry_of(cache, result);
    if (entry == NULL) {
        return;
    }
    entry->key = *key;
    pthread_mutex_lock(&cache->lock);
    HASH_FIND_BYHASHVALUE(hh, cache->by_key, key, sizeof(*key), place_of(key), there);
    bool added = false;
    if (there == NULL) {
        HASH_ADD_BYHASHVALUE(hh, cache->by_key, key, sizeof(entry->key), place_of(key), entry);
        added = entry->hh.tbl != NULL;
    }
    if (added) {
        link_newest(cache, entry);
        cache->bytes += entry->bytes;
    }
    while (cache->bytes > cache->bytes_max) {
        drop(cache, cache->oldest);
    }
    pthread_mutex_unlock(&cache->lock);
    if (!added) {
        free(entry);
    }
}

size_t gw_infer_cache_bytes(struct gw_infer_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    size_t bytes = cache->bytes;
    pthread_mutex_unlock(&cache->lock);
    return bytes;
}

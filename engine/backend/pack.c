// The cache of packed weights: a hash table of entries, each one block of aligned memory.
//
// Called by the backends while a session is planned, on any thread; this file has the lock. A block
// is filled outside the lock by whoever asked first; others that want the same one wait for it,
// others that want another one do not. An entry never moves or changes once it is filled.
#include "backend/pack.h"

#include "base/check.h"
#include "base/ckd.h"
#include "base/hash.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT        64u
#define BUCKET_COUNT     1024u // models have hundreds of weights: chains stay short
#define PACK_ENTRIES_MAX 1000000u
// Blocks this large are pages of their own: among the short-lived copies that planning makes they
// would leave holes in the heap.
#define PAGES_BYTES_MIN ((size_t)256 << 10)

struct entry {
    struct entry *next;
    struct eng_pack_key key;
    size_t bytes;
    void *memory;
    size_t memory_bytes; // as asked for
    bool ready;          // filled; before that only the filling thread touches `memory`
};

struct eng_pack_cache {
    pthread_mutex_t lock;
    pthread_cond_t filled; // some entry became ready
    struct entry *buckets[BUCKET_COUNT];
    size_t bytes;
    uint32_t entry_count;
};

enum base_status eng_pack_cache_new(struct eng_pack_cache **out_cache)
{
    struct eng_pack_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (pthread_mutex_init(&cache->lock, NULL) != 0) {
        free(cache);
        return BASE_ERR_NOMEM;
    }
    if (pthread_cond_init(&cache->filled, NULL) != 0) {
        (void)pthread_mutex_destroy(&cache->lock);
        free(cache);
        return BASE_ERR_NOMEM;
    }
    *out_cache = cache;
    return BASE_OK;
}

static void *block_new(size_t bytes)
{
    if (bytes < PAGES_BYTES_MIN) {
        base_assert(bytes % ALIGNMENT == 0);
        return aligned_alloc(ALIGNMENT, bytes);
    }
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

static void entry_free(struct entry *entry)
{
    if (entry->memory_bytes < PAGES_BYTES_MIN) {
        free(entry->memory);
    } else {
        (void)munmap(entry->memory, entry->memory_bytes);
    }
    free(entry);
}

void eng_pack_cache_free(struct eng_pack_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (size_t i = 0; i < BUCKET_COUNT; i++) {
        struct entry *entry = cache->buckets[i];
        while (entry != NULL) {
            struct entry *next = entry->next;
            base_assert(entry->ready);
            entry_free(entry);
            entry = next;
        }
    }
    (void)pthread_cond_destroy(&cache->filled);
    (void)pthread_mutex_destroy(&cache->lock);
    free(cache);
}

// Forms of the same weights are few and share a bucket.
static struct entry **bucket_of(struct eng_pack_cache *cache, const void *identity)
{
    return &cache->buckets[base_hash64(&identity, sizeof identity) % BUCKET_COUNT];
}

// NULL: not there. Under the lock.
static struct entry *find(struct eng_pack_cache *cache, const struct eng_pack_key *key)
{
    struct entry *entry = *bucket_of(cache, key->identity);
    for (; entry != NULL; entry = entry->next) {
        const struct eng_pack_key *other = &entry->key;
        if (other->identity == key->identity && other->form == key->form && other->a == key->a &&
            other->b == key->b) {
            break;
        }
    }
    return entry;
}

// An entry with memory, not in any chain yet; NULL when memory is short.
static struct entry *entry_new(const struct eng_pack_key *key, size_t bytes)
{
    size_t rounded = 0;
    if (!base_ckd_add(bytes, ALIGNMENT, &rounded)) {
        return NULL;
    }
    rounded = (rounded - 1) / ALIGNMENT * ALIGNMENT;
    struct entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL) {
        return NULL;
    }
    entry->memory_bytes = rounded == 0 ? ALIGNMENT : rounded;
    entry->memory = block_new(entry->memory_bytes);
    if (entry->memory == NULL) {
        free(entry);
        return NULL;
    }
    entry->key = *key;
    entry->bytes = bytes;
    return entry;
}

// Adds the entry to the cache as one being filled. Under the lock.
static void insert(struct eng_pack_cache *cache, struct entry *fresh)
{
    struct entry **bucket = bucket_of(cache, fresh->key.identity);
    base_assert(find(cache, &fresh->key) == NULL && !fresh->ready);
    fresh->next = *bucket;
    *bucket = fresh;
    cache->bytes += fresh->bytes;
    cache->entry_count++;
}

// Waits until the entry is filled. Under the lock.
static enum base_status join(struct eng_pack_cache *cache, struct entry *entry, size_t bytes)
{
    while (!entry->ready) {
        (void)pthread_cond_wait(&cache->filled, &cache->lock);
    }
    return entry->bytes == bytes ? BASE_OK : BASE_ERR_BUG;
}

enum base_status eng_pack_get(struct eng_pack_cache *cache, const struct eng_pack_key *key,
                              const struct eng_pack_content *content, const void **out)
{
    base_assert(key->identity != NULL); // what is of no model is shared with nobody
    enum base_status status = BASE_OK;
    struct entry *entry = NULL;
    bool is_mine = false;
    (void)pthread_mutex_lock(&cache->lock);
    entry = find(cache, key);
    if (entry != NULL) {
        status = join(cache, entry, content->bytes);
    } else if (cache->entry_count >= PACK_ENTRIES_MAX ||
               (entry = entry_new(key, content->bytes)) == NULL) {
        status = BASE_ERR_NOMEM;
    } else {
        insert(cache, entry);
        is_mine = true;
    }
    (void)pthread_mutex_unlock(&cache->lock);
    if (is_mine) {
        content->fill(content->ctx, entry->memory);
        (void)pthread_mutex_lock(&cache->lock);
        base_assert(!entry->ready); // nobody else fills it
        entry->ready = true;
        (void)pthread_cond_broadcast(&cache->filled);
        (void)pthread_mutex_unlock(&cache->lock);
    }
    if (status == BASE_OK) {
        *out = entry->memory;
    }
    return status;
}

size_t eng_pack_bytes(const struct eng_pack_cache *cache)
{
    // The lock is the one thing that changes in a cache somebody only asks.
    struct eng_pack_cache *self = (struct eng_pack_cache *)(uintptr_t)cache;
    (void)pthread_mutex_lock(&self->lock);
    size_t bytes = self->bytes;
    (void)pthread_mutex_unlock(&self->lock);
    return bytes;
}

bool eng_pack_has(struct eng_pack_cache *cache, const void *identity)
{
    (void)pthread_mutex_lock(&cache->lock);
    const struct entry *entry = *bucket_of(cache, identity);
    while (entry != NULL && entry->key.identity != identity) {
        entry = entry->next;
    }
    (void)pthread_mutex_unlock(&cache->lock);
    return entry != NULL;
}

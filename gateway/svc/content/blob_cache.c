// The cache of blobs. SHARED: `lock` guards the hash, the list and the sums; a blob's bytes never
// change; its reference count is atomic. Any thread. blob_serve.c serves from it on workers and has
// variants made on the background threads; director.c, exclusive.c and gateway/ddi hold blobs while
// they read them. A blob that somebody holds is never freed: eviction takes it off the list, the
// last release frees it. Files are mapped and not read, so a large blob costs the page cache's
// memory.
#include "svc/content/blob_cache.h"

#include "base/check.h"
#include "svc/content/delta_make.h"
#include "svc/core_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// A table that cannot grow leaves hh.tbl NULL instead of ending the process.
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct blob_key {
    struct wire_sha256 digest;
    struct wire_sha256 dictionary; // of a delta; otherwise zero
    uint8_t variant;
    uint8_t codings; // of a delta: what its client reads
};

struct gw_blob {
    UT_hash_handle hh;
    struct gw_blob *newer; // towards the most recently used
    struct gw_blob *older;
    struct blob_key key;
    _Atomic uint32_t refs; // one is the cache's while it is in it
    _Atomic bool exclusive;
    _Atomic bool no_zstd; // compression was tried and does not pay
    bool passing;         // a version that lacks files
    const char *coding;   // "": none
    struct gw_store_bytes bytes;
    char note[GW_BLOB_NOTE_MAX + 1];
    char etag[GW_ETAG_MAX];
    size_t etag_bytes;
};

// Blobs that are mapped from their files cost nothing to have again, and are large; what was made
// costs processor time. Neither sort takes the place of the other.
enum sort { SORT_MAPPED, SORT_HEAP, SORT_COUNT };

struct list {
    struct gw_blob *newest;
    struct gw_blob *oldest;
    uint64_t bytes;
};

struct gw_blob_cache {
    pthread_mutex_t lock;
    struct base_hash_key hash_key;
    struct gw_blob *by_key; // uthash, by keyed hashes
    struct list lists[SORT_COUNT];
    uint64_t bytes_max; // of a list
    uint64_t entries;
    uint64_t hits;
    uint64_t misses;
};

enum base_status gw_blob_cache_new(struct gw_core *core, struct gw_blob_cache **out_cache)
{
    struct gw_blob_cache *cache = calloc(1, sizeof(*cache));
    if (cache == NULL) {
        return BASE_ERR_NOMEM;
    }
    pthread_mutex_init(&cache->lock, NULL);
    cache->hash_key = core->hash_key;
    cache->bytes_max = GW_BLOB_CACHE_BYTES_MAX;
    *out_cache = cache;
    return BASE_OK;
}

// ---- The list, lock held

static struct list *list_of(struct gw_blob_cache *cache, const struct gw_blob *blob)
{
    return &cache->lists[blob->bytes.map != NULL ? SORT_MAPPED : SORT_HEAP];
}

static void unlink_blob(struct list *list, struct gw_blob *blob)
{
    if (blob->newer != NULL) {
        blob->newer->older = blob->older;
    } else {
        list->newest = blob->older;
    }
    if (blob->older != NULL) {
        blob->older->newer = blob->newer;
    } else {
        list->oldest = blob->newer;
    }
    blob->newer = NULL;
    blob->older = NULL;
}

static void link_newest(struct list *list, struct gw_blob *blob)
{
    blob->older = list->newest;
    blob->newer = NULL;
    if (list->newest != NULL) {
        list->newest->newer = blob;
    } else {
        list->oldest = blob;
    }
    list->newest = blob;
}

static void evict(struct gw_blob_cache *cache, struct gw_blob *blob)
{
    struct list *list = list_of(cache, blob);
    HASH_DEL(cache->by_key, blob);
    unlink_blob(list, blob);
    list->bytes -= blob->bytes.size;
    cache->entries--;
    gw_blob_release(blob);
}

void gw_blob_cache_limit(struct gw_core *core, uint64_t bytes)
{
    pthread_mutex_lock(&core->blobs->lock);
    core->blobs->bytes_max = bytes;
    pthread_mutex_unlock(&core->blobs->lock);
}

void gw_blob_cache_free(struct gw_blob_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    for (int i = 0; i < SORT_COUNT; i++) {
        while (cache->lists[i].oldest != NULL) {
            evict(cache, cache->lists[i].oldest);
        }
    }
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

void gw_blob_release(struct gw_blob *blob)
{
    if (blob == NULL || atomic_fetch_sub_explicit(&blob->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    gw_store_bytes_done(&blob->bytes);
    free(blob);
}

static void make_key(struct blob_key *key, const struct wire_sha256 *digest,
                     enum gw_blob_variant variant)
{
    memset(key, 0, sizeof(*key));
    key->digest = *digest;
    key->variant = (uint8_t)variant;
}

static void make_delta_key(struct blob_key *key, const struct gw_delta_name *name)
{
    make_key(key, &name->digest, GW_BLOB_DELTA);
    key->dictionary = name->dictionary;
    key->codings = name->codings;
}

// Which digests there are, who may upload chooses.
static unsigned hash_of(const struct gw_blob_cache *cache, const struct blob_key *key)
{
    return (unsigned)base_keyed64(&cache->hash_key, key, sizeof(*key));
}

// A new reference to a cached blob, or NULL.
static struct gw_blob *lookup(struct gw_blob_cache *cache, const struct blob_key *key)
{
    struct gw_blob *blob;
    unsigned hash = hash_of(cache, key);
    pthread_mutex_lock(&cache->lock);
    HASH_FIND_BYHASHVALUE(hh, cache->by_key, key, sizeof(*key), hash, blob);
    if (blob != NULL) {
        cache->hits++;
        atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
        struct list *list = list_of(cache, blob);
        if (list->newest != blob) {
            unlink_blob(list, blob);
            link_newest(list, blob);
        }
    } else {
        cache->misses++;
    }
    pthread_mutex_unlock(&cache->lock);
    return blob;
}

// The cache's own reference to a blob that is in the table now; makes room for it.
static void keep(struct gw_blob_cache *cache, struct gw_blob *blob)
{
    atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
    struct list *list = list_of(cache, blob);
    link_newest(list, blob);
    list->bytes += blob->bytes.size;
    cache->entries++;
    while (list->bytes > cache->bytes_max && list->oldest != blob) {
        evict(cache, list->oldest);
    }
}

// Puts a blob in (the cache takes a reference of its own). When another thread was faster, its blob
// is used and this one released: the result is the one to use.
static struct gw_blob *insert(struct gw_blob_cache *cache, struct gw_blob *blob)
{
    struct gw_blob *there;
    pthread_mutex_lock(&cache->lock);
    unsigned hash = hash_of(cache, &blob->key);
    HASH_FIND_BYHASHVALUE(hh, cache->by_key, &blob->key, sizeof(blob->key), hash, there);
    if (there != NULL) {
        atomic_fetch_add_explicit(&there->refs, 1, memory_order_relaxed);
    } else if (blob->bytes.size <= cache->bytes_max) {
        HASH_ADD_BYHASHVALUE(hh, cache->by_key, key, sizeof(blob->key), hash, blob);
        if (blob->hh.tbl != NULL) { // out of memory: the blob is served, not kept
            keep(cache, blob);
        }
    }
    pthread_mutex_unlock(&cache->lock);
    if (there != NULL) {
        gw_blob_release(blob);
        return there;
    }
    return blob;
}

struct gw_blob *gw_blob_ref(struct gw_blob *blob)
{
    atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
    return blob;
}

// Each representation's own. A version's bytes are the beginning of one row of files: how many they
// are tells which.
static void etag_write(struct gw_blob *blob)
{
    char hex[WIRE_SHA256_HEX + 1];
    char of[WIRE_SHA256_HEX + 1] = "";
    const struct blob_key *key = &blob->key;
    int size;
    wire_sha256_hex(&key->digest, hex);
    if (key->variant == GW_BLOB_WHOLE) {
        size = snprintf(blob->etag, sizeof(blob->etag), "\"%s-files-%zu\"", hex, blob->bytes.size);
    } else {
        bool delta = key->variant == GW_BLOB_DELTA;
        wire_sha256_hex(&key->dictionary, of);
        size = snprintf(blob->etag, sizeof(blob->etag), "\"%s%s%s%s%.16s\"", hex,
                        blob->coding[0] != '\0' ? "-" : "", blob->coding, delta ? "-" : "",
                        delta ? of : "");
    }
    base_assert(size > 0 && (size_t)size < sizeof(blob->etag));
    blob->etag_bytes = (size_t)size;
}

// Takes the bytes; NULL, and they are freed, when there is no memory.
static struct gw_blob *new_blob(const struct blob_key *key, struct gw_store_bytes bytes,
                                const char *coding)
{
    struct gw_blob *blob = calloc(1, sizeof(*blob));
    if (blob == NULL) {
        gw_store_bytes_done(&bytes);
        return NULL;
    }
    blob->key = *key;
    atomic_init(&blob->refs, 1);
    atomic_init(&blob->exclusive, bytes.exclusive);
    atomic_init(&blob->no_zstd, false);
    blob->bytes = bytes;
    blob->coding = coding;
    etag_write(blob);
    return blob;
}

struct gw_blob *gw_blob_of(const uint8_t *bytes, size_t size)
{
    struct blob_key key;
    struct wire_sha256 digest;
    struct gw_store_bytes copy = {.size = size};
    uint8_t *heap = malloc(size > 0 ? size : 1);
    if (heap == NULL) {
        return NULL;
    }
    memcpy(heap, bytes, size);
    copy.data = heap;
    copy.heap = heap;
    gw_sha256(bytes, size, &digest);
    make_key(&key, &digest, GW_BLOB_IDENTITY);
    return new_blob(&key, copy, "");
}

enum base_status gw_blob_open(struct gw_core *core, const struct wire_sha256 *digest,
                              struct gw_blob **out_blob)
{
    struct blob_key key;
    make_key(&key, digest, GW_BLOB_IDENTITY);
    struct gw_blob *blob = lookup(core->blobs, &key);
    if (blob == NULL) {
        struct gw_store_bytes bytes;
        BASE_TRY(gw_store_blob_load(core->store, digest, &bytes));
        blob = new_blob(&key, bytes, "");
        if (blob == NULL) {
            return BASE_ERR_NOMEM;
        }
        blob = insert(core->blobs, blob);
    }
    *out_blob = blob;
    return BASE_OK;
}

// Exclusive content may become public, never the other way: a cached yes is asked again.
bool gw_blob_exclusive(struct gw_core *core, struct gw_blob *blob)
{
    if (atomic_load_explicit(&blob->exclusive, memory_order_relaxed) &&
        !gw_store_blob_exclusive(core->store, &blob->key.digest)) {
        atomic_store_explicit(&blob->exclusive, false, memory_order_relaxed);
    }
    return atomic_load_explicit(&blob->exclusive, memory_order_relaxed);
}

struct gw_blob *gw_blob_cached_zstd(struct gw_core *core, const struct wire_sha256 *digest)
{
    struct blob_key key;
    make_key(&key, digest, GW_BLOB_ZSTD);
    return lookup(core->blobs, &key);
}

bool gw_blob_may_compress(const struct gw_blob *identity)
{
    return identity->bytes.size >= GW_BLOB_ZSTD_MIN && identity->bytes.size <= GW_BLOB_ZSTD_MAX &&
           !atomic_load_explicit(&identity->no_zstd, memory_order_relaxed);
}

enum base_status gw_blob_make_zstd(struct gw_core *core, const struct wire_sha256 *digest,
                                   struct gw_blob **out_blob)
{
    *out_blob = gw_blob_cached_zstd(core, digest);
    if (*out_blob != NULL) {
        return BASE_OK;
    }
    struct gw_blob *identity;
    BASE_TRY(gw_blob_open(core, digest, &identity));
    struct gw_store_bytes bytes = {0};
    uint8_t *heap = NULL;
    enum base_status status = BASE_ERR_UNSUPPORTED;
    if (gw_blob_may_compress(identity)) {
        status = gw_zstd_compress(identity->bytes.data, identity->bytes.size, &heap, &bytes.size);
        if (status == BASE_ERR_UNSUPPORTED) {
            atomic_store_explicit(&identity->no_zstd, true, memory_order_relaxed);
        }
    }
    gw_blob_release(identity);
    BASE_TRY(status);
    bytes.data = heap;
    bytes.heap = heap;
    struct blob_key key;
    make_key(&key, digest, GW_BLOB_ZSTD);
    struct gw_blob *blob = new_blob(&key, bytes, "zstd");
    if (blob == NULL) {
        return BASE_ERR_NOMEM;
    }
    *out_blob = insert(core->blobs, blob);
    return BASE_OK;
}

struct gw_blob *gw_blob_cached_whole(struct gw_core *core, const struct wire_sha256 *digest)
{
    struct blob_key key;
    make_key(&key, digest, GW_BLOB_WHOLE);
    return lookup(core->blobs, &key);
}

enum base_status gw_blob_new_whole(struct gw_core *core, const struct wire_sha256 *digest,
                                   const struct gw_store_bytes *bytes, bool lasting,
                                   struct gw_blob **out_blob)
{
    struct blob_key key;
    base_assert(bytes->heap != NULL);
    make_key(&key, digest, GW_BLOB_WHOLE);
    struct gw_blob *blob = new_blob(&key, *bytes, "");
    if (blob == NULL) {
        return BASE_ERR_NOMEM;
    }
    blob->passing = !lasting;
    *out_blob = lasting ? insert(core->blobs, blob) : blob;
    return BASE_OK;
}

bool gw_blob_lasting(const struct gw_blob *blob)
{
    return !blob->passing;
}

// ---- Deltas. One that does not pay is cached too, as an empty blob, so that it is tried once.

struct gw_blob *gw_blob_cached_delta(struct gw_core *core, const struct gw_delta_name *name,
                                     bool *out_useless)
{
    struct blob_key key;
    make_delta_key(&key, name);
    struct gw_blob *blob = lookup(core->blobs, &key);
    *out_useless = blob != NULL && blob->bytes.size == 0;
    if (*out_useless) {
        gw_blob_release(blob);
        return NULL;
    }
    return blob;
}

static bool may_delta(const struct gw_blob *identity, const struct gw_blob *dictionary)
{
    return identity->bytes.size >= GW_BLOB_DELTA_MIN && identity->bytes.size <= GW_BLOB_DELTA_MAX &&
           dictionary->bytes.size <= GW_BLOB_DELTA_MAX;
}

// In the order they are tried; of two of one size the first stays.
static const struct {
    uint8_t coding;
    const char *name;
    enum base_status (*make)(const struct gw_dictionary *dictionary, const uint8_t *bytes,
                             size_t size, uint8_t **out_bytes, size_t *out_size);
} makers[] = {
    {GW_CODING_DCZ, "dcz", gw_dcz_compress},
    {GW_CODING_WDELTA, "wdelta", gw_wdelta_make},
};

// The smallest of those in `codings`. UNSUPPORTED: none pays, *out stays empty. Out of memory in
// one of them: in none, for another try would choose otherwise.
static enum base_status make_smallest(const struct gw_blob *identity,
                                      const struct gw_dictionary *dictionary, uint8_t codings,
                                      struct gw_store_bytes *out, const char **out_coding)
{
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        uint8_t *heap = NULL;
        size_t size = 0;
        if ((codings & makers[i].coding) == 0) {
            continue;
        }
        enum base_status status =
            makers[i].make(dictionary, identity->bytes.data, identity->bytes.size, &heap, &size);
        if (status != BASE_OK && status != BASE_ERR_UNSUPPORTED) {
            gw_store_bytes_done(out);
            return status;
        }
        if (status == BASE_OK && (out->size == 0 || size < out->size)) {
            gw_store_bytes_done(out);
            *out = (struct gw_store_bytes){.data = heap, .heap = heap, .size = size};
            *out_coding = makers[i].name;
        } else {
            free(heap);
        }
    }
    return out->size > 0 ? BASE_OK : BASE_ERR_UNSUPPORTED;
}

static bool is_stopping(void *ctx)
{
    return gw_deltas_stopping(ctx);
}

static enum base_status compress_delta(struct gw_core *core, const struct gw_delta_name *name,
                                       struct gw_store_bytes *out, const char **out_coding)
{
    struct gw_blob *identity;
    struct gw_blob *base;
    BASE_TRY(gw_blob_open(core, &name->digest, &identity));
    enum base_status status = gw_blob_open(core, &name->dictionary, &base);
    if (status != BASE_OK) {
        gw_blob_release(identity);
        return status;
    }
    status = BASE_ERR_UNSUPPORTED;
    // A difference to something exclusive would tell what is in it.
    if (may_delta(identity, base) && !gw_blob_exclusive(core, base)) {
        struct gw_dictionary dictionary = {.digest = name->dictionary,
                                           .bytes = base->bytes.data,
                                           .size = base->bytes.size,
                                           .stopping = is_stopping,
                                           .ctx = core};
        status = make_smallest(identity, &dictionary, name->codings, out, out_coding);
    }
    gw_blob_release(base);
    gw_blob_release(identity);
    return status;
}

enum base_status gw_blob_make_delta(struct gw_core *core, const struct gw_delta_name *name,
                                    struct gw_blob **out_blob)
{
    bool useless;
    *out_blob = gw_blob_cached_delta(core, name, &useless);
    if (*out_blob != NULL || useless) {
        return useless ? BASE_ERR_UNSUPPORTED : BASE_OK;
    }
    struct blob_key key;
    struct gw_store_bytes bytes = {0};
    const char *coding = "";
    make_delta_key(&key, name);
    enum base_status status = compress_delta(core, name, &bytes, &coding);
    if (status != BASE_OK && status != BASE_ERR_UNSUPPORTED) {
        return status;
    }
    struct gw_blob *blob = new_blob(&key, bytes, coding);
    if (blob == NULL) {
        return BASE_ERR_NOMEM;
    }
    blob = insert(core->blobs, blob);
    if (status != BASE_OK) {
        gw_blob_release(blob);
        return status;
    }
    *out_blob = blob;
    return BASE_OK;
}

uint64_t gw_blob_size(const struct gw_blob *blob)
{
    return blob->bytes.size;
}

const char *gw_blob_note(const struct gw_blob *blob)
{
    return blob->note[0] != '\0' ? blob->note : NULL;
}

void gw_blob_set_note(struct gw_blob *blob, const char *text)
{
    (void)snprintf(blob->note, sizeof(blob->note), "%s", text);
}

struct base_str gw_blob_etag(const struct gw_blob *blob)
{
    return (struct base_str){blob->etag, blob->etag_bytes};
}

enum gw_blob_variant gw_blob_variant(const struct gw_blob *blob)
{
    return (enum gw_blob_variant)blob->key.variant;
}

const uint8_t *gw_blob_bytes(const struct gw_blob *blob, uint64_t at, size_t *out_size)
{
    if (at >= blob->bytes.size) {
        *out_size = 0;
        return NULL;
    }
    *out_size = blob->bytes.size - (size_t)at;
    return blob->bytes.data + at;
}

void gw_blob_cache_stats(struct gw_blob_cache *cache, struct gw_blob_cache_stats *out)
{
    pthread_mutex_lock(&cache->lock);
    *out = (struct gw_blob_cache_stats){cache->lists[SORT_MAPPED].bytes +
                                            cache->lists[SORT_HEAP].bytes,
                                        cache->entries, cache->hits, cache->misses};
    pthread_mutex_unlock(&cache->lock);
}

struct base_str gw_blob_coding(const struct gw_blob *blob)
{
    return base_str_of(blob->coding);
}

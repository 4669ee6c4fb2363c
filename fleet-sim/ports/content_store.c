// Hash-consed content of a shard and the interned sets of it. Used by sim_storage and sim_crypto on
// the shard's thread. Also here: bodies, which are content on its way that several devices have the
// same bytes of. fleet_shard.c makes one store for each shard. A blob is never taken out while the
// store lives; SIM_STORE_BLOBS_MAX and SIM_STORE_BYTES_MAX bound it, and then adding is refused.
#include "ports/content_store.h"

#include "base/check.h"
#include "base/hash.h"
#include "wire/manifest.h"

#include <string.h>

#define BLOB_SLOTS        (SIM_STORE_BLOBS_MAX * 2)
#define IMAGE_SLOTS_FIRST 1024u
#define ASIDES_FIRST      64u

struct image {
    uint16_t *blobs; // sorted
    uint16_t count;
    uint16_t complete_manifest; // blob index + 1 of the manifest last asked about; 0: never
    bool complete;
};

// Bytes that were too few to hold what came, kept for who has them mapped.
struct outgrown {
    struct outgrown *next;
    uint8_t *bytes;
};

struct sim_body {
    struct sim_body *next; // in its chain
    struct wire_sha256 name;
    uint8_t *bytes;
    size_t size;
    size_t capacity;
    struct outgrown *outgrown;
    uint32_t refs;
    bool kept;     // `bytes` are a blob's by now
    bool borrowed; // somebody may have `bytes` mapped
};

struct sim_store {
    const struct base_alloc_port *alloc;
    const struct dev_crypto_port *crypto;
    uint64_t bytes;
    uint32_t blob_count;
    uint32_t image_count;
    struct sim_blob blobs[SIM_STORE_BLOBS_MAX];
    uint16_t blob_slots[BLOB_SLOTS]; // index + 1
    struct image *images;            // SIM_STORE_IMAGES_MAX
    uint32_t *image_slots;           // index + 1
    uint32_t image_slot_count;       // at least twice the images
    struct sim_states *states;
    struct sim_body *bodies[SIM_BODY_CHAINS];
    struct sim_aside *asides;
    uint32_t aside_count; // there ever were at once
    uint32_t aside_room;
    uint32_t aside_free;           // number + 1 of the first that nobody has; 0: none
    struct wire_manifest manifest; // scratch of sim_image_complete
};

static void *take(struct sim_store *store, size_t size)
{
    return store->alloc->alloc(store->alloc->ctx, size > 0 ? size : 1);
}

static void drop(struct sim_store *store, void *memory)
{
    store->alloc->release(store->alloc->ctx, memory);
}

static uint32_t *zeroed_slots(struct sim_store *store, uint32_t count)
{
    uint32_t *slots = take(store, sizeof(*slots) * count);
    if (slots != NULL) {
        memset(slots, 0, sizeof(*slots) * count);
    }
    return slots;
}

enum base_status sim_store_new(const struct base_alloc_port *alloc,
                               const struct dev_crypto_port *crypto, struct sim_store **out_store)
{
    struct sim_store *store = alloc->alloc(alloc->ctx, sizeof(*store));
    if (store == NULL) {
        return BASE_ERR_NOMEM;
    }
    // What lies behind the counts is not touched: untouched memory costs nothing.
    store->alloc = alloc;
    store->crypto = crypto;
    store->bytes = 0;
    store->blob_count = 0;
    store->image_count = 0;
    store->image_slot_count = IMAGE_SLOTS_FIRST;
    store->states = NULL;
    memset(store->blob_slots, 0, sizeof(store->blob_slots));
    memset(store->bodies, 0, sizeof(store->bodies));
    store->asides = NULL;
    store->aside_count = 0;
    store->aside_room = 0;
    store->aside_free = 0;
    store->images = take(store, sizeof(struct image) * SIM_STORE_IMAGES_MAX);
    store->image_slots = zeroed_slots(store, IMAGE_SLOTS_FIRST);
    if (store->images == NULL || store->image_slots == NULL ||
        sim_states_new(alloc, &store->states) != BASE_OK) {
        sim_store_free(store);
        return BASE_ERR_NOMEM;
    }
    store->images[store->image_count++] = (struct image){.count = 0}; // the empty one
    *out_store = store;
    return BASE_OK;
}

// Frees the body that a link of its chain leads to.
static void body_free(struct sim_store *store, struct sim_body **at)
{
    struct sim_body *body = *at;
    *at = body->next;
    while (body->outgrown != NULL) {
        struct outgrown *next = body->outgrown->next;
        drop(store, body->outgrown->bytes);
        drop(store, body->outgrown);
        body->outgrown = next;
    }
    if (!body->kept) {
        drop(store, body->bytes);
    }
    drop(store, body);
}

void sim_store_free(struct sim_store *store)
{
    if (store == NULL) {
        return;
    }
    for (uint32_t i = 0; i < store->blob_count; i++) {
        drop(store, (void *)(uintptr_t)store->blobs[i].bytes);
    }
    for (uint32_t i = 0; i < SIM_BODY_CHAINS; i++) {
        while (store->bodies[i] != NULL) {
            body_free(store, &store->bodies[i]);
        }
    }
    drop(store, store->asides);
    for (uint32_t i = 0; store->images != NULL && i < store->image_count; i++) {
        drop(store, store->images[i].blobs);
    }
    sim_states_free(store->states);
    drop(store, store->images);
    drop(store, store->image_slots);
    drop(store, store);
}

// Slot of the name: where it is, or the free slot where it would go.
static uint32_t blob_slot(const struct sim_store *store, const struct wire_sha256 *name)
{
    uint64_t hash;
    memcpy(&hash, name->bytes, sizeof(hash));
    uint32_t slot = (uint32_t)(hash % BLOB_SLOTS);
    while (store->blob_slots[slot] != 0 &&
           !wire_sha256_equal(&store->blobs[store->blob_slots[slot] - 1].name, name)) {
        slot = (slot + 1) % BLOB_SLOTS;
    }
    return slot;
}

const struct sim_blob *sim_store_find(struct sim_store *store, const struct wire_sha256 *name)
{
    uint32_t slot = blob_slot(store, name);
    return store->blob_slots[slot] == 0 ? NULL : &store->blobs[store->blob_slots[slot] - 1];
}

// Room for content that is what its name says.
static enum base_status check(const struct sim_store *store, const struct wire_sha256 *name,
                              const uint8_t *bytes, size_t size)
{
    struct dev_hash_state state;
    struct wire_sha256 digest;
    store->crypto->hash_begin(store->crypto->ctx, &state, name);
    store->crypto->hash_update(store->crypto->ctx, &state, bytes, size);
    store->crypto->hash_end(store->crypto->ctx, &state, &digest);
    if (!wire_sha256_equal(&digest, name)) {
        return BASE_ERR_HASH;
    }
    return store->blob_count == SIM_STORE_BLOBS_MAX || store->bytes + size > SIM_STORE_BYTES_MAX
               ? BASE_ERR_FULL
               : BASE_OK;
}

// Takes checked bytes as a blob.
static const struct sim_blob *enter(struct sim_store *store, uint32_t slot,
                                    const struct wire_sha256 *name, const uint8_t *bytes,
                                    size_t size)
{
    struct sim_blob *blob = &store->blobs[store->blob_count];
    *blob = (struct sim_blob){*name, bytes, size, (uint16_t)store->blob_count};
    store->blob_slots[slot] = (uint16_t)++store->blob_count;
    store->bytes += size;
    return blob;
}

enum base_status sim_store_add(struct sim_store *store, const struct wire_sha256 *name,
                               const uint8_t *bytes, size_t size, const struct sim_blob **out_blob)
{
    uint32_t slot = blob_slot(store, name);
    if (store->blob_slots[slot] != 0) {
        const struct sim_blob *have = &store->blobs[store->blob_slots[slot] - 1];
        if (have->size != size || memcmp(have->bytes, bytes, size) != 0) {
            return BASE_ERR_HASH;
        }
        *out_blob = have;
        return BASE_OK;
    }
    BASE_TRY(check(store, name, bytes, size));
    uint8_t *copy = take(store, size);
    if (copy == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    *out_blob = enter(store, slot, name, copy, size);
    return BASE_OK;
}

// ---- Content on its way ----

static struct sim_body **chain_of(struct sim_store *store, const struct wire_sha256 *name)
{
    uint64_t hash;
    memcpy(&hash, name->bytes, sizeof(hash));
    return &store->bodies[hash % SIM_BODY_CHAINS];
}

struct sim_body *sim_body_ref(struct sim_store *store, const struct wire_sha256 *name)
{
    struct sim_body **chain = chain_of(store, name);
    struct sim_body *body = *chain;
    while (body != NULL && !wire_sha256_equal(&body->name, name)) {
        body = body->next;
    }
    if (body == NULL) {
        body = take(store, sizeof(*body));
        if (body == NULL) {
            return NULL;
        }
        *body = (struct sim_body){.next = *chain, .name = *name};
        *chain = body;
    }
    body->refs++;
    return body;
}

void sim_body_unref(struct sim_store *store, struct sim_body *body)
{
    if (body == NULL || --body->refs > 0) {
        return;
    }
    struct sim_body **at = chain_of(store, &body->name);
    while (*at != body) {
        at = &(*at)->next;
    }
    body_free(store, at);
}

// Room for `size` bytes. What is there stays where it is, too, if somebody may have it mapped.
static enum base_status body_grow(struct sim_store *store, struct sim_body *body, size_t size)
{
    if (size <= body->capacity) {
        return BASE_OK;
    }
    size_t capacity = body->capacity * 2 > size ? body->capacity * 2 : size;
    struct outgrown *old = NULL;
    uint8_t *bytes = take(store, capacity);
    if (bytes != NULL && body->borrowed) {
        old = take(store, sizeof(*old));
    }
    if (bytes == NULL || (body->borrowed && old == NULL)) {
        drop(store, bytes);
        return BASE_ERR_NOMEM;
    }
    if (body->size > 0) {
        memcpy(bytes, body->bytes, body->size);
    }
    if (old != NULL) {
        *old = (struct outgrown){body->outgrown, body->bytes};
        body->outgrown = old;
    } else {
        drop(store, body->bytes);
    }
    body->borrowed = false;
    body->bytes = bytes;
    body->capacity = capacity;
    return BASE_OK;
}

enum base_status sim_body_add(struct sim_store *store, struct sim_body *body, size_t offset,
                              const uint8_t *bytes, size_t size)
{
    size_t there = body->size - offset < size ? body->size - offset : size;
    if (there > 0 && memcmp(body->bytes + offset, bytes, there) != 0) {
        return BASE_ERR_CONFLICT;
    }
    if (there == size) {
        return BASE_OK;
    }
    if (body->kept) { // verified content has no more bytes
        return BASE_ERR_CONFLICT;
    }
    BASE_TRY(body_grow(store, body, offset + size));
    memcpy(body->bytes + body->size, bytes + there, size - there);
    body->size = offset + size;
    return BASE_OK;
}

const uint8_t *sim_body_bytes(const struct sim_body *body)
{
    return body->bytes;
}

const uint8_t *sim_body_lend(struct sim_body *body)
{
    body->borrowed = body->bytes != NULL;
    return body->bytes;
}

enum base_status sim_body_keep(struct sim_store *store, struct sim_body *body, size_t size,
                               const struct sim_blob **out_blob)
{
    uint32_t slot = blob_slot(store, &body->name);
    if (store->blob_slots[slot] != 0 || body->size != size || body->bytes == NULL) {
        return sim_store_add(store, &body->name, body->bytes, size, out_blob);
    }
    BASE_TRY(check(store, &body->name, body->bytes, size));
    *out_blob = enter(store, slot, &body->name, body->bytes, size);
    body->kept = true;
    return BASE_OK;
}

const struct sim_blob *sim_store_at(const struct sim_store *store, uint32_t index)
{
    return index < store->blob_count ? &store->blobs[index] : NULL;
}

uint64_t sim_store_bytes(const struct sim_store *store)
{
    return store->bytes;
}

struct sim_states *sim_store_states(const struct sim_store *store)
{
    return store->states;
}

// ---- Asides ----

static bool grow_asides(struct sim_store *store)
{
    const uint32_t room = store->aside_room == 0 ? ASIDES_FIRST : store->aside_room * 2;
    struct sim_aside *asides = room <= SIM_ASIDES_MAX ? take(store, room * sizeof(*asides)) : NULL;
    if (asides == NULL) {
        return false;
    }
    if (store->aside_count > 0) {
        memcpy(asides, store->asides, store->aside_count * sizeof(*asides));
    }
    drop(store, store->asides);
    store->asides = asides;
    store->aside_room = room;
    return true;
}

enum base_status sim_store_aside_take(struct sim_store *store, uint32_t image, uint32_t *out_number)
{
    uint32_t number = store->aside_free - 1;
    if (store->aside_free != 0) {
        store->aside_free = store->asides[number].next_free;
    } else if (store->aside_count < store->aside_room || grow_asides(store)) {
        number = store->aside_count++;
    } else {
        return BASE_ERR_NOMEM;
    }
    store->asides[number] = (struct sim_aside){.image = image};
    *out_number = number;
    return BASE_OK;
}

struct sim_aside *sim_store_aside(const struct sim_store *store, uint32_t number)
{
    base_check(number < store->aside_count);
    return &store->asides[number];
}

void sim_store_aside_give(struct sim_store *store, uint32_t number)
{
    sim_store_aside(store, number)->next_free = store->aside_free;
    store->aside_free = number + 1;
}

uint32_t sim_store_blob_count(const struct sim_store *store)
{
    return store->blob_count;
}

bool sim_image_has(const struct sim_store *store, uint32_t image, uint16_t blob)
{
    const struct image *set = &store->images[image];
    for (uint32_t i = 0; i < set->count && set->blobs[i] <= blob; i++) {
        if (set->blobs[i] == blob) {
            return true;
        }
    }
    return false;
}

// Where the set is, or the free slot where it would go.
static uint32_t image_slot(const struct sim_store *store, const uint16_t *blobs, uint32_t count)
{
    size_t bytes = sizeof(*blobs) * count;
    uint32_t slot = (uint32_t)(base_hash64(blobs, bytes) % store->image_slot_count);
    for (; store->image_slots[slot] != 0; slot = (slot + 1) % store->image_slot_count) {
        const struct image *have = &store->images[store->image_slots[slot] - 1];
        if (have->count == count && memcmp(have->blobs, blobs, bytes) == 0) {
            break;
        }
    }
    return slot;
}

// Twice as many slots, for more images.
static enum base_status image_slots_grow(struct sim_store *store)
{
    uint32_t *old = store->image_slots;
    uint32_t *slots = zeroed_slots(store, store->image_slot_count * 2);
    if (slots == NULL) {
        return BASE_ERR_NOMEM;
    }
    store->image_slots = slots;
    store->image_slot_count *= 2;
    for (uint32_t i = 1; i < store->image_count; i++) {
        const struct image *image = &store->images[i];
        slots[image_slot(store, image->blobs, image->count)] = i + 1;
    }
    drop(store, old);
    return BASE_OK;
}

static enum base_status intern(struct sim_store *store, const uint16_t *blobs, uint32_t count,
                               uint32_t *out_image)
{
    if (count == 0) {
        *out_image = SIM_IMAGE_EMPTY;
        return BASE_OK;
    }
    size_t bytes = sizeof(uint16_t) * count;
    uint32_t slot = image_slot(store, blobs, count);
    if (store->image_slots[slot] != 0) {
        *out_image = store->image_slots[slot] - 1;
        return BASE_OK;
    }
    if (store->image_count == SIM_STORE_IMAGES_MAX) {
        return BASE_ERR_FULL;
    }
    if (store->image_count * 2 >= store->image_slot_count) {
        BASE_TRY(image_slots_grow(store));
        slot = image_slot(store, blobs, count);
    }
    uint16_t *copy = take(store, bytes);
    if (copy == NULL) {
        return BASE_ERR_NOMEM;
    }
    memcpy(copy, blobs, bytes);
    store->images[store->image_count] = (struct image){.blobs = copy, .count = (uint16_t)count};
    *out_image = store->image_count++;
    store->image_slots[slot] = *out_image + 1;
    return BASE_OK;
}

enum base_status sim_image_with(struct sim_store *store, uint32_t image, uint16_t blob,
                                uint32_t *out_image)
{
    const struct image *set = &store->images[image];
    if (sim_image_has(store, image, blob)) {
        *out_image = image;
        return BASE_OK;
    }
    if (set->count == SIM_IMAGE_BLOBS_MAX) {
        return BASE_ERR_FULL;
    }
    uint16_t blobs[SIM_IMAGE_BLOBS_MAX + 1];
    uint32_t count = 0;
    uint32_t from = 0;
    while (from < set->count && set->blobs[from] < blob) {
        blobs[count++] = set->blobs[from++];
    }
    blobs[count++] = blob;
    while (from < set->count) {
        blobs[count++] = set->blobs[from++];
    }
    return intern(store, blobs, count, out_image);
}

enum base_status sim_image_without(struct sim_store *store, uint32_t image, uint16_t blob,
                                   uint32_t *out_image)
{
    const struct image *set = &store->images[image];
    uint16_t blobs[SIM_IMAGE_BLOBS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->blobs[i] != blob) {
            blobs[count++] = set->blobs[i];
        }
    }
    return intern(store, blobs, count, out_image);
}

const struct sim_blob *sim_image_blob(const struct sim_store *store, uint32_t image, uint32_t at)
{
    const struct image *set = &store->images[image];
    return at < set->count ? &store->blobs[set->blobs[at]] : NULL;
}

static bool holds_all(struct sim_store *store, uint32_t image, const struct sim_blob *manifest)
{
    if (!sim_image_has(store, image, manifest->index) ||
        wire_manifest_parse(manifest->bytes, manifest->size, &store->manifest) != BASE_OK) {
        return false;
    }
    for (uint32_t i = 0; i < store->manifest.file_count; i++) {
        const struct sim_blob *file = sim_store_find(store, &store->manifest.files[i].digest);
        if (file == NULL || !sim_image_has(store, image, file->index)) {
            return false;
        }
    }
    return true;
}

bool sim_image_complete(struct sim_store *store, uint32_t image, const struct wire_sha256 *manifest)
{
    const struct sim_blob *blob = sim_store_find(store, manifest);
    if (blob == NULL) {
        return false;
    }
    struct image *set = &store->images[image];
    if (set->complete_manifest != blob->index + 1) {
        set->complete = holds_all(store, image, blob);
        set->complete_manifest = (uint16_t)(blob->index + 1);
    }
    return set->complete;
}

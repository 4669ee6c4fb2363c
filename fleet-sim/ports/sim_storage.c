// Storage of virtual devices over the shared content store. Called by the device runtime on its
// shard's thread. fleet_ports.c hands the port to a device when it wakes, fleet_device.c calls the
// kill, and fleet_shard.c ends the disks. A disk copies no bytes that the store or another device's
// body has already; only a device whose bytes differ, or one of the sample that does everything for
// real, pays for a copy of its own.
#include "ports/sim_storage.h"

#include <string.h>

uint32_t sim_disk_image(const struct sim_disk *disk, const struct sim_store *store)
{
    return disk->aside ? sim_store_aside(store, disk->number)->image : disk->number;
}

void sim_disk_set_image(struct sim_disk *disk, const struct sim_store *store, uint32_t image)
{
    if (disk->aside) {
        sim_store_aside(store, disk->number)->image = image;
    } else {
        disk->number = image & SIM_IMAGE_MASK;
    }
}

static struct sim_partial *partials_of(const struct sim_disk *disk, const struct sim_store *store)
{
    return disk->aside ? sim_store_aside(store, disk->number)->partials : NULL;
}

// False: no memory.
static bool push_partial(struct sim_disk *disk, struct sim_store *store,
                         struct sim_partial *partial)
{
    uint32_t number = 0;
    if (!disk->aside) {
        if (sim_store_aside_take(store, disk->number, &number) != BASE_OK) {
            return false;
        }
        disk->number = number & (SIM_ASIDES_MAX - 1);
        disk->aside = true;
    }
    struct sim_aside *aside = sim_store_aside(store, disk->number);
    partial->next = aside->partials;
    aside->partials = partial;
    return true;
}

static struct sim_partial *find(const struct sim_storage *storage, const struct wire_sha256 *name)
{
    struct sim_partial *partial = partials_of(storage->disk, storage->store);
    while (partial != NULL && !wire_sha256_equal(&partial->name, name)) {
        partial = partial->next;
    }
    return partial;
}

static void partial_free(struct sim_partial *partial, struct sim_store *store,
                         const struct base_alloc_port *alloc)
{
    sim_body_unref(store, partial->body);
    alloc->release(alloc->ctx, partial->bytes);
    alloc->release(alloc->ctx, partial);
}

// With the last of them the disk's aside goes.
static void unlink_partial(struct sim_disk *disk, struct sim_store *store,
                           struct sim_partial *partial, const struct base_alloc_port *alloc)
{
    struct sim_aside *aside = sim_store_aside(store, disk->number);
    struct sim_partial **at = &aside->partials;
    while (*at != partial) {
        at = &(*at)->next;
    }
    *at = partial->next;
    partial_free(partial, store, alloc);
    if (aside->partials == NULL) {
        const uint32_t image = aside->image;
        sim_store_aside_give(store, disk->number);
        disk->aside = false;
        disk->number = image & SIM_IMAGE_MASK;
    }
}

// What there is of it, whoever's the bytes are.
static const uint8_t *bytes_of(const struct sim_partial *partial)
{
    return partial->shared != NULL ? partial->shared->bytes
           : partial->body != NULL ? sim_body_bytes(partial->body)
                                   : partial->bytes;
}

static uint32_t image_of(const struct sim_storage *storage)
{
    return sim_disk_image(storage->disk, storage->store);
}

// Verified content the device has under this name, NULL when it has none.
static const struct sim_blob *installed(const struct sim_storage *storage,
                                        const struct wire_sha256 *name)
{
    const struct sim_blob *blob = sim_store_find(storage->store, name);
    return blob != NULL && sim_image_has(storage->store, image_of(storage), blob->index) ? blob
                                                                                         : NULL;
}

static enum base_status state_load(void *ctx, uint8_t *out, size_t capacity, size_t *out_size)
{
    const struct sim_storage *storage = ctx;
    return sim_states_get(sim_store_states(storage->store), storage->disk->state, out, capacity,
                          out_size);
}

static enum base_status state_save(void *ctx, const uint8_t *bytes, size_t size)
{
    struct sim_storage *storage = ctx;
    struct sim_disk *disk = storage->disk;
    if (size > SIM_STATE_BYTES_MAX ||
        sim_states_put(sim_store_states(storage->store), &disk->state,
                       (struct base_span){bytes, size}, disk->real) != BASE_OK) {
        return BASE_ERR_FULL;
    }
    storage->saved = true;
    return BASE_OK;
}

static enum base_status blob_stat(void *ctx, const struct wire_sha256 *name, uint64_t *out_bytes,
                                  bool *out_sealed)
{
    const struct sim_storage *storage = ctx;
    const struct sim_blob *blob = installed(storage, name);
    if (blob != NULL) {
        *out_bytes = blob->size;
        *out_sealed = true;
        return BASE_OK;
    }
    const struct sim_partial *partial = find(storage, name);
    if (partial == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    *out_bytes = partial->size;
    *out_sealed = partial->sealed;
    return BASE_OK;
}

// Room for `size` bytes of the device's own, keeping what is there.
static enum base_status own(struct sim_storage *storage, struct sim_partial *partial, size_t size)
{
    bool shares = partial->shared != NULL || partial->body != NULL;
    if (!shares && size <= partial->capacity) {
        return BASE_OK;
    }
    size_t capacity = partial->capacity * 2 > size ? partial->capacity * 2 : size;
    uint8_t *bytes = storage->alloc->alloc(storage->alloc->ctx, capacity > 0 ? capacity : 1);
    if (bytes == NULL) {
        return BASE_ERR_FULL;
    }
    if (partial->size > 0) {
        memcpy(bytes, bytes_of(partial), partial->size);
    }
    storage->alloc->release(storage->alloc->ctx, partial->bytes);
    partial->bytes = bytes;
    partial->capacity = capacity;
    partial->shared = NULL;
    sim_body_unref(storage->store, partial->body);
    partial->body = NULL;
    return BASE_OK;
}

static enum base_status create(struct sim_storage *storage, const struct wire_sha256 *name,
                               struct sim_partial **out)
{
    struct sim_partial *partial = storage->alloc->alloc(storage->alloc->ctx, sizeof(*partial));
    if (partial == NULL) {
        return BASE_ERR_FULL;
    }
    *partial = (struct sim_partial){.name = *name};
    if (!push_partial(storage->disk, storage->store, partial)) {
        storage->alloc->release(storage->alloc->ctx, partial);
        return BASE_ERR_FULL;
    }
    if (!storage->disk->real) {
        partial->shared = sim_store_find(storage->store, name);
        partial->body = partial->shared == NULL ? sim_body_ref(storage->store, name) : NULL;
    }
    *out = partial;
    return BASE_OK;
}

static enum base_status blob_append(void *ctx, const struct wire_sha256 *name, uint64_t offset,
                                    const uint8_t *bytes, size_t size)
{
    struct sim_storage *storage = ctx;
    if (installed(storage, name) != NULL) {
        return BASE_ERR_CONFLICT;
    }
    struct sim_partial *partial = find(storage, name);
    if (partial == NULL) {
        if (offset != 0) {
            return BASE_ERR_CONFLICT;
        }
        BASE_TRY(create(storage, name, &partial));
    }
    if (partial->sealed || partial->size != offset) {
        return BASE_ERR_CONFLICT;
    }
    const struct sim_blob *shared = partial->shared;
    bool same = shared != NULL && size <= shared->size - partial->size &&
                memcmp(shared->bytes + partial->size, bytes, size) == 0;
    if (partial->body != NULL) {
        same = sim_body_add(storage->store, partial->body, partial->size, bytes, size) == BASE_OK;
    }
    if (!same) {
        BASE_TRY(own(storage, partial, partial->size + size));
        if (size > 0) {
            memcpy(partial->bytes + partial->size, bytes, size);
        }
    }
    partial->size += size;
    return BASE_OK;
}

static enum base_status blob_seal(void *ctx, const struct wire_sha256 *name)
{
    struct sim_storage *storage = ctx;
    struct sim_disk *disk = storage->disk;
    if (installed(storage, name) != NULL) {
        return BASE_OK;
    }
    struct sim_partial *partial = find(storage, name);
    if (partial == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    const struct sim_blob *blob = partial->shared;
    if (blob == NULL || blob->size != partial->size) {
        enum base_status status =
            partial->body != NULL
                ? sim_body_keep(storage->store, partial->body, partial->size, &blob)
                : sim_store_add(storage->store, name, bytes_of(partial), partial->size, &blob);
        if (status == BASE_ERR_HASH) {
            // The runtime sealed what it should have refused: keep it as it is, and count it.
            storage->bad_seals++;
            partial->sealed = true;
            return BASE_OK;
        }
        BASE_TRY(status);
    }
    storage->sealed = true;
    if (disk->real) {
        partial->sealed = true;
        return BASE_OK;
    }
    uint32_t image;
    BASE_TRY(sim_image_with(storage->store, image_of(storage), blob->index, &image));
    sim_disk_set_image(disk, storage->store, image);
    unlink_partial(disk, storage->store, partial, storage->alloc);
    return BASE_OK;
}

static enum base_status blob_map(void *ctx, const struct wire_sha256 *name,
                                 const uint8_t **out_bytes, size_t *out_size)
{
    const struct sim_storage *storage = ctx;
    const struct sim_blob *blob = installed(storage, name);
    if (blob != NULL) {
        *out_bytes = blob->bytes;
        *out_size = blob->size;
        return BASE_OK;
    }
    const struct sim_partial *partial = find(storage, name);
    if (partial == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    bool lent = partial->shared == NULL && partial->body != NULL;
    *out_bytes = lent ? sim_body_lend(partial->body) : bytes_of(partial);
    *out_size = partial->size;
    return BASE_OK;
}

static void blob_unmap(void *ctx, const struct wire_sha256 *name, const uint8_t *bytes, size_t size)
{
    // Mapped bytes stay where they are until the blob is deleted.
    (void)ctx, (void)name, (void)bytes, (void)size;
}

static enum base_status blob_delete(void *ctx, const struct wire_sha256 *name)
{
    struct sim_storage *storage = ctx;
    const struct sim_blob *blob = installed(storage, name);
    if (blob != NULL) {
        uint32_t image;
        BASE_TRY(sim_image_without(storage->store, image_of(storage), blob->index, &image));
        sim_disk_set_image(storage->disk, storage->store, image);
        return BASE_OK;
    }
    struct sim_partial *partial = find(storage, name);
    if (partial == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    unlink_partial(storage->disk, storage->store, partial, storage->alloc);
    return BASE_OK;
}

static enum base_status blob_each(void *ctx,
                                  void (*visit)(void *visit_ctx, const struct wire_sha256 *name),
                                  void *visit_ctx)
{
    // The visitor may delete what it is shown: an image does not change, and of the partials the
    // next one is known before the visit.
    const struct sim_storage *storage = ctx;
    uint32_t image = image_of(storage);
    const struct sim_blob *blob;
    for (uint32_t i = 0; (blob = sim_image_blob(storage->store, image, i)) != NULL; i++) {
        visit(visit_ctx, &blob->name);
    }
    struct sim_partial *next;
    for (struct sim_partial *at = partials_of(storage->disk, storage->store); at != NULL;
         at = next) {
        next = at->next;
        struct wire_sha256 name = at->name;
        visit(visit_ctx, &name);
    }
    return BASE_OK;
}

struct dev_storage_port sim_storage_port(struct sim_storage *storage)
{
    return (struct dev_storage_port){
        .ctx = storage,
        .steady = true,
        .state_load = state_load,
        .state_save = state_save,
        .blob_stat = blob_stat,
        .blob_append = blob_append,
        .blob_seal = blob_seal,
        .blob_map = blob_map,
        .blob_unmap = blob_unmap,
        .blob_delete = blob_delete,
        .blob_each = blob_each,
    };
}

void sim_storage_kill(struct sim_storage *storage, uint64_t draw)
{
    for (struct sim_partial *at = partials_of(storage->disk, storage->store); at != NULL;
         at = at->next) {
        if (!at->sealed && at->size > 0) {
            at->size = (size_t)(draw % (at->size + 1));
            draw = draw * 6364136223846793005u + 1442695040888963407u;
        }
    }
}

bool sim_storage_tear(struct sim_storage *storage, const uint8_t *noise, size_t size)
{
    bool tore = false;
    for (struct sim_partial *at = partials_of(storage->disk, storage->store); at != NULL;
         at = at->next) {
        size_t torn = size < at->size ? size : at->size;
        if (!at->sealed && torn > 0 && own(storage, at, at->size) == BASE_OK) {
            memcpy(at->bytes + at->size - torn, noise, torn);
            tore = true;
        }
    }
    return tore;
}

void sim_disk_done(struct sim_disk *disk, struct sim_store *store,
                   const struct base_alloc_port *alloc)
{
    while (disk->aside) {
        unlink_partial(disk, store, partials_of(disk, store), alloc);
    }
    sim_states_drop(sim_store_states(store), &disk->state);
    *disk = (struct sim_disk){0};
}

uint64_t sim_disk_bytes(const struct sim_disk *disk, const struct sim_store *store)
{
    uint64_t bytes = 0;
    for (const struct sim_partial *at = partials_of(disk, store); at != NULL; at = at->next) {
        bytes += sizeof(*at) + at->capacity;
    }
    return bytes;
}

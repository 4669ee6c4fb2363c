// Storage in memory with faults: any operation can fail, storage can be full, and a crash takes
// away what was not made durable. Called by the runtime under test and by tests, through
// mem_port.c, on one thread. The record has two images, the written one and the durable one;
// unsealed content stays behind a crash or not, as a test asks. Every operation that changes
// storage is counted, so that a test can let the nth fail, or all from the nth on, for each n in
// turn.
#include "mem/mem_internal.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

// Counts an operation that changes storage and says whether it fails.
static enum base_status operation(struct mem_port *port)
{
    struct mem_storage *storage = &port->storage;
    if (!mem_port_alive(port)) {
        return BASE_ERR_IO;
    }
    storage->operations++;
    bool fails = storage->operations == storage->fail_at ||
                 (storage->fail_from > 0 && storage->operations >= storage->fail_from);
    return fails ? storage->fail_status : BASE_OK;
}

static struct mem_blob *blob_of(struct mem_storage *storage, const struct wire_sha256 *name)
{
    for (uint32_t i = 0; i < MEM_BLOBS_MAX; i++) {
        if (storage->blobs[i].used && wire_sha256_equal(&storage->blobs[i].name, name)) {
            return &storage->blobs[i];
        }
    }
    return NULL;
}

static struct mem_blob *blob_add(struct mem_storage *storage, const struct wire_sha256 *name)
{
    for (uint32_t i = 0; i < MEM_BLOBS_MAX; i++) {
        if (!storage->blobs[i].used) {
            storage->blobs[i] = (struct mem_blob){.name = *name, .used = true};
            return &storage->blobs[i];
        }
    }
    return NULL;
}

struct record {
    const uint8_t *bytes;
    size_t size;
    bool there;
};

static enum base_status record_load(struct record record, uint8_t *out, size_t capacity,
                                    size_t *out_size)
{
    if (!record.there) {
        return BASE_ERR_NOT_FOUND;
    }
    if (record.size > capacity) {
        return BASE_ERR_TOO_LARGE;
    }
    memcpy(out, record.bytes, record.size);
    *out_size = record.size;
    return BASE_OK;
}

static enum base_status state_load(void *ctx, uint8_t *out, size_t capacity, size_t *out_size)
{
    const struct mem_storage *storage = &((struct mem_port *)ctx)->storage;
    return record_load((struct record){storage->state, storage->state_bytes, storage->has_state},
                       out, capacity, out_size);
}

static enum base_status state_before(void *ctx, uint8_t *out, size_t capacity, size_t *out_size)
{
    const struct mem_storage *storage = &((struct mem_port *)ctx)->storage;
    return record_load((struct record){storage->before, storage->before_bytes, storage->has_before},
                       out, capacity, out_size);
}

static enum base_status state_save(void *ctx, const uint8_t *bytes, size_t size)
{
    struct mem_storage *storage = &((struct mem_port *)ctx)->storage;
    BASE_TRY(operation(ctx));
    base_check(size <= sizeof(storage->state));
    memcpy(storage->before, storage->state, storage->state_bytes);
    storage->before_bytes = storage->state_bytes;
    storage->has_before = storage->has_state;
    memcpy(storage->state, bytes, size);
    storage->state_bytes = size;
    storage->has_state = true;
    storage->saves++;
    return BASE_OK;
}

static enum base_status blob_stat(void *ctx, const struct wire_sha256 *name, uint64_t *out_bytes,
                                  bool *out_sealed)
{
    struct mem_storage *storage = &((struct mem_port *)ctx)->storage;
    const struct mem_blob *blob = blob_of(storage, name);
    if (blob == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    *out_bytes = blob->size;
    *out_sealed = blob->sealed;
    return BASE_OK;
}

static uint64_t bytes_used(const struct mem_storage *storage)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < MEM_BLOBS_MAX; i++) {
        const struct mem_blob *blob = &storage->blobs[i];
        uint64_t most = blob->reserved > blob->size ? blob->reserved : blob->size;
        used += blob->used ? most : 0;
    }
    return used;
}

static enum base_status space(void *ctx, uint64_t *out_bytes)
{
    const struct mem_storage *storage = &((struct mem_port *)ctx)->storage;
    uint64_t used = bytes_used(storage);
    *out_bytes = UINT64_MAX;
    if (storage->bytes_limit > 0) {
        *out_bytes = storage->bytes_limit > used ? storage->bytes_limit - used : 0;
    }
    return BASE_OK;
}

static enum base_status blob_reserve(void *ctx, const struct wire_sha256 *name, uint64_t bytes)
{
    struct mem_storage *storage = &((struct mem_port *)ctx)->storage;
    struct mem_blob *blob = blob_of(storage, name);
    BASE_TRY(operation(ctx));
    if (bytes == 0) {
        if (blob != NULL && blob->size == 0) {
            free(blob->bytes);
            memset(blob, 0, sizeof(*blob));
        } else if (blob != NULL) {
            blob->reserved = 0;
        }
        return BASE_OK;
    }
    uint64_t have = blob != NULL ? blob->size : 0;
    if (storage->bytes_limit > 0 && bytes_used(storage) + bytes - have > storage->bytes_limit) {
        return BASE_ERR_FULL;
    }
    blob = blob != NULL ? blob : blob_add(storage, name);
    if (blob == NULL) {
        return BASE_ERR_FULL;
    }
    blob->reserved = bytes;
    return BASE_OK;
}

static enum base_status blob_append(void *ctx, const struct wire_sha256 *name, uint64_t offset,
                                    const uint8_t *bytes, size_t size)
{
    struct mem_storage *storage = &((struct mem_port *)ctx)->storage;
    BASE_TRY(operation(ctx));
    struct mem_blob *blob = blob_of(storage, name);
    bool kept = blob != NULL && blob->size + size <= blob->reserved;
    if (!kept && storage->bytes_limit > 0 && bytes_used(storage) + size > storage->bytes_limit) {
        return BASE_ERR_FULL;
    }
    blob = blob != NULL ? blob : blob_add(storage, name);
    if (blob == NULL) {
        return BASE_ERR_FULL;
    }
    if (blob->sealed || blob->size != offset) {
        return BASE_ERR_INVALID;
    }
    base_check(blob->maps == 0); // the bytes move below
    uint8_t *grown = realloc(blob->bytes, blob->size + size + 1);
    base_check(grown != NULL);
    if (size > 0) {
        memcpy(grown + blob->size, bytes, size);
    }
    blob->bytes = grown;
    blob->size += size;
    return BASE_OK;
}

static enum base_status blob_seal(void *ctx, const struct wire_sha256 *name)
{
    struct mem_storage *storage = &((struct mem_port *)ctx)->storage;
    BASE_TRY(operation(ctx));
    struct mem_blob *blob = blob_of(storage, name);
    if (blob == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    blob->sealed = true;
    blob->reserved = 0;
    return BASE_OK;
}

static enum base_status blob_map(void *ctx, const struct wire_sha256 *name,
                                 const uint8_t **out_bytes, size_t *out_size)
{
    struct mem_storage *storage = &((struct mem_port *)ctx)->storage;
    struct mem_blob *blob = blob_of(storage, name);
    if (blob == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    blob->maps++;
    *out_bytes = blob->bytes;
    *out_size = blob->size;
    return BASE_OK;
}

static void blob_unmap(void *ctx, const struct wire_sha256 *name, const uint8_t *bytes, size_t size)
{
    struct mem_storage *storage = &((struct mem_port *)ctx)->storage;
    struct mem_blob *blob = blob_of(storage, name);
    (void)size;
    base_check(blob != NULL);
    base_check(blob->maps > 0);
    base_check(bytes == NULL || bytes == blob->bytes);
    blob->maps--;
}

static enum base_status blob_delete(void *ctx, const struct wire_sha256 *name)
{
    struct mem_storage *storage = &((struct mem_port *)ctx)->storage;
    BASE_TRY(operation(ctx));
    struct mem_blob *blob = blob_of(storage, name);
    if (blob == NULL) {
        return BASE_ERR_NOT_FOUND;
    }
    base_check(blob->maps == 0);
    free(blob->bytes);
    memset(blob, 0, sizeof(*blob));
    return BASE_OK;
}

static enum base_status blob_each(void *ctx,
                                  void (*visit)(void *visit_ctx, const struct wire_sha256 *name),
                                  void *visit_ctx)
{
    struct mem_storage *storage = &((struct mem_port *)ctx)->storage;
    for (uint32_t i = 0; i < MEM_BLOBS_MAX; i++) {
        if (storage->blobs[i].used) {
            visit(visit_ctx, &storage->blobs[i].name);
        }
    }
    return BASE_OK;
}

struct dev_storage_port mem_storage_port(struct mem_port *port)
{
    port->storage.fail_status = BASE_ERR_IO;
    return (struct dev_storage_port){
        .ctx = port,
        .state_load = state_load,
        .state_before = state_before,
        .state_save = state_save,
        .blob_stat = blob_stat,
        .blob_append = blob_append,
        .blob_seal = blob_seal,
        .space = space,
        .blob_reserve = blob_reserve,
        .blob_map = blob_map,
        .blob_unmap = blob_unmap,
        .blob_delete = blob_delete,
        .blob_each = blob_each,
    };
}

void mem_storage_crash(struct mem_storage *storage)
{
    for (uint32_t i = 0; i < MEM_BLOBS_MAX; i++) {
        struct mem_blob *blob = &storage->blobs[i];
        blob->maps = 0;
        if (blob->used && !blob->sealed && storage->lose_partials) {
            free(blob->bytes);
            memset(blob, 0, sizeof(*blob));
        }
    }
}

void mem_storage_done(struct mem_storage *storage)
{
    for (uint32_t i = 0; i < MEM_BLOBS_MAX; i++) {
        free(storage->blobs[i].bytes);
        storage->blobs[i].bytes = NULL;
    }
}

struct mem_blob *mem_blob_find(struct mem_port *port, const struct wire_sha256 *name)
{
    return blob_of(&port->storage, name);
}

uint32_t mem_blob_count(const struct mem_port *port)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < MEM_BLOBS_MAX; i++) {
        count += port->storage.blobs[i].used ? 1 : 0;
    }
    return count;
}

void mem_blob_put(struct mem_port *port, const struct wire_sha256 *name, const uint8_t *bytes,
                  size_t size, bool sealed)
{
    struct mem_blob *blob = blob_add(&port->storage, name);
    base_check(blob != NULL);
    blob->bytes = malloc(size + 1);
    base_check(blob->bytes != NULL);
    if (size > 0) {
        memcpy(blob->bytes, bytes, size);
    }
    blob->size = size;
    blob->sealed = sealed;
}

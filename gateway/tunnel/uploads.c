// The table of uploads.h: chains of immutable entries. Declared by the control thread and at start,
// looked up by workers for each batch. gw_tunnel.c declares, session_content.c looks up,
// api_tunnel.c walks for the operators. Of an entry only counters (atomic) and the ring of refused
// records change: a worker may use one after it let go of the lock.
#include "tunnel/uploads.h"

#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u

struct gw_uploads {
    struct base_hash_key key;
    pthread_rwlock_t lock;
    uint32_t count;
    struct gw_upload_entry *buckets[BUCKETS];
    struct gw_upload_entry *replaced;
};

enum base_status gw_uploads_new(const struct base_hash_key *key, struct gw_uploads **out)
{
    struct gw_uploads *uploads = calloc(1, sizeof(*uploads));
    if (uploads == NULL) {
        return BASE_ERR_NOMEM;
    }
    uploads->key = *key;
    pthread_rwlock_init(&uploads->lock, NULL);
    *out = uploads;
    return BASE_OK;
}

static void free_chain(struct gw_upload_entry *upload)
{
    while (upload != NULL) {
        struct gw_upload_entry *next = upload->next;
        gw_schema_free(upload->schema);
        gw_refused_free(upload->refused);
        free(upload);
        upload = next;
    }
}

void gw_uploads_free(struct gw_uploads *uploads)
{
    if (uploads == NULL) {
        return;
    }
    for (uint32_t i = 0; i < BUCKETS; i++) {
        free_chain(uploads->buckets[i]);
    }
    free_chain(uploads->replaced);
    pthread_rwlock_destroy(&uploads->lock);
    free(uploads);
}

struct base_str gw_upload_entry_task(const struct gw_upload_entry *upload)
{
    return (struct base_str){upload->names, upload->task_size};
}

struct base_str gw_upload_entry_name(const struct gw_upload_entry *upload)
{
    return (struct base_str){upload->names + upload->task_size, upload->upload_size};
}

static uint64_t hash_of(const struct gw_uploads *uploads, const struct wire_upload_key *key)
{
    uint64_t task = base_keyed64(&uploads->key, key->task.data, key->task.size);
    uint64_t name = base_keyed64(&uploads->key, key->name.data, key->name.size);
    return base_keyed64_pair(&uploads->key, task + key->schema, name);
}

static struct gw_upload_entry **find_link(struct gw_uploads *uploads,
                                          const struct wire_upload_key *key, uint64_t hash)
{
    struct gw_upload_entry **at = &uploads->buckets[hash % BUCKETS];
    while (*at != NULL && !((*at)->hash == hash && (*at)->version == key->schema &&
                            base_str_equal(gw_upload_entry_task(*at), key->task) &&
                            base_str_equal(gw_upload_entry_name(*at), key->name))) {
        at = &(*at)->next;
    }
    return at;
}

struct gw_upload_entry *gw_uploads_find(struct gw_uploads *uploads,
                                        const struct wire_upload_key *key)
{
    uint64_t hash = hash_of(uploads, key);
    pthread_rwlock_rdlock(&uploads->lock);
    struct gw_upload_entry *found = *find_link(uploads, key, hash);
    pthread_rwlock_unlock(&uploads->lock);
    return found;
}

static enum base_status make_upload(const struct gw_uploads *uploads,
                                    const struct gw_upload *upload, struct gw_upload_entry **out,
                                    struct base_error *error)
{
    const struct wire_upload_key *from = &upload->key;
    if (!wire_upload_key_ok(from)) {
        return base_error_set(error, BASE_ERR_INVALID, "upload: names are malformed");
    }
    struct gw_upload_entry *entry = calloc(1, sizeof(*entry) + from->task.size + from->name.size);
    if (entry == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "upload: no memory");
    }
    base_assert(from->task.size <= UINT8_MAX && from->name.size <= UINT8_MAX);
    entry->hash = hash_of(uploads, from);
    entry->tenant = upload->tenant;
    entry->class_id = upload->class_id;
    entry->version = from->schema;
    entry->task_size = (uint8_t)from->task.size;
    entry->upload_size = (uint8_t)from->name.size;
    memcpy(entry->names, from->task.data, from->task.size);
    memcpy(entry->names + from->task.size, from->name.data, from->name.size);
    if (upload->schema.size > 0) {
        struct base_error inner = {0};
        enum base_status status = gw_schema_parse(upload->schema, &entry->schema, &inner);
        if (status != BASE_OK) {
            free(entry);
            return base_error_set(error, status, "upload %.*s: %s", (int)from->name.size,
                                  from->name.data, inner.text);
        }
    }
    *out = entry;
    return BASE_OK;
}

// Under the lock. Takes the upload, unless it fails.
static enum base_status insert(struct gw_uploads *uploads, const struct wire_upload_key *from,
                               struct gw_upload_entry *upload)
{
    struct gw_upload_entry **link = find_link(uploads, from, upload->hash);
    struct gw_upload_entry *old = *link;
    base_assert(upload->next == NULL);
    base_assert(uploads->count <= GW_UPLOADS_MAX);
    if (old == NULL) {
        if (uploads->count == GW_UPLOADS_MAX) {
            return BASE_ERR_LIMIT;
        }
        uploads->count++;
        *link = upload;
        return BASE_OK;
    }
    if (old->tenant != upload->tenant) {
        return BASE_ERR_CONFLICT;
    }
    upload->records = atomic_load_explicit(&old->records, memory_order_relaxed);
    upload->rejected = atomic_load_explicit(&old->rejected, memory_order_relaxed);
    upload->next = old->next;
    *link = upload;
    old->next = uploads->replaced;
    uploads->replaced = old;
    return BASE_OK;
}

enum base_status gw_uploads_declare(struct gw_uploads *uploads, const struct gw_upload *upload,
                                    struct base_error *error)
{
    struct gw_upload_entry *made = NULL;
    BASE_TRY(make_upload(uploads, upload, &made, error));
    pthread_rwlock_wrlock(&uploads->lock);
    enum base_status status = insert(uploads, &upload->key, made);
    pthread_rwlock_unlock(&uploads->lock);
    if (status != BASE_OK) {
        gw_schema_free(made->schema);
        free(made);
        return base_error_set(error, status, "upload: %s",
                              status == BASE_ERR_LIMIT ? "too many are declared"
                                                       : "it is another tenant's");
    }
    return BASE_OK;
}

void gw_uploads_walk(struct gw_uploads *uploads, uint32_t tenant,
                     void (*visit)(void *ctx, const struct gw_upload_entry *upload), void *ctx)
{
    pthread_rwlock_rdlock(&uploads->lock);
    for (uint32_t i = 0; i < BUCKETS; i++) {
        for (const struct gw_upload_entry *upload = uploads->buckets[i]; upload != NULL;
             upload = upload->next) {
            if (upload->tenant == tenant) {
                visit(ctx, upload);
            }
        }
    }
    pthread_rwlock_unlock(&uploads->lock);
}

// The table of topics.h: chains of immutable entries. Declared by the control thread and at start,
// looked up by workers for each batch. ingest.c declares, session_content.c looks up, api_tunnel.c
// walks for the operators. Of an entry only counters (atomic) and the ring of refused records
// change: a worker may use one after it let go of the lock.
#include "tunnel/topics.h"

#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u

struct gw_topics {
    struct base_hash_key key;
    pthread_rwlock_t lock;
    uint32_t count;
    struct gw_topic *buckets[BUCKETS];
    struct gw_topic *replaced;
};

enum base_status gw_topics_new(const struct base_hash_key *key, struct gw_topics **out)
{
    struct gw_topics *topics = calloc(1, sizeof(*topics));
    if (topics == NULL) {
        return BASE_ERR_NOMEM;
    }
    topics->key = *key;
    pthread_rwlock_init(&topics->lock, NULL);
    *out = topics;
    return BASE_OK;
}

static void free_chain(struct gw_topic *topic)
{
    while (topic != NULL) {
        struct gw_topic *next = topic->next;
        gw_schema_free(topic->schema);
        gw_refused_free(topic->refused);
        free(topic);
        topic = next;
    }
}

void gw_topics_free(struct gw_topics *topics)
{
    if (topics == NULL) {
        return;
    }
    for (uint32_t i = 0; i < BUCKETS; i++) {
        free_chain(topics->buckets[i]);
    }
    free_chain(topics->replaced);
    pthread_rwlock_destroy(&topics->lock);
    free(topics);
}

struct base_str gw_topic_task(const struct gw_topic *topic)
{
    return (struct base_str){topic->names, topic->task_size};
}

struct base_str gw_topic_upload(const struct gw_topic *topic)
{
    return (struct base_str){topic->names + topic->task_size, topic->upload_size};
}

static uint64_t hash_of(const struct gw_topics *topics, const struct wire_topic *topic)
{
    uint64_t task = base_keyed64(&topics->key, topic->task.data, topic->task.size);
    uint64_t upload = base_keyed64(&topics->key, topic->upload.data, topic->upload.size);
    return base_keyed64_pair(&topics->key, task + topic->schema, upload);
}

static struct gw_topic **find_link(struct gw_topics *topics, const struct wire_topic *topic,
                                   uint64_t hash)
{
    struct gw_topic **at = &topics->buckets[hash % BUCKETS];
    while (*at != NULL && !((*at)->hash == hash && (*at)->version == topic->schema &&
                            base_str_equal(gw_topic_task(*at), topic->task) &&
                            base_str_equal(gw_topic_upload(*at), topic->upload))) {
        at = &(*at)->next;
    }
    return at;
}

struct gw_topic *gw_topics_find(struct gw_topics *topics, const struct wire_topic *topic)
{
    uint64_t hash = hash_of(topics, topic);
    pthread_rwlock_rdlock(&topics->lock);
    struct gw_topic *found = *find_link(topics, topic, hash);
    pthread_rwlock_unlock(&topics->lock);
    return found;
}

static enum base_status make_topic(const struct gw_topics *topics, const struct gw_upload *upload,
                                   struct gw_topic **out, struct base_error *error)
{
    const struct wire_topic *from = &upload->topic;
    if (!wire_topic_ok(from)) {
        return base_error_set(error, BASE_ERR_INVALID, "upload: names are malformed");
    }
    struct gw_topic *topic = calloc(1, sizeof(*topic) + from->task.size + from->upload.size);
    if (topic == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "upload: no memory");
    }
    base_assert(from->task.size <= UINT8_MAX);
    base_assert(from->upload.size <= UINT8_MAX);
    topic->hash = hash_of(topics, from);
    topic->tenant = upload->tenant;
    topic->class_id = upload->class_id;
    topic->version = from->schema;
    topic->task_size = (uint8_t)from->task.size;
    topic->upload_size = (uint8_t)from->upload.size;
    memcpy(topic->names, from->task.data, from->task.size);
    memcpy(topic->names + from->task.size, from->upload.data, from->upload.size);
    if (upload->schema.size > 0) {
        struct base_error inner = {0};
        enum base_status status = gw_schema_parse(upload->schema, &topic->schema, &inner);
        if (status != BASE_OK) {
            free(topic);
            return base_error_set(error, status, "upload %.*s: %s", (int)from->upload.size,
                                  from->upload.data, inner.text);
        }
    }
    *out = topic;
    return BASE_OK;
}

// Under the lock. Takes the topic, unless it fails.
static enum base_status insert(struct gw_topics *topics, const struct wire_topic *from,
                               struct gw_topic *topic)
{
    struct gw_topic **link = find_link(topics, from, topic->hash);
    struct gw_topic *old = *link;
    base_assert(topic->next == NULL);
    base_assert(topics->count <= GW_TOPICS_MAX);
    if (old == NULL) {
        if (topics->count == GW_TOPICS_MAX) {
            return BASE_ERR_LIMIT;
        }
        topics->count++;
        *link = topic;
        return BASE_OK;
    }
    if (old->tenant != topic->tenant) {
        return BASE_ERR_CONFLICT;
    }
    topic->records = atomic_load_explicit(&old->records, memory_order_relaxed);
    topic->rejected = atomic_load_explicit(&old->rejected, memory_order_relaxed);
    topic->next = old->next;
    *link = topic;
    old->next = topics->replaced;
    topics->replaced = old;
    return BASE_OK;
}

enum base_status gw_topics_declare(struct gw_topics *topics, const struct gw_upload *upload,
                                   struct base_error *error)
{
    struct gw_topic *made = NULL;
    BASE_TRY(make_topic(topics, upload, &made, error));
    pthread_rwlock_wrlock(&topics->lock);
    enum base_status status = insert(topics, &upload->topic, made);
    pthread_rwlock_unlock(&topics->lock);
    if (status != BASE_OK) {
        gw_schema_free(made->schema);
        free(made);
        return base_error_set(error, status, "upload: %s",
                              status == BASE_ERR_LIMIT ? "too many are declared"
                                                       : "it is another tenant's");
    }
    return BASE_OK;
}

void gw_topics_walk(struct gw_topics *topics, uint32_t tenant,
                    void (*visit)(void *ctx, const struct gw_topic *topic), void *ctx)
{
    pthread_rwlock_rdlock(&topics->lock);
    for (uint32_t i = 0; i < BUCKETS; i++) {
        for (const struct gw_topic *topic = topics->buckets[i]; topic != NULL;
             topic = topic->next) {
            if (topic->tenant == tenant) {
                visit(ctx, topic);
            }
        }
    }
    pthread_rwlock_unlock(&topics->lock);
}

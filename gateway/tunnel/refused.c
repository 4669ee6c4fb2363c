// Rings of refused records, one for each upload that had any. Called by the workers, for records
// they refuse, and by the operators' API. Those are session_content.c and api_tunnel.c; uploads.c
// frees a ring with its upload. One mutex for a ring. A record is kept in part when it is large: it
// is there to show what is wrong, the count is the upload's.
#include "tunnel/refused.h"

#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct gw_refused {
    pthread_mutex_t lock;
    uint64_t count; // kept so far, those that are gone included
    struct gw_refused_record ring[GW_REFUSED_KEPT];
};

static struct gw_refused *get(struct gw_refused *_Atomic *at)
{
    struct gw_refused *refused = atomic_load_explicit(at, memory_order_acquire);
    if (refused != NULL) {
        return refused;
    }
    struct gw_refused *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    pthread_mutex_init(&made->lock, NULL);
    if (atomic_compare_exchange_strong(at, &refused, made)) {
        return made;
    }
    gw_refused_free(made);
    return refused; // another worker was first
}

void gw_refused_keep(struct gw_refused *_Atomic *at, const struct gw_refused_record *like,
                     const uint8_t *bytes, size_t size)
{
    struct gw_refused *refused = get(at);
    if (refused == NULL) {
        return;
    }
    size_t kept = size < GW_REFUSED_BYTES ? size : GW_REFUSED_BYTES;
    pthread_mutex_lock(&refused->lock);
    struct gw_refused_record *record = &refused->ring[refused->count++ % GW_REFUSED_KEPT];
    *record = *like;
    base_assert(size <= UINT32_MAX);
    record->size = (uint32_t)size;
    record->kept = (uint32_t)kept;
    memcpy(record->bytes, bytes, kept);
    pthread_mutex_unlock(&refused->lock);
}

void gw_refused_walk(struct gw_refused *refused,
                     void (*visit)(void *ctx, const struct gw_refused_record *record), void *ctx)
{
    if (refused == NULL) {
        return;
    }
    pthread_mutex_lock(&refused->lock);
    uint64_t most = refused->count < GW_REFUSED_KEPT ? refused->count : GW_REFUSED_KEPT;
    for (uint64_t i = 1; i <= most; i++) {
        visit(ctx, &refused->ring[(refused->count - i) % GW_REFUSED_KEPT]);
    }
    pthread_mutex_unlock(&refused->lock);
}

void gw_refused_free(struct gw_refused *refused)
{
    if (refused != NULL) {
        pthread_mutex_destroy(&refused->lock);
        free(refused);
    }
}

// The shelf of interrupted batches. session_hello.c leaves one when a session ends within a batch
// and takes it when the device is back, on the workers' threads; the device may come to another
// worker, hence one shelf with one mutex. At most GW_PARTIALS_MAX and GW_PARTIALS_BYTES: the one
// left first goes first. Memory is given back outside the lock.
#include "tunnel/tunnel_partials.h"

#include "tunnel/tunnel_batch.h"

#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct shelved {
    struct gw_partial partial;
    uint32_t bytes;
};

struct gw_tunnel_partials {
    pthread_mutex_t lock;
    uint64_t bytes;
    uint32_t count;
    struct shelved items[GW_PARTIALS_MAX]; // oldest first
};

enum base_status gw_tunnel_partials_new(struct gw_tunnel_partials **out)
{
    struct gw_tunnel_partials *partials = calloc(1, sizeof(*partials));
    if (partials == NULL) {
        return BASE_ERR_NOMEM;
    }
    pthread_mutex_init(&partials->lock, NULL);
    *out = partials;
    return BASE_OK;
}

void gw_tunnel_partials_free(struct gw_tunnel_partials *partials)
{
    if (partials == NULL) {
        return;
    }
    for (uint32_t i = 0; i < partials->count; i++) {
        gw_tunnel_batch_free(partials->items[i].partial.batch);
    }
    pthread_mutex_destroy(&partials->lock);
    free(partials);
}

static struct gw_partial remove_at(struct gw_tunnel_partials *partials, uint32_t at)
{
    base_assert(at < partials->count);
    const struct shelved item = partials->items[at];
    base_assert(partials->bytes >= item.bytes);
    partials->bytes -= item.bytes;
    partials->count--;
    memmove(&partials->items[at], &partials->items[at + 1],
            (partials->count - at) * sizeof(partials->items[0]));
    return item.partial;
}

void gw_tunnel_partials_leave(struct gw_tunnel_partials *partials, const struct gw_partial *partial,
                              uint32_t bytes)
{
    struct gw_tunnel_batch *gone[GW_PARTIALS_MAX];
    uint32_t gone_count = 0;
    pthread_mutex_lock(&partials->lock);
    while (partials->count > 0 &&
           (partials->count == GW_PARTIALS_MAX || partials->bytes + bytes > GW_PARTIALS_BYTES)) {
        gone[gone_count++] = remove_at(partials, 0).batch;
    }
    base_assert(partials->count < GW_PARTIALS_MAX);
    partials->items[partials->count++] = (struct shelved){*partial, bytes};
    partials->bytes += bytes;
    pthread_mutex_unlock(&partials->lock);
    for (uint32_t i = 0; i < gone_count; i++) {
        gw_tunnel_batch_free(gone[i]);
    }
}

bool gw_tunnel_partials_take(struct gw_tunnel_partials *partials, uint64_t device, uint8_t class_id,
                             uint32_t epoch, struct gw_partial *out)
{
    bool found = false;
    pthread_mutex_lock(&partials->lock);
    for (uint32_t i = partials->count; i > 0 && !found; i--) {
        const struct gw_partial *partial = &partials->items[i - 1].partial;
        if (partial->device == device && partial->class_id == class_id && partial->epoch == epoch) {
            *out = remove_at(partials, i - 1);
            found = true;
        }
    }
    pthread_mutex_unlock(&partials->lock);
    return found;
}

// Batches in memory: made on the worker's thread for what comes, by session_batch.c; `landed` is
// called by the sink's thread when it gives one back. Where memory was short and is not any more,
// all workers are woken.
#include "tunnel/tunnel_batch.h"

#include "tunnel/gw_tunnel_private.h"
#include "tunnel/tunnel_worker.h"
#include "tunnel/session_private.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

// From the sink's thread: what became of a batch goes into its mark, and to the session that owns
// the lane now.
static void landed(struct gw_sink_batch *self, enum base_status status)
{
    struct gw_tunnel_batch *batch = (struct gw_tunnel_batch *)self;
    struct gw_tunnel *tunnel = batch->tunnel;
    bool ok = status == BASE_OK;
    base_assert(batch->lane != NULL); // it was submitted for one
    struct gw_mark_shard *shard = gw_marks_lock(tunnel->marks, self->device);
    struct gw_lane *lane = batch->lane;
    gw_lane_landed(shard, lane, &batch->id, self->tenant, ok);
    struct gw_session_class *owner = lane->owner;
    if (owner != NULL) {
        if (!self->is_loss && batch->owners == lane->owners) {
            owner->landed_bytes += self->batch.sent_bytes;
            owner->landed_records += self->batch.count;
        }
        gw_session_notify(owner->session, !ok ? GW_SESSION_FAILED : 0, true);
    }
    gw_lane_release(shard, lane);
    gw_marks_unlock(shard);
    if (!ok) {
        atomic_fetch_add_explicit(&tunnel->failed, 1, memory_order_relaxed);
    }
    gw_tunnel_batch_free(batch);
}

struct gw_tunnel_batch *gw_tunnel_batch_new(struct gw_session *session, uint32_t payload_bytes)
{
    struct gw_tunnel *tunnel = session->worker->tunnel;
    base_assert(payload_bytes <= UINT32_MAX - sizeof(struct gw_tunnel_batch));
    uint32_t bytes = (uint32_t)sizeof(struct gw_tunnel_batch) + payload_bytes;
    struct gw_tunnel_batch *batch = malloc(bytes);
    if (batch == NULL) {
        return NULL;
    }
    memset(batch, 0, sizeof(*batch));
    batch->tunnel = tunnel;
    batch->memory = bytes;
    batch->sink.device = session->device;
    batch->sink.tenant = session->tenant;
    batch->sink.device_ms = session->device_ms;
    batch->sink.done = landed;
    atomic_fetch_add_explicit(&tunnel->memory, bytes, memory_order_relaxed);
    return batch;
}

static void wake_workers(struct gw_tunnel *tunnel)
{
    pthread_mutex_lock(&tunnel->workers_lock);
    for (struct gw_tunnel_worker *worker = tunnel->workers; worker != NULL; worker = worker->next) {
        gw_tunnel_worker_wake(worker);
    }
    pthread_mutex_unlock(&tunnel->workers_lock);
}

// True: with this there was just enough again.
static bool release_memory(struct gw_tunnel_batch *batch)
{
    struct gw_tunnel *tunnel = batch->tunnel;
    uint64_t before =
        atomic_fetch_sub_explicit(&tunnel->memory, batch->memory, memory_order_relaxed);
    base_assert(before >= batch->memory);
    bool crossed = before > tunnel->memory_max && before - batch->memory <= tunnel->memory_max;
    free(batch);
    return crossed;
}

void gw_tunnel_batch_free(struct gw_tunnel_batch *batch)
{
    if (batch != NULL) {
        struct gw_tunnel *tunnel = batch->tunnel;
        if (release_memory(batch)) {
            wake_workers(tunnel);
        }
    }
}

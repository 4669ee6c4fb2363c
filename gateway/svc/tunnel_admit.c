// POST /v1/tunnel: who may open a tunnel stream, and which streams end when devices are revoked.
// What a stream carries is the tunnel's (gateway/tunnel), the bytes are the transport's
// (gateway/http). Worker's thread.
#include "svc/tunnel_admit.h"

#include "svc/core_private.h"
#include "svc/access/credentials.h"
#include "svc/device/hints.h"
#include "svc/reply.h"
#include "svc/core_worker.h"

#include "wire/digest.h"

void gw_tunnel_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct gw_core *core = worker->core;
    uint64_t device_id = 0;
    uint16_t tenant = 0;
    enum gw_admission admission;
    if (!atomic_load_explicit(&core->set.ready, memory_order_relaxed)) {
        gw_reply_busy(exchange, core->set.retry_after_s); // draining: another one, or later
    } else if (wire_device_parse_own(exchange->request.device, &device_id) != BASE_OK) {
        gw_reply_problem(exchange, 400, "walle-device: " WIRE_DEVICE_OWN_EXPECTED);
    } else if ((admission = gw_device_admit(core, &exchange->request, device_id, &tenant)) !=
               GW_ADMITTED) {
        gw_admission_refuse(exchange, admission);
    } else {
        gw_reply_body(exchange, 200, BASE_STR("application/octet-stream"), NULL, 0);
        gw_reply_header(&exchange->reply, BASE_STR("cache-control"), BASE_STR("no-store"));
        exchange->reply.kind = GW_REPLY_DUPLEX;
        exchange->reply.device = device_id;
        exchange->reply.tenant = tenant;
        exchange->reply.proven = gw_request_proves(&exchange->request);
    }
    gw_exchange_finish(exchange);
}

void gw_worker_on_tunnel_end(struct gw_worker *worker, gw_tunnel_end_fn end, void *ctx)
{
    worker->tunnel_end = end;
    worker->tunnel_ctx = ctx;
}

static void count(struct gw_worker *worker)
{
    atomic_store_explicit(&worker->stats.tunnel_streams, worker->tunnel_count,
                          memory_order_relaxed);
}

void gw_worker_watch_tunnel(struct gw_worker *worker, uint64_t device_id,
                            struct gw_tunnel_watch *watch)
{
    watch->device_id = device_id;
    watch->next = worker->tunnels;
    watch->prev = &worker->tunnels;
    if (worker->tunnels != NULL) {
        worker->tunnels->prev = &watch->next;
    }
    worker->tunnels = watch;
    worker->tunnel_count++;
    count(worker);
}

void gw_worker_unwatch_tunnel(struct gw_worker *worker, struct gw_tunnel_watch *watch)
{
    if (watch->prev == NULL) {
        return;
    }
    if (worker->tunnel_at == watch) {
        worker->tunnel_at = watch->next;
    }
    *watch->prev = watch->next;
    if (watch->next != NULL) {
        watch->next->prev = watch->prev;
    }
    *watch = (struct gw_tunnel_watch){0};
    worker->tunnel_count--;
    count(worker);
}

// Begins again: whoever came since the last walk was let in when it was not revoked.
void gw_tunnels_revoked(struct gw_worker *worker)
{
    worker->tunnel_at = worker->tunnels;
}

void gw_tunnels_walk(struct gw_worker *worker)
{
    for (uint32_t i = 0; i < GW_HINT_SLICE && worker->tunnel_at != NULL; i++) {
        struct gw_tunnel_watch *watch = worker->tunnel_at;
        worker->tunnel_at = watch->next;
        if (worker->tunnel_end != NULL &&
            gw_credentials_revoked(worker->core->credentials, watch->device_id)) {
            worker->tunnel_end(worker->tunnel_ctx, watch);
        }
    }
    if (worker->tunnel_at != NULL) {
        gw_worker_wake(worker);
    }
}

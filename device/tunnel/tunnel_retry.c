// When to come back: back-off with decorrelated jitter, what the gateway asked for, and sampling.
//
// Each wait is drawn between the base and three times the last one, up to a cap, and only a durable
// acknowledgement makes waits short again: a gateway that accepts connections and stores nothing
// does not see its devices faster for it. Called on the runtime's thread.
#include "tunnel/tunnel_retry.h"

#include "tunnel/tunnel_private.h"

#include "base/check.h"

#define BASE_US (DEV_TUNNEL_BACKOFF_BASE_MS * TUNNEL_MS)
#define CAP_US  (DEV_TUNNEL_BACKOFF_CAP_MS * TUNNEL_MS)

uint64_t tunnel_draw(struct dev_tunnel *tunnel, uint64_t span)
{
    uint64_t bits = tunnel->ports.random.next(tunnel->ports.random.ctx);
    return span == UINT64_MAX ? bits : (uint64_t)((unsigned __int128)bits * (span + 1) >> 64);
}

void tunnel_failed(struct dev_tunnel *tunnel, uint64_t now_us)
{
    if (tunnel->backoff.retry_us > now_us) {
        return; // the streams of a lost connection fail one after the other
    }
    uint64_t wait = 0;
    if (tunnel->backoff.wait_us == 0) {
        wait = tunnel_draw(tunnel, BASE_US); // it worked until now
        tunnel->backoff.wait_us = BASE_US;
    } else {
        uint64_t most = tunnel->backoff.wait_us * 3;
        most = most < CAP_US ? most : CAP_US;
        base_assert(most >= BASE_US);
        wait = BASE_US + tunnel_draw(tunnel, most - BASE_US);
        tunnel->backoff.wait_us = wait;
    }
    tunnel->backoff.retry_us = base_sat_add_u64(now_us, wait);
}

void tunnel_fruit(struct dev_tunnel *tunnel, uint64_t now_us)
{
    (void)now_us;
    tunnel->backoff.wait_us = 0;
}

bool tunnel_may_connect(const struct dev_tunnel *tunnel, uint64_t now_us)
{
    return tunnel->backoff.retry_us <= now_us && tunnel->backoff.hold_us <= now_us;
}

void tunnel_throttle(struct dev_tunnel *tunnel, uint64_t now_us,
                     const struct wire_tunnel_throttle *throttle)
{
    tunnel->stats.throttles++;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        struct tunnel_class *class = tunnel->classes[id];
        if (class == NULL || (throttle->class_mask & 1u << id) == 0) {
            continue;
        }
        uint64_t wait = throttle->not_before_ms * TUNNEL_MS +
                        tunnel_draw(tunnel, throttle->spread_ms * TUNNEL_MS);
        // What was asked for before and ends later goes on: a sample alone sets nobody free.
        uint64_t hold_us = base_sat_add_u64(now_us, wait);
        class->hold_us = hold_us > class->hold_us ? hold_us : class->hold_us;
        class->sample_ppm = throttle->sample_ppm;
        class->sample_end_us = base_sat_add_u64(hold_us, WIRE_TUNNEL_SAMPLE_MS * TUNNEL_MS);
    }
}

void tunnel_drain(struct dev_tunnel *tunnel, uint64_t now_us, const struct wire_tunnel_drain *drain)
{
    uint64_t wait =
        drain->reconnect_after_ms * TUNNEL_MS + tunnel_draw(tunnel, drain->spread_ms * TUNNEL_MS);
    tunnel->backoff.hold_us = base_sat_add_u64(now_us, wait);
}

void tunnel_retry_after(struct dev_tunnel *tunnel, uint64_t now_us, uint32_t retry_after_s)
{
    uint64_t wait_s =
        retry_after_s < DEV_TUNNEL_RETRY_MAX_S ? retry_after_s : DEV_TUNNEL_RETRY_MAX_S;
    uint64_t wait = wait_s * 1000 * TUNNEL_MS;
    uint64_t hold_us = base_sat_add_u64(now_us, wait + tunnel_draw(tunnel, wait / 8));
    struct tunnel_backoff *backoff = &tunnel->backoff;
    backoff->hold_us = backoff->hold_us > hold_us ? backoff->hold_us : hold_us;
}

void tunnel_hurry(struct dev_tunnel *tunnel, uint64_t now_us)
{
    tunnel->backoff.retry_us = now_us;
}

uint64_t tunnel_not_before(const struct dev_tunnel *tunnel, uint64_t due_us)
{
    const struct tunnel_backoff *backoff = &tunnel->backoff;
    due_us = due_us > backoff->retry_us ? due_us : backoff->retry_us;
    return due_us > backoff->hold_us ? due_us : backoff->hold_us;
}

// When to come back: back-off with decorrelated jitter, what the gateway asked for, and sampling.
//
// Each wait is drawn between the base and three times the last one, up to a cap, and only a durable
// acknowledgement makes waits short again: a gateway that accepts connections and stores nothing
// does not see its devices faster for it. Called on the runtime's thread.
#include "tunnel/tunnel_private.h"

#define BASE_US (DEV_TUNNEL_BACKOFF_BASE_MS * TUNNEL_MS)
#define CAP_US  (DEV_TUNNEL_BACKOFF_CAP_MS * TUNNEL_MS)

uint64_t tunnel_draw(struct dev_tunnel *t, uint64_t span)
{
    uint64_t bits = t->ports.random.next(t->ports.random.ctx);
    return span == UINT64_MAX ? bits : (uint64_t)((unsigned __int128)bits * (span + 1) >> 64);
}

void tunnel_failed(struct dev_tunnel *t, uint64_t now_us)
{
    if (t->retry_us > now_us) {
        return; // the streams of a lost connection fail one after the other
    }
    uint64_t wait = 0;
    if (t->backoff_us == 0) {
        wait = tunnel_draw(t, BASE_US); // it worked until now
        t->backoff_us = BASE_US;
    } else {
        uint64_t most = t->backoff_us * 3;
        most = most < CAP_US ? most : CAP_US;
        wait = BASE_US + tunnel_draw(t, most - BASE_US);
        t->backoff_us = wait;
    }
    t->retry_us = base_sat_add_u64(now_us, wait);
}

void tunnel_fruit(struct dev_tunnel *t, uint64_t now_us)
{
    (void)now_us;
    t->backoff_us = 0;
}

bool tunnel_may_connect(const struct dev_tunnel *t, uint64_t now_us)
{
    return t->retry_us <= now_us && t->hold_us <= now_us;
}

void tunnel_throttle(struct dev_tunnel *t, uint64_t now_us,
                     const struct wire_tunnel_throttle *throttle)
{
    t->stats.throttles++;
    for (unsigned id = 0; id < WIRE_TUNNEL_CLASSES; id++) {
        struct tunnel_class *c = t->classes[id];
        if (c == NULL || (throttle->class_mask & 1u << id) == 0) {
            continue;
        }
        uint64_t wait =
            throttle->not_before_ms * TUNNEL_MS + tunnel_draw(t, throttle->spread_ms * TUNNEL_MS);
        // What was asked for before and ends later goes on: a sample alone sets nobody free.
        uint64_t hold_us = base_sat_add_u64(now_us, wait);
        c->hold_us = hold_us > c->hold_us ? hold_us : c->hold_us;
        c->sample_ppm = throttle->sample_ppm;
        c->sample_end_us = base_sat_add_u64(hold_us, WIRE_TUNNEL_SAMPLE_MS * TUNNEL_MS);
    }
}

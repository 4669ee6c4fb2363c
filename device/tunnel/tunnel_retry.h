// When to come back: back-off, what the gateway asked for, and sampling.
#ifndef DEV_TUNNEL_RETRY_H
#define DEV_TUNNEL_RETRY_H

#include "tunnel/tunnel.h"

// Of all streams together: they share a connection.
struct tunnel_backoff {
    uint64_t wait_us; // the last; 0: it worked until now
    uint64_t retry_us;
    uint64_t hold_us; // by DRAIN, retry-after
};

uint64_t tunnel_draw(struct dev_tunnel *tunnel, uint64_t span); // uniform in [0, span]
void tunnel_failed(struct dev_tunnel *tunnel, uint64_t now_us);
void tunnel_fruit(struct dev_tunnel *tunnel, uint64_t now_us);
bool tunnel_may_connect(const struct dev_tunnel *tunnel, uint64_t now_us);
void tunnel_throttle(struct dev_tunnel *tunnel, uint64_t now_us,
                     const struct wire_tunnel_throttle *throttle);
// DRAIN: what it says holds from now on.
void tunnel_drain(struct dev_tunnel *tunnel, uint64_t now_us,
                  const struct wire_tunnel_drain *drain);
// An answer that is no tunnel asked for a wait, of which DEV_TUNNEL_RETRY_MAX_S are kept;
// what was asked for before and ends later goes on.
void tunnel_retry_after(struct dev_tunnel *tunnel, uint64_t now_us, uint32_t retry_after_s);
// The network is back: nothing of the back-off is waited for.
void tunnel_hurry(struct dev_tunnel *tunnel, uint64_t now_us);
// Not before both back-off and what was asked for.
uint64_t tunnel_not_before(const struct dev_tunnel *tunnel, uint64_t due_us);

#endif

// Devices that were offered a release and have not completed: how many, and how many of them have
// waited longer than the execution timeout. Not thread-safe: the tally's mutex guards them.
//
// Running out of time is no event. A ring of offer times counts the devices that have neither
// completed nor waited too long; pending minus those are late.
#ifndef GW_OFFER_RING_H
#define GW_OFFER_RING_H

#include <stdbool.h>
#include <stdint.h>

struct gw_offer_slot;

struct gw_offer_ring {
    uint32_t width_s; // of a slot
    uint32_t timeout_s;
    uint64_t pending;
    struct gw_offer_slot *slots; // NULL until a device waits in an open rollout
};

void gw_offer_ring_init(struct gw_offer_ring *ring, uint32_t timeout_s);
// Frees the slots; everybody who still waits is late from then on.
void gw_offer_ring_close(struct gw_offer_ring *ring);
// One more waits. `open`: the rollout is; otherwise it is late at once.
void gw_offer_ring_add(struct gw_offer_ring *ring, bool open, uint32_t offered_s);
// One waits no more.
void gw_offer_ring_take(struct gw_offer_ring *ring, uint32_t offered_s);
uint64_t gw_offer_ring_late(const struct gw_offer_ring *ring, uint32_t now_s);

#endif

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
    uint32_t from_s; // offers from before count as of then
    uint64_t pending;
    struct gw_offer_slot *slots; // NULL while nobody waits who may be in time
};

void gw_offer_ring_init(struct gw_offer_ring *ring, uint32_t timeout_s, uint32_t from_s);
// The time was moved: all that wait have their time anew, from `from_s` on.
void gw_offer_ring_renew(struct gw_offer_ring *ring, uint32_t from_s);
// One more waits; late at once when its time was over at `now_s`.
void gw_offer_ring_add(struct gw_offer_ring *ring, uint32_t now_s, uint32_t offered_s);
// One waits no more.
void gw_offer_ring_take(struct gw_offer_ring *ring, uint32_t offered_s);
// Of those that wait, the ones that have waited too long.
uint64_t gw_offer_ring_late(const struct gw_offer_ring *ring, uint32_t now_s);
// Gives the memory back when nobody is in time any more; at UINT32_MAX nobody is.
void gw_offer_ring_tidy(struct gw_offer_ring *ring, uint32_t now_s);

#endif

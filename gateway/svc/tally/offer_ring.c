// Rings of offer times, one for each stage that devices wait in. Called by the tally alone, with
// its mutex held. A ring has a bucket for each piece of the timeout, so an offer costs one
// addition, and devices that ran out of time are counted by difference and without a timer. Times
// are the caller's seconds.
#include "svc/tally/offer_ring.h"

#include <stdlib.h>

#define RING_SLOTS 64u
#define RING_SPAN  32u // slots that make up one timeout

struct gw_offer_slot {
    uint32_t number; // offered_s / width
    uint32_t count;
};

void gw_offer_ring_init(struct gw_offer_ring *ring, uint32_t timeout_s, uint32_t from_s)
{
    ring->from_s = from_s;
    ring->timeout_s = timeout_s;
    ring->width_s = timeout_s / RING_SPAN > 0 ? timeout_s / RING_SPAN : 1;
}

// Where those are who were offered it at `offered_s`.
static uint32_t number_of(const struct gw_offer_ring *ring, uint32_t offered_s)
{
    return (offered_s > ring->from_s ? offered_s : ring->from_s) / ring->width_s;
}

void gw_offer_ring_renew(struct gw_offer_ring *ring, uint32_t from_s)
{
    free(ring->slots);
    ring->from_s = from_s;
    ring->slots = ring->pending > 0 ? calloc(RING_SLOTS, sizeof(ring->slots[0])) : NULL;
    if (ring->slots != NULL) { // without memory they are late: the careful side
        uint32_t number = number_of(ring, from_s);
        ring->slots[number % RING_SLOTS] = (struct gw_offer_slot){number, (uint32_t)ring->pending};
    }
}

void gw_offer_ring_add(struct gw_offer_ring *ring, uint32_t now_s, uint32_t offered_s)
{
    ring->pending++;
    offered_s = offered_s > ring->from_s ? offered_s : ring->from_s;
    if ((uint64_t)offered_s + ring->timeout_s + ring->width_s <= now_s) {
        return;
    }
    if (ring->slots == NULL) {
        ring->slots = calloc(RING_SLOTS, sizeof(ring->slots[0]));
        if (ring->slots == NULL) {
            return; // then it counts as timed out at once: the careful side
        }
    }
    uint32_t number = number_of(ring, offered_s);
    struct gw_offer_slot *slot = &ring->slots[number % RING_SLOTS];
    if (slot->number > number) {
        return; // long past
    }
    if (slot->number < number) {
        *slot = (struct gw_offer_slot){number, 0};
    }
    slot->count++;
}

void gw_offer_ring_take(struct gw_offer_ring *ring, uint32_t offered_s)
{
    ring->pending--;
    if (ring->slots == NULL) {
        return;
    }
    uint32_t number = number_of(ring, offered_s);
    struct gw_offer_slot *slot = &ring->slots[number % RING_SLOTS];
    if (slot->number == number && slot->count > 0) {
        slot->count--;
    }
}

static uint64_t in_time(const struct gw_offer_ring *ring, uint32_t now_s)
{
    uint64_t fresh = 0;
    for (uint32_t i = 0; ring->slots != NULL && i < RING_SLOTS; i++) {
        // A slot is fresh while its youngest moment is within the timeout.
        const struct gw_offer_slot *slot = &ring->slots[i];
        uint64_t end_s = ((uint64_t)slot->number + 1) * ring->width_s;
        fresh += end_s + ring->timeout_s > now_s ? slot->count : 0;
    }
    return fresh < ring->pending ? fresh : ring->pending;
}

uint64_t gw_offer_ring_late(const struct gw_offer_ring *ring, uint32_t now_s)
{
    return ring->pending - in_time(ring, now_s);
}

void gw_offer_ring_tidy(struct gw_offer_ring *ring, uint32_t now_s)
{
    if (ring->slots != NULL && in_time(ring, now_s) == 0) {
        free(ring->slots);
        ring->slots = NULL;
    }
}

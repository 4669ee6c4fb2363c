// Offers of a rollout that may still be made, handed out by the control thread and taken by
// workers. The tally has them, for each standing of devices one, with the stage's whole pace for
// itself: strangers use up nothing of the others'.
#ifndef GW_OFFERS_H
#define GW_OFFERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GW_OFFERS_UNLIMITED INT64_MAX

struct gw_offers {
    _Atomic int64_t left;  // negative or 0: none now
    _Atomic uint64_t made; // by this process, each device once
};

// So many of the offers that are left, or what is. False: none is. Any thread.
bool gw_offers_take(struct gw_offers *offers, uint32_t count);

#endif

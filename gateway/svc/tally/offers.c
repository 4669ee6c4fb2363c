// Taking offers: workers race for the last ones, and no more are taken than were handed out. Called
// on the slow path of a check-in (device/offer_gate.c); the control thread refills them at every
// tick (rollout/rollout_control.c).
#include "svc/tally/offers.h"

bool gw_offers_take(struct gw_offers *offers, uint32_t count)
{
    int64_t left = atomic_load_explicit(&offers->left, memory_order_relaxed);
    if (left == GW_OFFERS_UNLIMITED) {
        return true;
    }
    while (left > 0) {
        if (atomic_compare_exchange_weak_explicit(&offers->left, &left, left - count,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

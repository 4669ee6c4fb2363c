// The table of failed tries. Workers' threads, with the operators' mutex held.
#include "svc/failed_tries.h"

#include "svc/operators.h"

static const struct pol_ratelimit_config limit = {
    .burst = GW_ACCESS_BURST, .refill = 1, .interval_us = GW_ACCESS_INTERVAL_US};

// The address's place; a new one is free or the one of its set with the most tries left.
static struct gw_failed_try *place_of(struct gw_failed_tries *tries, uint64_t peer, uint64_t now_us)
{
    struct gw_failed_try *set =
        tries->places[base_keyed64_u64(&tries->key, peer) & (GW_TRIES_SETS - 1)];
    struct gw_failed_try *best = NULL;
    for (uint32_t i = 0; i < GW_TRIES_WAYS; i++) {
        struct gw_failed_try *place = &set[i];
        if (place->used && place->peer == peer) {
            return place;
        }
        if (place->used) {
            (void)pol_ratelimit_take(&place->left, &limit, 0, now_us); // refills
        }
        bool better = best == NULL ||
                      (best->used && (!place->used || place->left.tokens > best->left.tokens));
        best = better ? place : best;
    }
    best->used = true;
    best->peer = peer;
    pol_ratelimit_init(&best->left, &limit, now_us);
    return best;
}

bool gw_failed_tries_take(struct gw_failed_tries *tries, uint64_t peer, uint64_t now_us)
{
    return pol_ratelimit_take(&place_of(tries, peer, now_us)->left, &limit, 1, now_us);
}

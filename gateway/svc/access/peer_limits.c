// The table of addresses' budgets, of fixed size. access.c takes for wrong secrets and strangers.c
// for records of unproven devices, on the workers' threads; one mutex, held for a walk over the
// GW_PEER_WAYS places of a set. The hash is keyed, so nobody can choose addresses that share a set.
// Of a full set the one with the most left is forgotten: whoever used up the most is remembered
// longest.
#include "svc/access/peer_limits.h"

#include <pthread.h>
#include <stdlib.h>

struct place {
    uint64_t peer;
    bool used;
    struct pol_ratelimit left;
};

struct gw_peer_limits {
    pthread_mutex_t lock;
    struct base_hash_key key;
    struct pol_ratelimit_config config;
    struct place places[GW_PEER_SETS][GW_PEER_WAYS];
};

enum base_status gw_peer_limits_new(const struct base_hash_key *key,
                                    const struct pol_ratelimit_config *config,
                                    struct gw_peer_limits **out)
{
    struct gw_peer_limits *limits = calloc(1, sizeof(*limits));
    if (limits == NULL) {
        return BASE_ERR_NOMEM;
    }
    pthread_mutex_init(&limits->lock, NULL);
    limits->key = *key;
    limits->config = *config;
    *out = limits;
    return BASE_OK;
}

void gw_peer_limits_free(struct gw_peer_limits *limits)
{
    if (limits != NULL) {
        pthread_mutex_destroy(&limits->lock);
        free(limits);
    }
}

// The address's place; a new one is free or the one of its set with the most left.
static struct place *place_of(struct gw_peer_limits *limits, uint64_t peer, uint64_t now_us)
{
    struct place *set = limits->places[base_keyed64_u64(&limits->key, peer) & (GW_PEER_SETS - 1)];
    struct place *best = NULL;
    for (uint32_t i = 0; i < GW_PEER_WAYS; i++) {
        struct place *place = &set[i];
        if (place->used && place->peer == peer) {
            return place;
        }
        if (place->used) {
            (void)pol_ratelimit_take(&place->left, &limits->config, 0, now_us); // refills
        }
        bool better = best == NULL ||
                      (best->used && (!place->used || place->left.tokens > best->left.tokens));
        best = better ? place : best;
    }
    best->used = true;
    best->peer = peer;
    pol_ratelimit_init(&best->left, &limits->config, now_us);
    return best;
}

bool gw_peer_limits_take(struct gw_peer_limits *limits, uint64_t peer, uint64_t now_us)
{
    pthread_mutex_lock(&limits->lock);
    bool had =
        pol_ratelimit_take(&place_of(limits, peer, now_us)->left, &limits->config, 1, now_us);
    pthread_mutex_unlock(&limits->lock);
    return had;
}

// Rates by address: a set-associative table of times. Called by every worker's listener (connects,
// handshakes) and by connections that had large header fields decoded. What several threads share
// is behind the one mutex.
#include "http/guard/peer_rates.h"

#include "base/keyed_hash.h"
#include "base/prng.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define WAYS     4u // places where an address may be
#define US_PER_S UINT64_C(1000000)
// Nobody's debt grows further: what is done already is stopped soon, and sums cannot overflow.
#define DEBT_US_MAX (3600 * US_PER_S)

struct place {
    struct gw_peer_address address;
    uint64_t paid_us[GW_PEER_RATE_COUNT]; // when all that was taken is paid for
};

struct gw_peer_rates {
    pthread_mutex_t mutex;
    struct base_hash_key key;
    uint32_t set_mask;
    struct place *places;
};

enum base_status gw_peer_rates_new(uint32_t places, struct gw_peer_rates **out_rates)
{
    if (places < WAYS || (places & (places - 1)) != 0) {
        return BASE_ERR_INVALID;
    }
    struct gw_peer_rates *rates = calloc(1, sizeof(*rates));
    if (rates == NULL) {
        return BASE_ERR_NOMEM;
    }
    rates->places = calloc(places, sizeof(*rates->places));
    if (rates->places == NULL || pthread_mutex_init(&rates->mutex, NULL) != 0) {
        free(rates->places);
        free(rates);
        return BASE_ERR_NOMEM;
    }
    rates->set_mask = places / WAYS - 1;
    rates->key = (struct base_hash_key){base_entropy_u64(), base_entropy_u64()};
    *out_rates = rates;
    return BASE_OK;
}

void gw_peer_rates_free(struct gw_peer_rates *rates)
{
    if (rates == NULL) {
        return;
    }
    pthread_mutex_destroy(&rates->mutex);
    free(rates->places);
    free(rates);
}

static uint64_t debt_of(const struct place *place)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < GW_PEER_RATE_COUNT; i++) {
        most = place->paid_us[i] > most ? place->paid_us[i] : most;
    }
    return most;
}

// The address's place; a newcomer gets the one in its set that has paid first.
static struct place *find(struct gw_peer_rates *rates, const struct gw_peer_address *network)
{
    uint64_t hash = base_keyed64(&rates->key, network->bytes, sizeof(network->bytes));
    struct place *set = rates->places + (size_t)((uint32_t)hash & rates->set_mask) * WAYS;
    struct place *least = set;
    for (uint32_t i = 0; i < WAYS; i++) {
        if (memcmp(&set[i].address, network, sizeof(*network)) == 0) {
            return &set[i];
        }
        if (debt_of(&set[i]) < debt_of(least)) {
            least = &set[i];
        }
    }
    memset(least, 0, sizeof(*least));
    least->address = *network;
    return least;
}

// What `count` costs in time, rounded up.
static uint64_t cost_us(const struct gw_peer_rate_limit *limit, uint64_t count)
{
    uint64_t most = DEBT_US_MAX / US_PER_S * limit->per_s;
    if (count >= most) {
        return DEBT_US_MAX;
    }
    return (count * US_PER_S + limit->per_s - 1) / limit->per_s;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool gw_peer_rates_take(struct gw_peer_rates *rates, const struct gw_peer_address *address,
                        const struct gw_peer_use *use, uint64_t now_us)
{
    const struct gw_peer_rate_limit *limit = &use->limit;
    if (limit->per_s == 0) {
        return true;
    }
    const struct gw_peer_address network = gw_peer_network(address);
    pthread_mutex_lock(&rates->mutex);
    uint64_t *paid_us = &find(rates, &network)->paid_us[use->rate];
    uint64_t then_us = later(*paid_us, now_us) + cost_us(limit, use->count);
    bool may = then_us - now_us <= cost_us(limit, limit->burst);
    if (may) {
        *paid_us = then_us;
    }
    pthread_mutex_unlock(&rates->mutex);
    return may;
}

uint64_t gw_peer_rates_spend(struct gw_peer_rates *rates, const struct gw_peer_address *address,
                             const struct gw_peer_use *use, uint64_t now_us)
{
    const struct gw_peer_rate_limit *limit = &use->limit;
    if (limit->per_s == 0) {
        return 0;
    }
    const struct gw_peer_address network = gw_peer_network(address);
    pthread_mutex_lock(&rates->mutex);
    uint64_t *paid_us = &find(rates, &network)->paid_us[use->rate];
    uint64_t owed_us = later(*paid_us, now_us) - now_us + cost_us(limit, use->count);
    owed_us = owed_us < DEBT_US_MAX ? owed_us : DEBT_US_MAX;
    *paid_us = now_us + owed_us;
    pthread_mutex_unlock(&rates->mutex);
    uint64_t free_us = cost_us(limit, limit->burst);
    return owed_us > free_us ? owed_us - free_us : 0;
}

// Rates of devices, as device_rate.h says. Entries nobody uses and that owe nothing are freed when
// their bucket is looked at. Workers' threads. session_input.c finds a device's entry, charges it
// for what comes and lets go of it with the session; gw_tunnel.c makes the table. The shards'
// mutexes are for finding and leaving; a charge moves one atomic number and takes no lock.
#include "tunnel/device_rate.h"

#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>

#define SHARDS    64u // powers of two
#define BUCKETS   64u // of a shard
#define NS_PER_US UINT64_C(1000)
#define NS_PER_S  UINT64_C(1000000000)

struct gw_device_rate {
    struct gw_device_rate *next; // in the bucket
    uint64_t device;
    uint32_t users; // sessions
    _Atomic uint64_t even_ns;
};

struct shard {
    pthread_mutex_t lock;
    uint32_t count;
    struct gw_device_rate *buckets[BUCKETS];
};

_Static_assert((SHARDS & (SHARDS - 1)) == 0 && (BUCKETS & (BUCKETS - 1)) == 0, "they are masks");

struct gw_device_rates {
    struct base_hash_key key;
    struct shard shards[SHARDS];
};

enum base_status gw_device_rates_new(const struct base_hash_key *key, struct gw_device_rates **out)
{
    struct gw_device_rates *rates = calloc(1, sizeof(*rates));
    if (rates == NULL) {
        return BASE_ERR_NOMEM;
    }
    rates->key = *key;
    for (uint32_t i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&rates->shards[i].lock, NULL);
    }
    *out = rates;
    return BASE_OK;
}

void gw_device_rates_free(struct gw_device_rates *rates)
{
    if (rates == NULL) {
        return;
    }
    for (uint32_t i = 0; i < SHARDS * BUCKETS; i++) {
        struct gw_device_rate **bucket = &rates->shards[i / BUCKETS].buckets[i % BUCKETS];
        while (*bucket != NULL) {
            struct gw_device_rate *rate = *bucket;
            *bucket = rate->next;
            free(rate);
        }
    }
    for (uint32_t i = 0; i < SHARDS; i++) {
        pthread_mutex_destroy(&rates->shards[i].lock);
    }
    free(rates);
}

static struct shard *shard_of(struct gw_device_rates *rates, uint64_t device, uint64_t *out_hash)
{
    *out_hash = base_keyed64_u64(&rates->key, device);
    return &rates->shards[*out_hash & (SHARDS - 1)];
}

static bool is_idle(const struct gw_device_rate *rate, uint64_t now_us)
{
    return rate->users == 0 &&
           atomic_load_explicit(&rate->even_ns, memory_order_relaxed) <= now_us * NS_PER_US;
}

// The device's place in its bucket; whoever is idle on the way there goes.
static struct gw_device_rate **find(struct shard *shard, uint64_t hash, uint64_t device,
                                    uint64_t now_us)
{
    struct gw_device_rate **at = &shard->buckets[hash >> 40 & (BUCKETS - 1)];
    while (*at != NULL && (*at)->device != device) {
        struct gw_device_rate *rate = *at;
        if (is_idle(rate, now_us)) {
            base_assert(shard->count > 0);
            *at = rate->next;
            shard->count--;
            free(rate);
        } else {
            at = &rate->next;
        }
    }
    return at;
}

struct gw_device_rate *gw_device_rate_get(struct gw_device_rates *rates, uint64_t device,
                                          uint64_t now_us)
{
    uint64_t hash;
    struct shard *shard = shard_of(rates, device, &hash);
    pthread_mutex_lock(&shard->lock);
    struct gw_device_rate **at = find(shard, hash, device, now_us);
    if (*at == NULL && (*at = calloc(1, sizeof(**at))) != NULL) {
        (*at)->device = device;
        shard->count++;
    }
    struct gw_device_rate *rate = *at;
    if (rate != NULL) {
        rate->users++;
    }
    pthread_mutex_unlock(&shard->lock);
    return rate;
}

void gw_device_rate_release(struct gw_device_rates *rates, struct gw_device_rate *rate)
{
    if (rate == NULL) {
        return;
    }
    uint64_t hash;
    struct shard *shard = shard_of(rates, rate->device, &hash);
    pthread_mutex_lock(&shard->lock);
    base_check(rate->users > 0);
    rate->users--;
    pthread_mutex_unlock(&shard->lock);
}

uint64_t gw_device_rate_take(struct gw_device_rate *rate, uint32_t batches_per_s, uint64_t now_us)
{
    base_assert(batches_per_s > 0);
    uint64_t now_ns = now_us * NS_PER_US;
    uint64_t share_ns = NS_PER_S / batches_per_s;
    uint64_t most_ns = now_ns + (GW_RATE_BURST_US + GW_RATE_DEBT_US) * NS_PER_US + share_ns;
    uint64_t before = atomic_load_explicit(&rate->even_ns, memory_order_relaxed);
    uint64_t after;
    do {
        after = (before > now_ns ? before : now_ns) + share_ns;
        after = after < most_ns ? after : most_ns; // nobody owes for ever
    } while (!atomic_compare_exchange_weak_explicit(&rate->even_ns, &before, after,
                                                    memory_order_relaxed, memory_order_relaxed));
    return (after - now_ns) / NS_PER_US;
}

uint64_t gw_device_rates_count(struct gw_device_rates *rates)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&rates->shards[i].lock);
        count += rates->shards[i].count;
        pthread_mutex_unlock(&rates->shards[i].lock);
    }
    return count;
}

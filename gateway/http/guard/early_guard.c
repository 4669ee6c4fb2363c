// ClientHellos of the last windows: two hash sets of 64-bit hashes, the current window's and the
// one before, which swap when a window is over. Called from OpenSSL's callback on every worker,
// hence the mutex; early data comes once a connection, so nobody waits long for it. The hash is
// keyed: nobody can choose randoms that meet in one place.
#include "http/guard/early_guard.h"

#include "base/keyed_hash.h"
#include "base/prng.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct window {
    uint64_t *slots; // 0: free
    uint32_t count;
};

struct gw_early_guard {
    pthread_mutex_t lock;
    struct window now;
    struct window before;
    uint64_t began_ms; // of `now`
    uint64_t quiet_until_ms;
    struct base_hash_key key;
};

// Where the hash is, or the free place where it would be. There is one: at most half are used.
static uint64_t *place(const struct window *window, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (GW_EARLY_SLOTS - 1);
    while (window->slots[at] != 0 && window->slots[at] != hash) {
        at = (at + 1) & (GW_EARLY_SLOTS - 1);
    }
    return &window->slots[at];
}

static void clear(struct window *window)
{
    memset(window->slots, 0, GW_EARLY_SLOTS * sizeof(*window->slots));
    window->count = 0;
}

static void turn(struct gw_early_guard *guard, uint64_t now_ms)
{
    uint64_t age_ms = now_ms - guard->began_ms;
    if (age_ms < GW_EARLY_WINDOW_MS) {
        return;
    }
    struct window old = guard->before;
    guard->before = guard->now;
    guard->now = old;
    clear(&guard->now);
    if (age_ms >= 2 * GW_EARLY_WINDOW_MS) { // nothing came for so long
        clear(&guard->before);
    }
    guard->began_ms = now_ms;
}

enum base_status gw_early_guard_new(uint64_t now_ms, uint64_t quiet_until_ms,
                                    struct gw_early_guard **out)
{
    struct gw_early_guard *guard = calloc(1, sizeof(*guard));
    if (guard == NULL) {
        return BASE_ERR_NOMEM;
    }
    pthread_mutex_init(&guard->lock, NULL);
    guard->now.slots = calloc(GW_EARLY_SLOTS, sizeof(*guard->now.slots));
    guard->before.slots = calloc(GW_EARLY_SLOTS, sizeof(*guard->before.slots));
    guard->began_ms = now_ms;
    guard->quiet_until_ms = quiet_until_ms;
    guard->key = (struct base_hash_key){base_entropy_u64(), base_entropy_u64()};
    if (guard->now.slots == NULL || guard->before.slots == NULL) {
        gw_early_guard_free(guard);
        return BASE_ERR_NOMEM;
    }
    *out = guard;
    return BASE_OK;
}

void gw_early_guard_free(struct gw_early_guard *guard)
{
    if (guard == NULL) {
        return;
    }
    free(guard->now.slots);
    free(guard->before.slots);
    pthread_mutex_destroy(&guard->lock);
    free(guard);
}

bool gw_early_guard_first(struct gw_early_guard *guard, const uint8_t random[GW_EARLY_RANDOM_BYTES],
                          uint64_t now_ms)
{
    uint64_t hash = base_keyed64(&guard->key, random, GW_EARLY_RANDOM_BYTES);
    hash += hash == 0 ? 1 : 0;
    pthread_mutex_lock(&guard->lock);
    turn(guard, now_ms);
    uint64_t *slot = place(&guard->now, hash);
    bool first = now_ms >= guard->quiet_until_ms && guard->now.count < GW_EARLY_SLOTS / 2 &&
                 *slot == 0 && *place(&guard->before, hash) == 0;
    if (first) {
        *slot = hash;
        guard->now.count++;
    }
    pthread_mutex_unlock(&guard->lock);
    return first;
}

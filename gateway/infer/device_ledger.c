// Quotas of devices and keys of their calls, in two tables of sets: an entry lies in one of a few
// places that its hash names, and the one of them that was seen longest ago makes room. So both are
// bounded without a list. Called by device_call.c on workers and on the service's threads; one
// mutex guards all of it. Hashes are keyed, for devices choose their ids and keys.
#include "infer/device_ledger.h"

#include "base/check.h"
#include "base/str.h"
#include "policy/ratelimit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define WAYS      8u
#define MINUTE_US 60000000ull
#define RETRY_MAX 60u

_Static_assert(GW_DEVICE_QUOTAS_MAX % WAYS == 0 && GW_DEVICE_KEYS_MAX % WAYS == 0, "whole sets");

struct quota {
    uint64_t device;
    uint64_t seen_us; // 0: free
    struct pol_ratelimit calls;
    struct pol_ratelimit bytes;
    uint16_t tenant;
    enum gw_device_shown shown;
};

struct key {
    uint64_t device;
    uint64_t word[2];
    uint64_t mark;    // of what it asked
    uint64_t run;     // the newest of its runs
    uint64_t seen_us; // 0: free
    uint8_t *answer;  // NULL: none is kept
    size_t answer_bytes;
    uint16_t tenant;
    enum gw_device_shown shown;
    uint8_t repeats; // runs that were not charged
    bool under_way;  // the newest run has not ended
};

struct gw_device_ledger {
    struct gw_device_quota limits;
    struct pol_ratelimit_config calls;
    struct pol_ratelimit_config bytes;
    struct base_hash_key hash_key;
    pthread_mutex_t mutex;
    struct quota *quotas;
    struct key *keys;
    size_t kept_bytes;
    uint64_t runs;  // of all keys so far
    uint32_t sweep; // where old answers are looked for next
    struct gw_device_figures figures;
};

static struct pol_ratelimit_config per_minute(uint64_t count)
{
    return (struct pol_ratelimit_config){.burst = count, .refill = count, .interval_us = MINUTE_US};
}

enum base_status gw_device_ledger_new(const struct gw_device_quota *quota,
                                      const struct base_hash_key *hash_key,
                                      struct gw_device_ledger **out)
{
    struct gw_device_ledger *ledger = calloc(1, sizeof(*ledger));
    if (ledger == NULL) {
        return BASE_ERR_NOMEM;
    }
    ledger->limits = *quota;
    ledger->calls = per_minute(quota->calls_per_min);
    ledger->bytes = per_minute(quota->bytes_per_min);
    ledger->hash_key = *hash_key;
    pthread_mutex_init(&ledger->mutex, NULL);
    ledger->quotas = calloc(GW_DEVICE_QUOTAS_MAX, sizeof(*ledger->quotas));
    ledger->keys = calloc(GW_DEVICE_KEYS_MAX, sizeof(*ledger->keys));
    if (ledger->quotas == NULL || ledger->keys == NULL) {
        gw_device_ledger_free(ledger);
        return BASE_ERR_NOMEM;
    }
    *out = ledger;
    return BASE_OK;
}

void gw_device_ledger_free(struct gw_device_ledger *ledger)
{
    if (ledger == NULL) {
        return;
    }
    for (uint32_t i = 0; ledger->keys != NULL && i < GW_DEVICE_KEYS_MAX; i++) {
        free(ledger->keys[i].answer);
    }
    free(ledger->quotas);
    free(ledger->keys);
    pthread_mutex_destroy(&ledger->mutex);
    free(ledger);
}

// ---- Quotas

// Of the tenant and of how it shows itself, in one number.
static uint64_t whose(const struct gw_device_charge *charge)
{
    return (uint64_t)charge->shown << 16 | charge->tenant;
}

static bool quota_is(const struct quota *quota, const struct gw_device_charge *charge)
{
    return quota->seen_us != 0 && quota->device == charge->device &&
           quota->tenant == charge->tenant && quota->shown == charge->shown;
}

static struct quota *quota_set(struct gw_device_ledger *ledger,
                               const struct gw_device_charge *charge)
{
    uint64_t hash = base_keyed64_pair(&ledger->hash_key, charge->device, whose(charge));
    return &ledger->quotas[hash % (GW_DEVICE_QUOTAS_MAX / WAYS) * WAYS];
}

static struct quota *quota_of(struct gw_device_ledger *ledger,
                              const struct gw_device_charge *charge, uint64_t now_us)
{
    struct quota *set = quota_set(ledger, charge);
    struct quota *oldest = set;
    for (uint32_t i = 0; i < WAYS; i++) {
        struct quota *quota = &set[i];
        if (quota_is(quota, charge)) {
            quota->seen_us = now_us;
            return quota;
        }
        oldest = quota->seen_us < oldest->seen_us ? quota : oldest;
    }
    *oldest = (struct quota){.device = charge->device,
                             .tenant = charge->tenant,
                             .shown = charge->shown,
                             .seen_us = now_us};
    pol_ratelimit_init(&oldest->calls, &ledger->calls, now_us);
    pol_ratelimit_init(&oldest->bytes, &ledger->bytes, now_us);
    return oldest;
}

static void give(struct pol_ratelimit *limit, const struct pol_ratelimit_config *config,
                 uint64_t count)
{
    uint64_t room = config->burst > limit->tokens ? config->burst - limit->tokens : 0;
    limit->tokens += count < room ? count : room;
}

// Seconds until `count` tokens are there.
static uint32_t wait_s(const struct pol_ratelimit *limit, uint64_t per_min, uint64_t count)
{
    uint64_t lacks = count > limit->tokens ? count - limit->tokens : 0;
    lacks = lacks < per_min ? lacks : per_min;
    uint64_t seconds = (lacks * 60 + per_min - 1) / per_min;
    return seconds == 0 ? 1 : seconds < RETRY_MAX ? (uint32_t)seconds : RETRY_MAX;
}

// Takes what the call costs, all of it or nothing.
static bool take(struct gw_device_ledger *ledger, const struct gw_device_charge *charge,
                 uint64_t now_us, uint32_t *out_retry_after_s)
{
    struct quota *quota = quota_of(ledger, charge, now_us);
    const struct gw_device_quota *limits = &ledger->limits;
    if (limits->calls_per_min > 0 &&
        !pol_ratelimit_take(&quota->calls, &ledger->calls, 1, now_us)) {
        *out_retry_after_s = wait_s(&quota->calls, limits->calls_per_min, 1);
        return false;
    }
    if (limits->bytes_per_min > 0 &&
        !pol_ratelimit_take(&quota->bytes, &ledger->bytes, charge->bytes, now_us)) {
        give(&quota->calls, &ledger->calls, 1);
        *out_retry_after_s = wait_s(&quota->bytes, limits->bytes_per_min, charge->bytes);
        return false;
    }
    return true;
}

// ---- Keys

// False: it is none.
static bool words_of(struct base_str text, uint64_t out[2])
{
    if (text.size != 32) {
        return false;
    }
    for (uint32_t i = 0; i < 32; i++) {
        char c = text.data[i];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                                                : 16;
        if (digit == 16) {
            return false;
        }
        out[i / 16] = out[i / 16] << 4 | digit;
    }
    return true;
}

static void answer_drop(struct gw_device_ledger *ledger, struct key *key)
{
    base_assert(ledger->kept_bytes >= key->answer_bytes);
    ledger->kept_bytes -= key->answer_bytes;
    free(key->answer);
    key->answer = NULL;
    key->answer_bytes = 0;
}

static bool is_known(const struct key *key, uint64_t now_us)
{
    return key->seen_us != 0 && now_us - key->seen_us < GW_DEVICE_KEY_US;
}

// The entry of the key; NULL: there is none, and *out_place is where it may go.
static struct key *key_find(struct gw_device_ledger *ledger, const struct gw_device_charge *charge,
                            struct key **out_place)
{
    uint64_t words[2] = {0, 0};
    *out_place = NULL;
    if (!words_of(charge->key, words)) {
        return NULL;
    }
    uint64_t hash = base_keyed64_pair(&ledger->hash_key, words[0] ^ charge->device, words[1]);
    struct key *set = &ledger->keys[hash % (GW_DEVICE_KEYS_MAX / WAYS) * WAYS];
    struct key *oldest = set;
    for (uint32_t i = 0; i < WAYS; i++) {
        struct key *key = &set[i];
        if (key->seen_us != 0 && key->device == charge->device && key->tenant == charge->tenant &&
            key->shown == charge->shown && key->word[0] == words[0] && key->word[1] == words[1]) {
            *out_place = key;
            return key;
        }
        oldest = key->seen_us < oldest->seen_us ? key : oldest;
    }
    *out_place = oldest;
    return NULL;
}

static void key_set(struct gw_device_ledger *ledger, const struct gw_device_charge *charge,
                    struct key *place, uint64_t now_us)
{
    answer_drop(ledger, place);
    *place = (struct key){.device = charge->device,
                          .tenant = charge->tenant,
                          .shown = charge->shown,
                          .mark = charge->mark,
                          .seen_us = now_us};
    (void)words_of(charge->key, place->word);
}

// The entry of the key, as long as the newest run under it is the charge's.
static struct key *key_of_run(struct gw_device_ledger *ledger,
                              const struct gw_device_charge *charge)
{
    struct key *place = NULL;
    struct key *key = charge->run != 0 ? key_find(ledger, charge, &place) : NULL;
    return key != NULL && key->run == charge->run ? key : NULL;
}

uint64_t gw_device_ledger_mark(const struct gw_device_ledger *ledger,
                               const struct gw_device_asked *asked)
{
    const struct base_str parts[] = {asked->type, asked->model, asked->version, asked->body};
    uint64_t mark = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        uint64_t part = base_keyed64(&ledger->hash_key, parts[i].data, parts[i].size);
        mark = base_keyed64_pair(&ledger->hash_key, mark, part);
    }
    return mark;
}

// What becomes of a call whose key is known. CHARGED: it is to be, as another one.
static enum gw_device_let let_known(const struct key *key, const struct gw_device_charge *charge)
{
    return key->mark != charge->mark              ? GW_DEVICE_OTHER
           : key->answer != NULL                  ? GW_DEVICE_KEPT
           : key->under_way                       ? GW_DEVICE_UNDER_WAY
           : key->repeats < GW_DEVICE_REPEATS_MAX ? GW_DEVICE_REPEATED
                                                  : GW_DEVICE_CHARGED;
}

enum gw_device_let gw_device_ledger_charge(struct gw_device_ledger *ledger,
                                           struct gw_device_charge *charge, uint64_t now_us,
                                           uint32_t *out_retry_after_s)
{
    struct key *place = NULL;
    now_us += now_us == 0;
    *out_retry_after_s = 0;
    charge->taken = false;
    charge->run = 0;
    pthread_mutex_lock(&ledger->mutex);
    struct key *key = key_find(ledger, charge, &place);
    key = key != NULL && is_known(key, now_us) ? key : NULL;
    enum gw_device_let let = key != NULL ? let_known(key, charge) : GW_DEVICE_CHARGED;
    if (let == GW_DEVICE_CHARGED) {
        charge->taken = take(ledger, charge, now_us, out_retry_after_s);
        let = charge->taken ? GW_DEVICE_CHARGED : GW_DEVICE_OVER;
    }
    bool runs = let == GW_DEVICE_CHARGED || let == GW_DEVICE_REPEATED;
    if (runs && place != NULL) {
        if (key == NULL) {
            key_set(ledger, charge, place, now_us);
        }
        place->repeats = (uint8_t)(place->repeats + (let == GW_DEVICE_REPEATED));
        place->under_way = true;
        place->run = charge->run = ++ledger->runs;
    }
    ledger->figures.let[let]++;
    pthread_mutex_unlock(&ledger->mutex);
    return let;
}

size_t gw_device_ledger_kept(struct gw_device_ledger *ledger, const struct gw_device_charge *charge,
                             uint8_t *out, size_t capacity)
{
    size_t size = 0;
    struct key *place = NULL;
    pthread_mutex_lock(&ledger->mutex);
    const struct key *key = key_find(ledger, charge, &place);
    if (key != NULL && key->mark == charge->mark && key->answer != NULL &&
        key->answer_bytes <= capacity) {
        size = key->answer_bytes;
        memcpy(out, key->answer, size);
    }
    pthread_mutex_unlock(&ledger->mutex);
    return size;
}

void gw_device_ledger_end(struct gw_device_ledger *ledger, const struct gw_device_charge *charge)
{
    pthread_mutex_lock(&ledger->mutex);
    struct key *key = key_of_run(ledger, charge);
    if (key != NULL) {
        key->under_way = false;
    }
    pthread_mutex_unlock(&ledger->mutex);
}

// With the mutex.
static void quota_give(struct gw_device_ledger *ledger, const struct gw_device_charge *charge)
{
    struct quota *set = quota_set(ledger, charge);
    for (uint32_t i = 0; i < WAYS; i++) {
        if (quota_is(&set[i], charge)) {
            give(&set[i].calls, &ledger->calls, 1);
            give(&set[i].bytes, &ledger->bytes, charge->bytes);
            ledger->figures.given_back++;
        }
    }
}

void gw_device_ledger_refund(struct gw_device_ledger *ledger, const struct gw_device_charge *charge)
{
    pthread_mutex_lock(&ledger->mutex);
    struct key *key = key_of_run(ledger, charge);
    if (charge->taken) {
        quota_give(ledger, charge);
    }
    if (key != NULL && charge->taken) {
        answer_drop(ledger, key);
        key->seen_us = 0;
    } else if (key != NULL) {
        base_assert(key->repeats > 0);
        key->repeats--;
        key->under_way = false;
    }
    pthread_mutex_unlock(&ledger->mutex);
}

// Answers go, as the sweep comes by, until there is room.
static void room_make(struct gw_device_ledger *ledger, size_t size)
{
    for (uint32_t i = 0;
         i < GW_DEVICE_KEYS_MAX && ledger->kept_bytes + size > GW_DEVICE_ANSWERS_BYTES; i++) {
        ledger->sweep = (ledger->sweep + 1) % GW_DEVICE_KEYS_MAX;
        answer_drop(ledger, &ledger->keys[ledger->sweep]);
    }
}

void gw_device_ledger_keep(struct gw_device_ledger *ledger, const struct gw_device_charge *charge,
                           const uint8_t *answer, size_t size)
{
    if (size == 0 || size > GW_DEVICE_ANSWER_MAX) {
        return;
    }
    uint8_t *copy = malloc(size);
    if (copy == NULL) {
        return; // a repeat runs once more
    }
    memcpy(copy, answer, size);
    pthread_mutex_lock(&ledger->mutex);
    struct key *key = key_of_run(ledger, charge);
    if (key == NULL) {
        free(copy);
    } else {
        answer_drop(ledger, key);
        room_make(ledger, size);
        key->answer = copy;
        key->answer_bytes = size;
        ledger->kept_bytes += size;
    }
    pthread_mutex_unlock(&ledger->mutex);
}

void gw_device_ledger_figures(struct gw_device_ledger *ledger, struct gw_device_figures *out)
{
    pthread_mutex_lock(&ledger->mutex);
    *out = ledger->figures;
    pthread_mutex_unlock(&ledger->mutex);
}

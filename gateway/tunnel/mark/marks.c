// The table of marks.h. The low bits of a device's keyed hash are its shard, the high ones its
// place there; class and "in use" lie beside the mark's tenant. Every function but new, free, lock,
// stats and validate runs with the shard's mutex held, on any thread.
#include "tunnel/mark/marks.h"

#include "tunnel/mark/mark_lane.h"

#include "base/check.h"
#include "wire/tunnel_frame.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_MASK   ((uint64_t)GW_MARK_SHARDS - 1)
#define FIRST_SLOTS  8u
#define NO_ASIDE     UINT32_MAX
#define FIRST_ASIDES 4u

struct gw_mark_slot {
    uint64_t device;
    struct gw_mark mark; // `used` 0: free
};

struct gw_aside {
    uint64_t device;
    struct gw_mark mark;
    uint32_t next; // in the bucket
    uint8_t class_id;
};

struct gw_marks {
    struct gw_mark_shard shards[GW_MARK_SHARDS];
    uint64_t unproven_max;
    _Atomic uint64_t unproven;
    _Atomic uint64_t expired;
    _Atomic unsigned period; // modulo GW_MARK_PERIODS
};

enum base_status gw_marks_new(const struct base_hash_key *key, struct gw_marks **out)
{
    struct gw_marks *marks = calloc(1, sizeof(*marks));
    if (marks == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < GW_MARK_SHARDS; i++) {
        marks->shards[i].all = marks;
        marks->shards[i].index = i;
        marks->shards[i].key = *key;
        pthread_mutex_init(&marks->shards[i].lock, NULL);
    }
    marks->unproven_max = GW_MARKS_UNPROVEN;
    *out = marks;
    return BASE_OK;
}

void gw_marks_bound(struct gw_marks *marks, uint64_t unproven_max)
{
    marks->unproven_max = unproven_max;
}

void gw_marks_set_period(struct gw_marks *marks, uint64_t period)
{
    atomic_store_explicit(&marks->period, (unsigned)(period % GW_MARK_PERIODS),
                          memory_order_relaxed);
}

void gw_marks_free(struct gw_marks *marks)
{
    if (marks == NULL) {
        return;
    }
    for (uint32_t i = 0; i < GW_MARK_SHARDS; i++) {
        struct gw_mark_shard *shard = &marks->shards[i];
        gw_lanes_free(shard);
        free(shard->slots);
        free(shard->asides);
        free(shard->aside_buckets);
        pthread_mutex_destroy(&shard->lock);
    }
    free(marks);
}

struct gw_mark_shard *gw_marks_lock(struct gw_marks *marks, uint64_t device)
{
    return gw_marks_lock_index(
        marks, (uint32_t)(base_keyed64_u64(&marks->shards[0].key, device) & SHARD_MASK));
}

struct gw_mark_shard *gw_marks_lock_index(struct gw_marks *marks, uint32_t index)
{
    struct gw_mark_shard *shard = &marks->shards[index];
    pthread_mutex_lock(&shard->lock);
    return shard;
}

void gw_marks_unlock(struct gw_mark_shard *shard)
{
    pthread_mutex_unlock(&shard->lock);
}

// ---- Current marks

// The slot of the device and class, or the free one where it belongs. Classes of a device lie side
// by side.
static struct gw_mark_slot *probe(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id)
{
    uint32_t capacity = shard->capacity;
    uint64_t hash = base_keyed64_u64(&shard->key, device);
    uint32_t at = (uint32_t)(((hash >> 32) * capacity) >> 32);
    uint32_t steps = 0;
    struct gw_mark_slot *slot = &shard->slots[at];
    while (slot->mark.used != 0 && (slot->device != device || slot->mark.class_id != class_id)) {
        at = at + 1 == capacity ? 0 : at + 1;
        slot = &shard->slots[at];
        steps++;
    }
    shard->probes_long += steps > BASE_PROBE_LONG;
    return slot;
}

static enum base_status grow_slots(struct gw_mark_shard *shard)
{
    if (shard->count >= GW_MARKS_PER_SHARD) {
        return BASE_ERR_LIMIT;
    }
    uint32_t capacity = shard->capacity + shard->capacity / 4 + FIRST_SLOTS;
    struct gw_mark_slot *slots = calloc(capacity, sizeof(*slots));
    if (slots == NULL) {
        return BASE_ERR_NOMEM;
    }
    struct gw_mark_slot *old = shard->slots;
    uint32_t old_capacity = shard->capacity;
    shard->slots = slots;
    shard->capacity = capacity;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i].mark.used != 0) {
            *probe(shard, old[i].device, (uint8_t)old[i].mark.class_id) = old[i];
        }
    }
    free(old);
    return BASE_OK;
}

static struct gw_mark_slot *find_slot(struct gw_mark_shard *shard, uint64_t device,
                                      uint8_t class_id)
{
    if (shard->capacity == 0) {
        return NULL;
    }
    struct gw_mark_slot *slot = probe(shard, device, class_id);
    return slot->mark.used != 0 ? slot : NULL;
}

// ---- Epochs aside

static uint32_t *bucket_of(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id)
{
    uint64_t hash = base_keyed64_pair(&shard->key, device, class_id);
    return &shard->aside_buckets[hash & (shard->aside_bucket_count - 1)];
}

static struct gw_aside *find_aside(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id,
                                   uint32_t epoch, uint32_t *out_epochs)
{
    *out_epochs = 0;
    if (shard->aside_bucket_count == 0) {
        return NULL;
    }
    for (uint32_t i = *bucket_of(shard, device, class_id); i != NO_ASIDE;
         i = shard->asides[i].next) {
        struct gw_aside *aside = &shard->asides[i];
        if (aside->device == device && aside->class_id == class_id) {
            (*out_epochs)++;
            if (aside->mark.epoch == epoch) {
                return aside;
            }
        }
    }
    return NULL;
}

static void link_aside(struct gw_mark_shard *shard, uint32_t number)
{
    struct gw_aside *aside = &shard->asides[number];
    uint32_t *bucket = bucket_of(shard, aside->device, aside->class_id);
    aside->next = *bucket;
    *bucket = number;
}

static enum base_status grow_asides(struct gw_mark_shard *shard)
{
    uint32_t capacity = shard->aside_capacity == 0 ? FIRST_ASIDES : shard->aside_capacity * 2;
    struct gw_aside *asides = realloc(shard->asides, capacity * sizeof(*asides));
    if (asides == NULL) {
        return BASE_ERR_NOMEM;
    }
    shard->asides = asides;
    uint32_t *buckets = malloc(capacity * sizeof(*buckets));
    if (buckets == NULL) {
        return BASE_ERR_NOMEM;
    }
    free(shard->aside_buckets);
    memset(buckets, 0xff, capacity * sizeof(*buckets));
    shard->aside_buckets = buckets;
    shard->aside_bucket_count = capacity;
    shard->aside_capacity = capacity;
    for (uint32_t i = 0; i < shard->aside_count; i++) {
        link_aside(shard, i);
    }
    return BASE_OK;
}

static enum base_status put_aside(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id,
                                  const struct gw_mark *mark)
{
    if (shard->aside_count == shard->aside_capacity) {
        BASE_TRY(grow_asides(shard));
    }
    shard->asides[shard->aside_count] =
        (struct gw_aside){.device = device, .mark = *mark, .class_id = class_id};
    link_aside(shard, shard->aside_count++);
    return BASE_OK;
}

// ---- Both

struct gw_mark *gw_mark_find(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id,
                             uint32_t epoch)
{
    struct gw_mark_slot *slot = find_slot(shard, device, class_id);
    if (slot == NULL) {
        return NULL;
    }
    if (slot->mark.epoch == epoch) {
        return &slot->mark;
    }
    uint32_t epochs;
    struct gw_aside *aside = find_aside(shard, device, class_id, epoch, &epochs);
    return aside != NULL ? &aside->mark : NULL;
}

static struct gw_mark fresh_mark(uint64_t device, uint8_t class_id, uint32_t epoch)
{
    return (struct gw_mark){.epoch = epoch,
                            .class_id = class_id & 15u,
                            .used = 1,
                            .hash = wire_tunnel_chain_first(device, class_id, epoch)};
}

enum base_status gw_mark_make(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id,
                              uint32_t epoch, struct gw_mark **out)
{
    struct gw_mark_slot *slot = find_slot(shard, device, class_id);
    if (slot == NULL) {
        // At most 85 % full.
        if ((uint64_t)(shard->count + 1) * 20 > (uint64_t)shard->capacity * 17) {
            BASE_TRY(grow_slots(shard));
        }
        base_assert(shard->count < shard->capacity); // so that probing ends
        slot = probe(shard, device, class_id);
        *slot =
            (struct gw_mark_slot){.device = device, .mark = fresh_mark(device, class_id, epoch)};
        shard->count++;
    } else if (slot->mark.epoch != epoch) {
        uint32_t epochs;
        struct gw_aside *aside = find_aside(shard, device, class_id, epoch, &epochs);
        if (aside != NULL) {
            *out = &aside->mark;
            return BASE_OK;
        }
        if (epochs >= GW_EPOCHS_PER_DEVICE) {
            return BASE_ERR_LIMIT;
        }
        BASE_TRY(put_aside(shard, device, class_id, &slot->mark));
        slot->mark = fresh_mark(device, class_id, epoch);
    }
    *out = &slot->mark;
    return BASE_OK;
}

// ---- Devices that did not show who they are

static void set_unproven(struct gw_mark_shard *shard, struct gw_mark *mark, bool unproven)
{
    if (mark->unproven == unproven) {
        return;
    }
    mark->unproven = unproven;
    if (unproven) {
        shard->unproven++;
        atomic_fetch_add_explicit(&shard->all->unproven, 1, memory_order_relaxed);
    } else {
        shard->unproven--;
        atomic_fetch_sub_explicit(&shard->all->unproven, 1, memory_order_relaxed);
    }
}

static unsigned period_now(const struct gw_mark_shard *shard)
{
    return atomic_load_explicit(&shard->all->period, memory_order_relaxed);
}

enum base_status gw_mark_use(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id,
                             uint32_t epoch, bool unproven)
{
    struct gw_mark *mark = gw_mark_find(shard, device, class_id, epoch);
    if (mark == NULL) {
        if (unproven && atomic_load_explicit(&shard->all->unproven, memory_order_relaxed) >=
                            shard->all->unproven_max) {
            return BASE_ERR_LIMIT;
        }
        BASE_TRY(gw_mark_make(shard, device, class_id, epoch, &mark));
        set_unproven(shard, mark, unproven);
    } else if (!unproven) {
        set_unproven(shard, mark, false);
    }
    mark->period = period_now(shard) & 3u;
    return BASE_OK;
}
_Static_assert(GW_MARK_PERIODS == 4, "two bits");

void gw_mark_restore(struct gw_mark_shard *shard, struct gw_mark *mark, bool unproven,
                     unsigned period)
{
    set_unproven(shard, mark, unproven);
    mark->period = period & 3u;
}

// Not used since the period that will be the next one's number again.
static bool is_stale(struct gw_mark_shard *shard, uint64_t device, const struct gw_mark *mark)
{
    return mark->unproven != 0 && mark->period == ((period_now(shard) + 1) & 3u) &&
           !gw_lane_is_there(shard, device, (uint8_t)mark->class_id, mark->epoch);
}

static uint32_t expire_asides(struct gw_mark_shard *shard)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < shard->aside_count; i++) {
        struct gw_aside *aside = &shard->asides[i];
        if (is_stale(shard, aside->device, &aside->mark)) {
            set_unproven(shard, &aside->mark, false);
        } else {
            shard->asides[kept++] = *aside;
        }
    }
    uint32_t ended = shard->aside_count - kept;
    shard->aside_count = kept;
    if (ended > 0) {
        memset(shard->aside_buckets, 0xff,
               shard->aside_bucket_count * sizeof(*shard->aside_buckets));
        for (uint32_t i = 0; i < kept; i++) {
            link_aside(shard, i);
        }
    }
    return ended;
}

// A current mark stays while others of its device and class lie aside: they are found through it.
static bool has_ended(struct gw_mark_shard *shard, const struct gw_mark_slot *slot)
{
    uint32_t epochs = 0;
    if (slot->mark.used == 0 || !is_stale(shard, slot->device, &slot->mark)) {
        return false;
    }
    (void)find_aside(shard, slot->device, (uint8_t)slot->mark.class_id, slot->mark.epoch, &epochs);
    return epochs == 0;
}

// A new table without them: places of an open-addressing table cannot be emptied one by one.
static uint32_t expire_slots(struct gw_mark_shard *shard)
{
    struct gw_mark_slot *old = shard->slots;
    uint32_t old_capacity = shard->capacity;
    uint32_t ended = 0;
    for (uint32_t i = 0; i < old_capacity; i++) {
        ended += has_ended(shard, &old[i]);
    }
    base_assert(ended <= shard->count && shard->count <= old_capacity);
    uint32_t capacity = (shard->count - ended) + (shard->count - ended) / 4 + FIRST_SLOTS;
    struct gw_mark_slot *slots = ended > 0 ? calloc(capacity, sizeof(*slots)) : NULL;
    if (slots == NULL) {
        return 0;
    }
    shard->slots = slots;
    shard->capacity = capacity;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (has_ended(shard, &old[i])) {
            set_unproven(shard, &old[i].mark, false);
        } else if (old[i].mark.used != 0) {
            *probe(shard, old[i].device, (uint8_t)old[i].mark.class_id) = old[i];
        }
    }
    shard->count -= ended;
    free(old);
    return ended;
}

uint32_t gw_mark_expire(struct gw_mark_shard *shard)
{
    if (shard->unproven == 0) {
        return 0;
    }
    uint32_t ended = expire_asides(shard);
    ended += expire_slots(shard);
    atomic_fetch_add_explicit(&shard->all->expired, ended, memory_order_relaxed);
    return ended;
}

void gw_mark_walk(const struct gw_mark_shard *shard, gw_mark_visit_fn visit, void *ctx)
{
    for (uint32_t i = 0; i < shard->aside_count; i++) {
        const struct gw_aside *aside = &shard->asides[i];
        visit(ctx, aside->device, aside->class_id, &aside->mark);
    }
    for (uint32_t i = 0; i < shard->capacity; i++) {
        const struct gw_mark_slot *slot = &shard->slots[i];
        if (slot->mark.used != 0) {
            visit(ctx, slot->device, (uint8_t)slot->mark.class_id, &slot->mark);
        }
    }
}

void gw_marks_stats(struct gw_marks *marks, struct gw_marks_stats *out)
{
    memset(out, 0, sizeof(*out));
    out->bytes = sizeof(*marks);
    out->expired = atomic_load_explicit(&marks->expired, memory_order_relaxed);
    for (uint32_t i = 0; i < GW_MARK_SHARDS; i++) {
        struct gw_mark_shard *shard = gw_marks_lock_index(marks, i);
        out->marks += shard->count;
        out->asides += shard->aside_count;
        out->unproven += shard->unproven;
        out->probes_long += shard->probes_long;
        out->bytes += shard->capacity * sizeof(struct gw_mark_slot) +
                      shard->aside_capacity * sizeof(struct gw_aside) +
                      shard->aside_bucket_count * sizeof(uint32_t);
        gw_marks_unlock(shard);
    }
}

struct validation {
    struct gw_mark_shard *shard;
    uint32_t seen;
    uint32_t unproven;
    bool good;
};

static void validate_mark(void *ctx, uint64_t device, uint8_t class_id, const struct gw_mark *mark)
{
    struct validation *validation = ctx;
    validation->seen++;
    validation->unproven += mark->unproven;
    validation->good = validation->good && mark->high_water <= WIRE_TUNNEL_NUMBER_MAX &&
                       gw_mark_find(validation->shard, device, class_id, mark->epoch) == mark &&
                       (base_keyed64_u64(&validation->shard->key, device) & SHARD_MASK) ==
                           validation->shard->index;
}

bool gw_marks_validate(struct gw_marks *marks)
{
    bool good = true;
    for (uint32_t i = 0; i < GW_MARK_SHARDS; i++) {
        struct gw_mark_shard *shard = gw_marks_lock_index(marks, i);
        struct validation validation = {.shard = shard, .good = true};
        gw_mark_walk(shard, validate_mark, &validation);
        good = good && validation.good && validation.seen == shard->count + shard->aside_count &&
               validation.unproven == shard->unproven && gw_lanes_validate(shard);
        gw_marks_unlock(shard);
    }
    return good;
}

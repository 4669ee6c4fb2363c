// The table of all devices. SHARED: each shard's mutex guards its index, entries and dirty list;
// see device_table.h for who calls from where. Counters are relaxed atomics. Nothing is called with
// a shard's mutex held but what the header names. A flush takes a bounded piece of the dirty
// entries and puts back what could not be written.
#include "svc/device/device_table.h"

#include "svc/device/device_shard.h"
#include "svc/device/devices.h"

#include "base/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct gw_device_table {
    struct gw_device_shard shards[GW_DEVICE_TABLE_SHARDS];
    struct base_pair_key settled;
    bool (*is_open)(void *ctx, uint32_t rollout);
    void *ctx;
    _Atomic uint64_t count;
    _Atomic uint64_t unproven; // of them
    _Atomic uint64_t dirty;
    _Atomic uint64_t dropped;
    _Atomic uint32_t next_shard; // where take_dirty goes on
};

enum base_status gw_device_table_new(bool (*is_open)(void *ctx, uint32_t rollout), void *ctx,
                                     const struct base_hash_key *key,
                                     struct gw_device_table **out_table)
{
    struct gw_device_table *table = aligned_alloc(128, sizeof(*table));
    if (table == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(table, 0, sizeof(*table));
    table->settled = base_pair_key_of(key);
    table->is_open = is_open;
    table->ctx = ctx;
    for (uint32_t i = 0; i < GW_DEVICE_TABLE_SHARDS; i++) {
        gw_shard_init(&table->shards[i], key);
    }
    *out_table = table;
    return BASE_OK;
}

void gw_device_table_free(struct gw_device_table *table)
{
    if (table == NULL) {
        return;
    }
    for (uint32_t i = 0; i < GW_DEVICE_TABLE_SHARDS; i++) {
        gw_shard_done(&table->shards[i]);
    }
    free(table);
}

// ---- One shard, its mutex held

static uint32_t shard_of(uint64_t hash)
{
    return (uint32_t)(hash >> 58);
}
_Static_assert(GW_DEVICE_TABLE_SHARDS == 64, "the shard is the hash's top 6 bits");

static struct gw_device_shard *shard_lock(struct gw_device_table *table, uint64_t device_id,
                                          uint64_t *out_hash)
{
    *out_hash = base_keyed64_u64(&table->shards[0].key, device_id);
    struct gw_device_shard *shard = &table->shards[shard_of(*out_hash)];
    pthread_mutex_lock(&shard->lock);
    return shard;
}

static struct gw_device_entry *add(struct gw_device_table *table, struct gw_device_shard *shard,
                                   uint64_t hash, uint64_t device_id)
{
    struct gw_device_entry *entry = gw_shard_add(shard, hash, device_id);
    if (entry == NULL) {
        atomic_fetch_add_explicit(&table->dropped, 1, memory_order_relaxed);
        return NULL;
    }
    atomic_fetch_add_explicit(&table->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&table->unproven, 1, memory_order_relaxed);
    return entry;
}

static void set_dirty(struct gw_device_table *table, struct gw_device_shard *shard,
                      struct gw_device_entry *entry)
{
    if (entry->dirty) {
        return;
    }
    gw_shard_set_dirty(shard, entry);
    atomic_fetch_add_explicit(&table->dirty, 1, memory_order_relaxed);
}

static void set_attrs(struct gw_device_entry *entry, uint32_t attrs_id)
{
    base_assert(attrs_id <= GW_ATTR_POOL_MAX);
    entry->attrs_id = attrs_id & ((1u << GW_ATTRS_BITS) - 1);
}

// Of a higher one the writer asks the record whether it has it.
static uint32_t seq_of(uint64_t seq)
{
    return seq < UINT32_MAX ? (uint32_t)seq : UINT32_MAX;
}

// Forgets rollouts that are over; their offers are history that only the record keeps.
static void drop_closed_marks(struct gw_device_table *table, struct gw_device_entry *entry)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < entry->mark_count; i++) {
        const struct gw_device_mark mark = gw_shard_mark(entry, i);
        if (mark.dirty != 0 || table->is_open(table->ctx, mark.rollout)) {
            gw_shard_set_mark(entry, kept++, &mark);
        }
    }
    entry->mark_count = kept & ((1u << GW_MARKS_BITS) - 1);
}

// What an entry, NULL for none, has to do with a rollout: a copy, and which of its marks that is.
static bool find_mark(const struct gw_device_entry *entry, uint32_t rollout,
                      struct gw_device_mark *out, uint32_t *out_at)
{
    for (uint32_t i = 0; entry != NULL && i < entry->mark_count; i++) {
        *out = gw_shard_mark(entry, i);
        if (out->rollout == rollout) {
            *out_at = i;
            return true;
        }
    }
    return false;
}

// A place for one more. False: it is in too many, or there is no memory.
static bool make_place(struct gw_device_table *table, struct gw_device_shard *shard,
                       struct gw_device_entry *entry)
{
    if (entry->mark_count < gw_shard_places(entry)) {
        return true;
    }
    drop_closed_marks(table, entry);
    return entry->mark_count < gw_shard_places(entry) ||
           (entry->mark_count < GW_DEVICE_MARKS_MAX && gw_shard_grow_marks(shard, entry));
}

static bool add_mark(struct gw_device_table *table, struct gw_device_shard *shard,
                     struct gw_device_entry *entry, const struct gw_device_mark *mark)
{
    struct gw_device_mark known;
    uint32_t at;
    if (find_mark(entry, mark->rollout, &known, &at) || !make_place(table, shard, entry) ||
        (!gw_shard_fits(entry, mark->rollout) && !gw_shard_grow_marks(shard, entry))) {
        return false;
    }
    gw_shard_set_mark(entry, entry->mark_count, mark);
    entry->mark_count++;
    return true;
}

static void snapshot(struct gw_device_entry *entry, struct gw_device_snapshot *out)
{
    out->device_id = entry->device_id;
    out->report_seq = entry->report_seq;
    out->epoch = entry->epoch;
    out->has_epoch = entry->has_epoch;
    out->proven = entry->proven;
    out->attrs_id = entry->attrs_id;
    out->first_seen_s = entry->first_seen_s;
    out->last_seen_s = entry->last_seen_s;
    out->interval_s = entry->interval_s;
    out->tasks_max = entry->tasks_max;
    out->room = entry->room;
    out->mark_count = entry->mark_count;
    for (uint32_t i = 0; i < entry->mark_count; i++) {
        out->marks[i] = gw_shard_mark(entry, i);
    }
}

// ---- What callers do

// True when that is news.
static bool prove(struct gw_device_table *table, struct gw_device_entry *entry)
{
    if (entry->proven) {
        return false;
    }
    entry->proven = true;
    atomic_fetch_sub_explicit(&table->unproven, 1, memory_order_relaxed);
    entry->has_epoch = false;
    return true;
}

// The shard's mutex is held. NULL: there is no room.
static struct gw_device_entry *touch_entry(struct gw_device_table *table,
                                           struct gw_device_shard *shard, uint64_t hash,
                                           const struct gw_device_touch *touch)
{
    struct gw_device_entry *entry = gw_shard_find(shard, hash, touch->device_id);
    bool dirty = false;
    if (entry == NULL) {
        entry = add(table, shard, hash, touch->device_id);
        if (entry != NULL) {
            entry->first_seen_s = touch->now_s;
            dirty = true;
        }
    }
    if (entry != NULL && entry->proven && !touch->proven) {
        return entry; // somebody else, who knows its id
    }
    if (entry != NULL) {
        dirty = (touch->proven && prove(table, entry)) || dirty;
        if (touch->attrs_id != 0 && entry->attrs_id != touch->attrs_id) {
            set_attrs(entry, touch->attrs_id);
            dirty = true;
        }
        if (touch->interval_s != 0 && entry->interval_s != touch->interval_s) {
            entry->interval_s = touch->interval_s;
            dirty = true;
        }
        gw_shard_seen(entry, touch->now_s);
        if (dirty || entry->unsaved_s >= GW_LAST_SEEN_SAVE_S) {
            set_dirty(table, shard, entry);
        }
    }
    return entry;
}

// Touches by shard; those of a shard as they came.
struct by_shard {
    uint64_t hashes[GW_TOUCHES_MAX];           // of the touches as they came
    uint16_t order[GW_TOUCHES_MAX];            // places of touches
    uint16_t ends[GW_DEVICE_TABLE_SHARDS + 1]; // of each shard's part of `order`
};

// A counting sort: a device's stay in order.
static void sort_by_shard(const struct gw_device_table *table,
                          const struct gw_device_touch *touches, uint32_t count,
                          struct by_shard *out)
{
    base_assert(count <= GW_TOUCHES_MAX);
    memset(out->ends, 0, sizeof(out->ends));
    for (uint32_t i = 0; i < count; i++) {
        out->hashes[i] = base_keyed64_u64(&table->shards[0].key, touches[i].device_id);
        out->ends[shard_of(out->hashes[i]) + 1]++;
    }
    for (uint32_t s = 1; s < GW_DEVICE_TABLE_SHARDS; s++) {
        out->ends[s + 1] = (uint16_t)(out->ends[s + 1] + out->ends[s]);
    }
    for (uint32_t i = 0; i < count; i++) { // ends[s] goes from where shard s begins to its end
        out->order[out->ends[shard_of(out->hashes[i])]++] = (uint16_t)i;
    }
}

// Each shard is locked once. Where its touches stand is asked of memory for all of them before the
// first is looked at, so that they do not wait for it one after the other.
void gw_device_table_touch(struct gw_device_table *table, const struct gw_device_touch *touches,
                           uint32_t count)
{
    struct by_shard by;
    if (count == 1) { // who was offered something, or reports
        uint64_t hash;
        struct gw_device_shard *shard = shard_lock(table, touches->device_id, &hash);
        (void)touch_entry(table, shard, hash, touches);
        pthread_mutex_unlock(&shard->lock);
        return;
    }
    sort_by_shard(table, touches, count, &by);
    for (uint32_t s = 0, begin = 0; s < GW_DEVICE_TABLE_SHARDS; begin = by.ends[s], s++) {
        struct gw_device_shard *shard = &table->shards[s];
        if (by.ends[s] == begin) {
            continue;
        }
        pthread_mutex_lock(&shard->lock);
        for (uint32_t i = begin; i < by.ends[s]; i++) {
            gw_shard_prefetch_place(shard, by.hashes[by.order[i]]);
        }
        for (uint32_t i = begin; i < by.ends[s]; i++) {
            gw_shard_prefetch_entry(shard, by.hashes[by.order[i]]);
        }
        for (uint32_t i = begin; i < by.ends[s]; i++) {
            uint16_t at = by.order[i];
            (void)touch_entry(table, shard, by.hashes[at], &touches[at]);
        }
        pthread_mutex_unlock(&shard->lock);
    }
}

void gw_device_table_time_moved(struct gw_device_table *table, uint32_t now_s)
{
    for (uint32_t i = 0; i < GW_DEVICE_TABLE_SHARDS; i++) {
        gw_shard_time_moved(&table->shards[i], now_s);
    }
}

enum base_status gw_device_table_load(struct gw_device_table *table,
                                      const struct gw_device_snapshot *from)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, from->device_id, &hash);
    struct gw_device_entry *entry = gw_shard_find(shard, hash, from->device_id);
    if (entry == NULL) {
        entry = add(table, shard, hash, from->device_id);
    }
    if (entry != NULL) {
        if (from->proven) {
            (void)prove(table, entry);
        }
        entry->report_seq = seq_of(from->report_seq);
        entry->epoch = from->epoch;
        entry->has_epoch = from->has_epoch;
        set_attrs(entry, from->attrs_id);
        entry->first_seen_s = from->first_seen_s;
        entry->last_seen_s = from->last_seen_s;
        entry->unsaved_s = 0;
        entry->interval_s = from->interval_s;
        for (uint32_t i = 0; i < from->mark_count; i++) {
            (void)add_mark(table, shard, entry, &from->marks[i]);
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return entry != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

// One word for both: whoever chooses digests, or attributes, does not find two that share it.
static uint64_t settled_key(const struct gw_device_table *table, uint64_t digest,
                            uint64_t signature)
{
    return base_pair_word(&table->settled, digest, signature);
}

void gw_device_table_settle(struct gw_device_table *table, uint64_t device_id, uint64_t digest,
                            uint64_t signature, bool without)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    struct gw_device_entry *entry = gw_shard_find(shard, hash, device_id);
    if (entry != NULL) {
        entry->settled = true;
        entry->without = without;
        entry->settled_key = settled_key(table, digest, signature);
    }
    pthread_mutex_unlock(&shard->lock);
}

bool gw_device_table_touch_settled(struct gw_device_table *table,
                                   const struct gw_device_touch *touch, uint64_t digest,
                                   uint64_t signature)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, touch->device_id, &hash);
    const struct gw_device_entry *entry = touch_entry(table, shard, hash, touch);
    bool settled = entry != NULL && entry->settled &&
                   entry->settled_key == settled_key(table, digest, signature);
    pthread_mutex_unlock(&shard->lock);
    return settled;
}

bool gw_device_table_settled(struct gw_device_table *table, uint64_t device_id, uint64_t digest,
                             uint64_t signature)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    const struct gw_device_entry *entry = gw_shard_find(shard, hash, device_id);
    bool settled = entry != NULL && entry->settled &&
                   entry->settled_key == settled_key(table, digest, signature);
    pthread_mutex_unlock(&shard->lock);
    return settled;
}

// Does an offer replace what the device had to do with the rollout? It was its control, or entered
// before it had shown who it is.
static bool enters_anew(const struct gw_device_mark *known, const struct gw_device_mark *offer)
{
    return (known->bits & GW_OUTCOME_CONTROL) != 0 ||
           (offer->bits & ~(unsigned)known->bits & GW_OUTCOME_PROVEN) != 0;
}

bool gw_device_table_offered(struct gw_device_table *table, uint64_t device_id,
                             const struct gw_device_mark *offer)
{
    uint64_t hash;
    bool news = false;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    struct gw_device_entry *entry = gw_shard_find(shard, hash, device_id);
    if (entry != NULL && (!entry->proven || (offer->bits & GW_OUTCOME_PROVEN) != 0)) {
        struct gw_device_mark known;
        uint32_t at;
        entry->without = entry->without && (offer->bits & GW_OUTCOME_CONTROL) != 0;
        if (!find_mark(entry, offer->rollout, &known, &at)) {
            news = add_mark(table, shard, entry, offer);
        } else if (enters_anew(&known, offer)) {
            gw_shard_set_mark(entry, at, offer);
            news = true;
        }
        if (news) {
            set_dirty(table, shard, entry);
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return news;
}

bool gw_device_table_proven(struct gw_device_table *table, uint64_t device_id)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    const struct gw_device_entry *entry = gw_shard_find(shard, hash, device_id);
    bool proven = entry != NULL && entry->proven;
    pthread_mutex_unlock(&shard->lock);
    return proven;
}

static uint32_t room_bits(uint32_t number)
{
    return number < WIRE_PROFILE_TASKS_MAX ? number : WIRE_PROFILE_TASKS_MAX;
}

void gw_device_table_room(struct gw_device_table *table, uint64_t device_id, uint32_t tasks_max,
                          uint32_t room)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    struct gw_device_entry *entry = gw_shard_find(shard, hash, device_id);
    if (entry != NULL) {
        entry->tasks_max = room_bits(tasks_max) & ((1u << GW_ROOM_BITS) - 1);
        entry->room = room_bits(room) & ((1u << GW_ROOM_BITS) - 1);
    }
    pthread_mutex_unlock(&shard->lock);
}

bool gw_device_table_has(struct gw_device_table *table, uint64_t device_id)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    bool has = gw_shard_find(shard, hash, device_id) != NULL;
    pthread_mutex_unlock(&shard->lock);
    return has;
}

bool gw_device_table_mark(struct gw_device_table *table, uint64_t device_id, uint32_t rollout,
                          struct gw_device_mark *out)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    uint32_t at;
    bool found = find_mark(gw_shard_find(shard, hash, device_id), rollout, out, &at);
    pthread_mutex_unlock(&shard->lock);
    return found;
}

bool gw_device_table_make_place(struct gw_device_table *table, uint64_t device_id)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    struct gw_device_entry *entry = gw_shard_find(shard, hash, device_id);
    bool made = entry == NULL || make_place(table, shard, entry);
    pthread_mutex_unlock(&shard->lock);
    return made;
}

bool gw_device_table_is_full(struct gw_device_table *table, uint64_t device_id)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    struct gw_device_entry *entry = gw_shard_find(shard, hash, device_id);
    bool full = entry != NULL && entry->mark_count == GW_DEVICE_MARKS_MAX;
    if (full) {
        drop_closed_marks(table, entry);
        full = entry->mark_count == GW_DEVICE_MARKS_MAX;
    }
    pthread_mutex_unlock(&shard->lock);
    return full;
}

unsigned gw_device_table_stands(struct gw_device_table *table, uint64_t device_id)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    struct gw_device_entry *entry = gw_shard_find(shard, hash, device_id);
    unsigned stands = entry != NULL && entry->without ? GW_DEVICE_WITHOUT : 0;
    for (uint32_t i = 0; entry != NULL && i < entry->mark_count; i++) {
        unsigned bits = gw_shard_mark(entry, i).bits | GW_OUTCOME_DOWNLOADED;
        stands |= bits == (GW_OUTCOME_OFFERED | GW_OUTCOME_DOWNLOADED) ? GW_DEVICE_UNDER_WAY : 0;
    }
    pthread_mutex_unlock(&shard->lock);
    return stands;
}

void gw_device_table_retried(struct gw_device_table *table, uint64_t device_id, uint32_t rollout)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    struct gw_device_entry *entry = gw_shard_find(shard, hash, device_id);
    struct gw_device_mark mark;
    uint32_t at;
    if (find_mark(entry, rollout, &mark, &at) && (mark.bits & GW_OUTCOME_RETRY) != 0 &&
        (mark.bits & GW_OUTCOME_RETRY_GIVEN) == 0) {
        mark.bits |= GW_OUTCOME_RETRY_GIVEN;
        mark.tries = (mark.tries + 1u) & 15u;
        mark.dirty = 1;
        gw_shard_set_mark(entry, at, &mark);
        set_dirty(table, shard, entry);
    }
    pthread_mutex_unlock(&shard->lock);
}

void gw_device_table_follow(struct gw_device_table *table, uint64_t device_id,
                            const struct gw_device_mark *mark)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    struct gw_device_entry *entry = gw_shard_find(shard, hash, device_id);
    struct gw_device_mark known;
    uint32_t at;
    if (find_mark(entry, mark->rollout, &known, &at)) {
        // Offered meanwhile, or told to try again: that is newer than what the writer saw.
        bool newer =
            known.dirty != 0 &&
            (known.stage > mark->stage || ((known.bits ^ mark->bits) & GW_OUTCOME_CONTROL) != 0 ||
             (known.bits & ~(unsigned)mark->bits & GW_OUTCOME_PROVEN) != 0);
        if (!newer) {
            struct gw_device_mark followed = *mark;
            followed.tries = (known.tries > mark->tries ? known.tries : mark->tries) & 15u;
            followed.dirty = known.dirty;
            gw_shard_set_mark(entry, at, &followed);
        }
    } else if (entry != NULL) {
        (void)add_mark(table, shard, entry, mark);
    }
    pthread_mutex_unlock(&shard->lock);
}

static void visit_one(struct gw_device_table *table, struct gw_device_shard *shard,
                      struct gw_device_entry *entry, gw_device_visit_fn visit, void *ctx)
{
    struct gw_device_visit seen;
    seen.device_id = entry->device_id;
    seen.attrs_id = entry->attrs_id;
    seen.last_seen_s = entry->last_seen_s;
    seen.interval_s = entry->interval_s;
    seen.proven = entry->proven;
    seen.changed = false;
    seen.mark_count = entry->mark_count;
    for (uint32_t i = 0; i < entry->mark_count; i++) {
        seen.marks[i] = gw_shard_mark(entry, i);
    }
    visit(ctx, &seen);
    if (!seen.changed) {
        return;
    }
    for (uint32_t i = 0; i < entry->mark_count; i++) {
        gw_shard_set_mark(entry, i, &seen.marks[i]);
    }
    for (uint32_t i = entry->mark_count; i < seen.mark_count; i++) {
        (void)add_mark(table, shard, entry, &seen.marks[i]);
    }
    set_dirty(table, shard, entry);
}

uint32_t gw_device_table_walk(struct gw_device_table *table, struct gw_device_place place,
                              uint32_t count, gw_device_visit_fn visit, void *ctx)
{
    struct gw_device_shard *shard = &table->shards[place.shard % GW_DEVICE_TABLE_SHARDS];
    uint32_t done = 0;
    pthread_mutex_lock(&shard->lock);
    for (; done < count && place.from + done < shard->count; done++) {
        struct gw_device_entry *entry = gw_shard_entry(shard, place.from + done);
        if (entry->used) {
            visit_one(table, shard, entry, visit, ctx);
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return done;
}

uint32_t gw_device_table_expire(struct gw_device_table *table, struct gw_device_place place,
                                uint32_t count, const struct gw_device_expiry *expiry,
                                struct gw_device_forgotten *forgotten)
{
    struct gw_device_shard *shard = &table->shards[place.shard % GW_DEVICE_TABLE_SHARDS];
    uint32_t before = forgotten->count;
    uint32_t done = 0;
    pthread_mutex_lock(&shard->lock);
    for (; done < count && place.from + done < shard->count; done++) {
        struct gw_device_entry *entry = gw_shard_entry(shard, place.from + done);
        if (entry->used && !entry->proven && !entry->dirty && entry->last_seen_s < expiry->seen_s &&
            !expiry->keep(expiry->ctx, entry->device_id)) {
            forgotten->ids[forgotten->count++] = entry->device_id;
            gw_shard_remove(shard, entry);
        }
    }
    pthread_mutex_unlock(&shard->lock);
    atomic_fetch_sub_explicit(&table->count, forgotten->count - before, memory_order_relaxed);
    atomic_fetch_sub_explicit(&table->unproven, forgotten->count - before, memory_order_relaxed);
    return done;
}

bool gw_device_table_has_report(struct gw_device_table *table, uint64_t device_id, uint32_t epoch,
                                uint64_t seq, bool proven)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    const struct gw_device_entry *entry = gw_shard_find(shard, hash, device_id);
    bool has = entry != NULL && entry->has_epoch && entry->epoch == epoch &&
               entry->report_seq >= seq && entry->proven == proven;
    pthread_mutex_unlock(&shard->lock);
    return has;
}

void gw_device_table_reported(struct gw_device_table *table, const struct gw_device_touch *by,
                              uint32_t epoch, uint64_t seq)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, by->device_id, &hash);
    struct gw_device_entry *entry = gw_shard_find(shard, hash, by->device_id);
    if (entry == NULL) {
        entry = add(table, shard, hash, by->device_id);
        if (entry != NULL) {
            entry->first_seen_s = by->now_s;
        }
    }
    if (entry != NULL && (by->proven || !entry->proven)) {
        if (by->proven) {
            (void)prove(table, entry);
        }
        if (by->now_s > entry->last_seen_s) {
            entry->last_seen_s = by->now_s;
            entry->unsaved_s = 0; // the record has it
        }
        if (!entry->has_epoch || entry->epoch != epoch || entry->report_seq < seq) {
            entry->epoch = epoch;
            entry->has_epoch = true;
            entry->report_seq = seq_of(seq);
        }
    }
    pthread_mutex_unlock(&shard->lock);
}

static void set_mark_dirty(struct gw_device_entry *entry, uint32_t i, bool dirty)
{
    struct gw_device_mark mark = gw_shard_mark(entry, i);
    mark.dirty = dirty;
    gw_shard_set_mark(entry, i, &mark);
}

static uint32_t take_shard(struct gw_device_table *table, struct gw_device_shard *shard,
                           struct gw_device_snapshot *out, uint32_t capacity)
{
    uint32_t count = 0;
    pthread_mutex_lock(&shard->lock);
    struct gw_device_entry *entry;
    while (count < capacity && (entry = gw_shard_take_dirty(shard)) != NULL) {
        entry->unsaved_s = 0;
        snapshot(entry, &out[count++]);
        for (uint32_t i = 0; i < entry->mark_count; i++) {
            set_mark_dirty(entry, i, false);
        }
    }
    pthread_mutex_unlock(&shard->lock);
    atomic_fetch_sub_explicit(&table->dirty, count, memory_order_relaxed);
    return count;
}

uint32_t gw_device_table_take_dirty(struct gw_device_table *table, struct gw_device_snapshot *out,
                                    uint32_t capacity)
{
    uint32_t count = 0;
    uint32_t start = atomic_fetch_add_explicit(&table->next_shard, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < GW_DEVICE_TABLE_SHARDS && count < capacity; i++) {
        struct gw_device_shard *shard = &table->shards[(start + i) % GW_DEVICE_TABLE_SHARDS];
        count += take_shard(table, shard, out + count, capacity - count);
    }
    return count;
}

void gw_device_table_put_back(struct gw_device_table *table, const struct gw_device_snapshot *from,
                              uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t hash;
        struct gw_device_shard *shard = shard_lock(table, from[i].device_id, &hash);
        struct gw_device_entry *entry = gw_shard_find(shard, hash, from[i].device_id);
        for (uint32_t k = 0; entry != NULL && k < from[i].mark_count; k++) {
            for (uint32_t m = 0; m < entry->mark_count; m++) {
                if (gw_shard_mark(entry, m).rollout == from[i].marks[k].rollout &&
                    from[i].marks[k].dirty != 0) {
                    set_mark_dirty(entry, m, true);
                }
            }
        }
        if (entry != NULL) {
            set_dirty(table, shard, entry);
        }
        pthread_mutex_unlock(&shard->lock);
    }
}

bool gw_device_table_get(struct gw_device_table *table, uint64_t device_id,
                         struct gw_device_snapshot *out)
{
    uint64_t hash;
    struct gw_device_shard *shard = shard_lock(table, device_id, &hash);
    struct gw_device_entry *entry = gw_shard_find(shard, hash, device_id);
    if (entry != NULL) {
        snapshot(entry, out);
    }
    pthread_mutex_unlock(&shard->lock);
    return entry != NULL;
}

uint64_t gw_device_table_count(struct gw_device_table *table)
{
    return atomic_load_explicit(&table->count, memory_order_relaxed);
}

uint64_t gw_device_table_unproven(struct gw_device_table *table)
{
    return atomic_load_explicit(&table->unproven, memory_order_relaxed);
}

uint64_t gw_device_table_dirty(struct gw_device_table *table)
{
    return atomic_load_explicit(&table->dirty, memory_order_relaxed);
}

uint64_t gw_device_table_dropped(struct gw_device_table *table)
{
    return atomic_load_explicit(&table->dropped, memory_order_relaxed);
}

uint64_t gw_device_table_bytes(struct gw_device_table *table)
{
    uint64_t bytes = sizeof(*table);
    for (uint32_t i = 0; i < GW_DEVICE_TABLE_SHARDS; i++) {
        struct gw_device_shard *shard = &table->shards[i];
        pthread_mutex_lock(&shard->lock);
        bytes +=
            (uint64_t)shard->chunk_count * (sizeof(struct gw_device_chunk) +
                                            sizeof(struct gw_device_entry *) + GW_SHARD_CHUNK / 8);
        bytes += (uint64_t)shard->index_size * GW_INDEX_BYTES;
        bytes += (uint64_t)shard->extra_marks * sizeof(struct gw_device_mark);
        pthread_mutex_unlock(&shard->lock);
    }
    return bytes;
}

uint64_t gw_device_table_probes_long(struct gw_device_table *table)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < GW_DEVICE_TABLE_SHARDS; i++) {
        pthread_mutex_lock(&table->shards[i].lock);
        count += table->shards[i].probes_long;
        pthread_mutex_unlock(&table->shards[i].lock);
    }
    return count;
}

bool gw_device_table_validate(struct gw_device_table *table)
{
    bool ok = true;
    for (uint32_t i = 0; i < GW_DEVICE_TABLE_SHARDS; i++) {
        struct gw_device_shard *shard = &table->shards[i];
        uint32_t flagged = 0;
        uint32_t live = 0;
        pthread_mutex_lock(&shard->lock);
        for (uint32_t k = 0; k < shard->count; k++) {
            const struct gw_device_entry *entry = gw_shard_entry(shard, k);
            if (!entry->used) {
                continue;
            }
            live++;
            flagged += entry->dirty;
            ok = ok && gw_shard_find(shard, base_keyed64_u64(&shard->key, entry->device_id),
                                     entry->device_id) == entry;
        }
        ok = ok && flagged == shard->dirty_count && flagged == gw_shard_dirty_bits(shard) &&
             live == shard->live;
        pthread_mutex_unlock(&shard->lock);
    }
    return ok;
}

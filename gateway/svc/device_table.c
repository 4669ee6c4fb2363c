// The table of all devices. SHARED: each shard's mutex guards its index, entries and dirty list;
// see device_table.h for who calls from where. Counters are relaxed atomics.
#include "svc/device_table.h"

#include "svc/devices.h"

#include "base/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_ENTRIES 256u
#define INDEX_FIRST   256u
#define INLINE_MARKS  2u
#define NO_ENTRY      UINT32_MAX

struct entry {
    uint64_t device_id;
    uint64_t settled_key; // of the digest and the cohort's signature when nothing was to be offered
    uint64_t report_seq;
    struct gw_device_mark *more; // GW_DEVICE_MARKS_MAX - INLINE_MARKS of them, or NULL
    struct gw_device_mark marks[INLINE_MARKS];
    uint32_t epoch;
    uint32_t attrs_id;
    uint32_t first_seen_s;
    uint32_t last_seen_s;
    uint32_t saved_seen_s;
    uint32_t next_dirty;
    uint8_t mark_count;
    bool dirty;
    bool settled;
    bool has_epoch;
    bool proven;
};

struct shard {
    pthread_mutex_t lock;
    struct entry **chunks;
    uint32_t chunk_count;
    uint32_t count;
    uint32_t *index; // entry numbers, NO_ENTRY: free
    uint32_t index_size;
    uint32_t dirty_first;
    uint32_t dirty_last;
    uint32_t extra_marks; // blocks of `more`
    uint64_t probes_long;
    struct base_hash_key key; // the table's: beside what it places
} __attribute__((aligned(128)));

struct gw_device_table {
    struct shard shards[GW_DEVICE_TABLE_SHARDS];
    bool (*is_open)(void *ctx, uint32_t rollout);
    void *ctx;
    _Atomic uint64_t count;
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
    table->is_open = is_open;
    table->ctx = ctx;
    for (uint32_t i = 0; i < GW_DEVICE_TABLE_SHARDS; i++) {
        pthread_mutex_init(&table->shards[i].lock, NULL);
        table->shards[i].key = *key;
        table->shards[i].dirty_first = NO_ENTRY;
        table->shards[i].dirty_last = NO_ENTRY;
    }
    *out_table = table;
    return BASE_OK;
}

static struct entry *entry_at(const struct shard *shard, uint32_t number)
{
    return &shard->chunks[number / CHUNK_ENTRIES][number % CHUNK_ENTRIES];
}

void gw_device_table_free(struct gw_device_table *table)
{
    if (table == NULL) {
        return;
    }
    for (uint32_t i = 0; i < GW_DEVICE_TABLE_SHARDS; i++) {
        struct shard *shard = &table->shards[i];
        for (uint32_t k = 0; k < shard->count; k++) {
            free(entry_at(shard, k)->more);
        }
        for (uint32_t k = 0; k < shard->chunk_count; k++) {
            free(shard->chunks[k]);
        }
        free(shard->chunks);
        free(shard->index);
        pthread_mutex_destroy(&shard->lock);
    }
    free(table);
}

// ---- One shard, its mutex held

static struct shard *shard_lock(struct gw_device_table *table, uint64_t device_id,
                                uint64_t *out_hash)
{
    *out_hash = base_keyed64_u64(&table->shards[0].key, device_id);
    struct shard *shard = &table->shards[*out_hash >> 58];
    pthread_mutex_lock(&shard->lock);
    return shard;
}
_Static_assert(GW_DEVICE_TABLE_SHARDS == 64, "the shard is the hash's top 6 bits");

static struct entry *find(struct shard *shard, uint64_t hash, uint64_t device_id)
{
    if (shard->index_size == 0) {
        return NULL;
    }
    uint32_t mask = shard->index_size - 1;
    uint32_t steps = 0;
    struct entry *entry = NULL;
    for (uint32_t at = (uint32_t)hash & mask; shard->index[at] != NO_ENTRY; at = (at + 1) & mask) {
        entry = entry_at(shard, shard->index[at]);
        if (entry->device_id == device_id) {
            break;
        }
        entry = NULL;
        steps++;
    }
    shard->probes_long += steps > BASE_PROBE_LONG;
    return entry;
}

static bool grow_index(struct shard *shard)
{
    uint32_t wanted = shard->index_size == 0 ? INDEX_FIRST : shard->index_size * 2;
    uint32_t *index = malloc((size_t)wanted * sizeof(*index));
    if (index == NULL) {
        return false;
    }
    memset(index, 0xff, (size_t)wanted * sizeof(*index));
    for (uint32_t i = 0; i < shard->count; i++) {
        uint32_t at =
            (uint32_t)base_keyed64_u64(&shard->key, entry_at(shard, i)->device_id) & (wanted - 1);
        while (index[at] != NO_ENTRY) {
            at = (at + 1) & (wanted - 1);
        }
        index[at] = i;
    }
    free(shard->index);
    shard->index = index;
    shard->index_size = wanted;
    return true;
}

static bool grow_chunks(struct shard *shard)
{
    struct entry **chunks =
        realloc(shard->chunks, ((size_t)shard->chunk_count + 1) * sizeof(chunks[0]));
    if (chunks == NULL) {
        return false;
    }
    shard->chunks = chunks;
    struct entry *chunk = malloc(CHUNK_ENTRIES * sizeof(*chunk));
    if (chunk == NULL) {
        return false;
    }
    shard->chunks[shard->chunk_count++] = chunk;
    return true;
}

static struct entry *add(struct gw_device_table *table, struct shard *shard, uint64_t hash,
                         uint64_t device_id)
{
    bool room = shard->count < GW_DEVICES_MAX / GW_DEVICE_TABLE_SHARDS;
    // At most two thirds full.
    if (room && (shard->count + 1) * 3 > shard->index_size * 2) {
        room = grow_index(shard);
    }
    if (room && shard->count == shard->chunk_count * CHUNK_ENTRIES) {
        room = grow_chunks(shard);
    }
    if (!room) {
        atomic_fetch_add_explicit(&table->dropped, 1, memory_order_relaxed);
        return NULL;
    }
    uint32_t mask = shard->index_size - 1;
    uint32_t at = (uint32_t)hash & mask;
    while (shard->index[at] != NO_ENTRY) {
        at = (at + 1) & mask;
    }
    shard->index[at] = shard->count++;
    struct entry *entry = entry_at(shard, shard->index[at]);
    *entry = (struct entry){.device_id = device_id, .next_dirty = NO_ENTRY};
    atomic_fetch_add_explicit(&table->count, 1, memory_order_relaxed);
    return entry;
}

// The number of an entry is needed only when it becomes dirty: look it up again in the index.
static uint32_t number_of(const struct shard *shard, const struct entry *entry)
{
    uint32_t mask = shard->index_size - 1;
    uint32_t at = (uint32_t)base_keyed64_u64(&shard->key, entry->device_id) & mask;
    while (entry_at(shard, shard->index[at]) != entry) {
        at = (at + 1) & mask;
    }
    return shard->index[at];
}

static void set_dirty(struct gw_device_table *table, struct shard *shard, struct entry *entry)
{
    if (entry->dirty) {
        return;
    }
    uint32_t number = number_of(shard, entry);
    entry->dirty = true;
    entry->next_dirty = NO_ENTRY;
    if (shard->dirty_last == NO_ENTRY) {
        shard->dirty_first = number;
    } else {
        entry_at(shard, shard->dirty_last)->next_dirty = number;
    }
    shard->dirty_last = number;
    atomic_fetch_add_explicit(&table->dirty, 1, memory_order_relaxed);
}

static struct gw_device_mark *mark_at(struct entry *entry, uint32_t i)
{
    return i < INLINE_MARKS ? &entry->marks[i] : &entry->more[i - INLINE_MARKS];
}

// Forgets rollouts that are over; their offers are history that only the record keeps.
static void drop_closed_marks(struct gw_device_table *table, struct entry *entry)
{
    uint8_t kept = 0;
    for (uint32_t i = 0; i < entry->mark_count; i++) {
        struct gw_device_mark mark = *mark_at(entry, i);
        if (mark.dirty != 0 || table->is_open(table->ctx, mark.rollout)) {
            *mark_at(entry, kept++) = mark;
        }
    }
    entry->mark_count = kept;
}

static struct gw_device_mark *find_mark(struct entry *entry, uint32_t rollout)
{
    for (uint32_t i = 0; entry != NULL && i < entry->mark_count; i++) {
        if (mark_at(entry, i)->rollout == rollout) {
            return mark_at(entry, i);
        }
    }
    return NULL;
}

static bool add_mark(struct gw_device_table *table, struct shard *shard, struct entry *entry,
                     struct gw_device_mark mark)
{
    if (find_mark(entry, mark.rollout) != NULL) {
        return false;
    }
    if (entry->mark_count == INLINE_MARKS || entry->mark_count == GW_DEVICE_MARKS_MAX) {
        drop_closed_marks(table, entry);
    }
    if (entry->mark_count >= GW_DEVICE_MARKS_MAX) {
        return false;
    }
    if (entry->mark_count >= INLINE_MARKS && entry->more == NULL) {
        entry->more = calloc(GW_DEVICE_MARKS_MAX - INLINE_MARKS, sizeof(entry->more[0]));
        if (entry->more == NULL) {
            return false;
        }
        shard->extra_marks++;
    }
    *mark_at(entry, entry->mark_count++) = mark;
    return true;
}

static void snapshot(struct entry *entry, struct gw_device_snapshot *out)
{
    out->device_id = entry->device_id;
    out->report_seq = entry->report_seq;
    out->epoch = entry->epoch;
    out->has_epoch = entry->has_epoch;
    out->proven = entry->proven;
    out->attrs_id = entry->attrs_id;
    out->first_seen_s = entry->first_seen_s;
    out->last_seen_s = entry->last_seen_s;
    out->mark_count = entry->mark_count;
    for (uint32_t i = 0; i < entry->mark_count; i++) {
        out->marks[i] = *mark_at(entry, i);
    }
}

// ---- What callers do

// True when that is news.
static bool prove(struct entry *entry)
{
    if (entry->proven) {
        return false;
    }
    entry->proven = true;
    entry->has_epoch = false;
    return true;
}

// The shard's mutex is held. NULL: there is no room.
static struct entry *touch_entry(struct gw_device_table *table, struct shard *shard, uint64_t hash,
                                 const struct gw_device_touch *touch)
{
    struct entry *entry = find(shard, hash, touch->device_id);
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
        dirty = (touch->proven && prove(entry)) || dirty;
        if (touch->attrs_id != 0 && entry->attrs_id != touch->attrs_id) {
            entry->attrs_id = touch->attrs_id;
            dirty = true;
        }
        if (touch->now_s > entry->last_seen_s) {
            entry->last_seen_s = touch->now_s;
        }
        if (dirty || entry->last_seen_s - entry->saved_seen_s >= GW_LAST_SEEN_SAVE_S) {
            set_dirty(table, shard, entry);
        }
    }
    return entry;
}

static void touch_one(struct gw_device_table *table, const struct gw_device_touch *touch)
{
    uint64_t hash;
    struct shard *shard = shard_lock(table, touch->device_id, &hash);
    (void)touch_entry(table, shard, hash, touch);
    pthread_mutex_unlock(&shard->lock);
}

void gw_device_table_touch(struct gw_device_table *table, const struct gw_device_touch *touches,
                           uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        touch_one(table, &touches[i]);
    }
}

enum base_status gw_device_table_load(struct gw_device_table *table,
                                      const struct gw_device_snapshot *from)
{
    uint64_t hash;
    struct shard *shard = shard_lock(table, from->device_id, &hash);
    struct entry *entry = find(shard, hash, from->device_id);
    if (entry == NULL) {
        entry = add(table, shard, hash, from->device_id);
    }
    if (entry != NULL) {
        entry->report_seq = from->report_seq;
        entry->epoch = from->epoch;
        entry->has_epoch = from->has_epoch;
        entry->proven = from->proven;
        entry->attrs_id = from->attrs_id;
        entry->first_seen_s = from->first_seen_s;
        entry->last_seen_s = from->last_seen_s;
        entry->saved_seen_s = from->last_seen_s;
        for (uint32_t i = 0; i < from->mark_count; i++) {
            (void)add_mark(table, shard, entry, from->marks[i]);
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return entry != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

// One word for both.
static uint64_t settled_key(const struct gw_device_table *table, uint64_t digest,
                            uint64_t signature)
{
    return base_keyed64_pair(&table->shards[0].key, digest, signature);
}

void gw_device_table_settle(struct gw_device_table *table, uint64_t device_id, uint64_t digest,
                            uint64_t signature)
{
    uint64_t hash;
    struct shard *shard = shard_lock(table, device_id, &hash);
    struct entry *entry = find(shard, hash, device_id);
    if (entry != NULL) {
        entry->settled = true;
        entry->settled_key = settled_key(table, digest, signature);
    }
    pthread_mutex_unlock(&shard->lock);
}

bool gw_device_table_touch_settled(struct gw_device_table *table,
                                   const struct gw_device_touch *touch, uint64_t digest,
                                   uint64_t signature)
{
    uint64_t hash;
    struct shard *shard = shard_lock(table, touch->device_id, &hash);
    const struct entry *entry = touch_entry(table, shard, hash, touch);
    bool settled = entry != NULL && entry->settled &&
                   entry->settled_key == settled_key(table, digest, signature);
    pthread_mutex_unlock(&shard->lock);
    return settled;
}

bool gw_device_table_settled(struct gw_device_table *table, uint64_t device_id, uint64_t digest,
                             uint64_t signature)
{
    uint64_t hash;
    struct shard *shard = shard_lock(table, device_id, &hash);
    const struct entry *entry = find(shard, hash, device_id);
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
    struct shard *shard = shard_lock(table, device_id, &hash);
    struct entry *entry = find(shard, hash, device_id);
    if (entry != NULL && (!entry->proven || (offer->bits & GW_OUTCOME_PROVEN) != 0)) {
        struct gw_device_mark *known = find_mark(entry, offer->rollout);
        if (known != NULL && enters_anew(known, offer)) {
            *known = *offer;
            news = true;
        } else if (known == NULL) {
            news = add_mark(table, shard, entry, *offer);
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
    struct shard *shard = shard_lock(table, device_id, &hash);
    const struct entry *entry = find(shard, hash, device_id);
    bool proven = entry != NULL && entry->proven;
    pthread_mutex_unlock(&shard->lock);
    return proven;
}

bool gw_device_table_mark(struct gw_device_table *table, uint64_t device_id, uint32_t rollout,
                          struct gw_device_mark *out)
{
    uint64_t hash;
    struct shard *shard = shard_lock(table, device_id, &hash);
    const struct gw_device_mark *mark = find_mark(find(shard, hash, device_id), rollout);
    if (mark != NULL) {
        *out = *mark;
    }
    pthread_mutex_unlock(&shard->lock);
    return mark != NULL;
}

bool gw_device_table_under_way(struct gw_device_table *table, uint64_t device_id)
{
    uint64_t hash;
    bool under_way = false;
    struct shard *shard = shard_lock(table, device_id, &hash);
    struct entry *entry = find(shard, hash, device_id);
    for (uint32_t i = 0; entry != NULL && i < entry->mark_count; i++) {
        const struct gw_device_mark *mark = mark_at(entry, i);
        under_way = under_way || (mark->bits | GW_OUTCOME_DOWNLOADED) ==
                                     (GW_OUTCOME_OFFERED | GW_OUTCOME_DOWNLOADED);
    }
    pthread_mutex_unlock(&shard->lock);
    return under_way;
}

void gw_device_table_retried(struct gw_device_table *table, uint64_t device_id, uint32_t rollout)
{
    uint64_t hash;
    struct shard *shard = shard_lock(table, device_id, &hash);
    struct entry *entry = find(shard, hash, device_id);
    struct gw_device_mark *mark = find_mark(entry, rollout);
    if (mark != NULL && (mark->bits & GW_OUTCOME_RETRY) != 0 &&
        (mark->bits & GW_OUTCOME_RETRY_GIVEN) == 0) {
        mark->bits |= GW_OUTCOME_RETRY_GIVEN;
        mark->tries = (mark->tries + 1u) & 15u;
        mark->dirty = 1;
        set_dirty(table, shard, entry);
    }
    pthread_mutex_unlock(&shard->lock);
}

void gw_device_table_follow(struct gw_device_table *table, uint64_t device_id,
                            const struct gw_device_mark *mark)
{
    uint64_t hash;
    struct shard *shard = shard_lock(table, device_id, &hash);
    struct entry *entry = find(shard, hash, device_id);
    struct gw_device_mark *known = find_mark(entry, mark->rollout);
    if (known != NULL) {
        // Offered meanwhile, or told to try again: that is newer than what the writer saw.
        bool newer =
            known->dirty != 0 && (((known->bits ^ mark->bits) & GW_OUTCOME_CONTROL) != 0 ||
                                  (known->bits & ~(unsigned)mark->bits & GW_OUTCOME_PROVEN) != 0);
        if (!newer) {
            uint8_t tries = known->tries > mark->tries ? known->tries : mark->tries;
            uint8_t dirty = known->dirty;
            *known = *mark;
            known->tries = tries & 15u;
            known->dirty = dirty;
        }
    } else if (entry != NULL) {
        (void)add_mark(table, shard, entry, *mark);
    }
    pthread_mutex_unlock(&shard->lock);
}

static void visit_one(struct gw_device_table *table, struct shard *shard, struct entry *entry,
                      gw_device_visit_fn visit, void *ctx)
{
    struct gw_device_visit seen;
    seen.device_id = entry->device_id;
    seen.attrs_id = entry->attrs_id;
    seen.last_seen_s = entry->last_seen_s;
    seen.proven = entry->proven;
    seen.changed = false;
    seen.mark_count = entry->mark_count;
    for (uint32_t i = 0; i < entry->mark_count; i++) {
        seen.marks[i] = *mark_at(entry, i);
    }
    visit(ctx, &seen);
    if (!seen.changed) {
        return;
    }
    for (uint32_t i = 0; i < entry->mark_count; i++) {
        *mark_at(entry, i) = seen.marks[i];
    }
    for (uint32_t i = entry->mark_count; i < seen.mark_count; i++) {
        (void)add_mark(table, shard, entry, seen.marks[i]);
    }
    set_dirty(table, shard, entry);
}

uint32_t gw_device_table_walk(struct gw_device_table *table, uint32_t shard_index, uint32_t from,
                              uint32_t count, gw_device_visit_fn visit, void *ctx)
{
    struct shard *shard = &table->shards[shard_index % GW_DEVICE_TABLE_SHARDS];
    uint32_t done = 0;
    pthread_mutex_lock(&shard->lock);
    for (; done < count && from + done < shard->count; done++) {
        visit_one(table, shard, entry_at(shard, from + done), visit, ctx);
    }
    pthread_mutex_unlock(&shard->lock);
    return done;
}

bool gw_device_table_has_report(struct gw_device_table *table, uint64_t device_id, uint32_t epoch,
                                uint64_t seq, bool proven)
{
    uint64_t hash;
    struct shard *shard = shard_lock(table, device_id, &hash);
    const struct entry *entry = find(shard, hash, device_id);
    bool has = entry != NULL && entry->has_epoch && entry->epoch == epoch &&
               entry->report_seq >= seq && entry->proven == proven;
    pthread_mutex_unlock(&shard->lock);
    return has;
}

void gw_device_table_reported(struct gw_device_table *table, uint64_t device_id, uint32_t epoch,
                              uint64_t seq, bool proven)
{
    uint64_t hash;
    struct shard *shard = shard_lock(table, device_id, &hash);
    struct entry *entry = find(shard, hash, device_id);
    if (entry == NULL) {
        entry = add(table, shard, hash, device_id);
    }
    if (entry != NULL && (proven || !entry->proven)) {
        if (proven) {
            (void)prove(entry);
        }
        if (!entry->has_epoch || entry->epoch != epoch || entry->report_seq < seq) {
            entry->epoch = epoch;
            entry->has_epoch = true;
            entry->report_seq = seq;
        }
    }
    pthread_mutex_unlock(&shard->lock);
}

static uint32_t take_shard(struct gw_device_table *table, struct shard *shard,
                           struct gw_device_snapshot *out, uint32_t capacity)
{
    uint32_t count = 0;
    pthread_mutex_lock(&shard->lock);
    while (shard->dirty_first != NO_ENTRY && count < capacity) {
        struct entry *entry = entry_at(shard, shard->dirty_first);
        shard->dirty_first = entry->next_dirty;
        if (shard->dirty_first == NO_ENTRY) {
            shard->dirty_last = NO_ENTRY;
        }
        entry->dirty = false;
        entry->saved_seen_s = entry->last_seen_s;
        snapshot(entry, &out[count++]);
        for (uint32_t i = 0; i < entry->mark_count; i++) {
            mark_at(entry, i)->dirty = 0;
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
        struct shard *shard = &table->shards[(start + i) % GW_DEVICE_TABLE_SHARDS];
        count += take_shard(table, shard, out + count, capacity - count);
    }
    return count;
}

void gw_device_table_put_back(struct gw_device_table *table, const struct gw_device_snapshot *from,
                              uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t hash;
        struct shard *shard = shard_lock(table, from[i].device_id, &hash);
        struct entry *entry = find(shard, hash, from[i].device_id);
        for (uint32_t k = 0; entry != NULL && k < from[i].mark_count; k++) {
            for (uint32_t m = 0; m < entry->mark_count; m++) {
                struct gw_device_mark *mark = mark_at(entry, m);
                if (mark->rollout == from[i].marks[k].rollout && from[i].marks[k].dirty != 0) {
                    mark->dirty = 1;
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
    struct shard *shard = shard_lock(table, device_id, &hash);
    struct entry *entry = find(shard, hash, device_id);
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
        struct shard *shard = &table->shards[i];
        pthread_mutex_lock(&shard->lock);
        bytes += (uint64_t)shard->chunk_count *
                 (CHUNK_ENTRIES * sizeof(struct entry) + sizeof(struct entry *));
        bytes += (uint64_t)shard->index_size * sizeof(uint32_t);
        bytes += (uint64_t)shard->extra_marks * (GW_DEVICE_MARKS_MAX - INLINE_MARKS) *
                 sizeof(struct gw_device_mark);
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
        struct shard *shard = &table->shards[i];
        uint32_t flagged = 0;
        uint32_t listed = 0;
        pthread_mutex_lock(&shard->lock);
        for (uint32_t k = 0; k < shard->count; k++) {
            const struct entry *entry = entry_at(shard, k);
            flagged += entry->dirty;
            ok = ok && find(shard, base_keyed64_u64(&shard->key, entry->device_id),
                            entry->device_id) == entry;
        }
        for (uint32_t at = shard->dirty_first; at != NO_ENTRY && listed <= shard->count;
             at = entry_at(shard, at)->next_dirty) {
            listed++;
        }
        ok = ok && flagged == listed;
        pthread_mutex_unlock(&shard->lock);
    }
    return ok;
}

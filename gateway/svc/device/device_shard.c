// Entries of a shard and the index over them: open addressing with linear probing, at most two
// thirds full; a hole is closed by moving what came after it. Any thread, the shard's mutex held.
// device_table.c is the only caller. Entries stand in chunks that never move, numbered by 32 bits,
// and the index holds numbers: growing it copies those and no entries. A number that was given back
// is used again.
#include "svc/device/device_shard.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define INDEX_FIRST 256u
#define CHUNK_ALIGN 64u // a line of the cache
#define WORD_BITS   64u

#define WORDS_A_CHUNK (GW_SHARD_CHUNK / WORD_BITS)
#define UNSAVED_MAX   ((1u << GW_UNSAVED_BITS) - 1)
#define AFTER_MAX     ((1u << GW_MARK_AFTER_BITS) - 1)

_Static_assert(sizeof(struct gw_device_chunk) % CHUNK_ALIGN == 0, "as aligned_alloc wants it");

void gw_shard_init(struct gw_device_shard *shard, const struct base_hash_key *key)
{
    pthread_mutex_init(&shard->lock, NULL);
    shard->key = *key;
    shard->free_first = GW_NO_ENTRY;
}

// ---- The index

#define INDEX_FREE ((1u << 8 * GW_INDEX_BYTES) - 1)
_Static_assert(GW_DEVICES_MAX / GW_DEVICE_TABLE_SHARDS < INDEX_FREE, "a place has a number");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low bytes come first");

static size_t index_bytes(uint32_t size)
{
    return (size_t)size * GW_INDEX_BYTES + 1; // the last number is read with a byte behind it
}

// An entry's number; INDEX_FREE: the place has none.
static uint32_t index_get(const uint8_t *index, uint32_t at)
{
    uint32_t number;
    memcpy(&number, index + (size_t)at * GW_INDEX_BYTES, sizeof(number));
    return number & INDEX_FREE;
}

static void index_set(uint8_t *index, uint32_t at, uint32_t number)
{
    memcpy(index + (size_t)at * GW_INDEX_BYTES, &number, GW_INDEX_BYTES);
}

// ---- Marks

static uint32_t more_places(const struct gw_device_entry *entry)
{
    return entry->more_log > 0 ? gw_shard_places(entry) : 0;
}

static void marks_free(struct gw_device_entry *entry)
{
    if (entry->more_log > 0) {
        free(entry->more);
    }
}

struct gw_device_mark gw_shard_mark(const struct gw_device_entry *entry, uint32_t i)
{
    base_assert(i < gw_shard_places(entry));
    if (entry->more_log > 0) {
        return entry->more[i];
    }
    return (struct gw_device_mark){
        .rollout = entry->rollout,
        .offered_s = entry->offered_s,
        .activated_s =
            entry->activated_after > 0 ? entry->offered_s + entry->activated_after - 1 : 0,
        .bits = entry->bits & UINT16_MAX,
        .stage = entry->stage & 15u,
        .tries = entry->tries & 15u,
        .dirty = entry->mark_dirty,
    };
}

bool gw_shard_fits(const struct gw_device_entry *entry, uint32_t rollout)
{
    return entry->more_log > 0 || rollout < 1u << GW_MARK_ROLLOUT_BITS;
}

// Activated before it was offered, or later than fits: at the nearest time that does.
static uint32_t after_of(const struct gw_device_mark *mark)
{
    uint32_t after_s =
        mark->activated_s > mark->offered_s ? mark->activated_s - mark->offered_s : 0;
    if (mark->activated_s == 0) {
        return 0;
    }
    return after_s < AFTER_MAX ? after_s + 1 : AFTER_MAX;
}

void gw_shard_set_mark(struct gw_device_entry *entry, uint32_t i, const struct gw_device_mark *mark)
{
    base_assert(i < gw_shard_places(entry));
    base_assert(gw_shard_fits(entry, mark->rollout));
    if (entry->more_log > 0) {
        entry->more[i] = *mark;
        return;
    }
    entry->rollout = mark->rollout & ((1u << GW_MARK_ROLLOUT_BITS) - 1);
    entry->offered_s = mark->offered_s;
    entry->activated_after = after_of(mark) & AFTER_MAX;
    entry->bits = mark->bits;
    entry->stage = mark->stage;
    entry->tries = mark->tries;
    entry->mark_dirty = mark->dirty != 0;
}

bool gw_shard_grow_marks(struct gw_device_shard *shard, struct gw_device_entry *entry)
{
    const bool first = entry->more_log == 0;
    const uint32_t wanted = 2 * gw_shard_places(entry);
    base_assert(wanted <= GW_DEVICE_MARKS_MAX);
    struct gw_device_mark *more = realloc(first ? NULL : entry->more, wanted * sizeof(more[0]));
    if (more == NULL) {
        return false;
    }
    if (first) {
        more[0] = gw_shard_mark(entry, 0);
    }
    shard->extra_marks += wanted - more_places(entry);
    entry->more = more;
    entry->more_log = (entry->more_log + 1u) & ((1u << GW_MORE_BITS) - 1);
    return true;
}

void gw_shard_done(struct gw_device_shard *shard)
{
    for (uint32_t k = 0; k < shard->count; k++) {
        marks_free(gw_shard_entry(shard, k));
    }
    for (uint32_t k = 0; k < shard->chunk_count; k++) {
        free(shard->chunks[k]);
    }
    free(shard->chunks);
    free(shard->index);
    free(shard->dirty);
    pthread_mutex_destroy(&shard->lock);
}

struct gw_device_entry *gw_shard_find(struct gw_device_shard *shard, uint64_t hash,
                                      uint64_t device_id)
{
    if (shard->index_size == 0) {
        return NULL;
    }
    uint32_t mask = shard->index_size - 1;
    uint32_t steps = 0;
    struct gw_device_entry *entry = NULL;
    uint32_t at = (uint32_t)hash & mask;
    for (uint32_t number; (number = index_get(shard->index, at)) != INDEX_FREE;
         at = (at + 1) & mask) {
        entry = gw_shard_entry(shard, number);
        if (entry->device_id == device_id) {
            break;
        }
        entry = NULL;
        steps++;
    }
    shard->probes_long += steps > BASE_PROBE_LONG;
    return entry;
}

void gw_shard_prefetch_place(const struct gw_device_shard *shard, uint64_t hash)
{
    if (shard->index_size != 0) {
        const uint32_t at = (uint32_t)hash & (shard->index_size - 1);
        __builtin_prefetch(shard->index + (size_t)at * GW_INDEX_BYTES);
    }
}

void gw_shard_prefetch_entry(const struct gw_device_shard *shard, uint64_t hash)
{
    if (shard->index_size == 0) {
        return;
    }
    uint32_t number = index_get(shard->index, (uint32_t)hash & (shard->index_size - 1));
    if (number != INDEX_FREE) {
        __builtin_prefetch(gw_shard_entry(shard, number), 1);
    }
}

static bool grow_index(struct gw_device_shard *shard)
{
    uint32_t wanted = shard->index_size == 0 ? INDEX_FIRST : shard->index_size * 2;
    uint8_t *index = malloc(index_bytes(wanted));
    if (index == NULL) {
        return false;
    }
    memset(index, 0xff, index_bytes(wanted));
    for (uint32_t i = 0; i < shard->count; i++) {
        if (!gw_shard_entry(shard, i)->used) {
            continue;
        }
        uint32_t at = (uint32_t)base_keyed64_u64(&shard->key, gw_shard_entry(shard, i)->device_id) &
                      (wanted - 1);
        while (index_get(index, at) != INDEX_FREE) {
            at = (at + 1) & (wanted - 1);
        }
        index_set(index, at, i);
    }
    free(shard->index);
    shard->index = index;
    shard->index_size = wanted;
    return true;
}

static bool grow_chunks(struct gw_device_shard *shard)
{
    struct gw_device_chunk **chunks =
        realloc(shard->chunks, ((size_t)shard->chunk_count + 1) * sizeof(chunks[0]));
    if (chunks == NULL) {
        return false;
    }
    shard->chunks = chunks;
    const uint32_t words = shard->chunk_count * WORDS_A_CHUNK;
    uint64_t *dirty = realloc(shard->dirty, (words + WORDS_A_CHUNK) * sizeof(dirty[0]));
    if (dirty == NULL) {
        return false;
    }
    shard->dirty = dirty;
    memset(dirty + words, 0, WORDS_A_CHUNK * sizeof(dirty[0]));
    struct gw_device_chunk *chunk = aligned_alloc(CHUNK_ALIGN, sizeof(*chunk));
    if (chunk == NULL) {
        return false;
    }
    shard->chunks[shard->chunk_count++] = chunk;
    return true;
}

// The number of an entry to use: one that was given back, or the next. GW_NO_ENTRY: no room.
static uint32_t take_number(struct gw_device_shard *shard)
{
    uint32_t number = shard->free_first;
    if (number != GW_NO_ENTRY) {
        shard->free_first = gw_shard_entry(shard, number)->report_seq;
        return number;
    }
    if (shard->count == shard->chunk_count * GW_SHARD_CHUNK && !grow_chunks(shard)) {
        return GW_NO_ENTRY;
    }
    return shard->count++;
}

struct gw_device_entry *gw_shard_add(struct gw_device_shard *shard, uint64_t hash,
                                     uint64_t device_id)
{
    bool room = shard->live < GW_DEVICES_MAX / GW_DEVICE_TABLE_SHARDS;
    // At most two thirds full.
    if (room && (shard->live + 1) * 3 > shard->index_size * 2) {
        room = grow_index(shard);
    }
    uint32_t number = room ? take_number(shard) : GW_NO_ENTRY;
    if (number == GW_NO_ENTRY) {
        return NULL;
    }
    uint32_t mask = shard->index_size - 1;
    uint32_t at = (uint32_t)hash & mask;
    while (index_get(shard->index, at) != INDEX_FREE) {
        at = (at + 1) & mask;
    }
    index_set(shard->index, at, number);
    shard->live++;
    struct gw_device_entry *entry = gw_shard_entry(shard, number);
    *entry = (struct gw_device_entry){.device_id = device_id, .used = true};
    return entry;
}

// An entry's number is seldom needed: it is looked up again.
static uint32_t place_of(const struct gw_device_shard *shard, const struct gw_device_entry *entry)
{
    uint32_t mask = shard->index_size - 1;
    uint32_t at = (uint32_t)base_keyed64_u64(&shard->key, entry->device_id) & mask;
    while (gw_shard_entry(shard, index_get(shard->index, at)) != entry) {
        at = (at + 1) & mask;
    }
    return at;
}

void gw_shard_set_dirty(struct gw_device_shard *shard, struct gw_device_entry *entry)
{
    const uint32_t number = index_get(shard->index, place_of(shard, entry));
    uint64_t *word = &shard->dirty[number / WORD_BITS];
    base_assert(!entry->dirty);
    base_assert((*word >> number % WORD_BITS & 1) == 0);
    *word |= UINT64_C(1) << number % WORD_BITS;
    entry->dirty = true;
    shard->dirty_count++;
}

// From where the last one was found, so that none waits for ever.
struct gw_device_entry *gw_shard_take_dirty(struct gw_device_shard *shard)
{
    const uint32_t words = shard->chunk_count * WORDS_A_CHUNK;
    if (shard->dirty_count == 0) {
        return NULL;
    }
    while (shard->dirty[shard->dirty_from] == 0) {
        shard->dirty_from = shard->dirty_from + 1 < words ? shard->dirty_from + 1 : 0;
    }
    uint64_t *word = &shard->dirty[shard->dirty_from];
    const uint32_t bit = (uint32_t)__builtin_ctzll(*word);
    struct gw_device_entry *entry = gw_shard_entry(shard, shard->dirty_from * WORD_BITS + bit);
    base_assert(entry->dirty && entry->used);
    *word &= *word - 1;
    entry->dirty = false;
    shard->dirty_count--;
    return entry;
}

uint32_t gw_shard_dirty_bits(const struct gw_device_shard *shard)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < shard->chunk_count * WORDS_A_CHUNK; i++) {
        count += (uint32_t)__builtin_popcountll(shard->dirty[i]);
    }
    return count;
}

// Closes the hole: a later entry of the same run moves in when its home allows it.
static void close_hole(struct gw_device_shard *shard, uint32_t hole)
{
    uint32_t mask = shard->index_size - 1;
    uint32_t next = (hole + 1) & mask;
    for (uint32_t number; (number = index_get(shard->index, next)) != INDEX_FREE;
         next = (next + 1) & mask) {
        uint64_t id = gw_shard_entry(shard, number)->device_id;
        uint32_t home = (uint32_t)base_keyed64_u64(&shard->key, id) & mask;
        if (((next - home) & mask) >= ((next - hole) & mask)) {
            index_set(shard->index, hole, number);
            hole = next;
        }
    }
    index_set(shard->index, hole, INDEX_FREE);
}

void gw_shard_remove(struct gw_device_shard *shard, struct gw_device_entry *entry)
{
    base_assert(!entry->dirty);
    uint32_t at = place_of(shard, entry);
    uint32_t number = index_get(shard->index, at);
    close_hole(shard, at);
    shard->extra_marks -= more_places(entry);
    marks_free(entry);
    *entry = (struct gw_device_entry){.report_seq = shard->free_first};
    shard->free_first = number;
    shard->live--;
}

void gw_shard_seen(struct gw_device_entry *entry, uint32_t now_s)
{
    if (now_s > entry->last_seen_s) {
        const uint32_t later_s = now_s - entry->last_seen_s;
        const uint32_t room_s = UNSAVED_MAX - entry->unsaved_s;
        entry->unsaved_s = (entry->unsaved_s + (later_s < room_s ? later_s : room_s)) & UNSAVED_MAX;
        entry->last_seen_s = now_s;
    }
}

// Nor is what the record says.
static void not_after(struct gw_device_entry *entry, uint32_t now_s)
{
    if (entry->last_seen_s > now_s) {
        const uint32_t less_s = entry->last_seen_s - now_s;
        const uint32_t saved_s = entry->unsaved_s;
        entry->unsaved_s = (less_s < saved_s ? saved_s - less_s : 0) & UNSAVED_MAX;
        entry->last_seen_s = now_s;
    }
}

void gw_shard_time_moved(struct gw_device_shard *shard, uint32_t now_s)
{
    pthread_mutex_lock(&shard->lock);
    for (uint32_t i = 0; i < shard->count; i++) {
        not_after(gw_shard_entry(shard, i), now_s);
    }
    pthread_mutex_unlock(&shard->lock);
}

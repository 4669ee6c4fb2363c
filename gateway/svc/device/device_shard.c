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

_Static_assert(sizeof(struct gw_device_chunk) % CHUNK_ALIGN == 0, "as aligned_alloc wants it");

void gw_shard_init(struct gw_device_shard *shard, const struct base_hash_key *key)
{
    pthread_mutex_init(&shard->lock, NULL);
    shard->key = *key;
    shard->free_first = GW_NO_ENTRY;
}

static void marks_free(struct gw_device_entry *entry)
{
    if (entry->more_count > 0) {
        free(entry->more);
    }
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
    for (uint32_t at = (uint32_t)hash & mask; shard->index[at] != GW_NO_ENTRY;
         at = (at + 1) & mask) {
        entry = gw_shard_entry(shard, shard->index[at]);
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
        __builtin_prefetch(&shard->index[(uint32_t)hash & (shard->index_size - 1)]);
    }
}

void gw_shard_prefetch_entry(const struct gw_device_shard *shard, uint64_t hash)
{
    if (shard->index_size == 0) {
        return;
    }
    uint32_t number = shard->index[(uint32_t)hash & (shard->index_size - 1)];
    if (number != GW_NO_ENTRY) {
        __builtin_prefetch(gw_shard_entry(shard, number), 1);
    }
}

static bool grow_index(struct gw_device_shard *shard)
{
    uint32_t wanted = shard->index_size == 0 ? INDEX_FIRST : shard->index_size * 2;
    uint32_t *index = malloc((size_t)wanted * sizeof(*index));
    if (index == NULL) {
        return false;
    }
    memset(index, 0xff, (size_t)wanted * sizeof(*index));
    for (uint32_t i = 0; i < shard->count; i++) {
        if (!gw_shard_entry(shard, i)->used) {
            continue;
        }
        uint32_t at = (uint32_t)base_keyed64_u64(&shard->key, gw_shard_entry(shard, i)->device_id) &
                      (wanted - 1);
        while (index[at] != GW_NO_ENTRY) {
            at = (at + 1) & (wanted - 1);
        }
        index[at] = i;
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
    while (shard->index[at] != GW_NO_ENTRY) {
        at = (at + 1) & mask;
    }
    shard->index[at] = number;
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
    while (gw_shard_entry(shard, shard->index[at]) != entry) {
        at = (at + 1) & mask;
    }
    return at;
}

void gw_shard_set_dirty(struct gw_device_shard *shard, struct gw_device_entry *entry)
{
    const uint32_t number = shard->index[place_of(shard, entry)];
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
    for (uint32_t next = (hole + 1) & mask; shard->index[next] != GW_NO_ENTRY;
         next = (next + 1) & mask) {
        uint64_t id = gw_shard_entry(shard, shard->index[next])->device_id;
        uint32_t home = (uint32_t)base_keyed64_u64(&shard->key, id) & mask;
        if (((next - home) & mask) >= ((next - hole) & mask)) {
            shard->index[hole] = shard->index[next];
            hole = next;
        }
    }
    shard->index[hole] = GW_NO_ENTRY;
}

void gw_shard_remove(struct gw_device_shard *shard, struct gw_device_entry *entry)
{
    base_assert(!entry->dirty);
    uint32_t at = place_of(shard, entry);
    uint32_t number = shard->index[at];
    close_hole(shard, at);
    shard->extra_marks -= entry->more_count;
    marks_free(entry);
    *entry = (struct gw_device_entry){.report_seq = shard->free_first};
    shard->free_first = number;
    shard->live--;
}

static uint32_t not_after(uint32_t time_s, uint32_t now_s)
{
    return time_s < now_s ? time_s : now_s;
}

void gw_shard_time_moved(struct gw_device_shard *shard, uint32_t now_s)
{
    pthread_mutex_lock(&shard->lock);
    for (uint32_t i = 0; i < shard->count; i++) {
        struct gw_device_entry *entry = gw_shard_entry(shard, i);
        entry->last_seen_s = not_after(entry->last_seen_s, now_s);
        entry->saved_seen_s = not_after(entry->saved_seen_s, now_s);
    }
    pthread_mutex_unlock(&shard->lock);
}

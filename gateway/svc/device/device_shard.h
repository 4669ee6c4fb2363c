// A shard of the device table: entries in chunks, found by an index of their numbers, and given
// back when a device is forgotten. Only device_table.c and device_shard.c include this; whoever
// calls holds the shard's mutex.
#ifndef GW_DEVICE_SHARD_H
#define GW_DEVICE_SHARD_H

#include "svc/device/device_table.h"
#include "svc/plan/attr_pool.h"
#include "wire/profile.h"

#include <pthread.h>
#include <stddef.h>

#define GW_SHARD_CHUNK  256u
#define GW_SHARD_MARKS  1u // in the entry itself
#define GW_NO_ENTRY     UINT32_MAX
#define GW_INDEX_BYTES  3u // of a number in the index
#define GW_ROOM_BITS    9  // of a number of tasks, WIRE_PROFILE_TASKS_MAX among them
#define GW_ATTRS_BITS   19 // of a number in the pool of attributes
#define GW_UNSAVED_BITS 12 // of what the record's time is behind, GW_LAST_SEEN_SAVE_S among them
#define GW_MARKS_BITS   6
#define GW_MORE_BITS    3
// Of the mark that stands in an entry. One of a rollout whose number has more bits stands in
// `more`.
#define GW_MARK_AFTER_BITS   24 // six months
#define GW_MARK_ROLLOUT_BITS 15

_Static_assert(WIRE_PROFILE_TASKS_MAX < 1 << GW_ROOM_BITS, "what a profile may say is kept");
_Static_assert(GW_ATTR_POOL_MAX < 1u << GW_ATTRS_BITS, "any number of the pool is kept");
_Static_assert(GW_LAST_SEEN_SAVE_S < (1u << GW_UNSAVED_BITS) - 1, "when to save is known");
_Static_assert(GW_DEVICE_MARKS_MAX < 1u << GW_MARKS_BITS, "all of its marks are counted");

// What every check-in looks at stands together, in front. Most devices are in one open rollout: who
// is in more has all of its marks in a block of its own.
struct gw_device_entry {
    uint64_t device_id;
    uint32_t attrs_id : GW_ATTRS_BITS;
    uint32_t tasks_max : GW_ROOM_BITS; // it holds; 0: not said
    uint32_t dirty : 1;
    uint32_t settled : 1;
    uint32_t without : 1; // when it was last offered nothing, it had not what it should
    uint32_t has_epoch : 1;
    uint32_t room : GW_ROOM_BITS; // it would take so many tasks more
    uint32_t proven : 1;
    uint32_t used : 1; // it was not removed
    uint32_t mark_count : GW_MARKS_BITS;
    uint32_t more_log : GW_MORE_BITS;     // of the places of `more`; 0: it has none
    uint32_t unsaved_s : GW_UNSAVED_BITS; // the record's last_seen is behind; no more than fits
    uint64_t settled_key; // of the digest and the cohort's signature when nothing was to be offered
    uint32_t last_seen_s;
    uint32_t interval_s; // between its check-ins; 0: not said
    uint32_t epoch;
    uint32_t report_seq; // at most; of one that is not used: the next such, or GW_NO_ENTRY
    union {
        struct { // the only mark
            uint32_t offered_s;
            uint32_t activated_after : GW_MARK_AFTER_BITS; // 1 added; 0: not yet
            uint32_t stage : 4;
            uint32_t tries : 4;
        };
        struct gw_device_mark *more; // where there is one, all marks
    };
    uint32_t rollout : GW_MARK_ROLLOUT_BITS; // of the only mark, too
    uint32_t mark_dirty : 1;
    uint32_t bits : 16;
    uint32_t first_seen_s;
};
_Static_assert(sizeof(struct gw_device_entry) <= 56, "there are millions of them");

struct gw_device_chunk {
    struct gw_device_entry entries[GW_SHARD_CHUNK];
};

struct gw_device_shard {
    pthread_mutex_t lock;
    struct gw_device_chunk **chunks;
    uint32_t chunk_count;
    uint32_t count; // entries there ever were at once: numbers are below
    uint32_t live;  // ... of which these are in use
    uint32_t free_first;
    uint8_t *index; // places of three bytes (device_shard.c): entry numbers
    uint32_t index_size;
    uint64_t *dirty; // a bit an entry: it is dirty
    uint32_t dirty_count;
    uint32_t dirty_from;  // word where the next one is looked for
    uint32_t extra_marks; // places of all `more`
    uint64_t probes_long;
    struct base_hash_key key; // the table's: beside what it places
} __attribute__((aligned(128)));

static inline struct gw_device_entry *gw_shard_entry(const struct gw_device_shard *shard,
                                                     uint32_t number)
{
    return &shard->chunks[number / GW_SHARD_CHUNK]->entries[number % GW_SHARD_CHUNK];
}

void gw_shard_init(struct gw_device_shard *shard, const struct base_hash_key *key);
void gw_shard_done(struct gw_device_shard *shard);
// `hash` is the id's, keyed. NULL: not there.
struct gw_device_entry *gw_shard_find(struct gw_device_shard *shard, uint64_t hash,
                                      uint64_t device_id);
// Both ask memory for what gw_shard_find of this hash will read: the place in the index, and, when
// that is there, the entry.
void gw_shard_prefetch_place(const struct gw_device_shard *shard, uint64_t hash);
void gw_shard_prefetch_entry(const struct gw_device_shard *shard, uint64_t hash);
// One that is not there yet. NULL: no memory, or the limit.
struct gw_device_entry *gw_shard_add(struct gw_device_shard *shard, uint64_t hash,
                                     uint64_t device_id);
// It has to reach the disk, and is not dirty yet.
void gw_shard_set_dirty(struct gw_device_shard *shard, struct gw_device_entry *entry);
// One that is dirty, and is no more. They come in turn. NULL: none is.
struct gw_device_entry *gw_shard_take_dirty(struct gw_device_shard *shard);
// How many bits of dirty ones are set: as many as are counted.
uint32_t gw_shard_dirty_bits(const struct gw_device_shard *shard);
// How many marks it has places for.
static inline uint32_t gw_shard_places(const struct gw_device_entry *entry)
{
    return GW_SHARD_MARKS << entry->more_log;
}

// Its i-th mark, i < gw_shard_places.
struct gw_device_mark gw_shard_mark(const struct gw_device_entry *entry, uint32_t i);
void gw_shard_set_mark(struct gw_device_entry *entry, uint32_t i,
                       const struct gw_device_mark *mark);
// Can a mark of this rollout stand where its marks do?
bool gw_shard_fits(const struct gw_device_entry *entry, uint32_t rollout);
// Twice as many places. False: no memory.
bool gw_shard_grow_marks(struct gw_device_shard *shard, struct gw_device_entry *entry);
// It was seen now.
void gw_shard_seen(struct gw_device_entry *entry, uint32_t now_s);
// Nothing was seen later than `now_s`: the time went back. Takes the mutex itself.
void gw_shard_time_moved(struct gw_device_shard *shard, uint32_t now_s);
// Forgets one that is not dirty.
void gw_shard_remove(struct gw_device_shard *shard, struct gw_device_entry *entry);

#endif

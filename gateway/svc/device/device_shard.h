// A shard of the device table: entries in chunks, found by an index of their numbers, and given
// back when a device is forgotten. Only device_table.c and device_shard.c include this; whoever
// calls holds the shard's mutex.
#ifndef GW_DEVICE_SHARD_H
#define GW_DEVICE_SHARD_H

#include "svc/device/device_table.h"
#include "wire/profile.h"

#include <pthread.h>
#include <stddef.h>

#define GW_SHARD_CHUNK 256u
#define GW_SHARD_MARKS 1u // in the entry itself
#define GW_SHARD_MORE  2u // places of the first `more`; then twice as many
#define GW_NO_ENTRY    UINT32_MAX
#define GW_ROOM_BITS   9 // of a number of tasks, WIRE_PROFILE_TASKS_MAX among them

_Static_assert(WIRE_PROFILE_TASKS_MAX < 1 << GW_ROOM_BITS, "what a profile may say is kept");

// What every check-in looks at stands together, in front. Most devices are in one open rollout: who
// is in more has all of its marks in a block of its own.
struct gw_device_entry {
    uint64_t device_id;
    uint32_t attrs_id;
    uint32_t last_seen_s;
    uint32_t saved_seen_s;
    uint32_t interval_s; // between its check-ins; 0: not said
    uint8_t mark_count;
    uint8_t more_count;
    uint32_t tasks_max : GW_ROOM_BITS; // it holds; 0: not said
    uint32_t room : GW_ROOM_BITS;      // ... and it would take so many more
    bool dirty : 1;
    bool settled : 1;
    bool without : 1; // when it was last offered nothing, it had not what it should
    bool has_epoch : 1;
    bool proven : 1;
    bool used : 1;        // it was not removed
    uint64_t settled_key; // of the digest and the cohort's signature when nothing was to be offered
    uint32_t epoch;
    uint32_t first_seen_s;
    uint64_t report_seq;
    union {
        struct gw_device_mark marks[GW_SHARD_MARKS];
        struct gw_device_mark *more; // where more_count, its places, is not 0
    };
};
_Static_assert(offsetof(struct gw_device_entry, settled_key) <= 32, "the front is half a line");
_Static_assert(sizeof(struct gw_device_entry) <= 72, "there are millions of them");

struct gw_device_chunk {
    struct gw_device_entry entries[GW_SHARD_CHUNK];
    uint32_t next[GW_SHARD_CHUNK]; // number of the next that is dirty; or that was given back, too
};

struct gw_device_shard {
    pthread_mutex_t lock;
    struct gw_device_chunk **chunks;
    uint32_t chunk_count;
    uint32_t count; // entries there ever were at once: numbers are below
    uint32_t live;  // ... of which these are in use
    uint32_t free_first;
    uint32_t *index; // entry numbers, GW_NO_ENTRY: free
    uint32_t index_size;
    uint32_t dirty_first;
    uint32_t dirty_last;
    uint32_t extra_marks; // places of all `more`
    uint64_t probes_long;
    struct base_hash_key key; // the table's: beside what it places
} __attribute__((aligned(128)));

static inline struct gw_device_entry *gw_shard_entry(const struct gw_device_shard *shard,
                                                     uint32_t number)
{
    return &shard->chunks[number / GW_SHARD_CHUNK]->entries[number % GW_SHARD_CHUNK];
}

static inline uint32_t *gw_shard_next(const struct gw_device_shard *shard, uint32_t number)
{
    return &shard->chunks[number / GW_SHARD_CHUNK]->next[number % GW_SHARD_CHUNK];
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
uint32_t gw_shard_number(const struct gw_device_shard *shard, const struct gw_device_entry *entry);
// Nothing was seen later than `now_s`: the time went back. Takes the mutex itself.
void gw_shard_time_moved(struct gw_device_shard *shard, uint32_t now_s);
// Forgets one that is not dirty.
void gw_shard_remove(struct gw_device_shard *shard, struct gw_device_entry *entry);

#endif

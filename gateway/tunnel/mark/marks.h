// Marks: what the gateway has durably of every device, class and epoch. 24 bytes each, exact,
// without a limit in time for devices that showed who they are. Marks of the others are counted,
// bounded, and end when nothing came for GW_MARK_PERIODS - 1 periods: such a device, should it come
// again, finds that nothing of its epoch is known, and begins another. Marks read back from the log
// behind the last checkpoint are taken for a proven device's until the next batch.
//
// A mark says: all batches below `high_water` are durable; `hash` is the chain's value behind batch
// high_water - 1. Batches are taken and written in order, so there is never one beyond. The table
// of all current marks is found by device (8 bytes) and class in GW_MARK_SHARDS shards, each an
// open-addressing table 68 to 85 % full; shard and place are a keyed hash of both, for strangers
// choose ids. Epochs of a device other than the one in the table lie
// aside in a small table of their own: a fleet has few (a fork, a wiped phone), so two clones that
// alternate stay exact.
//
// SHARED: a shard's mutex guards its marks, its epochs aside and its lanes (mark_lane.h). Workers,
// the sink's thread and the keeper take it for one device at a time. Pointers to marks live until
// the unlock or the next gw_mark_make.
#ifndef GW_MARKS_H
#define GW_MARKS_H

#include "base/keyed_hash.h"
#include "base/status.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define GW_MARK_SHARDS       1024u // a power of two
#define GW_MARK_LANE_BUCKETS 16u   // per shard
#define GW_MARKS_PER_SHARD   (1u << 18)
#define GW_MARK_TENANT_MAX   0xffffffu
// Epochs of one device and class kept aside; a device that uses up more is refused.
#define GW_EPOCHS_PER_DEVICE 64u
#define GW_MARKS_UNPROVEN    1000000u // of devices that did not show who they are
#define GW_MARK_PERIODS      4u       // periods are counted modulo this

// Whose mark it is.
struct gw_mark_key {
    uint64_t device;
    uint8_t class_id;
    uint32_t epoch;
};

struct gw_lane;
struct gw_marks;

struct gw_mark {
    uint64_t high_water;
    uint64_t hash;
    uint32_t epoch;
    uint32_t tenant : 24;  // of the batch that came last
    uint32_t class_id : 4; // the table's
    uint32_t used : 1;     // the table's: its slot is taken
    uint32_t unproven : 1; // no batch came of a device that showed who it is
    uint32_t period : 2;   // of the last batch
};
_Static_assert(sizeof(struct gw_mark) == 24, "24 bytes per device and class");

struct gw_mark_slot;
struct gw_aside;

struct gw_mark_shard {
    pthread_mutex_t lock;
    struct gw_marks *all;
    uint32_t index;
    uint32_t count;
    uint32_t unproven; // marks, those aside too
    struct base_hash_key key;
    uint64_t probes_long; // look-ups that went past BASE_PROBE_LONG places
    uint32_t capacity;
    struct gw_mark_slot *slots;
    struct gw_aside *asides; // entries of other epochs
    uint32_t aside_count;
    uint32_t aside_capacity;
    uint32_t *aside_buckets;
    uint32_t aside_bucket_count;
    struct gw_lane *lanes[GW_MARK_LANE_BUCKETS];
};

BASE_NODISCARD enum base_status gw_marks_new(const struct base_hash_key *key,
                                             struct gw_marks **out); // copies the key
void gw_marks_free(struct gw_marks *marks);                         // frees lanes too. Accepts NULL
void gw_marks_bound(struct gw_marks *marks, uint64_t unproven_max); // before it is used
void gw_marks_set_period(struct gw_marks *marks, uint64_t period);  // any thread

struct gw_mark_shard *gw_marks_lock(struct gw_marks *marks, uint64_t device);
struct gw_mark_shard *gw_marks_lock_index(struct gw_marks *marks, uint32_t index);
void gw_marks_unlock(struct gw_mark_shard *shard);

// NULL: nothing of this epoch is durable.
struct gw_mark *gw_mark_find(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id,
                             uint32_t epoch);
// Finds or makes (high water 0, hash: the chain's first). NOMEM; LIMIT: too
// many epochs, or the shard is full.
BASE_NODISCARD enum base_status gw_mark_make(struct gw_mark_shard *shard, uint64_t device,
                                             uint8_t class_id, uint32_t epoch,
                                             struct gw_mark **out);
// The same for a batch that is about to be taken: notes the period and whether the device showed
// who it is. LIMIT also when there are too many marks of those that did not.
BASE_NODISCARD enum base_status gw_mark_use(struct gw_mark_shard *shard, uint64_t device,
                                            uint8_t class_id, uint32_t epoch, bool unproven);
// What a checkpoint says of a mark.
void gw_mark_restore(struct gw_mark_shard *shard, struct gw_mark *mark, bool unproven,
                     unsigned period);
// Ends what was not used for long and no lane needs. Returns how many marks ended; what there is no
// memory to end stays.
uint32_t gw_mark_expire(struct gw_mark_shard *shard);

// All marks of a shard, its mutex held.
typedef void (*gw_mark_visit_fn)(void *ctx, uint64_t device, uint8_t class_id,
                                 const struct gw_mark *mark);
void gw_mark_walk(const struct gw_mark_shard *shard, gw_mark_visit_fn visit, void *ctx);

struct gw_marks_stats {
    uint64_t marks;
    uint64_t asides;
    uint64_t unproven; // of both
    uint64_t expired;  // since the start
    uint64_t bytes;    // of the tables, free slots included
    uint64_t probes_long;
};
void gw_marks_stats(struct gw_marks *marks, struct gw_marks_stats *out);
bool gw_marks_validate(struct gw_marks *marks);

#endif

// Every device that has a record, in memory: about 64 bytes each. A record begins when the device
// shows who it is, or when a report of it is durable (svc/device/strangers.h says when else).
//
// SHARED MUTABLE STATE. This table, with the tally, the attribute pool and the blob cache beside
// it, is what several threads write: workers (touches, offers), the writer thread (reports made
// durable) and the control thread (flushing, queries). It is split in shards, each with a mutex
// held for one device at a time; nothing is called with a shard's mutex held but the `is_open`
// question given at creation, the visitor of a walk, and what an expiry keeps.
//
// It answers without the store: was this device seen, what did it have when we last found nothing
// to offer, which of its reports are durable, was it offered this rollout. What has to reach the
// disk but may wait (first seen, last seen, attributes, offers) is marked dirty and taken in
// batches.
#ifndef GW_DEVICE_TABLE_H
#define GW_DEVICE_TABLE_H

#include "base/keyed_hash.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define GW_DEVICES_MAX         (64u * 1024 * 1024)
#define GW_DEVICE_MARKS_MAX    32u // open rollouts a device is in at once; others wait for one to end
#define GW_LAST_SEEN_SAVE_S    3600u // last_seen on disk is at most this much behind
#define GW_TOUCHES_MAX         256u  // of one call, which a worker gathers
#define GW_DEVICE_TABLE_SHARDS 64u

struct gw_device_table;

// What the device has to do with an open rollout: it was offered it, or is its control; `dirty`
// until the store knows.
struct gw_device_mark {
    uint32_t rollout;     // number in the tally
    uint32_t offered_s;   // or drawn as control
    uint32_t activated_s; // 0: not yet
    uint16_t bits;        // enum gw_outcome_bit
    uint8_t stage : 4;
    uint8_t tries : 4;
    uint8_t dirty;
};

struct gw_device_touch {
    uint64_t device_id;
    uint32_t attrs_id;
    uint32_t now_s;
    bool proven;         // its request showed who it is
    uint32_t interval_s; // between its check-ins; 0: not said
};

// A copy of what the table has of a device.
struct gw_device_snapshot {
    uint64_t device_id;
    uint64_t report_seq;
    uint32_t epoch;
    uint32_t attrs_id;
    uint32_t first_seen_s;
    uint32_t last_seen_s;
    uint32_t interval_s; // between its check-ins; 0: not said
    uint16_t tasks_max;  // it holds, as of its last look for news; 0: not said
    uint16_t room;       // ... and it would have taken so many more
    bool has_epoch;
    bool proven;
    uint32_t mark_count;
    struct gw_device_mark marks[GW_DEVICE_MARKS_MAX];
};

// `key` is copied: strangers choose ids.
BASE_NODISCARD enum base_status gw_device_table_new(bool (*is_open)(void *ctx, uint32_t rollout),
                                                    void *ctx, const struct base_hash_key *key,
                                                    struct gw_device_table **out_table);
void gw_device_table_free(struct gw_device_table *table);

// Seen now, at most GW_TOUCHES_MAX. Creates the device; marks it dirty when it is new, its
// attributes changed, or the disk's last_seen is old. Silently does nothing when memory or the
// limit ran out (counted), and when the device has proven itself before and this touch does not. At
// the first touch that does, the numbers of reports are forgotten: strangers may have sent them.
void gw_device_table_touch(struct gw_device_table *table, const struct gw_device_touch *touches,
                           uint32_t count);
// The time was set back to `now_s`: no device was seen later.
void gw_device_table_time_moved(struct gw_device_table *table, uint32_t now_s);
// At start, from a record: what the disk knows.
BASE_NODISCARD enum base_status gw_device_table_load(struct gw_device_table *table,
                                                     const struct gw_device_snapshot *from);

// Nothing was there to offer to this device with this digest while its cohort had this signature;
// `without`: although it has not what it should, since that was paused, say.
void gw_device_table_settle(struct gw_device_table *table, uint64_t device_id, uint64_t digest,
                            uint64_t signature, bool without);
bool gw_device_table_settled(struct gw_device_table *table, uint64_t device_id, uint64_t digest,
                             uint64_t signature);
// Both in one look: seen now, and settled?
bool gw_device_table_touch_settled(struct gw_device_table *table,
                                   const struct gw_device_touch *touch, uint64_t digest,
                                   uint64_t signature);
// It holds so many tasks at most (0: it does not say), and would take `room` more. Kept in memory
// alone, for `why`; at most WIRE_PROFILE_TASKS_MAX.
void gw_device_table_room(struct gw_device_table *table, uint64_t device_id, uint32_t tasks_max,
                          uint32_t room);
bool gw_device_table_has(struct gw_device_table *table, uint64_t device_id);
// What the device has to do with a rollout. False: nothing.
bool gw_device_table_mark(struct gw_device_table *table, uint64_t device_id, uint32_t rollout,
                          struct gw_device_mark *out);
// Is it in as many open rollouts as it can be?
bool gw_device_table_is_full(struct gw_device_table *table, uint64_t device_id);
// Makes a place for one more mark of the device. False: it is full, or there is no memory. Nobody
// who is not in the table has marks: true.
bool gw_device_table_make_place(struct gw_device_table *table, uint64_t device_id);
// Offered an open rollout, and it has not activated it or ended with it.
#define GW_DEVICE_UNDER_WAY 1u
// Last settled without what it should have, and offered nothing since.
#define GW_DEVICE_WITHOUT 2u
// How the device stands: bits.
unsigned gw_device_table_stands(struct gw_device_table *table, uint64_t device_id);
// Told that it may try again; counts once for each failure.
void gw_device_table_retried(struct gw_device_table *table, uint64_t device_id, uint32_t rollout);
// Offered an open rollout, proven or not. True when that is news (a device that was its control is
// none any more; one that proved itself since begins anew). To one that is proven nothing is noted
// of an offer to somebody who is not.
bool gw_device_table_offered(struct gw_device_table *table, uint64_t device_id,
                             const struct gw_device_mark *offer);
// Has it shown who it is, in a check-in or in a report that is durable?
bool gw_device_table_proven(struct gw_device_table *table, uint64_t device_id);
// Are all reports up to `seq` of `epoch` durable already? Not those of the device itself, `proven`,
// when only strangers sent some.
bool gw_device_table_has_report(struct gw_device_table *table, uint64_t device_id, uint32_t epoch,
                                uint64_t seq, bool proven);
// The writer made them durable; the device's dirty marks went with them.
void gw_device_table_reported(struct gw_device_table *table, const struct gw_device_touch *by,
                              uint32_t epoch, uint64_t seq);

// The writer made a report about an open rollout durable: the device's mark follows the record.
void gw_device_table_follow(struct gw_device_table *table, uint64_t device_id,
                            const struct gw_device_mark *mark);

// One device of a walk over the table: a copy whose marks the visitor may change, and to which it
// may append; what it changed (`changed`) is written back, and reaches the disk.
struct gw_device_visit {
    uint64_t device_id;
    uint32_t attrs_id;
    uint32_t last_seen_s;
    uint32_t interval_s; // between its check-ins; 0: not said
    bool proven;
    bool changed;
    uint32_t mark_count;
    struct gw_device_mark marks[GW_DEVICE_MARKS_MAX];
};
typedef void (*gw_device_visit_fn)(void *ctx, struct gw_device_visit *visit);
// Where a walk goes on.
struct gw_device_place {
    uint32_t shard; // < GW_DEVICE_TABLE_SHARDS
    uint32_t from;  // devices of it that it passed
};
// Visits devices from that place on, at most `count` and of its shard alone, with the shard's mutex
// held. Returns how many; fewer than `count` at the shard's end.
uint32_t gw_device_table_walk(struct gw_device_table *table, struct gw_device_place place,
                              uint32_t count, gw_device_visit_fn visit, void *ctx);

// Which devices are forgotten: unproven ones not seen since `seen_s` that `keep` does not keep.
struct gw_device_expiry {
    uint32_t seen_s;
    bool (*keep)(void *ctx, uint64_t device_id); // called with the shard's mutex held
    void *ctx;
};
// Those that were.
struct gw_device_forgotten {
    uint64_t *ids; // the caller's
    uint32_t count;
};
// Looks at devices from that place on as a walk does, at most `count`, and forgets those that have
// expired, whose ids are appended to `forgotten` (room for `count` more). Returns as a walk does.
// Dirty ones wait for their flush.
uint32_t gw_device_table_expire(struct gw_device_table *table, struct gw_device_place place,
                                uint32_t count, const struct gw_device_expiry *expiry,
                                struct gw_device_forgotten *forgotten);

// Takes up to `capacity` dirty devices, which are clean then.
uint32_t gw_device_table_take_dirty(struct gw_device_table *table, struct gw_device_snapshot *out,
                                    uint32_t capacity);
// They could not be stored: dirty again.
void gw_device_table_put_back(struct gw_device_table *table, const struct gw_device_snapshot *from,
                              uint32_t count);

bool gw_device_table_get(struct gw_device_table *table, uint64_t device_id,
                         struct gw_device_snapshot *out);
uint64_t gw_device_table_count(struct gw_device_table *table);
uint64_t gw_device_table_unproven(struct gw_device_table *table); // those that never showed it
uint64_t gw_device_table_dirty(struct gw_device_table *table);
uint64_t gw_device_table_dropped(struct gw_device_table *table);
uint64_t gw_device_table_bytes(struct gw_device_table *table);
// Look-ups that went past BASE_PROBE_LONG places.
uint64_t gw_device_table_probes_long(struct gw_device_table *table);
bool gw_device_table_validate(struct gw_device_table *table);

#endif

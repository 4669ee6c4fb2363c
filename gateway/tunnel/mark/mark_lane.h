// Lanes: what is going on with a device, class and epoch just now. A lane is there while a session
// carries the epoch or a batch of it is on its way to disk.
//
// Batches are taken in order: the next one must have the number `next` and link to `next_hash`. One
// session owns a lane, the newest that said HELLO for it; what older ones send is not taken. A
// session is welcomed only when nothing is on its way any more, so WELCOME's high water is all
// there is, and what was compared by it needs no memory of earlier batches.
//
// What is detected when. A copy of a device that reuses numbers is found at HELLO when it is behind
// (high water above its `next`), ahead (its tail above the high water), or differs at the high
// water (tail_hash); else by itself, which compares WELCOME's hash with its own at that number; and
// at the latest by its first batch that does not link. While two copies are connected only the
// owner's batches are taken, and the other one is sent away to say HELLO anew.
//
// When the sink refuses or fails a batch the lane is broken: all behind it fails too (sink.h), and
// when the last of them has come back the lane goes on from the mark.
//
// All functions: the shard's mutex is held (marks.h).
#ifndef GW_MARK_LANE_H
#define GW_MARK_LANE_H

#include "tunnel/mark/marks.h"

struct gw_session_class; // of session_private.h

struct gw_lane {
    struct gw_lane *next_in_bucket;
    uint64_t device;
    uint64_t next;      // number that is taken next
    uint64_t next_hash; // it must link to this
    struct gw_session_class *owner;
    uint32_t epoch;
    uint32_t under_way; // batches at the sink
    uint32_t users;     // sessions that point here
    uint32_t owners;    // how many there were
    uint8_t class_id;
    bool broken;
};

// Finds or makes. NULL: no memory.
struct gw_lane *gw_lane_get(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id,
                            uint32_t epoch);
bool gw_lane_is_there(struct gw_mark_shard *shard, uint64_t device, uint8_t class_id,
                      uint32_t epoch);
// Frees the lane when nothing needs it any more.
void gw_lane_release(struct gw_mark_shard *shard, struct gw_lane *lane);
// What is durable; zero and the chain's first for an epoch nobody has seen.
struct gw_mark gw_lane_mark(struct gw_mark_shard *shard, const struct gw_lane *lane);

enum gw_verdict {
    GW_VERDICT_NEW,   // hand it to the sink
    GW_VERDICT_KNOWN, // it was taken before
    GW_VERDICT_GAP,   // something before it is missing
    GW_VERDICT_FORK,  // it does not link
    GW_VERDICT_COUNT
};

struct gw_batch_id {
    uint64_t number;
    uint32_t numbers; // 1, or those of a LOSS
    uint64_t prev_hash;
    uint64_t hash;
};

// Changes nothing.
enum gw_verdict gw_lane_judge(const struct gw_lane *lane, const struct gw_batch_id *id);
// Makes sure that batches of the lane can be marked; `unproven`: the session's device did not show
// who it is. NOMEM, LIMIT.
BASE_NODISCARD enum base_status gw_lane_prepare(struct gw_mark_shard *shard,
                                                const struct gw_lane *lane, bool unproven);
// The sink accepted a batch that was NEW.
void gw_lane_take(struct gw_lane *lane, const struct gw_batch_id *id);
// It came back from the sink.
void gw_lane_landed(struct gw_mark_shard *shard, struct gw_lane *lane, const struct gw_batch_id *id,
                    uint32_t tenant, bool is_durable);
// At start: a batch found in the log. Idempotent. *out_gap: batches before it that are acknowledged
// but not in the log any more. NOMEM, LIMIT.
BASE_NODISCARD enum base_status gw_mark_replay(struct gw_mark_shard *shard,
                                               const struct gw_mark_key *key, uint32_t tenant,
                                               const struct gw_batch_id *id, uint64_t *out_gap);

void gw_lanes_free(struct gw_mark_shard *shard);
bool gw_lanes_validate(struct gw_mark_shard *shard);

#endif

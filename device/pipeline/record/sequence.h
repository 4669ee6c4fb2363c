// The sequences of events: all of them by time, and those of each page visit. The latest are in
// memory, in a ring of bounded bytes; what falls out of it is in blocks in collective storage
// (wire/event_block.h, DEV_SPACE_EVENTS), until their quota or age takes the oldest away.
//
// Storing. Events are gathered to a block, which is put into collect, with the recorder's numbers
// in the same group and for immediate commit, when there are DEV_SEQUENCE_BLOCK_EVENTS events or
// DEV_SEQUENCE_BLOCK_BYTES of them, when the oldest is DEV_COLLECT_AGE_MS old, when a page visit
// ends, and when the app goes to the background. So a kill loses at most the events of the last
// DEV_COLLECT_AGE_MS, as a whole tail. While collect takes nothing, events wait in the ring; those
// that must leave it unstored are a gap.
//
// Gaps of every reason are counted for good, and the latest DEV_SEQUENCE_GAPS are kept by number.
//
// Memory is the caller's block; the runtime's thread.
#ifndef DEV_PIPELINE_SEQUENCE_H
#define DEV_PIPELINE_SEQUENCE_H

#include "pipeline/record/recorder.h"

#define DEV_SEQUENCE_RING_BYTES     (64 * 1024) // default; a power of two
#define DEV_SEQUENCE_RING_BYTES_MIN (32 * 1024)
#define DEV_SEQUENCE_RING_BYTES_MAX (4 * 1024 * 1024)
#define DEV_SEQUENCE_BLOCK_EVENTS   64
#define DEV_SEQUENCE_BLOCK_BYTES    (12 * 1024)       // texts and attributes of a block
#define DEV_SEQUENCE_STORE_BYTES    (2 * 1024 * 1024) // default quota
#define DEV_SEQUENCE_KEEP_PERCENT   87                // of the quota, after an eviction
#define DEV_SEQUENCE_VISITS         64 // with an index; older ones are found by looking at all
#define DEV_SEQUENCE_GAPS           16

struct dev_sequence_options {
    uint32_t ring_bytes;  // 0 takes DEV_SEQUENCE_RING_BYTES
    uint64_t store_bytes; // 0 takes DEV_SEQUENCE_STORE_BYTES
    bool memory_only;     // nothing is stored
    struct dev_collect *collect;
    struct dev_recorder *recorder;
};

struct dev_sequence_stats {
    uint64_t events; // taken in
    uint64_t stored; // in blocks put into collect
    uint64_t blocks;
    uint64_t block_bytes;
    uint64_t evicted_events; // from the store, by quota or age
    uint64_t evicted_blocks;
    uint64_t damaged_blocks;          // met and stepped over
    uint64_t refused;                 // puts of blocks that failed and were tried again
    uint64_t lost[DEV_GAP_WHY_COUNT]; // seqs in gaps, since the install
    uint32_t in_memory;
    uint32_t waiting; // not stored yet
};

struct dev_sequence;

size_t dev_sequence_bytes(const struct dev_sequence_options *options);
BASE_NODISCARD enum base_status dev_sequence_init(void *memory, size_t memory_bytes,
                                                  const struct dev_sequence_options *options,
                                                  struct dev_sequence **out);
// After dev_collect_boot and before dev_recorder_boot. The port's errors.
BASE_NODISCARD enum base_status dev_sequence_boot(struct dev_sequence *sequence, uint64_t now_us);

// What the recorder's sink hands on. _on_event puts a block itself when one is full.
void dev_sequence_on_event(struct dev_sequence *sequence, uint64_t now_us,
                           const struct dev_event *event);
void dev_sequence_on_gap(struct dev_sequence *sequence, const struct dev_gap *gap);
void dev_sequence_on_visit_end(struct dev_sequence *sequence);

// Puts blocks that are due; not from within the sink. Returns when to call again, UINT64_MAX: not
// before the next event. The caller runs dev_collect_step after it.
uint64_t dev_sequence_step(struct dev_sequence *sequence, uint64_t now_us);
// Background, shutdown: puts all that waits. Errors of dev_collect_put; the events stay.
BASE_NODISCARD enum base_status dev_sequence_flush(struct dev_sequence *sequence, uint64_t now_us);
// Deletes stored blocks that began before `wall_ms` - `age_ms`, and what is above the quota.
BASE_NODISCARD enum base_status dev_sequence_evict(struct dev_sequence *sequence, uint64_t now_us,
                                                   uint64_t wall_ms, uint64_t age_ms);

// ---- Reading what is in memory. Views are borrowed until the next _on_event.

struct dev_sequence_cursor {
    const struct dev_sequence *sequence;
    uint64_t place;
    uint64_t to_seq;
    uint32_t visit; // 0: all
    bool chained;   // along the visit's own chain
    bool ends;
};
// The time-level sequence: from_seq <= seq <= to_seq.
void dev_sequence_range(const struct dev_sequence *sequence, uint64_t from_seq, uint64_t to_seq,
                        struct dev_sequence_cursor *out);
// The page-level sequence of a visit, as far as it is in memory.
void dev_sequence_visit(const struct dev_sequence *sequence, uint32_t visit,
                        struct dev_sequence_cursor *out);
// All, newest first, from seq <= to_seq; read with _before.
void dev_sequence_latest(const struct dev_sequence *sequence, uint64_t to_seq,
                         struct dev_sequence_cursor *out);
bool dev_sequence_next(struct dev_sequence_cursor *cursor, struct dev_event *out);
bool dev_sequence_before(struct dev_sequence_cursor *cursor, struct dev_event *out);

// ---- Reading all there is

// False ends it. The event is borrowed during the call.
typedef bool (*dev_sequence_visit_fn)(void *ctx, const struct dev_event *event);
// Which events of the sequences: from_seq <= seq <= to_seq, of one visit.
struct dev_sequence_part {
    uint64_t from_seq;
    uint64_t to_seq; // UINT64_MAX: up to the newest
    uint32_t visit;  // 0: of all
};
// The part's events by seq: stored ones, then those in memory. Commits what waits. The port's
// errors.
BASE_NODISCARD enum base_status dev_sequence_each(struct dev_sequence *sequence, uint64_t now_us,
                                                  const struct dev_sequence_part *part,
                                                  dev_sequence_visit_fn fn, void *ctx);
// The latest gaps, oldest first; returns how many.
uint32_t dev_sequence_gaps(const struct dev_sequence *sequence,
                           struct dev_gap out[DEV_SEQUENCE_GAPS]);
void dev_sequence_stats(const struct dev_sequence *sequence, struct dev_sequence_stats *out);
bool dev_sequence_validate(const struct dev_sequence *sequence);

#endif

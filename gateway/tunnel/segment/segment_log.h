// The embedded sink: an append-only log of segments on disk, with one writer thread.
//
// The writer takes what has gathered, writes it with one writev, syncs once, and only then calls
// each batch's `done`: acknowledged means on disk. While one group syncs the next gathers; when the
// last group was a crowd the writer waits commit_delay_us for more company, so that a busy gateway
// syncs less often and an idle one answers at once.
//
// Ahead of the records of the newest segment lie up to GW_SEGMENT_AHEAD zeros, written and synced
// while nobody waited: a record that overwrites them needs no new blocks and no new length, so its
// sync writes it and nothing of the file system's. A busy log has no such moments and appends.
//
// Positions. A record's position counts all bytes of the log before it, from its first segment on:
// positions only grow, and stay when old segments go (retain_bytes).
//
// Damage. At open the newest segment is cut behind its last whole record (what follows was never
// acknowledged, or are the zeros). A write or sync that fails cuts the segment back to what is
// known to be durable, fails its group, and the log is shut for GW_SEGMENT_RETRY_US: submits answer
// FULL (no space) or BUSY; then it tries again. So a full disk refuses batches and heals by itself.
//
// Threads: submit, stats and readers from any thread; `done` runs on the writer's.
#ifndef GW_SEGMENT_LOG_H
#define GW_SEGMENT_LOG_H

#include "base/error.h"
#include "base/log.h"
#include "base/ports.h"
#include "tunnel/segment/sink.h"

#define GW_SEGMENT_BYTES       (UINT64_C(64) << 20)
#define GW_SEGMENT_BYTES_MIN   (UINT64_C(64) << 10)
#define GW_SEGMENTS_MAX        65536u
#define GW_SEGMENT_QUEUE_BYTES (UINT64_C(256) << 20) // waiting; beyond it submit answers BUSY
#define GW_SEGMENT_GROUP_BYTES (UINT64_C(8) << 20)   // of one writev and sync
#define GW_SEGMENT_GROUP_MAX   4096u                 // batches of one group
#define GW_SEGMENT_AHEAD       (UINT64_C(1) << 20)
#define GW_SEGMENT_CROWD       16u // a group of so many: the next one waits
#define GW_SEGMENT_DELAY_US    1000u
#define GW_SEGMENT_DELAY_MAX   5000u
#define GW_SEGMENT_RETRY_US    200000u

struct gw_segment_log;
struct gw_segment_reader;

struct gw_segment_options {
    const char *dir;          // made when absent; the parent must be there
    uint64_t segment_bytes;   // 0 takes GW_SEGMENT_BYTES
    uint32_t commit_delay_us; // 0 takes GW_SEGMENT_DELAY_US; at most GW_SEGMENT_DELAY_MAX
    uint64_t queue_bytes;     // 0 takes GW_SEGMENT_QUEUE_BYTES
    struct base_clock_port clock;
    const struct base_log *log;
};

// Opens, repairs, starts the writer. CORRUPT, IO, FULL, NOMEM, BUSY (another process), with the
// reason in `error`.
BASE_NODISCARD enum base_status gw_segment_log_open(const struct gw_segment_options *options,
                                                    struct gw_segment_log **out,
                                                    struct base_error *error);
// Writes what was submitted, ends the writer. Readers must be closed. Accepts NULL.
void gw_segment_log_close(struct gw_segment_log *log);
struct gw_sink_port gw_segment_log_port(struct gw_segment_log *log);

// Removes whole segments, oldest first, while more than `retain_bytes` are kept and the segment
// ends at or before `below`. Returns how many.
uint32_t gw_segment_log_retain(struct gw_segment_log *log, uint64_t retain_bytes, uint64_t below);

struct gw_segment_stats {
    uint64_t first;  // position of the oldest byte that is kept
    uint64_t end;    // durable end: where the next record begins
    uint64_t landed; // the batches before it have been answered: where a checkpoint may stand
    uint64_t segments;
    uint64_t batches; // durable since open
    uint64_t bytes;
    uint64_t syncs;
    uint64_t sync_us; // all of them
    uint64_t sync_us_max;
    uint64_t group_max;
    uint64_t failures;  // groups that were not written
    uint64_t cut_bytes; // behind the last whole record, at open; zeros are not counted
    uint64_t queue_bytes;
    bool shut; // refuses batches just now
};
void gw_segment_log_stats(struct gw_segment_log *log, struct gw_segment_stats *out);

// ---- Reading: any thread, one at a time a reader. It sees what is durable.

BASE_NODISCARD enum base_status gw_segment_reader_open(struct gw_segment_log *log,
                                                       struct gw_segment_reader **out);
void gw_segment_reader_close(struct gw_segment_reader *reader); // accepts NULL
// Goes to a position. NOT_FOUND: no record begins there (or its segment is gone by retention, when
// it is below stats.first: seek to that).
BASE_NODISCARD enum base_status gw_segment_reader_seek(struct gw_segment_reader *reader,
                                                       uint64_t position);
// To the first segment that has records of `ms` or later.
BASE_NODISCARD enum base_status gw_segment_reader_seek_time(struct gw_segment_reader *reader,
                                                            uint64_t ms);
// The next record, whose payload is borrowed until the next call. NOT_FOUND: at the durable end;
// CORRUPT: damaged, *out_next is where the next segment begins; IO, NOMEM. *out_next is the
// position behind the record.
BASE_NODISCARD enum base_status gw_segment_reader_next(struct gw_segment_reader *reader,
                                                       struct gw_sink_batch *out,
                                                       uint64_t *out_position, uint64_t *out_next);

#endif

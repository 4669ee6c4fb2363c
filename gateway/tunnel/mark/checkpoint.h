// Checkpoints of the marks: a file that says what is durable up to a position of the log, so that a
// start reads only the segments behind it.
//
//   head  := "WALLECKP", u32 version (1), u32 blocks, u64 position, u64 check            (32 bytes)
//   block := u32 count, u64 check, count x { u64 device, u64 high_water, u64 hash, u32 epoch,
//            u32 tenant | unproven << 24 | period << 25, u8 class }
//
// A checkpoint is written beside the log that goes on: marks may already be ahead of its position,
// which does no harm, for reading a batch twice changes nothing. The one before is kept
// (checkpoint.old) until the next, for the case that the disk damaged the newest.
#ifndef GW_CHECKPOINT_H
#define GW_CHECKPOINT_H

#include "base/error.h"
#include "base/log.h"
#include "tunnel/mark/marks.h"
#include "tunnel/segment/segment_log.h"

#define GW_CHECKPOINT_VERSION   1u
#define GW_CHECKPOINT_BLOCK_MAX (GW_MARKS_PER_SHARD * 4u) // marks of one block

// Writes DIR/checkpoint, durable when it returns OK. Any thread.
BASE_NODISCARD enum base_status gw_checkpoint_write(const char *dir, struct gw_marks *marks,
                                                    uint64_t position);
struct gw_recovery {
    const char *dir;
    struct gw_segment_log *log;
    struct gw_marks *marks; // filled
    const struct base_log *log_port;
};
// Reads it and then the log behind it. *out_position: what the checkpoint said, 0: there was none.
// NOMEM, LIMIT, IO.
BASE_NODISCARD enum base_status gw_checkpoint_recover(const struct gw_recovery *recovery,
                                                      uint64_t *out_position,
                                                      struct base_error *error);

#endif

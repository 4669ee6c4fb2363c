// Marks: what makes control devices a placebo. Each says "activate the version that you have of
// this task once more, for this rollout". It brings no content and approves none.
//
//   marks := varint count, count x { u64 task_id, u64 rollout_id, u8 attempt }
//
// Marks ascend by task id, one a task; there is at least one. `attempt` counts from 0: a device
// follows a mark of the rollout it did last only when the attempt is higher.
#ifndef WIRE_AGAIN_H
#define WIRE_AGAIN_H

#include "base/cursor.h"

#define WIRE_AGAIN_MAX   16 // marks in one answer
#define WIRE_AGAIN_BYTES 17 // of a mark

struct wire_again {
    uint64_t task_id;
    uint64_t rollout_id; // not 0
    uint8_t attempt;
};

// Failures are left in the cursor: INVALID (order, no rollout, no mark), TOO_LARGE.
void wire_again_write(struct base_writer *writer, const struct wire_again *marks, uint32_t count);
// *out_count is 0 on failure.
void wire_again_read(struct base_reader *reader, struct wire_again *out, uint32_t *out_count);
// Likewise, where the count was read already.
void wire_again_read_items(struct base_reader *reader, struct wire_again *out, uint32_t count);

#endif

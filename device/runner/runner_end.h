// The end of a run as its process tells it; the agent reads it with posix/run/posix_child_parse.h.
//
//   END    := u32 status (negative, as its two's complement), [0: u8 end, u8 size, type,
//             u8 size, message, u8 size, file, u32 line, u32 size, stack, u64 instructions,
//             u64 duration_us, prepare_us, model_us, u32 heap_peak_bytes, stack_peak_bytes,
//             u64 late, evicted, dropped, u32 refused, u16 asked, sent, answered, differed,
//             8 x u16 times (wire/cloud/cloud_counts.h), u32 size, result, u8 effects,
//             effects x effect]
//   effect := u8 kind, u8 format, u64 time_ms, u8 size, name, u8 size, key, u32 size, bytes
//             of SAVE: u8 kind, u32 size, image (wire/store/store_image.h); the last, and one at
//             most
#ifndef DEV_RUNNER_END_H
#define DEV_RUNNER_END_H

#include "base/cursor.h"
#include "runner/runner_frame.h"

// Writes the body of END; of a `status` that is not OK there is no result. `output` is left out:
// the agent has no use for it.
void dev_runner_end_write(struct base_writer *writer, enum base_status status,
                          const struct dev_vm_result *result);
// Writes the body of QUERY.
void dev_runner_query_write(struct base_writer *writer, const struct dev_vm_query *query);

#endif

// What is in the stored record.
#ifndef DEV_DEVICE_STATE_H
#define DEV_DEVICE_STATE_H

#include "core/base/runtime.h"
#include "core/sweep/device_past.h"

#define DEV_STATE_TASK_MAX                                                                         \
    (1 + WIRE_TASK_NAME_MAX + 21 * 10 + 7 * WIRE_SHA256_BYTES + 9 + 5 + 3 * 9 + 19 + 13 * 3 +      \
     WIRE_TOLERANCES_BYTES_MAX)
#define DEV_STATE_SAVE_MAX                                                                         \
    (256 + DEV_REFUSALS_BYTES_MAX + DEV_TASKS_MAX * (DEV_STATE_TASK_MAX + DEV_PAST_BYTES_MAX) +    \
     WIRE_REPORT_MAX * DEV_OUTCOME_ENTRY_COMMON + DEV_OUTCOME_ENTRY_MAX)
BASE_NODISCARD enum base_status dev_state_encode(const struct dev_runtime *runtime, uint8_t *out,
                                                 size_t capacity, size_t *out_size);
// Fills tasks, outcomes and the rest of the stored members. CORRUPT leaves the runtime's stored
// members in an undefined state.
BASE_NODISCARD enum base_status dev_state_decode(struct dev_runtime *runtime, const uint8_t *bytes,
                                                 size_t size);
// Invariants of one task's record; for the decoder and dev_validate.
bool dev_task_valid(const struct dev_task *task);

#endif

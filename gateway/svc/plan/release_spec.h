// What a release is asked to be: its task, target and stages, as an operator gives them.
#ifndef GW_RELEASE_SPEC_H
#define GW_RELEASE_SPEC_H

#include "base/str.h"
#include "policy/bucket.h"
#include "policy/replay.h"
#include "policy/slices.h"
#include "wire/digest.h"

#define GW_STAGE_NAME_MAX         32u
#define GW_ROLLOUT_SPEC_BYTES_MAX (128u * 1024)
#define GW_EXECUTION_TIMEOUT_S                                                                     \
    600u // default: offered longer ago without completion counts as timed out
#define GW_STAGE_DEFAULT_S     UINT32_MAX // silence_s, observe_s: multiples of the check-in interval
#define GW_STAGE_SILENCE_TIMES 12u
#define GW_STAGE_OBSERVE_TIMES 2u
#define GW_STAGE_WINDOW_TIMES  2u           // window_s: beyond the execution timeout
#define GW_QUARANTINE_MAX      POL_HELD_MAX // segments of one rollout
#define GW_TASK_OPEN_MAX       8u           // open rollouts of a task
#define GW_PRIORITY_MAX        1000u

struct gw_stage_spec {
    struct base_str name;     // printable ASCII, at most GW_STAGE_NAME_MAX
    struct pol_stage stage;   // max_bucket is percent x 100; window_s 0: the default; see
                              // GW_STAGE_DEFAULT_S
    const uint8_t *statement; // INSTALL envelope; NULL in a simulate stage
    size_t statement_bytes;
};

// Everything is borrowed during the call and copied.
struct gw_rollout_spec {
    uint64_t id; // not 0
    struct base_str task;
    struct wire_sha256 manifest;
    uint64_t salt;
    uint64_t release_counter; // of the INSTALL statements
    struct pol_target target;
    const struct gw_stage_spec *stages;
    uint32_t stage_count;         // 1..POL_STAGES_MAX
    uint32_t execution_timeout_s; // 0: GW_EXECUTION_TIMEOUT_S
    uint16_t priority;            // at most GW_PRIORITY_MAX; of several, the highest is followed
    struct pol_arm arm;           // all zero: none
    bool trust_unproven;          // devices count that did not show who they are
    bool accept_empty; // that it can reach no known device (svc/device/reach.h) is no obstacle
    bool accept_cost;  // more than a phone can hold (svc/rollout/set_cost.h) is no obstacle
};

#endif

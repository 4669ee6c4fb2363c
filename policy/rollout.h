// Rollouts: the staged process that brings a release to devices, as a pure state machine.
//
// Semantics (the first seven are the promises of the product):
//   - the denominator of a verdict is the devices that completed (or timed out) in the current
//   stage;
//   - verdicts are PASS, FAIL, INCONCLUSIVE, NO_DATA; only PASS advances;
//   - a stage ends only with its minimum dwell, its minimum sample and a PASS; failure is checked
//   first;
//   - pause withdraws pending offers; abort is pause plus roll back; resume never skips a failed
//   stage
//     unless the operator accepts the risk;
//   - devices that appear later obey the same stages;
//   - not_applicable is neither success nor failure.
// Same input, same output: no clock, no memory, no pointers kept. Times are monotonic microseconds
// given by the caller; the caller stores `struct pol_rollout` and the log of decisions.
#ifndef POL_ROLLOUT_H
#define POL_ROLLOUT_H

#include "policy/target.h"

#define POL_STAGES_MAX 16u

enum pol_stage_kind {
    POL_STAGE_SIMULATE, // virtual devices only; no offer is made
    POL_STAGE_BETA,     // an audience (for example channel == "beta")
    POL_STAGE_GRAY,     // a share of the target by bucket
    POL_STAGE_FULL,     // everybody targeted
    POL_STAGE_KIND_COUNT
};

// The health gate of a stage.
struct pol_gate {
    // Completed devices needed to pass. FAIL does not wait for them once the failures would be over
    // the limit even if the rest of the sample succeeded.
    uint32_t min_sample;
    uint32_t max_failure_ppm; // failed / completed above this fails (parts per million)
    uint64_t min_dwell_us;    // time in the stage before it may pass
};

struct pol_stage {
    enum pol_stage_kind kind;
    uint16_t max_bucket; // devices with bucket < max_bucket; 10000 is everybody in the audience
    struct pol_target audience; // on top of the rollout's own target; empty: everybody
    struct pol_gate gate;
};

enum pol_rollout_state {
    POL_ROLLOUT_DRAFT,        // created, nothing offered
    POL_ROLLOUT_RUNNING,      // stage_index is open
    POL_ROLLOUT_PAUSED,       // no new offers; devices keep what they run
    POL_ROLLOUT_ROLLING_BACK, // devices on the version are offered the way back
    POL_ROLLOUT_ROLLED_BACK,  // all that could be reached went back
    POL_ROLLOUT_COMPLETED,    // the last stage passed: this version is the task's baseline
    POL_ROLLOUT_STATE_COUNT
};

enum pol_verdict {
    POL_VERDICT_NO_DATA,
    POL_VERDICT_INCONCLUSIVE,
    POL_VERDICT_PASS,
    POL_VERDICT_FAIL,
    POL_VERDICT_COUNT
};

struct pol_rollout {
    enum pol_rollout_state state;
    uint16_t stage_index;
    bool stage_failed;       // the current stage had a FAIL verdict
    uint64_t stage_since_us; // when the current stage opened
};

// Devices of the current stage (those that entered in it), each counted once.
struct pol_counts {
    uint64_t offered;
    uint64_t downloaded;
    uint64_t activated;
    uint64_t succeeded;      // ran at least once without failure
    uint64_t failed;         // failed in any class, at any step
    uint64_t timed_out;      // offered, then silent beyond the execution timeout: counts as failure
    uint64_t not_applicable; // refused as not meant for them: out of the denominator
    uint64_t to_roll_back;   // devices still on the version (only read while rolling back)
};

enum pol_command {
    POL_COMMAND_START,
    POL_COMMAND_PAUSE,
    POL_COMMAND_RESUME,
    POL_COMMAND_RESUME_ACCEPT_RISK, // resume past a failed stage; the caller records who and why
    POL_COMMAND_PROMOTE, // next stage now, dwell and sample waived; never past a failed stage
    POL_COMMAND_ABORT,
    POL_COMMAND_COUNT
};

enum pol_action {
    POL_ACTION_HOLD,    // nothing changes
    POL_ACTION_ADVANCE, // a further stage opened
    POL_ACTION_COMPLETE,
    POL_ACTION_PAUSE,
    POL_ACTION_RESUME,
    POL_ACTION_ROLL_BACK,
    POL_ACTION_FINISH_ROLL_BACK,
    POL_ACTION_REFUSE, // a command that is not allowed: `next` equals the state before
    POL_ACTION_COUNT
};

struct pol_decision {
    enum pol_action action;
    enum pol_verdict verdict;
    enum pol_reason reason;
    uint32_t failure_ppm; // failed / completed, 0 without completions
    struct pol_rollout next;
};

// 1..POL_STAGES_MAX stages, max_bucket 1..10000 (10000 in a full stage) and not shrinking from a
// gray stage to the next, targets well formed. MATCHED or STAGES_INVALID.
enum pol_reason pol_stages_check(const struct pol_stage *stages, uint32_t count);

enum pol_verdict pol_gate_verdict(const struct pol_gate *gate, const struct pol_counts *counts,
                                  uint64_t in_stage_us, enum pol_reason *out_reason,
                                  uint32_t *out_failure_ppm);

// What time and counts decide. Call it at any rate; equal inputs give equal answers. The verdict is
// given in every state but DRAFT, for people; it moves a RUNNING rollout only. A stage that fails
// while PAUSED is marked (action PAUSE, stage_failed).
struct pol_decision pol_rollout_tick(const struct pol_rollout *rollout,
                                     const struct pol_stage *stages, uint32_t stage_count,
                                     const struct pol_counts *counts, uint64_t now_us);
// What an operator decides. START: DRAFT (action ADVANCE). PAUSE: RUNNING. RESUME: PAUSED, unless
// the stage failed. RESUME_ACCEPT_RISK: PAUSED; a failed stage is skipped (ADVANCE, or COMPLETE
// past the last). PROMOTE: RUNNING (ADVANCE or COMPLETE). ABORT: DRAFT, RUNNING, PAUSED
// (ROLL_BACK). Everything else is REFUSE with WRONG_STATE or STAGE_FAILED.
struct pol_decision pol_rollout_command(const struct pol_rollout *rollout, uint32_t stage_count,
                                        enum pol_command command, uint64_t now_us);

// May this device be offered the rollout's version now? `targeted` is the answer of the rollout's
// own target; `audience_mask` bit k is the answer of stage k's audience (both depend on attributes
// alone and are cached by the caller). Simulate stages never admit. A match has the first open
// stage that admits in cond_index: the stage the device counts in, and whose statement it is
// offered. COMPLETED admits as its last stage does.
struct pol_match pol_rollout_admits(const struct pol_rollout *rollout,
                                    const struct pol_stage *stages, uint32_t stage_count,
                                    bool targeted, uint32_t audience_mask, uint16_t bucket);

// Static lower-case names ("gray", "rolling_back", "inconclusive", "advance", "promote"), never
// NULL.
const char *pol_stage_kind_name(enum pol_stage_kind kind);
const char *pol_rollout_state_name(enum pol_rollout_state state);
const char *pol_verdict_name(enum pol_verdict verdict);
const char *pol_action_name(enum pol_action action);
const char *pol_command_name(enum pol_command command);

#endif

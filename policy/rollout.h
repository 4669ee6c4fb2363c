// Rollouts: the staged process that brings a release to devices, as a pure state machine.
//
// Semantics (the first eight are the promises of the product):
//   - the denominator of a verdict is the devices that completed (or timed out) in the current
//   stage;
//   - verdicts are PASS, FAIL, INCONCLUSIVE, NO_DATA; only PASS advances;
//   - a stage ends only with its minimum dwell, its minimum sample and a PASS; failure is checked
//   first;
//   - behind the last stage the rollout is guarded until nobody targeted is outstanding, or the
//   guard is over: whoever answers late is judged by the last stage's gate;
//   - pause withdraws pending offers; abort is pause plus roll back; resume never skips a failed
//   stage
//     unless the operator accepts the risk;
//   - devices that appear later obey the same stages;
//   - not_applicable is neither success nor failure.
// Same input, same output: no clock, no memory, no pointers kept. Times are monotonic microseconds
// given by the caller; the caller stores `struct pol_rollout` and the log of decisions.
#ifndef POL_ROLLOUT_H
#define POL_ROLLOUT_H

#include "policy/fallback/fallback_gate.h"
#include "policy/gate.h"
#include "policy/pace.h"
#include "policy/target.h"

#define POL_STAGES_MAX          16u
#define POL_SHADOW_PERCENT_MIN  100u
#define POL_SHADOW_PERCENT_MAX  10000u
#define POL_TOLERANCES_MAX      4u
#define POL_TOLERANCE_FIELD_MAX 24u
#define POL_STAGE_WINDOW_S_MAX  (30u * 24 * 3600) // of a device's window
#define POL_STAGE_GUARD_S       86400u            // default of a guard
#define POL_STAGE_GUARD_S_MAX   (30u * 24 * 3600) // of a rollout's guard

enum pol_stage_kind {
    POL_STAGE_SIMULATE, // virtual devices only; no offer is made
    POL_STAGE_BETA,     // an audience (for example channel == "beta")
    POL_STAGE_GRAY,     // a share of the target by bucket
    POL_STAGE_FULL,     // everybody targeted
    POL_STAGE_SHADOW,   // a share of the target runs the version beside the one it has; no result
                        // of it is used, and nobody is on it
    POL_STAGE_KIND_COUNT
};

// How far numbers of a shadow's result may be from the active version's and still agree: below a
// member of its outermost object, or (no name) elsewhere. Decisions do not look at it.
struct pol_tolerance {
    double absolute;
    double relative; // to the larger of the two; 0 to 1
    uint8_t field_size;
    char field[POL_TOLERANCE_FIELD_MAX];
};

// What a verdict does to the rollout.
enum pol_on_fail {
    POL_ON_FAIL_ROLL_BACK, // everybody on the version goes back
    POL_ON_FAIL_HOLD,      // it is paused, and somebody is paged: a person decides
    POL_ON_FAIL_COUNT
};

enum pol_on_pass {
    POL_ON_PASS_ADVANCE,
    POL_ON_PASS_PAUSE, // it is paused until a person promotes it
    POL_ON_PASS_COUNT
};

struct pol_stage {
    enum pol_stage_kind kind;
    uint16_t max_bucket; // devices with bucket < max_bucket; 10000 is everybody in the audience
    struct pol_target audience; // on top of the rollout's own target; empty: everybody
    struct pol_gate gate;
    struct pol_pace pace;
    uint32_t window_count;
    struct pol_window windows[POL_WINDOWS_MAX]; // offers only while one is open; none: always
    uint32_t execution_timeout_s;               // from the offer to completion; 0: the rollout's
    uint32_t offline_expiry_s; // offered and not seen since for so long: no longer waited for; 0:
                               // never
    uint32_t silence_s;        // activated and not seen for so long: silent; 0: not watched
    uint32_t window_s;  // a device's outcome is looked at for so long from its offer (LOGRANK)
    uint32_t guard_s;   // of the last stage: it is judged for so long after it passed; 0: not
    uint32_t observe_s; // a control device completes by a check-in so long after its first
    uint16_t control_buckets; // size of the control band behind the stage's buckets; 0: none
    uint8_t retries[POL_FAILURE_COUNT]; // more attempts after a failure of this class
    bool approval;                      // opens only when another person approves
    enum pol_on_fail on_fail;
    enum pol_on_pass on_pass;
    // Of a shadow stage: a run beside the active version's that takes more than this percentage of
    // its time, or of its memory, is a failure. 0: not judged.
    uint16_t shadow_slow_percent;
    uint16_t shadow_memory_percent;
    struct pol_fallback_limits cloud; // of each device's decisions between device and cloud
    uint32_t tolerance_count;         // of a shadow stage: none, results must be the same
    struct pol_tolerance tolerances[POL_TOLERANCES_MAX];
};

// The control band of a stage: buckets from..to, `to` exclusive, behind those of the stage so that
// no device is in both. Empty when the stage has none or leaves no room.
void pol_stage_control_band(const struct pol_stage *stage, uint16_t *out_from, uint16_t *out_to);

// Buckets that the trial of a stage with the rule LOGRANK is about: those from..middle are updated,
// those middle..to are their control. None of them was let in by an earlier stage, so that a device
// which comes anew is divided as one is that was there before.
struct pol_trial_span {
    uint16_t from;
    uint16_t middle;
    uint16_t to;
};

// False: the stage compares nobody; *out has no control (to == middle).
bool pol_stage_trial(const struct pol_stage *stages, uint32_t index, struct pol_trial_span *out);

enum pol_rollout_state {
    POL_ROLLOUT_DRAFT,        // created, nothing offered
    POL_ROLLOUT_RUNNING,      // stage_index is open
    POL_ROLLOUT_PAUSED,       // no new offers; devices keep what they run
    POL_ROLLOUT_ROLLING_BACK, // devices on the version are offered the way back
    POL_ROLLOUT_ROLLED_BACK,  // all that could be reached went back
    POL_ROLLOUT_COMPLETED,    // the last stage passed: this version is the task's baseline
    POL_ROLLOUT_WAITING,      // the next stage waits for approval; the open ones go on
    POL_ROLLOUT_GUARDING,     // the last stage passed: the baseline, as COMPLETED, but judged still
    POL_ROLLOUT_STATE_COUNT
};

struct pol_rollout {
    enum pol_rollout_state state;
    uint16_t stage_index;    // the newest open stage
    bool before_first;       // it is not open yet: the first stage waits for approval
    bool stage_failed;       // the current stage had a FAIL verdict
    bool paged;              // somebody was told: nobody completed in it for too long, or it failed
    bool killed;             // the version may run nowhere
    bool guarding;           // GUARDING, or PAUSED out of it
    bool passed;             // PAUSED by the stage itself when it passed (on_pass)
    uint64_t stage_since_us; // when the current stage opened; guarding: when the guard began
};

enum pol_command {
    POL_COMMAND_START,
    POL_COMMAND_PAUSE,
    POL_COMMAND_RESUME,
    POL_COMMAND_RESUME_ACCEPT_RISK, // resume past a failed stage; the caller records who and why
    POL_COMMAND_PROMOTE, // next stage now, dwell and sample waived; never past a failed stage. Of a
                         // guard: it is over
    POL_COMMAND_ABORT,
    POL_COMMAND_APPROVE, // opens the stage that waits; the caller checks who asks
    POL_COMMAND_UNDO,    // a completed rollout goes back to the baseline before it
    POL_COMMAND_KILL,    // whatever the state: the version stops everywhere
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
    POL_ACTION_WAIT,   // the next stage needs approval
    POL_ACTION_PAGE,   // no data for too long: hold, and tell somebody
    POL_ACTION_KILL,   // nothing moves but that the version is marked
    POL_ACTION_REFUSE, // a command that is not allowed: `next` equals the state before
    POL_ACTION_GUARD,  // the last stage is over: the guard begins
    POL_ACTION_COUNT
};

struct pol_decision {
    enum pol_action action;
    enum pol_verdict verdict;
    enum pol_reason reason;
    bool page;                    // somebody must be told
    uint32_t failure_ppm;         // failed / completed, 0 without completions
    struct pol_test_report shown; // by the sequential gate
    struct pol_rollout next;
};

// 1..POL_STAGES_MAX stages, max_bucket 1..10000 (10000 in a full stage) and not shrinking from a
// gray stage to the next, targets, gates, paces and windows well formed, no shadow stage last, a
// guard in the last one alone. MATCHED or STAGES_INVALID.
enum pol_reason pol_stages_check(const struct pol_stage *stages, uint32_t count);
// The first stage whose reach is not as said above, of 1..POL_STAGES_MAX stages; `count`: none.
uint32_t pol_stages_reach_check(const struct pol_stage *stages, uint32_t count);

// What time and counts decide. Call it at any rate; equal inputs give equal answers. The verdict is
// given whenever a stage is open or guarded, for people; it moves RUNNING, WAITING and GUARDING
// rollouts only (the latter two: only back, or with on_fail HOLD to PAUSED). A stage that fails
// while PAUSED is marked (action PAUSE, stage_failed); one that paused itself is judged as before.
struct pol_decision pol_rollout_tick(const struct pol_rollout *rollout,
                                     const struct pol_stage *stages, uint32_t stage_count,
                                     const struct pol_counts *counts, uint64_t now_us);
// What an operator decides. START: DRAFT (ADVANCE, or WAIT when the first stage needs approval).
// PAUSE: RUNNING, GUARDING, or WAITING with a stage open. RESUME: PAUSED, unless the stage failed,
// or paused itself when it passed (STAGE_PASSED). RESUME_ACCEPT_RISK: likewise; a failed stage is
// skipped (ADVANCE, WAIT, or COMPLETE past the last). PROMOTE: RUNNING, and PAUSED by a stage that
// passed (ADVANCE, WAIT, or GUARD or COMPLETE past the last); GUARDING (COMPLETE). APPROVE: WAITING
// (ADVANCE). ABORT: DRAFT, RUNNING, WAITING, PAUSED, GUARDING (ROLL_BACK). UNDO: COMPLETED,
// GUARDING (ROLL_BACK). KILL: all of these (ROLL_BACK), and what is rolling or rolled back already
// (KILL). Everything else is REFUSE with WRONG_STATE, STAGE_FAILED or STAGE_PASSED.
struct pol_decision pol_rollout_command(const struct pol_rollout *rollout,
                                        const struct pol_stage *stages, uint32_t stage_count,
                                        enum pol_command command, uint64_t now_us);

// A device that may be let in.
struct pol_candidate {
    bool targeted;          // the rollout's target holds of it
    uint32_t audience_mask; // bit i: it is of the audience of stage i
    uint16_t bucket;
};
// May this device be offered the rollout's version now? `targeted` is the answer of the rollout's
// own target; `audience_mask` bit k is the answer of stage k's audience (both depend on attributes
// alone and are cached by the caller). Simulate and shadow stages never admit. A match has the
// first open stage that admits in cond_index: the stage the device counts in, and whose statement
// it is offered. COMPLETED and GUARDING admit as their last stage does.
struct pol_match pol_rollout_admits(const struct pol_rollout *rollout,
                                    const struct pol_stage *stages, uint32_t stage_count,
                                    struct pol_candidate candidate);

// May it be offered as a shadow? Only while the newest open stage is a shadow stage, and by that
// one: a match has it in cond_index.
struct pol_match pol_rollout_shadows(const struct pol_rollout *rollout,
                                     const struct pol_stage *stages, uint32_t stage_count,
                                     struct pol_candidate candidate);

// The span of the newest open stage, as far as a device with this mask is in it: one that an
// earlier stage's audience let in is divided in another ratio, or not at all, and compared with
// nobody. False: it is not compared, whatever its bucket.
bool pol_rollout_trial(const struct pol_rollout *rollout, const struct pol_stage *stages,
                       uint32_t stage_count, uint32_t audience_mask, struct pol_trial_span *out);

// Static lower-case names ("gray", "rolling_back", "inconclusive", "advance", "promote"), never
// NULL.
const char *pol_stage_kind_name(enum pol_stage_kind kind);
const char *pol_rollout_state_name(enum pol_rollout_state state);
const char *pol_on_fail_name(enum pol_on_fail on_fail);
const char *pol_on_pass_name(enum pol_on_pass on_pass);
const char *pol_action_name(enum pol_action action);
const char *pol_command_name(enum pol_command command);

#endif

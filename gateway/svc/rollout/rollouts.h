// Rollouts: creation, commands, queries, and the controller's tick.
//
// Called on the control thread only (svc/control.h). A change is on disk, together with its line in
// the log, before the function returns; then the workers get a new plan. Views are copies.
#ifndef GW_ROLLOUTS_H
#define GW_ROLLOUTS_H

#include "base/error.h"
#include "base/span.h"
#include "base/str.h"
#include "policy/bucket.h"
#include "policy/replay.h"
#include "policy/stage_power.h"
#include "svc/rollout/catalog.h"
#include "svc/plan/fleet_segment.h"
#include "svc/plan/release_spec.h"
#include "svc/tally/rollout_counts.h"
#include "wire/digest.h"
#include "wire/trust/run_evidence.h"
#include "wire/trust/statement.h"

#define GW_ROLLOUTS_MAX   65536u // of all tenants, by shares
#define GW_LOG_REASON_MAX 200u
#define GW_LOG_BY_MAX     64u

struct gw_core;

// Another open rollout of the task that comes before this one, or after it: devices that both
// target follow the first, whatever it has reached, and are offered the other once that has ended;
// of one that is guarded they leave for an open one that lets them in (policy/desired.h).
struct gw_beside {
    uint64_t rollout;
    char version[GW_VERSION_TEXT_MAX + 1]; // empty: not known any more
    enum pol_rollout_state state;
};

struct gw_rollout_stage_view {
    char name[GW_STAGE_NAME_MAX + 1];
    enum pol_stage_kind kind;
    uint16_t max_bucket;
    struct pol_stage conduct; // without its audience
    struct gw_rollout_counts counts;
};

// Of the open stage, when it has the rule LOGRANK.
struct gw_rollout_trial_view {
    bool there;
    struct pol_trial trial;
    uint32_t windows_end_s; // of those offered by now; Unix seconds, 0: nobody was
};

// Devices of one model, os and app version that are kept off the release.
struct gw_quarantined {
    uint64_t segment; // svc/plan/fleet_segment.h
    char text[GW_SEGMENT_TEXT_MAX + 1];
};

enum gw_simulation_source {
    GW_SIMULATION_NONE,
    GW_SIMULATION_TYPED,    // numbers of a person, from before evidence was asked for
    GW_SIMULATION_EVIDENCE, // signed, and bound to the rollout (svc/rollout/simulation.h)
    GW_SIMULATION_PENDING,  // numbers of a person that nobody else approved: not judged
    GW_SIMULATION_OVERRIDE, // approved by another person
    GW_SIMULATION_SOURCE_COUNT
};

// Result of the simulate stage. All zero: none.
#define GW_SIMULATION_CLASSES_MAX 4 // ways to fail that are kept of evidence

// How virtual devices failed, and what most of them said.
struct gw_simulation_class {
    uint8_t outcome; // enum wire_outcome_kind, a failure
    uint64_t devices;
    char detail[WIRE_EVIDENCE_DETAIL_MAX + 1];
};

struct gw_simulation {
    enum gw_simulation_source source;
    uint64_t completed; // as judged
    uint64_t failed;
    // Of evidence.
    uint64_t seed;
    uint64_t drawn;              // virtual devices drawn to find those of the target
    uint64_t matched;            // those of the target: they were simulated
    struct wire_sha256 evidence; // of its envelope
    char simulator[WIRE_EVIDENCE_SIMULATOR_MAX + 1];
    uint64_t not_run; // among the failed: devices that came to no end
    uint32_t class_count;
    struct gw_simulation_class classes[GW_SIMULATION_CLASSES_MAX]; // the most frequent, first
    // Of an override.
    char by[GW_LOG_BY_MAX + 1];
    char reason[GW_LOG_REASON_MAX + 1];
    char approved_by[GW_LOG_BY_MAX + 1];
};

struct gw_rollout_view {
    uint64_t id;
    char task[WIRE_TASK_NAME_MAX + 1];
    struct wire_sha256 manifest;
    uint64_t version_id;
    uint64_t salt;
    uint64_t release_counter;
    uint64_t floor; // oldest counter of the task that may follow it
    uint64_t created_s;
    uint64_t stage_since_s;
    uint16_t priority;
    struct pol_arm arm;
    bool trust_unproven;
    uint32_t execution_timeout_s;
    enum pol_rollout_state state;
    bool stage_failed;
    bool before_first; // waits for approval of its first stage
    bool killed;
    bool paged;            // somebody was told of it
    bool passed;           // it paused itself when its stage passed
    bool guarding;         // the last stage is over, and the rollout judged still
    uint64_t guard_left_s; // ... for so long at most
    uint64_t outstanding;  // ... or until nobody is: targeted, and under way or not offered yet
    uint16_t stage_index;
    uint32_t stage_count;
    uint64_t revision; // one more with every change of state
    char created_by[GW_LOG_BY_MAX + 1];
    // of the last decision
    enum pol_verdict verdict;
    enum pol_reason reason;
    enum pol_reason cause; // for which it goes or went back, or was paused; NONE: it does neither
    uint32_t failure_ppm;
    struct pol_test_report shown; // by a sequential gate
    struct gw_simulation simulation;
    bool has_power; // a stage is open whose gate declares a rise
    struct pol_stage_power power;
    struct gw_rollout_trial_view trial;
    bool late; // completed, and failing more than its last stage may (late_failures.h)
    uint64_t late_failed;
    uint64_t late_completed;
    struct gw_rollout_counts counts; // all stages
    struct gw_rollout_stage_view stages[POL_STAGES_MAX];
    uint32_t behind_count;
    struct gw_beside behind[GW_TASK_OPEN_MAX]; // open rollouts that come first
    uint32_t before_count;
    struct gw_beside before[GW_TASK_OPEN_MAX]; // open rollouts that come after it
    uint32_t fingerprint_count;
    struct gw_rollout_fingerprint fingerprints[GW_ROLLOUT_FINGERPRINTS];
    uint32_t quarantine_count;
    struct gw_quarantined quarantine[GW_QUARANTINE_MAX];
    uint32_t slice_count;
    struct gw_rollout_slice slices[GW_ROLLOUT_SLICES];
};

enum gw_log_kind {
    GW_LOG_CREATED = 1,
    GW_LOG_COMMAND = 2,     // an operator's
    GW_LOG_DECISION = 3,    // the controller's
    GW_LOG_SIMULATION = 4,  // result of the simulate stage, or its approval
    GW_LOG_OBSERVATION = 5, // counts that moved the verdict, its reason, or themselves enough
    GW_LOG_CLOCK = 6,       // the clock had gone back when the gateway started
    GW_LOG_QUARANTINE = 7,  // a segment was taken out, or let in again; the comment says which
    GW_LOG_SLICES = 8,      // a look at the segments of the stage that took none out
    GW_LOG_KILL = 9, // the version came on the kill list, or off it; the rollout is as it was
    GW_LOG_KIND_LAST = GW_LOG_KILL,
};

// An observation is logged when the verdict or its reason changed, when the completed devices grew
// by one in so many, and at the latest after so long when anything changed. A look at segments that
// took none out is logged when the failures in them grew by one in so many.
#define GW_LOG_GROWTH   16u
#define GW_LOG_LATEST_S 60u

struct gw_rollout_log_view {
    uint64_t seq; // 1.. within the rollout
    uint64_t wall_us;
    uint64_t revision; // of the rollout after it
    enum gw_log_kind kind;
    struct pol_record record; // what decided and what was decided; replays run on it
    uint32_t failure_ppm;
    uint64_t rolled_back;
    char by[GW_LOG_BY_MAX + 1];
    char comment[GW_LOG_REASON_MAX + 1];
};

// Who asked, and why; optional, cut at their limits. `if_revision` not 0: only when the rollout
// still has this revision.
struct gw_rollout_who {
    struct base_str by;     // as the log shows it
    struct base_str person; // who that is (svc/access/operators.h); empty: `by`
    struct base_str comment;
    uint64_t if_revision;
    bool accept_empty; // of a start: see gw_rollout_spec
};
// Whom the four-eyes checks compare: `person`, or `by` where that is empty.
struct base_str gw_rollout_person(const struct gw_rollout_who *who);

// INVALID (what and where in `error`), NOT_FOUND (task or version), SIGNATURE and THRESHOLD
// (gw_director_check), CONFLICT (too many rollouts of the task are open, the counter is not above
// the task's, devices cannot be told of it (gw_scenario_room), no known device is targeted, or a
// device could not hold what the version and all others that may be there declare), EXISTS (id),
// FULL, IO.
BASE_NODISCARD enum base_status gw_rollout_create(struct gw_core *core,
                                                  const struct gw_rollout_spec *spec,
                                                  const struct gw_rollout_who *who,
                                                  struct gw_rollout_view *out,
                                                  struct base_error *error);
// What the call above refuses, and so would the start right behind it and the evidence that it is
// given (an envelope; data NULL: none), in the same words. Nothing is made.
BASE_NODISCARD enum base_status gw_rollout_check(struct gw_core *core,
                                                 const struct gw_rollout_spec *spec,
                                                 struct base_span evidence,
                                                 struct base_error *error);
// What the start of a draft refuses, and then the evidence that it is given, likewise.
BASE_NODISCARD enum base_status gw_rollout_check_start(struct gw_core *core, uint64_t id,
                                                       bool accept_empty, struct base_span evidence,
                                                       struct base_error *error);
// NOT_FOUND; CONFLICT: not allowed in this state (`error` has the policy's reason), another
// revision, approval by the person who created it, no room (gw_scenario_room), or a start that can
// reach no known device; SIGNATURE, THRESHOLD: it would lead on, and devices would not take what it
// says (gw_director_check).
BASE_NODISCARD enum base_status gw_rollout_command(struct gw_core *core, uint64_t id,
                                                   enum pol_command command,
                                                   const struct gw_rollout_who *who,
                                                   struct base_error *error);
// Evidence of the simulate stage, an envelope: the counts are what it says. Replaces an earlier
// result. NOT_FOUND; INVALID, SIGNATURE, CONFLICT (also: the rollout's current stage is not an open
// simulate stage) as gw_evidence_open.
BASE_NODISCARD enum base_status gw_rollout_evidence(struct gw_core *core, uint64_t id,
                                                    struct base_span envelope,
                                                    const struct gw_rollout_who *who,
                                                    struct base_error *error);
// Numbers that a person vouches for in place of evidence: so many virtual devices completed, and so
// many of them failed. They count once another person approves (POL_COMMAND_APPROVE). INVALID:
// `who` lacks a name or a reason; NOT_FOUND, CONFLICT as above.
BASE_NODISCARD enum base_status gw_rollout_override(struct gw_core *core, uint64_t id,
                                                    struct pol_sample typed,
                                                    const struct gw_rollout_who *who,
                                                    struct base_error *error);
// Lets a segment in again, named as the view names it; until the next stage opens it is not put in
// quarantine again, and counts in the stage's verdict. NOT_FOUND: no such rollout, or it is not in
// quarantine. Its devices are offered the release again.
BASE_NODISCARD enum base_status gw_rollout_lift(struct gw_core *core, uint64_t id,
                                                struct base_str segment,
                                                const struct gw_rollout_who *who,
                                                struct base_error *error);
// Names of segments of a rollout: those in quarantine, and those that devices completed in. Returns
// how many it wrote; 0: no such rollout.
#define GW_SEGMENT_NAMES_MAX (GW_QUARANTINE_MAX + 256u)
uint32_t gw_rollout_segment_names(struct gw_core *core, uint64_t id,
                                  struct gw_quarantined out[GW_SEGMENT_NAMES_MAX]);
BASE_NODISCARD enum base_status gw_rollout_get(struct gw_core *core, uint64_t id,
                                               struct gw_rollout_view *out);
// In the order of seq; `after` 0 begins.
BASE_NODISCARD enum base_status gw_rollout_log(struct gw_core *core, uint64_t id, uint64_t after,
                                               struct gw_rollout_log_view *out,
                                               struct gw_page *page);

#endif

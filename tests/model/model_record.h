// The model: what rollouts there are and how far each is, as plain data. It changes by operators'
// calls alone, and by no more than what was acknowledged. From it and policy/desired.h comes what
// every device should run. Nothing here asks the gateway.
//
// Targets, ladders of stages, arms and the window are entries of small tables, so that an operation
// names them by number; each has the text that the API is told and a rule of the model's own.
#ifndef MODEL_RECORD_H
#define MODEL_RECORD_H

#include "policy/bucket.h"
#include "policy/desired.h"
#include "policy/rollout.h"
#include "wire/trust/root.h"

#define MODEL_TASKS        3u
#define MODEL_VERSIONS     8u
#define MODEL_ROLLOUTS_MAX 192u
#define MODEL_STAGES_MAX   3u

#define MODEL_TARGETS 8u
#define MODEL_LADDERS 11u
#define MODEL_ARMS    4u
#define MODEL_GATES   3u
#define MODEL_GUARDS  4u

enum model_pace {
    MODEL_PACE_NONE,
    MODEL_PACE_STEADY,
    MODEL_PACE_RAMP,
    MODEL_PACE_CAP,
    MODEL_PACE_COUNT
};

#define MODEL_WINDOW_START_MIN (22u * 60u) // UTC
#define MODEL_WINDOW_MINUTES   240u

struct model_attrs {
    int os;   // 0, 1, 2: "a", "b", "c"
    int ring; // 0..3
    int beta; // of the channel "beta"
};

struct model_stage {
    enum pol_stage_kind kind;
    uint16_t share; // buckets below are in
    int audience;   // a target
};

struct model_ladder {
    uint32_t count;
    struct model_stage stages[MODEL_STAGES_MAX];
};

struct model_rollout {
    bool there;
    int task;
    int version;
    int target;
    int arm;
    int ladder;
    int window;
    int approval; // bit i: stage i opens by approval
    int priority;
    uint64_t id;
    uint64_t salt;
    uint64_t counter;
    uint64_t floor;
    enum pol_rollout_state state; // ROLLED_BACK stands for ROLLING_BACK as well
    uint32_t stage;
    bool before_first;
    bool started;
    bool simulated; // its simulate stage has a result
    int pace;
    int guard;
    bool guarding;    // behind its last stage, perhaps paused there
    uint32_t signers; // of its statements: a mask of keys
    uint32_t held;    // bit n: the devices of os n are in quarantine
    int gate;         // its gates decide, too: which; 0: operators alone
    bool failed;      // ... that its stage failed, while it was paused, or held then
};

// What roots ask of releases; pinned devices trust the first key. Bit i: key i of the world
// (model_seal.h).
enum model_root {
    MODEL_ROOT_OLD,
    MODEL_ROOT_NEW,
    MODEL_ROOT_EITHER,
    MODEL_ROOT_BOTH,
    MODEL_ROOT_COUNT
};

struct model_record {
    uint64_t seed; // ids and salts follow from it
    uint64_t counters[MODEL_TASKS];
    uint64_t root_version; // of the newest root; 0: the gateway serves none
    enum model_root root;
    bool killed[MODEL_TASKS][MODEL_VERSIONS];
    struct model_rollout rollouts[MODEL_ROLLOUTS_MAX]; // by label
};

const char *model_target_text(int target); // JSON
const char *model_gate_text(int gate);     // JSON: the value of max_failure and what follows
const char *model_pace_text(int pace);     // JSON of a stage, from the comma on; 0: ""
const char *model_guard_text(int guard);   // the same, of the last stage
bool model_target_has(int target, const struct model_attrs *attrs);
const struct model_ladder *model_ladder(int ladder);
bool model_stage_lets_in(const struct model_stage *stage); // for good: no shadow, no simulation
struct pol_arm model_arm(const struct model_record *record, int arm);
const char *model_task_name(int task);

uint64_t model_rollout_id(const struct model_record *record, uint32_t label);
// Fills what a rollout to be created would be, with the next counter of its task.
struct model_rollout model_rollout_draft(const struct model_record *record, const int64_t *args);
// May it be created, or commanded so? What goes back counts as open until all that can be reached
// went: MODEL_MAYBE, when that decides.
enum model_allowed { MODEL_NO, MODEL_MAYBE, MODEL_YES };
enum model_allowed model_create_allowed(const struct model_record *record,
                                        const struct model_rollout *rollout, uint32_t label);
bool model_command_allowed(const struct model_record *record, uint32_t label,
                           enum pol_command command);
// It was acknowledged.
void model_created(struct model_record *record, uint32_t label,
                   const struct model_rollout *rollout);
void model_commanded(struct model_record *record, uint32_t label, enum pol_command command);
void model_version_killed(struct model_record *record, int task, int version);
void model_version_unkilled(struct model_record *record, int task, int version);

// How many keys of which the root asks for.
struct wire_role model_root_releases(enum model_root root);

// Did enough keys of the newest root sign its statements?
bool model_is_signed(const struct model_record *record, const struct model_rollout *rollout);

// Was any rollout of the task started?
bool model_task_started(const struct model_record *record, int task);

// Where the controller has a rollout that its gates or its guard decide. False: no decision leads
// there.
bool model_decided(struct model_record *record, uint32_t label, const struct pol_rollout *state);

// What the device is, apart from what the record says of it.
struct model_facts {
    uint64_t device_id;
    struct model_attrs attrs;
    int have;                    // version; -1: none
    uint64_t approved;           // by which it has that, as its profile says; 0: none
    int refused;                 // version that failed there last; -1: none
    bool before[MODEL_VERSIONS]; // ... that failed there before
    uint64_t floor;
    uint64_t now_s; // offers of rollouts whose window is closed then are held back; 0: none are
    bool held;      // offers with a pace are held back
};

struct model_answer {
    int version; // -1: nothing
    enum pol_desired_rule rule;
    uint32_t rollout; // label of the claim; MODEL_ROLLOUTS_MAX: none
};

// What it should run of the task.
struct model_answer model_desired(const struct model_record *record, int task,
                                  const struct model_facts *facts);
// Seconds until the window opens; 0: it is open.
uint64_t model_window_wait_s(uint64_t now_s);

#endif

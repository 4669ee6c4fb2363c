// The record and its rules. Pure; one thread.
#include "model_record.h"

#include "base/prng.h"
#include "model_seal.h"

#include <string.h>

#define DAY_S      86400u
#define CLAIMS_MAX MODEL_ROLLOUTS_MAX
#define ARM_SALT   UINT64_C(0xa12)

#define MODEL_OPEN_MAX  8u
#define MODEL_BASES_MAX 16u

static const char *const tasks[MODEL_TASKS] = {"shop/score", "shop/rank", "ads/pick"};

static const char *const target_texts[MODEL_TARGETS] = {
    "[]",
    "[{\"attr\":\"os\",\"op\":\"==\",\"value\":\"a\"}]",
    "\"os == \\\"b\\\"\"",
    "\"ring < 2\"",
    "[{\"attr\":\"ring\",\"op\":\">=\",\"value\":2}]",
    "\"os == \\\"a\\\" && ring >= 1\"",
    "[{\"attr\":\"os\",\"op\":\"not_in\",\"value\":[\"c\"]}]",
    "\"channel == \\\"beta\\\"\"",
};

static const struct model_ladder ladders[MODEL_LADDERS] = {
    {1, {{POL_STAGE_FULL, 10000, 0}}},
    {1, {{POL_STAGE_GRAY, 5000, 0}}},
    {2, {{POL_STAGE_GRAY, 1000, 0}, {POL_STAGE_FULL, 10000, 0}}},
    {3, {{POL_STAGE_BETA, 10000, 7}, {POL_STAGE_GRAY, 2000, 0}, {POL_STAGE_FULL, 10000, 0}}},
    {2, {{POL_STAGE_GRAY, 500, 0}, {POL_STAGE_GRAY, 3000, 0}}},
    {1, {{POL_STAGE_BETA, 10000, 7}}},
    {2, {{POL_STAGE_GRAY, 3000, 0}, {POL_STAGE_FULL, 10000, 0}}},
    {2, {{POL_STAGE_GRAY, 2500, 1}, {POL_STAGE_FULL, 10000, 0}}},
    {1, {{POL_STAGE_FULL, 10000, 3}}},
    {3, {{POL_STAGE_SHADOW, 6000, 0}, {POL_STAGE_GRAY, 2000, 0}, {POL_STAGE_FULL, 10000, 0}}},
    {2, {{POL_STAGE_SIMULATE, 10000, 0}, {POL_STAGE_FULL, 10000, 0}}},
};

static const uint16_t arms[MODEL_ARMS][2] = {{0, 0}, {0, 5000}, {5000, 10000}, {0, 3000}};

static const char *const paces[MODEL_PACE_COUNT] = {
    "",
    ",\"rate\":{\"per_minute\":240}",
    ",\"rate\":{\"per_minute\":60,\"factor\":4,\"step\":2,\"of\":\"succeeded\",\"max_per_minute\":"
    "6000}",
    ",\"in_flight\":2",
};

static const char *const gates[MODEL_GATES] = {
    "1,\"min_sample\":1000000", "0.25,\"min_sample\":3",
    "0.4,\"min_sample\":1000", // holds, and has segments in quarantine
};

// `hold`: who fails it pauses it.
static const struct {
    uint32_t guard_s;
    bool hold;
    const char *text;
} guards[MODEL_GUARDS] = {
    {0, false, ",\"guard_s\":0"},
    {600, false, ",\"guard_s\":600"},
    {86400, false, ",\"guard_s\":86400"},
    {86400, true, ",\"guard_s\":86400,\"on_fail\":\"hold\""},
};

const char *model_guard_text(int guard)
{
    return guards[guard].text;
}

const char *model_gate_text(int gate)
{
    return gates[gate];
}

const char *model_pace_text(int pace)
{
    return paces[pace];
}

const char *model_target_text(int target)
{
    return target_texts[target];
}

bool model_target_has(int target, const struct model_attrs *attrs)
{
    switch (target) {
    case 1:
        return attrs->os == 0;
    case 2:
        return attrs->os == 1;
    case 3:
        return attrs->ring < 2;
    case 4:
        return attrs->ring >= 2;
    case 5:
        return attrs->os == 0 && attrs->ring >= 1;
    case 6:
        return attrs->os != 2;
    case 7:
        return attrs->beta != 0;
    default:
        return true;
    }
}

const struct model_ladder *model_ladder(int ladder)
{
    return &ladders[ladder];
}

bool model_stage_lets_in(const struct model_stage *stage)
{
    return stage->kind != POL_STAGE_SHADOW && stage->kind != POL_STAGE_SIMULATE;
}

const char *model_task_name(int task)
{
    return tasks[task];
}

struct pol_arm model_arm(const struct model_record *record, int arm)
{
    return arm == 0
               ? (struct pol_arm){0}
               : (struct pol_arm){base_mix64(record->seed ^ ARM_SALT), arms[arm][0], arms[arm][1]};
}

uint64_t model_rollout_id(const struct model_record *record, uint32_t label)
{
    return base_mix64(record->seed * 1000 + label) | 1u;
}

// ---- Creating and commanding

static bool is_closed(const struct model_rollout *rollout)
{
    return rollout->state == POL_ROLLOUT_COMPLETED || rollout->state == POL_ROLLOUT_ROLLED_BACK;
}

static bool is_base(const struct model_rollout *rollout)
{
    return rollout->state == POL_ROLLOUT_COMPLETED || rollout->guarding;
}

// The counter of the completed rollout that was approved last; 0: there is none.
static uint64_t newest_completed(const struct model_record *record, int task)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < MODEL_ROLLOUTS_MAX; i++) {
        const struct model_rollout *rollout = &record->rollouts[i];
        if (rollout->there && rollout->task == task && rollout->state == POL_ROLLOUT_COMPLETED &&
            rollout->counter > newest) {
            newest = rollout->counter;
        }
    }
    return newest;
}

struct wire_role model_root_releases(enum model_root root)
{
    static const uint16_t old = 1u << MODEL_KEY_RELEASE;
    static const uint16_t next = 1u << MODEL_KEY_RELEASE_NEXT;
    switch (root) {
    case MODEL_ROOT_NEW:
        return (struct wire_role){1, next};
    case MODEL_ROOT_EITHER:
        return (struct wire_role){1, (uint16_t)(old | next)};
    case MODEL_ROOT_BOTH:
        return (struct wire_role){2, (uint16_t)(old | next)};
    default:
        return (struct wire_role){1, old};
    }
}

bool model_is_signed(const struct model_record *record, const struct model_rollout *rollout)
{
    struct wire_role role = model_root_releases(record->root);
    return record->root_version == 0 ||
           __builtin_popcount(rollout->signers & role.keys) >= role.threshold;
}

struct model_rollout model_rollout_draft(const struct model_record *record, const int64_t *args)
{
    struct model_rollout rollout = {
        .task = (int)args[1],
        .version = (int)args[2],
        .priority = (int)args[3],
        .target = (int)args[4],
        .arm = (int)args[5],
        .ladder = (int)args[6],
        .window = (int)args[7],
        .approval = (int)args[8],
        .gate = (int)args[11],
        .pace = (int)args[12],
        .guard = (int)args[13],
        .state = POL_ROLLOUT_DRAFT,
    };
    // The pinned key always; the other where the root cannot do without.
    bool both = record->root == MODEL_ROOT_NEW || record->root == MODEL_ROOT_BOTH;
    rollout.signers = 1u << MODEL_KEY_RELEASE | (both ? 1u << MODEL_KEY_RELEASE_NEXT : 0);
    rollout.id = model_rollout_id(record, (uint32_t)args[0]);
    rollout.salt = base_mix64(rollout.id);
    rollout.counter = record->counters[rollout.task] + 1;
    rollout.floor = args[9] == 1   ? newest_completed(record, rollout.task)
                    : args[9] == 2 ? rollout.counter
                                   : 0;
    return rollout;
}

enum model_allowed model_create_allowed(const struct model_record *record,
                                        const struct model_rollout *rollout, uint32_t label)
{
    uint32_t open = 0;
    uint32_t going = 0;
    for (uint32_t i = 0; i < MODEL_ROLLOUTS_MAX; i++) {
        const struct model_rollout *other = &record->rollouts[i];
        if (other->there && other->task == rollout->task) {
            open += is_closed(other) || other->guarding ? 0 : 1;
            going += other->state == POL_ROLLOUT_ROLLED_BACK ? 1 : 0;
        }
    }
    if (record->rollouts[label].there || record->killed[rollout->task][rollout->version] ||
        open >= MODEL_OPEN_MAX) {
        return MODEL_NO;
    }
    return open + going < MODEL_OPEN_MAX ? MODEL_YES : MODEL_MAYBE;
}

bool model_command_allowed(const struct model_record *record, uint32_t label,
                           enum pol_command command)
{
    const struct model_rollout *rollout = &record->rollouts[label];
    enum pol_rollout_state state = rollout->state;
    if (!rollout->there) {
        return false;
    }
    switch (command) {
    case POL_COMMAND_START:
        return state == POL_ROLLOUT_DRAFT && model_is_signed(record, rollout);
    case POL_COMMAND_PAUSE:
        return state == POL_ROLLOUT_RUNNING || state == POL_ROLLOUT_GUARDING ||
               (state == POL_ROLLOUT_WAITING && !rollout->before_first);
    case POL_COMMAND_RESUME:
        return state == POL_ROLLOUT_PAUSED && !rollout->failed && model_is_signed(record, rollout);
    case POL_COMMAND_PROMOTE:
        return (state == POL_ROLLOUT_RUNNING || state == POL_ROLLOUT_GUARDING) &&
               model_is_signed(record, rollout) &&
               (rollout->simulated ||
                ladders[rollout->ladder].stages[rollout->stage].kind != POL_STAGE_SIMULATE);
    case POL_COMMAND_APPROVE:
        return state == POL_ROLLOUT_WAITING && model_is_signed(record, rollout);
    case POL_COMMAND_ABORT:
        return !is_closed(rollout);
    case POL_COMMAND_UNDO:
        return state == POL_ROLLOUT_COMPLETED || state == POL_ROLLOUT_GUARDING;
    default:
        return true;
    }
}

void model_created(struct model_record *record, uint32_t label, const struct model_rollout *rollout)
{
    record->rollouts[label] = *rollout;
    record->rollouts[label].there = true;
    record->counters[rollout->task] = rollout->counter;
}

// The next stage opens, or waits for approval; behind the last it is guarded or
// complete.
static void forward(struct model_rollout *rollout, uint32_t next, bool approved)
{
    if (rollout->guarding || next == ladders[rollout->ladder].count) {
        bool guarded = guards[rollout->guard].guard_s > 0 && !rollout->guarding;
        rollout->state = guarded ? POL_ROLLOUT_GUARDING : POL_ROLLOUT_COMPLETED;
        rollout->guarding = guarded;
        return;
    }
    if (!approved && (rollout->approval >> next & 1) != 0) {
        rollout->state = POL_ROLLOUT_WAITING;
        return;
    }
    rollout->state = POL_ROLLOUT_RUNNING;
    rollout->stage = next;
    rollout->before_first = false;
}

static void turn_back(struct model_rollout *rollout)
{
    rollout->state = POL_ROLLOUT_ROLLED_BACK;
    rollout->guarding = false;
}

void model_commanded(struct model_record *record, uint32_t label, enum pol_command command)
{
    struct model_rollout *rollout = &record->rollouts[label];
    switch (command) {
    case POL_COMMAND_START:
        rollout->started = true;
        rollout->before_first = true;
        forward(rollout, 0, false);
        break;
    case POL_COMMAND_PAUSE:
        rollout->state = POL_ROLLOUT_PAUSED;
        break;
    case POL_COMMAND_RESUME:
        rollout->state = rollout->guarding ? POL_ROLLOUT_GUARDING : POL_ROLLOUT_RUNNING;
        break;
    case POL_COMMAND_PROMOTE:
        forward(rollout, rollout->stage + 1, false);
        break;
    case POL_COMMAND_APPROVE:
        forward(rollout, rollout->before_first ? 0 : rollout->stage + 1, true);
        break;
    case POL_COMMAND_ABORT:
    case POL_COMMAND_UNDO:
        turn_back(rollout);
        break;
    default:
        turn_back(rollout);
        model_version_killed(record, rollout->task, rollout->version);
        break;
    }
}

void model_version_killed(struct model_record *record, int task, int version)
{
    record->killed[task][version] = true;
    for (uint32_t i = 0; i < MODEL_ROLLOUTS_MAX; i++) {
        struct model_rollout *rollout = &record->rollouts[i];
        if (rollout->there && rollout->task == task && rollout->version == version &&
            !is_closed(rollout)) {
            turn_back(rollout);
        }
    }
}

void model_version_unkilled(struct model_record *record, int task, int version)
{
    record->killed[task][version] = false;
}

bool model_task_started(const struct model_record *record, int task)
{
    bool started = false;
    for (uint32_t i = 0; i < MODEL_ROLLOUTS_MAX; i++) {
        const struct model_rollout *rollout = &record->rollouts[i];
        started = started || (rollout->there && rollout->task == task && rollout->started);
    }
    return started;
}

// May its gate lead it there, or its guard's end?
static bool may_lead(const struct model_rollout *rollout, const struct pol_rollout *state)
{
    bool over = rollout->state == POL_ROLLOUT_GUARDING && state->state == POL_ROLLOUT_COMPLETED;
    bool back = state->state == POL_ROLLOUT_ROLLING_BACK || state->state == POL_ROLLOUT_ROLLED_BACK;
    bool last = state->stage_index + 1u == ladders[rollout->ladder].count;
    bool hold = last && guards[rollout->guard].hold;
    bool failed = hold ? state->state == POL_ROLLOUT_PAUSED && state->stage_failed &&
                             (state->guarding || !rollout->guarding)
                       : back;
    bool on = state->stage_index >= rollout->stage &&
              (state->state == POL_ROLLOUT_RUNNING || state->state == POL_ROLLOUT_WAITING ||
               state->state == POL_ROLLOUT_GUARDING || state->state == POL_ROLLOUT_COMPLETED);
    switch (rollout->state) {
    case POL_ROLLOUT_RUNNING:
        return rollout->gate != 0 && (on || failed);
    case POL_ROLLOUT_WAITING:
        return rollout->gate != 0 && !rollout->before_first && failed;
    case POL_ROLLOUT_GUARDING:
        return over || (rollout->gate != 0 && failed);
    default:
        return false;
    }
}

bool model_decided(struct model_record *record, uint32_t label, const struct pol_rollout *state)
{
    struct model_rollout *rollout = &record->rollouts[label];
    bool leads = may_lead(rollout, state);
    if (leads &&
        (state->state == POL_ROLLOUT_ROLLING_BACK || state->state == POL_ROLLOUT_ROLLED_BACK)) {
        turn_back(rollout);
    } else if (leads) {
        rollout->state = state->state;
        rollout->stage = state->stage_index;
        rollout->guarding = state->guarding;
    }
    rollout->failed =
        rollout->gate != 0 && rollout->state == POL_ROLLOUT_PAUSED && state->stage_failed;
    return leads;
}

// ---- What a device should run

static bool claims(const struct model_record *record, const struct model_rollout *rollout, int task)
{
    bool open = rollout->state == POL_ROLLOUT_RUNNING || rollout->state == POL_ROLLOUT_PAUSED ||
                (rollout->state == POL_ROLLOUT_WAITING && !rollout->before_first);
    return rollout->there && rollout->task == task && (open || is_base(rollout)) &&
           !record->killed[task][rollout->version];
}

static enum pol_claim_state state_of(const struct model_rollout *rollout)
{
    bool paused = rollout->state == POL_ROLLOUT_PAUSED;
    if (is_base(rollout)) {
        return paused ? POL_CLAIM_HELD : POL_CLAIM_COMPLETED;
    }
    return paused ? POL_CLAIM_PAUSED : POL_CLAIM_OPEN;
}

static struct pol_claim claim_of(const struct model_record *record,
                                 const struct model_rollout *rollout,
                                 const struct model_facts *facts)
{
    const struct model_ladder *ladder = &ladders[rollout->ladder];
    const struct pol_arm arm = model_arm(record, rollout->arm);
    uint16_t bucket = pol_bucket(facts->device_id, rollout->salt);
    bool in_arm = pol_arm_has(&arm, facts->device_id);
    struct pol_claim claim = {
        .version = (uint64_t)rollout->version + 1,
        .approved = rollout->counter,
        .priority = (uint16_t)rollout->priority,
        .state = state_of(rollout),
        .targeted = in_arm && model_target_has(rollout->target, &facts->attrs),
        .refused = facts->before[rollout->version] && rollout->version != facts->have,
    };
    bool closed =
        rollout->window != 0 && facts->now_s != 0 && model_window_wait_s(facts->now_s) > 0;
    if (closed || (facts->held && rollout->pace != 0)) { // an offer that counts waits
        claim.state = claim.state == POL_CLAIM_OPEN            ? POL_CLAIM_PAUSED
                      : rollout->state == POL_ROLLOUT_GUARDING ? POL_CLAIM_HELD
                                                               : claim.state;
    }
    for (uint32_t i = 0; i <= rollout->stage && i < ladder->count; i++) {
        const struct model_stage *stage = &ladder->stages[i];
        bool share = model_stage_lets_in(stage) && bucket < stage->share;
        claim.inside = claim.inside || (in_arm && share);
        claim.admitted = claim.admitted || (claim.targeted && share &&
                                            model_target_has(stage->audience, &facts->attrs));
    }
    claim.held_off = (rollout->held >> facts->attrs.os & 1) != 0;
    claim.admitted = claim.admitted && !claim.held_off;
    return claim;
}

// Is it beyond the baselines of a task that are looked at (docs/RELEASES.md, Limits)?
static bool is_beyond(const struct model_record *record, const struct model_rollout *rollout)
{
    uint32_t later = 0;
    for (uint32_t i = 0; i < MODEL_ROLLOUTS_MAX; i++) {
        const struct model_rollout *other = &record->rollouts[i];
        later += claims(record, other, rollout->task) && other->counter > rollout->counter &&
                 is_base(other);
    }
    return is_base(rollout) && later >= MODEL_BASES_MAX;
}

struct model_answer model_desired(const struct model_record *record, int task,
                                  const struct model_facts *facts)
{
    struct pol_claim list[CLAIMS_MAX];
    uint32_t labels[CLAIMS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < MODEL_ROLLOUTS_MAX; i++) {
        if (claims(record, &record->rollouts[i], task) &&
            !is_beyond(record, &record->rollouts[i])) {
            labels[count] = i;
            list[count++] = claim_of(record, &record->rollouts[i], facts);
        }
    }
    const struct pol_desired_device device = {
        .have = (uint64_t)(facts->have + 1),
        .refused = (uint64_t)(facts->refused + 1),
        .floor = facts->floor,
        .approved = facts->approved,
    };
    struct pol_desired desired = pol_desired(list, count, &device);
    return (struct model_answer){
        .version = (int)desired.version - 1,
        .rule = desired.rule,
        .rollout = desired.claim < count ? labels[desired.claim] : MODEL_ROLLOUTS_MAX,
    };
}

// ---- The window

uint64_t model_window_wait_s(uint64_t now_s)
{
    uint64_t start_s = MODEL_WINDOW_START_MIN * 60u;
    uint64_t at_s = now_s % DAY_S;
    uint64_t since_s = (at_s + DAY_S - start_s) % DAY_S;
    return since_s < MODEL_WINDOW_MINUTES * 60u ? 0 : DAY_S - since_s;
}

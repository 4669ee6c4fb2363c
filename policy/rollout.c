// The rollout machine: what counts, time and operators decide.
//
// Called by the gateway's control thread for every open rollout, by the simulator, and by anybody
// who replays a recorded rollout: equal inputs give equal answers. Nothing is kept between calls.
#include "policy/rollout.h"

#include "policy/bucket.h"
#include "policy/stat/assert.h"

#include <float.h>
#include <stddef.h>

// ---- Stages ----

static bool conduct_ok(const struct pol_stage *stage)
{
    _Static_assert(POL_RETRIES_MAX < UINT8_MAX, "a stage can ask for too many, and be told so");
    if (!pol_gate_check(&stage->gate) || !pol_pace_check(&stage->pace) ||
        stage->window_count > POL_WINDOWS_MAX || stage->control_buckets > POL_BUCKET_COUNT) {
        return false;
    }
    if ((unsigned)stage->on_fail >= POL_ON_FAIL_COUNT ||
        (unsigned)stage->on_pass >= POL_ON_PASS_COUNT || stage->window_s > POL_STAGE_WINDOW_S_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < stage->window_count; i++) {
        if (!pol_window_check(&stage->windows[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < POL_FAILURE_COUNT; i++) {
        // With LOGRANK a device's first failure is its outcome: a second attempt would be judged by
        // how many of them the other cohort's devices get.
        bool again = stage->retries[i] > 0 && stage->gate.rule == POL_GATE_LOGRANK;
        if (stage->retries[i] > POL_RETRIES_MAX || again) {
            return false;
        }
    }
    return true;
}

static bool shadow_percent_ok(const struct pol_stage *stage, uint16_t percent)
{
    return percent == 0 || (stage->kind == POL_STAGE_SHADOW && percent >= POL_SHADOW_PERCENT_MIN &&
                            percent <= POL_SHADOW_PERCENT_MAX);
}

// What names may be is the signed statement's to say, with which the stage must agree.
static bool tolerances_ok(const struct pol_stage *stage)
{
    if (stage->tolerance_count > (stage->kind == POL_STAGE_SHADOW ? POL_TOLERANCES_MAX : 0)) {
        return false;
    }
    for (uint32_t i = 0; i < stage->tolerance_count; i++) {
        const struct pol_tolerance *item = &stage->tolerances[i];
        if (!(item->absolute >= 0 && item->absolute <= DBL_MAX && item->relative >= 0 &&
              item->relative <= 1) ||
            item->field_size > POL_TOLERANCE_FIELD_MAX) {
            return false;
        }
    }
    return true;
}

static bool shadow_ok(const struct pol_stage *stage, bool last)
{
    return !(last && stage->kind == POL_STAGE_SHADOW) && tolerances_ok(stage) &&
           shadow_percent_ok(stage, stage->shadow_slow_percent) &&
           shadow_percent_ok(stage, stage->shadow_memory_percent);
}

static bool guard_ok(const struct pol_stage *stage, bool last)
{
    return stage->guard_s <= (last ? POL_STAGE_GUARD_S_MAX : 0);
}

uint32_t pol_stages_reach_check(const struct pol_stage *stages, uint32_t count)
{
    uint16_t widest_gray = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct pol_stage *stage = &stages[i];
        if (stage->max_bucket < 1 || stage->max_bucket > POL_BUCKET_COUNT ||
            (stage->kind == POL_STAGE_FULL && stage->max_bucket != POL_BUCKET_COUNT) ||
            (stage->kind == POL_STAGE_GRAY && stage->max_bucket < widest_gray)) {
            return i;
        }
        widest_gray = stage->kind == POL_STAGE_GRAY ? stage->max_bucket : widest_gray;
    }
    return count;
}

enum pol_reason pol_stages_check(const struct pol_stage *stages, uint32_t count)
{
    if (count == 0 || count > POL_STAGES_MAX || pol_stages_reach_check(stages, count) != count) {
        return POL_REASON_STAGES_INVALID;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct pol_stage *stage = &stages[i];
        uint32_t cond_index;
        if ((unsigned)stage->kind >= POL_STAGE_KIND_COUNT ||
            pol_target_check(&stage->audience, &cond_index) != POL_REASON_MATCHED ||
            !conduct_ok(stage) || !pol_fallback_limits_check(&stage->cloud) ||
            !shadow_ok(stage, i + 1 == count) || !guard_ok(stage, i + 1 == count)) {
            return POL_REASON_STAGES_INVALID;
        }
    }
    return POL_REASON_MATCHED;
}

void pol_stage_control_band(const struct pol_stage *stage, uint16_t *out_from, uint16_t *out_to)
{
    // A beta stage is chosen by audience: its control are devices outside of it, from bucket 0 on.
    uint32_t from = stage->max_bucket < POL_BUCKET_COUNT ? stage->max_bucket : 0;
    uint32_t to = from + stage->control_buckets;
    bool has = stage->kind == POL_STAGE_GRAY || stage->kind == POL_STAGE_BETA;
    if (!has || (stage->kind == POL_STAGE_GRAY && stage->max_bucket == POL_BUCKET_COUNT)) {
        to = from;
    }
    pol_assert(from <= to);
    pol_assert(from <= POL_BUCKET_COUNT);
    *out_from = (uint16_t)from;
    *out_to = (uint16_t)(to < POL_BUCKET_COUNT ? to : POL_BUCKET_COUNT);
}

static bool makes_offers(const struct pol_stage *stage)
{
    return stage->kind != POL_STAGE_SIMULATE && stage->kind != POL_STAGE_SHADOW;
}

static bool for_everybody(const struct pol_stage *stage)
{
    return stage->audience.cond_count == 0 && stage->audience.expr == NULL;
}

// The widest share that a stage before let in: of those whose bit is in the mask.
static uint16_t share_before(const struct pol_stage *stages, uint32_t index, uint32_t mask)
{
    uint16_t share = 0;
    pol_assert(index < POL_STAGES_MAX); // as many bits the mask has
    for (uint32_t i = 0; i < index; i++) {
        bool in = makes_offers(&stages[i]) && (mask >> i & 1) != 0;
        share = in && stages[i].max_bucket > share ? stages[i].max_bucket : share;
    }
    return share;
}

static uint32_t mask_of_all(const struct pol_stage *stages, uint32_t index)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < index; i++) {
        mask |= for_everybody(&stages[i]) ? UINT32_C(1) << i : 0;
    }
    return mask;
}

bool pol_stage_trial(const struct pol_stage *stages, uint32_t index, struct pol_trial_span *out)
{
    const struct pol_stage *stage = &stages[index];
    uint16_t from = 0;
    uint16_t to = 0;
    pol_stage_control_band(stage, &from, &to);
    *out = (struct pol_trial_span){.from = share_before(stages, index, mask_of_all(stages, index)),
                                   .middle = stage->max_bucket,
                                   .to = stage->max_bucket};
    bool has = stage->gate.rule == POL_GATE_LOGRANK && makes_offers(stage) && to > from &&
               from == stage->max_bucket; // a beta stage's band lies elsewhere when it takes all
    if (!has || out->from >= out->middle) {
        return false;
    }
    out->to = to;
    pol_assert(out->from < out->middle);
    pol_assert(out->middle < out->to);
    return true;
}

bool pol_rollout_trial(const struct pol_rollout *rollout, const struct pol_stage *stages,
                       uint32_t stage_count, uint32_t audience_mask, struct pol_trial_span *out)
{
    uint32_t index = rollout->stage_index;
    bool open = (rollout->state == POL_ROLLOUT_RUNNING || rollout->state == POL_ROLLOUT_WAITING) &&
                !rollout->before_first && index < stage_count;
    return open && (audience_mask >> index & 1) != 0 && pol_stage_trial(stages, index, out) &&
           share_before(stages, index, audience_mask) == out->from;
}

// ---- Time and counts ----

static struct pol_decision hold(const struct pol_rollout *rollout, enum pol_reason reason)
{
    return (struct pol_decision){.action = POL_ACTION_HOLD,
                                 .verdict = POL_VERDICT_NO_DATA,
                                 .reason = reason,
                                 .failure_ppm = 0,
                                 .next = *rollout};
}

static void open_stage(struct pol_decision *decision, uint16_t index, uint64_t now_us)
{
    struct pol_rollout *next = &decision->next;
    pol_assert(!next->guarding); // behind the guard comes no stage
    next->state = POL_ROLLOUT_RUNNING;
    next->stage_index = index;
    next->before_first = false;
    next->stage_failed = false;
    next->paged = false;
    next->stage_since_us = now_us;
    decision->action = POL_ACTION_ADVANCE;
}

static void complete(struct pol_decision *decision)
{
    decision->next.state = POL_ROLLOUT_COMPLETED;
    decision->next.guarding = false;
    decision->action = POL_ACTION_COMPLETE;
}

static void begin_guard(struct pol_decision *decision, uint64_t now_us)
{
    decision->next.state = POL_ROLLOUT_GUARDING;
    decision->next.guarding = true;
    decision->next.paged = false;
    decision->next.stage_since_us = now_us;
    decision->action = POL_ACTION_GUARD;
}

// Behind the last stage. Who failed it, or ends the guard, is not guarded any more: it would fail
// again at the next tick.
static void finish(struct pol_decision *decision, const struct pol_stage *last, uint64_t now_us)
{
    const struct pol_rollout *next = &decision->next;
    if (last->guard_s > 0 && !next->guarding && !next->stage_failed) {
        begin_guard(decision, now_us);
    } else {
        complete(decision);
    }
    decision->next.stage_failed = false;
}

// Goes to the stage behind the current one (or the first): opens it, waits for its approval, or
// guards or completes the rollout when there is none.
static void go_on(struct pol_decision *decision, const struct pol_stage *stages,
                  uint32_t stage_count, uint64_t now_us, bool approved)
{
    struct pol_rollout *next = &decision->next;
    pol_assert(stage_count > 0);
    pol_assert(next->stage_index < stage_count);
    uint32_t index = next->before_first ? 0 : next->stage_index + 1u;
    next->passed = false;
    if (next->guarding || index >= stage_count) {
        finish(decision, &stages[stage_count - 1], now_us);
        return;
    }
    next->stage_failed = false;
    if (stages[index].approval && !approved) {
        next->state = POL_ROLLOUT_WAITING;
        decision->action = POL_ACTION_WAIT;
    } else {
        open_stage(decision, (uint16_t)index, now_us);
    }
}

// Everybody goes back. What was guarded or paused is no more.
static void turn_back(struct pol_decision *decision)
{
    decision->action = POL_ACTION_ROLL_BACK;
    decision->next.state = POL_ROLLOUT_ROLLING_BACK;
    decision->next.guarding = false;
    decision->next.passed = false;
}

// Somebody is told where nobody has to be looking: behind the last stage, in a pause that nobody
// asked for, and where the rest is a person's to do.
static void fail_stage(struct pol_decision *decision, const struct pol_stage *stage)
{
    struct pol_rollout *next = &decision->next;
    pol_assert(decision->verdict == POL_VERDICT_FAIL);
    bool holds = stage->on_fail == POL_ON_FAIL_HOLD;
    decision->page = holds || next->guarding || next->passed;
    next->paged = next->paged || decision->page;
    next->stage_failed = true;
    if (holds) {
        decision->action = POL_ACTION_PAUSE;
        next->state = POL_ROLLOUT_PAUSED;
        next->passed = false;
    } else {
        turn_back(decision);
    }
}

static void pass_stage(struct pol_decision *decision, const struct pol_stage *stages,
                       uint32_t stage_count, uint64_t now_us)
{
    pol_assert(decision->verdict == POL_VERDICT_PASS);
    pol_assert(!decision->next.before_first);
    bool last = decision->next.stage_index + 1u >= stage_count;
    if (stages[decision->next.stage_index].on_pass == POL_ON_PASS_PAUSE) {
        decision->action = POL_ACTION_PAUSE;
        decision->reason = POL_REASON_STAGE_PASSED;
        decision->next.state = POL_ROLLOUT_PAUSED;
        decision->next.passed = true;
        return;
    }
    go_on(decision, stages, stage_count, now_us, false);
    if (last) {
        decision->reason = POL_REASON_LAST_STAGE_PASSED;
    }
}

static void tick_running(struct pol_decision *decision, const struct pol_stage *stages,
                         uint32_t stage_count, uint64_t now_us)
{
    if (decision->verdict == POL_VERDICT_FAIL) {
        fail_stage(decision, &stages[decision->next.stage_index]);
    } else if (decision->verdict == POL_VERDICT_PASS) {
        pass_stage(decision, stages, stage_count, now_us);
    } else if (decision->reason == POL_REASON_NO_DATA_TOO_LONG && !decision->next.paged) {
        decision->action = POL_ACTION_PAGE;
        decision->page = true;
        decision->next.paged = true;
    }
}

static void tick_waiting(struct pol_decision *decision, const struct pol_stage *stage)
{
    if (decision->verdict == POL_VERDICT_FAIL) {
        fail_stage(decision, stage);
        return;
    }
    decision->reason = POL_REASON_APPROVAL_PENDING;
}

// A rollout that a person paused moves by command only, but a stage that fails meanwhile is
// remembered, so that resuming has to accept the risk. One that paused itself is nobody's yet: it
// is judged as one that runs.
static void tick_paused(struct pol_decision *decision, const struct pol_stage *stage)
{
    bool passed = decision->next.passed;
    bool fails = decision->verdict == POL_VERDICT_FAIL && !decision->next.stage_failed;
    if (fails && passed) {
        fail_stage(decision, stage);
    } else if (fails) {
        decision->action = POL_ACTION_PAUSE;
        decision->next.stage_failed = true;
    } else {
        decision->reason = passed ? POL_REASON_STAGE_PASSED : POL_REASON_ROLLOUT_PAUSED;
    }
}

static void tick_guarding(struct pol_decision *decision, const struct pol_stage *stage,
                          const struct pol_counts *counts, uint64_t now_us)
{
    uint64_t since_us = decision->next.stage_since_us;
    uint64_t guarded_us = now_us > since_us ? now_us - since_us : 0;
    if (decision->verdict == POL_VERDICT_FAIL) {
        fail_stage(decision, stage);
        return;
    }
    decision->verdict = POL_VERDICT_PASS; // its last stage passed, and nothing speaks against it
    if (counts->outstanding == 0) {
        complete(decision);
        decision->reason = POL_REASON_NOBODY_OUTSTANDING;
    } else if (guarded_us >= (uint64_t)stage->guard_s * 1000000u) {
        complete(decision);
        decision->reason = POL_REASON_GUARD_OVER;
    } else {
        decision->reason = POL_REASON_GUARDING;
    }
}

static void tick_rolling_back(struct pol_decision *decision, const struct pol_counts *counts)
{
    if (counts->to_roll_back > 0) {
        decision->reason = POL_REASON_ROLLBACK_RUNNING;
        return;
    }
    decision->action = POL_ACTION_FINISH_ROLL_BACK;
    decision->reason = POL_REASON_ROLLBACK_COMPLETE;
    decision->next.state = POL_ROLLOUT_ROLLED_BACK;
}

static void tick_state(struct pol_decision *decision, const struct pol_stage *stages,
                       uint32_t stage_count, const struct pol_counts *counts, uint64_t now_us)
{
    pol_assert(decision->next.stage_index < stage_count);
    pol_assert(decision->next.state != POL_ROLLOUT_DRAFT);
    const struct pol_stage *stage = &stages[decision->next.stage_index];
    switch (decision->next.state) {
    case POL_ROLLOUT_RUNNING:
        tick_running(decision, stages, stage_count, now_us);
        break;
    case POL_ROLLOUT_WAITING:
        tick_waiting(decision, stage);
        break;
    case POL_ROLLOUT_PAUSED:
        tick_paused(decision, stage);
        break;
    case POL_ROLLOUT_GUARDING:
        tick_guarding(decision, stage, counts, now_us);
        break;
    case POL_ROLLOUT_ROLLING_BACK:
        tick_rolling_back(decision, counts);
        break;
    case POL_ROLLOUT_ROLLED_BACK:
        decision->reason = POL_REASON_ROLLOUT_ROLLED_BACK;
        break;
    case POL_ROLLOUT_COMPLETED:
        decision->reason = POL_REASON_LAST_STAGE_PASSED;
        break;
    case POL_ROLLOUT_DRAFT:
    case POL_ROLLOUT_STATE_COUNT:
        break;
    }
}

struct pol_decision pol_rollout_tick(const struct pol_rollout *rollout,
                                     const struct pol_stage *stages, uint32_t stage_count,
                                     const struct pol_counts *counts, uint64_t now_us)
{
    struct pol_decision decision = hold(rollout, POL_REASON_ROLLOUT_NOT_STARTED);
    if (rollout->state == POL_ROLLOUT_DRAFT) {
        return decision;
    }
    if (rollout->stage_index >= stage_count ||
        (unsigned)rollout->state >= POL_ROLLOUT_STATE_COUNT) {
        decision.reason = POL_REASON_STAGES_INVALID;
        return decision;
    }
    if (!rollout->before_first) {
        const struct pol_stage *stage = &stages[rollout->stage_index];
        uint64_t since_us = rollout->stage_since_us;
        struct pol_judgement judgement;
        pol_gate_judge(&stage->gate, counts, now_us > since_us ? now_us - since_us : 0, &judgement);
        decision.verdict = judgement.verdict;
        decision.reason = judgement.reason;
        decision.failure_ppm = judgement.failure_ppm;
        decision.shown = judgement.shown;
        if (decision.reason == POL_REASON_NO_COMPLETIONS && stage->kind == POL_STAGE_SIMULATE) {
            decision.reason = POL_REASON_SIMULATION_PENDING;
        }
    }
    tick_state(&decision, stages, stage_count, counts, now_us);
    pol_assert(decision.next.stage_index < stage_count);
    pol_assert(decision.action != POL_ACTION_REFUSE); // only commands are
    return decision;
}

// ---- Commands ----

static struct pol_decision refuse(const struct pol_rollout *rollout, enum pol_reason reason)
{
    struct pol_decision decision = hold(rollout, reason);
    decision.action = POL_ACTION_REFUSE;
    return decision;
}

static struct pol_decision move(const struct pol_rollout *rollout, enum pol_action action,
                                enum pol_rollout_state state)
{
    struct pol_decision decision = hold(rollout, POL_REASON_OPERATOR);
    decision.action = action;
    decision.next.state = state;
    return decision;
}

static struct pol_decision forward(const struct pol_rollout *rollout,
                                   const struct pol_stage *stages, uint32_t stage_count,
                                   uint64_t now_us, bool approved)
{
    struct pol_decision decision = hold(rollout, POL_REASON_OPERATOR);
    go_on(&decision, stages, stage_count, now_us, approved);
    return decision;
}

static struct pol_decision start(const struct pol_rollout *rollout, const struct pol_stage *stages,
                                 uint32_t stage_count, uint64_t now_us)
{
    if (rollout->state != POL_ROLLOUT_DRAFT) {
        return refuse(rollout, POL_REASON_WRONG_STATE);
    }
    struct pol_rollout fresh = *rollout;
    fresh.stage_index = 0;
    fresh.before_first = true;
    return forward(&fresh, stages, stage_count, now_us, false);
}

static struct pol_decision pause(const struct pol_rollout *rollout)
{
    bool open = rollout->state == POL_ROLLOUT_RUNNING || rollout->state == POL_ROLLOUT_GUARDING ||
                (rollout->state == POL_ROLLOUT_WAITING && !rollout->before_first);
    return open ? move(rollout, POL_ACTION_PAUSE, POL_ROLLOUT_PAUSED)
                : refuse(rollout, POL_REASON_WRONG_STATE);
}

static struct pol_decision resume(const struct pol_rollout *rollout, const struct pol_stage *stages,
                                  uint32_t stage_count, uint64_t now_us, bool accept_risk)
{
    if (rollout->state != POL_ROLLOUT_PAUSED) {
        return refuse(rollout, POL_REASON_WRONG_STATE);
    }
    if (rollout->stage_failed && !accept_risk) {
        return refuse(rollout, POL_REASON_STAGE_FAILED);
    }
    if (rollout->stage_failed) {
        // Staying in the failed stage would fail it again at the next tick.
        return forward(rollout, stages, stage_count, now_us, false);
    }
    if (rollout->passed) {
        return refuse(rollout, POL_REASON_STAGE_PASSED); // it would pause itself again
    }
    return move(rollout, POL_ACTION_RESUME,
                rollout->guarding ? POL_ROLLOUT_GUARDING : POL_ROLLOUT_RUNNING);
}

static struct pol_decision promote(const struct pol_rollout *rollout,
                                   const struct pol_stage *stages, uint32_t stage_count,
                                   uint64_t now_us)
{
    bool waits = rollout->state == POL_ROLLOUT_PAUSED && rollout->passed;
    if (rollout->state != POL_ROLLOUT_RUNNING && rollout->state != POL_ROLLOUT_GUARDING && !waits) {
        return refuse(rollout, POL_REASON_WRONG_STATE);
    }
    if (rollout->stage_failed) {
        return refuse(rollout, POL_REASON_STAGE_FAILED);
    }
    return forward(rollout, stages, stage_count, now_us, false);
}

static struct pol_decision go_back(const struct pol_rollout *rollout)
{
    struct pol_decision decision = hold(rollout, POL_REASON_OPERATOR);
    turn_back(&decision);
    return decision;
}

static struct pol_decision abort_rollout(const struct pol_rollout *rollout)
{
    switch (rollout->state) {
    case POL_ROLLOUT_DRAFT: // nothing was offered: the next tick finds nobody to roll back
    case POL_ROLLOUT_RUNNING:
    case POL_ROLLOUT_WAITING:
    case POL_ROLLOUT_PAUSED:
    case POL_ROLLOUT_GUARDING:
        return go_back(rollout);
    default:
        return refuse(rollout, POL_REASON_WRONG_STATE);
    }
}

static struct pol_decision kill_version(const struct pol_rollout *rollout)
{
    bool going_back =
        rollout->state == POL_ROLLOUT_ROLLING_BACK || rollout->state == POL_ROLLOUT_ROLLED_BACK;
    if (rollout->killed || (unsigned)rollout->state >= POL_ROLLOUT_STATE_COUNT) {
        return refuse(rollout, POL_REASON_WRONG_STATE);
    }
    struct pol_decision decision =
        going_back ? move(rollout, POL_ACTION_KILL, rollout->state) : go_back(rollout);
    decision.next.killed = true;
    decision.reason = POL_REASON_KILLED;
    return decision;
}

static struct pol_decision obey(const struct pol_rollout *rollout, const struct pol_stage *stages,
                                uint32_t stage_count, enum pol_command command, uint64_t now_us)
{
    if (stage_count == 0 || stage_count > POL_STAGES_MAX || rollout->stage_index >= stage_count) {
        return refuse(rollout, POL_REASON_STAGES_INVALID);
    }
    pol_assert((unsigned)command <= POL_COMMAND_COUNT);
    switch (command) {
    case POL_COMMAND_START:
        return start(rollout, stages, stage_count, now_us);
    case POL_COMMAND_PAUSE:
        return pause(rollout);
    case POL_COMMAND_RESUME:
    case POL_COMMAND_RESUME_ACCEPT_RISK:
        return resume(rollout, stages, stage_count, now_us, command != POL_COMMAND_RESUME);
    case POL_COMMAND_PROMOTE:
        return promote(rollout, stages, stage_count, now_us);
    case POL_COMMAND_ABORT:
        return abort_rollout(rollout);
    case POL_COMMAND_APPROVE:
        return rollout->state == POL_ROLLOUT_WAITING
                   ? forward(rollout, stages, stage_count, now_us, true)
                   : refuse(rollout, POL_REASON_WRONG_STATE);
    case POL_COMMAND_UNDO:
        return rollout->state == POL_ROLLOUT_COMPLETED || rollout->state == POL_ROLLOUT_GUARDING
                   ? go_back(rollout)
                   : refuse(rollout, POL_REASON_WRONG_STATE);
    case POL_COMMAND_KILL:
        return kill_version(rollout);
    case POL_COMMAND_COUNT:
        break;
    }
    return refuse(rollout, POL_REASON_WRONG_STATE);
}

// What an operator asked for, by name.
static enum pol_reason reason_of(enum pol_command command, bool stage_failed)
{
    pol_assert((unsigned)command < POL_COMMAND_COUNT); // others were refused
    switch (command) {
    case POL_COMMAND_START:
        return POL_REASON_STARTED;
    case POL_COMMAND_PAUSE:
        return POL_REASON_PAUSED;
    case POL_COMMAND_RESUME:
        return POL_REASON_RESUMED;
    case POL_COMMAND_RESUME_ACCEPT_RISK:
        return stage_failed ? POL_REASON_RISK_ACCEPTED : POL_REASON_RESUMED;
    case POL_COMMAND_PROMOTE:
        return POL_REASON_PROMOTED;
    case POL_COMMAND_ABORT:
        return POL_REASON_ABORTED;
    case POL_COMMAND_APPROVE:
        return POL_REASON_APPROVED;
    case POL_COMMAND_UNDO:
        return POL_REASON_UNDONE;
    case POL_COMMAND_KILL:
        return POL_REASON_KILLED;
    case POL_COMMAND_COUNT:
        break;
    }
    return POL_REASON_OPERATOR;
}

struct pol_decision pol_rollout_command(const struct pol_rollout *rollout,
                                        const struct pol_stage *stages, uint32_t stage_count,
                                        enum pol_command command, uint64_t now_us)
{
    struct pol_decision decision = obey(rollout, stages, stage_count, command, now_us);
    if (decision.reason == POL_REASON_OPERATOR) {
        decision.reason = reason_of(command, rollout->stage_failed);
    }
    return decision;
}

// ---- Admission ----

static struct pol_match not_admitted(enum pol_reason reason)
{
    return (struct pol_match){.matched = false, .reason = reason, .cond_index = 0};
}

// Which stages are looked through, all of them open: for those that let devices in as a shadow, or
// those that let them in for good.
struct open_stages {
    const struct pol_stage *stages;
    uint32_t first, last;
    bool shadow;
};

static struct pol_match admit_open(struct open_stages open, struct pol_candidate candidate)
{
    const struct pol_stage *stages = open.stages;
    pol_assert(open.first <= open.last);
    pol_assert(open.last < POL_STAGES_MAX);
    bool in_audience = false;
    for (uint32_t i = open.first; i <= open.last; i++) {
        bool fits = stages[i].kind != POL_STAGE_SIMULATE &&
                    (stages[i].kind == POL_STAGE_SHADOW) == open.shadow;
        if (!fits || (candidate.audience_mask >> i & 1) == 0) {
            continue;
        }
        in_audience = true;
        if (candidate.bucket < stages[i].max_bucket) {
            return (struct pol_match){
                .matched = true, .reason = POL_REASON_IN_STAGE, .cond_index = i};
        }
    }
    return not_admitted(in_audience ? POL_REASON_OUTSIDE_BUCKET : POL_REASON_OUTSIDE_AUDIENCE);
}

// Why nobody is let in, whatever the device; MATCHED: some are.
static enum pol_reason shut(const struct pol_rollout *rollout, uint32_t stage_count)
{
    if (stage_count > POL_STAGES_MAX || rollout->stage_index >= stage_count) {
        return POL_REASON_STAGES_INVALID;
    }
    pol_assert((unsigned)rollout->state <= POL_ROLLOUT_STATE_COUNT); // what is none lets nobody in
    switch (rollout->state) {
    case POL_ROLLOUT_DRAFT:
        return POL_REASON_ROLLOUT_NOT_STARTED;
    case POL_ROLLOUT_PAUSED:
        return POL_REASON_ROLLOUT_PAUSED;
    case POL_ROLLOUT_ROLLING_BACK:
    case POL_ROLLOUT_ROLLED_BACK:
        return POL_REASON_ROLLOUT_ROLLED_BACK;
    case POL_ROLLOUT_WAITING:
    case POL_ROLLOUT_RUNNING:
    case POL_ROLLOUT_COMPLETED:
    case POL_ROLLOUT_GUARDING:
        break;
    case POL_ROLLOUT_STATE_COUNT:
        return POL_REASON_STAGES_INVALID;
    }
    return rollout->before_first ? POL_REASON_ROLLOUT_NOT_STARTED : POL_REASON_MATCHED;
}

struct pol_match pol_rollout_admits(const struct pol_rollout *rollout,
                                    const struct pol_stage *stages, uint32_t stage_count,
                                    struct pol_candidate candidate)
{
    enum pol_reason reason = shut(rollout, stage_count);
    if (reason != POL_REASON_MATCHED) {
        return not_admitted(reason);
    }
    if (!candidate.targeted) {
        return not_admitted(POL_REASON_NOT_TARGETED);
    }
    return admit_open((struct open_stages){stages, 0, rollout->stage_index, false}, candidate);
}

struct pol_match pol_rollout_shadows(const struct pol_rollout *rollout,
                                     const struct pol_stage *stages, uint32_t stage_count,
                                     struct pol_candidate candidate)
{
    enum pol_reason reason = shut(rollout, stage_count);
    if (reason != POL_REASON_MATCHED) {
        return not_admitted(reason);
    }
    if (!candidate.targeted) {
        return not_admitted(POL_REASON_NOT_TARGETED);
    }
    uint32_t newest = rollout->stage_index;
    return admit_open((struct open_stages){stages, newest, newest, true}, candidate);
}

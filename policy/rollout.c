// The rollout machine: what counts, time and operators decide.
//
// Called by the gateway's control thread for every open rollout, by the simulator, and by anybody
// who replays a recorded rollout: equal inputs give equal answers. Nothing is kept between calls.
#include "policy/rollout.h"

#include "policy/bucket.h"

#define MILLION 1000000u

// ---- Stages and gates ----

enum pol_reason pol_stages_check(const struct pol_stage *stages, uint32_t count)
{
    if (count == 0 || count > POL_STAGES_MAX) {
        return POL_REASON_STAGES_INVALID;
    }
    uint16_t widest_gray = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct pol_stage *stage = &stages[i];
        uint32_t cond_index;
        bool bucket_ok = stage->max_bucket >= 1 && stage->max_bucket <= POL_BUCKET_COUNT;
        if (!bucket_ok || (unsigned)stage->kind >= POL_STAGE_KIND_COUNT) {
            return POL_REASON_STAGES_INVALID;
        }
        if (stage->kind == POL_STAGE_FULL && stage->max_bucket != POL_BUCKET_COUNT) {
            return POL_REASON_STAGES_INVALID;
        }
        if (stage->kind == POL_STAGE_GRAY && stage->max_bucket < widest_gray) {
            return POL_REASON_STAGES_INVALID;
        }
        if (pol_target_check(&stage->audience, &cond_index) != POL_REASON_MATCHED) {
            return POL_REASON_STAGES_INVALID;
        }
        if (stage->kind == POL_STAGE_GRAY) {
            widest_gray = stage->max_bucket;
        }
    }
    return POL_REASON_MATCHED;
}

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

// failures / total in parts per million, rounded down; failures <= total, total > 0.
static uint32_t ratio_ppm(uint64_t failures, uint64_t total)
{
    while (failures > UINT64_MAX / MILLION) {
        failures >>= 1;
        total >>= 1;
    }
    return (uint32_t)(failures * MILLION / total);
}

// failures / total > limit, exact.
static bool over_limit(uint64_t failures, uint64_t total, uint32_t limit_ppm)
{
    return (unsigned __int128)failures * MILLION > (unsigned __int128)total * limit_ppm;
}

enum pol_verdict pol_gate_verdict(const struct pol_gate *gate, const struct pol_counts *counts,
                                  uint64_t in_stage_us, enum pol_reason *out_reason,
                                  uint32_t *out_failure_ppm)
{
    uint64_t failures = add_saturated(counts->failed, counts->timed_out);
    uint64_t completed = add_saturated(counts->succeeded, failures);
    *out_failure_ppm = 0;
    if (completed == 0) {
        *out_reason = POL_REASON_NO_COMPLETIONS;
        return POL_VERDICT_NO_DATA;
    }
    *out_failure_ppm = ratio_ppm(failures, completed);
    // Below the minimum sample, failures count as if the rest of the sample were to succeed: what
    // fails even so need not wait, and a stage too small to fill its sample can still fail.
    uint64_t sample = completed > gate->min_sample ? completed : gate->min_sample;
    if (over_limit(failures, sample, gate->max_failure_ppm)) {
        *out_reason = POL_REASON_FAILURES_OVER_LIMIT;
        return POL_VERDICT_FAIL;
    }
    if (completed < gate->min_sample) {
        *out_reason = POL_REASON_SAMPLE_TOO_SMALL;
        return POL_VERDICT_INCONCLUSIVE;
    }
    if (in_stage_us < gate->min_dwell_us) {
        *out_reason = POL_REASON_DWELL_NOT_REACHED;
        return POL_VERDICT_INCONCLUSIVE;
    }
    *out_reason = POL_REASON_FAILURES_WITHIN_LIMIT;
    return POL_VERDICT_PASS;
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

// Opens the stage behind the current one, or completes the rollout when there is none.
static void open_next(struct pol_decision *decision, uint32_t stage_count, uint64_t now_us)
{
    struct pol_rollout *next = &decision->next;
    next->stage_failed = false;
    if (next->stage_index + 1u >= stage_count) {
        next->state = POL_ROLLOUT_COMPLETED;
        decision->action = POL_ACTION_COMPLETE;
        return;
    }
    next->state = POL_ROLLOUT_RUNNING;
    next->stage_index++;
    next->stage_since_us = now_us;
    decision->action = POL_ACTION_ADVANCE;
}

static void tick_running(struct pol_decision *decision, uint32_t stage_count, uint64_t now_us)
{
    if (decision->verdict == POL_VERDICT_FAIL) {
        decision->action = POL_ACTION_ROLL_BACK;
        decision->next.state = POL_ROLLOUT_ROLLING_BACK;
        decision->next.stage_failed = true;
        return;
    }
    if (decision->verdict == POL_VERDICT_PASS) {
        open_next(decision, stage_count, now_us);
        if (decision->action == POL_ACTION_COMPLETE) {
            decision->reason = POL_REASON_LAST_STAGE_PASSED;
        }
    }
}

// A paused rollout moves by command only, but a stage that fails meanwhile is remembered, so that
// resuming has to accept the risk.
static void tick_paused(struct pol_decision *decision)
{
    if (decision->verdict == POL_VERDICT_FAIL && !decision->next.stage_failed) {
        decision->action = POL_ACTION_PAUSE;
        decision->next.stage_failed = true;
        return;
    }
    decision->reason = POL_REASON_ROLLOUT_PAUSED;
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
    const struct pol_stage *stage = &stages[rollout->stage_index];
    uint64_t since_us = rollout->stage_since_us;
    uint64_t in_stage_us = now_us > since_us ? now_us - since_us : 0;
    decision.verdict = pol_gate_verdict(&stage->gate, counts, in_stage_us, &decision.reason,
                                        &decision.failure_ppm);
    if (decision.verdict == POL_VERDICT_NO_DATA && stage->kind == POL_STAGE_SIMULATE) {
        decision.reason = POL_REASON_SIMULATION_PENDING;
    }
    switch (rollout->state) {
    case POL_ROLLOUT_RUNNING:
        tick_running(&decision, stage_count, now_us);
        break;
    case POL_ROLLOUT_PAUSED:
        tick_paused(&decision);
        break;
    case POL_ROLLOUT_ROLLING_BACK:
        tick_rolling_back(&decision, counts);
        break;
    case POL_ROLLOUT_ROLLED_BACK:
        decision.reason = POL_REASON_ROLLOUT_ROLLED_BACK;
        break;
    case POL_ROLLOUT_COMPLETED:
        decision.reason = POL_REASON_LAST_STAGE_PASSED;
        break;
    case POL_ROLLOUT_DRAFT:
    case POL_ROLLOUT_STATE_COUNT:
        break;
    }
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

static struct pol_decision start(const struct pol_rollout *rollout, uint64_t now_us)
{
    if (rollout->state != POL_ROLLOUT_DRAFT) {
        return refuse(rollout, POL_REASON_WRONG_STATE);
    }
    struct pol_decision decision = move(rollout, POL_ACTION_ADVANCE, POL_ROLLOUT_RUNNING);
    decision.next.stage_index = 0;
    decision.next.stage_failed = false;
    decision.next.stage_since_us = now_us;
    return decision;
}

static struct pol_decision resume(const struct pol_rollout *rollout)
{
    if (rollout->stage_failed) {
        return refuse(rollout, POL_REASON_STAGE_FAILED);
    }
    if (rollout->state != POL_ROLLOUT_PAUSED) {
        return refuse(rollout, POL_REASON_WRONG_STATE);
    }
    return move(rollout, POL_ACTION_RESUME, POL_ROLLOUT_RUNNING);
}

static struct pol_decision resume_accept_risk(const struct pol_rollout *rollout,
                                              uint32_t stage_count, uint64_t now_us)
{
    if (rollout->state != POL_ROLLOUT_PAUSED) {
        return refuse(rollout, POL_REASON_WRONG_STATE);
    }
    struct pol_decision decision = move(rollout, POL_ACTION_RESUME, POL_ROLLOUT_RUNNING);
    if (rollout->stage_failed) {
        // Staying in the failed stage would fail it again at the next tick.
        open_next(&decision, stage_count, now_us);
    }
    return decision;
}

static struct pol_decision promote(const struct pol_rollout *rollout, uint32_t stage_count,
                                   uint64_t now_us)
{
    if (rollout->state != POL_ROLLOUT_RUNNING) {
        return refuse(rollout, POL_REASON_WRONG_STATE);
    }
    if (rollout->stage_failed) {
        return refuse(rollout, POL_REASON_STAGE_FAILED);
    }
    struct pol_decision decision = move(rollout, POL_ACTION_ADVANCE, POL_ROLLOUT_RUNNING);
    open_next(&decision, stage_count, now_us);
    return decision;
}

static struct pol_decision abort_rollout(const struct pol_rollout *rollout)
{
    switch (rollout->state) {
    case POL_ROLLOUT_DRAFT: // nothing was offered: the next tick finds nobody to roll back
    case POL_ROLLOUT_RUNNING:
    case POL_ROLLOUT_PAUSED:
        return move(rollout, POL_ACTION_ROLL_BACK, POL_ROLLOUT_ROLLING_BACK);
    default:
        return refuse(rollout, POL_REASON_WRONG_STATE);
    }
}

struct pol_decision pol_rollout_command(const struct pol_rollout *rollout, uint32_t stage_count,
                                        enum pol_command command, uint64_t now_us)
{
    if (stage_count == 0 || stage_count > POL_STAGES_MAX || rollout->stage_index >= stage_count) {
        return refuse(rollout, POL_REASON_STAGES_INVALID);
    }
    switch (command) {
    case POL_COMMAND_START:
        return start(rollout, now_us);
    case POL_COMMAND_PAUSE:
        return rollout->state == POL_ROLLOUT_RUNNING
                   ? move(rollout, POL_ACTION_PAUSE, POL_ROLLOUT_PAUSED)
                   : refuse(rollout, POL_REASON_WRONG_STATE);
    case POL_COMMAND_RESUME:
        return resume(rollout);
    case POL_COMMAND_RESUME_ACCEPT_RISK:
        return resume_accept_risk(rollout, stage_count, now_us);
    case POL_COMMAND_PROMOTE:
        return promote(rollout, stage_count, now_us);
    case POL_COMMAND_ABORT:
        return abort_rollout(rollout);
    case POL_COMMAND_COUNT:
        break;
    }
    return refuse(rollout, POL_REASON_WRONG_STATE);
}

// ---- Admission ----

static struct pol_match not_admitted(enum pol_reason reason)
{
    return (struct pol_match){.matched = false, .reason = reason, .cond_index = 0};
}

// Looks through the stages 0..last, all of them open.
static struct pol_match admit_open(const struct pol_stage *stages, uint32_t last,
                                   uint32_t audience_mask, uint16_t bucket)
{
    bool in_audience = false;
    for (uint32_t i = 0; i <= last; i++) {
        bool real = stages[i].kind != POL_STAGE_SIMULATE;
        if (!real || (audience_mask >> i & 1) == 0) {
            continue;
        }
        in_audience = true;
        if (bucket < stages[i].max_bucket) {
            return (struct pol_match){
                .matched = true, .reason = POL_REASON_IN_STAGE, .cond_index = i};
        }
    }
    return not_admitted(in_audience ? POL_REASON_OUTSIDE_BUCKET : POL_REASON_OUTSIDE_AUDIENCE);
}

struct pol_match pol_rollout_admits(const struct pol_rollout *rollout,
                                    const struct pol_stage *stages, uint32_t stage_count,
                                    bool targeted, uint32_t audience_mask, uint16_t bucket)
{
    if (stage_count > POL_STAGES_MAX || rollout->stage_index >= stage_count) {
        return not_admitted(POL_REASON_STAGES_INVALID);
    }
    switch (rollout->state) {
    case POL_ROLLOUT_DRAFT:
        return not_admitted(POL_REASON_ROLLOUT_NOT_STARTED);
    case POL_ROLLOUT_PAUSED:
        return not_admitted(POL_REASON_ROLLOUT_PAUSED);
    case POL_ROLLOUT_ROLLING_BACK:
    case POL_ROLLOUT_ROLLED_BACK:
        return not_admitted(POL_REASON_ROLLOUT_ROLLED_BACK);
    case POL_ROLLOUT_RUNNING:
    case POL_ROLLOUT_COMPLETED:
        break;
    case POL_ROLLOUT_STATE_COUNT:
        return not_admitted(POL_REASON_STAGES_INVALID);
    }
    if (!targeted) {
        return not_admitted(POL_REASON_NOT_TARGETED);
    }
    return admit_open(stages, rollout->stage_index, audience_mask, bucket);
}

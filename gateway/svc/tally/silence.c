// Silence: for how long a device was not heard of, and from when on that counts. watch.c and
// way_back.c call it for each device of their walks, rollout_control.c and rollouts.c for what is
// judged and kept; control thread. Pure: the clock comes in. Nothing counts as silent before the
// gateway itself has listened for as long, so a restart makes nobody silent.
#include "svc/tally/silence.h"

#include "svc/tally/trial_blocks.h"

uint32_t gw_silence_quiet_s(const struct gw_silence_clock *clock, uint32_t last_seen_s)
{
    uint32_t from = last_seen_s > clock->started_s ? last_seen_s : clock->started_s;
    return clock->now_s > from ? clock->now_s - from : 0;
}

uint32_t gw_silence_after_s(const struct gw_release *release, const struct pol_stage *stage,
                            uint32_t interval_s)
{
    uint32_t unit_s = release->checkin_interval_s;
    if (unit_s == 0 || interval_s <= unit_s) {
        return stage->silence_s;
    }
    uint64_t after_s = (uint64_t)stage->silence_s * interval_s / unit_s;
    return after_s < UINT32_MAX ? (uint32_t)after_s : UINT32_MAX;
}

// Of a device that is compared with nobody in a stage that compares nobody: so many seconds does
// one check-in stand for, after which it may fall silent.
static uint32_t interval_of(const struct gw_release *release,
                            const struct gw_silence_device *device, uint32_t after_s)
{
    uint32_t said_s = device->interval_s > release->checkin_interval_s
                          ? device->interval_s
                          : release->checkin_interval_s;
    return said_s > 0 ? said_s : after_s;
}

void gw_silence_watch(const struct gw_silence_clock *clock, const struct gw_release *release,
                      const struct gw_silence_device *device,
                      struct pol_hazard hazards[POL_COHORT_COUNT])
{
    const struct pol_stage *stage = &release->stages[device->stage];
    struct pol_trial_span span;
    bool compares = pol_stage_trial(release->stages, device->stage, &span);
    bool alone = (device->bits & GW_OUTCOME_ALONE) != 0;
    bool control = (device->bits & GW_OUTCOME_CONTROL) != 0;
    unsigned over =
        GW_OUTCOME_FAILED | GW_OUTCOME_ROLLED_BACK | GW_OUTCOME_REMOVED | GW_OUTCOME_NOT_APPLICABLE;
    if ((device->bits & over) != 0 || stage->silence_s == 0 || alone == compares) {
        return;
    }
    uint32_t from_s =
        compares ? gw_trial_block_end_s(release, device->offered_s) : device->offered_s;
    uint32_t after_s = gw_silence_after_s(release, stage, device->interval_s);
    uint32_t since_s = from_s > clock->started_s ? from_s : clock->started_s;
    if (clock->now_s < since_s || clock->now_s - since_s < after_s) {
        return; // whether it is silent cannot be known yet
    }
    uint32_t known_s = clock->now_s - after_s;
    bool silent = device->last_seen_s <= known_s;
    uint32_t to_s = silent ? device->last_seen_s : known_s;
    struct pol_hazard *hazard = &hazards[control ? POL_COHORT_CONTROL : POL_COHORT_UPDATED];
    hazard->silent += silent;
    hazard->device_seconds += to_s > from_s ? to_s - from_s : 0;
    hazard->device_seconds += compares ? 1 : interval_of(release, device, after_s);
}

void gw_silence_judged(const struct gw_release *release, uint32_t stage,
                       const struct pol_hazard hazards[POL_COHORT_COUNT],
                       const struct pol_hazard *before, struct pol_counts *out)
{
    struct pol_trial_span span;
    bool compares = pol_stage_trial(release->stages, stage, &span);
    out->hazard = hazards[POL_COHORT_UPDATED];
    out->control_hazard = compares ? hazards[POL_COHORT_CONTROL] : *before;
}

void gw_silence_keep(const struct gw_release *release, uint32_t stage,
                     const struct pol_counts *counts, struct pol_hazard *before)
{
    struct pol_trial_span span;
    bool own = release->stages[stage].gate.rule == POL_GATE_LOGRANK
                   ? pol_stage_trial(release->stages, stage, &span)
                   : counts->control.trials > 0;
    if (own) {
        before->device_seconds += counts->control_hazard.device_seconds;
        before->silent += counts->control_hazard.silent;
    }
}

// Called by the control thread's walk over all devices (watch.c).
#include "svc/silence.h"

#include "svc/trial_blocks.h"

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

void gw_silence_watch(const struct gw_silence_clock *clock, const struct gw_release *release,
                      const struct gw_silence_device *device,
                      struct pol_hazard hazards[POL_COHORT_COUNT])
{
    const struct pol_stage *stage = &release->stages[device->stage];
    uint32_t from_s = gw_trial_block_end_s(release, device->offered_s);
    bool control = (device->bits & GW_OUTCOME_CONTROL) != 0;
    unsigned over =
        GW_OUTCOME_FAILED | GW_OUTCOME_ROLLED_BACK | GW_OUTCOME_REMOVED | GW_OUTCOME_NOT_APPLICABLE;
    if ((device->bits & GW_OUTCOME_ALONE) != 0 || (device->bits & over) != 0 ||
        stage->silence_s == 0 || clock->now_s < from_s) {
        return;
    }
    struct pol_hazard *hazard = &hazards[control ? POL_COHORT_CONTROL : POL_COHORT_UPDATED];
    bool silent = gw_silence_quiet_s(clock, device->last_seen_s) >=
                  gw_silence_after_s(release, stage, device->interval_s);
    uint32_t to_s = silent ? device->last_seen_s : clock->now_s;
    hazard->silent += silent;
    hazard->device_seconds += (to_s > from_s ? to_s - from_s : 0) + 1;
}

// See late_failures.h. rollout_control.c calls with each tick of the rollouts, and rollouts.c for
// views; control thread. The look goes over all rollouts, hence not more often than every
// GW_LATE_LOOK_US; each one is said in the log once. Nothing is decided: no gate judges a rollout
// that is completed, so a person has to.
#include "svc/rollout/late_failures.h"

#include "svc/core_private.h"
#include "svc/trust/director.h"
#include "svc/tally/tally.h"

#define PPM 1000000u

bool gw_late_failures(struct gw_core *core, const struct gw_rollout *rollout, uint64_t *out_failed,
                      uint64_t *out_completed)
{
    const struct gw_release *release = rollout->release;
    const struct pol_gate *gate = &release->stages[release->stage_count - 1].gate;
    struct gw_rollout_counts all;
    *out_failed = 0;
    *out_completed = 0;
    if (rollout->state.state != POL_ROLLOUT_COMPLETED || gate->max_failure_ppm >= PPM ||
        gw_director_kills(core, &release->manifest) ||
        !gw_tally_counts(core->tally, release->id, GW_TALLY_STAGE_ALL, gw_core_sure_s(core),
                         &all)) {
        return false;
    }
    *out_failed = all.failed;
    *out_completed = all.succeeded + all.failed;
    return (double)all.failed * PPM > (double)*out_completed * gate->max_failure_ppm;
}

void gw_late_step(struct gw_core *core)
{
    uint64_t now_us = core->clock.mono_us(core->clock.ctx);
    uint64_t count = 0;
    if (now_us - core->late_looked_us < GW_LATE_LOOK_US && core->late_looked_us > 0) {
        return;
    }
    core->late_looked_us = now_us;
    for (uint32_t i = 0; i < core->catalog.rollout_count; i++) {
        struct gw_rollout *rollout = core->catalog.rollouts[i];
        uint64_t failed = 0;
        uint64_t completed = 0;
        bool late = gw_late_failures(core, rollout, &failed, &completed);
        count += late;
        if (late && !rollout->late_said) {
            base_log_warn(core->log, "rollouts",
                          "%s, rollout %016llx: it is completed, and %llu of %llu devices failed, "
                          "more than its max_failure: 'walle rollout undo' takes it back",
                          rollout->release->task, (unsigned long long)rollout->release->id,
                          (unsigned long long)failed, (unsigned long long)completed);
        }
        rollout->late_said = late;
    }
    atomic_store_explicit(&core->rollouts_late, count, memory_order_relaxed);
}

// Who has nothing left, by its floor or for want of a baseline; see floored.h. Called by the API's
// handlers.
#include "svc/floored.h"

#include "svc/core_private.h"
#include "svc/rollout_state.h"

#include <string.h>

// Was it taken back, so that who ran it goes elsewhere?
static bool is_taken_back(const struct gw_core *core, const struct gw_rollout *rollout)
{
    return rollout->state.state == POL_ROLLOUT_ROLLING_BACK ||
           rollout->state.state == POL_ROLLOUT_ROLLED_BACK ||
           gw_director_kills(core, &rollout->release->manifest);
}

void gw_floored_of(struct gw_core *core, uint64_t task_id, struct gw_floored *out)
{
    const struct gw_task *task = gw_catalog_find_task(core, task_id);
    const struct gw_rollout *baseline = task != NULL ? gw_task_baseline(core, task) : NULL;
    uint64_t left = baseline != NULL ? baseline->release->release_counter : 0;
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < core->catalog.rollout_count && task != NULL; i++) {
        const struct gw_rollout *rollout = core->catalog.rollouts[i];
        struct gw_rollout_counts counts;
        if (rollout->task != task || (baseline != NULL && rollout->release->floor <= left) ||
            !is_taken_back(core, rollout) ||
            !gw_tally_counts(core->tally, rollout->release->id, GW_TALLY_STAGE_ALL,
                             gw_core_sure_s(core), &counts)) {
            continue;
        }
        if (counts.ran > out->devices) {
            *out = (struct gw_floored){.rollout = rollout->release->id,
                                       .floor = rollout->release->floor,
                                       .baseline = left,
                                       .devices = counts.ran};
        }
    }
}

// What a rollout stands behind; see behind.h. Called for the pages of rollouts (rollout_page.c) and
// by why.c, which names the rollout that a device follows. Control thread; reads the catalog and
// changes nothing.
#include "svc/view/behind.h"

#include "policy/desired.h"
#include "svc/core_private.h"

#include <string.h>

// May the devices of both arms be the same?
static bool arms_meet(const struct pol_arm *a, const struct pol_arm *b)
{
    bool both = a->to != 0 && b->to != 0;
    return !both || a->salt != b->salt || (a->from < b->to && b->from < a->to);
}

static bool is_ahead(const struct gw_core *core, const struct gw_rollout *other,
                     const struct gw_release *release)
{
    enum pol_claim_state claim;
    return pol_rollout_claims(&other->state, &claim) &&
           (claim == POL_CLAIM_OPEN || claim == POL_CLAIM_PAUSED) &&
           !gw_director_kills(core, &other->release->manifest) &&
           pol_targets_meet(&other->release->target, &release->target) &&
           arms_meet(&other->release->arm, &release->arm);
}

uint32_t gw_behind_of(struct gw_core *core, const struct gw_rollout *rollout,
                      struct gw_behind out[GW_TASK_OPEN_MAX])
{
    const struct gw_task *task = rollout->task;
    uint32_t own = 0;
    uint32_t count = 0;
    while (own < task->open_count && task->open[own] != rollout) {
        own++;
    }
    bool open = own < task->open_count && !rollout->state.guarding &&
                rollout->state.state != POL_ROLLOUT_ROLLING_BACK;
    for (uint32_t i = 0; open && i < own; i++) {
        const struct gw_rollout *other = task->open[i];
        struct gw_version_view version;
        if (!is_ahead(core, other, rollout->release)) {
            continue;
        }
        struct gw_behind *item = &out[count++];
        memset(item, 0, sizeof(*item));
        item->rollout = other->release->id;
        item->state = other->state.state;
        if (gw_catalog_version_get(core, base_str_of(task->name), &other->release->manifest,
                                   &version) == BASE_OK) {
            memcpy(item->version, version.version, sizeof(item->version));
        }
    }
    return count;
}

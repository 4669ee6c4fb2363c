// Who has a version already; see present.h. api_catalog.c calls it on the control thread, for the
// command's warning before a release. One walk over the rollouts, counts from the tally; the list
// is bounded, open ones first. A version that is killed is nobody's.
#include "svc/view/present.h"

#include "policy/desired.h"
#include "svc/core_private.h"

#include <string.h>

// May it bring the version to devices, or keep it there? Of one that goes back devices may keep it
// by whatever comes.
static bool is_live(const struct gw_core *core, const struct gw_rollout *rollout, uint64_t devices)
{
    enum pol_claim_state claim;
    if (gw_director_kills(core, &rollout->release->manifest)) {
        return false;
    }
    if (!pol_rollout_claims(&rollout->state, &claim)) {
        return rollout->state.state == POL_ROLLOUT_ROLLING_BACK && devices > 0;
    }
    bool base = claim == POL_CLAIM_COMPLETED || claim == POL_CLAIM_HELD;
    return !base || !gw_task_is_superseded(core, rollout->task, rollout);
}

static bool is_open(const struct gw_present_rollout *rollout)
{
    return rollout->state != POL_ROLLOUT_COMPLETED && rollout->state != POL_ROLLOUT_ROLLING_BACK;
}

// Open ones go before the others; of a full list the last gives way.
static void add(struct gw_present *out, const struct gw_present_rollout *rollout)
{
    uint32_t at = 0;
    uint32_t listed =
        out->rollout_count < GW_PRESENT_ROLLOUTS_MAX ? out->rollout_count : GW_PRESENT_ROLLOUTS_MAX;
    while (at < listed && (is_open(&out->rollouts[at]) || !is_open(rollout))) {
        at++;
    }
    out->rollout_count++;
    out->devices += rollout->devices;
    if (at == GW_PRESENT_ROLLOUTS_MAX) {
        return;
    }
    uint32_t behind = listed - at;
    behind -= listed == GW_PRESENT_ROLLOUTS_MAX;
    memmove(&out->rollouts[at + 1], &out->rollouts[at], behind * sizeof(out->rollouts[0]));
    out->rollouts[at] = *rollout;
}

void gw_present_of(struct gw_core *core, uint64_t task_id, const struct wire_sha256 *manifest,
                   struct gw_present *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < core->catalog.rollout_count; i++) {
        const struct gw_rollout *rollout = core->catalog.rollouts[i];
        struct gw_rollout_counts counts;
        if (rollout->release->task_id != task_id ||
            !wire_sha256_equal(&rollout->release->manifest, manifest)) {
            continue;
        }
        (void)gw_tally_counts(core->tally, rollout->release->id, GW_TALLY_STAGE_ALL,
                              gw_core_sure_s(core), &counts);
        if (is_live(core, rollout, counts.on_version)) {
            const struct gw_present_rollout item = {
                .id = rollout->release->id,
                .state = rollout->state.state,
                .devices = counts.on_version,
            };
            add(out, &item);
        }
    }
}

// What the open stage of a rollout can see, for its view: the policy computes it from the counts as
// they are judged and from how large the stage is. Control thread. rollouts.c calls it where it
// fills a view. The counts are those of the tally and the last walk, as the gate gets them, so what
// the view says of power is about the decision that will be made. Of a stage whose gate compares
// nothing there is none.
#include "svc/rollout/rollout_state.h"

// Devices that came in with the stages before are in the walk's count of this one too.
static uint64_t came_before(const struct gw_rollout_view *view, uint32_t stage)
{
    uint64_t before = 0;
    for (uint32_t k = 0; k < stage && view->stages[stage].kind != POL_STAGE_BETA; k++) {
        bool within =
            view->stages[k].kind == POL_STAGE_GRAY ||
            (view->stages[k].kind == POL_STAGE_BETA && view->stages[stage].kind == POL_STAGE_FULL);
        before += within ? view->stages[k].counts.offered : 0;
    }
    return before;
}

static struct pol_stage_size size_of(const struct gw_rollout *rollout,
                                     const struct gw_rollout_view *view, uint64_t now_us)
{
    uint32_t at = rollout->state.stage_index;
    const struct pol_stage *stage = &rollout->release->stages[at];
    const struct gw_rollout_counts *counts = &view->stages[at].counts;
    uint64_t before = came_before(view, at);
    uint64_t since_us = rollout->state.stage_since_us;
    struct pol_stage_size size = {
        .devices = counts->eligible > before ? counts->eligible - before : 0,
        .control = counts->control,
        .in_stage_us = now_us > since_us ? now_us - since_us : 0,
    };
    size.devices = size.devices > counts->offered ? size.devices : counts->offered;
    if (size.control == 0 && stage->max_bucket > 0) { // none drawn yet: as its band will have it
        uint16_t from;
        uint16_t to;
        pol_stage_control_band(stage, &from, &to);
        size.control = size.devices * (uint64_t)(to - from) / stage->max_bucket;
    }
    return size;
}

void gw_rollout_view_power(struct gw_core *core, const struct gw_rollout *rollout,
                           struct gw_rollout_view *out)
{
    enum pol_rollout_state state = rollout->state.state;
    const struct pol_stage *stage = &rollout->release->stages[rollout->state.stage_index];
    bool open =
        state == POL_ROLLOUT_RUNNING || state == POL_ROLLOUT_WAITING || state == POL_ROLLOUT_PAUSED;
    bool asked = stage->gate.rule != POL_GATE_THRESHOLD && stage->kind != POL_STAGE_SIMULATE;
    struct gw_rollout_counts seen;
    struct pol_counts counts;
    out->has_power = false;
    if (!open || !asked || rollout->state.before_first) {
        return;
    }
    gw_rollout_seen(core, rollout, &seen, &counts);
    struct pol_stage_size size = size_of(rollout, out, gw_core_now_us(core));
    out->has_power = pol_stage_power(&stage->gate, &counts, &size, &out->power);
    if (state != POL_ROLLOUT_RUNNING) { // nobody else comes in
        out->power.seconds = 0;
    }
}

// The draw of one device for one task. Pure; checkin_answer.c calls it on the worker's thread,
// after the decision itself (want.c) and with the same code asked once more: what would it be
// offered if the share had it. The bucket alone divides the two cohorts, which is what makes them
// comparable; nothing is drawn at random here.
#include "svc/plan/draw.h"

#include "policy/bucket.h"

// Would the device be offered the claim's version if its share had it, and does it run what it
// would without? Neither depends on its bucket.
static bool is_eligible(const struct gw_draw_ask *ask, uint8_t number, struct gw_want *out_update)
{
    const struct gw_device_facts *facts = ask->facts;
    struct gw_device_facts with = *facts;
    struct gw_device_facts without = *facts;
    with.let_in |= 1u << number;
    without.held |= 1u << number;
    *out_update = gw_want_decide(ask->task, ask->entries, ask->entry_count, &with, ask->attrs);
    if (out_update->release == NULL || out_update->number != number ||
        out_update->rule != POL_DESIRED_FOLLOWED || out_update->version_id == facts->have) {
        return false;
    }
    return gw_want_decide(ask->task, ask->entries, ask->entry_count, &without, ask->attrs)
               .version_id == facts->have;
}

static bool is_drawn(const struct gw_draw_ask *ask, uint8_t number, struct gw_draw *out,
                     struct gw_want *out_update)
{
    const struct gw_plan_open *open = &ask->task->open[number];
    const struct gw_release *release = open->release;
    struct pol_trial_span span;
    if (!gw_cohort_trial(open, ask->attrs, &span) ||
        !pol_arm_has(&release->arm, *ask->facts->device_id)) {
        return false;
    }
    uint16_t bucket = pol_bucket(*ask->facts->device_id, release->salt);
    if (bucket < span.from || bucket >= span.to || !is_eligible(ask, number, out_update)) {
        return false;
    }
    uint8_t stage = (uint8_t)open->state.stage_index;
    *out = (struct gw_draw){.compared = true, .control = bucket >= span.middle, .stage = stage};
    out_update->statement = &release->statements[stage];
    out_update->install_open = true;
    out_update->stage = stage;
    return true;
}

bool gw_draw_find(const struct gw_draw_ask *ask, struct gw_draw *out, struct gw_want *out_update)
{
    if (!ask->knows_marks || ask->task->shadow || ask->facts->have == 0) {
        return false;
    }
    for (uint32_t i = 0; i < ask->entry_count; i++) {
        uint8_t number = ask->entries[i].claim;
        if (number < GW_PLAN_OPEN_MAX && is_drawn(ask, number, out, out_update)) {
            return true;
        }
    }
    return false;
}

uint8_t gw_draw_attempt(const struct gw_draw *draw)
{
    return draw->stage;
}

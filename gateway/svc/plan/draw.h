// Who is compared in the trial of a stage: drawn by chance, its bucket, into one of two cohorts.
// Pure; worker's thread.
//
// A device is drawn when it runs what it would run without the rollout, would be offered the
// version if the stage's share had it, and no earlier stage let it in; all of that is asked the
// same for both cohorts, so that its bucket alone divides them. One that can be offered nothing
// again (it has nothing, or does not know marks) is not compared.
#ifndef GW_DRAW_H
#define GW_DRAW_H

#include "svc/plan/want.h"

struct gw_draw {
    bool compared;
    bool control; // it is offered what it has, by a mark
    uint8_t stage;
};

struct gw_draw_ask {
    const struct gw_plan_task *task;
    const struct gw_cohort_task *entries; // what the device's cohort has of the task
    uint32_t entry_count;
    const struct gw_device_facts *facts;
    const struct pol_attrs *attrs;
    bool knows_marks;
};

// False: it is not compared. *out_update: what an updated device is offered, by the statement of
// the stage.
bool gw_draw_find(const struct gw_draw_ask *ask, struct gw_draw *out, struct gw_want *out_update);
// The number of the mark: higher in each stage.
uint8_t gw_draw_attempt(const struct gw_draw *draw);

#endif

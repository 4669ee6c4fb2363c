// Outcomes are told: queued for the next report, numbered, and stored before they leave. The first
// one draws the epoch, which says whether the numbers go on from what the gateway has seen.
//
// Called by whatever part has something to tell; control sends them (device_control.c).
#include "core/base/runtime.h"

#include "base/check.h"

void dev_outcome(struct dev_runtime *runtime, const struct wire_outcome *outcome)
{
    base_assert(outcome->detail.size == 0 || outcome->detail.data != NULL);
    runtime->stats.dropped_outcomes += dev_outcomes_add(&runtime->outcomes, outcome);
    runtime->dirty = true;
    if (runtime->epoch == 0) {
        runtime->epoch = (uint32_t)(dev_random(runtime) >> 32) | 1u;
    }
    (void)dev_tell(runtime,
                   &(struct dev_part_event){.kind = DEV_PART_EVENT_OUTCOME, .outcome = outcome});
}

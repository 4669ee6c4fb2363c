// Counts of a rollout as sums over devices: what one device adds, and adding and taking away. Pure;
// any thread.
#ifndef GW_ROLLOUT_COUNTS_H
#define GW_ROLLOUT_COUNTS_H

#include "svc/rollout/rollouts.h"

// What one device in this state (enum gw_outcome_bit) adds. What depends on time stays 0.
void gw_tally_contribution(uint16_t bits, struct gw_rollout_counts *out);
// The sums over devices alone: not what depends on time, and nothing of those who do not count.
void gw_counts_add(struct gw_rollout_counts *to, const struct gw_rollout_counts *from);
// All of them: of a stage or a shadow beside another.
void gw_counts_add_all(struct gw_rollout_counts *to, const struct gw_rollout_counts *from);
void gw_counts_take(struct gw_rollout_counts *to, const struct gw_rollout_counts *from);

// What of a stage's counts its gate judges. Devices that fell silent after a success are no success
// any more.
void gw_counts_judged(const struct gw_rollout_counts *seen, struct pol_counts *out);

// Of the devices offered: those that answered (it ran or failed, or is not for them), whose time to
// answer is over, or that went away for good.
static inline uint64_t gw_counts_done(const struct gw_rollout_counts *counts)
{
    return counts->succeeded + counts->failed + counts->not_applicable + counts->timed_out +
           counts->expired;
}

#endif

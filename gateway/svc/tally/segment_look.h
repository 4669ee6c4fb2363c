// What is seen of a stage's segments where each is compared with the whole of control: from the
// tally's counts of them. Pure. (With the rule LOGRANK: gw_trial_blocks_slices.)
#ifndef GW_SEGMENT_LOOK_H
#define GW_SEGMENT_LOOK_H

#include "policy/slices.h"
#include "svc/tally/tally.h"

// What the policy is shown: those held are counted, those lifted are not listed. Returns the
// failures it may hold some for.
uint64_t gw_segment_look(const struct gw_tally_segment *segments, uint32_t count,
                         const struct pol_held *held, const struct pol_held *lifted,
                         struct pol_slices *out);
// Takes what the segments that are held have completed out of what is judged.
void gw_segment_discount(const struct gw_tally_segment *segments, uint32_t count,
                         const struct pol_held *held, struct pol_counts *counts);

#endif

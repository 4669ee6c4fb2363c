// The devices of a rollout that completed, by the values of their attributes: for people. Not
// thread-safe: the tally's mutex guards it.
#ifndef GW_VALUE_SLICES_H
#define GW_VALUE_SLICES_H

#include "svc/tally/tally.h"

struct gw_value_slices;

void gw_value_slices_free(struct gw_value_slices *slices); // accepts NULL
// A device completed or failed; *slices is made when it is NULL and there is memory.
void gw_value_slices_note(struct gw_value_slices **slices, const struct base_hash_key *key,
                          const struct gw_tally_change *change, bool completed, bool failed);
// The worst first; how many there are of them. `slices` NULL: none.
uint32_t gw_value_slices_worst(const struct gw_value_slices *slices,
                               struct gw_rollout_slice out[GW_ROLLOUT_SLICES]);

// Who fails after it changed its attributes completed as somebody else: it counts in both, so that
// no part of the fleet has more failures than devices.
static inline uint64_t gw_slice_completed(uint64_t completed, uint64_t failed)
{
    return completed > failed ? completed : failed;
}

#endif

// The segments that are kept off a rollout: those in quarantine.
//
// They change while plans are out, so they are in no release: the tally has them beside the
// rollout's counters, where they live as long as the tally. Written by the control thread alone,
// before the plan with their signature is published; read by any thread.
#ifndef GW_KEPT_OFF_H
#define GW_KEPT_OFF_H

#include "policy/slices.h"
#include "policy/target.h"
#include "svc/plan/release_spec.h"

#include <stdatomic.h>

struct gw_kept_off {
    _Atomic uint64_t segments[GW_QUARANTINE_MAX]; // names without gaps, then 0
};

// From now on these and no others.
void gw_kept_off_set(struct gw_kept_off *kept_off, const struct pol_held *held);
// Is a device with these attributes?
bool gw_kept_off_has(const struct gw_kept_off *kept_off, const struct pol_attrs *attrs);
// Of all segments: plans differ when it does. 0: there are none.
uint64_t gw_kept_off_signature(const struct gw_kept_off *kept_off);

#endif

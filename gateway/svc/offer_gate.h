// When an offer that the plan wants may be made: maintenance windows, the stage's rate and cap, and
// second attempts. Worker's thread.
#ifndef GW_OFFER_GATE_H
#define GW_OFFER_GATE_H

#include "svc/checkin.h"
#include "svc/core_private.h"
#include "svc/want.h"

#define GW_HELD_WAIT_S                                                                             \
    60u // a device that gets no offer yet comes again after so long, or its interval
#define GW_UTC_OFFSET_ATTR "utc_offset_min" // minutes the device's clock is ahead of UTC

// May the open rollout's INSTALL be offered to the device now? Marks it as offered. False: not yet;
// *wait_s becomes the seconds until it should ask again, when that is sooner.
bool gw_offer_admit(struct gw_core *core, const struct gw_checkin *checkin,
                    const struct pol_attrs *attrs, const struct gw_want *want, uint32_t now_s,
                    uint32_t *wait_s);

// The device refuses `blocked`, which failed there. Does one of its rollouts let it try again?
bool gw_offer_may_retry(struct gw_core *core, uint64_t device_id, uint64_t blocked);
// It is offered the release again, and told so.
void gw_offer_retried(struct gw_core *core, uint64_t device_id, const struct gw_want *want);

#endif

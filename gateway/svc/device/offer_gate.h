// When an offer that the plan wants may be made: maintenance windows, the stage's rate and cap, and
// second attempts. Worker's thread.
#ifndef GW_OFFER_GATE_H
#define GW_OFFER_GATE_H

#include "svc/device/checkin.h"
#include "svc/core_private.h"
#include "svc/plan/draw.h"
#include "svc/plan/want.h"

#define GW_HELD_WAIT_S                                                                             \
    60u // a device that gets no offer yet comes again after so long, or its interval
#define GW_UTC_OFFSET_ATTR "utc_offset_min" // minutes the device's clock is ahead of UTC

struct gw_offer_ask {
    const struct gw_checkin *checkin;
    const struct pol_attrs *attrs;
    const struct gw_want *want; // an open rollout's INSTALL
    const struct gw_draw *draw; // as control it gets a mark instead
    uint32_t now_s;
};

// May the device be offered that now? Marks it as offered. False: not yet; *wait_s becomes the
// seconds until it should ask again, when that is sooner. Devices that are compared are asked the
// same in both cohorts, and share an allowance in which an update counts one, for itself and its
// control; one that is compared with nobody takes as much as both.
bool gw_offer_admit(struct gw_core *core, const struct gw_offer_ask *ask, uint32_t *wait_s);
// Is a device that a trial draws as control to be told so: now, or again because it has not done it
// yet? `update`: what it would be offered otherwise.
bool gw_offer_mark_is_due(struct gw_core *core, const struct gw_checkin *checkin,
                          const struct gw_want *update);
// How many of an allowance an updated device takes in the rollout's stage, with its control.
void gw_offer_price(const struct gw_release *release, uint32_t stage, uint32_t *out_updated,
                    uint32_t *out_all);

// The device refuses `blocked`, which failed there. Does one of its rollouts let it try again?
bool gw_offer_may_retry(struct gw_core *core, uint64_t device_id, uint64_t blocked);
// It is offered the release again, and told so.
void gw_offer_retried(struct gw_core *core, uint64_t device_id, const struct gw_want *want);

#endif

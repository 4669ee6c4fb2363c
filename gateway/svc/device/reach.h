// Whom a rollout can reach at all: is there a known device that its target matches, and has any
// known device the attributes that target and audiences ask about? A target with a typing error
// matches nobody, and nobody would hear of it.
//
// "Known" is what the device table holds of the tenant, with the attributes each device told last.
// What a device says that never showed who it is counts only where the rollout trusts such devices,
// or where no device of the tenant showed it: else one stranger could stand for a typing error.
// The walk ends as soon as nothing is in doubt: for a good target after a handful of devices, else
// after all of them (some tens of milliseconds a million).
#ifndef GW_REACH_H
#define GW_REACH_H

#include "base/error.h"
#include "policy/rollout.h"

#define GW_REACH_UNKNOWN 8u // attributes that no device has, of those that are named

struct gw_core;

// Borrowed during the call.
struct gw_reach_spec {
    uint16_t tenant;
    struct pol_target target;
    const struct pol_stage *stages; // their audiences
    uint32_t stage_count;
    bool trust_unproven; // devices count that did not show who they are
};

struct gw_reach_unknown {
    uint32_t stage; // number from 1 of the stage whose audience asks; 0: the target
    char attr[33];
    char like[33]; // a name that devices have told, or that is usual, and is nearly that; or empty
};

struct gw_reach {
    uint64_t seen;      // devices looked at; all that count when `matched` is false
    uint64_t strangers; // passed over: they did not show who they are
    bool matched;       // by the target
    uint32_t unknown_count;
    struct gw_reach_unknown unknown[GW_REACH_UNKNOWN];
};

// Any thread. NOMEM.
BASE_NODISCARD enum base_status
gw_reach_find(struct gw_core *core, const struct gw_reach_spec *spec, struct gw_reach *out);
// CONFLICT with what and where in `error`, when somebody who starts a rollout should know first.
BASE_NODISCARD enum base_status
gw_reach_check(struct gw_core *core, const struct gw_reach_spec *spec, struct base_error *error);

#endif

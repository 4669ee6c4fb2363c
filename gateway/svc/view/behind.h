// Which open rollouts of its task come before a rollout: devices that both target follow the other
// one, whatever it has reached, and are offered this one once that has ended (policy/desired.h).
// Control thread.
#ifndef GW_BEHIND_H
#define GW_BEHIND_H

#include "svc/rollout/catalog.h"

#include "policy/rollout.h"

struct gw_core;
struct gw_rollout;

struct gw_behind {
    uint64_t rollout;
    char version[GW_VERSION_TEXT_MAX + 1]; // empty: not known any more
    enum pol_rollout_state state;
};

// In the order in which devices ask them; none of a rollout that is not open, of one whose target
// no device can match beside this one's, or in another arm of the same experiment. Whether any
// known device is in both targets is not looked for (svc/device/preview.h does). Returns how many.
uint32_t gw_behind_of(struct gw_core *core, const struct gw_rollout *rollout,
                      struct gw_behind out[GW_TASK_OPEN_MAX]);

#endif

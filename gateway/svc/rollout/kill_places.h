// Places of killed versions: on the kill list, which is full at GW_KILLS_MAX, and in the timestamp,
// which tells devices of WIRE_TIMESTAMP_KILLS_MAX. Tenants share both, so that none can take
// another's. Control thread.
#ifndef GW_KILL_PLACES_H
#define GW_KILL_PLACES_H

#include "svc/trust/director.h"

struct gw_told_kills {
    uint32_t count;
    struct wire_sha256 items[WIRE_TIMESTAMP_KILLS_MAX]; // ascending
};

// Which kills devices are told of; each entry of the list knows it then. NOMEM.
BASE_NODISCARD enum base_status gw_kill_places_tell(struct gw_core *core,
                                                    struct gw_told_kills *out);
// Whose a version is: the tenant whose rollouts brought it; GW_TENANT_EVERY without one.
uint16_t gw_kill_places_owner(const struct gw_core *core, const struct wire_sha256 *manifest);
// The list is full: whose entry gives way to one of `asker` (GW_TENANT_EVERY: an operator of all
// tenants) is *out. LIMIT: nobody's, `error` says why. NOMEM.
BASE_NODISCARD enum base_status gw_kill_places_yield(struct gw_core *core, uint16_t asker,
                                                     struct gw_kill *out, struct base_error *error);

#endif

// Is there room for a release in what devices with a root are told?
//
// A timestamp names WIRE_TIMESTAMP_SCENARIOS_MAX scenarios, a snapshot WIRE_SNAPSHOT_ENTRIES_MAX
// entries. What has no place there no such device runs, so it is refused before anything is
// offered. A scenario keeps its place: what devices were told never goes back.
#ifndef GW_SCENARIO_ROOM_H
#define GW_SCENARIO_ROOM_H

#include "base/error.h"

struct gw_core;
struct gw_release;

// Before a rollout is made, and before it leads on. OK also where no root is served. CONFLICT:
// `error` says what is full, and what there is to do. Control thread.
BASE_NODISCARD enum base_status gw_scenario_room(const struct gw_core *core,
                                                 const struct gw_release *release,
                                                 struct base_error *error);

#endif

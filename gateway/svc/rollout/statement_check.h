// Whether what a rollout's statements say can still be followed: of the manifest that is
// registered, and long enough. What can never be is refused where somebody can still sign anew.
// Control thread.
#ifndef GW_STATEMENT_CHECK_H
#define GW_STATEMENT_CHECK_H

#include "svc/plan/release.h"

// A release counter may be at most so far above its task's: none uses up those that are left.
#define GW_RELEASE_STEP_MAX (UINT64_C(1) << 42)
#define GW_RELEASE_COUNTER_MAX                                                                     \
    ((UINT64_C(1) << 53) - 2) // numbers of JSON end there, with a next one

struct gw_core;

// For a rollout that is made or started (`first` 0), or whose stage `first` is approved:
// statements of that stage and those behind it that have run out, or do so before its min_dwell is
// over, and a manifest_bytes that is not the registered manifest's. INVALID: `error` says which
// stage and what.
BASE_NODISCARD enum base_status gw_statement_check(struct gw_core *core,
                                                   const struct gw_release *release, uint32_t first,
                                                   struct base_error *error);
// Of a new rollout of a task that is at `task_counter`. CONFLICT: not above it; INVALID: too far,
// or without a next one.
BASE_NODISCARD enum base_status gw_statement_counter(const struct gw_release *release,
                                                     uint64_t task_counter,
                                                     struct base_error *error);

// Room for a release in what devices with a root are told: a timestamp names
// WIRE_TIMESTAMP_SCENARIOS_MAX scenarios, a snapshot WIRE_SNAPSHOT_ENTRIES_MAX entries. What has no
// place there no such device runs. A scenario keeps its place: what devices were told never goes
// back. A tenant has its share of them (gw_tenant_share). Before a rollout is made, and before it
// leads on; OK also where no root is served. CONFLICT: `error` says what is full, and what there is
// to do.
BASE_NODISCARD enum base_status
gw_scenario_room(struct gw_core *core, const struct gw_release *release, struct base_error *error);

#endif

// Kills as operators order them, and what the end of the process cut off of one. Control thread.
#ifndef GW_KILL_COMMANDS_H
#define GW_KILL_COMMANDS_H

#include "svc/trust/director.h"

// Of a version, to be killed or to be no more: who says so, and why.
struct gw_kill_order {
    const struct wire_sha256 *manifest;
    struct base_str by;     // cut at GW_TRUST_BY_MAX
    struct base_str reason; // cut at GW_TRUST_REASON_MAX
};

// The first half of a kill by the version's own tenant: the list. On a full one an entry gives way
// (svc/rollout/kill_places.h). Whatever is cut off behind it is finished at the next start. LIMIT,
// FULL, IO: nothing happened.
BASE_NODISCARD enum base_status gw_trust_list(struct gw_core *core,
                                              const struct gw_kill_order *order, bool *out_created,
                                              struct base_error *error);
// Puts a version on the kill list for an operator of all tenants, and takes its open rollouts back.
// OK also when it is there (*out_created false). LIMIT, FULL, IO.
BASE_NODISCARD enum base_status gw_trust_kill(struct gw_core *core,
                                              const struct gw_kill_order *order, bool *out_created,
                                              struct base_error *error);
// Takes a version off the kill list. It may be released anew, and a rollout that had completed is
// a baseline again, to which devices go back; one that the kill ended stays so. That this is still
// to be said in logs (gw_kill_note_end) is stored with it, by whom and why. NOT_FOUND, FULL, IO.
BASE_NODISCARD enum base_status
gw_trust_unkill(struct gw_core *core, const struct gw_kill_order *order, struct base_error *error);
// At start, once rollouts and kills are loaded: a kill, or its end, that the end of the process cut
// off between its commits is finished.
void gw_trust_finish_kills(struct gw_core *core);

#endif

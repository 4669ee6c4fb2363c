// What a kill, and its end, mean to the rollouts of the version: a line in their logs, the way back
// for those that are open, and what comes back with the version. Control thread.
#ifndef GW_KILL_ROLLOUTS_H
#define GW_KILL_ROLLOUTS_H

#include "svc/trust/director.h"
#include "svc/rollout/rollouts.h"

#define GW_KILL_ROLLOUTS_MAX 16u // named of a version; the others are counted

struct gw_rollout;

// Who that is, and behind it in brackets the name it goes by where that is another.
void gw_kill_by(const struct gw_rollout_who *who, char out[GW_TRUST_BY_MAX + 1]);
// The first half of a kill by the version's own tenant: gw_trust_list, with all of `who`.
BASE_NODISCARD enum base_status gw_kill_put(struct gw_core *core,
                                            const struct wire_sha256 *manifest,
                                            const struct gw_rollout_who *who, bool *out_created,
                                            struct base_error *error);
// The second half. `is_news`: the version is on the list since now, and a line in the log of each
// of its rollouts that is not going back says so; what cannot be stored is left out, and said in
// the gateway's log. Those that are open go back: orders reach also devices that know no kill list.
void gw_kill_rollouts(struct gw_core *core, const struct wire_sha256 *manifest, bool is_news,
                      const struct gw_rollout_who *who);

// What the end of the process cut off of a kill of the rollout's version, at the next start: its
// line, in the name of who killed it, and then the way back, if it is open.
void gw_kill_finish(struct gw_core *core, struct gw_rollout *rollout, const struct gw_kill *kill);

// Completed rollouts that are baselines again once their version is off the list.
struct gw_kill_back {
    uint32_t rollout_count;
    uint64_t rollouts[GW_KILL_ROLLOUTS_MAX]; // the others are counted
    uint64_t devices; // known ones that had the version well from them, and may go back to it
    uint64_t floored; // known ones that had it, too: what ran well there since names a floor above
};
void gw_kill_back(struct gw_core *core, const struct wire_sha256 *manifest,
                  struct gw_kill_back *out);
// A line in the log of each of those; then it is said (gw_trust_unkill_said).
void gw_kill_note_end(struct gw_core *core, const struct wire_sha256 *manifest,
                      const struct gw_rollout_who *who);
// What the end of the process cut off of that, at the next start.
void gw_kill_finish_end(struct gw_core *core, const struct gw_kill *end);

#endif

// The kill list as operators see it: which versions, who put them there and why, and the rollouts
// that this ended. Control thread.
#ifndef GW_KILL_LIST_H
#define GW_KILL_LIST_H

#include "svc/rollout/rollouts.h"

#define GW_KILL_ROLLOUTS_MAX 16u // named of a version; the others are counted

struct gw_kill_view {
    struct wire_sha256 manifest;
    uint64_t version_id;
    uint16_t tenant;  // whose version it is; GW_TENANT_EVERY: of no rollout here
    bool is_killed;   // false: what follows about the kill is empty
    uint64_t time_us; // of the kill
    const char *by;   // the core's, until the list changes
    const char *reason;
    char task[WIRE_TASK_NAME_MAX + 1];     // empty: nothing here has such a version
    char version[GW_VERSION_TEXT_MAX + 1]; // its number; empty: it is not registered
    bool is_signed;                        // in the timestamp that devices fetch
    bool is_untold;                        // devices can have it, and it has no place there
    uint32_t rollout_count;                // that the kill ended
    uint64_t rollouts[GW_KILL_ROLLOUTS_MAX];
};

// Kills behind `after` (NULL: from the first one), ascending by manifest, at most `limit`. Returns
// how many; *out_more: there are others behind them.
uint32_t gw_kill_list(struct gw_core *core, const struct wire_sha256 *after, uint32_t limit,
                      struct gw_kill_view *out, bool *out_more);

// One version, on the list or not. What is borrowed is the core's, until the list changes.
void gw_kill_get(struct gw_core *core, const struct wire_sha256 *manifest,
                 struct gw_kill_view *out);

#endif

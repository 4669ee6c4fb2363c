// Rollouts as lists show them: the newest first, page by page, or those whose id begins so. Control
// thread.
#ifndef GW_ROLLOUT_PAGE_H
#define GW_ROLLOUT_PAGE_H

#include "base/str.h"
#include "policy/rollout.h"
#include "svc/rollout/catalog.h"

// May the asker see rollouts of this task?
typedef bool (*gw_rollout_sees_fn)(void *ctx, uint16_t tenant, struct base_str task);

struct gw_rollout_ask {
    gw_rollout_sees_fn sees; // NULL: all of them
    void *ctx;
    uint64_t after;       // id of the last one of the page before; 0 begins
    uint64_t id_from;     // ids from here
    uint64_t id_to;       // ... to here; 0: to the last
    struct base_str task; // its name; empty: of any task
    bool has_state;       // only those in `state`
    enum pol_rollout_state state;
    uint32_t limit; // at most GW_PAGE_MAX
};

struct gw_rollout_page {
    uint32_t count;
    bool more;
    uint64_t ids[GW_PAGE_MAX]; // by the time they were made, then by id; the newest first
};

// NOT_FOUND: there is no rollout `after`.
BASE_NODISCARD enum base_status gw_rollout_page(struct gw_core *core,
                                                const struct gw_rollout_ask *ask,
                                                struct gw_rollout_page *out);

// Whom the rollout is for; NULL: there is none with this id. Valid as long as the rollout.
const struct pol_target *gw_rollout_target(struct gw_core *core, uint64_t id);
// For whom in it a stage is; NULL: there is none.
const struct pol_target *gw_rollout_audience(struct gw_core *core, uint64_t id, uint32_t stage);

#endif

// Who has nothing left, by its floor or for want of a baseline; see floored.h. Called by the API's
// handlers. That is api_catalog.c, on the control thread, for the warning that the command gives
// after a kill. It walks all devices with a batch for each time a shard's mutex is held, and asks
// the target once for each distinct attribute block and not for each device.
#include "svc/view/floored.h"

#include "policy/desired.h"
#include "svc/core_private.h"
#include "svc/rollout/rollout_state.h"
#include "svc/access/credentials.h"
#include "svc/device/device_table.h"
#include "svc/plan/attr_pool.h"
#include "svc/rollout/catalog_private.h"
#include "svc/tally/tally.h"
#include "svc/trust/director.h"

#include <stdlib.h>
#include <string.h>

#define WALK_BATCH 256u // devices looked at with a shard's mutex held

// Was it taken back, so that who ran it goes elsewhere?
static bool is_taken_back(const struct gw_core *core, const struct gw_rollout *rollout)
{
    return rollout->state.state == POL_ROLLOUT_ROLLING_BACK ||
           rollout->state.state == POL_ROLLOUT_ROLLED_BACK ||
           gw_director_kills(core, &rollout->release->manifest);
}

// The one with the most devices, of all that were taken back or of the one that is asked for.
static void find_floored(struct gw_core *core, const struct gw_task *task, uint64_t rollout_id,
                         struct gw_floored *out)
{
    const struct gw_rollout *baseline = gw_task_baseline(core, task);
    uint64_t left = baseline != NULL ? baseline->release->release_counter : 0;
    for (uint32_t i = 0; i < core->catalog->rollout_count; i++) {
        const struct gw_rollout *rollout = core->catalog->rollouts[i];
        struct gw_rollout_counts counts;
        if (rollout->task != task || (rollout_id != 0 && rollout->release->id != rollout_id) ||
            (baseline != NULL && rollout->release->floor <= left) ||
            !is_taken_back(core, rollout) ||
            !gw_tally_counts(core->tally, rollout->release->id, GW_TALLY_STAGE_ALL,
                             gw_core_sure_s(core), &counts)) {
            continue;
        }
        if (counts.ran > out->devices) {
            *out = (struct gw_floored){.rollout = rollout->release->id,
                                       .floor = rollout->release->floor,
                                       .baseline = left,
                                       .devices = counts.ran};
        }
    }
}

// ---- Whom no baseline is for

enum { NOT_LOOKED, LEFT_OUT, NOT_LEFT_OUT };

struct walk {
    struct gw_core *core;
    uint16_t tenant;
    const struct pol_target *target; // of the rollout
    uint32_t base_count;
    struct gw_rollout *bases[GW_PLAN_BASES_MAX];
    uint8_t *looked; // by attrs_id
    uint32_t block_count;
    uint64_t left_out;
};

static bool is_left_out(const struct walk *walk, uint32_t attrs_id)
{
    struct gw_attrs_view view;
    struct pol_attrs attrs = {NULL, 0};
    size_t size = 0;
    const uint8_t *bytes = gw_attr_pool_get(walk->core->pool, attrs_id, &size);
    if (bytes != NULL && gw_attrs_view(bytes, size, &view) == BASE_OK) {
        attrs = view.attrs;
    }
    bool left_out = pol_target_match(walk->target, &attrs).matched;
    for (uint32_t i = 0; i < walk->base_count && left_out; i++) {
        left_out = !pol_target_match(&walk->bases[i]->release->target, &attrs).matched;
    }
    return left_out;
}

static void see_device(void *ctx, struct gw_device_visit *visit)
{
    struct walk *walk = ctx;
    // Blocks that came meanwhile are as none: their devices came just now.
    uint32_t id = visit->attrs_id < walk->block_count ? visit->attrs_id : 0;
    if (gw_device_tenant(walk->core, visit->device_id) != walk->tenant) {
        return;
    }
    if (walk->looked[id] == NOT_LOOKED) {
        walk->looked[id] = is_left_out(walk, id) ? LEFT_OUT : NOT_LEFT_OUT;
    }
    walk->left_out += walk->looked[id] == LEFT_OUT ? 1 : 0;
}

// Did it run well anywhere? Of one that never did nobody loses anything.
static bool has_run(const struct gw_core *core, const struct gw_rollout *rollout)
{
    struct gw_rollout_counts counts;
    return gw_tally_counts(core->tally, rollout->release->id, GW_TALLY_STAGE_ALL,
                           gw_core_sure_s(core), &counts) &&
           counts.ran > 0;
}

static bool is_everybodys(const struct pol_target *target)
{
    return target->cond_count == 0 && target->expr == NULL;
}

static enum base_status find_untargeted(struct gw_core *core, const struct gw_rollout *rollout,
                                        struct gw_floored *out)
{
    struct walk walk = {.core = core,
                        .tenant = rollout->task->tenant,
                        .target = &rollout->release->target,
                        .block_count = gw_attr_pool_count(core->pool) + 1};
    walk.base_count = gw_task_live_bases(core, rollout->task, walk.bases);
    for (uint32_t i = 0; i < walk.base_count; i++) {
        if (is_everybodys(&walk.bases[i]->release->target)) {
            return BASE_OK;
        }
    }
    walk.looked = calloc(walk.block_count, 1);
    if (walk.looked == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t shard = 0; shard < GW_DEVICE_TABLE_SHARDS; shard++) {
        uint32_t seen = WALK_BATCH;
        for (uint32_t from = 0; seen == WALK_BATCH; from += seen) {
            seen = gw_device_table_walk(core->table, (struct gw_device_place){shard, from},
                                        WALK_BATCH, see_device, &walk);
        }
    }
    free(walk.looked);
    const struct gw_rollout *baseline = gw_task_baseline(core, rollout->task);
    *out = (struct gw_floored){.rollout = rollout->release->id,
                               .floor = rollout->release->floor,
                               .baseline = baseline->release->release_counter,
                               .untargeted = walk.left_out};
    return BASE_OK;
}

static uint32_t count_open(const struct gw_core *core, const struct gw_task *task)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < task->open_count; i++) {
        enum pol_claim_state claim;
        count += pol_rollout_claims(&task->open[i]->state, &claim) && claim == POL_CLAIM_OPEN &&
                 !gw_director_kills(core, &task->open[i]->release->manifest);
    }
    return count;
}

enum base_status gw_floored_of(struct gw_core *core, uint64_t task_id, uint64_t rollout_id,
                               struct gw_floored *out)
{
    const struct gw_task *task = gw_catalog_find_task(core, task_id);
    memset(out, 0, sizeof(*out));
    if (task == NULL) {
        return BASE_OK;
    }
    const struct gw_rollout *rollout =
        rollout_id != 0 ? gw_catalog_find_rollout(core, rollout_id) : NULL;
    if (rollout_id != 0 && (rollout == NULL || rollout->task != task)) {
        return BASE_ERR_NOT_FOUND;
    }
    find_floored(core, task, rollout_id, out);
    bool more = rollout != NULL && out->devices == 0 && is_taken_back(core, rollout) &&
                gw_task_baseline(core, task) != NULL && has_run(core, rollout);
    enum base_status status = more ? find_untargeted(core, rollout, out) : BASE_OK;
    out->open = out->devices > 0 || out->untargeted > 0 ? count_open(core, task) : 0;
    return status;
}

// What a task is on: its completed rollouts, approved last first, and the open ones by priority. In
// memory alone; the catalog and the rollouts keep both up to date, plan_of_catalog.c and the
// director's list read them. Control thread.
#include "svc/core_private.h"
#include "svc/rollout/catalog_private.h"
#include "svc/trust/director.h"

#include <string.h>

void gw_task_base(struct gw_task *task, struct gw_rollout *rollout)
{
    uint64_t approved = rollout->release->release_counter;
    uint32_t at = 0;
    while (at < task->base_count && task->bases[at]->release->release_counter > approved) {
        at++;
    }
    if (at == GW_TASK_BASES_MAX) {
        return;
    }
    if (task->base_count == GW_TASK_BASES_MAX) {
        task->base_count--;
    }
    memmove(&task->bases[at + 1], &task->bases[at],
            (task->base_count - at) * sizeof(task->bases[0]));
    task->bases[at] = rollout;
    task->base_count++;
}

static bool is_for_everybody(const struct gw_rollout *rollout)
{
    const struct gw_release *release = rollout->release;
    const struct pol_stage *last = &release->stages[release->stage_count - 1];
    return release->target.cond_count == 0 && release->target.expr == NULL &&
           release->arm.to == 0 && last->max_bucket == POL_BUCKET_COUNT &&
           last->audience.cond_count == 0 && last->audience.expr == NULL &&
           rollout->quarantine_count == 0;
}

static bool is_among(const uint64_t *versions, uint32_t count, uint64_t version)
{
    for (uint32_t i = 0; i < count; i++) {
        if (versions[i] == version) {
            return true;
        }
    }
    return false;
}

// Room is kept for the versions that are for everybody, so that those for others leave nobody with
// nothing. Those behind the first are for who refuses it, in whichever rollout that was completed.
uint32_t gw_task_live_bases(const struct gw_core *core, const struct gw_task *task,
                            struct gw_rollout *out[GW_PLAN_BASES_MAX])
{
    uint32_t count = 0;
    uint64_t all[GW_PLAN_BASES_ALL_MAX]; // versions for everybody
    uint32_t missing = GW_PLAN_BASES_ALL_MAX;
    for (uint32_t i = 0; i < task->base_count && missing > 0; i++) {
        const struct gw_release *release = task->bases[i]->release;
        if (gw_director_kills(core, &release->manifest)) {
            continue;
        }
        bool settled = !task->bases[i]->state.guarding; // else it may be held back
        uint32_t found = GW_PLAN_BASES_ALL_MAX - missing;
        bool another = settled && !is_among(all, found, release->version_id) &&
                       is_for_everybody(task->bases[i]);
        if (another) {
            all[found] = release->version_id;
            missing--;
        }
        if (another || count + missing < GW_PLAN_BASES_MAX) {
            out[count++] = task->bases[i];
        }
    }
    return count;
}

bool gw_task_is_superseded(const struct gw_core *core, const struct gw_task *task,
                           const struct gw_rollout *base)
{
    for (uint32_t i = 0; i < task->base_count && task->bases[i] != base; i++) {
        const struct gw_rollout *later = task->bases[i];
        if (later->state.state != POL_ROLLOUT_PAUSED && is_for_everybody(later) &&
            !gw_director_kills(core, &later->release->manifest)) {
            return true;
        }
    }
    return false;
}

struct gw_rollout *gw_task_completed_last(const struct gw_task *task)
{
    return task->base_count > 0 ? task->bases[0] : NULL;
}

struct gw_rollout *gw_task_baseline(const struct gw_core *core, const struct gw_task *task)
{
    for (uint32_t i = 0; i < task->base_count; i++) {
        if (!gw_director_kills(core, &task->bases[i]->release->manifest)) {
            return task->bases[i];
        }
    }
    return NULL;
}

bool gw_task_is_begun(const struct gw_task *task)
{
    bool begun = task->base_count > 0 || task->taken_back != NULL;
    for (uint32_t i = 0; i < task->open_count && !begun; i++) {
        begun = task->open[i]->state.state != POL_ROLLOUT_DRAFT;
    }
    return begun;
}

// As a device asks them (policy/desired.h).
static bool goes_before(const struct gw_rollout *a, const struct gw_rollout *b)
{
    if (a->release->priority != b->release->priority) {
        return a->release->priority > b->release->priority;
    }
    return a->release->release_counter < b->release->release_counter;
}

// One that goes back claims nothing: it makes room for one that does.
static bool make_room(struct gw_task *task, const struct gw_rollout *rollout)
{
    uint32_t at = 0;
    while (at < task->open_count && task->open[at]->state.state != POL_ROLLOUT_ROLLING_BACK) {
        at++;
    }
    if (at == task->open_count || rollout->state.state == POL_ROLLOUT_ROLLING_BACK) {
        return false;
    }
    task->open_count--;
    memmove(&task->open[at], &task->open[at + 1], (task->open_count - at) * sizeof(task->open[0]));
    return true;
}

bool gw_task_open(struct gw_task *task, struct gw_rollout *rollout)
{
    if (task->open_count == GW_PLAN_OPEN_MAX && !make_room(task, rollout)) {
        return false;
    }
    uint32_t at = task->open_count;
    while (at > 0 && goes_before(rollout, task->open[at - 1])) {
        task->open[at] = task->open[at - 1];
        at--;
    }
    task->open[at] = rollout;
    task->open_count++;
    return true;
}

// What a plan is made of: a task of the plan for every task of the catalog, and a further one for
// the shadows of those that ever had a rollout with a shadow stage. To a worker a task's shadows
// are one more task, with an id of its own; so the digest of what a device should have is exact,
// and nothing on the way of a check-in knows about shadows. Control thread.
#include "svc/core_private.h"
#include "svc/rollout/catalog_private.h"
#include "svc/rollout/publish.h"
#include "svc/trust/director_private.h"
#include "svc/core_worker.h"
#include "svc/plan/plan.h"

#include "policy/desired.h"

#include <stdlib.h>
#include <string.h>

struct part {
    uint64_t task_id; // of the plan
    const struct gw_task *task;
    bool shadow;
};

struct parts {
    const struct gw_core *core;
    struct part *items;
};

static void fill_open(const struct gw_core *core, struct gw_plan_task *out,
                      const struct gw_rollout *open)
{
    enum pol_claim_state claim;
    if (!pol_rollout_claims(&open->state, &claim) ||
        gw_director_kills(core, &open->release->manifest)) {
        return;
    }
    const struct pol_stage *newest = &open->release->stages[open->state.stage_index];
    if (out->shadow && newest->kind != POL_STAGE_SHADOW) {
        return; // over, or to come
    }
    struct gw_plan_open *to = &out->open[out->open_count++];
    to->release = open->release;
    to->quarantine = gw_kept_off_signature(open->kept_off);
    to->kept_off = open->kept_off;
    to->state = open->state;
    bool paused = claim == POL_CLAIM_PAUSED || open->halted;
    to->state.state = paused ? POL_ROLLOUT_PAUSED : POL_ROLLOUT_RUNNING;
}

static void fill_bases(const struct gw_core *core, struct gw_plan_task *out,
                       const struct gw_task *task)
{
    struct gw_rollout *bases[GW_PLAN_BASES_MAX];
    out->base_count = gw_task_live_bases(core, task, bases);
    for (uint32_t i = 0; i < out->base_count; i++) {
        const struct gw_rollout *base = bases[i];
        out->bases[i] = (struct gw_plan_base){
            .release = base->release,
            .quarantine = gw_kept_off_signature(base->kept_off),
            .kept_off = base->kept_off,
            .guarded = base->state.guarding,
            .held = base->state.state == POL_ROLLOUT_PAUSED || base->halted,
        };
    }
}

static void fill_task(const void *ctx, uint32_t i, struct gw_plan_task *out)
{
    const struct parts *parts = ctx;
    const struct gw_task *task = parts->items[i].task;
    out->task_id = parts->items[i].task_id;
    out->tenant = task->tenant;
    out->shadow = parts->items[i].shadow;
    out->slot = out->shadow ? task->shadow_slot : task->slot;
    out->begun = !out->shadow && gw_task_is_begun(task);
    for (uint32_t k = 0; k < task->open_count; k++) {
        fill_open(parts->core, out, task->open[k]);
    }
    if (out->shadow) {
        return;
    }
    fill_bases(parts->core, out, task);
}

static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a;
    const struct part *y = b;
    return x->task_id < y->task_id ? -1 : x->task_id > y->task_id;
}

static bool needs_shadow(const struct gw_task *task)
{
    bool needs = false;
    for (uint32_t k = 0; k < task->open_count; k++) {
        needs = needs || gw_release_has_shadow(task->open[k]->release);
    }
    return needs;
}

struct gw_plan *gw_plan_of_catalog(struct gw_core *core, bool *out_changed)
{
    struct gw_catalog *catalog = core->catalog;
    uint32_t count = 0;
    for (uint32_t i = 0; i < catalog->task_count; i++) {
        struct gw_task *task = catalog->tasks[i];
        if (task->shadow_slot == 0 && needs_shadow(task)) {
            task->shadow_slot = catalog->slot_count++; // never 0: the task itself came before
        }
    }
    // A task and perhaps its shadows; one more, so that there is something to free.
    size_t most = 2 * (size_t)catalog->task_count + 1;
    struct parts parts = {core, malloc(most * sizeof(parts.items[0]))};
    *out_changed = true;
    if (parts.items == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < catalog->task_count; i++) {
        const struct gw_task *task = catalog->tasks[i];
        parts.items[count++] = (struct part){task->task_id, task, false};
        if (task->shadow_slot != 0) {
            parts.items[count++] = (struct part){wire_shadow_task_id(task->task_id), task, true};
        }
    }
    if (count > catalog->task_count) { // tasks alone are in order
        qsort(parts.items, count, sizeof(parts.items[0]), compare_parts);
    }
    struct gw_plan *plan = gw_plan_build(core->plan, count, fill_task, &parts, out_changed);
    free(parts.items);
    return plan;
}

// ---- To the workers

// Leaves the newest plan and metadata with a worker. Under workers_lock.
static void hand_out(struct gw_core *core, struct gw_worker *worker, struct gw_plan *plan)
{
    pthread_mutex_lock(&worker->inbox_lock);
    if (plan != NULL) {
        gw_plan_unref(worker->next_plan);
        worker->next_plan = gw_plan_ref(plan);
    }
    gw_meta_unref(worker->next_meta);
    worker->next_meta = gw_meta_ref(core->meta);
    pthread_mutex_unlock(&worker->inbox_lock);
    gw_worker_wake(worker);
}

void gw_core_publish(struct gw_core *core)
{
    bool changed;
    bool news = gw_director_build(core); // before the plan: what is offered is listed already
    struct gw_plan *plan = gw_plan_of_catalog(core, &changed);
    if (!changed && !news) {
        return;
    }
    if (changed && plan == NULL) {
        base_log_debug(core->log, "core", "no memory for a plan of %u tasks",
                       core->catalog->task_count);
        return;
    }
    pthread_mutex_lock(&core->workers_lock);
    if (news) {
        gw_meta_unref(core->meta);
        core->meta = gw_meta_ref(core->director->meta);
    }
    if (plan != NULL) {
        gw_plan_unref(core->plan);
        core->plan = plan;
    }
    for (uint32_t i = 0; i < core->worker_count; i++) {
        hand_out(core, core->workers[i], plan);
    }
    pthread_mutex_unlock(&core->workers_lock);
}

struct gw_plan *gw_worker_plan_ref(struct gw_worker *worker)
{
    return gw_plan_ref(worker->plan);
}

// What a snapshot lists: of every task that was ever begun, the releases that may be ordered now.
// Control thread. The director asks by a function it is given (struct gw_director_sources), for the
// catalog is above it.
#include "svc/view/release_list.h"

#include "svc/core_private.h"
#include "svc/rollout/catalog_private.h"
#include "svc/trust/director_private.h"

#include <stdlib.h>

#define ENTRIES_PER_TASK (2 * (GW_PLAN_CLAIMS_MAX + 1u)) // each release with its way back

static int compare_listed(const void *a, const void *b)
{
    const struct gw_listed *x = a;
    const struct gw_listed *y = b;
    if (x->scenario != y->scenario) {
        return x->scenario < y->scenario ? -1 : 1;
    }
    if (x->entry.task_id != y->entry.task_id) {
        return x->entry.task_id < y->entry.task_id ? -1 : 1;
    }
    return x->entry.counter < y->entry.counter ? -1 : x->entry.counter > y->entry.counter;
}

static void list(struct gw_listing *listing, uint32_t scenario, uint64_t task_id, uint64_t counter,
                 const struct wire_sha256 *manifest)
{
    struct gw_listed *item = &listing->items[listing->count++];
    *item = (struct gw_listed){.scenario = scenario};
    item->entry.task_id = task_id;
    item->entry.counter = counter;
    item->entry.manifest = *manifest;
}

static void list_release(struct gw_listing *listing, uint32_t scenario,
                         const struct gw_release *release)
{
    list(listing, scenario, release->task_id, release->release_counter, &release->manifest);
    if (release->back_counter != 0) { // nothing is approved under it: it only does not go back
        list(listing, scenario, release->task_id, release->back_counter, &release->manifest);
    }
}

// What may be ordered of a task now: what is open, and what devices may be on after it. What was
// approved last stays listed, also when it was taken back: the highest counter never goes back.
static void list_task(const struct gw_core *core, struct gw_listing *listing, uint32_t scenario,
                      const struct gw_task *task)
{
    struct gw_rollout *bases[GW_PLAN_BASES_MAX];
    uint32_t base_count = gw_task_live_bases(core, task, bases);
    const struct gw_rollout *last = gw_task_completed_last(task);
    for (uint32_t i = 0; i < task->open_count; i++) {
        const struct gw_rollout *open = task->open[i];
        if (open->state.state != POL_ROLLOUT_DRAFT) {
            list_release(listing, scenario, open->release);
        }
    }
    for (uint32_t i = 0; i < base_count; i++) {
        list_release(listing, scenario, bases[i]->release);
    }
    if (task->taken_back != NULL &&
        (last == NULL ||
         last->release->release_counter < task->taken_back->release->release_counter)) {
        last = task->taken_back;
    }
    if (last != NULL) { // listed twice it counts once
        list_release(listing, scenario, last->release);
    }
}

enum base_status gw_release_list(struct gw_core *core, struct gw_listing *listing)
{
    const struct gw_catalog *catalog = core->catalog;
    listing->count = 0;
    listing->items =
        calloc((size_t)catalog->task_count * ENTRIES_PER_TASK + 1, sizeof(struct gw_listed));
    if (listing->items == NULL) {
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < catalog->task_count; i++) {
        const struct gw_task *task = catalog->tasks[i];
        struct base_str name = wire_scenario_of(base_str_of(task->name));
        uint32_t scenario =
            gw_task_is_begun(task) ? gw_director_scenario(core->director, name) : UINT32_MAX;
        if (scenario != UINT32_MAX) {
            list_task(core, listing, scenario, task);
        }
    }
    qsort(listing->items, listing->count, sizeof(struct gw_listed), compare_listed);
    return BASE_OK;
}

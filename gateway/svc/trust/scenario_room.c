// Room for a release in timestamp and snapshots; see the header. rollouts.c asks before it makes a
// rollout and before one leads on; director.c lists what was let in. Control thread. A walk over
// all tasks: such commands are rare, and what devices are told is made anew after each anyway.
#include "svc/trust/scenario_room.h"

#include "svc/core_private.h"
#include "svc/trust/director.h"

// Scenarios that have a place, or get one when the metadata is made next.
struct scenarios {
    uint32_t count;
    struct base_str names[WIRE_TIMESTAMP_SCENARIOS_MAX];
};

static bool has(const struct scenarios *scenarios, struct base_str name)
{
    for (uint32_t i = 0; i < scenarios->count; i++) {
        if (base_str_equal(scenarios->names[i], name)) {
            return true;
        }
    }
    return false;
}

static void scenarios_gather(const struct gw_core *core, struct scenarios *out)
{
    const struct gw_director *director = &core->director;
    const struct gw_catalog *catalog = &core->catalog;
    out->count = 0;
    for (uint32_t i = 0; i < director->scenario_count; i++) {
        out->names[out->count++] = base_str_of(director->scenarios[i].name);
    }
    for (uint32_t i = 0; i < catalog->task_count && out->count < WIRE_TIMESTAMP_SCENARIOS_MAX;
         i++) {
        struct base_str name = wire_scenario_of(base_str_of(catalog->tasks[i]->name));
        if (gw_task_is_begun(catalog->tasks[i]) && !has(out, name)) {
            out->names[out->count++] = name;
        }
    }
}

// At most so many entries has a task beside those of the release: each may be listed with a way
// back, and what was completed last once more.
static uint32_t entries_of(const struct gw_task *task, const struct gw_release *release)
{
    uint32_t bases = task->base_count < GW_PLAN_BASES_MAX ? task->base_count : GW_PLAN_BASES_MAX;
    uint32_t count = gw_task_is_begun(task) ? bases + 1 : 0;
    for (uint32_t i = 0; i < task->open_count; i++) {
        const struct gw_rollout *open = task->open[i];
        count += open->state.state != POL_ROLLOUT_DRAFT && open->release->id != release->id;
    }
    return 2 * count;
}

static uint32_t entries_beside(const struct gw_core *core, const struct gw_release *release,
                               struct base_str scenario)
{
    const struct gw_catalog *catalog = &core->catalog;
    uint32_t count = 0;
    for (uint32_t i = 0; i < catalog->task_count; i++) {
        const struct gw_task *task = catalog->tasks[i];
        if (base_str_equal(wire_scenario_of(base_str_of(task->name)), scenario)) {
            count += entries_of(task, release);
        }
    }
    return count;
}

enum base_status gw_scenario_room(const struct gw_core *core, const struct gw_release *release,
                                  struct base_error *error)
{
    struct base_str name = wire_scenario_of(base_str_of(release->task));
    struct scenarios scenarios;
    if (core->director.signer == NULL || core->director.root_count == 0) {
        return BASE_OK;
    }
    scenarios_gather(core, &scenarios);
    if (scenarios.count == WIRE_TIMESTAMP_SCENARIOS_MAX && !has(&scenarios, name)) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "task: devices with a root are told of %u scenarios, and others have "
                              "all places: release %s under a scenario that has one",
                              WIRE_TIMESTAMP_SCENARIOS_MAX, release->task);
    }
    if (entries_beside(core, release, name) + 2 > WIRE_SNAPSHOT_ENTRIES_MAX) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "task: scenario %.*s has all %u places of what devices are told: "
                              "end rollouts, or use another scenario",
                              (int)name.size, name.data, WIRE_SNAPSHOT_ENTRIES_MAX);
    }
    return BASE_OK;
}

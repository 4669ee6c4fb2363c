// What an operator signed, against the clock, the catalog and the counters of the task. Called by
// rollouts.c before a rollout is made, started or approved; control thread. It reads catalog and
// clock and changes nothing; signatures were checked before. A statement that ends before its stage
// could, or whose counter is behind the task's, is refused here with words: a device would refuse
// it without any.
#include "svc/rollout/statement_check.h"

#include "svc/access/operators.h"
#include "svc/core_private.h"
#include "svc/rollout/catalog_private.h"
#include "svc/trust/director_private.h"

static enum base_status check_life(const struct gw_release *release, uint32_t index, uint64_t now_s,
                                   uint64_t dwell_s, struct base_error *error)
{
    uint64_t expires_s = release->statements[index].expires_s;
    if (expires_s <= now_s) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "stage %s: statement: it ran out %llu s ago; sign a new one",
                              release->stage_names[index], (unsigned long long)(now_s - expires_s));
    }
    if (expires_s - now_s < dwell_s) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "stage %s: statement: runs out in %llu s, before the stage "
                              "that opens can end (min_dwell_s %llu)",
                              release->stage_names[index], (unsigned long long)(expires_s - now_s),
                              (unsigned long long)dwell_s);
    }
    return BASE_OK;
}

enum base_status gw_statement_check(struct gw_core *core, const struct gw_release *release,
                                    uint32_t first, struct base_error *error)
{
    uint64_t now_s = gw_core_sure_s(core);
    struct gw_version_view version;
    BASE_TRY(
        gw_catalog_version_get(core, base_str_of(release->task), &release->manifest, &version));
    for (uint32_t i = first; i < release->stage_count; i++) {
        const struct gw_statement *statement = &release->statements[i];
        if (statement->expires_s == 0) {
            continue; // nothing is offered in it
        }
        if (statement->manifest_bytes != version.manifest_bytes) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "stage %s: statement: manifest_bytes %llu, but the manifest has "
                                  "%llu",
                                  release->stage_names[i],
                                  (unsigned long long)statement->manifest_bytes,
                                  (unsigned long long)version.manifest_bytes);
        }
        BASE_TRY(check_life(release, i, now_s, release->stages[first].gate.min_dwell_us / 1000000u,
                            error));
    }
    return BASE_OK;
}

enum base_status gw_statement_counter(const struct gw_release *release, uint64_t task_counter,
                                      struct base_error *error)
{
    unsigned long long counter = release->release_counter;
    if (counter <= task_counter) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "release_counter %llu is not above the task's %llu", counter,
                              (unsigned long long)task_counter);
    }
    if (counter > GW_RELEASE_COUNTER_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "release_counter %llu leaves no next one: %llu is the last", counter,
                              (unsigned long long)GW_RELEASE_COUNTER_MAX);
    }
    if (counter - task_counter > GW_RELEASE_STEP_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "release_counter %llu is too far above the task's %llu: at most %llu",
                              counter, (unsigned long long)task_counter,
                              (unsigned long long)GW_RELEASE_STEP_MAX);
    }
    return BASE_OK;
}

// ---- Room in what devices are told

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
    const struct gw_director *director = core->director;
    const struct gw_catalog *catalog = core->catalog;
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

static bool is_of(const struct gw_core *core, struct base_str scenario, uint16_t tenant)
{
    const struct gw_catalog *catalog = core->catalog;
    for (uint32_t i = 0; i < catalog->task_count; i++) {
        const struct gw_task *task = catalog->tasks[i];
        if (task->tenant == tenant && gw_task_is_begun(task) &&
            base_str_equal(wire_scenario_of(base_str_of(task->name)), scenario)) {
            return true;
        }
    }
    return false;
}

// One more scenario, of the task's tenant.
static enum base_status scenario_fits(struct gw_core *core, const struct scenarios *scenarios,
                                      const struct gw_release *release, struct base_error *error)
{
    const struct gw_task *task = gw_catalog_find_task(core, release->task_id);
    struct gw_tenant_holding holding = {.tenant = task != NULL ? task->tenant : GW_TENANT_DEFAULT,
                                        .what = "scenarios that devices with a root are told of",
                                        .max = WIRE_TIMESTAMP_SCENARIOS_MAX,
                                        .all = scenarios->count};
    if (scenarios->count == WIRE_TIMESTAMP_SCENARIOS_MAX) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "task: devices with a root are told of %u scenarios, and others have "
                              "all places: release %s under a scenario that has one",
                              WIRE_TIMESTAMP_SCENARIOS_MAX, release->task);
    }
    for (uint32_t i = 0; i < scenarios->count; i++) {
        holding.own += is_of(core, scenarios->names[i], holding.tenant);
    }
    return gw_tenant_may_add(&holding, error);
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
    const struct gw_catalog *catalog = core->catalog;
    uint32_t count = 0;
    for (uint32_t i = 0; i < catalog->task_count; i++) {
        const struct gw_task *task = catalog->tasks[i];
        if (base_str_equal(wire_scenario_of(base_str_of(task->name)), scenario)) {
            count += entries_of(task, release);
        }
    }
    return count;
}

enum base_status gw_scenario_room(struct gw_core *core, const struct gw_release *release,
                                  struct base_error *error)
{
    struct base_str name = wire_scenario_of(base_str_of(release->task));
    struct scenarios scenarios;
    if (core->director->signer == NULL || core->director->root_count == 0) {
        return BASE_OK;
    }
    scenarios_gather(core, &scenarios);
    if (!has(&scenarios, name)) {
        BASE_TRY(scenario_fits(core, &scenarios, release, error));
    }
    if (entries_beside(core, release, name) + 2 > WIRE_SNAPSHOT_ENTRIES_MAX) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "task: scenario %.*s has all %u places of what devices are told: "
                              "end rollouts, or use another scenario",
                              (int)name.size, name.data, WIRE_SNAPSHOT_ENTRIES_MAX);
    }
    return BASE_OK;
}

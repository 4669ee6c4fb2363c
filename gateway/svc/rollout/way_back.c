// The pass over the devices of a rollout that goes back; see way_back.h. rollout_control.c steps it
// at each tick of the control thread and takes off whom it spared. A pass begins when nobody came
// back since the last tick, is bounded in work for each, and its result counts only when all
// devices were seen. A shard's mutex is held while devices are listed and not while one is asked.
#include "svc/rollout/way_back.h"

#include "svc/core_private.h"
#include "svc/tally/rollout_counts.h"
#include "svc/rollout/rollout_state.h"
#include "svc/tally/silence.h"
#include "svc/rollout/told_facts.h"
#include "svc/access/credentials.h"
#include "svc/device/device_table.h"
#include "svc/rollout/catalog_private.h"
#include "svc/rollout/watch.h"
#include "svc/tally/tally.h"
#include "svc/rollout/device_views.h"

#include <stdlib.h>
#include <string.h>

struct asked {
    uint64_t device_id;
    uint32_t last_seen_s;
    uint32_t interval_s;
};

struct gw_way_back {
    struct gw_core *core;
    // The pass under way; `release` NULL: there is none.
    const struct gw_release *release; // referenced
    uint32_t index;                   // in the tally
    bool unmarked;                    // devices without its mark may be on it
    struct gw_spared found;
    uint32_t shard;
    uint32_t entry;
    uint64_t after; // rollouts up to this id have had their turn in this tick
    uint32_t asked_count;
    struct asked asked[GW_WATCH_BATCH]; // of the batch that was listed last
    struct gw_device_view view;
};

enum base_status gw_way_back_new(struct gw_core *core, struct gw_way_back **out)
{
    struct gw_way_back *way = calloc(1, sizeof(*way));
    if (way == NULL) {
        return BASE_ERR_NOMEM;
    }
    way->core = core;
    *out = way;
    return BASE_OK;
}

static void end_pass(struct gw_way_back *way)
{
    gw_release_unref(way->release);
    way->release = NULL;
}

void gw_way_back_free(struct gw_way_back *way)
{
    if (way != NULL) {
        end_pass(way);
        free(way);
    }
}

// Who was silent by the other time is not by this one.
void gw_way_back_time_moved(struct gw_way_back *way)
{
    end_pass(way);
    for (uint32_t i = 0; i < way->core->catalog->rollout_count; i++) {
        way->core->catalog->rollouts[i]->spared = (struct gw_spared){0};
    }
}

// ---- Whose turn it is

static uint64_t on_version(struct gw_core *core, const struct gw_rollout *rollout)
{
    struct gw_rollout_counts all;
    (void)gw_tally_counts(core->tally, rollout->release->id, GW_TALLY_STAGE_ALL,
                          gw_core_sure_s(core), &all);
    return all.on_version;
}

// What the task's devices are offered depends on this alone. 0: there is no such task.
static uint64_t signature_of(const struct gw_core *core, const struct gw_release *release)
{
    const struct gw_plan_task *task = gw_plan_find(core->plan, release->task_id);
    return task != NULL ? task->signature : 0;
}

// Somebody is on it, and nobody came back since the last tick: while they do, it is not over.
static bool is_due(struct gw_core *core, struct gw_rollout *rollout)
{
    if (rollout->state.state != POL_ROLLOUT_ROLLING_BACK) {
        return false;
    }
    uint64_t now = on_version(core, rollout);
    uint64_t before = rollout->spared_on_version;
    rollout->spared_on_version = now;
    return before > 0 && now >= before;
}

static bool begin_pass(struct gw_way_back *way)
{
    const struct gw_catalog *catalog = way->core->catalog;
    struct gw_tally_rollout known;
    for (uint32_t i = 0; i < catalog->rollout_count; i++) {
        struct gw_rollout *rollout = catalog->rollouts[i];
        if (rollout->release->id <= way->after) {
            continue;
        }
        way->after = rollout->release->id;
        if (!is_due(way->core, rollout) ||
            !gw_tally_find(way->core->tally, rollout->release->id, &known)) {
            continue;
        }
        way->release = gw_release_ref(rollout->release);
        way->index = known.index;
        way->unmarked = gw_rollout_offers_unmarked(way->core, rollout);
        way->found = (struct gw_spared){.since_us = rollout->rollback_since_us,
                                        .on_version = rollout->spared_on_version,
                                        .signature = signature_of(way->core, rollout->release)};
        way->shard = 0;
        way->entry = 0;
        return true;
    }
    return false;
}

// ---- One device

static bool is_silent(const struct gw_way_back *way, const struct gw_device_outcome *outcome,
                      const struct asked *asked)
{
    const struct pol_stage *stage = &way->release->stages[outcome->stage];
    uint32_t said_s = gw_core_checkin_interval_s(way->core);
    uint32_t interval_s = asked->interval_s > said_s ? asked->interval_s : said_s;
    // Where nobody is asked about silence, after as many intervals as by default.
    uint64_t after_s = stage->silence_s > 0
                           ? gw_silence_after_s(way->release, stage, asked->interval_s)
                           : (uint64_t)GW_STAGE_SILENCE_TIMES * interval_s;
    return gw_silence_quiet_s(gw_watch_clock(way->core->watch), asked->last_seen_s) >= after_s;
}

// What it went through in the rollout; NULL: nothing that counts there.
static const struct gw_device_outcome *outcome_of(const struct gw_way_back *way)
{
    for (uint32_t i = 0; i < way->view.outcome_count; i++) {
        const struct gw_device_outcome *outcome = &way->view.outcomes[i];
        if (outcome->rollout_id == way->release->id && !outcome->shadow &&
            outcome->stage < way->release->stage_count &&
            gw_release_standing(way->release, outcome->bits) == GW_STANDING_COUNTED) {
            return outcome;
        }
    }
    return NULL;
}

// Has it another version by now, or should it have this one all the same?
static bool is_right(struct gw_way_back *way)
{
    struct gw_core *core = way->core;
    const struct gw_device_view *device = &way->view;
    const struct gw_plan_task *task = gw_plan_find(core->plan, way->release->task_id);
    struct gw_attrs_view attrs = {0};
    struct gw_device_facts facts;
    struct gw_told told;
    if (task == NULL ||
        (device->attrs_size > 0 &&
         gw_attrs_view(device->attrs_bytes, device->attrs_size, &attrs) != BASE_OK)) {
        return false;
    }
    gw_told_facts(core, device, task->task_id, &told, &facts);
    return facts.have != way->release->version_id ||
           gw_want_of(task, &facts, &attrs.attrs).version_id == way->release->version_id;
}

static void ask(struct gw_way_back *way, const struct asked *asked)
{
    struct gw_rollout_counts one;
    if (gw_device_get(way->core, asked->device_id, &way->view) != BASE_OK) {
        return;
    }
    const struct gw_device_outcome *outcome = outcome_of(way);
    gw_tally_contribution(outcome != NULL ? outcome->bits : 0, &one);
    if (one.on_version == 0) {
        return;
    }
    bool revoked = way->view.credential == GW_CREDENTIAL_REVOKED;
    way->found.devices += revoked || is_silent(way, outcome, asked) || is_right(way);
}

// ---- The pass

// With the shard's mutex held: who may be on it.
static void list_device(void *ctx, struct gw_device_visit *visit)
{
    struct gw_way_back *way = ctx;
    bool may_be = way->unmarked;
    for (uint32_t i = 0; i < visit->mark_count; i++) {
        struct gw_rollout_counts one;
        if (visit->marks[i].rollout == way->index) {
            gw_tally_contribution(visit->marks[i].bits, &one);
            may_be = one.on_version > 0;
        }
    }
    if (may_be) {
        way->asked[way->asked_count++] = (struct asked){
            .device_id = visit->device_id,
            .last_seen_s = visit->last_seen_s,
            .interval_s = visit->interval_s,
        };
    }
}

// Goes on with the pass while there is budget. False: the budget is used up.
static bool go_on(struct gw_way_back *way, uint64_t *budget)
{
    while (way->shard<GW_DEVICE_TABLE_SHARDS && * budget> 0) {
        way->asked_count = 0;
        uint32_t seen =
            gw_device_table_walk(way->core->table, (struct gw_device_place){way->shard, way->entry},
                                 GW_WATCH_BATCH, list_device, way);
        for (uint32_t i = 0; i < way->asked_count; i++) {
            ask(way, &way->asked[i]);
        }
        way->entry += seen;
        if (seen < GW_WATCH_BATCH) {
            way->shard++;
            way->entry = 0;
        }
        uint64_t work = seen + 1 + (uint64_t)way->asked_count * GW_WAY_BACK_READ;
        *budget -= work < *budget ? work : *budget;
    }
    return way->shard == GW_DEVICE_TABLE_SHARDS;
}

void gw_way_back_step(struct gw_way_back *way)
{
    uint64_t budget = GW_WAY_BACK_WORK_MAX;
    while (way->release != NULL || begin_pass(way)) {
        if (!go_on(way, &budget)) {
            return;
        }
        struct gw_rollout *rollout = gw_catalog_find_rollout(way->core, way->release->id);
        if (rollout != NULL) {
            rollout->spared = way->found;
        }
        end_pass(way);
    }
    way->after = 0;
}

uint64_t gw_way_back_spared(const struct gw_core *core, const struct gw_rollout *rollout,
                            uint64_t on_version)
{
    const struct gw_spared *spared = &rollout->spared;
    if (spared->since_us != rollout->rollback_since_us ||
        spared->signature != signature_of(core, rollout->release)) {
        return 0;
    }
    // Who came off it since may have been one of them.
    uint64_t gone = spared->on_version > on_version ? spared->on_version - on_version : 0;
    return spared->devices > gone ? spared->devices - gone : 0;
}

// What is noted of devices as they wake, ask, move and sleep, and held against them: floors that go
// back, versions activated twice, storms of requests, controls that download. Called by
// fleet_device.c and fleet_ports.c; the counts go to the ledger.
#include "run/fleet_run.h"

#include "base/check.h"

enum base_status sim_fleet_facts_init(struct sim_shard *shard)
{
    base_assert(shard->facts.items == NULL);
    return shard->options->devices <= SIM_FACTS_DEVICES_MAX
               ? sim_facts_init(&shard->facts, shard->ledger.alloc, shard->count)
               : BASE_OK;
}

// What it has of the task followed; nothing where it holds it not.
static struct sim_having having_of(const struct sim_awake *awake)
{
    struct sim_having having = {0};
    struct dev_task_view view;
    for (uint32_t i = 0; dev_task_view(awake->runtime, i, &view) == BASE_OK; i++) {
        if (!view.shadow && wire_task_id(view.name) == awake->shard->ledger.task_id) {
            having.floor = dev_floor(awake->runtime, view.name);
            having.active = sim_shard_version(awake->shard, &view.active);
        }
    }
    return having;
}

void sim_fleet_facts_woke(struct sim_awake *awake)
{
    struct sim_shard *shard = awake->shard;
    if (awake->faulty.lost || shard->ledger.task_id == 0) {
        sim_facts_forget(&shard->facts, awake->device);
    } else {
        struct sim_having having = having_of(awake);
        sim_facts_woke(&shard->facts, &shard->ledger.counters, awake->device, &having);
    }
}

// Is more than one version of a task active?
static bool shares_a_task(const struct sim_awake *awake)
{
    struct dev_task_view view;
    struct dev_task_view other;
    for (uint32_t i = 0; dev_task_view(awake->runtime, i, &view) == BASE_OK; i++) {
        uint64_t id = wire_task_id(view.name);
        for (uint32_t k = 0; k < i && !view.shadow; k++) {
            if (dev_task_view(awake->runtime, k, &other) == BASE_OK && !other.shadow &&
                wire_task_id(other.name) == id) {
                return true;
            }
        }
    }
    return false;
}

void sim_fleet_facts_sleeps(struct sim_awake *awake)
{
    struct sim_shard *shard = awake->shard;
    shard->ledger.counters.twice_active += shares_a_task(awake);
    if (awake->faulty.excused || shard->ledger.task_id == 0) { // it may not have kept what it knows
        sim_facts_forget(&shard->facts, awake->device);
    } else {
        struct sim_having having = having_of(awake);
        sim_facts_slept(&shard->facts, awake->device, &having);
    }
}

void sim_fleet_facts_heard(struct sim_awake *awake, const struct sim_exchange *exchange, bool good)
{
    struct sim_shard *shard = awake->shard;
    if (exchange->kind == SIM_EXCHANGE_BUSINESS || exchange->kind == SIM_EXCHANGE_TUNNEL ||
        exchange->kind == SIM_EXCHANGE_HINTS) {
        return;
    }
    awake->failing = !good;
    uint64_t ran_us = sim_shard_now(shard) - shard->start_us;
    if (exchange->kind == SIM_EXCHANGE_CHECKIN || exchange->kind == SIM_EXCHANGE_REPORT) {
        sim_facts_asked(&shard->facts, &shard->ledger.counters, awake->device, ran_us);
    }
    if (!good) {
        sim_facts_failed(&shard->facts, &shard->ledger.counters, awake->device, ran_us);
    }
}

void sim_fleet_facts_moved(struct sim_awake *awake, const struct dev_stats *stats,
                           uint8_t active_before)
{
    struct sim_counters *counters = &awake->shard->ledger.counters;
    uint8_t active = awake->shard->ledger.entries[awake->device].active;
    uint64_t again = stats->again - awake->again;
    const struct sim_moves moves = {
        .activations = stats->activations - awake->activations - again,
        .back = stats->rollbacks - awake->rollbacks + stats->withdrawals - awake->withdrawals,
        .changed = active != active_before,
        .had = active_before != SIM_VERSION_NONE,
    };
    bool one = dev_task_count(awake->runtime) == 1;
    counters->twice_active += one && sim_moves_twice(&moves);
    counters->once_compared += one ? moves.activations : 0;
    // A control follows a mark with what it has: nothing was brought in this wake.
    bool alone =
        one && moves.activations == 0 && stats->activations == again && !awake->faulty.excused;
    counters->marks_alone += again > 0 && alone;
    counters->marks_fetched += again > 0 && alone && awake->blobs > 0;
}

// ---- Of all shards

enum base_status sim_fleet_faults_wrap(struct sim_shard *const *shards, uint32_t count,
                                       struct base_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        if (sim_faults_wrap(&shards[i]->faults, &shards[i]->transport) != BASE_OK) {
            return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
        }
    }
    return BASE_OK;
}

bool sim_fleet_rests(struct sim_shard *const *shards, uint32_t count,
                     const struct sim_watch_view *view)
{
    const struct sim_ledger *ledgers[SIM_SHARDS_MAX];
    struct sim_ends ends;
    struct sim_astray astray;
    uint64_t devices = 0;
    base_assert(count <= SIM_SHARDS_MAX);
    if (!view->known) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        ledgers[i] = &shards[i]->ledger;
        devices += shards[i]->count;
    }
    sim_ends_count(ledgers, count, &ends);
    uint8_t version = sim_versions_find(shards[0]->versions, wire_task_id(base_str_of(view->task)),
                                        base_str_of(view->version));
    return sim_ends_astray(&ends, view->state, version, &astray) && astray.count == 0 &&
           ends.devices == devices;
}

void sim_fleet_faults_gather(struct sim_shard *const *shards, uint32_t count,
                             struct sim_run_result *result)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < SIM_FAULT_KIND_COUNT; k++) {
            result->faults[k] += shards[i]->faults.hits[k];
        }
    }
    if (result->options->faults.until_s > 0) {
        sim_ends_count(result->ledgers, result->ledger_count, &result->ends);
    }
}

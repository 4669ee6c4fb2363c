// After the run: which version to explain, and who failed. Coordinator's thread; the shards'
// threads have ended. fleet_run.c is the only caller. Who failed is taken from the ledgers, and the
// devices' traits are drawn again from the seed for it: a virtual device does not keep them.
#include "run/fleet_run.h"

#include "base/alloc.h"
#include "base/check.h"

#define SYSTEMS_OF_MAX 100000u // devices that are drawn again for the shares of systems

uint8_t sim_focus_version(const struct sim_counters *counters)
{
    uint8_t focus = SIM_VERSION_NONE;
    uint64_t most = 0;
    for (uint8_t v = 1; v < SIM_VERSIONS_MAX; v++) {
        const struct sim_version_counters *c = &counters->version[v];
        if (c->failed > most || (most == 0 && c->ran > 0)) {
            most = c->failed;
            focus = v;
        }
    }
    return focus;
}

void sim_fleet_latencies(struct sim_shard *const *shards, uint32_t count,
                         struct sim_run_result *result)
{
    struct sim_latencies *to = &result->latencies;
    base_hist_init(&to->lag_us);
    base_hist_init(&to->checkin_us);
    base_hist_init(&result->offer_to_run_us);
    base_hist_init(&result->cloud_us);
    for (uint32_t k = 0; k < SIM_EXCHANGE_KIND_COUNT; k++) {
        base_hist_init(&to->request_us[k]);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct sim_shard *shard = shards[i];
        base_hist_merge(&to->lag_us, &shard->latencies.lag_us);
        base_hist_merge(&to->checkin_us, &shard->latencies.checkin_us);
        for (uint32_t k = 0; k < SIM_EXCHANGE_KIND_COUNT; k++) {
            base_hist_merge(&to->request_us[k], &shard->latencies.request_us[k]);
        }
        base_hist_merge(&result->offer_to_run_us, &shard->ledger.offer_to_run_us);
        if (shard->runner.cloud.cloud != NULL) {
            base_hist_merge(&result->cloud_us, shard->runner.cloud.took_us);
        }
        result->store_bytes += sim_store_bytes(shard->store);
        sim_states_merge(&result->states, sim_store_states(shard->store));
    }
}

struct sim_mining *sim_mine(struct sim_shard *const *shards, uint32_t count, uint8_t version,
                            struct sim_slice *out_slice)
{
    struct sim_mining *mining;
    *out_slice = (struct sim_slice){.cond_count = 0};
    if (version == SIM_VERSION_NONE ||
        sim_mining_new(base_alloc_heap(), shards[0]->options->people, &mining) != BASE_OK) {
        return NULL;
    }
    uint64_t bit = 1ull << version;
    for (uint32_t s = 0; s < count; s++) {
        const struct sim_shard *shard = shards[s];
        for (uint32_t i = 0; i < shard->count; i++) {
            const struct sim_ledger_masks masks = sim_ledger_masks(&shard->ledger, i);
            if ((masks.ran & bit) != 0) {
                struct sim_traits traits;
                sim_population_draw(&shard->population, sim_shard_index(shard, i), &traits);
                sim_mining_add(mining, &traits, (masks.failed & bit) != 0);
            }
        }
    }
    sim_mining_best(mining, out_slice);
    return mining;
}

void sim_fleet_failing(struct sim_shard *const *shards, uint32_t count,
                       struct sim_run_result *result)
{
    uint64_t bit = result->focus != SIM_VERSION_NONE ? 1ull << result->focus : 0;
    for (uint32_t s = 0; s < count; s++) {
        const struct sim_shard *shard = shards[s];
        for (uint32_t i = 0; i < shard->count; i++) {
            uint8_t how = shard->ledger.entries[i].failed_as;
            if ((sim_ledger_masks(&shard->ledger, i).failed & bit) == 0 || how >= SIM_OUTCOMES) {
                continue;
            }
            struct sim_failing_device device = {.index = sim_shard_index(shard, i)};
            device.id = sim_population_device_id(&shard->population, device.index);
            sim_population_draw(&shard->population, device.index, &device.traits);
            sim_failing_add(&result->failing[how], &device);
            if (result->slice.cond_count > 0 && sim_slice_match(&result->slice, &device.traits)) {
                sim_failing_add(&result->failing_slice, &device);
            }
        }
    }
}

void sim_fleet_systems(struct sim_shard *const *shards, uint32_t count,
                       struct sim_run_result *result)
{
    uint32_t each = 1 + result->options->devices / SYSTEMS_OF_MAX;
    base_assert(result->systems_of == 0);
    for (uint32_t s = 0; s < count; s++) {
        const struct sim_shard *shard = shards[s];
        for (uint32_t i = 0; i < shard->count; i += each) {
            struct sim_traits traits;
            sim_population_draw(&shard->population, sim_shard_index(shard, i), &traits);
            result->systems[traits.value[SIM_TRAIT_OS]]++;
            result->systems_of++;
        }
    }
}

// Gathers what the shards' chains and ledgers say about roots. Called by fleet_run.c when the run
// is over, on the coordinator's thread. Counts come from the ledger and not from reports of
// devices.
#include "run/fleet_trust.h"

#include <stdio.h>
#include <string.h>

void sim_trust_gather(struct sim_shard *const *shards, uint32_t count,
                      struct sim_versions *versions, struct sim_trust_result *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t s = 0; s < count; s++) {
        struct sim_shard *shard = shards[s];
        const struct sim_root_chain *chain = &shard->roots;
        sim_roots_look(shard);
        if (chain->count == 0) {
            continue;
        }
        if (!out->has_root || out->born.version > chain->items[0].version) {
            out->born = chain->items[0];
        }
        if (out->newest.version < sim_root_chain_newest(chain)) {
            out->newest = chain->items[chain->count - 1];
        }
        out->has_root = true;
        for (uint32_t i = 0; i < shard->ledger.count; i++) {
            const struct sim_ledger_entry *entry = &shard->ledger.entries[i];
            out->devices[entry->root] += entry->arrived ? 1 : 0;
            out->online += entry->arrived ? 1 : 0;
        }
    }
    if (sim_versions_count(versions) > 1) {
        struct sim_version first = sim_versions_get(versions, 1);
        (void)snprintf(out->task, sizeof(out->task), "%s", first.task);
    }
}

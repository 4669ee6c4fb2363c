// The loop of a run in virtual time. fleet_run.c calls it in place of threads and sockets: it lets
// the shard and the gateway's core do what is due, then moves the clock to what is due next. Nobody
// waits, so a quiet hour takes as long as what happens in it.
//
// The order within one moment is fixed: what is due at the gateway, then the shard's turn, until
// neither has anything left. So a run depends on its options and the folder alone.
#include "run/fleet_virtual.h"

#include "base/check.h"
#include "base/hash.h"
#include "virtual/core_folder.h"
#include "virtual/core_gateway.h"
#include "virtual/virtual_clock.h"

#include <stdlib.h>

struct sim_virtual {
    const struct sim_options *options;
    struct sim_virtual_clock clock;
    struct base_clock_port port;
    struct base_log log;
    struct sim_core_gateway *gateway;
    struct sim_shard *shard;
    uint64_t digest;
};

enum base_status sim_virtual_new(const struct sim_options *options,
                                 struct sim_virtual **out_virtual, struct base_error *error)
{
    uint64_t wall_us = 0;
    BASE_TRY(sim_core_folder_time(options->virtual_dir, &wall_us, error));
    struct sim_virtual *virtual = calloc(1, sizeof(*virtual));
    if (virtual == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    virtual->options = options;
    base_log_stderr(&virtual->log, BASE_LOG_WARN);
    sim_virtual_clock_init(&virtual->clock, wall_us);
    virtual->port = sim_virtual_clock_port(&virtual->clock);
    *out_virtual = virtual;
    return BASE_OK;
}

void sim_virtual_free(struct sim_virtual *virtual)
{
    if (virtual != NULL) {
        sim_core_gateway_free(virtual->gateway);
        free(virtual);
    }
}

const struct base_clock_port *sim_virtual_clock(const struct sim_virtual *virtual)
{
    return &virtual->port;
}

enum base_status sim_virtual_attach(struct sim_virtual *virtual, struct sim_shard *shard,
                                    struct base_error *error)
{
    const struct sim_core_gateway_options options = {
        .dir = virtual->options->virtual_dir,
        .clock = virtual->port,
        .seed = virtual->options->seed,
        .devices = virtual->options->devices,
        .delay = sim_delay_constant(),
        .events = sim_device_events(shard),
        .log = &virtual->log,
    };
    BASE_TRY(sim_core_gateway_new(&options, &virtual->gateway, error));
    shard->transport = sim_core_gateway_transport(virtual->gateway);
    virtual->shard = shard;
    sim_shard_begin(shard);
    return BASE_OK;
}

void sim_virtual_run(struct sim_virtual *virtual, uint64_t until_us)
{
    base_assert(virtual->gateway != NULL);
    while (virtual->clock.now_us < until_us) {
        sim_core_gateway_step(virtual->gateway);
        uint64_t next_us = sim_shard_turn(virtual->shard);
        uint64_t due_us = sim_core_gateway_due_us(virtual->gateway);
        next_us = due_us < next_us ? due_us : next_us;
        next_us = next_us < until_us ? next_us : until_us;
        if (next_us > virtual->clock.now_us) {
            sim_virtual_clock_move(&virtual->clock, next_us);
        }
    }
}

int sim_virtual_answer(void *ctx, const char *path, struct base_buffer *out)
{
    struct sim_virtual *virtual = ctx;
    return sim_core_gateway_ask(virtual->gateway, path, out);
}

static void take(struct sim_virtual *virtual, const void *bytes, size_t size)
{
    virtual->digest = base_hash64_seed(bytes, size, virtual->digest);
}

void sim_virtual_note(struct sim_virtual *virtual, const struct sim_counters *counters)
{
    const uint64_t facts[] = {
        virtual->clock.now_us,    counters->arrived,     counters->awake,
        counters->wakes,          counters->checkins,    counters->requests,
        counters->answers,        counters->runs,        counters->run_failures,
        counters->response_bytes, counters->activations, counters->rollbacks,
        counters->crashes,        counters->exposed,
    };
    take(virtual, facts, sizeof(facts));
}

uint64_t sim_virtual_digest(const struct sim_virtual *virtual)
{
    struct sim_virtual whole = *virtual;
    const struct sim_ledger *ledger = &virtual->shard->ledger;
    for (uint32_t i = 0; i < ledger->count; i++) {
        const struct sim_ledger_entry *entry = &ledger->entries[i];
        const struct sim_ledger_masks masks = sim_ledger_masks(ledger, i);
        const uint64_t facts[] = {
            masks.ran,          masks.good,           masks.failed,
            entry->offered_ms,  entry->downloaded_ms, entry->activated_ms,
            entry->ran_ms,      entry->active,        entry->outcome,
            entry->activations,
        };
        take(&whole, facts, sizeof(facts));
    }
    return whole.digest;
}

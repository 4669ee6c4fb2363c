// After the run: what every device that behaved has stored, read by booting its tunnel once more
// without a connection, as a phone that starts in a tunnel would. The law is computed from that and
// from what the simulator handed to the tunnels, never from what ran. Coordinator's thread, when
// the shards' threads have ended.
#include "run/fleet_settle.h"

#include "base/alloc.h"
#include "virtual/core_tunnel.h"
#include "wire/digest.h"

#include <string.h>

static const uint64_t no_figures[5] = {0};

struct settling {
    struct sim_law *law;
    FILE *rows; // NULL: none wanted
    void *collect_memory;
    void *tunnel_memory;
    struct base_prng prng;
};

static enum base_status no_stream(void *ctx, uint32_t stream, uint8_t class_id)
{
    (void)ctx, (void)stream, (void)class_id;
    return BASE_ERR_CLOSED;
}

static enum base_status no_send(void *ctx, uint32_t stream, const uint8_t *bytes, size_t size,
                                bool early)
{
    (void)ctx, (void)stream, (void)bytes, (void)size, (void)early;
    return BASE_ERR_CLOSED;
}

static void no_close(void *ctx, uint32_t stream)
{
    (void)ctx, (void)stream;
}

static enum base_status stats_of(struct settling *settling, uint64_t id, struct mem_kv *kv,
                                 struct dev_tunnel_stats *out)
{
    const struct dev_kv_port port = mem_kv_port(kv);
    const struct dev_tunnel_config config = {.device_id = id};
    struct dev_tunnel_ports ports = {
        .random = base_prng_port(&settling->prng),
        .transport = {.open = no_stream, .send = no_send, .close = no_close}};
    struct dev_collect *collect = NULL;
    struct dev_tunnel *tunnel = NULL;
    mem_kv_revive(kv);
    BASE_TRY(dev_collect_init(settling->collect_memory, dev_collect_bytes(), &port, &collect));
    BASE_TRY(dev_collect_boot(collect, 1));
    ports.collect = collect;
    BASE_TRY(dev_tunnel_init(settling->tunnel_memory, dev_tunnel_bytes(&config), &config, &ports,
                             &tunnel));
    BASE_TRY(dev_tunnel_boot(tunnel, 1));
    if (!dev_tunnel_validate(tunnel)) {
        return BASE_ERR_CORRUPT;
    }
    dev_tunnel_stats(tunnel, out);
    return BASE_OK;
}

static void row_write(struct settling *settling, uint64_t id, unsigned class_id, uint32_t epoch,
                      const uint64_t figures[5])
{
    char hex[WIRE_DEVICE_HEX + 1];
    if (settling->rows == NULL) {
        return;
    }
    wire_device_hex(id, hex);
    (void)fprintf(settling->rows, "%s,%u,%u,%llu,%llu,%llu,%llu,%llu\n", hex, class_id, epoch,
                  (unsigned long long)figures[0], (unsigned long long)figures[1],
                  (unsigned long long)figures[2], (unsigned long long)figures[3],
                  (unsigned long long)figures[4]);
}

// False: there is nothing of this class.
static bool class_settle(struct settling *settling, uint64_t id, const struct sim_past *past,
                         unsigned class_id, const struct dev_tunnel_class_stats *stats)
{
    struct sim_law_class *sum = &settling->law->classes[class_id];
    uint64_t offered = past->offered[class_id];
    uint64_t lost = 0;
    for (unsigned k = 0; k < WIRE_TUNNEL_LOSS_END; k++) {
        sum->lost_by[k] += stats->lost[k];
        lost += stats->lost[k];
    }
    if (offered == 0 && stats->produced == 0) {
        return false;
    }
    uint64_t gone = offered > stats->produced ? offered - stats->produced : 0;
    bool holds = stats->produced == stats->durable + stats->queued + lost &&
                 stats->produced <= offered && (gone == 0 || past->killed);
    sum->offered += offered;
    sum->produced += stats->produced;
    sum->durable += stats->durable;
    sum->queued += stats->queued;
    sum->lost += lost;
    sum->gone += gone;
    settling->law->checked++;
    settling->law->broken += holds ? 0 : 1;
    row_write(settling, id, class_id, stats->epoch,
              (const uint64_t[5]){offered, stats->produced, stats->durable, stats->queued, lost});
    return true;
}

static void shard_settle(struct settling *settling, const struct sim_shard *shard)
{
    for (uint32_t i = 0; i < shard->count; i++) {
        const struct sim_past *past = &shard->behaving->pasts[i];
        struct dev_tunnel_stats stats = {0};
        uint64_t id = sim_population_device_id(&shard->population, sim_shard_index(shard, i));
        bool any = false;
        if (past->kv == NULL) {
            row_write(settling, id, 0, 0, no_figures);
            continue;
        }
        settling->law->devices++;
        settling->law->stored_bytes += past->kv->bytes;
        if (stats_of(settling, id, past->kv, &stats) != BASE_OK) {
            settling->law->broken++;
            continue;
        }
        for (unsigned c = 0; c < WIRE_TUNNEL_CLASSES; c++) {
            any = class_settle(settling, id, past, c, &stats.classes[c]) || any;
        }
        if (!any) { // that it is one of the run's is said all the same
            row_write(settling, id, 0, 0, no_figures);
        }
    }
}

// What a gateway's side in this process took is all that devices hold for durable, and nothing that
// nobody offered.
static void taken_settle(struct sim_law *law)
{
    uint64_t durable = 0;
    uint64_t offered = 0;
    if (!law->told) {
        return;
    }
    for (unsigned c = 0; c < WIRE_TUNNEL_CLASSES; c++) {
        durable += law->classes[c].durable;
        offered += law->classes[c].offered;
    }
    law->checked++;
    law->broken += law->taken < durable || law->taken > offered ? 1 : 0;
}

enum base_status sim_settle(struct sim_shard *const *shards, uint32_t count, FILE *rows,
                            struct sim_law *out)
{
    const struct base_alloc_port *alloc = base_alloc_heap();
    const struct dev_tunnel_config config = {0};
    struct settling settling = {
        .law = out,
        .rows = rows,
        .collect_memory = alloc->alloc(alloc->ctx, dev_collect_bytes()),
        .tunnel_memory = alloc->alloc(alloc->ctx, dev_tunnel_bytes(&config)),
    };
    enum base_status status = BASE_ERR_NOMEM;
    *out = (struct sim_law){.checked = 0};
    base_prng_seed(&settling.prng, 1);
    if (settling.collect_memory != NULL && settling.tunnel_memory != NULL) {
        if (rows != NULL) {
            (void)fputs("device,class,epoch,offered,produced,durable,queued,lost\n", rows);
        }
        for (uint32_t i = 0; i < count; i++) {
            shard_settle(&settling, shards[i]);
            out->told = out->told || shards[i]->tunnel != NULL;
            out->taken +=
                shards[i]->tunnel != NULL ? sim_core_tunnel_records(shards[i]->tunnel) : 0;
        }
        taken_settle(out);
        status = BASE_OK;
    }
    alloc->release(alloc->ctx, settling.collect_memory);
    alloc->release(alloc->ctx, settling.tunnel_memory);
    return status;
}

// A virtual device: its ports, its process that is born and killed, and what befalls it.
//
// Everything is drawn from the run's one generator. After every call into the tunnel the device may
// be dead (its store killed it at a commit), so callers go through law_device_wake.
#include "tunnel/tunnel_law.h"

#include "base/check.h"
#include "base/ckd.h"
#include "zstd/codec_zstd.h"

#include <stdlib.h>
#include <string.h>

#define MS            UINT64_C(1000)
#define COLLECT_BYTES (DEV_COLLECT_SMALLEST + 1024)
#define RECORD_MAX    160
#define DOWN_US       (30 * 1000 * MS) // a killed process comes back within
#define COPY_EVERY    10               // of so many devices one is restored, one cloned
#define BAD_STORE     10               // and of so many one has a store that fails at times

// ---- Ports

static bool is_dead(const struct law_device *device)
{
    return !device->alive || device->kv.killed;
}

static enum base_status port_open(void *ctx, uint32_t stream, uint8_t class_id)
{
    struct law_device *device = ctx;
    (void)class_id;
    return is_dead(device) ? BASE_ERR_CLOSED : law_link_open(device, stream);
}

static enum base_status port_send(void *ctx, uint32_t stream, const uint8_t *bytes, size_t size,
                                  bool early)
{
    struct law_device *device = ctx;
    (void)early;
    return is_dead(device) ? BASE_ERR_CLOSED : law_link_send(device, stream, bytes, size);
}

static void port_close(void *ctx, uint32_t stream)
{
    struct law_device *device = ctx;
    law_link_close(device, stream);
}

static uint64_t port_random(void *ctx)
{
    struct law_device *device = ctx;
    return base_prng_next(&device->sim->prng);
}

// ---- Life

static struct dev_tunnel_config config_of(const struct law_device *device)
{
    const struct law_phone *phone = device->phone;
    struct dev_tunnel_config config = {
        .device_id = phone->index + 1,
        .app = BASE_STR("1.0"),
        .os = BASE_STR("law"),
        .classes = (uint8_t)(1u << phone->classes[0] | 1u << phone->classes[1]),
        .one_stream = phone->index % 2 == 0,
        .batch_bytes_max = 512,
        .open_bytes = 256,
        .open_records = 1 + phone->index % 8,
        .window = 4 + phone->index % 13,
    };
    for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        config.quota_bytes[i] = phone->index % 3 == 0 ? 2000 : 64 * 1024;
    }
    return config;
}

size_t law_device_bytes(void)
{
    struct law_phone phone = {.classes = {1, 2}, .index = 7 + 8 * 12};
    const struct law_device device = {.phone = &phone};
    const struct dev_tunnel_config config = config_of(&device);
    return sizeof(struct law_device) + sizeof(struct law_phone) + COLLECT_BYTES +
           dev_tunnel_bytes(&config);
}

void law_device_new(struct law_sim *sim, struct law_phone *phone, struct law_device *device)
{
    *device = (struct law_device){
        .sim = sim,
        .phone = phone,
        .latency_us = 5000 + (uint32_t)base_prng_below(&sim->prng, 150000),
        .wake_us = UINT64_MAX,
    };
    mem_kv_init(&device->kv);
}

void law_device_done(struct law_device *device)
{
    mem_kv_done(&device->kv);
    if (device->backup != NULL) {
        mem_kv_done(device->backup);
        free(device->backup);
    }
    free(device->memory);
}

// Records the device must know of: what its copy was offered, but for what died with a process.
static uint64_t expected(const struct law_device *device, uint8_t slot)
{
    return law_tokens_of(device->phone, device->lineage, slot, false, false) -
           law_tokens_of(device->phone, device->lineage, slot, false, true);
}

static uint64_t produced(const struct law_device *device, uint8_t slot)
{
    struct dev_tunnel_stats stats;
    dev_tunnel_stats(device->tunnel, &stats);
    return stats.classes[device->phone->classes[slot]].produced;
}

// Time a record may spend in memory alone.
static uint64_t window_ms(const struct law_device *device, uint8_t slot)
{
    switch (device->phone->classes[slot]) {
    case 0:
        return 0;
    case 1:
        return DEV_TUNNEL_COALESCE_MS;
    default:
        return DEV_TUNNEL_BATCH_AGE_MS + DEV_COLLECT_AGE_MS;
    }
}

static void check_window(struct law_device *device, uint8_t slot, uint64_t gone)
{
    const struct law_tokens *tokens = &device->phone->lineages[device->lineage].tokens[slot];
    if (gone == 0 || gone > tokens->count || device->phone->unreliable) {
        return;
    }
    uint64_t oldest_ms = tokens->offered_ms[tokens->count - gone];
    if (oldest_ms + window_ms(device, slot) + 1 < device->killed_us / MS) {
        law_problem(device->sim, device->phone,
                    "class %u: a record offered %llu ms before the kill was not stored",
                    device->phone->classes[slot],
                    (unsigned long long)(device->killed_us / MS - oldest_ms));
    }
}

// A copy has less of its ancestor than was offered to that when the copy was made.
static void shorten_lineage(struct law_device *device, uint8_t slot, uint64_t known)
{
    struct law_lineage *lineage = &device->phone->lineages[device->lineage];
    while (expected(device, slot) > known && lineage->parent_count[slot] > 0) {
        lineage->parent_count[slot]--;
    }
}

static void compare_after_boot(struct law_device *device)
{
    const struct law_lineage *lineage = &device->phone->lineages[device->lineage];
    for (uint8_t slot = 0; slot < LAW_CLASSES; slot++) {
        uint64_t known = produced(device, slot);
        uint64_t wanted = expected(device, slot);
        if (known > wanted) {
            law_problem(device->sim, device->phone, "class %u: %llu records known, %llu offered",
                        device->phone->classes[slot], (unsigned long long)known,
                        (unsigned long long)wanted);
            continue;
        }
        // Its own newest records first, then what it shares with the copy it comes from.
        uint64_t gone = wanted - known;
        uint64_t own = law_remembered(device->phone, device->lineage, slot);
        own = own < gone ? own : gone;
        check_window(device, slot, own);
        law_forget(device->sim, device->phone, device->lineage, slot, own);
        if (own < gone && lineage->parent != LAW_NO_LINEAGE) {
            shorten_lineage(device, slot, known);
        }
        if (expected(device, slot) != known) {
            law_problem(device->sim, device->phone, "class %u: %llu records are gone",
                        device->phone->classes[slot], (unsigned long long)gone);
        }
    }
}

void law_device_boot(struct law_device *device)
{
    struct law_sim *sim = device->sim;
    const struct dev_kv_port port = mem_kv_port(&device->kv);
    const struct dev_tunnel_config config = config_of(device);
    struct dev_tunnel_ports ports = {
        .random = {device, port_random},
        .transport = {device, port_open, port_send, port_close},
        .codec = device->phone->index % 4 == 0 ? dev_codec_port(sim->codec)
                                               : (struct dev_tunnel_codec){0},
    };
    size_t size = dev_tunnel_bytes(&config);
    mem_kv_revive(&device->kv);
    device->memory = malloc(COLLECT_BYTES + size);
    base_check(device->memory != NULL);
    uint8_t *tunnel = (uint8_t *)device->memory + COLLECT_BYTES;
    device->alive = true;
    base_check(dev_collect_init(device->memory, COLLECT_BYTES, &port, &device->collect) == BASE_OK);
    base_check(dev_collect_boot(device->collect, sim->now_us) == BASE_OK);
    ports.collect = device->collect;
    base_check(dev_tunnel_init(tunnel, size, &config, &ports, &device->tunnel) == BASE_OK);
    base_check(dev_tunnel_boot(device->tunnel, sim->now_us) == BASE_OK);
    compare_after_boot(device);
    sim->counts.boots++;
    sim->live++;
    sim->live_max = sim->live_max > sim->live ? sim->live_max : sim->live;
    law_device_wake(device);
}

// What the process counted goes with it.
static void collect_figures(struct law_device *device)
{
    struct dev_tunnel_stats stats;
    struct law_counts *counts = &device->sim->counts;
    struct dev_collect_stats stored;
    dev_tunnel_stats(device->tunnel, &stats);
    dev_collect_stats(device->collect, &stored);
    counts->forks += stats.forks;
    counts->connects += stats.connects;
    counts->rejects += stats.rejects;
    counts->failed_commits += stored.failed_commits;
    for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        counts->resent += stats.classes[i].batches_resent;
    }
    if (stats.forks > 0 && !device->phone->copied) {
        law_problem(device->sim, device->phone, "a fork, and there is no copy");
    }
    if (stats.bad_frames > 0) {
        law_problem(device->sim, device->phone, "it took %llu frames of the gateway for bad",
                    (unsigned long long)stats.bad_frames);
    }
}

static void bury(struct law_device *device)
{
    struct law_sim *sim = device->sim;
    if (!device->alive) {
        return;
    }
    device->alive = false;
    device->killed_us = sim->now_us;
    collect_figures(device);
    law_links_drop(device, false);
    sim->kv_bytes_max = sim->kv_bytes_max > device->kv.bytes ? sim->kv_bytes_max : device->kv.bytes;
    free(device->memory);
    device->memory = NULL;
    device->tunnel = NULL;
    device->wake_us = UINT64_MAX;
    sim->live--;
}

static void kill_device(struct law_device *device)
{
    if (!device->alive) {
        return;
    }
    device->kv.killed = true;
    device->sim->counts.kills++;
    bury(device);
}

// Steps the tunnel and notes when it wants to be called next.
void law_device_wake(struct law_device *device)
{
    struct law_sim *sim = device->sim;
    if (!device->alive) {
        return;
    }
    uint64_t next = UINT64_MAX;
    if (!device->kv.killed) {
        next = dev_tunnel_step(device->tunnel, sim->now_us);
    }
    if (device->kv.killed) { // at a commit
        sim->counts.kills_at_commit++;
        bury(device);
        return;
    }
    if (!dev_tunnel_validate(device->tunnel)) {
        law_problem(sim, device->phone, "the tunnel's own law does not hold");
    }
    if (next != UINT64_MAX) {
        next = next > sim->now_us ? next : sim->now_us + 1;
    }
    if (next != device->wake_us) {
        device->wake_us = next;
        if (next != UINT64_MAX) {
            law_at(sim, next, LAW_WAKE, device);
        }
    }
}

// ---- What befalls it

static void offer_one(struct law_device *device)
{
    struct law_sim *sim = device->sim;
    struct law_phone *phone = device->phone;
    uint8_t slot = (uint8_t)base_prng_below(&sim->prng, LAW_CLASSES);
    uint8_t body[RECORD_MAX];
    bool poison = !sim->options.calm && law_chance(sim, 300);
    uint64_t token = law_offer(sim, phone, device->lineage, slot, poison);
    memset(body, 'x', sizeof(body));
    memcpy(body, &token, LAW_TOKEN);
    const struct wire_upload_record record = {
        .class_id = phone->classes[slot],
        .key = {BASE_STR("law"), BASE_STR("row"), 1},
        .format = poison ? WIRE_RECORD_JSON : WIRE_RECORD_BYTES, // which it is not
        .wall_ms = sim->now_us / MS,
        .bytes = body,
        .size = LAW_TOKEN + (uint32_t)base_prng_below(&sim->prng, RECORD_MAX - LAW_TOKEN),
    };
    base_check(dev_tunnel_offer(device->tunnel, sim->now_us, &record, NULL) == BASE_OK);
}

static void offer_some(struct law_device *device)
{
    uint64_t count = 1 + base_prng_below(&device->sim->prng, 6);
    for (uint64_t i = 0; i < count && !device->kv.killed; i++) {
        offer_one(device);
    }
    law_device_wake(device);
}

static bool is_connected(const struct law_device *device)
{
    bool connected = false;
    for (uint32_t stream = 0; stream < WIRE_TUNNEL_CLASSES; stream++) {
        connected = connected || device->links[stream] != NULL;
    }
    return connected;
}

// Half of the time with something just handed to the network.
static void lose_connection(struct law_device *device)
{
    if (law_chance(device->sim, 2)) {
        offer_some(device);
        if (!device->alive) {
            return;
        }
    }
    device->sim->counts.cuts += is_connected(device) ? 1 : 0;
    law_links_drop(device, true);
    law_device_wake(device);
}

static void arm_kill(struct law_device *device)
{
    device->kv.kill_at = device->kv.commits + 1 + base_prng_below(&device->sim->prng, 4);
    device->kv.kill_applied = law_chance(device->sim, 2);
}

static void fail_commits(struct law_device *device)
{
    if (!device->phone->unreliable) {
        return;
    }
    if (law_chance(device->sim, 2)) {
        device->kv.fail_at = device->kv.commits + 1 + base_prng_below(&device->sim->prng, 3);
    } else {
        device->kv.fail_from = device->kv.fail_from == 0 ? device->kv.commits + 1 : 0;
    }
}

static void count_tokens(const struct law_device *device, uint32_t out[LAW_CLASSES])
{
    for (uint8_t slot = 0; slot < LAW_CLASSES; slot++) {
        out[slot] = device->phone->lineages[device->lineage].tokens[slot].count;
    }
}

static void back_up(struct law_device *device)
{
    if (device->backup != NULL || device->is_clone) {
        return;
    }
    device->backup = malloc(sizeof(*device->backup));
    base_check(device->backup != NULL);
    mem_kv_init(device->backup);
    mem_kv_copy(device->backup, &device->kv);
    device->backup_lineage = device->lineage;
    count_tokens(device, device->backup_counts);
}

static void restore(struct law_device *device)
{
    struct law_sim *sim = device->sim;
    struct law_phone *phone = device->phone;
    if (device->backup == NULL || phone->lineage_count >= LAW_LINEAGES) {
        return;
    }
    bury(device);
    mem_kv_revive(&device->kv);
    mem_kv_copy(&device->kv, device->backup);
    mem_kv_done(device->backup);
    free(device->backup);
    device->backup = NULL;
    phone->copied = true;
    device->lineage = law_branch(sim, phone, device->backup_lineage, device->backup_counts);
    sim->counts.restores++;
    law_device_boot(device);
}

static void clone_device(struct law_device *device)
{
    struct law_sim *sim = device->sim;
    struct law_phone *phone = device->phone;
    uint32_t counts[LAW_CLASSES];
    if (phone->lineage_count >= LAW_LINEAGES || device->is_clone || phone->copied) {
        return;
    }
    struct law_device *clone = &sim->devices[sim->device_count++];
    law_device_new(sim, phone, clone);
    mem_kv_copy(&clone->kv, &device->kv);
    count_tokens(device, counts);
    phone->copied = true;
    clone->is_clone = true;
    clone->lineage = law_branch(sim, phone, device->lineage, counts);
    // From here on the original is a branch too, so that the two can be told apart.
    device->lineage = law_branch(sim, phone, device->lineage, counts);
    clone->script = device->script;
    sim->counts.clones++;
    law_device_boot(clone);
    law_at(sim, sim->now_us + base_prng_below(&sim->prng, DOWN_US), LAW_ACT, clone);
}

static void befall(struct law_device *device)
{
    struct law_sim *sim = device->sim;
    uint64_t what = base_prng_below(&sim->prng, 1000);
    uint32_t kind = device->phone->index % COPY_EVERY;
    if (sim->options.calm || what < 640) {
        offer_some(device);
    } else if (what < 700) {
        lose_connection(device);
    } else if (what < 740) {
        device->offline = true;
        lose_connection(device);
    } else if (what < 830) {
        device->offline = false;
        dev_tunnel_wake(device->tunnel, sim->now_us);
        law_device_wake(device);
    } else if (what < 870) {
        dev_tunnel_flush(device->tunnel, sim->now_us);
        law_device_wake(device);
    } else if (what < 900) {
        offer_some(device);
        kill_device(device);
    } else if (what < 930) {
        arm_kill(device);
    } else if (what < 960) {
        fail_commits(device);
    } else if (kind == 0) {
        if (device->backup == NULL) {
            back_up(device);
        } else {
            restore(device);
        }
    } else if (kind == 1) {
        clone_device(device);
    } else {
        offer_some(device);
    }
}

void law_device_act(struct law_device *device)
{
    struct law_sim *sim = device->sim;
    if (sim->calm) {
        return;
    }
    if (!device->alive) {
        law_device_boot(device);
    } else {
        befall(device);
    }
    if (device->script == 0) {
        return;
    }
    device->script--;
    uint64_t mean = (uint64_t)sim->options.minutes * 60 * 1000 * MS / (sim->options.records / 2);
    mean = device->alive || mean < DOWN_US ? mean : DOWN_US;
    law_at(sim, sim->now_us + 1 + base_prng_below(&sim->prng, 2 * mean), LAW_ACT, device);
}

// ---- The end

void law_device_settle(struct law_device *device)
{
    struct law_sim *sim = device->sim;
    if (device->alive && device->kv.killed) {
        bury(device);
    }
    if (!device->alive) {
        law_device_boot(device);
    }
    device->kv.kill_at = 0;
    device->kv.fail_at = 0;
    device->kv.fail_from = 0;
    device->offline = false;
    dev_tunnel_flush(device->tunnel, sim->now_us);
    dev_tunnel_wake(device->tunnel, sim->now_us);
    law_device_wake(device);
}

bool law_device_is_idle(struct law_device *device)
{
    return device->done || (device->alive && dev_tunnel_is_idle(device->tunnel));
}

static uint64_t sink_lost(const struct law_phone *phone, uint8_t slot)
{
    uint64_t lost = 0;
    for (uint32_t i = 0; i < phone->epoch_count; i++) {
        lost += phone->epochs[i].slot == slot ? phone->epochs[i].lost : 0;
    }
    return lost;
}

static void check_class(struct law_device *device, uint8_t slot,
                        const struct dev_tunnel_class_stats *stats)
{
    struct law_sim *sim = device->sim;
    struct law_phone *phone = device->phone;
    uint64_t lost = 0;
    for (unsigned reason = 0; reason < WIRE_TUNNEL_LOSS_END; reason++) {
        lost += stats->lost[reason];
        sim->counts.lost[reason] += stats->lost[reason];
    }
    uint64_t delivered = law_tokens_of(phone, device->lineage, slot, true, false);
    uint64_t wanted = expected(device, slot);
    bool counts =
        stats->produced == wanted && stats->queued == 0 && stats->durable + lost == stats->produced;
    bool there = phone->copied ? stats->durable <= delivered
                               : stats->durable == delivered && lost == sink_lost(phone, slot);
    if (!counts || !there) {
        law_problem(sim, phone,
                    "class %u: offered %llu; produced %llu = durable %llu + queued %llu + lost "
                    "%llu; in the sink %llu, declared there %llu%s",
                    phone->classes[slot], (unsigned long long)wanted,
                    (unsigned long long)stats->produced, (unsigned long long)stats->durable,
                    (unsigned long long)stats->queued, (unsigned long long)lost,
                    (unsigned long long)delivered, (unsigned long long)sink_lost(phone, slot),
                    phone->copied ? " (copied)" : "");
    }
}

void law_device_check(struct law_device *device)
{
    struct dev_tunnel_stats stats;
    if (device->done) {
        return;
    }
    dev_tunnel_stats(device->tunnel, &stats);
    for (uint8_t slot = 0; slot < LAW_CLASSES; slot++) {
        check_class(device, slot, &stats.classes[device->phone->classes[slot]]);
    }
    device->done = true;
    bury(device);
}

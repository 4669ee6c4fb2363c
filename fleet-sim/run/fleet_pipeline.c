// The data pipeline and the tunnel of one active device: the same pieces as on a phone
// (device/port/posix/posix_pipeline.c), on a store in memory. Called on the shard's thread; the
// memory is the device's place.
#include "run/fleet_behaviour.h"

#include "base/alloc.h"
#include "base/carve.h"
#include "base/check.h"

#include <string.h>

#define ALIGNMENT 16

uint64_t sim_active_wall_ms(const struct sim_active *active)
{
    return active->wall_ms + (active->clock_us - active->wall_us) / 1000;
}

static uint64_t now_us_of(const struct sim_active *active)
{
    const struct base_clock_port *clock = &active->shard->clock;
    return clock->mono_us(clock->ctx);
}

static struct sim_behaviour_sums *sums(const struct sim_active *active)
{
    return &active->shard->ledger.counters.behaviour;
}

// ---- Ports of the pipeline

static enum base_status start_task(void *ctx, const struct dev_pipeline_start *start)
{
    struct sim_active *active = ctx;
    struct dev_run_input input = {
        .token = start->token, .events = start->events, .events_bytes = start->events_bytes};
    enum base_status status = dev_run_triggered(active->awake->runtime, start->task_id, &input);
    struct sim_task_tally *task =
        sim_tally_task_find(&active->shard->behaving->tally, start->task_id);
    if (status == BASE_OK && task != NULL) {
        task->starts++;
    }
    return status;
}

static enum base_status upload(void *ctx, uint64_t now_us, const struct wire_upload_record *upload)
{
    struct sim_active *active = ctx;
    (void)now_us; // the user's clock; the tunnel lives in the run's
    struct sim_behaving *behaving = active->awake->shard->behaving;
    bool told = behaving->tally.against[0] != '\0';
    bool taken =
        sim_upload_taken(&behaving->schemas, upload, told ? NULL : behaving->tally.against);
    sums(active)->records_against += taken ? 0 : 1;
    if (active->tunnel != NULL) {
        BASE_TRY(dev_tunnel_offer(active->tunnel, now_us_of(active), upload, NULL));
    }
    struct sim_task_tally *task =
        sim_tally_task_find(&active->shard->behaving->tally, wire_task_id(upload->key.task));
    if (task != NULL) {
        task->records++;
        task->record_bytes += upload->size;
    }
    active->past->offered[upload->class_id]++;
    sums(active)->records++;
    sums(active)->record_bytes += upload->size;
    return BASE_OK;
}

// Declared lost in place of what the runs would have sent.
static void dropped(void *ctx, uint64_t now_us, const struct dev_pipeline_dropped *dropped)
{
    struct sim_active *active = ctx;
    (void)now_us;
    if (active->tunnel != NULL &&
        dev_tunnel_unmade(active->tunnel, dropped->class_id, dropped->count) == BASE_OK) {
        active->past->offered[dropped->class_id] += (uint32_t)dropped->count;
    }
}

static void on_event(void *ctx, const struct dev_event *event)
{
    struct sim_active *active = ctx;
    for (uint32_t i = 0; i < active->row_count; i++) {
        struct sim_trigger_tally *row = active->rows[i];
        for (uint32_t k = 0; k < row->step_count; k++) {
            row->step_events[k] +=
                sim_literal_matches(&row->pattern, &row->pattern.literals[k], event) ? 1 : 0;
        }
    }
}

static void on_match(void *ctx, uint64_t task_id, uint32_t trigger)
{
    struct sim_active *active = ctx;
    for (uint32_t i = 0; i < active->row_count; i++) {
        struct sim_trigger_tally *row = active->rows[i];
        row->matches += row->task_id == task_id && row->trigger == trigger ? 1 : 0;
    }
}

// ---- Memory and boot

static struct dev_recorder_options recorder_options(struct sim_active *active)
{
    return (struct dev_recorder_options){
        .entropy = active != NULL ? base_prng_next(&active->prng) : 0,
        .collect = active != NULL ? active->collect : NULL,
    };
}

static struct dev_pipeline_options pipeline_options(struct sim_active *active)
{
    return (struct dev_pipeline_options){
        .collect = active->collect,
        .features = active->features,
        .recorder = active->recorder,
        .memory = base_alloc_heap(),
        .ports = {.ctx = active,
                  .start = start_task,
                  .uploads = {active, upload},
                  .on_event = on_event,
                  .dropped = dropped,
                  .on_match = on_match},
    };
}

// Sizes need pointers that are not NULL, and do not look at them.
static size_t pipeline_bytes(void)
{
    static char there;
    struct sim_active any = {
        .collect = (void *)&there, .features = (void *)&there, .recorder = (void *)&there};
    const struct dev_pipeline_options options = pipeline_options(&any);
    return dev_pipeline_bytes(&options);
}

size_t sim_active_bytes(void)
{
    const struct dev_recorder_options recorder = recorder_options(NULL);
    const struct dev_tunnel_config tunnel = {0};
    struct base_carver carver = {.capacity = SIZE_MAX, .alignment = ALIGNMENT};
    (void)base_carve(&carver, 1, sizeof(struct sim_active));
    (void)base_carve(&carver, 1, dev_collect_bytes());
    (void)base_carve(&carver, 1, dev_recorder_bytes(&recorder));
    (void)base_carve(&carver, 1, dev_feature_store_bytes());
    (void)base_carve(&carver, 1, pipeline_bytes());
    (void)base_carve(&carver, 1, dev_tunnel_bytes(&tunnel));
    return carver.used;
}

static enum base_status tunnel_boot(struct sim_active *active, struct base_carver *carver,
                                    uint64_t now_us)
{
    const struct sim_traits *traits = &active->awake->traits;
    struct dev_tunnel_config config = {
        .device_id = active->awake->id,
        .app = base_str_of(sim_trait_text(traits->people, SIM_TRAIT_APP_VERSION,
                                          traits->value[SIM_TRAIT_APP_VERSION])),
        .os =
            base_str_of(sim_trait_text(traits->people, SIM_TRAIT_OS, traits->value[SIM_TRAIT_OS])),
    };
    active->codec =
        sim_codecs_take(&active->shard->behaving->codecs, active->shard->store, NULL, 0);
    struct dev_tunnel_ports ports = {
        .collect = active->collect,
        .random = base_prng_port(&active->prng),
        .transport = sim_tunnel_port(active),
        .codec = sim_codec_port(&active->codec),
    };
    size_t size = dev_tunnel_bytes(&config);
    BASE_TRY(dev_tunnel_init(base_carve(carver, 1, size), size, &config, &ports, &active->tunnel));
    BASE_TRY(dev_tunnel_boot(active->tunnel, now_us));
    const struct base_clock_port *clock = &active->shard->clock;
    dev_tunnel_set_wall(active->tunnel, now_us, clock->wall_us(clock->ctx) / 1000);
    struct dev_tunnel_stats stats;
    dev_tunnel_stats(active->tunnel, &stats);
    for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        active->durable += stats.classes[i].durable;
        for (unsigned k = 0; k < WIRE_TUNNEL_LOSS_END; k++) {
            active->lost += stats.classes[i].lost[k];
        }
    }
    return BASE_OK;
}

enum base_status sim_active_boot(struct sim_active *active, uint64_t now_us)
{
    struct base_carver carver = {
        .block = active, .capacity = sim_active_bytes(), .alignment = ALIGNMENT};
    (void)base_carve(&carver, 1, sizeof(*active));
    active->clock_us = now_us;
    active->wall_us = now_us;
    active->store = mem_kv_port(active->past->kv);
    size_t size = dev_collect_bytes();
    BASE_TRY(
        dev_collect_init(base_carve(&carver, 1, size), size, &active->store, &active->collect));
    struct dev_recorder_options recorder = recorder_options(active);
    size = dev_recorder_bytes(&recorder);
    BASE_TRY(dev_recorder_init(base_carve(&carver, 1, size), size, &recorder, &active->recorder));
    size = dev_feature_store_bytes();
    BASE_TRY(dev_feature_store_init(base_carve(&carver, 1, size), size, active->collect,
                                    &active->features));
    struct dev_pipeline_options pipeline = pipeline_options(active);
    size = dev_pipeline_bytes(&pipeline);
    BASE_TRY(dev_pipeline_init(base_carve(&carver, 1, size), size, &pipeline, &active->pipeline));
    BASE_TRY(dev_pipeline_boot(active->pipeline, now_us, active->wall_ms));
    return active->shard->options->local ? BASE_OK : tunnel_boot(active, &carver, now_us);
}

// ---- What active versions declare

static void triggers_add(struct sim_active *active, const struct dev_pipeline_task *task)
{
    struct sim_behaving *behaving = active->shard->behaving;
    struct wire_declaration *declaration = &behaving->declaring.declaration;
    struct sim_triggers *fresh = &active->fresh;
    if (task->declaration.size == 0 ||
        wire_declaration_parse((const uint8_t *)task->declaration.data, task->declaration.size,
                               declaration) != BASE_OK) {
        return;
    }
    for (uint32_t i = 0; i < declaration->trigger_count; i++) {
        struct base_str text = declaration->triggers[i];
        struct sim_trigger_tally *row = sim_tally_trigger(&behaving->tally, task->task_id, i, text);
        if (fresh->count < SIM_WALK_TRIGGERS_MAX) {
            memcpy(fresh->text[fresh->count], text.data, text.size);
            fresh->size[fresh->count++] = (uint16_t)text.size;
        }
        if (row != NULL && active->row_count < SIM_WALK_TRIGGERS_MAX) {
            active->rows[active->row_count++] = row;
        }
    }
}

static void dictionary(void *ctx, struct base_str task, const struct wire_sha256 *name,
                       const uint8_t *bytes, size_t size)
{
    struct sim_declaring *declaring = ctx;
    (void)task, (void)bytes, (void)size; // what was verified is in the shard's store
    if (declaring->dictionary_count < WIRE_TUNNEL_DICTS_MAX) {
        declaring->dictionaries[declaring->dictionary_count++] = *name;
    }
}

void sim_active_declare(struct sim_active *active)
{
    struct sim_behaving *behaving = active->shard->behaving;
    struct sim_declaring *declaring = &behaving->declaring;
    struct dev_runtime *runtime = active->awake->runtime;
    uint64_t mark = dev_active_mark(runtime);
    if (active->has_declared && active->declared == mark) {
        return;
    }
    struct posix_declared *declared = &declaring->declared;
    struct sim_codec *last = active->codec;
    declaring->dictionary_count = 0;
    posix_declared_open(declared, runtime, dictionary, declaring);
    active->codec = sim_codecs_take(&behaving->codecs, active->shard->store,
                                    declaring->dictionaries, declaring->dictionary_count);
    sim_codecs_give(last);
    if (dev_pipeline_declare(active->pipeline, active->clock_us, declared->tasks,
                             declared->count) == BASE_OK) {
        active->declared = mark;
        active->has_declared = true;
        posix_declared_keep(runtime, active->pipeline, active->clock_us);
        active->row_count = 0;
        active->fresh.count = 0;
        for (uint32_t i = 0; i < declared->count; i++) {
            (void)sim_tally_task(&behaving->tally, &declared->tasks[i]);
            triggers_add(active, &declared->tasks[i]);
        }
    }
    posix_declared_close(declared, runtime);
}

void sim_active_step(struct sim_active *active)
{
    active->due_us =
        dev_pipeline_step(active->pipeline, active->clock_us, sim_active_wall_ms(active));
}

// ---- Counting

static void max_u64(uint64_t *into, uint64_t from)
{
    *into = from > *into ? from : *into;
}

void sim_active_tunnel_seen(struct sim_active *active)
{
    struct dev_tunnel_stats stats;
    uint64_t durable = 0;
    uint64_t lost = 0;
    if (active->tunnel == NULL) {
        return;
    }
    dev_tunnel_stats(active->tunnel, &stats);
    for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        durable += stats.classes[i].durable;
        for (unsigned k = 0; k < WIRE_TUNNEL_LOSS_END; k++) {
            lost += stats.classes[i].lost[k];
        }
    }
    sums(active)->durable += durable - active->durable;
    sums(active)->lost += lost - active->lost;
    active->durable = durable;
    active->lost = lost;
}

static void tunnel_count(struct sim_active *active)
{
    struct dev_tunnel_stats stats;
    struct sim_behaviour_sums *out = sums(active);
    dev_tunnel_stats(active->tunnel, &stats);
    out->connects += stats.connects;
    for (unsigned i = 0; i < WIRE_TUNNEL_CLASSES; i++) {
        out->sent_bytes += stats.classes[i].bytes_sent;
        out->raw_bytes += stats.classes[i].raw_bytes;
        out->batches += stats.classes[i].batches_sent;
        out->batches_resent += stats.classes[i].batches_resent;
    }
}

void sim_active_count(struct sim_active *active)
{
    struct dev_pipeline_stats stats;
    struct sim_behaviour_sums *out = sums(active);
    struct sim_behaviour_peaks *peaks = &active->shard->behaving->tally.peaks;
    dev_pipeline_stats(active->pipeline, &stats);
    out->kept += stats.events;
    out->matches += stats.matches;
    out->starts += stats.starts;
    out->starts_dropped += stats.starts_dropped;
    out->starts_again += stats.starts_again;
    out->starts_lost += stats.starts_lost;
    out->uploads_refused += stats.uploads_refused;
    out->features += stats.features;
    out->features_refused += stats.features_refused;
    out->tasks_refused += stats.tasks_refused;
    out->suppressed += stats.trigger.suppressed_visit + stats.trigger.suppressed_cooldown +
                       stats.trigger.suppressed_cap;
    out->commits += active->past->kv->commits - active->commits;
    max_u64(&peaks->work, stats.trigger.work_seen_max);
    max_u64(&peaks->trigger_bytes, stats.trigger_bytes);
    max_u64(&peaks->live, (uint64_t)stats.trigger.live_transient + stats.trigger.live_sticky +
                              stats.trigger.live_keys);
    max_u64(&peaks->stored_bytes, active->past->kv->bytes);
    if (active->tunnel != NULL) {
        sim_active_tunnel_seen(active);
        tunnel_count(active);
    }
}

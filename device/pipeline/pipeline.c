// The life of a device's data pipeline: memory, boot, the step that drains the recorder and feeds
// what listens, and the ends of runs. Called by the embedding program (posix/posix_pipeline.c, the
// simulator's fleet_pipeline.c, `walle task run`'s task_play.c) on the pipeline's thread. What an
// event does, in this order: recorder, sequences, trigger engine, starts; the engine's state is
// stored with the events it has seen, so that a kill neither loses a match nor tells it twice.
#include "pipeline/pipeline.h"

#include "base/carve.h"
#include "base/check.h"
#include "pipeline/pipeline_private.h"

#include <string.h>

#define ALIGNMENT 16

static struct dev_pipeline_options with_defaults(const struct dev_pipeline_options *options)
{
    struct dev_pipeline_options full = *options;
    full.trigger_bytes = full.trigger_bytes > 0 ? full.trigger_bytes : DEV_PIPELINE_TRIGGER_BYTES;
    full.input_bytes = full.input_bytes > 0 ? full.input_bytes : DEV_PIPELINE_INPUT_BYTES;
    return full;
}

static struct dev_sequence_options sequence_options(const struct dev_pipeline_options *options)
{
    return (struct dev_sequence_options){.ring_bytes = options->sequence_bytes,
                                         .collect = options->collect,
                                         .recorder = options->recorder};
}

size_t dev_pipeline_bytes(const struct dev_pipeline_options *options)
{
    struct dev_pipeline_options full = with_defaults(options);
    if (full.collect == NULL || full.features == NULL || full.recorder == NULL ||
        full.ports.start == NULL || full.memory == NULL) {
        return 0;
    }
    struct dev_sequence_options sequence = sequence_options(&full);
    size_t sequence_bytes = dev_sequence_bytes(&sequence);
    return sequence_bytes == 0 ? 0
                               : base_aligned(sizeof(struct dev_pipeline), ALIGNMENT) +
                                     base_aligned(sequence_bytes, ALIGNMENT);
}

enum base_status dev_pipeline_init(void *memory, size_t memory_bytes,
                                   const struct dev_pipeline_options *options,
                                   struct dev_pipeline **out)
{
    size_t needed = dev_pipeline_bytes(options);
    if (needed == 0 || memory == NULL || memory_bytes < needed ||
        (uintptr_t)memory % ALIGNMENT != 0) {
        return BASE_ERR_INVALID;
    }
    struct base_carver carver = {.block = memory, .capacity = needed, .alignment = ALIGNMENT};
    struct dev_pipeline *pipeline = base_carve(&carver, 1, sizeof(*pipeline));
    memset(pipeline, 0, sizeof(*pipeline));
    pipeline->options = with_defaults(options);
    struct dev_sequence_options sequence = sequence_options(&pipeline->options);
    size_t bytes = dev_sequence_bytes(&sequence);
    BASE_TRY(
        dev_sequence_init(base_carve(&carver, 1, bytes), bytes, &sequence, &pipeline->sequence));
    base_assert(carver.used <= needed);
    *out = pipeline;
    return BASE_OK;
}

// ---- Events

void dev_pipeline_trigger(struct dev_pipeline *pipeline, const struct dev_event *event)
{
    struct pipeline_engine *engine = pipeline_engine(pipeline);
    if (engine->engine == NULL) {
        return;
    }
    base_assert(engine->source_count > 0);
    uint32_t count;
    bool seen;
    const struct dev_trigger_fired *fired =
        dev_trigger_on_wanted(engine->engine, event, &count, &seen);
    pipeline->trigger_dirty = pipeline->trigger_dirty || seen;
    for (uint32_t i = 0; i < count; i++) {
        dev_pipeline_fired(pipeline, event, &fired[i]);
    }
}

static void on_event(void *ctx, const struct dev_event *event)
{
    struct dev_pipeline *pipeline = ctx;
    const struct dev_pipeline_ports *ports = &pipeline->options.ports;
    pipeline->stats.events++;
    pipeline->newest_seq = event->seq;
    dev_sequence_on_event(pipeline->sequence, pipeline->now_us, event);
    if (ports->on_event != NULL) {
        ports->on_event(ports->ctx, event);
    }
    dev_pipeline_trigger(pipeline, event);
}

static void on_visit_end(void *ctx, const struct dev_visit *visit, enum dev_visit_end why)
{
    struct dev_pipeline *pipeline = ctx;
    (void)visit;
    (void)why;
    dev_sequence_on_visit_end(pipeline->sequence);
}

static void on_gap(void *ctx, const struct dev_gap *gap)
{
    struct dev_pipeline *pipeline = ctx;
    dev_sequence_on_gap(pipeline->sequence, gap);
}

static struct dev_recorder_sink sink_of(struct dev_pipeline *pipeline)
{
    return (struct dev_recorder_sink){
        .ctx = pipeline, .on_event = on_event, .on_gap = on_gap, .on_visit_end = on_visit_end};
}

enum base_status dev_pipeline_boot(struct dev_pipeline *pipeline, uint64_t now_us, uint64_t wall_ms)
{
    const struct dev_pipeline_options *options = &pipeline->options;
    struct dev_recorder_sink sink = sink_of(pipeline);
    pipeline->now_us = now_us;
    pipeline->wall_ms = wall_ms;
    BASE_TRY(dev_collect_boot(options->collect, now_us));
    BASE_TRY(dev_feature_store_boot(options->features, now_us));
    BASE_TRY(dev_sequence_boot(pipeline->sequence, now_us));
    BASE_TRY(dev_recorder_boot(options->recorder, now_us, now_us, &sink));
    dev_pipeline_ledger_load(pipeline);
    dev_pipeline_starts_load(pipeline);
    pipeline->stores = true; // until somebody looked
    return BASE_OK;
}

// ---- Step

// The trigger engine's state goes with the events it has seen: when a block of them was put, or a
// start.
static void state_follow(struct dev_pipeline *pipeline)
{
    struct dev_sequence_stats stats;
    dev_sequence_stats(pipeline->sequence, &stats);
    if (stats.blocks != pipeline->blocks_seen ||
        pipeline->stats.matches != pipeline->matches_seen) {
        pipeline->blocks_seen = stats.blocks;
        pipeline->matches_seen = pipeline->stats.matches;
        dev_pipeline_state_save(pipeline);
    }
}

// What is too old or too much goes; what fails is tried again an hour later.
static void evict(struct dev_pipeline *pipeline)
{
    enum base_status status =
        dev_feature_evict(pipeline->options.features, pipeline->now_us, pipeline->wall_ms);
    if (status == BASE_OK) {
        status = dev_sequence_evict(pipeline->sequence, pipeline->now_us, pipeline->wall_ms,
                                    DEV_PIPELINE_KEEP_MS);
    }
    if (status != BASE_OK) {
        base_log_debug(pipeline->options.ports.log, "pipeline", "old rows stay: %s",
                       base_status_text(status));
    }
    pipeline->evict_due_us = pipeline->now_us + DEV_PIPELINE_EVICT_US;
}

static bool drain(struct dev_pipeline *pipeline)
{
    struct dev_recorder_sink sink = sink_of(pipeline);
    uint32_t count = dev_recorder_drain(pipeline->options.recorder, pipeline->now_us,
                                        DEV_PIPELINE_DRAIN_MAX, &sink);
    return count == DEV_PIPELINE_DRAIN_MAX;
}

static bool waits(const struct dev_pipeline *pipeline)
{
    base_assert(pipeline->start_count <= DEV_PIPELINE_STARTS_MAX);
    for (uint32_t i = 0; i < pipeline->start_count; i++) {
        if (pipeline->starts[i].state != START_RUNNING) {
            return pipeline->input == NULL;
        }
    }
    return false;
}

uint64_t dev_pipeline_step(struct dev_pipeline *pipeline, uint64_t now_us, uint64_t wall_ms)
{
    pipeline->now_us = now_us;
    pipeline->wall_ms = wall_ms;
    if (pipeline->catch_up) {
        pipeline->catch_up = false;
        dev_pipeline_catch_up(pipeline);
    }
    bool more = drain(pipeline);
    if (!more) { // an event that waits in the ring may be the match
        dev_pipeline_timeouts_step(pipeline);
    }
    dev_pipeline_dropped_tell(pipeline);
    if (now_us >= pipeline->evict_due_us) {
        evict(pipeline);
    }
    dev_pipeline_starts_store(pipeline);
    uint64_t due_us = dev_sequence_step(pipeline->sequence, now_us);
    state_follow(pipeline);
    dev_pipeline_starts_step(pipeline);
    uint64_t collect_us = dev_collect_step(pipeline->options.collect, now_us);
    due_us = collect_us < due_us ? collect_us : due_us;
    uint64_t timeout_us = dev_timeouts_due(&pipeline->timeouts);
    due_us = timeout_us < due_us ? timeout_us : due_us;
    uint64_t again_us = now_us + DEV_PIPELINE_RETRY_US;
    due_us = waits(pipeline) && again_us < due_us ? again_us : due_us;
    base_assert(dev_pipeline_validate(pipeline));
    return more ? now_us : due_us;
}

enum base_status dev_pipeline_flush(struct dev_pipeline *pipeline, uint64_t now_us)
{
    while (dev_pipeline_step(pipeline, now_us, pipeline->wall_ms) <= now_us) {
    }
    BASE_TRY(dev_sequence_flush(pipeline->sequence, now_us));
    dev_pipeline_state_save(pipeline);
    BASE_TRY(dev_recorder_checkpoint(pipeline->options.recorder, now_us, UINT64_MAX));
    return dev_collect_flush(pipeline->options.collect, now_us);
}

// ---- Life

void dev_pipeline_on_free(struct dev_pipeline *pipeline, uint64_t token)
{
    if (pipeline->input != NULL && pipeline->free_token == token) {
        pipeline_give(pipeline, pipeline->input);
        pipeline->input = NULL;
    }
}

void dev_pipeline_done(struct dev_pipeline *pipeline)
{
    if (pipeline == NULL) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        pipeline_give(pipeline, pipeline->engines[i].memory);
        pipeline->engines[i].memory = NULL;
        pipeline->engines[i].engine = NULL;
    }
    pipeline_give(pipeline, pipeline->input);
    pipeline->input = NULL;
}

// ---- Views

uint64_t dev_pipeline_timeout_due(const struct dev_pipeline *pipeline)
{
    return dev_timeouts_due(&pipeline->timeouts);
}

bool dev_pipeline_is_idle(const struct dev_pipeline *pipeline)
{
    return pipeline->start_count == 0 && pipeline->input == NULL &&
           dev_collect_changes(pipeline->options.collect) ==
               dev_collect_durable(pipeline->options.collect);
}

void dev_pipeline_stats(const struct dev_pipeline *pipeline, struct dev_pipeline_stats *out)
{
    const struct pipeline_engine *engine = &pipeline->engines[pipeline->current];
    *out = pipeline->stats;
    out->waiting = pipeline->start_count;
    out->pending = pipeline->timeouts.count;
    if (engine->engine != NULL) {
        dev_trigger_stats(engine->engine, &out->trigger);
    }
}

bool dev_pipeline_validate(const struct dev_pipeline *pipeline)
{
    const struct pipeline_engine *engine = &pipeline->engines[pipeline->current];
    bool ok = pipeline->start_count <= DEV_PIPELINE_STARTS_MAX &&
              pipeline->task_count <= DEV_PIPELINE_TASKS_MAX &&
              (engine->engine == NULL || dev_trigger_validate(engine->engine));
    for (uint32_t i = 0; ok && i < pipeline->start_count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            ok = ok && pipeline->starts[i].token != pipeline->starts[j].token;
        }
    }
    return ok;
}

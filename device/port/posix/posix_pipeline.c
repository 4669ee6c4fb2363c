// The data pipeline of the posix port: storage, recorder, trigger engine, tunnel and compression
// put together, and tied to the runtime: active versions declare, matches start tasks, results
// become features and uploads. On the thread of the event base, but for dev_record.
#include "posix/posix_pipeline.h"

#include "posix/posix_declared.h"
#include "posix/posix_tunnel.h"
#include "posix/store/posix_kv.h"

#include "base/alloc.h"
#include "base/carve.h"
#include "base/clock.h"
#include "base/prng.h"
#include "zstd/codec_zstd.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DROPPED_GAP_US (60 * UINT64_C(1000000)) // between lines of the log about dropped starts

struct posix_pipeline {
    struct posix_pipeline_options options;
    int wake_fd; // rung by dev_record on any thread
    struct event *wake_event;
    struct posix_kv *kv;
    struct dev_codec *codec;
    struct posix_tunnel *transport;
    struct base_prng prng;
    void *memory[5]; // collect, recorder, features, tunnel, pipeline
    struct dev_kv_port store;
    struct dev_collect *collect;
    struct dev_recorder *recorder;
    struct dev_feature_store *features;
    struct dev_pipeline *pipeline;
    struct dev_tunnel *tunnel;
    struct dev_runtime *runtime;
    uint64_t declared; // dev_active_mark of what was declared
    bool has_declared;
    uint32_t tasks;   // of the runtime, when the pipeline was told of them
    uint64_t dropped; // starts, not said yet
    uint64_t dropped_said_us;
};

static uint64_t wall_ms(void)
{
    return base_clock_wall_us() / 1000;
}

// ---- Ports of the pipeline

static enum base_status start_task(void *ctx, const struct dev_pipeline_start *start)
{
    struct posix_pipeline *self = ctx;
    struct dev_run_input input = {
        .token = start->token, .events = start->events, .events_bytes = start->events_bytes};
    enum base_status status = dev_run_triggered(self->runtime, start->task_id, &input);
    if (status == BASE_OK) {
        self->options.woke(self->options.ctx);
    }
    return status;
}

static void left_out(void *ctx, uint64_t task_id, const char *why)
{
    struct posix_pipeline *self = ctx;
    base_log_warn(self->options.log, "pipeline", "task %016llx is left out: %s",
                  (unsigned long long)task_id, why);
    dev_left_out(self->runtime, task_id, why);
}

// A burst is one line of the log, and what comes of it later one a minute.
static void dropped(void *ctx, uint64_t now_us, const struct dev_pipeline_dropped *dropped)
{
    struct posix_pipeline *self = ctx;
    self->dropped += dropped->count;
    enum base_status status = dev_tunnel_unmade(self->tunnel, dropped->class_id, dropped->count);
    if (self->dropped_said_us == 0 || now_us - self->dropped_said_us > DROPPED_GAP_US) {
        base_log_warn(
            self->options.log, "pipeline",
            "task %.*s: %llu matches start nothing: %d starts wait already; %s, from here on "
            "told once a minute",
            (int)dropped->task.size, dropped->task.data, (unsigned long long)self->dropped,
            DEV_PIPELINE_STARTS_MAX,
            status == BASE_OK ? "declared lost" : base_status_text(status));
        self->dropped = 0;
        self->dropped_said_us = now_us;
    }
}

// ---- What active versions declare

static void dictionary(void *ctx, struct base_str task, const struct wire_sha256 *name,
                       const uint8_t *bytes, size_t size)
{
    struct posix_pipeline *self = ctx;
    enum base_status status = dev_codec_dict_add(self->codec, name, bytes, size);
    if (status != BASE_OK) {
        base_log_debug(self->options.log, "pipeline", "dictionary of %.*s: %s", (int)task.size,
                       task.data, base_status_text(status));
    }
}

static void declare(struct posix_pipeline *self, uint64_t now_us)
{
    uint64_t mark = dev_active_mark(self->runtime);
    uint32_t tasks = dev_task_count(self->runtime);
    if (self->has_declared && self->declared == mark) {
        if (self->tasks != tasks) { // one that was stopped is gone
            posix_declared_keep(self->runtime, self->pipeline, now_us);
            self->tasks = tasks;
        }
        return;
    }
    struct posix_declared *declared = malloc(sizeof(*declared));
    if (declared == NULL) {
        return; // at the next step
    }
    dev_codec_dicts_begin(self->codec);
    posix_declared_open(declared, self->runtime, dictionary, self);
    if (dev_pipeline_declare(self->pipeline, now_us, declared->tasks, declared->count) == BASE_OK) {
        self->declared = mark;
        self->has_declared = true;
        posix_declared_keep(self->runtime, self->pipeline, now_us);
        self->tasks = tasks;
    }
    posix_declared_close(declared, self->runtime);
    free(declared);
}

// ---- Step

uint64_t posix_pipeline_step(struct posix_pipeline *self, uint64_t now_us)
{
    declare(self, now_us);
    dev_tunnel_set_wall(self->tunnel, now_us, wall_ms());
    uint64_t due_us = dev_pipeline_step(self->pipeline, now_us, wall_ms());
    uint64_t tunnel_us = dev_tunnel_step(self->tunnel, now_us);
    return tunnel_us < due_us ? tunnel_us : due_us;
}

// ---- Ends of runs

void posix_pipeline_on_end(struct posix_pipeline *self, struct dev_pipeline_run run,
                           const struct dev_task_end *end)
{
    uint64_t now_us = base_clock_mono_us();
    struct dev_pipeline_end out = {0};
    if (end != NULL) {
        out.ok = end->outcome == WIRE_OUTCOME_RAN;
        out.result = end->result;
        out.effects = end->effects;
        out.effect_count = end->effect_count;
    }
    // What the run gave goes to the store before its start is forgotten there, at the next step. So
    // its uploads do not wait in an open batch.
    struct dev_pipeline_stats before;
    dev_pipeline_stats(self->pipeline, &before);
    dev_pipeline_on_end(self->pipeline, now_us, wall_ms(), run, end != NULL ? &out : NULL);
    struct dev_pipeline_stats after;
    dev_pipeline_stats(self->pipeline, &after);
    if (after.privacy_refusals != before.privacy_refusals) {
        uint64_t refused = after.privacy_refusals - before.privacy_refusals;
        dev_run_refused(self->runtime, (uint32_t)refused);
    }
    if (after.uploads != before.uploads) {
        dev_tunnel_flush(self->tunnel, now_us);
    }
    (void)dev_tunnel_step(self->tunnel, now_us);
    self->options.woke(self->options.ctx);
}

void posix_pipeline_on_result(struct posix_pipeline *self, struct base_str task,
                              const struct dev_task_end *end)
{
    if (!dev_run_is_triggered(self->runtime)) {
        posix_pipeline_on_end(self, (struct dev_pipeline_run){.task_id = wire_task_id(task)}, end);
    }
}

void posix_pipeline_on_input_free(struct posix_pipeline *self, uint64_t token)
{
    dev_pipeline_on_free(self->pipeline, token);
    self->options.woke(self->options.ctx);
}

// ---- Life

// Any thread.
static void ring(void *ctx)
{
    struct posix_pipeline *self = ctx;
    uint64_t one = 1;
    ssize_t written = write(self->wake_fd, &one, sizeof(one));
    (void)written; // a full counter has rung already
}

static void on_ring(evutil_socket_t fd, short what, void *arg)
{
    struct posix_pipeline *self = arg;
    uint64_t count = 0;
    (void)what;
    if (read((int)fd, &count, sizeof(count)) == sizeof(count)) {
        self->options.woke(self->options.ctx);
    }
}

static enum base_status bell_open(struct posix_pipeline *self)
{
    self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->wake_fd < 0) {
        return BASE_ERR_NOMEM;
    }
    self->wake_event =
        event_new(self->options.base, self->wake_fd, EV_READ | EV_PERSIST, on_ring, self);
    return self->wake_event != NULL && event_add(self->wake_event, NULL) == 0 ? BASE_OK
                                                                              : BASE_ERR_NOMEM;
}

static void *block(struct posix_pipeline *self, uint32_t index, size_t size)
{
    self->memory[index] = size > 0 ? aligned_alloc(16, base_aligned(size, 16)) : NULL;
    return self->memory[index];
}

static enum base_status parts_init(struct posix_pipeline *self)
{
    struct posix_pipeline_options *options = &self->options;
    size_t size = dev_collect_bytes();
    BASE_TRY(dev_collect_init(block(self, 0, size), size, &self->store, &self->collect));
    struct dev_recorder_options recorder = {
        .entropy = base_entropy_u64(), .collect = self->collect, .wake = ring, .wake_ctx = self};
    size = dev_recorder_bytes(&recorder);
    BASE_TRY(dev_recorder_init(block(self, 1, size), size, &recorder, &self->recorder));
    size = dev_feature_store_bytes();
    BASE_TRY(dev_feature_store_init(block(self, 2, size), size, self->collect, &self->features));
    struct dev_tunnel_config config = {
        .device_id = options->device_id, .app = options->app, .os = options->os};
    struct dev_tunnel_ports ports = {
        .collect = self->collect,
        .random = base_prng_port(&self->prng),
        .transport = posix_tunnel_table(self->transport),
        .codec = dev_codec_port(self->codec),
        .log = options->log,
    };
    size = dev_tunnel_bytes(&config);
    BASE_TRY(dev_tunnel_init(block(self, 3, size), size, &config, &ports, &self->tunnel));
    posix_tunnel_attach(self->transport, self->tunnel);
    struct dev_pipeline_options pipeline = {
        .collect = self->collect,
        .features = self->features,
        .recorder = self->recorder,
        .memory = base_alloc_heap(),
        .leaves_required = options->leaves_required,
        .ports = {.ctx = self,
                  .start = start_task,
                  .uploads = dev_tunnel_uploads(self->tunnel),
                  .left_out = left_out,
                  .dropped = dropped,
                  .log = options->log},
    };
    size = dev_pipeline_bytes(&pipeline);
    BASE_TRY(dev_pipeline_init(block(self, 4, size), size, &pipeline, &self->pipeline));
    return BASE_OK;
}

static enum base_status boot(struct posix_pipeline *self)
{
    uint64_t now_us = base_clock_mono_us();
    BASE_TRY(dev_pipeline_boot(self->pipeline, now_us, wall_ms()));
    return dev_tunnel_boot(self->tunnel, now_us);
}

static enum base_status open_all(struct posix_pipeline *self, struct base_error *error)
{
    const struct posix_pipeline_options *options = &self->options;
    struct posix_kv_options kv = {.dir = options->dir, .log = options->log};
    BASE_TRY(posix_kv_new(&kv, &self->kv, error));
    self->store = posix_kv_port(self->kv);
    enum base_status status = bell_open(self);
    if (status == BASE_OK) {
        status = dev_codec_new(0, &self->codec);
    }
    if (status == BASE_OK) {
        status = posix_tunnel_new(options->http, options->device_id, options->ctx, options->woke,
                                  &self->transport);
    }
    if (status == BASE_OK) {
        status = parts_init(self);
    }
    if (status == BASE_OK) {
        status = boot(self);
    }
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status, "data pipeline: %s", base_status_text(status));
}

enum base_status posix_pipeline_new(const struct posix_pipeline_options *options,
                                    struct posix_pipeline **out, struct base_error *error)
{
    struct posix_pipeline *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    self->options = *options;
    self->wake_fd = -1;
    base_prng_seed(&self->prng, base_entropy_u64());
    enum base_status status = open_all(self, error);
    if (status != BASE_OK) {
        posix_pipeline_free(self);
        return status;
    }
    *out = self;
    return BASE_OK;
}

void posix_pipeline_free(struct posix_pipeline *self)
{
    if (self == NULL) {
        return;
    }
    if (self->pipeline != NULL) { // the last of the parts
        uint64_t now_us = base_clock_mono_us();
        dev_tunnel_flush(self->tunnel, now_us);
        (void)dev_tunnel_step(self->tunnel, now_us);
        dev_tunnel_stop(self->tunnel);
        enum base_status status = dev_pipeline_flush(self->pipeline, now_us);
        if (status != BASE_OK) {
            base_log_warn(self->options.log, "pipeline", "the last events could not be stored: %s",
                          base_status_text(status));
        }
    }
    if (self->wake_event != NULL) {
        event_free(self->wake_event);
    }
    if (self->wake_fd >= 0) {
        (void)close(self->wake_fd);
    }
    posix_tunnel_free(self->transport);
    dev_codec_free(self->codec);
    posix_kv_free(self->kv);
    dev_pipeline_done(self->pipeline);
    for (size_t i = 0; i < sizeof(self->memory) / sizeof(self->memory[0]); i++) {
        free(self->memory[i]);
    }
    free(self);
}

void posix_pipeline_attach(struct posix_pipeline *self, struct dev_runtime *runtime)
{
    self->runtime = runtime;
}

struct dev_recorder *posix_pipeline_recorder(struct posix_pipeline *self)
{
    return self->recorder;
}

struct dev_feature_store *posix_pipeline_features(struct posix_pipeline *self)
{
    return self->features;
}

struct dev_tunnel *posix_pipeline_tunnel(struct posix_pipeline *self)
{
    return self->tunnel;
}

struct dev_pipeline *posix_pipeline_core(struct posix_pipeline *self)
{
    return self->pipeline;
}

bool posix_pipeline_is_idle(const struct posix_pipeline *self)
{
    return dev_pipeline_is_idle(self->pipeline) && dev_tunnel_is_idle(self->tunnel);
}

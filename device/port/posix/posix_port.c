// The posix port put together: storage, HTTP/2, task worker, real clocks and entropy, and the loop
// that ticks the runtime. Called by the agent (device_agent.c) and by apps (device/examples), all
// on the thread of the event base but posix_record, which any thread may call. Other threads never
// call the runtime, they wake the loop: the worker by an eventfd (posix_task.c), those that record
// by another (posix_pipeline.c). A tick says when the next is due; it comes after TICK_MAX_US at
// the latest.
#include "posix/posix_port.h"

#include "posix/posix_errand.h"
#include "posix/posix_http.h"
#include "posix/posix_pipeline.h"
#include "posix/posix_tls.h"
#include "posix/run/posix_tasks.h"
#include "posix/store/posix_storage.h"

#include "base/clock.h"
#include "base/prng.h"

#include <stdlib.h>
#include <string.h>

#define TICK_MAX_US (3600 * 1000000ull) // look again at least this often

struct posix_port {
    struct posix_options options;
    struct posix_storage *storage;
    struct posix_http *http; // to the gateway
    struct posix_http *mirrors[POSIX_MIRRORS_MAX];
    struct posix_tasks *tasks;
    struct posix_pipeline *pipeline; // NULL: none
    struct h2_tls *tls;
    struct event *tick_event;
    bool woken; // since the tick began
    char device_hex[WIRE_DEVICE_HEX + 1];
    struct base_prng prng;
    struct dev_ports ports;
    void *memory;
    struct dev_runtime *runtime;
};

static void woke(void *ctx)
{
    struct posix_port *port = ctx;
    port->woken = true;
    event_active(port->tick_event, EV_TIMEOUT, 0);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct posix_port *port = arg;
    uint64_t now_us = base_clock_mono_us();
    port->woken = false;
    uint64_t due_us = dev_tick(port->runtime, now_us);
    if (port->pipeline != NULL) {
        uint64_t pipeline_us = posix_pipeline_step(port->pipeline, now_us);
        due_us = pipeline_us < due_us ? pipeline_us : due_us;
    }
    // Adding the event takes back that it was made active meanwhile.
    uint64_t wait_us = due_us > now_us && !port->woken ? due_us - now_us : 0;
    wait_us = wait_us < TICK_MAX_US ? wait_us : TICK_MAX_US;
    struct timeval wait = {.tv_sec = (time_t)(wait_us / 1000000),
                           .tv_usec = (suseconds_t)(wait_us % 1000000)};
    event_add(port->tick_event, &wait);
    if (port->options.on_tick != NULL) {
        port->options.on_tick(port->options.app, port->runtime);
    }
}

// ---- Ends of runs

static void on_result(void *app, struct base_str task, const struct dev_task_end *end)
{
    struct posix_port *port = app;
    if (port->pipeline != NULL) {
        posix_pipeline_on_result(port->pipeline, task, end);
    }
    if (port->options.on_result != NULL) {
        port->options.on_result(port->options.app, task, end);
    }
}

static void on_damage(void *app, struct base_str task, struct base_str file)
{
    const struct posix_port *port = app;
    base_log_warn(port->options.log, "device",
                  "%.*s%s%.*s: stored content is damaged: it is brought again", (int)task.size,
                  task.data, task.size > 0 ? ": " : "", (int)file.size, file.data);
}

static void on_unsaved(void *app, enum base_status status)
{
    const struct posix_port *port = app;
    if (status == BASE_OK) {
        base_log_info(port->options.log, "device", "%s: the state is stored again",
                      port->options.dir);
    } else {
        base_log_warn(port->options.log, "device",
                      "%s: the state cannot be stored, and nothing is done until it can: %s",
                      port->options.dir, base_status_text(status));
    }
}

static void on_triggered(void *app, uint64_t token, const struct dev_task_end *end)
{
    struct posix_port *port = app;
    posix_pipeline_on_end(port->pipeline, (struct dev_pipeline_run){.token = token}, end);
}

static void on_input_free(void *app, uint64_t token)
{
    struct posix_port *port = app;
    posix_pipeline_on_input_free(port->pipeline, token);
}

// ---- Where requests go

// Content comes from the mirrors in turn, then from the gateway; everything else from the gateway.
static struct posix_http *source_of(struct posix_port *port, const struct dev_request *request)
{
    uint32_t count = port->options.mirror_count;
    uint32_t turn = request->source % (count + 1);
    bool content = base_str_starts(request->path, BASE_STR("/v1/blob/"));
    return content && turn < count ? port->mirrors[turn] : port->http;
}

static enum base_status http_start(void *ctx, uint32_t exchange, const struct dev_request *request)
{
    struct dev_http_port table = posix_http_table(source_of(ctx, request));
    return table.start(table.ctx, exchange, request);
}

static void http_cancel(void *ctx, uint32_t exchange)
{
    struct posix_port *port = ctx;
    struct dev_http_port table = posix_http_table(port->http);
    table.cancel(table.ctx, exchange); // numbers are unique: one of them knows it
    for (uint32_t i = 0; i < port->options.mirror_count; i++) {
        table = posix_http_table(port->mirrors[i]);
        table.cancel(table.ctx, exchange);
    }
}

static enum base_status mirrors_open(struct posix_port *port, const struct posix_http_options *like)
{
    for (uint32_t i = 0; i < port->options.mirror_count; i++) {
        const struct posix_mirror *mirror = &port->options.mirrors[i];
        struct posix_http_options http = *like;
        http.host = mirror->host;
        http.port = mirror->port;
        http.tls = mirror->tls ? port->tls : NULL;
        http.credential = (struct base_str){NULL, 0}; // the gateway's alone
        BASE_TRY(posix_http_new(&http, &port->mirrors[i]));
    }
    return BASE_OK;
}

static enum base_status network_open(struct posix_port *port, struct event_base *base,
                                     struct base_error *error)
{
    const struct posix_options *options = &port->options;
    BASE_TRY(posix_tls_new(options, &port->tls, error));
    struct posix_http_options http = {
        .base = base,
        .host = options->host,
        .port = options->port,
        .tls = options->tls ? port->tls : NULL,
        .ca_pem_path = options->ca_pem_path,
        .credential = options->credential,
        .log = options->log,
        .ctx = port,
        .woke = woke,
    };
    enum base_status status = posix_http_new(&http, &port->http);
    if (status == BASE_OK) {
        status = mirrors_open(port, &http);
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "gateway address: %s", base_status_text(status));
    }
    const struct posix_task_options task = {
        .base = base, .runner_path = options->runner_path, .ctx = port, .woke = woke};
    uint32_t runs_max = options->config.runs_max > 0 ? options->config.runs_max : 1;
    if (runs_max > DEV_RUNS_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "more than %d runs at once", DEV_RUNS_MAX);
    }
    return posix_tasks_new(&task, runs_max, &port->tasks, error);
}

static enum base_status runtime_open(struct posix_port *port, struct base_error *error)
{
    size_t size = dev_runtime_bytes(&port->options.config);
    if (size == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "device configuration is not valid");
    }
    port->memory = aligned_alloc(16, size);
    if (port->memory == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    base_prng_seed(&port->prng, base_entropy_u64());
    port->ports = (struct dev_ports){
        .clock = *base_clock_real(),
        .random = base_prng_port(&port->prng),
        .http = {.ctx = port, .start = http_start, .cancel = http_cancel},
        .storage = posix_storage_table(port->storage),
        .crypto = *dev_crypto_openssl(),
        .task = posix_tasks_table(port->tasks),
        .delta = dev_delta_zstd(port->options.delta_memory > 0 ? port->options.delta_memory
                                                               : DEV_DELTA_MEMORY_BYTES),
        .blobs = port->options.blobs,
        .log = port->options.log,
        .app = port,
        .on_result = on_result,
        .on_damage = on_damage,
        .on_unsaved = on_unsaved,
        .on_triggered = on_triggered,
        .on_input_free = on_input_free,
    };
    enum base_status status =
        dev_init(port->memory, size, &port->options.config, &port->ports, &port->runtime);
    if (status != BASE_OK) {
        return base_error_set(error, status, "device attributes are not valid");
    }
    posix_http_attach(port->http, port->runtime);
    for (uint32_t i = 0; i < port->options.mirror_count; i++) {
        posix_http_attach(port->mirrors[i], port->runtime);
    }
    posix_tasks_attach(port->tasks, port->runtime);
    status = dev_boot(port->runtime);
    if (status != BASE_OK) {
        return base_error_set(error, status, "boot: %s", base_status_text(status));
    }
    return BASE_OK;
}

static struct base_str attribute(const struct dev_config *config, struct base_str name)
{
    for (uint32_t i = 0; i < config->attrs.count; i++) {
        const struct wire_attr *attr = &config->attrs.items[i];
        if (base_str_equal(attr->name, name) && attr->type == WIRE_ATTR_STRING) {
            return attr->text;
        }
    }
    return (struct base_str){NULL, 0};
}

static enum base_status pipeline_open(struct posix_port *port, struct event_base *base,
                                      struct base_error *error)
{
    const struct posix_options *options = &port->options;
    if (options->no_pipeline) {
        return BASE_OK;
    }
    struct posix_pipeline_options pipeline = {
        .base = base,
        .dir = options->dir,
        .device_id = options->config.device_id,
        .app = attribute(&options->config, BASE_STR("app_version")),
        .os = attribute(&options->config, BASE_STR("os")),
        .http = port->http,
        .leaves_required = options->leaves_required,
        .log = options->log,
        .ctx = port,
        .woke = woke,
    };
    BASE_TRY(posix_pipeline_new(&pipeline, &port->pipeline, error));
    posix_pipeline_attach(port->pipeline, port->runtime);
    posix_tasks_features(port->tasks, posix_pipeline_features(port->pipeline));
    return BASE_OK;
}

static enum base_status port_open(struct posix_port *port, struct event_base *base,
                                  struct base_error *error)
{
    port->tick_event = event_new(base, -1, EV_TIMEOUT, on_tick, port);
    if (port->tick_event == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    BASE_TRY(posix_storage_new(port->options.dir, port->options.log, &port->storage, error));
    BASE_TRY(network_open(port, base, error));
    BASE_TRY(runtime_open(port, error));
    BASE_TRY(pipeline_open(port, base, error));
    woke(port);
    return BASE_OK;
}

enum base_status posix_port_new(struct event_base *base, const struct posix_options *options,
                                struct posix_port **out_port, struct base_error *error)
{
    struct posix_port *port = calloc(1, sizeof(*port));
    if (port == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    port->options = *options;
    port->options.config.mirrors = options->mirror_count;
    wire_device_hex(options->config.device_id, port->device_hex);
    enum base_status status = port_open(port, base, error);
    if (status != BASE_OK) {
        posix_port_free(port);
        return status;
    }
    *out_port = port;
    return BASE_OK;
}

void posix_port_free(struct posix_port *port)
{
    if (port == NULL) {
        return;
    }
    dev_stop(port->runtime);
    posix_pipeline_free(port->pipeline);
    posix_http_free(port->http);
    for (uint32_t i = 0; i < POSIX_MIRRORS_MAX; i++) {
        posix_http_free(port->mirrors[i]);
    }
    posix_tasks_free(port->tasks);
    posix_storage_free(port->storage);
    h2_tls_free(port->tls);
    if (port->tick_event != NULL) {
        event_free(port->tick_event);
    }
    free(port->memory);
    free(port);
}

enum base_status posix_business(struct posix_port *port, const struct posix_business *request)
{
    const struct posix_errand_place place = {
        .http = port->http,
        .runtime = port->runtime,
        .credential = port->options.credential,
        .device = {port->device_hex, WIRE_DEVICE_HEX},
        .ctx = port,
        .woke = woke,
    };
    enum base_status status = posix_errand_new(&place, event_get_base(port->tick_event), request);
    woke(port);
    return status;
}

struct posix_pipeline *posix_port_pipeline(struct posix_port *port)
{
    return port->pipeline;
}

struct dev_recorder *posix_port_recorder(struct posix_port *port)
{
    return port->pipeline != NULL ? posix_pipeline_recorder(port->pipeline) : NULL;
}

enum base_status posix_record(struct dev_recorder *recorder, const struct dev_recording *recording)
{
    struct dev_recording timed = *recording;
    timed.mono_us = timed.mono_us > 0 ? timed.mono_us : base_clock_mono_us();
    timed.wall_ms = timed.wall_ms > 0 ? timed.wall_ms : base_clock_wall_us() / 1000;
    return dev_record(recorder, &timed);
}

void posix_port_wake(struct posix_port *port)
{
    woke(port);
}

struct dev_runtime *posix_port_runtime(struct posix_port *port)
{
    return port->runtime;
}

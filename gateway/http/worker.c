// A worker's set-up, its thread, and what reaches it from other threads (stop, reload, the core's
// messages). Everything between start and the end of the thread happens on that thread. server.c
// makes workers on the main thread and starts them; after that it reaches one through the mailbox
// alone. One timer ticks for all connections, and the loop's time is read once a turn, so all that
// happens in a turn has the same now.
#include "http/worker.h"

#include "base/check.h"
#include "base/clock.h"
#include "http/config/http_trust.h"
#include "http/lasting_streams.h"
#include "http/loop/figure.h"
#include "http/memory/body_budget.h"
#include "http/conn.h"
#include "http/guard/host_list.h"
#include "http/listener.h"
#include "http/memory/overload.h"
#include "http/proxy.h"
#include "http/shed.h"
#include "http/stream.h"
#include "http/worker_life.h"
#include "tunnel/gw_tunnel.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SESSIONS_RESERVED_MAX 65536u // more than these work, a little dearer
#define DRAIN_NOTICE_MS       200    // between "open no more" and the last word
#define DRAIN_TUNNELS_MS      1500   // devices were told; streams still open then are ended
#define TUNNEL_RECONNECT_MS   500    // what they are told: from when on, and over how long
#define TUNNEL_SPREAD_MS      5000
#define US_PER_MS             1000u

// A message to a worker from the main thread.
struct control {
    struct gw_message message; // first
    struct gw_http_worker *worker;
    uint64_t drain_ms;
    struct gw_http_config config;
    struct gw_trust trust;
    SSL_CTX *tls;
    struct gw_host_list *hosts;
};

// ---- Per event

static bool by_hand(const struct gw_http_worker *worker)
{
    return worker->clock.mono_us != NULL;
}

uint64_t gw_http_worker_mono_us(const struct gw_http_worker *worker)
{
    return by_hand(worker) ? worker->clock.mono_us(worker->clock.ctx) : base_clock_mono_us();
}

static uint64_t wall_us(const struct gw_http_worker *worker)
{
    return by_hand(worker) ? worker->clock.wall_us(worker->clock.ctx) : base_clock_wall_us();
}

void gw_http_worker_now(struct gw_http_worker *worker)
{
    worker->now_us = gw_http_worker_mono_us(worker);
    worker->now_ms = worker->now_us / US_PER_MS;
}

void gw_http_worker_flush(struct gw_http_worker *worker)
{
    if (worker->tunnel != NULL) {
        gw_tunnel_worker_flush(worker->tunnel);
    }
    while (worker->dirty != NULL) {
        struct gw_conn *conn = worker->dirty;
        worker->dirty = conn->dirty_next;
        conn->dirty = false;
        gw_conn_flush(conn);
    }
}

struct base_str gw_http_worker_date(struct gw_http_worker *worker)
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    // The wall clock is read once a second; a step of it shows a second late.
    uint64_t second = worker->now_ms / 1000;
    if (second != worker->date_s || worker->date[0] == '\0') {
        time_t now = (time_t)(wall_us(worker) / 1000000);
        struct tm parts;
        if (gmtime_r(&now, &parts) != NULL) {
            char text[64];
            (void)snprintf(text, sizeof(text), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                           days[parts.tm_wday], parts.tm_mday, months[parts.tm_mon],
                           parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
            memcpy(worker->date, text, sizeof(worker->date) - 1);
        }
        worker->date_s = second;
    }
    return (struct base_str){worker->date, strlen(worker->date)};
}

// ---- Stopping

static void close_listeners(struct gw_http_worker *worker)
{
    for (uint32_t i = 0; i < GW_WORKER_LISTENERS; i++) {
        gw_listener_free(worker->listeners[i]);
        worker->listeners[i] = NULL;
    }
}

static void close_connections(struct gw_http_worker *worker)
{
    while (worker->conns != NULL) {
        gw_conn_free(worker->conns);
    }
    worker->dirty = NULL;
}

void gw_http_worker_maybe_stopped(struct gw_http_worker *worker)
{
    if (worker->state == GW_WORKER_DRAINING &&
        (worker->conns == NULL || worker->now_ms >= worker->drain_until_ms)) {
        close_connections(worker);
        worker->state = GW_WORKER_STOPPING;
    }
    if (worker->state == GW_WORKER_STOPPING && worker->unfinished == 0) {
        worker->state = GW_WORKER_STOPPED;
        (void)event_base_loopbreak(worker->base);
    }
}

static void drain(struct gw_http_worker *worker, uint64_t drain_ms)
{
    if (worker->state == GW_WORKER_RUNNING) {
        worker->state = GW_WORKER_DRAINING;
        close_listeners(worker);
        for (struct gw_conn *conn = worker->conns; conn != NULL; conn = conn->next) {
            gw_conn_drain(conn);
        }
        if (worker->tunnel != NULL) {
            gw_tunnel_worker_drain(worker->tunnel, TUNNEL_RECONNECT_MS, TUNNEL_SPREAD_MS);
        }
        worker->drain_from_ms = worker->now_ms;
    }
    worker->drain_until_ms = worker->now_ms + drain_ms;
    gw_http_worker_flush(worker);
    gw_http_worker_maybe_stopped(worker);
}

static void end_tunnels(struct gw_http_worker *worker)
{
    worker->tunnels_ended = true;
    for (struct gw_conn *conn = worker->conns; conn != NULL; conn = conn->next) {
        gw_conn_end_tunnels(conn);
    }
}

static void drain_tick(struct gw_http_worker *worker)
{
    if (worker->state == GW_WORKER_DRAINING && !worker->tunnels_ended &&
        worker->now_ms - worker->drain_from_ms >= DRAIN_TUNNELS_MS) {
        end_tunnels(worker);
    }
    if (worker->state == GW_WORKER_DRAINING &&
        worker->now_ms - worker->drain_from_ms >= DRAIN_NOTICE_MS) {
        for (struct gw_conn *conn = worker->conns; conn != NULL; conn = conn->next) {
            gw_conn_drain_last(conn);
        }
        gw_http_worker_flush(worker);
    }
    gw_http_worker_maybe_stopped(worker);
}

// ---- Events

static void on_mailbox(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct gw_http_worker *worker = ctx;
    gw_http_worker_now(worker);
    (void)gw_mailbox_run(&worker->mailbox);
    gw_http_worker_flush(worker);
    gw_http_worker_maybe_stopped(worker);
}

static void on_timer(void *ctx, struct gw_timer *timer)
{
    (void)ctx;
    gw_conn_on_timer((struct gw_conn *)(void *)((char *)timer - offsetof(struct gw_conn, timer)));
}

// A turn is like an event of its own: what it produced goes out at its end.
static void on_turn(void *ctx, struct gw_turn *turn)
{
    gw_conn_on_turn((struct gw_conn *)(void *)((char *)turn - offsetof(struct gw_conn, turn)));
    gw_http_worker_flush(ctx);
}

// Due at once, it runs when the loop has looked at every socket again.
static enum base_status await_turns(struct gw_http_worker *worker)
{
    static const struct timeval at_once = {0};
    return event_add(worker->turn_event, &at_once) == 0 ? BASE_OK : BASE_ERR_NOMEM;
}

static void on_turns(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct gw_http_worker *worker = ctx;
    gw_http_worker_now(worker);
    if (gw_turns_run(&worker->turns, on_turn, worker)) {
        (void)await_turns(worker); // else the next one that is queued does
    }
}

enum base_status gw_http_worker_queue(struct gw_http_worker *worker, struct gw_turn *turn)
{
    gw_turns_add(&worker->turns, turn);
    return event_pending(worker->turn_event, EV_TIMEOUT, NULL) ? BASE_OK : await_turns(worker);
}

void gw_http_worker_alarm(struct gw_http_worker *worker)
{
    gw_http_worker_now(worker);
    worker->alarm_us = UINT64_MAX;
    gw_worker_alarm(worker->svc);
    gw_http_worker_flush(worker);
    gw_http_worker_maybe_stopped(worker);
}

static void on_alarm(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    gw_http_worker_alarm(ctx);
}

// Should the loop take no timer, the core's work is done at once.
static void set_alarm(void *ctx, uint32_t after_us)
{
    struct gw_http_worker *worker = ctx;
    const struct timeval after = {.tv_sec = after_us / 1000000u, .tv_usec = after_us % 1000000u};
    if (by_hand(worker)) {
        worker->alarm_us = gw_http_worker_mono_us(worker) + after_us;
    } else if (event_add(worker->alarm_event, &after) != 0) {
        event_active(worker->alarm_event, EV_TIMEOUT, 0);
    }
}

// The first worker measures for all; figures of /metrics are sums over workers, so it alone has
// these.
static void watch_memory(struct gw_http_worker *worker)
{
    if (worker->index == 0 && worker->overload != NULL) {
        gw_overload_measure(worker->overload, worker->now_ms);
        const struct gw_overload_bytes used = gw_overload_used(worker->overload);
        const struct gw_overload_bytes limits = gw_overload_limits(worker->overload);
        struct gw_transport_stats *stats = worker->stats;
        gw_stat_set(&stats->overload_level, gw_overload_now(worker->overload));
        gw_stat_set(&stats->overload_bytes, used.process + used.sockets);
        gw_stat_set(&stats->overload_limit_bytes, limits.process + limits.sockets);
    }
    gw_shed_tick(worker);
}

void gw_http_worker_tick(struct gw_http_worker *worker)
{
    gw_http_worker_now(worker);
    uint64_t passed_ms = worker->now_ms - worker->tick_ms;
    worker->late = passed_ms >= GW_WORKER_LATE_MS;
    worker->tick_ms = worker->now_ms;
    gw_wheel_advance(&worker->wheel, worker->now_ms, on_timer, NULL);
    for (uint32_t i = 0; i < GW_WORKER_LISTENERS; i++) {
        if (worker->listeners[i] != NULL) {
            gw_listener_resume(worker->listeners[i]);
        }
    }
    if (worker->proxy != NULL) {
        gw_proxy_tick(worker->proxy, worker->late ? passed_ms - GW_WORKER_TICK_MS : 0);
    }
    watch_memory(worker);
    gw_http_worker_flush(worker);
    drain_tick(worker);
}

static void on_tick(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    gw_http_worker_tick(ctx);
}

// ---- Messages

static void post(void *ctx, struct gw_message *message)
{
    struct gw_http_worker *worker = ctx;
    gw_mailbox_post(&worker->mailbox, message);
}

static void run_stop(struct gw_message *message)
{
    struct control *control = (struct control *)message;
    drain(control->worker, control->drain_ms);
    free(control);
}

static void set_options(struct gw_http_worker *worker)
{
    nghttp2_option *option = worker->option;
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_max_deflate_dynamic_table_size(option, GW_CONN_ANSWER_TABLE_BYTES);
    nghttp2_option_set_max_continuations(option, worker->limits.continuations);
    // Ours counts first (h2_events.c); nghttp2's own would answer INTERNAL_ERROR.
    nghttp2_option_set_stream_reset_rate_limit(option, 2 * worker->limits.resets_burst,
                                               2 * worker->limits.resets_per_s);
}

static void run_reload(struct gw_message *message)
{
    struct control *control = (struct control *)message;
    struct gw_http_worker *worker = control->worker;
    worker->limits = control->config.limits;
    worker->trust = control->trust;
    for (uint32_t i = 0; i < GW_WORKER_LISTENERS; i++) {
        gw_listener_configure(worker->listeners[i]);
    }
    worker->proxy_body_bytes = control->config.proxy.body_bytes;
    gw_host_list_unref(worker->hosts);
    worker->hosts = control->hosts;
    worker->authority_bytes = 0;
    set_options(worker);
    if (worker->proxy != NULL) {
        gw_proxy_configure(worker->proxy, &control->config.proxy);
    }
    if (control->tls != NULL) {
        SSL_CTX_free(worker->tls);
        worker->tls = control->tls;
    }
    free(control);
}

static struct control *control_new(struct gw_http_worker *worker,
                                   void (*run)(struct gw_message *message))
{
    struct control *control = calloc(1, sizeof(*control));
    if (control != NULL) {
        control->message.run = run;
        control->worker = worker;
    }
    return control;
}

enum base_status gw_http_worker_stop(struct gw_http_worker *worker, uint64_t drain_ms)
{
    struct control *control = control_new(worker, run_stop);
    if (control == NULL) {
        return BASE_ERR_NOMEM;
    }
    control->drain_ms = drain_ms;
    gw_mailbox_post(&worker->mailbox, &control->message);
    return BASE_OK;
}

enum base_status gw_http_worker_reload(struct gw_http_worker *worker,
                                       const struct gw_http_config *config, SSL_CTX *tls,
                                       struct gw_host_list *hosts)
{
    struct control *control = control_new(worker, run_reload);
    if (control == NULL) {
        return BASE_ERR_NOMEM;
    }
    control->config = *config;
    enum base_status status = gw_trust_read(config, &control->trust, NULL);
    if (status != BASE_OK) {
        free(control);
        return status;
    }
    control->hosts = hosts != NULL ? gw_host_list_ref(hosts) : NULL;
    if (tls != NULL && worker->has_tls) {
        SSL_CTX_up_ref(tls);
        control->tls = tls;
    }
    gw_mailbox_post(&worker->mailbox, &control->message);
    return BASE_OK;
}

// ---- Set-up

static enum base_status make_loop(struct gw_http_worker *worker)
{
    struct event_config *config = event_config_new();
    if (config == NULL) {
        return BASE_ERR_NOMEM;
    }
    // One thread, and our own clock is read once per event.
    (void)event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    worker->base = event_base_new_with_config(config);
    event_config_free(config);
    if (worker->base == NULL) {
        return BASE_ERR_NOMEM;
    }
    BASE_TRY(gw_mailbox_init(&worker->mailbox));
    worker->mailbox_event =
        event_new(worker->base, worker->mailbox.wake_fd, EV_READ | EV_PERSIST, on_mailbox, worker);
    worker->tick_event = event_new(worker->base, -1, EV_PERSIST, on_tick, worker);
    gw_turns_init(&worker->turns);
    worker->turn_event = event_new(worker->base, -1, 0, on_turns, worker);
    worker->alarm_event = event_new(worker->base, -1, 0, on_alarm, worker);
    const struct timeval tick = {.tv_usec = GW_WORKER_TICK_MS * US_PER_MS};
    if (worker->mailbox_event == NULL || worker->tick_event == NULL || worker->turn_event == NULL ||
        worker->alarm_event == NULL || event_add(worker->mailbox_event, NULL) != 0 ||
        (!by_hand(worker) && event_add(worker->tick_event, &tick) != 0)) {
        return BASE_ERR_NOMEM;
    }
    gw_http_worker_now(worker);
    worker->tick_ms = worker->now_ms;
    return BASE_OK;
}

static enum base_status make_memory(struct gw_http_worker *worker)
{
    worker->input = malloc(GW_WORKER_INPUT_BYTES);
    worker->output = malloc(GW_WORKER_OUTPUT_BYTES + GW_H2_FRAME_BUFFER_BYTES);
    if (worker->input == NULL || worker->output == NULL ||
        nghttp2_session_callbacks_new(&worker->callbacks) != 0 ||
        nghttp2_option_new(&worker->option) != 0) {
        return BASE_ERR_NOMEM;
    }
    gw_h2_events_set(worker->callbacks);
    set_options(worker);
    uint64_t sessions = worker->limits.connections;
    return gw_h2_memory_init(&worker->h2_memory, sessions < SESSIONS_RESERVED_MAX
                                                     ? (uint32_t)sessions
                                                     : SESSIONS_RESERVED_MAX);
}

static enum base_status set_up(struct gw_http_worker *worker,
                               const struct gw_http_worker_options *options,
                               struct base_error *error)
{
    BASE_TRY(gw_trust_read(options->config, &worker->trust, error));
    enum base_status status = make_loop(worker);
    if (status == BASE_OK) {
        status = make_memory(worker);
    }
    if (status == BASE_OK && options->budget == NULL) {
        worker->own_budget = true;
        status = gw_body_budget_new(&worker->budget);
    }
    if (status == BASE_OK) {
        status = gw_worker_new(options->core, worker, post, &worker->svc);
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "worker %u: %s", options->index,
                              base_status_text(status));
    }
    if (options->tunnel != NULL) {
        status = gw_tunnel_worker_new(options->tunnel, worker, post, &worker->tunnel);
        if (status != BASE_OK) {
            return base_error_set(error, status, "worker %u: no tunnel: %s", options->index,
                                  base_status_text(status));
        }
    }
    worker->stats = gw_worker_transport_stats(worker->svc);
    gw_worker_on_hint(worker->svc, gw_hint_stream_write, gw_hint_stream_end, worker);
    gw_worker_on_tunnel_end(worker->svc, gw_tunnel_stream_revoked, worker);
    gw_worker_on_alarm(worker->svc, set_alarm, worker);
    if (options->config->upstream[0] != '\0') {
        return gw_proxy_new(worker, options->config->upstream, &options->config->proxy,
                            &worker->proxy, error);
    }
    return BASE_OK;
}

enum base_status gw_http_worker_new(const struct gw_http_worker_options *options,
                                    struct gw_http_worker **out_worker, struct base_error *error)
{
    struct gw_http_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for a worker");
    }
    worker->index = options->index;
    worker->peers = options->peers;
    worker->rates = options->rates;
    worker->overload = options->overload;
    worker->worker_count = options->worker_count > 0 ? options->worker_count : 1;
    worker->log = options->log;
    worker->stopped = options->stopped;
    worker->stopped_ctx = options->stopped_ctx;
    worker->limits = options->config->limits;
    worker->proxy_body_bytes = options->config->proxy.body_bytes;
    worker->budget = options->budget;
    worker->spool_dir = options->spool_dir;
    worker->hosts = options->hosts != NULL ? gw_host_list_ref(options->hosts) : NULL;
    worker->mailbox.wake_fd = -1;
    worker->alarm_us = UINT64_MAX;
    if (options->clock != NULL) {
        worker->clock = *options->clock;
    }
    if (options->tap != NULL) {
        worker->tap = *options->tap;
    }
    if (options->tls != NULL) {
        SSL_CTX_up_ref(options->tls);
        worker->tls = options->tls;
        worker->has_tls = true;
    }
    gw_http_worker_now(worker);
    gw_wheel_init(&worker->wheel, worker->now_ms);
    enum base_status status = set_up(worker, options, error);
    if (status != BASE_OK) {
        gw_http_worker_free(worker);
        return status;
    }
    *out_worker = worker;
    return BASE_OK;
}

enum base_status gw_http_worker_listen(struct gw_http_worker *worker, int fd, bool tls)
{
    for (uint32_t i = 0; i < GW_WORKER_LISTENERS; i++) {
        if (worker->listeners[i] == NULL) {
            return gw_listener_new(worker, fd, tls, &worker->listeners[i]);
        }
    }
    return BASE_ERR_LIMIT;
}

static void *run_thread(void *ctx)
{
    struct gw_http_worker *worker = ctx;
    char name[16];
    (void)snprintf(name, sizeof(name), "walle-http-%u", worker->index % 1000);
    (void)pthread_setname_np(pthread_self(), name);
    (void)event_base_loop(worker->base, EVLOOP_NO_EXIT_ON_EMPTY);
    worker->stopped(worker->stopped_ctx, worker);
    return NULL;
}

enum base_status gw_http_worker_start(struct gw_http_worker *worker)
{
    if (pthread_create(&worker->thread, NULL, run_thread, worker) != 0) {
        return BASE_ERR_NOMEM;
    }
    worker->started = true;
    return BASE_OK;
}

// ---- The end

static void free_pools(struct gw_http_worker *worker)
{
    while (worker->stream_pool != NULL) {
        struct gw_stream *next = worker->stream_pool->next;
        free(worker->stream_pool);
        worker->stream_pool = next;
    }
    while (worker->work_pool != NULL) {
        struct gw_stream_work *next = worker->work_pool->next;
        base_arena_done(&worker->work_pool->arena);
        free(worker->work_pool);
        worker->work_pool = next;
    }
    gw_hint_text_unref(worker->last_hint);
}

void gw_http_worker_free(struct gw_http_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    if (worker->started) {
        (void)pthread_join(worker->thread, NULL);
    }
    close_listeners(worker);
    close_connections(worker);
    gw_proxy_free(worker->proxy);
    if (worker->mailbox.wake_fd >= 0) {
        (void)gw_mailbox_run(&worker->mailbox); // a reload that came last
    }
    if (worker->tunnel != NULL) {
        gw_tunnel_worker_free(worker->tunnel);
    }
    gw_worker_free(worker->svc);
    if (worker->mailbox_event != NULL) {
        event_free(worker->mailbox_event);
    }
    if (worker->tick_event != NULL) {
        event_free(worker->tick_event);
    }
    if (worker->turn_event != NULL) {
        event_free(worker->turn_event);
    }
    if (worker->alarm_event != NULL) {
        event_free(worker->alarm_event);
    }
    gw_mailbox_done(&worker->mailbox);
    free_pools(worker);
    nghttp2_session_callbacks_del(worker->callbacks);
    nghttp2_option_del(worker->option);
    gw_h2_memory_done(&worker->h2_memory);
    if (worker->base != NULL) {
        event_base_free(worker->base);
    }
    SSL_CTX_free(worker->tls);
    gw_host_list_unref(worker->hosts);
    if (worker->own_budget) {
        gw_body_budget_free(worker->budget);
    }
    free(worker->input);
    free(worker->output);
    free(worker);
}

// The two ways to ask a gateway. harvest_main.c asks page by page, on the main thread. Over a
// connection one question is open at a time, and an event loop runs until it is answered. A folder
// is opened as virtual time opens it: a copy, whose core answers within the call.
#include "harvest/gateway_source.h"

#include "base/check.h"
#include "base/log.h"
#include "h2/h2_client.h"
#include "model/sim_options.h"
#include "virtual/core_folder.h"
#include "virtual/core_gateway.h"
#include "virtual/virtual_clock.h"

#include <event2/event.h>
#include <stdlib.h>

struct sim_source {
    // A folder.
    struct sim_core_gateway *gateway;
    struct sim_virtual_clock clock;
    uint32_t window;
    struct base_log log;
    // A connection.
    struct event_base *base;
    struct h2_tls *tls;
    struct h2_client *client;
    char bearer[SIM_TOKEN_TEXT_MAX + 8]; // empty: none
    struct base_buffer *body;
    int status;
    bool open;
    bool late;
};

enum base_status sim_source_folder(const char *dir, struct sim_source **out_source,
                                   struct base_error *error)
{
    uint64_t wall_us = 0;
    BASE_TRY(sim_core_folder_time(dir, &wall_us, error));
    struct sim_source *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    base_log_stderr(&source->log, BASE_LOG_WARN);
    sim_virtual_clock_init(&source->clock, wall_us);
    const struct sim_core_gateway_options options = {
        .dir = dir,
        .clock = &source->clock,
        .seed = 1,
        .window = &source->window,
        .log = &source->log,
    };
    enum base_status status = sim_core_gateway_new(&options, &source->gateway, error);
    if (status != BASE_OK) {
        sim_source_free(source);
        return status;
    }
    *out_source = source;
    return BASE_OK;
}

// ---- Over a connection

static void on_head(void *ctx, void *user, const struct h2_head *head)
{
    (void)user;
    ((struct sim_source *)ctx)->status = head->status;
}

static void on_body(void *ctx, void *user, const uint8_t *bytes, size_t size)
{
    (void)user;
    struct sim_source *source = ctx;
    if (base_buffer_add(source->body, bytes, size) != BASE_OK) {
        source->status = 0;
    }
}

static void on_end(void *ctx, void *user, enum base_status status)
{
    (void)user;
    struct sim_source *source = ctx;
    source->status = status == BASE_OK ? source->status : 0;
    source->open = false;
}

static void on_late(evutil_socket_t socket, short what, void *ctx)
{
    (void)socket, (void)what;
    ((struct sim_source *)ctx)->late = true;
}

enum base_status sim_source_url(const struct sim_source_place *place,
                                struct sim_source **out_source, struct base_error *error)
{
    struct sim_source *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    const struct h2_events events = {
        .head = on_head, .body = on_body, .end = on_end, .ctx = source};
    enum base_status status = BASE_OK;
    if (place->token.size > 0) {
        (void)snprintf(source->bearer, sizeof(source->bearer), "Bearer %.*s",
                       (int)place->token.size, place->token.data);
    }
    source->base = event_base_new();
    if (source->base == NULL || (place->tls && h2_tls_new(NULL, &source->tls) != BASE_OK)) {
        status = BASE_ERR_NOMEM;
    }
    const struct h2_options options = {.host = base_str_of(place->host),
                                       .port = place->port,
                                       .tls = source->tls,
                                       .window_bytes = 1 << 20};
    if (status == BASE_OK) {
        status = h2_client_new(source->base, &options, &events, &source->client);
    }
    if (status != BASE_OK) {
        sim_source_free(source);
        return base_error_set(error, status, "%.80s:%u: %s", place->host, place->port,
                              base_status_text(status));
    }
    *out_source = source;
    return BASE_OK;
}

static void await(struct sim_source *source)
{
    struct timeval span = {SIM_SOURCE_WAIT_MS / 1000, 0};
    struct event *timer = evtimer_new(source->base, on_late, source);
    source->late = timer == NULL || evtimer_add(timer, &span) != 0;
    while (source->open && !source->late) {
        (void)event_base_loop(source->base, EVLOOP_ONCE);
    }
    if (timer != NULL) {
        event_free(timer);
    }
}

static int ask_connection(struct sim_source *source, const char *path)
{
    const struct h2_header authorization = {BASE_STR("authorization"), base_str_of(source->bearer)};
    const struct h2_request request = {.method = BASE_STR("GET"),
                                       .path = base_str_of(path),
                                       .headers = &authorization,
                                       .header_count = source->bearer[0] != '\0' ? 1 : 0};
    int32_t stream = 0;
    source->status = 0;
    source->open = h2_client_request(source->client, &request, source, &stream) == BASE_OK;
    await(source);
    return source->open ? 0 : source->status;
}

// ---- Both

int sim_source_ask(struct sim_source *source, const char *path, struct base_buffer *out)
{
    base_assert((source->gateway != NULL) != (source->client != NULL));
    base_buffer_clear(out);
    source->body = out;
    return source->gateway != NULL ? sim_core_gateway_ask(source->gateway, path, out)
                                   : ask_connection(source, path);
}

void sim_source_free(struct sim_source *source)
{
    if (source == NULL) {
        return;
    }
    sim_core_gateway_free(source->gateway);
    h2_client_free(source->client);
    h2_tls_free(source->tls);
    if (source->base != NULL) {
        event_base_free(source->base);
    }
    free(source);
}

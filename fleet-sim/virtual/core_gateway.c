// The gateway's core as the far end of virtual devices' requests. run/fleet_virtual.c steps it; a
// shard's devices reach it through the transport, as they reach a gateway through
// ports/sim_links.c.
//
// A request is copied and put in the row of those on their way; when it is there the core handles
// it, now or after a commit, and the answer is put in the row of those on their way back. Every
// message takes as long as every other, so both rows are in the order of time. What the core posts
// to its worker runs at once.
#include "virtual/core_gateway.h"

#include "api/api.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/prng.h"
#include "svc/core.h"
#include "svc/exchange.h"
#include "virtual/core_folder.h"
#include "virtual/core_signer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADMIN_TOKEN    "the operator of a run in virtual time"
#define DEVICES_A_PEER 1024u // devices that share an address, as behind the NAT of a provider

struct sim_flight {
    struct sim_flight *next;
    struct sim_core_gateway *gateway;
    struct sim_exchange *asked; // NULL: nobody waits any more
    uint64_t due_us;
    bool own; // an operator's: it is answered within the call
    bool finished;
    struct base_arena arena;
    struct gw_exchange exchange;
};

struct row {
    struct sim_flight *first;
    struct sim_flight **last;
};

struct sim_core_gateway {
    struct sim_core_gateway_options options;
    struct sim_core_folder folder;
    struct sim_core_signer signer;
    struct base_prng prng;
    struct gw_core *core;
    struct gw_worker *worker;
    struct gw_message *message_first;
    struct gw_message **message_last;
    struct row coming;
    struct row going;
    uint64_t alarm_us; // UINT64_MAX: none
    uint64_t write_us; // likewise
    uint64_t tick_us;
};

static void row_init(struct row *row)
{
    row->first = NULL;
    row->last = &row->first;
}

static void row_add(struct row *row, struct sim_flight *flight)
{
    flight->next = NULL;
    *row->last = flight;
    row->last = &flight->next;
}

static struct sim_flight *row_take(struct row *row)
{
    struct sim_flight *flight = row->first;
    row->first = flight->next;
    row->last = row->first != NULL ? row->last : &row->first;
    return flight;
}

static uint64_t now_us(const struct sim_core_gateway *gateway)
{
    return gateway->options.clock.mono_us(gateway->options.clock.ctx);
}

// ---- What the core asks of its transport

static void post(void *ctx, struct gw_message *message)
{
    struct sim_core_gateway *gateway = ctx;
    message->next = NULL;
    *gateway->message_last = message;
    gateway->message_last = &message->next;
}

static void pump(struct sim_core_gateway *gateway)
{
    while (gateway->message_first != NULL) {
        struct gw_message *message = gateway->message_first;
        gateway->message_first = message->next;
        if (gateway->message_first == NULL) {
            gateway->message_last = &gateway->message_first;
        }
        message->run(message);
    }
}

static void set_alarm(void *ctx, uint32_t after_us)
{
    struct sim_core_gateway *gateway = ctx;
    gateway->alarm_us = now_us(gateway) + after_us;
}

// ---- Flights

static void flight_free(struct sim_flight *flight)
{
    gw_blob_release(flight->exchange.reply.blob);
    base_arena_done(&flight->arena);
    free(flight);
}

// The core is done with it: the answer is on its way.
static void finish(struct gw_exchange *exchange)
{
    struct sim_flight *flight = exchange->owner;
    struct sim_core_gateway *gateway = flight->gateway;
    flight->finished = true;
    if (!flight->own) {
        flight->due_us = now_us(gateway) + gateway->options.delay.least_us;
        row_add(&gateway->going, flight);
    }
}

static struct sim_flight *flight_new(struct sim_core_gateway *gateway, enum gw_method method,
                                     struct base_str path)
{
    struct sim_flight *flight = calloc(1, sizeof(*flight));
    if (flight == NULL) {
        return NULL;
    }
    base_arena_init(&flight->arena, base_alloc_heap(), 0, 0);
    flight->gateway = gateway;
    flight->exchange.arena = &flight->arena;
    flight->exchange.owner = flight;
    flight->exchange.finish = finish;
    flight->exchange.request.method = method;
    flight->exchange.request.path = path;
    flight->exchange.request.proven = &flight->exchange.proven;
    return flight;
}

// A copy in the flight's arena; empty stays empty. False: no memory.
static bool keep(struct sim_flight *flight, struct base_str text, struct base_str *out)
{
    if (text.size == 0) {
        return true;
    }
    char *copy = base_arena_copy(&flight->arena, text.data, text.size);
    *out = (struct base_str){copy, text.size};
    return copy != NULL;
}

static bool keep_range(struct sim_flight *flight, uint64_t from)
{
    char text[32];
    int size = snprintf(text, sizeof(text), "bytes=%llu-", (unsigned long long)from);
    return from == 0 ||
           keep(flight, (struct base_str){text, (size_t)size}, &flight->exchange.request.range);
}

static bool request_keep(struct sim_flight *flight, const struct sim_exchange *asked,
                         const struct dev_request *request)
{
    struct gw_request *to = &flight->exchange.request;
    bool good =
        keep(flight, request->path, &to->path) && keep(flight, request->device, &to->device) &&
        keep(flight, request->profile, &to->profile) && keep(flight, request->nonce, &to->nonce) &&
        keep(flight, asked->credential, &to->credential) && keep_range(flight, request->range_from);
    if (good && request->body_bytes > 0) {
        to->body = base_arena_copy(&flight->arena, request->body, request->body_bytes);
        to->body_bytes = request->body_bytes;
        good = to->body != NULL;
    }
    to->peer = 1 + asked->device / DEVICES_A_PEER;
    to->secure = true;
    return good;
}

// ---- The transport

static enum base_status start(void *ctx, struct sim_exchange *exchange,
                              const struct dev_request *request)
{
    struct sim_core_gateway *gateway = ctx;
    enum gw_method method = request->method == DEV_METHOD_POST ? GW_METHOD_POST : GW_METHOD_GET;
    struct sim_flight *flight = flight_new(gateway, method, request->path);
    if (flight == NULL || !request_keep(flight, exchange, request)) {
        if (flight != NULL) {
            flight_free(flight);
        }
        return BASE_ERR_NOMEM;
    }
    flight->asked = exchange;
    exchange->flight = flight;
    flight->due_us = now_us(gateway) + gateway->options.delay.least_us;
    row_add(&gateway->coming, flight);
    return BASE_OK;
}

static void cancel(void *ctx, struct sim_exchange *exchange)
{
    (void)ctx;
    struct sim_flight *flight = exchange->flight;
    flight->asked = NULL;
    flight->exchange.abandoned = true;
    exchange->flight = NULL;
}

struct sim_transport sim_core_gateway_transport(struct sim_core_gateway *gateway)
{
    return (struct sim_transport){.ctx = gateway, .start = start, .cancel = cancel};
}

// ---- Answers

static struct base_str header_of(const struct gw_reply *reply, const char *name)
{
    for (uint32_t i = 0; i < reply->header_count; i++) {
        if (base_str_equal(reply->headers[i].name, base_str_of(name))) {
            return reply->headers[i].value;
        }
    }
    return (struct base_str){NULL, 0};
}

static struct dev_response_head head_of(const struct gw_reply *reply)
{
    struct base_str coding = header_of(reply, "content-encoding");
    uint64_t retry_s = 0;
    if (base_str_u64(header_of(reply, "retry-after"), &retry_s) != BASE_OK) {
        retry_s = 0;
    }
    return (struct dev_response_head){
        .status = reply->status,
        .encoding = coding.size == 0 ? DEV_ENCODING_IDENTITY : DEV_ENCODING_OTHER,
        .content_bytes = reply->kind == GW_REPLY_BLOB ? reply->blob_bytes : reply->body_bytes,
        .range_from = reply->status == 206 ? reply->blob_from : 0,
        .retry_after_s = (uint32_t)retry_s,
    };
}

// A device may cancel while it is told.
static void tell_body(struct sim_flight *flight)
{
    const struct sim_transport_events *events = &flight->gateway->options.events;
    const struct gw_reply *reply = &flight->exchange.reply;
    if (reply->kind == GW_REPLY_BYTES && reply->body_bytes > 0) {
        events->body(events->ctx, flight->asked, reply->body, reply->body_bytes);
    }
    uint64_t end = reply->blob_from + reply->blob_bytes;
    for (uint64_t at = reply->blob_from; reply->kind == GW_REPLY_BLOB && at < end;) {
        size_t size = 0;
        const uint8_t *bytes = gw_blob_bytes(reply->blob, at, &size);
        base_check(bytes != NULL && size > 0);
        size = size < end - at ? size : (size_t)(end - at);
        if (flight->asked == NULL) {
            return;
        }
        events->body(events->ctx, flight->asked, bytes, size);
        at += size;
    }
}

static void deliver(struct sim_flight *flight)
{
    const struct sim_transport_events *events = &flight->gateway->options.events;
    const struct gw_reply *reply = &flight->exchange.reply;
    bool served = reply->kind == GW_REPLY_BYTES || reply->kind == GW_REPLY_BLOB;
    if (flight->asked != NULL && served) {
        struct dev_response_head head = head_of(reply);
        events->head(events->ctx, flight->asked, &head);
    }
    if (flight->asked != NULL && served) {
        tell_body(flight);
    }
    if (flight->asked != NULL) {
        flight->asked->flight = NULL;
        events->end(events->ctx, flight->asked, served ? BASE_OK : BASE_ERR_UNSUPPORTED);
    }
    flight_free(flight);
}

// ---- Steps

static void handle(struct sim_core_gateway *gateway, struct sim_flight *flight)
{
    gw_core_handle(gateway->worker, &flight->exchange);
    pump(gateway);
    if (gateway->write_us == UINT64_MAX) {
        gateway->write_us = now_us(gateway) + SIM_CORE_COMMIT_US;
    }
}

static void write_all(struct sim_core_gateway *gateway)
{
    while (gw_core_write(gateway->core)) {
        pump(gateway);
    }
}

static void tick(struct sim_core_gateway *gateway)
{
    (void)gw_core_tick(gateway->core);
    pump(gateway);
    write_all(gateway);
}

uint64_t sim_core_gateway_due_us(const struct sim_core_gateway *gateway)
{
    uint64_t due_us = gateway->tick_us;
    due_us = gateway->alarm_us < due_us ? gateway->alarm_us : due_us;
    due_us = gateway->write_us < due_us ? gateway->write_us : due_us;
    if (gateway->coming.first != NULL && gateway->coming.first->due_us < due_us) {
        due_us = gateway->coming.first->due_us;
    }
    if (gateway->going.first != NULL && gateway->going.first->due_us < due_us) {
        due_us = gateway->going.first->due_us;
    }
    return due_us;
}

void sim_core_gateway_step(struct sim_core_gateway *gateway)
{
    uint64_t now = now_us(gateway);
    while (gateway->coming.first != NULL && gateway->coming.first->due_us <= now) {
        struct sim_flight *flight = row_take(&gateway->coming);
        if (flight->asked == NULL) {
            flight_free(flight); // its device went away: so did the request
        } else {
            handle(gateway, flight);
        }
    }
    if (gateway->alarm_us <= now) {
        gateway->alarm_us = UINT64_MAX;
        gw_worker_alarm(gateway->worker);
        pump(gateway);
    }
    if (gateway->write_us <= now) {
        gateway->write_us = UINT64_MAX;
        write_all(gateway);
    }
    if (gateway->tick_us <= now) {
        gateway->tick_us = now + SIM_CORE_TICK_US;
        tick(gateway);
    }
    while (gateway->going.first != NULL && gateway->going.first->due_us <= now) {
        deliver(row_take(&gateway->going));
    }
}

int sim_core_gateway_ask(struct sim_core_gateway *gateway, const char *path,
                         struct base_buffer *out)
{
    struct base_str whole = base_str_of(path);
    const char *query = strchr(path, '?');
    size_t size = query != NULL ? (size_t)(query - path) : whole.size;
    struct sim_flight *flight = flight_new(gateway, GW_METHOD_GET, (struct base_str){path, size});
    if (flight == NULL) {
        return 0;
    }
    flight->own = true;
    flight->exchange.request.loopback = true;
    flight->exchange.request.authorization = BASE_STR("Bearer " ADMIN_TOKEN);
    if (query != NULL) {
        flight->exchange.request.query = base_str_of(query + 1);
    }
    gw_core_handle(gateway->worker, &flight->exchange);
    for (int i = 0; !flight->finished && i < 2; i++) {
        tick(gateway);
    }
    base_check(flight->finished); // a question waits for nothing but the control's turn
    const struct gw_reply *reply = &flight->exchange.reply;
    int status = reply->status;
    if (base_buffer_add(out, reply->body, reply->body_bytes) != BASE_OK) {
        status = 0;
    }
    flight_free(flight);
    return status;
}

// ---- Life

static enum base_status core_open(struct sim_core_gateway *gateway, struct base_error *error)
{
    const struct sim_core_gateway_options *options = &gateway->options;
    const struct gw_core_options core = {
        .dir = gateway->folder.path,
        .admin_token = BASE_STR(ADMIN_TOKEN),
        .control_thread = false,
        .no_writer_thread = true,
        .unproven_records = options->devices,
        .unproven_per_address = DEVICES_A_PEER,
        .random = base_prng_port(&gateway->prng),
        .signer = &gateway->signer.port,
        .clock = options->clock,
        .log = options->log,
    };
    BASE_TRY(gw_core_new(&core, &gateway->core, error));
    gw_api_install(gateway->core);
    enum base_status status = gw_worker_new(gateway->core, gateway, post, &gateway->worker);
    if (status != BASE_OK) {
        return base_error_set(error, status, "the gateway's core: %s", base_status_text(status));
    }
    gw_worker_on_alarm(gateway->worker, set_alarm, gateway);
    gw_core_set_ready(gateway->core, true);
    tick(gateway);
    return BASE_OK;
}

enum base_status sim_core_gateway_new(const struct sim_core_gateway_options *options,
                                      struct sim_core_gateway **out_gateway,
                                      struct base_error *error)
{
    struct sim_core_gateway *gateway = calloc(1, sizeof(*gateway));
    if (gateway == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    gateway->options = *options;
    gateway->message_last = &gateway->message_first;
    row_init(&gateway->coming);
    row_init(&gateway->going);
    gateway->alarm_us = UINT64_MAX;
    gateway->write_us = UINT64_MAX;
    gateway->tick_us = now_us(gateway) + SIM_CORE_TICK_US;
    base_prng_seed(&gateway->prng, options->seed);
    enum base_status status = sim_core_folder_copy(options->dir, &gateway->folder, error);
    if (status == BASE_OK) {
        status = sim_core_signer_open(gateway->folder.path, &gateway->signer, error);
    }
    if (status == BASE_OK) {
        status = core_open(gateway, error);
    }
    if (status != BASE_OK) {
        sim_core_gateway_free(gateway);
        return status;
    }
    *out_gateway = gateway;
    return BASE_OK;
}

// What the core still has comes back before it goes; nobody is told any more.
void sim_core_gateway_free(struct sim_core_gateway *gateway)
{
    if (gateway == NULL) {
        return;
    }
    if (gateway->worker != NULL) {
        gw_worker_alarm(gateway->worker);
        tick(gateway);
        gw_worker_free(gateway->worker);
        pump(gateway);
    }
    gw_core_free(gateway->core);
    while (gateway->coming.first != NULL) {
        flight_free(row_take(&gateway->coming));
    }
    while (gateway->going.first != NULL) {
        flight_free(row_take(&gateway->going));
    }
    sim_core_signer_close(&gateway->signer);
    sim_core_folder_remove(&gateway->folder);
    free(gateway);
}

// Virtual devices' requests on their way to the gateway's core, and its answers on their way back.
// run/fleet_virtual.c steps it with the shard; core_gateway.c is the other end.
//
// A request is copied into a flight, which comes back as the answer and is then used again.
#include "virtual/core_link.h"

#include "base/check.h"
#include "svc/core.h"
#include "virtual/core_gateway.h"
#include "virtual/core_tunnel.h"

#include <stdio.h>
#include <string.h>

static uint64_t now_us(const struct sim_core_link *link)
{
    return link->options.clock.mono_us(link->options.clock.ctx);
}

static uint32_t parity(const struct sim_core_link *link)
{
    return *link->options.window & 1;
}

void sim_core_link_init(struct sim_core_link *link, const struct sim_core_link_options *options)
{
    *link = (struct sim_core_link){.options = *options};
    link->start_us = now_us(link);
    for (uint32_t i = 0; i < 2; i++) {
        sim_post_init(&link->up[i]);
        sim_post_init(&link->down[i]);
    }
}

void sim_core_link_done(struct sim_core_link *link)
{
    sim_flight_queue_done(&link->coming);
    for (uint32_t i = 0; i < 2; i++) {
        sim_post_done(&link->up[i]);
        sim_post_done(&link->down[i]);
    }
}

// ---- Requests

static void give_back(struct sim_flight *flight)
{
    gw_blob_release(flight->exchange.reply.blob);
    flight->exchange.reply.blob = NULL;
    base_arena_reset(&flight->arena);
    flight->asked = NULL;
    flight->next = flight->link->free;
    flight->link->free = flight;
}

// Its memory is that of a flight that came back, if there is one.
static struct sim_flight *flight_take(struct sim_core_link *link)
{
    struct sim_flight *flight = link->free;
    if (flight != NULL) {
        link->free = flight->next;
        memset(&flight->exchange, 0, sizeof(flight->exchange));
        flight->finished = false;
        flight->died = false;
        return flight;
    }
    flight = sim_flight_make(link->options.flights);
    if (flight != NULL) {
        flight->link = link;
        flight->made_next = link->made;
        link->made = flight;
    }
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
    if (from == 0) {
        return true;
    }
    int size = snprintf(text, sizeof(text), "bytes=%llu-", (unsigned long long)from);
    return keep(flight, (struct base_str){text, (size_t)size}, &flight->exchange.request.range);
}

// What the device shows; of an enrolment its key, with the token of the fleet.
static bool keep_who(struct sim_flight *flight, const struct sim_exchange *asked)
{
    struct gw_request *to = &flight->exchange.request;
    bool enrols = asked->kind == SIM_EXCHANGE_ENROL;
    if (enrols) {
        to->authorization = sim_core_gateway_bearer(flight->link->options.gateway);
    }
    return keep(flight, asked->credential, enrols ? &to->enrol_key : &to->credential);
}

static bool request_keep(struct sim_flight *flight, const struct sim_exchange *asked,
                         const struct dev_request *request)
{
    struct gw_request *to = &flight->exchange.request;
    bool good = keep(flight, request->device, &to->device) &&
                keep(flight, request->profile, &to->profile) &&
                keep(flight, request->nonce, &to->nonce) && keep_who(flight, asked) &&
                keep_range(flight, request->range_from);
    if (good && request->body_bytes > 0) {
        to->body = base_arena_copy(&flight->arena, request->body, request->body_bytes);
        to->body_bytes = request->body_bytes;
        good = to->body != NULL;
    }
    to->peer = 1 + (flight->link->options.first + asked->device) / SIM_CORE_DEVICES_A_PEER;
    to->secure = true;
    return good;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// When a message arrives that is ready at `at_us`, behind what its device's link has to send.
static uint64_t asks_us(const struct sim_core_link *link, struct sim_exchange *exchange,
                        uint32_t bytes, uint64_t at_us)
{
    const struct sim_delay_port *port = &link->options.delay;
    struct sim_own_link alone = {.connected = true};
    struct sim_own_link *own = exchange->own_link != NULL ? exchange->own_link : &alone;
    const struct sim_message message = {
        .device = exchange->index,
        .at_us = at_us - link->start_us,
        .bytes = bytes,
        .count = 2 * exchange->id,
        .up = true,
        .opens = !own->connected,
    };
    struct sim_delay delay = port->of(port->ctx, &message);
    own->connected = true;
    own->up_free_us = later(own->up_free_us, at_us) + delay.link_us;
    uint64_t due_us = own->up_free_us + delay.wait_us + delay.way_us;
    return later(due_us, at_us + port->least_us);
}

struct sim_flight *sim_core_link_ask(struct sim_core_link *link, const struct sim_exchange *asked,
                                     const struct dev_request *request)
{
    struct sim_flight *flight = flight_take(link);
    if (flight == NULL) {
        return NULL;
    }
    struct gw_exchange *to = &flight->exchange;
    to->arena = &flight->arena;
    to->owner = flight;
    to->finish = sim_core_gateway_finish;
    to->request.method = request->method == DEV_METHOD_POST ? GW_METHOD_POST : GW_METHOD_GET;
    to->request.proven = &to->proven;
    if (!keep(flight, request->path, &to->request.path) || !request_keep(flight, asked, request)) {
        give_back(flight);
        return NULL;
    }
    return flight;
}

void sim_core_link_forget(struct sim_flight *flight)
{
    give_back(flight);
}

static enum base_status start(void *ctx, struct sim_exchange *exchange,
                              const struct dev_request *request)
{
    struct sim_core_link *link = ctx;
    struct sim_flight *flight = sim_core_link_ask(link, exchange, request);
    if (flight == NULL) {
        return BASE_ERR_NOMEM;
    }
    uint64_t due_us = asks_us(link, exchange, (uint32_t)request->body_bytes, now_us(link));
    flight->asked = exchange;
    flight->owner = exchange->owner;
    flight->index = exchange->index;
    flight->number = exchange->id;
    flight->when =
        (struct sim_when){due_us, link->options.shard, exchange->device, link->sequence++};
    if (sim_post_add(&link->up[parity(link)], flight) != BASE_OK) {
        give_back(flight);
        return BASE_ERR_NOMEM;
    }
    exchange->flight = flight;
    return BASE_OK;
}

static void cancel(void *ctx, struct sim_exchange *exchange)
{
    struct sim_core_link *link = ctx;
    if (exchange->kind == SIM_EXCHANGE_TUNNEL) {
        sim_core_tunnel_cancel(link->options.tunnel, exchange);
        return;
    }
    exchange->flight->asked = NULL;
    exchange->flight = NULL;
}

static enum base_status open_stream(void *ctx, struct sim_exchange *exchange,
                                    struct base_str device, uint8_t class_id)
{
    struct sim_core_link *link = ctx;
    (void)class_id; // HELLO says it
    return link->options.tunnel != NULL
               ? sim_core_tunnel_open(link->options.tunnel, exchange, device)
               : BASE_ERR_CLOSED;
}

static enum base_status write_stream(void *ctx, struct sim_exchange *exchange, const uint8_t *bytes,
                                     size_t size)
{
    struct sim_core_link *link = ctx;
    return sim_core_tunnel_write(link->options.tunnel, exchange, bytes, size);
}

struct sim_transport sim_core_link_transport(struct sim_core_link *link)
{
    return (struct sim_transport){
        .ctx = link, .start = start, .cancel = cancel, .open = open_stream, .write = write_stream};
}

void sim_core_link_answer(struct sim_flight *flight, uint64_t at_us, uint64_t sequence)
{
    struct sim_core_link *link = flight->link;
    const struct sim_delay_port *port = &link->options.delay;
    const struct sim_message message = {
        .device = flight->index,
        .at_us = at_us - link->start_us,
        .bytes = sim_core_link_body_bytes(&flight->exchange.reply),
        .count = 2 * flight->number + 1,
    };
    struct sim_delay delay = port->of(port->ctx, &message);
    flight->link_us = delay.link_us;
    flight->when.due_us =
        at_us + later(delay.link_us + delay.wait_us + delay.way_us, port->least_us);
    flight->when.sequence = sequence;
    if (sim_post_add(&link->down[parity(link)], flight) != BASE_OK) {
        base_log_error(link->options.log, "fleet", "out of memory: an answer is lost");
    }
}

void sim_core_link_cut(struct sim_core_link *link)
{
    for (struct sim_flight *flight = link->made; flight != NULL; flight = flight->made_next) {
        base_assert(flight->link == link);
        flight->died = flight->died || flight->finished;
    }
}

// ---- Answers

// Several answers to one device come over its link one after the other, as the gateway sent them.
static void line_up(struct sim_flight_item *item)
{
    struct sim_flight *flight = item->flight;
    struct sim_own_link *own = flight->asked != NULL ? flight->asked->own_link : NULL;
    if (own == NULL || flight->link_us == 0) {
        return;
    }
    uint64_t due_us = later(item->when.due_us, own->down_free_us + flight->link_us);
    own->down_free_us = due_us;
    flight->when.due_us = due_us;
    item->when.due_us = due_us;
}

void sim_core_link_collect(struct sim_core_link *link)
{
    struct sim_post *post = &link->down[parity(link) ^ 1];
    for (uint32_t i = 0; i < post->sent.count; i++) {
        line_up(&post->sent.items[i]);
    }
    if (sim_post_take(post, &link->coming) != BASE_OK) {
        base_log_error(link->options.log, "fleet", "out of memory: answers are lost");
    }
}

uint64_t sim_core_link_due_us(const struct sim_core_link *link)
{
    return sim_flight_queue_due_us(&link->coming);
}

static struct base_str header_of(const struct gw_reply *reply, const char *name)
{
    for (uint32_t i = 0; i < reply->header_count; i++) {
        if (base_str_equal(reply->headers[i].name, base_str_of(name))) {
            return reply->headers[i].value;
        }
    }
    return (struct base_str){NULL, 0};
}

uint32_t sim_core_link_body_bytes(const struct gw_reply *reply)
{
    uint64_t bytes = reply->kind == GW_REPLY_BLOB ? reply->blob_bytes : reply->body_bytes;
    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

struct dev_response_head sim_core_link_head(const struct gw_reply *reply)
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
    const struct sim_transport_events *events = &flight->link->options.events;
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
    const struct sim_transport_events *events = &flight->link->options.events;
    const struct gw_reply *reply = &flight->exchange.reply;
    bool served = !flight->died && (reply->kind == GW_REPLY_BYTES || reply->kind == GW_REPLY_BLOB);
    enum base_status unserved = flight->died ? BASE_ERR_IO : BASE_ERR_UNSUPPORTED;
    if (flight->asked != NULL && served) {
        struct dev_response_head head = sim_core_link_head(reply);
        events->head(events->ctx, flight->asked, &head);
    }
    if (flight->asked != NULL && served) {
        tell_body(flight);
    }
    if (flight->asked != NULL) {
        flight->asked->flight = NULL;
        events->end(events->ctx, flight->asked, served ? BASE_OK : unserved);
    }
}

// Thousands of devices wait, and none is in the caches when its answer comes: the next one's memory
// is on its way while this one is told.
static void owner_fetch(const struct sim_core_link *link)
{
    const struct sim_flight *next = sim_flight_queue_first(&link->coming);
    if (next != NULL) {
        sim_flight_fetch(next->owner, link->options.owner_bytes);
        sim_flight_fetch(next->asked, sizeof(*next->asked));
    }
}

void sim_core_link_deliver(struct sim_core_link *link)
{
    uint64_t now = now_us(link);
    while (sim_flight_queue_due_us(&link->coming) <= now) {
        struct sim_flight *flight = sim_flight_queue_take(&link->coming);
        owner_fetch(link);
        deliver(flight);
        give_back(flight);
    }
}

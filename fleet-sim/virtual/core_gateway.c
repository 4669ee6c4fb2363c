// The gateway's core as the far end of virtual devices' requests. run/fleet_virtual.c runs it
// window by window, on one thread; core_link.c is the near end.
//
// Requests wait in a queue until they are there; the core handles each then, now or after a commit,
// and the answer is posted to the link it came by. What the core posts to its worker runs at once.
#include "virtual/core_gateway.h"

#include "api/api.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/prng.h"
#include "svc/access/operators.h"
#include "svc/core.h"
#include "svc/exchange.h"
#include "virtual/core_folder.h"
#include "virtual/core_signer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_NO_ROOM 507
#define ADMIN_TOKEN    "the operator of a run in virtual time"
#define BEARER_MAX     (sizeof("Bearer ") + GW_SECRET_TEXT_BYTES)

struct sim_core_gateway {
    struct sim_core_gateway_options options;
    struct sim_core_folder folder;
    struct sim_core_signer signer;
    struct base_prng prng;
    struct gw_core *core;
    struct gw_worker *worker;
    char bearer[BEARER_MAX]; // what enrolments are authorized by
    struct gw_message *message_first;
    struct gw_message **message_last;
    struct sim_flight_queue coming;
    uint64_t answers;
    uint64_t unwritten;
    uint64_t alarm_us; // UINT64_MAX: none
    uint64_t write_us; // likewise
    uint64_t tick_us;
    uint64_t up_us; // before it was killed: until then nobody is answered; UINT64_MAX: never
    bool dying;     // what the core still does is not done
};

static uint64_t now_us(const struct sim_core_gateway *gateway)
{
    return gateway->options.clock->now_us;
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

struct base_str sim_core_gateway_bearer(const struct sim_core_gateway *gateway)
{
    return base_str_of(gateway->bearer);
}

static void note(struct sim_core_gateway *gateway, const struct sim_flight *flight,
                 enum sim_event_kind kind, uint64_t value)
{
    const struct sim_event event = {.index = flight->index, .value = value, .kind = kind};
    sim_recorder_take(gateway->options.recorder, now_us(gateway), &event);
}

static uint64_t hash_of_request(const struct gw_request *request)
{
    uint64_t hash = base_hash64(request->path.data, request->path.size);
    hash = base_hash64_seed(request->device.data, request->device.size, hash);
    hash = base_hash64_seed(request->nonce.data, request->nonce.size, hash);
    return base_hash64_seed(request->body, request->body_bytes, hash);
}

static uint64_t hash_of_reply(const struct gw_reply *reply)
{
    const uint64_t facts[] = {(uint64_t)reply->status, (uint64_t)reply->kind, reply->blob_from,
                              reply->blob_bytes};
    uint64_t hash = base_hash64(facts, sizeof(facts));
    return reply->kind == GW_REPLY_BYTES ? base_hash64_seed(reply->body, reply->body_bytes, hash)
                                         : hash;
}

uint64_t sim_core_gateway_unwritten(const struct sim_core_gateway *gateway)
{
    return gateway->unwritten;
}

// Nobody answers: the end of the connection is on its way.
static void hang_up(struct sim_core_gateway *gateway, struct sim_flight *flight)
{
    flight->died = true;
    sim_core_link_answer(flight, now_us(gateway), gateway->answers++);
}

// The core is done with it: the answer is on its way.
void sim_core_gateway_finish(struct gw_exchange *exchange)
{
    struct sim_flight *flight = exchange->owner;
    struct sim_core_gateway *gateway = flight->own ? NULL : flight->link->options.gateway;
    flight->finished = true;
    if (!flight->own && gateway->dying) {
        hang_up(gateway, flight);
    } else if (!flight->own) {
        gateway->unwritten += exchange->reply.status == STATUS_NO_ROOM;
        note(gateway, flight, SIM_EVENT_REPLIED, hash_of_reply(&exchange->reply));
        sim_core_link_answer(flight, now_us(gateway), gateway->answers++);
    }
}

// ---- Steps

static const struct sim_core_door *door_of(const struct sim_core_gateway *gateway)
{
    const struct sim_core_door *door = &gateway->options.door;
    return door->open != NULL && gateway->core != NULL ? door : NULL;
}

// Of what is said through the door too, a commit comes a little later.
static void wait_for_commit(struct sim_core_gateway *gateway)
{
    if (gateway->write_us == UINT64_MAX) {
        gateway->write_us = now_us(gateway) + SIM_CORE_COMMIT_US;
    }
}

static void handle(struct sim_core_gateway *gateway, struct sim_flight *flight)
{
    if (now_us(gateway) < gateway->up_us) {
        hang_up(gateway, flight);
        return;
    }
    note(gateway, flight, SIM_EVENT_HANDLED, hash_of_request(&flight->exchange.request));
    gw_core_handle(gateway->worker, &flight->exchange);
    pump(gateway);
    wait_for_commit(gateway);
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
    uint64_t due = sim_flight_queue_due_us(&gateway->coming);
    due = gateway->tick_us < due ? gateway->tick_us : due;
    due = gateway->alarm_us < due ? gateway->alarm_us : due;
    if (door_of(gateway) != NULL) {
        uint64_t door = gateway->options.door.due_us(gateway->options.door.ctx);
        due = door < due ? door : due;
    }
    return gateway->write_us < due ? gateway->write_us : due;
}

static void step(struct sim_core_gateway *gateway)
{
    uint64_t now = now_us(gateway);
    while (sim_flight_queue_due_us(&gateway->coming) <= now) {
        handle(gateway, sim_flight_queue_take(&gateway->coming));
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
    const struct sim_core_door *door = door_of(gateway);
    if (door != NULL) {
        bool came = door->due_us(door->ctx) <= now;
        door->step(door->ctx, now >= gateway->up_us);
        pump(gateway);
        if (came) {
            wait_for_commit(gateway);
        }
    }
}

// What the shards posted in the window before.
static void collect(struct sim_core_gateway *gateway)
{
    for (uint32_t i = 0; i < gateway->options.link_count; i++) {
        struct sim_core_link *link = gateway->options.links[i];
        struct sim_post *post = &link->up[(*gateway->options.window & 1) ^ 1];
        if (sim_post_take(post, &gateway->coming) != BASE_OK) {
            base_log_error(gateway->options.log, "fleet", "out of memory: requests are lost");
        }
    }
    if (door_of(gateway) != NULL) {
        gateway->options.door.collect(gateway->options.door.ctx);
    }
}

uint64_t sim_core_gateway_run(struct sim_core_gateway *gateway, uint64_t until_us)
{
    collect(gateway);
    uint64_t due = sim_core_gateway_due_us(gateway);
    while (due < until_us) {
        sim_virtual_clock_move(gateway->options.clock, due);
        step(gateway);
        due = sim_core_gateway_due_us(gateway);
    }
    return due;
}

uint64_t sim_core_gateway_folder_bytes(const struct sim_core_gateway *gateway)
{
    return sim_core_folder_bytes(&gateway->folder);
}

static struct sim_flight *own_flight(struct base_str path)
{
    struct sim_flight *flight = calloc(1, sizeof(*flight));
    if (flight != NULL) {
        base_arena_init(&flight->arena, base_alloc_heap(), 0, 0);
        flight->own = true;
        flight->exchange.arena = &flight->arena;
        flight->exchange.owner = flight;
        flight->exchange.finish = sim_core_gateway_finish;
        flight->exchange.request.method = GW_METHOD_GET;
        flight->exchange.request.path = path;
        flight->exchange.request.loopback = true;
        flight->exchange.request.proven = &flight->exchange.proven;
    }
    return flight;
}

// Handled at once; the flight goes. The status, the body behind what `out` has.
static int own_handle(struct sim_core_gateway *gateway, struct sim_flight *flight,
                      struct base_buffer *out)
{
    flight->exchange.request.authorization = BASE_STR("Bearer " ADMIN_TOKEN);
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
    base_arena_done(&flight->arena);
    free(flight);
    return status;
}

int sim_core_gateway_ask(struct sim_core_gateway *gateway, const char *path,
                         struct base_buffer *out)
{
    struct base_str whole = base_str_of(path);
    const char *query = strchr(path, '?');
    size_t size = query != NULL ? (size_t)(query - path) : whole.size;
    struct sim_flight *flight =
        gateway->core != NULL ? own_flight((struct base_str){path, size}) : NULL;
    if (flight == NULL) {
        return 0;
    }
    if (query != NULL) {
        flight->exchange.request.query = base_str_of(query + 1);
    }
    return own_handle(gateway, flight, out);
}

int sim_core_gateway_tell(struct sim_core_gateway *gateway, const char *path, const char *json,
                          struct base_buffer *out)
{
    struct sim_flight *flight = gateway->core != NULL ? own_flight(base_str_of(path)) : NULL;
    if (flight == NULL) {
        return 0;
    }
    flight->exchange.request.method = GW_METHOD_POST;
    flight->exchange.request.content_type = BASE_STR("application/json");
    flight->exchange.request.body = (const uint8_t *)json;
    flight->exchange.request.body_bytes = strlen(json);
    return own_handle(gateway, flight, out);
}

// ---- Life

// A token for the virtual fleet, in the copy alone: whatever became of the folder's own, devices
// enrol.
static enum base_status token_make(struct sim_core_gateway *gateway, struct base_error *error)
{
    const struct gw_token_view wish = {.role = GW_ROLE_ENROL, .name = "a run in virtual time"};
    struct gw_token_view made;
    char text[GW_SECRET_TEXT_BYTES + 1];
    BASE_TRY(gw_token_create(gateway->core, &wish, &made, text, error));
    (void)snprintf(gateway->bearer, sizeof(gateway->bearer), "Bearer %s", text);
    return BASE_OK;
}

static enum base_status core_open(struct sim_core_gateway *gateway, struct base_error *error)
{
    const struct sim_core_gateway_options *options = &gateway->options;
    const struct gw_core_options core = {
        .dir = gateway->folder.path,
        .admin_token = BASE_STR(ADMIN_TOKEN),
        .control_thread = false,
        .no_writer_thread = true,
        .lean_store = true, // it lies in memory
        .unproven_records = options->strangers,
        .random = base_prng_port(&gateway->prng),
        .signer = &gateway->signer.port,
        .clock = sim_virtual_clock_port(options->clock),
        .log = options->log,
    };
    BASE_TRY(gw_core_new(&core, &gateway->core, error));
    gw_api_install(gateway->core);
    enum base_status status = gw_worker_new(gateway->core, gateway, post, &gateway->worker);
    if (status != BASE_OK) {
        return base_error_set(error, status, "the gateway's core: %s", base_status_text(status));
    }
    if (options->strangers == 0 && gateway->bearer[0] == '\0') {
        BASE_TRY(token_make(gateway, error));
    }
    gw_worker_on_alarm(gateway->worker, set_alarm, gateway);
    if (options->door.open != NULL) {
        BASE_TRY(options->door.open(options->door.ctx, gateway->core, gateway->folder.path, error));
    }
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
    gateway->alarm_us = UINT64_MAX;
    gateway->write_us = UINT64_MAX;
    gateway->tick_us = now_us(gateway) + SIM_CORE_TICK_US;
    base_prng_seed(&gateway->prng, options->seed);
    enum base_status status = sim_core_folder_copy(options->dir, &gateway->folder, error);
    if (status == BASE_OK) {
        status = sim_core_signer_open(options->dir, &gateway->signer, error);
        gateway->signer.verify = options->verify;
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

// What the core still has comes back before it goes.
static void core_close(struct sim_core_gateway *gateway)
{
    const struct sim_core_door *door = door_of(gateway);
    if (door != NULL) {
        door->shut(door->ctx);
    }
    if (gateway->worker != NULL) {
        gw_worker_alarm(gateway->worker);
        tick(gateway);
    }
    if (door != NULL) {
        door->close(door->ctx);
    }
    if (gateway->worker != NULL) {
        gw_worker_free(gateway->worker);
        pump(gateway);
    }
    gw_core_free(gateway->core);
    gateway->worker = NULL;
    gateway->core = NULL;
}

// Another core over another folder: the same gateway to everybody.
static enum base_status core_again(struct sim_core_gateway *gateway,
                                   const struct sim_core_folder *folder, struct base_error *error)
{
    sim_core_folder_remove(&gateway->folder);
    gateway->folder = *folder;
    gateway->alarm_us = UINT64_MAX;
    gateway->write_us = UINT64_MAX;
    gateway->up_us = now_us(gateway) + SIM_CORE_DOWN_US;
    gateway->tick_us = gateway->up_us;
    enum base_status status = core_open(gateway, error);
    if (status != BASE_OK) {
        core_close(gateway);
        gateway->up_us = UINT64_MAX;
        gateway->tick_us = UINT64_MAX;
        gateway->unwritten++;
    }
    return status;
}

enum base_status sim_core_gateway_restart(struct sim_core_gateway *gateway, uint64_t at_us,
                                          struct base_error *error)
{
    struct sim_core_folder left;
    if (gateway->core == NULL) {
        return BASE_OK; // it is down for good
    }
    sim_virtual_clock_move(gateway->options.clock, at_us);
    BASE_TRY(sim_core_folder_again(&gateway->folder, &left, error));
    gateway->dying = true; // what it writes from now on, it writes where nobody looks
    core_close(gateway);
    gateway->dying = false;
    for (uint32_t i = 0; i < gateway->options.link_count; i++) {
        sim_core_link_cut(gateway->options.links[i]);
    }
    return core_again(gateway, &left, error);
}

// Nobody is told any more.
void sim_core_gateway_free(struct sim_core_gateway *gateway)
{
    if (gateway == NULL) {
        return;
    }
    core_close(gateway);
    sim_flight_queue_done(&gateway->coming);
    sim_core_signer_close(&gateway->signer);
    sim_core_folder_remove(&gateway->folder);
    free(gateway);
}

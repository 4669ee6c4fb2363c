// The socket transport of a shard: carriers and dedicated connections on the HTTP/2 client. Runs on
// the shard's thread, driven by its event loop. fleet_shard.c makes it and calls its tick once a
// turn; requests of devices come in through the transport's functions, from fleet_ports.c. A
// connection that dies inside a callback is only noted and is freed at the next tick, since HTTP/2
// code of its own may still be on the stack.
#include "ports/sim_links.h"

#include "base/os/block_pool.h"
#include "base/prng.h"
#include "model/wheel.h"
#include "posix/posix_request.h"
#include "wire/tunnel_frame.h"

#include <stdio.h>
#include <string.h>

#define HEADERS_MAX (DEV_RIDE_HEADERS_MAX + 2 + POSIX_REQUEST_HEADERS_MAX)
#define BEARER_MAX  300
#define FAULT_MAX   200

struct sim_link {
    struct sim_wheel_node node; // reconnect timer; first, see wheel.h
    struct sim_links *set;
    struct h2_client *client; // NULL: not connected and not connecting
    uint32_t index;
    uint32_t backoff_ms;
    bool up;
    bool was_up;
    bool in_vain; // it failed, and was never up
    bool dead;    // `client` is gone and to be freed by the next tick
};

struct sim_links {
    struct sim_links_options options;
    struct sim_link *items; // carriers first, then dedicated
    uint32_t count;
    uint32_t up;
    uint32_t carriers_up;
    uint32_t never_up;
    uint64_t reconnects;
    uint64_t start_us;
    struct sim_wheel wheel;
    struct base_block_pool blocks; // of all connections' codecs
    struct base_prng prng;
    uint32_t *dead; // indexes of dead links
    uint32_t dead_count;
    bool closing;
    char host[128];
    char own_host[128];
    char fault[FAULT_MAX];   // of the last connection that failed; empty: none did
    char bearer[BEARER_MAX]; // what enrolments are authorized by; empty: there are none
};

static uint32_t now_ms(const struct sim_links *links)
{
    uint64_t now = links->options.clock.mono_us(links->options.clock.ctx);
    return (uint32_t)((now - links->start_us) / 1000);
}

static void retry_later(struct sim_link *link)
{
    struct sim_links *links = link->set;
    uint32_t wait =
        link->backoff_ms / 2 + (uint32_t)base_prng_below(&links->prng, link->backoff_ms / 2 + 1);
    link->backoff_ms *= 2;
    if (link->backoff_ms > SIM_LINK_BACKOFF_MS_MAX) {
        link->backoff_ms = SIM_LINK_BACKOFF_MS_MAX;
    }
    sim_wheel_set(&links->wheel, link->index, now_ms(links) + wait);
}

static bool is_own(const struct sim_link *link)
{
    return link->index >= link->set->options.carriers;
}

static void note_fault(struct sim_link *link, const char *why)
{
    struct sim_links *links = link->set;
    bool own = is_own(link);
    links->never_up += link->was_up || link->in_vain ? 0 : 1;
    link->in_vain = !link->was_up;
    (void)snprintf(links->fault, sizeof(links->fault), "%s:%u: %s",
                   own ? links->own_host : links->host,
                   own ? links->options.own_port : links->options.port, why);
}

static void on_state(void *ctx, struct h2_client *client, enum base_status status)
{
    struct sim_link *link = ctx;
    struct sim_links *links = link->set;
    if (client != link->client) {
        return;
    }
    bool carrier = !is_own(link);
    if (status == BASE_OK) {
        link->up = true;
        link->was_up = true;
        links->never_up -= link->in_vain ? 1 : 0;
        link->in_vain = false;
        link->backoff_ms = SIM_LINK_BACKOFF_MS_MIN;
        links->up++;
        links->carriers_up += carrier ? 1 : 0;
        return;
    }
    const char *why = h2_client_why(client);
    note_fault(link, why != NULL ? why : base_status_text(status));
    if (link->up) {
        link->up = false;
        links->up--;
        links->carriers_up -= carrier ? 1 : 0;
    }
    if (!link->dead) {
        link->dead = true;
        links->dead[links->dead_count++] = link->index;
    }
}

static void on_head(void *ctx, void *user, const struct h2_head *head)
{
    const struct sim_transport_events *events = &((struct sim_link *)ctx)->set->options.events;
    struct dev_response_head translated = {
        .status = head->status,
        .content_bytes = head->content_bytes,
        .range_from = head->range_from,
        .retry_after_s = head->retry_after_s,
        .reason = head->reason,
    };
    struct sim_exchange *exchange = user;
    exchange->answer_ride = head->ride;
    exchange->answer_offer = head->offer;
    events->head(events->ctx, user, &translated);
}

static void on_body(void *ctx, void *user, const uint8_t *bytes, size_t size)
{
    const struct sim_transport_events *events = &((struct sim_link *)ctx)->set->options.events;
    events->body(events->ctx, user, bytes, size);
}

static void on_end(void *ctx, void *user, enum base_status status)
{
    const struct sim_transport_events *events = &((struct sim_link *)ctx)->set->options.events;
    events->end(events->ctx, user, status);
}

static void on_writable(void *ctx, void *user)
{
    const struct sim_transport_events *events = &((struct sim_link *)ctx)->set->options.events;
    events->writable(events->ctx, user);
}

// A loopback address of its own for every connection: 127.16.0.1 and up.
static void source_address(uint32_t number, char out[20])
{
    (void)snprintf(out, 20, "127.%u.%u.%u", 16 + number / 62500 % 200, number / 250 % 250,
                   1 + number % 250);
}

static enum base_status connect_link(struct sim_link *link)
{
    struct sim_links *links = link->set;
    bool own = is_own(link);
    const char *host = own ? links->own_host : links->host;
    char source[20] = "";
    if (strncmp(host, "127.", 4) == 0) {
        source_address(links->options.first_source + link->index, source);
    }
    struct h2_options options = {
        .host = base_str_of(host),
        .port = own ? links->options.own_port : links->options.port,
        .tls = own ? links->options.own_tls : links->options.tls,
        .source_address = base_str_of(source),
        .small = own,
        .blocks = &links->blocks,
    };
    struct h2_events events = {.head = on_head,
                               .body = on_body,
                               .end = on_end,
                               .state = on_state,
                               .ctx = link,
                               .writable = on_writable};
    link->dead = false;
    enum base_status status = h2_client_new(links->options.base, &options, &events, &link->client);
    if (status != BASE_OK) {
        note_fault(link, base_status_text(status));
    }
    return status;
}

enum base_status sim_links_new(const struct sim_links_options *options,
                               struct sim_links **out_links)
{
    const struct base_alloc_port *alloc = options->alloc;
    struct sim_links *links = alloc->alloc(alloc->ctx, sizeof(*links));
    if (links == NULL) {
        return BASE_ERR_NOMEM;
    }
    memset(links, 0, sizeof(*links));
    links->options = *options;
    links->count = options->carriers + options->dedicated;
    links->start_us = options->clock.mono_us(options->clock.ctx);
    base_prng_seed(&links->prng, options->seed);
    (void)snprintf(links->host, sizeof(links->host), "%.*s", (int)options->host.size,
                   options->host.data);
    (void)snprintf(links->own_host, sizeof(links->own_host), "%.*s", (int)options->own_host.size,
                   options->own_host.data);
    if (options->enrol_token.size > 0) {
        (void)snprintf(links->bearer, sizeof(links->bearer), "Bearer %.*s",
                       (int)options->enrol_token.size, options->enrol_token.data);
    }
    links->items = alloc->alloc(alloc->ctx, sizeof(struct sim_link) * (links->count + 1));
    links->dead = alloc->alloc(alloc->ctx, sizeof(uint32_t) * (links->count + 1));
    if (links->items == NULL || links->dead == NULL) {
        links->count = 0;
        sim_links_free(links);
        return BASE_ERR_NOMEM;
    }
    memset(links->items, 0, sizeof(struct sim_link) * (links->count + 1));
    for (uint32_t i = 0; i < links->count; i++) {
        links->items[i].set = links;
        links->items[i].index = i;
        links->items[i].backoff_ms = SIM_LINK_BACKOFF_MS_MIN;
    }
    if (sim_wheel_init(&links->wheel, alloc, links->items, sizeof(struct sim_link)) != BASE_OK) {
        sim_links_free(links);
        return BASE_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < options->carriers; i++) {
        if (connect_link(&links->items[i]) != BASE_OK) {
            retry_later(&links->items[i]);
        }
    }
    *out_links = links;
    return BASE_OK;
}

void sim_links_free(struct sim_links *links)
{
    if (links == NULL) {
        return;
    }
    links->closing = true;
    for (uint32_t i = 0; i < links->count; i++) {
        struct h2_client *client = links->items[i].client;
        links->items[i].client = NULL;
        h2_client_free(client);
    }
    base_block_pool_done(&links->blocks);
    sim_wheel_done(&links->wheel);
    const struct base_alloc_port *alloc = links->options.alloc;
    alloc->release(alloc->ctx, links->items);
    alloc->release(alloc->ctx, links->dead);
    alloc->release(alloc->ctx, links);
}

// The connection of a device, opened when it has none; NULL when it cannot be had now.
static struct sim_link *link_for(struct sim_links *links, uint32_t device)
{
    bool dedicated = device < links->options.dedicated;
    if (!dedicated && links->options.carriers == 0) {
        return NULL;
    }
    uint32_t index =
        dedicated ? links->options.carriers + device : device % links->options.carriers;
    struct sim_link *link = &links->items[index];
    if (dedicated && link->client == NULL && link->node.due == SIM_WHEEL_NEVER &&
        connect_link(link) != BASE_OK) {
        link->client = NULL;
        retry_later(link);
    }
    return link->client != NULL && h2_client_usable(link->client) ? link : NULL;
}

static enum base_status start(void *ctx, struct sim_exchange *exchange,
                              const struct dev_request *request)
{
    struct sim_links *links = ctx;
    struct sim_link *link = links->closing ? NULL : link_for(links, exchange->device);
    if (link == NULL) {
        return BASE_ERR_CLOSED;
    }
    struct h2_header headers[HEADERS_MAX];
    uint32_t count = 0;
    struct posix_request_text text;
    if (exchange->ride == NULL) {
        headers[count++] = (struct h2_header){BASE_STR("walle-device"), request->device};
    }
    for (uint32_t i = 0; exchange->ride != NULL && i < exchange->ride->header_count; i++) {
        const struct dev_ride_header *header = &exchange->ride->headers[i];
        headers[count++] = (struct h2_header){header->name, header->value};
    }
    bool enrols = exchange->kind == SIM_EXCHANGE_ENROL;
    if (exchange->credential.size > 0) {
        headers[count++] =
            (struct h2_header){enrols ? BASE_STR("walle-enroll-key") : BASE_STR("walle-credential"),
                               exchange->credential};
    }
    if (enrols) {
        headers[count++] =
            (struct h2_header){BASE_STR("authorization"), base_str_of(links->bearer)};
    }
    count += posix_request_headers(request, &text, headers + count);
    struct h2_request translated = {
        .method = request->method == DEV_METHOD_POST ? BASE_STR("POST") : BASE_STR("GET"),
        .path = request->path,
        .headers = headers,
        .header_count = count,
        .body = request->body,
        .body_bytes = request->body_bytes,
    };
    BASE_TRY(h2_client_request(link->client, &translated, exchange, &exchange->stream));
    exchange->link = link;
    return BASE_OK;
}

static enum base_status open_stream(void *ctx, struct sim_exchange *exchange,
                                    struct base_str device, uint8_t class_id)
{
    struct sim_links *links = ctx;
    struct sim_link *link = links->closing ? NULL : link_for(links, exchange->device);
    if (link == NULL) {
        return BASE_ERR_CLOSED;
    }
    const struct posix_tunnel_rank rank = posix_tunnel_rank(class_id);
    const struct h2_header headers[] = {{BASE_STR("walle-device"), device},
                                        {BASE_STR("priority"), rank.priority},
                                        {BASE_STR("walle-credential"), exchange->credential}};
    struct h2_request request = {
        .method = BASE_STR("POST"),
        .path = BASE_STR("/v1/tunnel"),
        .headers = headers,
        .header_count = exchange->credential.size > 0 ? 3 : 2,
        .open_body = true,
        .weight = rank.weight,
    };
    BASE_TRY(h2_client_request(link->client, &request, exchange, &exchange->stream));
    exchange->link = link;
    return BASE_OK;
}

static enum base_status write_stream(void *ctx, struct sim_exchange *exchange, const uint8_t *bytes,
                                     size_t size)
{
    (void)ctx;
    return exchange->link->client != NULL
               ? h2_client_write(exchange->link->client, exchange->stream, bytes, size, false)
               : BASE_ERR_CLOSED;
}

static void cancel(void *ctx, struct sim_exchange *exchange)
{
    (void)ctx;
    if (exchange->link != NULL && exchange->link->client != NULL) {
        h2_client_cancel(exchange->link->client, exchange->stream);
    }
}

struct sim_transport sim_links_transport(struct sim_links *links)
{
    return (struct sim_transport){
        .ctx = links, .start = start, .cancel = cancel, .open = open_stream, .write = write_stream};
}

static void bury_dead(struct sim_links *links)
{
    for (uint32_t i = 0; i < links->dead_count; i++) {
        struct sim_link *link = &links->items[links->dead[i]];
        struct h2_client *client = link->client;
        link->client = NULL;
        h2_client_free(client);
        link->dead = false;
        retry_later(link);
    }
    links->dead_count = 0;
}

uint64_t sim_links_tick(struct sim_links *links, uint64_t now_us)
{
    bury_dead(links);
    uint32_t now = (uint32_t)((now_us - links->start_us) / 1000);
    uint32_t index;
    while ((index = sim_wheel_pop(&links->wheel, now)) != SIM_WHEEL_NONE) {
        struct sim_link *link = &links->items[index];
        // Dedicated connections come back when their device needs them: see link_for.
        if (index >= links->options.carriers || link->client != NULL) {
            continue;
        }
        links->reconnects++;
        if (connect_link(link) != BASE_OK) {
            link->client = NULL;
            retry_later(link);
        }
    }
    uint32_t next = sim_wheel_next(&links->wheel);
    return next == SIM_WHEEL_NONE ? UINT64_MAX : links->start_us + (uint64_t)next * 1000;
}

const char *sim_links_fault(const struct sim_links *links)
{
    return links->fault[0] != '\0' ? links->fault : NULL;
}

uint32_t sim_links_up(const struct sim_links *links)
{
    return links->up;
}

uint32_t sim_links_never_up(const struct sim_links *links)
{
    return links->never_up;
}

uint64_t sim_links_reconnects(const struct sim_links *links)
{
    return links->reconnects;
}

uint32_t sim_links_carriers_up(const struct sim_links *links)
{
    return links->carriers_up;
}

// Requests of the runtime over one HTTP/2 connection to the gateway, opened when it is needed.
//
// There is no reconnect logic here: when a connection fails its exchanges end, the runtime backs
// off, and its next request opens a new one. A connection that drains (GOAWAY) keeps its streams
// while a new one takes over. On the thread of the event base.
#include "posix/posix_http.h"

#include "posix/posix_errand.h"
#include "posix/posix_request.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXCHANGES_MAX 8
#define HOST_MAX      256
#define HEADERS_MAX   (2 + POSIX_REQUEST_HEADERS_MAX) // device, credential

struct exchange {
    struct h2_client *client; // NULL: free
    uint32_t id;              // the runtime's; or the number of a two-way stream
    int32_t stream;
    bool duplex;
    struct posix_errand *errand; // of the app; NULL: of the runtime, or two-way
};

struct posix_http {
    struct posix_http_options options;
    char host[HOST_MAX];
    struct dev_runtime *runtime;
    struct h2_client *client;   // takes new requests; NULL: none
    struct h2_client *draining; // had GOAWAY, finishes its streams; NULL: none
    struct exchange exchanges[EXCHANGES_MAX];
    struct exchange streams[POSIX_STREAMS_MAX];
    struct exchange errands[POSIX_BUSINESS_MAX];
    struct posix_duplex_events duplex;
    bool answered; // on the newest connection, or one was never tried
    bool warned;   // of connections without an answer, since the last answer
    bool freeing;
};

static void on_head(void *ctx, void *user, const struct h2_head *head)
{
    struct posix_http *http = ctx;
    const struct exchange *exchange = user;
    http->answered = true;
    http->warned = false;
    if (exchange->errand != NULL) {
        posix_errand_head(exchange->errand, head);
        return;
    }
    if (exchange->duplex) {
        http->duplex.head(http->duplex.ctx, exchange->id, head);
        return;
    }
    static const enum dev_encoding encodings[] = {
        [H2_ENCODING_IDENTITY] = DEV_ENCODING_IDENTITY,
        [H2_ENCODING_DCZ] = DEV_ENCODING_DCZ,
        [H2_ENCODING_WDELTA] = DEV_ENCODING_PIECES,
        [H2_ENCODING_OTHER] = DEV_ENCODING_OTHER,
    };
    struct dev_response_head out = {
        .status = head->status,
        .content_bytes = head->content_bytes,
        .range_from = head->range_from,
        .retry_after_s = head->retry_after_s,
        .reason = head->reason,
        .encoding = encodings[head->encoding],
    };
    dev_on_head(http->runtime, exchange->id, &out);
    if (head->offer.size > 0 && dev_on_offer_header(http->runtime, head->offer) != BASE_OK) {
        base_log_debug(http->options.log, "device", "offer header does not parse");
    }
}

static void on_body(void *ctx, void *user, const uint8_t *bytes, size_t size)
{
    struct posix_http *http = ctx;
    const struct exchange *exchange = user;
    uint32_t id = exchange->id;
    if (exchange->errand != NULL) {
        posix_errand_body(exchange->errand, bytes, size);
        return;
    }
    if (exchange->duplex) {
        http->duplex.body(http->duplex.ctx, id, bytes, size);
        return;
    }
    dev_on_body(http->runtime, id, bytes, size);
    http->options.woke(http->options.ctx);
}

static void on_end(void *ctx, void *user, enum base_status status)
{
    struct posix_http *http = ctx;
    struct exchange *exchange = user;
    uint32_t id = exchange->id;
    struct posix_errand *errand = exchange->errand;
    exchange->client = NULL;
    exchange->errand = NULL;
    if (errand != NULL) {
        posix_errand_end(errand, status, !http->freeing);
    } else if (exchange->duplex && !http->freeing) {
        http->duplex.end(http->duplex.ctx, id, status);
    } else if (!http->freeing) {
        dev_on_end(http->runtime, id, status);
        http->options.woke(http->options.ctx);
    }
}

static void on_writable(void *ctx, void *user)
{
    struct posix_http *http = ctx;
    const struct exchange *exchange = user;
    http->duplex.writable(http->duplex.ctx, exchange->id);
}

// A device that is offline is nothing special, so it is said once until there is an answer again.
static void say_ended(struct posix_http *http, const char *why, bool unbelieved)
{
    if (http->answered || http->warned) {
        base_log_debug(http->options.log, "device", "connection to %s ended: %s", http->host, why);
        return;
    }
    http->warned = true;
    if (unbelieved) {
        base_log_warn(http->options.log, "device",
                      "the certificate of %s port %u is not believed by %s: %s; trying again",
                      http->host, http->options.port, http->options.ca_pem_path, why);
        return;
    }
    base_log_warn(http->options.log, "device", "no answer from %s port %u: %s; trying again",
                  http->host, http->options.port, why);
}

static void on_state(void *ctx, struct h2_client *client, enum base_status status)
{
    struct posix_http *http = ctx;
    if (status == BASE_OK) {
        base_log_debug(http->options.log, "device", "connected to %s", http->host);
        return;
    }
    const char *why = h2_client_why(client);
    say_ended(http, why != NULL ? why : base_status_text(status), h2_client_unbelieved(client));
    if (http->client == client) {
        http->client = NULL;
    }
    if (http->draining == client) {
        http->draining = NULL;
    }
    h2_client_free(client);
}

static enum base_status client_ready(struct posix_http *http)
{
    if (http->client != NULL && h2_client_usable(http->client)) {
        return BASE_OK;
    }
    if (http->client != NULL) {
        h2_client_free(http->draining); // of two that drain the older one has had its time
        http->draining = http->client;
        http->client = NULL;
    }
    const struct h2_events events = {.head = on_head,
                                     .body = on_body,
                                     .end = on_end,
                                     .state = on_state,
                                     .writable = on_writable,
                                     .ctx = http};
    http->answered = false;
    struct h2_options options = {
        .host = base_str_of(http->host), .port = http->options.port, .tls = http->options.tls};
    enum base_status status = h2_client_new(http->options.base, &options, &events, &http->client);
    if (status != BASE_OK) {
        say_ended(http,
                  status == BASE_ERR_IO ? "there is no such host, or no way to it"
                                        : base_status_text(status),
                  false);
    }
    return status;
}

static struct exchange *exchange_free_one(struct posix_http *http)
{
    for (uint32_t i = 0; i < EXCHANGES_MAX; i++) {
        if (http->exchanges[i].client == NULL) {
            return &http->exchanges[i];
        }
    }
    return NULL;
}

static enum base_status start(void *ctx, uint32_t id, const struct dev_request *request)
{
    struct posix_http *http = ctx;
    struct exchange *exchange = exchange_free_one(http);
    struct h2_header headers[HEADERS_MAX];
    struct posix_request_text text;
    uint32_t count = 0;
    if (exchange == NULL) {
        return BASE_ERR_LIMIT;
    }
    BASE_TRY(client_ready(http));
    headers[count++] = (struct h2_header){BASE_STR("walle-device"), request->device};
    if (http->options.credential.size > 0) {
        headers[count++] =
            (struct h2_header){BASE_STR("walle-credential"), http->options.credential};
    }
    count += posix_request_headers(request, &text, headers + count);
    struct h2_request out = {
        .method = request->method == DEV_METHOD_POST ? BASE_STR("POST") : BASE_STR("GET"),
        .path = request->path,
        .headers = headers,
        .header_count = count,
        .body = request->body,
        .body_bytes = request->body_bytes,
    };
    exchange->id = id;
    BASE_TRY(h2_client_request(http->client, &out, exchange, &exchange->stream));
    exchange->client = http->client;
    return BASE_OK;
}

static void cancel(void *ctx, uint32_t id)
{
    struct posix_http *http = ctx;
    for (uint32_t i = 0; i < EXCHANGES_MAX; i++) {
        struct exchange *exchange = &http->exchanges[i];
        if (exchange->client != NULL && exchange->id == id) {
            h2_client_cancel(exchange->client, exchange->stream);
            exchange->client = NULL;
        }
    }
}

// ---- Requests of the app

enum base_status posix_http_errand(struct posix_http *http, struct posix_errand *errand,
                                   const struct h2_request *request)
{
    struct exchange *exchange = NULL;
    for (uint32_t i = 0; i < POSIX_BUSINESS_MAX; i++) {
        exchange = http->errands[i].client == NULL ? &http->errands[i] : exchange;
    }
    if (exchange == NULL) {
        return BASE_ERR_LIMIT;
    }
    BASE_TRY(client_ready(http));
    BASE_TRY(h2_client_request(http->client, request, exchange, &exchange->stream));
    exchange->client = http->client;
    exchange->errand = errand;
    return BASE_OK;
}

void posix_http_errand_cancel(struct posix_http *http, const struct posix_errand *errand)
{
    for (uint32_t i = 0; i < POSIX_BUSINESS_MAX; i++) {
        struct exchange *exchange = &http->errands[i];
        if (exchange->client != NULL && exchange->errand == errand) {
            h2_client_cancel(exchange->client, exchange->stream);
            exchange->client = NULL;
            exchange->errand = NULL;
        }
    }
}

// ---- Two-way streams

void posix_http_duplex_attach(struct posix_http *http, const struct posix_duplex_events *events)
{
    http->duplex = *events;
}

enum base_status posix_http_duplex_open(struct posix_http *http, uint32_t stream,
                                        const struct posix_duplex_request *request)
{
    struct exchange *exchange = &http->streams[stream];
    struct h2_header headers[HEADERS_MAX];
    uint32_t count = 0;
    if (exchange->client != NULL) {
        return BASE_ERR_CONFLICT;
    }
    BASE_TRY(client_ready(http));
    headers[count++] = (struct h2_header){BASE_STR("walle-device"), request->device};
    headers[count++] = (struct h2_header){BASE_STR("priority"), request->priority};
    if (http->options.credential.size > 0) {
        headers[count++] =
            (struct h2_header){BASE_STR("walle-credential"), http->options.credential};
    }
    const struct h2_request out = {
        .method = BASE_STR("POST"),
        .path = request->path,
        .headers = headers,
        .header_count = count,
        .open_body = true,
        .weight = request->weight,
        .early = true, // opening a stream changes nothing
    };
    *exchange = (struct exchange){.id = stream, .duplex = true};
    BASE_TRY(h2_client_request(http->client, &out, exchange, &exchange->stream));
    exchange->client = http->client;
    return BASE_OK;
}

enum base_status posix_http_duplex_send(struct posix_http *http, uint32_t stream,
                                        const uint8_t *bytes, size_t size, bool early)
{
    const struct exchange *exchange = &http->streams[stream];
    if (exchange->client == NULL) {
        return BASE_ERR_CLOSED;
    }
    return h2_client_write(exchange->client, exchange->stream, bytes, size, early);
}

void posix_http_duplex_close(struct posix_http *http, uint32_t stream)
{
    struct exchange *exchange = &http->streams[stream];
    if (exchange->client != NULL) {
        h2_client_cancel(exchange->client, exchange->stream);
        exchange->client = NULL;
    }
}

enum base_status posix_http_new(const struct posix_http_options *options,
                                struct posix_http **out_http)
{
    if (options->host.size == 0 || options->host.size >= HOST_MAX) {
        return BASE_ERR_INVALID;
    }
    struct posix_http *http = calloc(1, sizeof(*http));
    if (http == NULL) {
        return BASE_ERR_NOMEM;
    }
    http->options = *options;
    memcpy(http->host, options->host.data, options->host.size);
    *out_http = http;
    return BASE_OK;
}

void posix_http_free(struct posix_http *http)
{
    if (http == NULL) {
        return;
    }
    http->freeing = true;
    h2_client_free(http->draining);
    h2_client_free(http->client);
    free(http);
}

void posix_http_attach(struct posix_http *http, struct dev_runtime *runtime)
{
    http->runtime = runtime;
}

struct dev_http_port posix_http_table(struct posix_http *http)
{
    return (struct dev_http_port){.ctx = http, .start = start, .cancel = cancel};
}

// A core for tests of the transport: 204 on /v1/checkin, a hint stream on /v1/push, a generated
// blob on /v1/blob/SIZE, a silent stream that stays open on /test/open, fields on /test/fields, a
// tunnel stream on /v1/tunnel (the stub tunnel's), an echo of the body's size elsewhere. Paths
// under /up/ belong to the upstream. Answers to /v1/later come from a thread of their own, as the
// store's do; those to /test/held and /api/v1/held when stub_core_let_go is called.
#include "stub_core.h"

#include "api/api.h"
#include "ddi/ddi.h"
#include "infer/codec/oip_json.h"
#include "infer/release/model_release.h"
#include "infer/rest/infer_http.h"
#include "svc/access/head_check.h"
#include "svc/reply.h"
#include "svc/route.h"
#include "svc/tunnel_seam.h"
#include "svc/two_way.h"

#include "base/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gw_core {
    bool ready;
};

struct gw_worker {
    void *post_ctx;
    void (*post)(void *post_ctx, struct gw_message *message);
    gw_hint_fn write;
    void *write_ctx;
    struct gw_hint *hints;
    uint64_t hint_count;
    gw_tunnel_end_fn tunnel_end;
    void *tunnel_ctx;
    struct gw_tunnel_watch *tunnels;
    uint64_t tunnel_count;
    struct gw_exchange *held;
    struct gw_transport_stats stats;
};

struct gw_blob {
    uint64_t bytes;
    uint8_t piece[4096];
};

struct later {
    struct gw_message message;
    struct gw_exchange *exchange;
    struct gw_worker *worker;
};

// The stub answers for itself: there is no operator API behind it.
void gw_api_install(struct gw_core *core)
{
    (void)core;
}

enum base_status gw_infer_service_new(const struct gw_infer_options *options,
                                      struct gw_infer_service **out_service,
                                      struct base_error *error)
{
    (void)options;
    (void)out_service;
    return base_error_set(error, BASE_ERR_UNSUPPORTED, "models are not part of this program");
}

enum base_status gw_oip_json_read(struct base_arena *arena, struct base_str body, size_t json_bytes,
                                  struct gw_infer_call *out, struct base_error *error)
{
    (void)arena;
    (void)body;
    (void)json_bytes;
    (void)out;
    return base_error_set(error, BASE_ERR_UNSUPPORTED, "models are not part of this program");
}

void gw_infer_service_free(struct gw_infer_service *service)
{
    (void)service;
}

void gw_infer_install(struct gw_core *core, struct gw_infer_service *service,
                      enum gw_metrics_access access)
{
    (void)core;
    (void)service;
    (void)access;
}

enum base_status gw_release_open(struct gw_core *core, struct gw_infer_service *service,
                                 struct gw_releases **out, struct base_error *error)
{
    (void)core;
    (void)service;
    (void)out;
    (void)error;
    return BASE_OK;
}

void gw_release_close(struct gw_releases *releases)
{
    (void)releases;
}

void gw_ddi_install(struct gw_core *core)
{
    (void)core;
}

enum base_status gw_core_new(const struct gw_core_options *options, struct gw_core **out_core,
                             struct base_error *error)
{
    (void)options;
    (void)error;
    *out_core = calloc(1, sizeof(**out_core));
    return *out_core != NULL ? BASE_OK : BASE_ERR_NOMEM;
}

void gw_core_free(struct gw_core *core)
{
    free(core);
}

uint64_t gw_core_root_expires_s(const struct gw_core *core)
{
    (void)core;
    return 0;
}

void gw_core_set_tunnel(struct gw_core *core, const struct gw_tunnel_seam *seam)
{
    (void)core;
    (void)seam;
}

enum base_status gw_core_load_dict(struct gw_core *core, uint32_t id, uint8_t **out_bytes,
                                   size_t *out_size)
{
    (void)core;
    (void)id;
    (void)out_bytes;
    (void)out_size;
    return BASE_ERR_NOT_FOUND;
}

void gw_core_set_disk(struct gw_core *core, enum gw_disk_level level)
{
    (void)core;
    (void)level;
}

void gw_core_set_checkin_interval(struct gw_core *core, uint32_t interval_s)
{
    (void)core;
    (void)interval_s;
}

void gw_core_set_ready(struct gw_core *core, bool ready)
{
    core->ready = ready;
}

enum base_status gw_worker_new(struct gw_core *core, void *post_ctx,
                               void (*post)(void *post_ctx, struct gw_message *message),
                               struct gw_worker **out_worker)
{
    (void)core;
    struct gw_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return BASE_ERR_NOMEM;
    }
    worker->post_ctx = post_ctx;
    worker->post = post;
    *out_worker = worker;
    return BASE_OK;
}

void gw_worker_free(struct gw_worker *worker)
{
    base_check(worker == NULL || (worker->hint_count == 0 && worker->tunnel_count == 0));
    free(worker);
}

void gw_core_refused(struct gw_worker *worker, const struct gw_exchange *exchange)
{
    (void)worker;
    (void)exchange;
}

// Here everything is the gateway's but what begins with /up/; the tunnel and HTTP/1.1's paths are
// as they are in the real table.
const struct gw_route *gw_route_find(const struct gw_worker *worker, struct base_str path)
{
    static const struct gw_route any = {.methods = GW_ROUTE_ANY};
    static const struct gw_route tunnel = {.methods = GW_ROUTE_POST,
                                           .flags = GW_ROUTE_DUPLEX | GW_ROUTE_EARLY};
    static const struct gw_route open = {.methods = GW_ROUTE_POST, .flags = GW_ROUTE_OPEN};
    static const struct gw_route http1 = {.methods = GW_ROUTE_ANY, .flags = GW_ROUTE_HTTP1};
    static const char *const watched[] = {"/", "/metrics", "/healthz", "/readyz", "/api/v1"};
    (void)worker;
    if (base_str_starts(path, BASE_STR("/up/"))) {
        return NULL;
    }
    if (base_str_equal(path, BASE_STR("/test/open"))) {
        return &open;
    }
    bool old = base_str_starts(path, BASE_STR("/api/v1/"));
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
        old = old || base_str_equal(path, base_str_of(watched[i]));
    }
    return base_str_equal(path, BASE_STR("/v1/tunnel")) ? &tunnel : old ? &http1 : &any;
}

static void header(struct gw_reply *reply, struct base_str name, struct base_str value)
{
    reply->headers[reply->header_count++] = (struct gw_header){name, value};
}

static void answer_later(struct gw_message *message)
{
    struct later *later = (struct later *)message;
    later->exchange->reply.status = 204;
    later->exchange->finish(later->exchange);
    free(later);
}

static void *run_later(void *ctx)
{
    struct later *later = ctx;
    later->worker->post(later->worker->post_ctx, &later->message);
    return NULL;
}

static void handle_later(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct later *later = calloc(1, sizeof(*later));
    base_check(later != NULL);
    later->message.run = answer_later;
    later->exchange = exchange;
    later->worker = worker;
    pthread_t thread;
    base_check(pthread_create(&thread, NULL, run_later, later) == 0);
    (void)pthread_detach(thread);
}

static void handle_blob(struct gw_exchange *exchange, struct base_str size)
{
    uint64_t bytes = 0;
    struct gw_reply *reply = &exchange->reply;
    if (base_str_u64(size, &bytes) != BASE_OK) {
        reply->status = 404;
        return;
    }
    struct gw_blob *blob = malloc(sizeof(*blob));
    base_check(blob != NULL);
    blob->bytes = bytes;
    memset(blob->piece, 'b', sizeof(blob->piece));
    reply->kind = GW_REPLY_BLOB;
    reply->status = 200;
    reply->blob = blob;
    reply->blob_bytes = bytes;
}

// Fields of every sort: some that stay the same, some that do not.
static void say_fields(struct gw_reply *reply)
{
    reply->status = 200;
    header(reply, BASE_STR("content-type"), BASE_STR("application/x-own"));
    header(reply, BASE_STR("etag"), BASE_STR("\"1\""));
    header(reply, BASE_STR("vary"), BASE_STR("accept"));
    header(reply, BASE_STR("cache-control"), BASE_STR("max-age=5"));
    header(reply, BASE_STR("x-own"), BASE_STR("y"));
    header(reply, BASE_STR("retry-after"), BASE_STR("7"));
    reply->body = (const uint8_t *)"abc";
    reply->body_bytes = 3;
}

static void hint_all(struct gw_worker *worker)
{
    for (struct gw_hint *hint = worker->hints; hint != NULL; hint = hint->next) {
        (void)worker->write(worker->write_ctx, hint,
                            BASE_STR("event: hint\ndata: {\"spread_ms\":0}\n\n"));
    }
}

static void say_trailers(struct gw_reply *reply)
{
    reply->status = 200;
    reply->body = (const uint8_t *)"body";
    reply->body_bytes = 4;
    reply->trailers[0] = (struct gw_header){BASE_STR("behind"), BASE_STR("one")};
    reply->trailers[1] = (struct gw_header){BASE_STR("farther"), BASE_STR("two")};
    reply->trailer_count = 2;
}

// ---- A stream that stays open, takes what comes and says nothing

static void open_input(struct gw_exchange *exchange, const uint8_t *bytes, size_t size)
{
    (void)bytes;
    exchange->open->consume(exchange, size);
}

static void open_finish(struct gw_exchange *exchange)
{
    exchange->finish(exchange);
}

static size_t open_output(struct gw_exchange *exchange, uint8_t *out, size_t room)
{
    (void)exchange;
    (void)out;
    (void)room;
    return 0;
}

static void open_look(struct gw_exchange *exchange, struct gw_open_look *out)
{
    (void)exchange;
    *out = (struct gw_open_look){0};
}

// Whoever opens one has shown who it is.
static void handle_open(struct gw_exchange *exchange)
{
    static const struct gw_open_calls calls = {open_input, open_finish, open_output, open_look,
                                               open_finish};
    exchange->proven = true;
    exchange->gone = open_finish;
    exchange->reply.status = 200;
    exchange->open->begin(exchange, &calls);
}

void gw_core_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    static const char hundred[101] = "0123456789012345678901234567890123456789012345678901234567890"
                                     "123456789012345678901234567890123456789";
    const struct gw_request *request = &exchange->request;
    struct gw_reply *reply = &exchange->reply;
    if (base_str_equal(request->path, BASE_STR("/v1/checkin"))) {
        reply->status = 204;
    } else if (base_str_equal(request->path, BASE_STR("/v1/later"))) {
        handle_later(worker, exchange);
        return;
    } else if (base_str_equal(request->path, BASE_STR("/test/held")) ||
               base_str_equal(request->path, BASE_STR("/api/v1/held"))) {
        if (worker->held == NULL) {
            worker->held = exchange;
            return;
        }
        reply->status = 503; // one at a time
    } else if (base_str_equal(request->path, BASE_STR("/v1/push"))) {
        reply->kind = GW_REPLY_STREAM;
        reply->status = 200;
        header(reply, BASE_STR("content-type"), BASE_STR("text/event-stream"));
        reply->body = (const uint8_t *)"event: hello\ndata: {}\n\n";
        reply->body_bytes = 23;
    } else if (gw_route_has(exchange, GW_ROUTE_OPEN)) {
        handle_open(exchange);
        return;
    } else if (gw_route_has(exchange, GW_ROUTE_DUPLEX)) {
        reply->kind = request->device.size > 0 ? GW_REPLY_DUPLEX : GW_REPLY_BYTES;
        reply->status = request->device.size > 0 ? 200 : 400;
        reply->device = 1234;
        reply->tenant = 0;
        reply->proven = true;
        reply->tenant = 5;
    } else if (base_str_equal(request->path, BASE_STR("/test/revoke"))) {
        for (struct gw_tunnel_watch *watch = worker->tunnels; watch != NULL; watch = watch->next) {
            worker->tunnel_end(worker->tunnel_ctx, watch);
        }
        reply->status = 204;
    } else if (base_str_equal(request->path, BASE_STR("/test/hint"))) {
        hint_all(worker);
        reply->status = 204;
    } else if (base_str_equal(request->path, BASE_STR("/test/fields"))) {
        say_fields(reply);
    } else if (base_str_equal(request->path, BASE_STR("/test/trailers"))) {
        say_trailers(reply);
    } else if (base_str_starts(request->path, BASE_STR("/v1/blob/"))) {
        handle_blob(exchange, (struct base_str){request->path.data + 9, request->path.size - 9});
    } else if (request->body_bytes > 0) {
        char *text = base_arena_alloc(exchange->arena, 32);
        reply->status = text != NULL ? 200 : 503;
        reply->body = (const uint8_t *)text;
        reply->body_bytes =
            text != NULL ? (size_t)snprintf(text, 32, "%zu bytes", request->body_bytes) : 0;
    } else {
        reply->status = 200;
        header(reply, BASE_STR("content-type"), BASE_STR("text/plain"));
        reply->body = (const uint8_t *)hundred;
        reply->body_bytes = 100;
    }
    exchange->finish(exchange);
}

// Every path takes a body; one in /api/v1/blobs/ a large one.
bool gw_core_head(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out)
{
    (void)worker;
    bool upload = base_str_starts(exchange->request.path, BASE_STR("/api/v1/blobs/"));
    *out = (struct gw_head){.size = upload ? GW_BODY_UPLOAD : GW_BODY_PLAIN};
    return true;
}

bool gw_grpc_problem(struct gw_exchange *exchange, int status, struct base_str detail)
{
    (void)exchange;
    (void)status;
    (void)detail;
    return false;
}

enum gw_early gw_core_early(struct gw_worker *worker, struct gw_exchange *exchange,
                            struct base_str piece, size_t *out_wanted)
{
    (void)worker;
    (void)exchange;
    (void)piece;
    (void)out_wanted;
    return GW_EARLY_GO_ON;
}

bool gw_core_prove(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out)
{
    (void)worker;
    (void)exchange;
    *out = (struct gw_head){0};
    return true;
}

struct base_str gw_core_proven_text(struct gw_worker *worker, const struct gw_head *head,
                                    char out[GW_PROVEN_TEXT_MAX])
{
    (void)worker;
    (void)head;
    return (struct base_str){out, 0};
}

struct base_str gw_worker_offer_header(struct gw_worker *worker, struct base_arena *arena,
                                       const struct gw_request *request)
{
    (void)worker;
    (void)arena;
    (void)request;
    return BASE_STR("b2ZmZXI");
}

bool gw_request_rides(const struct gw_request *request)
{
    return request->ride.size > 0;
}

bool gw_worker_ride_answer(struct gw_worker *worker, struct base_arena *arena,
                           const struct gw_request *request, struct base_str *out_offer)
{
    *out_offer = gw_worker_offer_header(worker, arena, request);
    return true;
}

// Durable at once; the one that says "held" when stub_core_let_go is called.
void gw_worker_ride_report(struct gw_worker *worker, struct gw_exchange *exchange)
{
    if (worker->held == NULL && base_str_equal(exchange->request.report, BASE_STR("held"))) {
        worker->held = exchange;
        return;
    }
    exchange->reply.status = 204;
    exchange->finish(exchange);
}

bool stub_core_let_go(struct gw_worker *worker)
{
    struct gw_exchange *exchange = worker->held;
    if (exchange != NULL) {
        worker->held = NULL;
        exchange->reply.status = 204;
        exchange->finish(exchange);
    }
    return exchange != NULL;
}

void gw_worker_on_hint(struct gw_worker *worker, gw_hint_fn write, gw_hint_end_fn end, void *ctx)
{
    (void)end;
    worker->write = write;
    worker->write_ctx = ctx;
}

void gw_worker_subscribe(struct gw_worker *worker, const struct gw_exchange *exchange,
                         struct gw_hint *hint)
{
    (void)exchange;
    hint->next = worker->hints;
    hint->prev = &worker->hints;
    if (hint->next != NULL) {
        hint->next->prev = &hint->next;
    }
    worker->hints = hint;
    worker->hint_count++;
}

void gw_worker_unsubscribe(struct gw_worker *worker, struct gw_hint *hint)
{
    *hint->prev = hint->next;
    if (hint->next != NULL) {
        hint->next->prev = hint->prev;
    }
    worker->hint_count--;
}

void gw_worker_on_tunnel_end(struct gw_worker *worker, gw_tunnel_end_fn end, void *ctx)
{
    worker->tunnel_end = end;
    worker->tunnel_ctx = ctx;
}

void gw_worker_watch_tunnel(struct gw_worker *worker, uint64_t device_id,
                            struct gw_tunnel_watch *watch)
{
    watch->device_id = device_id;
    watch->next = worker->tunnels;
    watch->prev = &worker->tunnels;
    if (watch->next != NULL) {
        watch->next->prev = &watch->next;
    }
    worker->tunnels = watch;
    worker->tunnel_count++;
}

void gw_worker_unwatch_tunnel(struct gw_worker *worker, struct gw_tunnel_watch *watch)
{
    *watch->prev = watch->next;
    if (watch->next != NULL) {
        watch->next->prev = watch->prev;
    }
    worker->tunnel_count--;
}

void gw_worker_on_alarm(struct gw_worker *worker, gw_alarm_fn set, void *ctx)
{
    (void)worker;
    (void)set;
    (void)ctx;
}

void gw_worker_alarm(struct gw_worker *worker)
{
    (void)worker;
}

uint64_t gw_worker_hint_count(const struct gw_worker *worker)
{
    return worker->hint_count;
}

const uint8_t *gw_blob_bytes(const struct gw_blob *blob, uint64_t at, size_t *out_size)
{
    if (at >= blob->bytes) {
        return NULL;
    }
    uint64_t left = blob->bytes - at;
    *out_size = left < sizeof(blob->piece) ? (size_t)left : sizeof(blob->piece);
    return blob->piece;
}

void gw_blob_release(struct gw_blob *blob)
{
    free(blob);
}

struct gw_transport_stats *gw_worker_transport_stats(struct gw_worker *worker)
{
    return &worker->stats;
}

void gw_worker_latency(struct gw_worker *worker, uint64_t latency_us)
{
    (void)worker;
    (void)latency_us;
}

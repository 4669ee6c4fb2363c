// gw_core_handle: from path and method to handler, and gw_core_head: the same as far as headers go.
// Worker's thread. Both are called by the transport (http/stream.c, stream_head.c). A row of the
// table of routes says which methods a path takes, who looks at its headers and as what its
// failures are noted; behind it come the device API of gateway/ddi, the operator API, and 404. What
// a body could not change is answered before it is read.
#include "svc/core_private.h"

#include "svc/content/blob.h"
#include "svc/device/device_faults.h"
#include "svc/content/exclusive.h"
#include "svc/access/head_check.h"

#include <stdio.h>
#include <string.h>

#define API_PREFIX  "/api/v1/"
#define BLOB_PREFIX "/v1/blob/"

#define READY_TEXT_MAX 256

// "/TENANT/controller/v1/...": hawkBit's device API.
static bool is_ddi_path(struct base_str path)
{
    struct base_str middle = BASE_STR("/controller/v1/");
    const char *slash = path.size > 1 ? memchr(path.data + 1, '/', path.size - 1) : NULL;
    size_t at = slash != NULL ? (size_t)(slash - path.data) : path.size;
    return base_str_starts((struct base_str){path.data + at, path.size - at}, middle);
}

bool gw_worker_owns_path(const struct gw_worker *worker, struct base_str path)
{
    return (worker->core->ddi != NULL && is_ddi_path(path)) ||
           base_str_starts(path, BASE_STR("/v1/")) || base_str_starts(path, BASE_STR("/api/")) ||
           base_str_equal(path, BASE_STR("/")) || base_str_equal(path, BASE_STR("/metrics")) ||
           base_str_equal(path, BASE_STR("/healthz")) || base_str_equal(path, BASE_STR("/readyz"));
}

bool gw_same_secret(struct base_str given, struct base_str secret)
{
    unsigned differ = given.size == secret.size && secret.size > 0 ? 0 : 1;
    for (size_t i = 0; i < given.size && secret.size > 0; i++) {
        differ |= (unsigned)(unsigned char)(given.data[i] ^ secret.data[i % secret.size]);
    }
    return differ == 0;
}

static void handle_api(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct gw_core *core = worker->core;
    struct gw_actor actor = {0};
    bool known = !exchange->refused && gw_access_check(core, exchange, &actor);
    if (core->api == NULL) {
        if (known) {
            gw_reply_problem(exchange, 404, "the operator API is not part of this program");
        }
        gw_exchange_finish(exchange);
        return;
    }
    core->api(worker, exchange, known ? &actor : NULL);
}

static void handle_health(struct gw_worker *worker, struct gw_exchange *exchange)
{
    (void)worker;
    gw_reply_body(exchange, 200, BASE_STR("text/plain"), "ok\n", 3);
    gw_exchange_finish(exchange);
}

// A clock in doubt is no reason to send nobody here: devices are served what was signed. Nor is a
// root that names other keys: its successor comes the same way. Both are said.
static void reply_ready(const struct gw_core *core, struct gw_exchange *exchange)
{
    enum gw_clock_doubt doubt =
        (enum gw_clock_doubt)atomic_load_explicit(&core->time.doubt, memory_order_relaxed);
    bool unnamed =
        atomic_load_explicit(&core->director.keys_unnamed_seen, memory_order_relaxed) > 0;
    char clock[READY_TEXT_MAX / 2] = "";
    char *text = base_arena_alloc(exchange->arena, READY_TEXT_MAX);
    int size = 0;
    if (doubt != GW_CLOCK_SURE) {
        (void)snprintf(clock, sizeof(clock), "; clock in doubt (%s): see /api/v1/clock",
                       gw_clock_doubt_name(doubt));
    }
    if (text != NULL) {
        size = snprintf(text, READY_TEXT_MAX, "ready%s%s\n", clock,
                        unnamed ? "; the root does not name this gateway's keys, devices take no "
                                  "release from it: see /api/v1/trust"
                                : "");
    }
    if (size > 0) {
        gw_reply_body(exchange, 200, BASE_STR("text/plain"), text, (size_t)size);
    } else {
        gw_reply_body(exchange, 200, BASE_STR("text/plain"), "ready\n", 6);
    }
}

static void handle_ready(struct gw_worker *worker, struct gw_exchange *exchange)
{
    if (atomic_load_explicit(&worker->core->ready, memory_order_relaxed)) {
        reply_ready(worker->core, exchange);
    } else {
        gw_reply_problem(exchange, 503, "draining");
    }
    gw_exchange_finish(exchange);
}

struct route {
    struct base_str path;
    bool prefix;
    bool get; // GET and HEAD
    bool post;
    void (*handle)(struct gw_worker *worker, struct gw_exchange *exchange);
    // Looks at the headers when a body is to come; NULL: there is nothing to look at.
    bool (*head)(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out);
    enum gw_fault_what noted_as; // NONE: its failures are not noted
};

#define LITERAL(text)                                                                              \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }

// Nothing of a body is looked at: whoever enrols is answered by the headers.
static bool wants_none(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out)
{
    (void)worker;
    (void)exchange;
    (void)out;
    return false;
}

static const struct route routes[] = {
    {LITERAL("/v1/checkin"), false, false, true, gw_checkin_handle, NULL, GW_FAULT_CHECKIN},
    {LITERAL("/v1/report"), false, false, true, gw_report_handle, gw_report_head, GW_FAULT_REPORT},
    {LITERAL(BLOB_PREFIX), true, true, false, gw_blob_handle, NULL, GW_FAULT_NONE},
    {LITERAL(GW_EXCLUSIVE_PREFIX), true, true, false, gw_exclusive_handle, NULL, GW_FAULT_NONE},
    {LITERAL("/v1/push"), false, true, false, gw_push_handle, NULL, GW_FAULT_NONE},
    {LITERAL("/v1/tunnel"), false, false, true, gw_tunnel_handle, NULL, GW_FAULT_NONE},
    {LITERAL("/v1/enroll"), false, false, true, gw_enroll_handle, wants_none, GW_FAULT_NONE},
    {LITERAL("/v1/meta/"), true, true, false, gw_meta_handle, NULL, GW_FAULT_NONE},
    {LITERAL("/metrics"), false, true, false, gw_metrics_handle, NULL, GW_FAULT_NONE},
    {LITERAL("/healthz"), false, true, false, handle_health, NULL, GW_FAULT_NONE},
    {LITERAL("/readyz"), false, true, false, handle_ready, NULL, GW_FAULT_NONE},
};

static bool route_takes(const struct route *route, struct base_str path)
{
    return route->prefix ? base_str_starts(path, route->path) : base_str_equal(path, route->path);
}

static bool method_fits(const struct route *route, enum gw_method method)
{
    return (route->get && (method == GW_METHOD_GET || method == GW_METHOD_HEAD)) ||
           (route->post && method == GW_METHOD_POST);
}

// NULL: none of the table.
static const struct route *find_route(struct base_str path)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (route_takes(&routes[i], path)) {
            return &routes[i];
        }
    }
    return NULL;
}

bool gw_core_head(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out)
{
    const struct gw_request *request = &exchange->request;
    const struct route *route = find_route(request->path);
    *out = (struct gw_head){.size = GW_BODY_SMALL};
    if (route != NULL) {
        return method_fits(route, request->method) &&
               (route->head == NULL || route->head(worker, exchange, out));
    }
    if (worker->core->ddi != NULL && is_ddi_path(request->path)) {
        return gw_ddi_head(worker, exchange, out);
    }
    return base_str_starts(request->path, BASE_STR(API_PREFIX)) &&
           gw_api_head(worker, exchange, out);
}

void gw_core_refused(struct gw_worker *worker, const struct gw_exchange *exchange)
{
    const struct route *route =
        exchange->request.path.size > 0 ? find_route(exchange->request.path) : NULL;
    if (route != NULL && route->noted_as != GW_FAULT_NONE) {
        gw_faults_note(worker->core, route->noted_as, exchange);
    }
}

void gw_core_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    const struct gw_request *request = &exchange->request;
    const struct route *route = find_route(request->path);
    enum gw_fault_what noted_as = route != NULL ? route->noted_as : GW_FAULT_NONE;
    exchange->noted = noted_as != GW_FAULT_NONE ? worker->core : NULL;
    exchange->noted_as = (int)noted_as;
    if (route != NULL) {
        if (exchange->refused) {
            gw_exchange_finish(exchange);
        } else if (method_fits(route, request->method)) {
            route->handle(worker, exchange);
        } else {
            gw_reply_method(exchange, route->get ? "GET, HEAD" : "POST");
            gw_exchange_finish(exchange);
        }
        return;
    }
    if (base_str_equal(request->path, BASE_STR("/")) && worker->core->api != NULL) {
        worker->core->api(worker, exchange,
                          NULL); // the console page holds no data: it needs no token
        return;
    }
    if (worker->core->ddi != NULL && is_ddi_path(request->path)) {
        worker->core->ddi(worker, exchange);
        return;
    }
    if (base_str_starts(request->path, BASE_STR(API_PREFIX))) {
        handle_api(worker, exchange);
        return;
    }
    gw_reply_problem(exchange, 404, "no such path");
    gw_exchange_finish(exchange);
}

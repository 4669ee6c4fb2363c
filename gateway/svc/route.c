// The table of routes, and the way from it: gw_core_head as far as headers go, gw_core_handle to
// the answer. Worker's thread; called by the transport (http/stream.c, stream_head.c), which may
// have looked the route up already. What a body could not change is answered before it is read.
#include "svc/route.h"

#include "svc/core_private.h"

#include "svc/content/blob.h"
#include "svc/device/device_faults.h"
#include "svc/content/exclusive.h"
#include "svc/access/head_check.h"
#include "svc/access/operators.h"
#include "svc/device/checkin.h"
#include "svc/device/hints.h"
#include "svc/device/report_intake.h"
#include "svc/metrics_text.h"
#include "svc/reply.h"
#include "svc/trust/director_private.h"
#include "svc/tunnel_admit.h"
#include "svc/core_worker.h"

#include <stdio.h>
#include <string.h>

#define READY_TEXT_MAX 256

bool gw_same_secret(struct base_str given, struct base_str secret)
{
    unsigned differ = given.size == secret.size && secret.size > 0 ? 0 : 1;
    for (size_t i = 0; i < given.size && secret.size > 0; i++) {
        differ |= (unsigned)(unsigned char)(given.data[i] ^ secret.data[i % secret.size]);
    }
    return differ == 0;
}

static void handle_unknown(struct gw_worker *worker, struct gw_exchange *exchange)
{
    (void)worker;
    gw_reply_problem(exchange, 404, "no such path");
    gw_exchange_finish(exchange);
}

static void handle_api(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct gw_core *core = worker->core;
    struct gw_actor actor = {0};
    bool known = !exchange->refused && gw_access_check(core, exchange, &actor);
    if (core->hooks.api == NULL) {
        if (known) {
            gw_reply_problem(exchange, 404, "the operator API is not part of this program");
        }
        gw_exchange_finish(exchange);
        return;
    }
    core->hooks.api(worker, exchange, known ? &actor : NULL);
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
        atomic_load_explicit(&core->director->keys_unnamed_seen, memory_order_relaxed) > 0;
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
    if (atomic_load_explicit(&worker->core->set.ready, memory_order_relaxed)) {
        reply_ready(worker->core, exchange);
    } else {
        gw_reply_problem(exchange, 503, "draining");
    }
    gw_exchange_finish(exchange);
}

// It holds no data: it needs no token.
static void handle_console(struct gw_worker *worker, struct gw_exchange *exchange)
{
    if (worker->core->hooks.console == NULL) {
        handle_unknown(worker, exchange);
        return;
    }
    worker->core->hooks.console(exchange);
    gw_exchange_finish(exchange);
}

static void handle_ddi(struct gw_worker *worker, struct gw_exchange *exchange)
{
    worker->core->hooks.ddi(worker, exchange);
}

static void handle_infer(struct gw_worker *worker, struct gw_exchange *exchange)
{
    const struct gw_infer_seam *infer = &worker->core->hooks.infer;
    if (exchange->refused) {
        gw_exchange_finish(exchange);
        return;
    }
    infer->handle(infer->self, worker, exchange);
}

static void handle_infer_grpc(struct gw_worker *worker, struct gw_exchange *exchange)
{
    const struct gw_infer_seam *infer = &worker->core->hooks.infer;
    infer->grpc(infer->self, worker, exchange);
}

// Nothing of a body is looked at: whoever asks is answered by the headers.
static bool wants_none(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out)
{
    (void)worker;
    (void)exchange;
    (void)out;
    return false;
}

#define PATH(text)                                                                                 \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }
#define IS(text)     PATH(text), GW_ROUTE_IS
#define BEGINS(text) PATH(text), GW_ROUTE_BEGINS
#define TENANT(text) PATH(text), GW_ROUTE_TENANT
#define TUNNEL_FLAGS (GW_ROUTE_DUPLEX | GW_ROUTE_EARLY)

// The first that fits counts. The last ones keep from the upstream what looks like ours.
static const struct gw_route routes[] = {
    {IS("/v1/checkin"), GW_ROUTE_POST, 0, GW_FOR_DEVICES, GW_BODY_SMALL, GW_FAULT_CHECKIN,
     gw_checkin_handle, NULL},
    {IS("/v1/report"), GW_ROUTE_POST, 0, GW_FOR_DEVICES, GW_BODY_SMALL, GW_FAULT_REPORT,
     gw_report_handle, gw_report_head},
    {BEGINS(GW_BLOB_PATH), GW_ROUTE_GET, 0, GW_FOR_DEVICES, GW_BODY_SMALL, 0, gw_blob_handle, NULL},
    {BEGINS("/v1/exclusive/"), GW_ROUTE_GET, 0, GW_FOR_ONE_DEVICE, GW_BODY_SMALL, 0,
     gw_exclusive_handle, NULL},
    {IS("/v1/push"), GW_ROUTE_GET, 0, GW_FOR_DEVICES, GW_BODY_SMALL, 0, gw_hints_handle, NULL},
    {IS("/v1/tunnel"), GW_ROUTE_POST, TUNNEL_FLAGS, GW_FOR_DEVICES, GW_BODY_SMALL, 0,
     gw_tunnel_handle, NULL},
    {IS("/v1/enroll"), GW_ROUTE_POST, 0, GW_FOR_ENROLMENT, GW_BODY_SMALL, 0, gw_enroll_handle,
     wants_none},
    {BEGINS("/v1/meta/"), GW_ROUTE_GET, 0, GW_FOR_ANYBODY, GW_BODY_SMALL, 0, gw_meta_handle, NULL},
    {IS("/metrics"), GW_ROUTE_GET, GW_ROUTE_HTTP1, GW_FOR_WATCHERS, GW_BODY_SMALL, 0,
     gw_metrics_handle, NULL},
    {IS("/healthz"), GW_ROUTE_GET, GW_ROUTE_HTTP1, GW_FOR_ANYBODY, GW_BODY_SMALL, 0, handle_health,
     NULL},
    {IS("/readyz"), GW_ROUTE_GET, GW_ROUTE_HTTP1, GW_FOR_ANYBODY, GW_BODY_SMALL, 0, handle_ready,
     NULL},
    {IS("/"), GW_ROUTE_GET, GW_ROUTE_HTTP1, GW_FOR_ANYBODY, GW_BODY_SMALL, 0, handle_console,
     wants_none},
    {TENANT("/controller/v1/"), GW_ROUTE_ANY, 0, GW_FOR_UPDATERS, GW_BODY_PLAIN, 0, handle_ddi,
     gw_ddi_head},
    {IS(GW_API_PATH "console/session"), GW_ROUTE_ANY, GW_ROUTE_HTTP1, GW_FOR_LOGIN, GW_BODY_PLAIN,
     0, handle_api, gw_api_head},
    {BEGINS(GW_API_PATH), GW_ROUTE_ANY, GW_ROUTE_HTTP1, GW_FOR_OPERATORS, GW_BODY_PLAIN, 0,
     handle_api, gw_api_head},
    {IS("/v2"), GW_ROUTE_ANY, GW_ROUTE_OIP, GW_FOR_ANYBODY, GW_BODY_SMALL, 0, handle_infer,
     wants_none},
    {BEGINS("/v2/health/"), GW_ROUTE_ANY, GW_ROUTE_OIP, GW_FOR_ANYBODY, GW_BODY_SMALL, 0,
     handle_infer, wants_none},
    {BEGINS("/v2/"), GW_ROUTE_ANY, GW_ROUTE_OIP, GW_FOR_CALLERS, GW_BODY_INFER, 0, handle_infer,
     gw_infer_head},
    {IS("/inference.GRPCInferenceService/ModelStreamInfer"), GW_ROUTE_POST,
     GW_ROUTE_INFER | GW_ROUTE_OPEN, GW_FOR_CALLERS, GW_BODY_INFER, 0, handle_infer_grpc,
     gw_infer_head},
    {BEGINS("/inference.GRPCInferenceService/"), GW_ROUTE_POST, GW_ROUTE_INFER, GW_FOR_CALLERS,
     GW_BODY_INFER, 0, handle_infer_grpc, gw_infer_head},
    {IS("/api/v1"), GW_ROUTE_ANY, GW_ROUTE_HTTP1, GW_FOR_ANYBODY, GW_BODY_SMALL, 0, handle_unknown,
     wants_none},
    {BEGINS("/api/"), GW_ROUTE_ANY, 0, GW_FOR_ANYBODY, GW_BODY_SMALL, 0, handle_unknown,
     wants_none},
    {BEGINS("/v1/"), GW_ROUTE_ANY, 0, GW_FOR_ANYBODY, GW_BODY_SMALL, 0, handle_unknown, wants_none},
};

const struct gw_route *gw_routes(size_t *out_count)
{
    *out_count = sizeof(routes) / sizeof(routes[0]);
    return routes;
}

// The path behind its first segment: "/TENANT/controller/v1/..." is hawkBit's device API.
static struct base_str behind_first(struct base_str path)
{
    const char *slash = path.size > 1 ? memchr(path.data + 1, '/', path.size - 1) : NULL;
    size_t at = slash != NULL ? (size_t)(slash - path.data) : path.size;
    return (struct base_str){path.data + at, path.size - at};
}

static bool fits(const struct gw_worker *worker, const struct gw_route *route, struct base_str path)
{
    if ((route->flags & GW_ROUTE_INFER) != 0 && worker->core->hooks.infer.self == NULL) {
        return false;
    }
    if (route->match == GW_ROUTE_IS) {
        return base_str_equal(path, route->path);
    }
    if (route->match == GW_ROUTE_BEGINS) {
        return base_str_starts(path, route->path);
    }
    return worker->core->hooks.ddi != NULL && base_str_starts(behind_first(path), route->path);
}

const struct gw_route *gw_route_find(const struct gw_worker *worker, struct base_str path)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (fits(worker, &routes[i], path)) {
            return &routes[i];
        }
    }
    return NULL;
}

// The request's, which the transport may have looked up.
static const struct gw_route *route_of(struct gw_worker *worker, struct gw_exchange *exchange)
{
    if (exchange->route == NULL) {
        exchange->route = gw_route_find(worker, exchange->request.path);
    }
    return exchange->route;
}

bool gw_core_head(struct gw_worker *worker, struct gw_exchange *exchange, struct gw_head *out)
{
    const struct gw_route *route = route_of(worker, exchange);
    *out = (struct gw_head){.size = route != NULL ? route->body : GW_BODY_SMALL};
    return route != NULL && gw_route_takes(route, exchange->request.method) &&
           (route->head == NULL || route->head(worker, exchange, out));
}

void gw_core_refused(struct gw_worker *worker, const struct gw_exchange *exchange)
{
    const struct gw_route *route = exchange->route;
    if (route == NULL && exchange->request.path.size > 0) {
        route = gw_route_find(worker, exchange->request.path);
    }
    if (route != NULL && route->noted_as != GW_FAULT_NONE) {
        gw_faults_note(worker->core, (enum gw_fault_what)route->noted_as, exchange);
    }
}

static void note_fault(struct gw_core *core, int as, const struct gw_exchange *exchange)
{
    gw_faults_note(core, (enum gw_fault_what)as, exchange);
}

void gw_core_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    const struct gw_route *route = route_of(worker, exchange);
    int noted_as = route != NULL ? route->noted_as : GW_FAULT_NONE;
    exchange->note = noted_as != GW_FAULT_NONE ? note_fault : NULL;
    exchange->noted = worker->core;
    exchange->noted_as = noted_as;
    if (route == NULL) {
        handle_unknown(worker, exchange);
    } else if (exchange->refused && route->methods != GW_ROUTE_ANY) {
        gw_exchange_finish(exchange);
    } else if (gw_route_takes(route, exchange->request.method)) {
        route->handle(worker, exchange);
    } else {
        gw_reply_method(exchange, (route->methods & GW_ROUTE_GET) != 0 ? "GET, HEAD" : "POST");
        gw_exchange_finish(exchange);
    }
}

// HTTP in front of the service: paths, bodies of calls, errors. A request comes on its worker's
// thread. Calls of models go their way by infer_exchange.c, operators' changes by infer_change.c;
// what is only asked is answered at once.
#include "infer/rest/infer_http.h"

#include "infer/codec/oip_json.h"
#include "infer/device/device_call.h"
#include "infer/grpc/infer_grpc.h"
#include "infer/infer_change.h"
#include "infer/infer_exchange.h"
#include "infer/release/model_release.h"
#include "infer/rest/infer_text.h"
#include "svc/access/head_check.h"
#include "svc/reply.h"
#include "svc/route.h"

#include <stdio.h>
#include <string.h>

#define SEGMENTS_MAX 6u
#define JSON_LENGTH  "inference-header-content-length"

// ---- Replies

static int http_status(enum base_status status)
{
    switch (status) {
    case BASE_ERR_DENIED:
        return 403;
    case BASE_ERR_NOT_FOUND:
        return 404;
    case BASE_ERR_TOO_LARGE:
        return 413;
    case BASE_ERR_LIMIT:
        return 429;
    case BASE_ERR_CONFLICT: // not loaded
    case BASE_ERR_BUSY:
    case BASE_ERR_NOMEM:
    case BASE_ERR_CLOSED:
        return 503;
    case BASE_ERR_TIMEOUT:
        return 504;
    default:
        return base_status_is_input(status) ? 400 : 500;
    }
}

static void reply_error(struct gw_exchange *exchange, int status, const char *text)
{
    struct base_str body = gw_oip_json_error(exchange->arena, base_str_of(text));
    gw_reply_body(exchange, status, BASE_STR("application/json"), body.data, body.size);
}

static void refuse(struct gw_exchange *exchange, int status, const char *text)
{
    reply_error(exchange, status, text);
    gw_exchange_finish(exchange);
}

static void refuse_failed(struct gw_exchange *exchange, const struct base_error *error)
{
    refuse(exchange, http_status(error->status), error->text);
}

static void reply_json(struct gw_exchange *exchange, struct base_str body)
{
    if (body.data == NULL) {
        refuse(exchange, 503, "out of memory");
        return;
    }
    gw_reply_body(exchange, 200, BASE_STR("application/json"), body.data, body.size);
    gw_exchange_finish(exchange);
}

// ---- Calls of models

static enum base_status read_call(struct gw_infer_exchange *self, struct base_error *error)
{
    return gw_oip_json_read(&self->arena, self->asked, self->asked_json, &self->call, error);
}

static enum base_status write_result(struct gw_infer_exchange *self)
{
    return gw_oip_json_write(&self->written, &self->call, &self->ticket.result, &self->answer,
                             &self->answer_json);
}

static void reply_result(struct gw_infer_exchange *self)
{
    struct gw_exchange *exchange = self->exchange;
    char text[24];
    gw_reply_body(exchange, 200,
                  self->answer_json > 0 ? BASE_STR("application/octet-stream")
                                        : BASE_STR("application/json"),
                  self->answer.data, self->answer.size);
    if (self->answer_json > 0) {
        int size = snprintf(text, sizeof(text), "%zu", self->answer_json);
        const char *copy = base_arena_text(exchange->arena, text, (size_t)size);
        gw_reply_header(&exchange->reply, BASE_STR(JSON_LENGTH), base_str_of(copy));
    }
}

static void reply_call(struct gw_infer_exchange *self)
{
    const struct gw_infer_ticket *ticket = &self->ticket;
    if (ticket->status == BASE_OK) {
        reply_result(self);
        return;
    }
    reply_error(self->exchange, http_status(ticket->status), ticket->error.text);
    if (ticket->status == BASE_ERR_LIMIT) {
        gw_reply_retry_after(self->exchange, ticket->retry_after_s);
    }
}

// How much of a body of so many bytes is JSON, as the header says; 0: all. False: it says nonsense.
static bool read_json_bytes(const struct gw_request *request, size_t body_bytes, size_t *out)
{
    uint64_t size = 0;
    *out = 0;
    if (request->infer_json.size == 0) {
        return true;
    }
    if (base_str_u64(request->infer_json, &size) != BASE_OK || size == 0 || size > body_bytes) {
        return false;
    }
    *out = (size_t)size;
    return true;
}

// False: the device or the tenant had its quota, and the reply says so.
static bool charge(struct gw_infer_exchange *call, const struct gw_head *head)
{
    struct gw_exchange *exchange = call->exchange;
    struct base_error error = {0};
    uint32_t retry_after_s = 0;
    if (gw_infer_exchange_charge(call, head, exchange->request.body_bytes, &retry_after_s,
                                 &error) == BASE_OK) {
        return true;
    }
    reply_error(exchange, http_status(error.status), error.text);
    if (retry_after_s > 0) {
        gw_reply_retry_after(exchange, retry_after_s);
    }
    gw_exchange_finish(exchange);
    return false;
}

static void infer(struct gw_infer_service *service, struct gw_worker *worker,
                  struct gw_exchange *exchange, const struct gw_head *head,
                  const struct gw_infer_call *named)
{
    static const struct gw_infer_protocol protocol = {read_call, write_result, reply_call};
    const struct gw_request *request = &exchange->request;
    struct gw_infer_exchange *call =
        gw_infer_exchange_new(service, worker, exchange, head, &protocol);
    if (call == NULL) {
        refuse(exchange, 503, "out of memory");
        return;
    }
    if (!charge(call, head)) {
        return;
    }
    if (!read_json_bytes(request, request->body_bytes, &call->asked_json)) {
        refuse(exchange, 400, JSON_LENGTH ": is no number from 1 to the length of the body");
        return;
    }
    call->asked = (struct base_str){(const char *)request->body, request->body_bytes};
    call->asked_raw = call->asked_json > 0 ? request->body_bytes - call->asked_json : 0;
    call->call.model = named->model;
    call->call.version = named->version;
    gw_infer_exchange_begin(call, GW_INFER_TIMEOUT_US_MAX);
}

// ---- Loading

static int change_code(enum base_status status)
{
    // A name of another model is no reason to try again, as a model that is not loaded is.
    return status == BASE_OK ? 200 : status == BASE_ERR_CONFLICT ? 409 : http_status(status);
}

static void reply_change(struct gw_exchange *exchange, enum base_status status, const char *text)
{
    if (status == BASE_OK) {
        gw_reply_body(exchange, 200, BASE_STR("application/json"), "{}", 2);
    } else {
        reply_error(exchange, change_code(status), text);
    }
}

static void change(struct gw_infer_service *service, struct gw_worker *worker,
                   struct gw_exchange *exchange, struct base_str model, bool load)
{
    static const struct gw_infer_change_protocol protocol = {change_code, reply_change};
    const struct gw_infer_change_wish wish = {.service = service, .model = model, .load = load};
    gw_infer_change(worker, exchange, &wish, &protocol);
}

// ---- What there is

static void metadata(struct gw_infer_service *service, struct gw_exchange *exchange,
                     const struct gw_infer_call *named)
{
    struct gw_infer_metadata metadata = {0};
    struct base_error error = {0};
    if (gw_infer_metadata(service, named, exchange->arena, &metadata, &error) != BASE_OK) {
        refuse_failed(exchange, &error);
        return;
    }
    reply_json(exchange, gw_infer_metadata_json(exchange->arena, &metadata));
}

static void rows(struct gw_infer_service *service, struct gw_exchange *exchange,
                 const struct gw_infer_call *named, bool stats)
{
    struct gw_infer_row *rows = NULL;
    size_t count = 0;
    struct base_error error = {0};
    struct gw_infer_metadata metadata;
    struct base_arena *arena = exchange->arena;
    if (named->model.size > 0 &&
        gw_infer_metadata(service, named, arena, &metadata, &error) != BASE_OK) {
        refuse_failed(exchange, &error); // there is none of this name or version
        return;
    }
    if (gw_infer_rows(service, named, arena, &rows, &count) != BASE_OK) {
        refuse(exchange, 503, "out of memory");
        return;
    }
    reply_json(exchange, stats ? gw_infer_stats_json(arena, rows, count, named->version)
                               : gw_infer_index_json(arena, rows, count));
}

static void health(struct gw_exchange *exchange, bool good)
{
    if (good) {
        gw_reply_status(exchange, 200);
        gw_exchange_finish(exchange);
    } else {
        refuse(exchange, 503, "not ready");
    }
}

// ---- Paths

enum what {
    NOTHING,
    SERVER,
    LIVE,
    READY,
    METADATA,
    MODEL_READY,
    STATS,
    INFER,
    INDEX,
    LOAD,
    UNLOAD,
};

// The segments behind "/v2"; their number, SEGMENTS_MAX + 1: too many.
static uint32_t split(struct base_str path, struct base_str out[SEGMENTS_MAX])
{
    uint32_t count = 0;
    size_t at = sizeof("/v2") - 1;
    while (at < path.size) {
        size_t end = ++at;
        while (end < path.size && path.data[end] != '/') {
            end++;
        }
        if (count == SEGMENTS_MAX) {
            return SEGMENTS_MAX + 1;
        }
        out[count++] = (struct base_str){path.data + at, end - at};
        at = end;
    }
    return count;
}

static bool is(struct base_str text, const char *word)
{
    return base_str_equal(text, base_str_of(word));
}

static enum what what_of_model(const struct base_str *parts, uint32_t count,
                               struct gw_infer_call *named)
{
    if (count == 2 && is(parts[1], "stats")) {
        return STATS; // of all models
    }
    named->model = parts[1];
    uint32_t at = 2;
    if (count >= 4 && is(parts[2], "versions")) {
        named->version = parts[3];
        at = 4;
    }
    if (named->model.size == 0 || (at == 4 && named->version.size == 0) || count > at + 1) {
        return NOTHING;
    }
    if (count == at) {
        return METADATA;
    }
    return is(parts[at], "infer")   ? INFER
           : is(parts[at], "ready") ? MODEL_READY
           : is(parts[at], "stats") ? STATS
                                    : NOTHING;
}

static enum what what_of(struct base_str path, struct gw_infer_call *named)
{
    struct base_str parts[SEGMENTS_MAX];
    uint32_t count = split(path, parts);
    if (count == 0) {
        return SERVER;
    }
    if (count == 2 && is(parts[0], "health")) {
        return is(parts[1], "live") ? LIVE : is(parts[1], "ready") ? READY : NOTHING;
    }
    if (count >= 2 && count <= SEGMENTS_MAX && is(parts[0], "models")) {
        return what_of_model(parts, count, named);
    }
    if (count == 2 && is(parts[0], "repository") && is(parts[1], "index")) {
        return INDEX;
    }
    if (count == 4 && is(parts[0], "repository") && is(parts[1], "models")) {
        named->model = parts[2];
        return is(parts[3], "load") ? LOAD : is(parts[3], "unload") ? UNLOAD : NOTHING;
    }
    return NOTHING;
}

static bool takes(enum what what, enum gw_method method)
{
    bool post = what == INFER || what == INDEX || what == LOAD || what == UNLOAD;
    bool get = !post || what == INDEX;
    return (post && method == GW_METHOD_POST) ||
           (get && (method == GW_METHOD_GET || method == GW_METHOD_HEAD));
}

static void answer(struct gw_infer_service *service, struct gw_exchange *exchange, enum what what,
                   const struct gw_infer_call *named)
{
    switch (what) {
    case SERVER:
        reply_json(exchange, gw_infer_server_json(exchange->arena));
        break;
    case LIVE:
        health(exchange, true);
        break;
    case READY:
        health(exchange, gw_infer_ready(service));
        break;
    case MODEL_READY:
        health(exchange, gw_infer_model_ready(service, named->model, named->version));
        break;
    case METADATA:
        metadata(service, exchange, named);
        break;
    default:
        rows(service, exchange, named, what == STATS);
        break;
    }
}

// What a call's JSON says of its priority and timeout may be enough to refuse it; where not all of
// the body is JSON that comes long before its end.
static enum gw_early early(void *self, struct gw_exchange *exchange, struct base_str piece,
                           size_t *out_wanted)
{
    struct gw_infer_call named = {.priority = GW_INFER_PRIORITY_USUAL};
    struct base_error error = {0};
    uint32_t retry_after_s = 0;
    size_t json = 0;
    if (!gw_route_has(exchange, GW_ROUTE_OIP)) {
        return gw_infer_grpc_early(self, exchange, piece, out_wanted);
    }
    if (what_of(exchange->request.path, &named) != INFER ||
        !read_json_bytes(&exchange->request, GW_INFER_READ_HERE_MAX, &json) || json == 0 ||
        !gw_infer_crowded(self, &named)) {
        return GW_EARLY_GO_ON;
    }
    if (piece.size < json) {
        *out_wanted = json;
        return GW_EARLY_MORE;
    }
    if (gw_oip_json_early(exchange->arena, (struct base_str){piece.data, json}, &named) !=
            BASE_OK ||
        gw_infer_foresee(self, &named, &retry_after_s, &error) == BASE_OK) {
        return GW_EARLY_GO_ON;
    }
    reply_error(exchange, http_status(error.status), error.text);
    gw_reply_retry_after(exchange, retry_after_s);
    return GW_EARLY_REFUSED;
}

static void handle(void *self, struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct gw_infer_service *service = self;
    struct gw_infer_call named = {.priority = 0};
    struct gw_head head = {0};
    enum what what = what_of(exchange->request.path, &named);
    bool open = exchange->route->who == GW_FOR_ANYBODY;
    if (!open && !gw_infer_admit(worker, exchange, &head)) {
        gw_exchange_finish(exchange);
    } else if (gw_release_handle(service, worker, exchange)) {
        return;
    } else if (what == NOTHING) {
        refuse(exchange, 404, "no such path of the inference service");
    } else if (!takes(what, exchange->request.method)) {
        gw_reply_method(exchange, takes(what, GW_METHOD_GET) ? "GET, HEAD" : "POST");
        gw_exchange_finish(exchange);
    } else if (what == INFER && gw_device_call_is(&exchange->request)) {
        gw_device_call(service, worker, exchange, &head, &named);
    } else if (what == INFER) {
        infer(service, worker, exchange, &head, &named);
    } else if (what == LOAD || what == UNLOAD) {
        change(service, worker, exchange, named.model, what == LOAD);
    } else {
        answer(service, exchange, what, &named);
    }
}

void gw_infer_install(struct gw_core *core, struct gw_infer_service *service,
                      enum gw_metrics_access access)
{
    const struct gw_infer_seam seam = {.self = service,
                                       .access = access,
                                       .handle = handle,
                                       .grpc = gw_infer_grpc_handle,
                                       .early = early,
                                       .figures = gw_infer_metrics};
    gw_core_set_infer(core, &seam);
}

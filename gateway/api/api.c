// Router of the operator API: path and query to a route, the trip to the control thread and back.
// Called by the core on the worker's thread. Routes are one table (api_routes.h): method,
// pattern, least role, subject, the two functions of the handler. What needs no body is checked at
// a request's headers already, so that a large body that nobody may send is not read. Anything that
// changes something goes through api_change.c, all else through the guard and straight to its
// handler. Helpers that many handlers share stand at the end.
#include "api/api.h"

#include "api/api_call.h"
#include "svc/trust/director.h"
#include "svc/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API_PREFIX     BASE_STR(GW_API_PATH)
#define NAME_SHOWN_MAX 40u // of a parameter that nobody knows

// One row a route, each with the least role that may and what it is about: a test walks them all
// against what every role, scenario and tenant may do.
static const struct gw_api_route routes[] = {
#define ROUTE(method, pattern, role, subject, prepare, work, flags)                                \
    {GW_METHOD_##method, pattern, GW_ROLE_##role, GW_API_##subject, prepare, work, flags},
    GW_API_ROUTE_MAP(ROUTE)
#undef ROUTE
};

const struct gw_api_route *gw_api_routes(size_t *out_count)
{
    *out_count = sizeof(routes) / sizeof(routes[0]);
    return routes;
}

bool gw_api_fail(struct gw_api_call *call, enum base_status status, const char *detail)
{
    gw_reply_failure(gw_api_exchange(call), status, detail, 1);
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Percent-decoding into the arena. False: a bad escape, a NUL, or over the limit.
static bool decode(struct base_arena *arena, struct base_str text, struct base_str *out)
{
    if (text.size > 3 * (size_t)GW_API_SEGMENT_MAX) {
        return false;
    }
    char *bytes = base_arena_alloc(arena, text.size + 1);
    size_t size = 0;
    if (bytes == NULL) {
        return false;
    }
    for (size_t i = 0; i < text.size; ++i) {
        char c = text.data[i];
        if (c == '%') {
            int high = i + 2 < text.size ? hex_digit(text.data[i + 1]) : -1;
            int low = i + 2 < text.size ? hex_digit(text.data[i + 2]) : -1;
            if (high < 0 || low < 0 || high + low == 0) {
                return false;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        bytes[size++] = c;
    }
    bytes[size] = '\0';
    *out = (struct base_str){bytes, size};
    return size <= GW_API_SEGMENT_MAX;
}

// Splits the path behind /api/v1/ into decoded segments. A trailing slash is ignored.
static bool split_path(struct gw_api_call *call, struct base_str path)
{
    struct base_arena *arena = gw_api_exchange(call)->arena;
    struct base_str rest = {path.data + API_PREFIX.size, path.size - API_PREFIX.size};

    while (rest.size > 0) {
        const char *slash = memchr(rest.data, '/', rest.size);
        size_t size = slash != NULL ? (size_t)(slash - rest.data) : rest.size;
        if (call->segment_count == GW_API_SEGMENTS_MAX ||
            !decode(arena, (struct base_str){rest.data, size},
                    &call->segments[call->segment_count])) {
            return false;
        }
        call->segment_count++;
        size_t used = slash != NULL ? size + 1 : size;
        rest = (struct base_str){rest.data + used, rest.size - used};
    }
    return call->segment_count > 0;
}

static bool pattern_fits(const char *pattern, const struct gw_api_call *call)
{
    uint32_t index = 0;

    for (const char *at = pattern; *at != '\0';) {
        const char *slash = strchr(at, '/');
        struct base_str word = {at, slash != NULL ? (size_t)(slash - at) : strlen(at)};
        if (index == call->segment_count) {
            return false;
        }
        bool any = word.size == 1 && word.data[0] == '*';
        if (any ? call->segments[index].size == 0 : !base_str_equal(word, call->segments[index])) {
            return false;
        }
        index++;
        at += word.size + (slash != NULL ? 1 : 0);
    }
    return index == call->segment_count;
}

// The route, or NULL after filling the reply with 404 or 405.
static const struct gw_api_route *find_route(struct gw_api_call *call, enum gw_method method)
{
    bool get = false;
    bool post = false;
    bool put = false;

    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); ++i) {
        if (pattern_fits(routes[i].pattern, call)) {
            if (routes[i].method == method) {
                return &routes[i];
            }
            get = get || routes[i].method == GW_METHOD_GET;
            post = post || routes[i].method == GW_METHOD_POST;
            put = put || routes[i].method == GW_METHOD_PUT;
        }
    }
    if (!get && !post && !put) {
        gw_reply_problem(gw_api_exchange(call), 404, "no such resource; docs/API.md lists them");
    } else {
        gw_reply_method(gw_api_exchange(call), get && post  ? "GET, POST"
                                               : get && put ? "GET, PUT"
                                               : get        ? "GET"
                                               : post       ? "POST"
                                                            : "PUT");
    }
    return NULL;
}

// What changes something is noted in the audit log, done or refused. A POST that is about nothing,
// or asks about a rollout, is a question with a body.
static bool is_change(const struct gw_request *request, const struct gw_api_route *route)
{
    return request->method != GW_METHOD_GET && request->method != GW_METHOD_HEAD &&
           (route == NULL ||
            (route->subject != GW_API_NOTHING && route->subject != GW_API_ROLLOUT_ASKED));
}

static void run_call(struct gw_core *core, struct gw_control_call *control)
{
    struct gw_api_call *call = (struct gw_api_call *)control;

    if (is_change(&gw_api_exchange(call)->request, call->route)) {
        gw_api_change(core, call);
    } else if (gw_api_permits(core, call)) {
        call->route->work(core, call);
    }
}

static void finish_call(struct gw_worker *worker, struct gw_control_call *control)
{
    (void)worker;
    gw_exchange_finish(control->exchange);
}

// A page of another origin can make a browser send plain forms here, but not this type without
// asking first.
static bool type_fits(const struct gw_request *request)
{
    return request->method != GW_METHOD_POST ||
           base_str_starts(request->content_type, BASE_STR("application/json"));
}

// Path, type and role: all that needs no body. False: the reply says what is wrong.
static bool check_head(struct gw_api_call *call, struct base_str path)
{
    struct gw_exchange *exchange = gw_api_exchange(call);

    if (!base_str_starts(path, API_PREFIX) || !split_path(call, path)) {
        gw_reply_problem(exchange, 404, "no such resource; docs/API.md lists them");
        return false;
    }
    call->route = find_route(call, exchange->request.method);
    if (call->route == NULL) {
        return false;
    }
    if (!type_fits(&exchange->request)) {
        gw_reply_problem(exchange, 415, "a POST has content-type: application/json");
        return false;
    }
    if (call->actor.role < call->route->role) {
        gw_reply_problem(exchange, 403, "this needs the role %s; the token has %s",
                         gw_role_name(call->route->role), gw_role_name(call->actor.role));
        return false;
    }
    return true;
}

static bool check_call(struct gw_api_call *call, struct base_str path)
{
    return check_head(call, path) && call->route->prepare(call);
}

// At the headers of a request with a body; see gw_api_head_fn.
static bool look_at_head(struct gw_exchange *exchange, const struct gw_actor *actor,
                         enum gw_body_size *out_size)
{
    struct gw_api_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        return false; // whoever answers finds no memory either
    }
    call->control.exchange = exchange;
    call->actor = *actor;
    bool wanted = check_head(call, exchange->request.path);
    bool upload = wanted && (call->route->flags & GW_API_UPLOAD) != 0;
    *out_size = upload ? GW_BODY_UPLOAD : GW_BODY_PLAIN;
    free(call);
    return wanted;
}

// A request that was refused before anybody looked at it: its status is filled.
static bool is_noted(struct gw_core *core, const struct gw_exchange *exchange)
{
    return is_change(&exchange->request, NULL) && exchange->reply.status != 429 &&
           gw_core_may_note_stranger(core);
}

// True when the call is on its way; otherwise the reply is filled.
static bool send_call(struct gw_worker *worker, struct gw_exchange *exchange,
                      const struct gw_actor *actor)
{
    struct gw_core *core = gw_worker_core(worker);
    if (actor == NULL && !is_noted(core, exchange)) {
        return false;
    }
    struct gw_api_call *call = base_arena_zalloc(exchange->arena, sizeof(*call));

    if (call == NULL) {
        gw_reply_busy(exchange, gw_core_retry_after_s(core));
        return false;
    }
    call->control.exchange = exchange;
    call->control.run = run_call;
    call->control.done = finish_call;
    call->limit = GW_API_PAGE_DEFAULT;
    call->request_id = gw_core_request_id(core);
    call->control.worker = worker;
    call->settled = actor == NULL;
    if (actor != NULL) {
        call->actor = *actor;
        call->settled = !check_call(call, exchange->request.path);
    }
    bool noted =
        is_change(&exchange->request, call->route) && (actor == NULL || call->route != NULL);
    if (call->settled && !noted) {
        return false;
    }
    // A refusal is noted where changes are: by the control thread.
    bool background = !call->settled && (call->route->flags & GW_API_BACKGROUND) != 0;
    enum base_status posted = background ? gw_background_post(worker, &call->control)
                                         : gw_control_post(worker, &call->control);
    if (posted != BASE_OK) {
        gw_reply_busy(exchange, gw_core_retry_after_s(core));
        return false;
    }
    return true;
}

// One request: exactly one gw_exchange_finish, now or later. `actor` NULL: refused already.
static void handle(struct gw_worker *worker, struct gw_exchange *exchange,
                   const struct gw_actor *actor)
{
    if (!send_call(worker, exchange, actor)) {
        gw_exchange_finish(exchange);
    }
}

void gw_api_install(struct gw_core *core)
{
    json_object_seed(0); // draws from the system; must happen before threads parse
    gw_core_set_api(core, handle, look_at_head);
    gw_core_set_console(core, gw_api_console);
}

// ---- Helpers of the handlers

bool gw_api_path_id(struct gw_api_call *call)
{
    if (wire_device_parse(call->segments[1], &call->id) != BASE_OK) {
        return gw_api_fail(call, BASE_ERR_INVALID, "path: an id is 16 lower-case hex digits");
    }
    return gw_api_no_query(call);
}

bool gw_api_decode(struct gw_api_call *call, struct base_str text, struct base_str *out)
{
    return decode(gw_api_exchange(call)->arena, text, out);
}

enum base_status gw_api_body(const struct gw_api_call *call, const char *const *names,
                             struct gw_json_at *out_root, struct base_error *error)
{
    const struct gw_exchange *exchange = gw_api_exchange(call);

    BASE_TRY(gw_json_parse(exchange->request.body, exchange->request.body_bytes, exchange->arena,
                           out_root, error));
    return gw_json_only(out_root, names, error);
}

enum base_status gw_api_who(struct gw_api_call *call, const struct gw_json_at *root,
                            struct base_error *error)
{
    BASE_TRY(gw_json_reason(root, true, GW_TRUST_REASON_MAX, &call->who.comment, error));
    return gw_json_text(root, gw_json_optional("by", GW_TRUST_BY_MAX), &call->who.by, error);
}

bool gw_api_unknown(struct gw_api_call *call, struct base_str name, const char *why)
{
    struct base_error error;
    const int shown = (int)(name.size < NAME_SHOWN_MAX ? name.size : NAME_SHOWN_MAX);

    (void)base_error_set(&error, BASE_ERR_INVALID, "query: unknown parameter '%.*s': %s", shown,
                         name.data, why);
    return gw_api_fail(call, BASE_ERR_INVALID, error.text);
}

bool gw_api_no_query(struct gw_api_call *call)
{
    struct base_str query = gw_api_exchange(call)->request.query;
    size_t size = 0;

    while (size < query.size && query.data[size] != '=' && query.data[size] != '&') {
        size++;
    }
    return query.size == 0 || gw_api_unknown(call, (struct base_str){query.data, size},
                                             "this resource takes no parameters");
}

static bool take_parameter(struct gw_api_call *call, struct base_str name, struct base_str value)
{
    uint64_t limit = 0;

    if (base_str_equal(name, BASE_STR("limit"))) {
        if (base_str_u64(value, &limit) != BASE_OK || limit == 0 || limit > GW_PAGE_MAX) {
            return gw_api_fail(call, BASE_ERR_INVALID, "query: limit is 1 to 500");
        }
        call->limit = (uint32_t)limit;
        return true;
    }
    if (base_str_equal(name, BASE_STR("after"))) {
        return decode(gw_api_exchange(call)->arena, value, &call->after) ||
               gw_api_fail(call, BASE_ERR_INVALID, "query: after is not a key");
    }
    return gw_api_unknown(call, name, "the parameters are limit and after");
}

static bool refuse_parameter(struct gw_api_call *call, struct base_str name, struct base_str value)
{
    (void)value;
    return gw_api_unknown(call, name, "this resource does not take it");
}

// Each parameter to `filter`, and what that does not know to `other`.
static bool each_parameter(struct gw_api_call *call, gw_api_filter_fn filter,
                           bool (*other)(struct gw_api_call *call, struct base_str name,
                                         struct base_str value))
{
    struct base_str rest = gw_api_exchange(call)->request.query;

    while (rest.size > 0) {
        const char *next = memchr(rest.data, '&', rest.size);
        size_t size = next != NULL ? (size_t)(next - rest.data) : rest.size;
        const char *equals = memchr(rest.data, '=', size);
        size_t name = equals != NULL ? (size_t)(equals - rest.data) : size;
        size_t value = equals != NULL ? name + 1 : size;
        struct base_str key = {rest.data, name};
        struct base_str text = {rest.data + value, size - value};
        bool known = false;
        if ((filter != NULL && !filter(call, key, text, &known)) ||
            (!known && !other(call, key, text))) {
            return false;
        }
        size_t used = next != NULL ? size + 1 : size;
        rest = (struct base_str){rest.data + used, rest.size - used};
    }
    return true;
}

bool gw_api_paging_with(struct gw_api_call *call, gw_api_filter_fn filter)
{
    return each_parameter(call, filter, take_parameter);
}

bool gw_api_query_with(struct gw_api_call *call, gw_api_filter_fn filter)
{
    return each_parameter(call, filter, refuse_parameter);
}

bool gw_api_paging(struct gw_api_call *call)
{
    return gw_api_paging_with(call, NULL);
}

bool gw_api_paging_id(struct gw_api_call *call)
{
    if (!gw_api_paging(call)) {
        return false;
    }
    return call->after.size == 0 || wire_device_parse(call->after, &call->after_id) == BASE_OK ||
           gw_api_fail(call, BASE_ERR_INVALID, "query: after is 16 lower-case hex digits");
}

static void release_text(void *ctx)
{
    free(ctx);
}

struct base_str gw_api_text_take(struct gw_api_call *call, json_t *root)
{
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;

    json_decref(root);
    if (text != NULL &&
        base_arena_on_done(gw_api_exchange(call)->arena, release_text, text) != BASE_OK) {
        free(text);
        text = NULL;
    }
    return base_str_of(text);
}

void gw_api_answer_take(struct gw_api_call *call, int status, json_t *root)
{
    struct gw_exchange *exchange = gw_api_exchange(call);
    struct base_str text = gw_api_text_take(call, root);

    if (text.size == 0) {
        gw_reply_busy(exchange, 1);
        return;
    }
    gw_reply_body(exchange, status, BASE_STR("application/json"), text.data, text.size);
}

void gw_api_page_take(struct gw_api_call *call, json_t *items, size_t expected, json_t *next)
{
    if (json_array_size(items) != expected) {
        json_decref(items);
        json_decref(next);
        gw_reply_busy(gw_api_exchange(call), 1);
        return;
    }
    gw_api_answer_take(
        call, 200,
        json_pack("{s:o, s:o}", "items", items, "next", next != NULL ? next : json_null()));
}

void gw_api_failed(struct gw_core *core, struct gw_api_call *call, enum base_status status,
                   const struct base_error *error, const char *what)
{
    const char *detail = what != NULL ? what : base_status_text(status);
    char both[BASE_ERROR_TEXT_MAX];

    if (error != NULL && error->text[0] != '\0') {
        detail = error->text;
    } else if (error != NULL && what != NULL && status != BASE_ERR_NOT_FOUND) {
        (void)snprintf(both, sizeof(both), "%s: %s", what, base_status_text(status));
        detail = both;
    }
    gw_reply_failure(gw_api_exchange(call), status, detail, gw_core_retry_after_s(core));
}

// Router of the operator API: path and query to a route, the trip to the control thread and back.
// Called by the core on the worker's thread.
#include "api/api.h"

#include "api/api_call.h"
#include "svc/reply.h"

#include <stdlib.h>
#include <string.h>

#define API_PREFIX BASE_STR("/api/v1/")

static bool ready(struct gw_api_call *call)
{
    return gw_api_no_query(call);
}

static const struct gw_api_route routes[] = {
    {GW_METHOD_PUT, "blobs/*", gw_api_blob_prepare, gw_api_blob_put, false},
    {GW_METHOD_POST, "tasks", gw_api_task_prepare, gw_api_task_create, false},
    {GW_METHOD_GET, "tasks", gw_api_paging_id, gw_api_task_list, false},
    {GW_METHOD_GET, "tasks/*", ready, gw_api_task_get, false},
    {GW_METHOD_POST, "tasks/*/versions", gw_api_version_prepare, gw_api_version_add, false},
    {GW_METHOD_GET, "tasks/*/versions", gw_api_version_page, gw_api_version_list, false},
    {GW_METHOD_GET, "tasks/*/versions/*", gw_api_version_path, gw_api_version_get, false},
    {GW_METHOD_POST, "rollouts", gw_api_rollout_prepare, gw_api_rollout_create, false},
    {GW_METHOD_POST, "rollouts/preview", gw_api_preview_prepare, gw_api_preview, true},
    {GW_METHOD_GET, "rollouts", gw_api_paging_id, gw_api_rollout_list, false},
    {GW_METHOD_GET, "rollouts/*", gw_api_path_id, gw_api_rollout_get, false},
    {GW_METHOD_GET, "rollouts/*/log", gw_api_log_prepare, gw_api_rollout_log, false},
    {GW_METHOD_POST, "rollouts/*/simulation", gw_api_simulation_prepare, gw_api_rollout_simulation,
     false},
    {GW_METHOD_POST, "rollouts/*/start", gw_api_command_prepare, gw_api_rollout_command, false},
    {GW_METHOD_POST, "rollouts/*/pause", gw_api_command_prepare, gw_api_rollout_command, false},
    {GW_METHOD_POST, "rollouts/*/resume", gw_api_command_prepare, gw_api_rollout_command, false},
    {GW_METHOD_POST, "rollouts/*/promote", gw_api_command_prepare, gw_api_rollout_command, false},
    {GW_METHOD_POST, "rollouts/*/abort", gw_api_command_prepare, gw_api_rollout_command, false},
    {GW_METHOD_POST, "rollouts/*/approve", gw_api_command_prepare, gw_api_rollout_command, false},
    {GW_METHOD_POST, "rollouts/*/undo", gw_api_command_prepare, gw_api_rollout_command, false},
    {GW_METHOD_POST, "rollouts/*/kill", gw_api_command_prepare, gw_api_rollout_command, false},
    {GW_METHOD_GET, "trust", gw_api_trust_prepare, gw_api_trust_get, false},
    {GW_METHOD_PUT, "trust/root", gw_api_trust_prepare, gw_api_root_put, false},
    {GW_METHOD_POST, "kills", gw_api_kill_prepare, gw_api_kill, false},
    {GW_METHOD_GET, "devices", gw_api_paging_id, gw_api_device_list, false},
    {GW_METHOD_GET, "devices/*", gw_api_path_id, gw_api_device_get, false},
    {GW_METHOD_GET, "devices/*/why", gw_api_why_prepare, gw_api_device_why, false},
};

void gw_api_install(struct gw_core *core)
{
    json_object_seed(0); // draws from the system; must happen before threads parse
    gw_core_set_api(core, gw_api_handle);
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
        gw_reply_method(gw_api_exchange(call), get && post ? "GET, POST"
                                               : get       ? "GET"
                                               : post      ? "POST"
                                                           : "PUT");
    }
    return NULL;
}

static void run_call(struct gw_core *core, struct gw_control_call *control)
{
    struct gw_api_call *call = (struct gw_api_call *)control;

    call->route->work(core, call);
}

static void finish_call(struct gw_worker *worker, struct gw_control_call *control)
{
    (void)worker;
    gw_exchange_finish(control->exchange);
}

static void handle_console(struct gw_exchange *exchange)
{
    if (exchange->request.method == GW_METHOD_GET || exchange->request.method == GW_METHOD_HEAD) {
        gw_api_console(exchange);
    } else {
        gw_reply_method(exchange, "GET, HEAD");
    }
    gw_exchange_finish(exchange);
}

// A page of another origin can make a browser send plain forms here, but not this type without
// asking first.
static bool type_fits(const struct gw_request *request)
{
    return request->method != GW_METHOD_POST ||
           base_str_starts(request->content_type, BASE_STR("application/json"));
}

// True when the call is on its way; otherwise the reply is filled.
static bool send_call(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct gw_api_call *call = base_arena_zalloc(exchange->arena, sizeof(*call));

    if (call == NULL) {
        gw_reply_busy(exchange, gw_core_retry_after_s(gw_worker_core(worker)));
        return false;
    }
    call->control.exchange = exchange;
    call->control.run = run_call;
    call->control.done = finish_call;
    call->limit = GW_API_PAGE_DEFAULT;
    if (!base_str_starts(exchange->request.path, API_PREFIX) ||
        !split_path(call, exchange->request.path)) {
        gw_reply_problem(exchange, 404, "no such resource; docs/API.md lists them");
        return false;
    }
    call->route = find_route(call, exchange->request.method);
    if (call->route != NULL && !type_fits(&exchange->request)) {
        gw_reply_problem(exchange, 415, "a POST has content-type: application/json");
        return false;
    }
    if (call->route == NULL || !call->route->prepare(call)) {
        return false;
    }
    enum base_status posted = call->route->background ? gw_background_post(worker, &call->control)
                                                      : gw_control_post(worker, &call->control);
    if (posted != BASE_OK) {
        gw_reply_busy(exchange, gw_core_retry_after_s(gw_worker_core(worker)));
        return false;
    }
    return true;
}

void gw_api_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    if (base_str_equal(exchange->request.path, BASE_STR("/"))) {
        handle_console(exchange);
    } else if (!send_call(worker, exchange)) {
        gw_exchange_finish(exchange);
    }
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

bool gw_api_no_query(struct gw_api_call *call)
{
    return gw_api_exchange(call)->request.query.size == 0 ||
           gw_api_fail(call, BASE_ERR_INVALID, "query: this resource takes no parameters");
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
    return gw_api_fail(call, BASE_ERR_INVALID, "query: the parameters are limit and after");
}

bool gw_api_paging(struct gw_api_call *call)
{
    struct base_str rest = gw_api_exchange(call)->request.query;

    while (rest.size > 0) {
        const char *next = memchr(rest.data, '&', rest.size);
        size_t size = next != NULL ? (size_t)(next - rest.data) : rest.size;
        const char *equals = memchr(rest.data, '=', size);
        size_t name = equals != NULL ? (size_t)(equals - rest.data) : size;
        size_t value = equals != NULL ? name + 1 : size;
        if (!take_parameter(call, (struct base_str){rest.data, name},
                            (struct base_str){rest.data + value, size - value})) {
            return false;
        }
        size_t used = next != NULL ? size + 1 : size;
        rest = (struct base_str){rest.data + used, rest.size - used};
    }
    return true;
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

static void reply_take(struct gw_exchange *exchange, int status, json_t *root)
{
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;

    json_decref(root);
    if (text != NULL && base_arena_on_done(exchange->arena, release_text, text) != BASE_OK) {
        free(text);
        text = NULL;
    }
    if (text == NULL) {
        gw_reply_busy(exchange, 1);
        return;
    }
    gw_reply_body(exchange, status, BASE_STR("application/json"), text, strlen(text));
}

void gw_api_answer_take(struct gw_api_call *call, int status, json_t *root)
{
    reply_take(gw_api_exchange(call), status, root);
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
    const char *detail = error != NULL && error->text[0] != '\0' ? error->text : what;

    gw_reply_failure(gw_api_exchange(call), status,
                     detail != NULL ? detail : base_status_text(status),
                     gw_core_retry_after_s(core));
}

// Routing of hawkBit's device API and what its resources do. Worker's thread, but for the look at
// the device's record on the control thread. The core calls it, where gateway_main.c installed it,
// for paths of that API; ddi_json.c and ddi_deployment.c make the answers. A request that needs a
// body is checked at its headers first. All requests carry one token, that of the gateway: which
// device speaks is a name in the path, so such devices are kept apart from those with a credential
// (foreign.c).
#include "ddi/ddi.h"

#include "base/hash.h"
#include "ddi/ddi_call.h"
#include "svc/reply.h"
#include "svc/rollout/device_views.h"

#include <string.h>

#define SEGMENTS_MAX     7u
#define DETAIL_CANCELLED "cancelled as asked"

// ---- Names

static bool is_tenant(struct base_str text)
{
    static const char name[] = "default";
    if (text.size != sizeof(name) - 1) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if ((text.data[i] | 0x20) != name[i]) {
            return false;
        }
    }
    return true;
}

static bool is_controller(struct base_str text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool alpha = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!alpha && memchr("._:-", c, 4) == NULL) {
            return false;
        }
    }
    return text.size > 0 && text.size <= GW_DDI_CONTROLLER_ID_MAX;
}

// The same client is the same device, whatever else has ids.
static uint64_t device_of(struct base_str controller)
{
    return base_hash64_seed(controller.data, controller.size, base_hash64("ddi/default", 11));
}

uint32_t ddi_action(uint64_t rollout_id, enum gw_foreign_kind kind)
{
    uint32_t action =
        (uint32_t)base_hash64_seed(&rollout_id, sizeof(rollout_id), (uint64_t)kind) & 0x7fffffffu;
    return action != 0 ? action : 1;
}

// ---- Resources, with the device's record at hand

static void fail(struct ddi_call *call, int status, const char *text)
{
    gw_reply_problem(ddi_exchange(call), status, "%s", text);
    gw_exchange_finish(ddi_exchange(call));
}

// The check-in; `attrs` NULL keeps what is known. False: the reply is finished.
static bool check_in(struct gw_worker *worker, struct ddi_call *call, struct wire_attrs *attrs)
{
    struct wire_attrs first = {.count = 1};
    first.items[0] = (struct wire_attr){
        .name = BASE_STR("controller_id"), .type = WIRE_ATTR_STRING, .text = call->controller};
    if (attrs == NULL && !call->known) {
        attrs = &first;
    }
    enum base_status status =
        gw_foreign_checkin(worker, ddi_exchange(call)->arena, &call->view, attrs, &call->want);
    if (status == BASE_OK) {
        return true;
    }
    const char *why = status == BASE_ERR_DENIED
                          ? "this device was revoked, or speaks for itself"
                          : "the attributes are more than 32, or longer than 512 bytes together";
    gw_reply_failure(ddi_exchange(call), status, why,
                     gw_core_retry_after_s(gw_worker_core(worker)));
    gw_exchange_finish(ddi_exchange(call));
    return false;
}

// A version was offered, nothing was heard, and it is not wanted any more.
static const struct gw_device_outcome *withdrawn(const struct ddi_call *call)
{
    for (uint32_t i = 0; i < call->view.outcome_count; i++) {
        const struct gw_device_outcome *outcome = &call->view.outcomes[i];
        if (gw_foreign_pending(outcome) && outcome->rollout_id != call->want.rollout_id) {
            return outcome;
        }
    }
    return NULL;
}

static void do_base(struct gw_worker *worker, struct ddi_call *call)
{
    if (!check_in(worker, call, NULL)) {
        return;
    }
    const struct gw_device_outcome *outcome = withdrawn(call);
    uint32_t cancel = outcome != NULL ? ddi_action(outcome->rollout_id, GW_FOREIGN_INSTALL) : 0;
    uint32_t interval_s = gw_core_checkin_interval_s(gw_worker_core(worker));
    ddi_reply_take(ddi_exchange(call), ddi_poll_json(call, cancel, interval_s));
    gw_exchange_finish(ddi_exchange(call));
}

static void do_config(struct gw_worker *worker, struct ddi_call *call)
{
    struct wire_attrs attrs = {.count = 0};
    if (!ddi_read_config(call, &attrs)) {
        gw_exchange_finish(ddi_exchange(call));
        return;
    }
    if (check_in(worker, call, &attrs)) {
        gw_reply_status(ddi_exchange(call), 200);
        gw_exchange_finish(ddi_exchange(call));
    }
}

static void do_deployment(struct gw_worker *worker, struct ddi_call *call)
{
    if (!check_in(worker, call, NULL)) {
        return;
    }
    if (call->want.kind == 0 ||
        ddi_action(call->want.rollout_id, call->want.kind) != call->action) {
        fail(call, 404, "no such action for this device, or no more");
        return;
    }
    ddi_deployment(worker, call);
}

static void do_cancel(struct gw_worker *worker, struct ddi_call *call)
{
    if (!check_in(worker, call, NULL)) {
        return;
    }
    const struct gw_device_outcome *outcome = withdrawn(call);
    if (outcome == NULL || ddi_action(outcome->rollout_id, GW_FOREIGN_INSTALL) != call->action) {
        fail(call, 404, "no such action for this device, or no more");
        return;
    }
    ddi_reply_take(ddi_exchange(call), ddi_cancel_json(call->action));
    gw_exchange_finish(ddi_exchange(call));
}

// ---- Feedback

// The rollout an action is of, by what the device went through or is to do now.
static bool find_action(const struct ddi_call *call, struct gw_foreign_want *out)
{
    static const enum gw_foreign_kind kinds[] = {GW_FOREIGN_INSTALL, GW_FOREIGN_BACK};
    if (call->want.kind != 0 &&
        ddi_action(call->want.rollout_id, call->want.kind) == call->action) {
        *out = call->want;
        return true;
    }
    for (uint32_t i = 0; i < call->view.outcome_count; i++) {
        const struct gw_device_outcome *outcome = &call->view.outcomes[i];
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            if (ddi_action(outcome->rollout_id, kinds[k]) == call->action) {
                *out = (struct gw_foreign_want){.kind = kinds[k],
                                                .rollout_id = outcome->rollout_id,
                                                .task_id = outcome->task_id,
                                                .version_id = outcome->version_id};
                return true;
            }
        }
    }
    return false;
}

static uint32_t install_outcomes(enum ddi_verdict verdict, enum wire_outcome_kind out[3])
{
    switch (verdict) {
    case DDI_SUCCESS:
        out[0] = WIRE_OUTCOME_DOWNLOADED;
        out[1] = WIRE_OUTCOME_ACTIVATED;
        out[2] = WIRE_OUTCOME_RAN;
        return 3;
    case DDI_DOWNLOADED:
        out[0] = WIRE_OUTCOME_DOWNLOADED;
        return 1;
    case DDI_FAILURE:
        out[0] = WIRE_OUTCOME_FAIL_LOAD;
        return 1;
    case DDI_REJECTED:
        out[0] = WIRE_OUTCOME_NOT_APPLICABLE;
        return 1;
    case DDI_GOING_ON:
        break;
    }
    return 0;
}

static void report(struct gw_worker *worker, struct ddi_call *call,
                   const struct gw_foreign_want *about, const struct ddi_feedback *feedback)
{
    enum wire_outcome_kind kinds[3] = {0};
    struct wire_outcome outcomes[4];
    uint32_t count = 0;
    bool cancelled = call->resource == DDI_CANCEL_FEEDBACK;
    bool back = about->kind == GW_FOREIGN_BACK;
    if (!cancelled && !back) {
        count = install_outcomes(feedback->verdict, kinds);
    } else if (feedback->verdict == DDI_SUCCESS) {
        kinds[0] = back ? WIRE_OUTCOME_ROLLED_BACK : WIRE_OUTCOME_REMOVED;
        count = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        outcomes[i] = (struct wire_outcome){
            .kind = kinds[i],
            .task_id = about->task_id,
            .version_id = about->version_id,
            .rollout_id = about->rollout_id,
            .fingerprint = wire_outcome_is_failure(kinds[i])
                               ? base_hash64(feedback->detail.data, feedback->detail.size)
                               : 0,
            .detail = cancelled ? BASE_STR(DETAIL_CANCELLED) : feedback->detail,
        };
    }
    if (back && count > 0 && about->to_rollout != 0) { // what it runs now
        outcomes[count++] = (struct wire_outcome){.kind = WIRE_OUTCOME_ACTIVATED,
                                                  .task_id = about->task_id,
                                                  .version_id = about->to_version,
                                                  .rollout_id = about->to_rollout};
    }
    gw_foreign_report(worker, ddi_exchange(call), &call->view, outcomes, count);
}

static void do_feedback(struct gw_worker *worker, struct ddi_call *call)
{
    struct ddi_feedback feedback = {0};
    struct gw_foreign_want about = {0};
    if (!ddi_read_feedback(call, &feedback)) {
        gw_exchange_finish(ddi_exchange(call));
        return;
    }
    if (!check_in(worker, call, NULL)) {
        return;
    }
    if (!find_action(call, &about)) {
        fail(call, 404, "no such action for this device");
        return;
    }
    report(worker, call, &about, &feedback);
}

// ---- The trip to the control thread

static void load_view(struct gw_core *core, struct gw_control_call *self)
{
    struct ddi_call *call = (struct ddi_call *)self;
    uint64_t device_id = call->view.device_id;
    call->known = gw_device_get(core, device_id, &call->view) == BASE_OK;
    if (!call->known) {
        memset(&call->view, 0, sizeof(call->view));
        call->view.device_id = device_id;
    }
}

static void view_done(struct gw_worker *worker, struct gw_control_call *self)
{
    struct ddi_call *call = (struct ddi_call *)self;
    switch (call->resource) {
    case DDI_BASE:
        do_base(worker, call);
        break;
    case DDI_CONFIG:
        do_config(worker, call);
        break;
    case DDI_DEPLOYMENT:
        do_deployment(worker, call);
        break;
    case DDI_CANCEL:
        do_cancel(worker, call);
        break;
    case DDI_DEPLOYMENT_FEEDBACK:
    case DDI_CANCEL_FEEDBACK:
        do_feedback(worker, call);
        break;
    }
}

// ---- Routing

static uint32_t split(struct base_str path, struct base_str out[SEGMENTS_MAX])
{
    uint32_t count = 0;
    size_t at = 0;
    while (at < path.size) {
        at += path.data[at] == '/' ? 1 : 0;
        size_t end = at;
        while (end < path.size && path.data[end] != '/') {
            end++;
        }
        if (count == SEGMENTS_MAX) {
            return 0;
        }
        out[count++] = (struct base_str){path.data + at, end - at};
        at = end;
    }
    return count;
}

struct route {
    struct base_str name; // behind the id; empty: the id itself
    bool action;
    bool feedback;
    enum gw_method method;
    enum ddi_resource resource;
};

#define NAME(text)                                                                                 \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }

static const struct route routes[] = {
    {NAME(""), false, false, GW_METHOD_GET, DDI_BASE},
    {NAME("configData"), false, false, GW_METHOD_PUT, DDI_CONFIG},
    {NAME("deploymentBase"), true, false, GW_METHOD_GET, DDI_DEPLOYMENT},
    {NAME("deploymentBase"), true, true, GW_METHOD_POST, DDI_DEPLOYMENT_FEEDBACK},
    {NAME("cancelAction"), true, false, GW_METHOD_GET, DDI_CANCEL},
    {NAME("cancelAction"), true, true, GW_METHOD_POST, DDI_CANCEL_FEEDBACK},
};

// NULL: no such resource. `parts` are the path's segments.
static const struct route *find_route(const struct base_str *parts, uint32_t count)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        const struct route *route = &routes[i];
        uint32_t wanted = 4;
        wanted += route->name.size > 0;
        wanted += route->action;
        wanted += route->feedback;
        bool named = route->name.size == 0 || (count > 4 && base_str_equal(parts[4], route->name));
        bool ends =
            !route->feedback || (count > 6 && base_str_equal(parts[6], BASE_STR("feedback")));
        if (count == wanted && named && ends) {
            return route;
        }
    }
    return NULL;
}

static bool is_allowed(const struct gw_worker *worker, const struct gw_request *request)
{
    struct base_str prefix = BASE_STR("GatewayToken ");
    struct base_str given = request->authorization;
    if (!base_str_starts(given, prefix)) {
        return false;
    }
    given = (struct base_str){given.data + prefix.size, given.size - prefix.size};
    return gw_same_secret(given, gw_worker_ddi_token(worker));
}

static bool refuse(struct gw_exchange *exchange, int status, const char *text)
{
    gw_reply_problem(exchange, status, "%s", text);
    return false;
}

struct target {
    struct base_str parts[SEGMENTS_MAX];
    const struct route *route;
    uint64_t action;
};

// Who asks, and for what: all that needs no body. False: the reply says what is wrong.
static bool check(struct gw_worker *worker, struct gw_exchange *exchange, struct target *out)
{
    const struct gw_request *request = &exchange->request;
    uint32_t count = split(request->path, out->parts);
    out->route = find_route(out->parts, count);
    if (!is_allowed(worker, request)) {
        return refuse(exchange, 401, "authorization: GatewayToken missing or wrong");
    }
    if (out->route == NULL || !is_tenant(out->parts[0])) {
        return refuse(exchange, 404, "no such resource of the device API, or no such tenant");
    }
    if (request->method != out->route->method) {
        gw_reply_method(exchange, out->route->method == GW_METHOD_GET   ? "GET"
                                  : out->route->method == GW_METHOD_PUT ? "PUT"
                                                                        : "POST");
        return false;
    }
    if (!is_controller(out->parts[3]) ||
        (out->route->action &&
         (base_str_u64(out->parts[5], &out->action) != BASE_OK || out->action > INT32_MAX))) {
        return refuse(exchange, 400,
                      "path: an id has 1 to 64 of A-Z a-z 0-9 . _ : -, an action is a number");
    }
    return true;
}

static bool look_at_head(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct target target = {0};
    return check(worker, exchange, &target);
}

void gw_ddi_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct target target = {0};
    if (!check(worker, exchange, &target)) {
        gw_exchange_finish(exchange);
        return;
    }
    struct ddi_call *call = base_arena_zalloc(exchange->arena, sizeof(*call));
    if (call != NULL) {
        call->control.exchange = exchange;
        call->control.run = load_view;
        call->control.done = view_done;
        call->resource = target.route->resource;
        call->tenant = target.parts[0];
        call->controller = target.parts[3];
        call->action = (uint32_t)target.action;
        call->view.device_id = device_of(target.parts[3]);
    }
    if (call == NULL || gw_control_post(worker, &call->control) != BASE_OK) {
        gw_reply_busy(exchange, gw_core_retry_after_s(gw_worker_core(worker)));
        gw_exchange_finish(exchange);
    }
}

void gw_ddi_install(struct gw_core *core)
{
    gw_core_set_ddi(core, gw_ddi_handle, look_at_head);
}

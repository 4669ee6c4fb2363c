// Loading and unloading on an operator's word. A request goes from its worker to the control thread
// and back, which says whether the audit log can be written (else nothing is changed); to the
// background thread, since loading reads files; and to the control thread again for the entry. The
// protocols (rest/infer_http.c, grpc/infer_grpc.c) call this.
#include "infer/infer_change.h"

#include "infer/infer_settings.h"
#include "svc/access/audit.h"
#include "svc/access/operators.h"
#include "svc/control.h"
#include "svc/reply.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TIME_TEXT_MAX  40u
#define TEXT_SHOWN_MAX 1024u // of a path, a name or an error, in an entry

// In the exchange's arena.
struct change {
    struct gw_control_call control; // first
    const struct gw_infer_change_protocol *protocol;
    struct gw_infer_change_wish wish;
    struct gw_actor actor;
    uint64_t request_id;
    bool was_loaded;
    bool is_loaded;
    struct base_error error;
    enum base_status status;
};
_Static_assert(offsetof(struct change, control) == 0, "the control calls cast");

static void finish(struct change *change)
{
    struct gw_exchange *exchange = change->control.exchange;
    change->protocol->reply(exchange, change->status, change->error.text);
    gw_exchange_finish(exchange);
}

// ---- The entry

// Text from outside: what is not UTF-8 is told by its length alone.
static json_t *text_or_size(struct base_str text)
{
    size_t size = text.size < TEXT_SHOWN_MAX ? text.size : TEXT_SHOWN_MAX;
    json_t *value = json_stringn(text.data != NULL ? text.data : "", size);
    return value != NULL ? value : json_integer((json_int_t)text.size);
}

static json_t *time_now(struct gw_core *core)
{
    char text[TIME_TEXT_MAX] = "";
    uint64_t now_us = gw_core_time_us(core);
    time_t seconds = (time_t)(now_us / 1000000);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) != NULL) {
        size_t size = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
        (void)snprintf(text + size, sizeof(text) - size, ".%03uZ",
                       (unsigned)(now_us / 1000 % 1000));
    }
    return json_string(text);
}

static json_t *state_of(const struct change *change, bool loaded)
{
    return json_pack("{s:o, s:b}", "model", text_or_size(change->wish.model), "loaded", loaded);
}

static json_t *token_of(const struct gw_actor *actor)
{
    char hex[17];
    (void)snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)actor->token_id);
    return actor->token_id != 0 ? json_string(hex) : json_null();
}

static const char *outcome_of(enum base_status status)
{
    return status == BASE_OK                                           ? "done"
           : status == BASE_ERR_DENIED || base_status_is_input(status) ? "refused"
                                                                       : "failed";
}

// To free(); NULL: no memory. The members of the operator API's entries.
static char *entry_text(struct gw_core *core, const struct change *change)
{
    const struct gw_actor *actor = &change->actor;
    const bool done = change->status == BASE_OK;
    char request[17];
    char tenant[GW_TENANT_NAME_MAX + 1];
    gw_tenant_name(core, actor->tenant, tenant);
    (void)snprintf(request, sizeof(request), "%016llx", (unsigned long long)change->request_id);
    json_t *entry = json_pack(
        "{s:o, s:s, s:{s:o, s:s, s:s}, s:s, s:s, s:o, s:s, s:i, s:o, s:o, s:o, s:o}", "time",
        time_now(core), "request", request, "actor", "token", token_of(actor), "name", actor->name,
        "role", gw_role_name(actor->role), "tenant", tenant, "method", "POST", "path",
        text_or_size(change->control.exchange->request.path), "outcome", outcome_of(change->status),
        "status", change->protocol->code(change->status), "detail",
        done ? json_null() : text_or_size(base_str_of(change->error.text)), "reason",
        change->wish.reason.size > 0 ? text_or_size(change->wish.reason) : json_null(), "before",
        state_of(change, change->was_loaded), "after",
        done ? state_of(change, change->is_loaded) : json_null());
    char *text = entry != NULL ? json_dumps(entry, JSON_COMPACT) : NULL;
    json_decref(entry);
    return text;
}

static void note_run(struct gw_core *core, struct gw_control_call *self)
{
    struct change *change = (struct change *)self;
    char *text = entry_text(core, change);
    gw_audit_end(core, change->actor.tenant, base_str_of(text != NULL ? text : "{}"), NULL);
    free(text);
}

static void note_done(struct gw_worker *worker, struct gw_control_call *self)
{
    (void)worker;
    finish((struct change *)self);
}

// The last step, however it ended.
static void note(struct gw_worker *worker, struct change *change)
{
    const struct base_log *log = gw_core_log(gw_worker_core(worker));
    const struct gw_infer_change_wish *wish = &change->wish;
    char model[GW_INFER_MODEL_NAME_MAX + 1];
    char by[2 * GW_TOKEN_NAME_MAX + 1];
    char of[2 * sizeof(model)];
    char why[2 * BASE_ERROR_TEXT_MAX];
    size_t size = wish->model.size < sizeof(model) ? wish->model.size : sizeof(model);
    (void)snprintf(model, sizeof(model), "%.*s", (int)size, wish->model.data);
    base_log_info(log, "infer", "actor=\"%s\" %s model=\"%s\" outcome=%s detail=\"%s\"",
                  base_log_quoted(change->actor.name, by, sizeof(by)),
                  wish->verb != NULL ? wish->verb
                  : wish->load       ? "load"
                                     : "unload",
                  base_log_quoted(model, of, sizeof(of)), outcome_of(change->status),
                  base_log_quoted(change->error.text, why, sizeof(why)));
    change->control.run = note_run;
    change->control.done = note_done;
    if (gw_control_post(worker, &change->control) != BASE_OK) {
        base_log_error(log, "infer", "the audit log was not told of it: too many wait");
        finish(change);
    }
}

// ---- The work, on the background thread

static void work_run(struct gw_core *core, struct gw_control_call *self)
{
    struct change *change = (struct change *)self;
    const struct gw_infer_change_wish *wish = &change->wish;
    (void)core;
    change->was_loaded = gw_infer_model_ready(wish->service, wish->model, BASE_STR(""));
    change->status = wish->work != NULL ? wish->work(wish, change->actor.name, &change->error)
                     : wish->load       ? gw_infer_load(wish->service, wish->model, &change->error)
                                  : gw_infer_unload(wish->service, wish->model, &change->error);
    change->is_loaded = gw_infer_model_ready(wish->service, wish->model, BASE_STR(""));
}

static void work_done(struct gw_worker *worker, struct gw_control_call *self)
{
    note(worker, (struct change *)self);
}

// ---- Is the audit log there? On the control thread

static void may_run(struct gw_core *core, struct gw_control_call *self)
{
    struct change *change = (struct change *)self;
    const struct gw_audit_open open = {.tenant = change->actor.tenant, .text = BASE_STR("{}")};
    change->status = gw_audit_begin(core, &open);
    if (change->status == BASE_OK) {
        gw_audit_cancel(core);
    }
}

static void fail_busy(struct change *change)
{
    change->status = base_error_set(&change->error, BASE_ERR_BUSY, "busy, try again later");
    finish(change);
}

static void may_done(struct gw_worker *worker, struct gw_control_call *self)
{
    struct change *change = (struct change *)self;
    change->control.run = work_run;
    change->control.done = work_done;
    if (change->status != BASE_OK) {
        (void)base_error_set(&change->error, change->status,
                             "the audit log cannot be written: nothing was changed");
        finish(change);
    } else if (gw_background_post(worker, &change->control) != BASE_OK) {
        fail_busy(change);
    }
}

void gw_infer_change(struct gw_worker *worker, struct gw_exchange *exchange,
                     const struct gw_infer_change_wish *wish,
                     const struct gw_infer_change_protocol *protocol)
{
    struct gw_core *core = gw_worker_core(worker);
    struct gw_actor actor = {0};
    if (!gw_access_check(core, exchange, &actor)) {
        gw_exchange_finish(exchange);
        return;
    }
    struct change *change = base_arena_zalloc(exchange->arena, sizeof(*change));
    if (change == NULL) {
        protocol->reply(exchange, BASE_ERR_NOMEM, "out of memory");
        gw_exchange_finish(exchange);
        return;
    }
    change->control.exchange = exchange;
    change->control.run = may_run;
    change->control.done = may_done;
    change->protocol = protocol;
    change->wish = *wish;
    change->actor = actor;
    change->request_id = gw_core_request_id(core);
    if (actor.role < GW_ROLE_RELEASER || !actor.every_tenant) {
        change->status = base_error_set(&change->error, BASE_ERR_DENIED,
                                        "needs the token of a releaser of all tenants");
        change->was_loaded = gw_infer_model_ready(wish->service, wish->model, BASE_STR(""));
        note(worker, change);
    } else if (gw_control_post(worker, &change->control) != BASE_OK) {
        fail_busy(change);
    }
}

// Handlers of tokens, tenants and devices' credentials. `prepare` on the worker, the rest on the
// control thread. The table in api.c names them; the work itself is the core's (operators.c,
// devices' credentials beside it). A secret is shown once, in the answer that makes it, and what
// api.c keeps of that answer for a repeated request leaves it out. Also here: whoami and the
// document of the API itself.
#include "api/api_call.h"
#include "api/api_views.h"
#include "api/openapi_text.h"

#include "svc/access/console_login.h"
#include "svc/access/credentials.h"
#include "svc/reply.h"

#include <string.h>

#define EXPIRES_S_MAX (10u * 365 * 86400)

// ---- Tokens

static enum base_status parse_scopes(const struct gw_json_at *root, struct gw_token_view *out,
                                     struct base_error *error)
{
    const json_t *list = NULL;
    size_t index;
    json_t *item;

    BASE_TRY(gw_json_array(root, gw_json_optional("scopes", GW_TOKEN_SCOPES_MAX), &list, error));
    json_array_foreach((json_t *)(uintptr_t)list, index, item)
    {
        struct base_str scope = {json_string_value(item), json_string_length(item)};
        if (!json_is_string(item) || !gw_scope_ok(scope)) {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "scopes[%zu]: a scenario, or its beginning and '*'", index);
        }
        memcpy(out->scopes[index], scope.data, scope.size);
    }
    out->scope_count = (uint32_t)json_array_size(list);
    return BASE_OK;
}

// ASCII, so that no two names look the same that are not. INVALID.
static enum base_status parse_name(const struct gw_json_at *root, const char *key, bool required,
                                   char out[GW_TOKEN_NAME_MAX + 1], struct base_error *error)
{
    struct pol_field field = {key, .required = required, .max = GW_TOKEN_NAME_MAX};
    struct base_str name = {NULL, 0};

    BASE_TRY(gw_json_text(root, field, &name, error));
    bool seen = false; // something but blanks
    for (size_t i = 0; i < name.size; ++i) {
        seen = seen || name.data[i] != ' ';
        if (name.data[i] < ' ' || name.data[i] > '~') {
            seen = false;
            break;
        }
    }
    if (!seen && (required || name.data != NULL)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: 1 to %u printable ASCII characters",
                              key, GW_TOKEN_NAME_MAX);
    }
    if (name.size > 0) {
        memcpy(out, name.data, name.size);
    }
    return BASE_OK;
}

static enum base_status parse_token(struct gw_api_call *call, const struct gw_json_at *root,
                                    struct base_error *error)
{
    static const char *const names[] = {"name",   "owner",        "role",     "tenant",
                                        "scopes", "expires_in_s", "uses_max", NULL};
    struct gw_token_view *wish = &call->token;
    struct base_str role = {NULL, 0};
    struct base_str tenant = {NULL, 0};
    uint64_t uses = 0;

    BASE_TRY(gw_json_only(root, names, error));
    BASE_TRY(parse_name(root, "name", true, wish->name, error));
    BASE_TRY(parse_name(root, "owner", false, wish->owner, error));
    BASE_TRY(gw_json_text(root, gw_json_required("role", GW_TOKEN_NAME_MAX), &role, error));
    BASE_TRY(gw_json_text(root, gw_json_optional("tenant", GW_TENANT_NAME_MAX), &tenant, error));
    BASE_TRY(gw_json_u64(root, gw_json_optional("expires_in_s", EXPIRES_S_MAX), &wish->expires_s,
                         error));
    if (gw_api_in_session(call) &&
        (wish->expires_s == 0 || wish->expires_s > GW_LOGIN_TOKEN_S_MAX)) {
        return base_error_set(
            error, BASE_ERR_INVALID,
            "expires_in_s: a token that a session of the console makes needs one, "
            "at most %u",
            GW_LOGIN_TOKEN_S_MAX);
    }
    BASE_TRY(gw_json_u64(root, gw_json_optional("uses_max", UINT32_MAX), &uses, error));
    BASE_TRY(parse_scopes(root, wish, error));
    wish->role = gw_role_of(role);
    wish->uses_max = (uint32_t)uses;
    if (wish->role == GW_ROLE_COUNT) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "role: enrol, viewer, releaser, approver or admin");
    }
    if (wish->role != GW_ROLE_ENROL && uses > 0) {
        return base_error_set(error, BASE_ERR_INVALID, "uses_max: only enrolment tokens take it");
    }
    if (wish->role == GW_ROLE_ENROL && wish->scope_count > 0) {
        return base_error_set(error, BASE_ERR_INVALID, "scopes: enrolment tokens take none");
    }
    wish->tenant = call->actor.tenant;
    if (base_str_equal(tenant, BASE_STR("*"))) {
        wish->tenant = GW_TENANT_EVERY;
    } else if (tenant.size > 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "tenant: '*' or nothing; the header walle-tenant names one");
    }
    return BASE_OK;
}

bool gw_api_token_prepare(struct gw_api_call *call)
{
    const struct gw_exchange *exchange = gw_api_exchange(call);
    struct base_error error = {0};
    struct gw_json_at root;
    enum base_status status = gw_json_parse(exchange->request.body, exchange->request.body_bytes,
                                            exchange->arena, &root, &error);

    if (status == BASE_OK) {
        status = parse_token(call, &root, &error);
    }
    return status == BASE_OK ? gw_api_no_query(call) : gw_api_fail(call, status, error.text);
}

// Nobody gives away more than they have.
static const char *too_much(const struct gw_actor *actor, const struct gw_token_view *wish)
{
    if (wish->tenant == GW_TENANT_EVERY && !actor->every_tenant) {
        return "tenant: '*' is for an operator of all tenants to give";
    }
    if (wish->tenant == GW_TENANT_EVERY && wish->role == GW_ROLE_ENROL) {
        return "tenant: devices belong to one";
    }
    if (actor->scope_count > 0 && wish->role == GW_ROLE_ENROL) {
        return "role: devices are of no single scenario: to let them enrol needs a token without "
               "scopes";
    }
    if (actor->scope_count > 0 && wish->scope_count == 0) {
        return "scopes: the token has some, so a new one needs some of them";
    }
    if (!gw_actor_holds(actor, wish)) {
        return "scopes: outside the scenarios of the token";
    }
    return NULL;
}

void gw_api_token_create(struct gw_core *core, struct gw_api_call *call)
{
    char secret[GW_SECRET_TEXT_BYTES + 1];
    struct base_error error = {0};
    struct gw_token_view view;
    const char *problem = too_much(&call->actor, &call->token);

    if (problem != NULL) {
        gw_reply_problem(gw_api_exchange(call), 403, "%s", problem);
        return;
    }
    if (call->token.expires_s > 0) {
        call->token.expires_s += gw_core_time_us(core) / 1000000;
    }
    call->token.created_by = call->actor.token_id;
    enum base_status status = gw_token_create(core, &call->token, &view, secret, &error);
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "token");
        return;
    }
    call->id = view.id; // for the audit log
    // Whoever repeats the request learns which token it was, but the secret is kept nowhere.
    call->keep = gw_api_text_take(call, gw_view_token(core, &view));
    json_t *root = gw_view_token(core, &view);
    if (json_object_set_new(root, "secret", json_string(secret)) != 0) {
        json_decref(root);
        root = NULL;
    }
    memset(secret, 0, sizeof(secret));
    gw_api_answer_take(call, 201, root);
    gw_reply_header(&gw_api_exchange(call)->reply, BASE_STR("cache-control"), BASE_STR("no-store"));
    gw_api_etag(call, view.revision);
}

void gw_api_token_get(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_token_view view;
    enum base_status status = gw_token_get(core, &call->actor, call->id, &view);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, NULL, "no such token");
        return;
    }
    gw_api_answer_take(call, 200, gw_view_token(core, &view));
    gw_api_etag(call, view.revision);
}

void gw_api_token_revoke(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_token_view view;
    struct base_error error = {0};
    enum base_status status = gw_token_revoke(core, &call->actor, call->id, &view, &error);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "token");
        return;
    }
    gw_api_answer_take(call, 200, gw_view_token(core, &view));
    gw_api_etag(call, view.revision);
}

void gw_api_token_list(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_token_view views[GW_API_VIEWS_BATCH];
    json_t *items = json_array();
    uint64_t after = call->after_id;
    uint32_t left = call->limit;
    bool more = true;

    while (left > 0 && more) {
        struct gw_page page = {.limit = left < GW_API_VIEWS_BATCH ? left : GW_API_VIEWS_BATCH};
        gw_token_list(core, &call->actor, after, views, &page);
        for (uint32_t i = 0; i < page.count; ++i) {
            (void)json_array_append_new(items, gw_view_token(core, &views[i]));
            after = views[i].id;
        }
        more = page.more;
        if (page.count == 0) {
            break;
        }
        left -= page.count;
    }
    gw_api_page_take(call, items, call->limit - left, more ? gw_json_hex(after) : NULL);
}

// ---- Tenants

bool gw_api_tenant_prepare(struct gw_api_call *call)
{
    static const char *const names[] = {"name", NULL};
    struct base_error error = {0};
    struct gw_json_at root;
    enum base_status status = gw_api_body(call, names, &root, &error);

    if (status == BASE_OK) {
        status =
            gw_json_text(&root, gw_json_required("name", GW_TENANT_NAME_MAX), &call->text, &error);
    }
    return status == BASE_OK ? gw_api_no_query(call) : gw_api_fail(call, status, error.text);
}

static json_t *view_tenant(const struct gw_tenant *tenant)
{
    return json_pack("{s:s, s:i, s:I}", "name", tenant->name, "id", (int)tenant->id, "created_s",
                     (json_int_t)tenant->created_s);
}

void gw_api_tenant_create(struct gw_core *core, struct gw_api_call *call)
{
    struct base_error error = {0};
    struct gw_tenant tenant;
    bool created = false;
    enum base_status status = gw_tenant_create(core, call->text, &tenant, &created, &error);

    if (status != BASE_OK) {
        gw_api_failed(core, call, status, &error, "tenant");
        return;
    }
    gw_api_answer_take(call, created ? 201 : 200, view_tenant(&tenant));
}

// All of them for an operator of all, which are few; its own for any other.
void gw_api_tenant_list(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_tenant tenants[GW_API_VIEWS_BATCH];
    json_t *items = json_array();
    int32_t after = call->actor.every_tenant ? -1 : (int32_t)call->actor.tenant - 1;
    size_t expected = 0;
    bool more = true;

    while (more) {
        struct gw_page page = {.limit = call->actor.every_tenant ? GW_API_VIEWS_BATCH : 1};
        gw_tenant_list(core, after, tenants, &page);
        for (uint32_t i = 0; i < page.count; ++i) {
            (void)json_array_append_new(items, view_tenant(&tenants[i]));
            after = tenants[i].id;
        }
        expected += page.count;
        more = page.more && call->actor.every_tenant;
    }
    gw_api_page_take(call, items, expected, NULL);
}

void gw_api_whoami(struct gw_core *core, struct gw_api_call *call)
{
    const struct gw_actor *actor = &call->actor;
    char tenant[GW_TENANT_NAME_MAX + 1];
    json_t *scopes = json_array();

    for (uint32_t i = 0; i < actor->scope_count; ++i) {
        (void)json_array_append_new(scopes, json_string(actor->scopes[i]));
    }
    gw_tenant_name(core, actor->tenant, tenant);
    gw_api_answer_take(call, 200,
                       json_pack("{s:s, s:s, s:s, s:s, s:b, s:o, s:o}", "name", actor->name,
                                 "person", actor->person, "role", gw_role_name(actor->role),
                                 "tenant", tenant, "every_tenant", (int)actor->every_tenant,
                                 "token",
                                 actor->token_id != 0 ? gw_json_hex(actor->token_id) : json_null(),
                                 "scopes", scopes));
}

// ---- Devices' credentials

static void answer_credential(struct gw_core *core, struct gw_api_call *call,
                              enum base_status status, const struct gw_credential *credential)
{
    if (status != BASE_OK) {
        gw_api_failed(core, call, status, NULL, "the change could not be stored");
        return;
    }
    gw_api_answer_take(call, 200,
                       json_pack("{s:o, s:s, s:I, s:I}", "id", gw_json_hex(call->id), "credential",
                                 gw_credential_state_name(credential->state), "enrolled_s",
                                 (json_int_t)credential->enrolled_s, "changed_s",
                                 (json_int_t)credential->changed_s));
}

void gw_api_device_revoke(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_credential credential = {0};

    answer_credential(core, call, gw_device_revoke(core, call->id, &credential), &credential);
}

void gw_api_device_reset(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_credential credential = {0};
    enum base_status status = gw_credential_get(core, call->id, &credential);

    if (status == BASE_ERR_NOT_FOUND) {
        gw_api_failed(core, call, status, NULL, "the device was never enrolled");
        return;
    }
    answer_credential(core, call, gw_device_forget(core, call->id, &credential), &credential);
}

// ---- Description of the API

void gw_api_openapi(struct gw_core *core, struct gw_api_call *call)
{
    (void)core;
    gw_reply_body(gw_api_exchange(call), 200, BASE_STR("application/json"), gw_openapi_text,
                  gw_openapi_text_bytes);
}
